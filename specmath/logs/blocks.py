"""A log cut into blocks of steps that may be taken as independent, and how sure that is.

Windows of one server are alike because its traffic is. The integrated autocorrelation time

    τ_int = 1 + 2 Σ_k ρ_k        (Sokal 1997, Functional Integration, Sec. 3: summed to 5 τ_int)

is estimated from the baseline; a block is 3 τ_int windows long. What correlation is left between
blocks is that of an AR(1) series of this τ_int: the mean of many blocks varies 1/(1 − τ_int/2b)
times as much as independent ones of b windows would, and the spread is widened by its root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray
from specmath.logs.record import Reading

__all__ = ["Blocks", "Series", "autocorrelation_time", "comparable", "cut"]

WIDTH = 3.0
"""Windows of a block, in autocorrelation times."""

MOST_BLOCKS = 64
NEGLIGIBLE = 1.2
FLAT = 1e-12


@dataclass(frozen=True)
class Series:
    """One value a window with its weight (steps, or what stands for them), and where it is.

    `measure` says what is averaged: "tokens per step", "tokens per step up to γ=3", or
    "accepted ÷ drafted".
    """

    measure: str
    values: FloatArray
    weights: FloatArray
    lines: tuple[int, ...]
    times: tuple[str | None, ...]

    @property
    def mean(self) -> float:
        """The weighted mean: Σ accepted / Σ steps."""
        return float(np.average(self.values, weights=self.weights))


@dataclass(frozen=True)
class Blocks:
    """Weighted means of consecutive windows of like weight; the first and last of each."""

    means: FloatArray
    first: tuple[int, ...]
    last: tuple[int, ...]


def comparable(before: Reading, after: Reading) -> tuple[Series, Series] | None:
    """The same measure of both logs, window by window; None where they share none.

    Tokens per step where γ is the same; with another γ, the tokens that a draft as short as the
    shorter of the two would have given; accepted ÷ drafted where no steps are told.
    """
    same = before.gamma == after.gamma
    if same:
        found = _series(before, 0), _series(after, 0)
        if found[0] and found[1]:
            return found[0], found[1]
    short = min(_positions(before), _positions(after))
    if short:
        found = _series(before, short), _series(after, short)
        if found[0] and found[1]:
            return found[0], found[1]
    shares = _shares(before), _shares(after)
    if same and shares[0] and shares[1]:
        return shares[0], shares[1]
    return None


def _positions(reading: Reading) -> int:
    return len(reading.survival or ())


def _series(reading: Reading, gamma: int) -> Series | None:
    """Tokens per step of each window; with γ ≥ 1, cut at that many drafted tokens."""
    rows = []
    for w in reading.windows:
        value = w.tokens_per_step
        if gamma:
            value = None if w.survival is None else 1.0 + sum(w.survival[:gamma])
        weight = float(w.steps) if w.steps else w.weight
        if value is not None and weight > 0:
            rows.append((value, weight, w.line, w.when))
    name = "tokens per step" + (f" up to γ={gamma}" if gamma else "")
    return _made(name, rows)


def _shares(reading: Reading) -> Series | None:
    rows = [
        (w.accepted / w.drafted, float(w.drafted), w.line, w.when)
        for w in reading.windows
        if w.drafted and w.accepted is not None
    ]
    return _made("accepted ÷ drafted", rows)


def _made(name: str, rows: Sequence[tuple[float, float, int, str | None]]) -> Series | None:
    if not rows:
        return None
    values, weights, lines, times = zip(*rows, strict=True)
    return Series(name, np.array(values), np.array(weights), lines, times)


def autocorrelation_time(values: FloatArray) -> float:
    """τ_int in windows, at least 1, by half its own standard error above the estimate.

    The sum stops at the first lag M ≥ 5 τ_int; its relative error is about √(2(2M+1)/n) (Sokal,
    there), and a τ_int taken too small is what makes false alarms on short baselines. Each ρ_k is
    raised by 1/n, about what estimating the mean from the same n windows takes off it
    (Kendall 1954). 1 where the values do not vary.
    """
    n = values.size
    centred = values - values.mean()
    variance = float(centred @ centred)
    if n < 3 or variance <= FLAT * max(1.0, float(values @ values)):
        return 1.0
    total, bias, lag = 1.0, 1.0 / n, 0
    for lag in range(1, n // 2):
        total += 2.0 * (float(centred[lag:] @ centred[:-lag]) / variance + bias)
        if lag >= 5.0 * total:
            break
    if total <= NEGLIGIBLE:
        return 1.0
    return total * (1.0 + 0.5 * math.sqrt(2.0 * (2 * lag + 1) / n))


def block_windows(series: Series) -> tuple[int, float]:
    """(windows of a block, τ_int): 3 τ_int, and more where that makes more than 64 blocks."""
    tau = autocorrelation_time(series.values)
    length = math.ceil(WIDTH * tau) if tau > 1.0 else 1
    return max(length, math.ceil(series.values.size / MOST_BLOCKS)), tau


def cut(series: Series, weight: float) -> Blocks:
    """Consecutive windows joined until they weigh `weight`; an unfinished last block is dropped."""
    means: list[float] = []
    first: list[int] = []
    last: list[int] = []
    begin, filled = 0, 0.0
    for index, one in enumerate(series.weights):
        filled += one
        if filled >= weight * (1.0 - 1e-9):
            part = slice(begin, index + 1)
            means.append(float(np.average(series.values[part], weights=series.weights[part])))
            first.append(begin)
            last.append(index)
            begin, filled = index + 1, 0.0
    return Blocks(np.array(means), tuple(first), tuple(last))
