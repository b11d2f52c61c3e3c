"""Lines of the most common shapes, taken out of a piece in one search each.

A log of nothing but statistics costs as much as its lines are looked at one by one. An engine may
therefore give patterns of its most common lines, as printed when nothing is odd about them. They
are matched over the whole piece; what was caught goes to the parser as columns, the rest of the
piece line by line as ever. A parser must make the same of a line on either way. So a line may go
into columns only if nothing beside what its pattern caught would be looked at by any engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specmath.checks import FloatArray, IntArray
from specmath.logs.stream import LogLine, Source

__all__ = [
    "BoolArray",
    "Rows",
    "Waiting",
    "line_of",
    "numbers_of",
    "plain_text",
    "positions",
    "rate_columns",
    "take_out",
    "timestamp",
]

FEWEST = 8
"""Below that many lines of a shape, one by one is as fast."""

LARGEST = 4 << 20
"""A piece is longer than that only where one line is."""

FREE = "free"
"""The name of a pattern's group that may hold any text: it counts as outside the pattern."""

_STAMP = re.compile(r"(?:\d{4}-)?\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
# A word that goes on into a pattern's match, which stands here as a NUL.
_TOUCHES = re.compile(rb"[A-Za-z_]\0|\0[A-Za-z_]")
BoolArray = NDArray[np.bool_]
Matches = list[re.Match[bytes]]


@dataclass(frozen=True)
class Rows:
    """Lines of one shape, in order: what the pattern caught in each, and where it stands."""

    source: Source
    lines: IntArray
    matches: Matches

    def __len__(self) -> int:
        return len(self.matches)

    def column(self, group: int) -> FloatArray:
        """The numbers that `group` caught, nan where it caught nothing."""
        return numbers_of([match[group] or b"nan" for match in self.matches])

    def text(self, index: int) -> str:
        """The whole line, as the parser's line() is given it."""
        return plain_text(line_of(self.matches[index]))

    def heads(self) -> set[bytes]:
        """What stands before the pattern in its lines, each beginning once, the clock left out."""
        parts = [
            m.string[m.string.rfind(b"\n", 0, m.start()) + 1 : m.start()] for m in self.matches
        ]
        return set(_CLOCK.sub(b"", b"\n".join(parts)).split(b"\n"))

    def lines_of(self) -> list[bytes]:
        """The whole lines."""
        return list(map(line_of, self.matches))

    def place(self, index: int) -> LogLine:
        """Where the line stands."""
        return self.source.place(int(self.lines[index]))

    def when(self, index: int) -> str | None:
        """The date and time printed in the line."""
        return timestamp(self.text(index))

    def take(self, which: IntArray) -> Rows:
        """The rows of these indices."""
        return Rows(self.source, self.lines[which], [self.matches[i] for i in which])

    def split(self, line: float) -> tuple[Rows, Rows]:
        """The rows above line number `line`, and the others."""
        cut = int(np.searchsorted(self.lines, line))
        above, below = (
            Rows(self.source, self.lines[part], self.matches[part])
            for part in (slice(cut), slice(cut, None))
        )
        return above, below


def plain_text(line: bytes) -> str:
    """A line as text, without the blanks around it."""
    return line.decode("utf-8", "replace").strip()


def line_of(match: re.Match[bytes]) -> bytes:
    """The whole line in which a pattern matched."""
    end = match.string.find(b"\n", match.end())
    start = match.string.rfind(b"\n", 0, match.start()) + 1
    return match.string[start : end if end >= 0 else len(match.string)]


def timestamp(text: str) -> str | None:
    """The first date and time of a log line, as printed."""
    found = _STAMP.search(text, 0, 200)
    return found.group() if found else None


def numbers_of(texts: Sequence[bytes]) -> FloatArray:
    """Printed numbers, several to a text or one, as one row of values."""
    return np.fromstring(b" ".join(texts).decode("ascii"), sep=" ")


def rate_columns(texts: Sequence[bytes | None]) -> tuple[FloatArray, IntArray, BoolArray]:
    """(rates [n, γ], how many each text holds, whether they are a survival) of "0.9, 0.8" texts.

    Shorter lists are filled up with zeros.
    """
    counts = np.array([0 if text is None else text.count(b",") + 1 for text in texts])
    most = int(counts.max(initial=0))
    filled = [
        (text or b"0").replace(b",", b"") + b" 0" * (most - max(count, 1))
        for text, count in zip(texts, counts.tolist(), strict=True)
    ]
    rates = numbers_of(filled).reshape(len(texts), -1)[:, :most]
    falling = np.all(np.diff(rates, axis=1, prepend=1.0) <= 0.0, axis=1)
    return rates, counts, falling


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
    source: Source,
    first: int,
    data: bytes,
    patterns: Sequence[re.Pattern[bytes]],
    words: Sequence[bytes],
    numbers: IntArray | None = None,
) -> tuple[bytes, list[Rows]]:
    """(`data` with the lines of these shapes emptied, the rows of each pattern).

    `data` begins with a newline; its next line has number `first`, unless `numbers` has those of
    all its lines. A pattern never reaches over a newline. Left where they are: lines with a brace
    (JSON), those that two patterns want, and those with one of `words` (no digit or dot in them)
    outside the match.
    """
    if len(data) > LARGEST:
        return data, []
    found: list[Matches] = [list(pattern.finditer(data)) for pattern in patterns]
    if sum(map(len, found)) < FEWEST:
        return data, []
    newlines = positions(data, "\n")
    starts = [np.array([m.start() for m in matches], dtype=np.int64) for matches in found]
    where = [np.searchsorted(newlines, begins) for begins in starts]
    braces = np.searchsorted(newlines, positions(data, "{"))
    lines, patterns_in = np.unique(np.concatenate([*map(np.unique, where)]), return_counts=True)
    kept_out = np.union1d(braces, lines[patterns_in > 1])
    ends = np.append(newlines, len(data))
    rows: list[Rows] = []
    taken = []
    for matches, at in zip(found, where, strict=True):
        good = np.diff(at, prepend=-1) > 0  # the first match of a line
        if kept_out.size:
            good &= ~np.isin(at, kept_out)
        if not good.all():
            matches, at = [matches[i] for i in np.flatnonzero(good)], at[good]
        lone = _alone(data, matches, newlines[at - 1] + 1, ends[at], words)
        if lone is not None:
            matches, at = [matches[i] for i in np.flatnonzero(lone)], at[lone]
        rows.append(Rows(source, first - 1 + at if numbers is None else numbers[at - 1], matches))
        taken.append(at)
    out = np.sort(np.concatenate(taken))
    rest = zip(
        [0, *ends[out].tolist()], [*(newlines[out - 1] + 1).tolist(), len(data)], strict=True
    )
    return b"".join(data[begin:end] for begin, end in rest), rows


def positions(data: bytes, letter: str) -> IntArray:
    """Where `letter` stands in `data`."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == ord(letter))


def _alone(
    data: bytes, matches: Matches, starts: IntArray, ends: IntArray, words: Sequence[bytes]
) -> BoolArray | None:
    """Which matches have none of `words` beside them in their lines; None if all are so.

    Without its digits, what surrounds them is the same a thousand times.
    """
    lines = zip(matches, starts.tolist(), ends.tolist(), strict=True)
    if matches and FREE in matches[0].re.groupindex:
        parts = [
            b"%b\0 %b \0%b" % (data[start : m.start()], m[FREE], data[m.end() : end])
            for m, start, end in lines
        ]
    else:
        parts = [data[start : m.start()] + b"\0" + data[m.end() : end] for m, start, end in lines]
    around = b"\n".join(parts).translate(None, b"0123456789.").split(b"\n")
    kinds = set(around)
    text = b"\n".join(kinds)
    if not _TOUCHES.search(text) and not any(word in text for word in words):
        return None
    odd = {kind for kind in kinds if _TOUCHES.search(kind) or any(word in kind for word in words)}
    return np.array([one not in odd for one in around], dtype=np.bool_)
