"""Rows and tables on standard output: aligned text, CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from specmath.cli.terminal import say, say_json
from specmath.foreign import neutralise
from specmath.tables.table import Table, shown

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
    if style == "table":
        heads = [f"{c.label} ({c.unit})" if c.unit else c.label for c in table.columns]
        cells = [[shown(v, c.format) for v in c.values] for c in table.columns]
        rows = [list(row) for row in zip(*cells, strict=True)]
        say(tabulate(rows, headers=heads, disable_numparse=True, stralign="right"))
    else:
        print_rows(table.rows(), style)
