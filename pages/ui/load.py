"""One γ or a schedule, and memory, below the charts of the batch page."""

import streamlit as st

from pages.ui.furniture import verbatim
from pages.ui.launch import show_launch
from specmath.load import LoadStudy
from specmath.words.load import (
    SWITCHING_NOTES,
    memory_sentence,
    schedule_sentence,
    single_sentence,
    switching_sentence,
)


def show_memory(study: LoadStudy) -> None:
    """What the draft takes of the memory."""
    st.subheader("What the draft takes of the memory", anchor=False)
    box = st.markdown if study.tax else st.error
    box(verbatim(memory_sentence(study)))
    st.caption(
        "90% of the GPU's memory is used (vLLM's default), less weights, activations and the "
        "lookahead slots of γ tokens a sequence."
    )


def show_choice(study: LoadStudy) -> None:
    """One γ for every load; a schedule to paste only where it pays more than switching costs."""
    st.subheader("One γ, or γ by batch size", anchor=False)
    choice = study.choice
    st.markdown(verbatim(single_sentence(choice)))
    st.markdown(verbatim(schedule_sentence(choice)))
    if choice.advised:
        show_launch(choice.gamma, choice.schedule)
    elif choice.gamma:
        show_launch(choice.gamma)
    st.caption(verbatim(switching_sentence(choice)))
    for note in SWITCHING_NOTES if choice.advised else ():
        st.caption(f":material/warning: {verbatim(note)}")
