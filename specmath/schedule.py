"""γ by batch size: the best single γ over many loads, and the best schedule of a few ranges.

Loads that are spread evenly over doublings, batches 1, 2, 3, 4, 6, 8 …, count alike. What counts of
each is the time of a token there, in tokens of plain decoding at that load: 1 / speedup.

vLLM's `num_speculative_tokens_per_batch_size` sets γ by the batch size in inclusive ranges; a batch
size in no range inherits the γ of the range before it, so the ranges made here leave no gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, IntArray, whole
from specmath.estimate import Basis, Estimate, ends
from specmath.evidence import Switching, switching
from specmath.speculation import ROUNDING

__all__ = [
    "MOST_RANGES",
    "Choice",
    "GammaRange",
    "Loads",
    "Schedule",
    "best_ranges",
    "choose",
    "loads_up_to",
    "merge_ranges",
]

MOST_RANGES = 4
"""Each threshold is a place at which servers have stalled; more ranges gain next to nothing."""


# ── ranges ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class GammaRange:
    """γ for batch sizes from `low` to `high`, both included."""

    low: int
    high: int
    gamma: int


@dataclass(frozen=True)
class Schedule:
    """Contiguous ranges from batch size 1 up."""

    ranges: tuple[GammaRange, ...]

    def __post_init__(self) -> None:
        expected = 1
        for part in self.ranges:
            if part.low != expected or part.high < part.low:
                raise InputError(
                    f"ranges must follow each other without a gap from batch 1, got "
                    f"{part.low}-{part.high} where {expected} should start"
                )
            whole("gamma", part.gamma, 0)
            expected = part.high + 1
        if not self.ranges:
            raise InputError("ranges must hold at least one range, got none")

    @property
    def max_gamma(self) -> int:
        """What `num_speculative_tokens` must be: the largest γ of the schedule."""
        return max(part.gamma for part in self.ranges)

    @property
    def pays(self) -> bool:
        """Whether any batch size speculates."""
        return self.max_gamma > 0

    def as_list(self) -> list[list[int]]:
        """[[1, 16, 3], ...]: first batch, last batch, γ."""
        return [[part.low, part.high, part.gamma] for part in self.ranges]


def merge_ranges(batches: ArrayLike, gammas: ArrayLike) -> Schedule:
    """One γ a batch size → the fewest contiguous ranges.

    `batches` increasing, first ≥ 1; a γ holds from its batch size up to the next one given, and
    the first from 1 on. `gammas` of the same length, ≥ 0.

    Examples
    --------
    >>> merge_ranges([1, 8, 16], [3, 2, 2]).as_list()
    [[1, 7, 3], [8, 16, 2]]
    """
    sizes = np.atleast_1d(whole("batches", batches, 1))
    drafted = np.atleast_1d(whole("gammas", gammas, 0))
    if sizes.shape != drafted.shape or np.any(np.diff(sizes) <= 0):
        raise InputError("batches must increase and have one gamma each")
    changed = np.diff(drafted, prepend=-1) != 0
    lows = [1, *sizes[changed][1:].tolist()]
    highs = [*(low - 1 for low in lows[1:]), int(sizes[-1])]
    return Schedule(tuple(map(GammaRange, lows, highs, drafted[changed].tolist())))


# ── the best ranges, exactly ─────────────────────────────────────────────────────────────────


def best_ranges(
    cost: FloatArray, may_rise: np.ndarray, most: int = MOST_RANGES
) -> list[tuple[float, tuple[int, ...]]]:
    """The least total cost of 1, 2, … `most` ranges over loads, each with its γ at every load.

    Dynamic programming over where ranges end: the best k ranges over the first j loads with a last
    γ are the best k−1 ranges over the first i < j, with a γ from which that one may follow, and one
    range from i to j. A smaller γ may always follow; a larger one only where `may_rise` at every
    load of its range.

    Parameters
    ----------
    cost
        What a load costs at each γ, smallest γ first: shape (loads, γ).
    may_rise
        Whether at a load the second γ may follow the first, smaller one: shape (loads, γ, γ).
    most
        Ranges at most, ≥ 1.

    Returns
    -------
    list
        (total, index of the γ at each load) for at most 1, 2, … ranges; totals do not increase.

    Examples
    --------
    >>> cost = np.array([[3.0, 1.0], [3.0, 1.0], [1.0, 4.0]])
    >>> best_ranges(cost, np.zeros((3, 2, 2), dtype=bool), 2)
    [(6.0, (1, 1, 1)), (3.0, (1, 1, 0))]
    """
    loads, gammas = cost.shape
    sums = np.concatenate([np.zeros((1, gammas)), np.cumsum(cost, axis=0)])
    refused = np.concatenate([np.zeros((1, gammas, gammas)), np.cumsum(~may_rise, axis=0)])
    falls = np.tri(gammas, k=-1, dtype=bool)  # [from, to]: to < from
    best = sums[1:].copy()  # (loads, γ): one range over the first j + 1
    paths = [[(g,) * (j + 1) for g in range(gammas)] for j in range(loads)]
    found = [_last(best, paths)]
    for _ in range(1, most):
        more, longer = best.copy(), [list(row) for row in paths]
        for j in range(1, loads):
            for i in range(j):  # the last range is i + 1 … j
                allowed = falls | (refused[j + 1] == refused[i + 1])
                np.fill_diagonal(allowed, False)
                before = np.where(allowed, best[i][:, None], np.inf)
                total = before.min(axis=0) + sums[j + 1] - sums[i + 1]
                for g in np.flatnonzero(total < more[j] * (1.0 - ROUNDING)):
                    more[j, g] = total[g]
                    longer[j][g] = paths[i][int(before[:, g].argmin())] + (int(g),) * (j - i)
        best, paths = more, longer
        found.append(_last(best, paths))
    return found


def _last(best: FloatArray, paths: list[list[tuple[int, ...]]]) -> tuple[float, tuple[int, ...]]:
    """Over all loads; the smallest γ at the end on ties."""
    at = int(np.argmin(best[-1]))
    return float(best[-1, at]), paths[-1][at]


# ── one γ, or a schedule ─────────────────────────────────────────────────────────────────────


def loads_up_to(most: int) -> IntArray:
    """Batches 1, 2, 3, 4, 6, 8, 12 … up to `most`, which is one of them.

    Examples
    --------
    >>> loads_up_to(20).tolist()
    [1, 2, 3, 4, 6, 8, 12, 16, 20]
    """
    powers = 2 ** np.arange(int(most).bit_length() + 1)
    found = np.unique(np.concatenate([powers, powers[1:] * 3 // 2]))
    return np.unique(np.append(found[found < most], most))


@dataclass(frozen=True, eq=False)
class Loads:
    """Speedup at every load and γ.

    Attributes
    ----------
    batches
        Sequences decoded together, increasing from 1.
    gammas
        What may be drafted, increasing from 0.
    speedup
        In the middle: (loads, γ).
    points
        At the joint points of what is open: (corners, draws, loads, γ).
    """

    batches: IntArray
    gammas: IntArray
    speedup: FloatArray
    points: FloatArray

    def may_rise(self) -> np.ndarray:
        """Whether a larger γ is faster than a smaller one at a load at the low end of its gain:
        (loads, γ, γ)."""
        size = len(self.gammas)
        found = np.zeros((len(self.batches), size, size), dtype=bool)
        for small in range(size):
            gain = self.points[..., small + 1 :] / self.points[..., small, None]
            found[:, small, small + 1 :] = ends(gain)[0] > 1.0 + ROUNDING
        return found


@dataclass(frozen=True)
class Choice:
    """The best single γ over many loads, and the best schedule beside it.

    Attributes
    ----------
    batches
        The loads that were considered.
    gamma
        The single γ with the least mean time of a token over them; 0: speculation is off.
    loss
        What it loses where it loses most: how much longer a token takes than with the best γ of
        that load, were changing free. No schedule gains more anywhere.
    worst_at
        The batch of that load.
    schedule
        The best of at most four ranges, γ = 0 of it at its own cost; the fewest of equal ones.
    gain
        How much longer a token takes in the mean with the single γ than with the schedule, where
        switching costs nothing but at γ = 0, as it was measured there.
    least_gain
        The same where it costs as much at every γ.
    switching
        What it costs by itself at the smallest and the largest of the loads.
    """

    batches: tuple[int, ...]
    gamma: int
    loss: Estimate
    worst_at: int
    schedule: Schedule
    gain: Estimate
    least_gain: Estimate
    switching: tuple[float, float]

    @property
    def advised(self) -> bool:
        """Whether the schedule pays more than switching costs where it costs most, at the low end
        of what it gains."""
        least = self.least_gain
        return (least.value if least.low is None else least.low) > ROUNDING


def choose(loads: Loads, basis: Basis, price: Switching | None = None) -> Choice:
    """The best single γ and the best schedule over the loads; `price`: what switching costs."""
    time, points = 1.0 / loads.speedup, 1.0 / loads.points
    share = (price or switching()).share(loads.batches)
    single = int(np.argmin(time.mean(axis=0)))
    rows = np.arange(len(loads.batches))

    def lost(of: FloatArray) -> FloatArray:
        return np.asarray(of[..., single] / of.min(axis=-1) - 1.0)

    worst = int(np.argmax(lost(time)))
    at_zero = np.where(loads.gammas == 0, 1.0 + share[:, None], 1.0)
    each = best_ranges(time * at_zero, loads.may_rise())
    path = next(way for total, way in each if total <= each[-1][0] * (1.0 + ROUNDING))

    def gained(of: FloatArray, tier: FloatArray) -> FloatArray:
        scheduled = (of * tier)[..., rows, list(path)].mean(axis=-1)
        return np.asarray(of[..., single].mean(axis=-1) / scheduled - 1.0)

    everywhere = np.broadcast_to(1.0 + share[:, None], time.shape)
    gain, least = (
        Estimate(float(gained(time, tier)), gained(points, tier), basis)
        for tier in (at_zero, everywhere)
    )
    return Choice(
        batches=tuple(loads.batches.tolist()),
        gamma=int(loads.gammas[single]),
        loss=Estimate(float(lost(time)[worst]), lost(points)[..., worst], basis),
        worst_at=int(loads.batches[worst]),
        schedule=merge_ranges(loads.batches, loads.gammas[list(path)]),
        gain=gain,
        least_gain=least,
        switching=(float(share[0]), float(share[-1])),
    )
