"""A small spreadsheet: recalculates a table from its templates alone, with changed inputs."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from specmath.tables.table import Cell, Table


def recalculate(
    table: Table,
    inputs: Mapping[str, Any] | None = None,
    cells: Mapping[tuple[str, int], Any] | None = None,
) -> dict[str, list[Any]]:
    """Every column after `inputs` (by name) and constant `cells` (column, row) were typed over."""
    typed, over = dict(inputs or {}), dict(cells or {})
    columns = {column.name: column for column in table.columns}
    constants = {i.name: i for i in table.inputs}
    unknown = {name for name in typed if name not in constants or constants[name].formula}
    assert not unknown, f"the table has no inputs {unknown}"

    @functools.cache
    def at(name: str, row: int) -> Cell:
        if name not in columns:
            item = constants[name]
            if item.formula is None or item.value is None:
                return typed.get(name, item.value)
            return of(item.formula, row)
        template = columns[name].formula(row)
        if template is None:
            return over.get((name, row), columns[name].values[row])
        assert (name, row) not in over, f"{name} is a formula in row {row}"
        return of(template, row)

    def of(template: str, row: int) -> Any:
        def refer(match: re.Match[str]) -> str:
            up = int(match["rows"] or 1) if match["above"] else 0
            # A truth value counts as 1 or 0.
            return f"({float(at(match['name'], row - up))!r})"

        up, inner = template.startswith("⌈"), template.strip("⌈⌉")
        plain = re.sub(r"\{(?P<name>\w+)(?P<above>\^(?P<rows>\d*))?\}", refer, inner)
        plain = plain.replace("^", "**").replace("<>", "!=")
        plain = re.sub(r"(?<![<>!=])=(?!=)", "==", plain)
        found = eval(plain, {"__builtins__": {}})
        return max(1, math.ceil(found - 1e-9)) if up else found

    rows = range(len(table))
    # Row by row, so that a long chain of references above stays shallow.
    done = [{name: at(name, row) for name in columns} for row in rows]
    return {name: [line[name] for line in done] for name in columns}
