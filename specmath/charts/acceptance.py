"""Acceptance that others measured: a box a kind of drafter and work, a point a pair."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from specmath.acceptance_record import KINDS, WORKS, Pair
from specmath.charts.pieces import Trace, axis, figure_of
from specmath.charts.published import COLORS
from specmath.words.acceptance import KIND_WORDS, work_words

__all__ = ["acceptance_boxes"]


def acceptance_boxes(pairs: Sequence[Pair]) -> go.Figure:
    """α of the pairs over the kinds of work, a colour a kind of drafter.

    A box from the lower to the upper quartile with the median; every pair is drawn beside it.
    """
    kinds = [kind for kind in KINDS if any(p.kind == kind for p in pairs)]
    works = [work_words(work) for work in WORKS if any(p.work == work for p in pairs)]
    traces = [_boxes(kind, [p for p in pairs if p.kind == kind]) for kind in kinds]
    across = axis("Kind of work", categoryorder="array", categoryarray=works)
    up = axis("α of a pair, mean over its γ", range=[0, 1], zeroline=False)
    return figure_of(across, up, traces, boxmode="group", hovermode="closest")


def _boxes(kind: str, pairs: Sequence[Pair]) -> Trace:
    color = COLORS[KINDS.index(kind) % len(COLORS)]
    return {
        "type": "box", "name": KIND_WORDS[kind], "x": [work_words(p.work) for p in pairs],
        "y": [p.alpha for p in pairs], "boxpoints": "all", "jitter": 0.4, "pointpos": 0,
        "marker": {"color": color, "size": 4, "opacity": 0.7}, "line": {"width": 1.5},
        "customdata": [[p.drafter, p.target, p.source] for p in pairs],
        "hovertemplate": "%{customdata[0]} on %{customdata[1]}: α %{y:.2f}<br>%{customdata[2]}"
        "<extra></extra>",
    }  # fmt: skip
