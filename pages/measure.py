"""Measure: c, v and α on a model pair here; predicted beside measured; into the calculator."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture, measure, measure_results, measure_running  # noqa: E402

fault = measure_running.recall()
running, report = measure_running.job(), measure_running.measured()
answer = st.container()
if running is not None:
    measure_running.watch(running)
unfolded = running is None and (report is None or bool(measure_running.failure()))
with st.expander("What to measure", expanded=unfolded, icon=":material/straighten:"):
    measure.settings(busy=running is not None)
    st.divider()
    measure_running.open_report()

if fault:
    answer.warning(f"{fault}.", icon=":material/history:")
if report is None:
    answer.info(
        "**How fast is your pair, and is the prediction right?** Measure c, v and α on two models "
        "and your own prompts. Try the built-in pair first: it takes about a minute, offline.",
        icon=":material/straighten:",
    )
else:
    place = measure_results.chosen(report)
    with answer:
        measure_results.show_answer(report, place)
    if place is not None:
        measure_results.show_results(report, place)
furniture.next_question("what_if", "Should I turn it on?")
