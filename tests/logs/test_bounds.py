"""Bounds of α where drafts stop early: by limits, and by drafting with a known α."""

from __future__ import annotations

import numpy as np
import pytest

from specmath.logs.bounds import bounds_of, stopping_alpha
from specmath.logs.reading import Counts


def test_limits_by_hand() -> None:
    # One draft a pass of one token: every lost token is a rejection, so α = A/D exactly below.
    assert bounds_of(30, 100, 100, 1) == pytest.approx((0.3, 0.3))
    # Every draft of full length: the highest solves α + α² = 2·0.6, the lowest has a loss a draft.
    low, high = bounds_of(60, 100, 50, 2)
    assert high + high**2 == pytest.approx(1.2)
    assert low == pytest.approx(60 / (60 + 40))


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.85])
@pytest.mark.parametrize("longest", [4, 16])
def test_the_true_alpha_lies_between(alpha: float, longest: int) -> None:
    """Drafts of any length up to the longest, accepted token by token with α: whatever the spread
    of the lengths, the bounds hold it."""
    rng = np.random.default_rng(round(100 * alpha) + longest)
    for most in (1, longest // 2, longest):
        lengths = rng.integers(1, most + 1, 20_000)
        run = rng.geometric(1.0 - alpha, lengths.size) - 1
        accepted, drafted = int(np.minimum(run, lengths).sum()), int(lengths.sum())
        low, high = bounds_of(accepted, drafted, lengths.size, longest)
        assert low - 0.01 <= alpha <= high + 0.01
        # Passes without a draft only widen them.
        wider = bounds_of(accepted, drafted, 2 * lengths.size, longest)
        assert wider[0] <= low
        assert wider[1] == high


def test_a_point_stays_a_point() -> None:
    """Full drafts, rates by position, none or all accepted, and trees are no case of bounds."""
    full = Counts(steps=100, drafted=300, accepted=180, gamma=3)
    assert stopping_alpha(full, "chain") is None
    assert stopping_alpha(Counts(100, 250, 150, (0.7, 0.5, 0.3), 3), "chain") is None
    for accepted in (0, 250):
        assert stopping_alpha(Counts(100, 250, accepted, gamma=3), "chain") is None
    short = Counts(100, 250, 150, gamma=3)
    assert stopping_alpha(short, "tree") is None
    found = stopping_alpha(short, "chain")
    assert found is not None
    assert found.value is None
    assert found.interval is not None
