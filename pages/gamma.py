"""How many tokens to draft? α × γ, the crossover, the effect of c, the budget."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.budget import show_budget  # noqa: E402
from pages.ui.state import scenario  # noqa: E402
from specmath.charts import alpha_gamma_heat, draft_cost_effect  # noqa: E402
from specmath.predict import predict  # noqa: E402
from specmath.verdict import verdict  # noqa: E402
from specmath.views import alpha_gamma_table, crossover_table, draft_cost_table  # noqa: E402

prediction = predict(scenario())
furniture.answer(verdict(prediction))
furniture.choices_of_gamma(prediction)
furniture.notes(prediction.notes)

heat = alpha_gamma_table(prediction)
furniture.chart(
    alpha_gamma_heat(heat, prediction),
    "Speedup over acceptance and drafted tokens, at your step cost",
    "Blue is faster than plain decoding, red slower, pale about the same; the black line is the "
    "best γ at each α. Each α is taken as the same at every position.",
    height=430,
)
furniture.table(heat)

effect = draft_cost_table(prediction)
furniture.chart(
    draft_cost_effect(effect, prediction),
    "What the draft's cost does to the best γ",
    "The dearer the draft, the fewer tokens it pays to draft; the number at each point is the "
    "best γ there.",
)
furniture.table(effect)

st.subheader("Where arithmetic outgrows speed", anchor=False)
crossover = crossover_table(prediction)
furniture.plain_table(crossover)
st.caption(
    "The crossover never decides: it marks the first γ at which arithmetic per token grows at "
    "least as much as speed. Compute-bound, every γ ≥ 1 costs more."
)
furniture.downloads(crossover)

st.subheader("Within a budget", anchor=False)
show_budget(prediction)
furniture.next_question("drafts", "Which draft?")
