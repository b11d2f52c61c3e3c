"""The row of inputs of the hardware form: GPU, target, draft, batch and context."""

import streamlit as st

from pages.ui.furniture import answer_place, say
from pages.ui.state import PREFIX, adopt, examples, forget, prediction, raw, scenario, set_raw
from pages.ui.widgets import number
from specmath import hardware, models
from specmath.checks import InputError
from specmath.drafters import kinds
from specmath.scenario import SPECS
from specmath.scenario.convert import EXAMPLE_PAIR
from specmath.scenario.files import revised
from specmath.serving.of_scenario import NEEDS_A_MODEL, model_of
from specmath.wording import ms, significant


def hardware_row() -> None:
    """Pick from the catalogues, or paste a config.json."""
    gpu, model, draft, numbers = st.columns([6, 6, 6, 11], gap="small")
    with gpu:
        own = f"Not listed? Type its TB/s, bf16 TFLOP/s and GB, such as {hardware.CUSTOM_EXAMPLE}."
        _pick("gpu", list(hardware.catalogue()), help=f"{SPECS['gpu'].help} {own}", typed=True)
    with model:
        _pick("model", list(models.catalogue()))
    with draft:
        labels = {kind: record.label for kind, record in kinds().items()}
        heads = [kind for kind in labels if kind not in NEEDS_A_MODEL]
        _pick("draft", [*heads, *models.catalogue()], labels)
    with numbers:
        gpus, batch, context, paste = st.columns([3, 2, 3, 2], vertical_alignment="bottom")
        with gpus:
            number("tensor_parallel", part="bar")
        with batch:
            number("batch", label="Batch", part="bar")
        with context:
            number("context_tokens", label="Context L")
        with paste, st.popover(":material/content_paste:", help="Paste the text of a config.json"):
            _paste("model")
            _paste("draft")


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
        return model_of(text).name or "your config.json"
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
    if scenario().draft_form != "hardware":
        return
    found = prediction()
    st.caption(
        f"Computed: plain step {ms(found.tpot_plain)}, c = {significant(found.halves.cost.c)}, "
        f"drafting and overhead {significant(float(found.curve.draft_cost[scenario().gamma]))} "
        "plain steps."
    )


def verify_caption() -> None:
    """What the step-time model computed for verification."""
    if scenario().draft_form != "hardware":
        return
    found = prediction()
    gamma = scenario().gamma
    st.caption(
        f"Verification cost, computed: a pass over {gamma + 1} tokens costs "
        f"{significant(float(found.curve.verify_cost[gamma]))} plain steps; 1 = memory-bound, "
        f"{gamma + 1} = compute-bound."
    )


def needs_hardware() -> None:
    """A page that computes from hardware: offer a pair to start from, and stop until then."""
    if scenario().draft_form == "hardware":
        return
    say(
        "This page computes step times: it needs your GPU, target, draft, batch and context.",
        "memory",
    )
    with answer_place("answer_start"):
        if st.button("Start from a GPU and a pair of models", type="primary"):
            adopt(revised(scenario(), EXAMPLE_PAIR), still_examples={*examples(), "draft cost"})
            st.rerun()
    st.stop()
