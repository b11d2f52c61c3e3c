"""Measure: the answer of a report, its charts, its tables, its files, the way to the calculator."""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from pages.ui import furniture
from pages.ui.furniture import verbatim
from pages.ui.measure_choices import forget, kept, kept_value
from pages.ui.state import adopt, examples, scenario
from specmath.charts.measure import (
    alpha_by_segment,
    gap_histogram,
    speedup_beside,
    survival_by_position,
)
from specmath.charts.measured_page import measured_page
from specmath.checks import InputError
from specmath.measure.into_scenario import to_scenario
from specmath.measure.report import ALL, Report, ReportPart, write_report
from specmath.tables.measured import (
    acceptance_table,
    comparison_table,
    cost_tables,
    errors_table,
    median_errors,
    report_csv,
)
from specmath.words.measured import check_said, clock_said, headline, where_measured

FILES = (
    ("JSON", write_report, "application/json", "The whole report; this page opens it again."),
    ("CSV", report_csv, "text/csv",
     "Predicted beside measured, a row for each text, temperature and γ."),
    ("HTML", measured_page, "text/html", "A page to hand on; it needs no network."),
)  # fmt: skip
MARKS = {
    "good": ":green[:material/check_circle:]",
    "note": ":material/info:",
}


def show_answer(report: Report, place: ReportPart | None) -> None:
    """The outcome, whether all was finished, where it was measured, what the self-check says."""
    for check in report.checks:
        if check.level == "bad":
            st.error(f"**{verbatim(check_said(check))}**", icon=":material/error:")
    if report.status == "partial":
        st.warning(
            f"**Partial**: {verbatim(report.reason)}. Only what was finished is below.",
            icon=":material/hourglass_bottom:",
        )
    if place is None:
        st.info(
            "No text was finished, so there is no acceptance to show. Measure again, or open an "
            "earlier report.",
            icon=":material/straighten:",
        )
    else:
        outcome, numbers = headline(report, place)
        where = "" if place.segment == ALL else f", {verbatim(place.segment)}"
        st.info(
            f"**At T={place.temperature:g}{where}: {verbatim(outcome)}** {verbatim(numbers)}",
            icon=":material/straighten:",
        )
    where = " ".join((where_measured(report), clock_said(report)))
    st.caption(f":material/computer: {verbatim(where)}")
    _show_checks(report)


def _show_checks(report: Report) -> None:
    """The self-check in its own words; what is bad stands above in a box of its own."""
    said = [check for check in report.checks if check.level in MARKS]
    lines = [f"{MARKS[check.level]} {verbatim(check_said(check))}" for check in said]
    if lines:
        st.caption("  \n".join(lines))


def chosen(report: Report) -> ReportPart | None:
    """Temperature and segment to look at; None where the report holds no acceptance."""
    found = report.parts
    if not found:
        return None
    temperatures = list(dict.fromkeys(place.temperature for place in found))
    left, right, button, files = st.columns([2, 2, 3, 4], vertical_alignment="bottom")
    with left:
        temperature = _choice("temperature", temperatures, -1, "Temperature", "T = {:g}".format)
    segments = [place.segment for place in found if place.temperature == temperature]
    with right:
        said = {ALL: "all texts"}
        segment = _choice("segment", segments, 0, "Text", lambda s: said.get(s, s))
    place = ReportPart(segment, temperature)
    with button:
        _use(report, place)
    with files:
        _files(report)
    return place


def _choice(
    name: str, options: list[Any], first: int, label: str, show: Callable[[Any], str]
) -> Any:
    """A choice that another report may not have: it then starts again."""
    if kept_value(name, options[first]) not in options:
        forget(name)
    return kept(name, options[first], st.selectbox, label, options, format_func=show)


def _use(report: Report, place: ReportPart) -> None:
    gammas = report.settings.gammas
    if not set(range(max(gammas))) <= {0, *gammas}:
        st.caption("The calculator takes v between the γ measured on a line.")
    if not st.button("Use in the calculator", icon=":material/toggle_on:", width="stretch"):
        return
    at = {"segment": place.segment, "temperature": place.temperature}
    try:
        if scenario().costs.computed and "draft cost" not in examples():
            found = to_scenario(report, **at, into=scenario())  # their own hardware stays
            adopt(found, still_examples={*examples()} - {"acceptance"})
        else:
            adopt(to_scenario(report, **at))
    except InputError as error:
        st.error(f"{verbatim(str(error))}.")
        return
    st.switch_page("pages/what_if.py")


def _files(report: Report) -> None:
    stem = f"specmath-measured-{report.created[:10]}"
    for column, (kind, write, mime, help) in zip(st.columns(3), FILES, strict=True):
        column.download_button(
            kind, partial(write, report), f"{stem}.{kind.lower()}", mime, help=help,
            icon=":material/download:", on_click="ignore", width="stretch",
        )  # fmt: skip


def show_results(report: Report, place: ReportPart) -> None:
    """Four charts and the tables behind them."""
    row, rows = report.acceptance_of(place), report.comparison_of(place)
    left, right = st.columns(2, gap="medium")
    with left:
        if rows:
            furniture.chart(
                speedup_beside(rows, [report.run_of(place, each.gamma) for each in rows]),
                "Speedup over γ: predicted and measured",
                _errors_in_words(report, place),
                height=340,
            )
        furniture.chart(
            alpha_by_segment(report.acceptance),
            "Acceptance by text",
            f"Intervals: {verbatim(row.basis)}. Strokes are single texts: requests differ more "
            "than the mean tells.",
            height=340,
        )
    with right:
        _show_survival(report, place)
        _show_gaps(report, place)
    if rows:
        st.subheader("Predicted beside measured", anchor=False)
        furniture.plain_table(errors_table(report, place))
        st.caption(
            "Run: measured speedup with its 95%; predicted: by replay with the measured v and d, "
            "with its 95%. Predicted ÷ measured − 1 of: Theorem 3.8 with i.i.d. α; replay at v=1; "
            "replay with the measured v and d."
        )
        furniture.table(comparison_table(report, place))
    furniture.table(acceptance_table(report.acceptance))
    for costs in cost_tables(report):
        furniture.table(costs)


def _errors_in_words(report: Report, place: ReportPart) -> str:
    errors = median_errors(report.comparison_of(place))
    return (
        f"Median error over γ: theorem {errors['theorem']:.0%}, replay {errors['replay']:.0%}, "
        f"replay with measured v and d {errors['replay_v']:.0%}. Bars are 95% over prompts."
    )


def _show_survival(report: Report, place: ReportPart) -> None:
    row = report.acceptance_of(place)
    gammas = [gamma for gamma in report.settings.gammas if gamma > 0]
    if not gammas:
        return
    ran = [gamma for gamma in gammas if report.run_of(place, gamma) is not None]
    gamma = max(ran or gammas)
    replayed = row.survival[report.settings.gammas.index(gamma)]
    furniture.chart(
        survival_by_position(row, replayed, report.run_of(place, gamma)),
        f"How far a draft survives, at γ={gamma}",
        "The i.i.d. line takes α for every position; replay takes each token's own chance.",
        height=340,
    )


def _show_gaps(report: Report, place: ReportPart) -> None:
    best, plain = report.best_of(place), report.run_of(place, 0)
    spec = None if best is None else report.run_of(place, best.gamma)
    if best is None or spec is None or plain is None or not plain.gap_counts:
        return
    furniture.chart(
        gap_histogram(plain, spec),
        f"Gaps between chunks, plain and at γ={best.gamma}",
        f"Tokens of one step arrive together, then a longer gap. Gap between tokens, p99: plain "
        f"{best.plain_gap_p99_ms:.2f} ms, speculative {best.gap_p99_ms:.2f} ms. The longest "
        f"gaps ({plain.gaps_beyond + spec.gaps_beyond:,}) lie beyond the axis.",
        height=340,
    )
