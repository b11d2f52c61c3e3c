"""The share of requests that meet every promise over the request rate, in both arms."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from specmath.charts.pieces import Trace, axis, band_of, figure_of, line_of, mark_of
from specmath.goodput import Goodput, GoodputArm
from specmath.palette import LOSS, PLAIN, SPECULATION
from specmath.words.goodput import arm_words, attainment_words

__all__ = ["attainment_chart"]


def attainment_chart(found: Goodput) -> go.Figure:
    """Both arms with what chance leaves open, the share that is asked for, and the rates found."""
    asked = 100.0 * found.trial.attainment
    traces: list[Trace] = []
    for arm, color, dash, symbol, where in (
        (found.plain, PLAIN, "dash", "circle", "bottom left"),
        (found.speculative, SPECULATION, "solid", "diamond", "top right"),
    ):
        if arm is not None:
            traces += _curve(arm, color, dash, symbol, where)
    level: Trace = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": asked, "y1": asked,
                    "line": {"color": LOSS, "dash": "dot", "width": 1.5}}  # fmt: skip
    said: Trace = {
        "text": f"{attainment_words(found.trial.attainment)} asked for", "xref": "paper", "x": 0,
        "y": asked, "showarrow": False, "xanchor": "left", "yanchor": "top",
    }  # fmt: skip
    return figure_of(
        axis("Requests/s of one replica", rangemode="tozero"),
        axis("Requests that meet every promise, %", range=[0.0, 106.0]), traces,
        shapes=[level], annotations=[said], hovermode="closest",
    )  # fmt: skip


def _curve(arm: GoodputArm, color: str, dash: str, symbol: str, where: str) -> list[Trace]:
    at = [arm.alone, *arm.curve]
    rates = np.array([each.rate for each in at])
    shares, low, high = (
        100.0 * np.array([getattr(each, name) for each in at]) for name in ("share", "low", "high")
    )
    name = arm_words(arm)
    band = band_of(rates, low, high, f"By chance, {name}", color)
    hover = "%{x:.3s} requests/s: %{y:.1f}%<extra></extra>"
    found = [band | {"showlegend": False},
             line_of(rates, shares, name, color, dash, hovertemplate=hover)]  # fmt: skip
    if arm.at is not None:
        rate = arm.rate.value
        found.append(mark_of(rate, 100.0 * arm.at.share, f"{rate:.3g}", color, symbol, where))
    return found
