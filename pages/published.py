"""How accurate is this? What others measured, beside what is predicted for it."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.published import chosen, show_near, show_set_aside  # noqa: E402
from specmath.charts.published import predicted_against_measured  # noqa: E402
from specmath.published.claims import weighed  # noqa: E402
from specmath.published.kept import kept  # noqa: E402
from specmath.published.summary import others, summarise  # noqa: E402
from specmath.tables.published import (  # noqa: E402
    claims_table,
    groups_table,
    misses_table,
    others_table,
    reasons_table,
    rows_table,
)
from specmath.words.published import headline  # noqa: E402

scored = kept()
told = summarise(scored)
furniture.say(headline(told), "fact_check")
show_near(scored)

st.subheader("Predicted against measured", anchor=False)
quantity, by = chosen()
furniture.chart(
    predicted_against_measured(scored, quantity, by),
    "Each published row: what is predicted over what was measured",
    "On the dashed line both are equal, above it the prediction is too high. Point at a row for "
    "its source. Hollow rows set a number of this product, or repeat a run.",
    height=460,
)
groups = [group for group in told.by(by) if group.quantity == quantity]
if groups:
    furniture.plain_table(groups_table(groups))
show_set_aside(told)

st.subheader("The largest misses, and why", anchor=False)
misses = misses_table(scored, quantity)
if misses:
    with st.container(key="narrow_misses"):
        furniture.plain_table(misses)

st.subheader("What is passed on, beside the record", anchor=False)
furniture.plain_table(claims_table(weighed(scored)))

if rivals := others(scored):
    st.subheader("Beside other tools, on the same rows", anchor=False)
    st.caption("Stages of a real server at a fixed request rate; mean error of each tool and ours.")
    furniture.plain_table(others_table(rivals))

st.subheader("Every row", anchor=False)
furniture.table(rows_table(scored))
furniture.plain_table(reasons_table(told))
furniture.next_question("measure", "Measure")
