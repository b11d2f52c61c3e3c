"""How to try it: what to measure before and after, on how many requests, and when to stop."""

import streamlit as st

from pages.ui.furniture import downloads, plain_table, remarks, verbatim
from specmath.checks import InputError
from specmath.predict import Prediction
from specmath.rollout import rollout
from specmath.rollout.file import to_file
from specmath.scenario.faults import in_words
from specmath.tables.rollout import checklist_table, exported_table, requests_table, stop_table
from specmath.tables.table import Table
from specmath.words.rollout import rollout_notes, rollout_sentence

MIDDLES = ("plain", "speculative", "limit")


def show_rollout(prediction: Prediction) -> None:
    """The checklist with its downloads, and the file that Read my log takes as the plan."""
    spread = st.number_input(
        "Spread of a request's time per token, as you measured it (%)",
        min_value=0.1,
        max_value=1000.0,
        value=None,
        key="rollout_cv",
        placeholder="unknown",
        help="Standard deviation over mean, over the requests of a plain run. Empty: what "
        "acceptance and other requests' prompts alone give, which is the least.",
    )
    try:
        found = rollout(prediction, cv=None if spread is None else spread / 100)
    except InputError as error:
        st.info(f"{verbatim(in_words(str(error)))}.", icon=":material/info:")
        return
    st.markdown(f"**{verbatim(rollout_sentence(found))}**")
    checklist = checklist_table(found)
    tables = (_shown(checklist), requests_table(found), stop_table(found))
    for shown in tables:
        st.caption(verbatim(shown.title))
        plain_table(shown, middles=MIDDLES)
    downloads(checklist, (*tables[1:], exported_table(found)))
    st.download_button(
        "The plan as a file",
        data=to_file(found),
        file_name="specmath-rollout.toml",
        mime="application/toml",
        key="download_rollout_file",
        on_click="ignore",
        help="The scenario and what is expected of it. Later: specmath review "
        "specmath-rollout.toml after.json says keep, change γ or roll back.",
    )
    remarks(rollout_notes(found))


def _shown(table: Table) -> Table:
    """Without the column that only a file has room for."""
    columns = tuple(column for column in table.columns if column.name != "definition")
    return Table(table.title, table.name, columns)
