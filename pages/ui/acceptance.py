"""Acceptance that others measured: where the scenario's range is from, and the record itself."""

import streamlit as st

from pages.ui.furniture import chart, downloads, drawer, plain_table, remarks, verbatim
from pages.ui.state import touched
from specmath.acceptance_record import KINDS, Band, bands, offered, rows
from specmath.charts.acceptance import acceptance_boxes
from specmath.numbers import count
from specmath.predict import Prediction
from specmath.tables.acceptance import bands_table, pairs_table, record_table
from specmath.words.acceptance import KIND_WORDS, kind_words, range_notes

EVERY = ""
"""Where no kind of draft is chosen."""


def show_range(prediction: Prediction) -> None:
    """Under an answer whose acceptance others measured: n and sources; else nothing."""
    if not (said := range_notes(prediction)):
        return
    found = prediction.endpoint.band
    if found is None:  # nobody measured it
        remarks(said)
        return
    of = f"{count(found.pairs, 'pair')}, {count(len(found.sources), 'source')}"
    label = f"Where this range of α comes from: {of}"
    with drawer(verbatim(label), "menu_book", "range") as opened:
        if opened:
            st.markdown("  \n".join(map(verbatim, said)))
            _pairs(found)


def _pairs(found: Band) -> None:
    shown = pairs_table(found.found)
    with st.container(key="narrow_pairs", height=320):
        plain_table(shown)
    downloads(shown)


def show_record() -> None:
    """The record: a box a drafter and work, the bands, every row to download."""
    with drawer("What acceptance others measured", "menu_book", "record") as opened:
        if not opened:
            return
        kind = st.selectbox(
            "Draft", [EVERY, *KINDS], format_func=lambda one: KIND_WORDS.get(one, "Every kind"),
            key="record_draft", on_change=touched,
        )  # fmt: skip
        chosen = [p for p in offered() if p.kind in ((kind,) if kind else KINDS)]
        if not chosen:
            st.info(f"Nobody measured an α of {verbatim(kind_words(kind))} in chains.")
            return
        chart(
            acceptance_boxes(chosen),
            "Acceptance α that others measured, by kind of draft and of work",
            "A point is a drafter on a target by one source, the mean over its γ. Between pairs of "
            "one kind and work α differs as much as between kinds: the drafter matters more than "
            "its kind. Point at one for its source.",
            height=430,
        )
        shown = bands_table(bands(kind or None))
        plain_table(shown)
        downloads(shown)
        st.caption("Every row of the record, with its source and what its numbers mean:")
        downloads(record_table(rows()))
