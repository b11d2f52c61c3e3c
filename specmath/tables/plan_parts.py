"""What paper has room for of a plan's tables: the decision of each endpoint with the total, and
what tells one endpoint's segments apart."""

from __future__ import annotations

from dataclasses import replace

from specmath.plan.decided import EndpointAnswer, PlanAnswer
from specmath.tables.plan import endpoints_table, part_of, segments_table
from specmath.tables.plan_ways import ways_part, ways_table
from specmath.tables.table import Cell, Table

__all__ = ["ALL", "TOTALLED", "decision_part", "segments_of", "ways_of"]

ALL = "All endpoints"
"""What the last row is called."""

TOTALLED = ("gpus_plain", "gpus", "usd_per_month_plain", "usd_per_month")
"""Columns that have a total."""

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
    values = (*found.gpus, *found.usd_per_month)
    cells: dict[str, Cell] = {"endpoint": ALL}
    for name, total in zip(TOTALLED, values, strict=True):
        cells |= {f"{name}{end}": getattr(total, of, None) for end, of in ENDS.items()}
    longer = [replace(c, values=(*c.values, cells.get(c.name))) for c in part.columns]
    return replace(part, columns=tuple(longer))


def ways_of(found: PlanAnswer, answer: EndpointAnswer) -> Table:
    """One endpoint's ways to serve its segments, without what is not known."""
    table = ways_part(ways_table(PlanAnswer(found.plan, (answer,))))
    known = [c.name for c in table.columns if any(value is not None for value in c.values)]
    return part_of(table, [name for name in known if name != "endpoint"])


def segments_of(found: PlanAnswer, answer: EndpointAnswer) -> Table:
    """One endpoint's segments: what differs in them and what it does; columns of which nothing is
    known are left out."""
    table = segments_table(PlanAnswer(found.plan, (answer,)))
    known = [c for c in table.columns if any(value is not None for value in c.values)]
    return part_of(replace(table, columns=tuple(known)), _SEGMENTS)
