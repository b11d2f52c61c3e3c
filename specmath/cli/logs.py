"""logs FILE…: telemetry that people already have, read and answered as text, CSV or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from specmath.checks import InputError
from specmath.cli.options import cost_options, cost_scenario, format_option
from specmath.cli.output import Row, print_rows, print_table
from specmath.cli.terminal import say, say_each
from specmath.logs import Reading, read, read_run, typed_reading
from specmath.logs.lanes import whole_side
from specmath.logs.reading import Lane
from specmath.review.causes import broken_lanes
from specmath.review.comparable import at_load_of
from specmath.review.gammas import gamma_rows
from specmath.review.into_scenario import SHAPES, Shape, endpoint_of, scenario_from
from specmath.review.observed import Speed, speed_of, throughput_of, tpot_of
from specmath.scenario import Scenario
from specmath.scenario.files import written
from specmath.tables.logs import facts_table, gammas_table, reading_table, survival_table
from specmath.tables.service import service_table
from specmath.words.causes import cause_words, lane_words, lanes_words
from specmath.words.logs import answer_all, left_behind, load_words
from specmath.words.said import Said

__all__ = ["LOG", "numbers_command", "read_command", "read_files"]

LONG = ("windows", "requests", "facts", "alternatives", "conditional")
"""Fields of a reading that a table and a CSV leave to JSON."""


def read_files(paths: Sequence[str], gamma: int | None, *, plain: bool = False) -> list[Reading]:
    """All readings of these files, in order of time; InputError where nothing can be read.

    With `plain` a run without speculation is one, if it tells its speed.
    """
    sources = [sys.stdin.buffer if path == "-" else Path(path) for path in paths]
    reader = read_run if plain else read
    return reader(sources if len(sources) > 1 else sources[0], gamma=gamma)


LOG = click.Path(exists=True, dir_okay=False, allow_dash=True)

TOLD = ("plain_ms", "plain_tokens_per_second", "ms", "tokens_per_second")
"""Options by the names of `speed_of`."""


SPEEDS = (
    click.option(
        "--baseline-itl-ms", "plain_ms", type=float, help="Time per token without speculation [ms]."
    ),
    click.option(
        "--baseline-tokens-per-second",
        "plain_tokens_per_second",
        type=float,
        help="Tokens/s without speculation.",
    ),
    click.option(
        "--tpot-ms", "ms", type=float, help="Time per token of this run [ms], if not in the log."
    ),
    click.option(
        "--tokens-per-second", type=float, help="Tokens/s of this run, if not in the log."
    ),
)


def _speed_options(command: Callable[..., None]) -> Callable[..., None]:
    """How fast the run was, and the plain one beside it, by the names of `speed_of`."""
    for option in reversed(SPEEDS):
        command = option(command)
    return command


@click.command("read", epilog="\b\nExample: specmath logs vllm.log --baseline-itl-ms 25")
@click.argument("files", nargs=-1, required=True, type=LOG)
@click.option("--gamma", type=click.IntRange(1, 256),
              help="Draft length, where the log does not print it.")  # fmt: skip
@click.option("--drafts-as", type=click.Choice(list(SHAPES)), help="How the server drafts: "
              + "; ".join(f"{k}: {v}" for k, v in SHAPES.items()) + ".")  # fmt: skip
@click.option("--baseline", type=LOG, help="The same load without speculation: its result.")
@_speed_options
@cost_options
@format_option
def read_command(
    style: str, files: Sequence[str], gamma: int | None, drafts_as: Shape | None,
    baseline: str | None, scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Read logs, metrics, benchmark results and responses, and answer what they answer."""
    told = {name: options.pop(name) for name in TOLD}
    base = cost_scenario(scenario_file, options)
    readings = read_files(files, gamma, plain=True)
    plain = read_files([baseline], None, plain=True) if baseline else []
    _answer(style, readings, plain, told, base, drafts_as)


@click.command(
    "numbers",
    epilog="\b\nExample: specmath logs numbers --gamma 2 --accepted-share 0.62 "
    "--baseline-tokens-per-second 69.5 --tokens-per-second 61",
)
@click.option("--gamma", type=click.IntRange(1, 256), required=True, help="Drafted tokens a step.")
@click.option("--accepted-share", type=float, help="Accepted ÷ drafted, 0 to 1.")
@click.option("--tokens-per-step", type=float,
              help="Tokens a step, bonus token included (acceptance length).")  # fmt: skip
@_speed_options
@cost_options
@format_option
def numbers_command(
    style: str, gamma: int, accepted_share: float | None, tokens_per_step: float | None,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """The same answers from the few numbers at hand, where there is no log.

    The acceptance that the server prints, its γ, and how fast it is with and without speculation.
    """
    told = {name: options.pop(name) for name in TOLD}
    reading = typed_reading(gamma, accepted_share=accepted_share, tokens_per_step=tokens_per_step)
    _answer(style, [reading], [], told, cost_scenario(scenario_file, options), None)


def _answer(
    style: str, readings: Sequence[Reading], plain: Sequence[Reading], told: dict[str, Any],
    base: Scenario, shape: Shape | None,
) -> None:  # fmt: skip
    found: list[Found] = []
    given = bool(plain) or any(told[name] is not None for name in TOLD if name.startswith("plain"))
    for reading in readings:
        timed, notes = _timed(plain, reading)
        speed = speed_of(reading, plain=timed, **told)
        if speed is not None:
            speed = replace(speed, basis="; ".join((speed.basis, *notes)))
        answers = answer_all(reading, base, speed, shape, plain_given=given)
        found.append((reading, answers, speed))
    if style == "json":
        print_rows([_record(*each, base, shape) for each in found], style, one=len(found) == 1)
    elif style == "csv":
        rows = [_row(reading, answers) for reading, answers, _ in found]
        names = dict.fromkeys(name for row in rows for name in row)
        print_rows([{name: row.get(name) for name in names} for row in rows], style)
    else:
        _, apart = whole_side(readings)
        if apart:
            say(f"{lanes_words(tuple(apart))}.")
            say_each("  - ", map(cause_words, broken_lanes(apart)))
            say()
        for number, each in enumerate(found):
            if number:
                say()
            _print(*each, base, shape)


def _timed(plain: Sequence[Reading], reading: Reading) -> tuple[Reading | None, tuple[str, ...]]:
    """The plain run that tells how fast it was, of a sweep the one nearest in load; notes."""
    if not plain:
        return None, ()
    near, load = at_load_of("baseline", plain, [reading])
    for one in near:
        if tpot_of(one) or throughput_of(one):
            return one, (load_words(load),) if load else ()
    raise InputError(
        "baseline must tell a time per token or tokens per second (a benchmark result), "
        f"got {plain[0].engine} {plain[0].format}"
    )


Found = tuple[Reading, tuple[Said, ...], Speed | None]


def _record(
    reading: Reading, answers: Sequence[Said], speed: Speed | None, base: Scenario,
    shape: Shape | None,
) -> Row:  # fmt: skip
    """A reading with its answers, a row for each γ, and the scenario that predicts those rows."""
    row = reading.to_dict() | {"answers": [asdict(a) for a in answers]}
    try:
        endpoint = endpoint_of(reading, base, speed, shape)
        taken = scenario_from(reading, base, shape)
    except InputError as error:
        said = f"no scenario follows from this log: {error}"
        return row | {"gammas": [], "scenario": None, "warnings": [*reading.warnings, said]}
    gammas = [asdict(each) for each in gamma_rows(reading, endpoint, shape)]
    apart = () if speed is None else left_behind(reading, base, speed, shape)
    return row | {
        "gammas": [{"from" if k == "source" else k: v for k, v in g.items()} for g in gammas],
        "scenario": written(taken) | {"coverage": endpoint.speculation.coverage},
        "warnings": [*reading.warnings, *apart],
    }


def _row(reading: Reading, answers: Sequence[Said]) -> Row:
    row = {name: value for name, value in reading.to_dict().items() if name not in LONG}
    return row | {f"answer_{i}": a.headline for i, a in enumerate(answers, start=1)}


def _print(
    reading: Reading, answers: Sequence[Said], speed: Speed | None, base: Scenario,
    shape: Shape | None,
) -> None:  # fmt: skip
    whose = "" if reading.lane in (None, Lane()) else f", {lane_words(reading.lane)}"
    say(f"{reading.engine}, {reading.format}{whose}\n")
    tables = reading_table, survival_table, service_table, facts_table
    for table in (made(reading) for made in tables):
        if table is not None:
            print_table(table, "table")
            say()
    for answer in answers:
        say(f"{answer.question}\n  {answer.headline}")
        say_each("  - ", answer.because)
        say()
    with suppress(InputError):  # the answers say why no γ can be judged
        endpoint = endpoint_of(reading, base, speed, shape)
        print_table(gammas_table(reading, endpoint, shape), "table")
    say_each("\nNote: ", reading.warnings)
