"""Candidate drafts side by side: what the theorem predicts for each, and what was measured."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole
from specmath.halves import step_cost_of
from specmath.scenario import Scenario
from specmath.scenario.files import revised
from specmath.stepcost import LinearStepCost, StepCost
from specmath.theorems import (
    expected_tokens,
    implied_draft_cost,
    walltime_improvement,
)
from specmath.wording import faster, significant

__all__ = [
    "T5_SOURCE",
    "Candidate",
    "CostOf",
    "Outcome",
    "best_speedup",
    "cost_of_draft",
    "evaluate",
    "own_cost_words",
    "published_t5",
    "rank_at_own_cost",
]

CostOf = Callable[[float], StepCost]
"""From a draft's c to the cost of a speculative step with it."""

T5_SOURCE = "Leviathan et al. 2023 (arXiv 2211.17192), Tables 2 and 4: T5-XXL on a TPU-v4, batch 1"

MAX_CANDIDATES = 100

ROUNDING = 1e-13
"""Two speedups nearer than this are equal."""


@dataclass(frozen=True)
class Candidate:
    """One draft: its α and c, the γ it runs at, and its measured speedup where there is one.

    α in [0, 1], c ≥ 0, γ a whole number from 1, measured_speedup > 0 or None; ValueError
    otherwise, naming the draft.
    """

    draft: str
    alpha: float
    c: float
    gamma: int
    measured_speedup: float | None = None

    def __post_init__(self) -> None:
        where = f"draft {self.draft!r}: "
        real(where + "alpha", self.alpha, 0, 1)
        real(where + "c", self.c, 0, 100)
        whole(where + "gamma", self.gamma, 1, 1000)
        if self.measured_speedup is not None:
            real(where + "measured_speedup", self.measured_speedup, 0, 1000, low_open=True)


@dataclass(frozen=True)
class Outcome:
    """What Theorem 3.8 says of a candidate at its γ, beside the measurement; and its best γ.

    `best_gamma` and `best_speedup` are at the step cost that `evaluate` was given, Theorem 3.8's
    unless another was. `miss` is predicted / measured − 1; `implied_c` the c that would make the
    theorem exact, negative where no c ≥ 0 explains the measurement.
    """

    candidate: Candidate
    predicted: float
    best_gamma: int
    best_speedup: float
    miss: float | None
    implied_c: float | None


def cost_of_draft(scenario: Scenario) -> CostOf:
    """The step cost that the scenario has once a draft of some c is taken into it.

    Its line or curve of v and its overhead stay; a step that was computed from hardware is
    replaced by the memory-bound one, as it is where such a draft is taken.
    """
    base = revised(scenario, {"alpha": 0.5, "c": 0.1, "gamma": 1})
    return lambda c: step_cost_of(base.model_copy(update={"c": float(c)}))


def own_cost_words(scenario: Scenario) -> str:
    """What that step costs, in words; empty where it is Theorem 3.8's (memory-bound)."""
    cost = cost_of_draft(scenario)(0.0)
    if isinstance(cost, LinearStepCost) and cost.sigma == cost.overhead == 0:
        return ""
    gamma = min(max(1, scenario.gamma), cost.reach)
    overhead = float(cost.extra(gamma))
    more = f", overhead {significant(overhead)}" if overhead else ""
    return (
        f"a pass over {gamma + 1} tokens costs "
        f"{significant(float(cost.verify(gamma)))} plain steps{more}"
    )


def evaluate(
    candidates: Iterable[Candidate], max_gamma: int = 16, cost_of: CostOf = LinearStepCost
) -> list[Outcome]:
    """Theorem 3.8 for each candidate at its γ; the best γ, searched up to `max_gamma` ≥ 1, at the
    step cost that `cost_of` gives its c (memory-bound unless given).

    Raises InputError for an empty table and for more than 100 candidates.
    """
    rows = list(candidates)
    if not 1 <= len(rows) <= MAX_CANDIDATES:
        raise InputError(f"the table must have 1 to {MAX_CANDIDATES} drafts, got {len(rows)}")
    most = int(whole("max_gamma", max_gamma, 1))
    return [_outcome(row, most, cost_of(row.c)) for row in rows]


def _outcome(row: Candidate, max_gamma: int, cost: StepCost) -> Outcome:
    predicted = float(walltime_improvement(row.alpha, row.gamma, row.c))
    gammas = np.arange(min(max_gamma, cost.reach) + 1)
    speedups = np.asarray(expected_tokens(row.alpha, gammas)) / cost.total(gammas)
    # The smallest on ties: τ and s round differently where two γ are equally fast.
    best = int(np.argmax(speedups >= speedups.max() * (1 - ROUNDING)))
    measured, miss, implied = row.measured_speedup, None, None
    if measured is not None:
        miss = predicted / measured - 1
        tokens = float(expected_tokens(row.alpha, row.gamma))
        implied = float(implied_draft_cost(measured, tokens, row.gamma))
    return Outcome(row, predicted, best, float(speedups[best]), miss, implied)


def rank_at_own_cost(outcomes: Iterable[Outcome], words: str) -> str:
    """Which candidate is fastest at the scenario's own step cost, which `words` tells."""
    first = max(outcomes, key=lambda o: o.best_speedup)
    if first.best_speedup <= 1 + ROUNDING:
        return f"At your verification cost ({words}) none of these beats plain decoding."
    return (
        f"At your verification cost ({words}) {first.candidate.draft} is fastest: "
        f"{faster(first.best_speedup)} at γ={first.best_gamma}."
    )


@cache
def published_t5(task: str = "EnDe translation", temperature: int = 0) -> tuple[Candidate, ...]:
    """The published T5 drafts for one task and temperature, with their measured speedups."""
    path = resources.files("specmath") / "data" / "leviathan_2023.csv"
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    return tuple(
        Candidate(
            row["draft"],
            float(row["alpha"]),
            float(row["c"]),
            int(row["gamma"]),
            float(row["measured_speedup"]),
        )
        for row in csv.DictReader(lines)
        if row["task"] == task and int(row["temperature"]) == temperature
    )


def best_speedup(
    alpha: ArrayLike, c: ArrayLike, max_gamma: int = 16, cost_of: CostOf = LinearStepCost
) -> FloatArray:
    """τ/s at the best γ in 0…max_gamma; α in [0, 1] and c ≥ 0 broadcast.

    Theorem 3.8 unless `cost_of` gives another step cost. At least 1, because γ=0 is plain
    decoding. Raises ValueError outside the ranges.
    """
    costs = np.asarray(c, dtype=float)
    each = [cost_of(float(one)) for one in costs.ravel()]
    most = min(int(whole("max_gamma", max_gamma, 1)), *(cost.reach for cost in each))
    gammas = np.arange(most + 1)
    totals = np.array([cost.total(gammas) for cost in each]).reshape(*costs.shape, len(gammas))
    tokens = np.asarray(expected_tokens(np.asarray(alpha)[..., None], gammas))
    return np.asarray(np.max(tokens / totals, axis=-1))
