"""The checklist, the rules and the planning ranges say what the scenario says."""

from __future__ import annotations

from typing import Any

import pytest

from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.words.guidance import Check, PlanningRange, Rule, checklist, planning_ranges, rules

BASE: dict[str, Any] = {"alpha": 0.8, "c": 0.1, "gamma": 4}


def check(number: int, **said: Any) -> Check:
    return checklist(predict(Scenario(**BASE | said)))[number]


def rule(when: str, **said: Any) -> Rule:
    (found,) = (r for r in rules(predict(Scenario(**said))) if r.when.startswith(when))
    return found


def planning(case: str, **said: Any) -> PlanningRange:
    rows = planning_ranges(predict(Scenario(**BASE | said)))
    (found,) = (r for r in rows if r.case.startswith(case))
    return found


def test_the_six_questions_are_open_until_answered() -> None:
    found = checklist(predict(Scenario(**BASE)))
    assert len(found) == 6
    assert [c.state for c in found[:4]] == ["unknown"] * 4


@pytest.mark.parametrize(
    ("number", "said", "state", "word"),
    [
        (0, {"sigma": None}, "unknown", "Unknown"),
        (0, {}, "unknown", "Assumed memory-bound"),
        (0, {"sigma": 0.1}, "good", "1.40 plain steps"),
        (0, {"sigma": 0.8}, "bad", "4.20 plain steps"),
        (0, {"sigma": 0.1, "gamma": 0}, "good", "1 token is"),
        (1, {"acceptance_source": "my_traffic"}, "good", "Yes"),
        (1, {"acceptance_source": "other_traffic"}, "bad", "other text"),
        (1, {"alpha": None, "workload": "creative"}, "bad", "planning range"),
        (2, {"temperature": 0}, "good", "Greedy"),
        (2, {"temperature": 0.7}, "good", "not the paper's α"),
        (3, {"target_billions": 70, "draft_billions": 0.5}, "good", "140 times"),
        (3, {"target_billions": 8, "draft_billions": 1}, "bad", "8.00 times"),
        (3, {"target_billions": 8, "draft_billions": 0}, "good", "No draft weights"),
        (3, {"c": None, "draft_form": "range"}, "unknown", "0.020 to 0.250"),
        (4, {"sigma": 0.1}, "good", "Not compute-bound"),
        (4, {"sigma": 1}, "bad", "every γ ≥ 1 costs more"),
        (4, {"sigma": 0.7, "gamma": 12}, "bad", "γ=12"),
        # v = 1.7 at γ=1: 1.8 tokens in 1.73 steps, 2 forwarded for 1.8: arithmetic grows more.
        (4, {"sigma": 0.7}, "bad", "γ=1"),
        (5, {"copies_input": "yes"}, "good", "n-gram"),
        (5, {"copies_input": "no"}, "bad", "Unlikely"),
    ],
)
def test_a_question_is_answered_from_the_scenario(
    number: int, said: dict[str, Any], state: str, word: str
) -> None:
    found = check(number, **said)
    assert found.state == state
    assert word in found.answer


@pytest.mark.parametrize(
    ("when", "said", "state"),
    [
        ("Predictable", {"alpha": 0.85}, "good"),
        ("Predictable", {"alpha": 0.7}, "bad"),
        ("Predictable", {"acceptance_form": "range"}, "unknown"),
        ("Predictable", {"alpha_low": 0.82, "alpha_high": 0.9}, "good"),
        ("High entropy", {"alpha": 0.3}, "good"),
        ("High entropy", {"alpha_low": 0.2, "alpha_high": 0.4}, "good"),
        ("High entropy", {"alpha_low": 0.2, "alpha_high": 0.6}, "unknown"),
        ("Idle arithmetic", {"alpha": 0.8, "sigma": 0.02}, "good"),
        ("Idle arithmetic", {"alpha": 0.8}, "unknown"),
        ("Large batch", {"alpha": 0.8, "sigma": 0.9}, "good"),
        ("Large batch", {"alpha": 0.8, "sigma": None}, "unknown"),
        ("Prefill-heavy", {"alpha": 0.8}, "unknown"),
    ],
)
def test_a_rule_holds_or_not(when: str, said: dict[str, Any], state: str) -> None:
    assert rule(when, c=0.1, gamma=4, **said).state == state


def test_prefill_heavy_by_hand() -> None:
    """4 s to the first token, 101 tokens of 40 ms: 4/(4+4) = 50% of the request; at 2.40× the
    whole takes 4 + 4/2.40 s instead of 8: 1.41×."""
    said = {"target_ms": 40, "output_tokens": 101, "ttft_ms": 4000}
    row = planning("Prefill-heavy", **said)
    assert row.formula_low == pytest.approx(8 / (4 + 4 / (3.3616 / 1.4)))
    assert "not your case" in row.agreement
    assert rule("Prefill-heavy", **BASE | said).state == "bad"
    heavier = said | {"ttft_ms": 100_000}
    assert planning("Prefill-heavy", **heavier).agreement == "agrees"
    assert rule("Prefill-heavy", **BASE | heavier).state == "good"
    assert planning("Prefill-heavy").agreement == "unknown"


def test_a_request_of_one_token_is_all_prefill() -> None:
    for ttft in (0, 500):
        row = planning("Prefill-heavy", target_ms=40, output_tokens=1, ttft_ms=ttft)
        assert row.formula_low == pytest.approx(1)


def test_a_range_is_contradicted_where_the_formula_lies_outside() -> None:
    """At c=0 and γ ≤ 16, α=0.8 gives (1−0.8^17)/0.2 = 4.89× and more: above 1.8–2.5×."""
    row = planning("Single stream, α ≥ 0.8", c=0.0)
    assert row.formula_low == pytest.approx((1 - 0.8**17) / 0.2)
    assert row.agreement.startswith("contradicted: the formula starts above")
    # At c=0.5, α=0.6: γ=1 is best, 1.6/1.5 = 1.07×; α=0.7: 1.13×, below 1.3–1.7×.
    below = planning("Single stream, α 0.6", c=0.5)
    assert (below.formula_low, below.formula_high) == pytest.approx((1.6 / 1.5, 1.7 / 1.5))
    assert below.agreement.startswith("contradicted: the formula stays below")
    assert planning("Server near saturation").agreement == "agrees"
    copied = planning("Copied text")
    assert copied.formula_low == pytest.approx((1 - 0.7**9) / 0.3)
    assert copied.formula_high == pytest.approx((1 - 0.9**9) / 0.1)
