"""simulate: the same requests served with and without speculation, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from specmath.arms import Server, endpoint_for, served
from specmath.checks import InputError
from specmath.cli.options import format_option, read_scenario, read_text, scenario_options
from specmath.cli.output import print_table
from specmath.cli.terminal import progress, progress_ended, say
from specmath.scenario import Scenario
from specmath.scenario.forms import HALVES
from specmath.serving.replica import MOST_SEQUENCES
from specmath.tables.simulated import simulated_table
from specmath.tables.table import Table, shown
from specmath.traffic import (
    TRACES,
    Traffic,
    closed,
    first_requests,
    poisson,
    read_trace,
    shipped_trace,
    thinned,
)
from specmath.words.simulated import NOT_MODELLED, simulated_sentence

__all__ = ["simulate_command"]

REQUESTS = 4000
"""Simulated where neither a number nor a time is given."""

IN_PLACE = "ngram"
"""A draft that every target can have, where none is given: the scenario needs one."""


@click.command(
    "simulate",
    epilog="\b\nExample: specmath simulate --gpu h100 --model Llama-3.1-8B --draft eagle3 "
    "--gamma 3 --alpha 0.7 --request-rate 15 --prompt-tokens 1024 --output-tokens 256",
)
@click.option("--requests", type=int, help=f"How many come; {REQUESTS:,} if nothing is said.")
@click.option("--seconds", type=float, help="For how long they come.")
@click.option("--trace", help="A CSV of seconds, prompt_tokens, output_tokens and where known "
              f"prefix_tokens; or {', '.join(TRACES)}, which come with specmath.")  # fmt: skip
@click.option("--thin", type=int, default=1, help="Every so-manieth request of the trace: what one "
              "of so many replicas gets.")  # fmt: skip
@click.option("--max-num-seqs", type=int, default=MOST_SEQUENCES,
              help="Sequences of one step at most.")  # fmt: skip
@click.option("--kv-tokens", type=int, help="Tokens that the cache holds; what memory leaves if "
              "not given.")  # fmt: skip
@click.option("--seed", type=int, default=0, help="The same seed gives the same answer.")
@scenario_options
@format_option
def simulate_command(
    style: str, scenario_file: str | None, requests: int | None, seconds: float | None,
    trace: str | None, thin: int, max_num_seqs: int, kv_tokens: int | None, seed: int,
    **given: Any,
) -> None:  # fmt: skip
    """Requests one by one, with and without speculation: means and tails, throughput.

    They come at --request-rate, by --concurrency at a time, or as a --trace says.
    """
    named = {name for name, value in given.items() if value is not None}
    if scenario_file is None and "model" in named:
        given["draft"] = given["draft"] or IN_PLACE
        if HALVES["acceptance"].isdisjoint(named):
            given["acceptance_form"] = "range"
    scenario = read_scenario(scenario_file, given)
    traffic = _traffic(scenario, trace, thin, requests, seconds, seed)
    server = Server(max_num_seqs, kv_tokens)
    endpoint = endpoint_for(scenario, traffic, server)
    try:
        arms = served(endpoint, traffic, server=server, seed=seed, told=_told)
    finally:
        progress_ended()
    table = simulated_table(arms)
    if style != "table":
        print_table(table, style)
        return
    say(simulated_sentence(arms))
    say()
    _print_beside(table)
    say(f"\nNote: {NOT_MODELLED}")


def _traffic(
    s: Scenario, trace: str | None, thin: int, requests: int | None, seconds: float | None,
    seed: int,
) -> Traffic:  # fmt: skip
    """What comes, as the options say it."""
    if trace is not None:
        if s.request_rate is not None or s.concurrency is not None:
            raise InputError("trace says when requests come: leave out request_rate, concurrency")
        is_file = Path(trace).is_file() or trace.endswith(".csv")
        found = read_trace(_file(trace), Path(trace).name) if is_file else shipped_trace(trace)
        return first_requests(thinned(found, thin), requests, seconds)
    if thin != 1:
        raise InputError(f"thin must be 1 where no trace is given, got {thin}")
    if s.prompt_tokens is None and s.decode_only != "yes":
        raise InputError("a simulation needs prompt_tokens: the prompts that it reads")
    prompt, count = s.prompt_tokens or 0, REQUESTS if requests is None else requests
    spreads = s.prompt_spread, s.output_spread
    if s.concurrency is not None:
        if seconds is not None:
            raise InputError("seconds is of an open loop: give requests with concurrency")
        return closed(s.concurrency, prompt, s.output_tokens, requests=count, spreads=spreads,
                      seed=seed)  # fmt: skip
    if s.request_rate is None:
        raise InputError("a simulation needs request_rate, concurrency or a trace")
    if seconds is not None and requests is not None:
        raise InputError("give requests or seconds, not both")
    return poisson(s.request_rate, prompt, s.output_tokens, seconds=seconds, spreads=spreads,
                   requests=count if seconds is None else None, seed=seed)  # fmt: skip


def _file(name: str) -> str:
    if not Path(name).is_file():
        raise InputError(f"no file {name}")
    return read_text(Path(name))


def _told(done: int, every: int) -> None:
    progress(f"{done:,} of {every:,} requests")


def _print_beside(table: Table) -> None:
    """A row a quantity, a column an arm."""
    arms, *quantities = table.columns
    rows = [
        [f"{c.label} ({c.unit})" if c.unit else c.label, *(shown(v, c.format) for v in c.values)]
        for c in quantities
    ]
    heads = ["", *map(str, arms.values)]
    say(tabulate(rows, headers=heads, disable_numparse=True, stralign="right"))
