"""Did it work? Two runs side by side: predicted, observed, difference and the decision."""

from collections.abc import Callable

import streamlit as st

from pages.ui.furniture import downloads, plain_table, verbatim
from pages.ui.logs import given_costs
from pages.ui.logs_boxes import side
from pages.ui.state import examples, scenario
from specmath.checks import InputError
from specmath.review.before_after import Decision, Review, review
from specmath.scenario.faults import in_words
from specmath.tables.logs import review_table
from specmath.tables.service import pair_table
from specmath.words.review import review_said, review_warnings

BOXES: dict[Decision, tuple[Callable[..., object], str]] = {
    "keep": (st.success, ":material/check_circle:"),
    "roll back": (st.error, ":material/undo:"),
    "change": (st.info, ":material/tune:"),
    "cannot tell": (st.warning, ":material/hourglass_top:"),
    "not comparable": (st.warning, ":material/difference:"),
}


def show_review() -> None:
    """Both sides' boxes, and the decision once both can be read."""
    st.caption(
        "Two benchmark results (several runs of each give a better interval), metrics pages or "
        "logs of any engine, of the same load before and after. Before needs only its speed: a "
        "plain run will do."
    )
    sides = []
    for column, (key, label) in zip(
        st.columns(2, gap="medium"), (("before", "Before"), ("after", "After")), strict=True
    ):
        with column:
            sides.append(side(f"review_{key}", label, plain=True))
    planned = st.toggle(
        "Hold it against the scenario above, as planned",
        help="Off: predicted from the acceptance in the logs and the scenario's costs.",
    )
    if sides[0] is None or sides[1] is None:
        st.info("Give both sides.", icon=":material/compare_arrows:")
        return
    try:
        base = scenario() if planned else given_costs()
        found = review(sides[0], sides[1], base, planned=planned)
    except InputError as error:
        st.error(f"{verbatim(in_words(str(error)))}.", icon=":material/error:")
        return
    _show(found)
    if "draft cost" in examples() or (planned and examples()):
        st.caption(f":material/edit_note: {_whose(planned)}")


def _whose(planned: bool) -> str:
    """Whose values the prediction rests on while the scenario is the example, or part of it is."""
    if planned:
        return (
            f"The {' and '.join(examples())} of the scenario above are still the example's: that "
            "is no plan of yours."
        )
    return "The draft cost of the scenario above is still the example's, so it is not used here."


def _show(found: Review) -> None:
    said = review_said(found)
    box, icon = BOXES[found.decision]
    box(f"**{verbatim(said.headline)}**", icon=icon)
    if said.because:
        st.markdown("\n".join(f"- {verbatim(reason)}." for reason in said.because))
    for shown in (review_table(found), pair_table(found.before, found.after)):
        if shown is not None:
            plain_table(shown)
            downloads(shown)
    for warning in review_warnings(found):
        st.caption(f":material/info: {verbatim(warning)}")
