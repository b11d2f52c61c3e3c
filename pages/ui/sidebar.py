"""Hardware, money, traffic and the scenario file, in the closed drawers of the sidebar."""

from contextlib import suppress

import streamlit as st

from pages.ui.furniture import drawer
from pages.ui.state import (
    LONGEST_LINK,
    adopt,
    begin_at,
    drafts,
    forget,
    link_length,
    prediction,
    raw,
    scenario,
    set_raw,
    start,
    take_drafts,
    touched,
)
from pages.ui.widgets import fields, text
from specmath.checks import InputError
from specmath.drafts import Listed
from specmath.report.scenario import scenario_report_bytes
from specmath.scenario.files import drafts_in, from_toml, to_link, to_toml
from specmath.trees import read_shape

SIDEBAR = (
    ("Hardware", "memory",
     ("batch", "tensor_parallel", "draft_gpus", "target_billions", "draft_billions")),
    ("Money", "payments", ("usd_per_hour",)),
    ("Traffic", "forum",
     ("acceptance_source", "temperature", "copies_input", "output_tokens", "output_spread",
      "ttft_ms")),
    ("Step details", "build", ("overhead", "c_hat", "prefill_share", "max_gamma")),
)  # fmt: skip
SERVED_SIDEBAR = (
    ("Load", "groups",
     ("batch", "request_rate", "context_tokens", "prefix_hit", "prefix_hit_speculative",
      "chunk_tokens", "arrivals", "decode_only")),
    ("Hardware", "memory",
     ("draft_tensor_parallel", "draft_gpus", "weight_dtype", "kv_dtype", "expert_parallel",
      "attention_dp")),
    ("Drafter", "edit_note",
     ("draft_weight_dtype", "draft_layers", "draft_vocab", "drafted_per_step")),
    ("Money", "payments", SIDEBAR[1][2]),
    ("Traffic", "forum",
     ("acceptance_source", "temperature", "copies_input", "output_spread", "prompt_spread",
      "ttft_ms")),
    ("Step details", "build", ("coverage", "max_gamma")),
)  # fmt: skip
"""With the step-time model: what it needs besides the bar, without what it answers."""


def sidebar() -> None:
    """Hardware, money, traffic and the scenario file, each in a closed drawer."""
    with st.sidebar:
        drawers = SERVED_SIDEBAR if raw()["draft_form"] == "hardware" else SIDEBAR
        for label, icon, names in drawers:
            if label == "Step details" and raw()["draft_form"] in ("ratio", "range"):
                names = ("target_ms", *names)  # in the other forms the bar has it, or computes it
            with drawer(label, icon, label) as opened:
                if opened:
                    fields(*names)
                    if label == "Drafter":
                        text("tree", taken=_planted)
        with drawer("Save, open, share", "save", "file") as opened:
            if opened:
                text("label")
                _file()
                _link()


def _planted(name: str, key: str) -> None:
    """A tree brings its γ, the number of its nodes, and takes it along when it goes."""
    typed = st.session_state[key].strip()
    set_raw(name, typed or None)
    with suppress(InputError):  # the record says what is wrong with it
        set_raw("gamma", read_shape(typed).nodes if typed else None)
    forget("gamma")


def _file() -> None:
    current, listed = scenario(), drafts()
    # Made when asked: a file made at every run has gone by the time the browser looks for it.
    st.download_button(
        "Save scenario",
        lambda: to_toml(current, listed.to_dict() if listed != Listed() else None),
        "scenario.toml",
        "application/toml",
        on_click="ignore",
        width="stretch",
    )
    told = prediction()
    st.download_button(
        "Report, HTML",
        lambda: scenario_report_bytes(told),
        "specmath-report.html",
        "text/html",
        on_click="ignore",
        width="stretch",
        help="One file for a meeting: opens offline, prints on A4, its charts save as slides.",
    )
    uploaded = st.file_uploader("Open scenario", type="toml", key="scenario_upload")
    if uploaded is not None and st.session_state.get("opened") != uploaded.file_id:
        st.session_state["opened"] = uploaded.file_id
        try:
            text = uploaded.getvalue().decode("utf-8")
            found = Listed.from_dict(drafts_in(text))
            adopt(from_toml(text))
            touched()
            take_drafts(found)
        except UnicodeDecodeError:
            st.session_state["fault"] = f"{uploaded.name} is not UTF-8 text; nothing was opened"
        except InputError as error:
            st.session_state["fault"] = f"{uploaded.name}: {error}. Nothing was opened"
        st.rerun()
    if st.button("Start again", width="stretch"):
        begin_at(start())
        st.rerun()


def _link() -> None:
    length = link_length(to_link(scenario()))
    if length <= LONGEST_LINK:
        st.caption(
            "The address of this page holds the scenario. A localhost link opens only on this "
            "machine; send the file to others."
        )
    elif st.session_state["link"]:
        st.caption(
            f"The link would be {length:,} characters, more than {LONGEST_LINK:,}: the address has "
            "a key to this server's memory instead, until it is stopped. Keep the file, and send "
            "it to others."
        )
    else:
        st.caption(
            f"The scenario is {length:,} characters, too long for the address and for this "
            "server's memory: keep the file."
        )
