"""Lines of the most common shapes, taken out of a piece in one search each.

A log of nothing but statistics costs as much as its lines are looked at one by one. An engine may
therefore give patterns of its most common lines, as printed when nothing is odd about them. They
are matched over the whole piece; what was caught goes to the parser as columns, the rest of the
piece line by line as ever. A parser must make the same of a line on either way. So a line may go
into columns only if nothing beside what its pattern caught would be looked at by any engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specmath.checks import FloatArray, IntArray
from specmath.logs.notes import Place
from specmath.logs.source import Source

__all__ = [
    "BoolArray",
    "Rows",
    "Waiting",
    "in_runs",
    "numbers_of",
    "plain_text",
    "rate_columns",
    "take_out",
]

FEWEST = 8
"""Below that many lines of a shape, one by one is as fast."""

LARGEST = 4 << 20
"""A piece is longer than that only where one line is."""

FREE = "free"
"""The name of a pattern's group that may hold any text: it counts as outside the pattern."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ESCAPES_IN_BYTES = re.compile(_ESCAPES.pattern.encode())
# A word that goes on into a pattern's match, which stands here as a NUL.
_TOUCHES = re.compile(rb"[A-Za-z_]\0|\0[A-Za-z_]|\x1b")
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
        """The numbers that `group` caught."""
        return numbers_of([match[group] for match in self.matches])

    def optional(self, group: int) -> FloatArray:
        """The numbers that `group` caught, nan where it caught nothing."""
        return numbers_of([match[group] or b"nan" for match in self.matches])

    def text(self, index: int) -> str:
        """The whole line, as the parser's line() is given it."""
        match = self.matches[index]
        start = match.string.rfind(b"\n", 0, match.start()) + 1
        end = match.string.find(b"\n", match.end())
        return plain_text(match.string[start : end if end >= 0 else len(match.string)])

    def place(self, index: int) -> Place:
        """Where the line stands."""
        return self.source.place(int(self.lines[index]))

    def split(self, line: float) -> tuple[Rows, Rows]:
        """The rows above line number `line`, and the others."""
        cut = int(np.searchsorted(self.lines, line))
        return (
            replace(self, lines=self.lines[:cut], matches=self.matches[:cut]),
            replace(self, lines=self.lines[cut:], matches=self.matches[cut:]),
        )


def plain_text(line: bytes) -> str:
    """A line without colours and without the blanks around it."""
    text = line.decode("utf-8", "replace")
    return (_ESCAPES.sub("", text) if "\x1b" in text else text).strip()


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


def in_runs(good: BoolArray, many: Callable[[slice], None], one: Callable[[int], None]) -> None:
    """All rows in order: `many` takes runs of good rows, `one` each of the others."""
    others = np.flatnonzero(~good).tolist()
    if len(others) * FEWEST > good.size:  # runs would be too short to pay
        for index in range(good.size):
            one(index)
        return
    begin = 0
    for index in (*others, good.size):
        if index > begin:
            many(slice(begin, index))
        if index < good.size:
            one(index)
        begin = index + 1


class Taker(Protocol):
    """A parser, as far as lines of common shapes go."""

    def rows(self, found: Sequence[Rows]) -> None: ...
    def line(self, text: str, at: Place) -> None: ...


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
        if sum(map(len, found)) >= FEWEST:
            self._taker.rows(found)
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
) -> tuple[bytes, list[Rows]]:
    """(`data` with the lines of these shapes emptied, the rows of each pattern).

    `data` begins with a newline and its next line has number `first`. A pattern never reaches over
    a newline. Left where they are: lines with a brace (JSON) or with an escape sequence behind the
    pattern's beginning, those that two patterns want, and those with one of `words` (no digit or
    dot in them) outside the match.
    """
    if len(data) > LARGEST:
        return data, []
    found: list[Matches] = [list(pattern.finditer(data)) for pattern in patterns]
    if sum(map(len, found)) < FEWEST:
        return data, []
    newlines = _positions(data, "\n")
    starts = [np.array([m.start() for m in matches], dtype=np.int64) for matches in found]
    where = [np.searchsorted(newlines, begins) for begins in starts]
    braces = np.searchsorted(newlines, _positions(data, "{"))
    kept_out = np.union1d(braces, _in_several(where))
    escapes, ends = (np.append(at, len(data)) for at in (_positions(data, "\x1b"), newlines))
    rows: list[Rows] = []
    taken = []
    for matches, begins, at in zip(found, starts, where, strict=True):
        good = np.diff(at, prepend=-1) > 0  # the first match of a line
        good &= escapes[np.searchsorted(escapes, begins)] >= ends[at]
        if kept_out.size:
            good &= ~np.isin(at, kept_out)
        if not good.all():
            matches, at = [matches[i] for i in np.flatnonzero(good)], at[good]
        lone = _alone(data, matches, newlines[at - 1] + 1, ends[at], words)
        if lone is not None:
            matches, at = [matches[i] for i in np.flatnonzero(lone)], at[lone]
        rows.append(Rows(source, first - 1 + at, matches))
        taken.append(at)
    return b"".join(_rest(data, newlines, np.sort(np.concatenate(taken)))), rows


def _positions(data: bytes, letter: str) -> IntArray:
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
    text = b"\n".join(parts)
    if b"\x1b" in text:
        text = _ESCAPES_IN_BYTES.sub(b"", text)
    around = text.translate(None, b"0123456789.").split(b"\n")
    kinds = set(around)
    text = b"\n".join(kinds)
    if not _TOUCHES.search(text) and not any(word in text for word in words):
        return None
    odd = {kind for kind in kinds if _TOUCHES.search(kind) or any(word in kind for word in words)}
    return np.array([one not in odd for one in around], dtype=np.bool_)


def _in_several(where: Sequence[IntArray]) -> IntArray:
    """Lines that more than one pattern found; each list is sorted."""
    lines = np.sort(np.concatenate([at[np.diff(at, prepend=-1) > 0] for at in where]))
    return np.asarray(lines[1:][lines[1:] == lines[:-1]])


def _rest(data: bytes, newlines: IntArray, taken: IntArray) -> Iterator[bytes]:
    """`data` around the lines `taken`, their newlines kept."""
    starts = (newlines[taken - 1] + 1).tolist()
    ends = np.append(newlines, len(data))[taken].tolist()
    begin = 0
    for start, end in zip(starts, ends, strict=True):
        yield data[begin:start]
        begin = end
    yield data[begin:]
