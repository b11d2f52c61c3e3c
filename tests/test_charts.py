"""Figures hold the numbers of the tables beside them, and their marks stand where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specmath.charts.calculator import (
    alpha_gamma_heat,
    arithmetic_over_gamma,
    cost_over_gamma,
    draft_cost_effect,
    drafts_plane,
    speedup_over_gamma,
    tokens_distribution,
)
from specmath.drafts import best_speedup, evaluate, published_t5
from specmath.palette import COST, LOSS, PLAIN, SPECULATION, shade
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.tables import alpha_gamma_table, draft_cost_table, gamma_table, regime_costs

PREDICTION = predict(EXAMPLE)


def trace(figure: Any, start: str) -> Any:
    (found,) = (t for t in figure.data if (t.name or "").startswith(start))
    return found


def same(shown: Any, column: Any) -> None:
    np.testing.assert_array_equal(np.array(shown, float), np.array(column.values, float))


def test_speedup_over_gamma_is_the_table_over_gamma() -> None:
    table = gamma_table(PREDICTION)
    for figure, name, column in (
        (speedup_over_gamma(PREDICTION), "Speedup", "walltime_improvement"),
        (arithmetic_over_gamma(PREDICTION), "Speedup", "walltime_improvement"),
        (arithmetic_over_gamma(PREDICTION), "Arithmetic", "operations_increase"),
    ):
        same(trace(figure, name).x, table.column("gamma"))
        same(trace(figure, name).y, table.column(column))


def test_yours_best_and_crossover_are_marked_where_they_are() -> None:
    prediction = predict(Scenario(alpha=0.6, c=0.02, gamma=2))
    curve, speed = prediction.curve, speedup_over_gamma(prediction)
    best, crossing = prediction.best_gamma, prediction.crossover_gamma
    assert best == int(np.argmax(curve.walltime_improvement))
    for figure, start, gamma, height in (
        (speed, "yours", 2, curve.walltime_improvement),
        (speed, "fastest", best, curve.walltime_improvement),
        (arithmetic_over_gamma(prediction), "Crossover", crossing, curve.operations_increase),
    ):
        mark = trace(figure, start)
        assert (mark.x[0], mark.y[0]) == (gamma, height[gamma])
    both = speedup_over_gamma(predict(Scenario(alpha=0.6, c=0.02, gamma=best)))
    assert trace(both, f"yours γ={best}, the fastest").x[0] == best
    far = arithmetic_over_gamma(predict(Scenario(alpha=0.9, c=0.0, gamma=2)))
    assert not [t for t in far.data if (t.name or "").startswith("Crossover")], "99 is off the axis"


def test_there_is_a_band_where_there_is_an_interval() -> None:
    prediction = predict(Scenario(alpha=0.8, draft_form="range", gamma=4))
    assert len([t for t in speedup_over_gamma(prediction).data if t.fill]) == 1
    known = predict(Scenario(alpha=0.8, c=0.2, gamma=4, overhead=0.1))
    assert not [t for t in speedup_over_gamma(known).data if t.fill]


def test_the_heat_map_is_its_table() -> None:
    table = alpha_gamma_table(PREDICTION)
    figure = alpha_gamma_heat(table, PREDICTION)
    heat = figure.data[0]
    cells = {
        (a, g): s
        for a, g, s in zip(
            *(table.column(n).values for n in ("alpha", "gamma", "walltime_improvement")),
            strict=True,
        )
    }
    assert len(cells) == len(heat.x) * len(heat.y)
    for i, alpha in enumerate(heat.y):
        for j, gamma in enumerate(heat.x):
            assert heat.customdata[i][j] == cells[alpha, gamma]
            assert 2 ** heat.z[i][j] == pytest.approx(cells[alpha, gamma])
    best = trace(figure, "Best")
    for alpha, gamma in zip(best.y, best.x, strict=True):
        assert cells[alpha, gamma] == max(s for (a, _), s in cells.items() if a == alpha)
    mark = trace(figure, "Yours")
    assert (mark.x[0], mark.y[0]) == (4, PREDICTION.alpha)


def test_heat_diverges_at_no_change() -> None:
    """No change is the pale middle; twice and half as fast lie as far from it."""
    heat = alpha_gamma_heat(alpha_gamma_table(PREDICTION), PREDICTION).data[0]
    assert heat.zmin == -heat.zmax
    colours = {position: colour.lower() for position, colour in heat.colorscale}
    assert (colours[0], colours[1]) == (LOSS, SPECULATION)
    assert len({LOSS, SPECULATION, COST, PLAIN, colours[0.5]}) == 5


def test_candidates_lie_at_their_alpha_and_c() -> None:
    outcomes = evaluate(published_t5())
    alphas, costs = np.linspace(0, 1, 11), np.linspace(0, 0.3, 7)
    best = best_speedup(alphas[None, :], costs[:, None])
    figure = drafts_plane(outcomes, alphas, costs, best)
    points = trace(figure, "Candidates")
    assert list(points.x) == [0.75, 0.80, 0.82]
    assert list(points.y) == [0.02, 0.04, 0.11]
    assert [("measured" in t) for t in points.customdata] == [True] * 3


def test_regimes_are_told_apart_without_colour() -> None:
    figure = cost_over_gamma(regime_costs(PREDICTION), 4)
    assert len({t.line.dash for t in figure.data if t.mode == "lines+markers"}) == 3


@pytest.mark.parametrize(
    "figure",
    [
        speedup_over_gamma(PREDICTION),
        alpha_gamma_heat(alpha_gamma_table(PREDICTION), PREDICTION),
        draft_cost_effect(draft_cost_table(PREDICTION), PREDICTION),
        cost_over_gamma(regime_costs(PREDICTION), 4),
    ],
)
def test_axes_are_named_and_plain_decoding_is_the_level_of_one(figure: Any) -> None:
    assert figure.layout.xaxis.title.text
    assert figure.layout.yaxis.title.text
    assert all(shape.y0 == shape.y1 == 1 for shape in figure.layout.shapes)


@pytest.mark.parametrize("gamma", [0, 1, 30])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_charts_of_the_edges_are_finite(alpha: float, gamma: int) -> None:
    figure = speedup_over_gamma(predict(Scenario(alpha=alpha, c=0.0, gamma=gamma)))
    for each in figure.data:
        assert np.all(np.isfinite(np.array(each.y, float)))


def test_shade_is_the_colour_with_opacity() -> None:
    assert shade("#ff8000", 0.18) == "rgba(255,128,0,0.18)"


def test_tokens_distribution_is_a_distribution_with_the_mean_tokens_per_step() -> None:
    """3 of 4 accepted in the mean: P(L=n) = α^(n−1)(1−α) below γ+1 = 5, α⁴ at 5, τ = 4."""
    (bars,) = tokens_distribution(PREDICTION).data
    tokens, percent = np.array(bars.x, float), np.array(bars.y, float)
    assert percent.sum() == pytest.approx(100)
    assert (tokens * percent).sum() / 100 == pytest.approx(4)
    alpha = PREDICTION.alpha
    assert percent[0] == pytest.approx(100 * (1 - alpha))
    assert percent[-1] == pytest.approx(100 * alpha**4)


def test_names_of_marks_are_in_the_colour_of_the_theme() -> None:
    """Small red or amber words are hard to read; the colour is the mark's."""
    marks = [t for t in speedup_over_gamma(PREDICTION).data if t.mode == "markers+text"]
    assert marks
    assert all(t.textfont.color is None for t in marks)
