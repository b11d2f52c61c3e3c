"""Deployments as rows: those that nothing beats, and the cheapest of each server."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.deployments import Deployment, Search
from specmath.estimate import Estimate
from specmath.tables.columns import ends_of
from specmath.tables.table import Column, Table

__all__ = ["cheapest_table", "front_table"]


def front_table(found: Search) -> Table:
    """The front, the fastest first."""
    return _table("Deployments that nothing beats", "front", found.front)


def cheapest_table(found: Search) -> Table:
    """One of each server, the cheapest first."""
    return _table("The cheapest deployments", "cheapest", found.cheapest)


def _table(title: str, name: str, rows: Sequence[Deployment]) -> Table:
    columns = [
        _text("gpu", "GPU", "Of a replica", [d.scenario.gpu for d in rows]),
        Column("gpus", "GPUs a replica", "", "With the draft's own", tuple(d.gpus for d in rows),
               format="0"),
        _text("draft", "Draft", "Plain decoding has none", [d.draft or "none" for d in rows]),
        Column("gamma", "γ", "", "Drafted tokens a step; 0: plain decoding",
               tuple(d.gamma for d in rows), format="0"),
        Column("rate", "Rate", "requests/s", "Of one replica", tuple(d.rate for d in rows),
               format="0.00"),
        *ends_of(("tpot_ms", "Token", "ms", "Mean time per token at that rate", "0.0"),
                 [_in_ms(d.tpot) for d in rows]),
        *ends_of(("ttft_ms", "First token", "ms", "Mean time to it at that rate", "0"),
                 [_in_ms(d.ttft) for d in rows]),
        *ends_of(("usd_per_million_tokens", "A million tokens", "USD", "Output, of a replica at "
                  "that rate; the range is of the largest rate that it carries", "0.00"),
                 [d.usd_per_million for d in rows]),
        Column("replicas", "Replicas", "", "To serve the demand at that rate",
               tuple(d.replicas for d in rows), format="#,##0"),
        Column("usd_per_month", "A month", "USD", "Of all replicas, 730 h",
               tuple(d.usd_per_month for d in rows), format="#,##0"),
        Column("usd_per_hour", "Price", "USD a GPU hour", "Assumed, or the scenario's own",
               tuple(d.scenario.usd_per_hour for d in rows), format="0.00", basis="assumed"),
    ]  # fmt: skip
    return Table(title, name, tuple(columns))


def _text(name: str, label: str, definition: str, values: list[str | None]) -> Column:
    return Column(name, label, "", definition, tuple(values))


def _in_ms(seconds: Estimate) -> Estimate:
    return seconds.map(lambda each: 1e3 * each)
