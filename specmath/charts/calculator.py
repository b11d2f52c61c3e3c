"""Figures of one prediction, of candidates, and of the cost of a token."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import (
    INK,
    MARKER,
    QUIET,
    Trace,
    axis,
    band_of,
    figure_of,
    heat_of,
    line_of,
    mark_of,
    trace,
)  # fmt: skip
from specmath.drafts import Outcome
from specmath.numbers import ratio
from specmath.palette import COST, LOSS, SPECULATION, shade
from specmath.predict import Prediction
from specmath.tables.table import Table

__all__ = [
    "alpha_gamma_heat",
    "arithmetic_over_gamma",
    "cost_over_gamma",
    "draft_cost_effect",
    "drafts_plane",
    "speedup_over_gamma",
    "tokens_distribution",
]


HOVER: Trace = {"hovertemplate": "%{y:.2f}×"}


def speedup_over_gamma(prediction: Prediction) -> go.Figure:
    """Speedup over γ with its range; marked: the γ chosen (advised where none is), the fastest."""
    curve, gamma, best = prediction.curve, prediction.gamma, prediction.best_gamma
    speed = curve.walltime_improvement
    traces = []
    if curve.low is not None and curve.high is not None:
        traces.append(band_of(curve.gamma, curve.low, curve.high, "Range", SPECULATION))
    traces.append(line_of(curve.gamma, speed, "Speedup", SPECULATION, **HOVER))
    name = f"{_whose(prediction)} γ={gamma}"
    name += ", the fastest" if gamma == best else ""
    # Each on its own side of the peak, where the line is below it.
    ours, fastest = ("top left", "top right") if gamma < best else ("top right", "top left")
    traces.append(mark_of(gamma, speed[gamma], name, SPECULATION, "diamond", ours))
    if gamma != best:
        traces.append(mark_of(best, speed[best], f"fastest γ={best}", SPECULATION, "star", fastest))
    return figure_of("Drafted tokens a step, γ", "Speedup ×", traces, plain=True)


def arithmetic_over_gamma(prediction: Prediction) -> go.Figure:
    """Speedup and arithmetic per token over γ, and where the second outgrows the first."""
    curve, crossing = prediction.curve, prediction.crossover_gamma
    work = curve.operations_increase
    traces = [
        line_of(curve.gamma, curve.walltime_improvement, "Speedup", SPECULATION, **HOVER),
        line_of(curve.gamma, work, "Arithmetic per token", COST, "dot", **HOVER),
    ]
    if 0 < crossing <= curve.gamma[-1]:
        crossed = mark_of(crossing, work[crossing], f"γ={crossing}", LOSS, "x")
        traces.append(crossed | {"name": "Crossover", "showlegend": True})
    return figure_of("Drafted tokens a step, γ", "× plain decoding", traces, plain=True)


def tokens_distribution(prediction: Prediction) -> go.Figure:
    """How often a step emits 1, 2, … γ+1 tokens at the γ in use."""
    chances = prediction.speculation.acceptance.step_pmf(prediction.gamma)
    hover = "%{x} tokens: %{y:.1f}% of steps<extra></extra>"
    look = {"marker": {"color": SPECULATION}, "hovertemplate": hover}
    bars = trace("bar", np.arange(1, len(chances) + 1), 100 * chances, **look)
    tokens = axis("Tokens a step emits", dtick=1)
    return figure_of(tokens, "Share of steps, %", [bars], hovermode="closest")


def _whose(prediction: Prediction) -> str:
    """Who chose the γ in use."""
    return "advised" if prediction.scenario.gamma is None else "yours"


def alpha_gamma_heat(table: Table, prediction: Prediction) -> go.Figure:
    """Heat map of speedup over α × γ (the table of that name), with the scenario's own point."""
    names = ("alpha", "gamma", "walltime_improvement")
    every, counts, speed = (np.array(table.column(name).values) for name in names)
    alphas, gammas = np.unique(every), np.unique(counts)
    grid = speed.astype(float).reshape(len(alphas), len(gammas))
    hover = "α=%{y:.2f}, γ=%{x}: %{customdata:.2f}×<extra></extra>"
    # Black on the heat map, it could not be seen in a dark legend; the caption names it.
    look = QUIET | {"mode": "lines", "line": {"color": INK, "width": 2}}
    best = gammas[np.argmax(grid, axis=1)]
    traces = [
        heat_of(gammas, alphas, grid, hover),
        trace("scatter", best, alphas, name="Best γ at each α", **look),
        mark_of(
            prediction.gamma, prediction.alpha, _whose(prediction).capitalize(), INK, "diamond"
        ),
    ]
    return figure_of("Drafted tokens a step, γ", "Acceptance α", traces, hovermode="closest")


def draft_cost_effect(table: Table, prediction: Prediction) -> go.Figure:
    """Speedup over the draft's cost c: at the best γ of each c, and at the γ in use."""
    names = ("c", "best_gamma", "best_speedup", "speedup_at_gamma")
    c, best, at_best, here = (table.column(name).values for name in names)
    # A number only where it changes: at small c the points lie close together.
    text = [f"{g}" if g != before else "" for before, g in pairwise((None, *best))]
    numbers: Trace = {"mode": "lines+markers+text", "text": text, "textposition": "top right"}
    hover: Trace = {"customdata": best, "hovertemplate": "%{y:.2f}× at γ=%{customdata}"}
    name, own = "At the best γ (number shown)", f"At γ={prediction.gamma}"
    traces = [
        line_of(c, at_best, name, SPECULATION, **numbers, **hover),
        line_of(c, here, own, SPECULATION, "dash", hovertemplate="%{y:.2f}×"),
    ]
    x_title = "Draft cost c (draft forward ÷ target forward)"
    return figure_of(x_title, "Speedup ×", traces, plain=True)


def drafts_plane(
    outcomes: Sequence[Outcome], alphas: np.ndarray, cs: np.ndarray, best: np.ndarray, *,
    memory_bound: bool = True,
) -> go.Figure:  # fmt: skip
    """Candidate drafts on contours of the speedup at the best γ, in the (α, c) plane.

    `best` has shape (len(cs), len(alphas)); `memory_bound`: it is Theorem 3.8's, where α = c is
    the border of what pays.
    """
    hover = "α=%{x:.2f}, c=%{y:.3f}: %{customdata:.2f}× at its best γ<extra></extra>"
    step = 0.5 if best.max() > 2.5 else 0.1
    contours = {"start": 1 + step, "end": 5, "size": step, "coloring": "none", "showlabels": True}
    lines = {"contours": contours, "line": {"width": 1, "color": INK}, "showscale": False}
    traces = [
        heat_of(alphas, cs, best, hover) | {"showscale": False},  # the lines carry their numbers
        trace("contour", alphas, cs, z=best, **lines, **QUIET),
        *([_break_even(min(float(alphas[-1]), float(cs[-1])))] if memory_bound else []),
        _candidates(outcomes),
    ]
    names = [_name_of(outcome) for outcome in outcomes]
    return figure_of("Acceptance α", "Draft cost c", traces, hovermode="closest", annotations=names)


def _break_even(end: float) -> Trace:
    look = {"mode": "lines", "line": {"color": LOSS, "dash": "dash", "width": 2}}
    name = "α = c: to its left nothing pays"
    return trace("scatter", [0, end], [0, end], name=name, hoverinfo="skip", **look)


def _name_of(outcome: Outcome) -> dict[str, Any]:
    """A candidate's name beside its point, on the side with more room, legible over the lines."""
    row = outcome.candidate
    side, shift = ("right", -9) if row.alpha > 0.5 else ("left", 9)
    return {
        "x": row.alpha, "y": row.c, "text": escape(row.draft, quote=False), "xanchor": side,
        "xshift": shift, "showarrow": False, "font": {"color": INK, "size": 12},
        "bgcolor": "rgba(243,244,246,0.75)", "borderpad": 0,
    }  # fmt: skip


def _candidates(outcomes: Sequence[Outcome]) -> Trace:
    labels = [
        f"{escape(o.candidate.draft, quote=False)}: {ratio(o.best_speedup)} at γ={o.best_gamma}"
        + (f", measured {ratio(o.candidate.measured_speedup)}" if o.miss is not None else "")
        for o in outcomes
    ]
    alphas, costs = [o.candidate.alpha for o in outcomes], [o.candidate.c for o in outcomes]
    look: Trace = {"mode": "markers", "marker": MARKER | {"color": INK, "symbol": "circle"}}
    hover = {"customdata": labels, "hovertemplate": "%{customdata}<extra></extra>"}
    return trace("scatter", alphas, costs, name="Candidates", **look, **hover)


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
