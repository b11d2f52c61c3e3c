"""A number with what is not known about it, carried through every sum and quotient.

What is not known of one endpoint is drawn once, as joint points; each number holds its value at
those points, in the same order, so that numbers combine point by point and what they share cancels.

    points   shape (corners, draws): every combination of the ends of ranges that a person typed,
             and seeded draws of errors of which only an 80% range is known
    low      the least over the corners of the 10% quantile over the draws; high likewise, of 90%

A box of k independent 80% ranges would hold 93 to 99.8% of the cases; the quantiles hold 80%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from specmath.checks import FloatArray, real

__all__ = [
    "DRAWS",
    "LEVEL",
    "Z95",
    "Basis",
    "Estimate",
    "Unknown",
    "cluster_ratio_variance",
    "conditional",
    "draws",
    "ends",
    "step_variance",
    "wilson",
]

LEVEL = 0.80
"""The share of cases that an interval over draws holds."""

DRAWS = 256
Z95 = float(ndtri(0.975))

Kind = Literal["computed", "measured", "published", "assumed"]


@dataclass(frozen=True)
class Unknown:
    """A field that is open from `low` to `high`; `level` None: hard ends that a person typed.

    With a level, the range of a factor on the computed number that holds so many of the cases.
    `source`: where its ends are from, "" where nobody said.
    """

    field: str
    low: float
    high: float
    level: float | None = None
    _: KW_ONLY
    source: str = ""


@dataclass(frozen=True)
class Basis:
    """Why this number: how it was found, where, and what is open about it. Data, no prose."""

    kind: Kind = "computed"
    source: str = ""
    over: tuple[Unknown, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """A number, its values at the joint points of its endpoint, and why it is that wide.

    `low` and `high` always enclose `value`; both are None where there are no points.

    Attributes
    ----------
    value
        The number, in the unit of whatever it counts.
    points
        Shape (corners, draws), in the same order for every number of one endpoint; None where
        nothing is open.
    basis
        How it was found and what is open about it.

    Examples
    --------
    >>> seconds = Estimate.between(2.0, 1.6, 2.5)
    >>> rate = seconds.map(lambda s: 1 / s)
    >>> rate.value, rate.low, rate.high
    (0.5, 0.4, 0.625)
    >>> seconds.with_(seconds, lambda a, b: a / b).high
    1.0
    """

    value: float
    points: FloatArray | None = field(default=None, compare=False, repr=False)
    basis: Basis = Basis()

    @classmethod
    def between(cls, value: float, low: float, high: float, basis: Basis | None = None) -> Estimate:
        """A number with hard ends."""
        return cls(value, np.array([[low], [high]]), basis or Basis())

    @property
    def low(self) -> float | None:
        """The low end."""
        return None if self.points is None else min(self.value, float(ends(self.points)[0]))

    @property
    def high(self) -> float | None:
        """The high end."""
        return None if self.points is None else max(self.value, float(ends(self.points)[1]))

    def map(self, convert: Callable[[Any], Any]) -> Estimate:
        """The estimate of a function of this number; `convert` works on arrays."""
        points = None if self.points is None else np.asarray(convert(self.points))
        return Estimate(float(np.asarray(convert(self.value))), points, self.basis)

    def with_(self, other: Estimate, combine: Callable[[Any, Any], Any]) -> Estimate:
        """The estimate of a function of two numbers of one endpoint, point by point."""
        value = float(np.asarray(combine(self.value, other.value)))
        if self.points is None and other.points is None:
            return Estimate(value, None, self.basis)
        mine = self.value if self.points is None else self.points
        theirs = other.value if other.points is None else other.points
        over = tuple(dict.fromkeys((*self.basis.over, *other.basis.over)))
        basis = Basis(self.basis.kind, self.basis.source, over)
        return Estimate(value, np.asarray(combine(mine, theirs)), basis)


def ends(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(low, high) of points of shape (corners, draws, …), each of shape (…).

    Examples
    --------
    >>> low, high = ends(np.array([[1.0], [3.0]]))
    >>> float(low), float(high)
    (1.0, 3.0)
    """
    if points.shape[1] == 1:
        return points.min(axis=(0, 1)), points.max(axis=(0, 1))
    # The order statistics themselves: np.quantile's interpolation costs five times as much.
    tail = round((1.0 - LEVEL) / 2 * (points.shape[1] - 1))
    ordered: FloatArray = np.partition(points, (tail, -1 - tail), axis=1)
    low, high = ordered[:, tail], ordered[:, -1 - tail]
    return np.asarray(low.min(axis=0)), np.asarray(high.max(axis=0))


@cache
def _normals(dimensions: int) -> FloatArray:
    """Standard normal draws [dimensions, DRAWS] that fill the space evenly, always the same.

    The additive recurrence of Roberts (2018), whose one-dimensional shadows are even as well, so
    that the quantiles of a single error come out as they were put in.
    """
    root = 2.0
    for _ in range(60):  # the generalised golden ratio: x^(d+1) = x + 1
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    grid = (0.5 + np.outer(steps, np.arange(1, DRAWS + 1))) % 1.0
    # Even ranks: each dimension holds every one of the DRAWS quantiles once.
    ranks = grid.argsort(axis=1).argsort(axis=1)
    return np.asarray(ndtri((ranks + 0.5) / DRAWS))


def draws(*ranges: tuple[float, float]) -> FloatArray:
    """Factors [len(ranges), DRAWS] with median 1 of which each (low, high) holds 80%.

    0 < low ≤ 1 ≤ high. Independent of each other and lognormal on either side of 1; the same
    for the same ranges.

    Examples
    --------
    >>> factors = draws((0.8, 1.25))
    >>> factors.shape, bool(abs(np.median(factors) - 1) < 0.01)
    ((1, 256), True)
    """
    z = _normals(len(ranges)) / float(ndtri(0.5 + LEVEL / 2))
    low, high = np.array(ranges).T[:, :, None]
    return np.asarray(np.where(z < 0, low ** np.abs(z), high ** np.abs(z)))


# ── statistics of counts ─────────────────────────────────────────────────────────────────────


def conditional(survival: Sequence[float]) -> tuple[float, ...]:
    """a_i = s_i / s_{i−1}, with s_0 = 1; stops at the first position never reached.

    Examples
    --------
    >>> conditional((0.5, 0.25, 0.0, 0.0))
    (0.5, 0.5, 0.0)
    """
    rates, before = [], 1.0
    for rate in survival:
        if before <= 0.0:
            break
        rates.append(rate / before)
        before = rate
    return tuple(rates)


def step_variance(survival: Sequence[float]) -> float:
    """Var of the tokens a step accepts: Σ (2i−1) s_i − (Σ s_i)², because P(L ≥ i) = s_i, i ≥ 1.

    Examples
    --------
    >>> round(step_variance((0.8, 0.6)), 9)
    0.64
    """
    second = math.fsum((2 * i - 1) * s for i, s in enumerate(survival, start=1))
    return max(second - math.fsum(survival) ** 2, 0.0)


def wilson(
    share: ArrayLike, trials: ArrayLike, reach: float = Z95
) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval of a binomial share (Wilson 1927); [0, 1] without trials.

    `reach`: how many standard errors to either side; of a normal at 95% where not given.

    Examples
    --------
    >>> low, high = wilson(0.8, 100)
    >>> round(float(low), 3), round(float(high), 3)
    (0.711, 0.867)
    """
    p, n = np.asarray(share, dtype=float), np.asarray(trials, dtype=float)
    square = reach * reach / np.where(n > 0, n, np.nan)
    centre = (p + 0.5 * square) / (1.0 + square)
    half = np.sqrt(p * (1.0 - p) * square + 0.25 * square * square) / (1.0 + square)
    # At 0 and 1 an end is the share itself, but for rounding.
    low = np.maximum(np.minimum(centre - half, p), 0.0)
    high = np.minimum(np.maximum(centre + half, p), 1.0)
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


def cluster_ratio_variance(sums: FloatArray, sizes: FloatArray) -> FloatArray:
    """Variance of the ratio estimator Σ sums / Σ sizes over k ≥ 2 clusters on the first axis.

    k/(k−1) Σ (sums − ratio sizes)² / (Σ sizes)² (Cochran 1977, Sampling Techniques, Section 6.4).

    Examples
    --------
    >>> float(cluster_ratio_variance(np.array([1.0, 3.0]), np.array([2.0, 2.0])))
    0.25
    """
    totals, weights = real("sums", sums, -np.inf), real("sizes", sizes, 0)
    residuals = totals - totals.sum(axis=0) / weights.sum(axis=0) * weights
    count = len(totals)
    return np.asarray((residuals**2).sum(axis=0) * count / (count - 1) / weights.sum(axis=0) ** 2)
