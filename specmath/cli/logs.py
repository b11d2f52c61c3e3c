"""logs FILE…: telemetry that people already have, read and answered as text, CSV or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from specmath.checks import InputError
from specmath.cli.groups import DefaultGroup
from specmath.cli.options import format_option, help_of, read_scenario, type_of
from specmath.cli.output import Row, print_rows, print_table
from specmath.logs import LogError, Reading, read
from specmath.logs.answer import Answer
from specmath.logs.answers import answer_all
from specmath.logs.gamma_advice import gamma_rows
from specmath.logs.observed import at_load_of
from specmath.logs.plain import read_run
from specmath.logs.speed import Speed, number_of, speed_of, tpot_of
from specmath.logs.taken import SHAPES, Shape, drafts_of
from specmath.predict import predict
from specmath.scenario import SPECS, Scenario
from specmath.scenario.forms import HALVES
from specmath.wording import significant

__all__ = ["FILE", "cost_options", "cost_scenario", "logs_group", "read_files"]

LONG = ("windows", "requests", "facts", "alternatives", "conditional")
"""Fields of a reading that a table and a CSV leave to JSON."""


class _Group(DefaultGroup):
    default = "read"


@click.group(
    "logs",
    cls=_Group,
    subcommand_metavar="FILE… | COMMAND [ARGS]…",
    epilog="\b\nExample: specmath logs vllm.log --baseline-itl-ms 25 --format json\n"
    "All options of `logs FILE…`: specmath logs read --help",
)
def logs_group() -> None:
    """What a server's own log says: α, γ, overhead, and whether acceptance has fallen.

    FILE is a log, a metrics page (two or more of one server, oldest first, give the change), a
    benchmark result or a response, of any engine; gzip is read as it is, - is standard input.
    """


def cost_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option a field, but for those of the acceptance, which the log gives; --scenario."""
    for name, spec in reversed(SPECS.items()):
        if name not in HALVES["acceptance"] and name != "gamma":
            flag = f"--{name.replace('_', '-')}"
            command = click.option(flag, name, type=type_of(spec), help=help_of(spec))(command)
    return click.option(
        "--scenario", "scenario_file", type=click.Path(exists=True, dir_okay=False),
        help="A scenario saved as TOML: the costs, and what was planned.",
    )(command)  # fmt: skip


def cost_scenario(scenario_file: str | None, options: dict[str, Any]) -> Scenario:
    """The scenario of the costs given; while c is not given it is the cited range."""
    given = {name: value for name, value in options.items() if value is not None}
    if scenario_file is None:
        stand_in = {"acceptance_form": "range", "gamma": 0}
        if not HALVES["draft cost"] & given.keys():
            stand_in["draft_form"] = "range"
        return read_scenario(None, stand_in | given)
    return read_scenario(scenario_file, given)


def read_files(paths: Sequence[str], gamma: int | None, *, plain: bool = False) -> list[Reading]:
    """All readings of these files, in order of time; InputError where nothing can be read.

    With `plain` a run without speculation is one, if it tells its speed.
    """
    sources = [sys.stdin.buffer if path == "-" else Path(path) for path in paths]
    reader = read_run if plain else read
    try:
        return reader(sources if len(sources) > 1 else sources[0], gamma=gamma)
    except LogError as error:
        raise InputError(str(error)) from error


FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
_GAMMA = click.option(
    "--gamma", type=click.IntRange(1, 256), help="Draft length, where the log does not print it."
)


@logs_group.command("read", epilog="\b\nExample: specmath logs vllm.log --baseline-itl-ms 25")
@click.argument("files", nargs=-1, required=True, type=FILE)
@_GAMMA
@click.option("--drafts-as", type=click.Choice(list(SHAPES)), help="How the server drafts: "
              + "; ".join(f"{k}: {v}" for k, v in SHAPES.items()) + ".")  # fmt: skip
@click.option("--baseline", type=FILE, help="The same load without speculation: its result.")
@click.option("--baseline-itl-ms", type=float, help="Time per token without speculation [ms].")
@click.option("--baseline-tokens-per-second", type=float, help="Tokens/s without speculation.")
@click.option("--tpot-ms", type=float, help="Time per token of this run [ms], if not in the log.")
@click.option("--tokens-per-second", type=float, help="Tokens/s of this run, if not in the log.")
@cost_options
@format_option
def read_command(
    style: str, files: Sequence[str], gamma: int | None, drafts_as: Shape | None,
    baseline: str | None, baseline_itl_ms: float | None, baseline_tokens_per_second: float | None,
    tpot_ms: float | None, tokens_per_second: float | None, scenario_file: str | None,
    **options: Any,
) -> None:  # fmt: skip
    """Read logs, metrics, benchmark results and responses, and answer what they answer."""
    base = cost_scenario(scenario_file, options)
    readings = read_files(files, gamma)
    plain = read_files([baseline], None, plain=True) if baseline else []
    found = []
    for reading in readings:
        timed, notes = _timed(plain, reading)
        speed = speed_of(
            reading,
            plain=timed,
            plain_ms=baseline_itl_ms,
            plain_tokens_per_second=baseline_tokens_per_second,
            ms=tpot_ms,
            tokens_per_second=tokens_per_second,
        )
        if speed is not None:
            speed = replace(speed, basis="; ".join((speed.basis, *notes)))
        found.append((reading, answer_all(reading, base, speed, drafts_as), speed))
    _PRINTERS[style](found, base, drafts_as)


def _timed(plain: Sequence[Reading], reading: Reading) -> tuple[Reading | None, tuple[str, ...]]:
    """The plain run that tells how fast it was, of a sweep the one nearest in load; notes."""
    if not plain:
        return None, ()
    near, notes = at_load_of("baseline", plain, [reading])
    for one in near:
        if tpot_of(one) or number_of(one, "output_throughput", "tokens_per_second"):
            return one, notes
    raise InputError(
        "baseline must tell a time per token or tokens per second (a benchmark result), "
        f"got {plain[0].engine} {plain[0].format}"
    )


Found = Sequence[tuple[Reading, tuple[Answer, ...], Speed | None]]


def _as_json(found: Found, base: Scenario, shape: Shape | None) -> None:
    rows = [r.to_dict() | {"answers": [asdict(a) for a in answers]} for r, answers, _ in found]
    print_rows(rows, "json", one=len(rows) == 1)


def _row(reading: Reading, answers: Sequence[Answer]) -> Row:
    row = {name: value for name, value in reading.to_dict().items() if name not in LONG}
    return row | {f"answer_{i}": a.headline for i, a in enumerate(answers, start=1)}


def _as_csv(found: Found, base: Scenario, shape: Shape | None) -> None:
    rows = [_row(reading, answers) for reading, answers, _ in found]
    names = dict.fromkeys(name for row in rows for name in row)
    print_rows([{name: row.get(name) for name in names} for row in rows], "csv")


def _as_text(found: Found, base: Scenario, shape: Shape | None) -> None:
    for number, (reading, answers, speed) in enumerate(found):
        if number:
            click.echo()
        click.echo(f"{reading.engine}, {reading.format}\n")
        print_rows([_numbers(reading)], "table", one=True)
        for answer in answers:
            click.echo(f"\n{answer.question}\n  {answer.headline}")
            for reason in answer.because:
                click.echo(f"  - {reason}")
        try:
            table = gamma_rows(reading, predict(drafts_of(reading, base, shape)), shape, speed)
        except InputError:
            pass  # the answers say why no γ can be judged
        else:
            click.echo()
            print_table(table, "table")
        for warning in reading.warnings:
            click.echo(f"\nNote: {warning}")


def _numbers(reading: Reading) -> Row:
    """What was read, without what the log does not tell."""
    row = {
        "steps with a draft": reading.steps,
        "tokens drafted": reading.drafted,
        "tokens accepted": reading.accepted,
        "tokens per step, bonus included": reading.tokens_per_step,
        "tokens per pass, with and without a draft": reading.tokens_per_pass,
        "γ": reading.gamma,
        "survival": _list(reading.survival),
        "conditional rates": _list(reading.conditional),
        "α": reading.alpha,
        "coverage": reading.coverage,
        "windows": len(reading.windows) or None,
        "requests": reading.requests.count if reading.requests else None,
        "drafting, ms a step": reading.draft_seconds and reading.draft_seconds * 1e3,
        "c": reading.c,
    }
    kept = {name: value for name, value in row.items() if value is not None}
    return kept | {n: v for n, v in reading.facts if n not in ("date",)}


def _list(rates: Sequence[float] | None) -> str | None:
    return None if rates is None else ", ".join(significant(rate) for rate in rates)


_PRINTERS = {"json": _as_json, "csv": _as_csv, "table": _as_text}
