"""An endpoint of several kinds of request: identities, and a simulation of the same requests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath.acceptance import CoveredAcceptance, IidAcceptance, MixtureAcceptance
from specmath.arms import served
from specmath.capacity import capacity, server_of
from specmath.carried import Promise
from specmath.checks import InputError
from specmath.predict import Prediction, of_endpoint, predict
from specmath.scenario import Scenario
from specmath.scenario.endpoint import for_part, resolve
from specmath.scenario.files import revised
from specmath.scenario.parts import Part, blended, of_kind
from specmath.spread import mixed
from specmath.tails import tails
from specmath.traffic import poisson

BASE = Scenario(
    gpu="h100", model="Llama-3.1-8B", draft="eagle3", alpha=0.7, gamma=4, prompt_tokens=1024,
    output_tokens=256, request_rate=5.0,
)  # fmt: skip


def of(*kinds: tuple[float, dict]) -> tuple[Scenario, tuple[Part, ...]]:
    parts = tuple(Part(share, revised(BASE, fields)) for share, fields in kinds)
    return blended(BASE, parts), parts


def each(p: Prediction) -> list[Prediction]:
    return [of_endpoint(for_part(p.endpoint, i)) for i in range(len(p.endpoint.parts))]


TWO = of(
    (0.5, {"alpha": 0.9, "prompt_tokens": 500, "output_tokens": 201}),
    (0.5, {"alpha": 0.4, "prompt_tokens": 1500, "output_tokens": 301}),
)


def test_one_kind_told_twice_is_that_kind() -> None:
    alone = predict(BASE)
    twice = predict(*of((1.0, {"alpha": 0.7}), (3.0, {"alpha": 0.7})))
    assert twice.speedup.value == pytest.approx(alone.speedup.value, rel=1e-12)
    assert twice.speedup.low == pytest.approx(alone.speedup.low, rel=1e-12)
    assert twice.tpot.value == pytest.approx(alone.tpot.value, rel=1e-12)
    for own in each(twice):
        assert own.tpot.value == pytest.approx(alone.tpot.value, rel=1e-12)
        assert own.first_token[1].value == pytest.approx(alone.first_token[1].value, rel=1e-12)


def test_means_by_hand() -> None:
    """Shares ½ of prompts 500 and 1500, and of 200 and 300 tokens after the first: 40% and 60% of
    the tokens. τ at γ=4 is (1−α⁵)/(1−α): 4.0951 and 1.6496."""
    s, _ = TWO
    assert (s.prompt_tokens, s.output_tokens) == (1000, 251)
    # By tokens, each with half of its own answer before it: 0.4 × 600.5 + 0.6 × 1650.5.
    assert s.context_tokens == round(0.4 * 600.5 + 0.6 * 1650.5)
    tokens = 1.0 / (0.4 / 4.0951 + 0.6 / 1.6496)
    assert predict(*TWO).tokens_per_step == pytest.approx(tokens, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0.05, 0.95), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(2, 900),
    st.integers(2, 900), st.integers(1, 7),
)  # fmt: skip
def test_the_mean_is_that_of_its_kinds(
    share: float, a: float, b: float, n: int, m: int, gamma: int
) -> None:
    """Time per token, weighed by the tokens that decode makes, blends to the endpoint's; plain
    decoding takes everybody's as long."""
    s, parts = of(
        (share, {"alpha": a, "output_tokens": n}), (1.0 - share, {"alpha": b, "output_tokens": m})
    )
    p = predict(s.model_copy(update={"gamma": gamma, "request_rate": 0.5}), parts)
    weights = np.array([part.share * part.decoded for part in parts])
    times = np.array([own.tpot.value for own in each(p)])
    assert float(weights @ times / weights.sum()) == pytest.approx(p.tpot.value, rel=1e-9)
    assert [own.tpot_plain.value for own in each(p)] == pytest.approx([p.tpot_plain.value] * 2)


def test_a_mixture_with_a_draft_in_some_steps_counts_all_steps() -> None:
    """κ = ½, one kind never accepted and one always, γ=1: they emit 1 and 1.5 tokens a step, so
    that half of the tokens each is 1 / (½/1 + ½/1.5) = 1.2 a step."""
    both = MixtureAcceptance((0.5, 0.5), (IidAcceptance(0.0), IidAcceptance(1.0)))
    covered = CoveredAcceptance(both, 0.5)
    assert float(covered.tokens_per_step(1)) == pytest.approx(1.2)
    # Three of five steps are the first kind's: 0.4 of them, half with a draft, accept.
    assert covered.survival(1) == pytest.approx([1.0, 0.4 * 0.5])


def test_segments_with_an_n_gram_draft_blend_too() -> None:
    lookup = BASE.model_copy(update={"draft": "ngram", "coverage": 0.4})
    parts = tuple(Part(0.5, revised(lookup, {"alpha": a})) for a in (0.9, 0.2))
    p = predict(blended(lookup, parts), parts)
    times = [own.tpot.value for own in each(p)]
    assert float(np.mean(times)) == pytest.approx(p.tpot.value, rel=1e-9)
    assert of_kind(p.speculation.acceptance, 0) == CoveredAcceptance(IidAcceptance(0.9), 0.4)


def test_ends_are_those_of_all_parts_at_once() -> None:
    s, parts = of(
        (0.5, {"alpha_low": 0.5, "alpha_high": 0.7}), (0.5, {"alpha_low": 0.2, "alpha_high": 0.9})
    )
    p = predict(s, parts)
    worst, best = (
        predict(*of((0.5, {"alpha": a}), (0.5, {"alpha": b}))) for a, b in ((0.5, 0.2), (0.7, 0.9))
    )
    assert p.speedup.low == pytest.approx(worst.speedup.low, rel=1e-6)
    assert p.speedup.high == pytest.approx(best.speedup.high, rel=1e-6)
    assert (s.acceptance_form, s.alpha_low) == ("range", pytest.approx(
        predict(*of((0.5, {"alpha": 0.5}), (0.5, {"alpha": 0.2}))).speculation.alpha_at(8), rel=0.02
    ))  # fmt: skip


def test_what_a_segment_is_promised_limits_the_replica() -> None:
    """The hard segment's tokens are slower by the ratio of the τ: a promise to it alone is one to
    the mean that is as much shorter."""
    s, parts = TWO
    p = predict(s, parts)
    hard = each(p)[1]
    ratio = p.tokens_per_step / hard.tokens_per_step
    kept = tuple(
        Part(part.share, part.scenario.model_copy(update={"slo_tpot_ms": ms}))
        for part, ms in zip(parts, (None, 9.0), strict=True)
    )
    apart = capacity(predict(s, kept))
    same = tuple(
        Part(part.share, part.scenario.model_copy(update={"slo_tpot_ms": 9.0 / ratio}))
        for part in parts
    )
    assert apart.apart
    assert apart.speculative.limit == "tpot"
    # The easy one is faster than the mean: the same promise to all of them binds the hard one.
    mean = capacity(predict(s, same))
    assert apart.speculative.within.value > mean.speculative.within.value
    met = capacity(predict(s, kept)).speculative.within.value
    at = predict(s.model_copy(update={"request_rate": met}), parts)
    assert each(at)[1].tpot.value == pytest.approx(9e-3, rel=1e-3)


def test_quantiles_of_a_mixture() -> None:
    """Between the quantiles of its kinds, those of one kind where there is one, and by a sample."""
    p = predict(*TWO)
    spreads = [tails(own).gaps["tpot"].speculative for own in each(p)]
    for level in (0.1, 0.5, 0.9):
        both = mixed(spreads, (0.5, 0.5), level)
        ends = sorted(spread.at(level).value for spread in spreads)
        assert ends[0] <= both.value <= ends[1]
        assert mixed(spreads[:1], (1.0,), level).value == pytest.approx(spreads[0].at(level).value)
    chances = np.random.default_rng(7).random(40_000)
    sample = np.concatenate(
        [np.interp(chances, spread.levels, spread.values) for spread in spreads]
    )
    for level in (0.2, 0.45, 0.8):  # at one half any number between the two kinds is a median
        assert mixed(spreads, (1.0, 1.0), level).value == pytest.approx(
            np.quantile(sample, level), rel=0.01
        )


def test_refusals() -> None:
    with pytest.raises(InputError, match="segments need gpu, model and draft"):
        resolve(Scenario(alpha=0.8, c=0.1), parts=(Part(1.0, Scenario(alpha=0.8, c=0.1)),))
    with pytest.raises(InputError, match="at least one segment"):
        blended(BASE, ())
    with pytest.raises(InputError, match="share must be"):
        Part(0.0, BASE)
    with pytest.raises(InputError, match="prompt_tokens must be given"):
        blended(BASE, (Part(1.0, BASE.model_copy(update={"prompt_tokens": None})),))


def test_a_simulation_of_the_same_requests_takes_as_long() -> None:
    """Each request of one kind, by chance, in a server that both kinds fill: the mean of all
    within 5% of the law at half of the largest rate, and each kind's own."""
    s, parts = of((0.5, {"alpha": 0.9}), (0.5, {"alpha": 0.3}))
    rate = 0.5 * capacity(predict(s, parts)).speculative.most.value
    p = predict(s.model_copy(update={"request_rate": rate}), parts)
    traffic = poisson(rate, 1024, 256, requests=3000, seed=3)
    _, ours = served(p.endpoint, traffic)
    assert ours.found.tpot.mean() == pytest.approx(
        np.mean([own.tpot.value for own in each(p)]), rel=0.05
    )
    # Slow requests are the hard kind's, fast ones the easy kind's: their means, apart.
    times = np.sort(ours.found.tpot)
    easy, hard = (own.tpot.value for own in each(p))
    half = len(times) // 2
    assert times[:half].mean() == pytest.approx(easy, rel=0.08)
    assert times[half:].mean() == pytest.approx(hard, rel=0.08)


def test_several_promises_are_kept_where_each_is() -> None:
    """The largest rate within all of them is the least of those within each alone, and that one
    limits it; where one is met at no rate, none is."""
    p = predict(*TWO)
    server = server_of(p)
    promises = [Promise("tpot", 9e-3, 1), Promise("tpot", 6e-3, 0), Promise("ttft", 0.2, 1),
                Promise("e2e", 2.5, 1)]  # fmt: skip
    alone = [server.within([each]) for each in promises]
    rates = np.array([rate for rate, _ in alone])
    assert len(set(rates.argmin(axis=0))) > 1  # γ differ in what binds
    together, limits = server.within(promises)
    assert together == pytest.approx(rates.min(axis=0), rel=1e-6)
    least = [promises[at].name for at in rates.argmin(axis=0)]
    assert [limit for limit, rate in zip(limits, together, strict=True) if rate] == [
        name for name, rate in zip(least, together, strict=True) if rate]  # fmt: skip
    none, limits = server.within([*promises, Promise("tpot", 1e-4)])
    assert not none.any()
    assert {*limits} <= {"tpot", "ttft", "e2e"}
