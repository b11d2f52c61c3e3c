"""Hardware, money, traffic and the scenario file, in the closed drawers of the sidebar."""

import streamlit as st

from pages.ui.furniture import drawer
from pages.ui.state import LONGEST_LINK, PARTS, adopt, link_length, raw, scenario
from pages.ui.widgets import fields, text
from specmath.checks import InputError
from specmath.scenario import EXAMPLE
from specmath.scenario.files import from_toml, to_link, to_toml

SIDEBAR = (
    ("Hardware", "memory",
     ("batch", "tensor_parallel", "draft_gpus", "target_billions", "draft_billions")),
    ("Money", "payments", ("usd_per_hour", "demand_tokens_per_second")),
    ("Traffic", "forum",
     ("acceptance_source", "temperature", "copies_input", "output_tokens", "ttft_ms")),
    ("Step details", "build", ("overhead", "c_hat", "max_gamma")),
)  # fmt: skip
SERVED_SIDEBAR = (
    ("Hardware", "memory",
     ("tensor_parallel", "draft_tensor_parallel", "draft_gpus", "weight_dtype", "kv_dtype")),
    *SIDEBAR[1:3],
    ("Step details", "build", ("engine", "coverage", "max_gamma")),
)  # fmt: skip
"""With the step-time model: what it needs, without what it answers."""


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
        with drawer("Save, open, share", "save", "file") as opened:
            if opened:
                text("label")
                _file()
                _link()


def _file() -> None:
    st.download_button(
        "Save scenario", to_toml(scenario()), "scenario.toml", "application/toml", width="stretch"
    )
    uploaded = st.file_uploader("Open scenario", type="toml", key="scenario_upload")
    if uploaded is not None and st.session_state.get("opened") != uploaded.file_id:
        st.session_state["opened"] = uploaded.file_id
        try:
            adopt(from_toml(uploaded.getvalue().decode("utf-8")))
        except UnicodeDecodeError:
            st.session_state["fault"] = f"{uploaded.name} is not UTF-8 text; nothing was opened"
        except InputError as error:
            st.session_state["fault"] = f"{uploaded.name}: {error}. Nothing was opened"
        st.rerun()
    if st.button("Back to the example", width="stretch"):
        adopt(EXAMPLE, still_examples=PARTS)
        st.rerun()


def _link() -> None:
    length = link_length(to_link(scenario()))
    if length > LONGEST_LINK:
        st.caption(
            f"The link is {length:,} characters, more than {LONGEST_LINK:,}: send the file instead."
        )
    else:
        st.caption(
            "The address of this page holds the scenario. A localhost link opens only on this "
            "machine; send the file to others."
        )
