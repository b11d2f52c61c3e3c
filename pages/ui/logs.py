"""Read my log: the answers at the scenario's costs, and the way into the calculator."""

from collections.abc import Sequence

import streamlit as st

from pages.ui.furniture import verbatim
from pages.ui.guidance import MARKS
from pages.ui.state import adopt, examples, prediction, scenario
from specmath.checks import InputError
from specmath.logs import Reading
from specmath.numbers import significant
from specmath.review.before_after import cost_unknown
from specmath.review.into_scenario import Shape, scenario_from
from specmath.review.observed import Speed
from specmath.scenario import Scenario
from specmath.scenario.faults import in_words
from specmath.scenario.files import revised
from specmath.scenario.record import UNKNOWN
from specmath.words.logs import answer_all, handed_on
from specmath.words.said import Said

STATE_MARKS = MARKS | {"info": ":blue[:material/info:]"}


def given_costs() -> Scenario:
    """The scenario of the page without what is still the example's: as on the command line, a cost
    that nobody gave is the cited range. No example value stands in an answer about a log."""
    own = scenario()
    if "draft cost" in examples():
        own = cost_unknown(own)
    timed = own.draft_form == "times"  # a cost of one's own, in target times
    return own if timed or "target time" not in examples() else revised(own, {"target_ms": None})


def answers_of(reading: Reading, speed: Speed | None, shape: Shape) -> tuple[Said, ...]:
    """The answers with the costs that were given."""
    known = [st.session_state.get(key) for key in ("log_plain_ms", "log_plain_rate")]
    given = any(value is not None for value in known)
    return answer_all(reading, given_costs(), speed, shape, plain_given=given)


def show_costs(gamma: int | None = None) -> None:
    """Which costs the answers take."""
    costs = given_costs()
    if costs.costs.cited:
        st.caption(
            f":material/edit_note: Costs nobody gave: c from {costs.c_low:g} to {costs.c_high:g}, "
            "the usual range. Put yours in the scenario above."
        )
        return
    found, gamma = prediction(), max(gamma or prediction().gamma, 1)
    verified = significant(float(found.speculation.cost.verify(gamma)))
    st.caption(
        ":material/edit_note: Costs are the scenario's: c = "
        f"{significant(found.speculation.cost.c)}, verifying {gamma + 1} tokens {verified} plain "
        "steps."
    )


def show_answers(answers: Sequence[Said]) -> None:
    """Each question with its answer; the reasons below it."""
    for answer in answers:
        mark = STATE_MARKS[answer.state]
        st.markdown(f"{mark} **{verbatim(answer.question)}** {verbatim(answer.headline)}")
        if answer.because:
            st.caption("\n".join(f"- {verbatim(reason)}" for reason in answer.because))


def use_in_calculator(
    reading: Reading, speed: Speed | None, shape: Shape, *, example: bool
) -> None:
    """The acceptance of the log becomes the scenario's; that of the example log stays one."""
    try:
        taken = scenario_from(reading, given_costs(), shape)
        notes = handed_on(reading, given_costs(), shape, speed)
    except InputError as error:
        st.caption(f"Not for the calculator: {verbatim(in_words(str(error)))}.")
        return
    if example:
        taken = taken.model_copy(update={"acceptance_source": UNKNOWN, "label": "Example log"})
    if st.button("Use in the calculator", type="primary", icon=":material/calculate:"):
        try:
            adopt(taken, still_examples=("acceptance",) if example else ())
        except InputError as error:
            st.error(f"{verbatim(in_words(str(error)))}. Nothing was taken over.")
            return
        st.session_state["log_taken"] = True
        st.rerun()
    for note in notes:
        st.caption(f":material/info: {verbatim(note)}.")
    if st.session_state.pop("log_taken", False):
        st.success("Taken into the scenario, with its γ.", icon=":material/check:")
