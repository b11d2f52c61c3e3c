"""measure: c, v and α on a model pair, every γ replayed, some γ run, predicted beside measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from specmath.checks import InputError
from specmath.cli.options import format_option
from specmath.cli.output import Row, print_rows
from specmath.measure.files import report_csv, write_report
from specmath.measure.pairs import BUILTIN, Pair, builtin_pair, builtin_prompts, load_pair
from specmath.measure.plan import Plan
from specmath.measure.prompts import Prompt, read_prompts, spread
from specmath.measure.report import Report
from specmath.measure.run import measure
from specmath.measure.to_scenario import to_scenario
from specmath.measure.written import whole_numbers
from specmath.scenario.files import to_toml

__all__ = ["measure_command"]


@click.command("measure", epilog="Example: specmath measure --draft ngram --out report.json")
@click.option(
    "--target",
    default=BUILTIN,
    show_default=True,
    help="Folder or hub name of the target, or builtin.",
)
@click.option(
    "--draft",
    default=None,
    help="Folder or hub name, ngram, ngram:5, skip:20-29; builtin also has model "
    "(the default) and model:argmax, the smollm2 demo trained and trained:full.",
)
@click.option(
    "--demo",
    type=click.Choice(["builtin", "smollm2"]),
    default=None,
    help="A pair that needs no download from a hub.",
)
@click.option(
    "--prompts",
    "prompt_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Your prompts: .txt, .json or .jsonl; entries may carry segment and response.",
)
@click.option("--count", default=12, show_default=True, help="Prompts to use, segments in turn.")
@click.option(
    "--temperature",
    "temperatures",
    type=float,
    multiple=True,
    help="May be given several times; 0, 0.7 and 1 if not given.",
)
@click.option("--top-p", type=float, default=1.0, show_default=True)
@click.option("--gammas", default="0-8", show_default=True, help="γ to replay: 1-8 or 1,2,4.")
@click.option(
    "--run-gammas", default=None, help="γ to really run; those replayed by default, none with 0."
)
@click.option("--tokens", default=96, show_default=True, help="Output tokens a text.")
@click.option("--samples", default=1, show_default=True, help="Texts a prompt.")
@click.option("--seed", default=0, show_default=True)
@click.option("--rounds", default=30, show_default=True, help="Rounds of timing.")
@click.option("--context", default=128, show_default=True, help="Context of the timing.")
@click.option(
    "--dtype", default="auto", show_default=True, help="auto, float32, bfloat16, float16."
)
@click.option("--device", default=None, help="cpu, cuda, cuda:1; a GPU if there is one.")
@click.option("--device-map", default=None, help="auto spreads a model over several GPUs.")
@click.option("--chat", is_flag=True, help="Wrap each prompt in the model's chat template.")
@click.option("--argmax-draft", is_flag=True, help="The draft takes its most likely token.")
@click.option(
    "--timing-only",
    is_flag=True,
    help="c and v alone: --target and --draft are config.json files, run with random weights.",
)
@click.option("--batch", default="1", show_default=True, help="Batches of --timing-only: 1,8,32.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the report as JSON.")
@click.option("--csv", "csv_out", type=click.Path(dir_okay=False), help="Write the comparison.")
@click.option(
    "--scenario-out", type=click.Path(dir_okay=False), help="Write a scenario for the calculator."
)
@format_option
def measure_command(style: str, **given: Any) -> None:
    """Measure c, v and α on a model pair; replay every γ; run some; compare.

    Without options: the built-in pair, on the CPU, in under a minute. Ctrl-C keeps what is done.
    """
    if given["timing_only"]:
        print_rows(_timing(given), style)
        return
    pair, prompts = _pair(given)
    report = measure(pair, _plan(given, prompts), progress=_progress)
    click.echo("", err=True)
    _write(given["out"], write_report(report))
    _write(given["csv_out"], report_csv(report))
    if given["scenario_out"]:
        _write(given["scenario_out"], to_toml(to_scenario(report)))
    if style != "table":
        print_rows(_rows(report), style)
        return
    _print(report)


def _pair(given: dict[str, Any]) -> tuple[Pair, list[Prompt]]:
    own = read_prompts(given["prompt_file"]) if given["prompt_file"] else None
    if given["demo"] == "smollm2":
        from specmath.measure.smollm2 import smollm2_pair, smollm2_prompts

        pair = smollm2_pair(given["draft"] or "ngram", given["argmax_draft"])
        return pair, own or smollm2_prompts()
    if given["demo"] == "builtin" or given["target"] == BUILTIN:
        draft = given["draft"] or "model"
        if given["argmax_draft"] and draft == "model":
            draft = "model:argmax"
        return builtin_pair(draft), own or builtin_prompts()
    if not given["draft"]:
        raise InputError("--draft must name a folder, a hub model, ngram or skip:…, got nothing")
    if own is None:
        raise InputError("--prompts must name a file with your prompts, got nothing")
    pair = load_pair(
        given["target"], given["draft"], dtype=given["dtype"], device=given["device"],
        device_map=given["device_map"], chat=given["chat"], argmax=given["argmax_draft"],
    )  # fmt: skip
    return pair, own


def _plan(given: dict[str, Any], prompts: list[Prompt]) -> Plan:
    if given["count"] < 1:
        raise InputError(f"count must be a whole number >= 1, got {given['count']}")
    gammas = whole_numbers("--gammas", given["gammas"])
    run = (
        gammas
        if given["run_gammas"] is None
        else whole_numbers("--run-gammas", given["run_gammas"])
    )
    return Plan(
        prompts=tuple(spread(prompts, given["count"])),
        temperatures=given["temperatures"] or (0.0, 0.7, 1.0),
        top_p=given["top_p"],
        gammas=gammas,
        run_gammas=tuple(gamma for gamma in run if gamma > 0),
        output_tokens=given["tokens"],
        samples=given["samples"],
        seed=given["seed"],
        timing_rounds=given["rounds"],
        contexts=(given["context"],),
        own_prompts=given["prompt_file"] is not None,
    )


def _timing(given: dict[str, Any]) -> list[Row]:
    from specmath.measure.timing import time_steps
    from specmath.measure.torch_load import random_model

    dtype = "bfloat16" if given["dtype"] == "auto" else given["dtype"]
    target = random_model(given["target"], dtype=dtype, device=given["device"])
    draft = None
    if given["draft"]:
        draft = random_model(given["draft"], dtype=dtype, device=given["device"])
    times = time_steps(
        target, draft, gammas=whole_numbers("--gammas", given["gammas"]),
        batches=whole_numbers("--batch", given["batch"]), contexts=(given["context"],),
        rounds=given["rounds"], progress=_progress,
    )  # fmt: skip
    click.echo("", err=True)
    for note in times.notes:
        click.echo(f"Note: {note}", err=True)
    if not times.forwards:
        raise InputError("nothing could be timed: every shape ran out of memory")
    plain = {(t.batch, t.context): t.median.value for t in times.forwards
             if t.model == "target" and t.tokens == 1}  # fmt: skip
    return [
        {
            "model": t.model, "batch": t.batch, "context": t.context, "tokens": t.tokens,
            "ms": 1000 * t.median.value, "ms_low": 1000 * t.median.low,
            "ms_high": 1000 * t.median.high,
            "plain_steps": t.median.value / plain[t.batch, t.context],
        }
        for t in times.forwards
    ]  # fmt: skip


def _progress(share: float, what: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{share:4.0%} {what:<50}", nl=False, err=True)


def _write(path: str | None, text: str) -> None:
    if path is None:
        return
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def _rows(report: Report) -> list[Row]:
    """Predicted beside measured; where nothing was run, the acceptance alone."""
    if report.comparison:
        return [row.model_dump() for row in report.comparison]
    return [
        {"segment": row.segment, "temperature": row.temperature, "gamma": gamma,
         "alpha": row.alpha.value, "alpha_low": row.alpha.low, "alpha_high": row.alpha.high,
         "replay_tokens_per_step": tokens}
        for row in report.acceptance
        for gamma, tokens in zip(report.settings.gammas, row.tokens_per_step, strict=True)
    ]  # fmt: skip


def _print(report: Report) -> None:
    pair, costs = report.pair, report.costs
    click.echo(f"{pair.target} with {pair.draft}, on {report.machine.processor}")
    if report.status == "partial":
        click.echo(f"Partial: {report.reason}.")
    if costs is not None:
        c_hat = "not modelled" if costs.c_hat is None else f"{costs.c_hat:.3f}"
        click.echo(f"c = {costs.c.value:.3f} [{costs.c.low:.3f}, {costs.c.high:.3f}], ĉ = {c_hat}")
        verify = ", ".join(f"{gamma}: {v.value:.2f}" for gamma, v in costs.verify.items())
        click.echo(f"v over γ: {verify}\n")
    alphas: list[Row] = [
        {"segment": row.segment, "T": row.temperature, "alpha": row.alpha.value,
         "low": row.alpha.low, "high": row.alpha.high, "tokens": row.tokens}
        for row in report.acceptance
    ]  # fmt: skip
    if alphas:
        print_rows(alphas, "table")
        click.echo("")
    rows: list[Row] = [
        {"T": row.temperature, "γ": row.gamma, "tokens/step": row.tokens_per_step,
         "replay": row.replay_tokens_per_step, "i.i.d.": row.iid_tokens_per_step,
         "speedup": row.speedup, "by replay with v": row.replay_v_speedup,
         "by theorem": row.theorem_speedup, "z": row.z}
        for row in report.comparison if row.segment == "all"
    ]  # fmt: skip
    if rows:
        print_rows(rows, "table")
    for check in report.checks:
        click.echo(f"\n{check.level}: {check.message}")
    if report.settings.clock == "thread":
        click.echo("\nTimes are processor time of one thread, which other programs hardly change.")
    click.echo(f"\n{report.seconds:.0f} s")
