"""steptime, batch and model: the commands of the step-time model."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click
import numpy as np

from specmath import hardware, steptime
from specmath.checks import InputError, whole
from specmath.cli.options import (
    config_text,
    format_option,
    read_scenario,
    read_text,
    scenario_options,
)
from specmath.cli.output import Row, print_rows, print_table
from specmath.models import Model
from specmath.predict import predict
from specmath.serving.memory import Memory
from specmath.serving.of_scenario import model_of
from specmath.serving.schedule import SWITCHING_NOTES
from specmath.serving.study import load_study
from specmath.serving.words import load_sentence, memory_sentence
from specmath.steptime.calibration import Fit, calibrate
from specmath.views import TABLES

__all__ = ["batch_command", "model_command", "steptime_command"]


ARITHMETIC_NOTE = (
    "arithmetic_ms: what arithmetic adds beyond the reading of weights and cache that it overlaps; "
    "near 0 means bound by memory, not that there is no arithmetic."
)


def _model(name: str) -> Model:
    """A catalogue name, or the path of a config.json."""
    return model_of(config_text(name) or name)


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
@click.option("--batch", default="1", show_default=True, help="Sequences; a list with commas.")
@click.option("--tokens", default="1", show_default=True, help="Positions a sequence, γ+1; a list.")
@click.option("--context", default="1024", show_default=True, help="Tokens in the cache; a list.")
@click.option("--tensor-parallel", type=int, default=1, show_default=True, help="GPUs a replica.")
@click.option("--weight-dtype", help="bf16, fp8, int8, int4, mxfp4; as published if left out.")
@click.option(
    "--own-steps", type=click.Path(exists=True, dir_okay=False),
    help="CSV of your own steps (model, gpu, tp, dtype, batch, tokens_per_seq, context, seconds): "
    "the coefficients are fitted to them first, and how well is said.",
)  # fmt: skip
@click.option("--kv-dtype", default="bf16", show_default=True, help="bf16 or fp8.")
@format_option
def steptime_command(
    gpu: str, name: str, batch: str, tokens: str, context: str, tensor_parallel: int,
    weight_dtype: str | None, own_steps: str | None, kv_dtype: str, style: str,
) -> None:  # fmt: skip
    """Milliseconds of one forward, by operator (without sampler and host).

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
    model = _model(name)
    fit = None if own_steps is None else _own_fit(Path(own_steps), gpu)
    found = steptime.step_breakdown(
        model,
        gpu,
        batch=grid[0],
        tokens_per_sequence=grid[1],
        context_tokens=grid[2],
        tensor_parallel=tensor_parallel,
        weight_dtype=weight_dtype,
        kv_dtype=kv_dtype,
        coefficients=None if fit is None else fit.coefficients,
    )
    parts = {"step_ms": found.total} | {f"{k}_ms": v for k, v in vars(found).items()}
    rows = [
        {"batch": int(b), "tokens": int(t), "context": int(n)}
        | {label: float(np.broadcast_to(v, grid[0].shape)[i]) * 1e3 for label, v in parts.items()}
        for i, (b, t, n) in enumerate(zip(*grid, strict=True))
    ]
    print_rows(rows, style)
    if style == "table":
        stored = steptime.calibration_basis(gpu, weight_dtype or model.weight_dtype).basis
        click.echo(f"\n{ARITHMETIC_NOTE}\nBasis: {stored if fit is None else _said(fit)}.")
        fault = _memory_fault(
            Memory(
                model,
                gpu,
                tensor_parallel=tensor_parallel,
                weight_dtype=weight_dtype,
                kv_dtype=kv_dtype,
            ),
            int(axes[2].max()),
        )
        if fault:
            click.echo(f"Note: {fault}")


def _memory_fault(memory: Memory, context_tokens: int) -> str:
    """Why not one sequence fits, and what would; empty where it does."""
    try:
        memory.largest_batch(context_tokens)
    except InputError as error:
        return f"{error}."
    return ""


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
@click.option("--schedule", is_flag=True, help="Print vLLM's γ-by-batch configuration only.")
@scenario_options
@format_option
def batch_command(style: str, scenario_file: str | None, schedule: bool, **options: Any) -> None:
    """Speedup, recommended γ (smallest within 2% of the fastest) and cost over batch; where load
    kills it. Fits memory "no": more sequences than this replica holds."""
    scenario = read_scenario(scenario_file, options)
    study = load_study(scenario)
    if schedule:
        click.echo(study.schedule.vllm_config())
        return
    print_table(TABLES["batch"](predict(scenario)), style)
    if style != "table":
        return
    click.echo(f"\n{load_sentence(study)}\n{memory_sentence(study)}")
    if study.schedule.pays:
        click.echo(f"\nSchedule: {study.schedule.vllm_config()}")
        for note in SWITCHING_NOTES:
            click.echo(f"Note: {note}")


@click.command("model", epilog="Example: specmath model config.json")
@click.argument("config")
@format_option
def model_command(config: str, style: str) -> None:
    """Sizes of a model from its config.json (or a catalogue name)."""
    model = _model(config)
    row: Row = {
        "name": model.name,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "layers": model.layer_count,
        "weight_dtype": model.weight_dtype,
        "weight_gib": model.weight_bytes() / 2**30,
        "kv_bytes_per_token": model.kv_bytes_per_token(),
        "flops_per_token": model.flops_per_token,
        "notes": list(model.notes),
    }
    print_rows([row], style, one=True)
