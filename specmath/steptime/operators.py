"""The operators of a transformer's forward on one GPU of a group: shapes, then seconds of each.

Column-parallel then row-parallel as in Megatron-LM (arXiv 1909.08053): heads and intermediate
widths are divided by tp, hidden and latent widths are not.

The seconds are plain functions that broadcast over numpy arrays. Times in seconds, sizes in bytes
or elements, bandwidths in bytes/s, peaks in FLOP/s. The coefficients (efficiencies, launch costs)
come from `specmath.steptime.coefficients`; what each means and where its value comes from is
stored there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, whole
from specmath.models import Attention, LayerGroup, Mlp, Model
from specmath.models.dtypes import Part
from specmath.steptime.coefficients import Coefficients

__all__ = [
    "AttentionShard",
    "ExpertShard",
    "Linear",
    "Rates",
    "Shard",
    "all_reduce_seconds",
    "attention_seconds",
    "elementwise_seconds",
    "exchange_seconds",
    "latent_seconds",
    "linear_seconds",
    "overlapped",
    "padded_tokens",
    "shard",
]

MICRO = 1e-6
# The first all-reduce algorithm (every GPU reads all others) is used below this size / GPUs.
ONE_SHOT_BYTES = 1.5 * 2**20
# Token counts at which fp8 kernels change their tiling; a count just past one of them is slow.
FP8_STEPS = np.array([0.0, 16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0])


# ── shapes ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Linear:
    """`count` matrix products of `inputs` -> `outputs` in one forward, weights of `part`."""

    count: int
    outputs: float
    inputs: float
    part: Part | None  # None: never quantised (router)


@dataclass(frozen=True)
class ExpertShard:
    """`count` mixture layers; this GPU holds a 1/`slices` part of 1/`groups` of the experts.

    `experts`, `per_token`, `hidden`, `intermediate` are the model's own; an expert has `matrices`
    (2, or 3 where it is gated).
    """

    count: int
    experts: int
    per_token: int
    hidden: int
    intermediate: int
    matrices: int = 3
    slices: int = 1
    groups: int = 1

    @property
    def parameters(self) -> float:
        """Matrix parameters of this GPU's part of one expert."""
        return self.matrices * self.hidden * self.intermediate / self.slices

    @property
    def widths(self) -> float:
        """Elements that one routed token reads and writes between the products."""
        return 2.0 * self.hidden + 3.0 * self.intermediate / self.slices


@dataclass(frozen=True)
class AttentionShard:
    """`count` attention layers, of which this GPU keeps shares of the cache and of the heads."""

    count: int
    attention: Attention
    cache_share: float
    head_share: float

    def kv_elements(self, context: FloatArray) -> FloatArray:
        """Cache elements a sequence that this GPU reads in one layer."""
        return self.attention.kv_elements_read(context) * self.cache_share

    def state_bytes(self) -> float:
        """Bytes a sequence of the constant state in one layer (linear attention; else 0)."""
        a = self.attention
        return a.state_elements * a.state_bytes_per_element * self.head_share

    def flops(self, context: FloatArray) -> FloatArray:
        """FLOPs of one query token in one layer on this GPU."""
        return self.attention.context_flops(context) * self.head_share


@dataclass(frozen=True)
class Shard:
    """One GPU's part of a model: linear layers, experts, attention, and the small kernels.

    `elements_per_token` counts what norms, residuals and activation functions read and write;
    `kernels` how many such kernels there are; `all_reduces` how many follow the layers, among the
    GPUs that share a sequence; `exchanges` how many mixture layers gather the tokens of all GPUs
    and scatter them back.
    """

    linears: tuple[Linear, ...]
    experts: tuple[ExpertShard, ...]
    attention: tuple[AttentionShard, ...]
    elements_per_token: float
    kernels: int
    all_reduces: int
    exchanges: int = 0

    @property
    def launches(self) -> int:
        """Kernels of one forward, as a host without CUDA graphs has to launch them."""
        products = sum(linear.count for linear in self.linears)
        mixtures = sum(layer.count for layer in self.experts)
        attention = sum(layer.count for layer in self.attention)
        together = self.all_reduces + 2 * self.exchanges
        return self.kernels + together + products + mixtures + attention


@lru_cache(maxsize=256)
def shard(
    model: Model, tensor_parallel: int, attention_dp: int = 1, expert_parallel: int = 1
) -> Shard:
    """One GPU's part of `model` on `tensor_parallel` GPUs in all (whole, >= 1).

    `attention_dp` groups of them each hold the attention, and all else that is not a routed
    expert, of their own sequences; `expert_parallel` groups each hold their own experts whole or,
    with more GPUs than groups, in slices. Raises InputError where either does not divide the GPUs,
    and where heads, key-value heads, intermediate widths or experts do not divide.
    """
    gpus = whole("tensor_parallel", tensor_parallel, 1).item()
    ranks, groups = (
        _part_of(gpus, name, value)
        for name, value in (("attention_dp", attention_dp), ("expert_parallel", expert_parallel))
    )
    tp = gpus // ranks
    linears: list[Linear] = []
    experts: list[ExpertShard] = []
    attention: list[AttentionShard] = []
    elements, kernels = float(model.hidden), 1  # the embedding's look-up
    for group in model.layers:
        linears += _attention_linears(group, model.hidden, tp)
        attention.append(_attention_shard(group, tp))
        linears += _mlp_linears(group, model.hidden, tp)
        experts += _experts(group, model.hidden, gpus // groups, groups)
        # Two norms with their residuals, 4 widths each: two read, two written.
        width = _dense_width(group.mlp) / tp
        elements += group.count * (8.0 * model.hidden + 3.0 * width)
        kernels += group.count * (3 if width else 2)
    linears.append(Linear(1, math.ceil(model.vocab / tp), model.hidden, "head"))
    mixtures = sum(layer.count for layer in experts) if ranks > 1 else 0
    # One after each half of a layer, one after the embedding (its table is split too).
    reduces = 2 * model.layer_count + 1 - mixtures
    return Shard(
        tuple(linears), tuple(experts), tuple(attention), elements, kernels, reduces, mixtures
    )


def _part_of(gpus: int, name: str, value: int) -> int:
    groups = whole(name, value, 1).item()
    if gpus % groups:
        raise InputError(f"{name} must divide tensor_parallel = {gpus}, got {groups}")
    return groups


def _divides(name: str, value: int, tp: int) -> int:
    if value % tp:
        choices = ", ".join(str(d) for d in range(1, 17) if value % d == 0)
        raise InputError(
            f"tensor_parallel must divide {name} = {value} (for example {choices}), got {tp}"
        )
    return value // tp


def _attention_shard(group: LayerGroup, tp: int) -> AttentionShard:
    a = group.attention
    _divides("heads", a.heads, tp)
    if a.kind == "mla":  # every GPU needs the whole latent
        return AttentionShard(group.count, a, 1.0, 1.0 / tp)
    if a.kv_heads % tp and tp % a.kv_heads:
        raise InputError(
            "tensor_parallel must divide kv_heads or be a multiple of it, got "
            f"{tp} with kv_heads = {a.kv_heads}"
        )
    return AttentionShard(group.count, a, 1.0 / min(tp, a.kv_heads), 1.0 / tp)


def _attention_linears(group: LayerGroup, hidden: int, tp: int) -> list[Linear]:
    a, count = group.attention, group.count
    heads = _divides("heads", a.heads, tp)

    def one(outputs: float, inputs: float) -> Linear:
        return Linear(count, outputs, inputs, "attention")

    if a.kind == "mla":
        query = heads * (a.nope_head_dim + a.rope_head_dim)
        latent = a.kv_lora_rank + a.rope_head_dim
        down = [one(a.q_lora_rank + latent, hidden)]
        up = [one(query, a.q_lora_rank or hidden)]
        # The absorbed up-projections (DeepSeek-V2, section 2.1.2), one small product a head.
        absorbed = [
            one(a.kv_lora_rank, heads * a.nope_head_dim),
            one(heads * a.v_head_dim, a.kv_lora_rank),
        ]
        index = []
        if a.index_heads:
            index = [
                one(a.index_heads * a.index_head_dim, a.q_lora_rank or hidden),
                one(a.index_head_dim + a.index_heads, hidden),
            ]
        return [*down, *up, *absorbed, *index, one(hidden, heads * a.v_head_dim)]
    kv_heads = max(a.kv_heads / tp, 1.0)
    values = heads * a.value_dim
    if a.kind == "linear":
        into = 2 * kv_heads * a.head_dim + 2 * values + 2 * heads
    else:
        key_value = a.head_dim + (0 if a.keys_are_values else a.value_dim)
        into = heads * a.head_dim * (2 if a.output_gate else 1) + kv_heads * key_value
    return [one(into, hidden), one(hidden, values)]


def _dense_width(mlp: Mlp) -> int:
    """Width of the network that every token passes: the dense one, or the shared experts."""
    return mlp.shared_intermediate if mlp.experts else mlp.intermediate


def _mlp_linears(group: LayerGroup, hidden: int, tp: int) -> list[Linear]:
    mlp, count = group.mlp, group.count
    found = []
    if mlp.experts:
        found.append(Linear(count, mlp.experts, hidden, None))
    if _dense_width(mlp):
        part: Part = "shared" if mlp.experts else "mlp"
        width = _divides("intermediate", _dense_width(mlp), tp)
        found.append(Linear(count, (mlp.matrices - 1) * width, hidden, part))
        found.append(Linear(count, hidden, width, part))
    return found


def _experts(group: LayerGroup, hidden: int, slices: int, groups: int) -> list[ExpertShard]:
    mlp = group.mlp
    if not mlp.experts:
        return []
    if mlp.experts % groups:
        raise InputError(f"expert_parallel must divide experts = {mlp.experts}, got {groups}")
    _divides("intermediate", mlp.intermediate, slices)
    chosen = mlp.experts_per_token
    return [
        ExpertShard(
            group.count, mlp.experts, chosen, hidden, mlp.intermediate, mlp.matrices, slices, groups
        )
    ]


# ── seconds ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Rates:
    """How fast one GPU works on one operator: bytes/s of its memory, dense FLOP/s, what is lost.

    `weight_bytes`: bytes a stored parameter. `quantised`: arithmetic in the format of the weights,
    for which activations are quantised on the way.
    """

    bandwidth: float
    peak: float
    coefficients: Coefficients
    weight_bytes: float = 2.0
    quantised: bool = False


def overlapped(memory: ArrayLike, arithmetic: ArrayLike, overlap: ArrayLike) -> FloatArray:
    """Time of two activities that partly hide each other: (m^p + a^p)^(1/p) [s].

    p = `overlap` >= 1: 1 adds them, infinity takes the longer one.
    """
    m, a = np.asarray(memory, dtype=float), np.asarray(arithmetic, dtype=float)
    longer, shorter = np.maximum(m, a), np.minimum(m, a)
    with np.errstate(invalid="ignore"):
        share = np.where(longer > 0, shorter / np.where(longer > 0, longer, 1.0), 0.0)
    result: FloatArray = longer * (1.0 + share**overlap) ** (1.0 / np.asarray(overlap))
    return result


def padded_tokens(tokens: ArrayLike, sizes: ArrayLike) -> FloatArray:
    """`tokens` rounded up to the next of `sizes` (CUDA-graph capture sizes); beyond them as is."""
    count = np.asarray(tokens, dtype=float)
    steps = np.sort(np.asarray(sizes, dtype=float))
    if not steps.size:
        raise InputError("sizes must hold at least one capture size, got none")
    at = np.searchsorted(steps, count)
    return np.where(at < steps.size, steps[np.minimum(at, steps.size - 1)], count)


def ragged_share(tokens: ArrayLike) -> FloatArray:
    """How far `tokens` stops short of the next fp8 tile size: 1 just past a size, 0 at one."""
    count = np.asarray(tokens, dtype=float)
    at = np.clip(np.searchsorted(FP8_STEPS, count), 1, FP8_STEPS.size - 1)
    low, high = FP8_STEPS[at - 1], FP8_STEPS[at]
    share: FloatArray = np.clip((high - count) / (high - low), 0.0, 1.0)
    return np.where(low == 0.0, 0.0, share)


def linear_seconds(
    outputs: ArrayLike, inputs: ArrayLike, tokens: ArrayLike, rates: Rates
) -> tuple[FloatArray, FloatArray]:
    """(memory seconds, extra seconds of the arithmetic) of one matrix product, launch left out.

    memory = (outputs inputs weight_bytes + 2 tokens (outputs + inputs)) / (bandwidth efficiency)
    arithmetic = 2 outputs inputs tokens / (peak efficiency)
    together = overlapped(memory, arithmetic); in fp8 arithmetic also the quantisation of the
    activations (read 2 bytes, write 1) and, just past a tile size, a stall in proportion to the
    shorter of the two.
    """
    n, k, t = (np.asarray(x, dtype=float) for x in (outputs, inputs, tokens))
    c, bandwidth = rates.coefficients, rates.bandwidth
    memory = (n * k * rates.weight_bytes + 2.0 * t * (n + k)) / (bandwidth * c.memory_efficiency)
    arithmetic = 2.0 * n * k * t / (rates.peak * c.arithmetic_efficiency)
    together = overlapped(memory, arithmetic, c.overlap)
    if rates.quantised:
        stall = c.ragged_stall * ragged_share(t)
        together = together + stall * np.minimum(memory, arithmetic)
        together = together + 3.0 * t * k / (bandwidth * c.quantise_efficiency)
    return memory, together - memory


def attention_seconds(
    kv_bytes: ArrayLike, flops: ArrayLike, context: ArrayLike, rates: Rates
) -> tuple[FloatArray, FloatArray]:
    """(memory seconds, extra seconds of the arithmetic) of one attention layer, launch left out.

    memory = max(scan context, bytes / (bandwidth efficiency)): one sequence cannot be read faster
    than its scan. Bytes that fit the L2 cache are read `cache_speedup` times as fast (the source
    tables repeat one call, so the cache is warm); others wait `uncached_us` first.
    arithmetic = flops / (peak efficiency); the two overlap fully: max.
    """
    size = np.asarray(kv_bytes, dtype=float)
    c = rates.coefficients
    cached = np.clip(2.0 - size / (c.cached_mib * 2**20), 0.0, 1.0)
    stream = size / (rates.bandwidth * c.kv_efficiency)
    stream = stream * (1.0 - cached * (1.0 - 1.0 / c.cache_speedup))
    stream = stream + (1.0 - cached) * c.uncached_us * MICRO
    scan = c.scan_us_per_1000_tokens * MICRO / 1000.0 * np.asarray(context, dtype=float)
    memory = np.maximum(stream, scan)
    arithmetic = np.asarray(flops, dtype=float)
    arithmetic = arithmetic / (rates.peak * c.attention_arithmetic_efficiency)
    return memory, np.maximum(arithmetic - memory, 0.0)


def latent_seconds(
    kv_bytes: ArrayLike, flops: ArrayLike, context: ArrayLike, rates: Rates
) -> tuple[FloatArray, FloatArray]:
    """(memory seconds, extra seconds of the arithmetic) of one layer of latent attention.

    As `attention_seconds`, without the L2 cache: memory = max(scan context, bytes / (bandwidth
    efficiency)), arithmetic = flops / (peak efficiency), the longer of the two counts. With 128
    heads over one latent the arithmetic is near the reading already at one query token.
    """
    c = rates.coefficients
    stream = np.asarray(kv_bytes, dtype=float) / (rates.bandwidth * c.latent_efficiency)
    scan = c.scan_us_per_1000_tokens * MICRO / 1000.0 * np.asarray(context, dtype=float)
    memory = np.maximum(stream, scan)
    arithmetic = np.asarray(flops, dtype=float) / (rates.peak * c.latent_arithmetic_efficiency)
    return memory, np.maximum(arithmetic - memory, 0.0)


def elementwise_seconds(
    traffic_bytes: ArrayLike, bandwidth: float, coefficients: Coefficients
) -> FloatArray:
    """Norms, residuals, activation functions: bytes / (bandwidth efficiency), launch left out."""
    result: FloatArray = np.asarray(traffic_bytes, dtype=float) / (
        bandwidth * coefficients.elementwise_efficiency
    )
    return result


def all_reduce_seconds(
    size_bytes: ArrayLike, gpus: ArrayLike, link: float, coefficients: Coefficients
) -> FloatArray:
    """One all-reduce of `size_bytes` among `gpus`; 0 where there is one GPU.

    Small (below 1.5 MiB / gpus): latency + (gpus - 1) bytes / (link efficiency): every GPU reads
    all others. Larger: latency + second latency + traffic bytes / (link efficiency), where traffic
    is 2 (gpus - 1)/gpus in a ring and 1 where the switch adds: 1 + ring_share (1 - 2/gpus).
    `link`: bytes/s that one GPU receives.
    """
    size = np.asarray(size_bytes, dtype=float)
    ranks = np.asarray(gpus, dtype=float)
    c = coefficients
    rate = (link or np.inf) * c.link_efficiency  # without a link it is alone
    one_shot = (ranks - 1) * size / rate
    traffic = 1.0 + c.ring_share * (1.0 - 2.0 / ranks)
    largest = ONE_SHOT_BYTES / ranks
    two_shot = c.large_all_reduce_us * MICRO + traffic * size / rate
    two_shot = np.maximum(two_shot, (ranks - 1) * largest / rate)  # more bytes never cost less
    seconds = c.all_reduce_us * MICRO + np.where(size < largest, one_shot, two_shot)
    return np.where(ranks > 1, seconds, 0.0)


def exchange_seconds(
    size_bytes: ArrayLike, gpus: int, link: float, coefficients: Coefficients
) -> FloatArray:
    """One mixture layer's all-gather of `size_bytes` in all among `gpus`, and the reduce-scatter
    back: 2 (latency + bytes (gpus - 1)/gpus / (link efficiency)), `link` as for an all-reduce.

    An all-to-all of the routed copies alone sends up to a third less, and waits longer: the tables
    behind the coefficients have it above this below a thousand tokens.
    """
    c = coefficients
    moved = np.asarray(size_bytes, dtype=float) * (gpus - 1) / gpus
    one_way = c.exchange_us * MICRO + moved / (link * c.link_efficiency)
    return np.where(gpus > 1, 2.0 * one_way, 0.0)
