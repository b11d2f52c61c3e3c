"""How far predictions lay from what was measured: by method, source, engine, drafter, GPU, load.

Rows that set a number of this product, and runs that stand in the record twice, are scored and
left out of these figures: nothing is tuned on a row and judged by it in one breath.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray
from specmath.published.case import Case, Code, Reason, engine_of
from specmath.published.rows import Quantity
from specmath.published.scenario import Unscorable, drafter_of, gpu_of
from specmath.published.score import METHODS, Method, Scored
from specmath.speculation import ROUNDING

__all__ = [
    "BANDS", "BEYOND", "BY", "NOT_SAID", "Group", "Other", "Summary",
    "Why",
    "band_of", "group_of", "judged", "others", "summarise", "value_of",
]  # fmt: skip

NOT_SAID = "not said"
BANDS = ((1, "1"), (8, "2-8"), (32, "9-32"), (128, "33-128"))
BEYOND = "129 and more"
SAME = 0.005
"""A speedup within this of 1 is neither a gain nor a loss."""


def band_of(concurrency: int | None) -> str:
    """The band of load: 1, 2-8, 9-32, 33-128 or more requests in flight."""
    if concurrency is None:
        return NOT_SAID
    return next((name for top, name in BANDS if concurrency <= top), BEYOND)


def _gpu(case: Case) -> str:
    with suppress(Unscorable):
        return gpu_of(case.hardware)[0]
    return case.hardware or NOT_SAID


_VALUES: dict[str, Callable[[Scored], str]] = {
    "method": lambda s: s.method,
    "source": lambda s: s.case.source,
    "engine": lambda s: engine_of(s.case.engine) or NOT_SAID,
    "drafter": lambda s: drafter_of(s.case) or s.case.drafter or "none",
    "gpu": lambda s: _gpu(s.case),
    "concurrency": lambda s: band_of(s.case.concurrency),
}
BY = tuple(_VALUES)
"""What groups are formed by, each within one quantity and one method."""


def value_of(scored: Scored, by: str) -> str:
    """The group of a scored row in one of the ways of `BY`."""
    return _VALUES[by](scored)


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of the rows that share a value.

    Attributes
    ----------
    by, name
        What they share, and its value.
    quantity, method
        What is predicted, and how.
    n
        Rows.
    median, p90
        Of |predicted / measured − 1|.
    bias
        Median of predicted / measured − 1: above 0 is too high.
    within_10, within_20
        Share of rows off by at most 10 and 20%.
    sign_right
        Share of speedups on the right side of 1; None of times.
    coverage, intervals
        Share of intervals that hold the measured value, and how many rows have one; None where
        none has.
    """

    by: str
    name: str
    quantity: Quantity
    method: Method
    n: int
    median: float
    p90: float
    bias: float
    within_10: float
    within_20: float
    sign_right: float | None
    coverage: float | None
    intervals: int


@dataclass(frozen=True, slots=True)
class Why:
    """A reason why `cases` rows are not predicted, with the first of them and what of it."""

    code: Code
    cases: int
    row: str
    detail: str


@dataclass(frozen=True, slots=True)
class Summary:
    """`cases`: rows of the record; `scored`: those with a prediction by some method; `reasons`: the
    others by why, most first; `set_aside`: predictions left out of `groups` since their row set a
    number or repeats another."""

    cases: int
    scored: int
    reasons: tuple[Why, ...]
    set_aside: int
    groups: tuple[Group, ...]

    def by(self, what: str) -> tuple[Group, ...]:
        """The groups formed by one thing."""
        return tuple(group for group in self.groups if group.by == what)


def judged(scored: Iterable[Scored]) -> list[Scored]:
    """Those that a figure may be made of: predicted, and neither used before nor written twice."""
    return [s for s in scored if s.error is not None and not s.sets and not s.repeats]


def summarise(scored: Sequence[Scored]) -> Summary:
    """The figures of scored rows, groups ordered by method and size."""
    known = {s.case.id for s in scored if s.predicted is not None}
    why: dict[str, Reason] = {}
    for each in scored:
        if each.reason is not None and each.case.id not in known:
            why.setdefault(each.case.id, each.reason)
    counts = Counter(reason.code for reason in why.values())
    first = {reason.code: (name, reason.detail) for name, reason in reversed(why.items())}
    fair = judged(scored)
    return Summary(
        cases=len(known) + len(why),
        scored=len(known),
        reasons=tuple(Why(code, n, *first[code]) for code, n in counts.most_common()),
        set_aside=sum(each.error is not None for each in scored) - len(fair),
        groups=tuple(group for by in BY for group in _groups(fair, by)),
    )


def _groups(fair: Sequence[Scored], by: str) -> list[Group]:
    members: dict[tuple[Quantity, Method, str], list[Scored]] = {}
    for each in fair:
        members.setdefault((each.quantity, each.method, value_of(each, by)), []).append(each)
    found = [group_of(rows, by, name) for (_, _, name), rows in members.items()]
    order = {method: i for i, method in enumerate(METHODS)}
    return sorted(found, key=lambda g: (g.quantity, order.get(g.method, len(order)), -g.n, g.name))


def group_of(rows: Sequence[Scored], by: str, name: str) -> Group:
    """The figures of judged rows of one quantity and method, at least one."""
    quantity, method = rows[0].quantity, rows[0].method
    errors = np.array([row.error for row in rows], dtype=float)
    size = np.abs(errors)
    held = [row.held for row in rows if row.held is not None]
    median, p90 = np.quantile(size, (0.5, 0.9)).tolist()
    within_10, within_20 = (float(np.mean(size <= limit + ROUNDING)) for limit in (0.10, 0.20))
    return Group(
        by, name, quantity, method, len(rows), median, p90, float(np.median(errors)),
        within_10, within_20, _sign_right(rows) if quantity == "speedup" else None,
        float(np.mean(held)) if held else None, len(held),
    )  # fmt: skip


def _sign_right(rows: Sequence[Scored]) -> float:
    pairs: FloatArray = np.array([(row.predicted, row.measured) for row in rows], dtype=float)
    sides = np.where(np.abs(pairs - 1.0) <= SAME, 0.0, np.sign(pairs - 1.0))
    return float(np.mean((sides[:, 0] == sides[:, 1]) | (sides == 0).any(axis=1)))


# ── other tools, whose predictions stand in the rows ─────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Other:
    """One tool, one quantity and one of our methods: means of |predicted / measured − 1| over the
    `n` rows that both predict."""

    tool: str
    quantity: Quantity
    method: Method
    n: int
    theirs: float
    ours: float


def others(scored: Sequence[Scored]) -> tuple[Other, ...]:
    """Every tool and quantity that at least two rows hold, in the order of the file.

    Columns such as `vidur_itl_mean`, in ms, stand in the rows of an open loop.
    """
    errors: dict[tuple[str, Quantity, Method], list[tuple[float, float]]] = {}
    for each in scored:
        if each.error is None or each.measured is None or each.case.kind != "open loop":
            continue
        ending = "_" + each.quantity.removesuffix("_ms")
        for column, value in each.case.cells.items():
            if column.endswith(ending) and value is not None:
                pair = abs(value / each.measured - 1.0), abs(each.error)
                key = column.removesuffix(ending), each.quantity, each.method
                errors.setdefault(key, []).append(pair)
    means = [Other(*key, len(pairs), *np.mean(pairs, axis=0)) for key, pairs in errors.items()]
    return tuple(
        sorted(
            (o for o in means if o.n > 1), key=lambda o: (o.quantity, o.theirs, o.tool, o.method)
        )
    )
