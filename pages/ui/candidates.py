"""The editable table of candidate drafts."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.furniture import downloads, plain_table, remarks, verbatim
from pages.ui.state import adopt, prediction, scenario
from specmath.checks import InputError
from specmath.drafts import Candidate, Outcome, evaluate, published_t5
from specmath.scenario.files import revised
from specmath.scenario.server import pair_of
from specmath.serving.tree import read_branch, tree_choice
from specmath.tables import drafters_table
from specmath.words.drafts import drafters_notes, tree_sentence

COLUMNS = ("draft", "alpha", "c", "gamma", "measured_speedup")


def edited_candidates() -> tuple[Candidate, ...]:
    """The candidates as edited; while a row is wrong, the last valid table and a message."""
    st.markdown("**Candidate drafts**")
    st.caption("Edit a cell, add a row at the bottom, or select rows to delete them.")
    # The box forgets its edits once another page is shown: it then starts from the table as left.
    editor = f"candidates|{st.session_state.setdefault('candidates_box', 0)}"
    if editor not in st.session_state:
        st.session_state["candidates_start"] = st.session_state.get("candidates_left", _published())
    column = st.column_config
    edited = st.data_editor(
        st.session_state["candidates_start"],
        key=editor,
        num_rows="dynamic",
        hide_index=True,
        width="stretch",
        column_config={
            "draft": column.TextColumn("Draft", max_chars=60),
            "alpha": column.NumberColumn("α", help="From 0 to 1.", format="%.4g"),
            "c": column.NumberColumn("c", help="0 or more.", format="%.4g"),
            "gamma": column.NumberColumn("γ", help="A whole number from 1.", format="%d"),
            "measured_speedup": column.NumberColumn(
                "Measured (×)",
                help="The speedup measured; leave empty if there is none.",
                format="%.4g",
            ),
        },
    )
    st.session_state["candidates_left"] = edited
    if not edited.equals(_published()):
        st.button("Reset to the published drafts", on_click=_reset, icon=":material/undo:")
    try:
        rows = tuple(_candidate(row) for row in edited.to_dict("records"))
        evaluate(rows)
    except InputError as error:
        st.error(f"{verbatim(str(error))}. Below is still the last valid table.")
        return st.session_state.get("last_candidates", published_t5())
    st.session_state["last_candidates"] = rows
    return rows


def _published() -> pd.DataFrame:
    return pd.DataFrame([{c: getattr(row, c) for c in COLUMNS} for row in published_t5()])


def _reset() -> None:
    """A box of another name: the browser would put the edits it holds into one of the same."""
    st.session_state["candidates_box"] += 1
    st.session_state.pop("candidates_left", None)


def _candidate(row: dict[str, Any]) -> Candidate:
    draft = str(row["draft"]) if pd.notna(row["draft"]) else "unnamed"
    missing = [name for name in ("alpha", "c", "gamma") if pd.isna(row[name])]
    if missing:
        raise InputError(f"draft {draft!r} needs {', '.join(missing)}, got nothing")
    measured = row["measured_speedup"]
    return Candidate(
        draft, row["alpha"], row["c"], row["gamma"], None if pd.isna(measured) else measured
    )


def use_candidate(outcomes: Sequence[Outcome]) -> None:
    """Take one candidate's α and c, with its best γ, into the scenario."""
    names = [o.candidate.draft for o in outcomes]
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    index = left.selectbox(
        "Take a draft into the scenario", range(len(names)), format_func=names.__getitem__
    )
    chosen = outcomes[index]
    # Keyed: a click while the page still runs counts although the γ in its label moves on.
    if right.button(f"Use it with γ={chosen.recommended_gamma}", key="use_draft", width="stretch"):
        row = chosen.candidate
        changes = {"alpha": row.alpha, "c": row.c, "gamma": chosen.recommended_gamma}
        adopt(revised(scenario(), changes))
        st.rerun()


def show_drafters() -> None:
    """Heads, lookups and layer skipping on the scenario's hardware, and the α each needs."""
    st.subheader("Drafters on your hardware", anchor=False)
    if not scenario().costs.computed:
        st.markdown(
            "What EAGLE, MTP, Medusa, n-gram and layer-skip cost depends on the hardware: choose "
            "“From GPU, models and load” as the draft cost to see which is fastest and the α each "
            "needs."
        )
        return
    found = drafters_table(prediction())
    with st.container(key="narrow_drafters"):
        plain_table(found)
    st.caption(
        "Computed by the step-time model at your batch and context. A drafter pays where its own "
        "acceptance, measured on your text, is above the break-even α. N-gram: acceptance of the "
        "steps with a draft, at the coverage shown (assumed unless you give it). Best γ and its "
        "speedup: at its own acceptance, yours as given, of every other kind what others measured "
        "at your kind of work."
    )
    remarks(drafters_notes(prediction()))
    downloads(found)


def show_tree() -> None:
    """Whether a token tree would beat a chain with the scenario's drafter."""
    if not scenario().costs.computed:
        return
    st.subheader("A tree instead of a chain?", anchor=False)
    text = st.text_input(
        "Chance that the drafter's 1st, 2nd, 3rd … choice is the accepted one",
        key="tree_chances",
        placeholder="for example 0.7, 0.1, 0.05",
        help="Measured on your text; the first is α, and they sum to at most 1.",
    )
    if not text:
        st.caption("Unknown until you give them; engines print only the first (α).")
        return
    try:
        found = tree_choice(pair_of(scenario()), read_branch(text))
        st.markdown(verbatim(tree_sentence(found)))
    except InputError as error:
        st.error(f"{verbatim(str(error))}.")
    st.caption(
        "Computed: the best tree of each size (Sequoia, arXiv 2402.12374), one drafting pass a "
        "level at that level's width, verification of all its nodes."
    )
