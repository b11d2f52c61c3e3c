"""How many GPUs? What a replica carries within what is promised, in both arms, and the bill."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.capacity import needs_prompts, show_pools  # noqa: E402
from pages.ui.deployments import show_search  # noqa: E402
from pages.ui.goodput import show_goodput  # noqa: E402
from pages.ui.hardware import needs_hardware  # noqa: E402
from pages.ui.state import prediction  # noqa: E402
from specmath.capacity import capacity  # noqa: E402
from specmath.charts.capacity import rate_title, rates_by_gamma, times_over_rate  # noqa: E402
from specmath.tables import (  # noqa: E402
    capacity_part,
    capacity_rates_table,
    capacity_table,
    gamma_capacity_table,
)
from specmath.words.capacity import (  # noqa: E402
    by_gamma_sentence,
    capacity_notes,
    capacity_sentence,
    crossover_sentence,
    limits_sentence,
    promise,
    table_remarks,
)

needs_hardware()
needs_prompts()
found = capacity(prediction())
shown = capacity_table(found)
furniture.say(capacity_sentence(found), "dns")
st.markdown(furniture.verbatim(limits_sentence(found)))
with st.container(key="wide_capacity"):
    part = capacity_part(shown)
    furniture.plain_table(part, middles=[column.name for column in part.columns])
furniture.downloads(shown)
furniture.remarks(table_remarks(found))
show_pools(prediction(), found)
furniture.chart(times_over_rate(found), rate_title(found), crossover_sentence(found))
furniture.table(capacity_rates_table(found))
furniture.assumptions(prediction(), capacity_notes(found))
furniture.chart(
    rates_by_gamma(found),
    f"The largest rate of one replica by γ{promise(found)}",
    by_gamma_sentence(found),
    height=300,
)
furniture.table(gamma_capacity_table(found))
show_goodput()
show_search()
furniture.next_question("cost", "What will it cost?")
