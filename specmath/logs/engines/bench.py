"""What clients save and print: benchmark results and per-request records of acceptance.

vLLM's and SGLang's benchmark share the latency facts, vLLM's responses and AIPerf the records.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from specmath.logs.counts import RequestSum
from specmath.logs.engines.base import Node, Parser, count_in, number_in, numbers_in
from specmath.logs.reading import Reading
from specmath.logs.stream import LogLine, Notes

__all__ = ["RATES", "UNTOLD", "Bench", "add_record", "facts_of"]

_FACTS = (
    "date", "backend", "model_id", "dataset_name", "seed", "request_rate", "max_concurrency",
    "concurrency", "duration", "completed", "total_input_tokens", "total_output_tokens",
    "output_throughput",
    *(f"{kind}_{time}_ms" for time in ("ttft", "tpot", "itl")
      for kind in ("mean", "median", "std", "p90", "p99")),
    *(f"{kind}_{time}_ms" for time in ("e2el", "e2e_latency")
      for kind in ("mean", "median", "p99")),
)  # fmt: skip
_ROW = re.compile(r"^([A-Z][A-Za-z0-9 (%)/\-]{2,48}):\s+(\S{1,40})$")
_LABELS = {
    "Backend": "backend",
    "Successful requests": "completed",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Request rate configured (RPS)": "request_rate",
    "Traffic request rate": "request_rate",
    "Benchmark duration (s)": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Output token throughput (tok/s)": "output_throughput",
    **{
        f"{kind} {time} (ms)": f"{kind.lower()}_{time.lower()}_ms"
        for time in ("TTFT", "TPOT", "ITL")
        for kind in ("Mean", "Median", "P90", "P99")
    },
    **{
        f"{kind} {time} (ms)": f"{kind.lower()}_{key}_ms"
        for time, key in (("E2EL", "e2el"), ("E2E Latency", "e2e_latency"))
        for kind in ("Mean", "Median", "P99")
    },
    "Concurrency": "concurrency",
    "Accept length": "accept_length",
    "Acceptance rate (%)": "spec_decode_acceptance_rate",
    "Acceptance length": "spec_decode_acceptance_length",
    "Drafts": "spec_decode_num_drafts",
    "Draft tokens": "spec_decode_draft_tokens",
    "Accepted tokens": "spec_decode_accepted_tokens",
}
"""What is printed of a result, by the key that it is saved under."""
_SPEEDS = {"output_throughput", "mean_tpot_ms", "mean_itl_ms"}
_LENGTHS = ("Acceptance length", "Accept length")
UNTOLD = (
    "nothing about speculation is printed here, which is no evidence that none ran: the server's "
    "own log or metrics tell"
)
RATES = "spec_decode_per_position_acceptance_rates"
MOST_RESULTS = 1000
LONGEST_RECORD = 1_000_000
LARGEST_POSITION = 255


class Bench(Parser, ABC):
    """A client's results, saved or printed: each is a reading of its own.

    `sglang`: whether the client is SGLang's, which tells an `accept_length`, or null; `forms`: how
    a saved result and a printed one are called.
    """

    sglang: ClassVar[bool]
    forms: ClassVar[tuple[str, str]]
    anchored = True

    def begin(self) -> None:
        self.results: list[Reading] = []
        self._printed: list[tuple[LogLine, dict[str, str]]] = []

    def line(self, text: str, at: LogLine) -> None:
        super().line(text, at)
        head, found = "Serving Benchmark Result" in text, _ROW.match(text)
        if (head and len(self._printed) < MOST_RESULTS) or (found and not self._printed):
            self._printed.append((at, {}))
        if found:
            self._printed[-1][1].setdefault(found[1], found[2])

    def document(self, node: Node, at: LogLine) -> bool:
        sglang = "accept_length" in node or str(node.get("backend")).startswith("sglang")
        if not node.keys() >= _SPEEDS or sglang is not self.sglang:
            return False
        self.keep(self.result(node, self.forms[0], at))
        return True

    @abstractmethod
    def result(self, node: Node, form: str, at: LogLine) -> Reading:
        """The reading of a result."""

    def keep(self, reading: Reading) -> None:
        """Add a reading, up to MOST_RESULTS."""
        if len(self.results) < MOST_RESULTS:
            self.results.append(reading)

    def readings(self) -> Iterator[Reading]:
        for at, rows in self._printed:
            sglang = "Accept length" in rows or rows.get("Backend", "").startswith("sglang")
            if sglang is self.sglang and rows.keys() & {_LENGTHS[sglang], "Mean TPOT (ms)"}:
                self.keep(self.result(_saved(rows), self.forms[1], at))
        yield from self.results
        yield from super().readings()


def _saved(rows: dict[str, str]) -> Node:
    """Printed rows as they would be saved; a rate per position is printed in percent."""
    node: dict[str, object] = {
        key: rows[label] if key == "backend" else as_number(rows[label])
        for label, key in _LABELS.items()
        if label in rows
    }
    rates: list[float] = []
    while (rate := as_number(rows.get(f"Position {len(rates)}", ""))) is not None:
        rates.append(rate / 100.0)
    return node | {RATES: rates}


def facts_of(node: Node) -> dict[str, float | str | None]:
    """The latency and load facts of a result, by the names both clients use."""
    texts = {key: value[:100] for key in _FACTS if isinstance(value := node.get(key), str)}
    return {key: number_in(node, key) for key in _FACTS} | texts


def as_number(text: str) -> float | None:
    """A printed number >= 0, or None."""
    return float(text) if re.fullmatch(r"\d{1,15}(?:\.\d{1,15})?", text) else None


# ── the acceptance of one request ─────────────────────────────────────────────────────────────


def add_record(total: RequestSum, block: Node, generated: int | None, at: LogLine) -> None:
    """Add one record: counts, histogram (list or sparse object) and, where kept, every step."""
    drafted = count_in(block, "num_draft_tokens")
    accepted = count_in(block, "num_accepted_draft_tokens", "num_accepted_tokens")
    steps = count_in(block, "num_spec_steps", "num_drafts")
    if drafted is None or accepted is None:
        total.notes.add("a speculative record without its token counts was left out", at)
        return
    length = number_in(block, "mean_acceptance_length")
    if length is not None and steps:
        _check_length(length, 1.0 + accepted / steps, total.notes, at)
    total.add(
        at, steps=steps or None, drafted=drafted, accepted=accepted,
        histogram=_histogram(block.get("acceptance_histogram")),
        rejections=_rejections(block, accepted, drafted),
        gamma=count_in(block, "num_spec_tokens") or None, generated=generated,
    )  # fmt: skip


def _check_length(printed: float, counted: float, notes: Notes, at: LogLine) -> None:
    if abs(printed - counted) <= 0.006:
        return
    if abs(printed + 1.0 - counted) <= 0.006:
        notes.add("the printed mean length leaves out the bonus token: one was added", at)
    else:
        notes.add("the printed mean length is not 1 + accepted / steps: the counts were used", at)


def _histogram(value: object) -> list[float] | None:
    if isinstance(value, dict):
        if not all(isinstance(key, str) and re.fullmatch("[0-9]{1,3}", key) for key in value):
            return None
        places = {int(key): count for key, count in value.items()}
        value = [places.get(index, 0) for index in range(max(places, default=-1) + 1)]
    return numbers_in(value, LARGEST_POSITION + 1)


def _rejections(block: Node, accepted: int, drafted: int) -> int | None:
    """Steps that accepted fewer tokens than they drafted, where every step was kept."""
    took = numbers_in(block.get("per_step_accepted"), LONGEST_RECORD)
    gave = numbers_in(block.get("per_step_drafted"), LONGEST_RECORD)
    if took is None or gave is None or len(took) != len(gave):
        return None
    if sum(took) != accepted or sum(gave) != drafted:
        return None
    return sum(a < d for a, d in zip(took, gave, strict=True))
