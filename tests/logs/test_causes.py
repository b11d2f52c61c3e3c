"""Comparable or not, and why slower: by servers whose fault is known by construction."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.readings import make_reading

from specmath.logs import Reading, read_run
from specmath.logs.reading import Lane
from specmath.logs.service import Latency, Level, Service
from specmath.review.before_after import cost_unknown, review
from specmath.review.observed import at_levels
from specmath.scenario import EXAMPLE, Scenario
from specmath.tables.service import pair_table
from specmath.words.review import review_said, review_warnings

SAMPLES = Path(__file__).parents[1] / "data" / "fresh_logs"
COSTS = Scenario(acceptance_form="range", gamma=0, c=0.1, sigma=0.0)
SURVIVAL = (0.8, 0.6, 0.4)
FASTER = ("keep", "change")
"""Whether another γ would be faster yet is not asked here."""


def plain(**service: object) -> Reading:
    return make_reading("vllm", "made", service=Service(**service))  # type: ignore[arg-type]


def speculative(survival: tuple[float, ...] = SURVIVAL, **more: object) -> Reading:
    steps, extra = 10_000, {k: more.pop(k) for k in ("draft_share", "lane") if k in more}
    return make_reading(
        "vllm", "made", steps=steps, drafted=len(survival) * steps, survival=survival,
        accepted=round(steps * sum(survival)), passes=more.pop("passes", steps),
        service=Service(**more), **extra,  # type: ignore[arg-type]
    )  # fmt: skip


def causes(before: Reading, after: Reading) -> list[str]:
    return [each.name for each in review([before], [after], COSTS).causes]


def test_a_full_cache_is_admission_and_not_the_cost_of_a_pass() -> None:
    """A request 100.2/71.2 = 1.41× faster, the server 902/1353.4 = 0.67×: 9 run instead of 19."""
    before, after = (
        read_run(SAMPLES / f"02-vllm-{name}.txt") for name in ("plain-run", "mtp-kv-full")
    )
    found = review(before, after, cost_unknown(EXAMPLE))
    assert (found.decision, found.measure) == ("roll back", "throughput")
    assert found.observed is not None
    assert found.observed.value == pytest.approx(902 / 1353.4, rel=1e-3)
    assert found.request is not None
    assert found.request.value == pytest.approx((902 / 9) / (1353.4 / 19), rel=1e-3)
    assert "admission" in [each.name for each in found.causes]
    assert "cost of a pass" not in [each.name for each in found.causes]
    said = review_said(found)
    assert "A request is 1.41× faster, the server in total 33% slower" in said.because
    assert any(text.startswith("Admission (KV memory), not the cost") for text in said.because)
    table = pair_table(found.before, found.after)
    assert table is not None
    rows = {row["what"]: row for row in table.rows()}
    assert rows["Tokens/s, in total"]["ratio"] == pytest.approx(902 / 1353.4, rel=1e-3)
    assert rows["Requests running"]["before"] == 19.0


def test_a_pass_that_costs_more_than_it_emits() -> None:
    """2.8 tokens a pass and 20 → 25 ms a token: a pass costs 3.5 plain steps."""
    after = speculative(tpot=Latency(0.025), running=1.0)
    found = review([plain(tpot=Latency(0.020), running=1.0)], [after], COSTS)
    (cause,) = found.causes
    assert cause.name == "cost of a pass"
    assert cause.number("step_cost") == pytest.approx(2.8 * 25 / 20)
    drafting = speculative(tpot=Latency(0.025), draft_share=0.6)
    assert causes(plain(tpot=Latency(0.020)), drafting) == ["draft cost"]
    wide = speculative(tpot=Latency(0.025), draft_share=0.1, running=64.0)
    assert causes(plain(tpot=Latency(0.020), running=64.0), wide) == ["verification"]


def test_what_a_server_does_besides() -> None:
    before = plain(tpot=Latency(0.020), prefix_hits=0.8, preemptions=0, ttft=Latency(0.1),
                   running=8.0, generated_per_second=400.0)  # fmt: skip
    after = speculative(tpot=Latency(0.021), prefix_hits=0.1, preemptions=40, ttft=Latency(0.3),
                        running=8.0, generated_per_second=380.0,
                        prompt_per_second=1900.0)  # fmt: skip
    found = review([before], [after], COSTS)
    names = [each.name for each in found.causes]
    assert names[:3] == ["preemption", "prefix cache", "prefill"]
    assert found.causes[2].number("prompt_tokens_per_output") == pytest.approx(5.0)
    said = " ".join(review_said(found).because)
    assert "Prefix cache: 80% of prompt tokens hit before, 10% now, TTFT 100 ms then 300 ms" in said


def test_a_broken_drafter_is_told_without_any_latency() -> None:
    found = review([plain(tpot=Latency(0.020))], [speculative((0.02, 0.0, 0.0))], COSTS)
    assert (found.decision, found.observed) == ("cannot tell", None)
    assert [each.name for each in found.causes] == ["broken drafter"]


def test_low_coverage_is_told() -> None:
    after = speculative(tpot=Latency(0.030), passes=40_000)
    assert "coverage" in causes(plain(tpot=Latency(0.020)), after)


def test_what_is_as_fast_as_it_should_be_has_no_cause() -> None:
    """2.8 / 1.3 = 2.15× at c = 0.1: 20 → 9.29 ms."""
    after = speculative(tpot=Latency(0.020 / (2.8 / 1.3)), kv_use=0.99, waiting=50.0)
    assert causes(plain(tpot=Latency(0.020)), after) == []


def test_servers_that_disagree_stop_the_decision_and_the_broken_one_is_named() -> None:
    sides = [
        speculative(rates, tpot=Latency(0.010), lane=Lane(engine=f"00{n}"))
        for n, rates in enumerate((SURVIVAL, SURVIVAL, (0.02, 0.0, 0.0)))
    ]
    found = review([plain(tpot=Latency(0.020))], sides, COSTS)
    assert found.decision == "cannot tell"
    (cause,) = found.causes
    assert cause.lane is not None
    assert cause.lane.lane == Lane(engine="002")
    assert any("engine 002 1.02" in text for text in review_said(found).because)


# ── load ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "decision"),
    [
        ((8.0, 0.0, 400.0), (64.0, 0.0, 1500.0), ("not comparable",)),
        ((8.0, 0.0, 400.0), (8.5, 0.0, 800.0), FASTER),
        # One request rate: the faster server runs fewer at a time.
        ((8.0, 0.0, 400.0), (3.0, 0.0, 400.0), FASTER),
        # A queue in both: each runs what fits.
        ((19.0, 70.0, 1000.0), (9.0, 60.0, 1300.0), FASTER),
        ((19.0, 70.0, 1000.0), (9.0, 60.0, 700.0), ("roll back",)),
    ],
)
def test_load_is_alike_or_nothing_is_decided(before, after, decision) -> None:
    names = ("running", "waiting", "generated_per_second")
    sides = (dict(zip(names, side, strict=True)) for side in (before, after))
    found = review([plain(**next(sides))], [speculative(**next(sides))], COSTS)
    assert found.decision in decision


def levels(rate: float, *running: int, lines: int = 20) -> tuple[Level, ...]:
    """A request gets rate/(1 + 0.05 n) tokens per second beside n − 1 others."""
    return tuple(Level(n, lines, n * rate / (1 + 0.05 * n)) for n in running)


def test_logs_of_many_loads_are_compared_where_they_meet() -> None:
    """1.5× at every load; on average 8 against 40 requests run, which alone would hide it."""
    before, after = levels(50.0, 1, 2, 4, 8, 16), levels(75.0, 8, 16, 32, 64)
    found = at_levels(Service(levels=before), Service(levels=after))
    assert found is not None
    ratio, (low, high), lines = found
    assert ratio == pytest.approx(1.5, rel=1e-9)
    assert lines == 40
    assert low <= 8
    assert high >= 16
    assert at_levels(Service(levels=levels(50.0, 1, 2)), Service(levels=levels(75.0, 32))) is None
    few = levels(50.0, 8, lines=2)
    assert at_levels(Service(levels=few), Service(levels=few)) is None


def test_a_review_meets_at_those_loads() -> None:
    def served(rate: float, *running: int) -> dict[str, object]:
        found = levels(rate, *running)
        return {
            "running": sum(each.running for each in found) / len(found),
            "generated_per_second": sum(each.generated_per_second for each in found) / len(found),
            "levels": found,
        }

    found = review(
        [plain(**served(50.0, 1, 2, 4, 8, 16))], [speculative(**served(75.0, 8, 16, 32, 64))], COSTS
    )
    assert found.decision in FASTER
    assert found.measure == "time per token"
    assert found.observed is not None
    assert found.observed.value == pytest.approx(1.5, rel=1e-9)
    assert found.matched is not None


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        (({"version": "0.10.2"}, {"version": "0.11.0"}), "engine version"),
        (({"model": "Qwen/Qwen3-8B"}, {"model": "Qwen/Qwen3-32B"}), "model"),
        (({}, {"restarts": 1.0}), "restarts"),
    ],
)
def test_another_server_is_not_comparable(facts, what) -> None:
    sides = [make_reading("vllm", "made", facts={"mean_tpot_ms": ms, **each})
             for ms, each in zip((20.0, 10.0), facts, strict=True)]  # fmt: skip
    found = review(sides[:1], sides[1:], COSTS)
    assert found.decision == "not comparable"
    assert [each.what for each in found.differences if each.bars] == [what]


def test_a_model_with_and_without_its_owner_is_one() -> None:
    sides = [make_reading("vllm", "made", facts={"mean_tpot_ms": ms, "model": name})
             for ms, name in ((20.0, "Qwen/Qwen3-8B"), (10.0, "qwen3-8b"))]  # fmt: skip
    assert review(sides[:1], sides[1:], COSTS).decision == "keep"


@pytest.mark.parametrize("side", [0, 1])
def test_a_missing_key_is_no_evidence_of_a_plain_run(side: int) -> None:
    """Of an AFTER that does not tell whether it speculated nothing follows; a BEFORE is plain."""
    facts = [{"mean_tpot_ms": 20.0}, {"mean_tpot_ms": 10.0}]
    facts[side]["speculation"] = "unknown"  # type: ignore[assignment]
    found = review(*([make_reading("sglang", "made", facts=each)] for each in facts), COSTS)
    assert found.decision == ("not comparable" if side else "keep")
    said = [*review_said(found).because, *review_warnings(found)]
    assert any("does not tell whether it speculated" in text for text in said)
