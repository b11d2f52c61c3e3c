"""Windows in order, at most 4096 of them: above that neighbours are merged, all at once.

Windows wait in columns, so that a log of millions of lines makes no object a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from specmath.checks import FloatArray
from specmath.logs.record import Window

__all__ = ["Series", "window_rows"]

MOST_WINDOWS = 4096
WAITING = 512
Row = tuple[float, ...]
WEIGHT, STEPS, DRAFTED, ACCEPTED, TOKENS, POSITIONS, SURVIVAL = range(7)


class Series:
    """A row a window; nan where the log does not tell. The last row may still be filling up."""

    def __init__(self) -> None:
        self._rows: FloatArray = np.empty((0, SURVIVAL))
        self._lines: list[int] = []
        self._when: list[str | None] = []
        self._span = 1  # how many windows as printed make one row
        self._filled = 0  # how many of them the last row holds; 0: it is complete
        self._waiting: list[tuple[int, str | None, Row]] = []

    def add(self, window: Window) -> None:
        """Append `window`."""
        self.put(window.line, window.when, _row(window))

    def put(self, line: int, when: str | None, row: Row) -> None:
        """Append a window as a row: weight, steps, …, tokens per step, γ, survival (γ rates)."""
        self._waiting.append((line, when, row))
        if len(self._waiting) >= WAITING:
            self._take()

    def _take(self) -> None:
        """Rows of the windows that were added one by one."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            lines = [line for line, _, _ in waiting]
            rows = _rows([row for _, _, row in waiting])
            self._append(rows, lines, lambda i: waiting[i][1])

    def extend(
        self, rows: FloatArray, lines: Sequence[int], when: Callable[[int], str | None]
    ) -> None:
        """Append the windows of `rows` (see window_rows); `when(i)` is asked for few of them."""
        self._take()
        self._append(rows, lines, when)

    def _append(
        self, rows: FloatArray, lines: Sequence[int], when: Callable[[int], str | None]
    ) -> None:
        width = max(rows.shape[1], self._rows.shape[1])
        rows, kept = _widened(rows, width), _widened(self._rows, width)
        count, span = len(rows), self._span
        first = min(span - self._filled, count) if self._filled else 0
        if first:
            kept[-1:] = _merged(kept[-1:], _folded(rows[:first]))
            self._filled = (self._filled + first) % span
        cut = first + (count - first) // span * span
        parts = [kept, _halved(rows[first:cut], span)]
        if cut < count:
            parts.append(_folded(rows[cut:]))
            self._filled = count - cut
        self._rows = np.concatenate(parts)
        self._lines += [int(lines[i]) for i in range(first, count, span)]
        self._when += [when(i) for i in range(first, count, span)]
        while len(self._rows) > MOST_WINDOWS:
            self._thin()

    def _thin(self) -> None:
        """Merge neighbours two by two; an odd one out is half full."""
        held, odd = self._filled or self._span, len(self._rows) % 2
        pairs = len(self._rows) - odd
        parts = (_halved(self._rows[:pairs], 2), self._rows[pairs:])
        self._rows = np.concatenate(parts)
        self._lines, self._when = self._lines[::2], self._when[::2]
        self._filled = (held if odd else self._span + held) % (2 * self._span)
        self._span *= 2

    def windows(self) -> tuple[Window, ...]:
        """All windows, the unfinished one included."""
        self._take()
        rows = zip(self._lines, self._when, self._rows.tolist(), strict=True)
        return tuple(_window(line, when, row) for line, when, row in rows)


def window_rows(
    weight: FloatArray,
    *,
    tokens_per_step: FloatArray,
    steps: FloatArray | None = None,
    drafted: FloatArray | None = None,
    accepted: FloatArray | None = None,
    survival: FloatArray | None = None,
) -> FloatArray:
    """Rows for Series.extend from columns of one length [n]; `survival` [n, γ]."""
    count, gamma = weight.size, 0 if survival is None else survival.shape[1]
    rows = np.full((count, SURVIVAL + gamma), np.nan)
    rows[:, WEIGHT], rows[:, TOKENS], rows[:, POSITIONS] = weight, tokens_per_step, gamma
    for index, column in ((STEPS, steps), (DRAFTED, drafted), (ACCEPTED, accepted)):
        if column is not None:
            rows[:, index] = column
    if survival is not None:
        rows[:, SURVIVAL:] = survival
    return rows


def _row(window: Window) -> Row:
    survival = window.survival or ()
    told = (window.steps, window.drafted, window.accepted, window.tokens_per_step)
    known = (math.nan if value is None else value for value in told)
    return window.weight, *known, len(survival), *survival


def _rows(rows: Sequence[Row]) -> FloatArray:
    width = max(map(len, rows))
    return np.array([row + (math.nan,) * (width - len(row)) for row in rows], dtype=np.float64)


def _window(line: int, when: str | None, row: list[float]) -> Window:
    steps, drafted, accepted = (
        None if math.isnan(row[i]) else round(row[i]) for i in (STEPS, DRAFTED, ACCEPTED)
    )
    gamma = 0 if math.isnan(row[POSITIONS]) else int(row[POSITIONS])
    tokens = None if math.isnan(row[TOKENS]) else row[TOKENS]
    survival = tuple(row[SURVIVAL : SURVIVAL + gamma]) or None
    return Window(line, when, steps, drafted, accepted, tokens, survival, row[WEIGHT])


# ── merging: counts add, rates average by weight, and what one does not tell neither does both ──


def _merged(first: FloatArray, second: FloatArray) -> FloatArray:
    """Rows of windows that were neighbours, pair by pair."""
    rows = first + second
    weight = rows[:, WEIGHT]
    share = np.divide(first[:, WEIGHT], weight, out=np.full(weight.size, 0.5), where=weight > 0)
    mean = first + (1.0 - share)[:, None] * (second - first)
    mean[first[:, POSITIONS] != second[:, POSITIONS], POSITIONS:] = np.nan
    rows[:, TOKENS:] = mean[:, TOKENS:]
    return rows


def _halved(rows: FloatArray, span: int) -> FloatArray:
    """Every `span` rows, a power of two, as one."""
    while span > 1:
        rows, span = _merged(rows[::2], rows[1::2]), span // 2
    return rows


def _folded(rows: FloatArray) -> FloatArray:
    """All rows as one."""
    while len(rows) > 1:
        pairs = len(rows) // 2 * 2
        rows = np.concatenate((_merged(rows[:pairs:2], rows[1:pairs:2]), rows[pairs:]))
    return rows


def _widened(rows: FloatArray, width: int) -> FloatArray:
    """`rows` with nan at the positions that it lacks; always a copy or of that width already."""
    missing = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=np.nan) if missing else rows
