"""The bill of a plan's endpoints, and the hours of an endpoint's day."""

from __future__ import annotations

from html import escape
from textwrap import wrap

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import Trace, axis, figure_of, line_of, trace
from specmath.checks import short
from specmath.estimate import Estimate
from specmath.palette import LOSS, PLAIN, SPECULATION
from specmath.plan.decided import EndpointAnswer, PlanAnswer
from specmath.words.capacity import gamma_words

__all__ = ["day_chart", "plan_chart"]

LONGEST, ACROSS = 24, 80
"""Characters of an endpoint's name below its marks, and of all names beside each other."""
LEVEL = 8
"""Endpoints beyond which the names are turned."""


def plan_chart(found: PlanAnswer) -> go.Figure:
    """p50 and p99 of the time per token of each endpoint, without speculation and with it, with
    their ranges."""
    names = [_below(answer.endpoint.name, len(found.endpoints)) for answer in found.endpoints]
    arms = (("Plain decoding", 0, PLAIN, -0.18), ("With γ", 1, SPECULATION, 0.18))
    traces: list[Trace] = []
    at = np.arange(len(names))
    for name, arm, color, shift in arms:
        # Beside each other: their ranges overlap.
        for level, symbol, aside in ((0.5, "circle", -0.06), (0.99, "diamond-open", 0.06)):
            told = [answer.tpot[level][arm] for answer in found.endpoints]
            quantile = f"p{100 * level:.0f}"
            at_x = at + shift + aside
            traces.append(_points(at_x, told, f"{name}, {quantile}", color, symbol))
    turned = {"tickangle": -40, "automargin": True} if len(names) > LEVEL else {"tickangle": 0}
    return figure_of(
        axis("", tickvals=at.tolist(), ticktext=names, range=[-0.6, len(names) - 0.4],
             zeroline=False, **turned),
        axis("Time per token, ms", rangemode="tozero"), traces, hovermode="closest",
    )  # fmt: skip


def _below(name: str, among: int) -> str:
    """A name below its marks, in lines unless it is turned; plotly takes text for markup."""
    across = LONGEST if among > LEVEL else ACROSS // among
    lines = wrap(short(name, LONGEST), across) or [""]
    return "<br>".join(escape(line, quote=False) for line in lines)


def _points(
    x: np.ndarray, told: list[Estimate | None], name: str, color: str, symbol: str
) -> Trace:
    values = np.array([np.nan if e is None else 1e3 * e.value for e in told])
    low, high = (
        np.array([np.nan if e is None or getattr(e, end) is None else 1e3 * getattr(e, end)
                  for e in told])
        for end in ("low", "high")
    )  # fmt: skip
    bars = {"type": "data", "symmetric": False, "array": np.nan_to_num(high - values),
            "arrayminus": np.nan_to_num(values - low), "thickness": 1.2, "width": 4}  # fmt: skip
    marker = {"size": 10, "color": color, "symbol": symbol, "line": {"width": 2, "color": color}}
    return trace("scatter", x, values, name=name, mode="markers", marker=marker, error_y=bars,
                 hovertemplate=f"{name}: %{{y:.3s}} ms<extra></extra>")  # fmt: skip


def day_chart(answer: EndpointAnswer) -> go.Figure:
    """Time per token over the hours on a fixed fleet: never, always and by load."""
    day = answer.day
    assert day is not None
    hours = np.arange(len(day.demand))
    looks = {
        "never": ("Never", PLAIN, "dash"),
        "always": (f"Always {gamma_words(answer.capacity.speculative)}", SPECULATION, "solid"),
        "by load": ("By load", LOSS, "dot"),
    }
    traces = [
        line_of(hours, 1e3 * np.array(policy.tpot), *looks[policy.policy],
                hovertemplate="%{y:.3s} ms")
        for policy in day.policies
        if policy.policy != "by load" or len(set(policy.on)) > 1
    ]  # fmt: skip
    return figure_of(axis("Hour of the day", dtick=3), axis("Time per token, ms",
                     rangemode="tozero"), traces)  # fmt: skip
