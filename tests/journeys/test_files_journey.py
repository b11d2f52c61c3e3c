"""Files from the page: the library's own, alive in LibreOffice, the same as the command line."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import openpyxl
import pytest
from driver import ROOT, Visitor, arriving, until
from playwright.sync_api import BrowserContext

from specmath.predict import predict
from specmath.scenario.files import build, to_link
from specmath.tables import gamma_table
from specmath.tables.files import KINDS, file_bytes

pytestmark = pytest.mark.browser

OFFICE = shutil.which("soffice")
# Comma, quote, UTF-8, first line, types, language, quoted is text, read numbers.
READ_CSV = "Text - txt - csv (StarCalc):44,34,76,1,,1033,false,true"
ALPHA, ANOTHER = 0.72, 0.35
SCENARIO = build({"alpha": ALPHA, "gamma": 5, "c": 0.06, "target_ms": 25, "sigma": 0.05})


@dataclass(frozen=True)
class Shown:
    """What the page shows of SCENARIO, and the three files of the table over γ that it gives."""

    lines: dict[str, dict[str, list[float]]]
    numbers: dict[str, list[str]]
    messages: list[str]
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def shown(context: BrowserContext, address: str) -> Shown:
    with arriving(context, address) as visitor:
        visitor.open("what_if", **to_link(SCENARIO))
        until(lambda: _has_charts(visitor))
        speedup, arithmetic = visitor.figures()
        lines, numbers = arithmetic | speedup, visitor.table("Speculative")
        messages = visitor.messages()
        drawer = visitor.unfold("Table: Speculative decoding")
        buttons = {
            kind: drawer.get_by_role("button", name=label, exact=True)
            for kind, label in KINDS.items()
        }
        files = {kind: visitor.download(button)[1] for kind, button in buttons.items()}
        return Shown(lines, numbers, messages, files)


def _has_charts(visitor: Visitor) -> None:
    assert len(visitor.figures()) == 2


@pytest.fixture
def files(shown: Shown) -> dict[str, bytes]:
    return shown.files


def rows_of(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))


def test_files_are_the_librarys(files: dict[str, bytes]) -> None:
    table = gamma_table(predict(SCENARIO))
    for kind in KINDS:
        assert files[kind] == file_bytes(table, SCENARIO, kind), kind
    p = predict(SCENARIO)
    speedups = [float(row["walltime_improvement"]) for row in rows_of(files["values"])]
    assert speedups == p.curve.walltime_improvement.tolist()


def test_page_command_line_and_file_agree(shown: Shown) -> None:
    command = [sys.executable, "-m", "specmath", "predict", "--format", "json"]
    command += [f"--{name}={value}" for name, value in to_link(SCENARIO).items() if name != "v"]
    command = [part.replace("_", "-") if part.startswith("--") else part for part in command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    row = rows_of(shown.files["values"])[SCENARIO.gamma]
    assert int(row["gamma"]) == printed["gamma"] == SCENARIO.gamma
    for name, trace in {
        "walltime_improvement": "Speedup",
        "operations_increase": "Arithmetic per token",
    }.items():
        assert shown.lines[trace]["y"][SCENARIO.gamma] == printed[name] == float(row[name]), name
    for name in ("tokens_per_step", "step_cost", "tpot_ms", "usd_per_million_tokens"):
        # The page's time goes through seconds; the last bit may differ.
        assert float(row[name]) == pytest.approx(printed[name], rel=1e-14), name
    assert shown.numbers["Time per token"][1] == f"{printed['tpot_ms']:.1f} ms"
    advice = f"Turn it on at γ={printed['verdict_gamma']}"
    assert any(advice in message for message in shown.messages), shown.messages


@pytest.mark.slow
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_files_recalculate_in_libreoffice(files: dict[str, bytes], tmp_path: Path) -> None:
    """As they came, and with another α typed into the file: both follow the library."""
    text = files["formulas"].decode("utf-8-sig")
    (tmp_path / "same.csv").write_bytes(files["formulas"])
    header, first = text.splitlines()[:2]
    cells = first.split(",")
    cells[header.split(",").index("alpha")] = str(ANOTHER)
    (tmp_path / "changed.csv").write_text(text.replace(first, ",".join(cells), 1), "utf-8-sig")
    book = openpyxl.load_workbook(io.BytesIO(files["xlsx"]))
    book.save(tmp_path / "same_book.xlsx")  # without the cached values
    named = book.defined_names["alpha"].attr_text.replace("$", "").split("!")
    assert book[named[0].strip("'")][named[1]].value == ALPHA
    book[named[0].strip("'")][named[1]] = ANOTHER
    book.save(tmp_path / "changed_book.xlsx")

    _recalculate(tmp_path, "csv", f"--infilter={READ_CSV}")
    _recalculate(tmp_path, "xlsx")
    expected = {
        "same": predict(SCENARIO).curve.walltime_improvement,
        "changed": predict(build(_with_alpha(ANOTHER))).curve.walltime_improvement,
    }
    assert abs(expected["same"] - expected["changed"]).max() > 0.5
    for name, speedups in expected.items():
        for file in (name, f"{name}_book"):
            found = _column(tmp_path / "out" / f"{file}.xlsx", "walltime_improvement", "Speedup")
            # LibreOffice saves 15 digits.
            assert found == pytest.approx(speedups.tolist(), rel=1e-13), file


def _with_alpha(alpha: float) -> dict[str, object]:
    return SCENARIO.model_dump(exclude_unset=True) | {"alpha": alpha}


def _recalculate(folder: Path, ending: str, *options: str) -> None:
    sources = sorted(str(path) for path in folder.glob(f"*.{ending}"))
    command = [str(OFFICE), f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--headless"]
    command += [*options, "--norestore", "--convert-to", "xlsx:Calc MS Excel 2007 XML"]
    done = subprocess.run(
        [*command, "--outdir", str(folder / "out"), *sources],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    missing = [
        name for name in sources if not (folder / "out" / f"{Path(name).stem}.xlsx").exists()
    ]
    assert missing == [], done.stdout + done.stderr


def _column(path: Path, *heads: str) -> list[float]:
    """The column whose heading begins with one of these."""
    sheet = openpyxl.load_workbook(path, data_only=True).worksheets[0]
    header, *rows = sheet.values
    at = next(i for i, cell in enumerate(header) if str(cell).startswith(heads))
    return [row[at] for row in rows]
