"""Read my log: the boxes, and the choice of a reading."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

import specmath
from pages.ui.furniture import verbatim
from pages.ui.logs_boxes import paste_box, run_cached, upload_box
from specmath.checks import InputError
from specmath.logs import Reading, typed_reading
from specmath.logs.lanes import whole_side
from specmath.logs.reading import Lane
from specmath.review.causes import broken_lanes
from specmath.words.causes import cause_words, lane_words, lanes_words

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
DOORS = ("A log, metrics or a benchmark", "A few numbers")


def is_example() -> bool:
    """Whether the log that is read is still the example."""
    text, files = st.session_state.get("log_text", ""), st.session_state.get("log_files")
    return not files and text.strip() == EXAMPLE.read_text("utf-8").strip()


def given_readings() -> list[Reading]:
    """The readings of what was given; a message and none where nothing can be read."""
    door = st.segmented_control(
        "What do you have?", DOORS, default=DOORS[0], key="log_door", label_visibility="collapsed"
    )
    return _typed() if door == DOORS[1] else _pasted()


def _typed() -> list[Reading]:
    """The numbers that a server or a colleague told; their speeds go beside them."""
    columns = st.columns(3, gap="medium", vertical_alignment="bottom")
    gamma = columns[0].number_input(
        "Draft tokens γ", min_value=1, max_value=256, value=None, key="typed_gamma",
        placeholder="unknown", help="num_speculative_tokens: drafted a step.",
    )  # fmt: skip
    share = columns[1].number_input(
        "Accepted ÷ drafted", min_value=0.0, max_value=1.0, value=None, key="typed_share",
        placeholder="unknown", help="What most engines print as acceptance rate.",
    )  # fmt: skip
    tokens = columns[2].number_input(
        "or acceptance length", min_value=1.0, value=None, key="typed_tokens",
        placeholder="unknown", help="Tokens a step, the bonus token included.",
    )  # fmt: skip
    if gamma is None or (share is None and tokens is None):
        st.info("Give γ and one of the two rates; the speeds go below.", icon=":material/pin:")
        return []
    try:
        return [typed_reading(gamma, accepted_share=share, tokens_per_step=tokens)]
    except InputError as error:
        st.error(verbatim(str(error)), icon=":material/error:")
        return []


def _pasted() -> list[Reading]:
    left, right = st.columns([3, 2], gap="medium")
    with left:
        text = paste_box("log_text", "Paste what your server printed", EXAMPLE.read_text("utf-8"))
    with right:
        files = upload_box("log_files", "or open files")
    if is_example():
        left.caption(":orange-badge[Example: replace it with your own] Invented numbers of vLLM.")
    if files and text.strip():
        left.caption("The opened files are read; the text above is not.")
    sources: list[str | bytes] = list(files) or [text]
    if not files and not text.strip():
        st.info("Paste a line or open a file.", icon=":material/content_paste:")
        return []
    gamma = st.session_state.get("log_gamma")
    try:
        return run_cached(tuple(sources), gamma)
    except InputError as error:
        st.error(f"{verbatim(str(error))}", icon=":material/error:")
        return []


def chosen(readings: Sequence[Reading]) -> Reading:
    """The reading to look at; a choice where there are several."""
    if len(readings) == 1:
        return readings[0]
    whole, apart = whole_side(readings)
    if apart:
        st.error(verbatim(lanes_words(tuple(apart))), icon=":material/call_split:")
        for cause in broken_lanes(apart):
            st.error(verbatim(cause_words(cause)), icon=":material/error:")
    # What stands for several servers first.
    shown = [*whole, *(r for r in readings if r not in whole)]
    names = [_name(r) for r in shown]
    index = st.selectbox(
        f"{len(shown)} readings found: look at",
        range(len(shown)),
        format_func=names.__getitem__,
        key="log_reading",
    )
    return shown[index]


def _name(reading: Reading) -> str:
    whose = "" if reading.lane in (None, Lane()) else f", {lane_words(reading.lane)}"
    return f"{engine_name(reading)}, {reading.format}{whose}"


def engine_name(reading: Reading) -> str:
    """The engine as it writes its name."""
    return ENGINES.get(reading.engine, reading.engine)
