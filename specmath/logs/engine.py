"""What an engine's file provides: its marks and a parser that turns lines into readings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specmath.logs.lanes import Rows
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading

__all__ = [
    "LARGEST_COUNT",
    "SYNTHETIC",
    "Engine",
    "Parser",
    "count_in",
    "number_in",
    "numbers_in",
    "timestamp",
]

Node = Mapping[str, object]
LARGEST_COUNT = 10**15
SYNTHETIC = "synthetic acceptance is switched on: these are numbers of a policy, not a measurement"
_STAMP = re.compile(r"(?:\d{4}-)?\d\d-\d\d[T ]\d\d:\d\d:\d\d")


class Parser:
    """Reads one engine's telemetry as it streams by; holds a bounded amount of state.

    `gamma` is the draft length where the caller knows it: several formats do not print it.
    """

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        self.gamma = gamma
        self.notes = notes

    def line(self, text: str, at: Place) -> None:
        """A line of text that holds one of the engine's marks."""

    def rows(self, found: Sequence[Rows]) -> None:
        """Lines of the engine's `shapes`, a Rows for each; no other line of it lies between."""

    def document(self, node: Node, at: Place) -> bool:
        """A JSON object, outermost first; True if it was this engine's (nothing inside is read)."""
        return False

    def readings(self) -> list[Reading]:
        """What was read, after the last line."""
        return []

    def without(self) -> str | None:
        """What was recognised although it says nothing about acceptance, for the message."""
        return None


@dataclass(frozen=True, slots=True)
class Engine:
    """`marks`: a line is handed to the parser only if it holds one of these byte strings.

    `shapes`: the engine's most common lines when nothing is odd about them. They may come as
    columns, to the parser's rows() instead of its line(). `looks`: what line() looks for in such
    a line besides the marks; a line that has a mark or one of these beside the shape stays a line.
    """

    name: str
    marks: tuple[bytes, ...]
    parser: Callable[[int | None, Notes], Parser]
    shapes: tuple[re.Pattern[bytes], ...] = ()
    looks: tuple[bytes, ...] = ()


def number_in(node: Node, *keys: str) -> float | None:
    """The first of `keys` that holds a finite number; JSON's NaN, strings and booleans are not."""
    for key in keys:
        value = node.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if isinstance(value, int) and abs(value) > LARGEST_COUNT:
            continue
        if math.isfinite(value):
            return float(value)
    return None


def count_in(node: Node, *keys: str) -> int | None:
    """The first of `keys` that holds a whole number from 0 to 1e15."""
    for key in keys:
        value = number_in(node, key)
        if value is not None and 0 <= value <= LARGEST_COUNT and value == int(value):
            return int(value)
    return None


def numbers_in(value: object, most: int = 256) -> list[float] | None:
    """A JSON list of at most `most` finite, non-negative numbers, or None."""
    if not isinstance(value, list) or not 0 < len(value) <= most:
        return None
    numbers = [number_in({"": item}, "") for item in value]
    good = [number for number in numbers if number is not None and number >= 0]
    return good if len(good) == len(value) else None


def timestamp(text: str) -> str | None:
    """The first date and time of a log line, as printed."""
    found = _STAMP.search(text, 0, 200)
    return found.group() if found else None
