"""What paper has room for of a plan's tables: the decision of each endpoint with the total, and
what tells one endpoint's segments apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specmath.estimate import Estimate
from specmath.plan.decided import EndpointAnswer, PlanAnswer
from specmath.tables.plan import endpoints_table, part_of, segments_table
from specmath.tables.table import Cell, Column, Table

__all__ = ["ALL", "decision_part", "segments_of", "with_total"]

ALL = "All endpoints"
"""What the last row is called."""

ENDS = {"": "value", "_low": "low", "_high": "high"}

_DECISION = (
    "endpoint", "do", "tpot_p50_ms_plain", "tpot_p50_ms", "tpot_p99_ms_plain",
    "tpot_p99_ms", "gpus_plain", "gpus", "usd_per_month_plain", "usd_per_month", "acceptance_from",
)  # fmt: skip
_SEGMENTS = (
    "segment", "share", "requests_per_second", "prompt_tokens", "output_tokens",
    "tokens_per_step", "tpot_plain_ms", "tpot_ms", "walltime_improvement", "own_gamma",
    "lost_percent", "split_usd_per_month", "acceptance_from",
)  # fmt: skip


def decision_part(found: PlanAnswer) -> Table:
    """One row an endpoint: what to do, its times, GPUs and bill in both arms, and where its
    acceptance is from; where there are several, all of them in a last row."""
    part = part_of(endpoints_table(found), _DECISION)
    if len(found.endpoints) == 1:
        return part
    (gpus_plain, gpus), (usd_plain, usd) = found.gpus, found.usd_per_month
    totals = {"gpus_plain": gpus_plain, "gpus": gpus, "usd_per_month_plain": usd_plain,
              "usd_per_month": usd}  # fmt: skip
    return with_total(part, {"endpoint": ALL}, totals)


def segments_of(found: PlanAnswer, answer: EndpointAnswer) -> Table:
    """One endpoint's segments: what differs in them and what it does; columns of which nothing is
    known are left out."""
    table = segments_table(PlanAnswer(found.plan, (answer,)))
    known = [c for c in table.columns if any(value is not None for value in c.values)]
    return part_of(replace(table, columns=tuple(known)), _SEGMENTS)


def with_total(
    table: Table, said: Mapping[str, Cell], totals: Mapping[str, Estimate | None]
) -> Table:
    """The table with a row more; what has no total is empty there. Of a constant table."""
    cells = dict(said)
    for name, total in totals.items():
        cells |= {f"{name}{end}": getattr(total, of, None) for end, of in ENDS.items()}
    columns = [_longer(column, cells.get(column.name)) for column in table.columns]
    return replace(table, columns=tuple(columns))


def _longer(column: Column, cell: Cell) -> Column:
    return replace(column, values=(*column.values, cell))
