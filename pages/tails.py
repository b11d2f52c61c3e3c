"""Slow requests (p99): a request's time in both arms, and the gaps between its tokens."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.charts.tails import request_times  # noqa: E402
from specmath.tables import (  # noqa: E402
    gap_tools_table,
    quantiles_table,
    tails_part,
    tails_table,
)
from specmath.tails import tails  # noqa: E402
from specmath.words.tails import (  # noqa: E402
    curve_words,
    gaps_words,
    maths_lines,
    tail_notes,
    tail_sentence,
)

found = tails(prediction())
shown = tails_table(found)
furniture.say(tail_sentence(found), "hourglass_bottom")
with st.container(key="first"):  # on a phone its numbers come before the inputs
    left, right = st.columns([10, 11], gap="medium")
with left, st.container(key="answer_card"), st.container(key="wide_tails"):
    furniture.plain_table(tails_part(shown, "request", "decode"))
with right:
    furniture.chart(
        request_times(found),
        f"How long requests take, at γ={found.gamma}",
        curve_words(found),
        height=300,
    )
furniture.table(quantiles_table(found))
furniture.assumptions(prediction(), tail_notes(found))
with furniture.drawer("Show the maths", "function", "maths") as opened:
    if opened:
        furniture.remarks(maths_lines(found))

st.subheader("Gaps between tokens", anchor=False)
st.markdown(furniture.verbatim(gaps_words(found)))
with st.container(key="wide_gaps"):
    furniture.plain_table(tails_part(shown, "gap"))
furniture.downloads(shown)
with furniture.drawer("Which tool means which", "help", "gap_tools") as opened:
    if opened:
        furniture.plain_table(gap_tools_table())
furniture.next_question("capacity", "How many GPUs?")
