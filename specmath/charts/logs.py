"""Figures of a reading: survival by position, tokens per step over time."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import Trace, axis, band_of, figure_of, line_of
from specmath.logs.estimate import survival_ends, window_ends
from specmath.logs.reading import Reading
from specmath.palette import SPECULATION

__all__ = ["survival_chart", "windows_chart"]

LINES = {"mode": "lines"}
"""A band of few points would show its corners."""


def survival_chart(reading: Reading) -> go.Figure:
    """Measured survival with its interval, and the i.i.d. curve of the same α."""
    survival = np.array((1.0, *(reading.survival or ())))
    positions = np.arange(survival.size)
    ends, _ = survival_ends(reading)
    traces: list[Trace] = []
    if ends is not None:
        low, high = (np.append(1.0, end) for end in ends)
        traces.append(band_of(positions, low, high, "95% interval", SPECULATION) | LINES)
    if reading.alpha is not None:
        alike = reading.alpha**positions
        name = f"every position alike, α = {reading.alpha:.2f}"
        traces.append(line_of(positions, alike, name, SPECULATION, "dash", mode="lines"))
    traces.append(line_of(positions, survival, "measured", SPECULATION))
    tokens = axis("At least this many drafted tokens accepted", dtick=1)
    return figure_of(tokens, axis("Share of steps", range=[0, 1.05], zeroline=False), traces)


def windows_chart(reading: Reading, baseline: Reading | None = None) -> go.Figure:
    """Tokens per step of each window in order of time, with the mean of all, or a baseline's."""
    rows = [w for w in reading.windows if w.tokens_per_step is not None]
    tokens = np.array([w.tokens_per_step for w in rows], dtype=float)
    order = np.arange(1, len(rows) + 1)
    ends, _ = window_ends(reading)
    traces: list[Trace] = []
    if ends is not None:
        traces.append(band_of(order, *ends, "95% of its own steps", SPECULATION) | LINES)
    level = reading if baseline is None else baseline
    if level.tokens_per_step is not None:
        mean = np.full(order.size, level.tokens_per_step)
        name = "mean of all" if baseline is None else "mean of the baseline"
        traces.append(line_of(order, mean, name, SPECULATION, "dash", mode="lines"))
    hover = "%{customdata}: %{y:.2f} tokens<extra></extra>"
    traces.append(
        line_of(order, tokens, "tokens per step", SPECULATION, hovertemplate=hover,
                customdata=[w.when or f"line {w.line}" for w in rows])
    )  # fmt: skip
    return figure_of("Window, in order of time", "Tokens per step", traces)
