"""Cost: each regime's latency beside its cost, the bill in whole replicas."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.bill import show_bill, show_cost_over_batch, show_millisecond  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.charts.calculator import cost_over_gamma  # noqa: E402
from specmath.tables import beside, regime_costs, regime_table  # noqa: E402
from specmath.words.answers import cost_sentence  # noqa: E402
from specmath.words.verdict import verdict  # noqa: E402

found = prediction()
furniture.answer(verdict(found))
st.markdown(furniture.verbatim(cost_sentence(found)))
furniture.assumed(found)

regimes = regime_table(found)
with st.container(key="narrow_regimes"):
    furniture.plain_table(regimes)
furniture.chart(
    cost_over_gamma(regime_costs(found), found.gamma),
    "Cost per token against plain decoding, by γ",
    "Below the grey line speculation is cheaper. Compute-bound, every γ ≥ 1 costs more. The same "
    "price and the same batch in every regime, so cost follows time: a compute-bound server is "
    "slower by the factor that it costs more. The two ends are Theorems 3.8 and 3.11.",
)
furniture.downloads(regimes, beside("regimes", found))
furniture.notes(found)
show_cost_over_batch(found)
show_millisecond(found)
show_bill(found)
furniture.next_question("what_if", "Should I turn it on?")
