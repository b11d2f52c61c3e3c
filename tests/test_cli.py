"""The command line: the library's numbers, an example at every level, faults on stderr with 2."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from helpers.command_line import Capture, fault, run

from specmath.bill import bill
from specmath.cli import main
from specmath.predict import predict
from specmath.scenario import EXAMPLE, SPECS, Scenario
from specmath.scenario.files import revised, to_toml
from specmath.tables import bill_table, gamma_table
from specmath.words.bill import bill_sentence, served_words

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "predict",
    "cost",
    "tails",
    "capacity",
    "goodput",
    "rollout",
    "gamma",
    "crossover",
    "sweep",
    "export",
    "serve",
)
TIMES = ("--target-ms", "40", "--draft-ms", "8", "--gamma", "4")
BASIC = ("--alpha", "0.8", "--c", "0.1", "--gamma", "4")


def table_of(out: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out)))


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


def test_predict_prints_the_promised_names_and_the_librarys_numbers(capsys: Capture) -> None:
    found = json.loads(run(capsys, "predict", *BASIC, "--format", "json"))
    expected = predict(Scenario(alpha=0.8, c=0.1, gamma=4)).to_dict()
    assert {name: found[name] for name in expected} == expected
    assert {
        "alpha", "gamma", "c", "tokens_per_step", "walltime_improvement", "operations_increase",
        "optimal_gamma", "crossover_gamma",
    } <= found.keys()  # fmt: skip
    assert found["walltime_improvement"] == pytest.approx(3.3616 / 1.4, rel=1e-12)


@pytest.mark.parametrize(
    ("accepted", "words"),
    [
        ("3", ["Turn it on at γ=5: 2.28× faster; γ=4 (2.22×) does as well."]),
        (
            "0.5",
            [
                "Measure first",
                "γ=1, which risks least, gives 0.781× to 1.11×",
                "γ=4 does not pay",
                "17% slower",
            ],
        ),
    ],
)
def test_two_times_give_the_verdict(capsys: Capture, accepted: str, words: list[str]) -> None:
    out = run(capsys, "predict", *TIMES, "--accepted-per-step", accepted)
    assert all(word in out for word in words), out


def test_a_measured_curve_of_verification(capsys: Capture) -> None:
    """α=0.8, γ=4, c=0.1: 3.3616 tokens in 1.7 + 0.4 plain steps."""
    curve = ("--verify-costs", "1.6,1.9,1.5,1.7")
    found = json.loads(run(capsys, "predict", *BASIC, *curve, "--format", "json"))
    assert found["verify_cost"] == 1.7
    assert found["walltime_improvement"] == pytest.approx(3.3616 / 2.1)


def test_a_demand_gives_the_bill(capsys: Capture) -> None:
    """1000 tokens/s at 25 a replica is 40; at 160/72 times that, 18. 730 h of 2.50 USD each. Unless
    told, a fifth of each is kept free: 1000 / 20 is 50."""
    example = ("--target-ms", "40", "--draft-ms", "8", "--gamma", "4", "--accepted-per-step", "3")
    options = (*example, "--demand-tokens-per-second", "1000", "--format", "json")
    assert json.loads(run(capsys, "predict", *options))["replicas_plain"] == 50
    found = json.loads(run(capsys, "predict", *options, "--headroom", "0"))
    assert (found["replicas_plain"], found["replicas"]) == (40, 18)
    assert found["usd_per_month"] == pytest.approx(18 * 730 * 2.5)


def test_the_bill_of_the_command_is_that_of_the_page(capsys: Capture) -> None:
    """The same table and the same sentences, from any way to say what is served."""
    example = ("--target-ms", "40", "--draft-ms", "8", "--gamma", "4", "--accepted-per-step", "3")
    for demand in ("--replicas", "--demand-requests-per-second", "--demand-tokens-per-second"):
        arguments = ("cost", *example, demand, "9", "--headroom", "0.1")
        field = demand.removeprefix("--").replace("-", "_")
        p = predict(revised(EXAMPLE, {field: 9, "headroom": 0.1}))
        billed = bill(p)
        assert billed
        rows = json.loads(run(capsys, *arguments, "--format", "json"))
        assert rows == bill_table(billed).rows()
        text = run(capsys, *arguments)
        assert bill_sentence(p, billed) in text
        assert served_words(p.scenario, billed) in text
        assert "The bill falls only when a replica leaves" in text
    assert "Say what you serve" in run(capsys, "cost", *example)
    assert "target_ms must be given" in fault(capsys, "cost", "--alpha", "0.8", "--c", "0.1")


def test_predict_as_csv_is_one_row(capsys: Capture) -> None:
    (row,) = table_of(run(capsys, "predict", *TIMES, "--accepted-per-step", "3", "--format", "csv"))
    assert float(row["walltime_improvement"]) == pytest.approx(160 / 72)
    assert (row["verdict"], row["verdict_gamma"]) == ("raise", "5")


@pytest.mark.parametrize(
    "rates",
    [
        "0.8,0.6,0.45",
        "80%, 60%, 45%",
        "SpecDecoding metrics: Per-position acceptance rate: 0.8, 0.6, 0.45, Avg",
    ],
)
def test_pasted_rates_give_the_table_over_gamma(capsys: Capture, rates: str) -> None:
    out = run(capsys, "gamma", "--rates", rates, "--c", "0.1", "--format", "csv")
    found = {int(row["gamma"]): float(row["walltime_improvement"]) for row in table_of(out)}
    assert found[0] == 1
    assert found[1] == pytest.approx(1.8 / 1.1)
    assert found[3] == pytest.approx(2.85 / 1.3)
    assert found[4] == pytest.approx((2.85 + 0.45 * 0.75) / 1.4), "the last rate is carried on"


def test_gamma_as_text_ends_in_the_verdict(capsys: Capture) -> None:
    out = run(capsys, "gamma", "--alpha", "0.8", "--c", "0.1")
    assert "Turn it on at γ=5" in out
    assert "Speedup (×)" in out


def test_the_crossover_of_the_design(capsys: Capture) -> None:
    found = {
        float(row["alpha"]): row["crossover_gamma"]
        for row in table_of(run(capsys, "crossover", "--format", "csv"))
    }
    expected = {0.41: 1, 0.42: 2, 0.5: 3, 0.6: 5, 0.7: 10, 0.8: 24, 0.9: 99}
    assert {a: int(found[a]) for a in expected} == expected


def test_a_sweep_is_one_prediction_a_point(capsys: Capture) -> None:
    out = run(
        capsys, "sweep", "--over", "alpha=0.5:0.9:0.2", "--over", "gamma=1,4", "--c", "0.1",
        "--format", "csv",
    )  # fmt: skip
    rows = table_of(out)
    assert [(row["alpha"], row["gamma"]) for row in rows] == [
        (a, g) for a in ("0.5", "0.7", "0.9") for g in ("1", "4")
    ]
    for row in rows:
        s = Scenario(alpha=float(row["alpha"]), gamma=int(row["gamma"]), c=0.1)
        assert float(row["walltime_improvement"]) == pytest.approx(predict(s).speedup.value)


def test_a_sweep_stays_within_its_stop(capsys: Capture) -> None:
    out = run(
        capsys, "sweep", "--over", "alpha=0:1:0.6", "--gamma", "1", "--c", "0", "--format", "csv"
    )
    assert [float(row["alpha"]) for row in table_of(out)] == [0, 0.6]
    out = run(
        capsys,
        "sweep",
        "--over",
        "c=0:0.3:0.1",
        "--alpha",
        "0.5",
        "--gamma",
        "1",
        "--format",
        "json",
    )
    assert [row["c"] for row in json.loads(out)] == [0, 0.1, 0.2, 0.3]


def test_what_is_not_known_is_measured_first_with_the_command(capsys: Capture) -> None:
    costs = ("--c", "0.1", "--overhead", "0.1")
    out = run(capsys, "predict", "--alpha-low", "0.05", "--alpha-high", "0.85", *costs)
    assert out.startswith("Measure first")
    assert "curl -s http://localhost:8000/metrics" in out
    found = json.loads(run(capsys, "predict", *BASIC, "--sigma", "unknown", "--format", "json"))
    assert found["verdict"] == "measure"
    assert len(found["measure_with"]) >= 1
    assert found["walltime_improvement_low"] < found["walltime_improvement_high"]


def test_a_fault_of_the_program_is_one_sentence(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("gamma")

    monkeypatch.setattr("specmath.cli.calculator.predict", broken)
    with pytest.raises(SystemExit) as stop:
        main(["predict", *BASIC])
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (70, "")
    assert "please report it: KeyError: 'gamma'" in err
    assert "Traceback" not in err


# ── files ────────────────────────────────────────────────────────────────────────────────────


def test_export_writes_the_same_numbers(capsys: Capture, tmp_path: Path) -> None:
    table = gamma_table(predict(Scenario(alpha=0.8, c=0.1, gamma=4)))
    expected = table.column("walltime_improvement").values
    out = tmp_path / "t.csv"
    assert "wrote" in run(capsys, "export", *BASIC, "-o", str(out))
    rows = table_of(out.read_text("utf-8-sig"))
    assert [float(row["walltime_improvement"]) for row in rows] == pytest.approx(expected)
    book = tmp_path / "t.xlsx"
    run(capsys, "export", *BASIC, "--kind", "xlsx", "-o", str(book))
    assert openpyxl.load_workbook(book).worksheets
    live = tmp_path / "live.csv"
    run(
        capsys, "export", *BASIC, "--kind", "formulas", "--delimiter", ";", "--decimal", ",",
        "-o", str(live),
    )  # fmt: skip
    assert ";=" in live.read_text("utf-8-sig")


def test_a_saved_scenario_is_a_start(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(to_toml(EXAMPLE), "utf-8")
    found = json.loads(run(capsys, "predict", "--scenario", str(path), "--format", "json"))
    assert found["walltime_improvement"] == pytest.approx(160 / 72)
    found = json.loads(
        run(capsys, "predict", "--scenario", str(path), "--draft-ms", "4", "--format", "json")
    )
    assert found["walltime_improvement"] == pytest.approx(160 / 56)
    found = json.loads(
        run(capsys, "predict", "--scenario", str(path), "--alpha", "0.5", "--format", "json")
    )
    assert found["walltime_improvement"] == pytest.approx(1.9375 / 1.8)


# ── faults ───────────────────────────────────────────────────────────────────────────────────

TOO_MANY = [a for name in ("alpha", "c") for a in ("--over", f"{name}=0:1:0.001")]
FAULTS: list[tuple[list[str], list[str]]] = [
    (["predict", "--alpha", "1.5", "--c", "0.1", "--gamma", "4"], ["alpha", "1.5", "<= 1"]),
    (["predict", "--alpha", "nan", "--c", "0.1", "--gamma", "4"], ["alpha", "nan"]),
    (["predict", "--alpha", "0.5", "--c", "-1", "--gamma", "4"], ["c must", "-1", ">= 0"]),
    (["predict", "--alpha", "0.5", "--c", "0.1", "--gamma", "-1"], ["gamma", "-1", ">= 0"]),
    (["predict", "--alpha", "0.5", "--c", "0.1", "--gamma", "2.5"], ["gamma", "2.5", "whole"]),
    (["predict"], ["alpha", "nothing"]),
    (["predict", "--gamma", "4"], ["alpha", "nothing"]),
    (["predict", *BASIC, "--tokens-per-step", "3"], ["ambiguous", "alpha", "tokens_per_step"]),
    (["predict", *BASIC, "--speed", "3"], ["--speed"]),
    (["predict", *BASIC, "--format", "xml"], ["xml", "json"]),
    (["predict", *BASIC, "--sigma", "-0.3"], ["verify_cost", "-0.2", "> 0", "sigma=-0.3"]),
    (["predict", *BASIC, "--verify-costs", "1.2,1.3"], ["gamma", "<= 2", "verify_costs", "4"]),
    (["gamma", "--rates", "0.5,0.6", "--c", "0.1"], ["position 2", "0.6", "0.5"]),
    (["gamma", "--rates", "1.5,0.6", "--c", "0.1"], ["position 1", "1.5", "<= 1"]),
    (["gamma", "--rates", "hello", "--c", "0.1"], ["rates", "hello"]),
    (["gamma", "--accepted-per-step", "3", "--c", "0.1"], ["measured_gamma", "nothing"]),
    (["crossover", "--c", "-1"], ["c must", "-1", ">= 0"]),
    (["sweep", *BASIC], ["--over"]),
    (["sweep", "--over", "speed=1", *BASIC], ["speed"]),
    (["sweep", "--over", "alpha=", *BASIC], ["--over", "alpha="]),
    (["sweep", "--over", "c=0:1:0", "--alpha", "0.5", "--gamma", "1"], ["0:1:0"]),
    (["sweep", "--over", "c=0:1:-1", "--alpha", "0.5", "--gamma", "1"], ["0:1:-1"]),
    (["sweep", "--over", "c=0:inf:1", "--alpha", "0.5", "--gamma", "1"], ["0:inf:1"]),
    (["sweep", "--over", "c=0:1:1e-9", "--alpha", "0.5", "--gamma", "1"], ["10,000"]),
    (["sweep", *TOO_MANY, "--gamma", "1"], ["10,000", "1,002,001"]),
    (["sweep", "--over", "c=1", "--over", "c=2", "--alpha", "0.5", "--gamma", "1"], ["--over"]),
    (["sweep", "--over", "alpha=0.5,2", "--c", "0.1", "--gamma", "1"], ["alpha", "2", "<= 1"]),
    (
        ["sweep", "--over", "gamma=1,2", "--accepted-per-step", "1", "--c", "0"],
        ["gamma", "accepted_per_step", "measured-gamma"],
    ),
    (["export", *BASIC], ["--out"]),
    (["export", *BASIC, "-o", "no/such/folder/t.csv"], ["no/such/folder"]),
    (["export", *BASIC, "--decimal", ",", "-o", "t.csv"], ["delimiter", "decimal"]),
    (["predict", "--scenario", "missing.toml"], ["missing.toml"]),
    (["serve", "--port", "0"], ["port", "0", "1"]),
    (["fly"], ["fly"]),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), FAULTS, ids=lambda v: " ".join(map(str, v))[:60])
def test_a_fault_is_one_message_on_stderr(
    capsys: Capture, arguments: list[str], words: list[str]
) -> None:
    err = fault(capsys, *arguments)
    assert all(word in err for word in words), err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[scenario]\nalhpa = 1\ngamma = 4", ["alhpa", "alpha"]),
        ("[scenario]\nalpha = 7\nc = 0.1\ngamma = 4", ["alpha", "7", "<= 1"]),
        ("not toml", ["TOML"]),
        ("#" * 2_000_000, ["characters"]),
    ],
)
def test_a_file_at_fault_is_told(
    capsys: Capture, tmp_path: Path, text: str, words: list[str]
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text, "utf-8")
    err = fault(capsys, "predict", "--scenario", str(path))
    assert all(word in err for word in words), err
    path.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in fault(capsys, "predict", "--scenario", str(path))


# ── help ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_at_every_level_has_an_example_that_runs(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, flag: str
) -> None:
    out = run(capsys, *([command] if command else []), flag)
    (example,) = re.findall(r"Example: specmath (.+)", out)
    if command != "serve" and flag == "-h":
        monkeypatch.chdir(tmp_path)
        assert run(capsys, *example.split())


def test_help_explains_every_field_with_its_bounds(capsys: Capture) -> None:
    out = " ".join(run(capsys, "predict", "--help").split())
    for name, spec in SPECS.items():
        assert f"--{name.replace('_', '-')}" in out
        if spec.low is not None:
            assert spec.bounds in out.replace("A whole", "a whole").replace("A finite", "a finite")
    assert ".." not in out.replace("...", "")
    assert "?." not in out


def test_version_and_no_command(capsys: Capture) -> None:
    assert re.search(r"\d+\.\d+", run(capsys, "--version"))
    assert "Usage" in fault(capsys)


def test_the_module_runs_and_keeps_its_streams_apart() -> None:
    def call(*arguments: str) -> Any:
        command = [sys.executable, "-m", "specmath", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    good = call("predict", *BASIC, "--format", "json")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["gamma"] == 4
    bad = call("predict", "--alpha", "2", "--c", "0.1", "--gamma", "4")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "Error: alpha must be a finite number >= 0 and <= 1, got 2\n"
