"""rollout on the command line, and its file as the BEFORE of review: formats and exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from helpers.command_line import Capture, fault, invoked, run
from openpyxl import load_workbook
from streamlit.testing.v1 import AppTest

import specmath
from specmath.checks import InputError
from specmath.predict import predict
from specmath.rollout import rollout
from specmath.rollout.file import from_file
from specmath.scenario import Scenario
from specmath.tables.files import file_bytes
from specmath.tables.rollout import checklist_table, exported_table, requests_table, stop_table

BENCH = str(Path(__file__).parent / "data" / "log_samples" / "vllm_bench_serve_result.json")
"""8 in flight, 260 prompt tokens, γ=3, 2.74 tokens a step at 5.33 ms a token."""
BASIC = ("--alpha", "0.7", "--gamma", "3", "--c", "0.3", "--overhead", "0.05")
SERVED = ("--alpha", "0.7", "--gamma", "3", "--gpu", "h100", "--model", "Llama-3.1-8B", "--draft",
          "eagle3", "--concurrency", "32")  # fmt: skip


def test_json_holds_the_whole_checklist(capsys: Capture) -> None:
    given = ("rollout", *BASIC, "--target-ms", "40", "--cv", "0.3", "--power", "0.9")
    told = json.loads(run(capsys, *given, "--format", "json"))
    p = predict(Scenario(alpha=0.7, gamma=3, c=0.3, overhead=0.05, target_ms=40))
    found = rollout(p, cv=0.3, power=0.9)
    assert (told["requests"], told["requests_smallest"]) == (
        found.requests, found.requests_smallest,
    )  # fmt: skip
    assert told["expected"][0]["plain"] == pytest.approx(40.0)
    assert told["expected"][0]["speculative"] == pytest.approx(40.0 / found.speedup.value)
    assert told["changes"][0]["speedup"] == found.speedup.value
    assert told["stop"][0]["limit"] == pytest.approx(1.95)
    assert {row["engine"] for row in told["metrics"]} >= {"vllm", "sglang", "tgi"}
    assert told["answer"].startswith("γ=3 is predicted to be")
    assert told["spread_measured"] is True
    assert told["notes"]


@pytest.mark.parametrize("by", ["quantity", "requests", "stop", "metric"])
def test_csv_has_the_rows_asked_for(capsys: Capture, by: str) -> None:
    out = run(capsys, "rollout", *SERVED, "--by", by, "--format", "csv")
    keys = {"quantity": "expected", "requests": "changes", "stop": "stop", "metric": "metrics"}
    told = json.loads(run(capsys, "rollout", *SERVED, "--format", "json"))[keys[by]]
    assert [row.keys() for row in csv.DictReader(io.StringIO(out))] == [row.keys() for row in told]


def test_table_says_it_in_order(capsys: Capture) -> None:
    out = run(capsys, "rollout", *SERVED)
    parts = ("γ=3 is predicted", "What to measure before and after", "How many requests",
             "When to stop", "What vllm exports", "vllm:spec_decode_num_drafts_total",
             "Note: The spread")  # fmt: skip
    at = [out.index(part) for part in parts]
    assert at == sorted(at)
    assert "--by metric" in run(capsys, "rollout", *BASIC)


def test_faults(capsys: Capture, tmp_path: Path) -> None:
    for extra, words in (
        (("--power", "2"), ["power", "2"]),
        (("--cv", "-1"), ["cv", "-1"]),
        (("--significance", "0"), ["significance"]),
        (("--gamma", "0"), ["gamma must be >= 1"]),
        (("--output-tokens", "1"), ["output_tokens"]),
    ):
        err = fault(capsys, "rollout", *BASIC, *extra)
        assert all(word in err for word in words), err
    mine = tmp_path / "mine.toml"
    mine.write_text('specmath = "1"\n[scenario]\nalpha = 0.5\n')
    err = fault(capsys, "rollout", *BASIC, "--write", str(mine))
    assert "was not written by this command" in err
    assert mine.read_text().startswith('specmath = "1"')


def written(capsys: Capture, folder: Path, *given: str) -> str:
    path = str(folder / "rollout.toml")
    run(capsys, "rollout", *given, "--write", path)
    return path


def test_the_file_is_replaced_and_is_a_scenario(capsys: Capture, tmp_path: Path) -> None:
    path = written(capsys, tmp_path, *BASIC, "--target-ms", "40", "--cv", "0.3")
    assert written(capsys, tmp_path, *BASIC, "--target-ms", "20", "--cv", "0.3") == path
    plan = from_file(Path(path).read_text("utf-8"))
    assert plan.expected["tpot"].plain.value == pytest.approx(0.020)
    told = json.loads(run(capsys, "predict", "--scenario", path, "--format", "json"))
    assert told["tpot_plain_ms"] == 20.0
    assert json.loads(run(capsys, "rollout", *BASIC, "--write", path, "--format", "json"))


@pytest.mark.parametrize("command", [("review",), ("logs", "review")])
@pytest.mark.parametrize(
    ("given", "code", "decision"),
    [
        ((*BASIC, "--target-ms", "12"), 0, "keep"),
        ((*BASIC, "--target-ms", "5.9", "--c", "0.8"), 1, "change"),
        ((*BASIC, "--target-ms", "5.4"), 3, "cannot tell"),
        ((*BASIC, "--target-ms", "4"), 4, "roll back"),
        (SERVED, 5, "not comparable"),
    ],
)
def test_review_takes_it_as_before(
    capsys: Capture, tmp_path: Path, command: tuple[str, ...], given: tuple[str, ...], code: int,
    decision: str,
) -> None:  # fmt: skip
    path = written(capsys, tmp_path, *given)
    result = invoked(*command, path, BENCH, "--format", "json")
    assert result.exit_code == code, result.output
    told = json.loads(result.stdout)
    assert told["decision"] == decision
    plain = from_file(Path(path).read_text("utf-8")).expected["tpot"].plain.value
    assert told["observed"]["value"] == pytest.approx(plain / 5.330134557212892e-3)
    assert told["predicted"]["basis"] == "as planned"
    rows = {row["quantity"]: row for row in told["expected"]}
    assert rows["Time per token, mean"]["seen"] == pytest.approx(5.330134557212892)
    assert rows["Tokens per step"]["seen"] == pytest.approx(1 + 12174 / 7000)
    text = invoked(*command, path, BENCH)
    assert text.exit_code == code
    assert "Expected and seen" in text.stdout
    assert "not run" in text.stdout


def test_what_review_refuses_of_it(capsys: Capture, tmp_path: Path) -> None:
    path = written(capsys, tmp_path, *BASIC, "--target-ms", "12")
    for extra, word in ((("--c", "0.1"), "--c"), (("--scenario", path), "--scenario")):
        result = invoked("review", path, BENCH, *extra)
        assert isinstance(result.exception, InputError)
        assert word in str(result.exception)
    spoilt = tmp_path / "spoilt.toml"
    spoilt.write_text(Path(path).read_text("utf-8").replace("gamma = 3", "gamma = 0.5", 2))
    result = invoked("review", str(spoilt), BENCH)
    assert isinstance(result.exception, InputError)
    assert "gamma" in str(result.exception)


def test_a_plan_has_a_row_a_kind_of_request(capsys: Capture) -> None:
    plan = Path(specmath.__file__).parent / "data" / "plan_example.toml"
    rows = json.loads(run(capsys, "plan", str(plan), "--by", "rollout", "--format", "json"))
    told = json.loads(run(capsys, "plan", str(plan), "--by", "segment", "--format", "json"))
    assert [(row["endpoint"], row["segment"]) for row in rows] == [
        (row["endpoint"], row["segment"]) for row in told
    ]
    for row, segment in zip(rows, told, strict=True):
        assert row["tpot_ms"] == segment["tpot_ms"]
        assert row["walltime_improvement_low"] == segment["walltime_improvement_low"]
        assert 2 <= row["requests"] <= row["requests_smallest"]
    # More of those whose range comes nearer to no change.
    nearest = min(rows, key=lambda row: row["walltime_improvement_low"])
    assert nearest["requests_smallest"] == max(row["requests_smallest"] for row in rows)


# ── on a page ────────────────────────────────────────────────────────────────────────────────


def section() -> None:
    """What a page calls."""
    import streamlit as st

    from pages.ui.rollout import show_rollout
    from specmath.predict import predict
    from specmath.scenario import Scenario

    given = Scenario(alpha=0.7, gamma=3, c=0.3, overhead=0.05, target_ms=40)
    st.session_state["scenario"] = given
    show_rollout(predict(given))


def test_the_section_of_a_page_says_what_the_command_line_says(capsys: Capture) -> None:
    app = AppTest.from_function(section, default_timeout=60).run()
    app.number_input(key="rollout_cv").set_value(30.0).run()
    assert not app.exception
    told = json.loads(
        run(capsys, "rollout", *BASIC, "--target-ms", "40", "--cv", "0.3", "--format", "json")
    )
    page = re.sub(r"\\(.)", r"\1", "\n".join(box.value for box in [*app.markdown, *app.caption]))
    assert f"**{told['answer']}**" in page
    assert all(note in page for note in told["notes"])
    assert [box.label for box in app.get("download_button")][-1] == "The plan as a file"


def test_its_workbook_has_every_table() -> None:
    scenario = Scenario(alpha=0.7, gamma=3, c=0.3, target_ms=40)
    found = rollout(predict(scenario))
    more = requests_table(found), stop_table(found), exported_table(found)
    book = load_workbook(
        io.BytesIO(file_bytes(checklist_table(found), scenario, "xlsx", beside=more))
    )
    cells = {cell.value for sheet in book for row in sheet.iter_rows() for cell in row}
    assert found.breakeven.value in cells
    assert {"Time per token, mean", "vllm:num_requests_running", 40.0} <= cells
