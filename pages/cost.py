"""What will it cost? The bill first, then cost over load, over γ, and each regime's."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.bill import show_bill, show_cost_over_load, show_millisecond  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.bill import bill  # noqa: E402
from specmath.charts.calculator import cost_over_gamma  # noqa: E402
from specmath.tables import beside, regime_costs, regime_table  # noqa: E402
from specmath.words.answers import cost_sentence  # noqa: E402
from specmath.words.bill import bill_sentence  # noqa: E402

found = prediction()
billed = bill(found)
furniture.say(bill_sentence(found, billed), "payments")
show_bill(found, billed)
furniture.assumptions(found)
show_cost_over_load(found)
show_millisecond(found)

st.subheader("Where the server stands between the two theorems", anchor=False)
st.markdown(furniture.verbatim(cost_sentence(found)))
regimes = regime_table(found)
with st.container(key="narrow_regimes"):
    furniture.plain_table(regimes)
furniture.downloads(regimes, beside("regimes", found))
furniture.chart(
    cost_over_gamma(regime_costs(found), found.gamma),
    "Cost per token against plain decoding, by γ",
    "Below the grey line speculation is cheaper. Compute-bound, every γ ≥ 1 costs more. The same "
    "price and the same batch in every regime, so cost follows time: a compute-bound server is "
    "slower by the factor that it costs more. The two ends are Theorems 3.8 and 3.11.",
)
furniture.next_question("what_if", "Should I turn it on?")
