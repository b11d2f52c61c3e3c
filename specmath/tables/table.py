"""The one table that the screen, the CSV and the workbook all show.

A `Table` holds values and, beside them, the formula that makes each value from the others. The
values come from the library's own functions; the formulas are templates that `files` turns into
cell references. So the number on the page is the number in the file, and changing an input in the
opened file changes what follows from it.

A template is written in operators, numbers and references only, because the names of spreadsheet
functions are translated ("SUM" is "SUMME" in German) and a CSV carries the formula as text:

    {name}     the cell of column `name` in the same row, or else the input `name`
    {name^}    the cell of column `name` in the row above; {name^3}: three rows above
    + - * / ^ ( ) >= <= <> < > =    and plain numbers, with a point
    ⌈ … ⌉      around the whole of a template: the next whole number, at least 1

A minus always stands between two operands (write 0-x): Excel reads -2^2 as 4, most else as -4.

Which cells are for typing is said by `editable`; those that a formula also follows from look like
inputs in a workbook (`Table.typed`), and no other cell does.
"""

from __future__ import annotations

import graphlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from specmath.checks import InputError

__all__ = [
    "Basis",
    "Cell",
    "Chart",
    "Column",
    "Input",
    "Table",
    "Token",
    "parse",
    "render",
    "rounds_up",
    "shown",
]

Cell = float | int | str | bool | None
Basis = Literal["computed", "measured", "published", "assumed"]

STAMP = ("specmath_version", "date", "scenario")
"""Columns that every exported file adds; no column or input may take these names."""

MAX_ROWS = 1_048_575
"""Rows of a worksheet less its header."""

MAX_NUMBER = 1e307
"""Excel's largest number, roughly."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}", re.ASCII)
_FORMAT = re.compile(
    r'(?P<group>#,##)?0(?:\.(?P<decimals>0+))?(?P<percent>%)?(?:"(?P<tail>[^"]*)")?'
)
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")


@dataclass(frozen=True)
class Column:
    """One column: its values, the formula of each, and what it means.

    `values` are numbers, text or None; nan becomes None, which means unknown and gives an empty
    cell. `formulas` is empty or has one template (or None: a constant) a row. `format` is a number
    format: 0, 0.00, #,##0, 0.0% and the like, with a quoted ending if wanted (0.00"×"); `formats`
    has one a row, for a workbook, where the rows differ. `editable`: its constants are for typing,
    all of them or, with one a row, those.
    """

    name: str
    label: str
    unit: str
    definition: str
    values: tuple[Cell, ...]
    formulas: tuple[str | None, ...] = ()
    format: str = ""
    basis: Basis = "computed"
    source: str = ""
    formats: tuple[str, ...] = ()
    editable: bool | tuple[bool, ...] = False

    def __post_init__(self) -> None:
        for each in (self.format, *self.formats):
            _check_head("column", self.name, each)
        where = f"column {self.name}"
        object.__setattr__(self, "values", tuple(_cell(where, v) for v in self.values))
        object.__setattr__(self, "formulas", tuple(self.formulas))
        if isinstance(self.editable, tuple) and len(self.editable) != len(self.values):
            raise InputError(
                f"{where} must say of each of its {len(self.values)} rows whether it is for "
                f"typing, or of all at once, got {len(self.editable)}"
            )
        if self.formulas and len(self.formulas) != len(self.values):
            raise InputError(
                f"{where} must have as many formulas as values ({len(self.values)}) or none, "
                f"got {len(self.formulas)}"
            )
        for value, template in zip(self.values, self.formulas, strict=bool(self.formulas)):
            if template is not None and isinstance(value, str):
                raise InputError(f"{where} must hold numbers where it has formulas, got {value!r}")

    def formula(self, row: int) -> str | None:
        """The template of that row; None where the cell is a constant or its value unknown."""
        return self.formulas[row] if self.formulas and self.values[row] is not None else None


@dataclass(frozen=True)
class Input:
    """A scenario constant that formulas refer to: one named cell of the workbook.

    `formula`: a template of other inputs from which it follows itself. `editable`: it is for
    typing; not where the library would compute more anew than formulas can.
    """

    name: str
    label: str
    unit: str
    definition: str
    value: Cell
    format: str = ""
    basis: Basis = "assumed"
    source: str = ""
    formula: str | None = None
    editable: bool = True

    def __post_init__(self) -> None:
        _check_head("input", self.name, self.format)
        object.__setattr__(self, "value", _cell(f"input {self.name}", self.value))
        object.__setattr__(self, "editable", self.editable and self.formula is None)


@dataclass(frozen=True)
class Chart:
    """What the workbook draws: the column on the x axis and those on the y axis.

    `colors` is empty or has one "#rrggbb" a y column; `y_label` is empty to use their labels.
    """

    x: str
    y: tuple[str, ...]
    y_label: str = ""
    colors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.y:
            raise InputError("chart must have at least 1 y column, got 0")
        if self.colors and len(self.colors) != len(self.y):
            raise InputError(
                f"chart must have {len(self.y)} colors or none, got {len(self.colors)}"
            )
        for color in self.colors:
            if not _COLOUR.fullmatch(color):
                raise InputError(f'chart color must look like "#1f77b4", got {color!r}')


@dataclass(frozen=True)
class Table:
    """Columns of equal length, the inputs their formulas refer to, and a chart if it has one.

    Raises InputError where names clash or do not resolve, lengths differ, a formula goes round in
    a circle, looks above the first row, or would turn an unknown or a text into a number.
    """

    title: str
    name: str
    columns: tuple[Column, ...]
    inputs: tuple[Input, ...] = ()
    chart: Chart | None = None

    def __post_init__(self) -> None:
        _check_head("table", self.name)
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "inputs", tuple(self.inputs))
        _check_shape(self)
        _check_formulas(self)

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def column(self, name: str) -> Column:
        """The column of that name; InputError listing the names where there is none."""
        columns = {column.name: column for column in self.columns}
        if name not in columns:
            raise InputError(f"column must be one of {', '.join(columns)}, got {name!r}")
        return columns[name]

    @cached_property
    def followed(self) -> frozenset[tuple[str, int]]:
        """The cells that some formula refers to: (column, row), and (input, 0)."""
        found: set[tuple[str, int]] = set()
        names = {column.name for column in self.columns}
        for column in self.columns:
            for row in range(len(self)):
                for token in parse(column.formula(row) or "0"):
                    if token.kind in REFERENCES:
                        at = row - token.above if token.text in names else 0
                        found.add((token.text, at))
        for item in self.inputs:
            followed = parse(item.formula or "0")
            found |= {(token.text, 0) for token in followed if token.kind in REFERENCES}
        return frozenset(found)

    def typed(self, part: Column | Input, row: int = 0) -> bool:
        """Whether the cell is for typing: a constant from which something follows."""
        constant = isinstance(part, Input) or part.formula(row) is None
        free = part.editable[row] if isinstance(part.editable, tuple) else part.editable
        return free and constant and (part.name, row) in self.followed

    def rows(self) -> list[dict[str, Cell]]:
        """One dict a row, column name to value; None where unknown."""
        return [{c.name: c.values[row] for c in self.columns} for row in range(len(self))]


def shown(value: Cell, number_format: str = "") -> str:
    """The value as a person reads it in that number format; "" where unknown."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    match = _FORMAT.fullmatch(number_format)
    if not match:
        return f"{value:d}" if isinstance(value, int) else f"{value:.6g}"
    decimals = len(match["decimals"] or "")
    kind = "%" if match["percent"] else "f"
    return f"{value:z{',' if match['group'] else ''}.{decimals}{kind}}{match['tail'] or ''}"


def _check_head(what: str, name: str, number_format: str = "") -> None:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{what} name must be an ASCII letter, then up to 99 letters, digits or _, got {name!r}"
        )
    if number_format and not _FORMAT.fullmatch(number_format):
        raise InputError(
            f"{name} format must be like 0.00, #,##0 or 0.0% with an optional quoted ending, "
            f"got {number_format!r}"
        )


def _cell(where: str, value: object) -> Cell:
    """`value` as a plain Python cell: nan is unknown; infinity is refused, no cell can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, bool | int | float) and abs(value) <= MAX_NUMBER:
        return value
    raise InputError(
        f"{where} must hold numbers within ±{MAX_NUMBER:g}, text or None, got {value!r}"
    )


def _check_shape(table: Table) -> None:
    if not table.columns or not table.columns[0].values:
        raise InputError(f"table {table.name} must have at least 1 column and 1 row, got none")
    seen = set(STAMP)
    for name in (*(c.name for c in table.columns), *(i.name for i in table.inputs)):
        # Excel's names do not tell case apart, nor may a CSV have two columns of one name.
        if name.lower() in seen:
            raise InputError(f"table {table.name} must have unique names, got {name!r} twice")
        seen.add(name.lower())
    rows = len(table)
    if rows > MAX_ROWS:
        raise InputError(f"table {table.name} must have at most {MAX_ROWS} rows, got {rows}")
    for column in table.columns:
        if len(column.values) != rows:
            raise InputError(
                f"column {column.name} must have {rows} values as the first column has, "
                f"got {len(column.values)}"
            )
    if table.chart:
        for name in (table.chart.x, *table.chart.y):
            table.column(name)


_SOUND: set[int] = set()
"""Hashes of structures whose formulas were checked: a page makes the same table at each move."""


def _check_formulas(table: Table) -> None:
    columns = tuple((c.name, c.formulas, tuple(map(type, c.values))) for c in table.columns)
    inputs = tuple((i.name, i.formula, type(i.value)) for i in table.inputs)
    structure = hash((columns, inputs))
    if structure not in _SOUND:
        _check_references(table)
        _SOUND.add(structure)


def _check_references(table: Table) -> None:
    columns = {column.name: column for column in table.columns}
    inputs = {item.name: item.value for item in table.inputs}
    _check_inputs(table, inputs)
    for row in range(len(table)):
        graph: dict[str, list[str]] = {}
        for name, column in columns.items():
            template = column.formulas[row] if column.formulas else None
            for token in parse(template) if template is not None else ():
                if token.kind not in REFERENCES:
                    continue
                where = f"column {name}, row {row}: {template!r}"
                found = _find(where, token, row, columns, inputs)
                # A spreadsheet reads an empty cell as 0: an unknown must stay unknown.
                if column.values[row] is not None and not isinstance(found, int | float):
                    raise InputError(
                        f"{where} must refer to numbers where its own value is known, "
                        f"but {token.text} is {found!r}"
                    )
                if token.kind == "here":
                    graph.setdefault(name, []).append(token.text)
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            circle = " → ".join(error.args[1])
            raise InputError(
                f"table {table.name}, row {row} must not go round in a circle: {circle}"
            ) from None


def _check_inputs(table: Table, inputs: dict[str, Cell]) -> None:
    """Inputs follow from inputs above them only, so that none goes round in a circle."""
    known: dict[str, Cell] = {}
    for item in table.inputs:
        for token in parse(item.formula) if item.formula is not None else ():
            if token.kind not in REFERENCES:
                continue
            where = f"input {item.name}: {item.formula!r}"
            if token.text not in known or token.kind == "above":
                raise InputError(f"{where} must refer to an input before it, got {token.text!r}")
            if item.value is not None and not isinstance(known[token.text], int | float):
                raise InputError(
                    f"{where} must refer to numbers where its own value is known, "
                    f"but {token.text} is {known[token.text]!r}"
                )
        known[item.name] = item.value


def _find(
    where: str, token: Token, row: int, columns: dict[str, Column], inputs: dict[str, Cell]
) -> Cell:
    """The value that the reference stands for in that row."""
    above = token.above
    if token.text in columns:
        if above > row:
            raise InputError(f"{where} must not look above the first row")
        return columns[token.text].values[row - above]
    if token.text in inputs and not above:
        return inputs[token.text]
    known = ", ".join(columns if above else (*columns, *inputs))
    raise InputError(f"{where} must refer to one of {known}, got {token.text!r}")


# ── formula templates ─────────────────────────────────────────────────────────────────────────────


_TOKEN = re.compile(
    r"""\{(?P<above>[A-Za-z]\w*)\^(?P<rows>[1-9]\d{0,3})?\}
      | \{(?P<here>[A-Za-z]\w*)\}
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<operator>>=|<=|<>|[-+*/^<>=()])
      | \ +""",
    re.ASCII | re.VERBOSE,
)


REFERENCES = ("here", "above")


class Token(NamedTuple):
    """One piece of a template: a reference ("here", "above"), a "number" or an "operator";
    `above`: how many rows up a reference looks."""

    kind: str
    text: str
    above: int = 0


def rounds_up(template: str) -> bool:
    """Whether the value is the next whole number, at least 1, of what the formula gives."""
    return template.startswith("⌈") and template.endswith("⌉")


@lru_cache(maxsize=4096)
def parse(template: str) -> tuple[Token, ...]:
    """The template's tokens, in order; InputError where it is not a formula as described above."""
    if rounds_up(template):
        return parse(template[1:-1])
    tokens: list[Token] = []
    depth, position, operand_next = 0, 0, True
    while position < len(template):
        match = _TOKEN.match(template, position)
        if not match:
            raise InputError(
                f"formula must use references, numbers and operators only, got {template!r} "
                f"(at {template[position : position + 12]!r})"
            )
        position = match.end()
        kind = "above" if match["above"] else match.lastgroup
        if kind is None:
            continue
        token = Token(kind, match[kind], int(match["rows"] or 1) if kind == "above" else 0)
        tokens.append(token)
        opens = token.kind != "operator" or token.text == "("
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if opens != operand_next or depth < 0:
            raise InputError(
                f"formula must set operands and operators in turn, got {template!r} "
                f"(at {token.text!r})"
            )
        operand_next = token.kind == "operator" and token.text != ")"
    if operand_next or depth:
        raise InputError(f"formula must be complete, got {template!r}")
    return tuple(tokens)


def render(template: str, refer: Callable[[str, int], str], decimal: str = ".") -> str:
    """The template with each reference replaced by `refer(name, rows above)`; no leading "=", and
    without the brackets that round up."""
    return "".join(
        refer(text, above) if kind in REFERENCES else text.replace(".", decimal)
        for kind, text, above in parse(template)
    )
