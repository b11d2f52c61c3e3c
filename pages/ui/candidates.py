"""Drafts of the reader's own by α and c, and the published example apart from them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.furniture import chart, downloads, drawer, plain_table, verbatim
from pages.ui.state import adopt, drafts, list_drafts, prediction, scenario, touched
from specmath.charts.calculator import drafts_plane
from specmath.checks import InputError
from specmath.drafts import (
    FIELDS,
    T5_SOURCE,
    Candidate,
    CostOf,
    Listed,
    Outcome,
    best_speedup,
    cost_of_draft,
    evaluate,
    published_t5,
)
from specmath.scenario.files import revised
from specmath.stepcost import LinearStepCost
from specmath.tables import drafts_table, example_table
from specmath.words.drafts import own_cost_words, rank_at_own_cost, rank_drafts

ALPHAS, STEPS, LARGEST_C = np.linspace(0, 1, 101), 61, 1.5
"""The grid of the chart."""
PUBLISHED_GAMMA = 16
"""The largest γ that is considered of the published drafts."""


def show_own(answer: DeltaGenerator) -> bool:
    """The table to fill, and what its rows are worth at the scenario's step cost, which is said in
    `answer`; whether there is such a row."""
    left, right = st.columns([10, 11], gap="medium")
    with left:
        candidates = _edited()
    if not candidates:
        right.caption("A row is compared as soon as it has α, c and γ.")
        return False
    limit, cost_of = scenario().max_gamma, cost_of_draft(scenario())
    outcomes = evaluate(candidates, limit, cost_of)
    words = own_cost_words(cost_of(0.0), prediction().gamma)
    ranked = rank_drafts(evaluate(candidates, limit))
    if words:
        ranked = f"{rank_at_own_cost(outcomes, words)} Were it memory-bound: {ranked}"
    answer.info(verbatim(ranked), icon=":material/compare:")
    with left:
        _use(outcomes)
    with right:
        said = f"at your verification cost: {words}" if words else "memory-bound, Theorem 3.8"
        _plane(outcomes, limit, cost_of, said, memory_bound=not words)
    shown = drafts_table(outcomes, words)
    with st.container(key="narrow_drafts"):
        plain_table(shown)
    st.caption(
        "Speedup, miss and implied c are Theorem 3.8 (memory-bound) at the γ shown; the implied c "
        f"would make it exact. Best γ and its speedup: {verbatim(said)}."
    )
    downloads(shown)
    return True


def show_example() -> None:
    """Published drafts beside what was measured of them: whatever the reader's own are."""
    with drawer("A published example: T5 drafts, predicted beside measured", "science", "t5") as o:
        if not o:
            return
        outcomes = evaluate(published_t5(), PUBLISHED_GAMMA)
        st.markdown(verbatim(rank_drafts(outcomes)))
        _plane(outcomes, PUBLISHED_GAMMA, LinearStepCost, "memory-bound, Theorem 3.8")
        shown = example_table()
        with st.container(key="narrow_t5"):
            plain_table(shown)
        st.caption(
            f"{T5_SOURCE}, English to German, temperature 0. On the printed α and c the theorem "
            "misses the measured speedups and ranks T5-base first where T5-small was fastest. "
            "Nothing is tuned: the implied c is the one that would make the theorem exact."
        )
        downloads(shown)


def _plane(
    outcomes: Sequence[Outcome],
    limit: int,
    cost_of: CostOf,
    said: str,
    *,
    memory_bound: bool = True,
) -> None:
    top = min(LARGEST_C, max(0.3, *(1.2 * o.candidate.c for o in outcomes)))
    costs = np.linspace(0, top, STEPS)
    plane = best_speedup(ALPHAS[None, :], costs[:, None], limit, cost_of)
    chart(
        drafts_plane(outcomes, ALPHAS, costs, plane, memory_bound=memory_bound),
        "Speedup (×) at the best γ, over acceptance and draft cost",
        f"Each line joins drafts of equal speedup at their best γ up to {limit} ({said}). To the "
        "right and down is faster.",
        height=400,
    )


# ── the table to fill ────────────────────────────────────────────────────────────────────────


def _edited() -> tuple[Candidate, ...]:
    """The rows as edited that are whole; a wrong one is said, and has no answer."""
    st.caption("Edit a cell, add a row at the bottom, or select rows to delete them.")
    # The box forgets its edits once another page is shown: it then starts from the table as left.
    # One of another name after a list was read from the address, or cleared: the browser would put
    # the edits it holds into one of the same.
    read = st.session_state.get("drafts_read", 0)
    editor = f"candidates|{read}|{st.session_state.setdefault('candidates_box', 0)}"
    if editor not in st.session_state:
        st.session_state["candidates_start"] = _frame(drafts().rows)
    column = st.column_config
    edited = st.data_editor(
        st.session_state["candidates_start"],
        key=editor,
        num_rows="dynamic",
        hide_index=True,
        width="stretch",
        on_change=touched,
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
    rows = tuple(_typed(row) for row in edited.to_dict("records"))
    list_drafts(Listed(rows, drafts().compared))
    if rows:
        st.button("Clear the table", on_click=_clear, icon=":material/delete:")
    try:
        found = tuple(_candidate(row) for row in rows if any(cell is not None for cell in row))
        if found:
            evaluate(found)
    except InputError as error:
        st.error(f"{verbatim(str(error))}. These drafts are compared once that is mended.")
        return ()
    return found


def _frame(rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    types = dict.fromkeys(FIELDS[1:], "float64") | {"draft": "object"}
    return pd.DataFrame(rows, columns=list(FIELDS)).astype(types)


def _typed(row: dict[str, Any]) -> tuple[Any, ...]:
    """Its cells, None where nothing was typed."""
    return tuple(None if pd.isna(row[name]) else row[name] for name in FIELDS)


def _clear() -> None:
    touched()
    st.session_state["candidates_box"] += 1
    list_drafts(Listed((), drafts().compared))


def _candidate(row: Sequence[Any]) -> Candidate:
    draft, *numbers, measured = row
    name = "unnamed" if draft is None else str(draft)
    missing = [n for n, number in zip(FIELDS[1:4], numbers, strict=True) if number is None]
    if missing:
        raise InputError(f"draft {name!r} needs {', '.join(missing)}, got nothing")
    alpha, c, gamma = numbers
    whole = int(gamma) if float(gamma).is_integer() else gamma
    return Candidate(name, alpha, c, whole, measured)


def _use(outcomes: Sequence[Outcome]) -> None:
    """Take one candidate's α and c, with its best γ, into the scenario."""
    names = [o.candidate.draft for o in outcomes]
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    index = left.selectbox(
        "Take one of them into the scenario",
        range(len(names)),
        format_func=names.__getitem__,
        on_change=touched,
    )
    chosen = outcomes[index]
    # Keyed: a click while the page still runs counts although the γ in its label moves on.
    if right.button(f"Use it with γ={chosen.recommended_gamma}", key="use_draft", width="stretch"):
        row = chosen.candidate
        changes = {"alpha": row.alpha, "c": row.c, "gamma": chosen.recommended_gamma}
        adopt(revised(scenario(), changes))
        st.rerun()
