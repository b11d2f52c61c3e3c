"""Read my log: what a server's own telemetry says, whether a change worked, whether it fell."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture, logs, logs_beside, logs_found, logs_given  # noqa: E402
from pages.ui.logs_drift import show_drift  # noqa: E402
from pages.ui.logs_review import show_review  # noqa: E402

reading_tab, review_tab, drift_tab = st.tabs(["Read", "Did it work?", "Has it fallen?"])
with reading_tab:
    readings = logs_given.given_readings()
    if readings:
        reading = logs_given.chosen(readings)
        said = st.container()
        left, right = st.columns([9, 10], gap="medium")
        with left:
            taken = st.container()
            speed, shape = logs_beside.beside(reading)
            answers = logs.answers_of(reading, speed, shape)
            with taken:
                logs.use_in_calculator(reading, speed, shape, example=logs_given.is_example())
                logs.show_costs()
            logs.show_answers(answers)
        said.info(logs_found.headline(reading, answers), icon=":material/receipt_long:")
        with right:
            logs_found.show_charts(reading)
            logs_found.numbers(reading)
        logs_found.show_warnings(reading)
        logs_found.show_windows(reading)
        logs_found.show_tables(reading, speed, shape)
with review_tab:
    show_review()
with drift_tab:
    show_drift()
furniture.next_question("what_if", "Should I turn it on?")
