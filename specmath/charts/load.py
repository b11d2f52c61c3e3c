"""Figures over batch and context: where speculation stops paying, and what a step is spent on."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import (
    INK,
    Trace,
    axis,
    band_of,
    figure_of,
    line_of,
    mark_of,
    trace,
)
from specmath.load import LoadStudy
from specmath.palette import COST, PLAIN, SPECULATION
from specmath.scenario import Scenario
from specmath.serving.loop import Loop

__all__ = ["cost_over_batch", "gamma_heat", "operators_over_batch", "speedup_over_batch"]

BATCH_AXIS = axis("Batch that is held: sequences decoded together", type="category")
OWN: dict[Loop, str] = {"held": "yours", "closed": "yours, if held", "wave": "yours, if held"}
"""What the point at the scenario's own number of requests is called; an open loop has none."""
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


def _points(fits: np.ndarray) -> Trace:
    """Markers that are hollow where memory does not hold the batch."""
    return {"symbol": ["circle" if each else "circle-open" for each in fits], "size": 7}


def speedup_over_batch(study: LoadStudy) -> go.Figure:
    """Speedup at the γ in use over batch, a line a context; the range at the own; hollow beyond
    the memory."""
    batches = [str(b) for b in study.batches]
    low, high = (end[:, study.own] for end in study.ends)
    traces = [band_of(np.array(batches), low, high, "Range (yours)", SPECULATION)]
    for i, context in enumerate(study.contexts):
        name = f"Context {_tokens(int(context))}" + (" (yours)" if i == study.own else "")
        look: Trace = {"hovertemplate": "%{y:.2f}×", "marker": _points(study.fits[:, i])}
        dash = DASHES[i % len(DASHES)]
        traces.append(line_of(batches, study.at_gamma[:, i], name, SPECULATION, dash, **look))
    if study.loop in OWN:
        row = int(np.flatnonzero(study.batches == study.served.batch)[0])
        here = float(study.at_gamma[row, study.own])
        mark = mark_of(0, here, OWN[study.loop], SPECULATION, "diamond", "top right")
        traces.append(mark | {"x": [batches[row]]})
    return figure_of(BATCH_AXIS, f"Speedup at γ={study.gamma}, ×", traces, plain=True)


def gamma_heat(study: LoadStudy) -> go.Figure:
    """The recommended γ (smallest within 2%) over batch × context; bracketed beyond the memory."""
    best = study.recommended_gamma.T
    text = [
        [f"{g}" if fits else f"({g})" for g, fits in zip(row, held, strict=True)]
        for row, held in zip(best, study.fits.T, strict=True)
    ]
    heat = trace(
        "heatmap", [str(b) for b in study.batches], [_tokens(int(c)) for c in study.contexts],
        z=best, zmin=0, zmax=max(4, int(best.max())), colorscale=[[0, "#f3f4f6"], [1, SPECULATION]],
        text=text, texttemplate="%{text}", textfont={"color": INK},
        showscale=False,  # the number stands in each cell
        hovertemplate="batch %{x}, context %{y}: γ=%{z}<extra></extra>",
    )  # fmt: skip
    return figure_of(BATCH_AXIS, axis("Context", type="category"), [heat], hovermode="closest")


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
            traces.append(trace(
                "bar", batches, values / study.plain_seconds, customdata=values * 1e3, name=label,
                legendgroup=label, showlegend=group == "speculative", offsetgroup=group,
                marker={"color": color, "opacity": shade},
                hovertemplate=f"{group}, {label}: %{{customdata:.2f}} ms, %{{y:.2f}} plain "
                "steps<extra></extra>",
            ))  # fmt: skip
    title = "Plain steps of that batch (plain left, speculative right)"
    return figure_of(BATCH_AXIS, title, traces, barmode="relative", hovermode="closest")


def cost_over_batch(study: LoadStudy, scenario: Scenario) -> go.Figure:
    """USD per million output tokens over batch: plain decoding, and the recommended γ of each."""
    batches = [str(b) for b in study.batches]
    none = np.zeros(len(batches), dtype=np.int64)
    hover: Trace = {"hovertemplate": "$%{y:.3g}", "marker": _points(study.fits[:, study.own])}
    plain = study.usd_per_million(scenario, none)
    best = study.usd_per_million(scenario, study.recommended_gamma[:, study.own])
    traces = [
        line_of(batches, plain, "Plain decoding", PLAIN, "dash", **hover),
        line_of(batches, best, "Speculative, recommended γ at each batch", COST, **hover),
    ]
    ticks = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    marks = {"tickvals": ticks, "ticktext": [f"${tick:g}" for tick in ticks]}
    usd = axis("USD per million output tokens (log)", type="log", **marks)
    return figure_of(BATCH_AXIS, usd, traces)
