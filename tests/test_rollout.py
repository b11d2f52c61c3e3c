"""How many requests show a change, what is expected of a trial, and what review makes of it."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np
import pytest
import tomli_w
from helpers.random_scenarios import scenarios
from helpers.readings import make_reading
from hypothesis import given, settings
from scipy import stats

from specmath.checks import InputError
from specmath.logs import Reading, read_run
from specmath.logs.exported import exported
from specmath.predict import predict
from specmath.review.before_after import Review, review
from specmath.review.drift_causes import RULES
from specmath.review.planned import held, reading_of
from specmath.rollout import QUANTITIES, Rollout, rollout
from specmath.rollout.file import from_file, is_rollout, to_file
from specmath.rollout.samples import power_of, quantile_requests, requests_needed
from specmath.scenario import Scenario
from specmath.scenario.files import from_toml
from specmath.tables.rollout import (
    checklist_table,
    exported_table,
    held_table,
    requests_table,
    stop_table,
)
from specmath.words.review import review_said, review_warnings
from specmath.words.rollout import rollout_notes, rollout_sentence, stopped_words

GIVEN: dict[str, Any] = {"alpha": 0.8, "c": 0.1, "overhead": 0.1, "gamma": 4, "target_ms": 40}
SERVED: dict[str, Any] = {
    "alpha": 0.7, "gamma": 3, "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3",
    "prompt_tokens": 1024, "concurrency": 32,
}  # fmt: skip


def of(*, cv: float | None = None, power: float = 0.8, **said: Any) -> Rollout:
    return rollout(predict(Scenario(**said)), cv=cv, power=power)


# ── how many requests ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("effect", "arms", "requests"),
    [(0.2, 2, 394), (0.5, 2, 64), (0.8, 2, 26), (0.2, 1, 199), (0.5, 1, 34), (0.8, 1, 15)],
)
def test_as_in_the_textbook(effect: float, arms: int, requests: int) -> None:
    """Cohen 1988, t tests of two means and of one, two-sided 5%, power 80%."""
    assert requests_needed(math.exp(effect), float(arms == 2), 1.0) == requests


@pytest.mark.parametrize("n", [2, 3, 10, 64, 500])
@pytest.mark.parametrize("effect", [0.1, 0.5, 1.0])
def test_power_is_of_the_noncentral_t(n: int, effect: float) -> None:
    free, away = 2 * n - 2, effect * math.sqrt(n / 2)
    limit = stats.t.ppf(0.975, free)
    theirs = stats.nct.sf(limit, free, away) + stats.nct.cdf(-limit, free, away)
    assert power_of(n, math.exp(effect), 1.0, 1.0) == pytest.approx(theirs, abs=2e-6)


@pytest.mark.parametrize(
    ("ratio", "before", "after"), [(1.1, 0.2, 0.2), (1.3, 0.1, 0.5), (0.9, 0.3, 0.05)]
)
def test_the_power_is_that_of_trials(ratio: float, before: float, after: float) -> None:
    """20,000 trials of skewed requests (gamma distributed), judged by Welch's t test of the log
    means with the spread that each trial shows."""
    n = requests_needed(ratio, before, after)
    assert n is not None
    rng = np.random.default_rng(7)
    trials = 20_000

    def arm(mean: float, v: float) -> tuple[np.ndarray, np.ndarray]:
        sample = rng.gamma(1 / v**2, mean * v**2, size=(trials, n))
        average = sample.mean(axis=1)
        return np.log(average), sample.var(axis=1, ddof=1) / n / average**2

    (first, one), (last, other) = arm(ratio, before), arm(1.0, after)
    free = (one + other) ** 2 / ((one**2 + other**2) / (n - 1))
    seen = np.abs(first - last) / np.sqrt(one + other) > stats.t.ppf(0.975, free)
    assert 0.775 < seen.mean() < 0.835


def test_four_times_as_many_for_half_the_change() -> None:
    counts = [requests_needed(1.0 + d, 0.3, 0.3) for d in (0.02, 0.01, 0.005)]
    assert counts[1] / counts[0] == pytest.approx(4.0, rel=0.015)  # type: ignore[operator]
    assert counts[2] / counts[1] == pytest.approx(4.0, rel=0.01)  # type: ignore[operator]
    assert counts[2] == pytest.approx(2 * 0.3**2 * 7.849 / 0.005**2, rel=0.01)


def test_edges_of_the_count() -> None:
    assert requests_needed(1.3, 0.4, 0.4) == requests_needed(1 / 1.3, 0.4, 0.4)
    assert requests_needed(1.0, 0.3, 0.3) is None
    assert requests_needed(1.5, 0.0, 0.0) == 2
    for n in range(2, 30):
        needed = requests_needed(1.2, 0.1, 0.1 * n)
        assert needed is not None
        assert power_of(needed, 1.2, 0.1, 0.1 * n) >= 0.8
        assert needed == 2 or power_of(needed - 1, 1.2, 0.1, 0.1 * n) < 0.8
    for wrong in ({"ratio": 0.0}, {"before": -1.0}, {"power": 0.4}, {"power": 1.0},
                  {"significance": 0.0}, {"significance": 0.7}, {"ratio": math.nan}):  # fmt: skip
        with pytest.raises(InputError, match=next(iter(wrong))):
            requests_needed(**{"ratio": 1.2, "before": 0.3, "after": 0.3} | wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_a_quantile_has_an_upper_end_where_not_all_may_be_below(level: float) -> None:
    n = quantile_requests(level)
    assert stats.binom.pmf(n, n, level) <= 0.025 < stats.binom.pmf(n - 1, n - 1, level)


# ── what is expected ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said",
    [GIVEN, SERVED, SERVED | {"concurrency": None, "batch": 16}, GIVEN | {"ttft_ms": 300},
     SERVED | {"concurrency": None, "request_rate": 2.0}],
)  # fmt: skip
def test_what_is_expected_is_what_is_predicted(said: dict[str, Any]) -> None:
    p, found = predict(Scenario(**said)), of(**said)
    pairs = {"tpot": (p.tpot_plain, p.tpot), "ttft": p.first_token, "e2e": p.whole_request}
    for name, pair in pairs.items():
        assert (name in found.expected) == (pair is not None)
        if pair is not None and name in found.expected:
            told = found.expected[name]  # type: ignore[index]
            for mine, theirs in zip((told.plain, told.speculative), pair, strict=True):
                assert theirs is not None
                assert (mine.value, mine.low, mine.high) == (theirs.value, theirs.low, theirs.high)
    assert found.speedup.low == p.speedup.low
    rate = found.expected.get("tokens_per_second")
    assert (rate is None) == (said is GIVEN or "ttft_ms" in said or "request_rate" in said)
    if rate is not None:
        assert p.tpot is not None
        assert rate.speculative.value == float(p.endpoint.throughput(p.tpot.value, p.gamma))


def test_the_spread_is_that_of_sampled_requests() -> None:
    """α = 0.8, γ = 4: how many steps 255 tokens take, sampled."""
    found = of(**GIVEN)
    rng = np.random.default_rng(3)
    drawn = (rng.random((4000, 260, 4)) < 0.8).cumprod(axis=2).sum(axis=2) + 1
    steps = (drawn.cumsum(axis=1) < 255).sum(axis=1) + 1
    assert found.variation[0] == 0.0
    assert found.variation[1] == pytest.approx(steps.std() / steps.mean(), rel=0.04)
    assert found.steps_variation == pytest.approx(found.variation[1])
    assert of(**GIVEN | {"alpha": 1.0}).variation == (0.0, 0.0)


def test_a_measured_spread_stands_in_both_arms_and_acceptance_adds() -> None:
    least, found = of(**GIVEN), of(cv=0.3, **GIVEN)
    assert found.variation[0] == 0.3
    assert found.variation[1] ** 2 == pytest.approx(0.3**2 + least.variation[1] ** 2)
    assert (least.measured, found.measured) == (False, True)
    assert least.requests is not None
    assert found.requests is not None
    assert of(cv=2.0, **GIVEN).requests > least.requests
    # Never less than what prompts alone give.
    busy = of(**SERVED)
    assert of(cv=1e-3, **SERVED).variation == busy.variation
    assert busy.variation[0] > 0.0


def test_a_mixture_of_requests_needs_more() -> None:
    mixed = of(**GIVEN | {"alpha": None, "acceptance_form": "mixture",
                          "mixture": ((0.5, 0.95), (0.5, 0.5))})  # fmt: skip
    assert not mixed.alike
    assert mixed.variation[1] > 4 * of(**GIVEN).variation[1]


def test_break_even_by_hand() -> None:
    """s(4) = 1 + 0.1 + 4 × 0.1; of half the steps drafted the same, because κ cancels; where only
    c is given, a step may cost to 0.51 more."""
    assert of(**GIVEN).breakeven.value == pytest.approx(1.5)
    assert of(**GIVEN | {"coverage": 0.5}).breakeven.value == pytest.approx(1.5)
    opened = of(**{k: v for k, v in GIVEN.items() if k != "overhead"}).breakeven
    assert (opened.low, opened.high) == pytest.approx((1.4, 1.91))


@pytest.mark.parametrize(
    "said",
    [
        GIVEN,
        GIVEN | {"coverage": 0.6},
        GIVEN | {"prefill_share": 0.3, "batch": 8},
        SERVED,
        SERVED | {"concurrency": None, "batch": 32},
        SERVED | {"concurrency": None, "request_rate": 12.0},
        SERVED | {"concurrency": None, "request_rate": 6.0, "draft": "ngram", "coverage": 0.5},
        SERVED | {"arrivals": "one_wave"},
    ],
)
def test_at_break_even_nothing_is_gained(said: dict[str, Any]) -> None:
    """Also where the load follows the speed: fewer tokens a step, more requests in it."""
    least = of(**said).breakeven
    again = {k: v for k, v in said.items() if k != "alpha"}
    at = predict(Scenario(tokens_per_step=least.value, measured_gamma=said["gamma"], **again))
    assert at.speedup.value == pytest.approx(1.0, abs=1e-6)
    if least.low is not None:
        assert least.low <= least.value <= (least.high or 0.0)


def test_the_smallest_change_and_where_there_is_none() -> None:
    found = of(cv=0.3, **SERVED)
    assert found.smallest == found.speedup.low
    assert found.requests_smallest == found.needed(float(found.speedup.low))  # type: ignore[arg-type]
    slower = of(cv=0.3, **GIVEN | {"alpha": 0.1})
    assert slower.speedup.value < 1.0
    assert slower.smallest == slower.speedup.value
    opened = of(cv=0.3, alpha_low=0.1, alpha_high=0.9, c=0.2, gamma=4)
    assert opened.smallest is None
    assert opened.requests_smallest is None
    assert "includes 1×" in rollout_sentence(opened)
    nothing = of(cv=0.3, alpha=0.2, c=0.2, gamma=1, overhead=1e-300)
    assert nothing.requests is None
    assert "nothing to show" in rollout_sentence(nothing)


def test_no_fewer_than_30_are_told_wherever_the_number_stands() -> None:
    """The test alone would be content with a handful; beyond the floor it says how many."""
    found = of(**SERVED)
    small = requests_needed(found.speedup.value, *found.variation)
    assert small is not None
    assert small < 30 == found.requests == found.requests_smallest
    assert 30 < found.tested(1.01, 0.2, 0.2) == requests_needed(1.01, 0.2, 0.2)
    assert found.tested(1.0, 0.2, 0.2) is None
    assert requests_table(found).column("requests").values == (30, 30)
    assert "at least 30 requests in each arm" in rollout_sentence(found)
    assert any(note.startswith("At least 30 requests") for note in rollout_notes(found))


def test_stop_rules() -> None:
    found = of(**SERVED)
    table = stop_table(found)
    assert table.column("limit").values[0] == found.breakeven.value
    assert table.column("limit").values[1] == 1e3 * found.expected["tpot"].plain.value
    assert table.column("side").values[:2] == ("below", "above")
    needed = requests_needed(
        found.expected["tokens_per_step"].speculative.value / found.breakeven.value,
        0.0, found.steps_variation,
    )  # fmt: skip
    assert needed is not None
    assert found.stop_requests == max(30, needed)
    hopeless = of(**GIVEN | {"c": 1.5})
    assert hopeless.stop_requests is None
    assert any("No tokens per step are enough" in note for note in rollout_notes(hopeless))


def test_words_say_what_the_numbers_are() -> None:
    least, found = of(**SERVED), of(cv=0.3, **SERVED)
    assert f"at least {least.requests} requests" in rollout_sentence(least)
    assert f" {found.requests} requests in each arm" in rollout_sentence(found)
    assert "at least" not in rollout_sentence(found)
    assert "the least that it can be" in rollout_notes(least)[0]
    assert "30.0%" in rollout_notes(found)[0]
    assert checklist_table(found).column("unit").values[0] == "ms"


@pytest.mark.parametrize(
    ("said", "options", "words"),
    [
        (GIVEN | {"gamma": 0}, {}, ["gamma", ">= 1", "0"]),
        (GIVEN, {"power": 1.5}, ["power", "0.9999", "1.5"]),
        (GIVEN, {"significance": 0}, ["significance", "> 0"]),
        (GIVEN, {"cv": 0}, ["cv", "> 0"]),
        (GIVEN, {"cv": 11}, ["cv", "<= 10"]),
        (GIVEN | {"output_tokens": 1}, {}, ["output_tokens", ">= 2"]),
        (SERVED | {"concurrency": None, "request_rate": 500.0}, {}, ["request_rate"]),
    ],
)
def test_refusals(said: dict[str, Any], options: dict[str, float], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        rollout(predict(Scenario(**said)), **options)
    assert all(word in str(caught.value) for word in words), caught.value


# ── what engines export ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp"])
def test_a_page_of_the_named_metrics_is_read_as_what_they_tell(engine: str) -> None:
    """0.02 s a token, 0.5 s to the first, 4 s a request, 7 running, 3 waiting."""
    means = {"tpot": 0.02, "ttft": 0.5, "e2e": 4.0}
    levels = {"running": 7.0, "waiting": 3.0}
    mine = [each for each in exported() if each.engine == engine]
    assert len({each.tells for each in mine}) == len(mine)
    lines = []
    for each in mine:
        if each.tells in means:
            lines += [f"{each.name}_sum {100 * means[each.tells]}", f"{each.name}_count 100"]
        elif each.tells in levels:
            lines.append(f"{each.name} {levels[each.tells]}")
    if engine == "llama.cpp":  # its page tells no time: it is read where something was drafted
        lines += [f"llamacpp:spec_decode_num_{name}_total {value}" for name, value in
                  (("drafts", 100), ("draft_tokens", 300), ("accepted_tokens", 180))]  # fmt: skip
    (reading,) = read_run("\n".join(lines))
    assert reading.engine == engine
    service = reading.service
    assert (service.running, service.waiting) == (7.0, 3.0)
    for name in {each.tells for each in mine} & means.keys():
        assert getattr(service, name).mean == pytest.approx(means[name])


def test_metrics_are_those_of_the_scenarios_engine() -> None:
    every = exported_table(of(**GIVEN)).rows()
    assert {row["engine"] for row in every} == {*RULES, "tensorrt-llm"}
    one = exported_table(of(**SERVED | {"engine": "sglang"})).rows()
    assert {row["engine"] for row in one} == {"sglang"}
    assert any("sglang:spec_accept_length" in str(row["metric"]) for row in one)


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def numbers(found: Rollout) -> list[float]:
    """nan where there is no end."""
    each = [found.speedup, found.breakeven]
    each += [arm for both in found.expected.values() for arm in (both.plain, both.speculative)]
    ends = [value for number in each for value in (number.value, number.low, number.high)]
    return [math.nan if value is None else value for value in ends]


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_any_rollout_reads_back(scenario: Scenario) -> None:
    try:
        found = rollout(predict(scenario))
        rollout_sentence(found)
    except InputError:
        return
    again = from_file(to_file(found))
    assert again.scenario == found.scenario
    assert numbers(again) == pytest.approx(numbers(found), rel=1e-12, nan_ok=True)
    assert (again.requests, again.gamma) == (found.requests, found.gamma)
    assert (again.measured, again.alike) == (found.measured, found.alike)


def test_the_file_is_a_scenario_too() -> None:
    found = of(**SERVED)
    text = to_file(found)
    assert is_rollout(text[:64])
    assert from_toml(text) == found.scenario


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("rollout"), ["[rollout]", "none"]),
        (lambda t: t["rollout"].pop("spread"), ["rollout.spread", "none"]),
        (lambda t: t["rollout"].pop("gamma"), ["rollout", "gamma"]),
        (lambda t: t["rollout"].update(gamma=0), ["rollout.gamma", ">= 1", "0"]),
        (lambda t: t["rollout"]["speedup"].update(value=-1.0), ["rollout.speedup.value", "-1"]),
        (lambda t: t["rollout"]["speedup"].update(low=9.0), ["rollout.speedup", "low <= value"]),
        (lambda t: t["rollout"]["speedup"].pop("value"), ["rollout.speedup", "value"]),
        (lambda t: t["rollout"]["expected"].update(tpot=3), ["tpot_ms", "'tpot'"]),
        (lambda t: t["rollout"]["expected"].pop("tokens_per_step"), ["tokens_per_step"]),
        (lambda t: t["rollout"]["expected"]["tpot_ms"].update(plain=40), ["tpot_ms.plain", "40"]),
        (lambda t: t["rollout"].update(power="high"), ["rollout.power", "high"]),
        (lambda t: t["rollout"].update(expected=[1]), ["rollout.expected", "[1]"]),
    ],
)  # fmt: skip
def test_a_file_at_fault_is_refused_in_a_sentence(change: Any, words: list[str]) -> None:
    table = tomllib.loads(to_file(of(**GIVEN | {"overhead": 0.0})))
    change(table)
    with pytest.raises(InputError) as caught:
        from_file(tomli_w.dumps(table))
    said = str(caught.value)
    assert all(word in said for word in words), said
    assert "\n" not in said


# ── as BEFORE of a review ────────────────────────────────────────────────────────────────────

SURVIVAL = (0.8, 0.6, 0.4)
PLANNED: dict[str, Any] = {"rates": SURVIVAL, "acceptance_form": "survival", "c": 0.1,
                           "overhead": 0.05, "gamma": 3, "target_ms": 25}  # fmt: skip


def after(tpot_ms: float | None, survival: tuple[float, ...] = SURVIVAL, **facts: Any) -> Reading:
    steps = 10_000
    return make_reading(
        "vllm", "made", steps=steps, drafted=len(survival) * steps,
        accepted=round(steps * sum(survival)), survival=survival,
        facts={"mean_tpot_ms": tpot_ms, "seed": 0.0, **facts},
    )  # fmt: skip


def judged(plan: Rollout, run: Reading) -> Review:
    return review([reading_of(plan)], [run], plan.scenario, planned=True, plan=plan)


def test_a_plan_decides_as_a_plain_run_of_its_numbers_would() -> None:
    plan = of(**PLANNED)
    facts = {"mean_tpot_ms": 25.0, "seed": 0.0}
    plain = make_reading("vllm", "made", facts=facts)
    for tpot, decision in ((12.0, "keep"), (40.0, "roll back"), (25.0, "cannot tell")):
        mine = judged(plan, after(tpot))
        theirs = review([plain], [after(tpot)], plan.scenario, planned=True)
        assert mine.decision == theirs.decision == decision
        assert mine.observed is not None
        assert mine.observed.value == pytest.approx(25.0 / tpot)
        assert mine.predicted is not None
        assert mine.predicted.value == pytest.approx(2.8 / 1.35)
        assert mine.differences == ()


def test_another_gamma_is_advised_where_later_positions_do_not_pay() -> None:
    plan = of(**PLANNED | {"rates": (0.8, 0.1, 0.05), "c": 0.3, "overhead": 0.01})
    found = judged(plan, after(23.0, (0.8, 0.1, 0.05)))
    assert (found.decision, found.gamma) == ("change", 1)


def test_the_range_of_the_plain_time_is_that_of_the_speedup() -> None:
    """A plain time that was only computed decides where the run is outside its whole range."""
    plan = of(**SERVED)
    plain = plan.expected["tpot"].plain
    assert plain.low is not None
    assert plain.high is not None
    run = {"max_concurrency": 32.0}
    inside = judged(plan, after(1e3 * plain.value / 1.05, **run))
    assert inside.decision == "cannot tell"
    assert "Run it, and give that run as BEFORE" in review_said(inside).headline
    assert inside.observed is not None
    assert inside.observed.low == pytest.approx(1.05 * plain.low / plain.value)
    assert inside.observed.high == pytest.approx(1.05 * plain.high / plain.value)
    assert judged(plan, after(1e3 * plain.low / 1.2, **run)).decision == "keep"
    assert judged(plan, after(1e3 * plain.high * 1.2, **run)).decision == "roll back"


def test_another_load_or_other_prompts_are_not_comparable() -> None:
    plan = of(**SERVED)
    prompts = {"max_concurrency": 32.0, "completed": 10.0, "total_input_tokens": 1e5}
    for facts in ({"max_concurrency": 8.0}, prompts):
        assert judged(plan, after(2.0, **facts)).decision == "not comparable"


def test_the_numbers_of_the_file_count_not_those_of_today() -> None:
    """Whoever measured plain decoding writes it in, and the prediction stands as it was made."""
    table = tomllib.loads(to_file(of(**SERVED)))
    table["rollout"]["expected"]["tpot_ms"]["plain"] = {"value": 20.0}
    table["rollout"]["speedup"] = {"value": 3.0}
    plan = from_file(tomli_w.dumps(table))
    found = judged(plan, after(10.0, max_concurrency=32.0))
    assert found.observed is not None
    assert found.predicted is not None
    assert (found.observed.value, found.predicted.value) == pytest.approx((2.0, 3.0))
    assert found.observed.low is None


def test_tokens_per_step_below_break_even_are_said() -> None:
    plan = of(**PLANNED | {"overhead": 0.3})  # s = 1.6
    weak = after(None, (0.3, 0.1, 0.0))
    assert "below 1.6" in stopped_words(plan, weak)
    assert stopped_words(plan, after(None)) == ""
    found = judged(plan, weak)
    assert found.decision == "cannot tell"
    assert any("does not pay" in reason for reason in review_said(found).because)
    assert any("not run" in text for text in review_warnings(found))


def test_each_number_beside_what_was_expected() -> None:
    plan = of(**PLANNED)
    rows = {row.name: row for row in held(plan, after(12.0))}
    assert rows["tokens_per_step"].within is True  # 2.8 as planned
    assert rows["tpot"].seen == pytest.approx(0.012)
    assert rows["tpot"].within is True  # 25 × 1.35/2.8 = 12.05
    assert {row.name: row.within for row in held(plan, after(20.0))}["tpot"] is False
    assert {row.name: row.within for row in held(plan, after(None))}["tpot"] is None
    table = held_table(plan, after(12.0))
    assert table.column("seen").values[0] == pytest.approx(12.0)
    assert table.column("quantity").values[0] == QUANTITIES["tpot"].label
