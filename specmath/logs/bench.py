"""Benchmark results, vLLM's and SGLang's: the latency facts beside the speculative fields."""

from __future__ import annotations

import re

from specmath.logs.engine import Node, number_in
from specmath.logs.notes import Place

__all__ = ["FACT_KEYS", "BenchText", "facts_of", "is_bench"]

FACT_KEYS = (
    "date",
    "backend",
    "model_id",
    "dataset_name",
    "seed",
    "request_rate",
    "max_concurrency",
    "concurrency",
    "duration",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "output_throughput",
    "mean_ttft_ms",
    "median_ttft_ms",
    "std_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "std_tpot_ms",
    "p99_tpot_ms",
    "mean_itl_ms",
    "median_itl_ms",
    "std_itl_ms",
    "p99_itl_ms",
)
_ROW = re.compile(r"^([A-Z][A-Za-z0-9 (%)/\-]{2,48}):\s+(\S{1,40})$")
_STDOUT_FACTS = {
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
    "Mean TTFT (ms)": "mean_ttft_ms",
    "Median TTFT (ms)": "median_ttft_ms",
    "P99 TTFT (ms)": "p99_ttft_ms",
    "Mean TPOT (ms)": "mean_tpot_ms",
    "Median TPOT (ms)": "median_tpot_ms",
    "P99 TPOT (ms)": "p99_tpot_ms",
    "Mean ITL (ms)": "mean_itl_ms",
    "Median ITL (ms)": "median_itl_ms",
    "P99 ITL (ms)": "p99_itl_ms",
    "Concurrency": "concurrency",
}
MOST_RESULTS = 1000


def is_bench(node: Node) -> bool:
    """Whether a JSON object is the result of `vllm bench serve` or of SGLang's bench_serving."""
    return "output_throughput" in node and "mean_tpot_ms" in node and "mean_itl_ms" in node


def facts_of(node: Node) -> dict[str, float | str | None]:
    """The latency and load facts of a result, by the names both clients use."""
    facts: dict[str, float | str | None] = {}
    for key in FACT_KEYS:
        value = node.get(key)
        facts[key] = value[:100] if isinstance(value, str) else number_in(node, key)
    return facts


class BenchText:
    """Printed results: `key: value` rows from one `Serving Benchmark Result` header to the next."""

    def __init__(self) -> None:
        self.results: list[tuple[Place, dict[str, str]]] = []

    def line(self, text: str, at: Place) -> None:
        """One printed row."""
        if "Serving Benchmark Result" in text:
            if len(self.results) < MOST_RESULTS:
                self.results.append((at, {}))
            return
        found = _ROW.match(text)
        if found is None:
            return
        if not self.results:
            self.results.append((at, {}))
        self.results[-1][1].setdefault(found.group(1), found.group(2))

    @staticmethod
    def facts(rows: dict[str, str]) -> dict[str, float | str | None]:
        """The facts among printed rows."""
        facts: dict[str, float | str | None] = {}
        for label, key in _STDOUT_FACTS.items():
            if label in rows:
                facts[key] = as_number(rows[label]) if key != "backend" else rows[label]
        return facts


def as_number(text: str | None) -> float | None:
    """A printed number >= 0, or None."""
    if text is None or not re.fullmatch(r"\d{1,15}(?:\.\d{1,15})?", text):
        return None
    return float(text)
