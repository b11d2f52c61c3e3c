"""Memory and the schedule, below the charts of the batch page."""

import streamlit as st

from pages.ui.furniture import verbatim
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
        f"{context:,}, for vLLM's "
        "`--speculative-config` (`num_speculative_tokens_per_batch_size`); add your method and "
        "draft. Ranges leave no gap, because a gap inherits the γ before it."
    )
    first, second = st.tabs(["As a map", "As a list"])
    # No colours for JSON: its brackets are too dark to read on a dark page.
    first.code(schedule.vllm_config(), language=None, wrap_lines=True)
    second.code(schedule.vllm_config(as_list=True), language=None, wrap_lines=True)
    st.caption("Both spellings are in use: check the version you run.")
    for note in SWITCHING_NOTES:
        st.caption(f":material/warning: {verbatim(note)}")
