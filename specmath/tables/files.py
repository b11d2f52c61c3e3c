"""A Table as the bytes of a file: CSV with values or live formulas, or a workbook.

CSV and workbook carry the version of specmath, the date and the scenario in words.

User text (labels, scenario names) can hold what a spreadsheet would run. In a CSV such text gets
an apostrophe in front (`specmath.foreign.neutralise`); in a workbook it is stored as text, which
never runs.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import specmath
from specmath.checks import InputError
from specmath.foreign import clean, neutralise
from specmath.scenario import Scenario
from specmath.scenario.files import to_link
from specmath.tables.table import STAMP, Cell, Chart, Column, Input, Table, render, shown

__all__ = [
    "KINDS",
    "defined_names",
    "file_bytes",
    "scenario_text",
    "to_csv",
    "to_xlsx",
]


def to_csv(
    table: Table,
    *,
    scenario: str = "",
    date: datetime.date | None = None,
    formulas: bool = False,
    delimiter: str = ",",
    decimal: str = ".",
) -> bytes:
    """The table as CSV, UTF-8 with a byte order mark, one header row of ASCII names.

    After the table's columns come `specmath_version`, `date`, `scenario` and each input as a
    column. Unknown is an empty cell, true and false are 1 and 0 (the words are translated), and a
    share is a number (0.6, not 60%). Choose the decimal sign that the spreadsheet program itself
    is set to: it reads the numbers inside formulas by its own language, whatever is chosen when
    the file is opened.

    Parameters
    ----------
    scenario
        What stands in that column.
    date
        Today where it is not given.
    formulas
        Cells that follow from others are written as "=..." with A1 references; an input is a
        constant in its first row and "=the cell above" below it, so that editing the first row
        changes the whole table.
    delimiter, decimal
        `decimal=","` needs `delimiter=";"`; any other choice than these is refused.

    Raises
    ------
    InputError
        A decimal sign or delimiter refused.

    Examples
    --------
    >>> from specmath.tables.table import Column
    >>> table = Table("Drafts", "drafts", (Column("c", "Draft cost", "", "", (0.1, None)),))
    >>> print(to_csv(table).decode("utf-8-sig").split(",")[0])
    c
    """
    if (delimiter, decimal) not in ((",", "."), (";", "."), (";", ",")):
        raise InputError(
            'delimiter and decimal must be "," and ".", ";" and ".", or ";" and ",", '
            f"got {delimiter!r} and {decimal!r}"
        )
    stamp = stamp_of(scenario, date)
    names = [*(c.name for c in table.columns), *stamp, *(i.name for i in table.inputs)]
    letters = letters_of(names)

    def cell(row: int, value: Cell, template: str | None) -> str:
        if formulas and template is not None:  # the header is line 1, so row 0 is line 2
            return "=" + render(template, lambda n, up: f"{letters[n]}{row + 2 - up}", decimal)
        if value is None or isinstance(value, str):
            return neutralise(value or "")
        return repr(int(value) if isinstance(value, bool) else value).replace(".", decimal)

    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerow(names)
    for row in range(len(table)):
        made = (cell(row, c.values[row], c.formula(row)) for c in table.columns)
        follow = {i.name: f"{{{i.name}^}}" for i in table.inputs if row and i.value is not None}
        given = (cell(row, i.value, follow.get(i.name)) for i in table.inputs)
        writer.writerow([*made, *map(neutralise, stamp.values()), *given])
    return buffer.getvalue().encode("utf-8-sig")


def stamp_of(scenario: str, date: datetime.date | None) -> dict[str, str]:
    day = datetime.date.today() if date is None else date
    values = (specmath.__version__, f"{day:%Y-%m-%d}", scenario)
    return dict(zip(STAMP, values, strict=True))


def letters_of(names: Sequence[str]) -> dict[str, str]:
    """The spreadsheet letters of the columns of these names."""
    from xlsxwriter.utility import xl_col_to_name  # the core must import without it

    return {name: xl_col_to_name(index) for index, name in enumerate(names)}


# ── workbooks ─────────────────────────────────────────────────────────────────────────────────────


USE = "Change a blue cell on the sheet Inputs: what follows from it is recalculated."

_REFERENCE_LIKE = re.compile(r"[A-Z]{1,3}\d+|R\d*(?:C\d*)?|C\d*|TRUE|FALSE", re.IGNORECASE)


def to_xlsx(table: Table, *, scenario: str = "", date: datetime.date | None = None) -> bytes:
    """The table as a workbook whose formulas are live and carry their values.

    Sheets: Results (the table, frozen header, a chart where the table has one), Inputs (each input
    a named cell; formulas use the name), Definitions and About. A name that Excel would read as a
    reference is changed (`defined_names`). Equal arguments give equal bytes.
    """
    import xlsxwriter  # the core must import without it

    stamp = stamp_of(scenario, date)
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        created = datetime.datetime.fromisoformat(stamp["date"])
        book.set_properties({"title": clean(table.title), "created": created})
        _results_sheet(book, table)
        if table.inputs:
            _inputs_sheet(book, table)
        heads = ["Name", "Label", "Unit", "Definition", "Basis", "Source"]
        parts: list[Column | Input] = [*table.columns, *table.inputs]
        rows = [[getattr(part, head.lower()) for head in heads] for part in parts]
        _grid(book, "Definitions", heads, rows)
        about = {"title": table.title, "table": table.name, **stamp}
        if table.inputs and any(any(column.formulas) for column in table.columns):
            about["use"] = USE
        _grid(book, "About", ["About", ""], [[*pair] for pair in about.items()])
    return buffer.getvalue()


def defined_names(table: Table) -> dict[str, str]:
    """The workbook's name for each input: its own, unless Excel would read that as a reference.

    `c` becomes `c_draft`; others that look like a cell (`r`, `c1`, `tp8`) get a "_" at the end.
    """
    taken = {item.name.lower() for item in table.inputs}
    names = {}
    for item in table.inputs:
        name = item.name
        if _REFERENCE_LIKE.fullmatch(name):
            name = "c_draft" if name.lower() == "c" else name + "_"
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
        names[item.name] = name
    return names


def _write(sheet: Any, row: int, col: int, value: Cell, style: Any = None) -> None:
    """One constant cell. Text goes in as text whatever it starts with; unknown stays empty."""
    if value is None or value == "":
        return
    if isinstance(value, str):
        sheet.write_string(row, col, clean(value), style)
    elif isinstance(value, bool):
        sheet.write_boolean(row, col, value, style)
    else:
        sheet.write_number(row, col, value, style)


def _sheet(book: Any, name: str, header: list[str], columns: Iterable[Sequence[str]]) -> Any:
    """A sheet with a bold, frozen header, as wide as the texts of its columns."""
    sheet = book.add_worksheet(name)
    bold = book.add_format({"bold": True, "bottom": 1})
    for col, (title, texts) in enumerate(zip(header, columns, strict=True)):
        sheet.write_string(0, col, title, bold)
        sheet.set_column(col, col, min(max(map(len, [title, *texts])) + 2, 80))
    sheet.freeze_panes(1, 0)
    return sheet


def _grid(book: Any, name: str, header: list[str], rows: list[list[str]]) -> Any:
    """A sheet of text."""
    sheet = _sheet(book, name, header, zip(*rows, strict=True))
    for row, cells in enumerate(rows, start=1):
        for col, text in enumerate(cells):
            _write(sheet, row, col, text)
    return sheet


def _results_sheet(book: Any, table: Table) -> None:
    letters = letters_of([column.name for column in table.columns])
    names = defined_names(table)
    texts = [[shown(value, c.format) for value in c.values] for c in table.columns]
    sheet = _sheet(book, "Results", [_heading(column) for column in table.columns], texts)
    for col, column in enumerate(table.columns):
        style = book.add_format({"num_format": column.format or "General"})
        for row, value in enumerate(column.values):
            template = column.formula(row)
            if template is None:
                _write(sheet, row + 1, col, value, style)
                continue

            def refer(name: str, above: bool, line: int = row + 2) -> str:
                return f"{letters[name]}{line - above}" if name in letters else names[name]

            sheet.write_formula(row + 1, col, "=" + render(template, refer), style, value)
    if table.chart:
        sheet.insert_chart(1, len(table.columns) + 1, _chart(book, table, table.chart))


def _chart(book: Any, table: Table, hint: Chart) -> Any:
    """Lines over x; where x is not evenly spaced a scatter with lines, which keeps distances."""
    index = {column.name: col for col, column in enumerate(table.columns)}
    even = _evenly_spaced(table.column(hint.x).values)
    kind = {"type": "line"} if even else {"type": "scatter", "subtype": "straight_with_markers"}
    chart = book.add_chart(kind)
    last = len(table)
    markers = ("circle", "square", "diamond", "triangle", "x")
    for number, name in enumerate(hint.y):
        color = {"color": hint.colors[number]} if hint.colors else {}
        marker = {"type": markers[number % len(markers)], "size": 5}
        marker |= {"fill": color, "border": color} if color else {}
        chart.add_series(
            {
                "name": ["Results", 0, index[name]],
                "categories": ["Results", 1, index[hint.x], last, index[hint.x]],
                "values": ["Results", 1, index[name], last, index[name]],
                "line": {"width": 2} | color,
                "marker": marker,
            }
        )
    y_label = hint.y_label or ", ".join(_heading(table.column(name)) for name in hint.y)
    chart.set_title({"name": _title(table.title), "name_font": {"size": 12}})
    chart.set_x_axis({"name": _title(_heading(table.column(hint.x)))})
    chart.set_y_axis({"name": _title(y_label)})
    chart.set_legend({"position": "bottom"})
    chart.show_blanks_as("gap")
    chart.set_size({"width": 640, "height": 380})
    return chart


def _title(text: str) -> str:
    """The text as a title: XlsxWriter takes what looks like Sheet!A1 for a reference."""
    return clean(text).replace("!", "! ")


def _evenly_spaced(values: tuple[Cell, ...]) -> bool:
    """True where a category axis misleads nobody: text, or numbers at equal steps."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return True
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    return not steps or max(steps) - min(steps) <= 1e-9 * max(abs(step) for step in steps)


def _inputs_sheet(book: Any, table: Table) -> None:
    names = defined_names(table)
    header = ["Input", "Value", "Unit", "Name in formulas", "Definition"]
    rows = [
        [i.label or i.name, shown(i.value, i.format), i.unit, names[i.name], i.definition]
        for i in table.inputs
    ]
    sheet = _grid(book, "Inputs", header, rows)
    for row, item in enumerate(table.inputs, start=1):
        look = {"num_format": item.format or "General", "font_color": "#0000FF"}
        style = book.add_format(look)
        if item.value is None:
            sheet.write_blank(row, 1, None, style)
        else:
            _write(sheet, row, 1, item.value, style)
        book.define_name(names[item.name], f"=Inputs!$B${row + 1}")


def _heading(part: Column | Input) -> str:
    label = clean(part.label or part.name)
    return f"{label} ({clean(part.unit)})" if part.unit else label


# ── the kinds that are offered ────────────────────────────────────────────────────────────────────


KINDS = {
    "values": "CSV, values",
    "formulas": "CSV, live formulas",
    "xlsx": "XLSX, live formulas",
}


def scenario_text(scenario: Scenario) -> str:
    """The scenario in one cell: the same pairs as its link."""
    return " ".join(f"{k}={v}" for k, v in to_link(scenario).items())


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
