"""capacity: how many GPUs, on the command line."""

from __future__ import annotations

from typing import Any

import click

from specmath.capacity import aggregated, capacity
from specmath.checks import InputError
from specmath.cli.options import format_option, read_scenario, scenario_options
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_each
from specmath.predict import predict
from specmath.tables import (
    capacity_rates_table,
    capacity_table,
    gamma_capacity_table,
    pools_table,
)
from specmath.words.capacity import (
    capacity_notes,
    capacity_sentence,
    crossover_sentence,
    limits_sentence,
    table_remarks,
)
from specmath.words.pools import together_sentence

__all__ = ["capacity_command"]

_TABLES = {"arm": capacity_table, "rate": capacity_rates_table, "gamma": gamma_capacity_table}


@click.command(
    "capacity",
    epilog="\b\nExample: specmath capacity --alpha 0.7 --gpu h100 --model Llama-3.1-8B "
    "--draft eagle3 --prompt-tokens 1024 --slo-tpot-ms 10 --demand-requests-per-second 100",
)
@click.option(
    "--by", type=click.Choice([*_TABLES, "pools"]), default="arm",
    help="Rows: with and without speculation, request rates of one replica, γ, or decode-only "
    "workers beside replicas that read their own prompts.",
)  # fmt: skip
@scenario_options
@format_option
def capacity_command(by: str, style: str, scenario_file: str | None, **options: Any) -> None:
    """How many GPUs serve a demand within a time, in both arms, and what limits each.

    Needs --gpu, --model, --draft and --prompt-tokens. What is promised: --slo-tpot-ms,
    --slo-ttft-ms, --slo-e2e-ms; without any, the largest rate that a replica carries.
    """
    prediction = predict(read_scenario(scenario_file, options))
    found = capacity(prediction)
    together = aggregated(prediction, found) if found.plain.prefill else None
    if by == "pools" and together is None:
        raise InputError("rows by pools need decode_only=yes, got decode_only=no")
    if style == "table":
        beside = together_sentence(found, together) if together else ""
        told = (capacity_sentence(found), beside, limits_sentence(found), crossover_sentence(found))
        say("\n".join(filter(None, told)) + "\n")
    table = (
        _TABLES[by](found) if together is None or by in _TABLES else pools_table(found, together)
    )
    print_table(table, style)
    if style == "table":
        say_each("\nNote: ", (*table_remarks(found), *capacity_notes(found)))
