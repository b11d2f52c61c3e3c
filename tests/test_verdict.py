"""The verdict: the rule of the design, its words, and what it says would flip it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from helpers.random_scenarios import scenarios
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specmath.checks import InputError
from specmath.drafts import Candidate, evaluate, published_t5
from specmath.predict import own_gammas, predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import revised
from specmath.speculation import decide
from specmath.words.answers import cost_sentence, kinds_sentence, step_sentence
from specmath.words.drafts import rank_drafts
from specmath.words.verdict import verdict


def of(**said: Any) -> Any:
    return verdict(predict(Scenario(**said)))


# ── the published example ────────────────────────────────────────────────────────────────────


def test_three_accepted_is_on_and_says_that_4_does_as_well() -> None:
    """160/72 = 2.22 at γ=4. Measured at 4, so up to 6: 2.276 at 5 is within 2% of 2.293 at 6. At 5
    a step of 2 plain steps may cost 2.51: 2.276 × 2/2.51 = 1.81."""
    answer = verdict(predict(EXAMPLE))
    assert (answer.action, answer.gamma) == ("raise", 5)
    assert answer.headline == "Turn it on at γ=5: 2.28× faster; γ=4 (2.22×) does as well."
    assert "does not show between two runs" in answer.reason
    assert answer.reason.startswith("From 1.81× to 2.28×. ")
    assert "verification and overhead, which you did not give" in answer.ground
    assert answer.flips.startswith("Where a step costs nothing besides drafting, it turns slower")
    used = verdict(predict(EXAMPLE.model_copy(update={"gamma": 5})))
    assert (used.action, used.headline) == ("use", "Turn it on at γ=5: 2.28× faster.")


def test_half_a_token_accepted_lowers_gamma_to_1_and_does_not_skip() -> None:
    """α = 0.336 and h = 0.05: 1.336/1.25 = 1.07 at γ=1, 1.5/1.85 = 0.811 at γ=4."""
    half = {"accepted_per_step": 0.5, "measured_gamma": 4}
    answer = verdict(predict(revised(EXAMPLE, {**half, "overhead": 0.05})))
    assert (answer.action, answer.gamma) == ("lower", 1)
    assert answer.headline == "Lower γ to 1: 1.07× faster instead of 19% slower at γ=4."
    assert "0.336" in answer.reason


def test_half_a_token_accepted_may_not_pay_at_a_step_that_nobody_timed() -> None:
    """γ=1 from 1.336/1.71 to 1.336/1.2; γ=4 at best 1.5/1.8 = 0.833."""
    answer = verdict(predict(revised(EXAMPLE, {"accepted_per_step": 0.5, "measured_gamma": 4})))
    assert answer.action == "measure"
    assert "γ=1, which risks least, gives 0.781× to 1.11×" in answer.reason
    assert answer.reason.endswith("γ=4 does not pay whatever it is: 17% slower at best.")


# ── the rule ─────────────────────────────────────────────────────────────────────────────────


Curves = tuple[list[float], list[float], list[float]]


def rule(curves: Curves, gamma: int | None) -> tuple[str, int]:
    """The design's words, one candidate after another."""
    centre, low, high = curves
    paying = [g for g in range(1, len(centre)) if low[g] > 1]
    if not paying:
        if max(high[1:]) <= 1:
            return "skip", 0
        return "measure", -1 if gamma is None else gamma
    best = max(centre[g] for g in paying)
    target = min(g for g in paying if centre[g] * 1.02 >= best)
    if gamma in (None, target):
        return "use", target
    return ("lower" if target < gamma else "raise"), target


@given(
    st.lists(
        st.tuples(st.floats(0.5, 2), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8
    ),
    st.none() | st.integers(0, 8),
)
def test_the_rule_of_the_design(later: list[tuple[float, float, float]], gamma: int | None) -> None:
    """Centres with ends below and above them; exactly on a bound rounding decides."""
    centre = [1.0, *(c for c, _, _ in later)]
    low = [1.0, *(c - down * 0.4 for c, down, _ in later)]
    high = [1.0, *(c + up * 0.4 for c, _, up in later)]
    assume(all(abs(v - 1) > 1e-9 for v in (*centre[1:], *low[1:], *high[1:])))
    assume(all(abs(a * 1.02 / b - 1) > 1e-9 for a in centre for b in centre))
    found = decide(np.array(centre), np.array(low), np.array(high), gamma, len(later))
    action, target = rule((centre, low, high), gamma)
    assert found.action == action
    assert target == -1 or found.gamma == target


@given(scenarios(gamma=st.none() | st.integers(0, 16)))
@settings(max_examples=80)
def test_what_is_advised_pays_at_its_low_end(scenario: Scenario) -> None:
    """Never a γ that the same page calls slower, and never one beyond what the cap allows."""
    try:
        p = predict(scenario)
    except InputError:
        assume(False)
    if p.decision.on:
        low = p.curve.walltime_improvement if p.curve.low is None else p.curve.low
        assert low[p.decision.gamma] > 1
        assert 1 <= p.decision.gamma <= p.endpoint.cap
    if scenario.gamma is None:
        assert p.gamma == p.decision.gamma
        assert p.decision.action in ("use", "skip", "measure")


def test_no_more_than_two_beyond_what_ran() -> None:
    """α = 0.97 and a free draft: the theorem has no end, the advice has."""
    assert predict(Scenario(alpha=0.97, c=0.0, gamma=1)).decision.gamma == 8
    ran = Scenario(tokens_per_step=3.9, measured_gamma=3, c=0.0, gamma=3)
    assert predict(ran).decision.gamma == 5
    rates = Scenario(rates=(0.97, 0.95), c=0.0, gamma=2)
    assert predict(rates).decision.gamma == 4
    assert predict(rates).optimal_gamma > 100


@pytest.mark.parametrize(
    ("said", "action", "gamma"),
    [
        ({"alpha": 0.1, "c": 0.1, "gamma": 4}, "skip", 0),  # Corollary 3.9: α ≤ c
        ({"alpha": 0.0, "c": 0.0, "gamma": 4}, "skip", 0),
        ({"alpha": 1.0, "c": 1.0, "gamma": 4}, "skip", 0),
        ({"alpha": 0.95, "c": 0.01, "gamma": 4, "sigma": 1}, "skip", 0),  # compute-bound
        ({"alpha": 0.9, "c": 0.02, "gamma": 1}, "raise", None),
        ({"alpha": 0.9, "c": 0.02, "gamma": 0}, "raise", None),
        ({"alpha": 0.3, "c": 0.1, "gamma": 9, "overhead": 0.05}, "lower", 1),
        ({"alpha": 0.3, "c": 0.1, "gamma": 9}, "measure", 9),  # 1.3/1.61 to 1.3/1.1 at γ=1
        ({"alpha": 1.0, "c": 0.0, "gamma": 16}, "lower", 8),
        ({"alpha": 0.8, "c": 0.1, "gamma": 5}, "use", 5),
    ],
)
def test_decisions_by_hand(said: dict[str, Any], action: str, gamma: int | None) -> None:
    answer = of(**said)
    assert answer.action == action
    assert gamma is None or answer.gamma == gamma


def test_the_crossover_never_decides() -> None:
    """α=0.42, γ=3 lies past its crossover (2), yet a free draft still pays."""
    p = predict(Scenario(alpha=0.42, c=0.0, gamma=4))
    assert p.crossover_gamma == 2
    assert verdict(p).action == "use"


def test_off_is_turned_on_with_words_for_it() -> None:
    assert of(alpha=0.8, c=0.1, gamma=0).headline.startswith("Turn it on with γ=5: 2.46× faster")


def test_a_gain_too_small_for_a_ratio_is_still_told() -> None:
    answer = of(alpha=0.205, c=0.1, gamma=1, overhead=0.1)
    assert answer.headline == "Turn it on at γ=1: 0.4% faster."


def test_the_fastest_gamma_is_named_with_why_it_is_not_advised() -> None:
    slower = of(alpha=0.8, c=0.1, gamma=5)
    assert slower.action == "use"
    assert "γ=6 is the fastest, 2.47×: too little more" in slower.reason
    beyond = of(tokens_per_step=3.9, measured_gamma=3, c=0.0, gamma=5)
    assert "supports advice beyond γ=5" in beyond.reason


# ── what flips it ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gamma", [1, 2, 4, 9])
@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("overhead", [0.0, 0.1])
def test_at_the_break_even_the_speedup_is_one(gamma: int, sigma: float, overhead: float) -> None:
    known = {"gamma": gamma, "sigma": sigma, "overhead": overhead, "c_hat": 0.02}
    p = predict(Scenario(alpha=0.7, c=0.1, **known))
    alpha, c, tokens = p.speculation.breakeven(gamma)
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
    known = {"sigma": sigma, "overhead": 0.05}
    answer = of(alpha=alpha, c=c, gamma=gamma, **known)

    def faster(at: int, **change: float) -> bool:
        said = {"alpha": alpha, "c": c, "gamma": at} | known | change
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
        (least,) = re.findall(rf"slower below α = {number} \(", answer.flips)
        above, below = float(least) * 1.01 + 1e-3, float(least) * 0.99 - 1e-3
        assert above > 1 or faster(answer.gamma, alpha=above)
        assert below < 0 or not faster(answer.gamma, alpha=below)


def test_a_draft_that_no_alpha_saves_is_told_so() -> None:
    assert of(alpha=0.5, c=1.0, gamma=1).flips == "It would pay if c falls below 0.500 (γ=1)."
    assert of(alpha=0.0, c=2.0, gamma=1).flips == "No α or c alone would make it pay."
    assert "α" not in of(alpha=1.0, c=1.0, gamma=1).flips, "no α rises above 1"


# ── unknowns ─────────────────────────────────────────────────────────────────────────────────


def test_what_may_not_pay_at_all_is_measured_first() -> None:
    """By hand: at γ=1 τ(0.5) = 1.5 against 1.6 + 0.51; at best τ(0.85, 4) = 3.71 against 1.08."""
    answer = of(alpha_low=0.5, alpha_high=0.85, c_low=0.02, c_high=0.6, gamma=4)
    assert answer.action == "measure"
    assert "α from 0.5 to 0.85" in answer.ground
    assert "c from 0.02 to 0.6" in answer.ground
    assert f"γ=1, which risks least, gives {1.5 / 2.11:.3f}×" in answer.reason
    assert "at the worst no γ pays" in answer.reason
    # 1.6/1.02 of the cost is more than 1.85/1.5 of the tokens.
    assert "What decides is the draft's cost" in answer.flips
    assert [command.startswith("python -m specmath measure") for _, command in answer.commands] == [
        True
    ]
    known = of(alpha_low=0.05, alpha_high=0.85, c=0.1, gamma=4, overhead=0.1)
    assert "What decides is acceptance: knowing it takes all" in known.flips
    assert dict(known.commands)["vLLM"].startswith("curl")


def test_ends_that_disagree_about_gamma_alone_are_on() -> None:
    """Whatever α and c within their ranges, γ=1 pays at h = 0.05: 1.5/1.3 at the worst."""
    ends = {"alpha_low": 0.5, "alpha_high": 0.85}
    said = {**ends, "draft_form": "range", "gamma": 4, "overhead": 0.05}
    answer = of(**said)
    assert answer.action == "lower"
    p = predict(Scenario(**said))
    assert p.curve.low is not None
    assert p.curve.low[1] == pytest.approx(1.5 / 1.3)
    assert p.curve.low[answer.gamma] > 1


def test_a_regime_that_is_not_known_is_measured_first() -> None:
    assert of(alpha=0.8, c=0.1, gamma=4, sigma=None).action == "measure"
    assert of(alpha=0.05, c=0.1, gamma=4, sigma=None).action == "skip"
    assert of(alpha=0.8, c=0.1, gamma=5, c_hat=None).action == "use", "ĉ does not matter at σ=0"


@given(scenarios(gamma=st.integers(0, 16)))
@settings(max_examples=80)
def test_an_answer_holds_at_every_end(scenario: Scenario) -> None:
    try:
        p = predict(scenario)
    except InputError:
        assume(False)
    answer, gammas = verdict(p), p.curve.gamma
    for corner in resolve(scenario).corners:
        speedups = corner.speedup(gammas)
        if answer.action == "skip":
            assert speedups[1 : p.endpoint.cap + 1].max() <= 1 + 1e-9
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
    """40 ms at $2.50/h is $27.8 a million, 18 ms $12.5: −55%; with 0.51 plain steps more 23.1 ms,
    $16.0: −42%. Compute-bound 5/4: +25%."""
    said = cost_sentence(predict(EXAMPLE))
    assert "$12.5 to $16.0 instead of $27.8 (−55% to −42%)" in said
    assert "+25%" in said
    assert "unknown" in cost_sentence(predict(Scenario(alpha=0.8, c=0.1, gamma=4)))


def test_what_one_gamma_costs_each_kind() -> None:
    """α 1 and 0 at c = 0.1, v = 1, γ ≤ 4: always accepted, γ=4 is best and a token takes 1.4/5
    steps, 1.2/3 at γ=2, 30% more; never accepted, plain decoding takes 1 and γ=2 1.2."""
    mixed = Scenario(mixture=((0.75, 1.0), (0.25, 0.0)), c=0.1, gamma=2, max_gamma=4)
    easy, hard = own_gammas(predict(mixed))
    assert (easy.share, easy.gamma, easy.less) == (0.75, 4, pytest.approx(1 - 1.4 / 5 / 0.4))
    assert (hard.share, hard.gamma, hard.less) == (0.25, 0, pytest.approx(1 - 1 / 1.2))
    said = kinds_sentence(predict(mixed))
    assert "kind 1 (75% of the tokens) would take γ=4, 30% less a token" in said
    assert "kind 2 (25% of the tokens) would take no draft, 17% less a token" in said
    assert kinds_sentence(predict(Scenario(alpha=0.8, c=0.1, gamma=2))) == ""
    same = ((0.5, 0.8), (0.5, 0.8))
    assert kinds_sentence(predict(Scenario(mixture=same, c=0.1))) == ""


def test_step_sentence_by_hand() -> None:
    """α = 0.5, γ = 1: L is 1 or 2 with one half each; mean 1.5, standard deviation 0.5."""
    said = step_sentence(predict(Scenario(alpha=0.5, gamma=1, c=0.1)))
    assert said.startswith("1.50 tokens a step in the mean, standard deviation 0.500.")
    assert "50% of the steps keep the whole draft, 50% none of it" in said


def test_advice_on_one_measured_gamma_says_what_it_assumes() -> None:
    """0.5 accepted of 4: lower γ to 1 rests on every position being accepted alike."""
    costs = {"gamma": 4, "target_ms": 40, "draft_ms": 8, "overhead": 0.05}
    known = Scenario(accepted_per_step=0.5, measured_gamma=4, **costs)
    assert "Acceptance is known at γ=4 only" in verdict(predict(known)).sentence()
    rates = Scenario(rates=(0.34, 0.11, 0.04, 0.01), **costs)
    assert "Acceptance is known" not in verdict(predict(rates)).sentence()


@pytest.mark.parametrize("rate", [2.0, 12.0, 20.0])
def test_in_an_open_loop_what_flips_it_does(rate: float) -> None:
    """A slower arm has more requests in a step: at the α that is named both take equally long,
    which the state as predicted, with its smaller batch, does not say."""
    served = {
        "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3", "prompt_tokens": 1024,
        "request_rate": rate,
    }  # fmt: skip
    found = predict(Scenario(alpha=0.8, **served))
    said = verdict(found)
    named = re.search(r"below α = (0\.\d+)", said.flips)
    assert named, said.flips
    there = predict(Scenario(alpha=float(named[1]), gamma=found.gamma, **served))
    assert there.walltime_improvement == pytest.approx(1.0, abs=0.005)
