"""Memory and the schedule, below the charts of the batch page."""

import streamlit as st

from pages.ui.furniture import verbatim
from pages.ui.launch import show_launch
from specmath.load import LONGEST_SCHEDULE, LoadStudy
from specmath.words.load import SWITCHING_NOTES, memory_sentence


def show_memory(study: LoadStudy) -> None:
    """What the draft takes of the memory."""
    st.subheader("What the draft takes of the memory", anchor=False)
    box = st.markdown if study.tax else st.error
    box(verbatim(memory_sentence(study)))
    st.caption(
        "90% of the GPU's memory is used (vLLM's default), less weights, activations and the "
        "lookahead slots of γ tokens a sequence."
    )


def show_schedule(study: LoadStudy) -> None:
    """The recommended γ by batch, ready to paste, and what to know before using it."""
    st.subheader("A schedule to paste", anchor=False)
    schedule = study.schedule
    if not schedule.pays:
        st.markdown("No batch size that fits pays: leave speculation off.")
        return
    context = study.served.context_tokens
    full = schedule.ranges[-1].high >= LONGEST_SCHEDULE
    st.markdown(
        f"The recommended γ (smallest within 2% of the best) for each batch to "
        f"{schedule.ranges[-1].high:,}{'' if full else ', which is what memory holds,'} at context "
        f"{context:,}. Ranges leave no gap, because a gap inherits the γ before it."
    )
    show_launch(study.gamma, schedule)
    for note in SWITCHING_NOTES:
        st.caption(f":material/warning: {verbatim(note)}")
