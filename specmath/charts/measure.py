"""Figures of a measurement: points were measured, lines are predicted, bars are intervals."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import Trace, axis, band_of, figure_of, line_of, trace
from specmath.measure.report import AcceptanceRow, Comparison, Interval, RunRow
from specmath.palette import PLAIN, SPECULATION, shade
from specmath.tables.measured import PREDICTIONS

__all__ = ["alpha_by_segment", "gap_histogram", "speedup_beside", "survival_by_position"]

GAMMA_AXIS = "Drafted tokens a step, γ"
DASHES = dict(zip(PREDICTIONS, ("dot", "dash", "solid"), strict=True))
SYMBOLS = ("circle", "square", "triangle-up", "cross", "star")


def _bars(found: Sequence[Interval]) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "thickness": 1.5, "width": 5,
        "array": [each.high - each.value for each in found],
        "arrayminus": [each.value - each.low for each in found],
    }  # fmt: skip


def _points(x: Any, y: Any, name: str, **more: Any) -> Trace:
    marker = {"color": SPECULATION, "size": 10, "symbol": "diamond"}
    return trace("scatter", x, y, name=name, mode="markers", marker=marker) | more


def survival_by_position(row: AcceptanceRow, replayed: Sequence[float], run: RunRow | None) -> Any:
    """P(at least i accepted) over i: α^i, replayed (s_0…s_γ), and seen in the steps run."""
    positions = list(range(1, len(replayed)))
    iid = [row.alpha.value**i for i in positions]
    hover = {"hovertemplate": "%{y:.3f}", "mode": "lines"}
    traces = [
        line_of(positions, iid, f"i.i.d., α = {row.alpha.value:.2f}", SPECULATION, "dot", **hover),
        line_of(positions, list(replayed[1:]), "Replay", SPECULATION, **hover),
    ]
    if run is not None and run.survival:
        seen = [each.value for each in run.survival]
        at = list(range(1, len(seen) + 1))
        more = {"error_y": _bars(run.survival), "hovertemplate": "%{y:.3f}"}
        traces.append(_points(at, seen, "Measured, 95%", **more))
    ticks = {"dtick": 1} if len(positions) <= 16 else {"nticks": 9}
    position = axis("Position in the draft", tickformat="d", **ticks)
    return figure_of(position, axis("Survival", range=[0, 1.02]), traces)


def alpha_by_segment(rows: Sequence[AcceptanceRow]) -> go.Figure:
    """α of each segment with its interval, one marker a temperature; faint dots are texts."""
    traces: list[Trace] = []
    temperatures = sorted({row.temperature for row in rows})
    for number, temperature in enumerate(temperatures):
        own = [row for row in rows if row.temperature == temperature]
        color = shade(SPECULATION, 1 - 0.55 * number / max(1, len(temperatures) - 1))
        side = {"offsetgroup": str(number), "orientation": "h"}
        texts = [text for row in own for text in row.requests]
        traces.append(_points(
            [row.alpha.value for row in own], [escape(row.segment, quote=False) for row in own],
            f"T={temperature:g}, 95%", error_x=_bars([row.alpha for row in own]),
            marker={"color": color, "size": 10, "symbol": SYMBOLS[number % len(SYMBOLS)]},
            hovertemplate="%{y}: α = %{x:.3f}", **side,
        ))  # fmt: skip
        if texts:
            traces.append(_points(
                [text.alpha for text in texts],
                [escape(text.segment, quote=False) for text in texts],
                f"each text, T={temperature:g}", showlegend=False,
                marker={"color": color, "opacity": 0.5, "size": 9, "symbol": "line-ns-open"},
                hovertemplate="one text: α = %{x:.3f}", **side,
            ))  # fmt: skip
    alpha = axis("Acceptance α", range=[0, 1.02])
    names = {"type": "category", "autorange": "reversed", "automargin": True}
    return figure_of(alpha, names, traces, hovermode="closest", scattermode="group")


def speedup_beside(rows: Sequence[Comparison], runs: Sequence[RunRow | None]) -> go.Figure:
    """Measured speedup over γ with its interval, where the runs tell it, beside predictions and
    the band of the replay's."""
    gammas = [row.gamma for row in rows]
    hover = {"hovertemplate": "%{y:.2f}×"}
    between = [(row.replay_v_low, row.replay_v_high) for row in rows]
    traces = []
    if all(None not in ends for ends in between):
        low, high = np.array(between, float).T
        band = band_of(np.array(gammas), low, high, "Replay's own 95%", SPECULATION)
        traces.append(band | {"mode": "lines"})  # of few points plotly would mark each
    traces += [
        line_of(gammas, [row.predicted(name) for row in rows], label, SPECULATION, DASHES[name],
                mode="lines", **hover)
        for name, label in PREDICTIONS.items()
    ]  # fmt: skip
    seen = [row.speedup for row in rows]
    found = [run.speedup if run else None for run in runs]
    pairs = [(s, f or Interval(value=s, low=s, high=s)) for s, f in zip(seen, found, strict=True)]
    bars = [Interval(value=s, low=min(s, f.low), high=max(s, f.high)) for s, f in pairs]
    traces.append(_points(gammas, seen, "Measured, 95%", error_y=_bars(bars), **hover))
    top = 1.3 * max(*seen, *(row.predicted(name) for row in rows for name in DASHES))
    return figure_of(GAMMA_AXIS, axis("× plain decoding", range=[0, top]), traces, plain=True)


def gap_histogram(plain: RunRow, spec: RunRow) -> go.Figure:
    """Share of gaps between chunks by length, plain beside speculative; the bins are shared."""
    traces = []
    for row, name, color in (
        (plain, "Plain decoding", PLAIN),
        (spec, f"Speculative, γ={spec.gamma}", SPECULATION),
    ):
        edges, total = np.array(row.gap_edges_ms), sum(row.gap_counts) + row.gaps_beyond
        middles, shares = (edges[:-1] + edges[1:]) / 2, np.array(row.gap_counts) / max(total, 1)
        traces.append(trace(
            "bar", middles, shares, name=name, width=np.diff(edges), hovertemplate="%{y:.1%}",
            marker={"color": shade(color, 0.65), "line": {"width": 0}},
        ))  # fmt: skip
    gap = axis("Gap between chunks, ms", rangemode="tozero")
    share = axis("Share of gaps", tickformat=".0%")
    return figure_of(gap, share, traces, barmode="overlay")
