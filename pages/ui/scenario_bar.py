"""The scenario above each page: acceptance, γ, draft, verification."""

from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.furniture import verbatim
from pages.ui.hardware import hardware_row, lengths_row, more
from pages.ui.state import (
    PREFIX,
    adopt,
    begin_at,
    examples,
    forget,
    prediction,
    raw,
    scenario,
    set_raw,
    start,
    touched,
)
from pages.ui.widgets import choice, number, slider, text
from specmath.checks import InputError
from specmath.logs import LogError, read, read_rates
from specmath.numbers import significant
from specmath.rates import read_rates as read_rate_list
from specmath.review.into_scenario import scenario_from
from specmath.scenario import EXAMPLE
from specmath.scenario.faults import in_words
from specmath.scenario.files import as_text
from specmath.scenario.forms import ACCEPTANCE, COST, Hardware, Recorded, Times
from specmath.stepcost import sigma_from_verify_cost, verify_cost_from_sigma


def scenario_bar(
    faults: Sequence[str], *, collapsed: bool, first: Sequence[Callable[[], None]] = ()
) -> DeltaGenerator | None:
    """Draw the inputs and say what is wrong with any of them; `first`: rows of a page's own.

    With hardware and not collapsed, all but γ: the place where its slider is to be drawn.
    """
    left = examples()
    mark = f" :orange-badge[Example values left: {', '.join(left)}]" if left else ""
    if scenario() in (EXAMPLE, start()) and left:
        mark = " :orange-badge[Example: replace these values]"
    expanded = not collapsed
    # A key for each: one that was drawn closed on an evidence page would stay closed on the next.
    key = "bar" if expanded else "bar_closed"
    with st.expander(f"Scenario{mark}", expanded=expanded, icon=":material/tune:", key=key):
        for row in first:
            row()
        _doors()
        gamma = (_served if raw()["draft_form"] == Hardware.name else _given)()
        for fault in faults:
            st.error(
                f"{verbatim(in_words(fault))}. There is no answer until this is mended; all inputs "
                "are kept."
            )
    if gamma is not None and collapsed:
        with gamma:
            gamma_slider()
        return None
    return gamma


def gamma_slider() -> None:
    """The slider of γ, at the recommended one until another is given."""
    slider("gamma", idle=prediction().gamma)


def _doors() -> None:
    """What the reader starts from; a log and a measurement have pages of their own."""
    forms, log, measurement, rest = st.columns([50, 17, 20, 13], vertical_alignment="center")
    key, current = f"{PREFIX}draft_form|door", raw()["draft_form"]
    st.session_state[key] = current
    with forms:
        st.segmented_control(
            "Start from", list(DOORS), key=key, format_func=DOORS.__getitem__, required=True,
            label_visibility="collapsed", on_change=_enter, args=(key,),
        )  # fmt: skip
    log.page_link("pages/logs.py", label="A server log", icon=":material/receipt_long:")
    measurement.page_link("pages/measure.py", label="A measurement", icon=":material/straighten:")
    if raw()["draft_form"] == Hardware.name:
        with rest:
            more()


DOORS = {
    "hardware": "GPU and models",
    "times": "Two times",
    "ratio": "Cost c",
    "range": "Unknown c",
}
"""The forms of the draft's cost, the one of most people first."""
assert {*DOORS} == {*COST}


def _enter(key: str) -> None:
    """By a door; whoever has given nothing yet finds the example of each behind it."""
    chosen = st.session_state[key]
    if scenario() in (EXAMPLE, start()) and chosen in (Times.name, Hardware.name):
        begin_at(EXAMPLE if chosen == Times.name else start())
    else:
        set_raw("draft_form", chosen)


def _served() -> DeltaGenerator:
    """What serves what, under which load, and how often it accepts; the place of γ."""
    hardware_row()
    lengths, acceptance, gamma = st.columns([21, 57, 22], vertical_alignment="bottom")
    with lengths, st.container(key="load"):
        lengths_row()
    with acceptance:
        _acceptance()
    return gamma


def _given() -> None:
    """Acceptance and costs that the reader has."""
    acceptance, gamma, draft, verification = st.columns([24, 16, 24, 19])
    with acceptance:
        choice("acceptance_form")
        _ACCEPTANCE_WIDGETS[raw()["acceptance_form"]]()
    with gamma:
        gamma_slider()
    with draft:
        _DRAFT_WIDGETS[raw()["draft_form"]]()
    with verification:
        choice("verify_form")
        _VERIFY_WIDGETS[raw()["verify_form"]]()


def _acceptance() -> None:
    """The form and its values side by side."""
    form, values = st.columns([10, 13], vertical_alignment="bottom")
    with form:
        choice("acceptance_form")
    with values:
        _ACCEPTANCE_WIDGETS[raw()["acceptance_form"]]()


def _measured_number() -> None:
    value, at = st.columns([3, 2], vertical_alignment="bottom")
    with value:
        number(raw()["acceptance_form"])
    with at:
        number("measured_gamma", label="at γ")


def _workload() -> None:
    choice("workload")
    st.caption("What others measured, by kind of draft.")


def _alpha_range() -> None:
    """The kind of work, and its ends by what others measured until one's own are typed."""
    stands = scenario().accepts
    low, _, high = stands.ends(scenario()) if isinstance(stands, Recorded) else (None,) * 3
    work, ends = st.columns([6, 5], vertical_alignment="bottom")
    with work:
        choice("work")
    told = "not known" if low is None or high is None else f"α {low:.2g}–{high:.2g}"
    with ends, st.popover(told, width="stretch"):
        st.caption("What others measured, until you type your own ends.")
        for name, end in (("alpha_low", low), ("alpha_high", high)):
            number(name, empty="unknown" if end is None else significant(end, 2))


def _two_numbers(*names: str) -> None:
    for column, name in zip(st.columns(2), names, strict=True):
        with column:
            number(name)


def _take_rates_or_log(name: str, key: str) -> None:
    """Rates as they are; any other log gives what it carries (a share, a length, a histogram)."""
    pasted = st.session_state[key]
    try:
        rates = read_rates(pasted)
    except InputError:
        if not _take_log(pasted):
            set_raw(name, pasted)  # the record says what is wrong with it
        return
    # A list stays as it was typed; of a log its numbers stand there.
    set_raw(name, pasted if read_rate_list(pasted) else as_text(rates))


def _take_log(pasted: str) -> bool:
    """Whether the text is a log at all; one that gives no acceptance is refused with the reason."""
    try:
        reading = read(pasted)[-1]
    except LogError:
        return False
    try:
        adopt(scenario_from(reading, scenario()), still_examples={*examples()} - {"acceptance"})
    except InputError as error:
        st.session_state["fault"] = str(error)
        forget("rates")
        return True
    st.session_state["told"] = (
        f"Read from the log ({reading.engine}, {reading.format}): it carries no per-position "
        "rates, so the form of acceptance is what it does carry. More on “Read my log”."
    )
    return True


_ACCEPTANCE_WIDGETS = {
    "alpha": lambda: slider("alpha"),
    **{name: _measured_number for name, form in ACCEPTANCE.items() if form.measured},
    "survival": lambda: text("rates", area=True, taken=_take_rates_or_log),
    "conditional": lambda: text("rates"),
    "mixture": lambda: text("mixture"),
    "workload": _workload,
    "range": _alpha_range,
}
_DRAFT_WIDGETS = {
    "times": lambda: _two_numbers("target_ms", "draft_ms"),
    "ratio": lambda: slider("c"),
    "range": lambda: _two_numbers("c_low", "c_high"),
}


def _slope() -> None:
    """v at the γ in use, kept as its slope σ: moving γ moves v along the same line.

    While a wrong γ is typed, v of the last right one: a box that goes while the page has no answer
    would come back empty, which says "unknown".
    """
    gamma = prediction().gamma
    if gamma < 1:
        st.caption("Verification cost: 1 plain step at γ=0.")
        return
    sigma, top = raw()["sigma"], float(gamma + 1)
    typed, slid = f"field_sigma|{gamma}", f"field_sigma|{gamma}|slider"
    cost = None if sigma is None else round(verify_cost_from_sigma(sigma, gamma), 4)
    st.session_state.setdefault(typed, cost)
    start = st.session_state.setdefault(slid, min(max(cost or 1.0, 1.0), top))
    text = (
        f"Verification cost: a pass over γ+1 = {gamma + 1} tokens costs this many plain steps. "
        f"1 = memory-bound, {gamma + 1} = compute-bound. At 1, without an overhead, what a step "
        "costs besides drafting is open. Leave the box empty if you don't know either end."
    )
    wide, narrow = st.columns([3, 2], vertical_alignment="bottom")
    label = f"v of {gamma + 1} tokens"
    with wide:
        st.slider(
            label,
            1.0,
            top,
            start,
            key=slid,
            step=0.05,
            help=text,
            on_change=_take_cost,
            args=(slid, gamma),
        )
    with narrow:
        st.number_input(
            f"{label}, typed",
            key=typed,
            value=None,  # emptied, it says "unknown"
            step=0.1,
            format="%.6g",
            placeholder="unknown",
            label_visibility="collapsed",
            on_change=_take_cost,
            args=(typed, gamma),
        )
    st.caption(f"in plain steps: 1 = memory-bound, {gamma + 1} = compute-bound")


def _curve() -> None:
    text("verify_costs")
    if not raw()["verify_costs"]:
        st.caption("Until you give them, v stays on the line.")


def _take_cost(key: str, gamma: int) -> None:
    if key not in st.session_state:  # γ moved on while the browser still showed this box
        return
    touched()
    cost = st.session_state[key]
    try:
        raw()["sigma"] = None if cost is None else sigma_from_verify_cost(cost, gamma)
    except InputError as error:
        st.session_state["fault"] = str(error)
    forget("sigma")


_VERIFY_WIDGETS = {"slope": _slope, "curve": _curve}


def withheld() -> bool:
    """Whether a part of the link was not read and nobody has looked at what stands in its place."""
    if not st.session_state.get("withheld"):
        return False
    if st.session_state.get("edited"):
        st.session_state["withheld"] = False
        return False
    st.caption("Part of the link was not read: there is no answer before you have seen the inputs.")

    def seen() -> None:
        touched()
        st.session_state["withheld"] = False

    st.button("The inputs are right as they stand", on_click=seen, icon=":material/check:")
    return True


def pending_fault() -> None:
    """Show what a callback or an upload had to refuse, once."""
    told = st.session_state.pop("told", None)
    if told:
        st.info(verbatim(told), icon=":material/receipt_long:")
    fault = st.session_state.pop("fault", None)
    if fault:
        st.error(f"{verbatim(fault)}. The page keeps its state.")
