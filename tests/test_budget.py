"""The budget on γ: brute force, the limits by hand, and where the cost is not known further."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath.acceptance import IidAcceptance, PerPositionAcceptance
from specmath.checks import InputError
from specmath.speculation import Speculation
from specmath.stepcost import SEARCH_LIMIT, LinearStepCost, TabulatedStepCost, measured_step_cost
from specmath.theorems import operations_increase, walltime_improvement


@given(
    alpha=st.floats(0.05, 0.95),
    c=st.floats(0.001, 0.6),
    c_hat=st.floats(0, 0.3),
    operations=st.none() | st.floats(0, 5),
    cost=st.none() | st.floats(0, 2),
)
def test_largest_gamma_by_brute_force(
    alpha: float, c: float, c_hat: float, operations: float | None, cost: float | None
) -> None:
    found = Speculation(IidAcceptance(alpha), LinearStepCost(c, c_hat)).within(
        extra_operations=operations,
        extra_cost=cost,
    )

    def spent(gamma: int) -> tuple[float, float]:
        work = float(operations_increase(alpha, gamma, c_hat))
        return work, 1 / float(walltime_improvement(alpha, gamma, c))

    def keeps(gamma: int) -> bool:
        limits = (operations, cost)
        return all(
            b is None or s <= (1 + b) * (1 + 1e-12)
            for s, b in zip(spent(gamma), limits, strict=True)
        )

    assert keeps(found.gamma)
    work, price = spent(found.gamma)
    assert (found.operations, found.cost) == pytest.approx((work, price))
    assert found.speedup == pytest.approx(1 / price)
    if operations is None and cost is None:
        assert found.gamma == SEARCH_LIMIT
    if found.gamma == SEARCH_LIMIT:  # where the search ends: a larger one may keep the budget too
        return
    # From some γ on τ is at its ceiling 1/(1−α) and both kinds of spending only rise.
    for gamma in range(found.gamma + 1, found.gamma + 40):
        assert not keeps(gamma)


def test_half_as_much_arithmetic_again_by_hand() -> None:
    """α = 0.5, ĉ = 0: operations 2/1.5 = 1.333 at γ=1, 3/1.75 = 1.714 at γ=2."""
    halves = Speculation(IidAcceptance(0.5), LinearStepCost(0.1))
    assert halves.within(extra_operations=0.5).gamma == 1
    # Met exactly, a budget holds.
    assert halves.within(extra_operations=3 / 1.75 - 1).gamma == 2
    assert halves.within(extra_operations=3 / 1.75 - 1 - 1e-9).gamma == 1
    assert halves.within(extra_operations=0).gamma == 0


def test_no_extra_cost_ends_where_speedup_falls_to_one() -> None:
    """α = 0.5, c = 0.25: τ(γ) = 2 − 2^−γ against 1 + γ/4: above at γ=3 (1.875/1.75), below at 4."""
    found = Speculation(IidAcceptance(0.5), LinearStepCost(0.25)).within(extra_cost=0.0)
    assert found.gamma == 3
    assert found.speedup == pytest.approx(1.875 / 1.75)
    assert not found.beyond


def test_a_draft_that_never_pays_leaves_plain_decoding() -> None:
    found = Speculation(IidAcceptance(0.2), LinearStepCost(0.5)).within(extra_cost=0.0)
    assert (found.gamma, found.operations, found.cost, found.speedup) == (0, 1.0, 1.0, 1.0)


def test_a_gap_in_the_middle_does_not_end_the_search() -> None:
    """Spending is not monotone: position 1 seldom survives its cost, position 2 is free."""
    cost = TabulatedStepCost((1.6, 1.6), (0.0, 0.0), (0.0, 0.0), 0.1, 0.1)
    halves = Speculation(PerPositionAcceptance([0.5, 0.5]), cost)
    assert halves.speedup(np.arange(3)).tolist() == pytest.approx([1, 1.5 / 1.6, 2 / 1.6])
    found = halves.within(extra_cost=0.0)
    assert found.gamma == 2
    assert found.beyond, "the table ends there: more may be within the budget"


@pytest.mark.parametrize("name", ["extra_operations", "extra_cost"])
@pytest.mark.parametrize("value", [-0.01, float("nan"), float("inf")])
def test_bad_budgets(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        Speculation(IidAcceptance(0.5), LinearStepCost(0.1)).within(**{name: value})


def test_the_gpus_of_the_draft_are_in_the_cost() -> None:
    """A second GPU doubles the price of every γ ≥ 1: no extra cost means twice as fast. α=0.8,
    c=0.1: 2.24× at γ=4 (Theorem 3.8); 2.0× is last reached before 1 + 0.1γ exceeds τ/2."""
    halves = Speculation(IidAcceptance(0.8), LinearStepCost(0.1))
    found = halves.within(extra_cost=0.0, gpu_ratio=2.0)
    twice = [g for g in range(1, 60) if (1 - 0.8 ** (g + 1)) / 0.2 / (1 + 0.1 * g) >= 2]
    assert found.gamma == twice[-1] == 14
    assert found.cost == pytest.approx(2 / found.speedup)
    assert halves.within(extra_cost=0.0).gamma > found.gamma


def test_on_a_measured_curve_a_smaller_gamma_may_cost_more() -> None:
    """v = 1.05, 4.0, 1.2, α=0.8, c=0.05: γ=3 is 2.952/1.35 = 2.19×, γ=2 costs 4.1/2.44 = 1.68×."""
    halves = Speculation(IidAcceptance(0.8), measured_step_cost([1.05, 4.0, 1.2], 0.05))
    found = halves.within(extra_cost=0.0)
    assert (found.gamma, found.beyond) == (3, True)
    assert found.speedup == pytest.approx(2.952 / 1.35)
