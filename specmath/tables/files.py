"""Tables as the bytes of a file: CSV with values or live formulas, or a workbook.

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
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import specmath
from specmath.checks import InputError
from specmath.foreign import clean, neutralise
from specmath.scenario import Scenario
from specmath.scenario.files import to_link
from specmath.tables.table import (
    STAMP,
    Cell,
    Chart,
    Column,
    Input,
    Table,
    render,
    rounds_up,
    shown,
)

__all__ = [
    "KINDS",
    "MOST_WHOLE",
    "defined_names",
    "file_bytes",
    "offered",
    "scenario_text",
    "to_csv",
    "to_xlsx",
]


MOST_WHOLE = 400
"""Up to where a CSV rounds up: by a sum of comparisons, as it may name no function. A larger number
is a constant there, and one that grows beyond it shows an error."""


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
        changes the whole table; one that follows from others is a formula in every row.
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
            text = render(template, lambda n, up: f"{letters[n]}{row + 2 - up}", decimal)
            if not rounds_up(template):
                return f"={text}"
            if isinstance(value, int | float) and value <= MOST_WHOLE:
                return f"={_next_whole(text, decimal)}"
        if value is None or isinstance(value, str):
            return neutralise(value or "")
        return repr(int(value) if isinstance(value, bool) else value).replace(".", decimal)

    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerow(names)
    for row in range(len(table)):
        made = (cell(row, c.values[row], c.formula(row)) for c in table.columns)
        given = (cell(row, i.value, _followed(i, row)) for i in table.inputs)
        writer.writerow([*made, *map(neutralise, stamp.values()), *given])
    return buffer.getvalue().encode("utf-8-sig")


def _followed(item: Input, row: int) -> str | None:
    """The formula of an input in that row of a CSV."""
    if item.value is None or item.formula is not None or not row:
        return None if item.value is None else item.formula
    return f"{{{item.name}^}}"


def _next_whole(cell: str, decimal: str) -> str:
    """⌈cell⌉ in operators, up to MOST_WHOLE: one more than how many of 1, 2 … lie below it."""
    just_above = f"{decimal}000000001"
    terms = "+".join(f"({cell}>{count}{just_above})" for count in range(1, MOST_WHOLE))
    return f"(1+{terms})/({cell}<={MOST_WHOLE}{just_above})"


def stamp_of(scenario: str, date: datetime.date | None) -> dict[str, str]:
    day = datetime.date.today() if date is None else date
    values = (specmath.__version__, f"{day:%Y-%m-%d}", scenario)
    return dict(zip(STAMP, values, strict=True))


def letters_of(names: Sequence[str]) -> dict[str, str]:
    """The spreadsheet letters of the columns of these names."""
    from xlsxwriter.utility import xl_col_to_name  # the core must import without it

    return {name: xl_col_to_name(index) for index, name in enumerate(names)}


# ── workbooks ─────────────────────────────────────────────────────────────────────────────────────


USE = (
    "Change a blue cell on yellow: what follows from it is recalculated. Every other cell is a "
    "formula, or a number of specmath that is fixed in this file."
)
FIXED = "Fixed in this file: with another value specmath makes another file"
FOLLOWS = "Follows from the cells above"

_TYPED: dict[str, Any] = {
    "font_color": "#0000FF",
    "bg_color": "#FFF8D6",
    "border": 1,
    "border_color": "#C9B458",
}
_FIXED: dict[str, Any] = {"font_color": "#595959"}

_REFERENCE_LIKE = re.compile(r"[A-Z]{1,3}\d+|R\d*(?:C\d*)?|C\d*|TRUE|FALSE", re.IGNORECASE)


def to_xlsx(*tables: Table, scenario: str = "", date: datetime.date | None = None) -> bytes:
    """The tables as one workbook whose formulas are live and carry their values.

    A sheet each (frozen header, a chart where the table has one), Results where it is one, else
    of the table's name; Inputs (each input a named cell; formulas use the name), Definitions and
    About. What is for typing is blue on yellow, on whatever sheet. A name that Excel would read as
    a reference is changed (`defined_names`). Equal arguments give equal bytes.

    Raises
    ------
    InputError
        Two tables mean different cells by one input.
    """
    import xlsxwriter  # the core must import without it

    inputs = _inputs_of(tables)
    names = defined_names(inputs.values())
    stamp = stamp_of(scenario, date)
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        created = datetime.datetime.fromisoformat(stamp["date"])
        first, typed = tables[0], any(_typed_cells(table) for table in tables)
        book.set_properties({"title": clean(first.title), "created": created})
        for table in tables:
            named = "Results" if len(tables) == 1 else table.name.replace("_", " ").capitalize()
            _results_sheet(book, named, table, names)
        if inputs:
            _inputs_sheet(book, tables, inputs, names)
        heads = ["Name", "Label", "Unit", "Definition", "Basis", "Source"]
        columns = {c.name: c for table in tables for c in table.columns}
        parts: list[Column | Input] = [*columns.values(), *inputs.values()]
        rows = [[getattr(part, head.lower()) for head in heads] for part in parts]
        _grid(book, "Definitions", heads, rows)
        about = {"title": first.title, "table": ", ".join(t.name for t in tables), **stamp}
        if typed:
            about["use"] = USE
        _grid(book, "About", ["About", ""], [[*pair] for pair in about.items()])
    return buffer.getvalue()


def _inputs_of(tables: Sequence[Table]) -> dict[str, Input]:
    found: dict[str, Input] = {}
    for item in itertools.chain.from_iterable(table.inputs for table in tables):
        known = found.setdefault(item.name, item)
        if (known.value, known.formula) != (item.value, item.formula):
            raise InputError(f"input {item.name} must be one cell, got two that differ")
    return found


def _typed_cells(table: Table) -> bool:
    each = ((column, row) for column in table.columns for row in range(len(table)))
    return any(map(table.typed, table.inputs)) or any(table.typed(*cell) for cell in each)


def defined_names(inputs: Iterable[Input]) -> dict[str, str]:
    """The workbook's name for each input: its own, unless Excel would read that as a reference.

    `c` becomes `c_draft`; others that look like a cell (`r`, `c1`, `tp8`) get a "_" at the end.
    """
    inputs = tuple(inputs)
    taken = {item.name.lower() for item in inputs}
    names = {}
    for item in inputs:
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


WIDEST = 60
"""Characters of the widest column; longer texts break into lines."""
LINE = 15.0
"""Points a line of text."""


def _lines(text: str, width: float) -> int:
    """Lines of a text that breaks at its blanks."""
    lines, left = 1, width
    for word in text.split():
        if len(word) > left and left < width:
            lines, left = lines + 1, width
        left -= len(word) + 1
    return lines


def _sheet(
    book: Any,
    name: str,
    header: list[str],
    columns: Iterable[Sequence[str]],
    right: Sequence[bool] = (),
) -> Any:
    """A sheet with a bold, frozen header, as wide as the texts of its columns and as high as their
    lines; `right`: which headings stand over numbers."""
    sheet = book.add_worksheet(name)
    look = {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"}
    bold = [book.add_format(look | {"align": side}) for side in ("left", "right")]
    heights: dict[int, int] = {}
    for col, (title, texts) in enumerate(zip(header, columns, strict=True)):
        # A heading breaks at its blanks, a number nowhere: it would show as ###.
        least = max(map(len, title.split()), default=0)
        width = min(max(least, len(title) / 2, *map(len, texts)) + 3, WIDEST)
        sheet.set_column(col, col, width + 1)
        sheet.write_string(0, col, title, bold[bool(right) and right[col]])
        for row, text in enumerate((title, *texts)):
            heights[row] = max(heights.get(row, 1), _lines(text, width))
    for row, lines in heights.items():
        if lines > 1:
            sheet.set_row(row, lines * LINE)
    sheet.freeze_panes(1, 1)
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    sheet.repeat_rows(0)
    return sheet


def _grid(book: Any, name: str, header: list[str], rows: list[list[str]]) -> Any:
    """A sheet of text."""
    sheet = _sheet(book, name, header, zip(*rows, strict=True))
    # A text beside a number keeps away from it.
    wrapped = [
        book.add_format(
            {"text_wrap": True, "valign": "top", "align": "left", "indent": int(col > 0)}
        )
        for col in range(len(header))
    ]
    for row, cells in enumerate(rows, start=1):
        for col, text in enumerate(cells):
            _write(sheet, row, col, text, wrapped[col])
    return sheet


BELOW = 40
"""Rows under which a chart stands; beside more, so that it is found."""


def _results_sheet(book: Any, named: str, table: Table, names: dict[str, str]) -> None:
    letters = letters_of([column.name for column in table.columns])
    texts = [[shown(v, _format(c, row)) for row, v in enumerate(c.values)] for c in table.columns]
    heads = [_heading(column) for column in table.columns]
    numbers = [not any(isinstance(value, str) for value in c.values) for c in table.columns]
    sheet = _sheet(book, named, heads, texts, numbers)
    sheet.set_header("&L" + clean(table.title).replace("&", "&&")[:200])
    for col, column in enumerate(table.columns):
        for row, value in enumerate(column.values):
            look = _TYPED if table.typed(column, row) else {}
            style = book.add_format({"num_format": _format(column, row) or "General", **look})
            template = column.formula(row)
            if template is None:
                _write(sheet, row + 1, col, value, style)
                continue

            def refer(name: str, above: int, line: int = row + 2) -> str:
                return f"{letters[name]}{line - above}" if name in letters else names[name]

            sheet.write_formula(row + 1, col, _formula(template, refer), style, value)
    if table.chart:
        at = (len(table) + 2, 0) if len(table) <= BELOW else (1, len(table.columns) + 1)
        sheet.insert_chart(*at, _chart(book, named, table, table.chart))


def _format(column: Column, row: int) -> str:
    return column.formats[row] if column.formats else column.format


def _formula(template: str, refer: Callable[[str, int], str]) -> str:
    text = render(template, refer)
    # An exact multiple must not gain one from rounding in the division.
    return f"=MAX(1,ROUNDUP({text}-0.000000001,0))" if rounds_up(template) else f"={text}"


def _chart(book: Any, named: str, table: Table, hint: Chart) -> Any:
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
                "name": [named, 0, index[name]],
                "categories": [named, 1, index[hint.x], last, index[hint.x]],
                "values": [named, 1, index[name], last, index[name]],
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


def _inputs_sheet(
    book: Any, tables: Sequence[Table], inputs: dict[str, Input], names: dict[str, str]
) -> None:
    """What is for typing, then what follows from it, then what is fixed, each under its heading."""
    typed = {i.name for table in tables for i in table.inputs if table.typed(i)}
    follows = {name for name, item in inputs.items() if item.formula is not None}
    groups = (
        ("", [i for i in inputs.values() if i.name in typed]),
        (FOLLOWS, [i for i in inputs.values() if i.name in follows]),
        (FIXED, [i for i in inputs.values() if i.name not in typed | follows]),
    )
    header = ["Input", "Value", "Unit", "Name in formulas", "Basis", "Source", "Definition"]
    rows: list[tuple[Input | None, list[str]]] = []
    for heading, items in groups:
        if items and heading:
            rows.append((None, [heading, *("",) * (len(header) - 1)]))
        rows += [(item, _about_input(item, names)) for item in items]
    sheet = _grid(book, "Inputs", header, [cells for _, cells in rows])
    if typed:
        sheet.set_tab_color(_TYPED["bg_color"])
        sheet.write_string(len(rows) + 2, 0, USE)
    bold = book.add_format({"bold": True, "top": 1})
    for row, (item, (heading, *_)) in enumerate(rows, start=1):
        if item is None:
            sheet.write_string(row, 0, heading, bold)
            continue
        look = _TYPED if item.name in typed else {} if item.name in follows else _FIXED
        style = book.add_format({"num_format": item.format or "General", "valign": "top"} | look)
        if item.formula is not None and item.value is not None:
            text = _formula(item.formula, lambda name, _: names[name])
            sheet.write_formula(row, 1, text, style, item.value)
        elif item.value is None:
            sheet.write_blank(row, 1, None, style)
        else:
            _write(sheet, row, 1, item.value, style)
        book.define_name(names[item.name], f"=Inputs!$B${row + 1}")


def _about_input(item: Input, names: dict[str, str]) -> list[str]:
    label, value = item.label or item.name, shown(item.value, item.format)
    return [label, value, item.unit, names[item.name], item.basis, item.source, item.definition]


def _heading(part: Column | Input) -> str:
    label = clean(part.label or part.name)
    return f"{label} ({clean(part.unit)})" if part.unit else label


# ── the kinds that are offered ────────────────────────────────────────────────────────────────────


KINDS = {
    "values": "CSV, values",
    "formulas": "CSV, live formulas",
    "xlsx": "XLSX, live formulas",
}


def offered(table: Table, beside: Sequence[Table] = ()) -> dict[str, str]:
    """Those of `KINDS` that differ, with what they are called: where nothing in a table follows
    from anything, a CSV has its values alone, and a workbook is not live."""
    if any(column.formulas for each in (table, *beside) for column in each.columns):
        return dict(KINDS)
    return {"values": "CSV", "xlsx": "XLSX"}


def scenario_text(scenario: Scenario) -> str:
    """The scenario in one cell: the same pairs as its link."""
    return " ".join(f"{k}={v}" for k, v in to_link(scenario).items())


def file_bytes(
    table: Table,
    scenario: Scenario | str,
    kind: str,
    delimiter: str = ",",
    decimal: str = ".",
    *,
    beside: Sequence[Table] = (),
) -> bytes:
    """The file of one of `KINDS`; InputError for any other, or a decimal comma without ';'.

    `scenario`: what the file is stamped with, in words where it is no single scenario.

    `beside`: tables that get a sheet of their own after it in a workbook; a CSV has one table.
    """
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    text = scenario if isinstance(scenario, str) else scenario_text(scenario)
    if kind == "xlsx":
        return to_xlsx(table, *beside, scenario=text)
    live = kind == "formulas"
    return to_csv(table, scenario=text, formulas=live, delimiter=delimiter, decimal=decimal)
