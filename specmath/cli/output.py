"""Rows and tables on standard output: aligned text, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import click
from tabulate import tabulate

from specmath.sheets.tables import Table, shown

__all__ = ["Row", "print_rows", "print_table"]

Row = dict[str, Any]


def print_rows(rows: Sequence[Row], style: str, *, one: bool = False) -> None:
    """The rows as a table, CSV or JSON; `one` record reads downwards in a table."""
    if style == "json":
        click.echo(json.dumps(rows[0] if one else list(rows), ensure_ascii=False, indent=2))
        return
    if style == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _flat(v) for k, v in row.items()} for row in rows)
        click.echo(out.getvalue(), nl=False)
        return
    if one:
        click.echo(tabulate([(k, _word(v)) for k, v in rows[0].items()], disable_numparse=True))
        return
    cells = [{k: _word(v) for k, v in row.items()} for row in rows]
    click.echo(tabulate(cells, headers="keys", disable_numparse=True))


def _flat(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, list) else value


def _word(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(_flat(value))


def print_table(table: Table, style: str) -> None:
    if style == "table":
        heads = [f"{c.label} ({c.unit})" if c.unit else c.label for c in table.columns]
        cells = [[shown(v, c.format) for v in c.values] for c in table.columns]
        rows = [list(row) for row in zip(*cells, strict=True)]
        click.echo(tabulate(rows, headers=heads, disable_numparse=True, stralign="right"))
    else:
        print_rows(table.rows(), style)
