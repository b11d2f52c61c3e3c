"""Read my log: the numbers that were read, their charts and tables."""

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from pages.ui.furniture import NBSP, chart, safe, table, verbatim
from pages.ui.logs_given import engine_name
from pages.ui.state import scenario
from specmath.charts.logs import survival_chart, windows_chart
from specmath.checks import InputError
from specmath.logs import Reading
from specmath.logs.answer import Answer
from specmath.logs.gamma_advice import GAMMA, gamma_rows
from specmath.logs.speed import Speed
from specmath.logs.taken import Shape, drafts_of
from specmath.predict import predict
from specmath.views.logs import survival_table, windows_table
from specmath.wording import significant


def headline(reading: Reading, answers: Sequence[Answer]) -> str:
    """What the log says, and what to do about γ, in two sentences."""
    said = [f"**{verbatim(engine_name(reading))}**, {verbatim(reading.format)}:"]
    if reading.tokens_per_step is not None:
        said.append(
            f"**{significant(reading.tokens_per_step)} tokens a step**, bonus token included,"
        )
    elif reading.tokens_per_pass is not None:
        said.append(f"{significant(reading.tokens_per_pass)} tokens a decode pass,")
    elif reading.accepted_share is not None:
        said.append(f"{reading.accepted_share:.1%} accepted ÷ drafted,")
    said.append("α unknown." if reading.alpha is None else f"**α = {significant(reading.alpha)}**.")
    said += [answer.headline for answer in answers if answer.question == GAMMA]
    return safe(" ".join(said))


def numbers(reading: Reading) -> None:
    """The counts and rates, as a small table."""
    interval = reading.alpha_interval
    share = None if reading.accepted_share is None else f"{reading.accepted_share:.1%}"
    rows = {
        "Steps with a draft": _count(reading.steps),
        "Tokens drafted": _count(reading.drafted),
        "Tokens accepted": _count(reading.accepted),
        "Accepted ÷ drafted": share,
        "Tokens per step, bonus included": _rounded(reading.tokens_per_step),
        "Tokens per pass, drafted or not": _rounded(reading.tokens_per_pass),
        "γ": _count(reading.gamma),
        "α": _rounded(reading.alpha),
        "α, interval": interval and " to ".join(map(significant, interval)),
        "Coverage: steps with a draft": reading.coverage and f"{reading.coverage:.0%}",
        "Drafting, ms a step": _rounded(reading.draft_seconds and 1e3 * reading.draft_seconds),
        "c": _rounded(reading.c),
        "Requests, tokens per step p10 to p90": _spread(reading),
    }
    lines = ["| What was read | |", "|---|---:|"]
    lines += [f"| {name} | {value.replace(' ', NBSP)} |" for name, value in rows.items() if value]
    st.markdown("\n".join(lines))


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _rounded(value: float | None) -> str | None:
    return None if value is None else significant(value)


def _spread(reading: Reading) -> str | None:
    found = reading.requests
    if found is None or found.measure != "tokens_per_step":
        return None
    return f"{significant(found.p10)} to {significant(found.p90)}"


def show_warnings(reading: Reading) -> None:
    """What to know before using the numbers."""
    for text in reading.warnings:
        st.caption(f":material/info: {verbatim(text)}")


def show_charts(reading: Reading) -> None:
    """Survival with its interval; beside it the windows over time."""
    if reading.survival:
        chart(
            survival_chart(reading),
            "How far drafts survive",
            f"At least one drafted token is accepted in {reading.survival[0]:.0%} of the steps, "
            f"all {len(reading.survival)} in {reading.survival[-1]:.0%}.",
            height=320,
        )


def show_windows(reading: Reading) -> None:
    """Tokens per step over time, where the log has windows."""
    shown = windows_table(reading)
    if shown is None:
        return
    values = [v for v in shown.column("tokens_per_step").values if isinstance(v, float)]
    chart(
        windows_chart(reading),
        "Tokens per step over time",
        f"From {significant(min(values))} to {significant(max(values))} over {len(values)} "
        "windows. A lasting fall? The tab Has it fallen? compares two logs.",
        height=280,
    )


def show_tables(reading: Reading, speed: Speed | None, shape: Shape) -> None:
    """What the charts show, and the table over γ, each with its downloads."""
    with suppress(InputError):  # the answers say why no γ can be judged
        drafts = predict(drafts_of(reading, scenario(), shape))
        table(gamma_rows(reading, drafts, shape, speed))
    for shown in (survival_table(reading), windows_table(reading)):
        if shown is not None:
            table(shown)
