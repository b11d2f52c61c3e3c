"""vLLM: v0, every v1 era, metrics, benchmark results, per-request metrics.

Expected numbers are worked from the sample text by hand; N = steps with a draft, D drafted, A
accepted.
"""

from __future__ import annotations

import pytest

from specmath.logs import LogError, read

LINE = (
    "INFO 09-14 10:00:10 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: {length}, "
    "Accepted throughput: 104.70 tokens/s, Drafted throughput: 183.60 tokens/s, Accepted: "
    "{accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
    "Avg Draft acceptance rate: {percent}%\n"
)


def test_current_log_pools_by_steps(sample, only, said):
    reading = only(sample("vllm_v1_log_current.txt"))
    # D/3 = 612 + 1490 + 3011 + 74 steps; A = 1047 + 2445 + 4842 + 118.
    assert (reading.steps, reading.drafted, reading.accepted) == (5187, 15561, 8452)
    assert reading.tokens_per_step == pytest.approx(1 + 8452 / 5187)
    assert reading.gamma == 3
    # s_1 weighted by steps, not a plain mean of lines.
    first = (0.812 * 612 + 0.791 * 1490 + 0.771 * 3011 + 0.797 * 74) / 5187
    assert reading.survival[0] == pytest.approx(first)
    assert reading.conditional[1] == pytest.approx(reading.survival[1] / reading.survival[0])
    rejected = 5187 * (1 - reading.survival[2])
    assert reading.alpha == pytest.approx(8452 / (8452 + rejected))
    assert reading.alpha_basis == "per-position"
    assert reading.alpha_interval[0] < reading.alpha < reading.alpha_interval[1]
    assert reading.windows[0].when == "09-14 10:00:10"
    assert [window.accepted for window in reading.windows] == [1047, 2445, 4842, 118]


def test_coverage_leaves_out_the_diluted_interval(sample, only, said):
    """After idle the printed speculative throughput is divided by the idle time (trap 9)."""
    reading = only(sample("vllm_v1_log_current.txt"))
    # 165.9, 393.5, 785.3 tokens/s over 10 s are exactly A + N of the first three lines.
    assert reading.coverage == pytest.approx(1.0, abs=0.002)
    assert said(reading, "1 intervals follow an idle gap")
    last = "\n".join(sample("vllm_v1_log_current.txt").read_text().splitlines()[-2:])
    assert only(last).coverage is None


def test_coverage_counts_passes_without_a_draft(only):
    text = (
        "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 200.0 "
        "tokens/s, Running: 8 reqs\n"
        + LINE.format(
            length="2.71", accepted=1047, drafted=1836, rates="0.812, 0.562, 0.337", percent="57.0"
        )
    )
    # 10 s at 200 tokens/s are 2000 tokens: 2000 - 1047 = 953 passes, 612 of them with a draft.
    reading = only(text)
    assert reading.coverage == pytest.approx(612 / 953, rel=1e-3)
    assert reading.tokens_per_pass == pytest.approx(2000 / 953, rel=1e-3)


def test_bonus_is_decided_by_the_identity(sample):
    readings = {one.format: one for one in read(sample("vllm_v1_log_history.txt"))}
    plain = readings["v1 log (2025-04, mean length without the bonus token)"]
    # 1.67 = .782 + .550 + .338: the length without the bonus, so tau is 2.67.
    assert plain.tokens_per_step == pytest.approx(1 + 668 / 400)
    middle = readings["v1 log (2025-05 to 2025-09)"]
    assert middle.tokens_per_step == pytest.approx(1 + 719 / 400)
    assert readings["v1 log (2025-09 on)"].tokens_per_step == pytest.approx(1 + 686 / 400)


def test_rates_alone_are_not_alpha(sample):
    readings = {one.format: one for one in read(sample("vllm_v1_log_history.txt"))}
    for form, share in (
        ("v1 log (before 2025-04)", 0.6475),
        ("v1 log (2025-04, rate only)", 0.2195),
    ):
        one = readings[form]
        assert one.alpha is None
        assert one.tokens_per_step is None
        assert one.accepted / one.drafted == pytest.approx(share)
    known = {one.format: one for one in read(sample("vllm_v1_log_history.txt"), gamma=4)}
    first = known["v1 log (before 2025-04)"]
    assert first.tokens_per_step == pytest.approx(1 + 259 / 100)
    total = sum(first.alpha**i for i in range(1, 5))
    assert total / 4 == pytest.approx(0.6475, abs=1e-9)
    assert first.alpha > 0.6475


def test_length_without_positions(only, said):
    shape = "SpecDecoding metrics: Draft acceptance rate: {}%, Mean acceptance length: {}, "
    counts = "Accepted: {} tokens, Drafted: {} tokens"
    # A/(2.5 - 1) = 200 steps of 3 tokens; A/2.5 = 120 steps of 5: both are possible.
    both = only((shape + counts).format("50.0", "2.50", 300, 600))
    assert both.tokens_per_step is None
    assert sorted(a.tokens_per_step for a in both.alternatives) == pytest.approx([2.5, 3.5])
    assert sorted(a.gamma for a in both.alternatives) == [3, 5]
    assert said(both, "two readings")
    known = only((shape + counts).format("50.0", "2.50", 300, 600), gamma=3)
    assert known.tokens_per_step == pytest.approx(2.5)
    # A/(1.67 - 1) = 1000 steps of 1.2 tokens cannot be; A/1.67 = 400 steps of 3 can.
    one = only((shape + counts).format("55.7", "1.67", 668, 1200))
    assert one.tokens_per_step == pytest.approx(2.67, abs=0.005)
    assert "without the bonus" in one.format


def test_short_drafts_bound_alpha(only, said):
    """200 drafts of at most 3 tokens that offered 500: the rates at later positions are lowered."""
    reading = only(
        LINE.format(
            length="2.30", accepted=260, drafted=500, rates="0.700, 0.400, 0.200", percent="52.0"
        )
    )
    assert reading.steps == 200
    assert reading.drafted_per_step == pytest.approx(2.5)
    # Rejections: at most 200 * 0.8 = 160; the 100 missing tokens may have ended whole drafts, but
    # 240 lost tokens need 80 rejections.
    assert reading.alpha == pytest.approx(260 / 420)
    low, high = reading.alpha_interval
    assert low < 260 / 420
    assert high > 260 / 340
    assert "lower bound" in reading.alpha_basis
    assert said(reading, "drafts vary in length")


def test_contradictions_are_said_with_line_numbers(only, said):
    good = LINE.format(
        length="2.71", accepted=1047, drafted=1836, rates="0.812, 0.562, 0.337", percent="57.0"
    )
    rising = LINE.format(
        length="2.71", accepted=1047, drafted=1836, rates="0.812, 0.902, 0.337", percent="57.0"
    )
    readings = read(good + rising)
    assert any("line 2: per-position rates not used" in w for w in readings[0].warnings)
    assert any("position 2 is 0.902" in w for w in readings[0].warnings)
    cut = good + "INFO SpecDecoding metrics: Mean acceptance length: 2.7"
    reading = only(cut)
    assert reading.steps == 612
    assert said(reading, "line 2: a 'SpecDecoding metrics' line is cut off")
    wrong = good + good.replace("Accepted: 1047", "Accepted: 1947")
    assert only(wrong).steps == 612
    assert said(only(wrong), "line 2: more tokens accepted than drafted")


def test_synthetic_acceptance_is_flagged(sample, only, said):
    text = sample("vllm_v1_log_current.txt").read_text()
    config = "speculative_config={'method': 'eagle3', 'rejection_sample_method': 'synthetic'}\n"
    assert said(only(config + text), "synthetic acceptance")
    assert not said(only(text), "synthetic")


def test_tree_has_no_alpha(sample, only, said):
    tree = "SpeculativeConfig(speculative_token_tree='[(0,), (1,), (0, 0)]')\n"
    reading = only(tree + sample("vllm_v1_log_current.txt").read_text())
    assert reading.alpha is None
    assert reading.tokens_per_step == pytest.approx(1 + 8452 / 5187)
    assert said(reading, "a token tree")


def test_diffusion_lines_are_not_speculation():
    with pytest.raises(LogError, match="DiffusionDecoding"):
        read("INFO DiffusionDecoding metrics: Committed token throughput: 10.0 tokens/s")


def test_v0_totals(sample, said):
    """tau from emitted tokens, alpha the rate of single positions, runs cut at restarts."""
    four, five = read(sample("vllm_v0_log.txt"))
    assert (four.gamma, four.steps, four.drafted) == (4, 1902, 7608)
    assert four.tokens_per_step == pytest.approx(5154 / 1902)
    assert four.tokens_per_step == pytest.approx(0.542 * 5, abs=0.005)
    assert four.accepted == 5154 - 1902  # not the 4793 that the log prints
    assert four.alpha == pytest.approx(4793 / 7608)
    assert four.alpha_basis == "per-token rate"
    assert said(four, "(4793) counts positions that pass on their own")
    assert [window.steps for window in four.windows] == [640, 620, 642]
    # The oldest wording doubles a word: `draft tokens tokens`.
    assert (five.gamma, five.steps, five.drafted) == (5, 300, 1500)
    assert five.tokens_per_step == pytest.approx(690 / 300)


def test_v0_restart_adds_the_runs(sample, said):
    line = sample("vllm_v0_log.txt").read_text().splitlines()[1]
    (reading,) = read(f"{line}\n{line.replace('1613', '161').replace('2560', '256')}")
    # 2560 tokens, then 256 after the restart, in drafts of 4.
    assert reading.drafted == 2816
    assert said(reading, "line 2: totals fall here: the server restarted")


def test_v0_metrics_use_the_gauges_only(sample, only, said):
    reading = only(sample("vllm_v0_prometheus.txt"))
    assert reading.drafted is None
    assert reading.accepted is None
    assert reading.alpha == pytest.approx(0.629995)
    assert said(reading, "sums of running totals: ignored")
    assert only(sample("vllm_v0_prometheus.txt"), gamma=4).tokens_per_step == pytest.approx(
        5 * 0.541956
    )


def test_zero_efficiency_is_no_length(only, said):
    """Found by fuzzing: (gamma + 1) x 0 is not a number of tokens per step."""
    reading = only(
        "vllm:spec_decode_efficiency 0\nvllm:spec_decode_draft_acceptance_rate 0", gamma=4
    )
    assert reading.tokens_per_step is None
    assert said(reading, "cannot be (at least 1)")


def test_rates_run_together_are_not_used(only, said):
    """Found by fuzzing: a damaged separator once made two rates one number."""
    text = LINE.format(
        length="2.71", accepted=1047, drafted=1836, rates="0.812, 0.5620.337", percent="57.0"
    )
    reading = only(text)
    assert reading.survival is None
    assert said(reading, "line 1: per-position rates are cut off")


def test_metrics_since_start_sum_the_engines(sample, only):
    reading = only(sample("vllm_v1_prometheus_t0.txt"))
    assert (reading.steps, reading.drafted, reading.accepted) == (10400, 31200, 18104)
    assert reading.survival == pytest.approx((8468 / 10400, 5944 / 10400, 3692 / 10400))
    # generation_tokens - accepted = 5000 + 5400: every pass had a draft.
    assert reading.coverage == pytest.approx(1.0)


def test_accepted_tokens_that_a_stop_trimmed(sample, only, said):
    """Generated less accepted falls short of the steps: coverage is 1, and the reason is said."""
    text = sample("vllm_v1_prometheus_t0.txt").read_text()
    reading = only(text.replace("13765.0", "13665.0"))
    assert reading.coverage == 1.0
    assert said(reading, "before a stop or the length limit trims the output")
    assert not said(only(text), "trims the output")


def test_two_dumps_give_the_change(sample, only, said):
    t0, t1 = sample("vllm_v1_prometheus_t0.txt"), sample("vllm_v1_prometheus_t1.txt")
    reading = only(t0, t1)
    assert (reading.steps, reading.drafted, reading.accepted) == (4290, 12870, 6122)
    assert reading.survival == pytest.approx((3090 / 4290, 1940 / 4290, 1092 / 4290))
    # Concatenated in one text is the same.
    assert only(t0.read_text() + t1.read_text()).accepted == 6122
    backwards = only(t1, t0)
    assert backwards.accepted == 6122
    assert said(backwards, "the second dump is the older one")


def middle(intervals: int, clock: bool = True) -> str:
    """2025-05 to 2025-09, γ=3: every ten seconds 500 passes of which 200 had a draft."""
    lines = []
    for i in range(intervals):
        at = f"INFO 06-14 10:{i // 6:02d}:{i % 6}0"
        if clock:
            lines.append(
                f"{at} [loggers.py:116] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
                "Avg generation throughput: 74.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
                "GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%"
            )
        lines.append(
            f"{at} [metrics.py:61] SpecDecoding metrics: Draft acceptance rate: 40.0%, Mean "
            "acceptance length: 2.20, Accepted: 240 tokens, Drafted: 600 tokens, "
            "Per-position acceptance rate: 0.600, 0.400, 0.200"
        )
    return "\n".join(lines)


@pytest.mark.parametrize("intervals", [3, 40])
def test_coverage_before_throughputs_stood_on_the_line(only, intervals) -> None:
    """74 tokens a second for ten seconds less 240 accepted are 500 passes, 200 with a draft."""
    reading = only(middle(intervals))
    assert reading.coverage == pytest.approx(0.4)
    assert reading.tokens_per_pass == pytest.approx(1 + 240 / 500)


def test_coverage_that_nothing_tells_is_unknown(only, said) -> None:
    reading = only(middle(20, clock=False))
    assert reading.coverage is None
    assert said(reading, "coverage is unknown")
