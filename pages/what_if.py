"""Should I turn it on? The verdict, its numbers, the speedup over γ, the line to paste."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.acceptance import show_range  # noqa: E402
from pages.ui.card import card, to_paste  # noqa: E402
from pages.ui.guidance import show_checklist, show_planning_ranges, show_rules  # noqa: E402
from pages.ui.pins import show_pins  # noqa: E402
from pages.ui.published import show_nearest_case  # noqa: E402
from pages.ui.rollout import show_rollout  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.charts.calculator import arithmetic_over_gamma, speedup_over_gamma  # noqa: E402
from specmath.numbers import ratio  # noqa: E402
from specmath.tables import gamma_table  # noqa: E402
from specmath.words.verdict import verdict  # noqa: E402

found = prediction()
furniture.answer(verdict(found))
with st.container(key="first"):  # on a phone its numbers come before the inputs
    left, right = st.columns([9, 11], gap="medium")
with left:
    card(found)
with right:
    furniture.chart(
        speedup_over_gamma(found),
        "Speedup over plain decoding, by drafted tokens a step",
        f"Fastest at γ={found.best_gamma}, "
        f"{ratio(float(found.curve.walltime_improvement[found.best_gamma]))}.",
        height=300,
    )
furniture.assumptions(found)
show_pins(found)
show_range(found)
to_paste(found)

st.subheader("Before you believe it", anchor=False)
show_nearest_case()
show_checklist(found)
with furniture.drawer("How to try it: what to measure before and after", "checklist",
                      "rollout") as opened:  # fmt: skip
    if opened:
        show_rollout(found)
show_rules(found)
show_planning_ranges(found)

st.subheader("The numbers and the mathematics", anchor=False)
left, right = st.columns([13, 8], gap="medium")
with left, st.container(key="wide_numbers"):
    furniture.numbers(found)
with right:
    crossing = found.crossover_gamma
    furniture.chart(
        arithmetic_over_gamma(found),
        "Speedup and arithmetic per token, by γ",
        f"From γ={crossing} on, arithmetic per token grows more than speed."
        if crossing
        else f"Arithmetic does not outgrow speed up to γ={found.speculation.cost.reach:,}.",
    )
furniture.table(gamma_table(found))
furniture.next_question("gamma", "How many tokens to draft?")
