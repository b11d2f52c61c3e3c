"""How many steps a request takes: by every outcome, by recursion, by draws, in the limit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from specmath.acceptance import (
    Acceptance,
    CoveredAcceptance,
    FallingAcceptance,
    IidAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
    StoppedAcceptance,
)
from specmath.checks import InputError
from specmath.renewal import (
    LARGEST_EXACT,
    NORMAL_ERROR,
    StepCount,
    _normal,
    boundary_steps,
    kinds_of,
    steps_to_emit,
)
from specmath.replay import ReplayAcceptance
from specmath.trees import TreeAcceptance

MIXED = MixtureAcceptance((0.25, 0.75), (IidAcceptance(0.9), IidAcceptance(0.3)))


def by_hand(law: Sequence[float], tokens: int) -> dict[int, float]:
    """P(K = k) by going through every outcome of every step, one after another."""
    chances: dict[int, float] = {}
    open_: list[tuple[int, int, float]] = [(0, 0, 1.0)]
    while open_:
        emitted, steps, chance = open_.pop()
        if emitted >= tokens:
            chances[steps] = chances.get(steps, 0.0) + chance
            continue
        open_ += [(emitted + n, steps + 1, chance * p) for n, p in enumerate(law, 1) if p]
    return chances


def as_dict(count: StepCount) -> dict[int, float]:
    return dict(zip(count.steps.tolist(), count.chances.tolist(), strict=True))


def differ(one: dict[int, float], other: dict[int, float]) -> float:
    return max(abs(one.get(k, 0.0) - other.get(k, 0.0)) for k in one.keys() | other.keys())


@given(
    rates=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4),
    gamma=st.integers(0, 4),
    tokens=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_every_outcome_of_small_cases(rates: list[float], gamma: int, tokens: int) -> None:
    acceptance = PerPositionAcceptance.from_conditional(rates)
    (count,) = steps_to_emit(acceptance, tokens, gamma)
    assert differ(as_dict(count), by_hand(acceptance.step_pmf(gamma), tokens)) < 1e-9
    assert count.chances.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "acceptance",
    [
        CoveredAcceptance(IidAcceptance(0.8), 0.4),
        FallingAcceptance(0.9, 1, 0.2),
        StoppedAcceptance(IidAcceptance(0.8), 0.7, "low"),
        StoppedAcceptance(IidAcceptance(0.8), 0.7, "high"),
        TreeAcceptance(IidAcceptance(0.6), 3, 2, 0.25),
    ],
)
def test_each_acceptance_by_its_own_law(acceptance: Acceptance) -> None:
    gamma, tokens = 4, 7
    (kind,) = kinds_of(acceptance, gamma)
    assert kind.tokens == pytest.approx(float(acceptance.tokens_per_step(gamma)))
    (count,) = steps_to_emit(acceptance, tokens, gamma)
    assert differ(as_dict(count), by_hand(kind.law, tokens)) < 1e-9


def test_a_step_without_a_draft_emits_one() -> None:
    """κ = 1/2, α = 1, γ = 1: a step emits 1 or 2 tokens, as a coin falls; 3 tokens by hand."""
    (count,) = steps_to_emit(CoveredAcceptance(IidAcceptance(1.0), 0.5), 3, 1)
    assert as_dict(count) == pytest.approx({2: 0.75, 3: 0.25})


def test_all_accepted_and_none_by_hand() -> None:
    """α = 1: ⌈M / (γ+1)⌉ steps; α = 0 and γ = 0: M."""
    for tokens, gamma in itertools.product((1, 5, 255, 1000), (0, 3, 7)):
        (sure,) = steps_to_emit(IidAcceptance(1.0), tokens, gamma)
        (never,) = steps_to_emit(IidAcceptance(0.0), tokens, gamma)
        assert as_dict(sure) == {math.ceil(tokens / (gamma + 1)): 1.0}
        assert as_dict(never) == {tokens: 1.0}
    plain, ours = steps_to_emit(IidAcceptance(0.8), 255, [0, 4])
    assert as_dict(plain) == {255: 1.0}
    assert ours.variance > 0


def test_each_request_of_a_mixture_is_of_one_part() -> None:
    parts = [as_dict(steps_to_emit(part, 40, 3)[0]) for part in MIXED.parts]
    expected = {
        k: 0.25 * parts[0].get(k, 0.0) + 0.75 * parts[1].get(k, 0.0)
        for k in parts[0].keys() | parts[1].keys()
    }
    (count,) = steps_to_emit(MIXED, 40, 3)
    assert differ(as_dict(count), expected) < 1e-12
    # The slowest are those of the part that accepts least: 1% of all are 4/3% of it.
    (hard,) = steps_to_emit(MIXED.parts[1], 40, 3)
    assert count.quantile(0.99) == hard.quantile(1.0 - 0.01 / 0.75)
    covered = CoveredAcceptance(MIXED, 0.5)
    assert [kind.share for kind in kinds_of(covered, 3)] == [0.25, 0.75]
    # Time per token of the blend is the mean of the parts': Σ w / τ.
    per_token = sum(kind.share / kind.tokens for kind in kinds_of(MIXED, 3))
    assert 1.0 / per_token == pytest.approx(float(MIXED.tokens_per_step(3)))


@pytest.mark.parametrize("alpha", [0.05, 0.6, 0.8, 0.97])
@pytest.mark.parametrize(("tokens", "gamma"), [(255, 4), (1023, 8), (4095, 2)])
def test_the_mean_is_the_renewal_function(alpha: float, tokens: int, gamma: int) -> None:
    """E K = Σ_{m<M} u(m), where u(m), the chance that a step ends at token m, is a recursion."""
    acceptance = IidAcceptance(alpha)
    law = acceptance.step_pmf(gamma)
    ends = lfilter([1.0], np.concatenate(([1.0], -law)), np.eye(1, tokens)[0])
    (count,) = steps_to_emit(acceptance, tokens, gamma)
    assert count.mean == pytest.approx(float(ends.sum()), rel=1e-11)
    assert count.chances.sum() == pytest.approx(1.0, abs=1e-12)


def test_the_limits_for_many_tokens() -> None:
    """E K → M/τ + E L(L−1)/2τ²; Var K → M Var(L)/τ³."""
    acceptance, gamma, tokens = IidAcceptance(0.7), 5, 20_000
    law, tau = acceptance.step_pmf(gamma), float(acceptance.tokens_per_step(gamma))
    (count,) = steps_to_emit(acceptance, tokens, gamma)
    assert count.mean - tokens / tau == pytest.approx(boundary_steps(law.tolist()), abs=1e-6)
    assert 0.3 < boundary_steps(law.tolist()) < 0.6
    limit = tokens * acceptance.step_variance(gamma) / tau**3
    assert count.variance == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.6, 8), (0.8, 4), (0.97, 8)])
def test_the_normal_limit_where_it_takes_over(alpha: float, gamma: int) -> None:
    acceptance = IidAcceptance(alpha)
    levels = np.array([0.01, 0.1, 0.5, 0.9, 0.99])
    (exact,) = steps_to_emit(acceptance, LARGEST_EXACT, gamma)
    limit = _normal(acceptance.step_pmf(gamma), LARGEST_EXACT)
    error = np.abs(limit.quantile(levels) / exact.quantile(levels) - 1.0)
    assert error.max() < NORMAL_ERROR
    (beyond,) = steps_to_emit(acceptance, LARGEST_EXACT + 1, gamma)
    assert beyond.mean == pytest.approx(exact.mean, rel=1e-4)


def test_requests_drawn_step_by_step() -> None:
    """20,000 requests of 500 tokens: no further from the exact distribution than 99.9% of such
    samples are (Dvoretzky, Kiefer, Wolfowitz: √(ln(2/0.001) / 2n))."""
    gamma, tokens, requests = 4, 500, 20_000
    law = IidAcceptance(0.75).step_pmf(gamma)
    draw = np.random.default_rng(5)
    emitted = draw.choice(np.arange(1, gamma + 2), size=(requests, 260), p=law).cumsum(axis=1)
    assert emitted[:, -1].min() >= tokens
    seen = 1 + (emitted < tokens).sum(axis=1)
    (count,) = steps_to_emit(IidAcceptance(0.75), tokens, gamma)
    below = np.array([(seen <= k).mean() for k in count.steps])
    allowed = math.sqrt(math.log(2.0 / 0.001) / (2.0 * requests))
    assert np.abs(below - np.cumsum(count.chances)).max() < allowed


def test_what_has_no_law_is_refused() -> None:
    with pytest.raises(InputError, match="got a replayed text"):
        steps_to_emit(ReplayAcceptance([0.9, 0.2, 0.8]), 3, 2)
    for tokens, gamma, name in ((-1, 2, "tokens"), (3, -1, "gammas"), (3, 1.5, "gammas")):
        with pytest.raises(InputError, match=name):
            steps_to_emit(IidAcceptance(0.5), tokens, gamma)  # type: ignore[arg-type]
