"""Two logs window by window: what is compared, what a window weighs, and how far a mean may wander.

The value x_i of a window varies by the chance of its n_i steps and by the wander of its traffic,

    Var(x_i) = Ω_i = ν/n_i + σ²        weight w_i = 1/Ω_i

ν is the variance of a step, which its rates tell; σ² comes from the spread of the baseline (the
moments of DerSimonian, Laird 1986, never below 0). So a busy window counts for more than a quiet
one, and not for more than its traffic tells. Windows of one server are alike because its traffic
is: they are joined into blocks (specmath.logs.spread), of mean M_b and weight W_b = Σ w_i, and

    S² = Σ W_b (M_b − μ)² / (B − 1)        Var(mean of weight W) = S²/W

where S² is 1 if the Ω_i are right, and corrects them if they are not (Hartung, Knapp 2001).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath.checks import FloatArray
from specmath.estimate import step_variance
from specmath.logs.reading import Reading
from specmath.logs.spread import autocorrelation_time, block_length, block_starts

__all__ = [
    "FEWEST_EVENTS", "UNSEEN", "Baseline", "Measure", "Rare", "WindowSeries", "baseline_of",
    "comparable", "spread_of",
]  # fmt: skip

Measure = Literal["tokens_per_step", "accepted_share"]
"""What is averaged; the share is accepted ÷ drafted."""

Rare = Literal["rejected", "accepted"]
ALL = slice(None)

FEWEST_EVENTS = 10
"""Least expected steps of a block with a rejection, and with an acceptance."""

UNSEEN = 3
"""Windows of a block where no correlation is seen."""

SLACK = 1e-9


@dataclass(frozen=True)
class WindowSeries:
    """One value of `measure` a window with its weight (steps, or what stands for them), and where.

    `gamma` is the drafted tokens of a step in it, None where unknown; `cut` where drafts are cut
    there to compare with shorter ones. `chance` is the variance of the value times its weight where
    steps are independent. `tokens` are the tokens per step of each window at the γ that ran, nan
    where unknown.
    """

    measure: Measure
    gamma: int | None
    cut: bool
    chance: float
    values: FloatArray
    weights: FloatArray
    tokens: FloatArray
    lines: tuple[int, ...]
    times: tuple[str | None, ...]

    @property
    def floor(self) -> float:
        """The value where every drafted token is rejected."""
        return 1.0 if self.measure == "tokens_per_step" else 0.0

    @property
    def ceiling(self) -> float | None:
        """The value where every drafted token is accepted; None where γ is unknown."""
        if self.measure == "accepted_share":
            return 1.0
        return None if self.gamma is None else self.gamma + 1.0

    def mean(self, part: slice = ALL) -> float:
        """The weighted mean: Σ accepted / Σ steps."""
        return float(np.average(self.values[part], weights=self.weights[part]))

    def mean_tokens(self, part: slice = ALL) -> float | None:
        """Mean tokens per step at the γ that ran; None where a window does not tell."""
        value = float(np.average(self.tokens[part], weights=self.weights[part]))
        return None if math.isnan(value) else value


def comparable(before: Reading, after: Reading) -> tuple[WindowSeries, WindowSeries] | None:
    """The same measure of both logs, window by window; None where they share none.

    Tokens per step where γ is the same; with another γ, the tokens that a draft as short as the
    shorter of the two would have given; accepted ÷ drafted where no steps are told.
    """
    same = before.gamma == after.gamma
    short = min(len(reading.survival or ()) for reading in (before, after))
    ways: list[tuple[bool, Measure, int]] = [
        (same, "tokens_per_step", 0), (short > 0, "tokens_per_step", short),
        (same, "accepted_share", 0),
    ]  # fmt: skip
    for possible, measure, length in ways:
        if possible:
            first, last = (_series(reading, measure, length) for reading in (before, after))
            if first and last:
                return first, last
    return None


def _series(reading: Reading, measure: Measure, short: int) -> WindowSeries | None:
    """Each window that tells the measure; `short` ≥ 1: of drafts cut at so many tokens."""
    rows = []
    for w in reading.windows:
        value, weight = w.tokens_per_step, float(w.steps or w.weight)
        own = math.nan if value is None else value
        if measure == "accepted_share":
            weight = float(w.drafted or 0)
            value = w.accepted / weight if weight and w.accepted is not None else None
            own = 1.0 + (reading.gamma or math.nan) * (value or 0.0)
        elif short:
            value = None if w.survival is None else 1.0 + sum(w.survival[:short])
        if value is not None and weight > 0:
            rows.append((value, weight, own, w.line, w.when))
    if not rows:
        return None
    *numbers, lines, times = zip(*rows, strict=True)
    values, weights, tokens = map(np.array, numbers)
    gamma = short or reading.gamma
    mean = float(np.average(values, weights=weights))
    chance = _chance(reading, measure, short, mean)
    return WindowSeries(measure, gamma, short > 0, chance, values, weights, tokens, lines, times)


def _chance(reading: Reading, measure: Measure, short: int, mean: float) -> float:
    """The variance of a step: of its rates; of a draft of any length where none are told."""
    if measure == "accepted_share":
        return max(mean * (1.0 - mean), 0.0)
    if reading.survival:
        return step_variance(reading.survival[: short or None])
    if reading.alpha is not None and reading.gamma:
        return step_variance([reading.alpha**i for i in range(1, reading.gamma + 1)])
    return max(mean * (mean - 1.0), 0.0)


@dataclass(frozen=True)
class Baseline:
    """What the baseline says of windows: how its means vary, and how long its blocks are.

    `chance` and `wander` are ν and σ² above, `mean` and `weight` μ and Σ w, `spread` S²; `tau` the
    autocorrelation time and `length` the windows of a block; `scarce` says which steps are so few
    that they, not the correlation, make the blocks long.
    """

    chance: float
    wander: float
    mean: float
    weight: float
    spread: float
    blocks: int
    tau: float
    length: int
    needed: float
    scarce: Rare | None

    def weights(self, steps: FloatArray) -> FloatArray:
        """w_i of windows of so many steps; the steps themselves where nothing varies."""
        varies = self.chance / steps + self.wander
        return 1.0 / varies if float(varies.max()) > 0.0 else steps


def baseline_of(series: WindowSeries) -> Baseline:
    """Its blocks and their spread; `spread` is 0 where there are fewer than two blocks."""
    values, steps, chance = series.values, series.weights, series.chance
    residuals = values - series.mean()
    total = float(steps.sum())
    spare = total - float(steps @ steps) / total
    excess = float(steps @ residuals**2) - (values.size - 1) * chance
    wander = max(excess / spare, 0.0) if spare > 0.0 else 0.0
    needed, scarce = _scarce(series)
    rough = Baseline(chance, wander, 0.0, 0.0, 0.0, 0, 1.0, 1, needed, None)
    weights = rough.weights(steps)
    mean = float(np.average(values, weights=weights))
    parts = weights * (values - mean)
    alike = block_length(parts, UNSEEN)
    length = max(alike, math.ceil(needed / float(steps.mean()) * (1.0 - SLACK)))
    blocks = values.size // length
    spread = spread_of(weights, values - mean, blocks)
    return Baseline(
        chance, wander, mean, float(weights.sum()), spread, blocks, autocorrelation_time(parts),
        length, needed, scarce if length > alike else None,
    )  # fmt: skip


def spread_of(weights: FloatArray, residuals: FloatArray, blocks: int) -> float:
    """S² of windows in so many blocks, from what they differ from their mean; 0 of one block."""
    if blocks < 2:
        return 0.0
    starts = block_starts(weights.size, blocks)
    sums, sizes = (np.add.reduceat(each, starts) for each in (weights * residuals, weights))
    return float((sums**2 / sizes).sum()) / (blocks - 1)


def _scarce(series: WindowSeries) -> tuple[float, Rare | None]:
    """The weight that holds enough rejections and acceptances, and which of the two is rarer.

    A step that rejects loses at most γ tokens, so (ceiling − mean)/γ is no more than the share of
    such steps; a step that accepts gains at most γ.
    """
    if series.gamma is None or series.ceiling is None or not series.gamma:
        return 0.0, None
    lost, won = series.ceiling - series.mean(), series.mean() - series.floor
    rarer = max(min(lost, won), 0.0) / series.gamma
    most = float(series.weights.sum()) * FEWEST_EVENTS
    return min(FEWEST_EVENTS / max(rarer, SLACK), most), "rejected" if lost < won else "accepted"
