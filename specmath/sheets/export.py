"""Writers: a Table to CSV with values or with live formulas; text made safe; files put whole.

Every writer takes the same Table and returns bytes; `write_file` puts bytes in place whole.
CSV and workbook carry the version of specmath, the date and the scenario in words.

User text (labels, scenario names) can hold what a spreadsheet would run. In a CSV such text gets
an apostrophe in front (see `neutralise`); in a workbook it is stored as text, which never runs.
"""

from __future__ import annotations

import csv
import datetime
import io
import os
import re
import secrets
import shutil
from pathlib import Path

import specmath
from specmath.checks import InputError
from specmath.sheets.tables import STAMP, Cell, Column, Table
from specmath.sheets.templates import render

__all__ = ["clean", "neutralise", "to_csv", "write_file"]

MAX_TEXT = 32_767
"""Characters that one cell of Excel holds."""

# A cell is one line. Lone surrogates cannot be written as UTF-8 at all.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Spreadsheets strip blanks before they look for a formula, and a file opened with the other
# delimiter starts a cell after each "," ";" "|". The wide forms count in East Asian locales.
_TRIGGER = re.compile('(?:^|(?<=[,;|]))([\\s"\ufeff\u200b-\u200f]*)(?=[=+\\-@＝＋－＠])')


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
    stamp = stamp_of(scenario, date)
    names = [*(c.name for c in table.columns), *stamp, *(i.name for i in table.inputs)]
    letters = {name: letters_of(index) for index, name in enumerate(names)}
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


def stamp_of(scenario: str, date: datetime.date | None) -> dict[str, str]:
    day = datetime.date.today() if date is None else date
    values = (specmath.__version__, f"{day:%Y-%m-%d}", scenario)
    return dict(zip(STAMP, values, strict=True))


def letters_of(index: int) -> str:
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
