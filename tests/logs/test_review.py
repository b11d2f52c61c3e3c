"""Did it work? Decisions on pairs of runs whose right answer is known by construction."""

from __future__ import annotations

import json
import math

import pytest
from scipy.stats import t as student

from specmath.checks import InputError
from specmath.logs import Reading, read
from specmath.logs.review import review
from specmath.logs.tally import make_reading
from specmath.scenario import Scenario

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
    assert found.because == ("Prediction and observation agree within what is known of both",)
    assert found.warnings == ()


def test_roll_back_what_is_slower() -> None:
    """25 → 40 ms: a pass of 2.8 × 1.6 = 4.48 plain steps; at γ=1, 1.8/(1.1+3.18) is worse yet."""
    found = review([plain(25.0)], [speculative(40.0)], COSTS)
    assert found.decision == "roll back"
    assert "Roll back to plain decoding: this is 38% slower" in found.headline
    assert "not as taken" in found.because[0]


def test_change_gamma_when_later_positions_do_not_pay() -> None:
    """Survival .8, .1, .05 and c = 0.3: γ=1 gives 1.8/1.3, γ=3 only 1.95/1.9; overhead is nil."""
    costs = Scenario(acceptance_form="range", gamma=0, c=0.3, sigma=0.0)
    observed = 1.95 / 1.9
    after = speculative(25.0 / observed / 1.05, (0.8, 0.1, 0.05))
    found = review([plain(25.0)], [after], costs)
    assert (found.decision, found.gamma) == ("change", 1)
    assert found.headline.startswith("Change γ to 1")


def test_small_differences_need_a_longer_run() -> None:
    found = review([plain(25.0)], [speculative(24.5)], COSTS)
    assert found.decision == "run longer"
    assert found.observed is not None
    assert found.observed.low is None


def test_interval_over_requests() -> None:
    """Standard errors 2/√100/25 and 1/√100/12 of the means add in squares on the logarithm."""
    found = review(
        [plain(25.0, std_tpot_ms=2.0, completed=100.0)],
        [speculative(12.0, std_tpot_ms=1.0, completed=100.0)], COSTS,
    )  # fmt: skip
    assert found.observed is not None
    half = 1.96 * math.hypot(0.2 / 25, 0.1 / 12)
    assert found.observed.high == pytest.approx(25 / 12 * math.exp(half))
    assert "between two runs is not in it" in found.observed.basis


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
    assert "3 and 2 runs" in found.observed.basis


def test_from_one_gamma_to_another_uses_the_rates_of_before() -> None:
    """γ 3 → 1: predicted (1.8/1.1)/(2.8/1.3) = 0.760; observed the same is a roll back to γ=3."""
    predicted = (1.8 / 1.1) / (2.8 / 1.3)
    found = review([speculative(12.0)], [speculative(12.0 / predicted, (0.8,))], COSTS)
    assert found.predicted is not None
    assert found.predicted.value == pytest.approx(predicted)
    assert found.difference is not None
    assert found.difference.value == pytest.approx(0, abs=1e-9)
    # One token longer pays by γ=1's own rates, extended: the nearer remedy is named first.
    assert found.decision in ("change", "roll back")


def test_a_plan_is_held_against_what_came() -> None:
    """Planned α 0.9 at γ=3, c=0.1: 3.439/1.3; came 2.083."""
    plan = Scenario(alpha=0.9, gamma=3, c=0.1)
    found = review([plain(25.0)], [speculative(12.0)], plan, planned=True)
    assert found.predicted is not None
    assert found.predicted.value == pytest.approx((1 - 0.9**4) / 0.1 / 1.3)
    assert found.predicted.basis == "as planned"
    other = Scenario(alpha=0.9, gamma=4, c=0.1)
    warned = review([plain(25.0)], [speculative(12.0)], other, planned=True).warnings
    assert any("Planned at γ=4" in text for text in warned)


def test_dumps_without_latency_are_judged_by_tokens() -> None:
    """Another draft at the same γ: the cost cancels, 2.8/2.2."""
    found = review([speculative(None, (0.7, 0.3, 0.2))], [speculative(None)], COSTS)
    assert found.measure == "tokens per step"
    assert found.observed is not None
    assert found.observed.value == pytest.approx(2.8 / 2.2)
    assert found.decision == "keep"


def test_throughput_where_there_is_no_latency() -> None:
    before = make_reading("sglang", "made", facts={"output_throughput": 100.0})
    after = speculative(None, output_throughput=180.0)
    found = review([before], [after], COSTS)
    assert found.measure == "throughput"
    assert found.observed is not None
    assert found.observed.value == pytest.approx(1.8)
    assert any("Another engine" in text for text in found.warnings)


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(InputError, match="BEFORE and AFTER"):
        review([plain(None)], [plain(None)], COSTS)


@pytest.mark.parametrize(
    ("key", "before", "after", "says"),
    [
        ("max_concurrency", 8.0, 64.0, "Another concurrency: 8.00, then 64.0"),
        ("model_id", "a", "b", "Another model: a, then b"),
        ("seed", 1.0, 2.0, "Another seed"),
        ("dataset_name", "sharegpt", "random", "Another traffic"),
        ("request_rate", 1.0, 4.0, "Another request rate"),
    ],
)
def test_unlike_runs_are_warned_of(key, before, after, says) -> None:
    found = review([plain(25.0, **{key: before})], [speculative(12.0, **{key: after})], COSTS)
    assert any(says in text for text in found.warnings)


def test_other_lengths_are_other_traffic() -> None:
    lengths = {"completed": 100.0, "total_input_tokens": 20_000.0}
    longer = {"completed": 100.0, "total_input_tokens": 40_000.0}
    found = review([plain(25.0, **lengths)], [speculative(12.0, **longer)], COSTS)
    assert any("input length, 200 then 400 tokens" in text for text in found.warnings)
    unseeded = make_reading("vllm", "made", facts={"mean_tpot_ms": 25.0})
    after = make_reading("vllm", "made", facts={"mean_tpot_ms": 20.0})
    assert any(
        "seed is not printed" in text for text in review([unseeded], [after], COSTS).warnings
    )


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
