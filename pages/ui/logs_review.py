"""Did it work? Two runs side by side: predicted, observed, difference and the decision."""

from collections.abc import Callable

import streamlit as st

from pages.ui.furniture import downloads, plain_table, verbatim
from pages.ui.logs import given_costs
from pages.ui.logs_boxes import side
from pages.ui.state import examples, scenario
from specmath.checks import InputError
from specmath.review.before_after import Decision, Review, review
from specmath.review.planned import reading_of
from specmath.rollout import Rollout
from specmath.scenario.faults import in_words
from specmath.tables.logs import review_table
from specmath.tables.rollout import held_table
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
        "plain run will do, or the plan that How to try it writes."
    )
    sides = []
    for column, (key, label) in zip(
        st.columns(2, gap="medium"), (("before", "Before"), ("after", "After")), strict=True
    ):
        with column:
            sides.append(side(f"review_{key}", label, plain=True, plan=key == "before"))
    before, after = sides
    plan = before if isinstance(before, Rollout) else None
    planned = plan is None and st.toggle(
        "Hold it against the scenario above, as planned",
        help="Off: predicted from the acceptance in the logs and the scenario's costs.",
    )
    if before is None or after is None:
        st.info("Give both sides.", icon=":material/compare_arrows:")
        return
    try:
        if plan is not None:
            found = review([reading_of(plan)], after, plan.scenario, planned=True, plan=plan)
        else:
            base = scenario() if planned else given_costs()
            found = review(before, after, base, planned=planned)
    except InputError as error:
        st.error(f"{verbatim(in_words(str(error)))}.", icon=":material/error:")
        return
    _show(found)
    if plan is not None:
        return
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
    held = None if found.plan is None else held_table(found.plan, found.after)
    beside = pair_table(found.before, found.after) if held is None else None
    for shown in (review_table(found), held, beside):
        if shown is not None:
            plain_table(shown)
            downloads(shown)
    for warning in review_warnings(found):
        st.caption(f":material/info: {verbatim(warning)}")
