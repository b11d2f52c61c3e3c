"""report and plan --beside on the command line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import tomli_w
from helpers.command_line import Capture, fault, run
from helpers.pages_of_html import Page, number

EXAMPLE = str(Path(__file__).parents[1] / "specmath" / "data" / "plan_example.toml")


@pytest.fixture
def dearer(tmp_path: Path) -> str:
    """The example, one endpoint of it at twice the price."""
    data = tomllib.loads(Path(EXAMPLE).read_text("utf-8"))
    data["plan"]["name"] = "Dearer"
    data["endpoints"][1]["usd_per_hour"] *= 2
    path = tmp_path / "dearer.toml"
    path.write_text(tomli_w.dumps(data), "utf-8")
    return str(path)


def test_its_numbers_are_those_that_plan_prints(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert run(capsys, "report", EXAMPLE, "-o", str(out)).startswith(f"wrote {out} (")
    page = Page(out.read_bytes())
    printed = json.loads(run(capsys, "plan", EXAMPLE, "--format", "json"))
    *rows, _ = page.rows("plan")
    for row, record in zip(rows, printed, strict=True):
        assert row["endpoint"][0] == record["endpoint"]
        assert row["do"][0] == record["do"]
        for name, digits in (("tpot_p99_ms", 1), ("tpot_p50_ms_plain", 1), ("gpus", 0),
                             ("usd_per_month", 0)):  # fmt: skip
            assert number(row[name][0]) == round(record[name], digits)


def test_it_replaces_only_what_it_wrote(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("<!doctype html><title>mine</title>")
    said = fault(capsys, "report", "--alpha", "0.8", "--c", "0.1", "-o", str(out))
    assert "was not written by this command" in said
    assert said.count("\n") == 1
    assert out.read_text() == "<!doctype html><title>mine</title>"
    run(capsys, "report", "--alpha", "0.8", "--c", "0.1", "-o", str(out), "--force")
    run(capsys, "report", "--alpha", "0.7", "--c", "0.1", "-o", str(out))
    assert "alpha=0.7" in Page(out.read_bytes()).texts["code"][0]


def test_it_never_writes_over_the_plan(capsys: Capture, dearer: str) -> None:
    before = Path(dearer).read_bytes()
    assert "read by this command" in fault(capsys, "report", dearer, "-o", dearer, "--force")
    assert Path(dearer).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((EXAMPLE, "--alpha", "0.8"), "a plan's file or of a scenario's options, got both"),
        (("--beside", EXAMPLE), "give the plan's file too"),
        ((), "needs alpha"),
    ],
)
def test_what_makes_no_report(
    capsys: Capture, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    out = tmp_path / "report.html"
    error = fault(capsys, "report", *arguments, "-o", str(out))
    assert said in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_plan_that_is_none_says_so(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("[[endpoints]]\nname = 'x'\n")
    error = fault(capsys, "report", str(path), "-o", str(tmp_path / "r.html"))
    assert "demand_requests_per_second must be given" in error


def test_two_plans_side_by_side(capsys: Capture, dearer: str, tmp_path: Path) -> None:
    rows = json.loads(run(capsys, "plan", EXAMPLE, "--beside", dearer, "--format", "json"))
    more = {row["endpoint"]: row["usd_per_month_more"] for row in rows}
    first = {row["endpoint"]: row["usd_per_month_a"] for row in rows}
    assert more == {"Chat": 0, "Summaries": pytest.approx(first["Summaries"]), "Agents": 0,
                    "All endpoints": pytest.approx(first["Summaries"])}  # fmt: skip
    text = run(capsys, "plan", EXAMPLE, "--beside", dearer)
    assert "Three endpoints: Turn it on for" in text
    assert "Dearer: Turn it on for" in text
    out = tmp_path / "both.html"
    run(capsys, "report", EXAMPLE, "--beside", dearer, "-o", str(out))
    shown = Page(out.read_bytes()).rows("plans")
    assert [number(row["usd_per_month_more"][0]) for row in shown] == [
        round(each) for each in more.values()
    ]


def test_beside_has_a_row_an_endpoint(capsys: Capture) -> None:
    said = fault(capsys, "plan", EXAMPLE, "--beside", EXAMPLE, "--by", "hour")
    assert "--beside has a row an endpoint, got --by hour" in said
