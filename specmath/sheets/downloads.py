"""A table as the bytes of a file, in the three kinds that pages and command line offer."""

from __future__ import annotations

from specmath.checks import InputError
from specmath.scenario import Scenario
from specmath.scenario.files import to_link
from specmath.sheets.export import to_csv
from specmath.sheets.tables import Table
from specmath.sheets.workbook import to_xlsx

__all__ = ["KINDS", "file_bytes", "scenario_text"]

KINDS = {
    "values": "CSV, values",
    "formulas": "CSV, live formulas",
    "xlsx": "XLSX, live formulas",
}


def scenario_text(scenario: Scenario) -> str:
    """The scenario in one cell: the same pairs as its link."""
    return " ".join(f"{k}={v}" for k, v in to_link(scenario).items()) or "example"


def file_bytes(
    table: Table, scenario: Scenario, kind: str, delimiter: str = ",", decimal: str = "."
) -> bytes:
    """The file of one of `KINDS`; InputError for any other, or a decimal comma without ';'."""
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    text = scenario_text(scenario)
    if kind == "xlsx":
        return to_xlsx(table, scenario=text)
    live = kind == "formulas"
    return to_csv(table, scenario=text, formulas=live, delimiter=delimiter, decimal=decimal)
