"""What is promised and what it needs, on the page of how many GPUs."""

import streamlit as st

from pages.ui import furniture
from pages.ui.state import scenario
from pages.ui.widgets import number
from specmath.capacity import Capacity, aggregated
from specmath.predict import Prediction
from specmath.tables import pools_table
from specmath.words.capacity import NEEDS_PROMPTS
from specmath.words.pools import together_sentence


def promise_row() -> None:
    """What is promised: times that a request may take in the mean."""
    with st.container(key="promise"):
        boxes = st.columns(3, vertical_alignment="bottom")
        for column, name in zip(boxes, ("slo_tpot_ms", "slo_ttft_ms", "slo_e2e_ms"), strict=True):
            with column:
                number(name, empty="no promise")


def needs_prompts() -> None:
    """A request rate needs the prompts' length: stop until then."""
    if scenario().prompt_tokens is None:
        furniture.say(NEEDS_PROMPTS, "forum")
        st.stop()


def show_pools(prediction: Prediction, found: Capacity) -> None:
    """Where others read the prompts: the same demand on replicas that read their own."""
    if found.plain.prefill is None or found.demand is None:
        return
    together = aggregated(prediction, found)
    shown = pools_table(found, together)
    st.markdown(f"**{furniture.verbatim(shown.title)}**")
    st.markdown(furniture.verbatim(together_sentence(found, together)))
    with st.container(key="wide_pools"):
        furniture.plain_table(shown, middles=[column.name for column in shown.columns])
    furniture.downloads(shown)
