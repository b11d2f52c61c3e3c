"""published on the command line: JSON, CSV, table and page say the same."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from helpers.command_line import Capture, fault, invoked, run
from jsonschema import Draft202012Validator

from specmath.published.case import cases_of
from specmath.published.rows import read
from specmath.published.score import score
from specmath.tables.published import rows_table
from tools.schemas import SCHEMAS, schemas, text_of

SAMPLES = Path(__file__).parents[1] / "data" / "log_samples"
ROWS = """id,target_model,draft_method,hardware,batch,gamma,alpha,c,measured_speedup,notes
a,T5-XXL 11B,draft-model,1x TPU-v4,1,7,0.75,0.02,3.4,
b,Llama-3.1-8B,eagle,H100,1,4,,,1.5,tier=C
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS, "utf-8")
    return str(path)


def test_json_has_the_rows_and_the_summary(file: str, capsys: Capture) -> None:
    found = json.loads(run(capsys, "published", "--file", file, "--format", "json"))
    first, second, third = found["rows"]
    assert first["id"] == "a"
    assert first["method"] == "theorem"
    assert first["predicted"] == pytest.approx((1 - 0.75**8) / 0.25 / 1.14)
    assert first["error"] == pytest.approx(first["predicted"] / 3.4 - 1)
    assert (second["method"], second["predicted"]) == ("hardware", None)
    assert "draft model" in second["reason"]
    assert third["reason"] == "tokens per step, or α, are not stated"
    assert (found["summary"]["cases"], found["summary"]["scored"]) == (2, 1)
    written = (SCHEMAS / "published.json").read_text("utf-8")
    assert written == text_of(schemas()["published"]), "run: python -m tools.schemas"
    assert list(Draft202012Validator(json.loads(written)).iter_errors(found)) == []


def test_csv_and_json_and_the_page_show_the_same_rows(file: str, capsys: Capture) -> None:
    in_json = json.loads(run(capsys, "published", "--file", file, "--format", "json"))["rows"]
    in_csv = list(csv.DictReader(io.StringIO(run(capsys, "published", "--file", file,
                                                 "--format", "csv"))))  # fmt: skip
    shown = rows_table(score(cases_of(read(ROWS, "rows.csv")))).rows()
    assert in_json == shown
    for theirs, ours in zip(in_csv, shown, strict=True):
        for name, value in ours.items():
            assert theirs[name] == ("" if value is None else str(value))


def test_the_table_gives_figures_and_reasons(file: str, capsys: Capture) -> None:
    text = run(capsys, "published", "--file", file)
    assert "1 of 2 rows are predicted" in text
    assert "theorem" in text
    assert "tokens per step, or α, are not stated" in text
    assert "T5-XXL" in run(capsys, "published", "--file", file, "--rows")


def test_their_predictions(file: str, tmp_path: Path, capsys: Capture) -> None:
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("id,predicted\na,3.5\n", "utf-8")
    out = run(capsys, "published", "--file", file, "--predictions", str(theirs), "--format", "json")
    rows = json.loads(out)["rows"]
    assert [(r["id"], r["method"], r["predicted"]) for r in rows] == [
        ("a", "theirs", 3.5), ("b", "theirs", None),
    ]  # fmt: skip
    assert rows[1]["reason"] == "no prediction was given for it"


def test_a_row_from_two_runs() -> None:
    result = str(SAMPLES / "vllm_bench_serve_result.json")
    done = invoked("published", "add", result, result, "--id", "x", "--kind", "mtp")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (row["id"], row["kind"], row["speedup"]) == ("x", "mtp", "1")
    assert "Not known, and worth adding: source, hardware" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,model\na,b\n", "id, model, tpot_ms (plain)"),
        ("id,model,tpot_ms\na,m,1\na,m,2\n", "unique ids"),
        ('id,model,tpot_ms\na,m,"1,5"\n', "decimal point"),
    ],
)
def test_bad_files_exit_2_with_nothing_on_standard_output(
    text: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, "utf-8")
    assert said in fault(capsys, "published", "--file", str(path), "--format", "json")


def test_rows_of_ones_own_are_of_their_file_and_predicted_as_by_predict(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("id,model,gpu,engine,concurrency,tpot_ms\na,Llama-3.1-8B,H100,vLLM,1,7\n")
    (row,) = json.loads(run(capsys, "published", "--file", str(path), "--format", "json"))["rows"]
    asked = ("--gpu", "H100", "--model", "Llama-3.1-8B", "--draft", "ngram", "--gamma", "0")
    said = json.loads(run(capsys, "predict", *asked, "--alpha", "0.5", "--format", "json"))
    assert row["source"] == "mine.csv"
    assert row["predicted"] == pytest.approx(said["tpot_plain_ms"], rel=1e-6)


def test_a_reason_names_its_first_row(file: str, capsys: Capture) -> None:
    assert "b" in run(capsys, "published", "--file", file).splitlines()[-1].split()


def test_two_engines_are_said_and_the_row_is_predicted() -> None:
    before, after = SAMPLES / "vllm_bench_serve_result.json", SAMPLES / "sglang_bench_serving.jsonl"
    done = invoked("published", "add", str(before), str(after), "--id", "x", "--kind", "eagle3",
                   "--target", "Llama-3.1-8B", "--gamma", "3", "--hardware", "H100")  # fmt: skip
    assert "Two engines are compared: sglang and vllm" in done.stderr
    assert "Speedup: 1.13× measured, " in done.stderr
    assert "× from hardware alone" in done.stderr
