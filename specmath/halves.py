"""Scenario → its two halves: one acceptance, one step cost; and the ends of what is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from specmath.acceptance import (
    Acceptance,
    IidAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
)
from specmath.checks import FloatArray, InputError
from specmath.scenario import Scenario
from specmath.scenario.forms import WORKLOADS
from specmath.serving.of_scenario import served_of, step_time_error, tabulated
from specmath.stepcost import LinearStepCost, StepCost, TabulatedStepCost
from specmath.theorems import alpha_from_accepted_share, alpha_from_tokens_per_step

__all__ = [
    "Halves",
    "acceptance_of",
    "drafted_acceptance_of",
    "ends",
    "plain_seconds_of",
    "step_cost_of",
    "unknowns",
]


@dataclass(frozen=True)
class Halves:
    """One acceptance with one step cost; everything else follows from these two."""

    acceptance: Acceptance
    cost: StepCost

    def speedup(self, gammas: np.ndarray) -> FloatArray:
        """τ(γ) / s(γ) for each γ."""
        return np.asarray(self.acceptance.tokens_per_step(gammas)) / self.cost.total(gammas)

    def operations(self, gammas: np.ndarray) -> FloatArray:
        """Arithmetic per token against plain decoding, (γĉ + γ + 1) / τ (Theorem 3.11)."""
        work = gammas * (self.cost.c_hat + 1.0) + 1.0
        return np.asarray(work / np.asarray(self.acceptance.tokens_per_step(gammas)))


def _given(scenario: Scenario, name: str) -> float:
    """A field of the scenario's own form: the record has checked that it is there."""
    value: float | None = getattr(scenario, name)
    if value is None:
        raise InputError(f"{name} must be given, got nothing")
    return value


def _from_tokens(s: Scenario, tokens: float) -> IidAcceptance:
    return IidAcceptance(float(alpha_from_tokens_per_step(tokens, _given(s, "measured_gamma"))))


def _from_share(s: Scenario) -> IidAcceptance:
    share, gamma = _given(s, "accepted_share"), _given(s, "measured_gamma")
    return IidAcceptance(float(alpha_from_accepted_share(share, gamma)))


def _from_mixture(s: Scenario) -> MixtureAcceptance:
    shares, alphas = zip(*s.mixture, strict=True)
    return MixtureAcceptance(shares, [IidAcceptance(alpha) for alpha in alphas])


_ACCEPTANCE: dict[str, Callable[[Scenario], Acceptance]] = {
    "alpha": lambda s: IidAcceptance(_given(s, "alpha")),
    "tokens_per_step": lambda s: _from_tokens(s, _given(s, "tokens_per_step")),
    "accepted_per_step": lambda s: _from_tokens(s, 1 + _given(s, "accepted_per_step")),
    "accepted_share": _from_share,
    "survival": lambda s: PerPositionAcceptance(s.rates),
    "conditional": lambda s: PerPositionAcceptance.from_conditional(s.rates),
    "mixture": _from_mixture,
    "workload": lambda s: IidAcceptance(WORKLOADS[str(s.workload)]),
    "range": lambda s: IidAcceptance(float(np.mean(_alpha_ends(s)))),
}


def acceptance_of(scenario: Scenario) -> Acceptance:
    """The acceptance half; of a range, its middle; over all steps where some have no draft."""
    return _over_all_steps(scenario, drafted_acceptance_of(scenario))


def drafted_acceptance_of(scenario: Scenario) -> Acceptance:
    """The acceptance as given: that of the steps with a draft."""
    return _ACCEPTANCE[scenario.acceptance_form](scenario)


def _over_all_steps(scenario: Scenario, acceptance: Acceptance) -> Acceptance:
    if scenario.draft_form != "hardware":
        return acceptance
    return served_of(scenario).accepts(acceptance)


def _alpha_ends(s: Scenario) -> tuple[float, float]:
    return _given(s, "alpha_low"), _given(s, "alpha_high")


def _linear(s: Scenario, c: float, unknown_c_hat: float, unknown_sigma: float) -> LinearStepCost:
    """The curve between the theorems, with these in the place of what is not known."""
    c_hat = unknown_c_hat if s.c_hat is None else s.c_hat
    return LinearStepCost(c, c_hat, unknown_sigma if s.sigma is None else s.sigma, s.overhead)


def _middle(s: Scenario, c: float) -> StepCost:
    return _linear(s, c, c / 2, 0.5)


def _linear_ends(s: Scenario, *cs: float) -> list[StepCost]:
    """Each end of c, and of ĉ (0 and c) and σ (0 and 1) where they are not known."""
    shares = (0.0, 1.0) if s.c_hat is None else (0.0,)
    sigmas = (0.0, 1.0) if s.sigma is None else (0.0,)
    return [_linear(s, c, share * c, sigma) for c, share, sigma in product(cs, shares, sigmas)]


def _times(s: Scenario) -> float:
    return _given(s, "draft_ms") / _given(s, "target_ms")


def _served_cost(s: Scenario) -> TabulatedStepCost:
    return tabulated(served_of(s), max(s.max_gamma, s.gamma))


def _served_ends(s: Scenario) -> list[StepCost]:
    error = step_time_error(served_of(s))
    return [_served_cost(s).scaled(factor) for factor in (1.0 - error, 1.0 + error)]


_COST: dict[str, Callable[[Scenario], StepCost]] = {
    "times": lambda s: _middle(s, _times(s)),
    "ratio": lambda s: _middle(s, _given(s, "c")),
    "hardware": _served_cost,
    "range": lambda s: _middle(s, (_given(s, "c_low") + _given(s, "c_high")) / 2),
}
_COST_ENDS: dict[str, Callable[[Scenario], list[StepCost]]] = {
    "times": lambda s: _linear_ends(s, _times(s)),
    "ratio": lambda s: _linear_ends(s, _given(s, "c")),
    "hardware": _served_ends,
    "range": lambda s: _linear_ends(s, _given(s, "c_low"), _given(s, "c_high")),
}


def step_cost_of(scenario: Scenario) -> StepCost:
    """The step-cost half; of an unknown, the middle of its range."""
    return _COST[scenario.draft_form](scenario)


def plain_seconds_of(scenario: Scenario) -> float | None:
    """Seconds of a plain decode step: given, or computed from hardware; None while unknown."""
    if scenario.draft_form == "hardware":
        return served_of(scenario).plain_seconds
    return None if scenario.target_ms is None else scenario.target_ms / 1e3


def ends(scenario: Scenario) -> list[Halves]:
    """Every combination of the ends of what is not known; one entry if all is known."""
    acceptances = [acceptance_of(scenario)]
    if scenario.acceptance_form == "range":
        each = (IidAcceptance(alpha) for alpha in _alpha_ends(scenario))
        acceptances = [_over_all_steps(scenario, acceptance) for acceptance in each]
    costs = _COST_ENDS[scenario.draft_form](scenario)
    return [Halves(acceptance, cost) for acceptance, cost in product(acceptances, costs)]


def unknowns(s: Scenario) -> list[str]:
    """What the scenario leaves open, each with the range it is taken over."""
    found = {
        f"α from {s.alpha_low} to {s.alpha_high}": s.acceptance_form == "range",
        f"c from {s.c_low} to {s.c_high}": s.draft_form == "range",
        "ĉ from 0 to c": s.c_hat is None,
        "σ from 0 to 1": s.sigma is None,
    }
    words = [what for what, unknown in found.items() if unknown]
    if s.draft_form == "hardware":
        words.append(f"step times ±{step_time_error(served_of(s)):.0%}")
    return words
