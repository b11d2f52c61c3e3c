"""The report of a plan: page one has the decisions, then each endpoint with what it rests on."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from specmath.charts.capacity import rate_title, times_over_rate
from specmath.charts.plan import day_chart, plan_chart
from specmath.checks import short
from specmath.numbers import UNKNOWN
from specmath.plan.decided import EndpointAnswer, PlanAnswer
from specmath.plan.files import to_toml
from specmath.report.document import LONGEST_TITLE, document, stamp
from specmath.report.pieces import (
    all_columns,
    chart_html,
    file_html,
    head,
    link_html,
    links_html,
    list_html,
    paragraph,
    said_html,
    table_html,
)
from specmath.report.rest import assumed_words, how_accurate
from specmath.scenario.files import to_link
from specmath.tables.capacity import capacity_part, capacity_table
from specmath.tables.plan import days_table, endpoints_table, segments_table
from specmath.tables.plan_compared import compared_plans_table, plans_called
from specmath.tables.plan_parts import TOTALLED, decision_part, segments_of, ways_of
from specmath.tables.plan_ways import ways_table
from specmath.tables.provenance import endpoint_inputs_table
from specmath.words.capacity import (
    capacity_notes,
    crossover_sentence,
    limits_sentence,
    table_remarks,
)
from specmath.words.notes import notes
from specmath.words.plan import (
    ASSUMED,
    chart_sentence,
    day_sentence,
    endpoint_said,
    plan_notes,
    plan_sentence,
    segments_sentence,
    ways_sentence,
)

__all__ = ["report_bytes"]

MOST_ON_PAGE_ONE = 4
"""Endpoints beside which page one has room for their chart."""

_GROUPS = {
    "tpot_p50_ms_plain": ("Token p50 (ms)", "plain"),
    "tpot_p50_ms": ("Token p50 (ms)", "with γ"),
    "tpot_p99_ms_plain": ("Token p99 (ms)", "plain"),
    "tpot_p99_ms": ("Token p99 (ms)", "with γ"),
    "gpus_plain": ("GPUs", "plain"),
    "gpus": ("GPUs", "planned"),
    "usd_per_month_plain": ("USD a month", "plain"),
    "usd_per_month": ("USD a month", "planned"),
}
"""Headings of page one: both arms of a number under one."""


_COMPARED = {
    "do": "Speculation", "gamma": "γ", "tpot_p99_ms": "Token p99 (ms)", "gpus": "GPUs",
    "usd_per_month": "USD a month",
}  # fmt: skip
"""Headings over both plans."""


def report_bytes(
    found: PlanAnswer, *, beside: PlanAnswer | None = None, date: datetime.date | None = None
) -> bytes:
    """The report of a plan as one file of HTML.

    Parameters
    ----------
    found
        The plan and its answers.
    beside
        Another plan, laid side by side with it.
    date
        That it bears; today's where none is given.

    Returns
    -------
    bytes
        UTF-8. Nothing in it is loaded from elsewhere; equal arguments give equal bytes.
    """
    title = short(found.plan.name, LONGEST_TITLE) or "Plan"
    return document(title, _body(found, beside, title, date))


def _body(
    found: PlanAnswer, beside: PlanAnswer | None, title: str, date: datetime.date | None
) -> Iterator[str]:
    several = len(found.endpoints) > 1
    small = len(found.endpoints) <= MOST_ON_PAGE_ONE
    chart = chart_html(
        plan_chart(found), "Time per token of each endpoint, p50 and p99",
        chart_sentence(found), f"{title} time per token",
    )  # fmt: skip
    yield '<section class="first">'
    yield head(1, title)
    yield paragraph(stamp(date), "stamp")
    yield paragraph(plan_sentence(found), "decision")
    yield table_html(
        decision_part(found), groups=_GROUPS, totals=TOTALLED if several else (), unknown=UNKNOWN
    )
    yield chart if small else ""
    yield all_columns(endpoints_table(found))
    yield all_columns(segments_table(found))
    if any(answer.ways for answer in found.endpoints):
        yield all_columns(ways_table(found))
    if any(answer.day is not None for answer in found.endpoints):
        yield all_columns(days_table(found))
    yield "</section>"
    if beside is not None:
        yield from _beside(found, beside)
    if not small:
        yield f'<section class="sheet">{chart}</section>'
    common = _common(found)
    for answer in found.endpoints:
        yield from _endpoint(found, answer, common)
    yield from _rest(found, common)
    yield from _back(found, beside)


def _beside(found: PlanAnswer, beside: PlanAnswer) -> Iterator[str]:
    table = compared_plans_table(found, beside)
    yield '<section class="sheet">'
    yield head(2, table.title)
    names = plans_called(found, beside)
    for name, each in zip(names, (found, beside), strict=True):
        yield head(3, name)
        yield paragraph(plan_sentence(each))
    groups = {f"{column}_{suffix}": (heading, name) for column, heading in _COMPARED.items()
              for suffix, name in zip("ab", names, strict=True)}  # fmt: skip
    yield table_html(table, groups=groups, totals=("usd_per_month_more",))
    yield "</section>"


# ── one endpoint ─────────────────────────────────────────────────────────────────────────────


def _endpoint(found: PlanAnswer, answer: EndpointAnswer, common: frozenset[str]) -> Iterator[str]:
    said, name = endpoint_said(answer), answer.endpoint.name
    yield '<section class="sheet endpoint">'
    yield head(2, name)
    yield said_html(said)
    yield head(3, "Segments")
    yield table_html(segments_of(found, answer))
    yield paragraph(segments_sentence(answer))
    if answer.ways:
        yield head(3, ways_table(found).title)
        yield table_html(ways_of(found, answer))
        yield paragraph(told) if (told := ways_sentence(answer)) else ""
    capacity = answer.capacity
    yield head(3, capacity_table(capacity).title)
    yield table_html(capacity_part(capacity_table(capacity)))
    yield paragraph(limits_sentence(capacity, answer.kinds))
    yield list_html(table_remarks(capacity))
    yield chart_html(
        times_over_rate(capacity), f"{name}: {rate_title(capacity)}",
        crossover_sentence(capacity), f"{name} over rate",
    )  # fmt: skip
    if answer.day is not None:
        yield chart_html(
            day_chart(answer), f"{name}: time per token over the day", day_sentence(answer),
            f"{name} day",
        )  # fmt: skip
    yield head(3, "Inputs and where they are from")
    yield table_html(endpoint_inputs_table(answer))
    own = [note for note in _notes(answer) if note not in common]
    yield head(3, "Assumptions and limits")
    yield list_html([*assumed_words(answer.prediction), *_acceptance_notes(found, answer), *own])
    yield "</section>"


def _notes(answer: EndpointAnswer) -> tuple[str, ...]:
    return (*notes(answer.prediction), *capacity_notes(answer.capacity))


def _common(found: PlanAnswer) -> frozenset[str]:
    """What holds of every endpoint, where there are several: said once."""
    if len(found.endpoints) == 1:
        return frozenset()
    first, *others = (frozenset(_notes(answer)) for answer in found.endpoints)
    return first.intersection(*others)


def _acceptance_notes(found: PlanAnswer, answer: EndpointAnswer) -> tuple[str, ...]:
    return plan_notes(PlanAnswer(found.plan, (answer,)))[len(ASSUMED) :]


def _rest(found: PlanAnswer, common: frozenset[str]) -> Iterator[str]:
    yield '<section class="sheet">'
    yield head(2, "Assumptions and limits of the whole plan")
    yield list_html([*ASSUMED, *(n for n in _notes(found.endpoints[0]) if n in common)])
    yield head(3, "How accurate")
    yield paragraph(how_accurate())
    yield "</section>"


def _back(found: PlanAnswer, beside: PlanAnswer | None) -> Iterator[str]:
    """What restores the plan and each scenario."""
    yield '<section class="screen">'
    yield head(2, "The plan as a file, and its scenarios as links")
    yield file_html("The plan (TOML)", "plan.toml", to_toml(found.plan))
    if beside is not None:
        yield file_html("The other plan (TOML)", "other-plan.toml", to_toml(beside.plan))
    yield links_html(
        link_html(
            answer.endpoint.name if len(answer.segments) == 1
            else f"{answer.endpoint.name}, {segment.name}",
            to_link(segment.prediction.scenario),
        )
        for answer in found.endpoints
        for segment in answer.segments
    )  # fmt: skip
    yield "</section>"
