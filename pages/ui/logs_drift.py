"""Has it fallen? Two logs of one server: since when, what it costs, what to check, a rule."""

import streamlit as st

from pages.ui.furniture import chart, drawer, safe, verbatim
from pages.ui.logs import show_costs
from pages.ui.logs_boxes import side
from pages.ui.state import scenario
from specmath.charts.logs import windows_chart
from specmath.checks import InputError
from specmath.logs.drift_answer import CHECK_FIRST, DriftAnswer, drift_answer
from specmath.logs.drift_report import RULES, alarm_sentence, alert_rule
from specmath.wording import ms, significant, usd

BOXES = {True: st.error, False: st.success, None: st.warning}
ICONS = {
    True: ":material/trending_down:",
    False: ":material/check_circle:",
    None: ":material/question_mark:",
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
        answer = drift_answer(before, after, scenario(), design_effect=_design_effect())
    except InputError as error:
        st.error(f"{verbatim(str(error))}.", icon=":material/error:")
        return
    _show(answer)
    _show_rule(answer.before.engine)


def _design_effect() -> float | None:
    """What was assumed of totals without windows; the box comes with such an answer."""
    value = st.session_state.get("drift_effect")
    return None if value is None else float(value)


def _show(answer: DriftAnswer) -> None:
    found = answer.found
    ended = found.later is not None
    box, icon = (st.warning, ICONS[True]) if ended else (BOXES[found.fallen], ICONS[found.fallen])
    box(verbatim(answer.sentence), icon=icon)
    if found.tipping is not None or found.design_effect is not None:
        st.number_input(
            "Design effect, assumed", min_value=1.0, value=None, key="drift_effect",
            placeholder="unknown", help="How many times the variance of independent steps a total "
            "has. Totals do not show it; it grows with the load.",
        )  # fmt: skip
    if answer.cost is not None and found.fallen:
        for gamma in dict.fromkeys((answer.before.gamma, answer.after.gamma)):
            show_costs(gamma)
    if found.fallen:
        left, right = st.columns([9, 10], gap="medium")
        with left:
            _table(answer)
            st.markdown(f"**{CHECK_FIRST}**")
            st.markdown("\n".join(f"- {verbatim(line)}" for line in answer.cause_lines))
        with right:
            _chart(answer)
    for note in answer.notes:
        st.caption(f":material/info: {verbatim(note)}")
    if answer.command:
        st.code(answer.command, language="bash")


def _table(answer: DriftAnswer) -> None:
    """Before and after, as far as the costs of the scenario tell."""
    found, cost = answer.found, answer.cost
    rows = [(found.measure, significant(found.before), significant(found.after))]
    if cost is not None and cost.seconds_before is not None:
        rows.append(("per token", ms(cost.seconds_before), ms(cost.seconds_after)))
    if cost is not None and cost.usd_before is not None:
        rows.append(("per million tokens", usd(cost.usd_before), usd(cost.usd_after)))
    then = "Since the fall" if found.later is None else "During the fall"
    lines = [f"| | Before | {then} |", "|---|---:|---:|"]
    lines += [f"| {name[0].upper()}{name[1:]} | {old} | {new} |" for name, old, new in rows]
    st.markdown(safe("\n".join(lines)))


def _chart(answer: DriftAnswer) -> None:
    found, after = answer.found, answer.after
    if sum(w.tokens_per_step is not None for w in after.windows) < 2:
        return
    chart(
        windows_chart(after, answer.before),
        "Tokens per step over time, current",
        f"Before: {significant(found.before)} {found.measure}. {alarm_sentence(found)}",
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
