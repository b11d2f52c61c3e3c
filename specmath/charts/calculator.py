"""Figures: each builder takes results and returns a plotly figure; it computes nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specmath.candidates import Outcome
from specmath.charts.pieces import INK, MARKER, Trace, band_of, figure_of, heat_of, line_of, mark_of
from specmath.palette import COST, LOSS, SPECULATION, shade
from specmath.predict import Prediction
from specmath.sheets.tables import Table
from specmath.wording import ratio

__all__ = [
    "alpha_gamma_heat",
    "cost_over_gamma",
    "draft_cost_effect",
    "drafts_plane",
    "speedup_over_gamma",
    "tokens_distribution",
]


def speedup_over_gamma(prediction: Prediction) -> go.Figure:
    """Speedup and arithmetic per token over γ, with the best, the current and the crossover γ."""
    curve, gamma = prediction.curve, prediction.scenario.gamma
    speed, work = curve.walltime_improvement, curve.operations_increase
    best, crossing = prediction.best_gamma, prediction.crossover_gamma
    hover = {"hovertemplate": "%{y:.2f}×"}
    traces = []
    if curve.low is not None and curve.high is not None:
        name = "Range"
        traces.append(band_of(curve.gamma, curve.low, curve.high, name, SPECULATION))
    traces += [
        line_of(curve.gamma, speed, "Speedup", SPECULATION, **hover),
        line_of(curve.gamma, work, "Arithmetic per token", COST, "dot", **hover),
        mark_of(gamma, speed[gamma], f"yours γ={gamma}", SPECULATION, "diamond", "bottom right"),
        mark_of(best, speed[best], f"best γ={best}", SPECULATION, "star"),
    ]
    if 0 < crossing <= curve.gamma[-1]:
        crossed = mark_of(crossing, work[crossing], f"γ={crossing}", LOSS, "x")
        traces.append(crossed | {"name": "Crossover", "showlegend": True})
    return figure_of("Drafted tokens a step, γ", "× plain decoding", traces, plain=True)


def tokens_distribution(prediction: Prediction) -> go.Figure:
    """How often a step emits 1, 2, … γ+1 tokens at the γ in use."""
    chances = prediction.halves.acceptance.step_pmf(prediction.scenario.gamma)
    bars = {
        "type": "bar",
        "x": np.arange(1, len(chances) + 1),
        "y": 100 * chances,
        "marker": {"color": SPECULATION},
        "hovertemplate": "%{x} tokens: %{y:.1f}% of steps<extra></extra>",
    }
    axes: dict[str, Any] = {"xaxis": {"title": {"text": "Tokens a step emits"}, "dtick": 1}}
    return figure_of("", "Share of steps, %", [bars], hovermode="closest", **axes)


def alpha_gamma_heat(table: Table, prediction: Prediction) -> go.Figure:
    """Heat map of speedup over α × γ (the table of that name), with the scenario's own point."""
    alphas = np.unique(np.array(table.column("alpha").values, dtype=float))
    gammas = np.unique(np.array(table.column("gamma").values, dtype=int))
    grid = np.array(table.column("walltime_improvement").values, dtype=float)
    grid = grid.reshape(len(alphas), len(gammas))
    hover = "α=%{y:.2f}, γ=%{x}: %{customdata:.2f}×<extra></extra>"
    traces = [
        heat_of(gammas, alphas, grid, hover),
        {
            "type": "scatter",
            "x": gammas[np.argmax(grid, axis=1)],
            "y": alphas,
            "name": "Best γ at each α",
            "mode": "lines",
            "line": {"color": INK, "width": 2},
            "hoverinfo": "skip",
            # Black on the heat map, it could not be seen in a dark legend; the caption names it.
            "showlegend": False,
        },
        mark_of(prediction.scenario.gamma, prediction.alpha, "Yours", INK, "diamond"),
    ]
    return figure_of("Drafted tokens a step, γ", "Acceptance α", traces, hovermode="closest")


def draft_cost_effect(table: Table, prediction: Prediction) -> go.Figure:
    """Speedup over the draft's cost c: at the best γ of each c, and at the γ in use."""
    c, best = table.column("c").values, table.column("best_gamma").values
    at_best = line_of(
        c,
        table.column("best_speedup").values,
        "At the best γ (number shown)",
        SPECULATION,
        # A number only where it changes: at small c the points lie close together.
        text=[f"{g}" if g != before else "" for before, g in pairwise((None, *best))],
        customdata=best,
        textposition="top right",
        mode="lines+markers+text",
        hovertemplate="%{y:.2f}× at γ=%{customdata}",
    )
    here = table.column("speedup_at_gamma").values
    name = f"At γ={prediction.scenario.gamma}"
    own = line_of(c, here, name, SPECULATION, "dash", hovertemplate="%{y:.2f}×")
    x_title = "Draft cost c (draft forward ÷ target forward)"
    return figure_of(x_title, "Speedup ×", [at_best, own], plain=True)


def drafts_plane(
    outcomes: Sequence[Outcome],
    alphas: np.ndarray,
    cs: np.ndarray,
    best: np.ndarray,
    *,
    memory_bound: bool = True,
) -> go.Figure:
    """Candidate drafts on contours of the speedup at the best γ, in the (α, c) plane.

    `best` has shape (len(cs), len(alphas)); `memory_bound`: it is Theorem 3.8's, where α = c is
    the border of what pays.
    """
    hover = "α=%{x:.2f}, c=%{y:.3f}: %{customdata:.2f}× at its best γ<extra></extra>"
    step = 0.5 if best.max() > 2.5 else 0.1
    contours = {"start": 1 + step, "end": 5, "size": step, "coloring": "none", "showlabels": True}
    traces = [
        heat_of(alphas, cs, best, hover) | {"showscale": False},  # the lines carry their numbers
        {
            "type": "contour",
            "x": alphas,
            "y": cs,
            "z": best,
            "contours": contours,
            "line": {"width": 1, "color": INK},
            "hoverinfo": "skip",
            "showscale": False,
            "showlegend": False,
        },
        *([_break_even(min(float(alphas[-1]), float(cs[-1])))] if memory_bound else []),
        _candidates(outcomes),
    ]
    layout: dict[str, Any] = {"annotations": [_name_of(o) for o in outcomes]}
    return figure_of("Acceptance α", "Draft cost c", traces, hovermode="closest", **layout)


def _break_even(end: float) -> Trace:
    return {
        "type": "scatter",
        "x": [0, end],
        "y": [0, end],
        "name": "α = c: to its left nothing pays",
        "mode": "lines",
        "line": {"color": LOSS, "dash": "dash", "width": 2},
        "hoverinfo": "skip",
    }


def _name_of(outcome: Outcome) -> dict[str, Any]:
    """A candidate's name beside its point, on the side with more room, legible over the lines."""
    row = outcome.candidate
    left = row.alpha > 0.5
    return {
        "x": row.alpha,
        "y": row.c,
        "text": escape(row.draft, quote=False),
        "xanchor": "right" if left else "left",
        "xshift": -9 if left else 9,
        "showarrow": False,
        "font": {"color": INK, "size": 12},
        "bgcolor": "rgba(243,244,246,0.75)",
        "borderpad": 0,
    }


def _candidates(outcomes: Sequence[Outcome]) -> Trace:
    labels = [
        f"{escape(o.candidate.draft, quote=False)}: {ratio(o.best_speedup)} at γ={o.best_gamma}"
        + (f", measured {ratio(o.candidate.measured_speedup)}" if o.miss is not None else "")
        for o in outcomes
    ]
    return {
        "type": "scatter",
        "x": [o.candidate.alpha for o in outcomes],
        "y": [o.candidate.c for o in outcomes],
        "customdata": labels,
        "name": "Candidates",
        "mode": "markers",
        "marker": MARKER | {"color": INK, "symbol": "circle"},
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def cost_over_gamma(curves: Sequence[tuple[str, np.ndarray]], gamma: int) -> go.Figure:
    """Cost per token against plain decoding over γ, one curve a regime; γ in use marked."""
    traces = []
    for (name, cost), dash in zip(curves, ("dot", "solid", "dash"), strict=True):
        drawn = line_of(np.arange(len(cost)), cost, name, COST, dash, hovertemplate="%{y:.2f}×")
        if dash == "solid":  # wide and pale: the regime that it may coincide with shows through
            drawn["line"] = drawn["line"] | {"width": 9, "color": shade(COST, 0.4)}
            drawn["marker"] = {"color": COST}
        traces.append(drawn)
        traces.append(mark_of(gamma, cost[gamma], "", COST, "diamond"))
    y_title = "Cost per token, × plain decoding"
    return figure_of("Drafted tokens a step, γ", y_title, traces, plain=True)
