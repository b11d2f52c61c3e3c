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
from specmath.forms import WORKLOADS
from specmath.scenario import Scenario
from specmath.stepcost import LinearStepCost
from specmath.theorems import alpha_from_accepted_share, alpha_from_tokens_per_step

__all__ = ["SEARCH_LIMIT", "Halves", "acceptance_of", "ends", "step_cost_of", "unknowns"]

SEARCH_LIMIT = 10_000
"""γ at which a search for an unlimited optimum, crossover or budget gives up."""


@dataclass(frozen=True)
class Halves:
    """One acceptance with one step cost; everything else follows from these two."""

    acceptance: Acceptance
    cost: LinearStepCost

    @property
    def reach(self) -> int:
        """Where a search over γ ends: 10,000, or before a negative σ (v < 1) takes v to 0."""
        sigma = self.cost.sigma
        if sigma * SEARCH_LIMIT > -1.0:
            return SEARCH_LIMIT
        return int(np.ceil(-1 / sigma)) - 1

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
    """The acceptance half; of a range, its middle."""
    return _ACCEPTANCE[scenario.acceptance_form](scenario)


def _alpha_ends(s: Scenario) -> tuple[float, float]:
    return _given(s, "alpha_low"), _given(s, "alpha_high")


_C_ENDS: dict[str, Callable[[Scenario], tuple[float, ...]]] = {
    "times": lambda s: (_given(s, "draft_ms") / _given(s, "target_ms"),),
    "ratio": lambda s: (_given(s, "c"),),
    "range": lambda s: (_given(s, "c_low"), _given(s, "c_high")),
}


def _c_ends(scenario: Scenario) -> tuple[float, ...]:
    return _C_ENDS[scenario.draft_form](scenario)


def step_cost_of(scenario: Scenario) -> LinearStepCost:
    """The step-cost half; of an unknown, the middle of its range."""
    c = float(np.mean(_c_ends(scenario)))
    return LinearStepCost(
        c=c,
        c_hat=c / 2 if scenario.c_hat is None else scenario.c_hat,
        sigma=0.5 if scenario.sigma is None else scenario.sigma,
        overhead=scenario.overhead,
    )


def ends(scenario: Scenario) -> list[Halves]:
    """Every combination of the ends of what is not known; one entry if all is known."""
    acceptances = [acceptance_of(scenario)]
    if scenario.acceptance_form == "range":
        acceptances = [IidAcceptance(alpha) for alpha in _alpha_ends(scenario)]
    sigmas = (0.0, 1.0) if scenario.sigma is None else (scenario.sigma,)
    return [
        Halves(acceptance, LinearStepCost(c, c_hat, sigma, scenario.overhead))
        for acceptance, c, sigma in product(acceptances, _c_ends(scenario), sigmas)
        for c_hat in ((0.0, c) if scenario.c_hat is None else (scenario.c_hat,))
    ]


def unknowns(s: Scenario) -> list[str]:
    """What the scenario leaves open, each with the range it is taken over."""
    found = {
        f"α from {s.alpha_low} to {s.alpha_high}": s.acceptance_form == "range",
        f"c from {s.c_low} to {s.c_high}": s.draft_form == "range",
        "ĉ from 0 to c": s.c_hat is None,
        "σ from 0 to 1": s.sigma is None,
    }
    return [words for words, unknown in found.items() if unknown]
