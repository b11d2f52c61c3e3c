"""Which endpoints? A plan: what to do with each, with which γ, and what all of them cost."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.meeting import show_meeting  # noqa: E402
from pages.ui.plan import edited, file_drawer, is_example, say_faults  # noqa: E402
from pages.ui.state import NOT_KNOWN, PLAN, lost  # noqa: E402
from specmath.charts.plan import day_chart, plan_chart  # noqa: E402
from specmath.checks import InputError  # noqa: E402
from specmath.numbers import count  # noqa: E402
from specmath.plan.decided import PlanAnswer, decided  # noqa: E402
from specmath.tables.plan import (  # noqa: E402
    AGAINST,
    days_table,
    endpoints_part,
    endpoints_table,
    segments_part,
    segments_table,
)
from specmath.tables.plan_live import live_plan_table, plan_text  # noqa: E402
from specmath.tables.plan_ways import MIDDLES, ways_part, ways_table  # noqa: E402
from specmath.words.plan import (  # noqa: E402
    EXAMPLE_NOTE,
    chart_sentence,
    day_sentence,
    endpoint_said,
    plan_notes,
    plan_sentence,
    segments_sentence,
    ways_sentence,
)


def show(found: PlanAnswer) -> None:
    """The answer, a row an endpoint, their times, and why."""
    furniture.say(plan_sentence(found), "lan")
    if is_example():
        furniture.remarks((EXAMPLE_NOTE,))
    shown = endpoints_table(found)
    with st.container(key="wide_plan"):
        furniture.plain_table(endpoints_part(shown), against=AGAINST)
    st.caption("Plain decoding → with γ, its range in brackets; GPUs and dollars as planned.")
    furniture.downloads(live_plan_table(found), about=plan_text(found.plan))
    left, right = st.columns([11, 10], gap="medium")
    with left:
        furniture.chart(plan_chart(found), "Time per token of each endpoint, p50 and p99",
                        chart_sentence(found))  # fmt: skip
    with right:
        for answer in found.endpoints:
            said = endpoint_said(answer)
            with st.expander(f"**{furniture.verbatim(said.question)}**: "
                             f"{furniture.verbatim(said.headline)}"):  # fmt: skip
                st.markdown(furniture.verbatim(" ".join(said.because)))
    show_meeting(found)
    told = plan_notes(found)
    furniture.folded((count(len(told), "note"),), told)
    show_segments(found)
    show_ways(found)
    for answer in found.endpoints:
        if answer.day is not None:
            st.subheader("Over the day", anchor=False)
            furniture.chart(day_chart(answer), f"Time per token of {answer.endpoint.name} over the "
                            "day, on a fixed fleet", day_sentence(answer), height=300)  # fmt: skip
    if any(answer.day is not None for answer in found.endpoints):
        furniture.table(days_table(found))


def show_segments(found: PlanAnswer) -> None:
    """Each kind of request, and what one γ for all costs it."""
    st.subheader("Segments", anchor=False)
    shown = segments_table(found)
    with st.container(key="wide_segments"):
        furniture.plain_table(segments_part(shown))
    furniture.remarks(
        [f"{a.endpoint.name}: {segments_sentence(a)}" for a in found.endpoints
         if len(a.segments) > 1]
    )  # fmt: skip
    furniture.downloads(shown)


def show_ways(found: PlanAnswer) -> None:
    """One γ for all, one for each request, or dedicated replicas, of each mixed endpoint."""
    if not any(answer.ways for answer in found.endpoints):
        return
    st.subheader("Mixed endpoints: one γ for all, or more", anchor=False)
    shown = ways_table(found)
    with st.container(key="wide_ways"):
        furniture.plain_table(ways_part(shown), middles=MIDDLES, empty="–")
    told = [(a.endpoint.name, ways_sentence(a)) for a in found.endpoints]
    furniture.remarks([f"{name}: {said}" for name, said in told if said])
    furniture.downloads(shown)


if lost(PLAN):
    st.warning(f"The plan of this address {NOT_KNOWN}.", icon=":material/link_off:")
plan, faults = edited()
file_drawer(plan)
if plan is None:
    say_faults(faults)
else:
    try:
        found = decided(plan)
    except InputError as error:
        say_faults([str(error)])
    else:
        show(found)
furniture.next_question("capacity", "How many GPUs?")
