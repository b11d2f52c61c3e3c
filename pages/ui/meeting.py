"""For the meeting: the plan as a report, another plan beside it, and how to try it."""

import streamlit as st

from pages.ui import furniture
from pages.ui.state import BESIDE, NOT_KNOWN, keep_plan, kept_plan, lost
from specmath.checks import InputError
from specmath.plan.decided import PlanAnswer, decided
from specmath.plan.grid import grid_of, plan_from
from specmath.report.plan import report_bytes
from specmath.tables.plan_compared import compared_plans_table
from specmath.tables.rollout import trials_table
from specmath.words.plan import plan_sentence


def show_meeting(found: PlanAnswer) -> None:
    """The report, the plan that was kept, and the trials, each in its drawer."""
    other = _kept()
    with furniture.drawer("For the meeting: report, another plan beside it", "co_present",
                          "meeting") as opened:  # fmt: skip
        if opened:
            _report(found, other)
    if other is not None:
        st.subheader("Beside the plan kept", anchor=False)
        st.markdown(furniture.verbatim(f"Kept: {plan_sentence(other)}"))
        shown = compared_plans_table(found, other)
        with st.container(key="wide_compared_plans"):
            furniture.plain_table(shown, empty="–")
        furniture.downloads(shown)
    with furniture.drawer("How to try it: what to measure before and after", "checklist",
                          "trials") as opened:  # fmt: skip
        if opened:
            shown = trials_table(found)
            with st.container(key="wide_trials"):
                furniture.plain_table(shown)
            furniture.downloads(shown)


def _report(found: PlanAnswer, other: PlanAnswer | None) -> None:
    left, middle, right = st.columns(3)
    left.download_button(
        "Report, HTML",
        lambda: report_bytes(found, beside=other),
        "specmath-plan.html",
        "text/html",
        on_click="ignore",
        width="stretch",
        help="One file that opens offline and prints on A4; its charts save as slides.",
    )
    middle.button("Keep this plan to compare", on_click=keep_plan, args=(grid_of(found.plan),),
                  width="stretch")  # fmt: skip
    right.button("Forget the plan kept", on_click=keep_plan, args=(None,), width="stretch",
                 disabled=other is None)  # fmt: skip


def _kept() -> PlanAnswer | None:
    if lost(BESIDE):
        st.warning(f"The plan kept to compare {NOT_KNOWN}.", icon=":material/link_off:")
    grid = kept_plan()
    if grid is None:
        return None
    try:
        return decided(plan_from(grid))
    except InputError as error:  # of another version of the catalogues
        st.warning(f"The plan kept to compare: {furniture.verbatim(str(error))}.")
        return None
