"""Predictions against hand-worked cases, the paper's numbers and a simulated decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.random_scenarios import scenarios
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath.acceptance import IidAcceptance
from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.numbers import interval, ms
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import revised
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.speculation import Speculation, near_best
from specmath.stepcost import LinearStepCost
from specmath.steptime.prefill import prefill_seconds
from specmath.tables import TABLES, numbers_table
from specmath.words.answers import cost_sentence
from specmath.words.guidance import checklist, planning_ranges, rules
from specmath.words.notes import assumed, basis_words, notes
from specmath.words.verdict import verdict


def at(alpha: float, gamma: int, c: float = 0.0, **more: Any) -> Scenario:
    return Scenario(alpha=alpha, gamma=gamma, c=c, **more)


# ── published and hand-worked ────────────────────────────────────────────────────────────────


def test_the_example_by_hand() -> None:
    """Target 40 ms, draft 8 ms, γ=4: a step is 40 + 4·8 = 72 ms; 3 accepted emit 4 tokens."""
    p = predict(EXAMPLE)
    assert p.tokens_per_step == pytest.approx(4, rel=1e-12)
    assert p.step_cost * 40 == pytest.approx(72)
    assert p.speedup.value == pytest.approx(160 / 72, rel=1e-12)
    assert p.tpot is not None
    assert p.tpot.value == pytest.approx(0.018)
    assert p.usd is not None
    assert p.usd.value == pytest.approx(2.5 / 3600 * 0.018 * 1e6)
    assert (p.speedup.low, p.speedup.high) == pytest.approx((4 / (1.8 + 0.51), 160 / 72))
    assert "verification and overhead" in basis_words(p.speedup.basis)


@pytest.mark.parametrize(
    "said",
    [
        {"c": 0.2, "overhead": 0.1},
        {"c": 0.2, "sigma": 0.1},
        {"c": 0.2, "sigma": -0.01},
        {"c": 0.2, "verify_costs": (1.0, 1.0, 1.0, 1.0)},
        {"target_ms": 40.0, "draft_ms": 8.0, "run_gamma": 4, "run_ms": 20.0},
    ],
)
def test_what_a_step_costs_besides_drafting_is_closed_by_any_word_on_it(
    said: dict[str, Any],
) -> None:
    p = predict(Scenario(alpha=0.8, gamma=4, **said))
    assert p.speedup.low is None
    assert basis_words(p.speedup.basis) == "no error bar yet"
    assert not any("open" in word for word in assumed(p))


def test_what_a_step_costs_besides_drafting_is_open_upwards_where_nobody_said() -> None:
    """τ(0.5, γ=1) = 1.5 over 1.2 to 1.71; γ=0 is plain decoding, exactly."""
    p = predict(Scenario(alpha=0.5, c=0.2))
    assert p.decision.action == "measure"
    assert p.curve.low is not None
    assert p.curve.high is not None
    assert (p.curve.low[0], p.curve.high[0]) == (1, 1)
    assert (p.curve.low[1], p.curve.high[1]) == pytest.approx((1.5 / 1.71, 1.5 / 1.2))
    assert assumed(p)[0] == "Verification and overhead 0 to 0.51 plain steps a step, open"
    assert not any(word.startswith(("Overhead", "Verification slope")) for word in assumed(p))
    said = verdict(p)
    assert "verification and overhead, which you did not give, from 0 to 0.51" in said.ground
    assert "What decides is what a step costs besides drafting" in said.flips
    assert "Time one speculative step beside a plain one" in said.flips


def test_half_a_token_accepted_by_hand() -> None:
    """0.5 accepted: 1.5 tokens in 72 ms, 60/72 = 0.83×; α = 0.336, and γ=1 would give 1.11×."""
    p = predict(
        Scenario(accepted_per_step=0.5, measured_gamma=4, gamma=4, target_ms=40, draft_ms=8)
    )
    assert p.speedup.value == pytest.approx(60 / 72, rel=1e-12)
    assert p.alpha == pytest.approx(0.336, abs=0.0005)
    assert p.best_gamma == 1
    assert p.curve.walltime_improvement[1] == pytest.approx((1 + p.alpha) / 1.2)
    assert p.curve.walltime_improvement[1] == pytest.approx(1.11, abs=0.005)


@pytest.mark.parametrize(
    ("alpha", "gamma", "latency", "operations"),
    [
        (0.6, 3, 2.18, 1.84),
        (0.6, 7, 2.46, 3.25),
        (0.75, 7, 3.60, 2.22),
        (0.8, 7, 4.16, 1.92),
        (0.9, 3, 3.44, 1.16),
        (0.9, 7, 5.70, 1.40),
    ],
)
def test_a_free_draft(alpha: float, gamma: int, latency: float, operations: float) -> None:
    """Leviathan et al. 2023, Table 1: ĉ = c = 0."""
    p = predict(at(alpha, gamma))
    assert p.speedup.value == pytest.approx(latency, abs=0.005)
    assert p.operations.value == pytest.approx(operations, abs=0.005)


@pytest.mark.parametrize(("alpha", "percent"), [(0.6, 225), (0.75, 122), (0.9, 40)])
def test_compute_bound_latency_worsens_with_the_cost(alpha: float, percent: float) -> None:
    """Trap 9: at σ=1, ĉ=0, γ=7 both time and dollars per token rise by the operations factor."""
    p = predict(at(alpha, 7, 0.05, sigma=1, target_ms=30))
    assert p.tpot is not None
    assert p.tpot_plain is not None
    assert p.usd is not None
    assert p.usd_plain is not None
    assert 100 * (p.tpot.value / p.tpot_plain.value - 1) == pytest.approx(percent, abs=0.5)
    assert 100 * (p.usd.value / p.usd_plain.value - 1) == pytest.approx(percent, abs=0.5)
    assert p.best_gamma == 0, "compute-bound, every γ ≥ 1 costs more"


@pytest.mark.parametrize(
    ("alpha", "crossing", "before"),
    [
        (0.5, 3, (1.75, 1.71)),
        (0.6, 5, (2.31, 2.17)),
        (0.7, 10, (3.24, 3.09)),
        (0.8, 24, (4.98, 4.82)),
        (0.9, 99, None),
        (0.41, 1, (1.0, 1.0)),
        (0.42, 2, None),
    ],
)
def test_where_arithmetic_outgrows_speed(
    alpha: float, crossing: int, before: tuple[float, float] | None
) -> None:
    p = predict(at(alpha, 1, max_gamma=120))
    assert p.crossover_gamma == crossing
    curve = p.curve
    crossed = curve.operations_increase >= curve.walltime_improvement
    assert crossing == 1 + int(np.argmax(crossed[1:]))
    if before is not None:
        assert curve.walltime_improvement[crossing - 1] == pytest.approx(before[0], abs=0.005)
        assert curve.operations_increase[crossing - 1] == pytest.approx(before[1], abs=0.005)


def test_a_bigram_draft_gains_a_quarter_at_best() -> None:
    """α=0.2, c=0: τ < 1/(1−0.2) = 1.25 whatever γ."""
    speedups = predict(at(0.2, 1, max_gamma=256)).curve.walltime_improvement
    assert speedups.max() <= 1.25 * (1 + 1e-15)
    assert speedups[3] == pytest.approx(1.25, abs=0.005)


def test_half_accepted_at_gamma_four_bears_a_draft_below_0_234() -> None:
    """τ = 1 + 1/2 + 1/4 + 1/8 + 1/16 = 1.9375: slower only if 4c > 0.9375."""
    assert predict(at(0.5, 4)).tokens_per_step == 1.9375
    assert predict(at(0.5, 4, 0.234)).speedup.value > 1
    assert predict(at(0.5, 4, 0.235)).speedup.value < 1


@pytest.mark.parametrize(("c", "gamma"), [(0.02, 11), (0.05, 8), (0.1, 6), (0.2, 4)])
def test_the_best_gamma_at_0_8(c: float, gamma: int) -> None:
    p = predict(at(0.8, 1, c))
    assert p.best_gamma == p.optimal_gamma == gamma
    assert p.recommended_gamma <= gamma


# ── an independent method ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0])
def test_a_decoder_simulated_step_by_step_is_as_fast(sigma: float) -> None:
    """A clock that adds each part of a step, against the closed form."""
    alpha, gamma, c, c_hat, h, plain = 0.75, 5, 0.1, 0.02, 0.15, 0.04
    random, tokens, clock = np.random.default_rng(5), 0, 0.0
    for coins in random.random((60_000, gamma)):
        for coin in coins:
            if coin >= alpha:
                break
            tokens += 1
        tokens += 1
        clock += gamma * ((1 - sigma) * c + sigma * c_hat) * plain  # drafting
        clock += (1 + gamma * sigma) * plain  # one verification
        clock += h * plain
    p = predict(at(alpha, gamma, c, c_hat=c_hat, sigma=sigma, overhead=h, target_ms=40))
    assert p.tpot is not None
    assert clock / tokens == pytest.approx(p.tpot.value, rel=0.01)


@given(scenarios(gamma=st.integers(0, 20), low_sigma=0), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_every_case_within_the_unknown_lies_in_the_interval(
    scenario: Scenario, random: Any
) -> None:
    p = predict(scenario)
    low, high = p.speedup.low, p.speedup.high
    if low is None or high is None:
        assert len(resolve(scenario).corners) == 1
        return
    assert low <= p.speedup.value * (1 + 1e-12)
    assert p.speedup.value <= high * (1 + 1e-12)
    corner = p.speculation.cost
    for _ in range(5):
        acceptance = p.speculation.acceptance
        if scenario.alpha_low is not None and scenario.alpha_high is not None:
            acceptance = IidAcceptance(random.uniform(scenario.alpha_low, scenario.alpha_high))
        c = corner.c
        if scenario.c_low is not None and scenario.c_high is not None:
            c = random.uniform(scenario.c_low, scenario.c_high)
        c_hat = random.uniform(0, c) if scenario.c_hat is None else scenario.c_hat
        sigma = random.random() if scenario.sigma is None else scenario.sigma
        gamma, steps = scenario.gamma, LinearStepCost(c, c_hat, sigma, scenario.overhead)
        inside = float(Speculation(acceptance, steps).speedup(np.array(gamma)))
        if scenario.verify_form == "curve" and gamma:
            step = scenario.verify_costs[gamma - 1] + gamma * c + scenario.overhead
            inside = float(acceptance.tokens_per_step(gamma)) / step
        assert low * (1 - 1e-12) <= inside <= high * (1 + 1e-12)


@pytest.mark.parametrize(
    "said",
    [
        {"rates": (0.9, 0.7, 0.3)},
        {"rates": (0.5, 0.9, 0.9), "acceptance_form": "conditional"},
        {"mixture": ((0.3, 0.95), (0.7, 0.3))},
        {"alpha": 0.85},
    ],
)
@pytest.mark.parametrize("sigma", [0.0, 0.05, 1.0])
def test_optimum_and_crossover_by_brute_force(said: dict[str, Any], sigma: float) -> None:
    """One γ after another, in plain Python."""
    c, c_hat, h = 0.03, 0.01, 0.2
    p = predict(Scenario(gamma=3, c=c, c_hat=c_hat, sigma=sigma, overhead=h, **said))
    model, best, best_gamma, crossing = p.speculation.acceptance, 1.0, 0, 0
    for gamma in range(1, 400):
        tokens = float(np.sum(model.survival(gamma)))
        step = 1 + sigma * gamma + gamma * ((1 - sigma) * c + sigma * c_hat) + h
        if tokens / step > best * (1 + 1e-13):
            best, best_gamma = tokens / step, gamma
        operations = (gamma * c_hat + gamma + 1) / tokens
        if not crossing and operations >= tokens / step:
            crossing = gamma
    assert p.optimal_gamma == best_gamma
    assert p.crossover_gamma == crossing
    assert p.speedup.value == pytest.approx(p.curve.walltime_improvement[3])


def test_a_measured_curve_of_verification_by_brute_force() -> None:
    """A pass over 4 tokens cheaper than one over 2 or 3, as kernels do. α=0.8, c=0.1, h=0.05:
    γ=3 emits 2.952 tokens in 1.5+0.3+0.05, γ=1 1.8 in 1.6+0.1+0.05, γ=7 4.1611 in 1.8+0.7+0.05.
    """
    curve = (1.6, 1.9, 1.5, 1.7, 1.75, 1.9, 1.8)
    s = Scenario(alpha=0.8, gamma=3, c=0.1, verify_costs=curve, overhead=0.05, target_ms=40)
    p = predict(s)
    assert p.speedup.value == pytest.approx(2.952 / 1.85)
    speedups = [1.0] + [
        sum(0.8**i for i in range(g + 1)) / (v + g * 0.1 + 0.05) for g, v in enumerate(curve, 1)
    ]
    np.testing.assert_allclose(p.curve.walltime_improvement, speedups, rtol=1e-14)
    assert p.best_gamma == p.optimal_gamma == int(np.argmax(speedups)) == 7
    assert p.recommended_gamma == next(
        g for g, x in enumerate(speedups) if x >= 4.161 / 2.55 / 1.02
    )
    assert p.gamma == 3
    assert any("no larger γ is considered" in note for note in notes(p))
    assert "σ" not in " ".join(assumed(p))
    # The line through v(1) sees no dip: it would rank γ=1 and 2 above 3.
    line = predict(revised(s, {"sigma": 0.6}))
    assert line.scenario.verify_form == "slope"
    assert line.best_gamma < 3 <= p.recommended_gamma


def test_the_crossover_is_where_the_drawn_curves_cross() -> None:
    """α=0.8, c=0.1 on v = 1.05, 1.1, 1.2, 1.5, 1.9, 2.6: at γ=4 3.3616/1.9 = 1.77× against 5/3.3616
    = 1.49, at γ=5 3.68928/2.4 = 1.54× against 6/3.68928 = 1.63. Memory-bound it would be 10."""
    p = predict(at(0.8, 4, 0.1, verify_costs=(1.05, 1.1, 1.2, 1.5, 1.9, 2.6)))
    assert p.crossover_gamma == 5
    assert p.curve.walltime_improvement[5] == pytest.approx(3.68928 / 2.4)
    assert p.curve.operations_increase[5] == pytest.approx(6 / 3.68928)
    assert predict(at(0.8, 4, 0.1)).crossover_gamma == 10


def test_a_preset_says_where_it_is_from_and_times_are_not_costs() -> None:
    p = predict(Scenario(workload="creative", gamma=4, c=0.1))
    assert "published record: every draft × creative, n 25, 15 sources" in verdict(p).sentence()
    p = predict(at(0.8, 3, 0.1, verify_costs=(20.0, 21.0, 22.0)))
    assert any("divided by that of a plain step" in note for note in notes(p))


# ── what holds for every scenario ────────────────────────────────────────────────────────────


@given(scenarios(gamma=st.just(0)))
@settings(max_examples=60)
def test_plain_decoding_is_plain_decoding(scenario: Scenario) -> None:
    p = predict(scenario)
    assert p.speedup.value == p.operations.value == p.tokens_per_step == p.step_cost == 1
    for now, plain in ((p.usd, p.usd_plain), (p.tpot, p.tpot_plain)):
        assert (now and now.value) == (plain and plain.value)
    assert verdict(p).action in ("raise", "skip", "measure")


@given(scenarios())
@settings(max_examples=80)
def test_every_scenario_has_an_answer_or_a_named_fault(scenario: Scenario) -> None:
    if 1 + (scenario.sigma or 0.0) * (scenario.gamma or 0) <= 0:
        with pytest.raises(InputError, match=r"verify_cost must be > 0 .* sigma="):
            predict(scenario)
        return
    p = predict(scenario)
    assert p.best_gamma <= scenario.max_gamma
    assert p.recommended_gamma <= p.endpoint.cap
    assert (p.recommended_gamma == 0) == (verdict(p).action == "skip") or p.speedup.low is not None
    values = [v for v in p.to_dict().values() if isinstance(v, float)]
    assert np.all(np.isfinite(values))
    for text in (verdict(p).sentence(), cost_sentence(p)):
        assert "nan" not in text
        assert "None" not in text
    for part in (checklist(p), rules(p), planning_ranges(p)):
        assert "None" not in str([vars(item) for item in part]).replace("_low': None", "").replace(
            "_high': None", ""
        )


@given(scenarios(gamma=st.integers(0, 30), low_sigma=0))
@settings(max_examples=25)
def test_every_scenario_has_its_tables(scenario: Scenario) -> None:
    p = predict(scenario)
    for name in ("gamma", "regimes", "alpha_gamma", "crossover", "draft_cost"):
        assert TABLES[name](p).name == name


def test_near_best_is_the_smallest_gamma_that_loses_at_most_two_percent() -> None:
    assert near_best(np.array([1, 1.5, 1.97, 2.0, 1.9])) == 2
    assert near_best(np.array([1, 0.9, 0.8])) == 0
    assert near_best(np.array([1, 1.0, 1.0])) == 0
    assert near_best(np.array([1, 1.001, 1.015])) == 1, "plain decoding is no choice of γ"


def test_the_result_has_the_promised_names() -> None:
    names = predict(EXAMPLE).to_dict()
    assert {
        "alpha", "gamma", "c", "tokens_per_step", "walltime_improvement", "operations_increase",
        "optimal_gamma", "crossover_gamma",
    } <= names.keys()  # fmt: skip


def test_another_gamma_than_the_measured_one_is_said() -> None:
    (note,) = notes(predict(Scenario(accepted_per_step=3, measured_gamma=4, gamma=7, c=0.1)))
    assert "γ=4" in note
    assert "γ=7" in note
    assert notes(predict(EXAMPLE)) == ()


def test_a_gpu_for_the_draft_is_billed_only_with_a_draft() -> None:
    with_draft, without = (
        predict(at(0.8, g, 0.1, target_ms=40, tensor_parallel=2, draft_gpus=1)) for g in (4, 0)
    )
    assert without.usd is not None
    assert without.usd_plain is not None
    assert without.usd.value == without.usd_plain.value
    assert with_draft.usd is not None
    assert with_draft.usd_plain is not None
    assert with_draft.usd.value == pytest.approx(
        with_draft.usd_plain.value * 1.5 / with_draft.speedup.value
    )


def test_a_measured_verification_below_one_is_legal() -> None:
    p = predict(at(0.8, 4, 0.1, sigma=-0.025))
    assert p.curve.verify_cost[4] == pytest.approx(0.9)
    assert p.speedup.value == pytest.approx(3.3616 / 1.3)
    assert predict(at(0.5, 4, 0.1, sigma=-5e-324)).optimal_gamma == 2
    # One drafted token verified for 0.6: the search ends before v would reach 0.
    steep = predict(at(0.8, 1, 0.1, sigma=-0.4))
    assert steep.speedup.value == pytest.approx(1.8 / 0.7)
    assert steep.best_gamma <= 2
    with pytest.raises(InputError, match=r"verify_cost must be > 0 .* reaches 0 at gamma=2.5"):
        predict(at(0.8, 3, 0.1, sigma=-0.4))


# ── a whole request ──────────────────────────────────────────────────────────────────────────


def test_a_request_is_its_first_token_and_the_others() -> None:
    """By hand: 300 ms, then 255 tokens of 40 and of 18 ms."""
    p = predict(revised(EXAMPLE, {"ttft_ms": 300, "output_tokens": 256}))
    assert p.first_token is not None
    assert p.whole_request is not None
    assert [each.value for each in p.first_token] == [0.3, 0.3]
    expected = [0.3 + 255 * 0.040, 0.3 + 255 * 0.018]
    assert [each.value for each in p.whole_request] == pytest.approx(expected)
    rows = dict(
        zip(numbers_table(p).column("quantity").values, numbers_table(p).rows(), strict=True)
    )
    assert rows["Time to first token"]["plain"] == 300
    assert rows["Whole request"]["speculative"] == pytest.approx(expected[1] * 1e3)
    unknown = predict(EXAMPLE)
    assert unknown.first_token is None
    assert unknown.whole_request is None
    assert "Whole request" not in numbers_table(unknown).column("quantity").values


def test_alone_the_first_token_is_the_prefill_and_scales_with_a_measured_plain_time() -> None:
    """The drafter reads the prompt too; a server twice as slow reads it in twice the time."""
    s = Scenario(alpha=0.8, gamma=3, prompt_tokens=2000, **EXAMPLE_PAIR)
    p = predict(s)
    assert p.first_token is not None
    pair = p.endpoint.pair
    assert pair is not None
    expected = float(prefill_seconds(pair.place, 2000, 1, chunk_tokens=8192, cached_tokens=0))
    expected += pair.plain_seconds
    assert p.first_token[0].value == pytest.approx(expected)
    assert p.first_token[1].value > p.first_token[0].value
    assert p.tpot_plain is not None
    slow = predict(revised(s, {"target_ms": 2e3 * p.tpot_plain.value}))
    assert slow.first_token is not None
    assert slow.first_token[0].value == pytest.approx(2 * p.first_token[0].value)
    named = numbers_table(p).column("quantity").values
    assert "Time to first token, at least" in named
    assert any("1.6 to 17 times as long" in each for each in notes(p))


def test_ends_that_read_alike_are_one_number() -> None:
    assert interval(Estimate.between(2.0, 1.9999, 2.0001), ms) == ms(2.0)
    assert interval(Estimate.between(2.0, 1.5, 3.0), ms) == f"{ms(1.5)} to {ms(3.0)}"
    assert interval(None, ms) == "unknown"
