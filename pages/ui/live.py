"""The part of a page that follows γ by itself: its slider, and all that stands below the inputs.

A move of γ draws these alone, where nothing else shows it. A fragment of Streamlit is what does so.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import count
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.navigation.page import StreamlitPage

from pages.ui.frame import frame
from pages.ui.scenario_bar import gamma_slider, withheld
from pages.ui.state import examples, raw, rebuild, scenario, start, write_link
from specmath.scenario import EXAMPLE

MOST = 64
"""Runs by itself before the whole page is drawn again: only that frees the files of downloads."""


def live(chosen: StreamlitPage, faults: Sequence[str], place: DeltaGenerator | None) -> None:
    """The page below the inputs, and the slider of γ in `place` among them; None where the inputs
    have it themselves. With faults only the slider: nothing valid, no answer."""
    st.session_state["around"] = _around(faults)
    with st.container(key="live"):
        _drawn(chosen, bool(faults), place, count())


@st.fragment
def _drawn(
    chosen: StreamlitPage, faulty: bool, place: DeltaGenerator | None, runs: Iterator[int]
) -> None:
    with frame():
        if run := next(runs):
            _follow(run)
        if place is not None:
            with place:
                gamma_slider()
        if faulty or withheld():
            st.stop()  # above stands what to mend
        copy(chosen).run()  # navigation lets a page run once


def _follow(run: int) -> None:
    """Take what was edited into the scenario and the address; the whole page where it must."""
    faults = rebuild()
    around = _around(faults) != st.session_state["around"]
    # An open drawer of the file holds the scenario to be saved.
    if around or faults or run >= MOST or st.session_state.get("drawer_file"):
        st.rerun()
    st.session_state["edited"] = st.session_state.pop("touched", False)
    write_link()


def _around(faults: Sequence[str]) -> tuple[Any, ...]:
    """What is shown outside of the fragment: where it has changed, the whole page is drawn."""
    state = st.session_state
    return (
        {name: value for name, value in raw().items() if name != "gamma"},
        (examples(), scenario() in (EXAMPLE, start())),
        (tuple(faults), state["withheld"], "told" in state, "fault" in state),
    )
