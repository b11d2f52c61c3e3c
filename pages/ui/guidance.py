"""The checklist, the rules of thumb and the planning ranges, as tables of words."""

import streamlit as st

from pages.ui.furniture import drawer, safe
from specmath.guidance import checklist, planning_ranges, rules
from specmath.predict import Prediction
from specmath.wording import ratio

MARKS = {
    "good": ":blue[:material/check_circle:]",
    "bad": ":red[:material/error:]",
    "unknown": ":orange[:material/help:]",
}
HOLDS = {"good": "holds", "bad": "does not hold", "unknown": "unknown"}


def show_checklist(prediction: Prediction) -> None:
    """The diagnostic, filled from the scenario."""
    lines = ["| | Question | Answer |", "|---|---|---|"]
    for check in checklist(prediction):
        lines.append(f"| {MARKS[check.state]} | {check.question} | {check.answer} |")
    st.markdown(safe("\n".join(lines)))


def show_rules(prediction: Prediction) -> None:
    """Use and skip rules, with their reasons and whether they hold here."""
    with drawer("When to use it and when to skip it", "rule", "rules") as opened:
        if not opened:
            return
        lines = ["| | When | Because | Here |", "|---|---|---|---|"]
        for rule in rules(prediction):
            here = f"{HOLDS[rule.state]} ({rule.here})"
            lines.append(f"| {rule.advice.capitalize()} | {rule.when} | {rule.because} | {here} |")
        st.markdown(safe("\n".join(lines)))


def show_planning_ranges(prediction: Prediction) -> None:
    """Ranges in circulation beside the formula; contradictions shown."""
    title = "Planning ranges in circulation, beside the formula"
    with drawer(title, "fact_check", "ranges") as opened:
        if not opened:
            return
        st.caption(
            "These ranges are passed on among practitioners without a published source: planning "
            "ranges, not measured. The formula is Theorem 3.8 (or 3.11 where compute-bound)."
        )
        lines = ["| Case | Range | Formula | With | |", "|---|---|---|---|---|"]
        for row in planning_ranges(prediction):
            low, high = ratio(row.formula_low), ratio(row.formula_high)
            formula = low if low == high else f"{low} to {high}"
            lines.append(
                f"| {row.case} | {row.claim} | {formula} | {row.inputs} | {row.agreement} |"
            )
        st.markdown(safe("\n".join(lines)))
        st.caption(
            '"γ 3 to 5 is best" holds only near c = 0.2: at α = 0.8 the best γ is 11, 8, 6, 4 for '
            "c = 0.02, 0.05, 0.1, 0.2 (Theorem 3.8)."
        )
