"""The verdict: the rule of the design, its words, and what it says would flip it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_scenarios import scenarios

from specmath.candidates import Candidate, evaluate, published_t5
from specmath.checks import InputError
from specmath.halves import ends
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import revised
from specmath.sentences import cost_sentence, rank_drafts, step_sentence
from specmath.verdict import breakeven, decide, verdict


def of(**said: Any) -> Any:
    return verdict(predict(Scenario(**said)))


# ── the published example ────────────────────────────────────────────────────────────────────


def test_three_accepted_is_used() -> None:
    answer = verdict(predict(EXAMPLE))
    assert (answer.action, answer.gamma) == ("use", 4)
    assert answer.headline == "Turn it on at γ=4: 2.22× faster."
    assert "4.00 tokens" in answer.reason
    assert "1.80 plain steps" in answer.reason
    assert "No error bar yet" in answer.flips


def test_half_a_token_accepted_lowers_gamma_to_1_and_does_not_skip() -> None:
    answer = verdict(predict(revised(EXAMPLE, {"accepted_per_step": 0.5, "measured_gamma": 4})))
    assert (answer.action, answer.gamma) == ("lower", 1)
    assert answer.headline == "Lower γ to 1: 1.11× faster instead of 17% slower at γ=4."
    assert "0.336" in answer.reason


# ── the rule ─────────────────────────────────────────────────────────────────────────────────


def rule(speedups: list[float], gamma: int) -> tuple[str, int]:
    """The design's words, one candidate after another."""
    best = max(speedups[1:])
    if best <= 1:
        return "skip", 0
    for target, value in enumerate(speedups):
        if target and value > 1 and value * 1.02 >= best:
            break
    current = speedups[gamma]
    if target == gamma or (value <= 1.03 * current and current > 1):
        return "use", gamma
    return ("lower" if target < gamma else "raise"), target


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=8), st.data())
def test_the_rule_of_the_design(later: list[float], data: Any) -> None:
    later = [value if abs(value - 1) > 1e-9 else 1.0 for value in later]
    speedups = [1.0, *later]
    gamma = data.draw(st.integers(0, len(later)))
    # Exactly on a bound rounding decides.
    best = max(later)
    assume(all(abs(v * 1.02 / best - 1) > 1e-9 for v in later))
    assume(all(abs(v / (1.03 * speedups[gamma]) - 1) > 1e-9 for v in later))
    found = decide(np.array(speedups), gamma, len(later))
    assert (found.action, found.gamma) == rule(speedups, gamma)


@pytest.mark.parametrize(
    ("said", "action", "gamma"),
    [
        ({"alpha": 0.1, "c": 0.1, "gamma": 4}, "skip", 0),  # Corollary 3.9: α ≤ c
        ({"alpha": 0.0, "c": 0.0, "gamma": 4}, "skip", 0),
        ({"alpha": 1.0, "c": 1.0, "gamma": 4}, "skip", 0),
        ({"alpha": 0.95, "c": 0.01, "gamma": 4, "sigma": 1}, "skip", 0),  # compute-bound
        ({"alpha": 0.9, "c": 0.02, "gamma": 1}, "raise", None),
        ({"alpha": 0.9, "c": 0.02, "gamma": 0}, "raise", None),
        ({"alpha": 0.3, "c": 0.1, "gamma": 9}, "lower", None),
        ({"alpha": 1.0, "c": 0.0, "gamma": 16}, "use", 16),
        ({"alpha": 0.8, "c": 0.1, "gamma": 5}, "use", 5),
    ],
)
def test_decisions_by_hand(said: dict[str, Any], action: str, gamma: int | None) -> None:
    answer = of(**said)
    assert answer.action == action
    assert gamma is None or answer.gamma == gamma


def test_the_crossover_never_decides() -> None:
    """α=0.42, γ=3 lies past its crossover (2), yet a free draft still pays."""
    p = predict(Scenario(alpha=0.42, c=0.0, gamma=3))
    assert p.crossover_gamma == 2
    assert verdict(p).action == "use"


def test_off_is_turned_on_with_words_for_it() -> None:
    assert of(alpha=0.8, c=0.1, gamma=0).headline.startswith("Turn it on with γ=5: 2.46× faster")


def test_a_gain_too_small_for_a_ratio_is_still_told() -> None:
    answer = of(alpha=0.205, c=0.2, gamma=1)
    assert answer.headline == "Turn it on at γ=1: 0.4% faster."


def test_the_best_gamma_is_named_only_where_it_is_better() -> None:
    better = of(alpha=0.99, c=0.0, gamma=20, max_gamma=16)
    assert better.action == "use"
    assert "best γ" not in better.reason
    assert "The best γ is 6" in verdict(predict(EXAMPLE)).reason


# ── what flips it ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gamma", [1, 2, 4, 9])
@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("overhead", [0.0, 0.1])
def test_at_the_break_even_the_speedup_is_one(gamma: int, sigma: float, overhead: float) -> None:
    known = {"gamma": gamma, "sigma": sigma, "overhead": overhead, "c_hat": 0.02}
    p = predict(Scenario(alpha=0.7, c=0.1, **known))
    alpha, c, tokens = breakeven(p, gamma)
    assert tokens == pytest.approx(p.step_cost)
    if alpha is not None:
        assert predict(Scenario(alpha=alpha, c=0.1, **known)).speedup.value == pytest.approx(1)
    if c is not None:
        assert predict(Scenario(alpha=0.7, c=c, **known)).speedup.value == pytest.approx(1)
    else:
        assert predict(Scenario(alpha=0.7, c=0.0, **known)).speedup.value < 1


@given(
    st.floats(0.05, 0.99), st.floats(0, 1.2), st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.4])
)
@settings(max_examples=60)
def test_what_the_words_say_flips_it_does(alpha: float, c: float, gamma: int, sigma: float) -> None:
    """Read the numbers out of the sentence and try both sides of each."""
    answer = of(alpha=alpha, c=c, gamma=gamma, sigma=sigma)

    def faster(at: int, **change: float) -> bool:
        said = {"alpha": alpha, "c": c, "gamma": at, "sigma": sigma} | change
        return predict(Scenario(**said)).speedup.value > 1

    number = r"([\d.]+(?:e-?\d+)?)"
    # Three printed digits: step past what rounding hides.
    if answer.action == "skip":
        for least, at in re.findall(rf"α rises above {number} \(γ=(\d+)\)", answer.flips):
            above, below = float(least) * 1.01 + 1e-3, float(least) * 0.99 - 1e-3
            assert above > 1 or faster(int(at), alpha=above)
            assert below < 0 or not faster(int(at), alpha=below)
        for most, at in re.findall(rf"c falls below {number} \(γ=(\d+)\)", answer.flips):
            below, above = float(most) * 0.99 - 1e-3, float(most) * 1.01 + 1e-3
            assert below < 0 or faster(int(at), c=below)
            assert not faster(int(at), c=above)
    else:
        (least,) = re.findall(rf"while α ≥ {number}", answer.flips)
        above, below = float(least) * 1.01 + 1e-3, float(least) * 0.99 - 1e-3
        assert above > 1 or faster(answer.gamma, alpha=above)
        assert below < 0 or not faster(answer.gamma, alpha=below)


def test_a_draft_that_no_alpha_saves_is_told_so() -> None:
    assert of(alpha=0.5, c=1.0, gamma=1).flips == "It would pay if c falls below 0.500 (γ=1)."
    assert of(alpha=0.0, c=2.0, gamma=1).flips == "No α or c alone would make it pay."
    assert "α" not in of(alpha=1.0, c=1.0, gamma=1).flips, "no α rises above 1"


# ── unknowns ─────────────────────────────────────────────────────────────────────────────────


def test_ends_that_disagree_are_measured_first() -> None:
    answer = of(acceptance_form="range", draft_form="range", gamma=4)
    assert answer.action == "measure"
    assert "α from 0.5 to 0.85" in answer.reason
    assert "c from 0.02 to 0.25" in answer.reason
    # The ends by hand: τ(0.5,4)/(1+4·0.25) and τ(0.85,4)/(1+4·0.02).
    assert f"{1.9375 / 2:.3f}×" in answer.reason
    assert f"{(1 - 0.85**5) / 0.15 / 1.08:.2f}×" in answer.reason
    assert dict(answer.commands)["vLLM"].startswith("curl")


def test_a_regime_that_is_not_known_is_measured_first() -> None:
    assert of(alpha=0.8, c=0.1, gamma=4, sigma=None).action == "measure"
    assert of(alpha=0.05, c=0.1, gamma=4, sigma=None).action == "skip"
    assert of(alpha=0.8, c=0.1, gamma=5, c_hat=None).action == "use", "ĉ does not matter at σ=0"


def test_an_interval_that_straddles_one_is_never_a_use() -> None:
    answer = of(alpha_low=0.2, alpha_high=0.8, c=0.3, gamma=3)
    assert answer.action == "measure"
    assert "does not pay" in answer.reason


@given(scenarios(gamma=st.integers(0, 16)))
@settings(max_examples=80)
def test_an_answer_holds_at_every_end(scenario: Scenario) -> None:
    try:
        p = predict(scenario)
    except InputError:
        assume(False)
    answer, gammas = verdict(p), p.curve.gamma
    for halves in ends(scenario):
        speedups = halves.speedup(gammas)
        if answer.action == "skip":
            assert speedups[1 : scenario.max_gamma + 1].max() <= 1 + 1e-9
        if answer.action == "use":
            assert speedups[answer.gamma] > 1
    assert answer.headline
    assert answer.reason
    assert (answer.action == "measure") == bool(answer.commands)


# ── other pages ──────────────────────────────────────────────────────────────────────────────


def test_the_theorem_and_the_measurements_rank_differently() -> None:
    """T5-XXL: the theorem puts T5-base first, T5-small was fastest (3.4×)."""
    said = rank_drafts(evaluate(published_t5()))
    assert said.startswith("T5-base is fastest by the theorem")
    assert "T5-small was fastest (3.40×)" in said


def test_drafts_that_do_not_pay_and_drafts_not_measured() -> None:
    assert rank_drafts(evaluate([Candidate("slow", 0.3, 0.4, 2)])).startswith("None of these")
    said = rank_drafts(evaluate([Candidate("a", 0.8, 0.1, 2), Candidate("b", 0.8, 0.05, 2)]))
    assert said.startswith("b is fastest by the theorem")
    assert "measured" not in said


def test_cost_in_a_sentence() -> None:
    """40 ms at $2.50/h is $27.8 a million, 18 ms $12.5: −55%; compute-bound 5/4: +25%."""
    said = cost_sentence(predict(EXAMPLE))
    assert "$12.5 instead of $27.8" in said
    assert "−55%" in said
    assert "+25%" in said
    assert "unknown" in cost_sentence(predict(Scenario(alpha=0.8, c=0.1, gamma=4)))


def test_step_sentence_by_hand() -> None:
    """α = 0.5, γ = 1: L is 1 or 2 with one half each; mean 1.5, standard deviation 0.5."""
    said = step_sentence(predict(Scenario(alpha=0.5, gamma=1, c=0.1)))
    assert said.startswith("1.50 tokens a step in the mean, standard deviation 0.500.")
    assert "50% of the steps keep the whole draft, 50% none of it" in said


def test_advice_on_one_measured_gamma_says_what_it_assumes() -> None:
    """0.5 accepted of 4: lower γ to 1 rests on every position being accepted alike."""
    known = Scenario(accepted_per_step=0.5, measured_gamma=4, gamma=4, target_ms=40, draft_ms=8)
    assert "Acceptance is known at γ=4 only" in verdict(predict(known)).sentence()
    rates = Scenario(rates=(0.34, 0.11, 0.04, 0.01), gamma=4, target_ms=40, draft_ms=8)
    assert "Acceptance is known" not in verdict(predict(rates)).sentence()
