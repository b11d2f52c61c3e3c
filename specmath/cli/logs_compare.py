"""logs drift and review: two logs beside each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from specmath.checks import InputError
from specmath.cli.logs import FILE, cost_options, cost_scenario, logs_group, read_files
from specmath.cli.options import format_option
from specmath.cli.output import Row, print_rows
from specmath.logs.drift_answer import CHECK_FIRST, DriftAnswer, drift_answer
from specmath.logs.drift_report import RULES, alert_rule
from specmath.logs.observed import Span
from specmath.logs.review import Review, review
from specmath.logs.taken import SHAPES, Shape
from specmath.wording import significant

__all__ = ["drift_command", "review_command"]

FALLEN, CANNOT_TELL = 1, 3


@logs_group.command(
    "drift",
    epilog="\b\nExit codes: 0 no fall beyond chance, 1 it has fallen (or fell for a while),\n"
    "2 bad input, 3 the logs cannot tell (too short, no windows).\n"
    "\n\b\nExample, for cron:\n"
    "specmath logs drift week.log today.log > drift.txt || mail -s drift me < drift.txt\n"
    "\n\b\nExample: specmath logs drift --rule --below 2.3 > specmath.rules.yml",
)
@click.argument("files", nargs=-1, type=FILE, metavar="BASELINE CURRENT")
@click.option(
    "--rate", type=float, default=0.01, show_default=True,
    help="False alarms: P(alarm) of one call when nothing has changed. > 0 and <= 0.5. Of all "
    "calls simulated at 0.01 at most 1.3% alarmed; of those answered, with fewer than 360 baseline "
    "windows that are alike over dozens, up to 9%; where single very bad windows occur, 4.4%.",
)  # fmt: skip
@click.option("--gamma", type=click.IntRange(1, 256), help="Draft length, if not in the logs.")
@click.option(
    "--design-effect", type=float,
    help="Only for totals without windows: how many times the variance of independent steps a "
    "total has. An assumption, and said to be one. >= 1.",
)  # fmt: skip
@click.option("--rule", is_flag=True, help="Print a Prometheus rule file instead.")
@click.option("--rule-engine", type=click.Choice(list(RULES)), default="vllm", show_default=True)
@click.option("--below", type=float, help="With --rule: alert below this many tokens per step; "
              "without it 10% below the last 7 days.")  # fmt: skip
@cost_options
@format_option
def drift_command(
    style: str, files: Sequence[str], rate: float, gamma: int | None,
    design_effect: float | None, rule: bool, rule_engine: str, below: float | None,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Has acceptance really fallen, since when, and what does it cost?

    A sequential test over blocks of windows that are long enough to be independent; --rate says
    how often it alarms falsely, as stated and as simulated. Logs too short for that are refused
    (exit 3). Cost: give the times, the price and the batch; with another draft length each side is
    priced at its own.
    """
    if rule:
        click.echo(alert_rule(rule_engine, below=below), nl=False)
        return
    if len(files) != 2:
        raise InputError(f"drift needs BASELINE and CURRENT, got {len(files)} files")
    sides = [read_files([path], gamma) for path in files]
    base = cost_scenario(scenario_file, options)
    answer = drift_answer(sides[0], sides[1], base, rate, design_effect)
    if style == "table":
        _print_drift(answer)
    else:
        found, cost = answer.found, answer.cost
        row: Row = {"answer": answer.sentence} | asdict(found)
        row |= {"change": found.change} | ({} if cost is None else asdict(cost))
        listed = [asdict(cause) for cause in answer.causes]
        words = listed if style == "json" else [cause.what for cause in answer.causes]
        print_rows([row | {"causes": words, "notes": list(answer.notes)}], style, one=True)
    sys.exit({True: FALLEN, False: 0, None: CANNOT_TELL}[answer.found.fallen])


def _print_drift(answer: DriftAnswer) -> None:
    click.echo(answer.sentence)
    if answer.causes:
        click.echo(f"\n{CHECK_FIRST}")
    for line in answer.cause_lines:
        click.echo(f"  - {line}")
    for note in answer.notes:
        click.echo(f"\n{note}")
    if answer.command:
        click.echo(f"  {answer.command}")


@click.command("review", epilog="\b\nExample: specmath review plain.json speculative.json --c 0.1")
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option("--gamma", type=click.IntRange(1, 256), help="γ of AFTER, if it is not printed.")
@click.option("--drafts-as", type=click.Choice(list(SHAPES)), help="How the server drafts.")
@cost_options
@format_option
def review_command(
    style: str, before: str, after: str, gamma: int | None, drafts_as: Shape | None,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Did it work? Predicted, observed and their difference: keep, change γ or roll back.

    BEFORE and AFTER are benchmark results (several runs in one file give a better interval),
    metrics pages or logs. BEFORE needs no speculation, only its speed: a plain run of llama.cpp
    (log, metrics, responses) or guidellm's table will do. With --scenario the prediction is what
    that scenario planned; else it takes the acceptance that the logs show.
    """
    base = cost_scenario(scenario_file, options)
    found = review(
        read_files([before], None, plain=True), read_files([after], gamma, plain=True), base,
        planned=scenario_file is not None, shape=drafts_as,
    )  # fmt: skip
    if style == "table":
        _print(found)
    else:
        print_rows([_flat(found) if style == "csv" else asdict(found)], style, one=True)


def _print(found: Review) -> None:
    click.echo(found.headline)
    for reason in found.because:
        click.echo(f"  - {reason}")
    rows = [
        {"": name, "value": show(span), "interval": _interval(span, show), "basis": span.basis}
        for name, span, show in (
            ("predicted speedup", found.predicted, _speed),
            ("observed speedup", found.observed, _speed),
            ("observed against predicted", found.difference, _percent),
        )
        if span is not None
    ]
    if rows:
        click.echo()
        print_rows(rows, "table")
    for warning in found.warnings:
        click.echo(f"\nNote: {warning}")


def _speed(span: Span, value: float | None = None) -> str:
    return significant(span.value if value is None else value) + "×"


def _percent(span: Span, value: float | None = None) -> str:
    return f"{100 * (span.value if value is None else value):+.1f}%"


def _interval(span: Span, show: Any) -> str:
    if span.low is None or span.high is None:
        return "none"
    return f"{show(span, span.low)} to {show(span, span.high)}"


def _flat(found: Review) -> Row:
    row: Row = {"decision": found.decision, "gamma": found.gamma, "headline": found.headline}
    for name in ("predicted", "observed", "difference"):
        span: Span | None = getattr(found, name)
        for part in ("value", "low", "high"):
            row[f"{name}_{part}"] = None if span is None else getattr(span, part)
    return row | {"measure": found.measure, "warnings": list(found.warnings)}
