"""Streamed load against a fake server whose chunks and gaps are known."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from click.testing import CliRunner
from fake import METRICS, Fake, serving

from specmath.checks import InputError
from specmath.cli import cli
from specmath.cli.server import spec_fields
from specmath.logs import read
from specmath.measure.server.client import ServerError
from specmath.measure.server.load import Load, LoadPlan, run_load
from specmath.measure.server.stream import Streamed, stream_one
from specmath.outfile import BENCHMARK
from specmath.words.measured import load_said

PLAN = LoadPlan(prompts=["one", "two"], requests=6, concurrency=3, max_tokens=9)


def load(fake: Fake, plan: LoadPlan = PLAN) -> Load:
    with serving(fake):
        return asyncio.run(run_load(fake.address, plan))


# ── chunks are not tokens ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tells", ["usage", "timings", "logprobs"])
def test_chunks_of_several_tokens_count_as_tokens(tells: str) -> None:
    """Chunks of 1, 3, 1, 4 tokens: 9 tokens, 3 gaps between chunks, 8 between tokens."""
    found = load(Fake(tells=tells))
    assert found.exact_tokens
    for stream in found.streams:
        assert stream.total == 9
        assert stream.tokens.tolist() == [1, 3, 1, 4]
        assert stream.itl_chunk.size == 3
        assert stream.itl_token is not None
        assert stream.itl_token.size == 8
        assert np.count_nonzero(stream.itl_token) == 3
        # The same gaps, so the same sum: (e2e − ttft) over 8 tokens.
        assert stream.itl_token.sum() == pytest.approx(stream.itl_chunk.sum())
        assert stream.tpot == pytest.approx(stream.itl_token.mean())


def test_without_counts_the_usage_at_the_end_gives_tpot_only() -> None:
    found = load(Fake(tells="end"))
    assert not found.exact_tokens
    stream = found.streams[0]
    assert stream.total == 9
    assert stream.itl_token is None
    assert stream.tpot == pytest.approx((stream.times[-1] - stream.ttft) / 8)
    assert "mean_itl_token_ms" not in found.summary()


def test_a_stream_without_usage_tells_no_time_per_token() -> None:
    """Chunks of 1, 3, 1 and 4 tokens: four chunks are no four tokens."""
    found = load(Fake(tells="nothing"))
    assert not found.exact_tokens
    assert not found.counted
    summary = found.summary()
    assert summary["mean_ttft_ms"] > 0
    assert summary["mean_itl_ms"] > 0
    assert not {"mean_tpot_ms", "total_output_tokens", "output_throughput"} & summary.keys()
    assert "neither TPOT" in load_said(found)


def test_one_token_a_chunk_needs_no_counts() -> None:
    found = load(Fake(tells="end", chunks=(1, 1, 1)))
    assert found.exact_tokens
    assert found.streams[0].total == 3


def test_a_first_chunk_of_several_tokens() -> None:
    """3 tokens at once, then 1: TPOT is one gap over 3 further tokens."""
    stream = Streamed(np.array([0.5, 0.8]), np.array([3, 1]), 4, True, {})
    assert (stream.ttft, stream.tpot) == (0.5, pytest.approx(0.1))
    assert stream.itl_token is not None
    assert stream.itl_token.tolist() == pytest.approx([0, 0, 0.3])


# ── the load ─────────────────────────────────────────────────────────────────────────────────


def test_as_many_at_once_as_asked() -> None:
    fake = Fake()
    found = load(fake)
    assert fake.most_running == 3
    assert len(found.streams) == 6
    # One more to warm up; prompts in turn; another seed each.
    sent = [body for body in fake.asked if body["max_tokens"] == 9]
    assert len(fake.asked) == 7
    assert sorted(body["seed"] for body in sent) == list(range(6))
    assert {body["messages"][0]["content"] for body in sent} == {"one", "two"}


def test_metrics_are_those_of_the_load_alone() -> None:
    """10 drafts a request, and the warm-up's are scraped away."""
    found = load(Fake())
    (reading,) = read([text for text in found.metrics if text is not None])
    assert reading.steps == 60


def test_a_server_that_refuses_extra_fields() -> None:
    fake = Fake(refuses_extras=True)
    found = load(fake)
    assert len(found.streams) == 6
    assert fake.asked[-1]["stream_options"] == {"include_usage": True}


def test_all_requests_fail() -> None:
    with pytest.raises(ServerError, match="401"):
        load(Fake(key="right"))


def test_a_time_limit() -> None:
    plan = LoadPlan(prompts=["one"], requests=10_000, concurrency=2, seconds=0.15)
    assert 0 < len(load(Fake(), plan).streams) < 100


@pytest.mark.parametrize(
    "wrong",
    [{"prompts": []}, {"requests": 0}, {"concurrency": 513}, {"max_tokens": 0},
     {"temperature": -1.0}, {"seconds": 0.0}],
)  # fmt: skip
def test_plans_out_of_bounds(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        LoadPlan(**({"prompts": ["one"]} | wrong))  # type: ignore[arg-type]


def test_summary_is_read_as_a_benchmark_result() -> None:
    found = load(Fake())
    summary = found.summary()
    (reading,) = read(json.dumps(summary))
    assert reading.fact("mean_tpot_ms") == pytest.approx(summary["mean_tpot_ms"])
    assert reading.fact("max_concurrency") == 3
    assert reading.fact("seed") == 0
    assert summary["total_output_tokens"] == 54


async def _one(address: str) -> Streamed | None:
    from specmath.measure.server.client import open_client

    async with open_client(address) as client:
        return await stream_one(client, "/v1/chat/completions", {"stream": True, "max_tokens": 1})


def test_a_stream_without_tokens() -> None:
    with serving(Fake(chunks=())) as fake:
        assert asyncio.run(_one(fake.address)) is None


# ── the command ──────────────────────────────────────────────────────────────────────────────


def command(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["measure", "server", *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_command_with_and_without_speculation(tmp_path) -> None:
    """Plain: 8 chunks of a token; speculative: the same tokens in two chunks."""
    saved = tmp_path / "result.json"
    plain = Fake(chunks=(1,) * 9, metrics=False)
    with serving(Fake(chunks=(1, 4, 4))) as fast, serving(plain) as slow:
        text = command(
            fast.address, "--plain-url", slow.address, "--requests", "4", "--max-tokens", "9",
            "--save", str(saved), "--c", "0.1", "--format", "json",
        )  # fmt: skip
    found = json.loads(text)
    assert found["plain"]["completed"] == found["completed"] == 4
    assert found["review"]
    # The fake's page: 10 drafts a request, 70% accepted at γ=1.
    assert found["spec_decode_num_drafts"] == 40
    assert found["spec_decode_acceptance_length"] == pytest.approx(1.7)
    assert BENCHMARK.search(saved.read_bytes())
    (reading,) = read(saved)
    assert (reading.steps, reading.accepted) == (40, 28)


def test_a_draft_of_which_nothing_is_accepted_is_saved_as_speculation() -> None:
    pages = [METRICS.format(drafts=n, drafted=4 * n, accepted=0) for n in (10, 30)]
    fields = spec_fields(read(pages))
    assert fields["spec_decode_num_drafts"] == 20
    assert fields["spec_decode_acceptance_rate"] == 0.0


def test_command_in_words_and_bad_bodies() -> None:
    with serving(Fake(metrics=False)) as fake:
        text = command(fake.address, "--requests", "2", "--completions")
        assert "mean_tpot_ms" in text
        assert "gaps between the chunks" in text
        assert "prompt" in fake.asked[-1]
        refused = CliRunner().invoke(cli, ["measure", "server", fake.address, "--body", "[1]"])
        assert isinstance(refused.exception, InputError)
    remote = CliRunner().invoke(cli, ["measure", "server", "http://10.1.2.3"])
    assert isinstance(remote.exception, InputError)
    assert remote.stdout == ""
