"""Every page runs inside `app.py`; a page opened alone by a first deep link calls it first."""

import contextvars
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

_RUNNING: contextvars.ContextVar[bool] = contextvars.ContextVar("frame_running", default=False)


@contextmanager
def frame() -> Iterator[None]:
    """Marks that `app.py` is running, for this script run only."""
    token = _RUNNING.set(True)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def require_frame() -> None:
    """First line of each page. On a fresh server a link to a page runs that page alone (legacy
    discovery of the folder `pages/`): run the frame instead, which comes back to the page."""
    if not _RUNNING.get():
        runpy.run_path(str(Path(__file__).parents[2] / "app.py"), run_name="__main__")
        st.stop()
