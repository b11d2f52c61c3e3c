"""Measure: the answer of a report, its charts, its tables, its files, the way to the calculator."""

from typing import Any

import streamlit as st

from pages.ui import furniture
from pages.ui.furniture import verbatim
from pages.ui.measure_choices import forget, kept, kept_value
from pages.ui.state import adopt
from specmath.charts.measure import (
    alpha_by_segment,
    gap_histogram,
    speedup_beside,
    survival_by_position,
)
from specmath.checks import InputError
from specmath.measure.files import report_csv, write_report
from specmath.measure.report import Report
from specmath.measure.to_scenario import to_scenario
from specmath.views.measured import (
    Place,
    acceptance_of,
    acceptance_table,
    comparison_at_best,
    comparison_of,
    comparison_table,
    cost_table,
    error_rows,
    headline,
    median_errors,
    places,
    run_of,
    where_measured,
)

LABELS = {"all": "all texts"}
MARKS = {
    "good": ":green[:material/check_circle:]",
    "note": ":material/info:",
}


def show_answer(report: Report, place: Place | None) -> None:
    """The outcome, whether all was finished, where it was measured, what the self-check says."""
    for check in report.checks:
        if check.level == "bad":
            st.error(f"**{verbatim(check.message)}**", icon=":material/error:")
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
        where = "" if place.segment == "all" else f", {verbatim(place.segment)}"
        st.info(
            f"**At T={place.temperature:g}{where}: {outcome}** {numbers}",
            icon=":material/straighten:",
        )
    st.caption(f":material/computer: {verbatim(where_measured(report))}{_clock(report)}")
    _show_checks(report)


def _clock(report: Report) -> str:
    if report.settings.clock == "wall":
        return ""
    return (
        " Times of the pair are processor time of its one thread, which other programs hardly "
        "change."
    )


def _show_checks(report: Report) -> None:
    """The self-check in its own words; what is bad stands above in a box of its own."""
    lines = [f"{MARKS[c.level]} {verbatim(c.message)}" for c in report.checks if c.level in MARKS]
    if lines:
        st.caption("  \n".join(lines))


def chosen(report: Report) -> Place | None:
    """Temperature and segment to look at; None where the report holds no acceptance."""
    found = places(report)
    if not found:
        return None
    temperatures = list(dict.fromkeys(place.temperature for place in found))
    left, right, button, files = st.columns([2, 2, 3, 3], vertical_alignment="bottom")
    with left:
        temperature = _choice("temperature", temperatures, temperatures[-1], "Temperature")
    segments = [place.segment for place in found if place.temperature == temperature]
    with right:
        segment = _choice("segment", segments, segments[0], "Text")
    place = Place(segment, temperature)
    with button:
        _use(report, place)
    with files:
        _files(report)
    return place


def _choice(name: str, options: list[Any], default: Any, label: str) -> Any:
    """A choice that another report may not have: it then starts again."""
    if kept_value(name, default) not in options:
        forget(name)
    show = {"temperature": lambda t: f"T = {t:g}", "segment": lambda s: LABELS.get(s, s)}[name]
    return kept(name, default, st.selectbox, label, options, format_func=show)


def _use(report: Report, place: Place) -> None:
    gammas = report.settings.gammas
    if not set(range(max(gammas))) <= {0, *gammas}:
        st.caption("The calculator takes v between the γ measured on a line.")
    if not st.button("Use in the calculator", icon=":material/toggle_on:", width="stretch"):
        return
    try:
        adopt(to_scenario(report, segment=place.segment, temperature=place.temperature))
    except InputError as error:
        st.error(f"{verbatim(str(error))}.")
        return
    st.switch_page("pages/what_if.py")


def _files(report: Report) -> None:
    json, csv = st.columns(2)
    stem = f"specmath-measured-{report.created[:10]}"
    json.download_button(
        "JSON", lambda: write_report(report), f"{stem}.json", "application/json",
        icon=":material/download:", on_click="ignore", width="stretch",
        help="The whole report; this page opens it again.",
    )  # fmt: skip
    csv.download_button(
        "CSV", lambda: report_csv(report), f"{stem}.csv", "text/csv",
        icon=":material/download:", on_click="ignore", width="stretch",
        help="Predicted beside measured, a row for each text, temperature and γ.",
    )  # fmt: skip


def show_results(report: Report, place: Place) -> None:
    """Four charts and the tables behind them."""
    row, rows = acceptance_of(report, place), comparison_of(report, place)
    left, right = st.columns(2, gap="medium")
    with left:
        if rows:
            furniture.chart(
                speedup_beside(rows, [run_of(report, place, each.gamma) for each in rows]),
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
        _show_errors(report, place)
        furniture.table(comparison_table(rows))
    furniture.table(acceptance_table(report.acceptance))
    costs = cost_table(report)
    if costs is not None:
        furniture.table(costs)


def _errors_in_words(report: Report, place: Place) -> str:
    errors = median_errors(comparison_of(report, place))
    return (
        f"Median error over γ: theorem {errors['theorem']:.0%}, replay {errors['replay']:.0%}, "
        f"replay with measured v and d {errors['replay_v']:.0%}. Bars are 95% over prompts."
    )


def _show_errors(report: Report, place: Place) -> None:
    heads = ("γ", "Run", "Theo&shy;rem", "Replay", "with v, d")  # narrow enough for a phone
    lines = [f"| {' | '.join(heads)} |", "|---:|---:|---:|---:|---:|"]
    lines += [f"| {' | '.join(cells)} |" for cells in error_rows(report, place)]
    st.markdown("\n".join(lines))
    st.caption(
        "Run: measured speedup with its 95%. Theorem 3.8 with i.i.d. α; replay at v = 1; replay "
        "with the measured v and d. In brackets: predicted ÷ measured − 1."
    )


def _show_survival(report: Report, place: Place) -> None:
    row = acceptance_of(report, place)
    gammas = [gamma for gamma in report.settings.gammas if gamma > 0]
    if not gammas:
        return
    ran = [gamma for gamma in gammas if run_of(report, place, gamma) is not None]
    gamma = max(ran or gammas)
    replayed = row.survival[report.settings.gammas.index(gamma)]
    furniture.chart(
        survival_by_position(row, replayed, run_of(report, place, gamma)),
        f"How far a draft survives, at γ={gamma}",
        "The i.i.d. line takes α for every position; replay takes each token's own chance.",
        height=340,
    )


def _show_gaps(report: Report, place: Place) -> None:
    best, plain = comparison_at_best(report, place), run_of(report, place, 0)
    spec = None if best is None else run_of(report, place, best.gamma)
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
