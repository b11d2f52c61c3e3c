"""plan: which endpoints get it, with which γ, and what all of them cost."""

from __future__ import annotations

from pathlib import Path

import click

from specmath.checks import InputError
from specmath.cli.options import FILE, format_option, read_text
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_each
from specmath.plan.decided import PlanAnswer, decided
from specmath.plan.files import from_toml
from specmath.plan.record import Plan
from specmath.tables.plan import days_table, endpoints_table, segments_table
from specmath.tables.plan_compared import compared_plans_table, plans_called
from specmath.tables.rollout import trials_table
from specmath.traffic import TRACES, Traffic, read_trace, shipped_trace
from specmath.words.plan import (
    day_sentence,
    endpoint_said,
    plan_notes,
    plan_sentence,
    segments_sentence,
)

__all__ = ["plan_command", "read_plan"]


def read_plan(file: str) -> Plan:
    """The plan of a file; a trace that it names is one of specmath's, or a CSV beside it."""
    path = Path(file)

    def traces(name: str) -> Traffic:
        if name in TRACES:
            return shipped_trace(name)
        return read_trace(read_text(path.parent / name), name)

    return from_toml(read_text(path), traces)


_TABLES = {"endpoint": endpoints_table, "segment": segments_table, "hour": days_table,
           "rollout": trials_table}  # fmt: skip


@click.command("plan", epilog="\b\nExample: specmath plan plan.toml --by segment")
@click.argument("file", type=FILE)
@click.option(
    "--by", type=click.Choice([*_TABLES]), default="endpoint",
    help="Rows: endpoints, their segments, the hours of each endpoint's day, or how to try it.",
)  # fmt: skip
@click.option("--beside", type=FILE, help="Another plan: rows have both, endpoints by name.")
@format_option
def plan_command(file: str, by: str, beside: str | None, style: str) -> None:
    """Which endpoints get it, with which γ, how many GPUs, and what a month costs.

    FILE is TOML: [[endpoints]] with the fields of a scenario, each with [[endpoints.segments]].
    """
    found = _read(file)
    if beside is not None:
        if by != "endpoint":
            raise InputError(f"--beside has a row an endpoint, got --by {by}")
        _print_beside(found, _read(beside), style)
        return
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


def _read(file: str) -> PlanAnswer:
    return decided(read_plan(file))


def _print_beside(found: PlanAnswer, other: PlanAnswer, style: str) -> None:
    """Two plans, each in its sentence, and the table of both."""
    if style == "table":
        for name, each in zip(plans_called(found, other), (found, other), strict=True):
            say(f"{name}: {plan_sentence(each)}")
        say("")
    print_table(compared_plans_table(found, other), style)
