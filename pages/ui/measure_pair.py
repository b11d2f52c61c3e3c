"""Which pair to measure: the built-in one, SmolLM2, or models in folders of this machine."""

import streamlit as st

from pages.ui.measure_choices import kept
from pages.ui.measure_job import SMOLLM2, Models
from specmath.measure.pairs import BUILTIN

BUILTIN_PAIR, DEMO, FOLDERS = "Built-in", "SmolLM2-135M", "Folders"
BUILTIN_DRAFTS = {
    "model": "Draft model",
    "model:argmax": "Draft model, takes its most likely token",
    "ngram": "N-gram look-up in the text",
    "skip": "The target with layers left out",
}
DEMO_DRAFTS = {
    "ngram": "N-gram look-up in the text",
    "trained": "Trained draft of two layers, output head of few tokens",
    "trained:full": "Trained draft of two layers, whole output head",
    "skip": "The target with layers left out",
}
FOLDER_DRAFTS = {
    "model": "A second model",
    "ngram": "N-gram look-up in the text",
    "skip": "The target with layers left out",
}


def models() -> Models:
    """The pair that the widgets name."""
    where = kept(
        "pair", BUILTIN_PAIR, st.segmented_control, "Pair", [BUILTIN_PAIR, DEMO, FOLDERS],
        required=True,
    )  # fmt: skip
    if where == BUILTIN_PAIR:
        kind = kept(
            "builtin_draft", "model", st.selectbox, "Draft", list(BUILTIN_DRAFTS),
            format_func=BUILTIN_DRAFTS.__getitem__,
            help="The pair that ships with specmath: a target of 1.2 million parameters, small "
            "enough for any CPU. It shows how measuring works; its numbers are not yours.",
        )  # fmt: skip
        return Models(BUILTIN, _with_layers(kind, "builtin", "3-5"))
    if where == DEMO:
        kind = kept(
            "demo_draft", "ngram", st.selectbox, "Draft", list(DEMO_DRAFTS),
            format_func=DEMO_DRAFTS.__getitem__,
            help="SmolLM2-135M-Instruct from the package registry, without a hub: a small but real "
            "model. Look-up pays on grounded text, and hardly elsewhere; the trained draft ran at "
            "0.73× to 0.88× where it was measured, as scoring two tokens cost 1.65 plain steps.",
        )  # fmt: skip
        return Models(SMOLLM2, _with_layers(kind, "demo", "27,28"))
    target = kept(
        "target", "", st.text_input, "Target: folder or hub name",
        placeholder="a folder with config.json, or organisation/model",
    )  # fmt: skip
    kind = kept(
        "draft_kind", "model", st.selectbox, "Draft", list(FOLDER_DRAFTS),
        format_func=FOLDER_DRAFTS.__getitem__,
    )  # fmt: skip
    argmax = False
    if kind == "model":
        draft = kept(
            "draft", "", st.text_input, "Draft: folder or hub name",
            placeholder="one with the same tokenizer",
        )  # fmt: skip
        argmax = kept("argmax", False, st.checkbox, "Draft takes its most likely token")
    else:
        draft = _with_layers(kind, "folder", "")
    dtype = kept(
        "dtype", "auto", st.selectbox, "Numbers", ["auto", "float32", "bfloat16", "float16"]
    )
    chat = kept("chat", False, st.checkbox, "Wrap prompts in the model's chat template")
    return Models(target, draft, dtype, chat, argmax)


def _with_layers(kind: str, pair: str, layers: str) -> str:
    """The draft as the package writes it."""
    if kind != "skip":
        return kind
    written = kept(
        f"layers_{pair}", layers, st.text_input, "Layers left out, from 0",
        placeholder="20-29 or 3,7,11",
    )  # fmt: skip
    return f"skip:{written}"
