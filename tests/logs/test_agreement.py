"""What one screen says of one log agrees with itself: answers, table, calculator, plain run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from specmath.logs import LogError, Reading, read
from specmath.logs.answers import answer_all
from specmath.logs.curve import log_curve
from specmath.logs.diagnosis import diagnose
from specmath.logs.gamma_advice import GAMMA, gamma_rows
from specmath.logs.plain import read_run
from specmath.logs.review import cost_unknown, review
from specmath.logs.speed import Speed, pass_costs, speed_of, tokens_per_pass
from specmath.logs.taken import drafts_of, handed_on, scenario_from
from specmath.logs.tally import make_reading
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario

FOLDER = Path(__file__).parents[1] / "data" / "log_samples"
COSTS = Scenario(acceptance_form="range", gamma=0, c=0.1)
UNKNOWN = Scenario(acceptance_form="range", gamma=0, draft_form="range")
SERVED = Scenario(
    acceptance_form="range", gamma=0, gpu="H100 SXM", model="Llama-3.1-8B", draft="Llama-3.2-1B"
)


TOO_EXACT = re.compile(r"[1-9]\d*\.\d{4,}|0\.0*[1-9]\d{3,}")
"""More than four significant digits."""


def samples() -> list[Reading]:
    found = []
    for path in sorted(FOLDER.rglob("*.*")):
        for gamma in (None, 4):
            try:
                found += read(path, gamma=gamma)
            except LogError:
                continue
    return found


def chain(**more: object) -> Reading:
    return make_reading(
        "vllm", "made", steps=10_000, drafted=30_000, accepted=18_000, survival=(0.8, 0.6, 0.4),
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def advice(reading: Reading, base: Scenario, speed: Speed | None = None):
    return next(a for a in answer_all(reading, base, speed) if a.question == GAMMA)


def rows(reading: Reading, base: Scenario, speed: Speed | None = None) -> dict[str, dict]:
    table = gamma_rows(reading, predict(drafts_of(reading, base)), speed=speed)
    names = [column.name for column in table.columns]
    values = zip(*(column.values for column in table.columns), strict=True)
    return {row[0]: dict(zip(names, row, strict=True)) for row in values}


# ── beside a plain run the costs are those that it shows ─────────────────────────────────────


def test_advice_and_table_take_the_cost_that_the_plain_run_shows() -> None:
    """τ=2.8 at 1.4× is a pass of 2.0; s = 1.3, so 0.7 is left over at every γ.

    γ=1: 1.8/1.8 = 1.00; γ=2: 2.4/1.9 = 1.263; γ=3: 1.40; γ=4: (2.8 + 0.4·2/3)/2.1 = 1.460.
    """
    reading, speed = chain(), Speed(1.4, None, "observed")
    found = rows(reading, COSTS, speed)
    truth = {0: 1.0, 1: 1.8 / 1.8, 2: 2.4 / 1.9, 3: 1.4, 4: (2.8 + 0.8 / 3) / 2.1}
    assert {g: found[g]["walltime_improvement"] for g in truth} == pytest.approx(truth)
    said = advice(reading, COSTS, speed)
    assert re.match(
        r"Raise γ to \d+: 1\.\d\d× faster instead of 1.40× faster at γ=3, as obs", said.headline
    )
    assert any("plus the 0.700 that they leave unexplained" in reason for reason in said.because)
    # Without it the scenario's 2.8/1.3.
    assert rows(reading, COSTS)[3]["walltime_improvement"] == pytest.approx(2.8 / 1.3)


def test_a_run_cheaper_than_the_scenario_scales_what_drafting_adds() -> None:
    costs = pass_costs(np.array([1.0, 1.1, 1.2, 1.3]), 3, 1.15)
    assert costs == pytest.approx([1.0, 1.05, 1.1, 1.15])
    below = pass_costs(np.array([1.0, 1.1, 1.2, 1.3]), 3, 0.9)
    assert below == pytest.approx([1.0, 0.9, 0.9, 0.9])


def test_a_draft_that_was_slower_is_not_said_to_be_faster() -> None:
    """The captured self-draft: 8.61 tokens/s against 25.3 plain is 0.34×, whatever c may be."""
    (reading,) = read(FOLDER / "captured_llamacpp" / "log_draftself.txt")
    speed = speed_of(reading, plain_tokens_per_second=25.3)
    assert speed is not None
    for base in (EXAMPLE, UNKNOWN):
        said = advice(reading, base, speed)
        assert said.state == "bad"
        assert "66% slower, as observed" in said.headline
        (row,) = rows(reading, base, speed).values()
        for name in (
            "walltime_improvement",
            "walltime_improvement_low",
            "walltime_improvement_high",
        ):
            assert row[name] == pytest.approx(reading.fact("tokens_per_second") / 25.3)
        assert row["step_cost"] == pytest.approx(
            row["tokens_per_step"] / row["walltime_improvement"]
        )


@pytest.mark.parametrize("speedup", [0.6, 1.7])
@pytest.mark.parametrize("base", [EXAMPLE, UNKNOWN, SERVED], ids=["example", "unknown", "served"])
def test_the_row_of_the_gamma_that_ran_is_the_log_s_own(base: Scenario, speedup: float) -> None:
    """Tokens as counted, and the speedup observed: no end of an unknown moves either."""
    counted = 0
    for reading in samples():
        tokens = tokens_per_pass(reading)[0]
        if reading.tree or reading.gamma is None or tokens is None:
            continue
        try:
            drafts = drafts_of(reading, base)
        except ValueError:
            continue
        curve = log_curve(reading, drafts, Speed(speedup, None, "observed"))
        ran = reading.gamma
        assert curve.tokens[ran] == tokens, reading.format
        assert [curve.low[ran], curve.speedup[ran], curve.high[ran]] == pytest.approx([speedup] * 3)
        assert log_curve(reading, drafts).tokens[ran] == tokens
        counted += 1
    assert counted > 20


# ── coverage ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["llamacpp_prometheus.txt", "llamacpp_server_log_2026-08.txt"])
def test_text_and_table_count_coverage_alike(name: str) -> None:
    """(κτ + 1−κ) / (κ(1+4c) + 1−κ) at c = 0.02 and 0.25, by hand from the counts."""
    reading = read(FOLDER / name)[0]
    kappa, tau = reading.coverage, 1 + 206 / 120
    assert kappa is not None
    low, high = (
        (kappa * tau + 1 - kappa) / (kappa * (1 + 4 * c) + 1 - kappa) for c in (0.25, 0.02)
    )
    assert f"{low:.2f}× to {high:.2f}×" in advice(reading, UNKNOWN).headline
    row = rows(reading, UNKNOWN)[4]
    assert row["walltime_improvement_low"] == pytest.approx(low, rel=1e-5)
    assert row["walltime_improvement_high"] == pytest.approx(high, rel=1e-5)


@pytest.mark.parametrize("base", [EXAMPLE, UNKNOWN, SERVED], ids=["example", "unknown", "served"])
def test_the_calculator_repeats_the_log_s_speedup(base: Scenario) -> None:
    """At the γ that ran, with and without coverage, in every form of the costs."""
    seen = set()
    for reading in samples():
        if reading.tree or reading.gamma is None or reading.tokens_per_step is None:
            continue
        curve = log_curve(reading, drafts_of(reading, base))
        taken = predict(scenario_from(reading, base))
        ours = float(curve.speedup[reading.gamma])
        assert taken.speedup.value == pytest.approx(ours, rel=2e-3), reading.format
        seen.add(curve.share < 1)
    assert seen == {True, False}


def test_a_refusal_is_said_where_the_log_is_handed_on() -> None:
    reading = read(FOLDER / "llamacpp_server_log_2026-08.txt")[0]
    notes = " ".join(handed_on(reading, EXAMPLE))
    assert "Only 78% of the steps had a draft" in notes
    assert "The log tells of γ=4 only" in notes
    assert scenario_from(reading, EXAMPLE).label == "llama.cpp log, only γ=4 known"
    assert scenario_from(reading, SERVED).coverage == pytest.approx(reading.coverage)
    assert handed_on(chain(), EXAMPLE) == ()
    # The next log takes the label over.
    assert scenario_from(chain(), scenario_from(reading, EXAMPLE)).label == "vllm log"


# ── one estimate, and what is not known ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("vllm_v0_log.txt", 1 + 3252 / 1902),
        ("trtllm_iteration_stats.json", 3.025),
        ("trtllm_request_perf_metrics.json", 2.725),
    ],
)
def test_handed_on_is_the_estimate(name: str, tokens: float) -> None:
    reading = read(FOLDER / name)[0]
    taken = scenario_from(reading, EXAMPLE)
    assert predict(taken).tokens_per_step == pytest.approx(tokens, abs=1e-5)
    assert taken.acceptance_form == "tokens_per_step"


def test_alpha_of_llama_speculative_is_the_inverted_share() -> None:
    (reading,) = read(FOLDER / "llama_speculative_stdout.txt")
    taken = scenario_from(reading, EXAMPLE)
    share = reading.accepted / reading.drafted
    assert taken.accepted_share == pytest.approx(share, abs=1e-6)
    alpha = drafts_of(reading, EXAMPLE)
    powers = [predict(alpha).alpha ** i for i in range(1, reading.gamma + 1)]
    assert sum(powers) / reading.gamma == pytest.approx(share, abs=1e-5)


def test_a_gamma_that_is_not_printed_is_unknown_not_zero() -> None:
    (reading,) = read(FOLDER / "vllm_v0_prometheus.txt")
    for base in (UNKNOWN, EXAMPLE):
        said = advice(reading, base)
        assert said.headline.startswith("The γ that ran is not printed: give it.")
        assert not any("log ends at" in reason for reason in said.because)
        assert "measured" not in {row["basis"] for row in rows(reading, base).values()}


def test_few_drafts_far_from_every_bound_tell_enough() -> None:
    """58 steps, first position .897: Wilson's 95% is .79 to .95, far above 0.4."""
    (reading,) = read(FOLDER / "vllm_response_per_request.json")
    found = diagnose(reading)
    assert reading.drafted == 174
    assert found is not None
    assert found.finding == "sound"


def test_few_drafts_near_a_bound_say_what_cannot_be_told() -> None:
    """20 of 50 first tokens: Wilson's 95% is .276 to .538, on both sides of 0.4."""
    reading = make_reading(
        "vllm", "made", steps=50, drafted=100, accepted=28, survival=(0.4, 0.16)
    )  # fmt: skip
    found = diagnose(reading)
    assert found is not None
    assert found.finding == "too little"
    assert "95% from 0.276 to 0.538" in found.seen


def test_sentences_hold_no_long_numbers_and_no_names_of_fields() -> None:
    bad = set()
    for reading in samples():
        for base in (EXAMPLE, UNKNOWN):
            for speed in (None, Speed(0.7, None, "observed"), Speed(1.6, None, "observed")):
                for each in answer_all(reading, base, speed):
                    for text in (each.headline, *each.because):
                        if TOO_EXACT.search(text) or re.search(r"[a-z]_[a-z]", text):
                            bad.add(text)
                        # One α a screen: that of the first answer.
                        assert "α≈" not in text
    assert bad == set()


# ── did it work? a plain run before ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["log_{}.txt", "metrics_{}.txt", "resp_{}.json"])
def test_a_plain_run_is_a_before(kind: str) -> None:
    """161 tokens in 6.256 s plain, 161 in 18.71 s with the draft: 0.334×, by every channel."""
    folder = FOLDER / "captured_llamacpp"
    before = read_run(folder / kind.format("none"))
    after = read_run(folder / kind.format("draftself"))
    found = review(before, after, UNKNOWN)
    assert found.decision == "roll back"
    assert found.observed is not None
    assert found.observed.value == pytest.approx(6.2564 / 18.7054, rel=2e-4)


def test_a_plain_log_among_other_lines_and_packed_in_bytes() -> None:
    text = (
        "started\nslot | prompt eval time = 100.00 ms / 10 tokens\n"
        "slot | eval time =  500.00 ms / 20 tokens\n"
    )
    (found,) = read_run(text.encode())
    assert found.fact("tokens_per_second") == 40.0
    with pytest.raises(LogError, match="no speculation"):
        read_run("nothing here\n")


def test_metrics_scraped_twice_give_the_change() -> None:
    page = "llamacpp:tokens_predicted_total {}\nllamacpp:tokens_predicted_seconds_total {}\n"
    (found,) = read_run([page.format(100, 10), page.format(300, 15)])
    assert found.fact("tokens_per_second") == 40.0


def test_damaged_plain_runs_are_read_or_refused() -> None:
    """Bytes struck out, doubled or replaced: a LogError or a speed above 0, nothing else."""
    rng = np.random.default_rng(7)
    names = ("log_none.txt", "metrics_none.txt", "resp_none.json")
    texts = [(FOLDER / "captured_llamacpp" / name).read_bytes() for name in names]
    texts.append((FOLDER / "guidellm_table.txt").read_bytes())
    texts.append(
        b"llamacpp:tokens_predicted_total 1e999\nllamacpp:tokens_predicted_seconds_total 1\n"
    )
    seen = 0
    for text in texts:
        for _ in range(25):
            start, length = int(rng.integers(len(text))), int(rng.integers(1, 60))
            new = (b"", 2 * text[start : start + length], rng.bytes(length), b"9" * length)
            damaged = text[:start] + new[int(rng.integers(4))] + text[start + length :]
            try:
                found = read_run(damaged)
            except LogError:
                continue
            for reading in found:
                speed = reading.fact("tokens_per_second") or reading.fact("mean_tpot_ms")
                assert isinstance(speed, float)
                assert 0 < speed < 1e30
                seen += 1
    assert seen > 50


def test_a_guidellm_table_is_a_before() -> None:
    """ITL 9.0 ms at concurrency 1, the row nearest to the benchmark's 8: 9.0 over its TPOT."""
    before = read_run(FOLDER / "guidellm_table.txt")
    after = read_run(FOLDER / "vllm_bench_serve_result.json")
    found = review(before, after, COSTS)
    assert found.observed is not None
    assert found.observed.value == pytest.approx(9.0 / 5.330134557212892)
    assert "Another concurrency: BEFORE 1.00, the other side 8.00" in found.warnings


def test_costs_that_nobody_gave_make_the_prediction_a_range() -> None:
    """τ = 2.8 over 1+3c, c from 0.02 to 0.25."""
    plain = make_reading("vllm", "made", facts={"mean_tpot_ms": 25.0})
    found = review([plain], [chain(facts={"mean_tpot_ms": 12.0})], cost_unknown(EXAMPLE))
    assert found.predicted is not None
    assert (found.predicted.low, found.predicted.high) == pytest.approx((2.8 / 1.75, 2.8 / 1.06))
    assert "draft cost unknown" in found.predicted.basis
    assert any("not known" in reason for reason in found.because)
    assert found.difference is not None
    assert found.difference.low == pytest.approx((25 / 12) / (2.8 / 1.06) - 1)
