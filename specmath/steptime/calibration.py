"""Fit the step-time model to a user's own measured steps, and say how well it then does.

A handful of totals cannot tell every coefficient apart. What is fitted
depends on how many rows there are: one factor on everything, then one on rates and a fixed
overhead, then the main coefficients one by one, pulled towards the values before the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from specmath import hardware, models
from specmath.checks import FloatArray, InputError, real, whole
from specmath.models import Model
from specmath.steptime.coefficients import (
    FORMATS,
    Coefficients,
    Format,
    coefficients_for,
    definitions,
)
from specmath.steptime.roofline import Placement

__all__ = ["PULL", "SOFT", "Fit", "calibrate"]

SOFT = 0.05
"""Residuals beyond this (log) count linearly, not squared: measured steps have outliers."""
PULL = 0.02
"""A coefficient twice its first value costs as much as an error of this size (log) in every row:
one that the rows do not determine stays plausible, one that they do hardly moves."""

# Rows from which each way of fitting is used: twice what it has to determine, and a little more.
TWO_FACTORS, SEPARATE = 5, 16
_RATES = (
    "memory_efficiency",
    "arithmetic_efficiency",
    "kv_efficiency",
    "link_efficiency",
    "elementwise_efficiency",
    "expert_memory_efficiency",
    "expert_arithmetic_efficiency",
    "routing_efficiency",
    "quantise_efficiency",
    "attention_arithmetic_efficiency",
    "latent_efficiency",
    "latent_arithmetic_efficiency",
)
_COSTS = (
    "linear_launch_us",
    "attention_launch_us",
    "latent_launch_us",
    "uncached_us",
    "scan_us_per_1000_tokens",
    "kernel_launch_us",
    "all_reduce_us",
    "large_all_reduce_us",
    "exchange_us",
    "expert_launch_us",
)
_OVERHEAD = "step_overhead_us"
OwnCoefficients = dict[Format, Coefficients]


@dataclass(frozen=True)
class Fit:
    """The outcome of `calibrate` for one GPU.

    `coefficients` goes to `step_seconds(..., coefficients=)` or a `Placement`. Errors are mean
    absolute relative errors of a step: `error_before` with the coefficients that were there,
    `error` after the fit on the same rows, `held_out_error` on rows (whole models, where there are
    several) left out of it, None with one row. `fitted` names what was determined, `note` says so
    in words.
    """

    gpu: str
    coefficients: Mapping[Format, Coefficients]
    rows: int
    fitted: tuple[str, ...]
    error_before: float
    error: float
    held_out_error: float | None
    note: str


@dataclass(frozen=True)
class _Step:
    place: Placement
    batch: int
    positions: int
    context: int
    seconds: float


_FIELDS = ("model", "gpu", "batch", "tokens_per_seq", "context", "seconds")


def _step(row: Mapping[str, Any], number: int) -> _Step:
    missing = [name for name in _FIELDS if name not in row]
    if missing:
        raise InputError(f"rows[{number}] must have {', '.join(_FIELDS)}; lacks {missing}")
    model = row["model"]
    place = Placement(
        model=model if isinstance(model, Model) else models.find(model),
        gpu=hardware.find(row["gpu"]).name,
        tensor_parallel=whole("tp", row.get("tp", 1), 1).item(),
        weight_dtype=str(row.get("dtype", "bf16")),
        kv_dtype=str(row.get("kv_dtype", "bf16")),
        expert_parallel=whole("expert_parallel", row.get("expert_parallel", 1), 1).item(),
        attention_dp=whole("attention_dp", row.get("attention_dp", 1), 1).item(),
    )
    return _Step(
        place=place,
        batch=whole("batch", row["batch"], 1).item(),
        positions=whole("tokens_per_seq", row["tokens_per_seq"], 1).item(),
        context=whole("context", row["context"], 1).item(),
        seconds=real("seconds", row["seconds"], 0, low_open=True).item(),
    )


def _predict(steps: Sequence[_Step], own: OwnCoefficients) -> FloatArray:
    groups: dict[Placement, list[int]] = {}
    for i, step in enumerate(steps):
        groups.setdefault(step.place, []).append(i)
    result = np.empty(len(steps))
    for place, indices in groups.items():
        of = [steps[i] for i in indices]
        result[indices] = (
            replace(place, coefficients=own)
            .step([s.batch for s in of], [s.positions for s in of], [s.context for s in of])
            .total
        )
    return result


def _clipped(c: Coefficients, values: Mapping[str, float]) -> Coefficients:
    """`c` with `values`, each brought into its range."""
    limits = definitions()
    inside = {n: float(np.clip(v, limits[n].low, limits[n].high)) for n, v in values.items()}
    return replace(c, **inside)


def _slower(c: Coefficients, factor: float, overhead: float) -> Coefficients:
    """Coefficients that take `factor` times as long for everything, and `overhead` us a step."""
    values = {name: getattr(c, name) / factor for name in _RATES}
    values |= {name: getattr(c, name) * factor for name in _COSTS}
    return _clipped(c, values | {_OVERHEAD: getattr(c, _OVERHEAD) + overhead})


@dataclass(frozen=True)
class _Way:
    """One way of fitting: the names of its unknowns, where they start, and what they do."""

    fitted: tuple[str, ...]
    start: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    apply: Callable[[FloatArray], OwnCoefficients]
    note: str


def _way(steps: Sequence[_Step], base: OwnCoefficients) -> _Way:
    count = len(steps)
    plain = float(np.median([step.seconds for step in steps])) * 1e6
    if count < TWO_FACTORS:
        return _Way(
            ("one factor on all times",),
            (1.0,),
            (0.1,),
            (10.0,),
            lambda x: {d: _slower(c, x[0], 0.0) for d, c in base.items()},
            f"{count} row(s): too few to tell operators apart, all times scaled by one factor",
        )
    if count < SEPARATE:
        return _Way(
            ("one factor on all times", _OVERHEAD),
            (1.0, 0.02 * plain),
            (0.1, 0.0),
            (10.0, plain),
            lambda x: {d: _slower(c, x[0], x[1]) for d, c in base.items()},
            f"{count} rows: all times scaled by one factor, and one overhead a step",
        )
    names = ["memory_efficiency", "arithmetic_efficiency", "kv_efficiency", "linear_launch_us"]
    if any(step.place.tensor_parallel > 1 for step in steps):
        names += ["link_efficiency", "all_reduce_us"]
    if any(step.place.model.is_moe for step in steps):
        names += ["expert_memory_efficiency", "expert_launch_us", "expert_spread"]

    # One factor a name on the values of every dtype: fp8 keeps its distance from bf16.
    def apply(x: FloatArray) -> OwnCoefficients:
        factors = dict(zip(names, x[:-1].tolist(), strict=True))
        return {
            d: _clipped(
                c,
                {n: getattr(c, n) * f for n, f in factors.items()}
                | {_OVERHEAD: getattr(c, _OVERHEAD) + float(x[-1])},
            )
            for d, c in base.items()
        }

    n = len(names)
    return _Way(
        (*names, _OVERHEAD),
        (*[1.0] * n, 0.02 * plain),
        (*[0.2] * n, 0.0),
        (*[5.0] * n, plain),
        apply,
        f"{count} rows: main coefficients fitted one by one, the others kept",
    )


def _solve(steps: Sequence[_Step], base: OwnCoefficients) -> tuple[OwnCoefficients, _Way]:
    way = _way(steps, base)
    measured = np.array([step.seconds for step in steps])
    start = np.array(way.start)
    scale = np.maximum(start, 1e-9)

    def residuals(x: FloatArray) -> FloatArray:
        errors = np.log(_predict(steps, way.apply(x)) / measured)
        pull = PULL * np.sqrt(len(steps)) * (x - start) / scale
        # The overhead has no value that it should stay near.
        pull = np.where([name == _OVERHEAD for name in way.fitted], 0.0, pull)
        return np.concatenate([errors, pull])

    found = least_squares(
        residuals,
        start,
        bounds=(way.low, way.high),
        loss="soft_l1",
        f_scale=SOFT,
        x_scale=scale,
    )
    return way.apply(found.x), way


def _errors(steps: Sequence[_Step], own: OwnCoefficients) -> FloatArray:
    measured = np.array([step.seconds for step in steps])
    result: FloatArray = np.abs(_predict(steps, own) / measured - 1.0)
    return result


def _held_out(steps: Sequence[_Step], base: OwnCoefficients) -> float | None:
    """Error on rows left out of the fit: one model at a time, or a fifth of the rows."""
    if len(steps) < 2:
        return None
    names = [step.place.model.name for step in steps]
    folds: list[Hashable] = (
        list(names) if len(set(names)) > 1 else [i % min(5, len(steps)) for i in range(len(steps))]
    )
    total = 0.0
    for fold in set(folds):
        rest = [step for step, own in zip(steps, folds, strict=True) if own != fold]
        left = [step for step, own in zip(steps, folds, strict=True) if own == fold]
        fitted, _ = _solve(rest, base)
        total += float(_errors(left, fitted).sum())
    return total / len(steps)


def calibrate(rows: Iterable[Mapping[str, Any]]) -> dict[str, Fit]:
    """Fit the coefficients of each GPU in `rows` to measured steps; one `Fit` a GPU, by name.

    A row maps `model` (catalogue name or Model), `gpu`, `batch`, `tokens_per_seq` (γ+1), `context`
    [tokens] and `seconds` of the step; `tp` (1), `dtype` of the weights ("bf16"), `kv_dtype`
    ("bf16"), `expert_parallel` and `attention_dp` (1) may be left out. Below 5 rows of a GPU one
    factor scales all times, below 16 a fixed overhead a step is added, from 16 the main
    coefficients are fitted; `Fit.note` says which.
    Minimises log(predicted / measured) with a soft L1 loss. Raises InputError for no rows, a
    missing field, or a value out of range.
    """
    by_gpu: dict[str, list[_Step]] = {}
    for number, row in enumerate(rows):
        step = _step(row, number)
        by_gpu.setdefault(step.place.device.name, []).append(step)
    if not by_gpu:
        raise InputError("rows must hold at least one measured step, got none")
    return {gpu: _fit(gpu, steps) for gpu, steps in by_gpu.items()}


def _fit(gpu: str, steps: Sequence[_Step]) -> Fit:
    base: OwnCoefficients = {kernels: coefficients_for(gpu, kernels) for kernels in FORMATS}
    own, way = _solve(steps, base)
    return Fit(
        gpu=gpu,
        coefficients=own,
        rows=len(steps),
        fitted=way.fitted,
        error_before=float(_errors(steps, base).mean()),
        error=float(_errors(steps, own).mean()),
        held_out_error=_held_out(steps, base),
        note=way.note + _at_limits(own, base),
    )


def _at_limits(own: OwnCoefficients, base: OwnCoefficients) -> str:
    """Which coefficients a fit drove to the end of their range: check the GPU named."""
    ends = {
        name
        for dtype, c in own.items()
        for name, entry in definitions().items()
        if getattr(c, name) in (entry.low, entry.high)
        and getattr(c, name) != getattr(base[dtype], name)
    }
    return f"; at the end of its range: {', '.join(sorted(ends))}" if ends else ""
