"""Files offered on the pages: the kinds, what they carry, and that they hold the table."""

from __future__ import annotations

import csv
import datetime
import io
import itertools

import openpyxl
import pytest

import specmath
from specmath.checks import InputError
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import from_link
from specmath.tables import TABLES, gamma_table
from specmath.tables.files import KINDS, file_bytes, scenario_text

NAMES = ("gamma", "regimes", "alpha_gamma", "crossover", "draft_cost")
SCENARIO = Scenario(alpha=0.8, c=0.1, gamma=4, label="=cmd()", target_ms=40)


def rows(data: bytes, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig")), delimiter=delimiter))


@pytest.mark.parametrize("name", NAMES)
def test_csv_values_are_the_table(name: str) -> None:
    table = TABLES[name](predict(SCENARIO))
    read = rows(file_bytes(table, SCENARIO, "values"))
    for column in table.columns:
        for row, value in zip(read, column.values, strict=True):
            if isinstance(value, float | int):
                assert float(row[column.name]) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_live_csv_has_formulas_of_references_and_operators_only(name: str) -> None:
    """Function names are translated; not one letter may stand before a bracket."""
    table = TABLES[name](predict(SCENARIO))
    text = file_bytes(table, SCENARIO, "formulas").decode("utf-8-sig")
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row if cell[:1] == "="]
    for cell in cells:
        assert set(cell) <= set("=ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-*/^()<>.")
        assert not any(a.isalpha() and b == "(" for a, b in itertools.pairwise(cell))
    assert bool(cells) == (name in ("gamma", "regimes", "alpha_gamma")), "constants elsewhere"


def test_every_row_says_version_date_and_scenario() -> None:
    for row in rows(file_bytes(gamma_table(predict(SCENARIO)), SCENARIO, "values")):
        assert row["specmath_version"] == specmath.__version__
        assert datetime.date.fromisoformat(row["date"])
        assert row["scenario"] == scenario_text(SCENARIO)
        assert not row["scenario"].startswith("=")


def test_the_scenario_in_a_cell_restores_the_scenario() -> None:
    for scenario in (Scenario(alpha=0.8, c=0.1, gamma=4, sigma=None), EXAMPLE):
        pairs = dict(part.split("=") for part in scenario_text(scenario).split(" "))
        assert from_link(pairs) == (scenario, [])


def test_german_spreadsheets() -> None:
    data = file_bytes(gamma_table(predict(SCENARIO)), SCENARIO, "values", ";", ",")
    assert (
        rows(data, ";")[4]["walltime_improvement"].replace(",", ".")
        == (
            rows(file_bytes(gamma_table(predict(SCENARIO)), SCENARIO, "values"))[4][
                "walltime_improvement"
            ]
        )
    )
    with pytest.raises(InputError, match="delimiter and decimal must be"):
        file_bytes(gamma_table(predict(SCENARIO)), SCENARIO, "values", ",", ",")


@pytest.mark.parametrize("name", NAMES)
def test_the_workbook_holds_the_table_and_its_definitions(name: str) -> None:
    table = TABLES[name](predict(SCENARIO))
    data = io.BytesIO(file_bytes(table, SCENARIO, "xlsx"))
    cached = openpyxl.load_workbook(data, data_only=True)
    sheet = cached.worksheets[0]
    head = [cell.value for cell in sheet[1]]
    for position, column in enumerate(table.columns, start=1):
        assert str(head[position - 1]).startswith(column.label)
        shown = [sheet.cell(row, position).value for row in range(2, len(table) + 2)]
        for found, value in zip(shown, column.values, strict=True):
            if isinstance(value, float | int):
                assert found == pytest.approx(value, rel=1e-12)
    words = {str(cell.value) for page in cached for line in page.iter_rows() for cell in line}
    assert all(column.definition in words for column in table.columns)


def test_another_kind_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=f"kind must be one of {', '.join(KINDS)}, got 'pdf'"):
        file_bytes(gamma_table(predict(SCENARIO)), SCENARIO, "pdf")
