"""Times over the request rate of one replica in both arms; the largest rate by γ."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from specmath.capacity import SLOS, Arm, Capacity, Slo
from specmath.charts.pieces import Trace, axis, band_of, figure_of, line_of, mark_of
from specmath.frontier import with_ends
from specmath.palette import LOSS, PLAIN, SPECULATION
from specmath.words.capacity import gamma_words

__all__ = ["rate_title", "rates_by_gamma", "times_over_rate"]

TITLES: dict[Slo, str] = {
    "tpot": "Time per token, ms",
    "ttft": "Time to first token, ms",
    "e2e": "Whole request, ms",
}
TALLEST = 4.0
"""How many times the time of plain decoding alone the axis reaches, where less is promised."""


def times_over_rate(found: Capacity) -> go.Figure:
    """The time that is promised first (per token where none is) over the rate, in both arms with
    their ranges: the promise, the largest rates, and where speculation stops paying."""
    of = _drawn(found)
    top = 1e3 * max(TALLEST * _alone(found.plain, of), 1.8 * found.slo.get(of, 0.0))
    arms = [("Plain decoding", found.plain, PLAIN, "dash")]
    if found.gamma:
        ours = found.speculative
        arms.append((gamma_words(ours), ours, SPECULATION, "solid"))
    traces: list[Trace] = []
    for name, arm, color, dash in arms:
        traces += _curve(name, arm, of, color, dash, top)
    shapes = [
        _line({"x0": arm.most.value, "x1": arm.most.value, "yref": "paper", "y0": 0, "y1": 1},
              color)
        for _, arm, color, _ in arms
    ]  # fmt: skip
    notes: list[Trace] = []
    if of in found.slo:
        level = 1e3 * found.slo[of]
        shapes.append(_line({"xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}, LOSS))
        notes.append({"text": "promised", "xref": "paper", "x": 0, "y": level, "showarrow": False,
                      "xanchor": "left", "yanchor": "bottom"})  # fmt: skip
    if found.crossover:
        at = _time_at(found, found.crossover, of)
        if at < top:
            traces.append(mark_of(found.crossover, at, "slower beyond", LOSS, "x", "top left"))
    return figure_of(
        axis("Requests/s of one replica (dotted: the largest it carries)", rangemode="tozero"),
        axis(TITLES[of], range=[0.0, top]), traces, shapes=shapes, annotations=notes,
    )  # fmt: skip


def _drawn(found: Capacity) -> Slo:
    return next((name for name in SLOS if name in found.slo), "tpot")


def rate_title(found: Capacity) -> str:
    """What `times_over_rate` draws."""
    quantity = TITLES[_drawn(found)].removesuffix(", ms")
    return f"{quantity} over the request rate of one replica"


def _alone(arm: Arm, of: Slo) -> float:
    return float(getattr(arm.alone, of).value)


def _time_at(found: Capacity, rate: float, of: Slo) -> float:
    rates, times = zip(*((a.rate, getattr(a, of).value) for a in found.plain.at), strict=True)
    return float(1e3 * np.interp(rate, rates, times))


def _line(where: Trace, color: str) -> Trace:
    return {"type": "line", "line": {"color": color, "dash": "dot", "width": 1.5}} | where


def _curve(name: str, arm: Arm, of: Slo, color: str, dash: str, top: float) -> list[Trace]:
    at = [arm.alone, *arm.at]
    rates = np.array([a.rate for a in at])
    centre, low, high = 1e3 * with_ends(getattr(a, of) for a in at)
    # Beyond the largest rate at an end, that end has none.
    high = np.minimum(high, 2.0 * top)
    shown = low < 2.0 * top
    band = band_of(rates[shown], low[shown], high[shown], f"Range, {name}", color)
    look: Trace = {"hovertemplate": "%{y:.3s} ms"}
    line = line_of(rates, centre, name, color, dash, **look)
    found = [band | {"showlegend": False}, line]
    if arm.full is not None and arm.limit == of:
        met = 1e3 * getattr(arm.full, of).value
        found.append(mark_of(arm.within.value, met, f"{arm.within.value:.3g}", color, "diamond",
                             "bottom right"))  # fmt: skip
    return found


def rates_by_gamma(found: Capacity) -> go.Figure:
    """The largest rate within what is promised, and that at full load, over γ."""
    most, within = found.by_gamma
    gammas = np.arange(len(most))
    look: Trace = {"hovertemplate": "%{y:.3s} requests/s"}
    traces = [line_of(gammas, most, "At full load", PLAIN, "dash", **look)]
    if found.slo:
        traces.append(line_of(gammas, within, "Within what is promised", SPECULATION, **look))
    mine = float((within if found.slo else most)[found.gamma])
    traces.append(mark_of(found.gamma, mine, f"γ={found.gamma}", SPECULATION, "diamond"))
    return figure_of(axis("Drafted tokens γ", dtick=1), axis("Requests/s of one replica",
                     rangemode="tozero"), traces)  # fmt: skip
