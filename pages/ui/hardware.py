"""The inputs of the hardware form: GPU, target, draft, engine, load, and what was measured."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.ui.furniture import answer_place, say
from pages.ui.state import PREFIX, adopt, examples, forget, raw, scenario, set_raw
from pages.ui.widgets import choice, number
from specmath import hardware, models
from specmath.checks import InputError
from specmath.drafters import kinds
from specmath.scenario import SPECS
from specmath.scenario.files import revised
from specmath.scenario.forms import EXAMPLE_PAIR


def hardware_row() -> None:
    """Who serves what, and to how many at once: pick from the catalogues."""
    columns = st.columns([21, 18, 12, 22, 14, 13], vertical_alignment="bottom")
    model, gpu, count, draft, engine, load = columns
    own = f"Not listed? Type its TB/s, bf16 TFLOP/s and GB, such as {hardware.CUSTOM_EXAMPLE}."
    with model:
        _pick("model", list(models.catalogue()))
    with gpu:
        help = f"{SPECS['gpu'].help} {own}"
        _pick("gpu", list(hardware.catalogue()), help=help, typed=True, taken=_take_gpu)
    with count:
        number("tensor_parallel")
    with draft:
        labels = {kind: record.label for kind, record in kinds().items()}
        heads = [kind for kind, record in kinds().items() if not record.needs_model]
        _pick("draft", [*heads, *models.catalogue()], labels)
    with engine:
        choice("engine")
    with load:
        batch = raw()["batch"]
        number(
            "concurrency", label="Concurrency", empty="unknown" if batch == 1 else f"batch {batch}"
        )


def more() -> None:
    """What was measured on that hardware, and models of no catalogue."""
    with st.popover("More", width="stretch"):
        _measured()
        st.caption("A model that is not listed")
        _paste("model")
        _paste("draft")


def lengths_row() -> None:
    """How long a request is."""
    for column, name in zip(st.columns(2), ("prompt_tokens", "output_tokens"), strict=True):
        with column:
            number(name, label=name.partition("_")[0].capitalize())


def _measured() -> None:
    """What was timed on that hardware, in place of what is computed for it."""
    st.caption("Plain decoding, at this load")
    number("target_ms", label="Plain time per token (ms)")
    st.caption("One run with speculation: γ and time together")
    for name in ("run_gamma", "run_ms", "run_tokens_per_step"):
        number(name)


def _pick(
    name: str,
    options: list[str],
    labels: dict[str, str] | None = None,
    *,
    help: str | None = None,
    typed: bool = False,
    taken: Callable[[str, Any], None] = set_raw,
) -> None:
    """A select box of a catalogue; `typed`: what it does not have may be typed too."""
    value, key = raw()[name], f"{PREFIX}{name}"
    if value is not None and value not in options:
        options = [value, *options]
    if key not in st.session_state:
        st.session_state[key] = value
    st.selectbox(
        SPECS[name].title,
        options,
        key=key,
        format_func=lambda option: (labels or {}).get(option, shortened(option)),
        help=help or SPECS[name].help,
        accept_new_options=typed,
        on_change=lambda: taken(name, st.session_state[key]),
    )


def _take_gpu(name: str, typed: str) -> None:
    """ "2x 4090" says how many as well."""
    gpu, count = hardware.counted(typed)
    set_raw(name, gpu)
    if count is not None:
        set_raw("tensor_parallel", count)
        forget(name, "tensor_parallel")


def shortened(text: str) -> str:
    """A pasted config by the name it gives itself."""
    if not models.is_config(text):
        return text
    try:
        return models.named(text).name or "your config.json"
    except InputError:
        return "a config.json that cannot be read"


def _paste(name: str) -> None:
    key = f"paste_{name}"

    def take() -> None:
        pasted = st.session_state[key].strip()
        if pasted:
            set_raw(name, pasted)
            forget(name)

    title = f"config.json of the {name if name == 'draft' else 'target'}"
    st.text_area(title, key=key, height=120, on_change=take, placeholder="{ … }")
    uploaded = st.file_uploader(f"or its file ({name})", type="json", key=f"upload_{name}")
    if uploaded is not None and st.session_state.get(f"seen_{name}") != uploaded.file_id:
        st.session_state[f"seen_{name}"] = uploaded.file_id
        # Not UTF-8 is not JSON either: the record then says so, and the page keeps its state.
        set_raw(name, uploaded.getvalue().decode("utf-8", errors="replace").strip())
        forget(name)
        st.rerun()


def needs_hardware() -> None:
    """A page that computes from hardware: offer a pair to start from, and stop until then."""
    if scenario().costs.computed:
        return
    say(
        "This page computes step times: it needs your GPU, target, draft and load.",
        "memory",
    )
    offer_hardware()
    st.stop()


def offer_hardware() -> None:
    """A pair to start from."""
    with answer_place("answer_start"):
        if st.button("Start from a GPU and a pair of models", type="primary"):
            adopt(revised(scenario(), EXAMPLE_PAIR), still_examples={*examples(), "draft cost"})
            st.rerun()
