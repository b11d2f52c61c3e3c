"""predict, gamma, crossover, sweep and export: the calculator's commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import click

from specmath.bill import bill, bill_ends
from specmath.checks import InputError
from specmath.cli.options import format_option, help_of, read_scenario, scenario_options
from specmath.cli.output import Row, print_rows, print_table
from specmath.predict import Prediction, predict
from specmath.scenario import SPECS
from specmath.scenario.faults import unknown_name
from specmath.scenario.files import build
from specmath.scenario.forms import MEASURED_AT
from specmath.sheets.downloads import KINDS, file_bytes
from specmath.sheets.export import write_file
from specmath.verdict import Verdict, verdict
from specmath.views import TABLES

__all__ = [
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
    """Speedup, cost, verdict of one scenario; the bill where --demand-tokens-per-second is given.

    best_gamma is the fastest up to --max-gamma, recommended_gamma the smallest within 2% of it,
    optimal_gamma the fastest of all, verdict_gamma what the verdict advises.
    """
    prediction = predict(read_scenario(scenario_file, options))
    answer = verdict(prediction)
    row = {"verdict": answer.action, "verdict_gamma": answer.gamma} | prediction.to_dict()
    row |= _bill(prediction)
    if style != "table":
        commands = [command for _, command in answer.commands]
        said = {"answer": answer.sentence(), "measure_with": commands}
        print_rows([row | said], style, one=True)
        return
    notes, assumed = row.pop("notes"), row.pop("assumed")
    _say(answer)
    click.echo()
    print_rows([row], style, one=True)
    if assumed:
        click.echo(f"\nAssumed: {'; '.join(assumed)}")
    for note in notes:
        click.echo(f"\nNote: {note}")


def _bill(prediction: Prediction) -> dict[str, float]:
    """Replicas and USD a month, plain and speculative, with their ends where a step was computed
    or an input is open; nothing where the bill is unknown."""
    found = bill(prediction)
    if found is None:
        return {}
    row: dict[str, float] = {}
    for suffix, side in (("_plain", "plain"), ("", "speculative")):
        for name in ("replicas", "usd_per_month"):
            row[f"{name}{suffix}"] = getattr(getattr(found, side), name)
            ends = [getattr(getattr(each, side), name) for each in bill_ends(prediction)]
            if ends:
                row |= {f"{name}{suffix}_low": min(ends), f"{name}{suffix}_high": max(ends)}
    return row


def _say(answer: Verdict) -> None:
    """The verdict, and what to measure with where that is the answer."""
    click.echo(answer.sentence())
    for engine, command in answer.commands:
        click.echo(f"  {engine}: {command}")


@click.command("gamma", epilog="\b\nExample: specmath gamma --rates 0.8,0.6,0.45 --c 0.1")
@scenario_options
@format_option
def gamma_command(style: str, scenario_file: str | None, **options: Any) -> None:
    """The table over γ: which γ to run."""
    prediction = predict(read_scenario(scenario_file, options, gamma=0))
    print_table(TABLES["gamma"](prediction), style)
    if style == "table":
        click.echo()
        _say(verdict(prediction))


@click.command("crossover", epilog="\b\nExample: specmath crossover --c 0 --format csv")
@click.option("--c", default="0", show_default=True, help=help_of(SPECS["c"]))
@click.option("--c-hat", default="0", show_default=True, help=help_of(SPECS["c_hat"]))
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
        for field in (field for field in MEASURED_AT if options[field] is not None):
            raise InputError(f"--over gamma with {field} needs --measured-gamma, got nothing")
    points = math.prod(len(axis) for axis in axes)
    if points > MOST_ROWS:
        raise InputError(f"--over must give 1 to {MOST_ROWS:,} rows, got {points:,}")
    rows = []
    for point in product(*axes):
        prediction = predict(read_scenario(scenario_file, options | dict(point)))
        swept = {name: getattr(prediction.scenario, name) for name, _ in point}
        rows.append(swept | _numbers(prediction))
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


def _numbers(prediction: Prediction) -> Row:
    """The numbers of a prediction and the verdict, without the long texts."""
    row = {
        k: v for k, v in prediction.to_dict().items() if k not in ("notes", "assumed", "error_bar")
    }
    return row | {"verdict": verdict(prediction).action}


@click.command(
    "export",
    epilog="\b\nExample: specmath export --alpha 0.8 --c 0.1 --gamma 4 --kind xlsx -o plan.xlsx",
)
@click.option(
    "--table", "name", type=click.Choice(list(TABLES)), default="gamma", show_default=True
)
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="values",
    show_default=True,
    help="CSV with values, CSV with live formulas, or a workbook with live formulas.",
)
@click.option("--delimiter", type=click.Choice([",", ";"]), default=",", show_default=True)
@click.option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True)
@click.option("-o", "--out", type=click.Path(dir_okay=False), required=True, help="File to write.")
@scenario_options
def export_command(
    name: str, kind: str, delimiter: str, decimal: str, out: str,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Write a table to a file that a spreadsheet opens."""
    scenario = read_scenario(scenario_file, options)
    data = file_bytes(TABLES[name](predict(scenario)), scenario, kind, delimiter, decimal)
    try:
        write_file(out, data)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}") from error
    click.echo(f"wrote {out} ({len(data):,} bytes)")
