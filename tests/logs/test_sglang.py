"""SGLang: three eras of one log line, metrics, request records, benchmark results."""

from __future__ import annotations

import json

import pytest

from specmath.logs import LogError, read
from specmath.logs.engines.sglang.log import ERA_A, ERA_B, _candidates

LINE = (
    "[2026-05-04 10:00:0{n} TP0] Decode batch, #running-req: {run}, #token: 2211, token usage: "
    "0.03, accept len: {length}, accept rate: {rate}, cuda graph: True, gen throughput (token/s): "
    "188.00, #queue-req: 0,\n"
)
CHAIN = "server_args=ServerArgs(speculative_num_steps=4, speculative_eagle_topk=1, "


def test_three_eras_in_one_file(sample):
    old, first, second = read(sample("sglang_log.txt"))
    assert old.format == "log, era 2025 H1"
    assert old.tokens_per_step == pytest.approx(2.20)
    assert old.alpha is None
    # Weighted by #running-req: 1 and 8, then 1 and 16.
    assert first.format == "log, era A, 2025-10"
    assert first.tokens_per_step == pytest.approx((2.35 + 8 * 2.60) / 9)
    assert second.format == "log, era B, 2026"
    assert second.tokens_per_step == pytest.approx((2.73 + 16 * 2.45) / 17)
    for one in (first, second):
        assert one.gamma == 3
        assert 1 + sum(one.alpha**i for i in (1, 2, 3)) == pytest.approx(one.tokens_per_step)
        assert one.alpha_basis == "inverted tokens per step"
        assert one.steps is None


@pytest.mark.parametrize("tokens", range(2, 17))
@pytest.mark.parametrize("share", [0.07, 0.33, 0.5, 0.81, 0.99])
def test_truth_is_always_among_the_candidates(tokens, share):
    """Any acceptance printed by either era, rounded to 0.01, allows the true pair."""
    length = 1 + share * (tokens - 1)
    era_a = _candidates(round(length, 2), round(length / tokens, 2))
    era_b = _candidates(round(length, 2), round(share, 2))
    assert (ERA_A, tokens) in era_a
    assert (ERA_B, tokens) in era_b


def test_ambiguous_pair_gives_both_readings(only, said):
    # 3.00 / 0.50 = 6 draft tokens (era A), or 2.00 / 0.50 + 1 = 5 (era B).
    text = LINE.format(n=1, run=1, length="3.00", rate="0.50")
    reading = only(text)
    assert reading.tokens_per_step == pytest.approx(3.0)
    assert reading.alpha is None
    assert reading.gamma is None
    assert {(one.format, one.gamma) for one in reading.alternatives} == {
        ("log, era A, 2025-10", 5),
        ("log, era B, 2026", 4),
    }
    assert said(reading, "more than one era")
    # One more line, the server's arguments or a known gamma settles it.
    more = text + LINE.format(n=2, run=1, length="2.73", rate="0.43")
    assert only(more).format == "log, era B, 2026"
    assert only(CHAIN + "speculative_num_draft_tokens=5)\n" + text).gamma == 4
    assert only(text, gamma=5).format == "log, era A, 2025-10"


def test_rate_above_one_is_not_used(only, said):
    """Just before PR 11572 the rate could exceed 1."""
    reading = only(LINE.format(n=1, run=1, length="2.60", rate="1.30"))
    assert reading.tokens_per_step == pytest.approx(2.60)
    assert said(reading, "fits neither")


def test_tree_never_gives_alpha(only, said):
    args = CHAIN.replace("topk=1", "topk=4") + "speculative_num_draft_tokens=16)\n"
    reading = only(args + LINE.format(n=1, run=1, length="2.80", rate="0.12"))
    assert reading.alpha is None
    assert reading.tokens_per_step == pytest.approx(2.80)
    assert said(reading, "a token tree")


def test_log_without_speculation():
    with pytest.raises(LogError, match="1 SGLang 'Decode batch' lines without accept len"):
        read("[2026-05-04 10:00:01] Decode batch, #running-req: 1, gen throughput (token/s): 88.0")


@pytest.mark.parametrize("lines", [3, 40])
def test_an_idle_server_is_sglangs(lines):
    """No request ran in any line: nothing to weigh, but the format is known."""
    line = (
        "[2026-05-04 10:00:00 TP0] Decode batch, #running-req: 0, #token: 0, token usage: 0.00, "
        "accept len: 1.00, accept rate: 0.00, cuda graph: True, #queue-req: 0, "
    )
    with pytest.raises(LogError, match=f"SGLang.*no step with requests.*in all {lines} lines"):
        read("\n".join([line] * lines))


def test_meta_info_of_every_shape(sample):
    readings = {one.format: one for one in read(sample("sglang_meta_info.json"))}
    assert len(readings) == 4
    for one in readings.values():
        # 147 tokens, of which prefill gave the first: 146 / 61, not the printed 147 / 61 = 2.41.
        assert one.tokens_per_step == pytest.approx(146 / 61)
        assert (one.steps, one.accepted) == (61, 85)
    bare = readings.pop("meta_info (2025-01)")
    assert bare.drafted is None
    for one in readings.values():
        # Histogram 14, 20, 16, 11.
        assert one.survival == pytest.approx((47 / 61, 27 / 61, 11 / 61))
        assert one.alpha == pytest.approx(85 / (85 + 61 - 11))
        assert one.gamma == 3


def test_server_info(sample, only, said):
    reading = only(sample("sglang_server_info.json"))
    assert reading.tokens_per_step == pytest.approx(2.71)
    assert reading.gamma == 3
    assert said(reading, "since the server started")
    info = json.loads(sample("sglang_server_info.json").read_text())
    info.update(speculative_eagle_topk=8, speculative_num_draft_tokens=32)
    tree = only(json.dumps(info))
    assert tree.alpha is None
    assert said(tree, "a token tree")


def test_bench(sample, only, said):
    reading = only(sample("sglang_bench_serving.jsonl"))
    assert reading.tokens_per_step == pytest.approx(2.64)
    assert reading.alpha is None
    # Its ITL is per token already: ITL / TPOT says nothing about tokens a chunk.
    assert reading.fact("tokens_per_chunk") is None
    alpha = only(sample("sglang_bench_serving.jsonl"), gamma=3).alpha
    assert 1 + alpha + alpha**2 + alpha**3 == pytest.approx(2.64)
    plain = json.loads(sample("sglang_bench_serving.jsonl").read_text()) | {"accept_length": None}
    assert said(only(json.dumps(plain)), "did not speculate")


METRICS = """\
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{{model_name="m"}} 2.9
# TYPE sglang:spec_verify_calls_total counter
sglang:spec_verify_calls_total{{model_name="m"}} {verify}
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{model_name="m"}} {tokens}
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{{model_name="m"}} {requests}
"""


def test_metrics_use_counters_not_gauges(only, said):
    before = METRICS.format(verify=1000, tokens=2600, requests=20)
    after = METRICS.format(verify=3000, tokens=7640, requests=60)
    # 5040 tokens, 40 of them from prefill, in 2000 verify calls.
    reading = only(before, after)
    assert reading.tokens_per_step == pytest.approx(2.5)
    gauge = only("\n".join(before.splitlines()[:2]))
    assert gauge.tokens_per_step == pytest.approx(2.9)
    assert said(gauge, "last log interval only")
