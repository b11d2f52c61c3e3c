"""Prometheus text dumps: samples, scrapes in order, and the change between them.

Counters only rise; where one falls the server restarted, and its new value counts from zero (as
Prometheus' own increase() takes it). One dump alone holds the totals since the server started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from specmath.logs.engine import LARGEST_COUNT
from specmath.logs.notes import Notes, Place

__all__ = ["Change", "Sample", "Scrapes", "parse_sample"]

Labels = frozenset[tuple[str, str]]
GROUP_LABELS = ("model_name", "model")
MOST_SERIES = 20_000
MOST_STEPS = 4096


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a dump: `labels` without the order they were printed in."""

    name: str
    labels: Labels
    value: float

    def label(self, *names: str) -> str | None:
        """The first of these labels that the sample has."""
        found = dict(self.labels)
        return next((found[name] for name in names if name in found), None)


@dataclass(slots=True)
class Change:
    """Totals of one group (model): by metric name, and by metric name and position."""

    total: dict[str, float] = field(default_factory=dict)
    positions: dict[str, dict[int, float]] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    at: Place | None = None

    def add(self, sample: Sample, name: str, value: float, position: str | None) -> None:
        """Add `value` to the total of `name`, and to its position where it has one."""
        self.total[name] = self.total.get(name, 0.0) + value
        index = _index(position)
        if index is not None:
            places = self.positions.setdefault(name, {})
            places[index] = places.get(index, 0.0) + value

    def count(self, name: str) -> int | None:
        """A total as a count, or None where the dump lacks it."""
        value = self.total.get(name)
        return None if value is None else round(value)

    def by_position(self, name: str) -> list[float]:
        """Values at positions 0, 1, 2, …, up to the first that is missing."""
        places = self.positions.get(name, {})
        first = min(places, default=0)
        values: list[float] = []
        while first + len(values) in places and first <= 1:
            values.append(places[first + len(values)])
        return values


def parse_sample(text: str, notes: Notes, at: Place) -> list[Sample]:
    """The samples of one line; a broken line, nan and negative values are noted and left out."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(text + "\n"))
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
            good.append(Sample(str(sample.name), labels, float(sample.value)))
    return good


class Scrapes:
    """Samples in the order read; a series that comes again, or a new file, begins a new scrape."""

    def __init__(self, notes: Notes, gauges: Collection[str] = ()) -> None:
        self.notes = notes
        self.count = 0
        self._gauges = frozenset(gauges)
        self._now: dict[tuple[str, Labels], float] = {}
        self._last: dict[tuple[str, Labels], float] = {}
        self._created: dict[tuple[str, Labels], float] = {}
        self._source = -1
        self._at: Place | None = None
        self._steps: dict[str, list[Change]] = {}
        self._first: dict[str, Change] = {}
        self._latest: dict[str, Change] = {}

    def add(self, text: str, at: Place) -> None:
        """Take one line of a dump."""
        for sample in parse_sample(text, self.notes, at):
            key = (sample.name, sample.labels)
            if key in self._now or (self._now and at.order != self._source):
                self._close()
            if len(self._now) >= MOST_SERIES:
                self.notes.add(f"more than {MOST_SERIES} series in one scrape: the rest left out")
                return
            self._now[key] = sample.value
            self._source, self._at = at.order, self._at or at

    def _close(self) -> None:
        """End the scrape: change since the one before, series by series."""
        now, at = self._now, self._at
        self._now, self._at = {}, None
        if not now:
            return
        created = {k: v for k, v in now.items() if k[0].endswith("_created")}
        backwards = self._backwards(now, created, at)
        step: dict[str, Change] = {}
        whole: dict[str, Change] = {}
        for (name, labels), value in now.items():
            if name.endswith("_created"):
                continue
            sample = Sample(name, labels, value)
            group = sample.label(*GROUP_LABELS) or ""
            here = whole.setdefault(group, Change(at=at))
            delta = step.setdefault(group, Change(at=at))
            position = sample.label("position", "token_position", "le", "quantile")
            if name in self._gauges:
                index = _index(position)
                key = name if position is None else f"{name}|{index}"
                here.gauges[key] = delta.gauges[key] = value
                continue
            before = self._last.get((name, labels), 0.0)
            base = _base(name)
            here.add(sample, base, value, position)
            if backwards:
                delta.add(sample, base, before - value, position)
            else:
                delta.add(sample, base, value - before if value >= before else value, position)
        self._keep(step, whole)
        self._last, self._created = now, created

    def _keep(self, step: Mapping[str, Change], whole: dict[str, Change]) -> None:
        if not self.count:
            self._first = whole
        else:
            for group, change in step.items():
                kept = self._steps.setdefault(group, [])
                kept.append(change)
                if len(kept) > MOST_STEPS:
                    self._steps[group] = [_joined(kept[i : i + 2]) for i in range(0, len(kept), 2)]
        self._latest = whole
        self.count += 1

    def _backwards(
        self,
        now: Mapping[tuple[str, Labels], float],
        created: Mapping[tuple[str, Labels], float],
        at: Place | None,
    ) -> bool:
        """Whether this scrape is older than the last: the same server start, lower counters."""
        counters = [k for k in now if k in self._last and not k[0].endswith("_created")]
        counters = [k for k in counters if k[0] not in self._gauges]
        fell = [k for k in counters if now[k] < self._last[k]]
        if not fell:
            return False
        starts = [k for k in created if k in self._created]
        same_start = bool(starts) and all(created[k] == self._created[k] for k in starts)
        rose = any(now[k] > self._last[k] for k in counters)
        if same_start and not rose and self.count == 1:
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

    def changes(self) -> dict[str, tuple[Change, list[Change]]]:
        """(total, steps) of each group: the sum of changes, or one dump's totals since start."""
        self._close()
        if self.count <= 1:
            return {group: (change, []) for group, change in self._first.items()}
        result = {}
        for group, steps in self._steps.items():
            total = _joined(steps)
            latest = self._latest.get(group)
            total.gauges = latest.gauges if latest is not None else {}
            result[group] = (total, steps)
        return result


def _index(label: str | None) -> int | None:
    """A position label as a whole number: "3", or "3.0" as bucket bounds are printed."""
    if label is None or not label.isascii() or len(label) > 8:
        return None
    digits = label.removesuffix(".0")
    return int(digits) if digits.isdigit() else None


def _base(name: str) -> str:
    """A counter's name without the suffix that exposition adds."""
    return name.removesuffix("_total")


def _joined(changes: list[Change]) -> Change:
    total = Change(at=changes[0].at)
    for change in changes:
        for name, value in change.total.items():
            total.total[name] = total.total.get(name, 0.0) + value
        for name, places in change.positions.items():
            sums = total.positions.setdefault(name, {})
            for position, value in places.items():
                sums[position] = sums.get(position, 0.0) + value
        total.gauges.update(change.gauges)
    return total
