"""What the record says of ranges that practitioners pass on, and where predictions miss most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath import engines
from specmath.published.case import Case, engine_of
from specmath.published.rows import Quantity
from specmath.published.scenario import UNNAMED, drafter_of, is_mixture
from specmath.published.score import Scored
from specmath.published.summary import judged

__all__ = ["CLAIMS", "Cause", "Claim", "Found", "Miss", "weighed", "worst"]

Name = Literal["single stream", "near saturation", "copied text", "best gamma"]
SATURATED = 128
"""Requests in flight from which a server counts as near saturation."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A range in circulation: `low` to `high` × (or γ), of the rows that `of` picks."""

    name: Name
    low: float
    high: float
    of: Callable[[Case], bool]


CLAIMS = (
    Claim("single stream", 1.8, 2.5, lambda case: case.concurrency == 1),
    Claim("near saturation", 0.95, 1.05, lambda case: (case.concurrency or 0) >= SATURATED),
    Claim("copied text", 2.0, 4.0, lambda case: drafter_of(case) in ("ngram", "suffix")),
    Claim("best gamma", 3.0, 5.0, lambda case: case.gamma is not None),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A claim weighed: rows (series over γ for the best γ), 10, 50 and 90% quantile as measured and
    as predicted (None where nothing is), and the share of the measured within the claim."""

    claim: Claim
    n: int
    measured: tuple[float, float, float] | None
    predicted: tuple[float, float, float] | None
    inside: float | None
    sources: int


def weighed(scored: Sequence[Scored]) -> tuple[Found, ...]:
    """Every claim beside the rows that speak to it, rows that may not be scored left out."""
    rows = _speedups(scored)
    return tuple(
        _best_gamma(claim, rows) if claim.name == "best gamma" else _speedup(claim, rows)
        for claim in CLAIMS
    )


Row = tuple[Case, float, float | None]
"""A case, its measured speedup, and the one predicted by the method that knows least."""
KNOWS_LEAST = ("hardware", "anchored", "theorem", "step timings")


def _speedups(scored: Sequence[Scored]) -> list[Row]:
    best: dict[str, tuple[int, Row]] = {}
    for s in scored:
        if s.quantity != "speedup" or s.measured is None or s.case.doubt is not None:
            continue
        known = s.method in KNOWS_LEAST and s.predicted is not None
        rank = KNOWS_LEAST.index(s.method) if known else len(KNOWS_LEAST)
        if s.case.id not in best or rank < best[s.case.id][0]:
            best[s.case.id] = (rank, (s.case, s.measured, s.predicted))
    return [row for _, row in best.values()]


def _found(claim: Claim, measured: list[float], predicted: list[float], sources: set[str]) -> Found:
    inside = [claim.low <= value <= claim.high for value in measured]
    seen, said = (
        tuple(np.quantile(values, (0.1, 0.5, 0.9)).tolist()) if values else None
        for values in (measured, predicted)
    )
    share = float(np.mean(inside)) if inside else None
    return Found(claim, len(measured), seen, said, share, len(sources))


def _speedup(claim: Claim, rows: Sequence[Row]) -> Found:
    own = [row for row in rows if claim.of(row[0])]
    predicted = [said for _, _, said in own if said is not None]
    return _found(claim, [m for _, m, _ in own], predicted, {case.source for case, _, _ in own})


def _best_gamma(claim: Claim, rows: Sequence[Row]) -> Found:
    """Of rows that differ in γ alone, at least three, the fastest γ, measured and predicted."""
    series: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        case = row[0]
        if claim.of(case):
            work = case.cells.get("task/dataset") or case.cells.get("workload")
            key = (case.source, case.model, case.drafter, case.hardware, case.load, work,
                   case.context_tokens, case.precision)  # fmt: skip
            series.setdefault(key, []).append(row)
    sweeps = [rows for rows in series.values() if len({r[0].gamma for r in rows}) >= 3]
    fastest = [_fastest((case, seen) for case, seen, _ in rows) for rows in sweeps]
    whole = [rows for rows in sweeps if all(said is not None for _, _, said in rows)]
    said = [_fastest((case, said or 0.0) for case, _, said in rows) for rows in whole]
    return _found(claim, fastest, said, {rows[0][0].source for rows in sweeps})


def _fastest(rows: Iterable[tuple[Case, float]]) -> float:
    """The γ of the row with the largest speedup."""
    return float(max(rows, key=lambda row: row[1])[0].gamma or 0)


# ── the largest misses, one of each kind, and what of the row explains them ──────────────────

Cause = Literal[
    "printed inputs", "verification", "prompts", "prompts cheaper", "drafter overhead", "experts",
    "host", "sequences", "kernels", "positions", "saturated", "unexplained",
]  # fmt: skip
LONG_PROMPT = 4.0
"""Prompt over output tokens from which prompts of others dominate a step under load."""

QUEUED = 100.0
"""TTFT over TPOT from which requests stood in line."""
WIDE = 0.1
"""Plain steps between the ends of a verified position's cost from which they explain a miss."""
MANY = 64
"""Sequences from which what an engine does for each of them is seen."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A prediction far from what was measured; `rows` of the same run are as far off as half."""

    scored: Scored
    cause: Cause
    rows: int


def worst(scored: Sequence[Scored], quantity: Quantity, count: int = 10) -> list[Miss]:
    """The largest misses of a quantity by |log(predicted / measured)|, one of each source, model,
    hardware and drafter, by whichever method missed most."""
    fair = [s for s in judged(scored) if s.quantity == quantity]
    fair.sort(key=_size, reverse=True)
    found: dict[tuple[str, ...], list[Scored]] = {}
    for each in fair:
        case = each.case
        run = (case.source, case.model, case.hardware, case.engine, case.drafter)
        found.setdefault(run, []).append(each)
    first = [
        (rows[0], sum(_size(r) >= _size(rows[0]) / 2 for r in rows)) for rows in found.values()
    ]
    return [Miss(each, _cause(each), rows) for each, rows in first[:count]]


def _size(scored: Scored) -> float:
    return abs(math.log(1.0 + (scored.error or 0.0)))


def _cause(scored: Scored) -> Cause:
    """What is known to be missing or uncertain in a prediction of that kind, likeliest first."""
    case, too_high = scored.case, (scored.error or 0.0) > 0
    loaded = (case.concurrency or 1) > 1
    if scored.method == "theorem" and too_high:
        return "verification"
    if scored.method in ("theorem", "step timings"):
        return "printed inputs"
    if scored.quantity == "speedup":
        if too_high:
            return "prompts" if loaded else "drafter overhead"
        return "positions" if _positions(case) >= WIDE else "unexplained"
    if not too_high and case.measured.get("ttft_mean_ms", 0.0) >= QUEUED * (scored.measured or 1.0):
        return "saturated"
    if is_mixture(case):
        return "experts"
    if loaded and _long_prompts(case):
        return "prompts cheaper" if too_high else "prompts"
    if not too_high and (case.concurrency or 1) >= MANY:
        return "sequences"
    return "kernels" if too_high else "host"


def _positions(case: Case) -> float:
    """How far apart the ends lie of what its engine may spend on a verified position, in plain
    steps."""
    ends = engines.named(engine_of(case.engine) or UNNAMED).position
    return max(ends) - min(ends)


def _long_prompts(case: Case) -> bool:
    prompt, output = case.prompt_tokens, case.output_tokens
    return prompt is not None and output is not None and prompt >= LONG_PROMPT * output
