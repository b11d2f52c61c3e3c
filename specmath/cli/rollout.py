"""rollout: how to try it, on the command line, and the file that review takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.options import format_option, read_scenario, scenario_options
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_each, say_json
from specmath.outfile import ROLLOUT
from specmath.predict import predict
from specmath.rollout import Rollout, rollout
from specmath.rollout.file import to_file
from specmath.tables.rollout import (
    checklist_table,
    exported_table,
    requests_table,
    stop_table,
)
from specmath.words.rollout import rollout_notes, rollout_sentence

__all__ = ["rollout_command"]

_TABLES = {
    "quantity": checklist_table,
    "requests": requests_table,
    "stop": stop_table,
    "metric": exported_table,
}


@click.command(
    "rollout",
    cls=WritingCommand,
    epilog="\b\nExample: specmath rollout --target-ms 40 --draft-ms 8 --gamma 4 "
    "--accepted-per-step 3 --cv 0.2",
)
@click.option("--power", type=float, default=0.8,
              help="Chance to see the change, >= 0.5 and < 1.")  # fmt: skip
@click.option("--significance", type=float, default=0.05,
              help="Chance to see one that is not there, two-sided, > 0 and <= 0.5.")  # fmt: skip
@click.option(
    "--cv", type=float,
    help="Spread of a request's time per token as measured on plain decoding: standard deviation "
    "over mean, > 0 and <= 10. Without it the least: what acceptance and prompts alone give.",
)  # fmt: skip
@click.option("--by", type=click.Choice([*_TABLES]), default="quantity",
              help="Rows of the CSV.")  # fmt: skip
@click.option("--write", "out", type=Destination(ROLLOUT),
              help="Write the scenario and what is expected to a TOML file, which review takes as "
              "BEFORE.")  # fmt: skip
@scenario_options
@format_option
def rollout_command(
    power: float, significance: float, cv: float | None, by: str, out: str | None, style: str,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """How to try it: what to measure before and after, on how many requests, when to stop.

    Each quantity as it is expected in both arms; the requests in each arm that show the predicted
    change, and the smallest that its range allows; what the engine's metrics call each.
    """
    prediction = predict(read_scenario(scenario_file, options))
    found = rollout(prediction, power=power, significance=significance, cv=cv)
    if style == "json":
        say_json(_record(found))
    elif style == "csv":
        print_table(_TABLES[by](found), style)
    else:
        _print(found)
    if out is None:
        return
    put(out, to_file(found))
    if style == "table":
        say(f"\nwrote {out}; then: specmath review {out} after.json")


def _record(found: Rollout) -> dict[str, Any]:
    """The whole checklist."""
    tables = {name: made(found).rows() for name, made in _TABLES.items()}
    return {
        "answer": rollout_sentence(found),
        "gamma": found.gamma,
        "power": found.power,
        "significance": found.significance,
        "spread_measured": found.measured,
        "requests": found.requests,
        "requests_smallest": found.requests_smallest,
        "expected": tables["quantity"],
        "changes": tables["requests"],
        "stop": tables["stop"],
        "metrics": tables["metric"],
        "notes": list(rollout_notes(found)),
    }


def _print(found: Rollout) -> None:
    say(f"{rollout_sentence(found)}\n")
    checklist = checklist_table(found)
    columns = tuple(c for c in checklist.columns if c.name != "definition")
    for table in (replace(checklist, columns=columns), requests_table(found), stop_table(found)):
        say(table.title)
        print_table(table, "table")
        say()
    metrics = exported_table(found).rows()
    if len({row["engine"] for row in metrics}) == 1:
        say(f"What {metrics[0]['engine']} exports")
        say_each("  ", (f"{row['tells']}: {row['metric']} ({row['how']})" for row in metrics))
    else:
        say("What each engine exports: --by metric --format csv")
    say_each("\nNote: ", rollout_notes(found))
