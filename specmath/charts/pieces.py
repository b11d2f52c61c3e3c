"""The pieces figures are made of: axes with units, lines, marks, bands and heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specmath.palette import LOSS, PLAIN, SPECULATION, shade

__all__ = ["INK", "MARKER", "Trace", "band_of", "figure_of", "heat_of", "line_of", "mark_of"]

# On the pale middle of a heat map, which is the same in the light and the dark theme.
INK = "#111827"
MARKER = {"size": 12, "line": {"width": 2, "color": "white"}}


Trace = dict[str, Any]


def figure_of(
    x_title: str, y_title: str, traces: Sequence[Trace], *, plain: bool = False, **layout: Any
) -> go.Figure:
    """A figure with units on its axes and the legend off the data; `plain` marks y = 1.

    Everything is handed over as dicts at once: adding pieces to a figure validates it each time.
    """
    base = {
        "xaxis": {"title": {"text": x_title}, "zeroline": False},
        "yaxis": {"title": {"text": y_title}, "zeroline": False},
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
        "margin": {"l": 55, "r": 15, "t": 35, "b": 45},
        "hovermode": "x unified",
    }
    return go.Figure(
        {"data": list(traces), "layout": base | (PLAIN_LINE if plain else {}) | layout}
    )


PLAIN_LINE: dict[str, Any] = {
    "shapes": [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": 1,
            "y1": 1,
            "line": {"color": PLAIN, "dash": "dash", "width": 1.5},
        }
    ],
    "annotations": [
        {
            "text": "plain decoding",
            "xref": "paper",
            "x": 1,
            "y": 1,
            "xanchor": "right",
            "yanchor": "top",
            "showarrow": False,
            "font": {"color": PLAIN},
        }
    ],
}


def line_of(x: Any, y: Any, name: str, color: str, dash: str = "solid", **more: Any) -> Trace:
    line = {"color": color, "dash": dash, "width": 2.5}
    base = {"type": "scatter", "x": x, "y": y, "name": name, "mode": "lines+markers", "line": line}
    return base | more


def mark_of(
    x: float, y: float, name: str, color: str, symbol: str, where: str = "top center"
) -> Trace:
    """One marked point with its name beside it, so that the legend need not hold it.

    The name is in the theme's own colour: small red or amber text is hard to read on dark.
    """
    return {
        "type": "scatter",
        "x": [x],
        "y": [y],
        "name": name,
        "text": [name],
        "mode": "markers+text",
        "textposition": where,
        "cliponaxis": False,
        "marker": MARKER | {"color": color, "symbol": symbol},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def band_of(x: np.ndarray, low: np.ndarray, high: np.ndarray, name: str, color: str) -> Trace:
    return {
        "type": "scatter",
        "x": np.concatenate((x, x[::-1])),
        "y": np.concatenate((high, low[::-1])),
        "name": name,
        "fill": "toself",
        "fillcolor": shade(color, 0.18),
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _ratio_scale() -> dict[str, Any]:
    """For log2 of a ratio: red below 1×, pale at 1×, blue above; as far each way."""
    ticks = (0.25, 0.5, 1, 2, 4)
    return {
        "zmin": -2,
        "zmax": 2,
        "colorscale": [[0, LOSS], [0.5, "#f3f4f6"], [1, SPECULATION]],
        "colorbar": {
            "title": {"text": "Speedup"},
            "tickvals": [math.log2(t) for t in ticks],
            "ticktext": [f"{t:g}×" for t in ticks],
        },
    }


def heat_of(x: np.ndarray, y: np.ndarray, speedup: np.ndarray, hover: str) -> Trace:
    return {
        "type": "heatmap",
        "x": x,
        "y": y,
        "z": np.log2(speedup),
        "customdata": speedup,
        "hovertemplate": hover,
    } | _ratio_scale()
