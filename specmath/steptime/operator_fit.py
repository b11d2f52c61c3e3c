"""Fit the step-time coefficients of one GPU to a table that times each operator separately.

Each operator is fitted alone, by least squares on log(predicted / measured) with a soft L1 loss,
so that a coefficient says something about its operator and not about another's error. This made
data/steptime.toml from the reference table (benchmarks/step_times.py --fit).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from specmath.checks import FloatArray, InputError
from specmath.hardware import Gpu
from specmath.models import Model
from specmath.steptime.coefficients import Arithmetic, Coefficients, assumed, definitions
from specmath.steptime.operators import (
    MICRO,
    all_reduce_seconds,
    attention_seconds,
    expert_seconds,
    linear_seconds,
)
from specmath.steptime.shards import shard

__all__ = ["OperatorRow", "fit_arithmetic", "fit_gpu", "fitted_names"]

LINEAR = ("linear_launch_us", "memory_efficiency", "arithmetic_efficiency", "overlap")
FP8 = ("ragged_stall", "quantise_efficiency")
ATTENTION = (
    "attention_launch_us",
    "kv_efficiency",
    "cached_mib",
    "cache_speedup",
    "uncached_us",
    "scan_us_per_1000_tokens",
)
LINK = ("all_reduce_us", "large_all_reduce_us", "link_efficiency", "ring_share")
EXPERTS = (
    "expert_launch_us",
    "expert_memory_efficiency",
    "expert_arithmetic_efficiency",
    "expert_spread",
    "routing_efficiency",
)
# Residuals beyond this (log) count linearly, not squared: the tables have outliers.
SOFT = 0.05
# A coefficient twice its assumed value costs as much as an error of this size (log) in every row:
# one that the rows do not determine stays plausible, one that they do hardly moves.
PULL = 0.02


@dataclass(frozen=True)
class OperatorRow:
    """Measured seconds of one step by operator; `weights_in` is "bf16" or "fp8"."""

    model: Model
    tensor_parallel: int
    weights_in: Arithmetic
    batch: int
    tokens_per_sequence: int
    context_tokens: int
    linear: float
    experts: float
    attention: float
    communication: float

    @property
    def tokens(self) -> int:
        return self.batch * self.tokens_per_sequence


def _minimise(
    start: Coefficients,
    names: Sequence[str],
    predict: Callable[[Coefficients], FloatArray],
    measured: FloatArray,
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
        pull = PULL * np.sqrt(len(errors)) * (values - first) / scale
        return np.concatenate([errors, pull])

    found = least_squares(
        residuals, first, bounds=(low, high), loss="soft_l1", f_scale=SOFT, x_scale=scale
    )
    return with_values(found.x)


def _unique(rows: Iterable[OperatorRow], key: Callable[[OperatorRow], object]) -> list[OperatorRow]:
    """One row a key: an operator does not depend on everything, and repeats would weigh double."""
    return list({key(row): row for row in rows}.values())


def _column(rows: Sequence[OperatorRow], name: str) -> FloatArray:
    return np.array([getattr(row, name) for row in rows], dtype=float)


def _stacked_linears(rows: Sequence[OperatorRow]) -> tuple[FloatArray, ...]:
    """(count, outputs, inputs, quantised) of every linear layer, one line a row."""
    layers = [shard(row.model, row.tensor_parallel).linears for row in rows]
    width = max(len(line) for line in layers)
    stacked = np.zeros((4, len(rows), width))
    stacked[1:3] = 1.0
    for i, line in enumerate(layers):
        for j, linear in enumerate(line):
            quantised = linear.part not in (None, "head")
            stacked[:, i, j] = (linear.count, linear.outputs, linear.inputs, quantised)
    return tuple(stacked)


def _fit_linears(
    rows: Sequence[OperatorRow], gpu: Gpu, start: Coefficients, bf16: Coefficients | None
) -> Coefficients:
    """Linear layers; with `bf16` given, `start` is for fp8 and the head is timed with `bf16`."""
    chosen = _unique(rows, lambda r: (r.model.name, r.tensor_parallel, r.tokens))
    count, outputs, inputs, quantised = _stacked_linears(chosen)
    tokens = _column(chosen, "tokens")[:, None]

    def each(c: Coefficients, dtype: str) -> FloatArray:
        read, extra = linear_seconds(
            outputs,
            inputs,
            tokens,
            weight_bytes=2.0 if dtype == "bf16" else 1.0,
            bandwidth=gpu.bandwidth,
            peak=gpu.peak(dtype),
            coefficients=c,
            quantised_arithmetic=dtype != "bf16",
        )
        total: FloatArray = read + extra + c.linear_launch_us * MICRO
        return total

    head = each(bf16, "bf16") if bf16 is not None else None

    def predict(c: Coefficients) -> FloatArray:
        if head is None:
            return np.asarray((count * each(c, "bf16")).sum(axis=1))
        return np.asarray((count * np.where(quantised > 0, each(c, "fp8"), head)).sum(axis=1))

    names = LINEAR if bf16 is None else LINEAR + FP8
    return _minimise(start, names, predict, _column(chosen, "linear"))


def _fit_attention(rows: Sequence[OperatorRow], gpu: Gpu, start: Coefficients) -> Coefficients:
    chosen = _unique(rows, lambda r: (r.model.name, r.tensor_parallel, r.batch, r.context_tokens))
    shards = [shard(row.model, row.tensor_parallel) for row in chosen]
    if any(len(s.attention) != 1 for s in shards):
        raise InputError("rows must be of models with one kind of attention layer")
    layers = np.array([s.attention[0].count for s in shards], dtype=float)
    context = _column(chosen, "context_tokens")
    share = np.array([s.attention[0].kv_elements(np.asarray(1.0)) for s in shards])
    size = 2.0 * _column(chosen, "batch") * context * share

    def predict(c: Coefficients) -> FloatArray:
        read, _ = attention_seconds(
            size, 0.0, context, bandwidth=gpu.bandwidth, peak=1.0, coefficients=c
        )
        return np.asarray(layers * (read + c.attention_launch_us * MICRO))

    measured = _column(chosen, "attention")
    # The size of the cache is a corner in the curve: start on both sides of it.
    starts = [replace(start, cached_mib=size) for size in (20.0, 35.0, 60.0)]
    found = [_minimise(s, ATTENTION, predict, measured) for s in starts]
    return min(found, key=lambda c: float(np.abs(np.log(predict(c) / measured)).mean()))


def _fit_link(rows: Sequence[OperatorRow], gpu: Gpu, start: Coefficients) -> Coefficients:
    dense = [row for row in rows if row.tensor_parallel > 1 and not row.model.is_moe]
    chosen = _unique(dense, lambda r: (r.model.name, r.tensor_parallel, r.tokens))
    if not chosen:
        return start
    gpus = _column(chosen, "tensor_parallel")
    counts = [shard(row.model, row.tensor_parallel).all_reduces for row in chosen]
    size = 2.0 * _column(chosen, "tokens") * np.array([row.model.hidden for row in chosen])

    def predict(c: Coefficients) -> FloatArray:
        return np.array(counts) * all_reduce_seconds(size, gpus, gpu.interconnect, c)

    return _minimise(start, LINK, predict, _column(chosen, "communication"))


def _fit_experts(
    rows: Sequence[OperatorRow], gpu: Gpu, start: Coefficients, dtype: str
) -> Coefficients:
    mixed = [row for row in rows if row.model.is_moe]
    chosen = _unique(mixed, lambda r: (r.model.name, r.tensor_parallel, r.tokens))
    if not chosen:
        return start
    groups: dict[tuple[str, int], list[int]] = {}
    for i, row in enumerate(chosen):
        groups.setdefault((row.model.name, row.tensor_parallel), []).append(i)
    tokens = _column(chosen, "tokens")

    def predict(c: Coefficients) -> FloatArray:
        result = np.empty(len(chosen))
        for indices in groups.values():
            row = chosen[indices[0]]
            (layer,) = shard(row.model, row.tensor_parallel).experts
            read, extra = expert_seconds(
                layer.experts,
                layer.per_token,
                layer.parameters,
                layer.widths,
                tokens[indices],
                weight_bytes=2.0 if dtype == "bf16" else 1.0,
                bandwidth=gpu.bandwidth,
                peak=gpu.peak(dtype),
                coefficients=c,
            )
            result[indices] = layer.count * (read + extra + c.expert_launch_us * MICRO)
        return result

    return _minimise(start, EXPERTS, predict, _column(chosen, "experts"))


def fit_arithmetic(
    rows: Sequence[OperatorRow],
    gpu: Gpu,
    weights_in: Arithmetic,
    bf16: Coefficients | None = None,
) -> Coefficients:
    """Coefficients of `gpu` for weights in `weights_in` ("bf16", or "fp8" given those of bf16).

    Attention and all-reduces do not depend on the weights: they are fitted with bf16 and kept.
    """
    own = [row for row in rows if row.weights_in == weights_in]
    dense = [row for row in own if not row.model.is_moe]
    if len(dense) < len(LINEAR + FP8):
        raise InputError(f"rows must hold at least {len(LINEAR + FP8)} of dense models, got fewer")
    start = assumed(weights_in)
    if weights_in == "bf16":
        c = _fit_linears(dense, gpu, start, None)
        c = _fit_link(own, gpu, _fit_attention(own, gpu, c))
    else:
        shared = {name: getattr(bf16, name) for name in ATTENTION + LINK}
        c = _fit_linears(dense, gpu, replace(start, **shared), bf16)
    return _fit_experts(own, gpu, c, weights_in)


def fitted_names(rows: Sequence[OperatorRow], weights_in: Arithmetic) -> tuple[str, ...]:
    """The coefficients that `fit_arithmetic` determines from `rows`; it leaves others assumed."""
    own = [row for row in rows if row.weights_in == weights_in]
    experts = EXPERTS if any(row.model.is_moe for row in own) else ()
    return LINEAR + (FP8 if weights_in == "fp8" else ATTENTION + LINK) + experts


def fit_gpu(rows: Sequence[OperatorRow], gpu: Gpu) -> dict[Arithmetic, Coefficients]:
    """Coefficients by arithmetic dtype, from all rows of one GPU."""
    found: dict[Arithmetic, Coefficients] = {"bf16": fit_arithmetic(rows, gpu, "bf16")}
    if any(row.weights_in == "fp8" for row in rows):
        found["fp8"] = fit_arithmetic(rows, gpu, "fp8", found["bf16"])
    return found
