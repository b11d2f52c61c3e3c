"""AIPerf's engine-neutral `spec_decode_acceptance` records, which name their engine, and the table
that its console prints: a mean over requests of each metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from specmath.logs.counts import make_reading
from specmath.logs.engines.base import Node, Parser, count_in, object_in, text_in
from specmath.logs.engines.bench import add_record
from specmath.logs.reading import Channel, Counts, Extras, Reading
from specmath.logs.stream import LogLine

_ROW = re.compile(
    r"^[|│┃]?\s{0,60}(Acceptance Length|Draft Acceptance Rate|Accepted per Verified"
    r"|Spec Decode Steps)[^|│┃\d]{0,30}[|│┃]\s{0,12}"
    r"(\d{1,3}(?:,\d{3}){0,3}(?:\.\d{1,6})?|\d{1,12}(?:\.\d{1,6})?)\s{0,12}[|│┃]"
)
WHOLE = 0.02
"""A draft length from two means over requests is whole to that, or it is not told."""
MOST_TABLES = 64


class Aiperf(Parser):
    """Records are added up by the engine they name."""

    name = "aiperf"
    anchored = True
    marks = (b"spec_decode_acceptance", b"Acceptance Length (", b"Draft Acceptance Rate (")

    def begin(self) -> None:
        self._tables: list[tuple[LogLine, dict[str, float]]] = []

    def line(self, text: str, at: LogLine) -> None:
        if found := _ROW.match(text):
            name, value = found[1], float(found[2].replace(",", ""))
            if not self._tables or name in self._tables[-1][1]:
                if len(self._tables) >= MOST_TABLES:
                    return
                self._tables.append((at, {}))
            self._tables[-1][1][name] = value

    def document(self, node: Node, at: LogLine) -> bool:
        block = object_in(node, "spec_decode_acceptance")
        if block is None:
            return False
        total = self.total(Channel(text_in(block, "engine") or "aiperf", "AIPerf records"))
        add_record(total, block, count_in(block, "completion_tokens"), at)
        return True

    def readings(self) -> Iterator[Reading]:
        yield from super().readings()
        for at, rows in self._tables:
            tokens, percent = rows.get("Acceptance Length"), rows.get("Draft Acceptance Rate")
            if tokens is None or tokens < 1.0:
                self.notes.add("a table without an acceptance length of 1 or more: left out", at)
                continue
            gamma, warnings = (
                self.gamma,
                ["means over requests, each counted alike: not over steps"],
            )
            if gamma is None and percent and 0.0 < percent <= 100.0:
                length = 100.0 * (tokens - 1.0) / percent
                if round(length) >= 1 and abs(length - round(length)) <= WHOLE * length:
                    gamma = round(length)
                    warnings.append(
                        f"gamma {gamma} is (acceptance length - 1) / acceptance rate: not printed"
                    )
            facts = {"accepted_share": None if percent is None else percent / 100.0}
            counts = Counts(gamma=gamma, tokens_per_step=tokens)
            channel = Channel("aiperf", "console table")
            yield make_reading(channel, counts, Extras(facts=facts), warnings)
