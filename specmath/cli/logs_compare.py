"""logs drift and review: two logs beside each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from specmath.checks import InputError
from specmath.cli.logs import LOG, read_files
from specmath.cli.options import cost_options, cost_scenario, format_option, read_text
from specmath.cli.output import Row, print_rows, print_table
from specmath.cli.terminal import say, say_each
from specmath.review.before_after import Decision, Review, review
from specmath.review.drift_causes import RULES, Comparison, alert_rule, compare
from specmath.review.into_scenario import SHAPES, Shape
from specmath.review.planned import reading_of
from specmath.rollout import Rollout
from specmath.rollout.file import from_file, is_rollout
from specmath.tables.logs import review_table
from specmath.tables.rollout import held_table
from specmath.tables.service import pair_table
from specmath.words import drift
from specmath.words.review import basis_of, review_said, review_warnings

__all__ = ["drift_command", "review_command"]

FALLEN, CANNOT_TELL = 1, 3
EXIT: dict[Decision, int] = {
    "keep": 0, "change": 1, "cannot tell": CANNOT_TELL, "roll back": 4, "not comparable": 5,
}  # fmt: skip


@click.command(
    "drift",
    epilog="\b\nExit codes: 0 no fall beyond chance, 1 it has fallen (or fell for a while),\n"
    "2 bad input, 3 the logs cannot tell (too short, no windows).\n"
    "\n\b\nExample, for cron:\n"
    "specmath logs drift week.log today.log > drift.txt || mail -s drift me < drift.txt\n"
    "\n\b\nExample: specmath logs drift --rule --below 2.3 > specmath.rules.yml",
)
@click.argument("files", nargs=-1, type=LOG, metavar="BASELINE CURRENT")
@click.option(
    "--rate", type=float, default=0.01,
    help="False alarms: P(alarm) of one call when nothing has changed, at most. > 0 and <= 0.5. Of "
    "calls simulated at 0.01 with 60 baseline windows or more, 0.5 to 1% alarmed where windows are "
    "not alike, and no more where they are; where single very bad windows occur, 5 to 9%.",
)  # fmt: skip
@click.option("--gamma", type=click.IntRange(1, 256), help="Draft length, if not in the logs.")
@click.option(
    "--design-effect", type=float,
    help="Only for totals without windows: how many times the variance of independent steps a "
    "total has. An assumption, and said to be one. >= 1.",
)  # fmt: skip
@click.option("--rule", is_flag=True, help="Print a Prometheus rule file instead.")
@click.option("--rule-engine", type=click.Choice(list(RULES)), default="vllm")
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

    A t test over blocks of windows that are long enough to be independent; --rate says how often
    it alarms falsely, as stated and as simulated. Logs too short for that are refused
    (exit 3). Cost: give the times, the price and the batch; with another draft length each side is
    priced at its own.
    """
    if rule:
        say(alert_rule(rule_engine, below=below), nl=False)
        return
    if len(files) != 2:
        raise InputError(f"drift needs BASELINE and CURRENT, got {len(files)} files")
    sides = [read_files([path], gamma) for path in files]
    base = cost_scenario(scenario_file, options)
    pair = compare(sides[0], sides[1], base, rate, design_effect)
    if style == "table":
        _print_drift(pair)
    else:
        print_rows([_drift_row(pair, flat=style == "csv")], style, one=True)
    sys.exit({True: FALLEN, False: 0, None: CANNOT_TELL}[pair.found.fallen])


def _print_drift(pair: Comparison) -> None:
    said = drift.drift_said(pair)
    say(said.headline)
    if pair.causes:
        say(f"\n{drift.CHECK_FIRST}")
    say_each("  - ", map(drift.cause_line, pair.causes))
    say_each("\n", said.because)
    if command := drift.scrape_command(pair):
        say(f"  {command}")


def _drift_row(pair: Comparison, *, flat: bool) -> Row:
    said, found = drift.drift_said(pair), pair.found
    causes = [drift.cause_words(cause) for cause in pair.causes]
    return {
        "answer": said.headline,
        **asdict(found),
        "measure": drift.measure_words(found),
        "why": drift.why_words(found),
        "change": found.change,
        **({} if pair.cost is None else asdict(pair.cost)),
        "causes": [cause["what"] for cause in causes] if flat else causes,
        "notes": list(said.because),
    }


@click.command(
    "review",
    epilog="\b\nExit codes: 0 keep, 1 change γ, 2 bad input, 3 the runs cannot tell, 4 roll back,\n"
    "5 not comparable (another model, version, load, lengths or traffic).\n"
    "\n\b\nExample: specmath logs review plain.json speculative.json --c 0.1",
)
@click.argument("before", type=LOG)
@click.argument("after", type=LOG)
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
    metrics pages or logs of any engine. BEFORE needs no speculation, only its speed. Runs that
    differ in more than speculation are not judged. With --scenario the prediction is what that
    scenario planned; else it takes the acceptance that the logs show. BEFORE may also be the file
    of specmath rollout --write: AFTER is then held against what was expected.
    """
    if (plan := _plan(before)) is not None:
        given = [name for name, value in options.items() if value is not None]
        if scenario_file is not None or given:
            said = "scenario" if scenario_file is not None else given[0].replace("_", "-")
            raise InputError(f"BEFORE is a rollout and holds the scenario: leave out --{said}")
        base, first = plan.scenario, [reading_of(plan)]
    else:
        base = cost_scenario(scenario_file, options)
        first = read_files([before], None, plain=True)
    found = review(
        first, read_files([after], gamma, plain=True), base,
        planned=plan is not None or scenario_file is not None, shape=drafts_as, plan=plan,
    )  # fmt: skip
    if style == "table":
        _print(found)
    else:
        print_rows([_row(found, flat=style == "csv")], style, one=True)
    sys.exit(EXIT[found.decision])


_HEAD = 64


def _plan(path: str) -> Rollout | None:
    """The rollout in this file; None where it is anything else."""
    if path == "-":
        return None
    with suppress(OSError), Path(path).open("rb") as file:
        if is_rollout(file.read(_HEAD).decode("utf-8", "replace")):
            return from_file(read_text(Path(path)))
    return None


def _print(found: Review) -> None:
    said = review_said(found)
    say(said.headline)
    say_each("  - ", said.because)
    held = None if found.plan is None else held_table(found.plan, found.after)
    beside = pair_table(found.before, found.after) if held is None else None
    for table in (review_table(found), held, beside):
        if table is not None:
            say()
            print_table(table, "table")
    say_each("\nNote: ", review_warnings(found))


def _row(found: Review, *, flat: bool) -> Row:
    said = review_said(found)
    row: Row = {"decision": found.decision, "gamma": found.gamma, "headline": said.headline}
    for name in ("predicted", "observed", "difference", "modelled"):
        number = getattr(found, name)
        span = {part: getattr(number, part, None) for part in ("value", "low", "high")}
        if flat:
            row |= {f"{name}_{part}": value for part, value in span.items()}
        else:
            row[name] = None if number is None else span | {"basis": basis_of(number)}
    row |= {"measure": found.measure, "warnings": list(review_warnings(found))}
    if flat:
        return row
    sides = {"tokens_before": found.before, "tokens_after": found.after}
    tokens = {name: side.tokens_per_step for name, side in sides.items()}
    pair = pair_table(found.before, found.after)
    if found.plan is not None:
        row["expected"] = held_table(found.plan, found.after).rows()
    return row | tokens | {
        "because": list(said.because),
        "differences": [asdict(each) for each in found.differences],
        "causes": [
            {"cause": each.name, "evidence": dict(each.evidence),
             "lane": each.lane and each.lane.lane and asdict(each.lane.lane)}
            for each in found.causes
        ],
        "pair": [] if pair is None else pair.rows(),
        "service_before": asdict(found.before.service),
        "service_after": asdict(found.after.service),
    }  # fmt: skip
