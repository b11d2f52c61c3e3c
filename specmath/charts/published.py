"""Predicted against measured, a point a published row, with the line where both are equal."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from specmath.charts.pieces import Trace, axis, figure_of, trace
from specmath.palette import COST, LOSS, PLAIN, SPECULATION, shade
from specmath.published.rows import Quantity
from specmath.published.score import Scored
from specmath.published.summary import value_of
from specmath.words.published import QUANTITY_WORDS, case_words

__all__ = ["predicted_against_measured"]

COLORS = (SPECULATION, COST, "#0891b2", "#9333ea", "#65a30d", "#f472b6", "#b08968")
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "pentagon")
TICKS = [digit * 10.0**power for power in range(-1, 5) for digit in (1, 1.5, 2, 3, 5, 7)]
MOST_GROUPS = 7
OTHERS = "others"


def predicted_against_measured(scored: Sequence[Scored], quantity: Quantity, by: str) -> go.Figure:
    """Points of one quantity, a marker a group; rows that set a number or repeat one are hollow.

    Above the line is too high. Dotted: 20% off.
    """
    rows = [s for s in scored if s.quantity == quantity and s.error is not None]
    groups: dict[str, list[Scored]] = {}
    for row in rows:
        groups.setdefault(value_of(row, by), []).append(row)
    order = sorted(groups, key=lambda name: -len(groups[name]))
    rest = [row for name in order[MOST_GROUPS:] for row in groups[name]]
    shown = [(name, groups[name]) for name in order[:MOST_GROUPS]]
    shown += [(OTHERS, rest)] if rest else []
    traces = [_points(name, each, i) for i, (name, each) in enumerate(shown)]
    ends = [e for row in rows for e in (row.measured or 1.0, row.predicted or 1.0)] or [1.0]
    span = [min(ends) / 1.15, max(ends) * 1.15]
    label = f"{QUANTITY_WORDS[quantity]} ({'×' if quantity == 'speedup' else 'ms'})"
    across, up = (
        axis(f"{kind} {label}, log", type="log", zeroline=False, tickvals=TICKS)
        for kind in ("Measured", "Predicted")
    )
    return figure_of(across, up, [*_lines(span), *traces], hovermode="closest")


def _lines(span: list[float]) -> list[Trace]:
    """Equal, and 20% above and below."""

    def line(factor: float, name: str, dash: str, color: str) -> Trace:
        look = {"color": color, "dash": dash, "width": 1.5}
        return trace(
            "scatter", span, [factor * end for end in span], name=name, mode="lines", line=look,
            hoverinfo="skip", showlegend=factor <= 1.0,
        )  # fmt: skip

    return [
        line(1.0, "equal", "dash", PLAIN),
        line(0.8, "20% off", "dot", shade(LOSS, 0.7)),
        line(1.2, "20% off", "dot", shade(LOSS, 0.7)),
    ]


def _points(name: str, rows: Sequence[Scored], i: int) -> Trace:
    color, symbol = COLORS[i % len(COLORS)], SYMBOLS[i % len(SYMBOLS)]
    hollow = [bool(row.sets or row.repeats) for row in rows]
    marks = [f"{symbol}-open" if open_ else symbol for open_ in hollow]
    return trace(
        "scatter", [row.measured for row in rows], [row.predicted for row in rows],
        name=name, mode="markers",
        marker={"color": color, "size": 7, "opacity": 0.75, "symbol": marks},
        customdata=[[case_words(row.case), row.method, f"{row.error:+.0%}"] for row in rows],
        hovertemplate="%{customdata[0]}<br>measured %{x:.3g}, predicted %{y:.3g} "
        "(%{customdata[2]}), %{customdata[1]}<extra></extra>",
    )  # fmt: skip
