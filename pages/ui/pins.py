"""Scenarios side by side: pin the present one, change it, and see both."""

import streamlit as st

from pages.ui.furniture import downloads, drawer, plain_table
from pages.ui.state import NOT_KNOWN, PINS, adopt, lost, pin, pins, scenario, touched
from specmath.checks import InputError
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario
from specmath.tables import compared_table

MOST = 3
"""Pinned at once: with the present one, a table that a person still reads."""


def show_pins(found: Prediction) -> None:
    """The button that pins, and what is pinned beside what is now."""
    if lost(PINS):
        st.warning(f"What was pinned in this address {NOT_KNOWN}.", icon=":material/link_off:")
    pinned = pins()
    if pinned:
        st.subheader("Side by side", anchor=False)
        _beside(pinned, found)
    kept = found.scenario in pinned
    label = "Pinned: change the scenario to compare" if kept else "Pin this scenario to compare"
    st.button(
        label,
        icon=":material/keep:",
        disabled=kept or len(pinned) >= MOST,
        on_click=_pin,
        args=((*pinned, found.scenario),),
    )


def _beside(pinned: list[Scenario], found: Prediction) -> None:
    """One row a scenario, each way back to a pinned one, and a way out."""
    named = [(f"Pinned {n}", predict(each)) for n, each in enumerate(pinned, 1)]
    shown = compared_table([*named, ("Now", found)])
    with st.container(key="wide_compared"):
        plain_table(shown)
    columns = st.columns(MOST + 1)
    for n, (column, each) in enumerate(zip(columns, pinned, strict=False), 1):
        if each != scenario():
            column.button(f"Back to pinned {n}", on_click=_back, args=(each,), width="stretch")
    columns[-1].button("Unpin all", on_click=_pin, args=((),), width="stretch")
    with drawer("Download the comparison", "download", "compared") as opened:
        if opened:
            downloads(shown)


def _pin(scenarios: tuple[Scenario, ...]) -> None:
    touched()
    pin(scenarios)


def _back(chosen: Scenario) -> None:
    touched()
    try:
        adopt(chosen)
    except InputError as error:  # of another version of the catalogues
        st.session_state["fault"] = str(error)
