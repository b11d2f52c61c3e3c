"""Read my log: what a server's own telemetry says, whether a change worked, whether it fell."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture, logs  # noqa: E402
from pages.ui.logs_drift import show_drift  # noqa: E402
from pages.ui.logs_review import show_review  # noqa: E402

reading_tab, review_tab, drift_tab = st.tabs(["Read", "Did it work?", "Has it fallen?"])
with reading_tab:
    readings = logs.given_readings()
    if readings:
        reading = logs.chosen(readings)
        said = st.container()
        left, right = st.columns([9, 10], gap="medium")
        with left:
            taken = st.container()
            speed, shape = logs.beside(reading)
            answers = logs.answers_of(reading, speed, shape)
            with taken:
                logs.use_in_calculator(reading, shape)
                logs.show_costs()
            logs.show_answers(answers)
        said.info(logs.headline(reading, answers), icon=":material/receipt_long:")
        with right:
            logs.show_charts(reading)
            logs.numbers(reading)
        logs.show_warnings(reading)
        logs.show_windows(reading)
        logs.show_tables(reading, shape)
with review_tab:
    show_review()
with drift_tab:
    show_drift()
furniture.next_question("what_if", "Should I turn it on?")
