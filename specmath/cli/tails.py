"""tails: slow requests on the command line."""

from __future__ import annotations

from typing import Any

import click

from specmath.cli.options import format_option, read_scenario, scenario_options
from specmath.cli.output import print_table
from specmath.cli.terminal import say, say_each
from specmath.predict import predict
from specmath.tables import tails_table
from specmath.tails import tails
from specmath.words.tails import gaps_words, tail_notes, tail_sentence

__all__ = ["tails_command"]


@click.command(
    "tails",
    epilog="\b\nExample: specmath tails --alpha 0.7 --gpu h100 --model Llama-3.1-8B --draft eagle3 "
    "--concurrency 32 --prompt-tokens 1024",
)
@scenario_options
@format_option
def tails_command(style: str, scenario_file: str | None, **options: Any) -> None:
    """Slow requests: p50, p90 and p99 of a request's time and of its gaps, in both arms.

    Every request has --output-tokens; without a target's time, times are in plain steps.
    """
    found = tails(predict(read_scenario(scenario_file, options)))
    if style == "table":
        say(f"{tail_sentence(found)}\n")
    print_table(tails_table(found), style)
    if style == "table":
        say(f"\n{gaps_words(found)}")
        say_each("Note: ", tail_notes(found))
