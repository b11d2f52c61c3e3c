"""Drift by simulation: false alarms at the stated rate, what is seen, and what the test is made of.

`python -m benchmarks.drift` simulates the same at length; docs/logs.md has its figures.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, skew
from scipy.stats import t as student
from test_drift import log

from specmath.logs.blocks import Plan, autocorrelation_time, comparable, cut, plan
from specmath.logs.drift import drift
from specmath.logs.drift_limits import alarm_limit, falls, maxima, stretched

RATE = 0.05


def alarms(before: dict, after: dict, pairs: int, seed: int) -> tuple[int, int]:
    """(alarms, answered) of pairs of logs, at 5% stated."""
    random = np.random.default_rng(seed)
    found = [drift(log(random, **before), log(random, **after), RATE).fallen for _ in range(pairs)]
    return sum(f is True for f in found), sum(f is not None for f in found)


def side(windows: int, phi: float = 0.0, **more: float | None) -> dict:
    """Even windows unless said: blocks of few sizes, whose limits are computed once."""
    return {"windows": windows, "phi": phi, "steps": 600, **more}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (side(60, steps=None), side(30, steps=None)),
        (side(150, 0.5), side(75, 0.5)),
        (side(240, 0.8), side(120, 0.8)),
        (side(300, 0.9), side(150, 0.9)),
        (side(640, steps=100), side(64, steps=1000)),
        (side(640, steps=600), side(200, steps=1800)),
        (side(360, 0.8, steps=600), side(180, 0.8, steps=3000)),
        (side(64, steps=1000), side(320, steps=100)),
        (side(400, alpha=0.995, moves=0, steps=50), side(200, alpha=0.995, moves=0, steps=50)),
        (side(100, alpha=0.999, moves=0, steps=600), side(50, alpha=0.999, moves=0, steps=600)),
        (side(100, alpha=0.98, steps=600), side(50, alpha=0.98, steps=600)),
        (side(20, 0.8), side(10, 0.8)),
        (side(60), side(200)),
    ],
    ids=[
        "uneven", "phi .5", "phi .8", "phi .9", "10 times busier", "3 times busier",
        "5 times busier, phi .8", "10 times quieter", "alpha .995", "alpha .999",
        "alpha .98, clipped", "short, phi .8", "long current",
    ],
)  # fmt: skip
def test_false_alarms_keep_the_stated_rate(before: dict, after: dict) -> None:
    """Pairs of logs in which nothing changed but the load; refused calls do not alarm."""
    pairs = 40
    found, answered = alarms(before, after, pairs, 7)
    # Beyond this many by chance once in 1,000 test runs, were the rate exactly as stated.
    assert found <= binom.ppf(0.999, pairs, RATE)
    assert answered or before["phi"] > 0


@pytest.mark.parametrize(
    ("before", "after", "power"),
    [
        (side(300), side(150, drop=0.05, at=50), 0.99),
        (side(300, 0.5), side(150, 0.5, drop=0.05, at=50), 0.85),
        (side(360, 0.8), side(180, 0.8, drop=0.05), 0.75),
        (side(640, steps=100), side(64, steps=1000, drop=0.05), 0.95),
        (side(60, steps=1000), side(300, steps=200, drop=0.05), 0.9),
        (side(100, alpha=0.995, moves=0, steps=600),
         side(50, alpha=0.995, moves=0, steps=600, drop=0.01), 0.95),
        (side(20), side(10, drop=0.3), 0.6),
    ],
    ids=["even", "phi .5", "phi .8", "busier", "quieter", "alpha .995", "short"],
)  # fmt: skip
def test_a_real_fall_is_seen(before: dict, after: dict, power: float) -> None:
    """At least this share, less what binomial error takes once in 1,000 test runs."""
    pairs = 30
    found, _ = alarms(before, after, pairs, 3)
    assert found >= binom.ppf(0.001, pairs, power)


def test_the_smallest_fall_named_is_seen_about_half_the_time() -> None:
    """A lasting fall of that many tokens per step; α moves by it ÷ dτ/dα, 4.19 at α=0.75."""
    random = np.random.default_rng(4)
    smallest = [drift(log(random, 150, 0.0), log(random, 75, 0.0), RATE).smallest or 0.0
                for _ in range(20)]  # fmt: skip
    drop = float(np.mean(smallest)) / (1 + 2 * 0.75 + 3 * 0.75**2)
    found, _ = alarms(side(150), side(75, drop=drop), 60, 5)
    assert binom.ppf(0.001, 60, 0.42) <= found <= binom.ppf(0.999, 60, 0.69)


def test_steps_taken_as_independent_would_cry_wolf() -> None:
    """What the blocks are for: a z test on all steps alarms on most pairs of correlated logs."""
    random = np.random.default_rng(5)
    naive = 0
    for _ in range(60):
        before, after = (log(random, 240, 0.8) for _ in range(2))
        means = [r.tokens_per_step or 0.0 for r in (before, after)]
        variance = sum(1.2 / (r.steps or 1) for r in (before, after))  # Var(L) at α=0.75, γ=3
        naive += (means[0] - means[1]) / np.sqrt(variance) > 1.645
    assert naive / 60 > 0.15


# ── the parts ────────────────────────────────────────────────────────────────────────────────


def test_limit_of_one_look_is_student_t() -> None:
    """m baseline blocks and one look: (μ₀ − y)/(S √(1/m + 1/g)) is Student's t, m−1 degrees."""
    for blocks in (1, 4):
        assert alarm_limit(10, 1, 0.05, blocks) == pytest.approx(student.ppf(0.95, 9), rel=0.02)
    # More looks need a higher limit, never a lower one.
    limits = [alarm_limit(10, k, 0.05) for k in (1, 2, 5, 20)]
    assert limits == sorted(limits)


def test_limits_are_those_of_the_falls() -> None:
    """The vectorised replicates against D_jk itself, on other random numbers."""
    random = np.random.default_rng(9)
    m, looks, g, runs = 8, 6, 3, 2000
    largest = []
    for _ in range(runs):
        base = random.standard_normal(m)
        each = random.standard_normal((looks, g)).mean(axis=1)
        largest.append(falls(each, base.mean(), base.std(ddof=1), m, g).max())
    over = np.sum(np.array(largest) > np.quantile(maxima(m, looks, g), 0.9))
    assert binom.ppf(0.0005, runs, 0.1) <= over <= binom.ppf(0.9995, runs, 0.1)


def test_falls_by_hand() -> None:
    """Baseline 10 ± 1 of 4 blocks; looks 10, 7: alone (10−7)/√(1/4+1), both 1.5/√(1/4+1/2)."""
    found = falls(np.array([10.0, 7.0]), 10.0, 1.0, 4)
    assert found[1, 1] == pytest.approx(3 / np.sqrt(1.25))
    assert found[1, 0] == pytest.approx(1.5 / np.sqrt(0.75))
    assert found[0, 1] == -np.inf


def test_roots_of_rare_rejections_are_not_skewed_to_falls() -> None:
    """Poisson counts of 10: skewness 0.32 towards falls; of their roots −0.16, away from them."""
    counts = np.random.default_rng(1).poisson(10, 100_000) / 1000
    assert skew(-counts) < -0.28
    assert 0 < skew(stretched(4 - counts, 4.0)) < 0.25
    assert stretched(counts, None) is counts


def test_wander_of_a_block_by_brute_force() -> None:
    """f = Σ_ij n_i n_j φ^|i−j| / N² of every block of uneven windows."""
    random = np.random.default_rng(2)
    pair = comparable(log(random, 300, 0.8), log(random, 300, 0.8, steps=90))
    assert pair is not None
    how = plan(pair[0])
    blocks = cut(pair[0], how)
    for first, last, f in zip(blocks.first, blocks.last, blocks.wander, strict=True):
        n = pair[0].weights[first : last + 1]
        order = np.arange(n.size)
        alike = how.phi ** np.abs(order[:, None] - order)
        assert f == pytest.approx(n @ alike @ n / n.sum() ** 2)
        assert f <= how.wander * (1 + 1e-6)
    even = cut(pair[1], Plan(1.0, 4, 0.25, 300.0))
    assert [b - a + 1 for a, b in zip(even.first, even.last, strict=True)] == [4] * 75
    heavy = cut(pair[1], Plan(1.0, 4, 0.25, 900.0))
    assert [b - a + 1 for a, b in zip(heavy.first, heavy.last, strict=True)] == [10] * 30


def test_autocorrelation_time_of_an_ar1_series() -> None:
    """τ_int = (1+φ)/(1−φ) = 9 at φ=0.8; half a standard error is added on purpose."""
    random = np.random.default_rng(2)
    noise = random.standard_normal(20_000)
    series = np.empty_like(noise)
    series[0] = noise[0]
    for t in range(1, noise.size):
        series[t] = 0.8 * series[t - 1] + noise[t]
    assert autocorrelation_time(series) == pytest.approx(9, rel=0.15)
    assert autocorrelation_time(noise) == pytest.approx(1, abs=0.2)
    assert autocorrelation_time(np.ones(50)) == 1.0
