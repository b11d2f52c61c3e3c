"""The choice of γ against brute force, mpmath, SciPy's Lambert function and worked numbers."""

from __future__ import annotations

import warnings
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import lambertw

from specmath import gamma as choosing
from specmath.gamma import (
    breakeven_alpha,
    crossover_gamma,
    optimal_gamma,
)
from specmath.stepcost import LinearStepCost
from specmath.theorems import (
    alpha_from_tokens_per_step,
    expected_tokens,
    implied_draft_cost,
    operations_increase,
    walltime_improvement,
)

RNG = np.random.default_rng(2024)
alphas = st.floats(0.0, 1.0)
costs = st.floats(0.0, 2.0)


def brute_force(alpha: np.ndarray, c: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """γ with the largest speedup by a running sum of powers, and the speedup at every γ."""
    powers = np.cumprod(np.broadcast_to(alpha[:, None], (alpha.size, largest)), axis=1)
    tokens = np.hstack([np.ones((alpha.size, 1)), 1.0 + np.cumsum(powers, axis=1)])
    speedups = tokens / (np.arange(largest + 1) * c[:, None] + 1.0)
    return speedups.argmax(axis=1), speedups


def exact_gain(alpha: float, c: float, gamma: int) -> Any:
    """The sign says whether γ+1 beats γ: α^{γ+1}(γc + 1) − cτ, in 400 digits."""
    with mpmath.workdps(400):
        a, cost = mpmath.mpf(alpha), mpmath.mpf(c)
        tokens = (1 - a ** (gamma + 1)) / (1 - a)
        return a ** (gamma + 1) * (gamma * cost + 1) - cost * tokens


# --- optimum ---------------------------------------------------------------------------------


def test_optimum_equals_brute_force_on_a_dense_grid():
    alpha, c = (
        x.ravel() for x in np.meshgrid(np.linspace(0, 0.999, 200), np.linspace(0.005, 1, 90))
    )
    found = optimal_gamma(alpha, c, 600)
    best, speedups = brute_force(alpha, c, 600)
    rows = np.arange(alpha.size)
    top = speedups[rows, best]
    # A running sum of rounded terms cannot tell two γ apart that differ by less than 1e-13.
    assert np.all(speedups[rows, found] >= top * (1 - 1e-13))
    speedups[rows, best] = 0.0
    clear = speedups.max(axis=1) < top * (1 - 1e-13)
    assert clear.mean() > 0.99
    assert np.array_equal(found[clear], best[clear])


@pytest.mark.parametrize(
    ("alpha", "c"),
    [
        # α → 1, with c anywhere.
        (1 - 10.0 ** RNG.uniform(-7, -1, 150), 10.0 ** RNG.uniform(-4, 0, 150)),
        # c tiny: exp(−L/c) underflows from L/c ≈ 745.
        (RNG.uniform(0.01, 0.99, 100), 10.0 ** RNG.uniform(-300, -3, 100)),
        # both tiny, so that even α² underflows.
        (10.0 ** RNG.uniform(-200, -1, 80), 10.0 ** RNG.uniform(-300, -1, 80)),
        # α just above c, down to neighbouring floats.
        (RNG.uniform(0.01, 1, 80), None),
    ],
    ids=["near one", "tiny c", "tiny both", "just above c"],
)
def test_optimum_is_where_the_gain_ends_in_400_digits(alpha: np.ndarray, c: np.ndarray | None):
    if c is None:
        c = alpha * (1 - 10.0 ** RNG.uniform(-15.9, -1, alpha.size))
    for a, cost, best in zip(alpha, c, optimal_gamma(alpha, c, 10**9), strict=True):
        if cost >= a:
            assert best == 0
            continue
        # The gain shrinks with γ, so these two signs prove that `best` is the optimum.
        assert exact_gain(a, cost, int(best) - 1) > 0
        assert exact_gain(a, cost, int(best)) <= 0


def test_optimum_with_alpha_and_c_both_next_to_one():
    # Every speedup is within 1e-9 of 1 here: only the exact condition can tell them apart.
    miss = 10.0 ** np.linspace(-15, -6, 40)
    alpha = 1 - miss
    c = 1 - miss * np.linspace(1.5, 3000, 40)
    for a, cost, best in zip(alpha, c, optimal_gamma(alpha, c, 10**6), strict=True):
        assert exact_gain(a, cost, int(best) - 1) > 0 >= exact_gain(a, cost, int(best))


@pytest.mark.parametrize(
    ("miss", "shift"),
    # The shift of c, relative, moves the gain by more than rounding and what counts as a tie.
    [(10.0 ** RNG.uniform(-8, -3.3, 300), 3e-14), (RNG.uniform(0.002, 0.9, 300), 1e-11)],
    ids=["near one", "ordinary"],
)
def test_optimum_changes_at_the_tie_between_two_neighbours(miss: np.ndarray, shift: float):
    # γ and γ+1 tie where c = α^{γ+1} / (τ − γα^{γ+1}); a little below, γ+1 is better.
    alpha, gamma = 1 - miss, RNG.integers(1, 40, miss.size)
    for a, g in zip(alpha, gamma, strict=True):
        with mpmath.workdps(60):
            power = mpmath.mpf(a) ** int(g + 1)
            tie = power / ((1 - power) / (1 - mpmath.mpf(a)) - int(g) * power)
            pair = [float(tie * (1 - shift)), float(tie * (1 + shift))]
        assert optimal_gamma(a, pair).tolist() == [g + 1, g]


def test_the_real_optimum_by_scipy_is_within_one():
    # The design's closed form with W₋₁, where exp does not underflow.
    alpha = RNG.uniform(0.2, 0.98, 2000)
    c = alpha * RNG.uniform(0.01, 0.95, 2000)
    decay = -np.log(alpha)
    exponent = -1 - decay * (1 / c - 1)
    usable = exponent > -700
    x = -lambertw(-np.exp(exponent[usable]), -1).real
    real_optimum = (x - 1) / decay[usable] - 1 / c[usable]
    assert np.all(np.abs(optimal_gamma(alpha, c)[usable] - np.maximum(real_optimum, 0)) < 1)


def test_optimum_at_the_edges():
    assert np.all(optimal_gamma([0.0, 0.3, 0.3, 1.0, 0.5], [0.0, 0.3, 0.4, 1.0, 1e300]) == 0)
    assert optimal_gamma(0.3, np.nextafter(0.3, 0)) == 1  # Corollary 3.9: α > c is enough
    # 0.5 and 0.2 tie at γ = 1 and 2 (1.5/1.2 = 1.75/1.4): the smaller, however 0.2 is rounded.
    assert np.all(optimal_gamma(0.5, [0.2 - 4e-16, 0.2, 0.2 + 4e-16]) == 1)
    assert optimal_gamma([0.9, 1 - 1e-9], [0.01, 0.5], max_gamma=5).tolist() == [5, 5]
    assert optimal_gamma(0.9, 0.1, max_gamma=0) == 0
    smallest = float(np.finfo(np.float64).tiny)
    best = optimal_gamma(0.9, smallest)
    assert exact_gain(0.9, smallest, best - 1) > 0 >= exact_gain(0.9, smallest, best)
    assert optimal_gamma([], 0.1).shape == (0,)


@pytest.mark.parametrize(("alpha", "c"), [(0.5, 0.0), (1.0, 0.5), (1.0, 0.0), (1e-300, 0.0)])
def test_no_finite_optimum_warns_and_gives_the_largest(alpha: float, c: float):
    with pytest.warns(RuntimeWarning, match=r"no finite optimum.*max_gamma = 77"):
        assert optimal_gamma(alpha, c, max_gamma=77) == 77
    with pytest.warns(RuntimeWarning):
        assert optimal_gamma([alpha, 0.8], [c, 0.1], max_gamma=77).tolist() == [77, 6]


def test_a_finite_optimum_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimal_gamma([0.0, 0.9, 0.9, 1.0], [0.0, 0.001, 1.0, 1.0], 10)


def test_types_and_shapes():
    assert type(optimal_gamma(0.8, 0.1)) is int
    assert type(crossover_gamma(0.8)) is int
    assert isinstance(breakeven_alpha(4, 0.2), float)
    square = optimal_gamma(np.array([[0.5], [0.8]]), [0.05, 0.1, 0.2])
    assert (square.shape, square.dtype) == ((2, 3), np.int64)
    assert square[1].tolist() == [8, 6, 4]
    # More than one block, with ordinary pairs and the others mixed.
    alpha, c = RNG.uniform(0, 1, (2, 20001))
    whole = optimal_gamma(alpha, c)
    assert all(whole[i] == optimal_gamma(alpha[i], c[i]) for i in range(0, 20001, 997))


def test_published_optima():
    # Issue 2: α = 0.8 and c = 0.02, 0.05, 0.1, 0.2.
    assert optimal_gamma(0.8, [0.02, 0.05, 0.1, 0.2]).tolist() == [11, 8, 6, 4]
    # Target 40 ms, draft 8 ms, γ = 4, half a token accepted: the answer is γ = 1.
    assert optimal_gamma(alpha_from_tokens_per_step(1.5, 4), 8 / 40) == 1


# --- crossover -------------------------------------------------------------------------------


def first_crossing(alpha: np.ndarray, c: np.ndarray, c_hat: np.ndarray) -> np.ndarray:
    """The definition, γ by γ."""
    gamma = np.arange(1, 2001)
    more = operations_increase(alpha[:, None], gamma, c_hat[:, None])
    crossed = more >= walltime_improvement(alpha[:, None], gamma, c[:, None])
    return np.where(crossed.any(axis=1), crossed.argmax(axis=1) + 1, 0)


@pytest.mark.parametrize("draft", ["free", "cheap", "dear", "at the edge"])
def test_crossover_equals_a_scan(draft: str):
    n = 1500
    alpha = np.concatenate([RNG.uniform(0, 1, n), 1 - 10.0 ** RNG.uniform(-12, -1, n)])
    c, c_hat = {
        "free": np.zeros((2, 2 * n)),
        "cheap": RNG.uniform(0, 0.2, (2, 2 * n)),
        "dear": RNG.uniform(0, 5, (2, 2 * n)),
        "at the edge": RNG.uniform(0, 0.14, (2, 2 * n)) * [[1], [0]],
    }[draft]
    if draft == "at the edge":  # ψ(1) ≈ 0, where a second crossing would show
        alpha = np.sqrt((2 + c_hat) * (1 + c)) - 1 + RNG.normal(0, 1e-3, 2 * n)
    assert np.array_equal(crossover_gamma(alpha, c, c_hat, 2000), first_crossing(alpha, c, c_hat))


def test_a_dear_draft_crosses_at_once_although_speed_leads_again_later():
    # By hand at α = 0.9, c = 0.25, ĉ = 0.9: (2+0.9)(1.25) = 3.625 against 1.9² = 3.61 at γ = 1,
    # but 4.8·1.5 = 7.2 against 2.71² = 7.34 at γ = 2. The first crossing is what is asked for.
    gamma = np.arange(1, 6)
    ahead = operations_increase(0.9, gamma, 0.9) >= walltime_improvement(0.9, gamma, 0.25)
    assert ahead.tolist() == [True, False, False, True, True]
    assert crossover_gamma(0.9, 0.25, 0.9) == 1


def test_published_crossovers():
    # Issue 2, c = ĉ = 0. At 0.9 there is none below 32.
    alpha = [0.41, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert crossover_gamma(alpha).tolist() == [1, 2, 3, 5, 10, 24, 99]
    assert crossover_gamma(0.9, max_gamma=32) == 0
    before = [
        (0.5, 2, 1.75, 1.71),
        (0.6, 4, 2.31, 2.17),
        (0.7, 9, 3.24, 3.09),
        (0.8, 23, 4.98, 4.82),
    ]
    for a, gamma, faster, arithmetic in before:
        assert round(float(walltime_improvement(a, gamma, 0)), 2) == faster
        assert round(float(operations_increase(a, gamma)), 2) == arithmetic


def test_crossover_at_the_edges():
    # √2 − 1 with a free draft: (1+α)² = 2 at γ = 1.
    edge = np.sqrt(2.0) - 1.0
    assert crossover_gamma([edge - 1e-12, edge + 1e-12]).tolist() == [1, 2]
    assert crossover_gamma(1.0) == 0
    assert crossover_gamma(1.0, 1.0) == 1  # both are 1 at every γ: arithmetic is not behind
    assert crossover_gamma([0.0, 0.9], 1e308, 1e308).tolist() == [1, 1]
    assert crossover_gamma(0.5, max_gamma=2) == 0
    assert crossover_gamma(0.5, max_gamma=0) == 0
    # An exact tie counts: α = 0.5, c = 0.125 gives 4/3 on both sides at γ = 1.
    assert crossover_gamma(0.5, 0.125) == 1


# --- break-even ------------------------------------------------------------------------------


@given(st.integers(1, 10000), st.floats(0.0, 1.0))
def test_break_even_is_where_the_speedup_is_one(gamma: int, c: float):
    alpha = breakeven_alpha(gamma, c)
    # One ulp of α moves the speedup by up to γ ulps.
    assert walltime_improvement(alpha, gamma, c) == pytest.approx(1.0, rel=1e-13 + gamma * 3e-16)


def test_break_even_at_the_edges():
    found = breakeven_alpha([0, 0, 1, 3, 3, 4], [0.5, 2.0, 0.3, 1.0, 1.0001, 0.234375])
    assert found[:4] == pytest.approx([0.0, 0.0, 0.3, 1.0], rel=1e-15)
    assert np.isnan(found[4])
    assert found[5] == pytest.approx(0.5, rel=1e-14)  # Σ 2^{−i} over i = 1…4 is 0.9375 = 4c
    assert breakeven_alpha(7, 0.0) == 0.0
    # α = 0.5 at γ = 4 is slower only if c > 0.234 (issue 2).
    assert round(float(implied_draft_cost(1.0, expected_tokens(0.5, 4), 4)), 3) == 0.234


# --- the curve between the theorems ----------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "extra"),
    # Compute-bound cost per token at γ = 7, published: +225%, +122% and +40%.
    [(0.6, 2.25), (0.75, 1.22), (0.9, 0.40)],
)
def test_published_compute_bound_cost(alpha: float, extra: float):
    assert operations_increase(alpha, 7) - 1 == pytest.approx(extra, abs=0.005)


@given(alphas, st.integers(0, 200), costs, costs, st.floats(0.0, 1.0))
def test_one_cost_a_drafted_token_carries_the_whole_curve(
    alpha: float, gamma: int, c: float, c_hat: float, sigma: float
):
    """s = 1 + γb with b = σ + (1−σ)c + σĉ: Theorem 3.8 with b in the place of c."""
    cost = LinearStepCost(c, c_hat, sigma)
    along = walltime_improvement(alpha, gamma, sigma + cost.draft_each)
    direct = expected_tokens(alpha, gamma) / cost.total(gamma)
    assert along == pytest.approx(float(direct), rel=1e-13)


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("optimal_gamma", (1.5, 0.1), r"alpha .*>= 0 and <= 1, got 1\.5"),
        ("optimal_gamma", (np.nan, 0.1), r"alpha .*>= 0 and <= 1, got nan"),
        ("optimal_gamma", (0.5, -0.1), r"c .*>= 0, got -0\.1"),
        ("optimal_gamma", (0.5, np.inf), r"c .*finite.*>= 0, got inf"),
        ("optimal_gamma", (0.5, 0.1, -1), r"max_gamma .*>= 0 and <= 1e\+09, got -1"),
        ("optimal_gamma", (0.5, 0.1, 2.5), r"max_gamma .*>= 0 and <= 1e\+09, got 2\.5"),
        ("crossover_gamma", (-1,), r"alpha .*>= 0 and <= 1, got -1"),
        ("crossover_gamma", (0.5, -1), r"c .*>= 0, got -1"),
        ("crossover_gamma", (0.5, 0, -1), r"c_hat .*>= 0, got -1"),
        ("breakeven_alpha", (1.5, 0.1), r"gamma .*whole.*>= 0, got 1\.5"),
        ("breakeven_alpha", (3, np.nan), r"c .*finite.*>= 0, got nan"),
    ],
)
def test_bad_input_names_the_value_and_the_bounds(name: str, arguments: Any, message: str):
    with pytest.raises(ValueError, match=message):
        getattr(choosing, name)(*arguments)
