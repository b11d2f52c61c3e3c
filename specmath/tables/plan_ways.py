"""Endpoints of several kinds of request: one γ for all, one for each request, or dedicated
replicas."""

from __future__ import annotations

from dataclasses import replace

from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.plan.by_request import WayName
from specmath.plan.decided import PlanAnswer
from specmath.tables.columns import ends_of
from specmath.tables.table import Column, Table

__all__ = ["MIDDLES", "WAYS", "ways_part", "ways_table"]

WAYS: dict[WayName, str] = {
    "one": "One γ for all",
    "best one": "The best one γ for all",
    "request": "A γ for each request",
    "dedicated": "Dedicated replicas",
}
"""What each is called."""


MIDDLES = ("tpot_ms", "largest_rate", "gpus", "usd_per_month")
"""Columns that a page shows with their middle: dedicated replicas have no range."""


def ways_table(found: PlanAnswer) -> Table:
    """One row a way to treat an endpoint of several segments: its γ, times and fleet.

    Raises InputError where no endpoint has several.
    """
    rows = [(a, way) for a in found.endpoints for way in a.ways]
    if not rows:
        raise InputError("a table by way needs an endpoint of at least 2 segments, got none")
    taxes = [a.by_request if way.name == "request" else None for a, way in rows]
    columns = [
        Column("endpoint", "Endpoint", "", "As named in the plan",
               tuple(a.endpoint.name for a, _ in rows)),
        Column("way", "How", "", "One γ for all as planned, and the one that is best by the rule "
               "for each request where it is another; a γ for each request; a segment on replicas "
               "of its own", tuple(WAYS[way.name] for _, way in rows)),
        Column("gammas", "γ", "", "Of each segment, in the plan's order; 0: nothing is drafted",
               tuple(", ".join(map(str, way.gammas)) for _, way in rows)),
        *ends_of(("tpot_ms", "Token", "ms", "Mean time per token, on as many replicas as serve it "
                  "without speculation; empty: they do not carry it, or dedicated replicas, "
                  "which have rates of their own", "0.0"), [_in_ms(way.tpot) for _, way in rows]),
        *ends_of(("largest_rate", "Peak", "requests/s", "The largest rate of one replica within "
                  "what is promised", "0.00"), [way.rate for _, way in rows]),
        *ends_of(("replicas", "Replicas", "", "Of the fleet", "#,##0"),
                 [way.replicas for _, way in rows]),
        *ends_of(("gpus", "GPUs", "", "Of all replicas", "#,##0"), [way.gpus for _, way in rows]),
        *ends_of(("usd_per_month", "A month", "USD", "Of all replicas, 730 h", "#,##0"),
                 [way.usd_per_month for _, way in rows]),
        Column("gain_percent", "Gain at most", "%", "A γ for each request over the best one for "
               "all, at no cost: requests carried within what is promised, else tokens a second",
               tuple(None if t is None else 100.0 * (t.gain - 1.0) for t in taxes), format="0.0"),
        Column("break_even_percent", "May cost", "% of a step", "What choosing a γ for each "
               "request may cost before one for all is as good",
               tuple(None if t is None else 100.0 * t.break_even for t in taxes), format="0.0"),
        Column("tax_percent", "Costs", "% of a step", "As given (per_request_tax), in the other "
               "numbers of the row; 0 is assumed where nothing is",
               tuple(None if t is None else 100.0 * t.tax for t in taxes), format="0.0",
               basis="assumed"),
    ]  # fmt: skip
    return Table("Ways to serve mixed endpoints", "plan_ways", tuple(columns))


def ways_part(table: Table) -> Table:
    """What a page shows of it: without replicas, and the cost where one was given."""
    left_out = {f"replicas{end}" for end in ("", "_low", "_high")}
    if not any(table.column("tax_percent").values):
        left_out.add("tax_percent")
    return replace(table, columns=tuple(c for c in table.columns if c.name not in left_out))


def _in_ms(seconds: Estimate | None) -> Estimate | None:
    return seconds and seconds.map(lambda each: 1e3 * each)
