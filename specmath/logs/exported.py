"""What each engine's metrics page calls what a trial measures: the names that are read here."""

from __future__ import annotations

from dataclasses import dataclass

from specmath.logs.engines import ENGINES
from specmath.logs.engines.page import Page
from specmath.logs.engines.served import ServedNames

__all__ = ["Exported", "exported"]


@dataclass(frozen=True)
class Exported:
    """One metric: of which engine, what it tells, its newest name, and how it is read."""

    engine: str
    tells: str
    name: str
    how: str


_HISTOGRAM = "histogram, seconds: _sum over _count, or a quantile of _bucket"
_GAUGE = "gauge"
_READ: tuple[tuple[str, str, str], ...] = (
    ("tpot", "tpot", _HISTOGRAM),
    ("ttft", "ttft", _HISTOGRAM),
    ("e2e", "e2e", _HISTOGRAM),
    ("tokens_per_second", "generated_per_second", "gauge, tokens a second"),
    ("tokens_per_second", "generated", "counter, tokens: its rate"),
    ("running", "running", _GAUGE),
    ("waiting", "waiting", _GAUGE),
)
"""What it tells, the field of `ServedNames`, and how it is read."""

_SUMMED = {"tgi_request_generated_tokens_sum"}
"""Counters whose name has its ending already."""


def exported() -> tuple[Exported, ...]:
    """Every metric of latency and load that an engine's page has for a trial, engines in order."""
    pages = {engine.name: engine.names for engine in ENGINES if issubclass(engine, Page)}
    return tuple(each for engine, names in sorted(pages.items()) for each in _of(engine, names))


def _of(engine: str, names: ServedNames) -> list[Exported]:
    found: dict[str, Exported] = {}
    for tells, field, how in _READ:
        each = getattr(names, field)
        if field == "tpot" and not each and names.gap_per_token:
            each = names.gap  # its mean is a time per token
        if each and tells not in found:
            found[tells] = Exported(engine, tells, _full(each[0], how), how)
    return list(found.values())


def _full(name: str, how: str) -> str:
    """As a page prints it: counters end in `_total`."""
    return f"{name}_total" if how.startswith("counter") and name not in _SUMMED else name
