"""Schedules: ranges without gaps, both spellings, the rule by brute force; break-even α."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specmath import models
from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.drafters import Eagle, LayerSkip, NGram, SeparateModel
from specmath.gamma import breakeven_alpha
from specmath.load import (
    GammaRange,
    Schedule,
    merge_ranges,
    recommended_schedule,
)
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.scenario.server import requests_of
from specmath.serving import ServedPair
from specmath.speculation import breakeven_alpha_of
from specmath.stepcost import LinearStepCost
from specmath.steptime import Placement
from specmath.words.load import SWITCHING_NOTES

SERVED = ServedPair(
    Placement(models.find("Llama-3.1-8B"), "H100 SXM"),
    SeparateModel(models.find("Llama-3.2-1B")),
    batch=1,
    context_tokens=1024,
)


def test_equal_neighbours_merge() -> None:
    schedule = merge_ranges([1, 2, 3, 4, 5, 6], [3, 3, 2, 2, 0, 0])
    assert schedule.as_list() == [[1, 2, 3], [3, 4, 2], [5, 6, 0]]
    assert merge_ranges([1, 2], [4, 4]).as_list() == [[1, 2, 4]]
    # Up and down again stays three ranges.
    assert merge_ranges([1, 2, 3], [1, 2, 1]).as_list() == [[1, 1, 1], [2, 2, 2], [3, 3, 1]]


def test_sparse_sizes_leave_no_gap() -> None:
    """A batch size between two given ones inherits the γ of the smaller, as vLLM's gaps do."""
    schedule = merge_ranges([4, 16, 64], [3, 2, 0])
    assert schedule.as_list() == [[1, 15, 3], [16, 63, 2], [64, 64, 0]]


@pytest.mark.parametrize("draft", ["Llama-3.2-1B", "eagle", "ngram"])
@pytest.mark.parametrize("alpha", [{"alpha": 0.3}, {"alpha": 0.8}, {"acceptance_form": "range"}])
def test_schedule_is_the_verdict_s_gamma_at_every_batch(draft: str, alpha: dict[str, Any]) -> None:
    """Of predictions of single batches: same draws, same rule."""
    s = Scenario(**alpha, **EXAMPLE_PAIR | {"draft": draft}, max_gamma=6)
    endpoint = resolve(s)
    assert endpoint.pair
    schedule = recommended_schedule(
        endpoint.pair,
        s.accepts.acceptance(s),
        requests=requests_of(s, at_any_batch=True),
        corners=s.accepts.corners(s),
        max_batch=300,
        max_gamma=6,
    )
    assert schedule.ranges[0].low == 1
    assert schedule.ranges[-1].high == 300
    for batch in (1, 2, 17, 64, 150, 299, 300):
        one = resolve(s.model_copy(update={"batch": batch}))
        gamma = next(part.gamma for part in schedule.ranges if batch <= part.high)
        assert gamma == one.recommended


def test_a_larger_batch_never_drafts_more_on_a_dense_model() -> None:
    schedule = recommended_schedule(SERVED, IidAcceptance(0.8), max_batch=512)
    gammas = [part.gamma for part in schedule.ranges]
    assert gammas == sorted(gammas, reverse=True)
    assert len(gammas) > 1


def test_where_nothing_pays() -> None:
    schedule = recommended_schedule(
        replace(SERVED, drafter=LayerSkip(0.9)), IidAcceptance(0.3), max_batch=64
    )
    assert schedule.as_list() == [[1, 64, 0]]
    assert not schedule.pays


def test_the_price_of_switching_is_told() -> None:
    text = " ".join(SWITCHING_NOTES)
    assert "14%" in text
    assert "stalled" in text
    assert text.count("vLLM issue") == 3


def test_breakeven_of_a_linear_cost_is_the_closed_one() -> None:
    for c in (0.0, 0.05, 0.3, 0.9):
        gamma = np.arange(1, 12)
        np.testing.assert_allclose(
            breakeven_alpha_of(LinearStepCost(c), gamma), breakeven_alpha(gamma, c), atol=1e-12
        )


@pytest.mark.parametrize("drafter", [SERVED.drafter, Eagle(), LayerSkip()])
def test_at_the_breakeven_speculation_changes_nothing(drafter: object) -> None:
    cost = replace(SERVED, drafter=drafter, batch=48)  # type: ignore[arg-type]
    gammas = np.arange(8)
    alphas = breakeven_alpha_of(cost, gammas)
    assert alphas[0] == 0
    assert alphas.shape == gammas.shape
    for gamma, alpha in zip(gammas[1:], alphas[1:], strict=True):
        tokens = IidAcceptance(float(alpha)).tokens_per_step(int(gamma))
        assert tokens == pytest.approx(float(cost.total(gamma)), rel=1e-9)


def test_breakeven_with_coverage() -> None:
    cost = replace(SERVED, drafter=NGram(coverage=0.3), batch=8)
    alpha = float(breakeven_alpha_of(cost, 4, coverage=cost.share))
    assert 0 < alpha < 1
    tokens = cost.accepts(IidAcceptance(alpha)).tokens_per_step(4)
    assert tokens == pytest.approx(float(cost.total(4)), rel=1e-9)


def test_breakeven_edges() -> None:
    assert np.isnan(breakeven_alpha_of(LinearStepCost(1.2), 3))
    assert breakeven_alpha_of(LinearStepCost(0.0), 3) == 0
    faster = LinearStepCost(0.0, sigma=-0.05)  # a measured v < 1
    assert breakeven_alpha_of(faster, 3) == 0
    assert breakeven_alpha_of(LinearStepCost(1.0), 5) == pytest.approx(1.0)
    assert np.isnan(breakeven_alpha_of(LinearStepCost(0.1), 3, coverage=0.0))
    assert breakeven_alpha_of(LinearStepCost(0.0), 3, coverage=0.0) == 0
    with pytest.raises(InputError, match="coverage"):
        breakeven_alpha_of(LinearStepCost(0.1), 3, coverage=-0.1)
    with pytest.raises(InputError, match="gammas"):
        breakeven_alpha_of(LinearStepCost(0.1), 1.5)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ((), "at least one range"),
        ((GammaRange(2, 4, 1),), "2-4 where 1 should start"),
        ((GammaRange(1, 4, 1), GammaRange(6, 8, 0)), "6-8 where 5 should start"),
        ((GammaRange(1, 0, 1),), "1-0"),
        ((GammaRange(1, 4, -1),), "gamma"),
    ],
)
def test_gaps_are_refused(ranges: tuple[GammaRange, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schedule(ranges)


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="batches must increase"):
        merge_ranges([1, 1], [2, 3])
    with pytest.raises(InputError, match="one gamma each"):
        merge_ranges([1, 2], [2])
    with pytest.raises(InputError, match="max_batch"):
        recommended_schedule(SERVED, IidAcceptance(0.5), max_batch=0)
    with pytest.raises(InputError, match="max_gamma"):
        recommended_schedule(SERVED, IidAcceptance(0.5), max_gamma=0)
