"""The written files recalculated by LibreOffice: an independent spreadsheet, not our evaluator."""

from __future__ import annotations

import csv
import datetime
import io
import shutil
import subprocess
from pathlib import Path

import openpyxl
import pytest
from helpers.sheets import HOSTILE, MAX_GAMMA, assert_same, brute_force, cells_of, gamma_table

from specmath.outfile import write_file
from specmath.tables.files import to_csv, to_xlsx
from specmath.tables.table import Cell, Column, Input, Table

OFFICE = shutil.which("soffice") or shutil.which("libreoffice")
pytestmark = pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")

DAY = datetime.date(2026, 3, 9)
ALPHAS = (0.0, 0.3, 0.8, 1.0)
# Separator, text quote, UTF-8, first line, column types, language, quoted is text, read numbers.
ENGLISH = "Text - txt - csv (StarCalc):44,34,76,1,,1033,false,true"
GERMAN = "Text - txt - csv (StarCalc):59,34,76,1,,1031,false,true"

# What differs between languages and spreadsheets: order of powers, marks, comparisons as numbers.
OPERATORS = {
    "2^3^2": 64,
    "2*3^2": 18,
    "8/2/2": 2,
    "8-2-2": 4,
    "2^(0-1)": 0.5,
    "0-{k}^2": -6.25,
    "1e-3*{k}": 0.0025,
    "1E3*{k}": 2500,
    "(1-{k})*(1-{k})": 2.25,
    "({k}>=2.5)*10+({k}>2.5)": 10,
    "({k}<=2.5)+({k}<2.5)*10": 1,
    "({k}=2.5)+({k}<>2.5)*10": 1,
    "1+2>2": True,
    "{k}<0.1": False,
    "{gamma}*{c}+{r}+{tp8}": 7 * 3 + 5 + 8,
}


def operators_table() -> Table:
    """One formula a row; input names that are functions or references in a spreadsheet too."""
    column = Column("value", "", "", "", tuple(OPERATORS.values()), tuple(OPERATORS))
    numbers = {"k": 2.5, "gamma": 7, "c": 3, "r": 5, "tp8": 8}
    inputs = tuple(Input(name, "", "", "", value) for name, value in numbers.items())
    return Table("t", "t", (column,), inputs)


def hostile_table() -> Table:
    return Table("t", "t", (Column("text", "", "", "", tuple(HOSTILE)),))


SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="ooSetupSystemLocale" oor:op="fuse">
<value>{locale}</value></prop></item></oor:items>
"""


def convert(folder: Path, kind: str, locale: str, reader: str | None = None) -> None:
    """Recalculate every file of `folder` as that locale does; save workbooks in `folder`/out.

    The locale of the program, not of the file, says how a number inside a formula is read.
    """
    assert OFFICE is not None
    profile = folder.parent / f"profile-{locale}"
    (profile / "user").mkdir(parents=True, exist_ok=True)
    (profile / "user" / "registrymodifications.xcu").write_text(SETTINGS.format(locale=locale))
    command = [OFFICE, f"-env:UserInstallation={profile.as_uri()}"]
    command += ["--headless", "--norestore", *([f"--infilter={reader}"] if reader else [])]
    command += ["--convert-to", "xlsx:Calc MS Excel 2007 XML", "--outdir", str(folder / "out")]
    files = sorted(str(path) for path in folder.glob(f"*.{kind}"))
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=600)
    assert len(list((folder / "out").glob("*.xlsx"))) == len(files), done.stdout + done.stderr


def with_alpha(data: bytes, alpha: float) -> bytes:
    """The workbook after someone typed another α; saving drops every cached value."""
    book = openpyxl.load_workbook(io.BytesIO(data))
    assert book["Inputs"]["D2"].value == "alpha"
    book["Inputs"]["B2"] = alpha
    saved = io.BytesIO()
    book.save(saved)
    return saved.getvalue()


def csv_with_alpha(alpha: float, delimiter: str, decimal: str) -> bytes:
    """The CSV after someone changed α in its first row, in a text editor."""
    data = to_csv(gamma_table(), date=DAY, formulas=True, delimiter=delimiter, decimal=decimal)
    text = data.decode("utf-8-sig")
    header, first = text.splitlines()[:2]
    cells = first.split(delimiter)
    cells[header.split(delimiter).index("alpha")] = str(alpha).replace(".", decimal)
    return text.replace(first, delimiter.join(cells), 1).encode("utf-8-sig")


@pytest.fixture(scope="module")
def recalculated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything the tests look at, through LibreOffice in three calls."""
    base = tmp_path_factory.mktemp("office")
    for folder in ("comma", "semicolon", "book"):
        (base / folder).mkdir()
    for alpha in ALPHAS:
        write_file(base / "comma" / f"{alpha}.csv", csv_with_alpha(alpha, ",", "."))
        write_file(base / "semicolon" / f"{alpha}.csv", csv_with_alpha(alpha, ";", ","))
        write_file(base / "book" / f"{alpha}.xlsx", with_alpha(to_xlsx(gamma_table()), alpha))
    operators = operators_table()
    write_file(base / "comma" / "operators.csv", to_csv(operators, formulas=True))
    german = to_csv(operators, formulas=True, delimiter=";", decimal=",")
    write_file(base / "semicolon" / "operators.csv", german)
    write_file(base / "book" / "operators.xlsx", without_cache(to_xlsx(operators)))
    # Each hostile text as it comes, neutralised, and neutralised but opened with the other mark.
    raw = io.StringIO(newline="")
    csv.writer(raw).writerows([text] for text in HOSTILE)
    for folder in ("comma", "semicolon"):
        write_file(base / folder / "raw.csv", raw.getvalue().encode("utf-8-sig"))
    write_file(base / "comma" / "hostile.csv", to_csv(hostile_table(), scenario="=1+1"))
    write_file(base / "semicolon" / "hostile.csv", to_csv(hostile_table(), scenario="=1+1"))
    write_file(base / "book" / "hostile.xlsx", to_xlsx(hostile_table(), scenario="=1+1"))
    convert(base / "comma", "csv", "en-US", ENGLISH)
    convert(base / "semicolon", "csv", "de-DE", GERMAN)
    convert(base / "book", "xlsx", "de-DE")
    return base


def without_cache(data: bytes) -> bytes:
    saved = io.BytesIO()
    openpyxl.load_workbook(io.BytesIO(data)).save(saved)
    return saved.getvalue()


def read(base: Path, folder: str, name: str) -> list[list[Cell]]:
    """The columns of the first sheet, without their headings."""
    book = openpyxl.load_workbook(base / folder / "out" / f"{name}.xlsx", data_only=True)
    return [list(column) for column in zip(*list(book.worksheets[0].values)[1:], strict=True)]


def formulas(base: Path, folder: str, name: str) -> list[str]:
    """Every formula of the file, on any sheet."""
    book = openpyxl.load_workbook(base / folder / "out" / f"{name}.xlsx")
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    return [cell.value for cell in cells if cell.data_type == "f"]


@pytest.mark.parametrize("folder", ["comma", "semicolon", "book"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_alpha_changed_in_the_file_changes_the_table(recalculated, folder, alpha):
    columns = read(recalculated, folder, str(alpha))
    for column, (name, expected) in zip(
        columns, brute_force(alpha, 0.05, 0.125).items(), strict=False
    ):
        # LibreOffice saves 15 digits.
        assert_same(column, expected, 1e-14, name)
    assert len(formulas(recalculated, folder, str(alpha))) >= 5 * (MAX_GAMMA + 1)


@pytest.mark.parametrize("folder", ["comma", "semicolon", "book"])
def test_operators_mean_the_same_in_the_spreadsheet(recalculated, folder):
    found = read(recalculated, folder, "operators")[0]
    for formula, value, expected in zip(OPERATORS, found, OPERATORS.values(), strict=True):
        assert value == pytest.approx(float(expected), rel=1e-14), formula


def test_raw_hostile_text_does_run(recalculated):
    """Or else the next test could not fail."""
    assert formulas(recalculated, "comma", "raw").count("=1+1") == 1
    # Opened with the other mark, "x;=1+1" is two cells, and the second runs.
    assert formulas(recalculated, "semicolon", "raw").count("=1+1") == 2


@pytest.mark.parametrize("folder", ["comma", "semicolon", "book"])
def test_hostile_text_stays_text(recalculated, folder):
    assert formulas(recalculated, folder, "hostile") == []


def test_text_comes_back_as_written(recalculated):
    written = [row[0] for row in cells_of(to_csv(hostile_table()))[1:]]
    assert read(recalculated, "comma", "hostile")[0] == written
