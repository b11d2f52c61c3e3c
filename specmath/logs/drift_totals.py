"""Two totals beside each other: what can be said of a fall without windows.

    z = (τ₀ − τ₁) / √(Var(L₀)/N₀ + Var(L₁)/N₁)         steps taken as independent
    Var(L) = Σ (2i−1) s_i − (Σ s_i)²                   P(L ≥ i) = s_i

Steps of one request are alike, and so are requests of one hour: the true variance is larger by a
design effect ≥ 1 that totals do not show. It grows with the load (a window of n steps whose mean
wanders by σ has about 1 + n σ²/Var(L), times its autocorrelation time), so no constant stands in
for it. Two things do follow: where z is below its limit there is no fall beyond chance, whatever
the effect; and (z/limit)² is the design effect below which there would be one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specmath.logs.record import Reading

__all__ = ["Totals", "totals"]

FEWEST_STEPS = 200


@dataclass(frozen=True)
class Totals:
    """Means of `measure` on both sides, and z with steps taken as independent.

    `tokens_before` and `tokens_after` are tokens per step at the γ that each side ran.
    """

    measure: str
    before: float
    after: float
    z: float
    tokens_before: float
    tokens_after: float


def totals(before: Reading, after: Reading) -> Totals | None:
    """Tokens per step of both, at the shorter γ; None without rates or below 200 steps."""
    gamma = min(len(before.survival or ()), len(after.survival or ()))
    sides = [(reading.survival or ())[:gamma] for reading in (before, after)]
    counts = before.steps or 0, after.steps or 0
    if not gamma or min(counts) < FEWEST_STEPS:
        return None
    variance = sum(_step_variance(s) / n for s, n in zip(sides, counts, strict=True))
    if variance <= 0.0:
        return None
    means = [1.0 + math.fsum(survival) for survival in sides]
    same = before.gamma == after.gamma
    name = "tokens per step" + ("" if same else f" up to γ={gamma}")
    own = [1.0 + math.fsum(reading.survival or ()) for reading in (before, after)]
    return Totals(name, means[0], means[1], (means[0] - means[1]) / math.sqrt(variance), *own)


def _step_variance(survival: Sequence[float]) -> float:
    second = math.fsum((2 * i - 1) * s for i, s in enumerate(survival, start=1))
    return max(second - math.fsum(survival) ** 2, 0.0)
