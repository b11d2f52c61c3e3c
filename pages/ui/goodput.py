"""Promises that most requests keep, on the page of how many GPUs: served one by one at a press."""

import time

import streamlit as st

from pages.ui import furniture
from pages.ui.state import prediction, scenario, touched
from specmath.attainment import MOST_TRIED, Trial
from specmath.charts.goodput import attainment_chart
from specmath.checks import InputError
from specmath.goodput import Goodput, goodput
from specmath.scenario import Scenario
from specmath.tables.goodput import attainment_table, goodput_part, goodput_table, quantile_table
from specmath.traffic import TRACES
from specmath.words.goodput import (
    NEEDS_PROMISE,
    STALE,
    attainment_sentence,
    attainment_words,
    chance_sentence,
    goodput_notes,
    goodput_sentence,
    goodput_title,
    misses_sentence,
    took_words,
)

KEY = "goodput_found"
"""What the last press found, for what, and how many seconds it took."""

SHARES = (0.9, 0.95, 0.99, 0.999)
BY_CHANCE = ""


def show_goodput() -> None:
    """The rate at which most requests meet every promise, and what it needs."""
    with furniture.drawer("99% of requests within what is promised? Serve them one by one",
                          "percent", "goodput") as opened:  # fmt: skip
        if not opened:
            return
        s = scenario()
        if s.slo_tpot_ms is None and s.slo_ttft_ms is None and s.slo_e2e_ms is None:
            furniture.remarks([NEEDS_PROMISE])
            return
        try:
            trial, pressed = _asked()
        except InputError as error:
            st.error(f"{furniture.verbatim(str(error))}.")
            return
        asked = s, trial
        if pressed:
            _serve(*asked)
        was, found, seconds = st.session_state.get(KEY, (None, None, 0.0))
        if was == asked and found is not None:
            _show(found, seconds)
        elif was is not None:
            st.caption(STALE)


def _asked() -> tuple[Trial, bool]:
    """The boxes: which share, of what requests, how many; and whether they are to be served.
    InputError where so few say nothing of that share."""
    share, arrivals, many, button = st.columns([2, 3, 2, 2], vertical_alignment="bottom")
    attainment = share.selectbox(
        "Share of requests", SHARES, SHARES.index(0.99), key="goodput_share",
        format_func=attainment_words, on_change=touched,
        help="That are to meet every promise, each by itself.",
    )  # fmt: skip
    trace = arrivals.selectbox(
        "Arrivals", [BY_CHANCE, *TRACES], key="goodput_trace", on_change=touched,
        format_func=lambda name: f"Trace {name}" if name else "By chance",
        help="A trace has lengths of its own, in place of the scenario's, and its bursts are "
        "stretched to each rate.",
    )  # fmt: skip
    requests = many.number_input(
        "Requests", 1, MOST_TRIED, None, step=1000, key="goodput_requests", placeholder="auto",
        on_change=touched,
        help="That come at each rate: 20,000, or fewer where outputs are long. More take longer, "
        "and leave less to chance.",
    )  # fmt: skip
    pressed = button.button("Serve them", key="goodput_now", width="stretch", on_click=touched)
    return Trial(attainment=attainment, requests=requests, trace=trace), pressed


def _serve(s: Scenario, trial: Trial) -> None:
    begun, bar = time.perf_counter(), st.progress(0.0, "Serving requests")
    try:
        found = goodput(
            prediction(), trial,
            told=lambda done, of: bar.progress(done / of, f"{done:,} of about {of:,} requests"),
        )  # fmt: skip
    except InputError as error:
        st.session_state.pop(KEY, None)
        st.error(f"{furniture.verbatim(str(error))}.")
    else:
        st.session_state[KEY] = ((s, trial), found, time.perf_counter() - begun)
    bar.empty()


def _show(found: Goodput, seconds: float) -> None:
    st.info(furniture.verbatim(goodput_sentence(found)), icon=":material/percent:")
    st.markdown(furniture.verbatim(misses_sentence(found)))
    shown, times, rates = goodput_table(found), quantile_table(found), attainment_table(found)
    with st.container(key="wide_goodput"):
        part = goodput_part(shown)
        furniture.plain_table(part, middles=[column.name for column in part.columns], empty="none")
    furniture.downloads(shown, beside=(times, rates))
    with st.container(key="wide_goodput_times"):
        furniture.plain_table(times, empty="–")
    furniture.chart(attainment_chart(found), goodput_title(found), attainment_sentence(found))
    furniture.table(rates)
    furniture.remarks(
        [*filter(None, (chance_sentence(found),)), *goodput_notes(found),
         took_words(found, seconds)]
    )  # fmt: skip
