"""Figures: each builder takes results and returns a plotly figure; it computes nothing itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specmath.candidates import Outcome
from specmath.palette import COST, LOSS, PLAIN, SPECULATION, shade
from specmath.predict import Prediction
from specmath.tables import Table
from specmath.wording import ratio

__all__ = [
    "alpha_gamma_heat",
    "cost_over_gamma",
    "draft_cost_effect",
    "drafts_plane",
    "speedup_over_gamma",
]

# On the pale middle of a heat map, which is the same in the light and the dark theme.
INK = "#111827"
MARKER = {"size": 12, "line": {"width": 2, "color": "white"}}


def _figure(x_title: str, y_title: str, **layout: Any) -> go.Figure:
    """An empty figure with units on its axes and the legend off the data."""
    return go.Figure(
        layout={
            "xaxis": {"title": {"text": x_title}, "zeroline": False},
            "yaxis": {"title": {"text": y_title}, "zeroline": False},
            "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
            "margin": {"l": 55, "r": 15, "t": 35, "b": 45},
            "hovermode": "x unified",
        }
        | layout
    )


def _line(x: Any, y: Any, name: str, color: str, dash: str = "solid", **more: Any) -> go.Scatter:
    line = {"color": color, "dash": dash, "width": 2.5}
    return go.Scatter(x=x, y=y, name=name, mode="lines+markers", line=line, **more)


def _mark(
    x: float, y: float, name: str, color: str, symbol: str, where: str = "top center"
) -> go.Scatter:
    """One marked point with its name beside it, so that the legend need not hold it."""
    return go.Scatter(
        x=[x],
        y=[y],
        name=name,
        text=[name],
        mode="markers+text",
        textposition=where,
        textfont={"color": color},
        cliponaxis=False,
        marker=MARKER | {"color": color, "symbol": symbol},
        hoverinfo="skip",
        showlegend=False,
    )


def _plain_line(figure: go.Figure, text: str = "plain decoding") -> None:
    line = {"color": PLAIN, "dash": "dash", "width": 1.5}
    note = {"color": PLAIN}
    figure.add_hline(
        y=1,
        line=line,
        annotation_text=text,
        annotation_font=note,
        annotation_position="bottom right",
    )


def _band(x: np.ndarray, low: np.ndarray, high: np.ndarray, name: str, color: str) -> go.Scatter:
    return go.Scatter(
        x=np.concatenate((x, x[::-1])),
        y=np.concatenate((high, low[::-1])),
        name=name,
        fill="toself",
        fillcolor=shade(color, 0.18),
        line={"width": 0},
        hoverinfo="skip",
    )


def speedup_over_gamma(prediction: Prediction) -> go.Figure:
    """Speedup and arithmetic per token over γ, with the best, the current and the crossover γ."""
    curve, gamma = prediction.curve, prediction.scenario.gamma
    figure = _figure("Drafted tokens a step, γ", "× plain decoding")
    if curve.low is not None and curve.high is not None:
        figure.add_trace(
            _band(curve.gamma, curve.low, curve.high, "Speedup, range of the unknown", SPECULATION)
        )
    hover = "%{y:.2f}×"
    figure.add_trace(
        _line(curve.gamma, curve.walltime_improvement, "Speedup", SPECULATION, hovertemplate=hover)
    )
    work = curve.operations_increase
    figure.add_trace(
        _line(curve.gamma, work, "Arithmetic per token", COST, "dot", hovertemplate=hover)
    )
    _plain_line(figure)
    speed = curve.walltime_improvement
    best, crossing = prediction.best_gamma, prediction.crossover_gamma
    yours = _mark(gamma, speed[gamma], f"yours γ={gamma}", SPECULATION, "diamond", "bottom right")
    figure.add_trace(yours)
    figure.add_trace(_mark(best, speed[best], f"best γ={best}", SPECULATION, "star"))
    if 0 < crossing <= curve.gamma[-1]:
        name = f"crossover γ={crossing}"
        figure.add_trace(_mark(crossing, work[crossing], name, LOSS, "x", "bottom right"))
    return figure


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


def alpha_gamma_heat(table: Table, prediction: Prediction) -> go.Figure:
    """Heat map of speedup over α × γ (the table of that name), with the scenario's own point."""
    alphas = np.unique(np.array(table.column("alpha").values, dtype=float))
    gammas = np.unique(np.array(table.column("gamma").values, dtype=int))
    grid = np.array(table.column("walltime_improvement").values, dtype=float)
    grid = grid.reshape(len(alphas), len(gammas))
    figure = _figure("Drafted tokens a step, γ", "Acceptance α", hovermode="closest")
    figure.add_trace(
        go.Heatmap(
            x=gammas,
            y=alphas,
            z=np.log2(grid),
            customdata=grid,
            hovertemplate="α=%{y:.2f}, γ=%{x}: %{customdata:.2f}×<extra></extra>",
            **_ratio_scale(),
        )
    )
    best = gammas[np.argmax(grid, axis=1)]
    figure.add_trace(
        go.Scatter(
            x=best,
            y=alphas,
            name="Best γ at each α",
            mode="lines",
            line={"color": INK, "width": 2},
            hoverinfo="skip",
        )
    )
    mark = _mark(prediction.scenario.gamma, prediction.alpha, "Yours", INK, "diamond")
    figure.add_trace(mark)
    return figure


def draft_cost_effect(table: Table, prediction: Prediction) -> go.Figure:
    """Speedup over the draft's cost c: at the best γ of each c, and at the γ in use."""
    gamma = prediction.scenario.gamma
    c, best = table.column("c").values, table.column("best_gamma").values
    figure = _figure("Draft cost c (draft forward ÷ target forward)", "Speedup ×")
    at_best = _line(
        c,
        table.column("best_speedup").values,
        "At the best γ (number shown)",
        SPECULATION,
        text=[f"{g}" for g in best],
        textposition="top center",
        hovertemplate="%{y:.2f}× at γ=%{text}",
    )
    figure.add_trace(at_best.update(mode="lines+markers+text"))
    here = table.column("speedup_at_gamma").values
    name = f"At γ={gamma}"
    figure.add_trace(_line(c, here, name, PLAIN, "dash", hovertemplate="%{y:.2f}×"))
    _plain_line(figure)
    return figure


def drafts_plane(
    outcomes: Sequence[Outcome], alphas: np.ndarray, cs: np.ndarray, best: np.ndarray
) -> go.Figure:
    """Candidate drafts on contours of the speedup at the best γ, in the (α, c) plane.

    `best` has shape (len(cs), len(alphas)).
    """
    figure = _figure("Acceptance α", "Draft cost c", hovermode="closest")
    figure.add_trace(
        go.Heatmap(
            x=alphas,
            y=cs,
            z=np.log2(best),
            customdata=best,
            hovertemplate="α=%{x:.2f}, c=%{y:.3f}: %{customdata:.2f}× at its best γ<extra></extra>",
            **_ratio_scale(),
        )
    )
    figure.add_trace(
        go.Contour(
            x=alphas,
            y=cs,
            z=best,
            contours={"start": 1.5, "end": 8, "size": 0.5, "coloring": "none", "showlabels": True},
            line={"width": 1, "color": INK},
            hoverinfo="skip",
            showscale=False,
        )
    )
    break_even = min(float(alphas[-1]), float(cs[-1]))
    figure.add_trace(
        go.Scatter(
            x=[0, break_even],
            y=[0, break_even],
            name="α = c: to its left nothing pays",
            mode="lines",
            line={"color": LOSS, "dash": "dash", "width": 2},
            hoverinfo="skip",
        )
    )
    names = [
        f"{o.candidate.draft}: {ratio(o.best_speedup)} at γ={o.best_gamma}"
        + (f", measured {ratio(o.candidate.measured_speedup)}" if o.miss is not None else "")
        for o in outcomes
    ]
    figure.add_trace(
        go.Scatter(
            x=[o.candidate.alpha for o in outcomes],
            y=[o.candidate.c for o in outcomes],
            text=[o.candidate.draft for o in outcomes],
            customdata=names,
            name="Candidates",
            mode="markers+text",
            textposition="top center",
            textfont={"color": INK, "size": 13},
            marker=MARKER | {"color": INK, "symbol": "circle"},
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    return figure


def cost_over_gamma(curves: Sequence[tuple[str, np.ndarray]], gamma: int) -> go.Figure:
    """Cost per token against plain decoding over γ, one curve a regime; γ in use marked."""
    figure = _figure("Drafted tokens a step, γ", "Cost per token, × plain decoding")
    for (name, cost), dash in zip(curves, ("dot", "solid", "dash"), strict=True):
        line = _line(np.arange(len(cost)), cost, name, COST, dash, hovertemplate="%{y:.2f}×")
        figure.add_trace(line)
        figure.add_trace(_mark(gamma, cost[gamma], "", COST, "diamond"))
    _plain_line(figure)
    return figure
