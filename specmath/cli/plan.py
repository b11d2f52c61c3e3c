"""plan: which endpoints get it, with which γ, and what all of them cost."""

from __future__ import annotations

from pathlib import Path

import click

from specmath.cli.options import format_option, read_text
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_each
from specmath.plan.decided import decided
from specmath.plan.files import from_toml
from specmath.tables.plan import days_table, endpoints_table, segments_table
from specmath.words.plan import (
    day_sentence,
    endpoint_said,
    plan_notes,
    plan_sentence,
    segments_sentence,
)

__all__ = ["plan_command"]

_TABLES = {"endpoint": endpoints_table, "segment": segments_table, "hour": days_table}


@click.command("plan", epilog="\b\nExample: specmath plan plan.toml --by segment")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--by", type=click.Choice([*_TABLES]), default="endpoint",
    help="Rows: endpoints, their segments, or the hours of each endpoint's day.",
)  # fmt: skip
@format_option
def plan_command(file: str, by: str, style: str) -> None:
    """Which endpoints get it, with which γ, how many GPUs, and what a month costs.

    FILE is TOML: [[endpoints]] with the fields of a scenario, each with [[endpoints.segments]].
    """
    found = decided(from_toml(read_text(Path(file))))
    if style == "table":
        say(f"{plan_sentence(found)}\n")
        for answer in found.endpoints:
            said = endpoint_said(answer)
            say(f"{said.question}: {said.headline}. {' '.join(said.because)}")
            say(f"  {segments_sentence(answer)}")
            if answer.day is not None:
                say(f"  {day_sentence(answer)}")
        say("")
    print_table(_TABLES[by](found), style)
    if style == "table":
        say_each("\nNote: ", plan_notes(found))
