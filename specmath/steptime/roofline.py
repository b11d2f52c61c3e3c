"""Seconds of one forward of a model on a GPU, by operator: the roofline that gives v and c.

A forward scores `tokens_per_sequence` positions (γ+1 when verifying) of each of `batch`
sequences that already hold `context_tokens` in the cache. Weights are read once a step and the
cache once a sequence a step, whatever γ: that is why verification can cost what one token costs.
How the sum is made is told in docs/steptime.md; calibrated numbers are in data/steptime.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from specmath import hardware
from specmath.checks import FloatArray, InputError, whole
from specmath.hardware import Gpu
from specmath.models import Model, Quantisation, dtype_bytes, dtype_name
from specmath.models.dtypes import Part
from specmath.steptime.coefficients import (
    Arithmetic,
    Coefficients,
    calibration_basis,
    coefficients_for,
)
from specmath.steptime.operators import (
    MICRO,
    all_reduce_seconds,
    attention_seconds,
    elementwise_seconds,
    expert_seconds,
    experts_touched,
    linear_seconds,
    padded_tokens,
)
from specmath.steptime.shards import Shard, shard

__all__ = [
    "StepBreakdown",
    "calibration_basis",
    "experts_touched",
    "step_breakdown",
    "step_seconds",
]

OwnCoefficients = Mapping[Arithmetic, Coefficients]


@dataclass(frozen=True)
class StepBreakdown:
    """Seconds of one forward by what they are spent on; arrays of one shape.

    weights: reading weights. kv: reading the cache. arithmetic: what arithmetic adds beyond that
    reading. elementwise: norms, residuals and activation functions. launch: fixed cost of
    kernels. communication: all-reduces.
    """

    weights: FloatArray
    kv: FloatArray
    arithmetic: FloatArray
    elementwise: FloatArray
    launch: FloatArray
    communication: FloatArray

    @property
    def total(self) -> FloatArray:
        """Seconds of the forward: the sum of all parts."""
        parts = [getattr(self, field.name) for field in fields(self)]
        result: FloatArray = np.asarray(sum(parts[1:], start=parts[0]))
        return result


@dataclass(frozen=True)
class _Machine:
    """A GPU, its coefficients by arithmetic dtype, and how weights and cache are stored."""

    gpu: Gpu
    bf16: Coefficients
    fp8: Coefficients
    quantisation: Quantisation | None
    plain_bytes: float
    kv_bytes: float

    def weights(self, part: Part | None) -> tuple[float, float, Coefficients, bool]:
        """Bytes a parameter, FLOP/s, coefficients, and whether activations are quantised."""
        q = self.quantisation
        if q is None or part is None or part not in q.parts:
            return self.plain_bytes, self.gpu.peak("bf16"), self.bf16, False
        if q.dtype in _NATIVE and (q.dtype != "fp4" or q.dtype in self.gpu.peaks):
            return q.bytes_per_parameter, self.gpu.peak(q.dtype), self.fp8, True
        peak = self.gpu.peak("bf16") * self.bf16.dequantisation_efficiency
        return q.bytes_per_parameter, peak, self.bf16, False


# Formats that tensor cores multiply in; the others are unpacked to 16 bits on the way.
_NATIVE = ("fp8", "int8", "fp4")
_KV_DTYPES = ("bf16", "fp16", "fp8", "int8")


def _require(gpu: Gpu, dtype: str, name: str) -> None:
    """InputError, naming the argument, where the GPU does not compute in that format."""
    try:
        gpu.peak(dtype)
    except InputError as error:
        raise InputError(str(error).replace("dtype", name, 1)) from error


def _machine(
    model: Model, gpu: str | Gpu, weight_dtype: str | None, kv_dtype: str, own: OwnCoefficients
) -> _Machine:
    record = hardware.find(gpu)
    quantisation = model.quantised_as(weight_dtype)
    if quantisation is not None and quantisation.dtype in ("fp8", "int8"):
        _require(record, quantisation.dtype, "weight_dtype")
    plain = weight_dtype if quantisation is None else None
    plain_name = dtype_name(plain or model.base_dtype, "weight_dtype")
    if plain_name not in ("bf16", "fp16"):
        raise InputError(
            f"weight_dtype must be bf16, fp16 or a quantised format, got {plain_name!r}"
        )
    cache = dtype_name(kv_dtype, "kv_dtype")
    if cache not in _KV_DTYPES:
        raise InputError(f"kv_dtype must be one of {', '.join(_KV_DTYPES)}, got {kv_dtype!r}")
    if cache == "fp8":
        _require(record, "fp8", "kv_dtype")
    return _Machine(
        gpu=record,
        bf16=own.get("bf16") or coefficients_for(record.name, "bf16"),
        fp8=own.get("fp8") or coefficients_for(record.name, "fp8"),
        quantisation=quantisation,
        plain_bytes=dtype_bytes(plain_name),
        kv_bytes=dtype_bytes(cache),
    )


def _linear_part(
    part: Shard, tokens: FloatArray, machine: _Machine
) -> tuple[FloatArray, FloatArray, float]:
    """(reading weights, arithmetic beyond it, launches) of all linear layers and experts."""
    weights, arithmetic = np.zeros_like(tokens), np.zeros_like(tokens)
    launch = 0.0
    for linear in part.linears:
        size, peak, c, quantised = machine.weights(linear.part)
        read, extra = linear_seconds(
            linear.outputs,
            linear.inputs,
            tokens,
            weight_bytes=size,
            bandwidth=machine.gpu.bandwidth,
            peak=peak,
            coefficients=c,
            quantised_arithmetic=quantised,
        )
        weights = weights + linear.count * read
        arithmetic = arithmetic + linear.count * extra
        launch += linear.count * c.linear_launch_us * MICRO
    for layer in part.experts:
        size, peak, c, _ = machine.weights("experts")
        read, extra = expert_seconds(
            layer.experts,
            layer.per_token,
            layer.parameters,
            layer.widths,
            tokens,
            weight_bytes=size,
            bandwidth=machine.gpu.bandwidth,
            peak=peak,
            coefficients=c,
        )
        weights = weights + layer.count * read
        arithmetic = arithmetic + layer.count * extra
        launch += layer.count * c.expert_launch_us * MICRO
    return weights, arithmetic, launch


def _attention_part(
    part: Shard,
    batch: FloatArray,
    positions: FloatArray,
    context: FloatArray,
    machine: _Machine,
) -> tuple[FloatArray, FloatArray, float]:
    """(reading the cache, arithmetic beyond it, launches) of all attention layers."""
    kv: FloatArray = np.zeros(())
    arithmetic: FloatArray = np.zeros(())
    launch = 0.0
    c = machine.bf16
    for layer in part.attention:
        size = batch * layer.kv_elements(context) * machine.kv_bytes
        state = layer.state_bytes()
        if state:  # read once, written after every position, so that a rejected one can be undone
            size = size + batch * state * (1.0 + positions)
        read, extra = attention_seconds(
            size,
            batch * positions * layer.flops(context),
            layer.attention.cached_tokens(context),
            bandwidth=machine.gpu.bandwidth,
            peak=machine.gpu.peak("bf16"),
            coefficients=c,
        )
        kv = kv + layer.count * read
        arithmetic = arithmetic + layer.count * extra
        launch += layer.count * c.attention_launch_us * MICRO
    return kv, arithmetic, launch


def step_breakdown(
    model: Model,
    gpu: str | Gpu,
    *,
    batch: ArrayLike,
    tokens_per_sequence: ArrayLike,
    context_tokens: ArrayLike,
    tensor_parallel: int = 1,
    weight_dtype: str | None = "bf16",
    kv_dtype: str = "bf16",
    graph_sizes: Sequence[int] | None = None,
    coefficients: OwnCoefficients | None = None,
) -> StepBreakdown:
    """Seconds of one forward by operator; the parts add up to `step_seconds`, same arguments."""
    sequences = whole("batch", batch, 1).astype(float)
    positions = whole("tokens_per_sequence", tokens_per_sequence, 1).astype(float)
    context = whole("context_tokens", context_tokens, 1).astype(float)
    machine = _machine(model, gpu, weight_dtype, kv_dtype, coefficients or {})
    part = shard(model, tensor_parallel)
    real_tokens = sequences * positions
    tokens = real_tokens if graph_sizes is None else padded_tokens(real_tokens, graph_sizes)
    c = machine.bf16

    weights, arithmetic, launch = _linear_part(part, tokens, machine)
    kv, attention, attention_launch = _attention_part(part, sequences, positions, context, machine)
    elementwise = elementwise_seconds(
        2.0 * tokens * part.elements_per_token, machine.gpu.bandwidth, c
    )
    communication = part.all_reduces * all_reduce_seconds(
        2.0 * tokens * model.hidden, tensor_parallel, machine.gpu.interconnect, c
    )
    launch += attention_launch + part.kernels * c.kernel_launch_us * MICRO
    launch += c.step_overhead_us * MICRO
    waits: FloatArray = np.asarray(launch)
    if graph_sizes is not None:
        eager = part.launches * c.eager_kernel_us * MICRO
        busy = weights + arithmetic + kv + attention + elementwise + communication + launch
        past = real_tokens > max(graph_sizes)
        waits = launch + np.where(past, np.maximum(eager - busy, 0.0), 0.0)
    parts = np.broadcast_arrays(
        weights, kv, arithmetic + attention, elementwise, waits, communication
    )
    return StepBreakdown(*parts)


def step_seconds(
    model: Model,
    gpu: str | Gpu,
    *,
    batch: ArrayLike,
    tokens_per_sequence: ArrayLike,
    context_tokens: ArrayLike,
    tensor_parallel: int = 1,
    weight_dtype: str | None = "bf16",
    kv_dtype: str = "bf16",
    graph_sizes: Sequence[int] | None = None,
    coefficients: OwnCoefficients | None = None,
) -> FloatArray:
    """Seconds of one forward, without sampler and host; batch, positions, context broadcast.

    Sum over operators of launch + overlapped(bytes/(bandwidth eff), FLOPs/(peak eff)), with the
    cache read once a sequence a step and two all-reduces a layer where tensor_parallel > 1.

    Parameters: `model` from `specmath.models`; `gpu` a catalogue name or record; `batch` [whole,
    >= 1]; `tokens_per_sequence` γ+1 [whole, >= 1]; `context_tokens` in the cache a sequence
    [whole, >= 1]; `tensor_parallel` GPUs [whole, >= 1, dividing the heads]; `weight_dtype` of the
    linear layers (None: as published; the output head stays in 16 bits); `kv_dtype` of the cache.
    `graph_sizes`: CUDA-graph capture sizes in tokens: the step is padded to the next, and beyond
    the largest the host's launches bound it from below. `coefficients`: your own, from
    `calibrate`, by arithmetic dtype ("bf16", "fp8").

    Raises InputError: a value out of range, a GPU not known, a dtype that the GPU lacks, a
    tensor_parallel that does not divide. Source: roofline of Williams et al. 2009
    (doi 10.1145/1498765.1498785) an operator; MagicDec (arXiv 2408.11049, section 3) for the
    cache, MoESD (arXiv 2505.19645) for experts; values fitted as docs/steptime.md tells.
    """
    return step_breakdown(
        model,
        gpu,
        batch=batch,
        tokens_per_sequence=tokens_per_sequence,
        context_tokens=context_tokens,
        tensor_parallel=tensor_parallel,
        weight_dtype=weight_dtype,
        kv_dtype=kv_dtype,
        graph_sizes=graph_sizes,
        coefficients=coefficients,
    ).total
