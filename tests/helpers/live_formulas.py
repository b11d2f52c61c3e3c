"""A small spreadsheet: recalculates a table from its templates alone, with changed inputs."""

from __future__ import annotations

import functools
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
    constants = {i.name: i.value for i in table.inputs}
    unknown = typed.keys() - constants.keys()
    assert not unknown, f"the table has no inputs {unknown}"

    @functools.cache
    def at(name: str, row: int) -> Cell:
        if name not in columns:
            return typed.get(name, constants[name])
        template = columns[name].formula(row)
        if template is None:
            return over.get((name, row), columns[name].values[row])
        assert (name, row) not in over, f"{name} is a formula in row {row}"

        def refer(match: re.Match[str]) -> str:
            value = at(match["name"], row - 1 if match["above"] else row)
            return f"({float(value)!r})"  # a truth value counts as 1 or 0

        plain = re.sub(r"\{(?P<name>\w+)(?P<above>\^?)\}", refer, template)
        plain = plain.replace("^", "**").replace("<>", "!=")
        plain = re.sub(r"(?<![<>!=])=(?!=)", "==", plain)
        return eval(plain, {"__builtins__": {}})

    rows = range(len(table))
    # Row by row, so that a long chain of references above stays shallow.
    done = [{name: at(name, row) for name in columns} for row in rows]
    return {name: [line[name] for line in done] for name in columns}
