"""The step cost: the two theorems at its ends, plain decoding at γ=0, a measured v outside."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specmath.checks import InputError
from specmath.stepcost import (
    LinearStepCost,
    measured_step_cost,
    sigma_from_verify_cost,
    verify_cost_from_sigma,
)
from specmath.theorems import expected_tokens, operations_increase, walltime_improvement

GAMMAS = np.arange(0, 33)


@pytest.mark.parametrize("sigma", [-0.01, 0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("overhead", [0.0, 0.4])
def test_without_a_draft_a_step_is_a_plain_step(sigma: float, overhead: float) -> None:
    cost = LinearStepCost(c=0.7, c_hat=0.2, sigma=sigma, overhead=overhead)
    assert cost.total(0) == cost.verify(0) == 1
    assert cost.draft(0) == cost.extra(0) == 0


@pytest.mark.parametrize("alpha", [0.0, 0.6, 0.9, 1.0])
def test_the_ends_of_the_curve_are_the_two_theorems_exactly(alpha: float) -> None:
    c, c_hat = 0.07, 0.013
    tokens = expected_tokens(alpha, GAMMAS)
    memory = LinearStepCost(c, c_hat, sigma=0.0).total(GAMMAS)
    np.testing.assert_allclose(tokens / memory, walltime_improvement(alpha, GAMMAS, c), rtol=1e-14)
    compute = LinearStepCost(c, c_hat, sigma=1.0).total(GAMMAS)
    np.testing.assert_allclose(
        compute / tokens, operations_increase(alpha, GAMMAS, c_hat), rtol=1e-14
    )


def test_hand_worked_step_between_the_ends() -> None:
    """σ=0.25, γ=4: v=2; each draft 0.75·0.2+0.25·0.04=0.16; h=0.1: s = 2 + 0.64 + 0.1."""
    cost = LinearStepCost(c=0.2, c_hat=0.04, sigma=0.25, overhead=0.1)
    assert cost.verify(4) == pytest.approx(2)
    assert cost.draft(4) == pytest.approx(0.64)
    assert cost.extra(4) == 0.1
    assert cost.total(4) == pytest.approx(2.74)


def test_the_cost_rises_along_the_curve_where_the_draft_does_not_get_cheaper() -> None:
    totals = [float(LinearStepCost(0.1, 0.1, s).total(5)) for s in np.linspace(0, 1, 11)]
    assert np.all(np.diff(totals) > 0)


@pytest.mark.parametrize(("v", "gamma"), [(0.9, 4), (1.0, 1), (2.0, 4), (5.0, 4), (9.0, 4)])
def test_a_measured_verification_is_reproduced(v: float, gamma: int) -> None:
    """Measured v below 1 and above γ+1 happen and are legal."""
    assert LinearStepCost(0.1, sigma=sigma_from_verify_cost(v, gamma)).verify(gamma) == (
        pytest.approx(v, rel=1e-14)
    )


def test_outside_the_curve_the_draft_stays_at_the_nearer_end() -> None:
    assert LinearStepCost(0.2, 0.05, sigma=-0.1).draft(4) == pytest.approx(0.8)
    assert LinearStepCost(0.2, 0.05, sigma=1.7).draft(4) == pytest.approx(0.2)


def test_verification_that_would_cost_nothing_is_refused_with_the_gamma() -> None:
    cost = LinearStepCost(0.1, sigma=-0.2)
    assert cost.verify(4) == pytest.approx(0.2)
    with pytest.raises(InputError, match=r"verify_cost must be > 0 .* gamma=5"):
        cost.verify(np.arange(9))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LinearStepCost(-0.1), ["c must", "-0.1", ">= 0"]),
        (lambda: LinearStepCost(0.1, c_hat=math.nan), ["c_hat", "nan"]),
        (lambda: LinearStepCost(0.1, sigma=-1.5), ["sigma", "-1.5", ">= -1"]),
        (lambda: LinearStepCost(0.1, overhead=math.inf), ["overhead", "inf"]),
        (lambda: LinearStepCost(0.1).total(-1), ["gamma", "-1", ">= 0"]),
        (lambda: LinearStepCost(0.1).total(1.5), ["gamma", "1.5"]),
        (lambda: sigma_from_verify_cost(0.0, 4), ["verify_cost", "> 0"]),
        (lambda: sigma_from_verify_cost(1.2, 0), ["gamma", ">= 1"]),
    ],
)
def test_costs_without_meaning_are_named(make: object, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        make()  # type: ignore[operator]
    assert all(word in str(error.value) for word in words), str(error.value)


def test_sigma_and_verify_cost_are_inverse() -> None:
    """By hand: σ = 0.2 at γ = 4 is v = 1.8, and back; γ = 0 verifies nothing more."""
    assert verify_cost_from_sigma(0.2, 4) == pytest.approx(1.8)
    assert sigma_from_verify_cost(verify_cost_from_sigma(0.2, 4), 4) == pytest.approx(0.2)
    assert verify_cost_from_sigma(0.7, 0) == 1.0


def test_hand_worked_step_on_a_measured_curve() -> None:
    """v = 1.6, 1.9, 1.5 of 2, 3, 4 tokens; γ=3: 1.5 + 3·0.2 + 0.1 = 2.2. The dip stays a dip."""
    cost = measured_step_cost([1.6, 1.9, 1.5], c=0.2, c_hat=0.04, overhead=0.1)
    np.testing.assert_allclose(cost.total([0, 1, 2, 3]), [1, 1.9, 2.4, 2.2], rtol=1e-14)
    assert (cost.reach, cost.c, cost.c_hat) == (3, 0.2, 0.04)
    with pytest.raises(InputError, match="gamma"):
        cost.total(4)


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_a_straight_measured_curve_is_the_line(slope: float) -> None:
    """Where σ leaves the draft alone (ĉ = c) a curve on the line costs what the line costs."""
    line = LinearStepCost(0.2, 0.2, slope, overhead=0.1)
    curve = measured_step_cost(line.verify(GAMMAS[1:]).tolist(), 0.2, 0.2, 0.1)
    np.testing.assert_allclose(curve.total(GAMMAS), line.total(GAMMAS), rtol=1e-14)


@pytest.mark.parametrize("curve", [[], [1.2, 0.0], [1.2, math.nan], [-1.0], [1.0, 1e5]])
def test_a_measured_curve_must_be_one(curve: list[float]) -> None:
    with pytest.raises(InputError, match="verify_costs"):
        measured_step_cost(curve, 0.1)
