"""A load that ends early keeps what finished; a claim that the counts deny is told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake import Fake, serving

from specmath.checks import InputError
from specmath.cli import cli
from specmath.measure.server.checkpoint import Checkpoint
from specmath.measure.server.client import KEY_NAME, ServerError
from specmath.measure.server.load import LoadPlan, run_load


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["measure", "server", *arguments])


def found(result: Result) -> dict[str, Any]:
    return dict(json.loads(result.stdout))


def asked(fake: Fake) -> list[int]:
    """Seeds of the requests, without the warm-up."""
    return sorted(body["seed"] for body in fake.asked if body["max_tokens"] > 8)


LOAD = ("--max-tokens", "9", "--format", "json")


def test_a_server_that_closes_after_3_of_8_keeps_the_3() -> None:
    """One stream warms it up; the five that fail are counted."""
    with serving(Fake(dies=1 + 3)) as fake:
        row = found(invoke(fake.address, "--requests", "8", *LOAD))
    assert (row["completed"], row["failed"]) == (3, 5)
    assert row["mean_tpot_ms"] > 0


def test_a_server_that_is_gone_is_not_asked_for_ever() -> None:
    with serving(Fake(dies=1 + 3)) as fake:
        plan = LoadPlan(["one"], requests=500, max_tokens=9)
        load = asyncio.run(run_load(fake.address, plan))
    assert len(load.streams) == 3
    assert len(load.failed) == 8


def test_the_checkpoint_goes_on_where_it_ended(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    with serving(Fake(dies=1 + 3)) as fake:
        command = (fake.address, "--requests", "6", "--checkpoint", str(kept), *LOAD)
        assert found(invoke(*command))["completed"] == 3
        fake.dies = None
        fake.asked.clear()
        row = found(invoke(*command))
        assert (row["completed"], row["failed"]) == (6, 0)
        assert asked(fake) == [3, 4, 5]
        assert row["total_output_tokens"] == 54
        # All are there: none is sent again.
        fake.asked.clear()
        assert found(invoke(*command))["completed"] == 6
        assert asked(fake) == []
        other = invoke(fake.address, "--requests", "7", "--checkpoint", str(kept), *LOAD)
    assert isinstance(other.exception, InputError)
    assert "another measurement" in str(other.exception)


def test_a_checkpoint_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    for text in ("{", "[]", '{"specmath_checkpoint": 1}'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"kept\.json"):
            Checkpoint(str(path), {})
    path.write_text("mine")
    with serving(Fake()) as fake:
        refused = invoke(fake.address, "--checkpoint", str(path))
    assert "--force replaces it" in str(refused.exception)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_with_what_is_finished(number: int, tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:
        pytest.skip("this signal is ignored here (nohup)")
    with serving(Fake(after=(1 + 4, lambda: os.kill(os.getpid(), number)))) as fake:
        result = invoke(fake.address, "--requests", "50", "--save", str(saved), *LOAD)
    assert result.exit_code == 0, result.output
    assert 3 <= found(result)["completed"] < 50
    assert json.loads(saved.read_text())["completed"] == found(result)["completed"]
    assert signal.getsignal(number) == before


def test_the_plain_run_is_kept_where_the_other_fails(tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    with serving(Fake(metrics=False)) as plain, serving(Fake(dies=1)) as other:
        result = invoke(
            other.address, "--plain-url", plain.address, "--requests", "4", "--save", str(saved),
            "--c", "0.1", *LOAD,
        )  # fmt: skip
    assert isinstance(result.exception, ServerError)
    assert "the speculative run failed" in str(result.exception)
    assert found(result)["completed"] == 4
    assert json.loads(saved.read_text())["completed"] == 4


# ── claims ───────────────────────────────────────────────────────────────────────────────────


def test_a_plain_run_that_drafted_is_no_baseline() -> None:
    """The fake's page counts 10 drafted tokens a request: 40 in four."""
    with serving(Fake()) as drafting, serving(Fake()) as other:
        row = found(invoke(other.address, "--plain-url", drafting.address, "--requests", "4",
                           "--c", "0.1", *LOAD))  # fmt: skip
    assert "review" not in row
    assert "drafted 40 tokens" in row["false"][0]


def test_a_speculative_run_that_drafted_nothing() -> None:
    with serving(Fake(metrics=False)) as plain, serving(Fake(drafting=False)) as other:
        row = found(invoke(other.address, "--plain-url", plain.address, "--requests", "4",
                           "--c", "0.1", *LOAD))  # fmt: skip
    assert "drafted nothing" in row["false"][0]
    assert "review" not in row


def test_requests_of_a_checkpoint_are_no_evidence(tmp_path: Path) -> None:
    """Nothing is sent the second time, so no metric grows: that is not "drafted nothing"."""
    with serving(Fake(metrics=False)) as plain, serving(Fake()) as other:
        command = (other.address, "--plain-url", plain.address, "--requests", "4", "--c", "0.1",
                   "--checkpoint", str(tmp_path / "kept.json"), *LOAD)  # fmt: skip
        assert "review" in found(invoke(*command))
        assert "false" not in found(invoke(*command))


# ── answers of no server that we know ────────────────────────────────────────────────────────


def test_html_in_place_of_an_answer() -> None:
    with serving(Fake(models="<html><body>Welcome to nginx!</body></html>")) as fake:
        result = invoke(fake.address)
    assert isinstance(result.exception, InputError)
    assert "/v1/models" in str(result.exception)
    assert result.stdout == ""


def test_a_key_is_demanded_and_never_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Refused without it, and with it nothing that is printed or written holds it."""
    saved, kept = tmp_path / "result.json", tmp_path / "kept.json"
    monkeypatch.delenv(KEY_NAME, raising=False)
    with serving(Fake(key="sesame-12345")) as fake:
        assert "401" in str(invoke(fake.address, "--requests", "2").exception)
        monkeypatch.setenv(KEY_NAME, "sesame-12345")
        fake.models = json.dumps({"data": [{"id": "m sesame-12345", "owned_by": "vllm"}]})
        result = invoke(fake.address, "--requests", "2", "--save", str(saved), "--checkpoint",
                        str(kept), *LOAD)  # fmt: skip
    assert result.exit_code == 0
    for text in (result.output, saved.read_text(), kept.read_text()):
        assert "sesame" not in text
    assert found(result)["model_id"] == "m ***"
