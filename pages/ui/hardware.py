"""The inputs of the hardware form: GPU, target, draft, engine, load, and what was measured."""

import streamlit as st

from pages.ui.furniture import answer_place, say
from pages.ui.state import PREFIX, adopt, examples, forget, prediction, raw, scenario, set_raw
from pages.ui.widgets import choice, number
from specmath import hardware, models
from specmath.checks import InputError
from specmath.drafters import kinds
from specmath.numbers import interval, ms, significant
from specmath.scenario import SPECS
from specmath.scenario.files import revised
from specmath.scenario.forms import EXAMPLE_PAIR


def hardware_row() -> None:
    """Who serves what: pick from the catalogues, or paste a config.json; then the load."""
    gpu, model, draft, engine = st.columns([10, 8, 8, 7], vertical_alignment="bottom")
    with gpu:
        name, count = st.columns([5, 3], vertical_alignment="bottom")
        own = f"Not listed? Type its TB/s, bf16 TFLOP/s and GB, such as {hardware.CUSTOM_EXAMPLE}."
        with name:
            _pick("gpu", list(hardware.catalogue()), help=f"{SPECS['gpu'].help} {own}", typed=True)
        with count:
            number("tensor_parallel")
    with model:
        _pick("model", list(models.catalogue()))
    with draft:
        labels = {kind: record.label for kind, record in kinds().items()}
        heads = [kind for kind, record in kinds().items() if not record.needs_model]
        _pick("draft", [*heads, *models.catalogue()], labels)
    with engine:
        choice("engine")
    load, more = st.columns([20, 13], vertical_alignment="bottom")
    with load, st.container(key="load"):
        _load()
    with more:
        measured, config = st.columns(2, vertical_alignment="bottom")
        with measured, st.popover("Measured", icon=":material/straighten:", width="stretch"):
            _measured()
        with config, st.popover("config.json", icon=":material/content_paste:", width="stretch"):
            _paste("model")
            _paste("draft")


def _load() -> None:
    """How many requests at once, and how long each is."""
    batch = raw()["batch"]
    held = "unknown" if batch == 1 else f"batch {batch}"
    concurrency, prompt, output, context = st.columns(4, vertical_alignment="bottom")
    with concurrency:
        number("concurrency", label="Concurrency", empty=held)
    with prompt:
        number("prompt_tokens", label="Prompt tokens")
    with output:
        number("output_tokens", label="Output tokens")
    with context:
        number("context_tokens", label="Context L")


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
        format_func=lambda option: (labels or {}).get(option, _short(option)),
        help=help or SPECS[name].help,
        accept_new_options=typed,
        on_change=lambda: set_raw(name, st.session_state[key]),
    )


def _short(text: str) -> str:
    """A pasted config by the name it gives itself."""
    if not text.lstrip().startswith("{"):
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


def served_caption() -> None:
    """What the step-time model computed for the draft."""
    if not scenario().costs.computed:
        return
    found = prediction()
    st.caption(
        f"Computed: plain step {interval(found.endpoint.plain, ms)}, "
        f"c = {significant(found.speculation.cost.c)}, "
        f"drafting and overhead {significant(float(found.curve.draft_cost[found.gamma]))} "
        "plain steps."
    )


def verify_caption() -> None:
    """What the step-time model computed for verification."""
    if not scenario().costs.computed:
        return
    found = prediction()
    gamma = found.gamma
    st.caption(
        f"Verification cost, computed: a pass over {gamma + 1} tokens costs "
        f"{significant(float(found.curve.verify_cost[gamma]))} plain steps; 1 = memory-bound, "
        f"{gamma + 1} = compute-bound."
    )


def needs_hardware() -> None:
    """A page that computes from hardware: offer a pair to start from, and stop until then."""
    if scenario().costs.computed:
        return
    say(
        "This page computes step times: it needs your GPU, target, draft and load.",
        "memory",
    )
    with answer_place("answer_start"):
        if st.button("Start from a GPU and a pair of models", type="primary"):
            adopt(revised(scenario(), EXAMPLE_PAIR), still_examples={*examples(), "draft cost"})
            st.rerun()
    st.stop()
