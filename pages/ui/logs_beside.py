"""Read my log: what a log does not say, asked beside it."""

import streamlit as st

from specmath.logs import Reading
from specmath.numbers import significant
from specmath.review.into_scenario import SHAPES, Shape, shape_of
from specmath.review.observed import Speed, speed_of, throughput_of, tpot_of


def beside(reading: Reading) -> tuple[Speed | None, Shape]:
    """A plain run beside the log, and how the server drafts: what a log does not say."""
    with st.expander(
        "Beside the log: a plain run, γ, the kind of draft",
        icon=":material/add_notes:",
        key="log_beside",
    ):
        columns = [*st.columns(2), *st.columns(2)]
        plain_ms = columns[0].number_input(
            "Plain: ms per token", min_value=0.001, value=None, key="log_plain_ms",
            help="TPOT or ITL of the same load without speculation.", placeholder="unknown",
        )  # fmt: skip
        own_ms = columns[1].number_input(
            "This run: ms per token", min_value=0.001, value=None, key="log_ms",
            help="Mean TPOT with speculation; from the log where it prints one.",
            placeholder=_printed(tpot_of(reading), 1e3),
        )  # fmt: skip
        plain_rate = columns[2].number_input(
            "Plain: tokens/s", min_value=0.001, value=None, key="log_plain_rate",
            help="Of one sequence or of the server: the same for both.", placeholder="unknown",
        )  # fmt: skip
        own_rate = columns[3].number_input(
            "This run: tokens/s", min_value=0.001, value=None, key="log_rate",
            placeholder=_printed(throughput_of(reading)),
        )  # fmt: skip
        left, right = st.columns([1, 3])
        left.number_input(
            "γ", min_value=1, max_value=256, value=None, key="log_gamma",
            help="Where the log does not print the draft length.",
            placeholder=str(reading.gamma or "unknown"),
        )  # fmt: skip
        shapes: list[Shape | None] = [None, *SHAPES]
        stated = right.selectbox(
            "How the server drafts",
            shapes,
            format_func=lambda s: (
                SHAPES[s] if s else f"As the log shows: {SHAPES[shape_of(reading)]}"
            ),
            key="log_shape",
        )
    speed = speed_of(
        reading,
        plain_ms=plain_ms,
        plain_tokens_per_second=plain_rate,
        ms=own_ms,
        tokens_per_second=own_rate,
    )
    return speed, stated or shape_of(reading)


def _printed(value: float | None, by: float = 1.0) -> str:
    return "unknown" if value is None else f"{significant(value * by)} (log)"
