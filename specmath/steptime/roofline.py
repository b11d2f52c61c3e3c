"""Seconds of one forward of a model on a GPU, by operator: the roofline that gives v and c.

A forward scores `tokens_per_sequence` positions (γ+1 when verifying) of each of `batch`
sequences that already hold `context_tokens` in the cache. Weights are read once a step and the
cache once a sequence a step, whatever γ: that is why verification can cost what one token costs.
How the sum is made is told in docs/steptime.md; calibrated numbers are in data/steptime.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from specmath import hardware
from specmath.checks import FloatArray, InputError, real, whole
from specmath.hardware import Gpu
from specmath.models import Model, Quantisation, dtype_bytes, dtype_name
from specmath.models.dtypes import Part
from specmath.steptime.coefficients import (
    Calibration,
    Coefficients,
    Format,
    calibration_basis,
    coefficients_for,
    format_of,
    own_coefficients,
)
from specmath.steptime.experts import ExpertCurve, expert_curve
from specmath.steptime.operators import (
    MICRO,
    ExpertShard,
    Rates,
    Shard,
    all_reduce_seconds,
    attention_seconds,
    elementwise_seconds,
    exchange_seconds,
    latent_seconds,
    linear_seconds,
    padded_tokens,
    shard,
)

__all__ = ["OwnCoefficients", "Pace", "Placement", "StepBreakdown", "step_seconds"]

OwnCoefficients = Mapping[Format, Coefficients]

_KV_DTYPES = ("bf16", "fp16", "fp8", "int8")


@dataclass(frozen=True)
class StepBreakdown:
    """Seconds of one forward by what they are spent on; arrays of one shape.

    weights: reading weights. kv: reading the cache. arithmetic: what arithmetic adds beyond that
    reading. elementwise: norms, residuals and activation functions. launch: fixed cost of
    kernels. communication: all-reduces, and the exchange of tokens between experts.
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
class Pace:
    """An engine's kernels over those that the coefficients were fitted to: factors, >= 0, on the
    seconds of reading quantised weights outside experts (`weights`), of all launches, of
    all-reduces and exchanges (`communication`) and of reading the cache. A step is linear in each.
    """

    weights: float = 1.0
    launch: float = 1.0
    communication: float = 1.0
    cache: float = 1.0

    def __post_init__(self) -> None:
        for each in fields(self):
            real(each.name, getattr(self, each.name), 0)


AS_FITTED = Pace()


@dataclass(frozen=True)
class Placement:
    """A model on the GPUs of one replica, and how it is stored there.

    A value out of range raises InputError when it is used.

    Attributes
    ----------
    gpu
        A catalogue name or a record.
    tensor_parallel
        GPUs in all: whole, >= 1, those of a sequence dividing the heads.
    weight_dtype
        Of the linear layers; None: as published. The output head stays in 16 bits. A format that
        the GPU does not multiply in is storage, and unpacked.
    kv_dtype
        Of the cache.
    graph_sizes
        CUDA-graph capture sizes in tokens; a step is padded to the next, and beyond the largest
        the host's launches bound it from below. None: everything captured without padding; `(0,)`:
        nothing captured.
    coefficients
        Your own, from `calibrate`, by the format of the kernels.
    expert_parallel
        Groups of GPUs with experts of their own: whole, dividing `tensor_parallel` and the
        experts. 1: every GPU has a slice of every expert. A model without experts is as with 1.
    attention_dp
        Groups of GPUs with sequences of their own: whole, dividing `tensor_parallel`. Attention,
        shared experts and head of a sequence are on `tensor_parallel / attention_dp` GPUs; the
        tokens of all groups meet in the routed experts. The fullest group is the one timed.

    Examples
    --------
    >>> from specmath import models
    >>> place = Placement(models.find("Llama-3.1-8B"), "h100")
    >>> float(place.step(1, 1, 1024).weights)
    0.00523...
    """

    model: Model
    gpu: str | Gpu
    tensor_parallel: int = 1
    weight_dtype: str | None = "bf16"
    kv_dtype: str = "bf16"
    graph_sizes: tuple[int, ...] | None = None
    coefficients: OwnCoefficients | None = None
    expert_parallel: int = 1
    attention_dp: int = 1

    @cached_property
    def device(self) -> Gpu:
        """The record of one GPU."""
        return hardware.find(self.gpu)

    @property
    def stored_dtype(self) -> str:
        """The format of the linear layers by name, also where it is the published one."""
        return self.weight_dtype or self.model.weight_dtype

    @property
    def calibration(self) -> Calibration:
        """Whether this GPU is calibrated for such weights, on what, and the error to expect."""
        return calibration_basis(
            self.device, self.stored_dtype, mixture=self.model.is_moe, blocks=self._blocks
        )

    @cached_property
    def part(self) -> Shard:
        """What one of the GPUs holds and does."""
        return shard(self.model, self.tensor_parallel, self.attention_dp, self.expert_parallel)

    def step(
        self,
        batch: ArrayLike,
        tokens_per_sequence: ArrayLike,
        context_tokens: ArrayLike,
        pace: Pace = AS_FITTED,
    ) -> StepBreakdown:
        """Seconds of one forward by operator; the first three are whole, >= 1, and broadcast."""
        sequences = whole("batch", batch, 1).astype(float)
        positions = whole("tokens_per_sequence", tokens_per_sequence, 1).astype(float)
        context = whole("context_tokens", context_tokens, 1).astype(float)
        c, bandwidth = self.sixteen_bit.coefficients, self.device.bandwidth
        part, ranks = self.part, self.attention_dp
        held = np.ceil(sequences / ranks)
        scored = held * positions
        tokens = scored if self.graph_sizes is None else padded_tokens(scored, self.graph_sizes)
        # Groups that replay one captured size all run it full.
        pooled = sequences * positions if self.graph_sizes is None else tokens * ranks

        weights, arithmetic, fixed = self._linear(part, tokens, pace.weights)
        kv, attention, attention_launch = self._attention(part, held, positions, context)
        fixed += attention_launch + part.kernels * c.kernel_launch_us * MICRO
        launch: FloatArray = np.asarray(fixed + c.step_overhead_us * MICRO)
        if part.experts:
            read, beyond, waits = self._experts(part, pooled)
            weights, arithmetic = weights + read, arithmetic + beyond
            launch = launch + waits
        launch, kv = launch * pace.launch, kv * pace.cache
        elementwise = elementwise_seconds(2.0 * tokens * part.elements_per_token, bandwidth, c)
        communication = self._communication(part, tokens, pooled) * pace.communication
        if self.graph_sizes is not None:
            eager = part.launches * c.eager_kernel_us * MICRO
            busy = weights + arithmetic + kv + attention + elementwise + communication + launch
            past = scored > max(self.graph_sizes)
            launch = launch + np.where(past, np.maximum(eager - busy, 0.0), 0.0)
        parts = np.broadcast_arrays(
            weights, kv, arithmetic + attention, elementwise, launch, communication
        )
        return StepBreakdown(*parts)

    @property
    def memory_efficiency(self) -> float:
        """The share of the GPU's bandwidth that reading weights reaches."""
        return self.sixteen_bit.coefficients.memory_efficiency

    def product_seconds(self, outputs: float, inputs: float, tokens: ArrayLike) -> FloatArray:
        """Seconds of one 16-bit matrix product that is not part of a model, launch included."""
        rates = self.sixteen_bit
        read, extra = linear_seconds(outputs, inputs, tokens, rates)
        return np.asarray(read + extra + rates.coefficients.linear_launch_us * MICRO)

    def _coefficients(self, kernels: Format) -> Coefficients:
        own = own_coefficients(self.coefficients, kernels) if self.coefficients else None
        return own or coefficients_for(self.device.name, kernels)

    @cached_property
    def sixteen_bit(self) -> Rates:
        """How fast the GPU works on what is stored in 16 bits."""
        gpu = self.device
        gpu.require_link(self.tensor_parallel)
        return Rates(gpu.bandwidth, gpu.peak("bf16"), self._coefficients("bf16"))

    @property
    def _blocks(self) -> bool:
        """Whether fp8 weights have one scale a block: published mixtures do, nearly all."""
        published = self.weight_dtype in (None, self.model.weight_dtype)
        return self.model.is_moe and published and self.stored_dtype == "fp8"

    @cached_property
    def _quantisation(self) -> Quantisation | None:
        """How weights are packed; None where all are in 16 bits."""
        packed = self.model.quantised_as(self.weight_dtype)
        plain = self.model.base_dtype if packed else self.weight_dtype or self.model.base_dtype
        name = dtype_name(plain, "weight_dtype")
        if name not in ("bf16", "fp16"):
            raise InputError(f"weight_dtype must be bf16, fp16 or a quantised format, got {name!r}")
        return packed

    @cached_property
    def _packed(self) -> Rates:
        """Rates of the parts that are quantised."""
        q, plain = self._quantisation, self.sixteen_bit
        if q is None:
            return plain
        gpu, size = self.device, q.bytes_per_parameter
        kernels = format_of(gpu, q.dtype, blocks=self._blocks)
        if kernels != "bf16":
            return Rates(
                plain.bandwidth, gpu.peak(q.dtype), self._coefficients(kernels), size, True
            )
        peak = plain.peak * plain.coefficients.dequantisation_efficiency
        return Rates(plain.bandwidth, peak, plain.coefficients, size)

    def _is_packed(self, part: Part | None) -> bool:
        q = self._quantisation
        return q is not None and part in q.parts

    @cached_property
    def expert_kernels(self) -> tuple[Format, Rates]:
        """The format of the routed experts' kernels, and how fast they run."""
        q, plain = self._quantisation, self.sixteen_bit
        if q is None or "experts" not in q.parts:
            return "bf16", plain
        kernels = format_of(self.device, q.dtype, experts=True, blocks=self._blocks)
        if kernels in ("bf16", "fp8", "fp8_block", "nvfp4"):
            return kernels, replace(self._packed, coefficients=self._coefficients(kernels))
        size = q.bytes_per_parameter
        return kernels, Rates(plain.bandwidth, plain.peak, self._coefficients(kernels), size)

    def expert_curve(self, layer: ExpertShard) -> ExpertCurve:
        """Seconds of one mixture layer over the tokens of all GPUs."""
        kernels, rates = self.expert_kernels
        name = self.device.name
        stored = replace(rates, coefficients=coefficients_for(name, kernels))
        return expert_curve(replace(layer, count=1), rates, name, kernels, stored)

    @cached_property
    def _kv_bytes(self) -> float:
        name = dtype_name(self.kv_dtype, "kv_dtype")
        if name not in _KV_DTYPES:
            known = ", ".join(_KV_DTYPES)
            raise InputError(f"kv_dtype must be one of {known}, got {self.kv_dtype!r}")
        return dtype_bytes(name)

    def _communication(self, part: Shard, tokens: FloatArray, pooled: FloatArray) -> FloatArray:
        """All-reduces among the GPUs of a sequence, and exchanges among all."""
        c, link = self.sixteen_bit.coefficients, self.device.interconnect
        width = 2.0 * self.model.hidden
        together = self.tensor_parallel // self.attention_dp
        found = part.all_reduces * all_reduce_seconds(width * tokens, together, link, c)
        if part.exchanges:
            gpus = self.tensor_parallel
            found = found + part.exchanges * exchange_seconds(width * pooled, gpus, link, c)
        return found

    def _linear(
        self, part: Shard, tokens: FloatArray, quantised: float
    ) -> tuple[FloatArray, FloatArray, float]:
        """(reading weights, arithmetic beyond it, launches) of all linear layers; `quantised`:
        factor on reading what is computed in the format that it is stored in."""
        weights, arithmetic = np.zeros_like(tokens), np.zeros_like(tokens)
        launch = 0.0
        for packed in (False, True):
            rates = self._packed if packed else self.sixteen_bit
            alike = [each for each in part.linears if self._is_packed(each.part) == packed]
            if not alike:
                continue
            # All of them at once: a forward is asked for thousands of times, each of few tokens.
            sizes = np.array([(each.count, each.outputs, each.inputs) for each in alike]).T
            count, outputs, inputs = sizes.reshape(3, -1, *[1] * tokens.ndim)
            read, extra = linear_seconds(outputs, inputs, tokens, rates)
            weights += (count * read).sum(0) * (quantised if rates.quantised else 1.0)
            arithmetic += (count * extra).sum(0)
            launch += float(count.sum()) * rates.coefficients.linear_launch_us * MICRO
        return weights, arithmetic, launch

    def _experts(
        self, part: Shard, tokens: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(reading weights, arithmetic beyond it, launches) of all routed experts."""
        found = np.zeros((3, *tokens.shape))
        for layer in part.experts:
            found = found + layer.count * np.array(self.expert_curve(layer).parts(tokens))
        return found[0], found[1], found[2]

    def _attention(
        self, part: Shard, batch: FloatArray, positions: FloatArray, context: FloatArray
    ) -> tuple[FloatArray, FloatArray, float]:
        """(reading the cache, arithmetic beyond it, launches) of all attention layers."""
        kv: FloatArray = np.zeros(())
        arithmetic: FloatArray = np.zeros(())
        launch = 0.0
        rates = self.sixteen_bit
        for layer in part.attention:
            size = batch * layer.kv_elements(context) * self._kv_bytes
            state = layer.state_bytes()
            if state:  # read once, written after every position, so that a rejected one is undone
                size = size + batch * state * (1.0 + positions)
            flops = batch * positions * layer.flops(context)
            cached = layer.attention.cached_tokens(context)
            latent, c = layer.attention.kind == "mla", rates.coefficients
            taken = latent_seconds if latent else attention_seconds
            read, extra = taken(size, flops, cached, rates)
            kv = kv + layer.count * read
            arithmetic = arithmetic + layer.count * extra
            each = c.latent_launch_us if latent else c.attention_launch_us
            launch += layer.count * each * MICRO
        return kv, arithmetic, launch


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
    expert_parallel: int = 1,
    attention_dp: int = 1,
) -> FloatArray:
    """Seconds of one forward, without sampler and host.

    Sum over operators of launch + overlapped(bytes/(bandwidth eff), FLOPs/(peak eff)), with the
    cache read once a sequence a step and two all-reduces a layer where tensor_parallel > 1; routed
    experts as they were measured.
    `Placement.step` gives the same by operator.

    Parameters
    ----------
    model
        From `specmath.models`.
    gpu
        A catalogue name or a record.
    batch, tokens_per_sequence, context_tokens
        Sequences, γ+1, tokens in the cache a sequence; each whole, >= 1; the three broadcast.
    tensor_parallel, weight_dtype, kv_dtype, graph_sizes, coefficients
        As in `Placement`.
    expert_parallel, attention_dp
        As in `Placement`.

    Returns
    -------
    FloatArray
        Seconds, of the broadcast shape.

    Raises
    ------
    InputError
        A value out of range, a GPU or dtype not known, a tensor_parallel that does not divide.

    References ---------- Roofline an operator: Williams et al. 2009, doi 10.1145/1498765.1498785.
    Cache: MagicDec, arXiv 2408.11049, section 3. Experts: MoESD, arXiv 2505.19645. Values fitted
    as docs/steptime.md tells.

    Examples
    --------
    >>> from specmath import models
    >>> model = models.find("Llama-3.1-8B")
    >>> step_seconds(model, "h100", batch=[1, 64], tokens_per_sequence=5, context_tokens=1024)
    array([0.0064..., 0.0122...])
    """
    sizes = None if graph_sizes is None else tuple(graph_sizes)
    place = Placement(
        model,
        gpu,
        tensor_parallel,
        weight_dtype,
        kv_dtype,
        sizes,
        coefficients,
        expert_parallel,
        attention_dp,
    )
    return place.step(batch, tokens_per_sequence, context_tokens).total
