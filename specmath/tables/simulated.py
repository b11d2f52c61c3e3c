"""What the requests of a simulation met, one row an arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specmath.arms import Arm
from specmath.tables.table import Column, Table

__all__ = ["simulated_table"]

_TIMES = {
    "ttft": ("Time to first token", "ms", 1e3, "0.0"),
    "tpot": ("Time per token", "ms", 1e3, "0.00"),
    "e2e": ("Whole request", "s", 1.0, "0.000"),
}
"""Label, unit, how many of them a second is, and number format."""

_QUANTILES = {"mean": None, "p50": 0.5, "p90": 0.9, "p99": 0.99}

_OTHERS: dict[str, tuple[str, str, str, str, Callable[[Arm], float]]] = {
    "batch": ("Batch", "", "Sequences that decode, mean over time", "0.0",
              lambda a: a.found.batch),
    "in_flight": ("In flight", "", "Requests that are there, mean over time", "0.0",
                  lambda a: a.found.in_flight),
    "utilisation": ("Utilisation", "", "Requests that end a second over the most that this arm "
                    "carries", "0%", lambda a: a.utilisation),
    "requests_per_second": ("Requests/s", "requests/s", "That end", "0.00",
                            lambda a: a.found.request_rate),
    "tokens_per_second": ("Tokens/s", "tokens/s", "Output tokens of one replica", "#,##0",
                          lambda a: a.found.throughput),
    "most_requests_per_second": ("Largest rate", "requests/s", "Of an open loop", "0.00",
                                 lambda a: a.limit.rate),
    "cache_used": ("Cache used", "", "The most of it at any time", "0%",
                   lambda a: a.found.most_held),
    "preemptions": ("Preemptions", "", "How often a sequence lost its cache and was read again",
                    "0", lambda a: a.found.preemptions),
}  # fmt: skip
"""Label, unit, definition, number format and value."""


def simulated_table(arms: Sequence[Arm]) -> Table:
    """Times of the counted requests, and how busy the server was, one row an arm."""
    columns = [
        Column("arm", "", "", "With or without speculation",
               tuple("speculative" if a.gamma else "plain" for a in arms)),
        Column("gamma", "γ", "tokens", "Drafted a step", tuple(a.gamma for a in arms), format="0"),
        Column("requests", "Requests", "", "Counted: without those that fill an empty server",
               tuple(len(a.found.e2e) for a in arms), format="#,##0"),
    ]  # fmt: skip
    for name, (label, unit, times, format) in _TIMES.items():
        for end, q in _QUANTILES.items():
            values = tuple(
                times * (a.found.mean(name) if q is None else a.found.quantile(name, q))
                for a in arms
            )
            said = f"{label}, {end}"
            columns.append(Column(f"{name}_{end}_{unit}", said, unit, said, values, format=format))
    for name, (label, unit, definition, format, value) in _OTHERS.items():
        values = tuple(value(a) for a in arms)
        columns.append(Column(name, label, unit, definition, values, format=format))
    return Table("The same requests in both arms", "simulated", tuple(columns))
