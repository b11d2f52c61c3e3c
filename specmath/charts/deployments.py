"""The front of deployments: time per token against what a million tokens cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import QUIET, Trace, axis, figure_of, trace
from specmath.deployments import Deployment, Search
from specmath.frontier import with_ends
from specmath.palette import PLAIN, SPECULATION, shade

__all__ = ["front_chart"]


def front_chart(found: Search) -> go.Figure:
    """Both fronts, with the range of each time."""
    traces: list[Trace] = []
    for each, name, color, symbol, dash in (
        (found.plain_front, "Plain decoding", PLAIN, "circle", "dash"),
        (found.front, "With the best γ", SPECULATION, "diamond", "solid"),
    ):
        traces += _front(each, name, color, symbol, dash)
    return figure_of(
        axis("Time per token, ms", type="log", dtick="D2"),
        axis("USD a million output tokens", type="log", dtick="D2"), traces, hovermode="closest",
    )  # fmt: skip


def _front(
    each: Sequence[Deployment], name: str, color: str, symbol: str, dash: str
) -> list[Trace]:
    if not each:
        return []
    x, low, high = 1e3 * with_ends(d.tpot for d in each)
    y = np.array([d.usd_per_million.value for d in each])
    # Where a server may not carry the load at all, the range has no end.
    high = np.where(np.isfinite(high), high, 2.0 * float(x.max()))
    border = np.concatenate((low, high[::-1])), np.concatenate((y, y[::-1]))
    band = trace("scatter", *border, name=f"Range, {name}", fill="toself",
                 fillcolor=shade(color, 0.18), line={"width": 0},
                 mode="lines", **QUIET)  # fmt: skip
    text = [
        f"{d.scenario.gpu} × {d.gpus}, {d.draft or 'plain'}"
        f"{f', γ={d.gamma}' if d.gamma else ''}, {d.rate:.3g} requests/s"
        for d in each
    ]
    front = trace(
        "scatter", x, y, name=name, mode="lines+markers", text=text,
        marker={"symbol": symbol, "size": 8}, line={"color": color, "dash": dash, "width": 2},
        hovertemplate="%{text}<br>%{x:.3s} ms, $%{y:.3g} a million<extra></extra>",
    )  # fmt: skip
    return [band, front]
