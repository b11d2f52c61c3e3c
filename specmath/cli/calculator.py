"""predict, gamma, crossover, sweep and export: the calculator's commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import click

from specmath.bill import bill
from specmath.checks import InputError
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.options import format_option, help_of, read_scenario, scenario_options
from specmath.cli.output import ends_row, print_rows, print_table
from specmath.cli.terminal import say, say_each
from specmath.outfile import TABLE
from specmath.predict import Prediction, predict
from specmath.scenario import SPECS
from specmath.scenario.faults import unknown_name
from specmath.scenario.files import build
from specmath.scenario.forms import ACCEPTANCE
from specmath.tables import TABLES, beside, bill_table
from specmath.tables.files import KINDS, file_bytes
from specmath.words.bill import (
    ONLY_WHOLE,
    bill_sentence,
    busy_words,
    energy_words,
    promised_words,
    served_words,
)
from specmath.words.notes import prediction_row
from specmath.words.verdict import Verdict, verdict

__all__ = [
    "cost_command",
    "crossover_command",
    "export_command",
    "gamma_command",
    "predict_command",
    "sweep_command",
]


MOST_ROWS = 10_000
"""Of a sweep: beyond that it runs for minutes and nobody reads it."""


@click.command("predict", epilog="\b\nExample: specmath predict --alpha 0.8 --c 0.1 --gamma 4")
@scenario_options
@format_option
def predict_command(style: str, scenario_file: str | None, **options: Any) -> None:
    """Speedup, cost and verdict of one scenario.

    The bill too, where what is to be served is given.
    best_gamma is the fastest up to --max-gamma, recommended_gamma the smallest within 2% of it,
    optimal_gamma the fastest of all, verdict_gamma what the verdict advises.
    """
    prediction = predict(read_scenario(scenario_file, options))
    answer, row = verdict(prediction), prediction_row(prediction) | _bill(prediction)
    if style != "table":
        commands = [command for _, command in answer.commands]
        row |= {"answer": answer.sentence(), "measure_with": commands}
        print_rows([row], style, one=True)
        return
    notes, assumed = row.pop("notes"), row.pop("assumed")
    _say(answer)
    say()
    print_rows([row], style, one=True)
    if assumed:
        say(f"\nAssumed: {'; '.join(assumed)}")
    say_each("\nNote: ", notes)


def _bill(prediction: Prediction) -> dict[str, float]:
    """Replicas and USD a month, plain and speculative, with their ends where a step was computed
    or an input is open; nothing where the bill is unknown."""
    found = bill(prediction)
    if found is None or found.demand is None:
        return {}
    fleets, numbers = {"_plain": found.plain, "": found.speculative}, ("replicas", "usd_per_month")
    row: dict[str, float] = {}
    for (suffix, fleet), name in product(fleets.items(), numbers):
        number = getattr(fleet, name)
        if number is None:
            continue
        known = ends_row(f"{name}{suffix}", number).items()
        row |= {cell: value for cell, value in known if value is not None}
    return row


def _say(answer: Verdict) -> None:
    """The verdict, and what to measure with where that is the answer."""
    say(answer.sentence())
    say_each("  ", map(": ".join, answer.commands))


@click.command(
    "cost",
    epilog="\b\nExample: specmath cost --target-ms 40 --draft-ms 8 --accepted-per-step 3 "
    "--gamma 4 --demand-requests-per-second 20",
)
@scenario_options
@format_option
def cost_command(style: str, scenario_file: str | None, **options: Any) -> None:
    """The bill with and without speculation: replicas, USD a month, a million tokens, energy.

    From --demand-requests-per-second, --demand-tokens-per-second or --replicas; without one, what
    a replica kept busy costs.
    """
    prediction = predict(read_scenario(scenario_file, options))
    found = bill(prediction)
    if found is None:
        raise InputError("target_ms must be given for a bill: the target's time per token")
    print_table(bill_table(found), style)
    if style == "table":
        s = prediction.scenario
        said = (busy_words(prediction), energy_words(prediction), ONLY_WHOLE)
        say(f"\n{bill_sentence(prediction, found)}\n{served_words(s, found)}")
        if told := promised_words(s):
            say(told)
        say_each("Note: ", said)


@click.command("gamma", epilog="\b\nExample: specmath gamma --rates 0.8,0.6,0.45 --c 0.1")
@scenario_options
@format_option
def gamma_command(style: str, scenario_file: str | None, **options: Any) -> None:
    """The table over γ: which γ to run."""
    prediction = predict(read_scenario(scenario_file, options))
    print_table(TABLES["gamma"](prediction), style)
    if style == "table":
        say()
        _say(verdict(prediction))


@click.command("crossover", epilog="\b\nExample: specmath crossover --c 0 --format csv")
@click.option("--c", default="0", help=help_of(SPECS["c"]))
@click.option("--c-hat", default="0", help=help_of(SPECS["c_hat"]))
@format_option
def crossover_command(style: str, c: str, c_hat: str) -> None:
    """Over α, the γ where arithmetic grows more than speed."""
    prediction = predict(build({"alpha": 0.5, "gamma": 1, "c": c, "c_hat": c_hat}))
    print_table(TABLES["crossover"](prediction), style)


def _values(name: str, text: str) -> list[str]:
    """'0.1,0.2' or '0:1:0.1' (start:stop:step, from start to at most stop)."""
    parts = text.split(":")
    if len(parts) != 3:
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        start, stop, step = (float(part) for part in parts)
        count = math.floor((stop - start) / step + 1e-9)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise InputError(f"{name} must be a list or start:stop:step, got {text!r}") from error
    if not 0 <= count < MOST_ROWS:
        raise InputError(f"{name} must give 1 to {MOST_ROWS:,} values, got {text!r}")
    return [f"{start + i * step:.12g}" for i in range(count + 1)]


@click.command(
    "sweep", epilog="\b\nExample: specmath sweep --over alpha=0.5:0.9:0.1 --gamma 4 --c 0.1"
)
@click.option(
    "--over",
    multiple=True,
    required=True,
    help="FIELD=VALUES, a list or start:stop:step; may be given twice, for two fields.",
)
@scenario_options
@format_option
def sweep_command(
    style: str, scenario_file: str | None, over: Sequence[str], **options: Any
) -> None:
    """One prediction for each value (or pair of values) of one or two fields."""
    axes = [_axis(item) for item in over]
    names = {axis[0][0] for axis in axes}
    if len(axes) > 2 or len(names) < len(axes):
        raise InputError(f"--over must name one or two different fields, got {', '.join(over)}")
    if "gamma" in names and options["measured_gamma"] is None and scenario_file is None:
        # A number measured at one γ must not count as measured at each γ of the sweep.
        measured = (form.name for form in ACCEPTANCE.values() if form.measured)
        for field in (field for field in measured if options[field] is not None):
            raise InputError(f"--over gamma with {field} needs --measured-gamma, got nothing")
    points = math.prod(len(axis) for axis in axes)
    if points > MOST_ROWS:
        raise InputError(f"--over must give 1 to {MOST_ROWS:,} rows, got {points:,}")
    rows = []
    for point in product(*axes):
        prediction = predict(read_scenario(scenario_file, options | dict(point)))
        swept = {name: getattr(prediction.scenario, name) for name, _ in point}
        rows.append(swept | prediction.to_dict())
    print_rows(rows, style)


def _axis(item: str) -> list[tuple[str, str]]:
    """'alpha=0.5,0.6' → [("alpha", "0.5"), ("alpha", "0.6")]."""
    name, _, text = item.partition("=")
    name = name.replace("-", "_")
    if name not in SPECS:
        raise InputError(f"--over: {unknown_name('field', name)}")
    values = _values(name, text)
    if not values:
        raise InputError(f"--over must be FIELD=VALUES, got {item!r}")
    return [(name, value) for value in values]


@click.command("export", cls=WritingCommand, epilog="\b\nExample: specmath export --alpha 0.8 "
               "--c 0.1 --gamma 4 --kind xlsx -o plan.xlsx")  # fmt: skip
@click.option("--table", "name", type=click.Choice(list(TABLES)), default="gamma")
@click.option("--kind", type=click.Choice(list(KINDS)), default="values",
              help="CSV with values, CSV with live formulas, or a workbook with live formulas.",
              )  # fmt: skip
@click.option("--delimiter", type=click.Choice([",", ";"]), default=",")
@click.option("--decimal", type=click.Choice([".", ","]), default=".")
@click.option("-o", "--out", type=Destination(TABLE), required=True, help="File to write.")
@scenario_options
def export_command(
    name: str, kind: str, delimiter: str, decimal: str, out: str,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Write a table to a file that a spreadsheet opens."""
    scenario = read_scenario(scenario_file, options)
    prediction = predict(scenario)
    table, more = TABLES[name](prediction), beside(name, prediction)
    data = file_bytes(table, scenario, kind, delimiter, decimal, beside=more)
    put(out, data)
    say(f"wrote {out} ({len(data):,} bytes)")
