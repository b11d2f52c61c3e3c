"""Replay through two scoring endpoints, against probabilities that the fakes were given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fake import Fake, serving
from fake_engines import Engine, running

from specmath.checks import InputError
from specmath.cli import cli
from specmath.measure.score import estimate_tokens
from specmath.measure.server.client import ServerError
from specmath.measure.server.replay_endpoints import (
    Mode,
    Replayed,
    accepted_probabilities,
    replay_servers,
)
from specmath.measure.server.scoring import Scored
from specmath.replay import ReplayAcceptance
from specmath.words.measured import replay_warnings

TEXTS = [("tell me", " a b c d"), ("again", " b a")]
TARGET = {"a": (0.8, True), "b": (0.5, True), "c": (0.4, False), "d": (0.9, True)}
DRAFT = {"a": (0.6, True), "b": (0.1, False), "c": (0.4, True), "d": (0.95, True)}
RATIO = {"a": 0.75, "b": 0.2, "c": 1.0, "d": 1.0}  # min(1, q/p)
ENGINES = ("vllm", "sglang", "llama.cpp")
OTHER = 999
"""An id that is the most probable where the actual one is not."""


def engine(name: str, table: dict[str, tuple[float, bool]], **more: object) -> Engine:
    """An engine that gives each word its probability, whatever stands before it."""
    made = Engine(name, **more)  # type: ignore[arg-type]
    words = ("tell", "again", " me", " a", " b", " c", " d")
    made.words |= {word: 10 + n for n, word in enumerate(words)}

    def probability(before: list[int], token: int) -> tuple[float, int]:
        p, top = table.get(made.text([token]).strip(), (0.5, True))
        return p, token if top else OTHER

    made.probability = probability
    return made


def run(
    mode: Mode, name: str = "vllm", texts: Sequence[tuple[str, str | None]] = TEXTS,
    **draft: object,
) -> Replayed:  # fmt: skip
    with running(engine(name, TARGET)) as target, running(engine(name, DRAFT, **draft)) as second:
        return asyncio.run(replay_servers(target.address, second.address, texts, mode))


# ── by the ids, on every engine ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ENGINES)
def test_sampled_replay_is_min_one_q_over_p(name: str) -> None:
    found = run("sampled", name)
    a = [[RATIO[w] for w in text.split()] for _, text in TEXTS]
    for seen, true in zip(found.acceptance.alphas, a, strict=True):
        assert seen.tolist() == pytest.approx(true)
    assert found.alpha.value == pytest.approx(np.mean(np.concatenate(a)))


@pytest.mark.parametrize("name", ENGINES[:2])
def test_greedy_replay_asks_whether_the_draft_would_have_said_it(name: str) -> None:
    found = run("greedy", name)
    assert [text.tolist() for text in found.acceptance.alphas] == [[1, 0, 1, 1], [0, 1]]
    # c is not the target's own first choice: 5 of 6 are.
    assert found.own_share == pytest.approx(5 / 6)
    assert any("was not written by it at temperature 0" in text for text in replay_warnings(found))


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("name", ENGINES)
def test_a_draft_without_bos_drafts_for_a_target_with_it(name: str, bos: bool) -> None:
    """Both score the target's ids: what one tokenizer alone puts first shifts nothing."""
    found = run("sampled", name, bos=bos)
    assert found.skipped == ()
    assert found.acceptance.alphas[1].tolist() == pytest.approx([0.2, 0.75])


@pytest.mark.parametrize("name", ENGINES)
def test_the_chat_template_is_the_targets(name: str) -> None:
    with running(engine(name, TARGET)) as target, running(engine(name, DRAFT)) as draft:
        found = asyncio.run(
            replay_servers(target.address, draft.address, TEXTS[:1], "sampled", chat=True)
        )
        scored = {"vllm": "/v1/completions", "sglang": "/generate", "llama.cpp": "/completion"}
        bodies = [body for path, body in draft.asked if path == scored[name]]
        ids = bodies[0].get("input_ids") or bodies[0]["prompt"]
        assert target.text(ids).startswith("<user> tell me <assistant>")
    assert found.acceptance.lengths.tolist() == [4]


@pytest.mark.parametrize("name", ENGINES)
def test_a_missing_response_is_drawn_from_the_whole_distribution(name: str) -> None:
    """The server's own defaults of top-k, top-p, min-p and penalties are switched off by name."""
    with running(engine(name, TARGET)) as target, running(engine(name, DRAFT)) as draft:
        found = asyncio.run(
            replay_servers(
                target.address, draft.address, [("again", None)], "sampled", max_tokens=3
            )
        )
        writing = [b for _, b in target.asked if "seed" in b or "return_logprob" not in b]
    asked = next(b for b in writing if "input_ids" in b or b.get("seed") is not None)
    sampling = asked.get("sampling_params", asked)
    assert sampling["temperature"] == 1.0
    assert (sampling["top_p"], sampling["min_p"]) == (1.0, 0.0)
    assert sampling["top_k"] == (0 if name == "llama.cpp" else -1)
    assert sampling["repeat_penalty" if name == "llama.cpp" else "repetition_penalty"] == 1.0
    assert found.acceptance.lengths.tolist() == [3]


def test_a_tokenizer_with_one_token_more_is_told() -> None:
    """The draft knows " c d" as one: that text is left out and named, the other one stands."""
    second = engine("vllm", DRAFT)
    cut = second.ids
    second.ids = lambda text, special: cut(text.replace(" c d", " c_d"), special)  # type: ignore[method-assign]
    with running(engine("vllm", TARGET)) as target, running(second) as draft:
        found = asyncio.run(replay_servers(target.address, draft.address, TEXTS, "sampled"))
    assert found.acceptance.texts == 1
    assert (
        "text 1 left out: target and draft cut the text into different tokens" in found.skipped[0]
    )


def test_a_server_that_dies_keeps_what_is_scored() -> None:
    texts = [(f"tell me {n}", " a b c d") for n in range(6)]
    with running(engine("vllm", TARGET)) as target, running(engine("vllm", DRAFT, dies=7)) as draft:
        kept: dict[int, object] = {}
        found = asyncio.run(replay_servers(
            target.address, draft.address, texts, "sampled", keep=kept.__setitem__,
        ))  # fmt: skip
        assert found.acceptance.texts == len(kept) == 3
        assert "cannot reach" in found.ended
        assert any("ended early, after 3 texts" in said for said in replay_warnings(found))
        # The checkpoint goes on: only the other three are asked for.
        draft.dies = None
        draft.asked.clear()
        whole = asyncio.run(
            replay_servers(target.address, draft.address, texts, "sampled", kept=kept)
        )
    assert whole.acceptance.texts == 6
    assert sum(path == "/v1/completions" for path, _ in draft.asked) == 3


# ── by the words, where a server takes no ids ────────────────────────────────────────────────


def echoed(bos: str = "", **draft: object) -> Replayed:
    target = Fake(owner="someone", probabilities=TARGET, bos=bos)
    second = Fake(**({"owner": "someone", "probabilities": DRAFT, "bos": bos} | draft))  # type: ignore[arg-type]
    with serving(target), serving(second):
        return asyncio.run(replay_servers(target.address, second.address, TEXTS, "sampled"))


@pytest.mark.parametrize("bos", ["", "<|begin|>"])
def test_an_echo_is_found_behind_what_stands_before_it(bos: str) -> None:
    found = echoed(bos)
    assert found.acceptance.alphas[0].tolist() == pytest.approx([0.75, 0.2, 1.0, 1.0])


def test_an_echo_that_reads_otherwise_is_refused() -> None:
    with pytest.raises(ServerError, match="do not read as the text"):
        echoed(strips=True)


def test_a_server_that_cannot_score() -> None:
    with pytest.raises(ServerError, match="no text could be replayed"):
        echoed(scores="no")
    with pytest.raises(InputError, match="at least one"):
        run("sampled", texts=[])


# ── what is made of them ─────────────────────────────────────────────────────────────────────


def test_texts_cut_differently_are_refused() -> None:
    one = Scored(("a", "b"), np.array([-0.1, -0.1]), np.array([True, True]))
    other = Scored(("ab",), np.array([-0.1]), np.array([True]))
    with pytest.raises(ServerError, match="from token 1 on"):
        accepted_probabilities(one, other, "greedy")


def test_impossible_tokens_and_missing_probabilities() -> None:
    target = Scored(("a", "b", "c"), np.array([-np.inf, -1.0, np.nan]), np.array([True] * 3))
    draft = Scored(("a", "b", "c"), np.array([-2.0, -np.inf, -1.0]), np.array([True] * 3))
    assert accepted_probabilities(target, draft, "sampled").tolist() == [1.0, 0.0, 0.0]


def test_no_sawtooth_where_texts_end() -> None:
    """All accepted, texts of 16: whole texts give 16/⌈16/(γ+1)⌉, whole steps γ+1."""
    texts = [np.ones(16)] * 6
    cut = ReplayAcceptance(texts)
    assert cut.tokens_per_step([4, 5, 6]).tolist() == pytest.approx([4.0, 16 / 3, 16 / 3])  # type: ignore[union-attr]
    for gamma in range(1, 15):
        assert estimate_tokens(texts, gamma).value == pytest.approx(gamma + 1)


def test_whole_steps_against_a_simulation() -> None:
    """Steps that begin where they fit into the text, by coin tosses: τ and every survival."""
    rng = np.random.default_rng(3)
    text, gamma, begun = rng.uniform(0.2, 1.0, 30), 4, np.zeros(5)
    at = np.zeros(20_000, dtype=int)  # where each of so many walks through the text stands
    while (at := at[at + gamma < text.size]).size:
        heads = rng.random((at.size, gamma)) < text[at[:, None] + np.arange(gamma)]
        accepted = np.cumprod(heads, axis=1).sum(axis=1)
        begun += (accepted[:, None] >= np.arange(gamma + 1)).sum(axis=0)
        at = at + accepted + 1
    survival = ReplayAcceptance([text], ends=False).survival(gamma)
    assert survival == pytest.approx(begun / begun[0], abs=0.006)


@pytest.mark.slow
def test_the_interval_of_tau_holds_the_truth() -> None:
    """i.i.d. α = 0.6, 12 texts of 80 tokens at T=0: τ(3) is Eq. 1; 95% of 400 intervals hold it."""
    rng, truth = np.random.default_rng(5), sum(0.6**i for i in range(4))
    held = 0
    for _ in range(400):
        texts = [(rng.random(80) < 0.6).astype(float) for _ in range(12)]
        found = estimate_tokens(texts, 3)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert 0.91 <= held / 400 <= 0.98


def test_the_interval_of_few_texts_is_of_blocks_or_all() -> None:
    rng = np.random.default_rng(6)
    few = estimate_tokens([rng.uniform(0, 1, 200), rng.uniform(0, 1, 150)], 4)
    assert "blocks of about 32" in few.basis.source
    short = estimate_tokens([np.array([0.5, 0.5, 0.5])], 2)
    assert (short.low, short.high) == (1.0, 3.0)


# ── the command ──────────────────────────────────────────────────────────────────────────────


def test_command(tmp_path: Path) -> None:
    path, kept = tmp_path / "sent.jsonl", tmp_path / "kept.json"
    path.write_text("\n".join(json.dumps({"prompt": p, "response": r}) for p, r in TEXTS))
    with running(engine("sglang", TARGET)) as target, running(engine("sglang", DRAFT)) as draft:
        command = ["measure", "server", "replay", target.address, draft.address, "--texts",
                   str(path), "--mode", "sampled", "--c", "0.1", "--checkpoint", str(kept),
                   "--format", "json"]  # fmt: skip
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 0, result.output
        draft.asked.clear()
        again = CliRunner().invoke(cli, command)
        assert again.stdout == result.stdout
        assert draft.asked == []
    found = json.loads(result.stdout)
    assert found["tokens"] == 6
    row = found["gammas"][2]
    assert row["walltime_improvement"] == pytest.approx(row["tokens_per_step"] / 1.2)
    for end in ("low", "high"):
        ends = row[f"walltime_improvement_{end}"], row[f"tokens_per_step_{end}"]
        assert ends[0] == pytest.approx(ends[1] / 1.2)
