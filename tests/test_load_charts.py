"""Figures over load and batch hold the study's numbers, and show what memory does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specmath.charts.load import (
    cost_over_load,
    gamma_heat,
    operators_over_batch,
    speedup_heat,
    speedup_over_load,
    throughput_latency,
)
from specmath.frontier import Frontier, frontier
from specmath.load import load_study
from specmath.palette import COST, PLAIN, SPECULATION
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.forms import EXAMPLE_PAIR

SCENARIO = Scenario(
    alpha=0.8, gamma=4, batch=24, context_tokens=2048, decode_only="yes", **EXAMPLE_PAIR
)
STUDY = load_study(resolve(SCENARIO))
BATCHES = [str(b) for b in STUDY.batches]
OVER = frontier(resolve(SCENARIO))


def trace(figure: Any, start: str) -> Any:
    (found,) = (t for t in figure.data if (t.name or "").startswith(start))
    return found


def over(**load: Any) -> Frontier:
    return frontier(resolve(SCENARIO.model_copy(update={"batch": 1, "prompt_tokens": 512, **load})))


def test_speedup_over_load_with_its_range_and_the_own_point() -> None:
    figure = speedup_over_load(OVER)
    line, band = trace(figure, "Speedup"), trace(figure, "Range")
    assert list(line.x) == [f"{p.load:,g}" for p in OVER.points]
    assert list(line.y) == [p.speedup.value for p in OVER.points]
    low, high = ([getattr(p.speedup, end) for p in OVER.points] for end in ("low", "high"))
    assert list(band.x) == [*line.x, *reversed(line.x)]
    assert list(band.y) == [*high, *reversed(low)]
    (own,) = (p for p in OVER.points if p.own)
    assert (trace(figure, "yours").x[0], trace(figure, "yours").y[0]) == ("24", own.speedup.value)
    assert figure.layout.xaxis.type == "category"
    hollow = [symbol == "circle-open" for symbol in line.marker.symbol]
    assert hollow == [not p.fits for p in OVER.points]
    assert not hollow[0]
    assert hollow[-1]


@pytest.mark.parametrize(
    ("load", "title"),
    [
        ({"batch": 24}, "Batch that is held: sequences decoded together"),
        ({"concurrency": 24}, "Concurrency: requests in flight"),
        ({"concurrency": 24, "arrivals": "one_wave"}, "Concurrency: requests sent at once"),
        ({"request_rate": 1.0}, "Requests/s of one replica"),
    ],
)
def test_the_axis_is_the_scenario_s_own_load(load: dict[str, Any], title: str) -> None:
    figure = speedup_over_load(over(**load))
    assert figure.layout.xaxis.title.text == title
    assert [t.name for t in figure.data if t.mode == "markers+text"] == ["yours"]


def test_throughput_against_latency_in_both_arms() -> None:
    figure = throughput_latency(OVER)
    for arm, (name, color, dash) in enumerate(
        (("Plain decoding", PLAIN, "dash"), ("Speculation", SPECULATION, "solid"))
    ):
        line = trace(figure, name)
        assert (line.line.color, line.line.dash) == (color, dash)
        assert list(line.x) == [p.user[arm].value for p in OVER.points]
        assert list(line.y) == [p.gpu[arm].value for p in OVER.points]
        assert [text for text in line.text if text] == ["1", "24", "512"]
        band = trace(figure, f"Range, {name.lower()}")
        low, high = ([getattr(p.user[arm], end) for p in OVER.points] for end in ("low", "high"))
        assert list(band.x) == [*low, *reversed(high)]
        # What is drawn as one band moves both axes together: more for a user, more for a GPU.
        low, high = ([getattr(p.gpu[arm], end) for p in OVER.points] for end in ("low", "high"))
        assert list(band.y) == [*low, *reversed(high)]
    assert "per user" in figure.layout.xaxis.title.text
    assert "per GPU" in figure.layout.yaxis.title.text


def test_a_measured_point_is_called_so() -> None:
    free = over(concurrency=24)
    (own,) = (p for p in free.points if p.own)
    plain, ran = (1.2e3 / rate.value for rate in own.user)
    measured = over(concurrency=24, target_ms=plain, run_gamma=4, run_ms=ran)
    for make, times in ((throughput_latency, 2), (speedup_over_load, 1)):
        names = [t.name for t in make(measured).data if t.mode == "markers+text"]
        assert names == ["measured"] * times
        assert "measured" not in [t.name for t in make(free).data]


def test_hollow_where_memory_ends() -> None:
    for figure in (gamma_heat(STUDY), speedup_heat(STUDY)):
        for j, row in enumerate(figure.data[0].text):
            assert [cell.startswith("(") for cell in row] == [not f for f in STUDY.fits[:, j]]


def test_the_heat_of_speedups_has_the_study_s_and_their_ends() -> None:
    heat = speedup_heat(STUDY).data[0]
    np.testing.assert_allclose(2.0**heat.z, STUDY.at_gamma.T)
    shown = np.array(heat.customdata)
    for k, values in enumerate((STUDY.at_gamma, *STUDY.ends)):
        np.testing.assert_allclose(shown[..., k], values.T)
    assert heat.zmin == -heat.zmax, "pale at 1×, as far each way"


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


def test_cost_over_load_in_both_arms_with_their_ranges() -> None:
    price = SCENARIO.usd_per_hour or 0
    figure = cost_over_load(OVER, price)
    for arm, (name, color) in enumerate((("Plain", PLAIN), ("Speculation", COST))):
        line, band = trace(figure, name), trace(figure, f"Range, {name.lower()}")
        assert line.line.color == color
        dollars = [price / 3600 / p.gpu[arm].value * 1e6 for p in OVER.points]
        np.testing.assert_allclose(line.y, dollars)
        high = [price / 3600 / (p.gpu[arm].low or 0) * 1e6 for p in OVER.points]
        np.testing.assert_allclose(band.y[: len(high)], high)
    assert figure.layout.yaxis.type == "log"


@pytest.mark.parametrize(
    "make", [speedup_heat, gamma_heat, operators_over_batch], ids=lambda f: f.__name__
)
def test_axes_have_titles(make: Any) -> None:
    figure = make(STUDY)
    assert figure.layout.xaxis.title.text == "Batch that is held: sequences decoded together"
    assert figure.layout.yaxis.title.text
