"""Intervals of the survival and of each window, for charts and tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray
from specmath.logs.record import Reading, Window

__all__ = ["Banded", "survival_band", "window_band"]

Z95 = 1.959963984540054
FEWEST_WINDOWS = 8


@dataclass(frozen=True)
class Banded:
    """Values with the ends of their 95% intervals; None where nothing tells them."""

    values: FloatArray
    low: FloatArray | None
    high: FloatArray | None
    basis: str


def survival_band(reading: Reading) -> Banded:
    """s_0 … s_γ of a reading with survival, with 95% intervals.

    Over windows, if there are at least eight with rates: the spread of a ratio estimator
    (Cochran 1977, Sampling Techniques, Section 6.4), which respects that windows differ. Never
    narrower than Wilson's interval with steps taken as independent.
    """
    survival = np.array((1.0, *(reading.survival or ())))
    if not reading.steps:
        return Banded(survival, None, None, "no interval: the steps are not told")
    half = _wilson_half(survival, float(reading.steps))
    basis = "95%, steps taken as independent"
    rows = [w for w in reading.windows if w.steps and len(w.survival or ()) + 1 == survival.size]
    if len(rows) >= FEWEST_WINDOWS:
        steps = np.array([float(w.steps or 0) for w in rows])
        rates = np.array([(1.0, *(w.survival or ())) for w in rows])
        residual = steps[:, None] * (rates - survival)
        count = len(rows)
        variance = (residual**2).sum(axis=0) * count / (count - 1) / steps.sum() ** 2
        spread = Z95 * np.sqrt(variance)
        if np.any(spread > half):
            half, basis = np.maximum(half, spread), f"95%, by the spread over {count} windows"
    low, high = np.maximum(survival - half, 0.0), np.minimum(survival + half, 1.0)
    low[0] = high[0] = 1.0
    return Banded(survival, low, high, basis)


def _wilson_half(share: FloatArray, trials: float) -> FloatArray:
    square = Z95**2 / trials
    return np.asarray(
        Z95 * np.sqrt(share * (1.0 - share) / trials + square / (4.0 * trials)) / (1.0 + square)
    )


def window_band(reading: Reading) -> Banded:
    """Tokens per step of each window (bonus included), with the 95% interval of its own steps.

    Var of the accepted tokens of a step from the reading's survival: Σ (2i−1) s_i − (Σ s_i)².
    """
    rows = [w for w in reading.windows if w.tokens_per_step is not None]
    values = np.array([w.tokens_per_step for w in rows], dtype=float)
    variance = _step_variance(reading)
    if variance is None or not all(_steps(w) for w in rows):
        return Banded(values, None, None, "no interval: the steps are not told")
    half = Z95 * np.sqrt(variance / np.array([_steps(w) for w in rows]))
    return Banded(values, values - half, values + half, "95%, steps taken as independent")


def _steps(window: Window) -> float:
    return float(window.steps or 0)


def _step_variance(reading: Reading) -> float | None:
    survival = reading.survival
    if survival is None and reading.alpha is not None and reading.gamma:
        survival = tuple(reading.alpha**i for i in range(1, reading.gamma + 1))
    if survival is None:
        return None
    total = math.fsum(survival)
    second = math.fsum((2 * i - 1) * s for i, s in enumerate(survival, start=1))
    return max(second - total**2, 0.0)
