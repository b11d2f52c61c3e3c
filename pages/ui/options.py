"""The drafts that the scenario's target can have: the answer, the table, what else to compare."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui import furniture
from pages.ui.furniture import plain_table, verbatim
from pages.ui.hardware import shortened
from pages.ui.state import adopt, drafts, list_drafts, prediction, scenario, touched
from specmath import models
from specmath.checks import InputError
from specmath.drafters import named
from specmath.drafts import Listed
from specmath.numbers import count
from specmath.options import MOST_COMPARED, Options, options
from specmath.scenario.server import pair_of
from specmath.serving.tree import read_branch, tree_choice
from specmath.tables import essential, options_table
from specmath.words.drafts import tree_sentence
from specmath.words.options import choice_of, named_words, options_notes


def show_options(answer: DeltaGenerator) -> None:
    """The best draft and what nothing tells apart from it, in `answer`; each in a row; what is to
    be known."""
    table = st.container()
    found = options(prediction().endpoint, _compared())
    said = choice_of(found)
    box = answer.success if said.firm else answer.info
    box(f"**{verbatim(said.headline)}** {verbatim(said.reason)}", icon=":material/compare:")
    shown = options_table(found)
    with table:
        plain_table(essential(shown), middles=("best_speedup",))
        _use(found)
    st.caption(
        "Each with its own acceptance α: yours as given, of every other what others measured of "
        "its kind at your kind of work. Speedup, cost, memory (of the fullest GPU) and step cost "
        "(in plain steps) at your load and at the γ shown, with their 80% ranges."
    )
    furniture.table(shown)
    told = options_notes(prediction(), found)
    furniture.folded((count(len(told), "note"),), told)


def _compared() -> tuple[str, ...]:
    """Other models to be compared, as far as they are known."""
    key = f"compared|{st.session_state.get('drafts_read', 0)}"
    if key not in st.session_state:
        st.session_state[key] = list(drafts().compared)
    chosen = st.multiselect(
        "Compare another draft model",
        list(dict.fromkeys([*st.session_state[key], *models.catalogue()])),
        key=key,
        format_func=shortened,
        accept_new_options=True,
        max_selections=MOST_COMPARED,
        placeholder="a model's name, or its config.json",
        help="Any model of the catalogue. One with another vocabulary is marked with what your "
        "engine does with it.",
        on_change=touched,
    )
    list_drafts(Listed(drafts().rows, tuple(chosen)))
    known = []
    for text in chosen:
        try:
            if named(text).own_model is None:
                raise InputError(f"a draft to be compared must be a model, got {text!r}")
            known.append(text)
        except InputError as error:
            st.error(f"{verbatim(str(error))}. It is not among those compared.")
    return tuple(known)


def _use(found: Options) -> None:
    """Take one of them into the scenario, with what others measured of it."""
    others = [row for row in found.rows if row.runs and not row.yours]
    if not others:
        return
    left, right, _ = st.columns([3, 2, 4], vertical_alignment="bottom")
    index = left.selectbox(
        "Take a draft into the scenario",
        range(len(others)),
        format_func=lambda at: named_words(others[at]),
        key="option_to_use",
        on_change=touched,
    )
    if right.button("Use it", key="use_option", width="stretch"):
        touched()
        adopt(others[index].endpoint.scenario)
        st.rerun()


def show_tree() -> None:
    """Whether a token tree would beat a chain with the scenario's drafter."""
    st.subheader("A tree instead of a chain?", anchor=False)
    text = st.text_input(
        "Chance that the drafter's 1st, 2nd, 3rd … choice is the accepted one",
        key="tree_chances",
        placeholder="for example 0.7, 0.1, 0.05",
        help="Measured on your text; the first is α, and they sum to at most 1.",
        on_change=touched,
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
