"""Leviathan's closed forms against mpmath, hand-worked limits, identities and printed numbers."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmath import theorems
from specmath.theorems import (
    acceptance_from_distributions,
    alpha_from_accepted_share,
    alpha_from_tokens_per_step,
    expected_tokens,
    guaranteed_improvement,
    implied_draft_cost,
    improves,
    operations_increase,
    walltime_improvement,
)

# The accuracy promised in the design.
EXACT = 1e-12
ALPHAS = [
    *(0.0, 1e-300, 1e-17, 1e-9, 1e-3, 0.1, 0.3, 0.5, 0.6, 0.75, 0.9, 0.99, 0.999),
    *(1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15, 1 - 1e-16, 1.0),
]
GAMMAS = [0, 1, 2, 3, 5, 7, 20, 64, 100, 1000, 9999, 10000]
COSTS = [0.0, 5e-324, 1e-300, 1e-9, 0.02, 0.5, 1.0, 3.0, 1e5, 1e300]

alphas = st.floats(0.0, 1.0)
gammas = st.integers(0, 10000)
costs = st.floats(0.0, 1e6)


def exact_tokens(alpha: float, gamma: int) -> Any:
    """Eq. 1 in 60 digits."""
    a = mpmath.mpf(alpha)
    return mpmath.mpf(gamma + 1) if a == 1 else (1 - a ** (gamma + 1)) / (1 - a)


@pytest.fixture(autouse=True)
def sixty_digits() -> Any:
    with mpmath.workdps(60):
        yield


def worst_error(found: np.ndarray, exact: np.ndarray) -> float:
    pairs = zip(found.ravel(), exact.ravel(), strict=True)
    return float(max(abs(mpmath.mpf(x) / y - 1) for x, y in pairs))


# --- against 60 digits -----------------------------------------------------------------------


def test_expected_tokens_is_exact_over_the_whole_range():
    exact = np.array([[exact_tokens(a, g) for g in GAMMAS] for a in ALPHAS])
    found = expected_tokens(np.array(ALPHAS)[:, None], GAMMAS)
    assert worst_error(found, exact) < EXACT


def test_walltime_and_operations_are_exact_over_the_whole_range():
    tokens = np.array([[exact_tokens(a, g) for g in GAMMAS] for a in ALPHAS])
    alpha = np.array(ALPHAS)[:, None]
    for c in COSTS:
        step = np.array([g * mpmath.mpf(c) for g in GAMMAS])
        faster = walltime_improvement(alpha, GAMMAS, c)
        assert worst_error(faster, tokens / (step + 1)) < EXACT
        more = operations_increase(alpha, GAMMAS, c)
        assert worst_error(more, (step + np.array(GAMMAS) + 1) / tokens) < EXACT


def test_a_product_of_gamma_and_c_beyond_float64_still_divides():
    # 3·1.7e308 overflows, yet the speedup, about 4/(5.1e308), is a (subnormal) number.
    assert walltime_improvement(1.0, 3, 1.7e308) == pytest.approx(4 / 1.7e308 / 3, rel=1e-9)
    assert operations_increase(1.0, 3, 1.7e308) == pytest.approx(0.75 * 1.7e308, rel=1e-14)


@pytest.mark.parametrize("gamma", [1, 2, 3, 7, 50, 1000, 10000])
def test_alpha_from_accepted_share_is_exact(gamma: int):
    middle = np.linspace(0.03, 0.97, 12)
    shares = np.concatenate([[1e-300, 1e-20, 1e-9, 1 - 1e-9, 1 - 1e-13, 1 - 2.0**-53], middle])
    found = alpha_from_accepted_share(shares, gamma)
    # Bisection in 60 digits on the mean of α^i, in ln α: a different method on purpose.
    for share, alpha in zip(shares, found, strict=True):

        def miss(log_alpha: Any, share: float = share) -> Any:
            mean = mpmath.expm1(gamma * log_alpha) / mpmath.expm1(log_alpha) / gamma
            return mpmath.log(mean) + log_alpha - mpmath.log(mpmath.mpf(share))

        low, high = mpmath.log(mpmath.mpf(share)), mpmath.mpf(-(10.0**-30))
        low -= mpmath.mpf(1) / 100 if gamma == 1 else 0
        root = mpmath.findroot(miss, (low, high), solver="anderson", tol=1e-60, verify=False)
        assert float(abs(alpha / mpmath.exp(root) - 1)) < EXACT


# --- hand-worked limits ----------------------------------------------------------------------


def test_limits_by_hand():
    assert expected_tokens(0.0, [0, 1, 10000]) == pytest.approx([1, 1, 1], rel=0)
    assert expected_tokens(1.0, [0, 1, 10000]) == pytest.approx([1, 2, 10001], rel=0)
    assert expected_tokens(0.5, 4) == pytest.approx(1.9375, rel=1e-15)  # 1 + 1/2 + … + 1/16
    # γ = 0 is plain decoding for every α, c and ĉ, to the last bit.
    assert np.all(expected_tokens(ALPHAS, 0) == 1.0)
    assert np.all(walltime_improvement(ALPHAS, 0, 0.7) == 1.0)
    assert np.all(operations_increase(ALPHAS, 0, 0.7) == 1.0)
    assert walltime_improvement(1.0, 4, 0.0) == 5.0
    assert operations_increase(1.0, 9, 0.0) == 1.0
    assert operations_increase(0.0, 4, 0.0) == 5.0


def test_inverses_at_their_ends():
    assert np.all(alpha_from_accepted_share([0.0, 1.0], [[1], [10000]]) == [0.0, 1.0])
    assert np.all(alpha_from_tokens_per_step([[1, 1], [2, 6]], [1, 5]) == [[0, 0], [1, 1]])
    assert alpha_from_accepted_share(0.37, 1) == pytest.approx(0.37, rel=1e-15)
    # γ = 2: α + α² = 2r, so r = 0.375 gives 0.5.
    assert alpha_from_accepted_share(0.375, 2) == pytest.approx(0.5, rel=1e-15)


def test_scalars_in_scalars_out_and_shapes_broadcast():
    for value in (expected_tokens(0.5, 3), walltime_improvement(0.5, 3.0, 0.1)):
        assert isinstance(value, float)
    assert isinstance(alpha_from_accepted_share(0.5, 3), float)
    assert isinstance(operations_increase(0.5, np.array(3)), float)
    assert expected_tokens(np.zeros((4, 1)), np.arange(3)).shape == (4, 3)
    assert walltime_improvement([], 3, 0.1).shape == (0,)
    # Longer than one block, of mixed types, and not contiguous: the same as element by element.
    n = 20001
    alpha = np.linspace(0, 1, 2 * n)[::2]
    gamma = np.arange(n, dtype=np.int32) % 9
    c = np.float32(0.25)
    whole = walltime_improvement(alpha, gamma, c)
    for i in (0, 12287, 12288, n - 1):
        assert whole[i] == walltime_improvement(alpha[i], gamma[i], c)


# --- identities and monotonicity -------------------------------------------------------------


@given(alphas, st.integers(0, 200))
def test_tokens_are_the_sum_of_the_powers_of_alpha(alpha: float, gamma: int):
    total = sum(float(alpha) ** i for i in range(gamma + 1))
    assert expected_tokens(alpha, gamma) == pytest.approx(total, rel=1e-12)


@given(alphas, gammas)
def test_tokens_lie_between_one_and_gamma_plus_one(alpha: float, gamma: int):
    assert 1.0 <= expected_tokens(alpha, gamma) <= gamma + 1


@given(alphas, alphas, gammas, costs)
def test_more_acceptance_never_hurts(first: float, second: float, gamma: int, cost: float):
    low, high = sorted((first, second))
    # Neighbouring floats may round either way by an ulp or two.
    slack = 1 + 1e-15
    assert expected_tokens(low, gamma) <= expected_tokens(high, gamma) * slack
    assert walltime_improvement(low, gamma, cost) <= (
        walltime_improvement(high, gamma, cost) * slack
    )
    assert operations_increase(low, gamma, cost) * slack >= operations_increase(high, gamma, cost)


@given(alphas, gammas, costs)
def test_compute_bound_cost_is_theorem_3_8_at_a_draft_cost_of_one_more(
    alpha: float, gamma: int, c_hat: float
):
    # (γĉ + γ + 1)/τ = 1 / (τ/(γ(1+ĉ) + 1)): the two theorems are ends of one curve.
    inverse = 1.0 / walltime_improvement(alpha, gamma, 1.0 + c_hat)
    assert operations_increase(alpha, gamma, c_hat) == pytest.approx(inverse, rel=1e-12)
    assert operations_increase(alpha, gamma, c_hat) >= 1.0 - 1e-15


@given(alphas, st.floats(0.0, 2.0))
def test_corollary_3_9(alpha: float, cost: float):
    speedups = walltime_improvement(alpha, np.arange(1, 400), cost)
    best = float(speedups.max())
    if improves(alpha, cost):
        assert alpha > cost
        # At γ = 1 already; 1e-15 for the rounding of the two sides.
        assert best >= guaranteed_improvement(alpha, cost) * (1 - 1e-15)
    else:
        assert best <= 1.0 + 1e-15
        assert guaranteed_improvement(alpha, cost) == 1.0


@given(st.floats(0.0, 1.0), st.integers(1, 10000))
def test_share_round_trip(share: float, gamma: int):
    alpha = alpha_from_accepted_share(share, gamma)
    assert 0.0 <= alpha <= 1.0
    # The sum alone, not (τ−1)/γ, which cancels for small α. One ulp of α moves the share by up
    # to γ ulps, hence the tolerance.
    back = alpha * expected_tokens(alpha, gamma - 1) / gamma
    assert back == pytest.approx(share, rel=1e-13 + gamma * 3e-16, abs=1e-300)


@given(st.one_of(alphas, st.floats(1e-17, 1e-3).map(lambda d: 1.0 - d)), st.integers(1, 10000))
def test_tokens_round_trip(alpha: float, gamma: int):
    # τ carries α only to one ulp of τ ≥ 1, divided by dτ/dα ≥ 1.
    found = alpha_from_tokens_per_step(expected_tokens(alpha, gamma), gamma)
    assert found == pytest.approx(alpha, abs=2e-15)


@given(alphas, st.integers(1, 1000), st.floats(0.0, 100.0))
def test_implied_draft_cost_inverts_theorem_3_8(alpha: float, gamma: int, cost: float):
    speedup = walltime_improvement(alpha, gamma, cost)
    implied = implied_draft_cost(speedup, expected_tokens(alpha, gamma), gamma)
    # γc is what is left of γc+1 after a subtraction: its rounding is absolute, in units of 1/γ.
    assert implied == pytest.approx(cost, rel=1e-14, abs=1e-14)


def test_distributions_by_hand_and_by_total_variation():
    assert acceptance_from_distributions([0.5, 0.5], [0.9, 0.1]) == pytest.approx(0.6)
    assert acceptance_from_distributions([1, 0, 0], [0, 0.5, 0.5]) == 0.0
    rng = np.random.default_rng(7)
    p, q = rng.dirichlet(np.ones(50), size=(2, 30))
    variation = np.abs(p - q).sum(axis=-1) / 2  # Cor 3.6: α = 1 − TV
    assert acceptance_from_distributions(p, q) == pytest.approx(1 - variation, rel=1e-12)
    assert acceptance_from_distributions(p, p) == pytest.approx(np.ones(30))
    assert isinstance(acceptance_from_distributions(p[0], q[0]), float)


def test_rejection_sampling_accepts_with_that_probability():
    # Monte Carlo of the algorithm itself: draw x from the draft, keep it with min(1, p/q).
    rng = np.random.default_rng(11)
    p, q = rng.dirichlet(np.ones(6), size=2)
    drawn = rng.choice(6, size=200_000, p=q)
    kept = rng.random(drawn.size) < p[drawn] / q[drawn]
    # Four standard errors of a share of 200,000 draws.
    assert kept.mean() == pytest.approx(acceptance_from_distributions(p, q), abs=0.0045)


# --- published and hand-worked numbers -------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "gamma", "faster", "arithmetic"),
    # Theorems 3.8 and 3.11 at c = ĉ = 0, to the two decimals of issue 2.
    [
        (0.6, 3, 2.18, 1.84),
        (0.6, 7, 2.46, 3.25),
        (0.75, 7, 3.60, 2.22),
        (0.8, 7, 4.16, 1.92),
        (0.9, 3, 3.44, 1.16),
        (0.9, 7, 5.70, 1.40),
    ],
)
def test_latency_and_operations_of_a_free_draft(alpha, gamma, faster, arithmetic):
    assert round(float(walltime_improvement(alpha, gamma, 0.0)), 2) == faster
    assert round(float(operations_increase(alpha, gamma)), 2) == arithmetic


def test_a_bigram_draft_gives_a_quarter_at_best():
    # Leviathan et al. 2023 report α ≈ 0.2 for a bigram draft, with c ≈ 0 (issue 2): 1/(1−α).
    speedups = walltime_improvement(0.2, np.arange(64), 0.0)
    assert speedups.max() == pytest.approx(1.25, rel=1e-12)
    assert guaranteed_improvement(0.2, 0.0) == pytest.approx(1.2)


# T5-XXL, English to German, temperature 0, γ = 7: draft, α, c, measured speedup.
# Leviathan et al. 2023, Tables 2 (α, speedup) and 4 (c).
T5_ROWS = [("small", 0.75, 0.02, 3.4), ("base", 0.80, 0.04, 2.8), ("large", 0.82, 0.11, 1.7)]


def test_t5_known_miss_the_theorem_ranks_base_first():
    _, alpha, c, measured = (np.array(column) for column in zip(*T5_ROWS, strict=True))
    predicted = walltime_improvement(alpha, 7, c)
    assert np.round(predicted, 2) == pytest.approx([3.16, 3.25, 2.50])
    # The published order is small, base, large; the theorem's on the printed α and c is not.
    assert (int(measured.argmax()), int(predicted.argmax())) == (0, 1)
    assert predicted / measured - 1 == pytest.approx([-0.07, 0.16, 0.47], abs=0.005)
    implied = implied_draft_cost(measured, expected_tokens(alpha, 7), 7)
    assert np.round(implied, 3) == pytest.approx([0.008, 0.069, 0.229])


def test_a_speedup_above_the_free_ceiling_implies_a_negative_cost():
    # τ = 2 at γ = 1 needs α = 1; a measured 2.5× would need c = −0.2.
    assert implied_draft_cost(2.5, 2.0, 1) == pytest.approx(-0.2)


def test_forty_and_eight_milliseconds():
    # Issue 2: target 40 ms, draft 8 ms, γ = 4: a step of 72 ms. 3 accepted: 160/72. 0.5: 60/72.
    c, gamma = 8 / 40, 4
    accepted = np.array([3.0, 0.5])
    alpha = alpha_from_tokens_per_step(1 + accepted, gamma)
    assert walltime_improvement(alpha, gamma, c) == pytest.approx([160 / 72, 60 / 72], rel=1e-12)
    assert round(float(alpha[1]), 3) == 0.336
    assert round(float(walltime_improvement(alpha[1], 1, c)), 2) == 1.11


def test_half_accepted_at_four_pays_up_to_a_cost_of_0_234():
    tokens = expected_tokens(0.5, 4)
    assert round(float(tokens), 2) == 1.94
    assert implied_draft_cost(1.0, tokens, 4) == pytest.approx(0.234375)
    assert walltime_improvement(0.5, 4, 0.2343) > 1 > walltime_improvement(0.5, 4, 0.2345)


def test_accepted_share_is_not_alpha():
    # Issue 2 and the design's first trap, both to the digits printed.
    assert round(float(alpha_from_accepted_share(0.61, 3)), 2) == 0.77
    assert round(float(alpha_from_accepted_share(0.80, 5)), 3) == 0.927


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("expected_tokens", (1.2, 3), r"alpha .*>= 0 and <= 1, got 1\.2"),
        ("expected_tokens", (-0.1, 3), r"alpha .*>= 0 and <= 1, got -0\.1"),
        ("expected_tokens", ([0.5, np.nan], 3), r"alpha .*>= 0 and <= 1, got nan"),
        ("expected_tokens", ("half", 3), r"alpha must be a number, got 'half'"),
        ("expected_tokens", (0.5, -1), r"gamma .*whole.* >= 0, got -1"),
        ("expected_tokens", (0.5, [1, 2.5]), r"gamma .*whole.* >= 0, got 2\.5"),
        ("expected_tokens", (0.5, np.nan), r"gamma .*whole.* >= 0, got nan"),
        ("expected_tokens", (0.5, 1e300), r"gamma .*whole.* >= 0 and <= 9.*, got 1e\+300"),
        ("walltime_improvement", (0.5, 3, -0.1), r"c .*finite.* >= 0, got -0\.1"),
        ("walltime_improvement", (0.5, 3, np.inf), r"c .*finite.* >= 0, got inf"),
        ("operations_increase", (0.5, 3, -1), r"c_hat .*finite.* >= 0, got -1"),
        ("improves", (0.5, -1), r"c .*finite.* >= 0, got -1"),
        ("guaranteed_improvement", (2, 0), r"alpha .*>= 0 and <= 1, got 2"),
        ("alpha_from_accepted_share", (0.5, 0), r"gamma .*whole.* >= 1, got 0"),
        ("alpha_from_accepted_share", (1.01, 3), r"share .*>= 0 and <= 1, got 1\.01"),
        ("alpha_from_tokens_per_step", (1.5, 0), r"gamma .*whole.* >= 1, got 0"),
        ("alpha_from_tokens_per_step", (0.9, 3), r"tokens_per_step .*>= 1, got 0\.9"),
        ("alpha_from_tokens_per_step", ([2, 4.5], 3), r"tokens_per_step .*<= .*= 4, got 4\.5"),
        ("implied_draft_cost", (0, 2, 3), r"walltime_improvement .*> 0, got 0"),
        ("implied_draft_cost", (2, 9, 3), r"tokens_per_step .*<= .*= 4, got 9"),
        ("implied_draft_cost", (2, 2, 0), r"gamma .*whole.* >= 1, got 0"),
        ("acceptance_from_distributions", ([0.5, 0.6], [1, 0]), r"sum of p .*<= 1.001, got 1\.1"),
        ("acceptance_from_distributions", ([1, 0], [-0.5, 1.5]), r"q .*>= 0, got -0\.5"),
        ("acceptance_from_distributions", ([1, 0], [1]), r"q .*entries.*equal to 2.*, got 1"),
        ("acceptance_from_distributions", (1.0, [1]), r"p .*distribution of >= 1 entries"),
    ],
)
def test_bad_input_names_the_value_and_the_bounds(name: str, arguments: Any, message: str):
    with pytest.raises(ValueError, match=message):
        getattr(theorems, name)(*arguments)
