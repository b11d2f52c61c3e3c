"""Rows and tables on standard output: aligned text, CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from specmath.cli.terminal import say, say_json
from specmath.foreign import neutralise
from specmath.tables.table import Column, Table, shown

__all__ = ["Row", "ends_row", "print_rows", "print_table"]

Row = dict[str, Any]


def print_rows(rows: Sequence[Row], style: str, *, one: bool = False) -> None:
    """The rows as a table, CSV or JSON; `one` record reads downwards in a table."""
    if style == "json":
        say_json(rows[0] if one else list(rows))
        return
    if style == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _cell(v) for k, v in row.items()} for row in rows)
        say(out.getvalue(), nl=False)
        return
    cells = [{k: _word(v) for k, v in row.items()} for row in rows]
    if one:
        say(tabulate(cells[0].items(), disable_numparse=True))
    else:
        say(tabulate(cells, headers="keys", disable_numparse=True))


def ends_row(name: str, number: Any) -> Row:
    """The cells of a number and of its ends: of an Estimate or an Interval."""
    return {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}


def _flat(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, list) else value


def _cell(value: Any) -> Any:
    """A cell of a CSV, in which no text starts a formula."""
    flat = _flat(value)
    return neutralise(flat) if isinstance(flat, str) else flat


def _word(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(_flat(value))


def print_table(table: Table, style: str) -> None:
    """The table; as text its ranges stand beside their numbers, and where that is wider than
    `WIDE` a few rows are told downwards."""
    if style != "table":
        print_rows(table.rows(), style)
        return
    columns = {c.name: c for c in table.columns}
    kept = [c for c in table.columns if _number_of(c.name) not in columns]
    heads = [f"{c.label} ({c.unit})" if c.unit else c.label for c in kept]
    cells = [
        [_with_ends(columns, c, i) for i in range(len(c.values))] for c in kept
    ]  # fmt: skip
    rows = [list(row) for row in zip(*cells, strict=True)]
    text = tabulate(rows, headers=heads, disable_numparse=True, stralign="right")
    if len(rows) <= FEW and max(map(len, text.splitlines())) > WIDE:
        downwards = [[head, *row] for head, row in zip(heads[1:], cells[1:], strict=True)]
        text = tabulate(downwards, headers=[heads[0], *cells[0]], disable_numparse=True,
                        stralign="right")  # fmt: skip
    say(text)


WIDE, FEW = 120, 4
"""Characters of a line that a terminal has room for, and rows that are read side by side."""


def _number_of(name: str) -> str:
    """The column of which this is an end; itself is none."""
    for end in ("_low", "_high"):
        if name.endswith(end):
            return name.removesuffix(end)
    return ""


def _with_ends(columns: dict[str, Column], of: Column, row: int) -> str:
    """A cell with its range, where it has one."""
    value = shown(of.values[row], of.format)
    low, high = (
        shown(columns[f"{of.name}{end}"].values[row], of.format)
        if f"{of.name}{end}" in columns else "" for end in ("_low", "_high")
    )  # fmt: skip
    if low == high:
        return value
    return f"{value} ({low or '?'} to {high or '?'})"
