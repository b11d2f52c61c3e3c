"""deployments: the search over GPUs, their number, drafts, γ and load, on the command line."""

from __future__ import annotations

from typing import Any

import click

from specmath.cli.options import format_option, read_scenario, scenario_options
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_each
from specmath.deployments import PARALLEL, deployments
from specmath.scenario.forms import HALVES
from specmath.tables.deployments import cheapest_table, front_table
from specmath.words.deployments import front_sentence, search_notes, search_sentence

__all__ = ["deployments_command"]

_TABLES = {"cheapest": cheapest_table, "front": front_table}


@click.command(
    "deployments",
    epilog="\b\nExample: specmath deployments --model Llama-3.3-70B --gpu h100 --draft eagle3 "
    "--prompt-tokens 1024 --slo-tpot-ms 40 --demand-requests-per-second 20 --on h100 --on h200",
)
@click.option(
    "--by", type=click.Choice([*_TABLES]), default="cheapest",
    help="Rows: the cheapest of each server, or the front of time against cost.",
)  # fmt: skip
@click.option(
    "--on", "gpus", multiple=True, metavar="GPU",
    help="Search this GPU (again for more); not given: all that have a price.",
)  # fmt: skip
@click.option(
    "--gpus-of-a-replica", "parallel", multiple=True, type=click.IntRange(1, 1024),
    help="Search this many GPUs a replica (again for more); not given: 1, 2, 4, 8.",
)  # fmt: skip
@scenario_options
@format_option
def deployments_command(
    by: str, gpus: tuple[str, ...], parallel: tuple[int, ...], style: str,
    scenario_file: str | None, **options: Any,
) -> None:  # fmt: skip
    """Which GPU, how many, which draft, which γ, at which load: the best of all of them.

    Needs --model, --gpu, --draft and --prompt-tokens. Within what --slo-tpot-ms, --slo-ttft-ms and
    --slo-e2e-ms promise; by the bill where a demand is given.
    """
    given = any(options.get(name) is not None for name in HALVES["acceptance"])
    measured = {} if given or scenario_file else {"acceptance_form": "range"}
    asked = read_scenario(scenario_file, options, **measured)
    found = deployments(asked, gpus=gpus, parallel=parallel or PARALLEL)
    if style == "table":
        say(f"{search_sentence(found)}\n{front_sentence(found)}\n")
    print_table(_TABLES[by](found), style)
    if style == "table":
        say_each("\nNote: ", search_notes(asked))
