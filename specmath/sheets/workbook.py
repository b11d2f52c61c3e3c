"""A Table as an XLSX workbook whose formulas are live and carry their values."""

from __future__ import annotations

import datetime
import io
import itertools
import re
from typing import Any

from specmath.sheets.export import clean, letters_of, stamp_of
from specmath.sheets.tables import Cell, Chart, Column, Input, Table, shown
from specmath.sheets.templates import render

__all__ = ["defined_names", "to_xlsx"]

_REFERENCE_LIKE = re.compile(r"[A-Z]{1,3}\d+|R\d*(?:C\d*)?|C\d*|TRUE|FALSE", re.IGNORECASE)


def to_xlsx(table: Table, *, scenario: str = "", date: datetime.date | None = None) -> bytes:
    """The table as a workbook whose formulas are live and carry their values.

    Sheets: Results (the table, frozen header, a chart where the table has one), Inputs (each input
    a named cell; formulas use the name), Definitions and About. A name that Excel would read as a
    reference is changed (`defined_names`). Equal arguments give equal bytes.
    """
    import xlsxwriter  # only this writer needs it, and the core must import without it

    stamp = stamp_of(scenario, date)
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        created = datetime.datetime.fromisoformat(stamp["date"])
        book.set_properties({"title": clean(table.title), "created": created})
        _results_sheet(book, table)
        if table.inputs:
            _inputs_sheet(book, table)
        _definitions_sheet(book, table)
        _about_sheet(book, table, stamp)
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


def _grid(book: Any, name: str, header: list[str], rows: list[list[str]]) -> Any:
    """A sheet of text with a bold, frozen header."""
    sheet = book.add_worksheet(name)
    bold = book.add_format({"bold": True, "bottom": 1})
    for col, title in enumerate(header):
        sheet.write_string(0, col, title, bold)
        sheet.set_column(col, col, _width([title, *(row[col] for row in rows)]))
        for row, cells in enumerate(rows, start=1):
            _write(sheet, row, col, cells[col])
    sheet.freeze_panes(1, 0)
    return sheet


def _width(texts: list[str]) -> int:
    return min(max(len(text) for text in texts) + 2, 80)


def _results_sheet(book: Any, table: Table) -> None:
    sheet = book.add_worksheet("Results")
    header = book.add_format({"bold": True, "bottom": 1})
    names = defined_names(table)
    letters = {column.name: letters_of(index) for index, column in enumerate(table.columns)}
    for col, column in enumerate(table.columns):
        style = book.add_format({"num_format": column.format or "General"})
        sheet.write_string(0, col, _heading(column), header)
        texts = [shown(value, column.format) for value in column.values]
        sheet.set_column(col, col, _width([_heading(column), *texts]))
        for row, value in enumerate(column.values):
            template = column.formula(row)
            if template is None:
                _write(sheet, row + 1, col, value, style)
                continue

            def refer(name: str, above: bool, line: int = row + 2) -> str:
                return f"{letters[name]}{line - above}" if name in letters else names[name]

            sheet.write_formula(row + 1, col, "=" + render(template, refer), style, value)
    sheet.freeze_panes(1, 0)
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
        if color:
            marker |= {"fill": color, "border": color}
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


def _definitions_sheet(book: Any, table: Table) -> None:
    parts: list[Column | Input] = [*table.columns, *table.inputs]
    rows = [[p.name, p.label, p.unit, p.definition, p.basis, p.source] for p in parts]
    _grid(book, "Definitions", ["Name", "Label", "Unit", "Definition", "Basis", "Source"], rows)


def _about_sheet(book: Any, table: Table, stamp: dict[str, str]) -> None:
    rows = [["title", table.title], ["table", table.name], *([k, v] for k, v in stamp.items())]
    if table.inputs and any(any(column.formulas) for column in table.columns):
        rows.append(
            ["use", "Change a blue cell on the sheet Inputs: what follows from it is recalculated."]
        )
    _grid(book, "About", ["About", ""], rows)


def _heading(part: Column | Input) -> str:
    label = clean(part.label or part.name)
    return f"{label} ({clean(part.unit)})" if part.unit else label
