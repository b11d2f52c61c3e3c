"""Measure: which pair, and what drafts."""

import streamlit as st

from pages.ui.measure_choices import kept
from pages.ui.measure_job import Models
from specmath.measure.pairs import BUILTIN, SMOLLM2
from specmath.measure.server.client import is_loopback

BUILTIN_PAIR, DEMO, FOLDERS = "Built-in", "SmolLM2-135M", "Folders"
LOOK_UP = {"ngram": "N-gram look-up in the text"}
SKIP = {"skip": "The target with layers left out"}
BUILTIN_DRAFTS = {
    "model": "Draft model", "model:argmax": "Draft model, takes its most likely token",
    **LOOK_UP, **SKIP,
}  # fmt: skip
DEMO_DRAFTS = {
    **LOOK_UP, "trained": "Trained draft of two layers, output head of few tokens",
    "trained:full": "Trained draft of two layers, whole output head", **SKIP,
}  # fmt: skip
FOLDER_DRAFTS = {"model": "A second model", **LOOK_UP, **SKIP}
READY = {
    BUILTIN_PAIR: (
        BUILTIN, BUILTIN_DRAFTS, "3-5",
        "The pair that ships with specmath: a target of 1.2 million parameters, small "
        "enough for any CPU. It shows how measuring works; its numbers are not yours.",
    ),
    DEMO: (
        SMOLLM2, DEMO_DRAFTS, "27,28",
        "SmolLM2-135M-Instruct from the package registry, without a hub: a small but real "
        "model. Look-up pays on grounded text, and hardly elsewhere; the trained draft ran at "
        "0.73× to 0.88× where it was measured, as scoring two tokens cost 1.65 plain steps.",
    ),
}  # fmt: skip
"""Pairs that need no folder: what the package calls them, their drafts, layers to leave out."""


def models() -> Models:
    """The pair that the widgets name."""
    pairs = [BUILTIN_PAIR, DEMO, FOLDERS]
    if not is_loopback(st.get_option("server.address") or ""):
        pairs.remove(FOLDERS)
        st.caption("Folders are off: others reach this app, and could try any path of its machine.")
    where = kept("pair", BUILTIN_PAIR, st.segmented_control, "Pair", pairs, required=True)
    if where in READY:
        target, drafts, layers, about = READY[where]
        kind = _draft(f"{target}_draft", drafts, about)
        return Models(target, _with_layers(kind, target, layers))
    target = kept(
        "target", "", st.text_input, "Target: folder or hub name",
        placeholder="a folder with config.json, or organisation/model",
    )  # fmt: skip
    kind = _draft("draft_kind", FOLDER_DRAFTS)
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


def _draft(name: str, drafts: dict[str, str], help: str | None = None) -> str:
    return str(kept(
        name, next(iter(drafts)), st.selectbox, "Draft", list(drafts),
        format_func=drafts.__getitem__, help=help,
    ))  # fmt: skip


def _with_layers(kind: str, pair: str, layers: str) -> str:
    """The draft as the package writes it."""
    if kind != "skip":
        return kind
    written = kept(
        f"layers_{pair}", layers, st.text_input, "Layers left out, from 0",
        placeholder="20-29 or 3,7,11",
    )  # fmt: skip
    return f"skip:{written}"
