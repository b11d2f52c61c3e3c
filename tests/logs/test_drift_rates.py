"""Drift by simulation: false alarms at the stated rate, what is seen, and what the test is made of.

`python -m benchmarks.drift` simulates the same at length; docs/logs.md has its figures.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.drifting import log
from scipy.stats import binom, ttest_ind
from scipy.stats import t as student

from specmath.review.blocks import WindowSeries, baseline_of, comparable
from specmath.review.drift import PARTS, WHOLE, drift, runs_of

RATES = (0.01, 0.05)
ONCE = 5e-4
"""How often a test of this file fails by chance, to either side."""


def chances(before: dict, after: dict, pairs: int, seed: int) -> np.ndarray:
    """p-values of pairs of logs, nan where the logs cannot tell."""
    random = np.random.default_rng(seed)
    found = [drift(log(random, **before), log(random, **after)) for _ in range(pairs)]
    return np.array([np.nan if f.fallen is None else f.p_value for f in found])


def side(windows: int, phi: float = 0.0, **more: float | None) -> dict:
    """Even windows unless said."""
    return {"windows": windows, "phi": phi, "steps": 600, **more}


def both(windows: int, phi: float = 0.0, **more: float | None) -> tuple[dict, dict]:
    """A baseline, and a current log half as long, of the same traffic."""
    return side(windows, phi, **more), side(windows // 2, phi, **more)


def keeps_the_rate(pair: tuple[dict, dict], pairs: int, *, least: bool) -> None:
    """Alarms in no more calls than stated, and with `least` in no fewer than half as many."""
    found = chances(*pair, pairs, 7)
    for rate in RATES:
        alarms = int(np.sum(found <= rate))
        assert alarms <= binom.ppf(1 - ONCE, pairs, rate), (rate, alarms / pairs)
        if least:
            assert alarms >= binom.ppf(ONCE, pairs, rate / 2), (rate, alarms / pairs)


STEADY = {
    "even": both(60),
    "uneven": both(60, steps=None),
    "lognormal": both(60, load=1.0),
    "beta, lognormal": both(60, rho=0.01, load=1.0),
    "long": both(200, steps=None),
}


@pytest.mark.parametrize("name", ["uneven", "beta, lognormal"])
def test_false_alarms_are_half_the_stated_rate_to_all_of_it(name: str) -> None:
    keeps_the_rate(STEADY[name], 250, least=True)


@pytest.mark.slow
@pytest.mark.parametrize("pair", STEADY.values(), ids=STEADY)
def test_false_alarms_at_length(pair: tuple[dict, dict]) -> None:
    keeps_the_rate(pair, 700, least=True)


@pytest.mark.slow
@pytest.mark.parametrize("windows", [45, 300])
@pytest.mark.parametrize("rho", [None, 0.01])
@pytest.mark.parametrize("load", [None, 1.0])
def test_false_alarms_everywhere(windows: int, rho: float | None, load: float | None) -> None:
    keeps_the_rate(both(windows, rho=rho, load=load), 300, least=True)


ALIKE = {
    "phi .2": both(60, 0.2),
    "phi .5": both(60, 0.5),
    "phi .8": both(60, 0.8),
    "phi .9": both(60, 0.9),
    "phi .8, longer": both(240, 0.8),
    "10 times busier": (side(640, steps=100), side(64, steps=1000)),
    "5 times busier, phi .8": (side(360, 0.8, steps=600), side(180, 0.8, steps=3000)),
    "10 times quieter": (side(64, steps=1000), side(320, steps=100)),
    "alpha .995": both(400, alpha=0.995, moves=0, steps=50),
    "alpha .999": both(100, alpha=0.999, moves=0),
    "alpha .98, clipped": both(100, alpha=0.98),
    "short": both(20),
    "long current": (side(60), side(200)),
}


@pytest.mark.parametrize("name", ["phi .2", "phi .5", "phi .8", "10 times quieter", "alpha .999"])
def test_no_more_than_stated_where_windows_are_alike_or_loads_differ(name: str) -> None:
    keeps_the_rate(ALIKE[name], 60, least=False)


@pytest.mark.slow
@pytest.mark.parametrize("phi", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("windows", [60, 360])
def test_serial_correlation_raises_no_alarms(windows: int, phi: float) -> None:
    keeps_the_rate(both(windows, phi, steps=None), 300, least=False)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ALIKE.values(), ids=ALIKE)
def test_no_more_than_stated_at_length(pair: tuple[dict, dict]) -> None:
    keeps_the_rate(pair, 300, least=False)


# ── what is seen ─────────────────────────────────────────────────────────────────────────────


def fell(pair: tuple[dict, dict], **more: float) -> tuple[dict, dict]:
    return pair[0], {**pair[1], **more}


FALLS = {
    "uneven": (fell(both(60, steps=None), drop=0.03), 0.80),
    "beta, lognormal": (fell(both(60, rho=0.005, load=0.6), drop=0.03), 0.80),
    "even": (fell(both(60), drop=0.03), 0.80),
    "beta .001, lognormal": (fell(both(60, rho=0.001, load=1.0), drop=0.03), 0.80),
    "late": (fell(both(150), drop=0.06, at=25), 0.95),
    "late, phi .5": (fell(both(300, 0.5), drop=0.05, at=50), 0.85),
    "phi .8": (fell(both(360, 0.8), drop=0.05), 0.75),
    "busier": (fell((side(640, steps=100), side(64, steps=1000)), drop=0.05), 0.95),
    "alpha .995": (fell(both(100, alpha=0.995, moves=0), drop=0.01), 0.95),
    "short": (fell(both(20), drop=0.3), 0.6),
}


def is_seen(name: str, pairs: int) -> None:
    """At least in its share of pairs at 1%, less what binomial error takes."""
    pair, power = FALLS[name]
    assert np.sum(chances(*pair, pairs, 3) <= 0.01) >= binom.ppf(ONCE, pairs, power)


@pytest.mark.parametrize("name", ["uneven", "beta, lognormal", "late", "alpha .995", "short"])
def test_a_real_fall_is_seen_at_1_percent(name: str) -> None:
    is_seen(name, 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", FALLS)
def test_a_real_fall_is_seen_at_length(name: str) -> None:
    is_seen(name, 200)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"steps": None}, {"load": 0.6}, {"rho": 0.005}])
def test_falls_of_03_are_seen_in_80_percent(more: dict) -> None:
    """60 and 30 windows, 1% stated: what issue 10 asks, without leave for error."""
    found = chances(*fell(both(60, **more), drop=0.03), 500, 3)
    assert np.mean(found <= 0.01) >= 0.80


def test_what_a_test_between_two_fixed_logs_sees() -> None:
    """The ceiling: Welch on windows, which spends all on one look and takes windows as independent,
    finds 93% of falls of .03 at 1%."""
    random = np.random.default_rng(5)
    found = 0
    for _ in range(150):
        means = [
            [w.tokens_per_step for w in log(random, n, 0.0, drop=drop).windows]
            for n, drop in ((60, 0.0), (30, 0.03))
        ]
        found += ttest_ind(*means, equal_var=False, alternative="greater").pvalue <= 0.01
    assert binom.ppf(ONCE, 150, 0.93) <= found <= binom.ppf(1 - ONCE, 150, 0.93)


def test_the_smallest_fall_named_is_seen_about_half_the_time() -> None:
    """A lasting fall of that many tokens per step; α moves by it ÷ dτ/dα, 4.19 at α=0.75."""
    random = np.random.default_rng(4)
    smallest = [drift(log(random, 150, 0.0), log(random, 75, 0.0), 0.05).smallest or 0.0
                for _ in range(20)]  # fmt: skip
    drop = float(np.mean(smallest)) / (1 + 2 * 0.75 + 3 * 0.75**2)
    found = int(np.sum(chances(*fell(both(150), drop=drop), 60, 5) <= 0.05))
    assert binom.ppf(ONCE, 60, 0.45) <= found <= binom.ppf(1 - ONCE, 60, 0.65)


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


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 64])
def test_what_is_spent_is_less_than_the_rate(blocks: int) -> None:
    """Of the whole log and of its parts; every block begins a run of one, and none is as long as
    the log but the first."""
    runs = runs_of(blocks)
    assert runs[0].share == WHOLE
    assert sum(run.share for run in runs[1:]) == pytest.approx(PARTS if blocks > 1 else 0.0)
    assert WHOLE + PARTS < 1
    assert {run.first for run in runs if run.first == run.last} == set(range(blocks))
    assert all(0 <= run.first <= run.last < blocks for run in runs)


def means(*rows: float, steps: float = 100.0, chance: float = 0.0) -> WindowSeries:
    """Windows of these tokens per step and so many steps each, at γ=3."""
    values = np.array(rows)
    each = np.full(values.size, steps)
    lines = tuple(range(1, values.size + 1))
    times = (None,) * values.size
    return WindowSeries("tokens_per_step", 3, False, chance, values, each, values, lines, times)


def test_the_whole_log_is_a_two_sample_t_test() -> None:
    """Blocks of three even windows: scipy's pooled t test of the means of threes."""
    random = np.random.default_rng(3)
    before, after = log(random, 60, 0.0, steps=600), log(random, 30, 0.0, drop=0.01, steps=600)
    found = drift(before, after)
    assert (found.baseline_blocks, found.current_blocks) == (20, 10)
    tokens = [[w.tokens_per_step for w in one.windows] for one in (before, after)]
    threes = [np.array(each).reshape(-1, 3).mean(axis=1) for each in tokens]
    exact = ttest_ind(*threes, alternative="greater")
    widened = np.sqrt(1 + (8 / 20) ** 6)
    by_hand = student.sf(exact.statistic / widened, 28) / WHOLE
    assert by_hand < 0.5  # below that of its parts
    assert found.p_value == pytest.approx(by_hand, rel=1e-6)


def test_weights_by_hand() -> None:
    """Shares ±1 about 2 in windows of 100: Q = 100·8, σ² = (800 − 7ν)/(800 − 100), ν = 20."""
    found = baseline_of(means(*[1.0, 3.0] * 4, chance=20.0))
    wander = (800 - 7 * 20) / 700
    assert found.wander == pytest.approx(wander)
    assert found.weights(np.array([100.0, 400.0])) == pytest.approx(
        [1 / (0.2 + wander), 1 / (0.05 + wander)]
    )
    # Two blocks of four windows, each of mean 2.
    assert (found.blocks, found.length) == (2, 3)
    assert found.spread == pytest.approx(0.0)


def test_chance_is_that_of_the_rates() -> None:
    """γ=3, α=.75: Σ(2i−1)s_i − (Σs_i)²; where drafts are cut at 1, α(1−α)."""
    random = np.random.default_rng(1)
    pair = comparable(log(random, 60, 0.0, moves=0.0), log(random, 60, 0.0, gamma=1, moves=0.0))
    assert pair is not None
    assert pair[0].chance == pytest.approx(0.75 * 0.25, rel=0.02)
    same = comparable(log(random, 60, 0.0, moves=0.0), log(random, 60, 0.0, moves=0.0))
    assert same is not None
    rates = [0.75, 0.75**2, 0.75**3]
    by_hand = rates[0] + 3 * rates[1] + 5 * rates[2] - sum(rates) ** 2
    assert same[0].chance == pytest.approx(by_hand, rel=0.02)
