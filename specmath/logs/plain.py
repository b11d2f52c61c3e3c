"""The speed of a run without speculation, for the side of a comparison that needs no more.

llama.cpp   `eval time` lines of the log, `predicted_n` and `predicted_ms` of responses,
            tokens_predicted over its seconds on the metrics page
guidellm    the printed table: ITL, tokens per second and concurrency of each row
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from specmath.logs.detect import read
from specmath.logs.documents import json_value, looks_like_json, objects, salvage
from specmath.logs.engine import LARGEST_COUNT, Node, count_in, number_in
from specmath.logs.errors import LogError
from specmath.logs.notes import Notes
from specmath.logs.record import Reading
from specmath.logs.source import Readable, as_sources, pieces
from specmath.logs.tally import make_reading

__all__ = ["read_run"]

LARGEST_JSON = 32 << 20
MOST_SCRAPES = 100_000
MOST_ROWS = 256
_EVAL = re.compile(
    rb"(?<!prompt )\beval time =\s{0,12}(\d{1,12}(?:\.\d{1,6})?) ms /\s{0,12}(\d{1,12}) (?:tok|run)"
)
_METRIC = re.compile(
    rb"^llamacpp:tokens_predicted(_seconds)?_total(?:\{[^}\n]{0,400}\})?"
    rb" (\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?)",
    re.MULTILINE,
)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_GUIDELLM = re.compile(rb"^[^|\n]{1,60}(?:\|[^|\n]{0,60}){6,80}\|{0,3}[ \r]{0,4}$", re.MULTILINE)


def read_run(source: Readable | Iterable[Readable], *, gamma: int | None = None) -> list[Reading]:
    """read(), or the speed of a plain run where nothing in `source` speculated.

    Raises read()'s LogError where there is no speed either. A stream that cannot be read twice
    is read for speculation only.
    """
    many = not isinstance(source, (str, bytes)) and isinstance(source, Iterable)
    items: list[Readable] = (
        [source] if not many or hasattr(source, "read") else list(source)  # type: ignore[list-item,arg-type]
    )
    try:
        return read(items if len(items) > 1 else items[0], gamma=gamma)
    except LogError:
        found = _plain(items) if all(map(_rewound, items)) else []
        if not found:
            raise
        return found


def _rewound(item: Readable) -> bool:
    if isinstance(item, str | bytes | Path):
        return True
    if not item.seekable():
        return False
    item.seek(0)
    return True


class _Plain:
    """Sums over the sources; bounded but for the JSON, which is read up to a size."""

    def __init__(self) -> None:
        self.requests, self.tokens, self.seconds = 0, 0, 0.0
        self.scrapes: dict[bool, list[float]] = {False: [], True: []}
        self.rows: list[list[bytes]] = []

    def take(self, data: bytes) -> None:
        """Whole lines."""
        for ms, tokens in _EVAL.findall(data):
            self.requests += 1
            self.tokens += int(tokens)
            self.seconds += float(ms) / 1e3
        for seconds, value in _METRIC.findall(data):
            if len(self.scrapes[bool(seconds)]) < MOST_SCRAPES:
                self.scrapes[bool(seconds)].append(float(value))
        if len(self.rows) < MOST_ROWS:
            self.rows += [match.group().split(b"|") for match in _GUIDELLM.finditer(data)]

    def readings(self) -> Iterator[Reading]:
        """What was found."""
        tokens, seconds = (_risen(self.scrapes[key]) for key in (False, True))
        yield from _rated("server log", self.tokens, self.seconds, self.requests)
        yield from _rated("Prometheus", tokens, seconds, None)
        yield from _table(self.rows[:MOST_ROWS])


def _plain(items: list[Readable]) -> list[Reading]:
    found, notes = _Plain(), Notes()
    responses = _Responses()
    for source in as_sources(items):
        documents = b""
        for _, piece in pieces(source, notes):
            found.take(piece)
            if len(documents) <= LARGEST_JSON:
                documents += piece
        if b'"timings"' in documents:
            responses.take(documents.decode("utf-8", "replace"))
    return [*found.readings(), *responses.readings()]


def _rated(form: str, tokens: float, seconds: float, requests: int | None) -> Iterator[Reading]:
    if 0 < tokens <= LARGEST_COUNT and 0 < seconds <= LARGEST_COUNT:
        facts = {
            "requests": None if requests is None else float(requests),
            "decode_seconds": seconds,
            "tokens_per_second": tokens / seconds,
        }
        yield make_reading(
            "llama.cpp", f"{form}, no speculation", generated=round(tokens), facts=facts
        )


def _risen(values: list[float]) -> float:
    """A counter's rise over its scrapes, from zero where it fell; one scrape: since the start."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return sum(now - before if now >= before else now for before, now in pairwise(values))


class _Responses:
    """`timings` of responses; of a stream's chunks with one id the last counts."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[int, float]] = {}

    def take(self, text: str) -> None:
        """A document, or lines that hold one each (`data: ` before them in a stream)."""
        start = text.lstrip()
        whole = json_value(start) if looks_like_json(start) else None
        values = [whole] if whole is not None else salvage(text)
        for value in values:
            for node in _nodes(value):
                self._add(node)

    def _add(self, node: Node) -> None:
        timings = node.get("timings")
        if not isinstance(timings, dict) or node.get("stop") is False:
            return
        tokens, ms = count_in(timings, "predicted_n"), number_in(timings, "predicted_ms")
        if tokens and ms and ms > 0:
            identity = node.get("id")
            key = identity if isinstance(identity, str) else len(self._last)
            self._last[key] = (tokens, ms / 1e3)

    def readings(self) -> Iterator[Reading]:
        """All responses as one."""
        tokens = sum(count for count, _ in self._last.values())
        seconds = sum(seconds for _, seconds in self._last.values())
        yield from _rated("response timings", tokens, seconds, len(self._last))


def _nodes(value: object) -> Iterator[Node]:
    """The objects in `value` that hold timings, wherever they are (to a depth of 8)."""
    level = list(objects(value))
    for _ in range(8):
        below: list[Node] = []
        for node in level:
            if "timings" in node:
                yield node
                continue
            for inner in node.values():
                below += objects(inner) if isinstance(inner, dict | list) else ()
        level = below


def _table(rows: list[list[bytes]]) -> Iterator[Reading]:
    """guidellm's rows: a header of groups, one of statistics, then a row for each load."""
    cells = [[cell.decode("utf-8", "replace").strip() for cell in row] for row in rows]
    at = next((i for i, row in enumerate(cells) if "ITL (ms)" in row or "TPOT (ms)" in row), None)
    if at is None or at + 2 > len(cells):
        return
    groups: list[str] = []
    for name in cells[at]:
        groups.append(name or (groups[-1] if groups else ""))
    columns = {
        (group, statistic.lower()): index
        for index, (group, statistic) in enumerate(zip(groups, cells[at + 1], strict=False))
    }

    def number(row: list[str], *wanted: tuple[str, str]) -> float | None:
        for key in wanted:
            index = columns.get(key)
            if index is not None and index < len(row) and _NUMBER.fullmatch(row[index]):
                return float(row[index])
        return None

    for row in cells[at + 2 :]:
        # For this client ITL is what others call TPOT: (last − first token) / (tokens − 1).
        token = number(row, ("ITL (ms)", "mean"), ("TPOT (ms)", "mean"))
        if token is None or token <= 0:
            continue
        facts = {
            "mean_tpot_ms": token,
            "output_throughput": number(row, ("Out Tok/sec", "mean")),
            "concurrency": number(row, ("Request Stats", "concurrency")),
        }
        name = f"table row {row[0]}, no speculation"
        yield make_reading("guidellm", name, facts=facts)
