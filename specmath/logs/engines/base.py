"""What an engine's file provides: a parser with its marks, which turns lines into readings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from specmath.checks import InputError
from specmath.logs.columns import Rows, timestamp
from specmath.logs.counts import RequestSum
from specmath.logs.reading import Channel, Reading, Shape
from specmath.logs.stream import LogLine, Notes
from specmath.rates import parse_rates

__all__ = [
    "FALL", "HOST", "LARGEST_COUNT", "SYNTHETIC", "Node", "Parser", "count_in", "counts_in",
    "drafter", "number_in", "numbers_in", "object_in", "rates_in", "text_in", "timestamp",
]  # fmt: skip

Node = Mapping[str, object]
LARGEST_COUNT = 10**15
MOST_TOTALS = 64
SYNTHETIC = "synthetic acceptance is switched on: these are numbers of a policy, not a measurement"
FALL = "totals fall here: the server restarted, its runs are added up"
HOST = re.compile(rb"\s*\[?([\w./-]{1,120})(?:\] | +\| )")
"""The name that docker compose, and kubectl with --prefix, put before each line."""


class Parser:
    """Reads one engine's telemetry as it streams by; holds a bounded amount of state.

    `marks`: a line is handed to the parser only if it holds one of these byte strings. `shapes`:
    the engine's most common lines when nothing is odd about them; they may come as columns, to
    rows() instead of line(). `looks`: what line() looks for in such a line besides the marks; a
    line that has a mark or one of these beside the shape stays a line. `anchored`: line() looks at
    how a line begins, so it is given without what a terminal's tool put before it.

    `empty`: what without() says where nothing drafted, with the number of what was `undrafted`.

    `gamma` is the draft length where the caller knows it: several formats do not print it.
    """

    name: ClassVar[str]
    marks: ClassVar[tuple[bytes, ...]] = ()
    shapes: ClassVar[tuple[re.Pattern[bytes], ...]] = ()
    looks: ClassVar[tuple[bytes, ...]] = ()
    empty: ClassVar[str] = ""
    anchored: ClassVar[bool] = False

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        self.gamma = gamma
        self.notes = notes
        self.totals: dict[tuple[Channel, str | None], RequestSum] = {}
        self.undrafted = 0
        self.begin()

    def begin(self) -> None:
        """The engine's own state before the first line."""

    def total(self, channel: Channel, draft_kind: str | None = None) -> RequestSum:
        """The sum of a channel's requests; beyond MOST_TOTALS of them, one that is not read."""
        found = self.totals.get((channel, draft_kind)) or RequestSum(self.notes)
        if len(self.totals) < MOST_TOTALS:
            self.totals[channel, draft_kind] = found
        return found

    def line(self, text: str, at: LogLine) -> None:
        """A line of text that holds one of the engine's marks."""

    def rows(self, found: Sequence[Rows]) -> bool:
        """Lines of the engine's `shapes`, a Rows for each; no other line of it lies between.

        False, with nothing taken, where something about them is odd: they then come to line().
        """
        return False

    def document(self, node: Node, at: LogLine) -> bool:
        """A JSON object, outermost first; True if it was this engine's (nothing inside is read)."""
        return False

    def readings(self) -> Iterator[Reading]:
        """What was read, after the last line; the sums of requests, where there are any."""
        for (channel, kind), total in self.totals.items():
            yield from total.readings(channel, self.gamma, {"draft_kind": kind})

    def plain(self) -> Iterator[Reading]:
        """The speed of a run without speculation, once readings() has given none."""
        yield from ()

    def without(self) -> str | None:
        """What was recognised although it says nothing about acceptance, for the message."""
        return self.empty.format(self.undrafted) if self.undrafted else None


def drafter(engine: str, form: str, kind: str, *, since_start: bool = False) -> Channel:
    """The channel of an engine that names its kind of drafter."""
    name = kind.lower().replace("-", "")
    block = any(one in name for one in ("dspark", "medusa", "dflash"))
    shape: Shape = "parallel" if block else "chain"
    return Channel(engine, form, shape, lookup="ngram" in name, since_start=since_start)


def rates_in(text: str | None, notes: Notes, at: LogLine) -> tuple[float, ...] | None:
    """The printed survival, or None, noted, where it cannot be one."""
    if text is None:
        return None
    try:
        return parse_rates(text)
    except InputError as error:
        notes.add(f"per-position rates not used: {error}", at)
        return None


def object_in(node: Node, key: str) -> Node | None:
    """The JSON object at `key`."""
    value = node.get(key)
    return value if isinstance(value, dict) else None


def text_in(node: Node, key: str, most: int = 40) -> str | None:
    """The text at `key`, its first `most` characters."""
    value = node.get(key)
    return value[:most] if isinstance(value, str) else None


def number_in(node: Node | None, *keys: str) -> float | None:
    """The first of `keys` that holds a number from -1e15 to 1e15, beyond which no server counts or
    measures; JSON's NaN, strings and booleans are none."""
    for value in (node.get(key) for key in keys if node):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and -LARGEST_COUNT <= value <= LARGEST_COUNT:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
    return None


def count_in(node: Node | None, *keys: str) -> int | None:
    """The first of `keys` that holds a whole number from 0 to 1e15."""
    numbers = (number_in(node, key) for key in keys)
    return next((int(n) for n in numbers if n is not None and n >= 0 and n == int(n)), None)


def counts_in(node: Node | None, *keys: str) -> list[int | None]:
    """The count at each of `keys`."""
    return [count_in(node, key) for key in keys]


def numbers_in(value: object, most: int = 256) -> list[float] | None:
    """A JSON list of at most `most` finite, non-negative numbers, or None."""
    if not isinstance(value, list) or not 0 < len(value) <= most:
        return None
    numbers = [number_in({"": item}, "") for item in value]
    good = [number for number in numbers if number is not None and number >= 0]
    return good if len(good) == len(value) else None
