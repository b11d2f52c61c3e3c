"""How long requests take: quantiles in both arms, stretched where requests are slow."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import Trace, axis, band_of, figure_of, line_of, mark_of
from specmath.palette import PLAIN, SPECULATION
from specmath.spread import Spread
from specmath.tails import Tails
from specmath.words.tails import SLOWEST

__all__ = ["request_times"]

TICKS = (0.5, 0.9, 0.99, 0.999)


def request_times(found: Tails) -> go.Figure:
    """Time of a request over the share that takes no longer, in both arms with their ranges."""
    arms = found.whole
    unit, digits = ("s", ".3s") if found.timed else ("plain steps", ".4s")
    traces: list[Trace] = []
    for name, spread, color, dash in (
        ("Plain decoding", arms.plain, PLAIN, "dash"),
        (f"γ={found.gamma}", arms.speculative, SPECULATION, "solid"),
    ):
        traces += _curve(name, spread, color, dash, f"%{{y:{digits}}} {unit}")
    marks = {"tickvals": [_place(q) for q in TICKS], "ticktext": [f"{q * 100:g}%" for q in TICKS]}
    shares = axis("Share of requests that take no longer", range=[0.0, 3.15], **marks)
    what = "Request" if found.request is not None else "Tokens after the first"
    return figure_of(shares, axis(f"{what}, {unit}", rangemode="tozero"), traces)


def _place(level: float) -> float:
    """Where a quantile stands: each further nine as far as the one before."""
    return float(-np.log10(1.0 - level))


def _curve(name: str, spread: Spread, color: str, dash: str, hover: str) -> list[Trace]:
    x = np.array([_place(q) for q in spread.levels])
    low, high = spread.band
    shares = [f"{100 * q:g}%" for q in spread.levels]
    look: Trace = {"mode": "lines", "customdata": shares,
                   "hovertemplate": f"{hover} at %{{customdata}}"}  # fmt: skip
    band = band_of(x, low, high, f"Range, {name}", color) | {"showlegend": False}
    line = line_of(x, spread.values, name, color, dash, **look)
    slowest = float(spread.values[spread.levels.index(SLOWEST)])
    return [band, line, mark_of(_place(SLOWEST), slowest, "p99", color, "diamond", "bottom right")]
