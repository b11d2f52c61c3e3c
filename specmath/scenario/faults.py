"""What is wrong with the values of a scenario, in sentences."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from specmath.checks import InputError
from specmath.scenario import SPECS

__all__ = ["ScenarioError", "in_words", "messages", "short", "unknown_name"]


def messages(error: ValidationError) -> list[str]:
    """One sentence a fault, each with the field's name, the value and the bounds."""
    return [_sentence(detail) for detail in error.errors()]


def _sentence(detail: ErrorDetails) -> str:
    if not detail["loc"]:  # raised by the record itself, already a sentence
        return detail["msg"].removeprefix("Value error, ")
    name = str(detail["loc"][0])
    if len(detail["loc"]) > 1:
        entry = int(detail["loc"][1]) + 1
        return f"{name}: entry {entry} must be {_ENTRIES[name]}, got {short(detail['input'])}"
    if detail["type"] == "extra_forbidden":
        return unknown_name("field", name)
    if detail["type"] == "missing":
        return f"{name} must be given ({SPECS[name].bounds})"
    if detail["type"] == "value_error":
        return f"{name} {detail['msg'].removeprefix('Value error, ')}"
    fault = f"{name} must be {SPECS[name].bounds}, got {short(detail['input'])}"
    return fault + (_as_fraction(name, detail["input"]) or _without_comma(name, detail["input"]))


_ENTRIES = {
    "mixture": "a share and an α",
    "rates": "a finite number >= 0 and <= 1",
    "verify_costs": "a finite number > 0",
}


def _as_fraction(name: str, given: object) -> str:
    """Engines print shares in percent; the field wants a fraction."""
    with suppress(ValueError):
        percent = float(str(given).strip().removesuffix("%"))
        if SPECS[name].high == 1 and 5 < percent <= 100:
            return f"; {percent:g}% is {percent / 100:g}"
    return ""


def _without_comma(name: str, given: object) -> str:
    """2,50 is written with a point; 1,024 without its comma."""
    text = str(given).strip() if isinstance(given, str) else ""
    if not re.fullmatch(r"\d{1,12},\d{1,12}", text):
        return ""
    left, right = text.split(",")
    return (
        f"; without a comma: {left}{right}"
        if SPECS[name].whole
        else f"; with a point: {left}.{right}"
    )


def short(value: object) -> str:
    """The value as it stands in a message: at most 60 characters of it."""
    try:
        shown = str(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        shown = "a number of thousands of digits"
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def in_words(fault: str) -> str:
    """A fault as a page says it: fields by their label; a name that is a word of the language too
    ("batch") only where the fault begins with it."""
    names = "|".join(name for name in SPECS if "_" in name)
    first = "|".join(SPECS)
    return re.sub(rf"\b({names})\b|^({first})\b", lambda found: f"“{SPECS[found[0]].title}”", fault)


def unknown_name(kind: str, name: str) -> str:
    """Says that a name is not known, with the nearest that is."""
    near = difflib.get_close_matches(name, SPECS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown {kind} {short(name)}{hint}"


MOST_FAULTS = 10
"""In one message."""


class ScenarioError(InputError):
    """Values that make no scenario; `faults` holds one sentence a fault."""

    def __init__(self, faults: list[str]) -> None:
        more = [f"{len(faults) - MOST_FAULTS} faults more"] if len(faults) > MOST_FAULTS else []
        super().__init__("; ".join(faults[:MOST_FAULTS] + more))
        self.faults = faults
