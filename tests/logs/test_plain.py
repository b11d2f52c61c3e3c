"""Runs without speculation: how fast they were, read from what servers and clients print."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from specmath.logs import LogError, read_run


def test_a_plain_log_among_other_lines_and_packed_in_bytes() -> None:
    text = (
        "started\nslot | prompt eval time = 100.00 ms / 10 tokens\n"
        "slot | eval time =  500.00 ms / 20 tokens\n"
    )
    (found,) = read_run(text.encode())
    assert found.service.tpot is not None
    assert found.service.tpot.mean == 1 / 40.0
    with pytest.raises(LogError, match="no speculation"):
        read_run("nothing here\n")


def test_a_plain_run_in_a_stream_that_is_read_once() -> None:
    """What llama-cli prints counts runs, what the server wraps in JSON counts tokens."""

    class Once(io.BytesIO):
        def seekable(self) -> bool:
            return False

    line = "eval time =  500.00 ms /    20 runs   (   25.00 ms per token)"
    (found,) = read_run(Once((line + "\n" + json.dumps({"log": line}) + "\n").encode()))
    assert (found.fact("tokens_per_second"), found.generated) == (40.0, 40)


def test_metrics_scraped_twice_give_the_change() -> None:
    page = "llamacpp:tokens_predicted_total {}\nllamacpp:tokens_predicted_seconds_total {}\n"
    (found,) = read_run([page.format(100, 10), page.format(300, 15)])
    assert found.service.tpot is not None
    assert found.service.tpot.mean == 1 / 40.0


def test_damaged_plain_runs_are_read_or_refused(sample) -> None:
    """Bytes struck out, doubled or replaced: a LogError or a speed above 0, nothing else."""
    rng = np.random.default_rng(7)
    names = ("captured/log_none.txt", "captured/metrics_none.txt", "captured/resp_none.json")
    texts = [sample(name).read_bytes() for name in (*names, "guidellm_table.txt")]
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
                speed = reading.service.seconds_per_token
                assert speed is not None
                assert 1e-30 < speed < 1e30
                seen += 1
    assert seen > 50
