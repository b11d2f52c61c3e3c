"""Routed experts: how many are touched, a formula for their seconds, and what was measured of it.

The formula is right to about an eighth. Where a GPU's kernels were measured, its miss is known at
27 token counts for each of the shapes that large mixtures have; it is taken off, for a shape of
the table by its own series and for another by those that are most like it. `ExpertShard` says
which part of a layer one GPU has; data/expert_kernels.npz holds the measurements, made from their
source by tools/expert_table.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, real, whole
from specmath.steptime.coefficients import Format
from specmath.steptime.operators import MICRO, ExpertShard, Rates, overlapped

__all__ = [
    "ExpertCurve",
    "ExpertKernels",
    "as_tabled",
    "busiest_share",
    "expert_curve",
    "expert_seconds",
    "experts_touched",
    "make_curve",
    "measured_kernels",
]

# How fast likeness falls with distance, a doubling of each of: experts a routed one, routed
# experts, hidden width, intermediate width of a slice, groups. The weight of having nothing alike.
# Chosen among 180 settings by the error of whole shapes left out; they move it by a tenth.
_SCALE = np.array([1.0, 1.0, 1.0, 1.0, 2.0])
_ALONE = 0.03
# Beyond the measured token counts the last miss is kept.
_BEYOND = 2.0 ** np.arange(15, 31)


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
    return _touched(float(total), chosen / total, count, share)


def _touched(
    experts: ArrayLike, share: ArrayLike, tokens: ArrayLike, spread: ArrayLike
) -> FloatArray:
    """`experts_touched` for experts of which one token is routed to `share`."""
    count = np.asarray(tokens, dtype=float)
    effective = np.minimum(count, 1.0) + spread * np.maximum(count - 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = effective * np.log1p(-np.asarray(share, dtype=float))
    missed = np.where(effective > 0.0, missed, 0.0)  # 0 times minus infinity
    found: FloatArray = np.asarray(experts, dtype=float) * -np.expm1(missed)
    return found


def busiest_share(groups: ArrayLike, balance: ArrayLike) -> FloatArray:
    """Share of the routed copies that the busiest of `groups` GPUs has to work on: groups^-balance.

    1/groups where routing is even (balance = 1), all of them at 0. The others wait for it.
    """
    share: FloatArray = np.asarray(groups, dtype=float) ** -np.asarray(balance, dtype=float)
    return share


def expert_seconds(
    layer: ExpertShard, tokens: ArrayLike, rates: Rates
) -> tuple[FloatArray, FloatArray]:
    """(memory seconds, extra seconds of arithmetic and routing) of one mixture layer, no launch.

    The formula alone. On the busiest GPU of `layer.groups`: the weights of the experts touched are
    read once; every routed copy of a token is multiplied by one expert; and each is gathered,
    passed between the two products and scattered: 2 `widths` bytes, at `routing_efficiency` of the
    bandwidth. `tokens` are those of all GPUs together, >= 0.
    """
    c, bandwidth = rates.coefficients, rates.bandwidth
    count = np.asarray(tokens, dtype=float)
    busiest = busiest_share(layer.groups, c.expert_balance)
    experts = layer.experts / layer.groups
    share = np.minimum(layer.per_token * busiest / experts, 1.0)
    touched = _touched(experts, share, count, c.expert_spread)
    memory = touched * layer.parameters * rates.weight_bytes
    memory = memory / (bandwidth * c.expert_memory_efficiency)
    routed = count * layer.per_token * busiest
    arithmetic = 2.0 * layer.parameters * routed / (rates.peak * c.expert_arithmetic_efficiency)
    together = overlapped(memory, arithmetic, c.expert_overlap)
    moved = 2.0 * layer.widths * routed / (bandwidth * c.routing_efficiency)
    return memory, together - memory + moved


# ── what was measured ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class ExpertKernels:
    """Seconds of one mixture layer on one GPU, in one format: a series over `tokens` a layer shape.

    Routing follows a power law of exponent 1.2, the GPU with the largest load is the one measured;
    NaN where a token count was not.
    """

    tokens: FloatArray
    layers: tuple[ExpertShard, ...]
    seconds: FloatArray

    def without(self, shape: tuple[int, ...]) -> ExpertKernels:
        """All but the layers of one model: (experts, a token, hidden, intermediate)."""
        kept = [i for i, layer in enumerate(self.layers) if _shape(layer) != shape]
        return ExpertKernels(self.tokens, tuple(self.layers[i] for i in kept), self.seconds[kept])

    def log_miss(self, rates: Rates) -> FloatArray:
        """log(measured / formula), a line a layer; the formula with the routing of the tables."""
        tabled, launch = as_tabled(rates), rates.coefficients.expert_launch_us * MICRO
        rows = [sum(expert_seconds(layer, self.tokens, tabled), launch) for layer in self.layers]
        miss: FloatArray = np.log(self.seconds / np.array(rows).reshape(self.seconds.shape))
        return miss


def _shape(layer: ExpertShard) -> tuple[int, ...]:
    return layer.experts, layer.per_token, layer.hidden, layer.intermediate


def _likeness(layers: Sequence[ExpertShard]) -> FloatArray:
    """Where each layer lies among the shapes, in doublings."""
    sizes = [
        (
            a.experts / a.per_token,
            a.per_token,
            a.hidden,
            a.intermediate / a.slices,
            a.groups,
        )
        for a in layers
    ]
    found: FloatArray = np.log2(sizes) * _SCALE
    return found


def as_tabled(rates: Rates) -> Rates:
    """`rates` with work shared out between groups of GPUs as it was where the tables were made."""
    c = rates.coefficients
    return replace(rates, coefficients=replace(c, expert_balance=c.tabled_balance))


@cache
def _stored() -> dict[str, FloatArray]:
    with resources.files("specmath").joinpath("data", "expert_kernels.npz").open("rb") as file:
        return dict(np.load(file))


@cache
def measured_kernels(gpu: str, kernels: Format) -> ExpertKernels | None:
    """What was measured of a catalogue GPU's kernels of one format; None where nothing was."""
    data = _stored()
    mine = (data["gpus"][data["gpu"]] == gpu) & (data["formats"][data["format"]] == kernels)
    if not mine.any():
        return None
    layers = tuple(
        ExpertShard(1, experts, chosen, hidden, intermediate, slices=slices, groups=groups)
        for experts, chosen, hidden, intermediate, slices, groups in data["layer"][mine].tolist()
    )
    seconds = data["milliseconds"][mine].astype(float) / 1e3
    return ExpertKernels(data["tokens"].astype(float), layers, seconds)


def _miss_of(layer: ExpertShard, known: ExpertKernels, log_miss: FloatArray) -> FloatArray:
    """log(true / formula) of `layer` at the token counts of `known`."""
    apart = ((_likeness(known.layers) - _likeness([layer])) ** 2).sum(axis=1)
    same = [_shape(other) == _shape(layer) and near == 0.0
            for other, near in zip(known.layers, apart, strict=True)]  # fmt: skip
    weight = np.exp(-apart / 2.0)[:, None] * np.isfinite(log_miss)
    alike: FloatArray = (weight * np.nan_to_num(log_miss)).sum(axis=0)
    alike = alike / (weight.sum(axis=0) + _ALONE)
    if not any(same):
        return alike
    own = log_miss[same.index(True)]
    return np.where(np.isfinite(own), own, alike)


@dataclass(frozen=True, eq=False)
class ExpertCurve:
    """Seconds of one mixture layer over tokens, launch included, and the shares in it.

    Between the token counts log seconds run straight in log tokens; more tokens never take less.
    """

    log_tokens: FloatArray
    log_seconds: FloatArray
    reading: FloatArray
    launch: FloatArray

    def total(self, tokens: FloatArray) -> FloatArray:
        """Seconds; tokens >= 1."""
        found: FloatArray = np.exp(np.interp(np.log(tokens), self.log_tokens, self.log_seconds))
        return found

    def parts(self, tokens: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(reading weights, all beyond it, launch) in seconds; tokens >= 1."""
        at = np.log(tokens)
        total = self.total(tokens)
        read = total * np.interp(at, self.log_tokens, self.reading)
        launch = total * np.interp(at, self.log_tokens, self.launch)
        return read, np.maximum(total - read - launch, 0.0), launch


def make_curve(
    layer: ExpertShard, rates: Rates, known: ExpertKernels | None, log_miss: FloatArray | None
) -> ExpertCurve:
    """The curve of `layer` at `rates`: the formula, less what it misses by in `known`."""
    counts = 2.0 ** np.arange(15) if known is None else known.tokens
    tokens = np.concatenate([counts, _BEYOND[counts.max() < _BEYOND]])
    read, extra = expert_seconds(layer, tokens, rates)
    launch = np.full_like(tokens, rates.coefficients.expert_launch_us * MICRO)
    formula = np.maximum(read + extra + launch, 1e-12)
    log_seconds = np.log(formula)
    if known is not None and log_miss is not None:
        miss = _miss_of(layer, known, log_miss)
        log_seconds = log_seconds + np.pad(miss, (0, tokens.size - counts.size), mode="edge")
    # Midway between the least curve above that never falls and the greatest below.
    above = np.maximum.accumulate(log_seconds)
    below = np.minimum.accumulate(log_seconds[::-1])[::-1]
    return ExpertCurve(np.log(tokens), (above + below) / 2.0, read / formula, launch / formula)


@lru_cache(maxsize=64)
def _stored_miss(gpu: str, kernels: Format, stored: Rates) -> FloatArray | None:
    known = measured_kernels(gpu, kernels)
    return None if known is None else known.log_miss(stored)


@lru_cache(maxsize=512)
def expert_curve(
    layer: ExpertShard, rates: Rates, gpu: str, kernels: Format, stored: Rates
) -> ExpertCurve:
    """The curve of `layer` on a GPU, whose stored coefficients are in `stored`; `rates` are those,
    or a user's own: what the formula misses is taken to be the same."""
    miss = _stored_miss(gpu, kernels, stored)
    return make_curve(layer, rates, measured_kernels(gpu, kernels), miss)
