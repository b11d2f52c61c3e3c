"""Scenario → its two halves: one acceptance, one step cost; and the ends of what is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from specmath.acceptance import Acceptance, IidAcceptance
from specmath.checks import FloatArray, InputError
from specmath.scenario import Scenario
from specmath.scenario.acceptances import alpha_ends, given, given_acceptance
from specmath.serving import CoveredAcceptance
from specmath.serving.of_scenario import off_by, plain_error, served_of, step_cost_error, tabulated
from specmath.stepcost import LinearStepCost, StepCost, TabulatedStepCost, measured_step_cost

__all__ = [
    "Halves",
    "acceptance_of",
    "ends",
    "plain_error_of",
    "plain_seconds_of",
    "spread_of",
    "step_cost_of",
    "unknowns",
]


@dataclass(frozen=True)
class Halves:
    """One acceptance with one step cost; everything else follows from these two."""

    acceptance: Acceptance
    cost: StepCost

    @property
    def coverage(self) -> float:
        """κ: the share of the steps that have a draft; 1 but for a lookup."""
        return self.acceptance.coverage if isinstance(self.acceptance, CoveredAcceptance) else 1.0

    @property
    def drafted(self) -> Acceptance:
        """Acceptance of the steps that have a draft."""
        if isinstance(self.acceptance, CoveredAcceptance):
            return self.acceptance.part
        return self.acceptance

    def speedup(self, gammas: np.ndarray) -> FloatArray:
        """τ(γ) / s(γ) for each γ."""
        return np.asarray(self.acceptance.tokens_per_step(gammas)) / self.cost.total(gammas)

    def operations(self, gammas: np.ndarray) -> FloatArray:
        """Arithmetic per token against plain decoding, (κγĉ + κγ + 1) / τ (Theorem 3.11)."""
        work = self.coverage * gammas * (self.cost.c_hat + 1.0) + 1.0
        return np.asarray(work / np.asarray(self.acceptance.tokens_per_step(gammas)))


def acceptance_of(scenario: Scenario) -> Acceptance:
    """The acceptance half; of a range, its middle; over all steps where some have no draft."""
    return _over_all_steps(scenario, given_acceptance(scenario))


def _over_all_steps(scenario: Scenario, acceptance: Acceptance) -> Acceptance:
    if scenario.draft_form != "hardware":
        return acceptance
    return served_of(scenario).accepts(acceptance)


def _given(s: Scenario, c: float, unknown_c_hat: float, unknown_sigma: float) -> StepCost:
    """The line between the theorems or the measured curve, with these in the place of what is
    not known."""
    c_hat = unknown_c_hat if s.c_hat is None else s.c_hat
    if s.verify_form == "curve":
        return measured_step_cost(s.verify_costs, c, c_hat, s.overhead)
    return LinearStepCost(c, c_hat, unknown_sigma if s.sigma is None else s.sigma, s.overhead)


def _middle(s: Scenario, c: float) -> StepCost:
    return _given(s, c, c / 2, 0.5)


def _given_ends(s: Scenario, *cs: float) -> list[StepCost]:
    """Each end of c, and of ĉ (0 and c) and σ (0 and 1) where they are not known."""
    shares = (0.0, 1.0) if s.c_hat is None else (0.0,)
    sigmas = (0.0, 1.0) if s.sigma is None else (0.0,)
    return [_given(s, c, share * c, sigma) for c, share, sigma in product(cs, shares, sigmas)]


def _times(s: Scenario) -> float:
    return given(s, "draft_ms") / given(s, "target_ms")


def _served_cost(s: Scenario) -> TabulatedStepCost:
    served = served_of(s)
    cost = tabulated(served, max(s.max_gamma, s.gamma))
    if s.gamma > cost.reach:
        raise InputError(
            f"gamma must be <= {cost.reach}, what {served.drafter.label} can draft, got {s.gamma}"
        )
    return cost


def _served_ends(s: Scenario) -> list[StepCost]:
    error, cost = step_cost_error(served_of(s)), _served_cost(s)
    cheap, dear = off_by(1.0, 1.0, error.verify)
    return [cost.scaled(cheap, cheap), cost.scaled(dear, 1.0 + error.rest)]


_COST: dict[str, Callable[[Scenario], StepCost]] = {
    "times": lambda s: _middle(s, _times(s)),
    "ratio": lambda s: _middle(s, given(s, "c")),
    "hardware": _served_cost,
    "range": lambda s: _middle(s, (given(s, "c_low") + given(s, "c_high")) / 2),
}
_COST_ENDS: dict[str, Callable[[Scenario], list[StepCost]]] = {
    "times": lambda s: _given_ends(s, _times(s)),
    "ratio": lambda s: _given_ends(s, given(s, "c")),
    "hardware": _served_ends,
    "range": lambda s: _given_ends(s, given(s, "c_low"), given(s, "c_high")),
}


def step_cost_of(scenario: Scenario) -> StepCost:
    """The step-cost half; of an unknown, the middle of its range."""
    return _COST[scenario.draft_form](scenario)


def plain_seconds_of(scenario: Scenario) -> float | None:
    """Seconds of a plain decode step: given, or computed from hardware; None while unknown."""
    if scenario.draft_form == "hardware":
        return served_of(scenario).plain_seconds
    return None if scenario.target_ms is None else scenario.target_ms / 1e3


def plain_error_of(scenario: Scenario) -> float:
    """|computed / true − 1| taken for a plain step that was computed; 0 where it was given."""
    return plain_error(served_of(scenario)) if scenario.draft_form == "hardware" else 0.0


def ends(scenario: Scenario) -> list[Halves]:
    """Every combination of the ends of what is not known; one entry if all is known."""
    acceptances = [acceptance_of(scenario)]
    if scenario.acceptance_form == "range":
        each = (IidAcceptance(alpha) for alpha in alpha_ends(scenario))
        acceptances = [_over_all_steps(scenario, acceptance) for acceptance in each]
    costs = _COST_ENDS[scenario.draft_form](scenario)
    return [Halves(acceptance, cost) for acceptance, cost in product(acceptances, costs)]


def unknowns(s: Scenario) -> list[str]:
    """What the scenario leaves open, each with the range it is taken over."""
    found = []
    if s.acceptance_form == "range":
        found.append(f"α from {s.alpha_low:.3g} to {s.alpha_high:.3g}")
    if s.draft_form == "range":
        found.append(f"c from {s.c_low:.3g} to {s.c_high:.3g}")
    if s.c_hat is None:
        found.append("ĉ from 0 to c")
    if s.sigma is None:
        found.append("σ from 0 to 1")
    return found


def spread_of(s: Scenario) -> list[str]:
    """Why a prediction has an interval: what is left open, and the error of computed steps."""
    words = unknowns(s)
    if s.draft_form == "hardware":
        error = step_cost_error(served_of(s))
        words += [error.words()] if error.rest else []
    return words
