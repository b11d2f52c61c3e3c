"""Latency and load: what pages, lines and clients tell, by hand and against an independent sum."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specmath.logs import Reading, read, read_run
from specmath.logs.engines import prometheus
from specmath.logs.service import NO_SERVICE, Latency, Meter, Service, of_buckets, together

LOAD = (
    "INFO 09-14 10:0{minute}:00 [loggers.py:257] Engine 000: Avg prompt throughput: {prompt} "
    "tokens/s, Avg generation throughput: {made} tokens/s, Running: {running} reqs, Waiting: "
    "{waiting} reqs, GPU KV cache usage: {kv}%, Prefix cache hit rate: {hits}%"
)


def alone(text: str) -> Reading:
    (found,) = read_run(text)
    return found


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_quantiles_of_buckets_hold_the_true_ones(shape: float) -> None:
    """Gamma-distributed waits in Prometheus' buckets: each quantile lies in the bucket of the true
    one, and the mean is exact."""
    waits = np.random.default_rng(5).gamma(shape, 0.2, 20_000)
    bounds = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, math.inf]
    below = {bound: float(np.count_nonzero(waits <= bound)) for bound in bounds}
    found = of_buckets(float(waits.sum()), float(waits.size), below)
    assert found is not None
    assert found.mean == pytest.approx(waits.mean())
    for share, told in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
        true = float(np.quantile(waits, share))
        bucket = int(np.searchsorted(bounds, true))
        assert told is not None
        assert ([0.0, *bounds][bucket]) <= told <= bounds[bucket]


def test_what_lies_above_the_last_bound_has_no_quantile() -> None:
    found = of_buckets(100.0, 10.0, {1.0: 2.0, math.inf: 10.0})
    assert found == Latency(10.0, None, None, None, count=10)
    assert of_buckets(0.0, 0.0, {1.0: 0.0}) is None


def test_a_plain_vllm_log_tells_its_speed_and_load() -> None:
    """Two lines at 4 and 8 running: 9 ms is 6 running over 660 tokens/s; an idle one is none."""
    lines = [
        LOAD.format(minute=0, prompt=100.0, made=440.0, running=4, waiting=0, kv=10.0, hits=50.0),
        LOAD.format(minute=1, prompt=300.0, made=880.0, running=8, waiting=2, kv=20.0, hits=70.0),
        LOAD.format(minute=2, prompt=0.0, made=0.0, running=0, waiting=0, kv=0.0, hits=70.0),
    ]
    found = alone("\n".join(lines))
    load = found.service
    assert (found.engine, found.speculates) == ("vllm", False)
    assert (load.running, load.waiting, load.samples) == (6.0, 1.0, 2)
    assert (load.kv_use, load.prefix_hits) == pytest.approx((0.15, 0.6))
    assert (load.generated_per_second, load.prompt_per_second) == (660.0, 200.0)
    assert load.seconds_per_token == pytest.approx(6 / 660)
    assert [(each.running, each.generated_per_second) for each in load.levels] == [
        (4, 440.0), (8, 880.0),
    ]  # fmt: skip


def page(**values: float) -> str:
    names = {
        "drafts": "vllm:spec_decode_num_drafts_total",
        "drafted": "vllm:spec_decode_num_draft_tokens_total",
        "accepted": "vllm:spec_decode_num_accepted_tokens_total",
        "made": "vllm:generation_tokens_total",
        "prompts": "vllm:prompt_tokens_total",
        "done": "vllm:request_success_total",
        "gap_sum": "vllm:inter_token_latency_seconds_sum",
        "gap_count": "vllm:inter_token_latency_seconds_count",
        "ttft_sum": "vllm:time_to_first_token_seconds_sum",
        "ttft_count": "vllm:time_to_first_token_seconds_count",
        "hits": "vllm:prefix_cache_hits_total",
        "asked": "vllm:prefix_cache_queries_total",
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv": "vllm:kv_cache_usage_perc",
        "thrown": "vllm:num_preemptions_total",
    }
    return "".join(f'{names[n]}{{engine="0",model_name="m"}} {v}\n' for n, v in values.items())


def test_a_chunk_gap_is_no_time_per_token() -> None:
    """vLLM observes one gap a step. 1,000 steps of 20 ms gave 3,000 tokens of 10 requests:
    20 s / 2,990 tokens is TPOT, 20 ms the gap."""
    text = page(drafts=1000, drafted=3000, accepted=2000, made=3000, done=10, prompts=5000,
                gap_sum=20.0, gap_count=1000, ttft_sum=1.0, ttft_count=10, hits=30, asked=120,
                running=4, waiting=0, kv=0.5, thrown=3)  # fmt: skip
    (found,) = read(text)
    load = found.service
    assert load.itl is not None
    assert load.itl.mean == pytest.approx(0.020)
    assert load.tpot is not None
    assert load.tpot.mean == pytest.approx(20.0 / 2990)
    assert load.ttft is not None
    assert load.ttft.mean == pytest.approx(0.1)
    assert (load.prefix_hits, load.preemptions, load.requests) == (0.25, 3, 10)
    assert (load.prompt_tokens, load.output_tokens) == (500.0, 300.0)
    assert (load.running, load.kv_use) == (4.0, 0.5)


def test_two_dumps_tell_what_happened_between_them() -> None:
    """100 tokens after the first of 10 requests more, in 2 s of gaps: 20 ms a token."""
    common = {"running": 2, "waiting": 0}
    first = page(made=1000, done=100, gap_sum=9.0, gap_count=900, **common)
    then = page(made=1110, done=110, gap_sum=11.0, gap_count=1000, **common)
    (found,) = read_run([first, then])
    assert found.service.tpot is not None
    assert found.service.tpot.mean == pytest.approx(0.020)


def test_sglang_observes_a_gap_a_token() -> None:
    text = (
        'sglang:inter_token_latency_seconds_sum{model_name="m"} 12.0\n'
        'sglang:inter_token_latency_seconds_count{model_name="m"} 1000\n'
        'sglang:num_running_reqs{model_name="m"} 3\n'
    )
    found = alone(text)
    assert found.service.seconds_per_token == pytest.approx(0.012)
    assert found.service.itl is None


def test_a_plain_sglang_log() -> None:
    line = (
        "[2026-05-04 10:00:0{n} TP0] Decode batch, #running-req: 8, #token: 4388, token usage: "
        "0.25, cuda graph: True, gen throughput (token/s): {rate}, #queue-req: 2, "
    )
    found = alone("\n".join(line.format(n=n, rate=r) for n, r in enumerate((760.0, 840.0))))
    assert found.service.seconds_per_token == pytest.approx(8 / 800)
    assert (found.service.waiting, found.service.kv_use) == (2.0, 0.25)


def test_iterations_of_tensorrt_llm_weigh_by_their_time() -> None:
    """10 ms with 4 tokens and 30 ms with 8: 12 tokens in 40 ms."""
    step = '{{"iterLatencyMS": {ms}, "numQueuedRequests": 0, "inflightBatchingStats": ' \
           '{{"numGenRequests": {n}, "avgNumDecodedTokensPerIter": 1.0, "numCtxTokens": 0}}, ' \
           '"kvCacheStats": {{"usedNumBlocks": 60, "maxNumBlocks": 100}}}}\n'  # fmt: skip
    found = alone(step.format(ms=10.0, n=4) + step.format(ms=30.0, n=8))
    assert found.service.generated_per_second == pytest.approx(12 / 0.040)
    assert (found.service.running, found.service.kv_use) == pytest.approx((7.0, 0.6))


def test_servers_side_by_side_add_up() -> None:
    one = Service(tpot=Latency(0.010, count=100), running=2.0, generated_per_second=200.0,
                  kv_use=0.2, requests=100)  # fmt: skip
    other = Service(tpot=Latency(0.020, count=300), running=6.0, generated_per_second=300.0,
                    kv_use=0.6, requests=300)  # fmt: skip
    both = together([one, other])
    assert both.tpot == Latency(0.0175, count=400)
    assert (both.running, both.generated_per_second, both.requests) == (8.0, 500.0, 400)
    assert both.kv_use == pytest.approx(0.5)
    assert both.waiting is None
    assert together([NO_SERVICE, one]) == one
    assert together([]) == NO_SERVICE


def test_a_meter_takes_lines_and_columns_alike() -> None:
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 5, 2000).astype(float), rng.random(2000), rng.random(2000),
               rng.random(2000), rng.random(2000) * 100, rng.random(2000)]  # fmt: skip
    columns[2][::7] = math.nan
    one, many = Meter(), Meter()
    many.extend(*columns)
    for row in zip(*columns, strict=True):
        one.add(*row)
    first, last = one.service(), many.service()
    assert first.samples == last.samples
    assert [level.lines for level in first.levels] == [level.lines for level in last.levels]
    for name in Meter.NAMES:
        assert getattr(first, name) == pytest.approx(getattr(last, name))
    kept = columns[4] > 0
    assert last.kv_use == pytest.approx(np.nanmean(columns[2][kept]))


def test_a_page_cut_in_the_middle_and_one_of_many_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MOST_SERIES", 500)
    text = page(made=1000, done=100, gap_sum=9.0, gap_count=900, running=2)
    found = alone(text + 'vllm:time_to_first_token_seconds_sum{engine="0",mod')
    assert found.service.running == 2.0
    many = "".join(
        f'vllm:generation_tokens_total{{engine="{n}",model_name="m"}} 5\n' for n in range(1, 600)
    )
    (whole,) = read_run(text + many)[:1]
    assert whole.service.running == 2.0
