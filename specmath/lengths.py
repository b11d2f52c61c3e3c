"""Lengths of prompts and answers that differ: lognormal, by their mean and spread.

    spread = standard deviation / mean       σ² = ln(1 + spread²)       μ = ln mean − σ²/2

Of three public traces (`traffic.TRACES`; spreads of 0.7 to 2.2) a lognormal of the trace's own mean
and spread has p90 within 23% and p99 within 36%: engines cut long answers, which it does not.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from specmath.checks import FloatArray, IntArray, real, whole

__all__ = ["drawn", "in_groups", "spread_of_lengths"]

EDGES = (0.0, 0.05, *(i / 10 for i in range(1, 10)), 0.95, 0.98, 0.99, 0.995, 0.999, 0.9997,
         0.9999, 1.0)  # fmt: skip
"""Quantiles between which lengths are taken for one."""


def in_groups(spread: float) -> tuple[FloatArray, FloatArray]:
    """Lengths over their mean in groups of similar ones, ascending, and the groups' shares.

    Each is the mean of its group, Φ(z₂ − σ) − Φ(z₁ − σ) over its share, so that the mean of all is
    1; `spread` ≥ 0, and of 0 all are one.

    Examples
    --------
    >>> lengths, shares = in_groups(0.8)
    >>> round(float(shares @ lengths), 12), 1.6 < float(shares @ lengths**2) < 1.64
    (1.0, True)
    """
    if real("spread", spread, 0) == 0.0:
        return np.ones(1), np.ones(1)
    edges, sigma = np.array(EDGES), _sigma(spread)
    shares = np.diff(edges)
    return np.diff(ndtr(ndtri(edges) - sigma)) / shares, shares


def drawn(mean: int, spread: float, count: int, rng: np.random.Generator, least: int) -> IntArray:
    """So many whole lengths ≥ `least`; of spread 0 all are the mean."""
    whole("mean", mean, 0)
    if real("spread", spread, 0) == 0.0 or mean == 0:
        return np.full(count, mean)
    sigma = _sigma(spread)
    lengths = rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, count)
    return np.maximum(np.rint(lengths), least).astype(np.int64)


def spread_of_lengths(lengths: IntArray) -> float:
    """Standard deviation over mean; 0 of a mean of 0."""
    mean = float(np.mean(lengths))
    return float(np.std(lengths)) / mean if mean else 0.0


def _sigma(spread: float) -> float:
    return math.sqrt(math.log1p(spread**2))
