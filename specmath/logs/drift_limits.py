"""How far a run of blocks lies below a baseline, and how far chance alone takes the furthest one.

    D_jk = (μ₀ − mean_{j…k}) / (S √(1/m + 1/(g (k−j+1))))     m baseline blocks of mean μ₀, spread S

over every run j … k of current looks, each a mean of g blocks. For Gaussian blocks the law of
max_{j≤k} D_jk under no change depends on m, g and the number of looks only: by Monte Carlo.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from specmath.checks import FloatArray

__all__ = ["MOST_LOOKS", "alarm_limit", "falls", "maxima", "stretched"]

MOST_LOOKS = 64
REPLICATES = 20_000
SEED = 20_240_611


def stretched(values: FloatArray, ceiling: float | None) -> FloatArray:
    """−√(ceiling − value): near the ceiling rejections are rare events, whose root is Gaussian.

    Anscombe 1948: the root of a Poisson count has a variance that hardly depends on its mean, and
    half its skewness, the other way. Unchanged where the ceiling is unknown.
    """
    if ceiling is None:
        return values
    return -np.sqrt(np.maximum(ceiling - values, 0.0))


def falls(means: FloatArray, base: float, spread: float, m: int, g: int = 1) -> FloatArray:
    """D_jk as a matrix [k, j], −∞ for j > k; `means` has shape (looks,)."""
    looks = means.size
    sums = np.concatenate(([0.0], np.cumsum(means)))
    found = np.full((looks, looks), -np.inf)
    for k in range(looks):
        lengths = np.arange(k + 1, 0, -1)
        runs = (sums[k + 1] - sums[: k + 1]) / lengths
        found[k, : k + 1] = (base - runs) / (spread * np.sqrt(1.0 / m + 1.0 / (g * lengths)))
    return found


@lru_cache(maxsize=64)
def maxima(m: int, looks: int, g: int = 1) -> FloatArray:
    """max D_jk of logs in which nothing changed, sorted, one a replicate."""
    random = np.random.default_rng(SEED)
    base = random.standard_normal((REPLICATES, 1)) / np.sqrt(m)
    spread = np.sqrt(random.chisquare(m - 1, (REPLICATES, 1)) / (m - 1))
    sums = np.cumsum(random.standard_normal((REPLICATES, looks)) / np.sqrt(g), axis=1)
    sums = np.concatenate((np.zeros((REPLICATES, 1)), sums), axis=1)
    best = np.full(REPLICATES, -np.inf)
    for length in range(1, looks + 1):
        runs = (sums[:, length:] - sums[:, :-length]).min(axis=1, keepdims=True) / length
        fall = (base - runs) / (spread * np.sqrt(1.0 / m + 1.0 / (g * length)))
        best = np.maximum(best, fall[:, 0])
    best.sort()
    best.flags.writeable = False
    return best


def alarm_limit(baseline_blocks: int, looks: int, rate: float, g: int = 1) -> float:
    """The limit that max D_jk exceeds with probability `rate` where nothing changed."""
    return float(np.quantile(maxima(baseline_blocks, looks, g), 1.0 - rate))
