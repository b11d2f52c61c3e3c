"""Lengths that differ, and what they make of a spread: by scipy's lognormal and by sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.lengths import drawn, in_groups, spread_of_lengths
from specmath.spread import Spread, over_lengths
from specmath.tails import LEVELS
from specmath.traffic import TRACES, poisson, shipped_trace


@pytest.mark.parametrize("spread", [0.3, 0.8, 2.0])
def test_groups_keep_the_mean_and_the_quantiles(spread: float) -> None:
    """The lognormal of scipy: each group lies between the quantiles that bound it."""
    lengths, shares = in_groups(spread)
    sigma = math.sqrt(math.log1p(spread**2))
    law = stats.lognorm(sigma, scale=math.exp(-(sigma**2) / 2))
    assert law.std() == pytest.approx(spread)
    assert float(shares @ lengths) == pytest.approx(1.0, abs=1e-12)
    edges = law.ppf(np.concatenate([[0.0], np.cumsum(shares)[:-1], [1.0]]))
    assert np.all(edges[:-1] < lengths)
    assert np.all(lengths < edges[1:])


def test_lengths_that_are_drawn() -> None:
    rng = np.random.default_rng(5)
    lengths = drawn(250, 0.8, 400_000, rng, 1)
    assert lengths.mean() == pytest.approx(250, rel=0.01)
    assert spread_of_lengths(lengths) == pytest.approx(0.8, rel=0.02)
    assert lengths.min() >= 1
    assert set(drawn(7, 0.0, 5, rng, 1)) == {7}
    assert in_groups(0.0)[0].tolist() == [1.0]
    with pytest.raises(InputError, match="spread must be"):
        in_groups(-0.1)


def test_arrivals_do_not_move_with_the_lengths() -> None:
    alike, mixed = (poisson(3.0, 500, 200, requests=50, spreads=s) for s in ((0, 0), (1.0, 0.8)))
    assert np.array_equal(alike.seconds, mixed.seconds)
    assert mixed.output_tokens.std() > 0


@pytest.mark.parametrize("per_token", [False, True])
def test_a_spread_over_lengths_by_sampling(per_token: bool) -> None:
    """A mean of 10 with a normal deviation of 2 at the mean length; a million requests."""
    law = stats.norm(10.0, 2.0)
    of = Spread(Estimate(10.0), LEVELS, law.ppf(LEVELS), None)
    lengths, shares = in_groups(0.8)
    asked = (0.1, 0.5, 0.9, 0.99)
    found = over_lengths(of, lengths, shares, asked, per_token=per_token)
    rng = np.random.default_rng(3)
    n = rng.choice(lengths, 1_000_000, p=shares)
    off = np.clip(rng.normal(0.0, 2.0, len(n)), *(law.ppf(LEVELS)[[0, -1]] - 10.0))
    each = 10.0 + off / np.sqrt(n) if per_token else 10.0 * n + off * np.sqrt(n)
    assert found.values == pytest.approx(np.quantile(each, asked), rel=0.01)
    assert found.mean.value == 10.0


def test_one_length_changes_nothing() -> None:
    values = np.array(LEVELS) + 1.0
    of = Spread(Estimate(1.5), LEVELS, values, values[None, None] * np.ones((2, 3, 1)))
    inner = (0.1, 0.5, 0.9)
    found = over_lengths(of, np.ones(1), np.ones(1), inner, per_token=False)
    assert found.values == pytest.approx([1.1, 1.5, 1.9], abs=0.002)


@pytest.mark.parametrize("name", sorted(TRACES))
def test_public_traces_are_near_a_lognormal(name: str) -> None:
    """p90 within 25% of the lognormal of the trace's own mean and spread, p99 within 40%."""
    trace = shipped_trace(name)
    for lengths in (trace.prompt_tokens, trace.output_tokens):
        spread = spread_of_lengths(lengths)
        sigma = math.sqrt(math.log1p(spread**2))
        law = stats.lognorm(sigma, scale=lengths.mean() * math.exp(-(sigma**2) / 2))
        for level, off in ((0.9, 0.25), (0.99, 0.4)):
            assert law.ppf(level) == pytest.approx(np.quantile(lengths, level), rel=off)
