"""Replay against enumeration of every accept/reject pattern, simulation and closed forms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.measure.score import estimate_alpha
from specmath.replay import ReplayAcceptance
from specmath.theorems import expected_tokens
from specmath.words.notes import acceptance_notes


def walk(accepted: np.ndarray, gamma: int) -> list[int]:
    """Tokens that each step emits when accepted[s, o] says what is accepted: plain bookkeeping."""
    length, position, emitted = len(accepted), 0, []
    while position < length:
        run = 0
        while run < gamma and position + run < length and accepted[position, run]:
            run += 1
        tokens = min(run + 1, length - position)
        emitted.append(tokens)
        position += tokens
    return emitted


def enumerate_steps(rates: np.ndarray, gamma: int) -> np.ndarray:
    """P(m steps) by summing over all 2^N patterns of independent acceptance."""
    length = len(rates)
    pmf = np.zeros(length + 1)
    for pattern in product((False, True), repeat=length):
        weight = np.prod(np.where(pattern, rates, 1 - rates))
        start, offset = np.ogrid[:length, :gamma]
        accepted = np.array(pattern)[np.minimum(start + offset, length - 1)]
        pmf[len(walk(accepted, gamma))] += weight
    return pmf


RATES = np.array([0.9, 0.2, 0.75, 0.5, 1.0, 0.0, 0.6, 0.85])


@pytest.mark.parametrize("gamma", range(8))
def test_steps_equal_enumeration_of_every_pattern(gamma: int) -> None:
    replay = ReplayAcceptance(RATES)
    truth = enumerate_steps(RATES, gamma)
    counts = np.arange(len(truth))
    np.testing.assert_allclose(replay.steps_pmf(gamma), truth, atol=1e-14)
    steps = replay.steps(gamma)
    mean = counts @ truth
    assert steps.mean[0, 0] == pytest.approx(mean, rel=1e-13)
    assert steps.variance[0, 0] == pytest.approx(counts**2 @ truth - mean**2, abs=1e-12)
    assert replay.tokens_per_step(gamma) == pytest.approx(8 / mean, rel=1e-13)


def test_all_gammas_at_once_are_the_gammas_one_by_one() -> None:
    replay = ReplayAcceptance([RATES, RATES[:3], RATES[::-1]])
    together = replay.steps(np.arange(12))
    for gamma in range(12):
        alone = replay.steps(gamma)
        np.testing.assert_allclose(together.mean[:, gamma], alone.mean[:, 0], rtol=1e-13)
        np.testing.assert_allclose(together.variance[:, gamma], alone.variance[:, 0], atol=1e-12)
    np.testing.assert_allclose(
        replay.tokens_per_step(np.arange(12)),
        [replay.tokens_per_step(gamma) for gamma in range(12)],
        rtol=1e-13,
    )


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=12), min_size=1, max_size=4),
    st.integers(0, 14),
)
@settings(max_examples=60)
def test_identities(texts: list[list[float]], gamma: int) -> None:
    replay = ReplayAcceptance(texts)
    survival, tau = replay.survival(gamma), replay.tokens_per_step(gamma)
    assert survival.shape == (gamma + 1,)
    assert survival[0] == 1
    assert np.all(np.diff(survival) <= 1e-12)
    assert tau == pytest.approx(survival.sum(), rel=1e-12)
    assert 1 - 1e-12 <= tau <= gamma + 1 + 1e-12
    pmf = replay.step_pmf(gamma)
    assert pmf.sum() == pytest.approx(1)
    assert tau == pytest.approx(pmf @ np.arange(1, gamma + 2))
    taus = replay.tokens_per_step(np.arange(gamma + 2))
    assert np.all(np.diff(taus) >= -1e-12)
    for text in range(replay.texts):
        whole = replay.steps_pmf(gamma, text)
        assert whole.sum() == pytest.approx(1)
        assert whole @ np.arange(whole.size) == pytest.approx(replay.steps(gamma).mean[text, 0])


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_long_even_text_is_equation_1(alpha: float) -> None:
    """The ends are all that parts an even text from the theorem: they cost every long text the same
    steps, so what 360 more tokens take is 360/τ. (At α=1 where γ+1 divides 360.)"""
    gammas = np.array([0, 1, 2, 3, 4, 5, 7, 8])
    short, long = ReplayAcceptance([np.full(n, alpha) for n in (360, 720)]).steps(gammas).mean
    np.testing.assert_allclose(360 / (long - short), expected_tokens(alpha, gammas), rtol=1e-12)


def test_renewal_limit_of_the_variance() -> None:
    """Variance of the steps to N tokens grows by σ²/τ³ a token (Smith 1958, renewal theory)."""
    iid = IidAcceptance(0.7)
    short, long = ReplayAcceptance([np.full(n, 0.7) for n in (300, 600)]).steps(4).variance[:, 0]
    each = iid.step_variance(4) / iid.tokens_per_step(4) ** 3
    assert (long - short) / 300 == pytest.approx(each, rel=1e-9)


def test_survival_is_what_a_server_would_count() -> None:
    """Monte Carlo of the counters themselves, 1,200 runs over two unlike texts."""
    rng = np.random.default_rng(4)
    texts = [rng.beta(5, 1, 40), rng.beta(1, 2, 25)]
    replay, gamma, runs = ReplayAcceptance(texts), 4, 1200
    reached, steps = np.zeros(gamma + 1), 0
    for _ in range(runs):
        for text in texts:
            pattern = np.append(rng.random(text.size) < text, np.zeros(gamma, bool))
            accepted = np.lib.stride_tricks.sliding_window_view(pattern, gamma)[: text.size]
            for emitted in walk(accepted, gamma):
                reached[:emitted] += 1
                steps += 1
    # Standard error of a share over more than 30,000 steps is below 0.003.
    np.testing.assert_allclose(reached / steps, replay.survival(gamma), atol=0.012)
    assert 65 * runs / steps == pytest.approx(replay.tokens_per_step(gamma), rel=0.015)


def test_a_mixture_of_easy_and_hard_texts_is_no_truncation() -> None:
    """Design, Survival: pooled rates of γ=7 over α=0.9 and 0.4 give 2.03 at γ=3, 2.21 is true."""
    # Equal shares of output tokens, long enough that their ends take less than 0.2%.
    replay = ReplayAcceptance([np.full(4000, 0.9), np.full(4000, 0.4)])
    assert replay.tokens_per_step(3) == pytest.approx(2.21, abs=0.01)
    assert replay.survival(7)[:4].sum() == pytest.approx(2.03, abs=0.01)


def test_matrix_of_starts() -> None:
    """The windowed form of a plain text is that text; a span that ends early is 0 beyond it."""
    windows = np.lib.stride_tricks.sliding_window_view(np.append(RATES, np.zeros(4)), 5)
    matrix = ReplayAcceptance.from_starts([windows])
    plain = ReplayAcceptance(RATES)
    np.testing.assert_allclose(
        matrix.steps(np.arange(6)).mean, plain.steps(np.arange(6)).mean, rtol=1e-13
    )
    rng = np.random.default_rng(1)
    accepted = rng.random((30, 6)) < 0.6
    accepted[rng.random(30) < 0.4] = False  # no draft was found at these starts
    replay = ReplayAcceptance.from_starts([accepted.astype(float)])
    for gamma in range(7):
        emitted = walk(accepted, gamma)
        assert replay.steps(gamma).mean[0, 0] == pytest.approx(len(emitted))
        assert replay.steps(gamma).variance[0, 0] == pytest.approx(0, abs=1e-12)
    with pytest.raises(InputError, match=r"gamma .*<= 6, got 7"):
        replay.survival(7)


def test_gamma_far_beyond_the_text() -> None:
    replay = ReplayAcceptance(RATES)
    assert replay.tokens_per_step(1000) == replay.tokens_per_step(8)
    assert replay.survival(1000).shape == (1001,)
    assert replay.shortest == 8
    assert acceptance_notes(replay, 1000)
    assert not acceptance_notes(replay, 4)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "at least one text"),
        ([[]], "text 1 must be a list of at least one"),
        ([0.5, 1.2], "text 1 must be a finite number >= 0 and <= 1, got 1.2"),
        ([[0.5], [0.5, np.nan]], "text 2 must be .* got nan"),
        ("0.5", "must be a list of numbers"),
        (0.5, "must be a list of numbers"),
        ([[[0.5]]], "got shape"),
    ],
)
def test_bad_probabilities(bad: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ReplayAcceptance(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("gamma", [-1, 1.5, np.nan, True])
def test_bad_gamma(gamma: object) -> None:
    with pytest.raises(InputError, match="gamma"):
        ReplayAcceptance(RATES).survival(gamma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad", [[], [[0.5]], [np.zeros((3, 0))], [np.ones((2, 2)), np.ones((2, 3))]]
)
def test_bad_starts(bad: list[np.ndarray]) -> None:
    with pytest.raises(InputError):
        ReplayAcceptance.from_starts(bad)


def test_interval_covers_when_texts_differ() -> None:
    """24 texts whose α differ: a nominal 95% interval covers at least 91% of 300 (SE 1.3%)."""
    rng = np.random.default_rng(8)
    covered, naive = 0, 0
    for _ in range(300):
        own = rng.beta(8, 3, 24)  # mean 8/11
        texts = [(rng.random(60) < alpha).astype(float) for alpha in own]
        found = estimate_alpha(texts)
        covered += found.low <= 8 / 11 <= found.high
        half = 1.96 * np.sqrt(found.value * (1 - found.value) / 1440)
        naive += abs(found.value - 8 / 11) <= half
    assert covered / 300 > 0.91
    assert naive / 300 < 0.7  # what taking tokens as independent would have covered


def test_interval_takes_samples_of_one_prompt_together() -> None:
    texts = [np.full(10, rate) for rate in (0.5, 0.5, 0.9, 0.9, 0.7, 0.7, 0.6, 0.6, 0.8, 0.8)]
    apart, together = estimate_alpha(texts), estimate_alpha(texts, [n // 2 for n in range(10)])
    assert together.value == apart.value == pytest.approx(0.7)
    assert together.high - together.low > 1.3 * (apart.high - apart.low)
    assert "5 prompts" in together.basis.source


def test_interval_of_few_texts_says_so() -> None:
    assert "blocks" in estimate_alpha([np.linspace(0, 1, 200)]).basis.source
    assert "nothing to judge" in estimate_alpha([[0.5, 0.7]]).basis.source  # type: ignore[list-item]
    sure = estimate_alpha([np.ones(40)] * 10)
    assert (sure.value, sure.high) == (1.0, 1.0)
    assert sure.low < 0.8
