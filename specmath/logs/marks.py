"""Which lines of a piece any engine wants, found by C searches over the whole piece.

Searching for each engine's marks one by one would cost a pass over the data each. Most marks
contain one of a few stems, so the piece is searched for the stems, and only the lines that hold one
are looked at for the marks under it. A mark without a stem becomes its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specmath.logs.engine import Engine

__all__ = ["BLOCK", "Marks"]

# Bit 0: the line may open a JSON value; bit i + 1: engine i wants it.
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
_AFTER_BRACKET = b"\n\r{ "


class Marks:
    """The marks of all engines, by stem."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._under: dict[bytes, list[tuple[bytes, int]]] = {}
        for index, engine in enumerate(engines, start=1):
            for mark in engine.marks:
                stem = next((stem for stem in STEMS if stem in mark), mark)
                self._under.setdefault(stem, []).append((mark, 1 << index))

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
        blocks = set(_block_starts(data))
        for start in sorted(found.keys() | blocks):
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
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


def _block_starts(data: bytes) -> Iterator[int]:
    """Starts of lines that begin with { or with [ and nothing but an object after it."""
    if b"{" not in data:
        return
    at = data.find(b"\n{")
    while at >= 0:
        yield at + 1
        at = data.find(b"\n{", at + 1)
    at = data.find(b"\n[")
    while at >= 0:
        if data[at + 2 : at + 3] in _AFTER_BRACKET:
            yield at + 1
        at = data.find(b"\n[", at + 1)
