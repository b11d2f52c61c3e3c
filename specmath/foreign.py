"""What comes from elsewhere: structures (configs, reports, answers of servers) are validated here,
and text is made safe for the cell of a spreadsheet.

Nothing from outside is trusted by its shape. JSON text becomes a value, and a value one of the
types that a reader declares, or the reader's error says in a sentence where it is not.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from specmath.checks import InputError, short

__all__ = ["clean", "faults", "json_of", "neutralise", "of_type"]

T = TypeVar("T")
MOST_FAULTS = 5
_WORDS = {
    "missing": "must be given",
    "extra_forbidden": "is not known",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
}


def json_of(name: str, text: str | bytes, error: type[InputError] = InputError) -> Any:
    """The value of a JSON text; `error` where it is none, is nested too deeply, or holds an
    integer too long for Python."""
    try:
        return json.loads(text)
    except RecursionError as fault:
        raise error(f"{name} is not JSON that can be read: nested too deeply") from fault
    except ValueError as fault:  # its syntax, its encoding, or thousands of digits
        raise error(f"{name} is not JSON: {fault}") from fault


def of_type(
    kind: TypeAdapter[T], name: str, value: object, error: type[InputError] = InputError
) -> T:
    """`value` as `kind`; `error` with the `faults` where it is none."""
    try:
        return kind.validate_python(value)
    except ValidationError as fault:
        raise error("; ".join(faults(fault, name))) from fault


def faults(error: ValidationError, name: str = "") -> list[str]:
    """At most five faults: the place, what must stand there, what was found."""
    details = error.errors(include_url=False, include_context=False)[:MOST_FAULTS]
    return [_sentence(name, detail) for detail in details]


def _sentence(name: str, detail: ErrorDetails) -> str:
    place = ".".join(short(part, 40) for part in (name, *detail["loc"]) if part != "")
    given, kind = detail["input"], detail["type"]
    found = "" if isinstance(given, (dict, list)) else f", got {short(given, quoted=True)}"
    if kind in _WORDS:
        return f"{place} {_WORDS[kind]}{found}"
    said = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    return f"{place or 'record'}: {said}{found}"


# ── text in the cell of a spreadsheet ────────────────────────────────────────────────────────

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
