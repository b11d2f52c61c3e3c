"""Candidate drafts side by side: what the theorem predicts for each, and what was measured."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole
from specmath.gamma import optimal_gamma
from specmath.theorems import (
    expected_tokens,
    implied_draft_cost,
    walltime_improvement,
)

__all__ = ["T5_SOURCE", "Candidate", "Outcome", "best_speedup", "evaluate", "published_t5"]

T5_SOURCE = "Leviathan et al. 2023 (arXiv 2211.17192), Tables 2 and 4: T5-XXL on a TPU-v4, batch 1"

MAX_CANDIDATES = 100


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
    """What Theorem 3.8 says of a candidate at its γ and at the best γ, beside the measurement.

    `miss` is predicted / measured − 1; `implied_c` the c that would make the theorem exact,
    negative where no c ≥ 0 explains the measurement.
    """

    candidate: Candidate
    predicted: float
    best_gamma: int
    best_speedup: float
    miss: float | None
    implied_c: float | None


def evaluate(candidates: Iterable[Candidate], max_gamma: int = 16) -> list[Outcome]:
    """Theorem 3.8 for each candidate; the best γ is searched up to `max_gamma` ≥ 1.

    Raises InputError for an empty table and for more than 100 candidates.
    """
    rows = list(candidates)
    if not 1 <= len(rows) <= MAX_CANDIDATES:
        raise InputError(f"the table must have 1 to {MAX_CANDIDATES} drafts, got {len(rows)}")
    return [_outcome(row, int(whole("max_gamma", max_gamma, 1))) for row in rows]


def _outcome(row: Candidate, max_gamma: int) -> Outcome:
    predicted = float(walltime_improvement(row.alpha, row.gamma, row.c))
    finite = row.alpha < 1 and (row.c > 0 or row.alpha == 0)
    # Without a finite optimum more is always better; τ/s has one peak, so the cap is exact.
    unlimited = int(optimal_gamma(row.alpha, row.c)) if finite else max_gamma
    best = 0 if row.c >= row.alpha else min(unlimited, max_gamma)
    measured, miss, implied = row.measured_speedup, None, None
    if measured is not None:
        miss = predicted / measured - 1
        tokens = float(expected_tokens(row.alpha, row.gamma))
        implied = float(implied_draft_cost(measured, tokens, row.gamma))
    return Outcome(
        row, predicted, best, float(walltime_improvement(row.alpha, best, row.c)), miss, implied
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


def best_speedup(alpha: ArrayLike, c: ArrayLike, max_gamma: int = 16) -> FloatArray:
    """Theorem 3.8 at the best γ in 0…max_gamma; α in [0, 1] and c ≥ 0 broadcast.

    At least 1, because γ=0 is plain decoding. Raises ValueError outside the ranges.
    """
    gammas = np.arange(int(whole("max_gamma", max_gamma, 1)) + 1)
    alphas, costs = np.asarray(alpha)[..., None], np.asarray(c)[..., None]
    return np.asarray(np.max(walltime_improvement(alphas, gammas, costs), axis=-1))
