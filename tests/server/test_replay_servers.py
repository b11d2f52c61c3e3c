"""Replay through two scoring endpoints, against probabilities that the fakes were given."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from click.testing import CliRunner
from fake import Fake, serving

from specmath.checks import InputError
from specmath.cli import cli
from specmath.replay import ReplayAcceptance
from specmath.server.client import ServerError
from specmath.server.replay import Mode, Replayed, accepted_probabilities, replay_servers
from specmath.server.scoring import Scored

TEXTS = [("tell me", " a b c d"), ("again", " b a")]
TARGET = {"a": (0.8, True), "b": (0.5, True), "c": (0.4, False), "d": (0.9, True)}
DRAFT = {"a": (0.6, True), "b": (0.1, False), "c": (0.4, True), "d": (0.95, True)}
RATIO = {"a": 0.75, "b": 0.2, "c": 1.0, "d": 1.0}  # min(1, q/p)


def run(mode: Mode, texts=TEXTS, **draft: object) -> Replayed:
    second = Fake(**({"probabilities": DRAFT} | draft))  # type: ignore[arg-type]
    with serving(Fake(probabilities=TARGET)) as target, serving(second):
        return asyncio.run(replay_servers(target.address, second.address, texts, mode))


@pytest.mark.parametrize("scores", ["echo", "prompt_logprobs"])
def test_sampled_replay_is_min_one_q_over_p(scores: str) -> None:
    found = run("sampled", scores=scores) if scores == "echo" else _both(scores)
    a = [[RATIO[w] for w in text.split()] for _, text in TEXTS]
    for seen, true in zip(found.acceptance.alphas, a, strict=True):
        assert seen.tolist() == pytest.approx(true)
    assert found.alpha.value == pytest.approx(np.mean(np.concatenate(a)))
    truth = ReplayAcceptance(a)
    for gamma in range(5):
        assert found.acceptance.tokens_per_step(gamma) == pytest.approx(
            truth.tokens_per_step(gamma)
        )


def _both(scores: str) -> Replayed:
    with (
        serving(Fake(probabilities=TARGET, scores=scores)) as target,
        serving(Fake(probabilities=DRAFT, scores=scores)) as draft,
    ):
        return asyncio.run(replay_servers(target.address, draft.address, TEXTS, "sampled"))


def test_greedy_replay_asks_whether_the_draft_would_have_said_it() -> None:
    found = run("greedy")
    assert [text.tolist() for text in found.acceptance.alphas] == [[1, 0, 1, 1], [0, 1]]
    # c is not the target's own first choice: 5 of 6 are.
    assert found.own_share == pytest.approx(5 / 6)
    assert any("was not written by it at temperature 0" in text for text in found.warnings())


def test_a_greedy_draft_on_sampled_text() -> None:
    """The same question as for greedy text, but the text need not be the target's argmax."""
    found = run("argmax")
    assert found.unknown == 0
    assert [text.tolist() for text in found.acceptance.alphas] == [[1, 0, 1, 1], [0, 1]]
    assert found.warnings() == ()


def test_texts_cut_differently_are_refused() -> None:
    one = Scored(("a", "b"), np.array([-0.1, -0.1]), np.array([True, True]))
    other = Scored(("ab",), np.array([-0.1]), np.array([True]))
    with pytest.raises(ServerError, match="from token 1 on"):
        accepted_probabilities(one, other, "greedy")


def test_impossible_tokens_and_missing_probabilities() -> None:
    target = Scored(("a", "b", "c"), np.array([-np.inf, -1.0, np.nan]), np.array([True] * 3))
    draft = Scored(("a", "b", "c"), np.array([-2.0, -np.inf, -1.0]), np.array([True] * 3))
    assert accepted_probabilities(target, draft, "sampled").tolist() == [1.0, 0.0, 0.0]


def test_a_server_that_cannot_score() -> None:
    with pytest.raises(ServerError, match="no text could be replayed"):
        run("sampled", scores="no")
    with pytest.raises(InputError, match="at least one"):
        run("sampled", texts=[])


def test_a_missing_response_is_written_by_the_target() -> None:
    with (
        serving(Fake(probabilities=TARGET)) as target,
        serving(Fake(probabilities=DRAFT)) as draft,
    ):
        found = asyncio.run(
            replay_servers(target.address, draft.address, [("go on", None)], "sampled")
        )
        asked = target.asked[0]
    assert (asked["temperature"], asked["top_p"]) == (1.0, 1.0)
    assert found.acceptance.lengths.tolist() == [3]  # " written by me"


def test_command(tmp_path) -> None:
    path = tmp_path / "sent.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": p, "response": r}) for p, r in TEXTS))
    with (
        serving(Fake(probabilities=TARGET)) as target,
        serving(Fake(probabilities=DRAFT)) as draft,
    ):
        result = CliRunner().invoke(
            cli,
            ["measure", "server", "replay", target.address, draft.address, "--texts", str(path),
             "--mode", "sampled", "--c", "0.1", "--format", "json"],
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["tokens"] == 6
    row = found["gammas"][2]
    assert row["walltime_improvement"] == pytest.approx(row["tokens_per_step"] / 1.2)
