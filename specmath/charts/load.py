"""Figures over load: where speculation stops paying, throughput against latency, cost, and what a
step is spent on; over batch and context: speedup and γ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import (
    INK,
    PLAIN_NOTE,
    QUIET,
    Trace,
    axis,
    band_of,
    figure_of,
    heat_of,
    line_of,
    mark_of,
    trace,
)
from specmath.frontier import Frontier, LoadPoint, with_ends
from specmath.load import LoadStudy
from specmath.palette import COST, PLAIN, SPECULATION, shade
from specmath.serving.loop import Loop
from specmath.words.load import LOADS

__all__ = [
    "cost_over_load",
    "gamma_heat",
    "operators_over_batch",
    "speedup_heat",
    "speedup_over_load",
    "throughput_latency",
]

BATCH_AXIS = axis("Batch that is held: sequences decoded together", type="category")
LOAD_AXES: dict[Loop, str] = {
    "held": "Batch that is held: sequences decoded together",
    "closed": "Concurrency: requests in flight",
    "wave": "Concurrency: requests sent at once",
    "open": "Requests/s of one replica",
}
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


def _points(fits: Sequence[bool]) -> Trace:
    """Markers that are hollow where memory does not hold the batch."""
    return {"symbol": ["circle" if each else "circle-open" for each in fits], "size": 7}


def speedup_over_load(found: Frontier) -> go.Figure:
    """Speedup at the γ in use over load with its range; the own load marked."""
    names = [_load(p) for p in found.points]
    centre, low, high = with_ends(p.speedup for p in found.points)
    look: Trace = {"hovertemplate": "%{y:.2f}×", "marker": _points([p.fits for p in found.points])}
    traces = [
        band_of(np.array(names), low, high, "Range", SPECULATION),
        line_of(names, centre, f"Speedup at γ={found.gamma}", SPECULATION, **look),
    ]
    for i in (i for i, p in enumerate(found.points) if p.own):
        said = "measured" if all(found.measured) else "yours"
        mark = mark_of(0, float(centre[i]), said, SPECULATION, "diamond", "top right")
        traces.append(mark | {"x": [names[i]]})
    title = axis(LOAD_AXES[found.loop], type="category")
    # Where load is light the line of plain decoding lies below all else.
    here = [PLAIN_NOTE | {"x": 0, "xanchor": "left"}]
    return figure_of(title, f"Speedup at γ={found.gamma}, ×", traces, plain=True, annotations=here)


def throughput_latency(found: Frontier) -> go.Figure:
    """Output tokens a second of one GPU over those of one user, a point a load, in both arms."""
    traces = [*_curve(found, 0, "Plain decoding", PLAIN), *_curve(found, 1, "Speculation",
                                                                  SPECULATION)]  # fmt: skip
    return figure_of(
        axis("Output tokens/s per user (faster →)", rangemode="tozero"),
        axis("Output tokens/s per GPU (cheaper ↑)", rangemode="tozero"),
        traces, hovermode="closest",
    )  # fmt: skip


def _curve(found: Frontier, arm: int, name: str, color: str) -> list[Trace]:
    """One arm: its range, its points by load, and where it was measured or the scenario stands."""
    points = [p for p in found.points if p.carried or not arm]
    user, gpu = (with_ends(getattr(p, of)[arm] for p in points) for of in ("user", "gpu"))
    # Both ends of a load at once: what is open moves throughput and latency together.
    edge = np.concatenate((user[1], user[2][::-1])), np.concatenate((gpu[1], gpu[2][::-1]))
    look: Trace = {"fill": "toself", "fillcolor": shade(color, 0.18), "line": {"width": 0},
                   "mode": "lines", "name": f"Range, {name.lower()}"}  # fmt: skip
    loads, ends = [_load(p) for p in points], (0, len(points) - 1)
    where = ["top right" if arm else "bottom left"] * len(points)
    where[-1] = "bottom right" if arm else "top right"  # full, the two arms meet
    line: Trace = {
        "mode": "lines+markers+text", "textposition": where, "customdata": loads,
        "text": [_load(p) if p.own or i in ends else "" for i, p in enumerate(points)],
        "marker": _points([p.fits for p in points]), "cliponaxis": False,
        "hovertemplate": f"{LOADS[found.loop]} %{{customdata}}: %{{x:.3s}} tok/s per user, "
        "%{y:.3s} per GPU",
    }  # fmt: skip
    said = "measured" if found.measured[arm] else ""
    return [
        trace("scatter", *edge, **look | QUIET),
        line_of(user[0], gpu[0], name, color, "solid" if arm else "dash", **line),
        *(
            mark_of(user[0][i], gpu[0][i], said, color, "diamond", "bottom right")
            for i, p in enumerate(points)
            if p.own
        ),
    ]


def cost_over_load(found: Frontier, usd_per_hour: float) -> go.Figure:
    """USD per million output tokens over load, in both arms with their ranges."""
    traces, arms = [], (("Plain decoding", PLAIN, "dash"), ("Speculation", COST, "solid"))
    for arm, (name, color, dash) in enumerate(arms):
        points = [p for p in found.points if p.carried or not arm]
        names = [_load(p) for p in points]
        usd, low, high = with_ends(p.usd(usd_per_hour)[arm] for p in points)
        look: Trace = {"hovertemplate": "$%{y:.3g}", "marker": _points([p.fits for p in points])}
        band = band_of(np.array(names), low, high, f"Range, {name.lower()}", color)
        traces += [band | {"showlegend": False}, line_of(names, usd, name, color, dash, **look)]
    ticks = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    marks = {"tickvals": ticks, "ticktext": [f"${tick:g}" for tick in ticks]}
    usd_axis = axis("USD per million output tokens (log)", type="log", **marks)
    return figure_of(axis(LOAD_AXES[found.loop], type="category"), usd_axis, traces)


def _load(point: LoadPoint) -> str:
    return f"{point.load:,g}"


def speedup_heat(study: LoadStudy) -> go.Figure:
    """Speedup at the γ in use over batch × context, with its ends to point at; bracketed beyond the
    memory."""
    batches, contexts = [str(b) for b in study.batches], [_tokens(int(c)) for c in study.contexts]
    low, high = (end.T for end in study.ends)
    speedup = study.at_gamma.T
    text = [
        [f"{x:.2f}" if fits else f"({x:.2f})" for x, fits in zip(row, held, strict=True)]
        for row, held in zip(speedup, study.fits.T, strict=True)
    ]
    hover = "batch %{x}, context %{y}: %{customdata[0]:.2f}× (%{customdata[1]:.2f}× to "
    heat = heat_of(np.array(batches), np.array(contexts), speedup, "") | {
        "customdata": np.stack([speedup, low, high], axis=-1), "text": text,
        "texttemplate": "%{text}", "textfont": {"color": INK}, "showscale": False,
        "hovertemplate": f"{hover}%{{customdata[2]:.2f}}×)<extra></extra>",
    }  # fmt: skip
    return figure_of(BATCH_AXIS, axis("Context", type="category"), [heat], hovermode="closest")


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
