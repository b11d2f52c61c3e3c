"""The pieces figures are made of: axes with units, lines, marks, bands and heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specmath.palette import LOSS, PLAIN, SPECULATION, shade

__all__ = [
    "INK", "MARKER", "PLAIN_NOTE", "QUIET", "Trace", "axis", "band_of", "figure_of", "heat_of",
    "line_of", "mark_of", "trace",
]  # fmt: skip

# On the pale middle of a heat map, which is the same in the light and the dark theme.
INK = "#111827"
MARKER = {"size": 12, "line": {"width": 2, "color": "white"}}
QUIET = {"hoverinfo": "skip", "showlegend": False}
"""Of a trace that says itself what it is."""

Trace = dict[str, Any]


def axis(title: str, **more: Any) -> Trace:
    return {"title": {"text": title}, **more}


def figure_of(
    x: str | Trace, y: str | Trace, traces: Sequence[Trace], *, plain: bool = False, **layout: Any
) -> go.Figure:
    """A figure with units on its axes and the legend off the data; `plain` marks y = 1.

    Everything is handed over as dicts at once: adding pieces to a figure validates it each time.
    """
    across, up = (axis(a, zeroline=False) if isinstance(a, str) else a for a in (x, y))
    base = {
        "xaxis": across, "yaxis": up, "hovermode": "x unified",
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        "margin": {"l": 55, "r": 15, "t": 35, "b": 45},
    }  # fmt: skip
    layout = base | (PLAIN_LINE if plain else {}) | layout
    return go.Figure({"data": list(traces), "layout": layout})


PLAIN_NOTE: Trace = {
    "text": "plain decoding", "xref": "paper", "x": 1, "y": 1, "showarrow": False,
    "xanchor": "right", "yanchor": "top", "font": {"color": PLAIN},
}  # fmt: skip
PLAIN_LINE: Trace = {
    "shapes": [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1,
                "line": {"color": PLAIN, "dash": "dash", "width": 1.5}}],
    "annotations": [PLAIN_NOTE],
}  # fmt: skip


def trace(kind: str, x: Any, y: Any, **more: Any) -> Trace:
    return {"type": kind, "x": x, "y": y, **more}


def line_of(x: Any, y: Any, name: str, color: str, dash: str = "solid", **more: Any) -> Trace:
    line = {"color": color, "dash": dash, "width": 2.5}
    return trace("scatter", x, y, name=name, mode="lines+markers", line=line) | more


def mark_of(
    x: float, y: float, name: str, color: str, symbol: str, where: str = "top center"
) -> Trace:
    """One marked point with its name beside it, so that the legend need not hold it.

    The name is in the theme's own colour: small red or amber text is hard to read on dark.
    """
    text = {"mode": "markers+text", "text": [name], "textposition": where, "cliponaxis": False}
    marker = MARKER | {"color": color, "symbol": symbol}
    return trace("scatter", [x], [y], name=name, marker=marker, **text, **QUIET)


def band_of(x: np.ndarray, low: np.ndarray, high: np.ndarray, name: str, color: str) -> Trace:
    border = np.concatenate((x, x[::-1])), np.concatenate((high, low[::-1]))
    fill = {"fill": "toself", "fillcolor": shade(color, 0.18), "line": {"width": 0}}
    return trace("scatter", *border, name=name, hoverinfo="skip", **fill)


def heat_of(x: np.ndarray, y: np.ndarray, speedup: np.ndarray, hover: str) -> Trace:
    """log2 of the speedup: red below 1×, pale at 1×, blue above; as far each way."""
    ticks = (0.25, 0.5, 1, 2, 4)
    return trace(
        "heatmap", x, y, z=np.log2(speedup), customdata=speedup, hovertemplate=hover,
        zmin=-2, zmax=2, colorscale=[[0, LOSS], [0.5, "#f3f4f6"], [1, SPECULATION]],
        colorbar=axis("Speedup", tickvals=list(map(math.log2, ticks)),
                      ticktext=[f"{t:g}×" for t in ticks]),
    )  # fmt: skip
