"""The pieces of the page on accuracy: the record scored once, its choices, the nearest cases."""

from collections.abc import Sequence

import streamlit as st

from pages.ui import furniture
from pages.ui.state import scenario, touched
from specmath.published.nearest import coverage_of, nearest
from specmath.published.rows import Quantity
from specmath.published.score import Scored
from specmath.published.summary import BY, Summary
from specmath.tables.published import near_table
from specmath.words.published import (
    QUANTITY_WORDS,
    coverage_words,
    nearest_sentence,
    set_aside_words,
)

SHOWN: tuple[Quantity, ...] = ("speedup", "tpot_ms", "ttft_mean_ms", "itl_mean_ms", "e2e_mean_ms")
"""Quantities that something predicts."""
QUANTITIES = {QUANTITY_WORDS[name].capitalize(): name for name in SHOWN}
WAYS = {
    "Method": "method", "Engine": "engine", "Drafter": "drafter", "GPU": "gpu",
    "Load": "concurrency", "Source": "source",
}  # fmt: skip
assert {*WAYS.values()} == {*BY}


def chosen() -> tuple[Quantity, str]:
    """Which quantity is shown, and what its rows are told apart by."""
    left, right = st.columns(2)
    quantity = left.selectbox("Measured", list(QUANTITIES), key="record_of", on_change=touched)
    by = right.selectbox("Told apart by", list(WAYS), key="record_by", on_change=touched)
    return QUANTITIES[quantity], WAYS[by]


def show_near(found: Sequence[Scored]) -> None:
    """What the record holds of this scenario, and the rows nearest to it."""
    st.subheader("And for your scenario?", anchor=False)
    st.markdown(furniture.verbatim(coverage_words(coverage_of(scenario(), found))))
    if near := nearest(scenario()):
        furniture.plain_table(near_table(near))


def show_nearest_case() -> None:
    """The closest case that others measured, and the way to the rest; nothing without hardware."""
    if said := nearest_sentence(nearest(scenario(), 1)):
        st.markdown(furniture.verbatim(said))
        st.page_link(
            "pages/published.py", label="How accurate is this?", icon=":material/fact_check:"
        )


def show_set_aside(told: Summary) -> None:
    """What the figures leave out."""
    if aside := set_aside_words(told):
        st.caption(furniture.verbatim(aside))
