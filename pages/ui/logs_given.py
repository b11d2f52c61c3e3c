"""Read my log: the boxes, and the choice of a reading."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

import specmath
from pages.ui.furniture import verbatim
from pages.ui.logs_boxes import paste_box, read_cached, upload_box
from specmath.checks import InputError
from specmath.logs import LogError, Reading

EXAMPLE = Path(specmath.__file__).parent / "data" / "example_vllm.log"
ENGINES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tgi": "TGI",
    "tensorrt-llm": "TensorRT-LLM",
    "lm-studio": "LM Studio",
    "ollama": "Ollama",
}
"""As the engines write their names."""


def given_readings() -> list[Reading]:
    """The readings of what is in the boxes; a message and none where nothing can be read."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        text = paste_box("log_text", "Paste what your server printed", EXAMPLE.read_text("utf-8"))
    with right:
        files = upload_box("log_files", "or open files")
    if not files and text.strip() == EXAMPLE.read_text("utf-8").strip():
        left.caption(":orange-badge[Example: replace it with your own] Invented numbers of vLLM.")
    if files and text.strip():
        left.caption("The opened files are read; the text above is not.")
    sources: list[str | bytes] = list(files) or [text]
    if not files and not text.strip():
        st.info("Paste a line or open a file.", icon=":material/content_paste:")
        return []
    gamma = st.session_state.get("log_gamma")
    try:
        return read_cached(tuple(sources), gamma)
    except (LogError, InputError) as error:
        st.error(f"{verbatim(str(error))}", icon=":material/error:")
        return []


def chosen(readings: Sequence[Reading]) -> Reading:
    """The reading to look at; a choice where there are several."""
    if len(readings) == 1:
        return readings[0]
    names = [f"{engine_name(r)}, {r.format}" for r in readings]
    index = st.selectbox(
        f"{len(readings)} readings found: look at",
        range(len(readings)),
        format_func=names.__getitem__,
        key="log_reading",
    )
    return readings[index]


def engine_name(reading: Reading) -> str:
    """The engine as it writes its name."""
    return ENGINES.get(reading.engine, reading.engine)
