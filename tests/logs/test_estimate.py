"""Estimates against simulation, brute force and hand-worked limits."""

from __future__ import annotations

import numpy as np
import pytest

from specmath.logs.estimate import (
    alpha_bounds,
    binomial_alpha,
    conditional,
    estimate_alpha,
    invert_accepted,
)
from specmath.logs.record import Window


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


@pytest.mark.parametrize("alpha", [0.3, 0.75, 0.95])
def test_interval_covers_the_truth(alpha):
    """95% intervals of both routes hold the truth in 95% of simulated logs (± 3 sigma)."""
    rng = np.random.default_rng(5)
    trials, gamma = 600, 4
    hits = {"per-position": 0, "inverted share": 0}
    for _ in range(trials):
        lengths = np.full(300, gamma)
        data = counts(draw(rng, alpha, lengths), lengths, gamma)
        for basis in hits:
            if basis == "inverted share":
                data["survival"] = None
            found = estimate_alpha(**data)
            assert found.basis == basis
            hits[basis] += found.interval[0] <= alpha <= found.interval[1]
    slack = 3 * np.sqrt(0.95 * 0.05 / trials) + 0.01
    for count in hits.values():
        assert abs(count / trials - 0.95) < slack


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
    found = estimate_alpha(**data)
    assert "lower bound" in found.basis
    assert found.interval[0] <= 0.8 <= found.interval[1]


def test_correlated_windows_widen_the_interval():
    """Windows whose alpha differs: the interval must cover the mean over windows.

    Steps taken as independent would claim a standard error some five times too small here.
    """
    rng = np.random.default_rng(11)
    windows, parts = [], []
    for line in range(40):
        lengths = np.full(200, 3)
        accepted = draw(rng, rng.choice([0.5, 0.9]), lengths)
        parts.append(accepted)
        total = int(accepted.sum())
        windows.append(Window(line, None, 200, 600, total, 1 + total / 200))
    accepted = np.concatenate(parts)
    data = counts(accepted, np.full(accepted.size, 3), 3)
    alone = estimate_alpha(**data)
    spread = estimate_alpha(**data, windows=windows)
    assert spread.value == alone.value
    assert "40 windows" in spread.interval_basis
    widths = [one.interval[1] - one.interval[0] for one in (alone, spread)]
    assert widths[1] > 3 * widths[0]


def test_degenerate_counts():
    none = {"survival": None, "tokens_per_step": None}
    assert estimate_alpha(steps=None, drafted=10, accepted=5, gamma=None, **none).value is None
    every = estimate_alpha(steps=10, drafted=30, accepted=30, gamma=3, **none)
    assert every.value == 1.0
    assert every.interval[0] < 1.0
    nothing = estimate_alpha(steps=10, drafted=30, accepted=0, gamma=3, **none)
    assert nothing.value == 0.0
    assert nothing.interval[1] > 0.0
    assert binomial_alpha(0, 0, "x").value is None


@pytest.mark.parametrize("trials", [1, 7, 164, 281, 10**6])
@pytest.mark.parametrize("share", [0, 1])
def test_an_interval_at_the_ends_holds_its_share(trials, share):
    """Wilson's upper end at 1 is (1 + z²/2n + z²/2n)/(1 + z²/n) = 1 exactly, rounding aside."""
    found = binomial_alpha(share * trials, trials, "")
    assert found.interval[0] <= share <= found.interval[1]
