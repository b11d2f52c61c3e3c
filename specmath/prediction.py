"""What is predicted: numbers with what the unknown leaves of them, and everything over γ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specmath import hardware
from specmath.checks import FloatArray
from specmath.halves import Halves
from specmath.scenario import SPECS, Scenario
from specmath.serving.of_scenario import off_by

__all__ = ["NO_ERROR_BAR", "PLANNED", "Curve", "Estimate", "Prediction"]

_ASSUMABLE: dict[bool, tuple[str, ...]] = {
    False: ("sigma", "overhead", "c_hat", "batch", "tensor_parallel", "usd_per_hour"),
    True: ("batch", "tensor_parallel", "context_tokens"),
}
"""Fields whose default is an assumption, without and with the step-time model."""

NO_ERROR_BAR = "no error bar yet"
PLANNED = "no error bar: α is a planning value, not measured"


@dataclass(frozen=True)
class Estimate:
    """A predicted number with the interval that the unknown inputs leave, or none yet."""

    value: float
    low: float | None = None
    high: float | None = None
    basis: str = NO_ERROR_BAR


@dataclass(frozen=True)
class Curve:
    """Everything over γ = 0 … the largest considered; arrays of one shape."""

    gamma: np.ndarray
    tokens_per_step: FloatArray
    verify_cost: FloatArray
    draft_cost: FloatArray
    step_cost: FloatArray
    walltime_improvement: FloatArray
    operations_increase: FloatArray
    low: FloatArray | None
    high: FloatArray | None


@dataclass(frozen=True)
class Prediction:
    """What speculation does to one endpoint. Times in seconds, None where unknown.

    `alpha` is that of the steps with a draft. `best_gamma` is the fastest γ up to the scenario's
    `max_gamma`; `recommended_gamma` the smallest within 2% of it, 0 only where no γ ≥ 1 is faster
    than plain decoding; `optimal_gamma` and `crossover_gamma` search up to γ = 10,000, but no
    further than the step cost is known. `plain_error` is |computed / true − 1| taken for the
    plain step, 0 where it was given: `tpot` and `usd` carry it, ratios to plain decoding do not.
    """

    scenario: Scenario
    halves: Halves
    alpha: float
    speedup: Estimate
    operations: Estimate
    tokens_per_step: float
    step_cost: float
    curve: Curve
    best_gamma: int
    recommended_gamma: int
    optimal_gamma: int
    crossover_gamma: int
    plain_error: float
    tpot_plain: float | None
    tpot: Estimate | None
    usd_plain: float | None
    usd: Estimate | None
    notes: tuple[str, ...]

    @property
    def assumed(self) -> tuple[str, ...]:
        """The fields that count and that nobody gave: at their default, in words."""
        s, fields = self.scenario, Scenario.model_fields
        names = set(_ASSUMABLE[s.draft_form == "hardware"])
        if s.verify_form == "curve":
            names.discard("sigma")
        found = [n for n in fields if n in names and getattr(s, n) == fields[n].default]
        words = [f"{SPECS[n].label} {getattr(s, n):g} {SPECS[n].unit}".rstrip() for n in found]
        if self.halves.coverage < 1 and s.coverage is None:
            words.append(f"{SPECS['coverage'].label} {self.halves.coverage:g}")
        if s.draft_form == "hardware" and s.usd_per_hour == hardware.find(str(s.gpu)).usd_per_hour:
            words.append(
                f"{SPECS['usd_per_hour'].label} {s.usd_per_hour:g} USD, taken for this GPU"
            )
        return tuple(words)

    @property
    def walltime_improvement(self) -> float:
        """The speedup at the scenario's γ, τ/s."""
        return self.speedup.value

    @property
    def gpu_ratio(self) -> float:
        """GPUs of a replica with the draft's own over those without."""
        s = self.scenario
        return (s.tensor_parallel + s.draft_gpus) / s.tensor_parallel

    def of_plain(self, value: float) -> Estimate:
        """A number proportional to the plain step, with what its error leaves."""
        if not self.plain_error:
            return Estimate(value)
        low, high = off_by(value, value, self.plain_error)
        return Estimate(value, low, high, f"plain step ±{self.plain_error:.0%}")

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name, for JSON; milliseconds and dollars as a person reads them."""
        cost, gamma = self.halves.cost, self.scenario.gamma
        plain = None if self.tpot_plain is None else self.tpot_plain * 1e3
        return {
            "alpha": self.alpha,
            "gamma": gamma,
            "c": cost.c,
            "c_hat": cost.c_hat,
            "sigma": cost.sigma_at(gamma),
            "tokens_per_step": self.tokens_per_step,
            "verify_cost": float(cost.verify(gamma)),
            "step_cost": self.step_cost,
            **_named("walltime_improvement", self.speedup),
            "error_bar": self.speedup.basis,
            "operations_increase": self.operations.value,
            "best_gamma": self.best_gamma,
            "recommended_gamma": self.recommended_gamma,
            "optimal_gamma": self.optimal_gamma,
            "crossover_gamma": self.crossover_gamma,
            "plain_error": self.plain_error,
            "tpot_plain_ms": plain,
            **_named("tpot_ms", self.tpot, 1e3),
            "usd_per_million_tokens_plain": self.usd_plain,
            **_named("usd_per_million_tokens", self.usd),
            "assumed": list(self.assumed),
            "notes": list(self.notes),
        }


def _named(name: str, estimate: Estimate | None, scale: float = 1.0) -> dict[str, float | None]:
    """The value under its name and its ends beside it, None where unknown."""
    ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
    names = (name, f"{name}_low", f"{name}_high")
    return {n: None if v is None else v * scale for n, v in zip(names, ends, strict=True)}
