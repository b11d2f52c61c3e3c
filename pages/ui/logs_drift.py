"""Has it fallen? Two logs of one server: since when, what it costs, what to check, a rule."""

import streamlit as st

from pages.ui.furniture import chart, downloads, drawer, plain_table, verbatim
from pages.ui.logs import given_costs, show_costs
from pages.ui.logs_boxes import side
from specmath.charts.logs import windows_chart
from specmath.checks import InputError
from specmath.numbers import significant
from specmath.review.drift_causes import RULES, Comparison, alert_rule, compare
from specmath.tables.logs import drift_table
from specmath.words.drift import (
    CHECK_FIRST,
    alarm_sentence,
    cause_line,
    drift_said,
    measure_words,
    scrape_command,
)

BOXES = {
    "bad": (st.error, ":material/trending_down:"),
    "info": (st.warning, ":material/trending_down:"),
    "good": (st.success, ":material/check_circle:"),
    "unknown": (st.warning, ":material/question_mark:"),
}


def show_drift() -> None:
    """Both logs' boxes, and the answer once both can be read."""
    st.caption(
        "Logs of one server from two times, last week's and today's, with the lines it prints now "
        "and then; or its metrics page, scraped again and again (better 50 times or more), oldest "
        "first."
    )
    left, right = st.columns(2, gap="medium")
    with left:
        before = side("drift_baseline", "Baseline")
    with right:
        after = side("drift_current", "Current")
    if before is None or after is None:
        st.info("Give both logs.", icon=":material/compare_arrows:")
        return
    try:
        pair = compare(before, after, given_costs(), design_effect=_design_effect())
    except InputError as error:
        st.error(f"{verbatim(str(error))}.", icon=":material/error:")
        return
    _show(pair)
    _show_rule(pair.before.engine)


def _design_effect() -> float | None:
    """What was assumed of totals without windows; the box comes with such an answer."""
    value = st.session_state.get("drift_effect")
    return None if value is None else float(value)


def _show(pair: Comparison) -> None:
    found, said = pair.found, drift_said(pair)
    box, icon = BOXES[said.state]
    box(verbatim(said.headline), icon=icon)
    if found.tipping is not None or found.design_effect is not None:
        st.number_input(
            "Design effect, assumed", min_value=1.0, value=None, key="drift_effect",
            placeholder="unknown", help="How many times the variance of independent steps a total "
            "has. Totals do not show it; it grows with the load.",
        )  # fmt: skip
    if found.fallen:
        _show_fall(pair)
    for note in said.because:
        st.caption(f":material/info: {verbatim(note)}")
    if command := scrape_command(pair):
        st.code(command, language="bash")


def _show_fall(pair: Comparison) -> None:
    """Before and after, as far as the costs of the scenario tell, causes and the windows."""
    if pair.cost is not None:
        for gamma in dict.fromkeys((pair.before.gamma, pair.after.gamma)):
            show_costs(gamma)
    table = drift_table(pair)
    left, right = st.columns([9, 10], gap="medium")
    with left:
        plain_table(table)
        st.markdown(f"**{CHECK_FIRST}**")
        st.markdown("\n".join(f"- {verbatim(cause_line(cause))}" for cause in pair.causes))
    with right:
        _chart(pair)
    downloads(table)


def _chart(pair: Comparison) -> None:
    found, after = pair.found, pair.after
    if sum(w.tokens_per_step is not None for w in after.windows) < 2:
        return
    chart(
        windows_chart(after, pair.before),
        "Tokens per step over time, current",
        f"Before: {significant(found.before)} {measure_words(found)}. {alarm_sentence(found)}",
        height=280,
    )


def _show_rule(engine: str) -> None:
    with drawer("A Prometheus rule that watches for it", "notifications", "drift_rule") as open_:
        if not open_:
            return
        if engine not in RULES:
            st.caption(f"None for {verbatim(engine)}: its metrics do not tell tokens per step.")
            return
        below = st.number_input(
            "Alert below this many tokens per step", min_value=1.001, value=None, key="drift_below",
            placeholder="10% below the last 7 days",
        )  # fmt: skip
        st.code(alert_rule(engine, below=below), language="yaml")
