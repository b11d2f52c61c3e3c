"""The interval of α keeps its 95% in simulated logs; the law it rests on, by hand and by draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from specmath.logs.estimate import TOO_FEW, Alpha, estimate_alpha, invert_accepted
from specmath.logs.reading import Counts, Window
from specmath.logs.spread import (
    autocorrelation_time,
    block_length,
    block_starts,
    critical,
    ratio_spread,
)


@dataclass(frozen=True)
class Traffic:
    """α of a window is beta-distributed with mean `alpha` and spread `rho` (the correlation of two
    tokens of one window); its steps are lognormal about `size` with `load` the spread of ln n."""

    alpha: float = 0.75
    gamma: int = 3
    size: int = 300
    rho: float = 0.0
    load: float = 0.0
    rates: bool = True

    def alphas(self, random: np.random.Generator, count: int) -> np.ndarray:
        if not self.rho:
            return np.full(count, self.alpha)
        both = 1.0 / self.rho - 1.0
        return random.beta(self.alpha * both, (1.0 - self.alpha) * both, count)

    def estimate(self, random: np.random.Generator, windows: int) -> Alpha:
        each = np.exp(self.load * random.standard_normal(windows))
        reached = [np.maximum(np.ceil(self.size * each), 10).astype(int)]
        alphas = self.alphas(random, windows)
        for _ in range(self.gamma):
            reached.append(random.binomial(reached[-1], alphas))
        steps, accepted = reached[0], sum(reached[1:])
        shares = (np.array(reached[1:]) / steps).T
        rows = [
            Window(i, None, int(n), self.gamma * int(n), int(a), 1 + a / n,
                   tuple(s) if self.rates else None, float(n))
            for i, (n, a, s) in enumerate(zip(steps, accepted, shares, strict=True))
        ]  # fmt: skip
        total = int(steps.sum())
        told = [float(r.sum() / total) for r in reached[1:]] if self.rates else None
        counts = Counts(total, self.gamma * total, int(accepted.sum()), told, self.gamma)
        return estimate_alpha(counts, rows)

    @property
    def truth(self) -> float:
        """Of the pooled counts in the long run: of 400,000 windows."""
        alphas = self.alphas(np.random.default_rng(0), 400_000)
        means = [float((alphas**i).mean()) for i in range(self.gamma + 1)]
        if self.rates:
            return sum(means[1:]) / sum(means[:-1])
        return invert_accepted(sum(means[1:]), self.gamma)


def held(traffic: Traffic, windows: int, logs: int, seed: int = 5) -> tuple[int, int]:
    """(intervals that hold the truth, intervals)."""
    random, truth = np.random.default_rng(seed), traffic.truth
    found = [traffic.estimate(random, windows).interval for _ in range(logs)]
    told = [ends for ends in found if ends is not None]
    return sum(low <= truth <= high for low, high in told), len(told)


def keeps_its_word(traffic: Traffic, windows: int, logs: int) -> None:
    """93 to 97%, less what binomial error takes once in 10,000 tests; hardly ever refused."""
    count, told = held(traffic, windows, logs)
    assert told >= 0.95 * logs
    low, high = binom.ppf(5e-5, told, 0.93), binom.ppf(1 - 5e-5, told, 0.97)
    assert low <= count <= high, f"{count / told:.3f}"


@pytest.mark.parametrize("windows", [5, 15, 60])
@pytest.mark.parametrize(
    "traffic",
    [
        Traffic(rho=0.01),
        Traffic(rho=0.01, load=1.0),
        Traffic(0.95, 8, 60, rho=0.05, load=0.6, rates=False),
    ],
    ids=["spread", "unequal load", "long drafts, no rates"],
)
def test_95_percent_hold_the_truth(traffic: Traffic, windows: int) -> None:
    keeps_its_word(traffic, windows, 150)


@pytest.mark.slow
@pytest.mark.parametrize("windows", [5, 15, 60])
@pytest.mark.parametrize("rho", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("load", [0.0, 1.2])
@pytest.mark.parametrize("rates", [True, False])
def test_95_percent_hold_the_truth_everywhere(
    windows: int, rho: float, load: float, rates: bool
) -> None:
    for alpha, gamma, size in ((0.75, 3, 300), (0.3, 1, 30), (0.95, 8, 30), (0.6, 4, 3000)):
        keeps_its_word(Traffic(alpha, gamma, size, rho, load, rates), windows, 150)


def test_steps_taken_as_independent_would_not_hold_it() -> None:
    """What the spread is for: at ρ=.01 a window of 300 steps varies as much as one of some 40."""
    random, traffic = np.random.default_rng(1), Traffic(rho=0.01)
    inside, truth = 0, traffic.truth
    for _ in range(200):
        found = traffic.estimate(random, 10).value or 0.0
        tries = 10 * 300 * sum(0.75**i for i in range(3))
        inside += abs(found - truth) <= 1.96 * np.sqrt(0.75 * 0.25 / tries)
    assert inside < 140


def test_windows_alike_over_a_while_are_blocks() -> None:
    """Spread ρ=.01 in an AR(1) of φ=.5 over 120 windows: independent windows would hold 75%."""
    random, count, told = np.random.default_rng(3), 0, 0
    for _ in range(200):
        state, walk = random.standard_normal(), []
        for _ in range(120):
            walk.append(state)
            state = 0.5 * state + np.sqrt(0.75) * random.standard_normal()
        sums = 300.0 * (0.75 + 0.04 * np.array(walk)) + 10.0 * random.standard_normal(120)
        found = ratio_spread(sums, np.full(120, 300.0))
        if found is not None:
            told += 1
            error = sums.sum() / 36_000 - 0.75
            count += abs(error) <= found.reach * np.sqrt(found.variance)
    assert told >= 190
    assert count >= binom.ppf(5e-5, told, 0.92)


def test_below_four_windows_nothing_is_said() -> None:
    found = Traffic().estimate(np.random.default_rng(1), 3)
    assert (found.interval, found.interval_basis) == (None, TOO_FEW)
    assert found.value == pytest.approx(0.75, abs=0.05)


# ── the law of a ratio's error over its estimate ─────────────────────────────────────────────


def form_of(weights: np.ndarray, varies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p and F of Gaussian windows: r's error is p·x, its variance estimate |F x|²."""
    unbiased = varies / (varies * (1 - 2 * weights) + weights**2 @ varies)
    rows = (weights * np.sqrt(unbiased))[:, None] * (np.eye(weights.size) - weights)
    return weights * np.sqrt(varies), rows * np.sqrt(varies)


@pytest.mark.parametrize("windows", [5, 12, 60])
def test_even_windows_are_student_s(windows: int) -> None:
    direction, form = form_of(np.full(windows, 1 / windows), np.ones(windows))
    assert critical(direction, form.T @ form) == pytest.approx(student.ppf(0.975, windows - 1))


@pytest.mark.parametrize("wander", [0.0, 1.0])
def test_uneven_windows_by_draws(wander: float) -> None:
    """A million Gaussian logs of 8 windows, the largest 30 times the smallest."""
    sizes = np.array([1.0, 2, 3, 5, 8, 13, 20, 30])
    direction, form = form_of(sizes / sizes.sum(), 1 / sizes + wander)
    reach = critical(direction, form.T @ form)
    drawn = np.random.default_rng(4).standard_normal((10**6, 8))
    beyond = np.abs(drawn @ direction) > reach * np.sqrt(((drawn @ form.T) ** 2).sum(axis=1))
    assert beyond.mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 1e6))


def test_the_variance_by_hand() -> None:
    """Five even windows of 10, shares .4 .5 .6 .5 .5: Σe² = .02, over 5·4."""
    found = ratio_spread(np.array([4.0, 5, 6, 5, 5]), np.full(5, 10.0))
    assert found is not None
    assert (found.variance, found.blocks, found.length) == (pytest.approx(0.001), 5, 1)
    assert ratio_spread(np.ones(3), np.ones(3)) is None


# ── blocks ───────────────────────────────────────────────────────────────────────────────────


def ar1(random: np.random.Generator, windows: int, phi: float) -> np.ndarray:
    series, state = np.empty(windows), random.standard_normal()
    for t in range(windows):
        series[t] = state
        state = phi * state + np.sqrt(1 - phi**2) * random.standard_normal()
    return series


def test_autocorrelation_time_of_an_ar1_series() -> None:
    """τ_int = (1+φ)/(1−φ) = 9 at φ=0.8; half a standard error is added on purpose."""
    random = np.random.default_rng(2)
    assert autocorrelation_time(ar1(random, 20_000, 0.8)) == pytest.approx(9, rel=0.15)
    assert autocorrelation_time(ar1(random, 20_000, 0.0)) == pytest.approx(1, abs=0.2)
    assert autocorrelation_time(np.ones(50)) == 1.0


def test_blocks_are_only_as_long_as_the_correlation_asks() -> None:
    """Of 60 windows: three where nothing is alike (nine times of ten), ten and more at φ=.8."""
    random = np.random.default_rng(6)
    plain = [block_length(ar1(random, 60, 0.0), 3) for _ in range(200)]
    alike = [block_length(ar1(random, 60, 0.8), 3) for _ in range(200)]
    assert np.mean(np.array(plain) == 3) > 0.85
    assert np.mean(np.array(alike) >= 10) > 0.9
    assert block_length(np.arange(10.0) % 2) == 1


def test_blocks_are_even() -> None:
    sizes = np.diff(np.append(block_starts(31, 10), 31))
    assert (sizes.sum(), set(sizes.tolist())) == (31, {3, 4})
