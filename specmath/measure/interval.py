"""How sure a mean over correlated tokens is."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from specmath.checks import FloatArray, InputError, real

__all__ = ["AlphaEstimate", "estimate_alpha"]

FEWEST_CLUSTERS = 5
BLOCK_TOKENS = 32


@dataclass(frozen=True)
class AlphaEstimate:
    """α, the ends of its interval, and what was taken as independent."""

    value: float
    low: float
    high: float
    basis: str
    tokens: int
    texts: int


def estimate_alpha(
    texts: Sequence[FloatArray],
    groups: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> AlphaEstimate:
    """Mean of a_t over all tokens, with an interval that respects correlation within a text.

    Ratio estimator Σ_g A_g / Σ_g n_g over clusters g (Cochran 1977, Sampling Techniques,
    Section 6.4), its variance from the residuals A_g − α n_g, with Student's t at clusters − 1
    degrees of freedom. A cluster is a text, or all texts of one entry of `groups` (samples of the
    same prompt are alike). With fewer than five clusters the texts are cut into blocks of 32
    tokens, which ignores correlation beyond a block; the basis says so. Clipped to [0, 1].

    Each text: a list of probabilities in [0, 1], at least one. level in (0, 1).
    """
    if not texts:
        raise InputError("texts must hold at least one text, got none")
    arrays = [real(f"a_t in text {n}", text, 0, 1) for n, text in enumerate(texts, start=1)]
    if any(array.ndim != 1 or array.size == 0 for array in arrays):
        raise InputError("each text must be a list of at least one probability")
    names = list(range(len(arrays))) if groups is None else list(groups)
    if len(names) != len(arrays):
        raise InputError(f"groups must name all {len(arrays)} texts, got {len(names)} names")
    level = float(real("level", level, 0, 1, low_open=True))
    clusters: dict[Hashable, list[FloatArray]] = {}
    for name, array in zip(names, arrays, strict=True):
        clusters.setdefault(name, []).append(array)
    noun = "texts" if groups is None else "prompts"
    basis = f"{level:.0%}, {len(clusters)} {noun} taken as independent"
    parts = [np.concatenate(group) for group in clusters.values()]
    if len(parts) < FEWEST_CLUSTERS:
        parts = [b for a in arrays for b in np.array_split(a, max(1, a.size // BLOCK_TOKENS))]
        basis = f"{level:.0%}, blocks of about {BLOCK_TOKENS} tokens taken as independent"
    sums, sizes = np.array([[part.sum(), part.size] for part in parts]).T
    value = float(sums.sum() / sizes.sum())
    low, high = 0.0, 1.0
    if len(parts) > 1:
        residuals = sums - value * sizes
        variance = residuals @ residuals * len(parts) / (len(parts) - 1) / sizes.sum() ** 2
        half = float(student.ppf(0.5 + level / 2, len(parts) - 1)) * float(np.sqrt(variance))
        if half == 0.0 and value in (0.0, 1.0):
            half = 3.0 / len(parts)  # rule of three: no spread seen is not no spread
        low, high = max(0.0, value - half), min(1.0, value + half)
    else:
        basis = "one short text: nothing to judge the spread by"
    return AlphaEstimate(value, low, high, basis, int(sizes.sum()), len(arrays))
