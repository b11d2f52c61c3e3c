"""plan: which endpoints get it, with which γ, and what all of them cost."""

from __future__ import annotations

from pathlib import Path

import click

from specmath.checks import InputError
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.options import FILE, format_option, read_text
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_each
from specmath.outfile import TABLE
from specmath.plan.decided import PlanAnswer, decided
from specmath.plan.files import from_toml
from specmath.plan.record import Plan
from specmath.tables.files import KINDS, file_bytes
from specmath.tables.plan import days_table, endpoints_table, segments_table
from specmath.tables.plan_compared import compared_plans_table, plans_called
from specmath.tables.plan_live import live_plan_table, plan_text
from specmath.tables.plan_ways import ways_table
from specmath.tables.rollout import trials_table
from specmath.traffic import TRACES, Traffic, read_trace, shipped_trace
from specmath.words.plan import (
    day_sentence,
    endpoint_said,
    plan_notes,
    plan_sentence,
    segments_sentence,
    ways_sentence,
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


_TABLES = {"endpoint": endpoints_table, "segment": segments_table, "way": ways_table,
           "hour": days_table, "rollout": trials_table}  # fmt: skip


@click.command("plan", cls=WritingCommand, epilog="\b\nExample: specmath plan plan.toml --by "
               "segment -o plan.xlsx")  # fmt: skip
@click.argument("file", type=FILE)
@click.option(
    "--by", type=click.Choice([*_TABLES]), default="endpoint",
    help="Rows: endpoints, their segments, ways to serve mixed ones (one γ for all, one for each "
    "request, dedicated replicas), the hours of each endpoint's day, or how to try it.",
)  # fmt: skip
@click.option("--beside", type=FILE, help="Another plan: rows have both, endpoints by name.")
@click.option("-o", "--out", type=Destination(TABLE), help="File to write: .xlsx with live "
              "formulas (change α and the month's cost follows), or .csv.")  # fmt: skip
@click.option("--kind", type=click.Choice(list(KINDS)), help="Of that file, where its name does "
              "not say it: a .csv has values, or live formulas.")  # fmt: skip
@click.option("--delimiter", type=click.Choice([",", ";"]), default=",", help="Of a .csv.")
@click.option("--decimal", type=click.Choice([".", ","]), default=".", help="Of a .csv.")
@format_option
def plan_command(
    file: str, by: str, beside: str | None, out: str | None, kind: str | None, delimiter: str,
    decimal: str, style: str,
) -> None:  # fmt: skip
    """Which endpoints get it, with which γ, how many GPUs, and what a month costs.

    FILE is TOML: [[endpoints]] with the fields of a scenario, each with [[endpoints.segments]].
    """
    kind = _kind(out, kind)
    found = _read(file)
    if beside is not None:
        if by != "endpoint":
            raise InputError(f"--beside has a row an endpoint, got --by {by}")
        if out is not None:
            raise InputError(f"--beside is printed; --out writes one plan, got {Path(out).name}")
        _print_beside(found, _read(beside), style)
        return
    data = b""
    if out is not None:
        data = file_bytes(live_plan_table(found), plan_text(found.plan), kind, delimiter, decimal)
        put(out, data)
    if style == "table":
        say(f"{plan_sentence(found)}\n")
        for answer in found.endpoints:
            said = endpoint_said(answer)
            say(f"{said.question}: {said.headline}. {' '.join(said.because)}")
            say(f"  {segments_sentence(answer)}")
            if told := ways_sentence(answer):
                say(f"  {told}")
            if answer.day is not None:
                say(f"  {day_sentence(answer)}")
        say("")
    print_table(_TABLES[by](found), style)
    if style == "table":
        say_each("\nNote: ", plan_notes(found))
    if out is not None and style == "table":
        say(f"\nwrote {out} ({len(data):,} bytes)")


def _kind(out: str | None, kind: str | None) -> str:
    """Of `KINDS`, by the name of the file; InputError where the two disagree."""
    ending = Path(out).suffix.lower() if out else ""
    if out is None and kind is not None:
        raise InputError(f"--kind {kind} needs --out, got no file to write")
    found = kind or {".xlsx": "xlsx", ".csv": "values"}.get(ending, "")
    if out is not None and (not found or (ending in (".xlsx", ".csv") and
                                          (found == "xlsx") != (ending == ".xlsx"))):  # fmt: skip
        raise InputError(
            f"--out must end in .xlsx or .csv as its --kind has it, got {Path(out).name}"
        )
    return found


def _read(file: str) -> PlanAnswer:
    return decided(read_plan(file))


def _print_beside(found: PlanAnswer, other: PlanAnswer, style: str) -> None:
    """Two plans, each in its sentence, and the table of both."""
    if style == "table":
        for name, each in zip(plans_called(found, other), (found, other), strict=True):
            say(f"{name}: {plan_sentence(each)}")
        say("")
    print_table(compared_plans_table(found, other), style)
