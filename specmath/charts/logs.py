"""Figures of a reading: survival by position, tokens per step over time."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import Trace, band_of, figure_of, line_of
from specmath.logs.intervals import survival_band, window_band
from specmath.logs.record import Reading
from specmath.palette import SPECULATION

__all__ = ["survival_chart", "windows_chart"]

SURVIVAL_AXIS = "At least this many drafted tokens accepted"
LINES = {"mode": "lines"}
"""A band of few points would show its corners."""


def survival_chart(reading: Reading) -> go.Figure:
    """Measured survival with its interval, and the i.i.d. curve of the same α."""
    band = survival_band(reading)
    positions = np.arange(band.values.size)
    traces: list[Trace] = []
    if band.low is not None and band.high is not None:
        traces.append(band_of(positions, band.low, band.high, "95% interval", SPECULATION) | LINES)
    if reading.alpha is not None:
        alike = reading.alpha**positions
        name = f"every position alike, α = {reading.alpha:.2f}"
        traces.append(line_of(positions, alike, name, SPECULATION, "dash", mode="lines"))
    traces.append(line_of(positions, band.values, "measured", SPECULATION))
    return figure_of(
        SURVIVAL_AXIS,
        "Share of steps",
        traces,
        xaxis={"title": {"text": SURVIVAL_AXIS}, "dtick": 1},
        yaxis={"title": {"text": "Share of steps"}, "range": [0, 1.05], "zeroline": False},
    )


def windows_chart(reading: Reading, baseline: Reading | None = None) -> go.Figure:
    """Tokens per step of each window in order of time, with the mean of all, or a baseline's."""
    band = window_band(reading)
    rows = [w for w in reading.windows if w.tokens_per_step is not None]
    order = np.arange(1, len(rows) + 1)
    traces: list[Trace] = []
    if band.low is not None and band.high is not None:
        traces.append(
            band_of(order, band.low, band.high, "95% of its own steps", SPECULATION) | LINES
        )
    level = reading if baseline is None else baseline
    if level.tokens_per_step is not None:
        mean = np.full(order.size, level.tokens_per_step)
        name = "mean of all" if baseline is None else "mean of the baseline"
        traces.append(line_of(order, mean, name, SPECULATION, "dash", mode="lines"))
    hover = "%{customdata}: %{y:.2f} tokens<extra></extra>"
    traces.append(
        line_of(order, band.values, "tokens per step", SPECULATION, hovertemplate=hover,
                customdata=[w.when or f"line {w.line}" for w in rows])
    )  # fmt: skip
    return figure_of("Window, in order of time", "Tokens per step", traces)
