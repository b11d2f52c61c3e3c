"""Read my log: the numbers that were read, their charts and tables."""

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from pages.ui.furniture import chart, downloads, drawer, plain_table, table, verbatim
from pages.ui.logs import given_costs
from pages.ui.logs_given import engine_name
from specmath.charts.logs import survival_chart, windows_chart
from specmath.checks import InputError
from specmath.logs import Reading
from specmath.numbers import ms, significant
from specmath.review.into_scenario import Shape, endpoint_of
from specmath.review.observed import Speed, throughput_of, tpot_of
from specmath.tables.logs import (
    facts_table,
    gammas_table,
    reading_table,
    survival_table,
    windows_table,
)
from specmath.tables.service import service_table
from specmath.words.logs import GAMMA
from specmath.words.said import Said


def headline(reading: Reading, answers: Sequence[Said]) -> str:
    """What the log says, and what to do about γ, in two sentences."""
    said = [f"**{verbatim(engine_name(reading))}**, {verbatim(reading.format)}:"]
    if not reading.speculates and reading.service.speed_told:
        return " ".join([*said, _plain(reading)])
    if reading.tokens_per_step is not None:
        said.append(
            f"**{significant(reading.tokens_per_step)} tokens a step**, bonus token included,"
        )
    elif reading.tokens_per_pass is not None:
        said.append(f"{significant(reading.tokens_per_pass)} tokens a decode pass,")
    elif reading.accepted_share is not None:
        said.append(f"{reading.accepted_share:.1%} accepted ÷ drafted,")
    said.append(_alpha(reading))
    said += [verbatim(answer.headline) for answer in answers if answer.question == GAMMA]
    return " ".join(said)


def _alpha(reading: Reading) -> str:
    if reading.alpha is not None:
        return f"**α = {significant(reading.alpha)}**."
    if reading.alpha_interval is None:
        return "α unknown."
    low, high = map(significant, reading.alpha_interval)
    return f"**α between {low} and {high}**."


def _plain(reading: Reading) -> str:
    """The speed of a run that did not speculate."""
    each, total = tpot_of(reading), throughput_of(reading)
    told = [
        f"**{ms(each)} a token**" if each is not None else "",
        f"{significant(total)} tokens/s in total" if total is not None else "",
        f"{reading.service.running:.3g} requests running" if reading.service.running else "",
    ]
    return f"a run without speculation, {', '.join(text for text in told if text)}."


def numbers(reading: Reading) -> None:
    """The counts and rates, as a small table with its downloads."""
    shown = reading_table(reading) or service_table(reading)
    if shown is None:
        return
    plain_table(shown)
    with drawer("Download what was read", "download", shown.name) as opened:
        if opened:
            downloads(shown)


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
        table(gammas_table(reading, endpoint_of(reading, given_costs(), speed, shape), shape))
    for made in (survival_table, windows_table, service_table, facts_table):
        if (shown := made(reading)) is not None:
            table(shown)
