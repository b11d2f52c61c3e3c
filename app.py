"""The page frame: configuration, navigation and the scenario; each page draws itself below."""

import streamlit as st

from pages.ui.bill import demand_row
from pages.ui.capacity import promise_row
from pages.ui.frame import frame
from pages.ui.furniture import said_of_link
from pages.ui.navigation import FIRST, page_of, sections
from pages.ui.scenario_bar import pending_fault, scenario_bar, withheld
from pages.ui.sidebar import sidebar
from pages.ui.state import read_link, rebuild, write_link
from pages.ui.style import style

ABOUT = (
    "**specmath**: what speculative decoding, in which a small draft proposes tokens and your "
    "model verifies them in one pass, will do to your latency and your bill."
)

# Inputs that a page has before all others. No docstring: Streamlit would print it.
ROWS = {"capacity": (promise_row, demand_row), "cost": (demand_row,)}

st.set_page_config(page_title="specmath", page_icon="⏩", layout="wide")

style()

with frame():
    chosen = st.navigation(sections())
    page = page_of(chosen)
    notices = read_link(page.stem)
    with st.container(key="head"):
        st.header(page.question, anchor=False)
        if page is FIRST:
            st.caption(ABOUT)
        said_of_link(notices)
        pending_fault()
    # Before anything shows or saves the scenario: a callback has noted what was edited.
    faults = rebuild()
    if not page.plans:
        sidebar()
        rows = ROWS.get(page.stem, ())
        scenario_bar(faults, collapsed=page.own_inputs, first=rows)
    write_link()
    if not page.own_inputs and (faults or withheld()):
        st.stop()  # nothing valid, no answer: above stands what to mend
    chosen.run()
