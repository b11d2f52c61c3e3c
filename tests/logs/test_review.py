"""Did it work? Decisions on pairs of runs whose right answer is known by construction."""

from __future__ import annotations

import json
import math

import pytest
from helpers.readings import make_reading
from scipy.stats import t as student

from specmath.checks import InputError
from specmath.logs import Reading, read, read_run
from specmath.review.before_after import cost_unknown, ends_of, review
from specmath.review.comparable import Difference
from specmath.scenario import EXAMPLE, Scenario
from specmath.tables.logs import review_table
from specmath.words.review import review_said, review_warnings

COSTS = Scenario(acceptance_form="range", gamma=0, c=0.1, sigma=0.0)
SURVIVAL = (0.8, 0.6, 0.4)


def plain(tpot_ms: float | None, **facts: float | str) -> Reading:
    return make_reading("vllm", "made", facts={"mean_tpot_ms": tpot_ms, "seed": 0.0, **facts})


def speculative(tpot_ms: float | None, survival=SURVIVAL, **facts: float | str) -> Reading:
    steps = 10_000
    return make_reading(
        "vllm", "made", steps=steps, drafted=len(survival) * steps,
        accepted=round(steps * sum(survival)), survival=survival,
        facts={"mean_tpot_ms": tpot_ms, "seed": 0.0, **facts},
    )  # fmt: skip


def test_keep_what_is_faster_as_predicted() -> None:
    """τ = 2.8, s = 1.3: 2.154× predicted; 25 → 12 ms is 2.083×, 3% under."""
    found = review([plain(25.0)], [speculative(12.0)], COSTS)
    assert found.decision == "keep"
    assert found.predicted is not None
    assert found.predicted.value == pytest.approx(2.8 / 1.3)
    assert found.observed is not None
    assert found.observed.value == pytest.approx(25 / 12)
    assert found.difference is not None
    assert found.difference.value == pytest.approx((25 / 12) / (2.8 / 1.3) - 1)
    assert found.agrees is True
    assert (found.loads, found.differences) == ((), ())
    said = review_said(found)
    assert (said.state, said.headline) == ("good", "Keep it: 2.08× faster.")
    assert said.because == ("Prediction and observation agree within what is known of both",)
    assert review_warnings(found) == ()
    table = review_table(found)
    assert table is not None
    assert table.column("value").values == pytest.approx(
        (2.8 / 1.3, 25 / 12, 100 * found.difference.value)
    )


def test_roll_back_what_is_slower() -> None:
    """25 → 40 ms: a pass of 2.8 × 1.6 = 4.48 plain steps; at γ=1, 1.8/(1.1+3.18) is worse yet."""
    found = review([plain(25.0)], [speculative(40.0)], COSTS)
    assert found.decision == "roll back"
    assert found.agrees is False
    assert found.observed is not None
    assert found.observed.value == pytest.approx(25 / 40)
    assert review_said(found).headline == "Roll back to plain decoding: this is 38% slower."


def test_change_gamma_when_later_positions_do_not_pay() -> None:
    """Survival .8, .1, .05 and c = 0.3: γ=1 gives 1.8/1.3, γ=3 only 1.95/1.9; overhead is nil."""
    costs = Scenario(acceptance_form="range", gamma=0, c=0.3, sigma=0.0)
    observed = 1.95 / 1.9
    after = speculative(25.0 / observed / 1.05, (0.8, 0.1, 0.05))
    found = review([plain(25.0)], [after], costs)
    assert (found.decision, found.gamma) == ("change", 1)
    # The pass was cheaper than 1.9, so what it adds to a plain step shrinks in proportion.
    seen = 1.05 * observed
    share = (1.95 / seen - 1) / 0.9
    assert found.gain == pytest.approx(1.8 / (1 + 0.3 * share) / seen)
    assert review_said(found).headline.startswith("Change γ to 1")


def test_small_differences_need_a_longer_run() -> None:
    found = review([plain(25.0)], [speculative(24.5)], COSTS)
    assert found.decision == "cannot tell"
    assert found.observed is not None
    assert found.observed.low is None
    # Without a spread a difference within 5% counts as none.
    assert ends_of(found.observed) == pytest.approx((25 / 24.5 * 0.95, 25 / 24.5 * 1.05))


def test_interval_over_requests() -> None:
    """Standard errors 2/√100/25 and 1/√100/12 of the means add in squares on the logarithm."""
    found = review(
        [plain(25.0, std_tpot_ms=2.0, completed=100.0)],
        [speculative(12.0, std_tpot_ms=1.0, completed=100.0)], COSTS,
    )  # fmt: skip
    assert found.observed is not None
    half = 1.96 * math.hypot(0.2 / 25, 0.1 / 12)
    assert found.observed.high == pytest.approx(25 / 12 * math.exp(half))
    assert found.observed.low == pytest.approx(25 / 12 * math.exp(-half))


def test_interval_over_runs_is_welch() -> None:
    before, after = [24.0, 25.0, 26.0], [11.5, 12.5]
    found = review([plain(v) for v in before], [speculative(v) for v in after], COSTS)
    logs = [[math.log(v) for v in side] for side in (before, after)]
    means = [sum(side) / len(side) for side in logs]
    parts = [
        sum((x - m) ** 2 for x in side) / (len(side) - 1) / len(side)
        for side, m in zip(logs, means, strict=True)
    ]
    free = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    half = student.ppf(0.975, free) * math.sqrt(sum(parts))
    assert found.observed is not None
    assert found.observed.low == pytest.approx(math.exp(means[0] - means[1] - half))
    assert found.observed.high == pytest.approx(math.exp(means[0] - means[1] + half))


def test_from_one_gamma_to_another_uses_the_rates_of_before() -> None:
    """γ 3 → 1: predicted (1.8/1.1)/(2.8/1.3) = 0.760; observed the same is a roll back to γ=3."""
    predicted = (1.8 / 1.1) / (2.8 / 1.3)
    found = review([speculative(12.0)], [speculative(12.0 / predicted, (0.8,))], COSTS)
    assert found.predicted is not None
    assert found.predicted.value == pytest.approx(predicted)
    assert found.difference is not None
    assert found.difference.value == pytest.approx(0, abs=1e-9)
    # By γ=1's own rates, extended, 2.952/1.3 at γ=3 mends it: named before rolling back.
    assert (found.decision, found.gamma) == ("change", 3)
    assert found.gain == pytest.approx(2.952 / 1.3 / (1.8 / 1.1))


def test_a_plan_is_held_against_what_came() -> None:
    """Planned α 0.9 at γ=3, c=0.1: 3.439/1.3; came 2.083."""
    plan = Scenario(alpha=0.9, gamma=3, c=0.1)
    found = review([plain(25.0)], [speculative(12.0)], plan, planned=True)
    assert found.predicted is not None
    assert found.predicted.value == pytest.approx((1 - 0.9**4) / 0.1 / 1.3)
    assert found.planned
    other = Scenario(alpha=0.9, gamma=4, c=0.1)
    warned = review_warnings(review([plain(25.0)], [speculative(12.0)], other, planned=True))
    assert "Planned at γ=4, but AFTER ran γ=3" in warned


def test_acceptance_without_latency_is_modelled_never_observed() -> None:
    """Another draft at the same γ: the cost cancels, 2.8/2.2 is what it should give."""
    found = review([speculative(None, (0.7, 0.3, 0.2))], [speculative(None)], COSTS)
    assert (found.decision, found.measure, found.observed) == ("cannot tell", None, None)
    assert found.modelled is not None
    assert found.modelled.value == pytest.approx(2.8 / 2.2)
    because = " ".join(review_said(found).because)
    assert "acceptance rose: 2.20 tokens a step, then 2.80" in because
    assert "logs drift" in because
    assert "Modelled, not seen: 1.27×" in because


def test_throughput_where_there_is_no_latency() -> None:
    before = make_reading("sglang", "made", facts={"output_throughput": 100.0})
    after = speculative(None, output_throughput=180.0)
    found = review([before], [after], COSTS)
    assert found.measure == "throughput"
    assert found.observed is not None
    assert found.observed.value == pytest.approx(1.8)
    assert Difference("engine", "sglang", "vllm", bars=True) in found.differences
    assert found.decision == "not comparable"


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(InputError, match="BEFORE and AFTER"):
        review([plain(None)], [plain(None)], COSTS)


@pytest.mark.parametrize(
    ("key", "before", "after", "what"),
    [
        ("max_concurrency", 8.0, 64.0, "concurrency"),
        ("model_id", "a", "b", "model"),
        ("seed", 1.0, 2.0, "seed"),
        ("dataset_name", "sharegpt", "random", "traffic"),
        ("request_rate", 1.0, 4.0, "request rate"),
    ],
)
def test_unlike_runs_are_warned_of(key, before, after, what) -> None:
    found = review([plain(25.0, **{key: before})], [speculative(12.0, **{key: after})], COSTS)
    bars = what != "seed"
    assert found.differences == (Difference(what, before, after, bars=bars),)
    assert found.decision == ("not comparable" if bars else "keep")
    told = review_said(found).because if bars else review_warnings(found)
    assert any(text.startswith(f"Another {what}: ") for text in told)


def test_other_lengths_are_other_traffic() -> None:
    lengths = {"completed": 100.0, "total_input_tokens": 20_000.0}
    longer = {"completed": 100.0, "total_input_tokens": 40_000.0}
    found = review([plain(25.0, **lengths)], [speculative(12.0, **longer)], COSTS)
    assert found.differences == (Difference("input length", 200.0, 400.0, bars=True),)
    said = "Requests differ in input length, 200 then 400 tokens: other traffic"
    assert review_said(found).because[0] == said
    nearly = longer | {"total_input_tokens": 22_000.0}
    found = review([plain(25.0, **lengths)], [speculative(12.0, **nearly)], COSTS)
    assert found.differences == (Difference("input length", 200.0, 220.0),)
    assert found.decision == "keep"
    unseeded = make_reading("vllm", "made", facts={"mean_tpot_ms": 25.0})
    after = make_reading("vllm", "made", facts={"mean_tpot_ms": 20.0})
    assert review([unseeded], [after], COSTS).differences == (Difference("seed"),)


def test_costs_that_nobody_gave_make_the_prediction_a_range() -> None:
    """τ = 2.8 over 1+3c, c from 0.02 to 0.25, and up to 0.51 plain steps besides."""
    found = review([plain(25.0)], [speculative(12.0)], cost_unknown(EXAMPLE))
    assert found.predicted is not None
    assert (found.predicted.low, found.predicted.high) == pytest.approx((2.8 / 2.26, 2.8 / 1.06))
    assert [unknown.field for unknown in found.predicted.basis.over] == ["c", "besides"]
    assert any("not known" in reason for reason in review_said(found).because)
    assert found.difference is not None
    assert found.difference.low == pytest.approx((25 / 12) / (2.8 / 1.06) - 1)


def test_what_both_sides_cost_alike_cancels() -> None:
    """The same γ before and after: the unknown c is in both, and the ratio has no interval."""
    found = review(
        [speculative(12.0, (0.7, 0.3, 0.2))], [speculative(11.0)], cost_unknown(EXAMPLE)
    )  # fmt: skip
    assert found.predicted is not None
    assert (found.predicted.value, found.predicted.low) == (pytest.approx(1.0), None)


@pytest.mark.parametrize("kind", ["log_{}.txt", "metrics_{}.txt", "resp_{}.json"])
def test_a_plain_run_is_a_before(sample, kind: str) -> None:
    """161 tokens in 6.256 s plain, 161 in 18.71 s with the draft: 0.334×, by every channel."""
    before = read_run(sample("captured/" + kind.format("none")))
    after = read_run(sample("captured/" + kind.format("draftself")))
    found = review(before, after, cost_unknown(EXAMPLE))
    assert found.decision == "roll back"
    assert found.observed is not None
    assert found.observed.value == pytest.approx(6.2564 / 18.7054, rel=2e-4)


def test_a_guidellm_table_is_a_before(sample) -> None:
    """ITL 9.0 ms at concurrency 1, the row nearest to the benchmark's 8: 9.0 over its TPOT."""
    before = read_run(sample("guidellm_table.txt"))
    after = read_run(sample("vllm_bench_serve_result.json"))
    found = review(before, after, COSTS)
    assert found.observed is not None
    assert found.observed.value == pytest.approx(9.0 / 5.330134557212892)
    assert [(load.name, load.took, load.other) for load in found.loads] == [("BEFORE", 1.0, 8.0)]
    assert "Another concurrency: BEFORE 1.00, the other side 8.00" in review_warnings(found)


def test_real_files(sample) -> None:
    """vLLM's saved result against the same without its speculative fields, at 11 ms a token."""
    result = json.loads(sample("vllm_bench_serve_result.json").read_text())
    before = {k: v for k, v in result.items() if not k.startswith("spec")} | {"mean_tpot_ms": 11.0}
    found = review(read(json.dumps(before)), read(json.dumps(result)), COSTS)
    assert found.decision == "keep"
    assert found.observed is not None
    assert found.observed.value == pytest.approx(11 / 5.330134557212892)
    assert found.predicted is not None
    assert found.predicted.value == pytest.approx(2.7391428571428573 / 1.3)
