"""steptime, batch and model: the commands of the step-time model."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from specmath import hardware, models
from specmath.checks import InputError, whole
from specmath.cli.options import (
    FILE,
    config_text,
    format_option,
    read_scenario,
    read_text,
    scenario_options,
)
from specmath.cli.output import Row, print_rows, print_table
from specmath.cli.terminal import say, say_each, say_json
from specmath.frontier import frontier
from specmath.launch import engines, launch
from specmath.load import LoadStudy, load_study
from specmath.models import Model
from specmath.predict import Prediction, predict
from specmath.scenario.forms import HALVES
from specmath.serving.memory import Memory
from specmath.steptime import Placement
from specmath.steptime.calibration import Fit, calibrate
from specmath.tables import TABLES
from specmath.words.launch import exactness, origin, pasted
from specmath.words.load import (
    SWITCHING_NOTES,
    load_sentence,
    memory_sentence,
    schedule_sentence,
    single_sentence,
    switching_sentence,
)

__all__ = ["batch_command", "model_command", "steptime_command"]


ARITHMETIC_NOTE = (
    "arithmetic_ms: what arithmetic adds beyond the reading of weights and cache that it overlaps; "
    "near 0 means bound by memory, not that there is no arithmetic."
)


def _model(name: str) -> Model:
    """A catalogue name, or the path of a config.json."""
    return models.named(config_text(name) or name)


def _whole_list(name: str, text: str) -> np.ndarray:
    try:
        values = [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise InputError(f"{name} must be whole numbers such as 1,8,64, got {text!r}") from error
    if not values:
        raise InputError(f"{name} must be whole numbers such as 1,8,64, got nothing")
    return whole(name, values, 1)


@click.command(
    "steptime",
    epilog="Example: specmath steptime --gpu h100 --model Llama-3.1-8B --batch 1,8,64 --tokens 1,5",
)
@click.option(
    "--gpu",
    required=True,
    help="A GPU of the catalogue, or "
    f"its TB/s, bf16 TFLOP/s and GB such as {hardware.CUSTOM_EXAMPLE}.",
)
@click.option("--model", "name", required=True, help="A model of the catalogue, or a config.json.")
@click.option("--batch", default="1", help="Sequences; a list with commas.")
@click.option("--tokens", default="1", help="Positions a sequence, γ+1; a list.")
@click.option("--context", default="1024", help="Tokens in the cache; a list.")
@click.option("--tensor-parallel", type=int, default=1, help="GPUs a replica.")
@click.option("--weight-dtype", help="bf16, fp8, int8, int4, mxfp4, nvfp4; left out: as published.")
@click.option(
    "--own-steps", type=FILE,
    help="CSV of your own steps (model, gpu, tp, dtype, batch, tokens_per_seq, context, seconds): "
    "the coefficients are fitted to them first, and how well is said.",
)  # fmt: skip
@click.option("--kv-dtype", default="bf16", help="bf16 or fp8.")
@format_option
def steptime_command(
    gpu: str, name: str, batch: str, tokens: str, context: str, tensor_parallel: int,
    weight_dtype: str | None, own_steps: str | None, kv_dtype: str, style: str,
) -> None:  # fmt: skip
    """Milliseconds of one forward, by operator. Without sampler and host.

    step_ms is their sum: weights_ms and kv_ms read weights and cache; arithmetic_ms is only what
    arithmetic adds beyond that reading, which it overlaps, so near 0 while memory is the limit
    (not the time of all arithmetic); elementwise_ms norms and activations; launch_ms fixed costs
    of kernels; communication_ms all-reduces.
    """
    axes = [
        _whole_list(label, given)
        for label, given in (("batch", batch), ("tokens", tokens), ("context", context))
    ]
    grid = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
    fit = None if own_steps is None else _own_fit(Path(own_steps), gpu)
    own = None if fit is None else fit.coefficients
    place = Placement(_model(name), gpu, tensor_parallel, weight_dtype, kv_dtype, coefficients=own)
    found = place.step(*grid)
    columns = dict(zip(("batch", "tokens", "context"), grid, strict=True))
    for part, seconds in {"step": found.total, **vars(found)}.items():
        columns[f"{part}_ms"] = np.broadcast_to(seconds, grid[0].shape) * 1e3
    rows = [{k: v[i].item() for k, v in columns.items()} for i in range(grid[0].size)]
    print_rows(rows, style)
    if style == "table":
        basis = place.calibration.basis if fit is None else _said(fit)
        say(f"\n{ARITHMETIC_NOTE}\nBasis: {basis}.")
        try:
            Memory(place).require_a_sequence(int(axes[2].max()))
        except InputError as error:  # why not one sequence fits, and what would
            say(f"Note: {error}.")


def _own_fit(path: Path, gpu: str) -> Fit:
    """The fit to a user's own steps of that GPU; InputError where the file has none."""
    rows = list(csv.DictReader(io.StringIO(read_text(path).removeprefix("\ufeff"))))
    name = hardware.find(gpu).name
    fits = calibrate(rows)
    if name not in fits:
        found = ", ".join(fits) or "none"
        raise InputError(f"{path.name} must hold steps of {name}, found {found}")
    return fits[name]


def _said(fit: Fit) -> str:
    held = "" if fit.held_out_error is None else f", {fit.held_out_error:.1%} on rows left out"
    return (
        f"{fit.rows} steps of your own; mean error {fit.error_before:.1%} before the fit, "
        f"{fit.error:.1%} after{held}. {fit.note}"
    )


@click.command(
    "batch",
    epilog="Example: specmath batch --alpha 0.8 --gamma 4 --gpu h100 --model Llama-3.1-8B "
    "--draft Llama-3.2-1B",
)
@click.option("--schedule", is_flag=True, help="Print the command with γ by batch size, only.")
@click.option("--throughput", is_flag=True, help="Over load instead: tokens/s per user and per GPU "
              "with their ends, as on the page.")  # fmt: skip
@scenario_options
@format_option
def batch_command(
    style: str, scenario_file: str | None, schedule: bool, throughput: bool, **options: Any
) -> None:
    """Speedup, recommended γ and cost over batch. Where load kills it; the recommended γ is that
    of the verdict at each batch. Fits memory "no": more sequences than this replica holds."""
    prediction = predict(read_scenario(scenario_file, options))
    study = load_study(prediction.endpoint)
    if schedule:
        _say_schedule(prediction, study)
        return
    print_table(TABLES["load" if throughput else "batch"](prediction), style)
    if style != "table":
        return
    choice = study.choice
    say(f"\n{load_sentence(frontier(prediction.endpoint), study)}\n{memory_sentence(study)}")
    say(f"\n{single_sentence(choice)}\n{schedule_sentence(choice)}\n{switching_sentence(choice)}")
    if choice.advised:
        ranges = json.dumps(choice.schedule.as_list())
        say(f"\nγ by batch size, as [first, last, γ] (--schedule: as a command): {ranges}")
        say_each("Note: ", SWITCHING_NOTES)


def _say_schedule(prediction: Prediction, study: LoadStudy) -> None:
    """The command alone, and below it as a comment of the shell what speaks against it."""
    if not study.schedule.pays:
        raise InputError("no batch size pays: leave speculation off instead of a schedule")
    say(pasted(launch(prediction.endpoint, study.gamma, schedule=study.schedule)))
    if not study.choice.advised:
        against = f"{single_sentence(study.choice)} {schedule_sentence(study.choice)}"
        say(f"# Not advised. {against}")


@click.command(
    "launch",
    epilog="Example: specmath launch --gpu h100 --model Llama-3.1-8B --draft eagle3 --gamma 3",
)
@click.option("--for", "engine", help=f"Another engine than --engine: {', '.join(engines())}.")
@scenario_options
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table")
def launch_command(
    style: str, scenario_file: str | None, engine: str | None, **options: Any
) -> None:
    """The command that starts an engine with this speculation.

    γ is the recommended one where none is given. Nothing is run: the options are those of the
    version named.
    """
    given = {name for name, value in options.items() if value not in (None, ())}
    if scenario_file is None and HALVES["acceptance"].isdisjoint(given):
        options["acceptance_form"] = "range"  # what others measured chooses γ, where none is given
    prediction = predict(read_scenario(scenario_file, options))
    gamma = prediction.scenario.gamma or prediction.decision.gamma or prediction.gamma
    found = launch(prediction.endpoint, max(gamma, 1), engine=engine)
    kept = exactness(prediction.scenario.engine) if engine is None else ""
    if style == "json":
        say_json({
            "engine": found.engine.label, "version": found.engine.version, "gamma": max(gamma, 1),
            "command": found.command, "files": dict(found.files), "needs": found.needs,
            "limits": list(found.limits), "exactness": kept, "source": found.engine.source,
        })  # fmt: skip
        return
    say(pasted(found))
    say(f"\n{origin(found.engine)}")
    say_each("Note: ", (kept, *found.limits) if kept else found.limits)


@click.command("model", epilog="Example: specmath model config.json")
@click.argument("config")
@format_option
def model_command(config: str, style: str) -> None:
    """Sizes of a model from its config.json (or a catalogue name)."""
    model = _model(config)
    row: Row = {
        "name": model.name, "parameters": model.parameters,
        "active_parameters": model.active_parameters, "layers": model.layer_count,
        "weight_dtype": model.weight_dtype, "weight_gib": model.weight_bytes() / 2**30,
        "kv_bytes_per_token": model.kv_bytes_per_token(),
        "flops_per_token": model.flops_per_token, "notes": list(model.notes),
    }  # fmt: skip
    print_rows([row], style, one=True)
