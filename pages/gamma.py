"""How many tokens to draft? α × γ, the crossover, the effect of c, the budget."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.acceptance import show_range  # noqa: E402
from pages.ui.budget import show_budget  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.charts.calculator import (  # noqa: E402
    alpha_gamma_heat,
    draft_cost_effect,
    tokens_distribution,
)
from specmath.tables import alpha_gamma_table, crossover_table, draft_cost_table  # noqa: E402
from specmath.words.answers import kinds_sentence, step_sentence  # noqa: E402
from specmath.words.verdict import verdict  # noqa: E402

found = prediction()
furniture.answer(verdict(found))
furniture.choices_of_gamma(found)

furniture.chart(
    tokens_distribution(found),
    f"How many tokens a step emits at γ={found.gamma}",
    step_sentence(found),
    height=260,
)
furniture.remarks([told] if (told := kinds_sentence(found)) else [])
furniture.assumptions(found)
show_range(found)
heat = alpha_gamma_table(found)
furniture.chart(
    alpha_gamma_heat(heat, found),
    "Speedup over acceptance and drafted tokens, at your step cost",
    "Blue is faster than plain decoding, red slower, pale about the same; the black line is the "
    "best γ at each α. Each α is taken as the same at every position.",
    height=430,
)
furniture.table(heat)

effect = draft_cost_table(found)
furniture.chart(
    draft_cost_effect(effect, found),
    "What the draft's cost does to the best γ",
    "The dearer the draft, the fewer tokens it pays to draft; the number at each point is the "
    "best γ there.",
)
furniture.table(effect)

st.subheader("Where arithmetic outgrows speed", anchor=False)
crossover = crossover_table(found)
furniture.plain_table(crossover)
st.caption(
    "Memory-bound, at your c and ĉ (Theorems 3.8 and 3.11). The crossover never decides: it marks "
    "the first γ at which arithmetic per token grows at least as much as speed. Compute-bound, "
    "every γ ≥ 1 costs more."
)
furniture.downloads(crossover)

st.subheader("Within a budget", anchor=False)
show_budget(found)
furniture.next_question("drafts", "Which draft?")
