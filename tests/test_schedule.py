"""One γ or a schedule: ranges without gaps, the best of them by brute force, what switching costs;
break-even α."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath import models
from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.drafters import Eagle, LayerSkip, NGram, SeparateModel
from specmath.estimate import Basis
from specmath.evidence import Switching, switching
from specmath.gamma import breakeven_alpha
from specmath.load import best_choice, load_study
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.schedule import (
    Choice,
    GammaRange,
    Loads,
    Schedule,
    best_ranges,
    choose,
    loads_up_to,
    merge_ranges,
)
from specmath.serving import ServedPair
from specmath.speculation import breakeven_alpha_of
from specmath.stepcost import LinearStepCost
from specmath.steptime import Placement
from specmath.words.load import (
    SWITCHING_NOTES,
    schedule_sentence,
    single_sentence,
    switching_sentence,
)

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


# ── the best ranges ──────────────────────────────────────────────────────────────────────────


def by_brute_force(cost: Any, may_rise: Any, most: int) -> float:
    """The least total over every way to cut the loads into at most `most` ranges and every γ."""
    loads, gammas = cost.shape
    least = np.inf
    for ranges in range(1, min(most, loads) + 1):
        for cuts in combinations(range(1, loads), ranges - 1):
            edges = [0, *cuts, loads]
            for path in product(range(gammas), repeat=ranges):
                parts = list(zip(edges, edges[1:], path, strict=False))
                fine = all(
                    after < before or all(may_rise[i, before, after] for i in range(low, high))
                    for before, (low, high, after) in zip(path, parts[1:], strict=False)
                ) and all(a != b for a, b in pairwise(path))
                total = sum(cost[low:high, g].sum() for low, high, g in parts)
                least = min(least, total) if fine else least
    return float(least)


@given(data=st.data(), loads=st.integers(1, 5), gammas=st.integers(1, 3), most=st.integers(1, 4))
def test_the_best_ranges_are_those_of_brute_force(
    data: Any, loads: int, gammas: int, most: int
) -> None:
    each = st.floats(0.1, 10)
    values = data.draw(st.lists(each, min_size=loads * gammas, max_size=loads * gammas))
    cost = np.array(values).reshape(loads, gammas)
    size = loads * gammas * gammas
    rises = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    may_rise = np.array(rises).reshape(loads, gammas, gammas)
    found = best_ranges(cost, may_rise, most)
    assert len(found) == most
    for ranges, (total, path) in enumerate(found, start=1):
        assert total == pytest.approx(by_brute_force(cost, may_rise, ranges))
        assert total == pytest.approx(cost[range(loads), path].sum())
        starts = [0, *(i for i in range(1, loads) if path[i] != path[i - 1])]
        assert len(starts) <= ranges
        for begin, end in zip(starts[1:], [*starts[2:], loads], strict=False):
            before, after = path[begin - 1], path[begin]
            assert after < before or may_rise[begin:end, before, after].all()


def test_a_rise_needs_every_load_of_its_range() -> None:
    """γ=1 is better at both later loads, and by more than is open at the first of them alone."""
    cost = np.array([[1.0, 9.0], [5.0, 1.0], [5.0, 1.0]])
    rises = np.zeros((3, 2, 2), dtype=bool)
    rises[1, 0, 1] = True
    assert best_ranges(cost, rises, 2)[-1] == (11.0, (0, 0, 0))
    assert best_ranges(cost, rises, 3)[-1] == (7.0, (0, 1, 0))
    rises[2, 0, 1] = True
    assert best_ranges(cost, rises, 3)[-1] == (3.0, (0, 1, 1))


def test_loads_are_spread_over_doublings() -> None:
    assert loads_up_to(1).tolist() == [1]
    assert loads_up_to(2).tolist() == [1, 2]
    assert loads_up_to(100).tolist() == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100]
    assert loads_up_to(256)[-1] == 256


# ── one γ, or a schedule ─────────────────────────────────────────────────────────────────────


FREE = Switching((1, 2), (0.0, 0.0), "nobody", "nothing", "nothing")


def loads_of(speedup: list[list[float]], width: float = 1.0) -> Loads:
    """Batches 1, 2, 4 …, γ = 0, 1 …; each speedup of a γ ≥ 1 open by the factor either way."""
    centre = np.array(speedup)
    ends = np.stack([centre / width, centre * width])[:, None]
    ends[..., 0] = 1.0
    batches = np.array([1, 2, 4, 8, 16, 32])[: len(centre)]
    return Loads(batches, np.arange(centre.shape[1]), centre, ends)


def chosen(speedup: list[list[float]], price: Switching, width: float = 1.0) -> Choice:
    return choose(loads_of(speedup, width), Basis(), price)


def test_one_gamma_and_what_it_loses_by_hand() -> None:
    """Times 1/2, 1 and 1/4, 1/1.6: γ=1 takes 1.5 in all, γ=2 0.875. Where γ=2 is not the best, at
    batch 2 with 1/1.6 against 1/2, a token takes 2/1.6 = 25% longer."""
    found = chosen([[1, 2, 4], [1, 2, 1.6]], FREE)
    assert (found.gamma, found.worst_at) == (2, 2)
    assert found.loss.value == pytest.approx(0.25)
    assert found.schedule.as_list() == [[1, 1, 2], [2, 2, 1]]
    # 1/4 + 1/1.6 = 0.875 with one γ, 1/4 + 1/2 = 0.75 with both.
    assert found.gain.value == found.least_gain.value == pytest.approx(0.875 / 0.75 - 1)
    assert found.advised


def test_gamma_zero_within_a_schedule_costs_what_it_cost() -> None:
    """Off at batch 2 would be 1, against 1/0.7 with γ=1; at 50% of switching it is not worth it."""
    speedup = [[1.0, 2.0], [1.0, 0.7]]
    assert chosen(speedup, FREE).schedule.as_list() == [[1, 1, 1], [2, 2, 0]]
    dear = Switching((1, 2), (0.5, 0.5), "", "", "")
    assert chosen(speedup, dear).schedule.as_list() == [[1, 2, 1]]
    some = Switching((1, 2), (0.1, 0.1), "", "", "")
    found = chosen(speedup, some)
    assert found.schedule.as_list() == [[1, 1, 1], [2, 2, 0]]
    one = 1 / 2 + 1 / 0.7
    assert found.gain.value == pytest.approx(one / (1 / 2 + 1.1) - 1)
    assert found.least_gain.value == pytest.approx(one / ((1 / 2 + 1) * 1.1) - 1)


def test_speculation_off_is_one_of_the_single_gammas() -> None:
    """Off itself costs nothing: a server without speculation cannot switch."""
    found = chosen([[1.0, 0.9], [1.0, 0.8]], Switching((1, 2), (0.3, 0.3), "", "", ""))
    assert found.gamma == 0
    assert found.loss.value == 0
    assert not found.advised


def test_a_schedule_that_gains_less_than_switching_costs_is_not_advised() -> None:
    speedup = [[1, 2.0, 2.1], [1, 2.0, 1.9]]
    assert chosen(speedup, FREE).advised
    dear = chosen(speedup, Switching((1, 2), (0.1, 0.1), "", "", ""))
    assert dear.gain.value > 0 > dear.least_gain.value
    assert not dear.advised
    assert schedule_sentence(dear).endswith("stay with one γ.")
    assert schedule_sentence(chosen(speedup, FREE)).endswith("use it.")


def test_a_gain_whose_low_end_is_none_is_not_advised() -> None:
    """Each γ open by 20% of itself: at the low end switching off would have been better."""
    speedup = [[1.0, 2.0], [1.0, 0.95]]
    assert chosen(speedup, FREE).advised
    assert not chosen(speedup, FREE, width=1.2).advised


def test_gamma_rises_only_where_the_intervals_separate_it() -> None:
    """1.5× over 1.4× at the larger batch: by 7%, or open by either way."""
    centre = np.array([[1.0, 1.5, 1.2], [1.0, 1.4, 1.5]])
    same = np.stack([centre, centre])[:, None]
    rising = Loads(np.array([1, 2]), np.arange(3), centre, same)
    assert choose(rising, Basis(), FREE).schedule.as_list() == [[1, 1, 1], [2, 2, 2]]
    crossed = same.copy()
    crossed[0, 0, 1] = [1.0, 1.5, 1.4]
    open_to = Loads(np.array([1, 2]), np.arange(3), centre, crossed)
    assert len(choose(open_to, Basis(), FREE).schedule.ranges) == 1


def test_a_schedule_has_at_most_four_ranges_and_gamma_falls_on_a_dense_model() -> None:
    for alpha in (0.6, 0.8, 0.9):
        found = best_choice(SERVED, IidAcceptance(alpha), max_batch=512)
        gammas = [part.gamma for part in found.schedule.ranges]
        assert len(gammas) <= 4
        assert gammas == sorted(gammas, reverse=True)
        assert found.schedule.ranges[-1].high == 512


@pytest.mark.parametrize("draft", ["Llama-3.2-1B", "eagle3", "ngram"])
def test_the_choice_is_made_of_predictions_of_single_batches(draft: str) -> None:
    """Mean times of a token over the loads, each from its own prediction."""
    s = Scenario(alpha=0.7, **EXAMPLE_PAIR | {"draft": draft}, max_gamma=6, prompt_tokens=900)
    endpoint = resolve(s)
    found = load_study(endpoint).choice
    speeds = []
    for batch in found.batches:
        centre = resolve(s.model_copy(update={"batch": batch})).curves[0]
        speeds.append(centre[: endpoint.cap + 1])
    times = 1 / np.array(speeds)
    assert found.gamma == int(np.argmin(times.mean(axis=0)))
    lost = times[:, found.gamma] / times.min(axis=1) - 1
    assert found.loss.value == pytest.approx(lost.max(), abs=1e-12)
    assert found.loss.low is not None
    assert 0 <= found.loss.low <= found.loss.value <= (found.loss.high or 0)


def test_where_nothing_pays() -> None:
    found = best_choice(replace(SERVED, drafter=LayerSkip(0.9)), IidAcceptance(0.3), max_batch=64)
    assert found.gamma == 0
    assert found.loss.value == 0
    assert found.schedule.as_list() == [[1, 64, 0]]
    assert not found.schedule.pays
    assert "γ=0, speculation off. It is the best at each of them." in single_sentence(found)


def test_what_switching_costs_is_what_was_measured() -> None:
    """vLLM issue 49548: 14.374 → 15.317 ms at concurrency 2, 77.164 → 93.820 ms at 189."""
    found = switching()
    assert found.share([2, 189]) == pytest.approx([15.317 / 14.374 - 1, 93.820 / 77.164 - 1], 1e-3)
    # Half way in the logarithm, 2 × (189 / 2) ** 0.5, half way between; beyond, level.
    middle = 2 * (189 / 2) ** 0.5
    assert found.share(middle) == pytest.approx((0.0656 + 0.2158) / 2)
    assert found.share([1, 512]) == pytest.approx([0.0656, 0.2158])


def test_the_cost_of_switching_is_told_with_its_source_and_what_is_assumed() -> None:
    told = switching_sentence(best_choice(SERVED, IidAcceptance(0.8)))
    for words in ("6.6%", "22% at batch 256", "vLLM issue 49548", "Assumed: the same of every"):
        assert words in told


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
        best_choice(SERVED, IidAcceptance(0.5), max_batch=0)
    with pytest.raises(InputError, match="max_gamma"):
        best_choice(SERVED, IidAcceptance(0.5), max_gamma=0)
