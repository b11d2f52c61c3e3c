"""Which draft? Those that the target can have, and the reader's own in the (α, c) plane."""

from pages.ui.frame import require_frame

require_frame()

import streamlit as st  # noqa: E402

from pages.ui import furniture  # noqa: E402
from pages.ui.acceptance import show_range, show_record  # noqa: E402
from pages.ui.candidates import show_example, show_own  # noqa: E402
from pages.ui.hardware import offer_hardware  # noqa: E402
from pages.ui.options import show_options, show_tree  # noqa: E402
from pages.ui.state import DRAFTS, NOT_KNOWN, lost, prediction, scenario  # noqa: E402

if lost(DRAFTS):
    st.warning(f"The list of drafts of this address {NOT_KNOWN}.", icon=":material/link_off:")
served = scenario().costs.computed
answer = furniture.answer_place()
if served:
    show_options(answer)
    show_range(prediction())
    show_tree()
else:
    offer_hardware()
st.subheader("Drafts of your own, by α and c", anchor=False)
if not show_own(st.container() if served else answer) and not served:
    answer.info(
        "Which drafts your target can have follows from the model, the GPU and the load. Drafts of "
        "which you know α and c can be compared below without.",
        icon=":material/compare:",
    )
show_example()
show_record()
furniture.next_question("cost", "What will it cost?")
