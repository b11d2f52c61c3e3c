"""llama.cpp's `statistics <type>: …` lines: running totals of one way of drafting.

#calls(b,g,a) = 1 120 120, #gen drafts = N, #acc drafts = steps with an accepted token,
#gen tokens = D, #acc tokens = A, #mean acc len = 1 + A/N, #acc rate/pos = (R_1, …),
dur(b,g,a) = begin, generate, accept ms        (the oldest print one `dur = … ms`)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from specmath.checks import FloatArray, IntArray
from specmath.logs.errors import LogError
from specmath.logs.lanes import Rows, rate_columns
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.survival import RATE_LIST, parse_rates
from specmath.logs.tally import Tally, make_reading

__all__ = ["COMMON", "Statistics"]

_LINE = re.compile(r"statistics\s{1,40}([A-Za-z0-9_\-+]{1,40}):(.{1,4000})")
_COUNT = re.compile(r"#(gen drafts|acc drafts|gen tokens|acc tokens) =\s{0,20}(\d{1,15})\b")
_MEAN = re.compile(r"#mean acc len =\s{0,20}(\d{1,6}\.\d{1,6})")
_RATES = re.compile(rf"#acc rate/pos = \(({RATE_LIST})\)")
_TIMES = re.compile(
    r"dur\(b,g,a\) =\s{0,20}(\d{1,12}(?:\.\d{1,6})?),\s{0,20}(\d{1,12}(?:\.\d{1,6})?),"
    r"\s{0,20}(\d{1,12}(?:\.\d{1,6})?) ms"
)
_TIME = re.compile(r"dur =\s{0,20}(\d{1,12}(?:\.\d{1,6})?) ms")
_MS = r" {0,20}(\d{1,12}(?:\.\d{1,6})?)"
# A line as printed since 2026: type, drafts, drafted, accepted, mean, rates, three times.
# Counts of ten digits: a piece of them adds up exactly.
COMMON = re.compile(
    r"statistics {1,40}(?P<free>[A-Za-z0-9_\-+]{1,40}): #calls\(b,g,a\) =[\d ]{1,60}, "
    r"#gen drafts = {0,20}(\d{1,10}), #acc drafts = {0,20}\d{1,15}, "
    r"#gen tokens = {0,20}(\d{1,10}), #acc tokens = {0,20}(\d{1,10})"
    rf"(?:, #mean acc len = {{0,20}}(\d{{1,6}}\.\d{{1,6}}), #acc rate/pos = \(({RATE_LIST})\))?"
    rf", dur\(b,g,a\) ={_MS},{_MS},{_MS} ms[ \r]{{0,4}}(?=\n|\Z)".encode()
)
MOST_TYPES = 64
Totals = tuple[int, int, int]


@dataclass(slots=True)
class _Type:
    """One implementation; a run that ended at a restart is banked in `tally`."""

    tally: Tally = field(default_factory=Tally)
    last: Totals = (0, 0, 0)
    rates: tuple[float, ...] | None = None
    seconds: float = 0.0
    banked_seconds: float = 0.0
    restarts: int = 0


class Statistics:
    """All `statistics` lines of a log."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self._types: dict[str, _Type] = {}

    def line(self, text: str, at: Place) -> None:
        """One line of running totals."""
        found = _LINE.search(text)
        if found is None:
            return
        counts = {name: int(value) for name, value in _COUNT.findall(found.group(2))}
        if not {"gen drafts", "gen tokens", "acc tokens"} <= counts.keys():
            self.notes.add("a 'statistics' line is cut off: left out", at)
            return
        now = (counts["gen drafts"], counts["gen tokens"], counts["acc tokens"])
        if now[2] > now[1] or now[0] > now[1]:
            self.notes.add("a 'statistics' line contradicts itself: left out", at)
            return
        if found.group(1) not in self._types and len(self._types) >= MOST_TYPES:
            return
        self._add(self._types.setdefault(found.group(1), _Type()), now, found.group(2), at)

    def rows(self, rows: Rows) -> None:
        """Lines that match COMMON."""
        named: dict[bytes, list[int]] = {}
        for index, match in enumerate(rows.matches):
            named.setdefault(match[1], []).append(index)
        totals = np.column_stack([rows.column(group) for group in (2, 3, 4)])
        rates, counts, falling = rate_columns([match[6] for match in rows.matches])
        steps, drafted, accepted = totals.T
        away = abs(rows.optional(5) - 1.0 - accepted / np.maximum(steps, 1.0))
        good = (
            falling & (accepted <= drafted) & (steps <= drafted) & ~((away > 0.006) & (steps > 0))
        )
        runs = {name: self._run(name, totals[which]) for name, which in named.items()}
        if not good.all() or not all(runs.values()):
            for index in range(len(rows)):
                self.line(rows.text(index), rows.place(index))
            return
        for name, which in named.items():
            kind, last = self._types[name.decode()], which[-1]
            self._extend(kind, totals[which], rows.lines[which])
            kind.rates = tuple(rates[last, : counts[last]].tolist()) or None
            kind.seconds = sum(float(rows.matches[last][group]) for group in (7, 8, 9)) / 1000.0

    def _run(self, name: bytes, totals: FloatArray) -> bool:
        """Whether these totals of a type go on from its last and never fall."""
        kind = self._types.get(name.decode())
        return kind is not None and bool(np.all(np.diff(totals, axis=0, prepend=[kind.last]) >= 0))

    @staticmethod
    def _extend(kind: _Type, totals: FloatArray, lines: IntArray) -> None:
        new = np.diff(totals, axis=0, prepend=[kind.last])
        more = new[:, 0] > 0
        steps, drafted, accepted = new[more].T
        kind.tally.extend(
            lines[more].tolist(), lambda _: None,
            steps=steps, drafted=drafted, accepted=accepted,
        )  # fmt: skip
        kind.last = (int(totals[-1, 0]), int(totals[-1, 1]), int(totals[-1, 2]))

    def _add(self, kind: _Type, now: Totals, text: str, at: Place) -> None:
        if any(new < old for new, old in zip(now, kind.last, strict=True)):
            self.notes.add("totals fall here: the server restarted, its runs are added up", at)
            kind.last, kind.restarts = (0, 0, 0), kind.restarts + 1
            kind.banked_seconds, kind.seconds = kind.banked_seconds + kind.seconds, 0.0
        steps, drafted, accepted = (new - old for new, old in zip(now, kind.last, strict=True))
        kind.last = now
        if steps > 0:
            kind.tally.add(steps=steps, drafted=drafted, accepted=accepted, line=at.line)
        if times := _TIMES.search(text):
            kind.seconds = sum(float(times.group(i)) for i in (1, 2, 3)) / 1000.0
        elif time := _TIME.search(text):
            kind.seconds = float(time.group(1)) / 1000.0
        kind.rates = self._rates(text, at)
        mean = _MEAN.search(text)
        if mean and now[0] and abs(float(mean.group(1)) - 1.0 - now[2] / now[0]) > 0.006:
            self.notes.add("#mean acc len is not 1 + accepted / drafts: the counts were used", at)

    def _rates(self, text: str, at: Place) -> tuple[float, ...] | None:
        found = _RATES.search(text)
        if found is None:
            return None
        try:
            return parse_rates(found.group(1))
        except LogError as error:
            self.notes.add(f"per-position rates not used: {error}", at)
            return None

    def readings(
        self, note: str, drafted: int, decode_seconds: float, gamma: int | None
    ) -> list[Reading]:
        """A reading for each type that drafted.

        `drafted` tokens took `decode_seconds` by the request lines of the same log: where that is
        the same total, drafting time over decode time is the draft's share of a step.
        """
        found = []
        for name, kind in self._types.items():
            tally = kind.tally
            if not tally.drafted or not tally.steps:
                continue
            rates = kind.rates if not kind.restarts else None
            seconds = kind.banked_seconds + kind.seconds
            share = None
            if drafted == tally.drafted and 0 < seconds < decode_seconds:
                share = seconds / decode_seconds
            longest = -(-tally.drafted // round(tally.steps))
            windows = tally.series.windows()
            found.append(
                make_reading(
                    "llama.cpp",
                    f"server log, statistics {name} (since start)",
                    steps=tally.steps,
                    drafted=tally.drafted,
                    accepted=tally.accepted,
                    survival=rates,
                    gamma=len(rates) if rates else gamma or longest,
                    windows=windows if len(windows) > 1 else (),
                    draft_seconds=seconds / tally.steps if seconds else None,
                    draft_share=share,
                    facts={"draft_type": name},
                    warnings=[
                        note,
                        "running totals since the server started: they cover the request lines of "
                        "the same log, so do not add the two",
                    ],
                )
            )
        return found
