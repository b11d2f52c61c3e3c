"""The speedup that two sides of a change show, each one or several runs.

    observed speedup = mean TPOT before / mean TPOT after      (or tokens/s after / before)

Its interval comes from the spread over runs where there are several of each (Student's t on the
logarithm), else from the printed standard deviation over requests, else there is none and a
difference under 5% counts as none: two runs of the same server easily differ by that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from specmath.logs.record import Reading

__all__ = ["UNSEEN", "Span", "observed_speedup"]

UNSEEN = 0.05
LEVEL = 0.95
LATENCY = ("mean_tpot_ms",)
THROUGHPUT = ("output_throughput", "tokens_per_second")


@dataclass(frozen=True)
class Span:
    """A number with its interval; `basis` says what the interval covers, or that there is none."""

    value: float
    low: float | None
    high: float | None
    basis: str


def _values(readings: Sequence[Reading], names: Sequence[str]) -> list[tuple[float, Reading]]:
    found = []
    for reading in readings:
        for name in names:
            value = reading.fact(name)
            if isinstance(value, float) and value > 0:
                found.append((value, reading))
                break
    return found


def observed_speedup(
    before: Sequence[Reading], after: Sequence[Reading]
) -> tuple[Span, str] | None:
    """(speedup of AFTER, what it is measured by); None where the sides tell no like numbers."""
    for names, label, sign in ((LATENCY, "time per token", 1), (THROUGHPUT, "throughput", -1)):
        pair = _values(before, names), _values(after, names)
        if pair[0] and pair[1]:
            return _ratio(pair[0], pair[1], sign), label
    return None


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
    return spread / math.sqrt(count) / value
