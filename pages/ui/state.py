"""The scenario of a session: one valid record, the raw values behind the widgets, the link."""

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import streamlit as st

from pages.ui import memory
from specmath import hardware
from specmath.checks import InputError
from specmath.drafts import Listed
from specmath.plan.grid import Grid
from specmath.predict import Prediction, predict
from specmath.scenario import EXAMPLE, SPECS, Scenario
from specmath.scenario.endpoint import said_as
from specmath.scenario.files import ScenarioError, build, from_link, to_link
from specmath.scenario.forms import (
    ACCEPTANCE,
    COST,
    DEMANDS,
    EXAMPLE_PAIR,
    FORMS,
    HALVES,
    LOADS,
    SHARED,
    Hardware,
)

PREFIX = "field_"

PARTS = {
    "acceptance": HALVES["acceptance"],
    "draft cost": HALVES["draft cost"],
    "target time": frozenset({"target_ms"}),
}
"""What the example gives, for which a person should put their own values."""

START = EXAMPLE_PAIR | {
    "acceptance_form": "range", "model": "Llama-3.3-70B", "draft": "eagle3", "tensor_parallel": 4,
    "concurrency": 16, "prompt_tokens": 1024, "output_tokens": 256,
}  # fmt: skip
"""Where somebody begins who comes by no link: hardware to be replaced by their own."""

LONGEST_LINK = 2000
"""Characters; beyond it the address has a key to this server's memory instead."""

KEPT = "kept"
"""Parameter of the address: the key under which a scenario too long for it is kept."""

MEASUREMENT = "measurement"
DRAFTS, PINS, PLAN, BESIDE = NOTED = ("drafts", "pins", "plan", "beside")
"""Parameters that are no scenario's: the measurement that the page Measure shows, and the keys of
what a person noted: the drafts listed, the scenarios pinned, the plan, and one kept to compare."""

NOT_KNOWN = (
    "was kept in the memory of a server, which does not know it any more: it was started anew, or "
    "others came since"
)


def scenario() -> Scenario:
    """The last scenario that was valid."""
    return st.session_state["scenario"]


def prediction() -> Prediction:
    """The prediction of that scenario."""
    return st.session_state["prediction"]


def raw() -> dict[str, Any]:
    """What the widgets hold by field, valid or not; fields of other forms keep their values."""
    return st.session_state["raw"]


def examples() -> list[str]:
    """The parts whose values are still the example's."""
    idle = () if scenario().target_ms is not None else ("target time",)
    return [part for part in PARTS if part in st.session_state["examples"] and part not in idle]


def adopt(new: Scenario, *, still_examples: Collection[str] = ()) -> None:
    """Make a scenario the session's own: widgets start again from its values.

    `still_examples`: the PARTS that nobody gave. Raises InputError, and changes nothing, where it
    cannot be predicted.
    """
    st.session_state["prediction"] = predict(new)
    kept = raw() if "raw" in st.session_state else {}
    values = {name: getattr(new, name) for name in SPECS}
    unset = {n for n, v in values.items() if v in (None, ()) and not SPECS[n].unknown}
    st.session_state["raw"] = values | {n: kept[n] for n in unset & kept.keys()}
    st.session_state["scenario"] = new
    st.session_state["examples"] = set(still_examples)
    st.session_state["withheld"] = False
    forget(*SPECS)


def forget(*names: str) -> None:
    """Drop the widgets of these fields, so that they start again from the raw values."""
    for key in list(st.session_state):
        field = str(key).removeprefix(PREFIX).split("|")[0]
        if str(key).startswith(PREFIX) and field in names:
            del st.session_state[key]


def touched() -> None:
    """Called by each widget's callback: what runs now is an edit, not a step through history.

    A second edit comes with the address as it was before the browser heard of the first: read as
    a link, it would undo the first.
    """
    st.session_state["touched"] = True


def set_raw(name: str, value: Any) -> None:
    """A widget was edited: note its value; a new form starts from what the scenario says."""
    touched()
    if name in FORMS:
        said = said_as(scenario(), name, value)
        if value == Hardware.name:  # a pair chosen before stays
            pair = {n: raw()[n] or example for n, example in EXAMPLE_PAIR.items()}
            said |= pair
            if pair == EXAMPLE_PAIR:
                st.session_state["examples"].add("draft cost")
        raw().update(said)
        forget(*said)
    else:
        given = {part for part, names in PARTS.items() if name in names}
        st.session_state["examples"] -= given
    if name in LOADS:  # one says the load: the others make room, and come back where it goes
        unset = {n: Scenario.model_fields[n].default for n in LOADS}
        said_before = {n: getattr(scenario(), n) for n in LOADS}
        raw().update(said_before if value == unset[name] else unset)
        forget(*{*LOADS} - {name})
    if name in DEMANDS and value is not None:
        raw().update(dict.fromkeys({*DEMANDS} - {name}))
        forget(*{*DEMANDS} - {name})
    before = _list_price()
    raw()[name] = value
    if raw()["usd_per_hour"] == before != _list_price():
        raw()["usd_per_hour"] = _list_price()
        forget("usd_per_hour")


def _list_price() -> float | None:
    """The assumed price of the hardware chosen, None where nobody rents it out.

    A price that a person typed is not replaced.
    """
    if raw()["draft_form"] == Hardware.name:
        with suppress(InputError):
            return hardware.find(str(raw()["gpu"])).usd_per_hour
    return float(Scenario.model_fields["usd_per_hour"].default)


def _candidate() -> dict[str, Any]:
    """The raw values without those of the forms not in use."""
    values = dict(raw())
    if values["verify_form"] == "curve" and not values["verify_costs"]:
        values["verify_form"] = "slope"  # chosen, and not given yet
    for form, forms in FORMS.items():
        used = {*forms[values[form]].fields, *SHARED}
        for name in {n for each in forms.values() for n in each.fields} - used:
            values.pop(name)
    if not ACCEPTANCE[values["acceptance_form"]].measured:
        values.pop("measured_gamma")
    cost = COST[values["draft_form"]]
    for name in (*cost.computes, *(Hardware.alone if not cost.computed else ())):
        values.pop(name, None)
    # None stays only where it says "I don't know".
    return {n: v for n, v in values.items() if v is not None or SPECS[n].unknown}


def rebuild() -> list[str]:
    """Take the widgets' values into the scenario; the faults if they make none (it then stays)."""
    try:
        found = build(_candidate())
        st.session_state["prediction"] = predict(found)
    except ScenarioError as error:
        return error.faults
    except InputError as error:
        return [str(error)]
    st.session_state["scenario"] = found
    return []


def read_link(page: str) -> list[str]:
    """Load the scenario from the address on a first visit, a back or a forward; notices if any.

    A bare address later in a session is a move through the navigation, or a step back to one:
    the scenario stays. Only the move writes the scenario into it; writing it after a step back
    would put an entry on top of the history and trap the reader there.
    """
    given = _of_the_scenario()
    moved = st.session_state.get("page") not in (None, page)
    st.session_state["page"] = page
    if moved:  # a box that is put up anew may have lost what it showed: it is told again
        forget(*SPECS)
    edited = st.session_state["edited"] = st.session_state.pop("touched", False)
    if not edited:
        _read_noted()
    ours = edited or given == st.session_state.get("link")
    if "scenario" in st.session_state and (ours or not given):
        if moved:
            st.session_state["linked"] = None
        elif not ours:
            st.session_state["linked"] = scenario()
        return []
    given, lost = _unfolded(given)
    if not given:
        adopt(start(), still_examples=_parts_of_the_example(start()))
        return lost
    loaded, notices = from_link(given)
    notices += lost
    try:
        adopt(loaded, still_examples=_parts_of_the_example(loaded))
    except InputError as error:  # a config or a GPU with which nothing can be computed
        notices.append(f"{error}; the example's draft cost is used instead")
        rest = {n: v for n, v in given.items() if n not in HALVES["draft cost"]}
        try:
            adopt(from_link(rest)[0], still_examples=["draft cost"])
        except InputError:
            adopt(EXAMPLE, still_examples=PARTS)
    return notices


@cache
def start() -> Scenario:
    """The scenario of START, at the list price of its GPU."""
    return build(START | {"usd_per_hour": hardware.find(str(START["gpu"])).usd_per_hour})


def begin_at(example: Scenario) -> None:
    """One of the two examples, to be edited."""
    touched()
    adopt(example, still_examples=_parts_of_the_example(example))


def _of_the_scenario() -> dict[str, str]:
    """The parameters of the address but for those that are no scenario's."""
    others = (MEASUREMENT, *NOTED)
    return {n: v for n, v in st.query_params.to_dict().items() if n not in others}


def _unfolded(given: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The parameters with those that are kept under a key, and what could not be read."""
    if KEPT not in given:
        return given, []
    rest = {name: value for name, value in given.items() if name != KEPT}
    text = memory.kept(given[KEPT])
    if text is None:
        return rest, [f"The scenario of this address {NOT_KNOWN}. Open its file, or begin anew."]
    return rest | json.loads(text), []


def _parts_of_the_example(found: Scenario) -> list[str]:
    """A link cannot say who gave its values: those equal to the example's are taken as its."""
    return [
        part
        for part, names in PARTS.items()
        if any(
            all(getattr(found, name) == getattr(example, name) for name in names)
            for example in ((EXAMPLE, start()) if part == "draft cost" else (EXAMPLE,))
        )
    ]


def link_length(link: dict[str, str]) -> int:
    """Characters that a link's parameters take, before escaping."""
    return sum(len(name) + len(value) + 2 for name, value in link.items())


def write_link() -> None:
    """Keep the address in step with the scenario, beside what a person noted."""
    link = to_link(scenario())
    if link_length(link) > LONGEST_LINK:
        key = memory.keep(json.dumps(link))
        link = {} if key is None else {KEPT: key}
    st.session_state["link"] = link
    if st.session_state.get("linked") != scenario() and _of_the_scenario() != link:
        own = {n: v for n, v in st.query_params.to_dict().items() if n == MEASUREMENT}
        keys = {name: st.session_state.get(f"{name}_key") for name in NOTED}
        st.query_params.from_dict(link | own | {n: key for n, key in keys.items() if key})
    st.session_state["linked"] = scenario()


# ── what a person noted beside the scenario ──────────────────────────────────────────────────


def noted(name: str) -> Any:
    """One of NOTED, as JSON has it; None where there is nothing."""
    return st.session_state.get(name)


def note(name: str, value: Any) -> None:
    """Keep it in the session and under a key of the address; None forgets it.

    Only a change is written: an address written again after a step back would trap the reader.
    """
    text = None if value is None else json.dumps(value)
    value = None if text is None else json.loads(text)
    if value == noted(name):
        return
    st.session_state[name] = value
    key = st.session_state[f"{name}_key"] = None if text is None else memory.keep(text)
    if key is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = key


def _read_noted() -> None:
    """What the address has a key of, on a first visit, a back or a forward."""
    for name in NOTED:
        key = st.query_params.get(name)
        if key is None or key == st.session_state.get(f"{name}_key"):
            continue
        text = memory.kept(key)
        st.session_state[f"{name}_lost"] = text is None
        if text is not None:
            note(name, json.loads(text))
            _start_anew(name)


def _start_anew(name: str) -> None:
    """The boxes that hold it start from what was read."""
    st.session_state[f"{name}_read"] = st.session_state.get(f"{name}_read", 0) + 1


def lost(name: str) -> bool:
    """Whether the address has a key of it that this server does not know; said once."""
    return bool(st.session_state.pop(f"{name}_lost", False))


def drafts() -> Listed:
    """The drafts that a person listed."""
    found = noted(DRAFTS)
    return Listed() if found is None else Listed.from_dict(found)


def list_drafts(changed: Listed) -> None:
    """Note the list; an empty one leaves the address."""
    note(DRAFTS, changed.to_dict() if changed != Listed() else None)


def take_drafts(found: Listed) -> None:
    """A list from a file: the boxes that hold it start anew."""
    list_drafts(found)
    _start_anew(DRAFTS)


def plan_grid() -> Grid | None:
    """The plan that a person typed; None while there is none."""
    found = noted(PLAN)
    return None if found is None else Grid(*found)


def note_plan(grid: Grid) -> None:
    """Note what its boxes hold."""
    note(PLAN, list(grid))


def kept_plan() -> Grid | None:
    """The plan that was kept to be compared; None while there is none."""
    found = noted(BESIDE)
    return None if found is None else Grid(*found)


def keep_plan(grid: Grid | None) -> None:
    """Keep it beside what is planned, or forget it."""
    touched()
    note(BESIDE, None if grid is None else list(grid))


def take_plan(grid: Grid) -> None:
    """A plan from a file or an example: the boxes that hold it start anew."""
    touched()
    note_plan(grid)
    _start_anew(PLAN)


def pins() -> list[Scenario]:
    """The scenarios that a person pinned, the first first."""
    return [from_link(link)[0] for link in noted(PINS) or ()]


def pin(scenarios: Sequence[Scenario]) -> None:
    """Pin these, and no others."""
    note(PINS, [to_link(each) for each in scenarios] or None)
