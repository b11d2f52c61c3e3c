"""The answer in large numbers: each plain, with speculation, and the ends of its range."""

from typing import Any

import streamlit as st

from pages.ui.furniture import large, remarks
from pages.ui.launch import show_launch
from specmath.numbers import measured_in, significant
from specmath.predict import Prediction
from specmath.tables import card_table
from specmath.words.launch import exactness


def card(found: Prediction) -> None:
    """Speedup first, then times, throughput and money, as far as they are known."""
    large(list(map(_cell, card_table(found).rows())), "answer_card")


def _cell(row: dict[str, Any]) -> tuple[str, str, str]:
    unit = str(row["unit"])
    plain, now, low, high = (
        None if (value := row[name]) is None else significant(float(value))
        for name in ("plain", "speculative", "speculative_low", "speculative_high")
    )
    both = now if plain is None or unit == "×" else f"{plain} → {now}"
    shown = "" if unit.startswith("tokens") else unit  # its name says it
    span = "" if low == high else measured_in(shown, f"{low} to {high}")
    return str(row["quantity"]), measured_in(shown, str(both)), span


def to_paste(found: Prediction) -> None:
    """The command for the γ of the answer, and whether it keeps the target's text; none where the
    answer is to leave it off."""
    if found.endpoint.pair is None or found.decision.action == "skip":
        return
    st.subheader("Switch it on" if found.decision.on else "To try it", anchor=False)
    show_launch(found.decision.gamma or found.gamma or 1)
    remarks((exactness(found.scenario.engine),))
