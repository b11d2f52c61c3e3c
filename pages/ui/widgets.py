"""Widgets made from field definitions: label, unit, bounds and help come from the field."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.ui.state import PREFIX, raw, set_raw
from specmath.scenario import SPECS
from specmath.scenario.fields import FieldSpec
from specmath.scenario.files import as_text


def _same(value: Any) -> Any:
    return value


def _whole(value: float | None) -> float | int | None:
    return int(value) if value is not None and float(value).is_integer() else value


def _key(name: str, part: str = "") -> str:
    return f"{PREFIX}{name}{'|' if part else ''}{part}"


def _seed(key: str, value: Any) -> Any:
    """The value that the widget stands at, put into the session where it holds none yet.

    Hand it to the widget as its default too: until the browser has read the session's value, it
    shows the default, and a step by an arrow key or a button would count from there.
    """
    return st.session_state.setdefault(key, value)


def _edited(name: str, key: str, convert: Callable[[Any], Any] = _same) -> None:
    """A widget's callback: take its value and let the field's other widgets follow."""
    if key not in st.session_state:  # its twin was edited while the browser still showed this one
        return
    value = convert(st.session_state[key])
    set_raw(name, value)
    for other in list(st.session_state):
        if str(other).split("|")[0] == _key(name) and other != key:
            del st.session_state[other]


def number(
    name: str,
    *,
    label: str | None = None,
    hide_label: bool = False,
    empty: str = "unknown",
    part: str = "",
) -> None:
    """A number box. Bounds are checked by the record, which says what is wrong with a value.

    `empty`: what it says where nothing is given and nothing need be. `part`: tells it apart from
    another box of the field on the same page.
    """
    spec, key = SPECS[name], _key(name, part)
    value = raw()[name]
    # A box of whole numbers would cut 2.7 to 2 without a word: the record refuses it instead.
    start = _seed(key, None if value is None else float(value))
    st.number_input(
        label or spec.title,
        key=key,
        # A box that is emptied goes back to its default: only with none can it say "unknown".
        value=None if spec.unknown else start,
        step=1.0 if spec.whole else float(spec.step or 0.1),
        format="%.12g" if spec.whole else "%.6g",
        help=_help(spec),
        placeholder=empty if spec.unknown else "type a value",
        label_visibility="collapsed" if hide_label else "visible",
        on_change=_edited,
        args=(name, key, _whole if spec.whole else _same),
    )


def _help(spec: FieldSpec) -> str:
    empty = " Leave empty if you don't know." if spec.unknown else ""
    bounds = f" {spec.bounds[0].upper()}{spec.bounds[1:]}." if spec.low is not None else ""
    return f"{spec.help}{bounds}{empty}".replace("$", r"\$")


def slider(name: str, *, label: str | None = None, idle: float | None = None) -> None:
    """A slider with its typed twin beside it; the twin also takes values beyond the slider.

    `idle`: where it stands while nothing is given, which the twin calls "auto".
    """
    spec = SPECS[name]
    low, high = spec.slider or (spec.low, spec.high)
    value, key = raw()[name], _key(name, "slider")
    kind = int if spec.whole else float
    if value is None and idle is not None:
        value = st.session_state[key] = kind(min(max(idle, low), high))
    start = _seed(key, kind(min(max(low if value is None else value, low), high)))
    wide, narrow = st.columns([3, 2], vertical_alignment="bottom")
    wide.slider(
        label or spec.title,
        kind(low),
        kind(high),
        start,
        key=key,
        step=kind(spec.step or 1),
        help=_help(spec),
        on_change=_edited,
        args=(name, key),
    )
    with narrow:
        empty = "unknown" if idle is None else "auto"
        number(name, label=f"{label or spec.title}, typed", hide_label=True, empty=empty)


def choice(name: str, *, label: str | None = None) -> None:
    """A select box of the field's choices."""
    spec, key = SPECS[name], _key(name)
    options = [c.value for c in spec.choices]
    if spec.open and raw()[name] not in options:
        options.append(raw()[name])
    start = _seed(key, raw()[name] if raw()[name] in options else options[0])
    st.selectbox(
        label or spec.title,
        options,
        options.index(start),
        key=key,
        format_func=spec.label_of,
        help=_help(spec),
        accept_new_options=spec.open,
        on_change=_edited,
        args=(name, key),
    )


def text(name: str, *, area: bool = False, taken: Callable[[str, str], None] = _edited) -> None:
    """A text box; lists are written as in links, and the record reads them.

    `taken(name, key)` is called with what was typed in the session state.
    """
    spec, key = SPECS[name], _key(name)
    value = raw()[name]
    start = _seed(key, value if isinstance(value, str) else as_text(value) if value else "")
    box: Callable[..., str] = st.text_area if area else st.text_input
    more: dict[str, Any] = {"height": 68} if area else {}
    box(
        spec.title,
        start,
        key=key,
        help=_help(spec),
        placeholder=spec.example,
        on_change=taken,
        args=(name, key),
        **more,
    )


def fields(*names: str) -> None:
    """The plain widgets of several fields, one below the other."""
    for name in names:
        choice(name) if SPECS[name].choices else number(name)
