"""Writers: a Table to CSV with values, to CSV with live formulas, and to an XLSX workbook.

Every writer takes the same Table and returns bytes; `write_file` puts bytes in place whole.
CSV and workbook carry the version of specmath, the date and the scenario in words.

User text (labels, scenario names) can hold what a spreadsheet would run. In a CSV such text gets
an apostrophe in front (see `neutralise`); in a workbook it is stored as text, which never runs.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any

import specmath
from specmath.checks import InputError
from specmath.sheets.tables import STAMP, Cell, Chart, Column, Input, Table, render, shown

__all__ = ["clean", "defined_names", "neutralise", "to_csv", "to_xlsx", "write_file"]

MAX_TEXT = 32_767
"""Characters that one cell of Excel holds."""

# A cell is one line. Lone surrogates cannot be written as UTF-8 at all.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Spreadsheets strip blanks before they look for a formula, and a file opened with the other
# delimiter starts a cell after each "," ";" "|". The wide forms count in East Asian locales.
_TRIGGER = re.compile('(?:^|(?<=[,;|]))([\\s"\ufeff\u200b-\u200f]*)(?=[=+\\-@＝＋－＠])')
_REFERENCE_LIKE = re.compile(r"[A-Z]{1,3}\d+|R\d*(?:C\d*)?|C\d*|TRUE|FALSE", re.IGNORECASE)


def clean(text: str) -> str:
    """The text on one line, control characters as blanks; InputError beyond 32,767 characters."""
    if len(text) > MAX_TEXT:
        raise InputError(f"text must have at most {MAX_TEXT} characters, got {len(text)}")
    return _CONTROL.sub(" ", text)


def neutralise(text: str) -> str:
    """The text made safe for a CSV cell: an apostrophe before what would start a formula.

    That is =, +, - or @ (and their wide forms) at the start, after leading blanks or quotes too,
    and after a "," ";" or "|" inside, where a file opened with the other delimiter starts a cell.
    A leading tab or line break also gets one. Doing it twice changes nothing.
    """
    lead = "'" if text[:1] in ("\t", "\r", "\n") else ""
    return _TRIGGER.sub(r"\1'", lead + clean(text))


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
    column. With `formulas` the cells that follow from others are written as "=..." with A1
    references; an input is a constant in its first row and "=the cell above" below it, so that
    editing the first row changes the whole table. Unknown is an empty cell, true and false are 1
    and 0 (the words are translated), and a share is a number (0.6, not 60%).

    `decimal=","` needs `delimiter=";"`, else InputError; any other choice is refused too. Choose
    what the spreadsheet program itself is set to: it reads the numbers inside formulas by its own
    language, whatever is chosen when the file is opened.
    `date` is today where it is not given.
    """
    if (delimiter, decimal) not in ((",", "."), (";", "."), (";", ",")):
        raise InputError(
            'delimiter and decimal must be "," and ".", ";" and ".", or ";" and ",", '
            f"got {delimiter!r} and {decimal!r}"
        )
    stamp = _stamp(scenario, date)
    names = [*(c.name for c in table.columns), *stamp, *(i.name for i in table.inputs)]
    letters = {name: _letters(index) for index, name in enumerate(names)}
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerow(names)
    for row in range(len(table)):
        cells = [_csv_formula(c, row, letters, decimal) if formulas else "" for c in table.columns]
        values = [_csv_value(c.values[row], decimal) for c in table.columns]
        follow = formulas and row > 0
        writer.writerow(
            [
                *(cell or value for cell, value in zip(cells, values, strict=True)),
                *(neutralise(text) for text in stamp.values()),
                *(
                    f"={letters[i.name]}{row + 1}"
                    if follow and i.value is not None
                    else _csv_value(i.value, decimal)
                    for i in table.inputs
                ),
            ]
        )
    return buffer.getvalue().encode("utf-8-sig")


def to_xlsx(table: Table, *, scenario: str = "", date: datetime.date | None = None) -> bytes:
    """The table as a workbook whose formulas are live and carry their values.

    Sheets: Results (the table, frozen header, a chart where the table has one), Inputs (each input
    a named cell; formulas use the name), Definitions and About. A name that Excel would read as a
    reference is changed (`defined_names`). Equal arguments give equal bytes.
    """
    import xlsxwriter  # only this writer needs it, and the core must import without it

    stamp = _stamp(scenario, date)
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


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write the bytes to the path whole or not at all: a temporary file beside it, then a rename.

    Raises OSError where the folder cannot be written; an existing file is then as it was.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        # A device or pipe such as /dev/null must not be replaced by a file.
        target.write_bytes(data)
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _stamp(scenario: str, date: datetime.date | None) -> dict[str, str]:
    day = datetime.date.today() if date is None else date
    values = (specmath.__version__, f"{day:%Y-%m-%d}", scenario)
    return dict(zip(STAMP, values, strict=True))


def _letters(index: int) -> str:
    """The spreadsheet letters of a column counted from 0: A … Z, AA …"""
    letters = ""
    while index >= 0:
        index, rest = divmod(index, 26)
        letters = chr(ord("A") + rest) + letters
        index -= 1
    return letters


def _csv_value(value: Cell, decimal: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return neutralise(value)
    if isinstance(value, bool):
        return str(int(value))
    return repr(value).replace(".", decimal)


def _csv_formula(column: Column, row: int, letters: dict[str, str], decimal: str) -> str:
    template = column.formula(row)
    if template is None:
        return ""
    # The header is line 1, so row 0 is line 2.
    return "=" + render(template, lambda name, above: f"{letters[name]}{row + 2 - above}", decimal)


def _heading(part: Column | Input) -> str:
    label = clean(part.label or part.name)
    return f"{label} ({clean(part.unit)})" if part.unit else label


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
    letters = {column.name: _letters(index) for index, column in enumerate(table.columns)}
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
