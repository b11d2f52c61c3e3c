"""Seconds of one operator of a transformer's forward on one GPU: linear layer, attention, ...

Plain functions that broadcast over numpy arrays. Times in seconds, sizes in bytes or elements,
`bandwidth` in bytes/s, `peak` in FLOP/s. The coefficients (efficiencies, launch costs) come from
`specmath.steptime.coefficients`; what each means and where its value comes from is stored there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole
from specmath.steptime.coefficients import Coefficients

__all__ = [
    "all_reduce_seconds",
    "attention_seconds",
    "elementwise_seconds",
    "expert_seconds",
    "experts_touched",
    "linear_seconds",
    "overlapped",
    "padded_tokens",
]

MICRO = 1e-6
# The first all-reduce algorithm (every GPU reads all others) is used below this size / GPUs.
ONE_SHOT_BYTES = 1.5 * 2**20
# Token counts at which fp8 kernels change their tiling; a count just past one of them is slow.
FP8_STEPS = np.array([0.0, 16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0])


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
    outputs: ArrayLike,
    inputs: ArrayLike,
    tokens: ArrayLike,
    *,
    weight_bytes: ArrayLike,
    bandwidth: float,
    peak: float,
    coefficients: Coefficients,
    quantised_arithmetic: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """(memory seconds, extra seconds of the arithmetic) of one matrix product, launch left out.

    memory = (outputs inputs weight_bytes + 2 tokens (outputs + inputs)) / (bandwidth efficiency)
    arithmetic = 2 outputs inputs tokens / (peak efficiency)
    together = overlapped(memory, arithmetic); in fp8 arithmetic also the quantisation of the
    activations (read 2 bytes, write 1) and, just past a tile size, a stall in proportion to the
    shorter of the two.
    """
    n, k, t = (np.asarray(x, dtype=float) for x in (outputs, inputs, tokens))
    c = coefficients
    memory = (n * k * weight_bytes + 2.0 * t * (n + k)) / (bandwidth * c.memory_efficiency)
    arithmetic = 2.0 * n * k * t / (peak * c.arithmetic_efficiency)
    together = overlapped(memory, arithmetic, c.overlap)
    if quantised_arithmetic:
        stall = c.ragged_stall * ragged_share(t)
        together = together + stall * np.minimum(memory, arithmetic)
        together = together + 3.0 * t * k / (bandwidth * c.quantise_efficiency)
    return memory, together - memory


def attention_seconds(
    kv_bytes: ArrayLike,
    flops: ArrayLike,
    context: ArrayLike,
    *,
    bandwidth: float,
    peak: float,
    coefficients: Coefficients,
) -> tuple[FloatArray, FloatArray]:
    """(memory seconds, extra seconds of the arithmetic) of one attention layer, launch left out.

    memory = max(scan context, bytes / (bandwidth efficiency)): one sequence cannot be read faster
    than its scan. Bytes that fit the L2 cache are read `cache_speedup` times as fast (the source
    tables repeat one call, so the cache is warm); others wait `uncached_us` first.
    arithmetic = flops / (peak efficiency); the two overlap fully: max.
    """
    size = np.asarray(kv_bytes, dtype=float)
    c = coefficients
    cached = np.clip(2.0 - size / (c.cached_mib * 2**20), 0.0, 1.0)
    stream = size / (bandwidth * c.kv_efficiency) * (1.0 - cached * (1.0 - 1.0 / c.cache_speedup))
    stream = stream + (1.0 - cached) * c.uncached_us * MICRO
    scan = c.scan_us_per_1000_tokens * MICRO / 1000.0 * np.asarray(context, dtype=float)
    memory = np.maximum(stream, scan)
    arithmetic = np.asarray(flops, dtype=float) / (peak * c.attention_arithmetic_efficiency)
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
    rate = link * c.link_efficiency
    one_shot = (ranks - 1) * size / rate
    traffic = 1.0 + c.ring_share * (1.0 - 2.0 / ranks)
    largest = ONE_SHOT_BYTES / ranks
    two_shot = c.large_all_reduce_us * MICRO + traffic * size / rate
    two_shot = np.maximum(two_shot, (ranks - 1) * largest / rate)  # more bytes never cost less
    seconds = c.all_reduce_us * MICRO + np.where(size < largest, one_shot, two_shot)
    return np.where(ranks > 1, seconds, 0.0)


def experts_touched(
    experts: int, per_token: int, tokens: ArrayLike, spread: float = 1.0
) -> FloatArray:
    """Expected number of distinct experts that `tokens` tokens are routed to.

    E (1 - (1 - k/E)^t) for uniform, independent routing (MoESD, arXiv 2505.19645, section 3).
    Real tokens resemble each other: with `spread` in (0, 1] each token after the first counts as
    `spread` independent ones, t' = 1 + spread (t - 1). tokens >= 0; 0 touches none.
    """
    total = whole("experts", experts, 1).item()
    chosen = whole("per_token", per_token, 1, total).item()
    count = real("tokens", tokens, 0)
    share = real("spread", spread, 0, 1, low_open=True)
    effective = np.minimum(count, 1.0) + share * np.maximum(count - 1.0, 0.0)
    if chosen == total:
        return np.where(count > 0, float(total), 0.0)
    touched: FloatArray = total * -np.expm1(effective * np.log1p(-chosen / total))
    return touched


def expert_seconds(
    experts: int,
    per_token: int,
    parameters: float,
    widths: float,
    tokens: ArrayLike,
    *,
    weight_bytes: float,
    bandwidth: float,
    peak: float,
    coefficients: Coefficients,
) -> tuple[FloatArray, FloatArray]:
    """(memory seconds, extra seconds of arithmetic and routing) of one mixture layer, no launch.

    Weights of the experts touched are read once; every token is multiplied by `per_token` of them;
    each of those copies of a token is gathered, passed between the two products and scattered:
    2 `widths` bytes, at `routing_efficiency` of the bandwidth. `parameters` are those of one
    expert on this GPU; `widths` the elements one routed token reads and writes.
    """
    c = coefficients
    count = np.asarray(tokens, dtype=float)
    touched = experts_touched(experts, per_token, count, c.expert_spread)
    memory = touched * parameters * weight_bytes / (bandwidth * c.expert_memory_efficiency)
    routed = count * per_token
    arithmetic = 2.0 * parameters * routed / (peak * c.expert_arithmetic_efficiency)
    together = overlapped(memory, arithmetic, c.overlap)
    moved = 2.0 * widths * routed / (bandwidth * c.routing_efficiency)
    return memory, together - memory + moved
