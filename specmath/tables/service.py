"""Latency, throughput and load of runs: of one, and of two side by side with their ratio."""

from __future__ import annotations

from collections.abc import Callable

from specmath.logs.reading import Reading
from specmath.logs.service import Latency, Service
from specmath.review.observed import throughput_of, tokens_per_pass, tpot_of
from specmath.tables.table import Column, Table

__all__ = ["pair_table", "service_table"]

_MS = 1e3
_PAIR: tuple[tuple[str, str, Callable[[Reading], float | None]], ...] = (
    ("Time per token, mean", "ms", lambda r: _scaled(tpot_of(r), _MS)),
    *(
        (f"{label}, {quantile}", "ms",
         lambda r, name=name, part=part: _scaled(_part(r.service, name, part), _MS))
        for name, label in (("tpot", "TPOT"), ("ttft", "TTFT"), ("itl", "ITL (between chunks)"),
                            ("e2e", "Whole request"), ("queue", "Waiting to start"))
        for part, quantile in (("mean", "mean"), ("p50", "median"), ("p99", "p99"))
        if (name, part) != ("tpot", "mean")
    ),
    ("Tokens/s, one request", "tokens/s", lambda r: _over(1.0, tpot_of(r))),
    ("Tokens/s, in total", "tokens/s", throughput_of),
    ("Prompt tokens/s", "tokens/s", lambda r: r.service.prompt_per_second),
    ("Tokens a pass", "", tokens_per_pass),
    ("Requests running", "", lambda r: r.service.running),
    ("Requests waiting", "", lambda r: r.service.waiting),
    ("KV cache in use", "%", lambda r: _scaled(r.service.kv_use, 100.0)),
    ("Prefix cache hits", "%", lambda r: _scaled(r.service.prefix_hits, 100.0)),
    ("Preemptions", "", lambda r: _count(r.service.preemptions)),
    ("Requests finished", "", lambda r: _count(r.service.requests)),
    ("Prompt tokens a request", "tokens", lambda r: r.service.prompt_tokens),
    ("Output tokens a request", "tokens", lambda r: r.service.output_tokens),
)  # fmt: skip
"""What is laid side by side: name, unit, number."""


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _over(one: float, value: float | None) -> float | None:
    return one / value if value else None


def _count(value: int | None) -> float | None:
    return None if value is None else float(value)


def _part(service: Service, name: str, part: str) -> float | None:
    told: Latency | None = getattr(service, name)
    return None if told is None else getattr(told, part)


def pair_table(before: Reading, after: Reading) -> Table | None:
    """Latency, throughput and load of both runs side by side, and their ratio; None of neither."""
    rows = [
        (label, unit, one, other)
        for label, unit, number in _PAIR
        for one, other in ((number(before), number(after)),)
        if one is not None or other is not None
    ]
    if not rows:
        return None
    labels, units, first, last = zip(*rows, strict=True)
    ratios = tuple(b / a if a and b is not None else None for a, b in zip(first, last, strict=True))
    return Table("The two runs side by side", "log_pair", (
        Column("what", "", "", "What is compared", labels),
        Column("of", "Unit", "", "Of before and after", units),
        Column("before", "Before", "", "As told", first, format="0.00", basis="measured"),
        Column("after", "After", "", "As told", last, format="0.00", basis="measured"),
        Column("ratio", "After ÷ before", "", "After over before", ratios,
               tuple("{after}/{before}" if r is not None else None for r in ratios),
               format='0.00"×"'),
    ))  # fmt: skip


def service_table(reading: Reading) -> Table | None:
    """Latency, throughput and load of one run; None where nothing of it is told."""
    rows = [
        (label, unit, value)
        for label, unit, number in _PAIR
        if (value := number(reading)) is not None
    ]
    if not rows or not reading.service.told:
        return None
    labels, units, values = zip(*rows, strict=True)
    return Table("Latency and load", "log_service", (
        Column("what", "Latency and load", "", "Name of the number", labels),
        Column("value", "Value", "", "As told over the same time", values, format="0.00",
               basis="measured"),
        Column("unit", "Unit", "", "Of the value", units),
    ))  # fmt: skip
