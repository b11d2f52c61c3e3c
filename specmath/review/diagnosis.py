"""Is the drafter broken, or the text hard? Why each threshold: specmath.words.logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specmath.estimate import wilson
from specmath.logs.reading import Reading
from specmath.review.into_scenario import shape_of

__all__ = ["BROKEN", "COLLAPSE", "SOUND", "WEAK", "WEAK_LOOKUP", "Best", "Diagnosis", "diagnose"]

Finding = Literal["sound", "broken", "later positions", "hard text", "weak", "too little"]

FEWEST_DRAFTED = 200
BROKEN = 0.05
WEAK, WEAK_LOOKUP = 0.4, 0.15
SOUND = 0.5
COLLAPSE = 0.6
SPREAD = 0.25
LONGEST_USUAL = 8
"""γ of the longest drafts in common use: α is at most γ times the accepted share."""

NEVER = 0.01
"""Chance that a drafter which is not weak has nothing accepted, below which that tells."""

Level = Literal["first position", "alpha", "at least", "share"]
"""At least: the least α that the counts allow, of drafts that stop early."""


@dataclass(frozen=True)
class Diagnosis:
    """The finding and the numbers it rests on.

    `value` of `level`: the first position's rate, α, or accepted ÷ drafted. `drafted` and
    `interval` where too few were drafted; `position` and `rate` of the worst later position;
    `best`: the best part of the traffic, a window's first rate or a tenth of the requests.
    """

    finding: Finding
    level: Level
    value: float
    drafted: int | None = None
    interval: tuple[float, float] | None = None
    position: int | None = None
    rate: float | None = None
    best: Best | None = None


@dataclass(frozen=True)
class Best:
    """A part of the traffic on which the drafter does well; `measure` None: a window."""

    value: float
    measure: str | None = None


def diagnose(reading: Reading) -> Diagnosis | None:
    """Sound, broken, weak, bad at later positions, or a sound drafter on hard text.

    Judged on the first position's rate where the log has it (no later position has been tried
    without it), else on α, else on the accepted share, which is no more than α. Of drafts that stop
    early on the least α that the counts allow: weak where that is weak, broken only where the most
    is. None where the log tells none of them.

    Examples
    --------
    >>> diagnose(Reading("vllm", "log", survival=(0.02, 0.01), gamma=2)).finding
    'broken'
    """
    value, level = _level(reading)
    if value is None:
        return None
    if level == "share" and BROKEN / LONGEST_USUAL < value < WEAK:
        return None  # α lies between the share and γ times it, and γ is not known
    broken = BROKEN / LONGEST_USUAL if level == "share" else BROKEN
    weak = WEAK_LOOKUP if reading.lookup else WEAK
    drafted = FEWEST_DRAFTED if reading.drafted is None else reading.drafted
    if drafted < FEWEST_DRAFTED:
        steps = float(reading.steps or drafted)
        low, high = map(float, wilson(value, steps))
        if reading.accepted == 0 and (1.0 - weak) ** (drafted / _longest(reading)) < NEVER:
            return Diagnosis("broken", level, value, drafted, (low, high))
        if any(low < bound <= high for bound in (broken, weak)):
            return Diagnosis("too little", level, value, drafted, (low, high))
    if level == "at least" and reading.alpha_interval is not None:
        broken = BROKEN if reading.alpha_interval[1] < BROKEN else 0.0
    if value < broken:
        return Diagnosis("broken", level, value)
    if value < weak:
        part = _best_part(reading)
        return Diagnosis("hard text" if part else "weak", level, value, best=part)
    first, *later = reading.conditional or (0.0,)
    worst = min(later, default=first)
    fixed = shape_of(reading) == "chain"  # an early stop lowers later rates by itself
    if fixed and drafted >= FEWEST_DRAFTED and worst < COLLAPSE * first:
        position = 2 + later.index(worst)
        return Diagnosis("later positions", level, value, position=position, rate=worst)
    return Diagnosis("sound", level, value)


def _longest(reading: Reading) -> float:
    """Drafted tokens of a draft: so many drafts there were at least."""
    if reading.steps and reading.drafted:
        return reading.drafted / reading.steps
    return float(reading.gamma or LONGEST_USUAL)


def _level(reading: Reading) -> tuple[float | None, Level]:
    if reading.survival:
        return reading.survival[0], "first position"
    if reading.alpha_interval is not None and reading.alpha_route in (None, "lower bound"):
        return reading.alpha_interval[0], "at least"
    if reading.alpha is not None:
        return reading.alpha, "alpha"
    return reading.accepted_share, "share"


def _best_part(reading: Reading) -> Best | None:
    """A part of the traffic on which the drafter does well: its best windows or requests."""
    lists = [w.survival[0] for w in reading.windows if w.survival and (w.steps or 0) >= 50]
    if lists and max(lists) >= SOUND and max(lists) - min(lists) >= SPREAD:
        return Best(max(lists))
    requests = reading.requests
    if requests is None:
        return None
    good = requests.p90 if requests.measure == "accepted_share" else requests.p90 - 1.0
    return Best(requests.p90, requests.measure) if good >= SOUND else None
