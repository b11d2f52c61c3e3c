"""TensorRT-LLM, TGI, LM Studio, mlx-lm, mlx-vlm, Ollama, AIPerf, guidellm; and the registry."""

from __future__ import annotations

import json

import pytest

from specmath.logs import LogError, engines, read
from specmath.logs.detect import Marks
from specmath.logs.engines.base import Parser


def test_tensorrt_iterations(sample, only):
    reading = only(sample("trtllm_iteration_stats.json"))
    # Five iterations of 8 requests with 3 tokens each; 16 + 18 + 17 + 17 + 13 accepted.
    assert (reading.steps, reading.drafted, reading.accepted) == (40, 120, 81)
    assert reading.tokens_per_step == pytest.approx((81 + 40) / 40)
    assert reading.gamma == 3
    assert reading.coverage == 1.0
    assert reading.draft_seconds == pytest.approx(0.0024)
    share = 5 * 2.4 / (16.2 + 16.3 + 16.4 + 16.5 + 16.6)
    assert reading.draft_share == pytest.approx(share)
    assert reading.c == pytest.approx(share / (1 - share) / 3)
    assert [window.accepted for window in reading.windows] == [16, 18, 17, 17, 13]


def test_tensorrt_missing_iterations_and_cut_off(sample, said):
    text = sample("trtllm_iteration_stats.json").read_text()
    (gap,) = read(text.replace('"iter": 102', '"iter": 110'))
    assert said(gap, "iterations are missing here")
    (cut,) = read(text[: text.index('"iter": 104')])
    assert cut.accepted == 16 + 18 + 17 + 17
    assert said(cut, "JSON is cut off: 4 complete objects")


def test_tensorrt_request(sample, only, said):
    reading = only(sample("trtllm_request_perf_metrics.json"))
    # (2.725 - 1) * 120 / 69 = 3.000: drafts of 3, so 40 steps.
    assert (reading.steps, reading.gamma) == (40, 3)
    assert reading.tokens_per_step == pytest.approx(2.725)
    record = json.loads(sample("trtllm_request_perf_metrics.json").read_text())
    record["request_perf_metrics"]["speculative_decoding"] = {
        "acceptance_rate": 0.0,
        "total_accepted_draft_tokens": 0,
        "total_draft_tokens": 0,
    }
    with pytest.raises(LogError, match="PyTorch path did not fill them"):
        read(json.dumps(record))


def test_tensorrt_metrics(only, said):
    rows = [
        f'trtllm_spec_decode_{kind}_tokens_total{{token_position="{i}"}} {value}'
        for kind, values in (("drafted", (100, 90, 80)), ("accepted", (70, 50, 20)))
        for i, value in enumerate(values)
    ]
    reading = only("\n".join(rows))
    assert (reading.steps, reading.drafted, reading.accepted) == (100, 270, 140)
    assert reading.survival == pytest.approx((0.7, 0.5, 0.2))
    gauges = only(
        "trtllm_spec_decode_num_draft_tokens 24\ntrtllm_spec_decode_num_accepted_tokens 16\n"
        "trtllm_spec_decode_acceptance_length 3.0\ntrtllm_spec_decode_draft_overhead 0.15\n"
    )
    assert gauges.tokens_per_step == pytest.approx(3.0)
    assert gauges.draft_share == pytest.approx(0.15)
    assert said(gauges, "gauges here: the last iteration only")


def test_tgi_counts_steps_not_requests(sample, only, said):
    reading = only(sample("tgi_prometheus.txt"))
    # 9320 records less one prefill record for each of 160 requests.
    assert (reading.steps, reading.accepted) == (9160, 8123)
    assert reading.tokens_per_step == pytest.approx(1 + 8123 / 9160)
    assert reading.survival is None  # the bucket lines of the sample are comments
    assert said(reading, "the draft may be longer")
    assert said(reading, "equals the sampled one")


def test_tgi_buckets(sample, only):
    text = sample("tgi_prometheus.txt").read_text()
    reading = only(text.replace("# tgi_request_skipped_tokens_b", "tgi_request_skipped_tokens_b"))
    # 3710 - 160, 3097 and 2513 steps accepted 0, 1 and 2.
    assert reading.survival == pytest.approx((5610 / 9160, 2513 / 9160))
    assert reading.alpha == pytest.approx(8123 / (8123 + 9160 - 2513))


def test_lmstudio_share_of_output_is_not_acceptance(sample, said):
    sdk, rest = read(sample("lmstudio_stats.json"))
    for one in (sdk, rest):
        # 260 drafted, 28 of them never verified.
        assert (one.drafted, one.accepted) == (232, 161)
    assert sdk.fact("accepted_share_of_output") == pytest.approx(161 / 251)
    assert said(sdk, "64.1% of the output; accepted / verified drafts is 69.4%")
    # tokens per pass = 1 / (1 - share of output).
    assert sdk.tokens_per_pass == pytest.approx(1 / (1 - 161 / 251))
    assert rest.tokens_per_pass is None


def test_mlx_stream(sample, only, said):
    reading = only(sample("mlx_lm_stream_tokens.jsonl"))
    # Steps: F, TTF, TF, TTTF, F accept 0, 2, 1, 3, 0.
    assert (reading.steps, reading.accepted) == (5, 6)
    assert reading.tokens_per_step == pytest.approx(11 / 5)
    assert reading.survival == pytest.approx((3 / 5, 2 / 5, 1 / 5))
    assert said(reading, "gamma 3 is the longest run")
    longer = only(sample("mlx_lm_stream_tokens.jsonl"), gamma=4)
    assert longer.survival == pytest.approx((3 / 5, 2 / 5, 1 / 5, 0))
    assert longer.alpha == pytest.approx(6 / 11)


def test_mlx_stream_that_ends_inside_a_step(sample, only, said):
    lines = sample("mlx_lm_stream_tokens.jsonl").read_text().splitlines()
    reading = only("\n".join(lines[:9]))
    assert (reading.steps, reading.accepted) == (3, 3)
    assert said(reading, "that step was left out")


def test_mlx_vlm_rounds(only):
    timings = {"predicted_n": 200, "draft_kind": "mtp", "draft_rounds": 60, "draft_n": 180}
    reading = only(json.dumps({"timings": timings | {"draft_n_accepted": 120}}))
    assert (reading.engine, reading.steps, reading.gamma) == ("mlx-vlm", 60, 3)
    assert reading.tokens_per_step == pytest.approx(3.0)
    assert reading.shape == "chain"
    block = timings | {"draft_kind": "dflash", "draft_n_accepted": 120}
    assert only(json.dumps({"timings": block})).shape == "parallel"


OLLAMA = (
    'time=2026-05-01T10:00:00.000Z level=DEBUG source=runner.go:1 msg="speculative decode stats" '
    "iterations=155 drafted=372 accepted=206 acceptance=0.55 avg_draft=2.40 max_draft=4 "
    "avg_accepted=1.33"
)


def test_ollama(only, said):
    reading = only(OLLAMA)
    # Iterations include plain rounds, so they give tokens per pass, not per step.
    assert reading.steps is None
    assert reading.tokens_per_pass == pytest.approx(1 + 206 / 155)
    assert said(reading, "leaves out the bonus token")
    told = only(OLLAMA + " mismatches=105 all_accepted=15")
    assert told.steps == 120
    assert told.coverage == pytest.approx(120 / 155)
    # Accepted over accepted plus rejected: exact whatever the lengths of the drafts.
    assert told.alpha == pytest.approx(206 / 311)


def test_aiperf_names_the_engine(sample, only):
    reading = only(sample("aiperf_spec_decode_record.json"))
    assert (reading.engine, reading.format) == ("vllm", "AIPerf records")
    assert reading.survival == pytest.approx((52 / 58, 34 / 58, 20 / 58))
    assert reading.generated == 165


def test_guidellm_is_recognised_and_refused(sample):
    with pytest.raises(LogError, match="guidellm table"):
        read(sample("guidellm_table.txt"))


def test_every_parser_with_marks_is_registered():
    """Base classes have none; a file that is dropped in needs no other line anywhere."""
    parsers, below = set(), [Parser]
    while below:
        kind = below.pop()
        parsers.add(kind)
        below += kind.__subclasses__()
    ours = {p for p in parsers if p.marks and p.__module__.startswith(engines.__name__)}
    assert set(engines.ENGINES) == ours
    assert len(engines.ENGINES) == len(ours) == 16
    assert {"vllm", "sglang", "llama.cpp", "tensorrt-llm", "tgi", "lm-studio"} <= {
        engine.name for engine in engines.ENGINES
    }


def test_a_mark_without_a_stem_is_found():
    """A new engine is one file: its marks need not be known beforehand."""

    class New(Parser):
        marks = (b"quux rate",)

    marks = Marks([New])
    assert [bits for *_, bits in marks.lines(b"\nnothing\nquux rate 0.5\n")] == [2]
