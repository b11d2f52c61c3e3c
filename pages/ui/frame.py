"""Every page runs inside `app.py`; a page opened alone by a first deep link calls it first."""

import contextvars
import gc
import logging
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import streamlit as st

from pages.ui.furniture import verbatim
from specmath.checks import InputError, short

_RUNNING: contextvars.ContextVar[bool] = contextvars.ContextVar("frame_running", default=False)


@contextmanager
def frame() -> Iterator[None]:
    """Marks that `app.py` is running, for this script run only, and nets what escapes from it.

    One sentence stands in place of the rest of the page; the traceback goes to the server's log.
    What Streamlit itself raises to stop or to run again is no `Exception`, so it passes.
    """
    token = _RUNNING.set(True)
    try:
        yield
    except Exception as error:
        st.error(verbatim(_sentence(error)), icon=":material/error:")
        st.stop()  # a stopped run keeps the values of the inputs that it did not reach
    finally:
        _RUNNING.reset(token)


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError):
        return f"{short(error, 500)}. Your inputs are kept."
    logging.getLogger("specmath").exception("a page could not be drawn")
    return (
        f"The rest of this page could not be drawn ({type(error).__name__}: {short(error, 200)}). "
        "Your inputs are kept: change one, or choose another page."
    )


def require_frame() -> None:
    """First line of each page. On a fresh server a link to a page runs that page alone (legacy
    discovery of the folder `pages/`): run the frame instead, which comes back to the page."""
    if not _RUNNING.get():
        runpy.run_path(str(Path(__file__).parents[2] / "app.py"), run_name="__main__")
        st.stop()


@cache
def settle() -> None:
    """Once a process, after its first page: Streamlit collects garbage after each run, and holds up
    what is still to be sent. What is loaded by now stays: it need not be searched each time."""
    gc.collect()
    gc.freeze()
