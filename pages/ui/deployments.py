"""The search over deployments on the page of how many GPUs: begun by a press, with its progress."""

import streamlit as st

from pages.ui import furniture
from pages.ui.state import scenario, touched
from specmath import hardware
from specmath.charts.deployments import front_chart
from specmath.checks import InputError
from specmath.deployments import PARALLEL, Search, deployments, gpus_for
from specmath.scenario import Scenario
from specmath.tables.deployments import cheapest_table, front_table
from specmath.words.deployments import front_sentence, search_notes, search_sentence

KEY = "deployments_found"
"""What the last press found, and for what."""


def show_search() -> None:
    """Every GPU, number of them, draft, γ and load, within what is promised."""
    with furniture.drawer("Another GPU, draft or number of GPUs? Search all of them", "search",
                          "search") as opened:  # fmt: skip
        if not opened:
            return
        left, right, button = st.columns([6, 3, 2], vertical_alignment="bottom")
        gpus = left.multiselect(
            "GPUs", [*hardware.catalogue()], default=_offered(), key="search_gpus",
            on_change=touched,
        )  # fmt: skip
        parallel = right.multiselect(
            "GPUs a replica", list(PARALLEL), default=list(PARALLEL), key="search_parallel",
            on_change=touched,
        )  # fmt: skip
        asked = scenario(), tuple(gpus), tuple(parallel)
        if button.button("Search", key="search_now", width="stretch",
                         disabled=not (gpus and parallel), on_click=touched):  # fmt: skip
            _search(*asked)
        was, found = st.session_state.get(KEY, (None, None))
        if was == asked and found is not None:
            _show(found, asked[0])
        elif was is not None:
            st.caption("Something was changed since the last search: search anew.")


def _offered() -> list[str]:
    """Of one kind a maker: those that people choose between first."""
    usual = ("H100 SXM", "H200 SXM", "B200 SXM", "A100 80GB SXM", "L40S", "MI300X")
    able = gpus_for(scenario())
    mine = hardware.find(str(scenario().gpu)).name
    named = [name for name in hardware.catalogue() if name == mine]
    return list(dict.fromkeys([*named, *(name for name in usual if name in able)]))


def _search(asked: Scenario, gpus: tuple[str, ...], parallel: tuple[int, ...]) -> None:
    bar = st.progress(0.0, "Computing servers")
    try:
        found = deployments(
            asked, gpus=gpus, parallel=parallel,
            told=lambda done, of: bar.progress(done / of, f"{done} of {of} servers"),
        )  # fmt: skip
    except InputError as error:
        st.session_state.pop(KEY, None)
        st.error(f"{furniture.verbatim(str(error))}.")
    else:
        st.session_state[KEY] = ((asked, gpus, parallel), found)
    bar.empty()


def _show(found: Search, asked: Scenario) -> None:
    st.markdown(furniture.verbatim(search_sentence(found)))
    shown = cheapest_table(found)
    with st.container(key="wide_cheapest"):
        furniture.plain_table(shown, middles=("tpot_ms", "ttft_ms", "usd_per_million_tokens"))
    furniture.downloads(shown)
    furniture.chart(front_chart(found), "Deployments that nothing beats: time per token and cost",
                    front_sentence(found))  # fmt: skip
    furniture.table(front_table(found))
    furniture.remarks(search_notes(asked))
