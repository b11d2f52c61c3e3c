"""Lines of the most common shapes, taken out of a piece as columns.

A log of nothing but statistics costs as much as its lines are looked at one by one. An engine may
therefore give patterns of its most common lines, as printed when nothing is odd about them. Lines
that are alike (specmath.logs.alike) and match one go to the parser as columns, the rest of the
piece line by line as ever. A parser must make the same of a line on either way. So a line may go
into columns only if nothing beside what its pattern caught would be looked at by any engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specmath.checks import FloatArray, IntArray
from specmath.logs.alike import MOST_DIGITS, UNFIT, UNLIKE, Alike, Forms, Letters
from specmath.logs.stream import LogLine, Source

__all__ = [
    "BoolArray",
    "Rows",
    "Waiting",
    "plain_text",
    "positions",
    "take_out",
    "timestamp",
]

FEWEST = 8
"""Below that many lines of a shape, one by one is as fast."""

LARGEST = 4 << 20
"""A piece is longer than that only where one line is."""

_STAMP = re.compile(r"(?:\d{4}-)?\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """Lines of one shape, in order: what the pattern caught in each, and where it stands.

    Row i is line `index[i]` of `parts[which[i]]`; `lines` are the numbers of the lines, `starts`
    and `ends` where they stand in `data`.
    """

    source: Source
    data: bytes
    parts: tuple[Alike, ...]
    lines: IntArray
    which: IntArray
    index: IntArray
    starts: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return self.lines.size

    def _each(self) -> Iterator[tuple[Alike, IntArray]]:
        """(lines of a form, which rows they are) of each form that has any."""
        for number, part in enumerate(self.parts):
            rows = np.flatnonzero(self.which == number)
            if rows.size == part.begins.size:
                yield part, rows
            elif rows.size:
                yield part.take(self.index[rows]), rows

    def told(self, group: int) -> BoolArray:
        """Whether `group` caught anything."""
        caught = [part.form.groups[group] is not None for part in self.parts]
        return np.array(caught, dtype=np.bool_)[self.which]

    def columns(self, *groups: int) -> FloatArray:
        """The numbers that these groups caught, nan where they caught nothing [group, row]."""
        found = np.full((len(self), len(groups)), np.nan)
        for part, rows in self._each():
            found[rows] = part.numbers([part.form.groups[group] for group in groups])
        return found.T

    def searched(self, patterns: Sequence[re.Pattern[bytes] | None]) -> FloatArray:
        """The number that group 1 of each pattern finds first in each whole line, nan for none
        [pattern, row]."""
        found = np.full((len(self), len(patterns)), np.nan)
        for part, rows in self._each():
            spans = [part.form.search(one) if one else None for one in patterns]
            if UNLIKE not in spans:
                found[rows] = part.numbers(spans)
                continue
            for row, line in zip(rows.tolist(), part.texts(part.form.line), strict=True):
                matches = [one and one.search(line) for one in patterns]
                found[row] = [float(one[1]) if one else np.nan for one in matches]
        return found.T

    def texts(self, group: int) -> list[bytes]:
        """What `group` caught, nothing where it caught nothing."""
        found = [b""] * len(self)
        for part, rows in self._each():
            if (span := part.form.groups[group]) is not None:
                for row, text in zip(rows.tolist(), part.texts(span), strict=True):
                    found[row] = text
        return found

    def rates(self, group: int) -> tuple[FloatArray, IntArray, BoolArray]:
        """(rates [n, γ], how many each line has, whether they are a survival) of "0.9, 0.8" texts.

        Shorter lists are filled up with zeros.
        """
        parts = []
        for part, rows in self._each():
            if (span := part.form.groups[group]) is not None:
                starts = range(span[0], span[1], len(b"0.0, "))
                parts.append((rows, part.numbers([(at, at + len(b"0.0")) for at in starts])))
        rates = np.zeros((len(self), max((found.shape[1] for _, found in parts), default=0)))
        counts = np.zeros(len(self), dtype=np.int64)
        for rows, found in parts:
            rates[rows, : found.shape[1]], counts[rows] = found, found.shape[1]
        falling = np.all(np.diff(rates, axis=1, prepend=1.0) <= 0.0, axis=1)
        return rates, counts, falling

    def text(self, index: int) -> str:
        """The whole line, as the parser's line() is given it."""
        return plain_text(self.data[self.starts[index] : self.ends[index]])

    def heads(self) -> set[bytes]:
        """What stands before the pattern in its lines, each beginning once, the clock left out."""
        heads = []
        for part, _ in self._each():
            once = part.take(_unlike(part, part.form.outside(_CLOCK)))
            heads += once.texts(part.form.head)
        return set(_CLOCK.sub(b"", b"\n".join(heads)).split(b"\n")) if heads else set()

    def place(self, index: int) -> LogLine:
        """Where the line stands."""
        return self.source.place(int(self.lines[index]))

    def when(self, index: int) -> str | None:
        """The date and time printed in the line."""
        return timestamp(self.text(index))

    def take(self, which: IntArray | slice) -> Rows:
        """The rows of these indices."""
        names = ("lines", "which", "index", "starts", "ends")
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def split(self, line: float) -> tuple[Rows, Rows]:
        """The rows above line number `line`, and the others."""
        cut = int(np.searchsorted(self.lines, line))
        return self.take(slice(cut)), self.take(slice(cut, None))


def plain_text(line: bytes) -> str:
    """A line as text, without the blanks around it."""
    return line.decode("utf-8", "replace").strip()


def timestamp(text: str) -> str | None:
    """The first date and time of a log line, as printed."""
    found = _STAMP.search(text, 0, 200)
    return found.group() if found else None


class Taker(Protocol):
    """A parser, as far as lines of common shapes go."""

    def rows(self, found: Sequence[Rows]) -> bool: ...
    def line(self, text: str, at: LogLine) -> None: ...


class Waiting:
    """The rows of one parser in a piece, until the lines between them have come up."""

    def __init__(self, taker: Taker, bit: int, rows: Sequence[Rows]) -> None:
        self.bit = bit
        self._taker = taker
        self._rows = rows

    def give(self, before: float) -> None:
        """Give the parser what stands above line number `before`."""
        if not any(len(rows) and rows.lines[0] < before for rows in self._rows):
            return
        found, self._rows = zip(*(rows.split(before) for rows in self._rows), strict=True)
        if sum(map(len, found)) >= FEWEST and self._taker.rows(found):
            return
        each = ((rows.place(i), rows.text(i)) for rows in found for i in range(len(rows)))
        for place, text in sorted(each):
            self._taker.line(text, place)


def take_out(
    source: Source, data: bytes, numbers: IntArray, forms: Forms
) -> tuple[IntArray, list[Rows]]:
    """(indices of the lines that are left, the rows of each pattern of `forms`).

    `data` begins with a newline; `numbers` are those of its lines.
    """
    unfit = len(data) > LARGEST or any(letter in data for letter in UNFIT)
    if unfit or numbers.size < FEWEST:
        return np.arange(numbers.size), []
    letters = Letters(data)
    taken: list[list[tuple[Alike, IntArray]]] = [[] for _ in forms.patterns]
    left = np.ones(numbers.size, dtype=bool)
    for text, lines in letters.kinds():
        alike = forms.of(letters, text, lines) if lines.size >= FEWEST else None
        if alike is not None:
            taken[alike.form.pattern].append((alike, lines))
        if alike is not None or forms.idle(text):
            left[lines] = False
    rows = [_rows(source, data, numbers, parts) for parts in taken]
    return np.flatnonzero(left), rows if sum(map(len, rows)) else []


def _rows(
    source: Source, data: bytes, numbers: IntArray, parts: Sequence[tuple[Alike, IntArray]]
) -> Rows:
    """Lines of several forms of one pattern, in their order."""
    none = np.empty((5, 0), dtype=np.int64)
    columns = [
        np.array((lines, np.full(lines.size, which), np.arange(lines.size),
                  *map(part.at, part.form.line)))
        for which, (part, lines) in enumerate(parts)
    ]  # fmt: skip
    all_of_them = np.concatenate((none, *columns), axis=1)
    lines, which, index, starts, ends = all_of_them[:, np.argsort(all_of_them[0])]
    alike = tuple(part for part, _ in parts)
    return Rows(source, data, alike, numbers[lines], which, index, starts, ends)


def _unlike(part: Alike, runs: Sequence[int]) -> IntArray:
    """A line for each way in which these runs of digits read."""
    values, lengths = part.digits(runs)
    if int(lengths.max(initial=0)) > MOST_DIGITS:
        return np.arange(part.begins.size)
    read = np.concatenate((values, lengths), axis=1)
    read = read[:, (read != read[0]).any(axis=0)]
    if not read.size:
        return np.zeros(1, dtype=np.int64)
    return np.unique(read, axis=0, return_index=True)[1]


def positions(data: bytes, letter: str) -> IntArray:
    """Where `letter` stands in `data`."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == ord(letter))
