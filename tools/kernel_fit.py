"""Fit the coefficients of single kernels: mixtures of experts, latent attention, and matrix
products in fp8_block and nvfp4. tools/steptime_fit.py stores what they give."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from specmath import hardware
from specmath.checks import FloatArray
from specmath.hardware import Gpu
from specmath.models.dtypes import DTYPE_BYTES
from specmath.steptime.calibration import PULL, SOFT
from specmath.steptime.coefficients import Coefficients, Format, assumed, definitions
from specmath.steptime.experts import (
    ExpertKernels,
    as_tabled,
    expert_seconds,
    make_curve,
    measured_kernels,
)
from specmath.steptime.operators import (
    MICRO,
    ExpertShard,
    Rates,
    latent_seconds,
    linear_seconds,
)

DATA = Path(__file__).parent.parent / "tests" / "data"
LINEAR = ("linear_launch_us", "memory_efficiency", "arithmetic_efficiency", "overlap")
FP8 = ("ragged_stall", "quantise_efficiency")
EXPERTS = (
    "expert_launch_us",
    "expert_memory_efficiency",
    "expert_arithmetic_efficiency",
    "expert_overlap",
    "expert_spread",
    "tabled_balance",
    "routing_efficiency",
)
LATENT = ("latent_launch_us", "latent_efficiency", "latent_arithmetic_efficiency")
# Bytes a stored parameter, and the format whose peak the kernels compute at.
STORED: dict[Format, tuple[float, str]] = {
    "bf16": (2.0, "bf16"),
    "fp8": (1.0, "fp8"),
    "fp8_block": (1.0, "fp8"),
    "nvfp4": (DTYPE_BYTES["nvfp4"], "nvfp4"),
    "mxfp4": (DTYPE_BYTES["mxfp4"], "bf16"),
    "int4": (DTYPE_BYTES["int4"], "bf16"),
}


def minimise(
    start: Coefficients,
    names: Sequence[str],
    predict: Callable[[Coefficients], FloatArray],
    measured: FloatArray,
    weight: FloatArray | None = None,
) -> Coefficients:
    """`start` with `names` replaced by the values that fit best, within their ranges."""
    bounds = [definitions()[name] for name in names]
    low = np.array([b.low for b in bounds], dtype=float)
    high = np.array([b.high for b in bounds], dtype=float)
    first = np.clip([getattr(start, name) for name in names], low + 1e-6, high - 1e-6)
    scale = np.maximum(np.abs(first), 0.1)

    def with_values(values: FloatArray) -> Coefficients:
        inside = np.clip(values, low, high)
        return replace(start, **dict(zip(names, inside.tolist(), strict=True)))

    def residuals(values: FloatArray) -> FloatArray:
        errors = np.log(predict(with_values(values)) / measured)
        if weight is not None:
            errors = errors * weight
        pull = PULL * np.sqrt(len(errors)) * (values - first) / scale
        return np.concatenate([errors, pull])

    found = least_squares(
        residuals, first, bounds=(low, high), loss="soft_l1", f_scale=SOFT, x_scale=scale
    )
    return with_values(found.x)


def rates_of(gpu: Gpu, kernels: Format, c: Coefficients) -> Rates:
    """Rates of `gpu` for such kernels."""
    size, computed = STORED[kernels]
    quantised = kernels in ("fp8", "fp8_block", "nvfp4")
    return Rates(gpu.bandwidth, gpu.peak(computed), c, size, quantised=quantised)


# ── mixtures of experts ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Layers:
    """Many layers as one: `expert_seconds` broadcasts over the sizes of an `ExpertShard`."""

    experts: FloatArray
    per_token: FloatArray
    groups: FloatArray
    parameters: FloatArray
    widths: FloatArray


def _stacked(layers: Sequence[ExpertShard]) -> ExpertShard:
    columns = {
        name: np.array([getattr(layer, name) for layer in layers], dtype=float)[:, None]
        for name in _Layers.__dataclass_fields__
    }
    return _Layers(**columns)  # type: ignore[return-value]


def shape_of(layer: ExpertShard) -> tuple[int, ...]:
    """What all splits of one model's mixture layer share."""
    return layer.experts, layer.per_token, layer.hidden, layer.intermediate


def fit_experts(known: ExpertKernels, gpu: Gpu, kernels: Format) -> Coefficients:
    """The assumed coefficients with those of experts that fit `known` best; each model's shape
    weighs the same, however many of its splits were measured."""
    layers = _stacked(known.layers)
    valid = np.isfinite(known.seconds)
    shapes = [shape_of(layer) for layer in known.layers]
    each = np.array([1.0 / shapes.count(shape) for shape in shapes])
    weight = np.sqrt(each / each.mean())[:, None] * np.ones_like(known.seconds)

    def predict(c: Coefficients) -> FloatArray:
        read, extra = expert_seconds(layers, known.tokens, as_tabled(rates_of(gpu, kernels, c)))
        return np.asarray((read + extra + c.expert_launch_us * MICRO)[valid])

    return minimise(assumed(kernels), EXPERTS, predict, known.seconds[valid], weight[valid])


@cache
def expert_values(gpu: str, kernels: Format, without: tuple[int, ...] = ()) -> dict[str, float]:
    """The coefficients of experts that fit a GPU's kernels best, but for the shape `without`."""
    known = measured_kernels(gpu, kernels)
    assert known is not None, (gpu, kernels)
    kept = known.without(without)
    c = fit_experts(kept if kept.layers else known, hardware.find(gpu), kernels)
    return {name: getattr(c, name) for name in EXPERTS}


def held_out_experts(gpu: str, kernels: Format) -> float:
    """Mean absolute relative error of one layer's experts, by shape, with the whole shape held
    out; of the formula's fit where there is one shape only."""
    known = measured_kernels(gpu, kernels)
    assert known is not None, (gpu, kernels)
    errors = []
    for shape in sorted({shape_of(layer) for layer in known.layers}):
        rest = known.without(shape)
        c = replace(assumed(kernels), **expert_values(gpu, kernels, shape))
        rates = rates_of(hardware.find(gpu), kernels, c)
        alike = rest if rest.layers else None
        miss = rest.log_miss(rates) if rest.layers else None
        off = [
            make_curve(layer, as_tabled(rates), alike, miss).total(known.tokens) / taken - 1.0
            for layer, taken in zip(known.layers, known.seconds, strict=True)
            if shape_of(layer) == shape
        ]
        errors.append(float(np.nanmean(np.abs(off))))
    return float(np.mean(errors))


# ── matrix products ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Products:
    """Measured matrix products of one GPU and format."""

    tokens: FloatArray
    outputs: FloatArray
    inputs: FloatArray
    seconds: FloatArray


@cache
def products() -> dict[tuple[str, Format], Products]:
    """What tests/data/matrix_products.csv.gz holds, by GPU and format."""
    found: dict[tuple[str, Format], list[tuple[float, ...]]] = {}
    with gzip.open(DATA / "matrix_products.csv.gz", "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            names = ("tokens", "outputs", "inputs", "microseconds")
            key: tuple[str, Format] = (row["gpu"], row["format"])  # type: ignore[assignment]
            found.setdefault(key, []).append(tuple(float(row[name]) for name in names))
    result = {}
    for key, rows in found.items():
        tokens, outputs, inputs, taken = np.array(rows).T
        result[key] = Products(tokens, outputs, inputs, taken * MICRO)
    return result


def _product_seconds(of: Products, rates: Rates) -> FloatArray:
    read, extra = linear_seconds(of.outputs, of.inputs, of.tokens, rates)
    return np.asarray(read + extra + rates.coefficients.linear_launch_us * MICRO)


def fit_products(of: Products, gpu: Gpu, kernels: Format, start: Coefficients) -> Coefficients:
    """`start` with the coefficients of matrix products that fit best."""

    def predict(c: Coefficients) -> FloatArray:
        return _product_seconds(of, rates_of(gpu, kernels, c))

    return minimise(start, LINEAR + FP8, predict, of.seconds)


def product_error(of: Products, gpu: Gpu, kernels: Format, c: Coefficients) -> float:
    """Mean absolute relative error of one product."""
    taken = _product_seconds(of, rates_of(gpu, kernels, c))
    return float(np.abs(taken / of.seconds - 1.0).mean())


# ── latent attention ─────────────────────────────────────────────────────────────────────────────

_LATENT_WIDTH, _ROTARY_WIDTH = 512, 64  # of every row: DeepSeek-V3's


@dataclass(frozen=True, eq=False)
class Latents:
    """Measured layers of latent attention of one GPU, one query token, a cache in 16 bits."""

    heads: FloatArray
    batch: FloatArray
    context: FloatArray
    seconds: FloatArray


@cache
def latents() -> dict[str, Latents]:
    """What tests/data/latent_attention.csv.gz holds, by GPU."""
    found: dict[str, list[tuple[float, ...]]] = {}
    with gzip.open(DATA / "latent_attention.csv.gz", "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            names = ("heads", "batch", "context", "microseconds")
            found.setdefault(row["gpu"], []).append(tuple(float(row[name]) for name in names))
    result = {}
    for gpu, rows in found.items():
        heads, batch, context, taken = np.array(rows).T
        result[gpu] = Latents(heads, batch, context, taken * MICRO)
    return result


def _latent_layer(of: Latents, rates: Rates) -> FloatArray:
    tokens = of.batch * of.context
    size = 2.0 * tokens * (_LATENT_WIDTH + _ROTARY_WIDTH)
    flops = 2.0 * tokens * of.heads * (2 * _LATENT_WIDTH + _ROTARY_WIDTH)
    read, extra = latent_seconds(size, flops, of.context, rates)
    return np.asarray(read + extra + rates.coefficients.latent_launch_us * MICRO)


def fit_latents(of: Latents, gpu: Gpu, start: Coefficients) -> Coefficients:
    """`start` with the coefficients of latent attention that fit best."""

    def predict(c: Coefficients) -> FloatArray:
        return _latent_layer(of, rates_of(gpu, "bf16", c))

    return minimise(start, LATENT, predict, of.seconds)


def latent_error(of: Latents, gpu: Gpu, c: Coefficients) -> float:
    """Mean absolute relative error of one layer."""
    return float(np.abs(_latent_layer(of, rates_of(gpu, "bf16", c)) / of.seconds - 1.0).mean())
