"""specmath: what speculative decoding will do to your latency and your bill.

A public name is loaded with its module when it is first asked for: `import specmath` alone, and
the help of the command line, load neither numpy nor the rest.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specmath.acceptance import (
        Acceptance,
        IidAcceptance,
        MixtureAcceptance,
        PerPositionAcceptance,
    )
    from specmath.checks import InputError
    from specmath.gamma import breakeven_alpha, crossover_gamma, optimal_gamma
    from specmath.predict import Prediction, predict
    from specmath.scenario import EXAMPLE, Scenario
    from specmath.stepcost import LinearStepCost
    from specmath.theorems import (
        alpha_from_accepted_share,
        alpha_from_tokens_per_step,
        expected_tokens,
        implied_draft_cost,
        operations_increase,
        walltime_improvement,
    )
    from specmath.words.verdict import Verdict, verdict

__version__ = "0.1.0"

__all__ = [
    "EXAMPLE",
    "Acceptance",
    "IidAcceptance",
    "InputError",
    "LinearStepCost",
    "MixtureAcceptance",
    "PerPositionAcceptance",
    "Prediction",
    "Scenario",
    "Verdict",
    "alpha_from_accepted_share",
    "alpha_from_tokens_per_step",
    "breakeven_alpha",
    "crossover_gamma",
    "expected_tokens",
    "implied_draft_cost",
    "operations_increase",
    "optimal_gamma",
    "predict",
    "verdict",
    "walltime_improvement",
]

_NAMES = {
    "acceptance": ("Acceptance", "IidAcceptance", "MixtureAcceptance", "PerPositionAcceptance"),
    "checks": ("InputError",),
    "gamma": ("breakeven_alpha", "crossover_gamma", "optimal_gamma"),
    "predict": ("Prediction", "predict"),
    "scenario": ("EXAMPLE", "Scenario"),
    "stepcost": ("LinearStepCost",),
    "theorems": (
        "alpha_from_accepted_share", "alpha_from_tokens_per_step", "expected_tokens",
        "implied_draft_cost", "operations_increase", "walltime_improvement",
    ),
    "words.verdict": ("Verdict", "verdict"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


class _Package(ModuleType):
    def __getattr__(self, name: str) -> Any:
        """A public name, or a module of the package (`specmath.steptime`), loaded when asked for.

        Raises AttributeError where there is neither.
        """
        path = f"{__name__}.{_MODULE_OF.get(name, name)}"
        if name.startswith("_") or find_spec(path) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(path)
        value = getattr(module, name) if name in _MODULE_OF else module
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """`specmath.predict` stays the function when the module of that name is imported."""
        if name in _MODULE_OF and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
