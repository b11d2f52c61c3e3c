"""Read my log: the answers at the scenario's costs, and the way into the calculator."""

from collections.abc import Sequence

import streamlit as st

from pages.ui.furniture import safe, verbatim
from pages.ui.guidance import MARKS
from pages.ui.state import adopt, examples, prediction, scenario
from specmath.checks import InputError
from specmath.logs import Reading
from specmath.logs.answer import Answer
from specmath.logs.answers import answer_all
from specmath.logs.speed import Speed
from specmath.logs.taken import Shape, handed_on, scenario_from
from specmath.scenario.faults import in_words
from specmath.wording import significant

STATE_MARKS = MARKS | {"info": ":blue[:material/info:]"}


def answers_of(reading: Reading, speed: Speed | None, shape: Shape) -> tuple[Answer, ...]:
    """The answers with the costs of the scenario."""
    return answer_all(reading, scenario(), speed, shape)


def show_costs(gamma: int | None = None) -> None:
    """Which costs the answers take: the scenario's, at its γ or this, and whose they are."""
    found, gamma = prediction(), max(gamma or scenario().gamma, 1)
    if scenario().draft_form == "range":
        cost = f"c from {scenario().c_low:g} to {scenario().c_high:g}"
    else:
        cost = f"c = {significant(found.halves.cost.c)}"
    verified = significant(float(found.halves.cost.verify(gamma)))
    whose = "the scenario's"
    if "draft cost" in examples():
        whose = "the example's: put yours in the scenario above"
    st.caption(
        f":material/edit_note: Costs are {whose}: {cost}, verifying {gamma + 1} tokens {verified} "
        "plain steps."
    )


def show_answers(answers: Sequence[Answer]) -> None:
    """Each question with its answer; the reasons below it."""
    for answer in answers:
        mark = STATE_MARKS[answer.state]
        st.markdown(safe(f"{mark} **{answer.question}** {answer.headline}"))
        if answer.because:
            st.caption(safe("\n".join(f"- {reason}" for reason in answer.because)))


def use_in_calculator(reading: Reading, shape: Shape) -> None:
    """The acceptance of the log becomes the scenario's."""
    try:
        taken = scenario_from(reading, scenario(), shape)
        notes = handed_on(reading, scenario(), shape)
    except InputError as error:
        st.caption(f"Not for the calculator: {verbatim(in_words(str(error)))}.")
        return
    if st.button("Use in the calculator", type="primary", icon=":material/calculate:"):
        try:
            adopt(taken, still_examples={*examples()} - {"acceptance"})
        except InputError as error:
            st.error(f"{verbatim(in_words(str(error)))}. Nothing was taken over.")
            return
        st.session_state["log_taken"] = True
        st.rerun()
    for note in notes:
        st.caption(f":material/info: {verbatim(note)}.")
    if st.session_state.pop("log_taken", False):
        st.success("Taken into the scenario, with its γ.", icon=":material/check:")
