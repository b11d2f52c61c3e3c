"""Which draft? The drafters of the hardware, and candidates in the (α, c) plane beside measured."""

from pages.ui.frame import require_frame

require_frame()

import numpy as np  # noqa: E402
import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.acceptance import show_range, show_record  # noqa: E402
from pages.ui.candidates import edited_candidates, show_drafters, show_tree, use_candidate  # noqa: E402
from pages.ui.state import prediction, scenario  # noqa: E402
from specmath.charts.calculator import drafts_plane  # noqa: E402
from specmath.drafts import (  # noqa: E402
    T5_SOURCE,
    best_speedup,
    cost_of_draft,
    evaluate,
)
from specmath.tables import drafts_table  # noqa: E402
from specmath.words.drafts import (  # noqa: E402
    drafters_sentence,
    own_cost_words,
    rank_at_own_cost,
    rank_drafts,
)

served = scenario().costs.computed
answer = furniture.answer_place()
if served:
    answer.info(furniture.verbatim(drafters_sentence(prediction())), icon=":material/compare:")
    show_drafters()
    show_range(prediction())
    show_tree()
    st.subheader("Published example, or drafts of your own by α and c", anchor=False)
    answer = st.container()

limit, cost_of = scenario().max_gamma, cost_of_draft(scenario())
own_cost = own_cost_words(cost_of(0.0), prediction().gamma)
left, right = st.columns([10, 11], gap="medium")
with left:
    candidates = edited_candidates()
    outcomes = evaluate(candidates, limit, cost_of)
    use_candidate(outcomes)
ranked = rank_drafts(evaluate(candidates, limit))
if own_cost:
    ranked = f"{rank_at_own_cost(outcomes, own_cost)} Were it memory-bound: {ranked}"
answer.info(furniture.verbatim(ranked), icon=":material/compare:")

top = max(0.3, *(1.2 * row.c for row in candidates))
alphas, costs = np.linspace(0, 1, 101), np.linspace(0, min(top, 1.5), 61)
plane = best_speedup(alphas[None, :], costs[:, None], limit, cost_of)
said = f"at your verification cost: {own_cost}" if own_cost else "memory-bound, Theorem 3.8"
with right:
    furniture.chart(
        drafts_plane(outcomes, alphas, costs, plane, memory_bound=not own_cost),
        "Speedup (×) at the best γ, over acceptance and draft cost",
        f"Each line joins drafts of equal speedup at their best γ up to {limit} ({said}). To the "
        "right and down is faster.",
        height=400,
    )
with st.container(key="narrow_drafts"):
    furniture.plain_table(drafts_table(outcomes, own_cost))
st.caption(
    f"Loaded with {T5_SOURCE}, English to German, temperature 0. Speedup, miss and implied c are "
    "Theorem 3.8 (memory-bound) at the γ shown: on the printed α and c it misses the measured "
    "speedups and ranks T5-base first where T5-small was fastest. Nothing is tuned: the implied c "
    f"is the one that would make the theorem exact. Best γ and its speedup: {said}."
)
furniture.downloads(drafts_table(outcomes, own_cost))
if not served:
    show_drafters()
show_record()
furniture.next_question("cost", "What will it cost?")
