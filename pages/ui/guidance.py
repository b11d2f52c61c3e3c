"""The checklist, the rules of thumb and the planning ranges, as tables of words."""

import streamlit as st

from pages.ui.furniture import downloads, drawer, plain_table
from specmath.predict import Prediction
from specmath.tables.guidance import checklist_table, ranges_table, rules_table

MARKS = {
    "good": ":blue[:material/check_circle:]",
    "bad": ":red[:material/error:]",
    "unknown": ":orange[:material/help:]",
}


def show_checklist(prediction: Prediction) -> None:
    """The diagnostic, filled from the scenario."""
    plain_table(checklist_table(prediction), MARKS)


def show_rules(prediction: Prediction) -> None:
    """Use and skip rules, with their reasons and whether they hold here."""
    with drawer("When to use it and when to skip it", "rule", "rules") as opened:
        if opened:
            shown = rules_table(prediction)
            st.caption("Blue: the rule holds here. Red: it does not. Orange: unknown.")
            plain_table(shown, MARKS)
            downloads(shown)


def show_planning_ranges(prediction: Prediction) -> None:
    """Ranges in circulation beside the formula; contradictions shown."""
    with drawer("Planning ranges in circulation, beside the formula", "fact_check", "ranges") as o:
        if not o:
            return
        st.caption(
            "These ranges are passed on among practitioners without a published source: planning "
            "ranges, not measured. The formula is Theorem 3.8 (or 3.11 where compute-bound)."
        )
        shown = ranges_table(prediction)
        plain_table(shown)
        st.caption(
            '"γ 3 to 5 is best" holds only near c = 0.2: at α = 0.8 the best γ is 11, 8, 6, 4 for '
            "c = 0.02, 0.05, 0.1, 0.2 (Theorem 3.8)."
        )
        downloads(shown)
