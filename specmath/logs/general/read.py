"""Readings of what no known format reads: records resolved by identities, alike ones together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from specmath.logs.carriers import (
    json_in,
    quoted,
    strings_and_objects,
    without_escapes,
    without_prefix,
)
from specmath.logs.columns import plain_text, timestamp
from specmath.logs.counts import Spread, Tally, make_reading
from specmath.logs.engines.base import drafter
from specmath.logs.general.identities import Resolved, resolve
from specmath.logs.general.names import name_of
from specmath.logs.general.records import Cell, Record, Records, json_record
from specmath.logs.general.speed_bench import SpeedBench
from specmath.logs.reading import Counts, Extras, Reading
from specmath.logs.stream import LogLine

__all__ = ["General"]

MOST_BYTES = 32 << 20
MOST_READINGS = 64
MOST_GROUPS = 256
LONGEST_LINE = 1 << 20
SHORT = 1 << 16
"""A piece shorter than that is not searched for names first: it costs nothing."""
FEWEST_RISING = 5
# What names nothing of speculation holds none of these.
_STEMS = (
    b"ccept", b"CCEPT", b"raft", b"pecul", b"spec", b"ropos", b"erif", b"acc=", b"acc:", b"mitted",
    b"model step", b"a.len", b" acc ", b"|acc",
)  # fmt: skip
_KIND = re.compile(
    r"(?i)dflash|dspark|medusa|p-?eagle|eagle-?3?|mtp|ngram|n-gram|suffix|lookup|lookahead|pard"
)
_ALL = re.compile(r"(?i)^\W*(?:overall|total|all|aggregate|average|avg|mean|sum)\b")


@dataclass
class _Group:
    """Records of one shape: their sum, and whether they are totals that rise."""

    first: Resolved
    record: Record
    tally: Tally = field(default_factory=Tally)
    spread: Spread = field(default_factory=lambda: Spread("accepted_share"))
    last: Resolved | None = None
    count: int = 0
    rising: bool = True
    changed: bool = False
    generated: int | None = 0
    tokens: float = 0.0
    seconds: float = 0.0
    gammas: set[int] = field(default_factory=set)

    def add(self, one: Resolved, record: Record) -> None:
        """One more record."""
        before = self.last
        if before is not None:
            pairs = [
                (a, b)
                for a, b in (
                    (before.steps, one.steps), (before.drafted, one.drafted),
                    (before.accepted, one.accepted),
                )
                if a is not None and b is not None
            ]  # fmt: skip
            self.rising &= all(a <= b for a, b in pairs)
            self.changed |= any(a != b for a, b in pairs)
        self.last = one
        self.count += 1
        if one.gamma is not None and len(self.gammas) < 64:
            self.gammas.add(one.gamma)
        rates = one.survival or ()
        self.tally.add(
            record.at.line, timestamp(record.text), steps=one.steps or 0,
            drafted=one.drafted or 0, accepted=one.accepted or 0, survival=rates,
        )  # fmt: skip
        if one.drafted:
            self.spread.add((one.accepted or 0) / one.drafted)
        self.generated = (
            None if self.generated is None or one.generated is None
            else self.generated + one.generated
        )  # fmt: skip
        if speed := one.beside.get("tokens_per_second"):
            tokens = float(one.generated or 1)
            self.tokens, self.seconds = self.tokens + tokens, self.seconds + tokens / speed

    @property
    def running(self) -> bool:
        """Whether the records are totals so far, each of which holds those before it."""
        named = self.first.total and self.count > 1
        return self.rising and self.changed and (named or self.count >= FEWEST_RISING)


class General:
    """Takes lines, keeps groups of records alike.

    `place` is any place of the source; `known` says of a line that a known format reads it.
    `unsure`: names of speculation that no identity confirmed, with their first places.
    """

    def __init__(self, place: LogLine, known: Callable[[str], bool]) -> None:
        self.place, self.known = place, known
        self.unsure: dict[str, LogLine] = {}
        self._records = Records()
        self._groups: dict[tuple[object, ...], _Group] = {}
        self._rows: list[tuple[Resolved, Record]] = []
        self._plain: tuple[float | None, float | None] = (None, None)
        self._speed_bench = SpeedBench()

    def read(self, pieces: Iterable[tuple[int, bytes]]) -> list[Reading]:
        """The readings of a source, given as (number of the first line, whole lines)."""
        size, before = 0, False
        for first, piece in pieces:
            size += len(piece)
            if size > MOST_BYTES:
                cut = f"only the first {MOST_BYTES >> 20} MiB of this log were read by meaning"
                return [one.warned(cut) for one in self.readings()]
            named = len(piece) < SHORT or any(stem in piece for stem in _STEMS)
            if not (named or before):  # a table may go on in the next piece
                continue
            before = named
            text = without_escapes(piece) if b"\x1b" in piece else piece
            for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), start=first):
                if len(line) <= LONGEST_LINE:
                    self.line(plain_text(line), self.place._replace(line=number))
        return list(self.readings())

    def line(self, text: str, at: LogLine) -> None:
        """One line of the log, or the lines that it carries."""
        value = json_in(text) if text.endswith(("}", "]")) and '{"' in text else None
        if isinstance(value, (dict, list)):
            for item in strings_and_objects(value):
                if isinstance(item, str):
                    for line in item.split("\n"):
                        self._line(line.strip(), at)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, dict) and not self.known(text):
                    self._take(json_record(item, at))
            return
        message = quoted(text) if '="' in text else None
        self._line(message if message and any(map(str.isdigit, message)) else text, at)

    def _line(self, text: str, at: LogLine) -> None:
        text = without_prefix(text)
        if text and self.known(text):
            return
        for record in self._records.line(text, at):
            self._take(record)

    def _take(self, record: Record) -> None:
        found, unsure = resolve(record)
        if found is None:
            for name in unsure if len(self.unsure) < 12 else ():
                self.unsure.setdefault(name, record.at)
            if record.kind == "row" and not self._speed_bench.take(record):
                self._plain_row(record)
            return
        record.used = True
        if record.kind == "row" and ("gamma" in found.names or not found.counted):
            if len(self._rows) < MOST_READINGS:
                self._rows.append((found, record))
            return
        if record.kind == "row" and _ALL.match(record.label):
            return
        names = tuple(sorted(found.names.items()))
        key = (record.engine, record.kind, names, _kind_in(record.text))
        if key not in self._groups and len(self._groups) >= MOST_GROUPS:
            return
        group = self._groups.setdefault(key, _Group(found, record))
        group.add(found, record)

    def _plain_row(self, record: Record) -> None:
        """The row of a table in which nothing was drafted, with its speed and step time."""
        values: dict[str, Cell] = {}
        for cell in record.cells:
            for meaning in name_of(cell.name).meanings:
                values.setdefault(meaning, cell)
        gamma = values.get("gamma")
        said = re.search(
            r"(?i)\b(?:base(?:line)?|plain|off|none|vanilla|no spec\w*)\b", record.label
        )
        if (gamma is not None and gamma.value == 0) or (gamma is None and said):
            speed, step = values.get("speed"), values.get("step_ms")
            self._plain = speed.value if speed else None, step.value if step else None

    def readings(self) -> Iterator[Reading]:
        """What was confirmed, after the last line."""
        for record in self._records.end():
            self._take(record)
        for scrapes in self._records.pages.values():
            self._take(_change(scrapes))
        yield from self._table()
        if (bench := self._speed_bench.reading()) is not None:
            yield bench
        groups = list(self._groups.values())
        sums = [(g.tally.drafted, g.tally.accepted) for g in groups]
        for i, group in enumerate(groups):
            same = [j for j, pair in enumerate(sums) if pair == sums[i] and j != i]
            worth = (group.first.steps is not None, group.count, -i)
            if any((groups[j].first.steps is not None, groups[j].count, -j) > worth for j in same):
                continue
            yield _reading(group)

    def _table(self) -> Iterator[Reading]:
        plain_speed, plain_step = self._plain
        rows = [_with_plain(one, plain_speed, plain_step) for one, _ in self._rows]
        speed = {row.gamma: row.beside.get("speedup") for row in rows}
        told = {gamma: value for gamma, value in speed.items() if value is not None and gamma}
        best = max(told, key=lambda gamma: told[gamma] or 0.0) if len(told) > 1 else None
        each = {name: value for row in rows for name, value in _at_gamma(row) if len(told) > 1}
        for one, (_, record) in zip(rows, self._rows, strict=True):
            one.beside.update(each)
            if best is not None:
                one.beside["best_gamma"] = float(best)
                one.beside["best_speedup"] = told[best] or 0.0
            label = f"k={one.gamma}" if one.gamma is not None else record.label
            yield _made(one, record, f"table row {label[:40]}")


def _at_gamma(row: Resolved) -> Iterator[tuple[str, float]]:
    """What a row of a swept table says of its γ, for the readings of the other rows."""
    speed, cost, tokens = (
        row.beside.get("speedup"),
        row.beside.get("step_cost"),
        row.tokens_per_step,
    )
    if row.gamma and speed and cost and tokens:
        yield f"tokens_per_step_at_{row.gamma}", tokens
        yield f"step_cost_at_{row.gamma}", cost
        yield f"speedup_at_{row.gamma}", speed


def _with_plain(one: Resolved, speed: float | None, step: float | None) -> Resolved:
    """A row beside the plain one: speedup, and the cost of its step in plain steps."""
    beside = dict(one.beside)
    here, took = beside.get("tokens_per_second"), beside.get("step_ms")
    if speed and here:
        beside["plain_tokens_per_second"] = speed
        beside["speedup"] = here / speed
    if step and took:
        beside["step_cost"] = took / step
    elif beside.get("speedup") and one.tokens_per_step:
        beside["step_cost"] = one.tokens_per_step / beside["speedup"]
    return replace(one, beside=beside)


def _change(scrapes: list[Record]) -> Record:
    """One page as it stands; of several the change of each number from the first to the last."""
    first, last = scrapes[0], scrapes[-1]
    if len(scrapes) == 1:
        return last
    before = {cell.name: cell.value for cell in first.cells}
    grown = [replace(c, value=c.value - before.get(c.name, 0.0)) for c in last.cells if not c.half]
    if any(cell.value < 0 for cell in grown):
        return last
    return replace(last, cells=grown, label=f"{last.label} change between scrapes".strip())


def _kind_in(text: str) -> str | None:
    found = _KIND.search(text)
    return found.group().lower() if found else None


def _reading(group: _Group) -> Reading:
    one, tally = group.last or group.first, group.tally
    counted = one.steps is not None and group.first.steps is not None
    form = {"metrics": "Prometheus", "json": "JSON", "row": "table"}.get(group.record.kind, "log")
    warnings = []
    if group.running:
        warnings.append(
            f"{group.count} records whose counts only rise: totals so far, of which the last counts"
        )
        return _made(one, group.record, form, warnings)
    if group.count == 1:
        return _made(one, group.record, form)
    gamma = max(group.gammas, default=None) if len(group.gammas) == 1 else None
    generated = group.generated
    counts = tally.counts(steps=counted, gamma=gamma, generated=generated)
    beside = dict(group.first.beside)
    if group.seconds:
        beside["tokens_per_second"] = group.tokens / group.seconds
    beside["requests"] = float(group.count)
    total = replace(group.first, generated=generated, beside=beside)
    extras = Extras(tally.windows(2), group.spread.requests())
    return _made(total, group.record, form, warnings, counts, extras)


def _made(
    one: Resolved, record: Record, form: str, warnings: list[str] | None = None,
    counts: Counts | None = None, extras: Extras | None = None,
) -> Reading:  # fmt: skip
    """The reading, with the mapping shown."""
    if counts is None:
        counts = Counts(
            one.steps, one.drafted, one.accepted, one.survival, one.gamma, one.tokens_per_step,
            one.generated, histogram="histogram" in one.names,
        )  # fmt: skip
    requests = (extras.requests.count if extras and extras.requests else 0) or round(
        one.beside.get("requests", 0.0)
    )
    if counts.generated and counts.accepted is not None and counts.generated > counts.accepted:
        passes = counts.generated - counts.accepted - requests
        if passes > 0 and (counts.steps is None or passes >= counts.steps):
            counts = replace(counts, passes=passes)
    mapping = ", ".join(
        f"'{name or 'unnamed'}' as {_SAID[meaning]}" for meaning, name in one.names.items()
    )
    notes = [
        f"{record.at}: no known format, read by the meaning of its names; please confirm: "
        f"{mapping}",
        f"what confirms it: {'; '.join(dict.fromkeys(one.held))}",
        *(warnings or ()),
    ]
    facts: dict[str, float | str | None] = {**one.beside}
    facts |= {f"mapped_{meaning}": name or "(unnamed)" for meaning, name in one.names.items()}
    kind = _kind_in(record.text)
    facts["draft_kind"] = kind
    since = record.kind == "metrics" and "change between" not in record.label
    form = f"by meaning: {form}" + (", since start" if since else "")
    channel = drafter(record.engine or "unknown", form, kind or "", since_start=since)
    extras = replace(extras or Extras(), facts=facts)
    return make_reading(channel, counts, extras, notes)


_SAID = {
    "steps": "steps", "drafted": "drafted tokens", "accepted": "accepted tokens",
    "rejected": "rejected tokens", "share": "accepted / drafted",
    "tokens_per_step": "tokens per step", "mean_accepted": "accepted tokens per step",
    "mean_drafted": "drafted tokens per step", "generated": "generated tokens",
    "gamma": "draft length", "survival": "acceptance by position",
    "reached": "accepted by position", "offered": "drafted by position",
    "histogram": "histogram of accepted tokens", "speed": "tokens per second",
    "plain_speed": "tokens per second without a draft", "step_ms": "step time in ms",
    "speedup": "speedup", "requests": "requests",
}  # fmt: skip
