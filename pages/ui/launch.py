"""The command to paste, for the scenario's engine."""

import streamlit as st

from pages.ui.furniture import remarks, verbatim
from pages.ui.state import prediction
from specmath.checks import InputError
from specmath.launch import launch
from specmath.schedule import Schedule
from specmath.words.launch import origin, pasted


def show_launch(gamma: int, schedule: Schedule | None = None) -> None:
    """The line that starts the engine at γ, or with γ by batch size; or why there is none."""
    try:
        found = launch(prediction().endpoint, gamma, schedule=schedule)
    except InputError as error:
        st.caption(f":material/terminal: No line to paste: {verbatim(str(error))}.")
        return
    # No colours: those of brackets are too dark to read on a dark page.
    st.code(pasted(found), language=None, wrap_lines=True)
    remarks((origin(found.engine), *found.limits))
