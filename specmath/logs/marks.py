"""Which lines any engine wants: those that hold one of its marks.

Searching for each engine's marks one by one would cost a pass over the data each. Most marks
contain one of a few stems, so a piece is searched for the stems, all of them in one go, and only
the lines that hold one are looked at for the marks under it. A mark without a stem becomes its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from specmath.checks import IntArray
from specmath.logs.columns import positions
from specmath.logs.engines.base import Parser

__all__ = ["BLOCK", "STEMS", "Marks", "bit_of"]

# Bit 0: the line may open a JSON value; the others: see bit_of.
BLOCK = 1
STEMS = (
    b"ccept", b"spec", b"Spec", b"raft", b"generation throughput", b"eval time =", b"statistics ",
    b"timings", b"_total", b"tgi_request_", b"n_predict", b":        ", b"Decode batch",
    b"Benchmark", b"mean_tpot_ms",
)  # fmt: skip
_JOURNAL = b'"MESSAGE"'
"""Its lines may hold a list of bytes: looked at without a stem in them."""


def bit_of(index: int) -> int:
    """The bit of the engine of this index."""
    return 2 << index


class Marks:
    """The marks of all engines, by stem."""

    def __init__(self, engines: Sequence[type[Parser]]) -> None:
        self._under: dict[bytes, list[tuple[bytes, int]]] = {_JOURNAL: []}
        for index, engine in enumerate(engines):
            for mark in engine.marks:
                stem = next((stem for stem in STEMS if stem in mark), mark)
                self._under.setdefault(stem, []).append((mark, bit_of(index)))
        self._texts = tuple(stem.decode() for stem in self._under)
        self._search = _Search(tuple(self._under))
        self._each = tuple(self._under.items())

    def any(self, text: str) -> bool:
        """Whether a stem is in `text`."""
        return any(stem in text for stem in self._texts)

    def found(self, data: bytes, newlines: IntArray | None = None) -> tuple[IntArray, IntArray]:
        """(newlines, the stems in the line after each: a bit for each).

        `data` must begin with a newline: the first line is then found as every other is.
        """
        newlines = positions(data, "\n") if newlines is None else newlines
        stems = np.zeros(newlines.size, dtype=np.int64)
        for index, at in self._search.found(data):
            stems[np.searchsorted(newlines, at) - 1] |= 1 << index
        return newlines, stems

    def _bits(self, line: bytes, held: int) -> int:
        """The bit of each engine that wants this line, which holds the stems `held`."""
        bits = 0
        while held:
            low = held & -held
            for mark, bit in self._each[low.bit_length() - 1][1]:
                if not bits & bit and mark in line:
                    bits |= bit
            held ^= low
        return bits

    def lines(self, data: bytes, blocks: Sequence[int] = ()) -> Iterator[tuple[int, int, int, int]]:
        """(index, start, end, bits) of each wanted line, and of the lines that start at `blocks`;
        the line after the first newline has index 0."""
        newlines, stems = self.found(data)
        opening = np.zeros(newlines.size, dtype=bool)
        if blocks:
            opening[np.searchsorted(newlines, blocks) - 1] = True
        wanted = np.flatnonzero((stems > 0) | opening)
        ends = np.append(newlines[1:], len(data))[wanted]
        each = (wanted, newlines[wanted] + 1, ends, stems[wanted], opening[wanted])
        for index, start, end, held, opens in zip(*(one.tolist() for one in each), strict=True):
            bits = self._bits(data[start:end], held) | (BLOCK if opens else 0)
            if bits:
                yield index, start, end, bits


# ── several words in one pass ────────────────────────────────────────────────────────────────

_USUAL = b" etaoinsrhldcumpgfy0123456789.,:wbvk-/()[]_"
"""Letters of logs, the usual ones first."""
PRINT, WINDOW = 4, 8
GROUPS = 8


class _Search:
    """Where each of several words stands.

    A word's four least usual letters in a row are its print. Two tables tell of every letter for
    which of eight groups of words it may be the first and the second of a print; what they leave
    of the data is compared with the prints, and then with the words (as Teddy in Hyperscan).
    """

    def __init__(self, words: Sequence[bytes]) -> None:
        self._words: dict[int, list[tuple[int, int, bytes]]] = {}
        for index, word in enumerate(words):
            offset = _least_usual(word)
            prints = int.from_bytes(word[offset : offset + PRINT], "little")
            self._words.setdefault(prints, []).append((index, offset, word))
        self._prints: NDArray[np.uint32] = np.array(sorted(self._words), dtype=np.uint32)
        tables = np.zeros((2, 256), dtype=np.uint8)
        for rank, letters in enumerate(sorted(p.to_bytes(PRINT, "little") for p in self._words)):
            for table, letter in zip(tables, letters, strict=False):
                table[letter] |= 1 << (rank * GROUPS // len(self._words))
        self._tables = [table.tobytes() for table in tables]

    def found(self, data: bytes) -> Iterator[tuple[int, IntArray]]:
        """(index of the word, where it begins) of each word that is in `data`."""
        if len(data) < PRINT:
            return
        first, second = (np.frombuffer(data.translate(t), np.uint8) for t in self._tables)
        last = len(data) - PRINT + 1
        at = np.flatnonzero((first[:last] & second[1 : last + 1]) != 0)
        if not at.size:
            return
        padded = data + bytes(WINDOW)
        here = _windows(padded, "<u4")[at]
        which = np.minimum(np.searchsorted(self._prints, here), self._prints.size - 1)
        same = self._prints[which] == here
        at, which = at[same], which[same]
        windows = _windows(padded, "<u8")
        for rank in np.flatnonzero(np.bincount(which, minlength=self._prints.size)).tolist():
            places = at[which == rank]
            for index, offset, word in self._words[int(self._prints[rank])]:
                begins = _begins(windows, places - offset, word)
                if begins.size:
                    yield index, begins


def _windows(padded: bytes, kind: str) -> NDArray[np.uint64]:
    """The integer that begins at each letter."""
    return np.ndarray((len(padded) - WINDOW + 1,), dtype=kind, buffer=padded, strides=(1,))


def _begins(windows: NDArray[np.uint64], at: IntArray, word: bytes) -> IntArray:
    """Those of the places `at` where `word` begins."""
    at = at[(at >= 0) & (at + len(word) < windows.size)]
    for start in range(0, len(word), WINDOW):
        part = word[start : start + WINDOW]
        mask = np.uint64((1 << (8 * len(part))) - 1)
        at = at[(windows[at + start] & mask) == np.uint64(int.from_bytes(part, "little"))]
    return at


def _least_usual(word: bytes) -> int:
    """Where the letters in a row begin that are the least usual together."""
    ranks = [_USUAL.find(letter) if letter in _USUAL else len(_USUAL) for letter in word]
    return max(range(len(word) - PRINT + 1), key=lambda start: sum(ranks[start : start + PRINT]))
