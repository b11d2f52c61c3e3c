"""Read my log: what a server's own telemetry says, and whether a change worked."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture, logs  # noqa: E402
from pages.ui.logs_review import show_review  # noqa: E402

reading_tab, review_tab = st.tabs(["Read", "Did it work?"])
with reading_tab:
    readings = logs.given_readings()
    if readings:
        reading = logs.chosen(readings)
        said = st.container()
        speed, shape = logs.beside(reading)
        answers = logs.answers_of(reading, speed, shape)
        with said:
            st.info(logs.headline(reading, answers), icon=":material/receipt_long:")
            button, costs = st.columns([1, 2], vertical_alignment="center")
            with costs:
                logs.show_costs()
            with button:
                logs.use_in_calculator(reading, shape)
        left, right = st.columns([9, 10], gap="medium")
        with left:
            logs.show_answers(answers)
        with right:
            logs.show_charts(reading)
            logs.numbers(reading)
        logs.show_warnings(reading)
        logs.show_windows(reading)
        logs.show_tables(reading, shape)
with review_tab:
    show_review()
furniture.next_question("what_if", "Should I turn it on?")
