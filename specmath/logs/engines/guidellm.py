"""guidellm's printed table: nothing of speculation, but the speed of a plain run at each load.

Its rows hold no mark of their own, so they are looked for only where nothing else was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from specmath.logs.counts import make_reading
from specmath.logs.engines.base import Parser
from specmath.logs.reading import Channel, Counts, Extras, Reading
from specmath.logs.stream import LogLine

MOST_ROWS = 256
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_ROW = re.compile(rb"^[^|\n]{1,60}(?:\|[^|\n]{0,60}){6,80}\|{0,3}[ \r]{0,4}$", re.MULTILINE)


class Guidellm(Parser):
    """Holds no speculative field: only TPOT, ITL and concurrency."""

    name = "guidellm"
    anchored = True
    marks = (b"Benchmarks Stats:",)
    empty = "a guidellm table, which prints TPOT, ITL and concurrency but nothing of speculation"

    def line(self, text: str, at: LogLine) -> None:
        self.undrafted += text.startswith("Benchmarks Stats:")


def table_readings(data: Iterable[bytes]) -> Iterator[Reading]:
    """The runs of printed tables in pieces of a log: groups, statistics, then a row a load."""
    found = islice((row.group() for piece in data for row in _ROW.finditer(piece)), MOST_ROWS)
    cells = [[c.strip() for c in row.decode("utf-8", "replace").split("|")] for row in found]
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
        yield make_reading(Channel("guidellm", name), Counts(), Extras(facts=facts))
