"""The speedup that two sides of a change show, each one or several runs.

    observed speedup = mean TPOT before / mean TPOT after      (or tokens/s after / before)

Its interval comes from the spread over runs where there are several of each (Student's t on the
logarithm), else from the printed standard deviation over requests, else there is none and a
difference under 5% counts as none: two runs of the same server easily differ by that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from specmath.logs.record import Reading
from specmath.logs.speed import number_of, tpot_of
from specmath.wording import significant

__all__ = ["UNSEEN", "Span", "at_load_of", "observed_speedup"]

UNSEEN = 0.05
LEVEL = 0.95
NEAR_LOAD = 1.25
"""Two concurrencies within this factor are one load."""


@dataclass(frozen=True)
class Span:
    """A number with its interval; `basis` says what the interval covers, or that there is none."""

    value: float
    low: float | None
    high: float | None
    basis: str


def _tokens_a_second(reading: Reading) -> float | None:
    return number_of(reading, "output_throughput", "tokens_per_second")


def _values(
    readings: Sequence[Reading], measure: Callable[[Reading], float | None]
) -> list[tuple[float, Reading]]:
    return [(value, one) for one in readings if (value := measure(one)) is not None]


def observed_speedup(
    before: Sequence[Reading], after: Sequence[Reading]
) -> tuple[Span, str] | None:
    """(speedup of AFTER, what it is measured by); None where the sides tell no like numbers."""
    for measure, label, sign in (
        (tpot_of, "time per token", 1),
        (_tokens_a_second, "throughput", -1),
    ):
        pair = _values(before, measure), _values(after, measure)
        if pair[0] and pair[1]:
            return _ratio(pair[0], pair[1], sign), label
    return None


def at_load_of(
    name: str, readings: Sequence[Reading], other: Sequence[Reading]
) -> tuple[Sequence[Reading], tuple[str, ...]]:
    """Of runs at several concurrencies (a sweep) those nearest to the load of `other`; a note.

    As they are where they are all of one load, or where both sides are sweeps. Where the other
    side does not tell its concurrency, the lowest.
    """
    loads = [_load(reading) for reading in readings]
    known = [load for load in loads if load is not None]
    theirs = [load for reading in other if (load := _load(reading)) is not None]
    sweeps = [bool(each) and max(each) > NEAR_LOAD * min(each) for each in (known, theirs)]
    nearest = min(known, default=None)
    if sweeps[0] and not sweeps[1] and theirs:
        nearest = min(known, key=lambda load: abs(math.log(load / theirs[0])))
    if nearest is None or sweeps[1]:
        return readings, ()
    kept = readings
    if sweeps[0]:
        kept = [
            reading
            for reading, load in zip(readings, loads, strict=True)
            if load is not None and max(load / nearest, nearest / load) <= NEAR_LOAD
        ]
    took, many = significant(nearest), f"{name} holds runs at several concurrencies"
    if not theirs:
        text = f"{many}, and the other side does not tell its own: {took}, the lowest, was taken"
        return kept, (text,) if sweeps[0] else ()
    if max(nearest / theirs[0], theirs[0] / nearest) > NEAR_LOAD:
        text = f"Another concurrency: {name} {took}, the other side {significant(theirs[0])}"
        return kept, (text,)
    return kept, ()


def _load(reading: Reading) -> float | None:
    return number_of(reading, "max_concurrency", "concurrency")


def _ratio(
    before: list[tuple[float, Reading]], after: list[tuple[float, Reading]], sign: int
) -> Span:
    """exp of the difference of mean logarithms; `sign` −1 where larger is faster."""
    logs = [np.log([value for value, _ in side]) for side in (before, after)]
    middle = sign * float(logs[0].mean() - logs[1].mean())
    if min(side.size for side in logs) >= 2:
        sizes = [side.size for side in logs]
        parts = [float(side.var(ddof=1)) / side.size for side in logs]
        error = math.sqrt(sum(parts))
        # Welch's degrees of freedom; with no spread at all any number does.
        free = sum(parts) ** 2 / max(
            sum(p * p / (n - 1) for p, n in zip(parts, sizes, strict=True)), 1e-300
        )
        half = float(student.ppf(0.5 + LEVEL / 2, max(free, 1.0))) * error
        basis = f"{LEVEL:.0%}, {sizes[0]} and {sizes[1]} runs taken as independent"
        return _span(middle, half, basis)
    errors = [_relative_error(side) for side in (before, after)]
    if sign > 0 and None not in errors:
        half = 1.96 * math.sqrt(sum((e or 0.0) ** 2 for e in errors))
        basis = "95%, requests taken as independent; what differs between two runs is not in it"
        return _span(middle, half, basis)
    basis = f"one run of each, no spread printed: a difference within {UNSEEN:.0%} counts as none"
    return Span(math.exp(middle), None, None, basis)


def _span(middle: float, half: float, basis: str) -> Span:
    return Span(math.exp(middle), math.exp(middle - half), math.exp(middle + half), basis)


def _relative_error(side: list[tuple[float, Reading]]) -> float | None:
    """Standard error of the mean TPOT over requests, relative; of the first run."""
    value, reading = side[0]
    spread, count = reading.fact("std_tpot_ms"), reading.fact("completed")
    if not isinstance(spread, float) or not isinstance(count, float) or count < 2:
        return None
    return spread / 1e3 / math.sqrt(count) / value
