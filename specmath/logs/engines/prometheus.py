"""Prometheus text dumps: samples, scrapes in order, and the change between them, lane by lane.

Counters only rise; where one falls the server restarted, and its new value counts from zero (as
Prometheus' own increase() takes it). One dump alone holds the totals since the server started.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from specmath.logs.engines.base import LARGEST_COUNT
from specmath.logs.reading import Lane
from specmath.logs.stream import LogLine, Notes

__all__ = ["Change", "Scrapes", "joined", "parse_sample", "side_by_side"]

Series = tuple[str, frozenset[tuple[str, str]]]
"""A metric's name and its labels, without the order they were printed in."""

MOST_SERIES = 20_000
MOST_STEPS = 4096
LANE_LABELS = {
    "model": ("model_name", "model"),
    "engine": ("engine",),
    "rank": ("dp_rank",),
    "host": ("pod", "instance", "hostname"),
}
"""Labels that tell servers apart, by the names of a Lane; the first that there is."""


@dataclass(slots=True)
class Change:
    """Totals of one lane, by metric name and place (position, bound of a bucket; None where it
    has none). `gauges` as they last stood; `levels` their sums and how many scrapes held them."""

    totals: dict[tuple[str, float | None], float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    levels: dict[str, tuple[float, int]] = field(default_factory=dict)
    at: LogLine | None = None

    def add(self, name: str, value: float, position: float | None) -> None:
        """Add `value` to the total of `name` at its position."""
        self.totals[name, position] = self.totals.get((name, position), 0.0) + value

    def total(self, name: str) -> float | None:
        """The sum over positions, or None where the dump lacks it."""
        found = [value for (own, _), value in self.totals.items() if own == name]
        return sum(found) if found else None

    def count(self, name: str) -> int | None:
        """A total as a count, or None where the dump lacks it."""
        value = self.total(name)
        return None if value is None else round(value)

    def level(self, name: str) -> float | None:
        """A gauge's mean over scrapes, or None where the dump lacks it."""
        total, scrapes = self.levels.get(name, (0.0, 0))
        return total / scrapes if scrapes else None

    def at_places(self, name: str) -> dict[float, float]:
        """Values by place."""
        return {p: v for (own, p), v in self.totals.items() if own == name and p is not None}

    def by_position(self, name: str) -> list[float]:
        """Values at positions 0, 1, 2, …, up to the first that is missing."""
        places = self.at_places(name)
        first = int(min(places, default=0))
        values: list[float] = []
        while first + len(values) in places and first <= 1:
            values.append(places[first + len(values)])
        return values


def parse_sample(text: str, notes: Notes, at: LogLine) -> list[tuple[Series, float]]:
    """The samples of one line; a broken line, nan and negative values are noted and left out."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = text_string_to_metric_families(text + "\n")
        found = [sample for family in families for sample in family.samples]
    # The parser raises whatever a malformed line trips it into, not one error of its own.
    except Exception:
        notes.add("a broken metrics line was left out", at)
        return []
    good = []
    for sample in found:
        if not 0 <= sample.value <= LARGEST_COUNT:
            notes.add(f"{sample.name} is {sample.value}: left out", at)
        else:
            labels = frozenset((str(k), str(v)) for k, v in sample.labels.items())
            good.append(((str(sample.name), labels), float(sample.value)))
    return good


class Scrapes:
    """Samples in the order read; a series that comes again, or a new file, begins a new scrape."""

    def __init__(self, notes: Notes, gauges: Collection[str] = ()) -> None:
        self.notes = notes
        self.count = 0
        self._gauges = frozenset(gauges)
        self._now: dict[Series, float] = {}
        self._last: dict[Series, float] = {}
        self._source = -1
        self._at: LogLine | None = None
        self._steps: dict[Lane, list[Change]] = {}
        self._latest: dict[Lane, Change] = {}

    def add(self, text: str, at: LogLine) -> None:
        """Take one line of a dump."""
        for key, value in parse_sample(text, self.notes, at):
            if key in self._now or (self._now and at.order != self._source):
                self._close()
            if len(self._now) >= MOST_SERIES:
                self.notes.add(f"more than {MOST_SERIES} series in one scrape: the rest left out")
                return
            self._now[key] = value
            self._source, self._at = at.order, self._at or at

    def _close(self) -> None:
        """End the scrape: change since the one before, series by series."""
        now, at = self._now, self._at
        self._now, self._at = {}, None
        if not now:
            return
        backwards = self._backwards(now, at)
        step: dict[Lane, Change] = {}
        whole: dict[Lane, Change] = {}
        for (name, labels), value in now.items():
            if name.endswith("_created"):
                continue
            lane = _lane(labels)
            here, delta = (kept.setdefault(lane, Change(at=at)) for kept in (whole, step))
            label = _label(labels, "position", "token_position", "le", "quantile")
            place = _place(label)
            if name in self._gauges:
                key = name if place is None else f"{name}|{place:g}"
                here.gauges[key] = delta.gauges[key] = value
                here.levels[key] = delta.levels[key] = value, 1
                continue
            before = self._last.get((name, labels), 0.0)
            change = value - before if value >= before else value
            base = name.removesuffix("_total")
            here.add(base, value, place)
            delta.add(base, before - value if backwards else change, place)
        for lane, new in step.items() if self.count else ():
            kept = self._steps.setdefault(lane, [])
            kept.append(new)
            if len(kept) > MOST_STEPS:
                self._steps[lane] = [joined(kept[i : i + 2]) for i in range(0, len(kept), 2)]
        self._latest, self._last = whole, now
        self.count += 1

    def _backwards(self, now: Mapping[Series, float], at: LogLine | None) -> bool:
        """Whether this scrape is older than the last: the same server start, lower counters."""
        rise = {key: now[key] - self._last[key] for key in now.keys() & self._last.keys()}
        created = [rise[key] for key in rise if key[0].endswith("_created")]
        counters = [
            rise[key]
            for key in rise
            if not key[0].endswith("_created") and key[0] not in self._gauges
        ]
        if min(counters, default=0.0) >= 0.0:
            return False
        if created and not any(created) and max(counters) <= 0.0 and self.count == 1:
            self.notes.add(
                "the second dump is the older one (lower counters, same _created time): taken in "
                "the order older, newer",
                at,
            )
            return True
        self.notes.add(
            "counters fall here: the server restarted, so they count from zero again (or the "
            "dumps are not in order of time)",
            at,
        )
        return False

    def changes(self) -> dict[Lane, tuple[Change, list[Change]]]:
        """(total, steps) of each lane: the sum of changes, or one dump's totals since start."""
        self._close()
        if self.count <= 1:
            return {lane: (change, []) for lane, change in self._latest.items()}
        result = {}
        for lane, steps in self._steps.items():
            total = joined(steps)
            total.gauges = self._latest[lane].gauges if lane in self._latest else {}
            result[lane] = (total, steps)
        return result


def _label(labels: frozenset[tuple[str, str]], *names: str) -> str | None:
    """The first of these labels that there is."""
    found = dict(labels)
    return next((found[name] for name in names if name in found), None)


def _lane(labels: frozenset[tuple[str, str]]) -> Lane:
    told = {name: _label(labels, *keys) for name, keys in LANE_LABELS.items()}
    return Lane(**{name: text[:100] for name, text in told.items() if text})


def _place(label: str | None) -> float | None:
    """A position ("3") or a bucket's bound ("0.25", "+Inf") as a number."""
    if label is None or not label.isascii() or len(label) > 24:
        return None
    try:
        value = float(label)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def joined(changes: Sequence[Change]) -> Change:
    """Changes one after another as one."""
    total = Change(at=changes[0].at)
    for change in changes:
        for (name, place), value in change.totals.items():
            total.add(name, value, place)
        total.gauges.update(change.gauges)
        for name, (value, scrapes) in change.levels.items():
            before, many = total.levels.get(name, (0.0, 0))
            total.levels[name] = before + value, many + scrapes
    return total


def side_by_side(lanes: Sequence[tuple[Change, list[Change]]]) -> tuple[Change, list[Change]]:
    """(total, steps) of several lanes of one time as one."""
    steps = [joined(same) for same in zip(*(steps for _, steps in lanes), strict=False)]
    return joined([total for total, _ in lanes]), steps
