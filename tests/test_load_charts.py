"""Figures over batch hold the study's numbers, and show what memory does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specmath.charts.load import (
    cost_over_batch,
    gamma_heat,
    operators_over_batch,
    speedup_over_batch,
)
from specmath.load import load_study
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.forms import EXAMPLE_PAIR

SCENARIO = Scenario(
    alpha=0.8, gamma=4, batch=24, context_tokens=2048, decode_only="yes", **EXAMPLE_PAIR
)
STUDY = load_study(resolve(SCENARIO))
BATCHES = [str(b) for b in STUDY.batches]


def trace(figure: Any, start: str) -> Any:
    (found,) = (t for t in figure.data if (t.name or "").startswith(start))
    return found


def test_a_line_a_context_and_the_own_point() -> None:
    figure = speedup_over_batch(STUDY)
    names = ("Context 1k", "Context 2k (yours)", "Context 8k", "Context 32k")
    own = trace(figure, "yours")
    assert (own.x[0], own.y[0]) == ("24", STUDY.at_gamma[BATCHES.index("24"), 1])
    assert figure.layout.xaxis.type == "category"
    dashes = {trace(figure, name).line.dash for name in names}
    assert len(dashes) == 4


def test_the_range_at_the_own_context_is_shaded() -> None:
    band = trace(speedup_over_batch(STUDY), "Range (yours)")
    low, high = (end[:, STUDY.own].tolist() for end in STUDY.ends)
    assert list(band.x) == [*BATCHES, *reversed(BATCHES)]
    assert list(band.y) == [*high, *reversed(low)]


@pytest.mark.parametrize(
    ("load", "name"),
    [({"batch": 24}, "yours"), ({"concurrency": 24}, "yours, if held"), ({"request_rate": 1}, "")],
)
def test_a_loop_holds_no_batch(load: dict[str, int], name: str) -> None:
    """The study holds each batch; a closed loop is below it at its own concurrency."""
    given = SCENARIO.model_copy(update={"batch": 1, "prompt_tokens": 512, **load})
    figure = speedup_over_batch(load_study(resolve(given)))
    marks = [t.name for t in figure.data if t.mode == "markers+text"]
    assert marks == [name] * bool(name)


def test_hollow_where_memory_ends() -> None:
    line = trace(speedup_over_batch(STUDY), "Context 32k")
    hollow = [symbol == "circle-open" for symbol in line.marker.symbol]
    assert hollow == [not fits for fits in STUDY.fits[:, 3]]
    assert not hollow[0]
    assert hollow[-1]
    text = gamma_heat(STUDY).data[0].text
    for j, row in enumerate(text):
        assert [cell.startswith("(") for cell in row] == [not f for f in STUDY.fits[:, j]]


def test_stacks_add_up_to_the_two_steps() -> None:
    figure = operators_over_batch(STUDY)
    for group, seconds in (
        ("plain", STUDY.plain_seconds),
        ("speculative", sum(STUDY.speculative_operators.values())),
    ):
        bars = [t for t in figure.data if t.offsetgroup == group]
        stack = np.sum([np.asarray(t.y) for t in bars], axis=0)
        # Plain bars are 1 high, speculative ones s(γ): readable from batch 1 to 512.
        np.testing.assert_allclose(stack, np.asarray(seconds) / STUDY.plain_seconds)
        in_ms = np.sum([np.asarray(t.customdata) for t in bars], axis=0)
        np.testing.assert_allclose(in_ms, np.asarray(seconds) * 1e3)
        fits = STUDY.fits[:, STUDY.own]
        assert all([o == 1 for o in t.marker.opacity] == fits.tolist() for t in bars)
    assert figure.layout.barmode == "relative"
    colours = {t.legendgroup: t.marker.color for t in figure.data}
    assert len(set(colours.values())) == len(colours), "one colour a meaning"


def test_no_bar_for_what_is_not_paid() -> None:
    one = {t.name for t in operators_over_batch(STUDY).data}
    two = {
        t.name
        for t in operators_over_batch(
            load_study(resolve(SCENARIO.model_copy(update={"tensor_parallel": 2})))
        ).data
    }
    assert two - one == {"All-reduce"}


def test_cost_lines() -> None:
    figure = cost_over_batch(STUDY, SCENARIO)
    plain, best = trace(figure, "Plain"), trace(figure, "Speculative")
    price = SCENARIO.usd_per_hour or 0
    dollars = price / 3600 * STUDY.plain_seconds / STUDY.batches * 1e6
    np.testing.assert_allclose(plain.y, dollars)
    rows = np.arange(len(BATCHES))
    speed = STUDY.speedup[rows, STUDY.own, STUDY.recommended_gamma[:, STUDY.own]]
    np.testing.assert_allclose(best.y, dollars / speed)
    assert figure.layout.yaxis.type == "log"


@pytest.mark.parametrize(
    "make", [speedup_over_batch, gamma_heat, operators_over_batch], ids=lambda f: f.__name__
)
def test_axes_have_titles(make: Any) -> None:
    figure = make(STUDY)
    assert figure.layout.xaxis.title.text == "Batch that is held: sequences decoded together"
    assert figure.layout.yaxis.title.text
