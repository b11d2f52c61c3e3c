"""The report of one scenario: the verdict and its numbers, then what it rests on."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from specmath.capacity import Capacity, aggregated, capacity
from specmath.charts.calculator import speedup_over_gamma
from specmath.charts.capacity import rate_title, times_over_rate
from specmath.checks import short
from specmath.numbers import UNKNOWN, ratio
from specmath.predict import Prediction
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
from specmath.scenario.files import to_link, to_toml
from specmath.speculation import Action
from specmath.tables.beside import numbers_table
from specmath.tables.capacity import capacity_part, capacity_table, pools_table
from specmath.tables.prediction import gamma_table
from specmath.tables.provenance import scenario_inputs_table
from specmath.words.acceptance import range_notes
from specmath.words.capacity import (
    capacity_notes,
    capacity_sentence,
    crossover_sentence,
    limits_sentence,
    table_remarks,
)
from specmath.words.notes import notes
from specmath.words.pools import together_sentence
from specmath.words.said import Said, State
from specmath.words.verdict import verdict

__all__ = ["scenario_report_bytes"]

_STATE: dict[Action, State] = {
    "use": "good", "raise": "good", "lower": "good", "skip": "bad", "measure": "unknown",
}  # fmt: skip


def scenario_report_bytes(prediction: Prediction, *, date: datetime.date | None = None) -> bytes:
    """The report of one scenario as one file of HTML.

    Parameters
    ----------
    prediction
        Of the scenario.
    date
        That it bears; today's where none is given.

    Returns
    -------
    bytes
        UTF-8. Nothing in it is loaded from elsewhere; equal arguments give equal bytes.
    """
    title = short(prediction.scenario.label, LONGEST_TITLE) or "Scenario"
    return document(title, _body(prediction, title, date))


def _body(p: Prediction, title: str, date: datetime.date | None) -> Iterator[str]:
    found = verdict(p)
    headline = found.headline.removesuffix(".")
    yield '<section class="first">'
    yield head(1, title)
    yield paragraph(stamp(date), "stamp")
    yield said_html(Said(title, _STATE[found.action], headline, (found.reason, found.flips)))
    yield table_html(numbers_table(p), unknown=UNKNOWN)
    yield chart_html(
        speedup_over_gamma(p), "Speedup over plain decoding, by drafted tokens a step",
        f"Fastest at γ={p.best_gamma}, "
        f"{ratio(float(p.curve.walltime_improvement[p.best_gamma]))}.",
        f"{title} speedup",
    )  # fmt: skip
    yield all_columns(gamma_table(p))
    yield "</section>"
    told: tuple[str, ...] = ()
    if p.endpoint.pair is not None and p.scenario.prompt_tokens is not None:
        fleet = capacity(p)
        told = capacity_notes(fleet)
        yield '<section class="sheet">'
        yield head(2, capacity_table(fleet).title)
        yield paragraph(capacity_sentence(fleet))
        yield table_html(capacity_part(capacity_table(fleet)))
        yield list_html(table_remarks(fleet))
        yield from _pools(p, fleet)
        yield paragraph(limits_sentence(fleet))
        yield chart_html(
            times_over_rate(fleet), rate_title(fleet),
            crossover_sentence(fleet), f"{title} over rate",
        )  # fmt: skip
        yield "</section>"
    yield '<section class="sheet">'
    yield head(2, "Inputs and where they are from")
    yield table_html(scenario_inputs_table(p))
    yield head(3, "Assumptions and limits")
    yield list_html([*assumed_words(p), *range_notes(p), *notes(p), *told])
    yield head(3, "How accurate")
    yield paragraph(how_accurate())
    yield "</section>"
    yield '<section class="screen">'
    yield head(2, "The scenario as a file and as a link")
    yield file_html("The scenario (TOML)", "scenario.toml", to_toml(p.scenario))
    yield links_html([link_html(title, to_link(p.scenario))])
    yield "</section>"


def _pools(p: Prediction, fleet: Capacity) -> Iterator[str]:
    """Where others read the prompts: the same demand on replicas that read their own."""
    if fleet.plain.prefill is None or fleet.demand is None:
        return
    together = aggregated(p, fleet)
    shown = pools_table(fleet, together)
    yield head(3, shown.title)
    yield paragraph(together_sentence(fleet, together))
    yield table_html(shown)
