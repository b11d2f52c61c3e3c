"""What the measuring of servers prints as an example or as a remedy is run here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fake import Fake, serving
from fake_engines import Engine, running

from specmath.cli import cli
from specmath.cli.server import load_command
from specmath.cli.server_costs import costs_command
from specmath.cli.server_replay import replay_command

EXAMPLE = re.compile(r"specmath (measure server .+?)(?=\n|$)")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def examples(epilog: str | None, **servers: str) -> list[list[str]]:
    """The examples of a help, their addresses replaced by those of servers that are there."""
    text = epilog or ""
    for port, address in servers.items():
        text = text.replace(f"http://127.0.0.1:{port[1:]}", address)
    return [shlex.split(found) for found in EXAMPLE.findall(text)]


def test_examples_of_load() -> None:
    with serving(Fake()) as one, serving(Fake(metrics=False)) as two:
        (example,) = examples(load_command.epilog, p8000=one.address, p8001=two.address)
        result = invoke(*example, "--requests", "2")
    assert result.exit_code == 0, result.output


def test_examples_of_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sent.jsonl").write_text('{"prompt": "tell me", "response": " a b"}\n')
    with running(Engine("vllm")) as target, running(Engine("vllm")) as draft:
        (example,) = examples(replay_command.epilog, p8000=target.address, p8001=draft.address)
        result = invoke(*example)
    assert result.exit_code == 0, result.output


def test_examples_of_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one's servers stream, as the first one's need not: 1.7 tokens a step forced."""
    monkeypatch.chdir(tmp_path)
    with running(Engine()) as target, running(Engine(step=0.004)) as draft:
        first, _ = examples(costs_command.epilog, p8000=target.address, p8001=draft.address)
        assert invoke(*first).exit_code == 0
    with serving(Fake(metrics=False)) as plain, serving(Fake(metrics=False)) as forced:
        _, second = examples(costs_command.epilog, p8000=plain.address, p8002=forced.address)
        result = invoke(*second, "--rounds", "0", "--requests", "3")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "3, forced" in result.output


def test_a_model_that_is_not_listed_is_named_as_the_message_says() -> None:
    with serving(Fake(lists=False)) as fake:
        refused = invoke("measure", "server", fake.address)
        assert "--served-model" in str(refused.exception)
        assert invoke("measure", "server", fake.address, "--served-model", "mine",
                      "--requests", "2").exit_code == 0  # fmt: skip
        assert fake.asked[-1]["model"] == "mine"


def test_remedies_of_costs() -> None:
    """Each message names an option: with it the same command runs."""
    alone = invoke("measure", "server", "costs", "--tpot", "4", "21", "2.9")
    assert "--tpot 0 MS 1" in str(alone.exception)
    with_it = invoke("measure", "server", "costs", "--tpot", "4", "21", "2.9",
                     "--tpot", "0", "40", "1")  # fmt: skip
    assert with_it.exit_code == 0
    with serving(Fake(metrics=False)) as plain, serving(Fake(metrics=False)) as silent:
        command = ["measure", "server", "costs", plain.address, "--rounds", "0",
                   "--speculative", "4", silent.address]  # fmt: skip
        assert "--forced" in str(invoke(*command, "--requests", "3").exception)
        few = invoke(*command, "--forced", "4", "2", "--requests", "2")
        assert "raise --requests" in str(few.exception)
        assert invoke(*command, "--forced", "4", "2", "--requests", "3").exit_code == 0
        lone = invoke("measure", "server", "costs", plain.address, "--forced", "4", "2")
        assert "--speculative 4 URL beside it" in str(lone.exception)


def test_another_checkpoint_is_named_or_deleted_as_the_message_says(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    with serving(Fake()) as fake:
        command = ["measure", "server", fake.address, "--checkpoint", str(kept), "--requests"]
        assert invoke(*command, "2").exit_code == 0
        assert "name another file, or delete it" in str(invoke(*command, "3").exception)
        kept.unlink()
        assert invoke(*command, "3").exit_code == 0
