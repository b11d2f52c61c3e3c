"""The same half of a scenario said in another form, for a person who switches forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from specmath.halves import step_cost_of
from specmath.predict import effective_alpha
from specmath.scenario import Scenario
from specmath.scenario.acceptances import given_acceptance
from specmath.scenario.forms import CITED_RANGES

__all__ = ["said_as"]


def said_as(scenario: Scenario, half: str, form: str) -> dict[str, Any]:
    """The fields that say in `form` of `half` what the scenario says, rounded for a widget.

    `half` is "acceptance_form", "draft_form" or "verify_form". A single number cannot carry
    a shape: it keeps the tokens per step, or v, at the scenario's γ. What cannot be said is None,
    to be filled in.
    """
    return _CONVERT[half, form](scenario)


EXAMPLE_PAIR = {"gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "Llama-3.2-1B"}
"""Where the choice of hardware starts: a pair to be replaced."""


CURVE_SHOWN = 8
"""How far a slope is written out as a curve to be replaced: usual γ end there."""


def _tokens(s: Scenario) -> tuple[float, int]:
    """Tokens per step and the γ they are said at: the scenario's, or 1 for plain decoding."""
    gamma = max(1, s.gamma)
    return float(given_acceptance(s).tokens_per_step(gamma)), gamma


def _tokens_per_step(s: Scenario) -> dict[str, Any]:
    tokens, gamma = _tokens(s)
    return {"tokens_per_step": round(tokens, 3), "measured_gamma": gamma}


def _accepted(s: Scenario) -> dict[str, Any]:
    tokens, gamma = _tokens(s)
    return {"accepted_per_step": round(tokens - 1, 3), "measured_gamma": gamma}


def _share(s: Scenario) -> dict[str, Any]:
    tokens, gamma = _tokens(s)
    return {"accepted_share": round((tokens - 1) / gamma, 3), "measured_gamma": gamma}


def _survival(s: Scenario) -> dict[str, Any]:
    survival = given_acceptance(s).survival(max(1, s.gamma))
    return {"rates": tuple(round(float(rate), 3) for rate in survival[1:])}


def _conditional(s: Scenario) -> dict[str, Any]:
    survival = given_acceptance(s).survival(max(1, s.gamma))
    before = survival[:-1]
    rates = [
        now / then if then > 0 else 0.0 for now, then in zip(survival[1:], before, strict=True)
    ]
    return {"rates": tuple(round(float(rate), 3) for rate in rates)}


def _alpha(s: Scenario) -> dict[str, Any]:
    return {"alpha": round(effective_alpha(given_acceptance(s), s.gamma), 3)}


def _mixture(s: Scenario) -> dict[str, Any]:
    alpha = _alpha(s)["alpha"]
    return {"mixture": ((0.5, alpha), (0.5, alpha))}


def _times(s: Scenario) -> dict[str, Any]:
    draft = None if s.target_ms is None else round(step_cost_of(s).c * s.target_ms, 3)
    return {"target_ms": s.target_ms, "draft_ms": draft}


def _slope(s: Scenario) -> dict[str, Any]:
    return {"sigma": round(step_cost_of(s).sigma_at(max(1, s.gamma)), 6)}


def _curve(s: Scenario) -> dict[str, Any]:
    if s.verify_form == "slope" and s.sigma in (None, Scenario.model_fields["sigma"].default):
        return {"verify_costs": ()}  # nothing was measured: no number may look as if it were
    cost = step_cost_of(s)
    gammas = np.arange(1, min(cost.reach, max(s.gamma, CURVE_SHOWN)) + 1)
    return {"verify_costs": tuple(round(float(v), 4) for v in cost.verify(gammas))}


_CONVERT: dict[tuple[str, str], Callable[[Scenario], dict[str, Any]]] = {
    ("acceptance_form", "alpha"): _alpha,
    ("acceptance_form", "accepted_share"): _share,
    ("acceptance_form", "tokens_per_step"): _tokens_per_step,
    ("acceptance_form", "accepted_per_step"): _accepted,
    ("acceptance_form", "survival"): _survival,
    ("acceptance_form", "conditional"): _conditional,
    ("acceptance_form", "mixture"): _mixture,
    ("acceptance_form", "workload"): lambda s: {"workload": "code_or_json"},
    ("acceptance_form", "range"): lambda s: CITED_RANGES["acceptance_form"],
    ("draft_form", "times"): _times,
    ("draft_form", "hardware"): lambda s: EXAMPLE_PAIR,
    ("draft_form", "ratio"): lambda s: {"c": round(step_cost_of(s).c, 4)},
    ("draft_form", "range"): lambda s: CITED_RANGES["draft_form"],
    ("verify_form", "slope"): _slope,
    ("verify_form", "curve"): _curve,
}
