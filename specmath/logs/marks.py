"""Which lines of a piece any engine wants, found by C searches over the whole piece.

Searching for each engine's marks one by one would cost a pass over the data each. Most marks
contain one of a few stems, so the piece is searched for the stems, and only the lines that hold one
are looked at for the marks under it. A mark without a stem becomes its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from specmath.logs.engine import Engine

__all__ = ["BLOCK", "Marks", "bit_of", "block_starts", "line_end"]

# Bit 0: the line may open a JSON value; the others: see bit_of.
BLOCK = 1
STEMS = (
    b"ccept",
    b"spec",
    b"Spec",
    b"raft",
    b"generation throughput",
    b"eval time =",
    b"statistics ",
    b"timings",
    b"_total",
    b"tgi_request_",
    b"n_predict",
    b":        ",
    b"Decode batch",
    b"Benchmark",
    b"mean_tpot_ms",
)
_BLOCK_START = re.compile(rb"\n(?=\{|\[(?:[\n\r{ ]|\Z))")


def bit_of(index: int) -> int:
    """The bit of the engine of this index."""
    return 2 << index


class Marks:
    """The marks of all engines, by stem."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._under: dict[bytes, list[tuple[bytes, int]]] = {}
        for index, engine in enumerate(engines):
            for mark in engine.marks:
                stem = next((stem for stem in STEMS if stem in mark), mark)
                self._under.setdefault(stem, []).append((mark, bit_of(index)))

    def lines(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """(start, end, bits) of each wanted line, in order.

        `data` must begin with a newline: the first line is then found as every other is.
        """
        found: dict[int, int] = {}
        which = list(self._under.values())
        for index, stem in enumerate(self._under):
            at = data.find(stem)
            while at >= 0:
                start = data.rfind(b"\n", 0, at) + 1
                found[start] = found.get(start, 0) | 1 << index
                end = data.find(b"\n", at)
                at = data.find(stem, end) if end >= 0 else -1
        blocks = set(block_starts(data))
        for start in sorted(found.keys() | blocks):
            end = line_end(data, start)
            bits, stems = BLOCK if start in blocks else 0, found.get(start, 0)
            line = data[start:end] if stems else b""
            while stems:
                low = stems & -stems
                for mark, bit in which[low.bit_length() - 1]:
                    if not bits & bit and mark in line:
                        bits |= bit
                stems ^= low
            if bits:
                yield start, end, bits


def block_starts(data: bytes) -> list[int]:
    """Starts of lines that begin with { or with [ and nothing but an object after it."""
    if b"{" not in data:
        return []
    return [found.end() for found in _BLOCK_START.finditer(data)]


def line_end(data: bytes, start: int) -> int:
    """Where the line that begins at `start` ends, its newline not included."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end
