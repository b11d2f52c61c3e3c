"""`vllm bench serve`, saved and printed, and per-request response metrics."""

from __future__ import annotations

import json

import pytest

from specmath.logs import read


def test_bench_json(sample, only):
    reading = only(sample("vllm_bench_serve_result.json"))
    assert (reading.steps, reading.drafted, reading.accepted) == (7000, 21000, 12174)
    assert reading.tokens_per_step == pytest.approx(2.7391428571)
    assert reading.survival == pytest.approx((0.8131428571, 0.5722857143, 0.3537142857))
    assert reading.fact("mean_tpot_ms") == pytest.approx(5.330134557)
    # This client prints one gap a chunk: ITL / TPOT is the tokens of a chunk.
    assert reading.fact("tokens_per_chunk") == pytest.approx(2.739, abs=0.001)
    assert not reading.warnings


def test_bench_rate_is_a_percentage_and_counts_win(sample, only, said):
    result = json.loads(sample("vllm_bench_serve_result.json").read_text())
    result["spec_decode_acceptance_rate"] = 0.5797
    assert said(only(json.dumps(result)), "is not accepted / drafted in percent")


def test_bench_created_bug(sample, only, said):
    result = json.loads(sample("vllm_bench_serve_result.json").read_text())
    result["spec_decode_num_drafts"] += 1789123450
    reading = only(json.dumps(result))
    assert reading.tokens_per_step is None
    assert said(reading, "_created times")


def test_bench_plain_run_keeps_its_facts(sample, only, said):
    result = json.loads(sample("vllm_bench_serve_result.json").read_text())
    plain = {key: value for key, value in result.items() if not key.startswith("spec_")}
    plain["mean_itl_ms"] = 1.02 * plain["mean_tpot_ms"]
    reading = only(json.dumps(plain))
    assert reading.tokens_per_step is None
    assert reading.fact("mean_itl_ms") == plain["mean_itl_ms"]
    assert "no speculation" in reading.format
    assert said(reading, "no speculative fields")


def test_fields_that_are_missing_do_not_make_a_run_plain(sample, only, said):
    """2.74 tokens came in each chunk, so it drafted, whatever the client did not save."""
    result = json.loads(sample("vllm_bench_serve_result.json").read_text())
    untold = {key: value for key, value in result.items() if not key.startswith("spec_")}
    reading = only(json.dumps(untold))
    assert reading.tokens_per_step is None
    assert reading.fact("speculation") == "unknown"
    assert "no speculation" not in reading.format
    assert said(reading, "no evidence")
    assert said(reading, "tokens a chunk")


BENCH = """\
============ Serving Benchmark Result ============
Successful requests:                     100
Maximum request concurrency:             8
Output token throughput (tok/s):         459.81
---------------Time to First Token----------------
Mean TTFT (ms):                          88.10
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          5.33
---------------Inter-token Latency----------------
Mean ITL (ms):                           14.60
---------------Speculative Decoding---------------
Acceptance rate (%):                     57.97
Acceptance length:                       2.74
Drafts:                                  7000
Draft tokens:                            21000
Accepted tokens:                         12174
Per-position acceptance (%):
  Position 0:                            81.31
  Position 1:                            57.23
  Position 2:                            35.37
==================================================
"""


def test_bench_stdout(only):
    reading = only("some line\n" + BENCH)
    assert (reading.steps, reading.drafted, reading.accepted) == (7000, 21000, 12174)
    assert reading.survival == pytest.approx((0.8131, 0.5723, 0.3537))
    assert reading.fact("max_concurrency") == 8
    assert reading.fact("mean_itl_ms") == 14.6
    assert len(read(BENCH + BENCH)) == 2


def test_per_request_response(sample, only):
    reading = only(sample("vllm_response_per_request.json"))
    assert (reading.steps, reading.drafted, reading.accepted) == (58, 174, 106)
    # Histogram 6, 18, 14, 20 of 58 steps.
    assert reading.survival == pytest.approx((52 / 58, 34 / 58, 20 / 58))
    assert reading.alpha == pytest.approx(106 / (106 + 58 - 20))
    assert reading.alpha_basis == "histogram"
    assert reading.generated == 165


def test_per_step_record_counts_rejections(sample, only):
    response = json.loads(sample("vllm_response_per_request.json").read_text())
    block = response["metrics"]["speculative_decoding"]
    block.update(
        num_spec_steps=4,
        num_draft_tokens=9,
        num_accepted_draft_tokens=5,
        mean_acceptance_length=2.25,
        acceptance_histogram=[1, 1, 2, 0],
        per_step_accepted=[2, 2, 1, 0],
        per_step_drafted=[2, 3, 3, 1],
    )
    # The first step took its whole (short) draft, the other three were rejected once each.
    reading = only(json.dumps(response))
    assert reading.alpha == pytest.approx(5 / 8)
    assert reading.alpha_basis == "per-step record"


def test_requests_are_a_distribution(sample, only):
    response = json.loads(sample("vllm_response_per_request.json").read_text())
    block = response["metrics"]["speculative_decoding"]
    lines = []
    for accepted in range(0, 60, 6):
        block.update(
            num_accepted_draft_tokens=accepted,
            num_spec_steps=60,
            num_draft_tokens=180,
            mean_acceptance_length=1 + accepted / 60,
            acceptance_histogram=[60 - accepted, accepted, 0, 0],
        )
        lines.append(json.dumps(response))
    reading = only("\n".join(lines))
    assert reading.requests.count == 10
    assert reading.requests.measure == "tokens_per_step"
    assert reading.requests.values == pytest.approx([1 + a / 60 for a in range(0, 60, 6)])
    assert reading.requests.p50 == pytest.approx(1.45)
    # Requests this different make the steps of one request alike: the interval must widen. Of 870
    # tries taken as independent it would be 2 · 1.96 √(.31 · .69/870) = 0.06 wide.
    assert "the spread over 10 windows" in reading.interval_basis
    low, high = reading.alpha_interval
    assert high - low > 0.15
