"""simulate on the command line, and the arms behind it."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmath import Scenario
from specmath.arms import Server, endpoint_for, replica_of, served
from specmath.checks import InputError
from specmath.scenario.files import build
from specmath.traffic import poisson
from tests.helpers.command_line import Capture, fault, run

SERVED = [
    "simulate",
    "--gpu",
    "h100",
    "--model",
    "Llama-3.1-8B",
    "--draft",
    "eagle3",
    "--gamma",
    "3",
    "--alpha",
    "0.7",
    "--prompt-tokens",
    "512",
    "--output-tokens",
    "100",
]
TRACED = SERVED[:-4]


def rows(capsys: Capture, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(capsys, *options, "--format", "json"))
    return found


def refused(capsys: Capture, *options: str) -> str:
    err = fault(capsys, *options)
    assert err.count("\n") == 1
    return err


def test_both_arms_side_by_side(capsys: Capture) -> None:
    asked = (*SERVED, "--request-rate", "5", "--requests", "400")
    plain, ours = rows(capsys, *asked)
    assert (plain["arm"], plain["gamma"]) == ("plain", 0)
    assert (ours["arm"], ours["gamma"]) == ("speculative", 3)
    for arm in (plain, ours):
        for name in ("ttft", "tpot"):
            ends = [arm[f"{name}_{q}_ms"] for q in ("p50", "p90", "p99")]
            assert ends == sorted(ends)
        whole = arm["ttft_mean_ms"] / 1e3 + 99 * arm["tpot_mean_ms"] / 1e3
        assert arm["e2e_mean_s"] == pytest.approx(whole)
        assert arm["requests"] == 360
        assert 0 < arm["utilisation"] < 1
    assert ours["tpot_mean_ms"] < plain["tpot_mean_ms"]
    assert rows(capsys, *asked) == [plain, ours]
    assert rows(capsys, *asked, "--seed", "1") != [plain, ours]


def test_a_table_and_a_csv(capsys: Capture) -> None:
    asked = (*SERVED, "--concurrency", "8", "--requests", "100")
    out = run(capsys, *asked)
    assert out.startswith("With γ=3 a request takes")
    assert "Time per token, p99 (ms)" in out
    assert "Not in it:" in out
    arms = list(csv.DictReader(io.StringIO(run(capsys, *asked, "--format", "csv"))))
    assert [a["arm"] for a in arms] == ["plain", "speculative"]
    assert float(arms[0]["in_flight"]) == pytest.approx(8)


def test_an_overload_says_the_largest_rate_and_what_ends_it(capsys: Capture) -> None:
    said = refused(capsys, *SERVED, "--request-rate", "200")
    assert "it carries at most" in said
    assert "with plain decoding (the most sequences of a step end it, 256)" in said
    assert "with γ=3" in said
    said = refused(capsys, *SERVED, "--request-rate", "200", "--kv-tokens", "9000")
    assert "the memory for the cache ends it, at 15 sequences" in said


def test_traces(capsys: Capture, tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("seconds,prompt_tokens,output_tokens\n0,500,20\n0.1,40,1\n3,900,33\n")
    assert [arm["requests"] for arm in rows(capsys, *TRACED, "--trace", str(mine))] == [3, 3]
    plain, _ = rows(capsys, *TRACED, "--trace", "azure-conv", "--requests", "300")
    assert plain["requests"] == 270


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "empty file"), ("seconds,prompt_tokens,output_tokens\n", "none below its columns"),
     ("t,p,o\n1,2,3\n", "must have the columns"),
     ("seconds,prompt_tokens,output_tokens\n5,9,9\n4,9,9\n", "must not fall"),
     ("seconds,prompt_tokens,output_tokens\n0,900000,9\n", "does not fit in the cache")],
)  # fmt: skip
def test_a_bad_trace_is_one_message(capsys: Capture, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert said in refused(capsys, *TRACED, "--trace", str(path))


@pytest.mark.slow
def test_a_million_rows_are_read_in_seconds(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    lines = "\n".join(f"{i / 1000},900,90" for i in range(1_000_000))
    path.write_text("seconds,prompt_tokens,output_tokens\n" + lines)
    begun = time.process_time()
    said = refused(capsys, *TRACED, "--trace", str(path))
    assert "traffic must come more slowly" in said
    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "needs request_rate, concurrency or a trace"),
     (["--request-rate", "2", "--trace", "azure-code"], "leave out request_rate"),
     (["--trace", "nowhere.csv"], "no file nowhere.csv"),
     (["--trace", "azure"], "one of azure-conv, azure-code, mooncake"),
     (["--concurrency", "4", "--seconds", "9"], "seconds is of an open loop"),
     (["--request-rate", "2", "--seconds", "9", "--requests", "9"], "not both"),
     (["--request-rate", "2", "--requests", "0"], "requests must be a whole number >= 1"),
     (["--request-rate", "2", "--thin", "3"], "thin must be 1 where no trace"),
     (["--request-rate", "2", "--max-num-seqs", "0"], "most_sequences must be"),
     (["--request-rate", "2", "--max-num-seqs", "100000000000000"], "most_sequences must be"),
     (["--concurrency", "4", "--kv-tokens", "100"], "does not fit in the cache")],
)  # fmt: skip
def test_what_cannot_be_simulated_is_refused(
    capsys: Capture, options: list[str], said: str
) -> None:
    assert said in refused(capsys, *SERVED, *options)


def test_costs_that_were_given_and_prompts_that_were_not(capsys: Capture) -> None:
    given = [
        "simulate",
        "--alpha",
        "0.7",
        "--c",
        "0.1",
        "--request-rate",
        "2",
        "--prompt-tokens",
        "5",
    ]
    said = refused(capsys, *given)
    assert "give gpu, model and draft" in said
    assert "needs prompt_tokens" in refused(capsys, *TRACED, "--request-rate", "2")


# ── the arms ─────────────────────────────────────────────────────────────────────────────────

ASKED = Scenario(
    alpha=0.7, gamma=3, gpu="h100", model="Llama-3.1-8B", draft="eagle3", prompt_tokens=512,
    output_tokens=100, request_rate=2.0,
)  # fmt: skip


def test_calm_arms_are_those_of_the_law() -> None:
    """At a low rate the mean field knows all: TPOT, and a first token within a step."""
    traffic = poisson(2.0, 512, 100, requests=1500, seed=2)
    endpoint = endpoint_for(ASKED, traffic)
    assert endpoint.load is not None
    for arm in served(endpoint, traffic):
        law = endpoint.load
        assert arm.found.mean("tpot") == pytest.approx(float(law.tpot[arm.gamma]), rel=0.03)
        assert arm.found.mean("ttft") == pytest.approx(float(law.ttft[arm.gamma]), rel=0.2)
        assert arm.limit.rate > 2.0


def test_a_measured_plain_time_moves_every_step() -> None:
    traffic = poisson(2.0, 512, 100, requests=300, seed=2)
    own = endpoint_for(ASKED, traffic)
    assert own.load is not None
    twice = ASKED.model_copy(update={"target_ms": 2e3 * float(own.load.tpot[0])})
    computed, measured = (
        replica_of(e, 0, traffic) for e in (own, endpoint_for(twice, traffic))
    )  # fmt: skip
    np.testing.assert_allclose(measured.steps / computed.steps, 2.0, rtol=1e-6)
    np.testing.assert_allclose(measured.forward[1:] / computed.forward[1:], 2.0, rtol=1e-6)


def test_what_is_decoded_elsewhere_reads_no_prompt() -> None:
    scenario = ASKED.model_copy(update={"decode_only": "yes"})
    traffic = poisson(2.0, 512, 100, requests=50, seed=2)
    replica = replica_of(endpoint_for(scenario, traffic), 0, traffic)
    assert replica.forward.max() == 0
    assert replica.limit(512, 100).rate > 40


def test_an_arm_beyond_its_rate_is_refused() -> None:
    traffic = poisson(300.0, 512, 100, requests=500, seed=2)
    with pytest.raises(InputError, match="one replica carries"):
        endpoint_for(ASKED, traffic, Server())


@pytest.mark.parametrize(
    "draft",
    [{"draft": "eagle", "alpha": 0.7, "tree": "4:4:16"}, {"draft": "ngram", "alpha": 0.6,
     "coverage": 0.5}, {"draft": "eagle3", "alpha": None, "mixture": "0.5:0.9,0.5:0.4"},
     {"draft": "eagle3", "drafted_per_step": 2.0}],
    ids=["tree", "coverage", "mixture", "stops"],
)  # fmt: skip
def test_every_kind_of_draft_emits_what_the_prediction_says(draft: dict[str, Any]) -> None:
    traffic = poisson(2.0, 512, 100, requests=300, seed=2)
    kept = ("gpu", "model", "prompt_tokens", "output_tokens", "request_rate")
    asked = {name: getattr(ASKED, name) for name in kept} | {"alpha": 0.7, "gamma": 3} | draft
    fields = {name: value for name, value in asked.items() if value is not None}
    if "tree" in draft:
        del fields["gamma"]
    endpoint = endpoint_for(build(fields), traffic)
    replica = replica_of(endpoint, endpoint.gamma, traffic)
    expected = float(endpoint.speculation.tokens(endpoint.gamma))
    assert replica.tokens[1] == pytest.approx(expected)
    assert endpoint.load is not None
    law = float(endpoint.load.tpot[endpoint.gamma])
    assert served(endpoint, traffic)[1].found.mean("tpot") == pytest.approx(law, rel=0.05)
