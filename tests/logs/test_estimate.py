"""Estimates against simulation, brute force and hand-worked limits."""

from __future__ import annotations

import numpy as np
import pytest

from specmath.estimate import conditional
from specmath.logs.estimate import (
    TOO_FEW,
    alpha_bounds,
    binomial_alpha,
    estimate_alpha,
    independent_interval,
    invert_accepted,
    survival_ends,
    window_ends,
)
from specmath.logs.reading import Counts, Reading, Window


def draw(rng, alpha, lengths):
    """Accepted tokens of one step for each draft length: a run of successes, cut at the length."""
    tries = rng.random((lengths.size, lengths.max())) < alpha
    return np.minimum(np.cumprod(tries, axis=1).sum(axis=1), lengths)


def counts(accepted, lengths, gamma):
    survival = [float((accepted >= i).mean()) for i in range(1, gamma + 1)]
    return {
        "steps": accepted.size,
        "drafted": int(lengths.sum()),
        "accepted": int(accepted.sum()),
        "survival": survival,
        "gamma": gamma,
        "tokens_per_step": 1 + float(accepted.mean()),
    }


def test_share_is_not_alpha():
    """Trap 1: at gamma 5 a printed 80% is alpha of about 0.927."""
    alpha = invert_accepted(4.0, 5.0)
    assert alpha == pytest.approx(0.927, abs=5e-4)
    assert sum(alpha**i for i in range(1, 6)) == pytest.approx(4.0)


@pytest.mark.parametrize("gamma", [1, 2, 5, 16, 300])
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3, 0.8, 0.999, 1.0])
def test_inversion_round_trip(gamma, alpha):
    accepted = sum(alpha**i for i in range(1, gamma + 1))
    assert invert_accepted(accepted, gamma) == pytest.approx(alpha, abs=1e-9)


def test_inversion_between_lengths():
    """A mean length of 3.25 is a mixture of 3 and 4 in the ratio 3 to 1."""
    alpha = 0.7
    three, four = (sum(alpha**i for i in range(1, n + 1)) for n in (3, 4))
    assert invert_accepted(0.75 * three + 0.25 * four, 3.25) == pytest.approx(alpha)


def test_conditional_stops_where_nothing_arrives():
    assert conditional((0.5, 0.25, 0.0, 0.0)) == pytest.approx((0.5, 0.5, 0.0))
    assert conditional((0.0, 0.0)) == (0.0,)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_for_drafts_that_stop_early(seed):
    """Whatever the lengths, A / (A + rejections) of the steps lies within the bounds."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=2000)
    accepted = draw(rng, 0.8, lengths)
    rejected = int((accepted < lengths).sum())
    data = counts(accepted, lengths, 5)
    low, high = alpha_bounds(
        data["steps"], data["drafted"], data["accepted"], data["survival"][-1], 5
    )
    truth = data["accepted"] / (data["accepted"] + rejected)
    assert low <= truth <= high
    found = estimate_alpha(Counts(**data))
    assert "lower bound" in found.basis
    assert found.interval[0] <= 0.8 <= found.interval[1]


def test_degenerate_counts():
    assert estimate_alpha(Counts(None, 10, 5)).value is None
    every = estimate_alpha(Counts(10, 30, 30, gamma=3))
    assert (every.value, every.interval, every.interval_basis) == (1.0, None, TOO_FEW)
    nothing = estimate_alpha(Counts(10, 30, 0, gamma=3))
    assert nothing.value == 0.0
    assert binomial_alpha(0, 0, "per token", "x").value is None


@pytest.mark.parametrize("share", [0, 1])
def test_an_interval_at_the_ends_holds_its_share(share):
    """Six windows that accept nothing, or all of it: an interval that is open to one side."""
    rows = [Window(i, None, 10, 30, 30 * share, 1.0 + 3 * share) for i in range(6)]
    found = estimate_alpha(Counts(60, 180, 180 * share, gamma=3), rows)
    low, high = found.interval
    assert found.value == share
    assert 0 <= low <= share <= high <= 1
    assert high - low == pytest.approx(0.04 if share else 0.1, abs=0.03)


def test_weights_stand_for_steps():
    """Tokens per step with the running requests of each window: the same spread, no counts."""
    random = np.random.default_rng(2)
    means = 2.5 + 0.1 * random.standard_normal(12)
    rows = [Window(i, None, None, None, None, m, None, 7.0) for i, m in enumerate(means)]
    mean = float(means.mean())
    found = estimate_alpha(Counts(gamma=4, tokens_per_step=mean), rows)
    half = 2.201 * np.std(means, ddof=1) / np.sqrt(12)  # Student's t of 11
    for end, sign in zip(found.interval, (-1, 1), strict=True):
        assert end == pytest.approx(invert_accepted(mean - 1 + sign * half, 4), abs=0.002)
    assert "12 windows" in found.interval_basis


def test_independent_steps_are_the_least_that_is_left_open():
    """γ=1: Wilson's interval of a share, by hand at 0.5 of 100: 0.5 ± 0.0962."""
    low, high = independent_interval(0.5, 1, 100)
    assert (low, high) == pytest.approx((0.5 - 0.0962, 0.5 + 0.0962), abs=1e-4)


def windows(shares):
    """Windows of 100 steps at γ=1 with these accepted shares, and the reading of all of them."""
    rows = tuple(
        Window(i, None, 100, 100, round(100 * s), 1 + s, (s,)) for i, s in enumerate(shares)
    )
    mean = float(np.mean(shares))
    return Reading("vllm", "made", steps=100 * len(rows), survival=(mean,), gamma=1, windows=rows)


def test_windows_that_do_not_vary_are_not_sure():
    """The variance of nine even windows is at least that of 19 in 20 independent logs.

    Chance is .25/900 and 8 degrees of freedom: χ² exceeds 2.733 so often, and t is 2.306. A window
    itself: 1.96 √(.25/100) around its own tokens per step.
    """
    ends, _ = survival_ends(windows([0.5] * 9))
    half = 2.306 * np.sqrt(0.25 / 900 * 2.733 / 8)
    assert [float(end[0]) for end in ends] == pytest.approx((0.5 - half, 0.5 + half), abs=2e-4)
    ends, _ = window_ends(windows([0.5] * 9))
    assert float(ends[0][3]) == pytest.approx(1.5 - 1.95996 * 0.05, abs=1e-5)


def test_intervals_of_uneven_windows_are_those_of_their_spread():
    """Shares .3 and .7, five windows each: √(10/9 · 10 · 20² / 1000²) = 0.0667, t of 9 is 2.262."""
    ends, basis = survival_ends(windows([0.3, 0.7] * 5))
    half = 2.262 * np.sqrt(10 / 9 * 10 * 20**2) / 1000
    half /= np.sqrt(1 + 4 * half**2)  # Wilson's at one half: h / √(1 + 4 h²)
    assert [float(end[0]) for end in ends] == pytest.approx((0.5 - half, 0.5 + half), abs=1e-4)
    assert "spread over 10 windows" in basis


def test_no_interval_of_few_windows():
    assert survival_ends(windows([0.4, 0.6, 0.5])) == (None, TOO_FEW)


def test_no_interval_without_steps():
    assert survival_ends(Reading("vllm", "made", survival=(0.5,)))[0] is None
    assert (
        window_ends(Reading("vllm", "made", windows=(Window(1, None, None, 9, 4, 1.5),)))[0] is None
    )
