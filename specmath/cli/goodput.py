"""goodput: the largest rate at which most requests meet every promise, on the command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from specmath.arms import Server
from specmath.attainment import LEAST_ATTAINMENT, MOST_ATTAINMENT, Trial
from specmath.checks import InputError
from specmath.cli.options import format_option, read_scenario, scenario_options
from specmath.cli.output import print_table
from specmath.cli.simulate import trace_of
from specmath.cli.terminal import progress, progress_ended, say, say_each
from specmath.goodput import goodput
from specmath.predict import predict
from specmath.serving.replica import MOST_SEQUENCES
from specmath.tables.goodput import attainment_table, goodput_part, goodput_table, quantile_table
from specmath.traffic import TRACES
from specmath.words.goodput import (
    chance_sentence,
    goodput_notes,
    goodput_sentence,
    misses_sentence,
    took_words,
)

__all__ = ["goodput_command"]

_TABLES = {"arm": goodput_table, "time": quantile_table, "rate": attainment_table}


@click.command(
    "goodput",
    epilog="\b\nExample: specmath goodput --alpha 0.7 --gpu h100 --model Llama-3.1-8B "
    "--draft eagle3 --prompt-tokens 1024 --slo-ttft-ms 300 --slo-tpot-ms 20 --requests 4000",
)
@click.option(
    "--by", type=click.Choice([*_TABLES]), default="arm",
    help="Rows: with and without speculation, the times of each at its rate, or every rate that "
    "was run.",
)  # fmt: skip
@click.option("--attainment", type=float, default=99.0,
              help="Percent of the requests that are to meet every promise, "
              f"{100 * LEAST_ATTAINMENT:g} to {100 * MOST_ATTAINMENT:g}.")  # fmt: skip
@click.option("--trace", help="Arrivals and lengths of a CSV of seconds, prompt_tokens, "
              "output_tokens and where known prefix_tokens, stretched to each rate; or "
              f"{', '.join(TRACES)}, which come with specmath.")  # fmt: skip
@click.option("--requests", type=int, help="How many come at each rate; 20,000 if not given, fewer "
              "where outputs are long.")  # fmt: skip
@click.option("--max-num-seqs", type=int, default=MOST_SEQUENCES,
              help="Sequences of one step at most.")  # fmt: skip
@click.option("--kv-tokens", type=int, help="Tokens that the cache holds; what memory leaves if "
              "not given.")  # fmt: skip
@click.option("--seed", type=int, default=0, help="The same seed gives the same answer.")
@scenario_options
@format_option
def goodput_command(
    by: str, style: str, scenario_file: str | None, attainment: float, trace: str | None,
    requests: int | None, max_num_seqs: int, kv_tokens: int | None, seed: int, **options: Any,
) -> None:  # fmt: skip
    """The largest rate at which 99% of requests meet every promise, and the GPUs it takes.

    Needs --gpu, --model, --draft, --prompt-tokens and what is promised: --slo-tpot-ms,
    --slo-ttft-ms, --slo-e2e-ms, of each request by itself. Requests are served one by one at some
    fifteen rates of each arm: seconds.
    """
    begun = time.perf_counter()
    trial = Trial(_share(attainment), requests, seed, Path(trace).name if trace else "",
                  Server(max_num_seqs, kv_tokens))  # fmt: skip
    asked = predict(read_scenario(scenario_file, options))
    traffic = trace_of(trace) if trace else None
    try:
        found = goodput(asked, trial, traffic=traffic, told=_told)
    finally:
        progress_ended()
    if style != "table":
        print_table(_TABLES[by](found), style)
        return
    lines = goodput_sentence(found), misses_sentence(found), chance_sentence(found)
    say("\n".join(filter(None, lines)))
    say()
    print_table(goodput_part(goodput_table(found)) if by == "arm" else _TABLES[by](found), style)
    if by == "arm":
        say()
        print_table(quantile_table(found), style)
    say_each("\nNote: ", goodput_notes(found))
    say(f"\n{took_words(found, time.perf_counter() - begun)}")


def _share(percent: float) -> float:
    low, high = 100.0 * LEAST_ATTAINMENT, 100.0 * MOST_ATTAINMENT
    if not low <= percent <= high:
        raise InputError(f"attainment must be {low:g} to {high:g} percent, got {percent:g}")
    return round(percent / 100.0, 9)


def _told(done: int, every: int) -> None:
    progress(f"{done:,} of about {every:,} requests")
