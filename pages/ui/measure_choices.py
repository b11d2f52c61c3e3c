"""Measure: choices that stay when the page is left and entered again."""

from collections.abc import Callable
from typing import Any

import streamlit as st


def kept_value(name: str, default: Any) -> Any:
    """What `kept` will show."""
    choices = st.session_state.setdefault("measure_choices", {})
    return st.session_state.get(f"measure_{name}", choices.get(name, default))


def forget(name: str) -> None:
    """Let a kept widget start again from its default."""
    st.session_state.pop(f"measure_{name}", None)
    st.session_state["measure_choices"].pop(name, None)


def kept(name: str, default: Any, widget: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """A widget that keeps its value when the page is left and entered again."""
    key = f"measure_{name}"
    if key not in st.session_state:  # to set it again would undo what is being typed
        st.session_state[key] = kept_value(name, default)
    st.session_state["measure_choices"][name] = widget(*given, key=key, **more)
    return st.session_state["measure_choices"][name]
