"""measure: c, v and α on a model pair, every γ replayed, some γ run, predicted beside measured."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from specmath.checks import InputError
from specmath.cli.destination import Destination, WritingCommand, put
from specmath.cli.measured import print_report
from specmath.cli.options import FILE, format_option
from specmath.cli.output import Row, ends_row, print_rows
from specmath.cli.signals import interruptible
from specmath.cli.terminal import progress, progress_ended, say
from specmath.measure.checkpoint import Checkpoint
from specmath.measure.into_scenario import to_scenario
from specmath.measure.memory import room
from specmath.measure.pairs import BUILTIN, SHIPPED, SMOLLM2, Pair, load_pair
from specmath.measure.plan import Plan, Prompt, read_prompts, spread, whole_numbers
from specmath.measure.report import Interval, write_report
from specmath.measure.run import Hurried, measure
from specmath.outfile import COMPARISON, REPORT, SCENARIO
from specmath.scenario.files import to_toml
from specmath.tables.measured import report_csv

__all__ = ["measure_command"]

PLANNED = ("top_p", "output_tokens", "samples", "seed", "timing_rounds")
"""Options that a plan has by the same name."""

TIMED = {"timing_only", "target", "draft", "gammas", "batch", "context", "timing_rounds", "dtype",
         "device", "style", "force"}  # fmt: skip
"""Options that --timing-only heeds."""


@click.command("measure", cls=WritingCommand,
               epilog="Example: specmath measure --draft ngram --out report.json")  # fmt: skip
@click.option("--target", default=BUILTIN, help="Folder or hub name of the target, or builtin.")
@click.option("--draft", help="Folder or hub name, ngram, ngram:5, skip:20-29; builtin also has "
              "model (the default) and model:argmax, the smollm2 demo trained and trained:full.",
              )  # fmt: skip
@click.option("--demo", type=click.Choice([BUILTIN, SMOLLM2]),
              help="A pair that needs no download from a hub.")  # fmt: skip
@click.option("--prompts", "prompt_file", type=FILE,
              help="Your prompts: .txt, .json or .jsonl; entries may carry segment and response.",
              )  # fmt: skip
@click.option("--count", default=8, help="Prompts to use, segments in turn.")
@click.option("--temperature", "temperatures", type=float, multiple=True,
              help="May be given several times; 0, 0.7 and 1 if not given.")  # fmt: skip
@click.option("--top-p", type=float, default=1.0)
@click.option("--gammas", default="0-8", help="γ to replay: 1-8 or 1,2,4.")
@click.option("--run-gammas", help="γ to really run; those replayed by default, none with 0.")
@click.option("--tokens", "output_tokens", default=48, help="Output tokens a text.")
@click.option("--samples", default=1, help="Texts a prompt.")
@click.option("--seed", default=0)
@click.option("--rounds", "timing_rounds", default=30, help="Rounds of timing.")
@click.option("--batch", default="1", help="Batches of the timing: 1,8,32.")
@click.option("--context", default="128", help="Contexts of the timing: 128,1024.")
@click.option("--dtype", default="auto", help="auto, float32, bfloat16, float16.")
@click.option("--device", help="cpu, cuda, cuda:1; a GPU if there is one.")
@click.option("--device-map", help="auto spreads a model over several GPUs.")
@click.option("--chat", is_flag=True, help="Wrap each prompt in the model's chat template.")
@click.option("--argmax-draft", is_flag=True, help="The draft takes its most likely token.")
@click.option("--timing-only", is_flag=True, help="c and v alone: --target and --draft are "
              "config.json files, run with random weights.")  # fmt: skip
@click.option("--out", type=Destination(REPORT), help="Write the report as JSON.")
@click.option("--csv", "csv_out", type=Destination(COMPARISON), help="Write the comparison.")
@click.option("--scenario-out", type=Destination(SCENARIO),
              help="Write a scenario for the calculator.")  # fmt: skip
@format_option
def measure_command(style: str, **given: Any) -> None:
    """Measure c, v and α on a model pair. Replay every γ, run some, compare.

    Without options: the built-in pair, on the CPU, in about a minute. Ctrl-C, SIGTERM and SIGHUP
    keep what is done; with --out the same command goes on from there, after a crash too.
    """
    if given["timing_only"]:
        _check_timed(click.get_current_context())
        print_rows(_timing(given), style)
        return
    pair, prompts = _pair(given)
    plan = _plan(given, prompts)
    checkpoint = _checkpoint(given["out"], pair, plan)
    with interruptible(Hurried) as asked:
        report = measure(pair, plan, progress=_progress, checkpoint=checkpoint)
        try:
            put(given["out"], write_report(report))
            progress_ended()
            if checkpoint:
                _end(checkpoint, complete=report.status == "complete")
            put(given["csv_out"], report_csv(report))
            if given["scenario_out"]:
                put(given["scenario_out"], to_toml(to_scenario(report)))
        finally:
            print_report(report, style)
    if asked.number:
        sys.exit(asked.exit_code)


def _end(checkpoint: Checkpoint, *, complete: bool) -> None:
    if checkpoint.fault:
        say(f"Note: what was done could not be kept meanwhile: {checkpoint.fault}", err=True)
    if complete:
        checkpoint.remove()
    else:
        say(f"What is done is kept in {checkpoint.path}: the same command goes on.", err=True)


def _checkpoint(out: str | None, pair: Pair, plan: Plan) -> Checkpoint | None:
    """Beside the report; none where that is no file."""
    if out is None or (Path(out).exists() and not Path(out).is_file()):
        return None
    found = Checkpoint(f"{out}.checkpoint", pair, plan)
    if found.resumed or found.times:
        say(f"Going on from {found.path}: {found.resumed} runs are done.", err=True)
    return found


def _check_timed(ctx: click.Context) -> None:
    """InputError for an option that --timing-only would pass over."""
    typed = ParameterSource.COMMANDLINE
    for option in ctx.command.params:
        name = str(option.name)
        if name not in TIMED and ctx.get_parameter_source(name) == typed:
            raise InputError(
                f"{option.opts[0]} has no meaning beside --timing-only, which times random weights "
                "and makes no report: leave it out"
            )


def _pair(given: dict[str, Any]) -> tuple[Pair, list[Prompt]]:
    own = read_prompts(given["prompt_file"]) if given["prompt_file"] else None
    target = given["demo"] or given["target"]
    draft, shipped = SHIPPED.get(target, ("", None))
    if not (given["draft"] or draft):
        raise InputError("--draft must name a folder, a hub model, ngram or skip:…, got nothing")
    if own is None and shipped is None:
        raise InputError("--prompts must name a file with your prompts, got nothing")
    how = {name: given[name] for name in ("dtype", "device", "device_map", "chat")}
    pair = load_pair(target, given["draft"] or draft, argmax=given["argmax_draft"], **how)
    return pair, own or (shipped() if shipped else [])


def _plan(given: dict[str, Any], prompts: list[Prompt]) -> Plan:
    if given["count"] < 1:
        raise InputError(f"count must be a whole number >= 1, got {given['count']}")
    gammas = whole_numbers("--gammas", given["gammas"])
    run = whole_numbers("--run-gammas", given["run_gammas"] or given["gammas"])
    return Plan(
        tuple(spread(prompts, given["count"])), given["temperatures"] or (0.0, 0.7, 1.0),
        gammas=gammas, run_gammas=tuple(gamma for gamma in run if gamma > 0),
        batches=whole_numbers("--batch", given["batch"]),
        contexts=whole_numbers("--context", given["context"]),
        own_prompts=given["prompt_file"] is not None, **{name: given[name] for name in PLANNED},
    )  # fmt: skip


def _timing(given: dict[str, Any]) -> list[Row]:
    from specmath.measure.timing import time_steps
    from specmath.measure.torch_model import random_model

    shaped = partial(random_model, dtype=given["dtype"], device=given["device"])
    target, draft = shaped(given["target"]), given["draft"] and shaped(given["draft"])
    times = time_steps(
        target, draft, gammas=whole_numbers("--gammas", given["gammas"]),
        batches=whole_numbers("--batch", given["batch"]),
        contexts=whole_numbers("--context", given["context"]),
        rounds=given["timing_rounds"], progress=_progress,
    )  # fmt: skip
    progress_ended()
    for batch, context in times.left_out:
        say(f"Note: batch {batch}, context {context} ran out of memory and was left out; "
            f"{room(target)}", err=True)  # fmt: skip
    if not times.forwards:
        raise InputError("nothing could be timed: every shape ran out of memory")
    rows: list[Row] = []
    for timed in times.forwards:
        ms = Interval.of(timed.median.map(lambda seconds: 1000 * seconds))
        plain = times.find("target", 1, timed.batch, timed.context).median
        shape = {name: getattr(timed, name) for name in ("model", "batch", "context", "tokens")}
        steps = timed.median.value / plain.value
        rows.append(shape | ends_row("ms", ms) | {"plain_steps": steps})
    return rows


def _progress(share: float, what: str) -> None:
    progress(f"{share:4.0%} {what}")
