"""Are two runs alike but for the change? What differs, and whether it bars a decision.

Two servers under other load, other models or other traffic differ in speed whatever speculation
does, so nothing is kept or rolled back on them. Load is alike where the clients say so, where a
queue stood in both runs (each ran what fits), where as many requests ran, or where both served
the same tokens per second (one request rate: a faster server runs fewer at a time).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from specmath.logs.reading import Reading
from specmath.review.observed import NEAR_LOAD, number_of, queued

__all__ = ["Difference", "OtherLoad", "at_load_of", "unlike"]

LOAD = ("max_concurrency", "concurrency")
CLIENTS = ("guidellm", "aiperf")
"""What reads as an engine and is a client of one."""
MUST_AGREE = (
    (("backend",), "engine"),
    (("model_id", "model"), "model"),
    (("version",), "engine version"),
    (("dataset_name",), "traffic"),
)
NEAR_LENGTH, OTHER_LENGTH = 1.05, 1.25
"""Mean lengths within the first factor are alike; beyond the second they are other traffic."""


@dataclass(frozen=True)
class Difference:
    """A fact that differs between two runs besides the change: `what`, before and after; both None
    where a fact that should agree is not printed. `bars`: no decision stands on such a pair."""

    what: str
    before: float | str | None = None
    after: float | str | None = None
    bars: bool = False


def unlike(before: Sequence[Reading], after: Sequence[Reading]) -> list[Difference]:
    """What differs between the runs besides the change itself."""
    first, last = before[0], after[0]
    found = []
    if first.engine != last.engine and not {first.engine, last.engine} & {*CLIENTS, "unknown"}:
        found.append(Difference("engine", first.engine, last.engine, bars=True))
    for names, word in MUST_AGREE:
        one, other = _text(first, names), _text(last, names)
        if one is not None and other is not None and not _same(one, other):
            found.append(Difference(word, one, other, bars=True))
    untold = [
        not side.speculates and side.fact("speculation") is not None for side in (first, last)
    ]
    if any(
        untold
    ):  # a BEFORE that tells nothing is taken as plain; of such an AFTER nothing follows
        words = ["not told" if each else "told" for each in untold]
        found.append(Difference("speculation", words[0], words[1], bars=untold[1]))
    found += _load(first, last)
    restarts = [number_of(side, "restarts") or 0.0 for side in (first, last)]
    if any(restarts):
        found.append(Difference("restarts", restarts[0], restarts[1], bars=True))
    seeds = [side.fact("seed") for side in (first, last)]
    if seeds == [None, None]:
        found.append(Difference("seed"))
    elif None not in seeds and seeds[0] != seeds[1]:
        found.append(Difference("seed", seeds[0], seeds[1]))
    for word, was, now in (
        ("input length", first.service.prompt_tokens, last.service.prompt_tokens),
        ("output length", first.service.output_tokens, last.service.output_tokens),
    ):
        if _apart((was, now), NEAR_LENGTH):
            found.append(Difference(word, was, now, bars=_apart((was, now), OTHER_LENGTH)))
    return list(dict.fromkeys(found))


def _text(reading: Reading, names: Sequence[str]) -> str | None:
    values = (reading.fact(name) for name in names)
    return next((value for value in values if isinstance(value, str)), None)


def _same(one: str, other: str) -> bool:
    """Whether two names are one: the owner before a slash may be left out, and case differ."""
    names = [re.split(r"[/\\]", name.rstrip("/\\"))[-1].casefold() for name in (one, other)]
    return names[0] == names[1]


# ── load ──────────────────────────────────────────────────────────────────────────────────────


def _load(first: Reading, last: Reading) -> list[Difference]:
    """A load that differs: the client's where both tell it, else what the servers show."""
    found = []
    rates = [number_of(side, "request_rate") for side in (first, last)]
    if _apart(rates):
        found.append(Difference("request rate", rates[0], rates[1], bars=True))
    told = [number_of(side, *LOAD) for side in (first, last)]
    if None not in told:
        if _apart(told):
            found.append(Difference("concurrency", told[0], told[1], bars=True))
        return found
    running, made = (
        [getattr(side.service, name) for side in (first, last)]
        for name in ("running", "generated_per_second")
    )
    same_rate = None not in made and not _apart(made)
    if _apart(running) and not same_rate and not all(map(queued, (first, last))):
        found.append(Difference("requests running", running[0], running[1], bars=True))
    return found


@dataclass(frozen=True)
class OtherLoad:
    """What was chosen among runs of several loads: `took` of side `name`, `other` where told."""

    name: str
    took: float
    other: float | None


def at_load_of(
    name: str, readings: Sequence[Reading], other: Sequence[Reading]
) -> tuple[Sequence[Reading], OtherLoad | None]:
    """Of runs at several concurrencies (a sweep) those nearest to the load of `other`; and what a
    reader must know of that choice.

    As they are where they are all of one load, or where both sides are sweeps. Where the other
    side does not tell its concurrency, the lowest.
    """
    told = [(one, load) for one in readings if (load := number_of(one, *LOAD)) is not None]
    known = [load for _, load in told]
    theirs = [load for one in other if (load := number_of(one, *LOAD)) is not None]
    sweeps = [bool(each) and not _near(min(each), max(each)) for each in (known, theirs)]
    nearest = min(known, default=None)
    if sweeps[0] and not sweeps[1] and theirs:
        nearest = min(known, key=lambda load: abs(math.log(load / theirs[0])))
    if nearest is None or sweeps[1]:
        return readings, None
    if sweeps[0]:
        readings = [one for one, load in told if _near(load, nearest)]
    if not theirs:
        return readings, OtherLoad(name, nearest, None) if sweeps[0] else None
    alike = _near(nearest, theirs[0])
    return readings, None if alike else OtherLoad(name, nearest, theirs[0])


def _near(one: float, other: float) -> bool:
    return not _apart((one, other))


def _apart(pair: Sequence[float | None], factor: float = NEAR_LOAD) -> bool:
    """Whether two numbers that are both told lie further apart than by `factor`."""
    known = [value for value in pair if value is not None]
    return len(known) == 2 and max(known) > factor * min(known)
