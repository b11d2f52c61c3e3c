"""How fast two runs were, one or several of each.

    observed speedup = mean TPOT before / mean TPOT after      (or tokens/s after / before)

A time per token is a request's; tokens per second are the server's. Where a queue stood in both
runs, the server's count: what a request gains while fewer of them fit is no gain.

Its interval comes from the spread over runs where there are several of each (Student's t on the
logarithm), else from the printed standard deviation over requests, else there is none and a
difference under 5% counts as none: two runs of the same server easily differ by that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from specmath.checks import real
from specmath.estimate import Z95, Basis, Estimate
from specmath.logs.reading import Reading
from specmath.logs.service import Service

__all__ = [
    "NEAR_LOAD", "UNSEEN", "Measure", "Speed", "at_levels", "compared", "number_of",
    "observed_speedup", "queued", "speed_of", "throughput_of", "tokens_per_pass", "tpot_of",
]  # fmt: skip

UNSEEN = 0.05
PLAUSIBLE = 1e-6, 1e12
"""A time per token in ms or tokens a second outside this is a slip of the pen."""
LEVEL = 0.95
NEAR_LOAD = 1.25
"""Two concurrencies within this factor are one load."""

FEWEST_LINES = 5
"""Printed lines at a level of load on each side, below which it says nothing."""

Measure = Literal["time per token", "throughput"]

# ── one run ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Speed:
    """Speculation against plain decoding, as observed. `plain_tpot` in seconds where known."""

    speedup: float
    plain_tpot: float | None
    basis: str


def number_of(reading: Reading | None, *names: str) -> float | None:
    """The first of these facts that is a number above 0."""
    values = () if reading is None else map(reading.fact, names)
    return next((v for v in values if isinstance(v, float) and v > 0), None)


def tpot_of(reading: Reading | None) -> float | None:
    """Mean time per output token of a request, seconds, as told, or running ÷ tokens per second."""
    return None if reading is None else reading.service.seconds_per_token


def throughput_of(reading: Reading | None) -> float | None:
    """Tokens per second of the server; of an engine that tells one sequence's, those."""
    if reading is None:
        return None
    return reading.service.generated_per_second or number_of(reading, "tokens_per_second")


def speed_of(
    reading: Reading, *, plain: Reading | None = None, plain_ms: float | None = None,
    plain_tokens_per_second: float | None = None, ms: float | None = None,
    tokens_per_second: float | None = None,
) -> Speed | None:  # fmt: skip
    """Speculation against plain decoding, from whichever pair of like numbers is there.

    Parameters
    ----------
    reading
        The run with speculation.
    plain
        A plain run beside it, whose numbers serve as well.
    plain_ms, ms
        Time per output token (for plain decoding ITL and TPOT are the same).
    plain_tokens_per_second, tokens_per_second
        Of one sequence or of the server, the same for both.

    Returns
    -------
    Speed | None
        None where no pair is complete.

    Raises
    ------
    InputError
        A number not > 0.

    Examples
    --------
    >>> speed_of(Reading("vllm", "log"), plain_ms=25, ms=12.5).speedup
    2.0
    """
    given = {"plain_ms": plain_ms, "plain_tokens_per_second": plain_tokens_per_second,
             "ms": ms, "tokens_per_second": tokens_per_second}  # fmt: skip
    for name, value in given.items():
        if value is not None:
            real(name, value, *PLAUSIBLE)
    before = plain_ms / 1e3 if plain_ms is not None else tpot_of(plain)
    after = ms / 1e3 if ms is not None else tpot_of(reading)
    if before is not None and after is not None:
        return Speed(before / after, before, "plain TPOT over TPOT")
    slow = plain_tokens_per_second or throughput_of(plain)
    fast = tokens_per_second or throughput_of(reading)
    if slow is not None and fast is not None:
        return Speed(fast / slow, before, "tokens per second over plain tokens per second")
    return None


def tokens_per_pass(reading: Reading) -> float | None:
    """Tokens that a decode pass of a sequence emits, drafted or not; None where nothing tells."""
    if reading.tokens_per_pass is not None or reading.tokens_per_step is None:
        return reading.tokens_per_pass
    share = 1.0 if reading.coverage is None else reading.coverage
    return share * reading.tokens_per_step + 1.0 - share


# ── two sides of a change ────────────────────────────────────────────────────────────────────


_MEASURES: dict[Measure, tuple[Callable[[Reading], float | None], int]] = {
    "time per token": (tpot_of, 1),
    "throughput": (throughput_of, -1),
}
QUEUED = 1.0
"""Requests waiting, on average, that make a queue."""


def queued(reading: Reading) -> bool:
    """Whether a queue stood: the server ran as many requests as it could."""
    return (reading.service.waiting or 0.0) >= QUEUED


def observed_speedup(
    before: Sequence[Reading], after: Sequence[Reading]
) -> tuple[Estimate, Measure] | None:
    """(speedup of AFTER, what it is measured by); None where the sides tell no like numbers."""
    order: list[Measure] = ["time per token", "throughput"]
    if all(map(queued, (*before, *after))):
        order.reverse()
    found = ((compared(before, after, label), label) for label in order)
    return next(((ratio, label) for ratio, label in found if ratio is not None), None)


def compared(before: Sequence[Reading], after: Sequence[Reading], by: Measure) -> Estimate | None:
    """Speedup of AFTER by one measure; None where a side does not tell it."""
    measure, sign = _MEASURES[by]
    first, last = (
        [(value, one) for one in side if (value := measure(one)) is not None]
        for side in (before, after)
    )
    return _ratio(first, last, sign) if first and last else None


def at_levels(before: Service, after: Service) -> tuple[float, tuple[int, int], int] | None:
    """(speedup of a request at matched load, the numbers running from and to, lines of the thinner
    side) of two logs that print tokens per second at many numbers of running requests.

    Numbers within NEAR_LOAD of each other are one level; each counts by its thinner side. None
    where no level has FEWEST_LINES lines on both sides.
    """
    sides = [_levels(service) for service in (before, after)]
    shared = {
        level: min(sides[0][level][0], sides[1][level][0])
        for level in sides[0].keys() & sides[1].keys()
    }
    shared = {level: lines for level, lines in shared.items() if lines >= FEWEST_LINES}
    if not shared:
        return None
    weights = list(shared.values())
    logs = [math.log(sides[1][level][1] / sides[0][level][1]) for level in shared]
    mean = float(np.average(logs, weights=weights))
    span = [
        round(NEAR_LOAD ** (level + half))
        for level, half in ((min(shared), -0.5), (max(shared), 0.5))
    ]
    return math.exp(mean), (span[0], span[1]), sum(weights)


def _levels(service: Service) -> dict[int, tuple[int, float]]:
    """Level → (lines, tokens per second of one request)."""
    found: dict[int, tuple[int, float, float]] = {}
    for each in service.levels:
        level = round(math.log(each.running) / math.log(NEAR_LOAD))
        lines, running, generated = found.get(level, (0, 0.0, 0.0))
        found[level] = (
            lines + each.lines, running + each.lines * each.running,
            generated + each.lines * each.generated_per_second,
        )  # fmt: skip
    return {
        level: (lines, generated / running)
        for level, (lines, running, generated) in found.items()
        if generated > 0
    }


def _ratio(
    before: list[tuple[float, Reading]], after: list[tuple[float, Reading]], sign: int
) -> Estimate:
    """exp of the difference of mean logarithms; `sign` −1 where larger is faster."""
    logs = [np.log([value for value, _ in side]) for side in (before, after)]
    middle = sign * float(logs[0].mean() - logs[1].mean())
    errors = [_relative_error(*side[0]) for side in (before, after)]
    sizes = [side.size for side in logs]
    if min(sizes) >= 2:
        parts = [float(side.var(ddof=1)) / side.size for side in logs]
        # Welch's degrees of freedom; with no spread at all any number does.
        squares = sum(p * p / (n - 1) for p, n in zip(parts, sizes, strict=True))
        free = sum(parts) ** 2 / max(squares, 1e-300)
        half = float(stdtrit(max(free, 1.0), 0.5 + LEVEL / 2)) * math.sqrt(sum(parts))
        basis = f"{LEVEL:.0%}, {sizes[0]} and {sizes[1]} runs taken as independent"
    elif sign > 0 and None not in errors:
        half = Z95 * math.sqrt(sum((e or 0.0) ** 2 for e in errors))
        basis = "95%, requests taken as independent; what differs between two runs is not in it"
    else:
        basis = (
            f"one run of each, no spread printed: a difference within {UNSEEN:.0%} counts as none"
        )
        return Estimate(math.exp(middle), None, Basis("measured", basis))
    ends = math.exp(middle), math.exp(middle - half), math.exp(middle + half)
    return Estimate.between(*ends, Basis("measured", basis))


def _relative_error(value: float, reading: Reading) -> float | None:
    """Standard error of the mean TPOT over requests, relative."""
    told = reading.service.tpot
    if told is None or told.std is None or told.count is None or told.count < 2:
        return None
    return told.std / math.sqrt(told.count) / value
