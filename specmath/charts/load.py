"""Figures over batch and context: where speculation stops paying, and what a step is spent on."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import INK, figure_of, line_of, mark_of
from specmath.palette import COST, PLAIN, SPECULATION
from specmath.scenario import Scenario
from specmath.serving.study import LoadStudy

__all__ = ["cost_over_batch", "gamma_heat", "operators_over_batch", "speedup_over_batch"]

BATCH_AXIS = {"type": "category", "title": {"text": "Batch: sequences decoded together"}}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
OPERATORS = {
    "weights": ("Weights", "#0891b2"),
    "kv": ("KV cache", "#2dd4bf"),
    "arithmetic": ("Arithmetic", COST),
    "elementwise": ("Norms, activations", "#c4b5fd"),
    "launch": ("Launches", "#facc15"),
    "communication": ("All-reduce", "#f472b6"),
    "sampling": ("Sampling", "#a3e635"),
    "host": ("Host", "#b08968"),
    "drafting": ("Drafting", SPECULATION),
    "overhead": ("Overhead of speculation", "#9333ea"),
}


def _tokens(count: int) -> str:
    return f"{count // 1024}k" if count % 1024 == 0 else f"{count:,}"


def _points(fits: np.ndarray) -> dict[str, Any]:
    """Markers that are hollow where memory does not hold the batch."""
    return {"symbol": ["circle" if each else "circle-open" for each in fits], "size": 7}


def speedup_over_batch(study: LoadStudy) -> go.Figure:
    """Speedup at the γ in use over batch, a line a context; hollow beyond the memory."""
    batches = [str(b) for b in study.batches]
    traces = [
        line_of(
            batches,
            study.at_gamma[:, i],
            f"Context {_tokens(int(context))}" + (" (yours)" if i == study.own else ""),
            SPECULATION,
            DASHES[i % len(DASHES)],
            hovertemplate="%{y:.2f}×",
            marker=_points(study.fits[:, i]),
        )
        for i, context in enumerate(study.contexts)
    ]
    row = int(np.flatnonzero(study.batches == study.served.batch)[0])
    mark = mark_of(
        0, float(study.at_gamma[row, study.own]), "yours", SPECULATION, "diamond", "bottom left"
    )
    traces.append(mark | {"x": [batches[row]]})
    title = f"Speedup at γ={study.gamma}, ×"
    return figure_of("", title, traces, plain=True, xaxis=BATCH_AXIS)


def gamma_heat(study: LoadStudy) -> go.Figure:
    """The recommended γ (smallest within 2%) over batch × context; bracketed beyond the memory."""
    best = study.recommended_gamma.T
    trace = {
        "type": "heatmap",
        "x": [str(b) for b in study.batches],
        "y": [_tokens(int(c)) for c in study.contexts],
        "z": best,
        "text": [
            [f"{g}" if fits else f"({g})" for g, fits in zip(row, held, strict=True)]
            for row, held in zip(best, study.fits.T, strict=True)
        ],
        "texttemplate": "%{text}",
        "textfont": {"color": INK},
        "colorscale": [[0, "#f3f4f6"], [1, SPECULATION]],
        "zmin": 0,
        "zmax": max(4, int(best.max())),
        "showscale": False,  # the number stands in each cell
        "hovertemplate": "batch %{x}, context %{y}: γ=%{z}<extra></extra>",
    }
    axes: dict[str, Any] = {"xaxis": BATCH_AXIS}
    axes["yaxis"] = {"type": "category", "title": {"text": "Context"}}
    return figure_of("", "", [trace], hovermode="closest", **axes)


def operators_over_batch(study: LoadStudy) -> go.Figure:
    """A step by operator, stacked, plain beside speculative: in plain steps of the same batch.

    Milliseconds, which grow a hundredfold over batch, are read by pointing at a bar. Pale beyond
    the memory.
    """
    batches = [str(b) for b in study.batches]
    shade = [1.0 if fits else 0.35 for fits in study.fits[:, study.own]]
    traces = []
    for name, (label, color) in OPERATORS.items():
        plain, spec = study.plain_operators[name], study.speculative_operators[name]
        if plain.max() == spec.max() == 0:
            continue
        for group, values in (("plain", plain), ("speculative", spec)):
            traces.append(
                {
                    "type": "bar",
                    "x": batches,
                    "y": values / study.plain_seconds,
                    "customdata": values * 1e3,
                    "name": label,
                    "legendgroup": label,
                    "showlegend": group == "speculative",
                    "offsetgroup": group,
                    "marker": {"color": color, "opacity": shade},
                    "hovertemplate": f"{group}, {label}: %{{customdata:.2f}} ms, %{{y:.2f}} plain "
                    "steps<extra></extra>",
                }
            )
    layout: dict[str, Any] = {"barmode": "relative", "hovermode": "closest", "xaxis": BATCH_AXIS}
    title = "Plain steps of that batch (plain left, speculative right)"
    return figure_of("", title, traces, **layout)


def cost_over_batch(study: LoadStudy, scenario: Scenario) -> go.Figure:
    """USD per million output tokens over batch: plain decoding, and the recommended γ of each."""
    batches = [str(b) for b in study.batches]
    none = np.zeros(len(batches), dtype=np.int64)
    hover: dict[str, Any] = {"hovertemplate": "$%{y:.3g}"}
    hover["marker"] = _points(study.fits[:, study.own])
    plain = study.usd_per_million(scenario, none)
    best = study.usd_per_million(scenario, study.recommended_gamma[:, study.own])
    traces = [
        line_of(batches, plain, "Plain decoding", PLAIN, "dash", **hover),
        line_of(batches, best, "Speculative, recommended γ at each batch", COST, **hover),
    ]
    axes: dict[str, Any] = {"xaxis": BATCH_AXIS}
    ticks = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    axes["yaxis"] = {
        "type": "log",
        "title": {"text": "USD per million output tokens (log)"},
        "tickvals": ticks,
        "ticktext": [f"${tick:g}" for tick in ticks],
    }
    return figure_of("", "", traces, **axes)
