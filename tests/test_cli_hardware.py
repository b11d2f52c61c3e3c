"""steptime, batch, model and predict --gpu: the library's numbers; faults in one line, exit 2."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import Capture, fault, run

from specmath import models, steptime
from specmath.frontier import frontier
from specmath.launch import launch
from specmath.load import load_study
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import to_toml
from specmath.scenario.server import error_of, pair_of
from specmath.tables import batch_table, load_table
from specmath.words.load import (
    load_sentence,
    schedule_sentence,
    single_sentence,
    switching_sentence,
)

CONFIGS = Path(__file__).parent / "data" / "model_configs"
CONFIG_8B = str(CONFIGS / "Qwen--Qwen3-8B.json")
STEP = ("steptime", "--gpu", "h100", "--model", "Llama-3.1-8B")
PAIR = (
    "--alpha", "0.8", "--gamma", "4", "--gpu", "h100", "--model", "Llama-3.1-8B",
    "--draft", "Llama-3.2-1B",
)  # fmt: skip
SCENARIO = Scenario(alpha=0.8, gamma=4, gpu="h100", model="Llama-3.1-8B", draft="Llama-3.2-1B")


LOW, HIGH = error_of(pair_of(SCENARIO)).excess
ERROR_BAR = f"what speculation adds to a step −{1 - LOW:.0%} to +{HIGH - 1:.0%}"


def refusal(capsys: Capture, *arguments: str) -> str:
    """A fault of values, not of usage: one line."""
    err = fault(capsys, *arguments)
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    return err


def rows_of(out: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out)))


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


def test_steptime_is_step_seconds(capsys: Capture) -> None:
    out = run(
        capsys, *STEP, "--batch", "1,64", "--tokens", "1,5", "--context", "1024,8192",
        "--format", "csv",
    )  # fmt: skip
    rows = rows_of(out)
    assert len(rows) == 8
    for row in rows:
        expected = steptime.step_seconds(
            models.find("Llama-3.1-8B"),
            "H100 SXM",
            batch=int(row["batch"]),
            tokens_per_sequence=int(row["tokens"]),
            context_tokens=int(row["context"]),
        )
        assert float(row["step_ms"]) == pytest.approx(float(expected) * 1e3)
        parts = [float(v) for k, v in row.items() if k.endswith("_ms") and k != "step_ms"]
        assert sum(parts) == pytest.approx(float(row["step_ms"]))


def test_steptime_names_its_basis_and_what_does_not_fit(capsys: Capture) -> None:
    assert "Basis: calibrated for H100 SXM in bf16" in run(capsys, *STEP)
    out = run(capsys, "steptime", "--gpu", "L4", "--model", "Llama-3.1-70B")
    assert "Basis: no calibration for L4" in out
    assert "does not fit on 1 x L4" in out
    assert "tensor_parallel 8 fits" in out


def test_arithmetic_ms_is_explained_as_the_excess_it_is(capsys: Capture) -> None:
    """At batch 1 all products together take 16 GFLOP / 989 TFLOP/s = 0.016 ms or more; the column
    says far less, because only what exceeds the reading counts, and the words say so."""
    out = run(capsys, *STEP, "--format", "csv")
    (row,) = rows_of(out)
    assert float(row["arithmetic_ms"]) < 1e-3
    assert "what arithmetic adds beyond the reading" in run(capsys, *STEP)
    help_text = " ".join(run(capsys, "steptime", "--help").split())
    assert "arithmetic_ms is only what arithmetic adds beyond that reading" in help_text


def test_a_gpu_of_ones_own_numbers(capsys: Capture) -> None:
    gpu = "custom:8,2500,288"
    out = run(capsys, "steptime", "--gpu", gpu, "--model", "Llama-3.1-8B", "--format", "csv")
    expected = steptime.step_seconds(
        models.find("Llama-3.1-8B"), gpu, batch=1, tokens_per_sequence=1, context_tokens=1024
    )
    assert float(rows_of(out)[0]["step_ms"]) == pytest.approx(float(expected) * 1e3)
    text = run(capsys, "predict", *PAIR[:4], "--gpu", gpu, *PAIR[6:])
    assert f"no calibration for {gpu}" in text
    assert "interconnect as 800 GB/s (assumed)" in text
    refused = refusal(capsys, "predict", *PAIR[:4], "--gpu", "custom:8,2500", *PAIR[6:])
    assert "bandwidth in TB/s, bf16 TFLOP/s, memory in GB" in refused


def test_the_bill_of_computed_steps_has_its_ends(capsys: Capture) -> None:
    asked = ("--batch", "16", "--demand-tokens-per-second", "100000", "--headroom", "0")
    asked += ("--format", "json")
    row = json.loads(run(capsys, "predict", *PAIR, *asked))
    for name in ("replicas_plain", "replicas", "usd_per_month_plain", "usd_per_month"):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    assert row["replicas_low"] == -(-100_000 * row["tpot_ms_low"] / 1e3 / 16 // 1)


def test_a_config_file_is_its_model(capsys: Capture) -> None:
    (row,) = rows_of(run(capsys, "model", CONFIG_8B, "--format", "csv"))
    assert int(float(row["parameters"])) == models.find("Qwen3-8B").parameters
    named = run(capsys, "steptime", "--gpu", "h100", "--model", "Qwen3-8B", "--format", "csv")
    assert (
        run(capsys, "steptime", "--gpu", "h100", "--model", CONFIG_8B, "--format", "csv") == named
    )
    text = Path(CONFIG_8B).read_text("utf-8")
    pasted = json.loads(run(capsys, "model", text, "--format", "json"))
    assert pasted["parameters"] == models.find("Qwen3-8B").parameters


def test_predict_from_hardware(capsys: Capture) -> None:
    load = ("--batch", "32", "--decode-only", "yes")
    found = json.loads(run(capsys, "predict", *PAIR, *load, "--format", "json"))
    p = predict(SCENARIO.model_copy(update={"batch": 32, "decode_only": "yes"}))
    assert found["walltime_improvement"] == pytest.approx(p.speedup.value)
    assert found["verify_cost"] == pytest.approx(float(p.speculation.cost.verify(4)))
    assert found["tpot_plain_ms"] == pytest.approx(p.tpot_plain.value * 1e3)
    assert found["error_bar"] == ERROR_BAR
    assert any("mean error of a step 3%" in note for note in found["notes"])


def test_predict_takes_config_files(capsys: Capture) -> None:
    draft = str(CONFIGS / "Qwen--Qwen3-0.6B.json")
    files = ("--gpu", "h100", "--model", CONFIG_8B, "--draft", draft)
    names = ("--gpu", "h100", "--model", "Qwen3-8B", "--draft", "Qwen3-0.6B")
    both = [
        json.loads(
            run(capsys, "predict", "--alpha", "0.7", "--gamma", "3", *pair, "--format", "json")
        )
        for pair in (files, names)
    ]
    assert both[0]["walltime_improvement"] == pytest.approx(both[1]["walltime_improvement"])


def test_predict_as_text_has_the_error_beside_it(capsys: Capture) -> None:
    out = run(capsys, "predict", *PAIR, "--batch", "32")
    assert ERROR_BAR in out
    assert "Note: Step times: computed, calibrated for H100 SXM" in out
    assert "Price of one GPU hour 2.95" in out


def test_batch_is_the_table_and_the_schedule(capsys: Capture) -> None:
    rows = rows_of(run(capsys, "batch", *PAIR, "--format", "csv"))
    expected = batch_table(predict(SCENARIO)).rows()
    assert [int(r["batch"]) for r in rows] == [r["batch"] for r in expected]
    for found, row in zip(rows, expected, strict=True):
        assert float(found["walltime_improvement"]) == pytest.approx(row["walltime_improvement"])
    text = run(capsys, "batch", *PAIR)
    study = load_study(predict(SCENARIO).endpoint)
    for words in (
        "Memory holds batches up to 333",
        "the draft costs 106 sequences",
        load_sentence(frontier(predict(SCENARIO).endpoint), study),
        single_sentence(study.choice),
        schedule_sentence(study.choice),
        switching_sentence(study.choice),
    ):
        assert words in text
    assert "stalled" not in text, "of a schedule, which is not advised here"


def test_throughput_over_load_is_the_table_of_the_page(capsys: Capture) -> None:
    rows = json.loads(run(capsys, "batch", *PAIR, "--throughput", "--format", "json"))
    assert rows == load_table(predict(SCENARIO)).rows()


def test_the_schedule_alone_is_a_command_to_paste(capsys: Capture) -> None:
    """The ranges begin at 1, leave no gap, and hold the γ of the study; that it is not advised here
    is said in a comment."""
    printed = run(capsys, "batch", *PAIR, "--schedule")
    words = shlex.split(printed, comments=True)
    assert words[:2] == ["vllm", "serve"]
    found = json.loads(words[words.index("--speculative-config") + 1])
    ranges = found["num_speculative_tokens_per_batch_size"]
    study, following = load_study(predict(SCENARIO).endpoint), 1
    for (low, high, gamma), part in zip(ranges, study.schedule.ranges, strict=True):
        assert low == following
        following = high + 1
        assert (low, high, gamma) == (part.low, part.high, part.gamma)
    assert following == 257
    assert found["num_speculative_tokens"] == max(gamma for _, _, gamma in ranges)
    assert not study.choice.advised
    assert "\n# Not advised. One γ for every batch" in printed


def test_launch_is_the_librarys(capsys: Capture) -> None:
    endpoint = predict(SCENARIO).endpoint
    found = json.loads(run(capsys, "launch", *PAIR, "--gamma", "3", "--format", "json"))
    assert found["command"] == launch(endpoint, 3).command
    assert found["gamma"] == 3
    text = run(capsys, "launch", *PAIR, "--gamma", "3", "--for", "sglang")
    assert text.startswith(launch(endpoint, 3, engine="sglang").command)
    assert "SGLang 0.5.23" in text
    # Without an acceptance the band that others measured chooses γ.
    alone = [part for part in PAIR if part not in ("--alpha", "0.8")]
    assert run(capsys, "launch", *alone).startswith("vllm serve Llama-3.1-8B")


def test_own_steps_replace_the_coefficients(capsys: Capture, tmp_path: Path) -> None:
    """Steps half as fast again: the answer follows, and says from what."""
    llama = models.find("Llama-3.1-8B")
    lines = ["model,gpu,tp,dtype,batch,tokens_per_seq,context,seconds"]
    for batch in (1, 8, 64):
        slow = 1.5 * float(
            steptime.step_seconds(
                llama, "h100", batch=batch, tokens_per_sequence=1, context_tokens=1024
            )
        )
        lines.append(f"Llama-3.1-8B,h100,1,bf16,{batch},1,1024,{slow}")
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines), "utf-8")
    (plain,) = rows_of(run(capsys, *STEP, "--batch", "16", "--format", "csv"))
    own = ("--own-steps", str(path), "--batch", "16")
    (mine,) = rows_of(run(capsys, *STEP, *own, "--format", "csv"))
    assert float(mine["step_ms"]) == pytest.approx(1.5 * float(plain["step_ms"]), rel=0.02)
    assert "Basis: 3 steps of your own" in run(capsys, *STEP, *own)


def test_a_saved_scenario_and_options_beside_it(capsys: Capture, tmp_path: Path) -> None:
    """From hardware saved, with one field given anew; and hardware beside saved times."""
    path = tmp_path / "s.toml"
    path.write_text(to_toml(SCENARIO), "utf-8")
    args = ("predict", "--scenario", str(path), "--format", "json")
    found = json.loads(run(capsys, *args, "--context-tokens", "8192"))
    expected = predict(SCENARIO.model_copy(update={"context_tokens": 8192})).speedup.value
    assert found["walltime_improvement"] == pytest.approx(expected)
    path.write_text(to_toml(EXAMPLE), "utf-8")
    found = json.loads(run(capsys, *args, *PAIR[4:]))
    assert found["tokens_per_step"] == pytest.approx(4)
    assert found["error_bar"] == ERROR_BAR


# ── faults ───────────────────────────────────────────────────────────────────────────────────

BATCH = ("batch", *PAIR)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*BATCH, "--gpu", "H1000"), ["'H1000'", "nearest: H100 SXM"]),
        ((*BATCH, "--batch", "0"), ["batch must be a whole number >= 1", "got 0"]),
        ((*BATCH, "--context-tokens", "0"), ["context_tokens must be", "got 0"]),
        ((*BATCH, "--tensor-parallel", "3"), ["tensor_parallel must divide", "got 3"]),
        ((*BATCH, "--model", "Llama-3.1-70B"), ["does not fit", "tensor_parallel 2 fits"]),
        ((*BATCH, "--draft", "medusa", "--gamma", "9"), ["gamma must be <= 5", "Medusa"]),
        ((*BATCH, "--c", "0.1"), ["draft_form is ambiguous"]),
        ((*BATCH, "--alpha", "0.01", "--schedule"), ["no batch size pays"]),
        (("batch", "--c", "0.1", "--alpha", "0.8", "--gamma", "4"), ["need gpu, model and draft"]),
        ((*STEP, "--batch", "0"), ["batch must be a whole number >= 1"]),
        ((*STEP, "--batch", "two"), ["batch must be whole numbers such as 1,8,64, got 'two'"]),
        ((*STEP, "--batch", ","), ["batch must be", "got nothing"]),
        ((*STEP, "--tokens", "1.5"), ["tokens must be a whole number", "1.5"]),
        ((*STEP, "--context", "0"), ["context must be", "got 0"]),
        ((*STEP, "--tensor-parallel", "5"), ["tensor_parallel must divide", "got 5"]),
        ((*STEP, "--weight-dtype", "fp7"), ["weight_dtype must be one of", "'fp7'"]),
        (("steptime", "--gpu", "h100", "--model", "Llama-3.1-9B"), ["nearest", "Llama-3.1-8B"]),
        (("model", "missing.json"), ["no file missing.json"]),
    ],
)
def test_one_line_and_exit_2(capsys: Capture, arguments: tuple[str, ...], words: list[str]) -> None:
    said = refusal(capsys, *arguments)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{}", "config lacks hidden_size, num_hidden_layers"),
        (b"", "config.json is not valid JSON"),
        (b"hello", "config.json is not valid JSON"),
        (b"[1, 2]", "config.json must be an object"),
        (b'{"a":' * 5000, "nested too deeply"),
        (b"\xff\xfe\x00", "cannot read bad.json as UTF-8"),
        (b'{"model_type": "mamba"}', "cannot model: state-space layers"),
    ],
)
@pytest.mark.parametrize("command", ["model", "predict"])
def test_a_wrong_config_file(
    capsys: Capture, tmp_path: Path, command: str, content: bytes, words: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    at: dict[str, Any] = {
        "model": ("model", str(path)),
        "predict": ("predict", *PAIR, "--model", str(path)),
    }
    assert words in refusal(capsys, *at[command])


@pytest.mark.parametrize("command", ["steptime", "batch", "model", "predict"])
def test_help_has_an_example(capsys: Capture, command: str) -> None:
    out = run(capsys, command, "--help")
    assert f"specmath {command}" in out
    assert "--format [table|csv|json]" in out
