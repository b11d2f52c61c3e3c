"""Candidate drafts by their α and c, beside what was measured; the published example."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from specmath.acceptance import IidAcceptance
from specmath.checks import FloatArray, InputError, real, whole
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import revised
from specmath.speculation import Speculation, speedup
from specmath.stepcost import LinearStepCost, StepCost
from specmath.theorems import expected_tokens, implied_draft_cost, walltime_improvement

__all__ = [
    "FIELDS",
    "T5_SOURCE",
    "Candidate",
    "CostOf",
    "Listed",
    "Outcome",
    "best_speedup",
    "cost_of_draft",
    "evaluate",
    "published_t5",
]

CostOf = Callable[[float], StepCost]
"""From a draft's c to the cost of a speculative step with it."""

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


FIELDS = ("draft", "alpha", "c", "gamma", "measured_speedup")


@dataclass(frozen=True)
class Listed:
    """Drafts that a person listed: rows of `FIELDS`, as typed, None where nothing was; and models
    to be compared, by name or config.json. Only its kind is checked: a row may wait to be mended.
    """

    rows: tuple[tuple[Any, ...], ...] = ()
    compared: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For a file; what was not typed is left out."""
        rows = (zip(FIELDS, row, strict=True) for row in self.rows)
        return {
            "rows": [{name: cell for name, cell in row if cell is not None} for row in rows],
            "compared": list(self.compared),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Listed:
        """Of a file, or of none; InputError where it is of another kind.

        Examples
        --------
        >>> Listed.from_dict({"rows": [{"draft": "mine", "alpha": 0.7}]}).rows
        (('mine', 0.7, None, None, None),)
        """
        try:
            found = _Drafts.model_validate(data)
        except ValidationError as error:
            raise InputError(f"drafts must be rows of {', '.join(FIELDS)}, and compared") from error
        rows = tuple(tuple(getattr(row, name) for name in FIELDS) for row in found.rows)
        return cls(rows, tuple(found.compared))


class _Row(BaseModel, extra="forbid", strict=True):
    draft: Annotated[str, Field(max_length=200)] | None = None
    alpha: float | None = None
    c: float | None = None
    gamma: float | None = None
    measured_speedup: float | None = None


class _Drafts(BaseModel, extra="forbid", strict=True):
    rows: Annotated[list[_Row], Field(max_length=MAX_CANDIDATES)] = []
    compared: list[str] = []


@dataclass(frozen=True)
class Outcome:
    """What Theorem 3.8 says of a candidate at its γ, beside the measurement; and its best γ.

    `best_gamma` and `best_speedup` are at the step cost that `evaluate` was given, Theorem 3.8's
    unless another was; `recommended_gamma` is the one to run there, as the verdict has it. `miss`
    is predicted / measured − 1; `implied_c` the c that would make the theorem exact, negative
    where no c ≥ 0 explains the measurement.
    """

    candidate: Candidate
    predicted: float
    best_gamma: int
    best_speedup: float
    recommended_gamma: int
    miss: float | None
    implied_c: float | None


def cost_of_draft(scenario: Scenario) -> CostOf:
    """The step cost that the scenario has once a draft of some c is taken into it.

    Its line or curve of v and its overhead stay; a step that was computed from hardware is
    replaced by the memory-bound one, as it is where such a draft is taken.
    """
    base = revised(scenario, {"alpha": 0.5, "c": 0.1, "gamma": 1})
    return lambda c: resolve(base.model_copy(update={"c": float(c)})).speculation.cost


def evaluate(
    candidates: Iterable[Candidate], max_gamma: int = 16, cost_of: CostOf = LinearStepCost
) -> list[Outcome]:
    """Theorem 3.8 for each candidate at its γ, and its best γ.

    Parameters
    ----------
    candidates
        From 1 to 100.
    max_gamma
        Where the search for the best γ ends, ≥ 1.
    cost_of
        The step cost at which it is searched, from a c; memory-bound unless given.

    Returns
    -------
    list[Outcome]
        One a candidate, in their order.

    Raises
    ------
    InputError
        An empty table, or more than 100 candidates.

    Examples -------- >>> (outcome,) = evaluate([Candidate("small", alpha=0.7, c=0.05, gamma=4,
    measured_speedup=2.2)]) >>> round(outcome.predicted, 2), outcome.best_gamma,
    round(outcome.miss, 3) (2.31, 6, 0.05)
    """
    rows = list(candidates)
    if not 1 <= len(rows) <= MAX_CANDIDATES:
        raise InputError(f"the table must have 1 to {MAX_CANDIDATES} drafts, got {len(rows)}")
    most = int(whole("max_gamma", max_gamma, 1))
    return [_outcome(row, most, cost_of(row.c)) for row in rows]


def _outcome(row: Candidate, max_gamma: int, cost: StepCost) -> Outcome:
    predicted = float(walltime_improvement(row.alpha, row.gamma, row.c))
    speculation = Speculation(IidAcceptance(row.alpha), cost)
    best = speculation.best(max_gamma)
    measured, miss, implied = row.measured_speedup, None, None
    if measured is not None:
        miss = predicted / measured - 1
        tokens = float(expected_tokens(row.alpha, row.gamma))
        implied = float(implied_draft_cost(measured, tokens, row.gamma))
    gain, advised = float(speculation.speedup(best)), speculation.recommended(max_gamma)
    return Outcome(row, predicted, best, gain, advised, miss, implied)


@cache
def published_t5(task: str = "EnDe translation", temperature: int = 0) -> tuple[Candidate, ...]:
    """The published T5 drafts for one task and temperature, with their measured speedups."""
    path = resources.files("specmath") / "data" / "leviathan_2023.csv"
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    wanted = (task, str(temperature))
    rows = [r for r in csv.DictReader(lines) if (r["task"], r["temperature"]) == wanted]
    return TypeAdapter(tuple[Candidate, ...]).validate_python(rows)


def best_speedup(
    alpha: ArrayLike, c: ArrayLike, max_gamma: int = 16, cost_of: CostOf = LinearStepCost
) -> FloatArray:
    """τ/s at the best γ in 0…max_gamma; α in [0, 1] and c ≥ 0 broadcast.

    Theorem 3.8 unless `cost_of` gives another step cost. At least 1, because γ=0 is plain
    decoding. Raises InputError outside the ranges.

    Examples
    --------
    >>> float(best_speedup(0.8, 0.1))
    2.46964
    """
    costs = np.asarray(c, dtype=float)
    each = [cost_of(float(one)) for one in costs.ravel()]
    most = min(int(whole("max_gamma", max_gamma, 1)), *(cost.reach for cost in each))
    gammas = np.arange(most + 1)
    totals = np.array([cost.total(gammas) for cost in each]).reshape(*costs.shape, len(gammas))
    tokens = np.asarray(expected_tokens(np.asarray(alpha)[..., None], gammas))
    return np.asarray(speedup(tokens, totals).max(axis=-1))
