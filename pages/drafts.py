"""Which draft? Candidates in the (α, c) plane, predicted beside measured."""

from pages.ui.frame import require_frame

require_frame()

import numpy as np  # noqa: E402
import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.candidates import edited_candidates, show_drafters, show_tree, use_candidate  # noqa: E402
from pages.ui.state import scenario  # noqa: E402
from specmath.candidates import T5_SOURCE, best_speedup, evaluate  # noqa: E402
from specmath.charts import drafts_plane  # noqa: E402
from specmath.verdict import rank_drafts  # noqa: E402
from specmath.views import drafts_table  # noqa: E402

answer = furniture.answer_place()
left, right = st.columns([10, 11], gap="medium")
limit = scenario().max_gamma
with left:
    candidates = edited_candidates()
    outcomes = evaluate(candidates, limit)
    use_candidate(outcomes)
answer.info(furniture.verbatim(rank_drafts(outcomes)), icon=":material/compare:")

top = max(0.3, *(1.2 * row.c for row in candidates))
alphas, costs = np.linspace(0, 1, 101), np.linspace(0, min(top, 1.5), 61)
with right:
    furniture.chart(
        drafts_plane(outcomes, alphas, costs, best_speedup(alphas[None, :], costs[:, None], limit)),
        "Speedup (×) at the best γ, over acceptance and draft cost",
        f"Each line joins drafts of equal speedup at their best γ up to {limit} (memory-bound, "
        "Theorem 3.8). To the right and down is faster.",
        height=400,
    )
with st.container(key="narrow_drafts"):
    furniture.plain_table(drafts_table(outcomes))
st.caption(
    f"Loaded with {T5_SOURCE}, English to German, temperature 0: the theorem on the printed α and "
    "c misses the measured speedups and ranks T5-base first where T5-small was fastest. Nothing "
    "is tuned: the implied c is the one that would make the theorem exact."
)
furniture.downloads(drafts_table(outcomes))
show_drafters()
show_tree()
furniture.next_question("cost", "Cost")
