"""Boxes for telemetry: paste and open files, read once."""

import streamlit as st

from pages.ui.furniture import verbatim
from specmath.checks import InputError
from specmath.logs import Reading, read, read_run
from specmath.rollout import Rollout
from specmath.rollout.file import from_file, is_rollout

LONGEST_PASTE = 1_000_000


@st.cache_data(max_entries=16, show_spinner=False)
def read_cached(sources: tuple[str | bytes, ...], gamma: int | None) -> list[Reading]:
    """The readings of these texts and files, in order of time."""
    return read(list(sources) if len(sources) > 1 else sources[0], gamma=gamma)


def remembered(key: str, default: str = "") -> str:
    """What a box of this page held before the visitor went to another page."""
    return str(st.session_state.get(f"kept_{key}", default))


def _keep(key: str) -> None:
    st.session_state[f"kept_{key}"] = st.session_state[key]


def paste_box(key: str, label: str, default: str = "", height: int = 110) -> str:
    """A text area that keeps its text when the page is left."""
    start = st.session_state.setdefault(key, remembered(key, default))
    return st.text_area(
        label,
        start,  # what the browser shows, and sends back, until it has read the session's value
        key=key,
        height=height,
        max_chars=LONGEST_PASTE,
        placeholder="A log line, metrics, a benchmark result, a response",
        help="Any of: vLLM, SGLang, llama.cpp, TensorRT-LLM, TGI, LM Studio, mlx-lm, Ollama, "
        "AIPerf. Other lines between do no harm. Nothing leaves this machine.",
        on_change=_keep,
        args=(key,),
    )


def upload_box(key: str, label: str) -> list[bytes]:
    """The bytes of the files chosen; gzip is read as it is."""
    found = st.file_uploader(
        label,
        key=key,
        accept_multiple_files=True,
        help="Several metrics pages of one server, oldest first, give the change between them. "
        "Larger files: specmath logs FILE on the command line.",
    )
    return [one.getvalue() for one in found]


@st.cache_data(max_entries=16, show_spinner=False)
def run_cached(sources: tuple[str | bytes, ...], gamma: int | None = None) -> list[Reading]:
    """As read_cached; of a run without speculation its speed."""
    return read_run(list(sources) if len(sources) > 1 else sources[0], gamma=gamma)


def plan_of(source: str | bytes) -> Rollout | None:
    """The rollout in a text or a file; None where it is anything else."""
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    return from_file(text) if is_rollout(text) else None


def side(
    key: str, label: str, *, plain: bool = False, plan: bool = False
) -> list[Reading] | Rollout | None:
    """One of two sides to compare: pasted or opened; None, with a message, where unreadable.

    With `plain` a run without speculation is one, if it tells its speed; with `plan` a rollout.
    """
    text = paste_box(key, label, height=100)
    files = upload_box(f"{key}_files", f"{label}: or open files")
    if not files and not text.strip():
        return None
    try:
        sources = tuple(files) or (text,)
        if plan and (expected := plan_of(sources[0])) is not None:
            return expected
        return run_cached(sources) if plain else read_cached(sources, None)
    except InputError as error:
        st.error(verbatim(str(error)), icon=":material/error:")
        return None
