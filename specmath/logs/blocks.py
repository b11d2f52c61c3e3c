"""A log cut into blocks of windows that may be taken as independent, and how sure that is.

Windows of one server are alike because its traffic is. The integrated autocorrelation time

    τ_int = 1 + 2 Σ_k ρ_k        (Sokal 1997, Functional Integration, Sec. 3: summed to 5 τ_int)

is estimated from the baseline; a block has the f of some 2.4 τ_int even windows. The mean of a
block of windows with weights n_t varies by the wander of traffic and by the chance of its N = Σ n_t
steps:

    Var = σ² f + ν/N        f = Σ_ij n_i n_j φ^|i−j| / N²,   φ = (τ_int − 1)/(τ_int + 1)

with σ² and ν unknown. So a current block has an f no larger and an N no smaller than the means over
the baseline's blocks (of f, and of 1/N): it then varies no more than theirs do on average, whatever
share of that is wander. A busier log is not judged by fewer windows, nor a quieter one by fewer
steps. What correlation is left between blocks is that of an AR(1) series
of this τ_int: the mean of many varies 1/(1 − τ_int/2b) times as much as that of independent ones of
b windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray
from specmath.logs.record import Reading

__all__ = ["Blocks", "Plan", "Series", "autocorrelation_time", "comparable", "cut", "plan"]

WIDTH = 3.0
"""Windows of a block, in autocorrelation times; 1/UNEVEN of it where they are even."""

MOST_BLOCKS = 64
FEWEST_EVENTS = 10
"""Least expected steps of a block with a rejection, and with an acceptance."""

EVEN = 0.5
"""Least weight of a baseline block, in mean weights of its windows."""

UNEVEN = 1.25
"""Greatest f of a baseline block, in that of WIDTH autocorrelation times of even windows."""

SLACK = 1e-9
NEGLIGIBLE = 1.2
FLAT = 1e-12


@dataclass(frozen=True)
class Series:
    """One value a window with its weight (steps, or what stands for them), and where it is.

    `measure` says what is averaged: "tokens per step", "tokens per step up to γ=3", or
    "accepted ÷ drafted". `floor` and `ceiling` are its values where all is rejected and all is
    accepted, `gamma` the drafted tokens of a step in it; None where the draft length is unknown.
    `tokens` are the tokens per step of each window at the γ that ran, nan where unknown; `unit` is
    what the weights count.
    """

    measure: str
    values: FloatArray
    weights: FloatArray
    lines: tuple[int, ...]
    times: tuple[str | None, ...]
    tokens: FloatArray
    gamma: int | None
    floor: float
    ceiling: float | None
    unit: str

    @property
    def mean(self) -> float:
        """The weighted mean: Σ accepted / Σ steps."""
        return float(np.average(self.values, weights=self.weights))


@dataclass(frozen=True)
class Blocks:
    """Weighted means of consecutive windows; the first and last of each, its f and its weight."""

    means: FloatArray
    first: tuple[int, ...]
    last: tuple[int, ...]
    wander: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class Plan:
    """How a log is cut: at most `wander` (f above) and at least `weight` a block.

    That takes about `windows`, 0.8 of them where they are even; `scarce` says which steps
    ("rejected" or "accepted") are so few that they, not the correlation, make the blocks long.
    """

    tau: float
    windows: int
    wander: float
    weight: float
    scarce: str = ""

    @property
    def phi(self) -> float:
        """Lag-1 correlation of the AR(1) series of this τ_int."""
        return (self.tau - 1.0) / (self.tau + 1.0)


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
        own = math.nan if w.tokens_per_step is None else w.tokens_per_step
        if value is not None and weight > 0:
            rows.append((value, weight, w.line, w.when, own))
    name = "tokens per step" + (f" up to γ={gamma}" if gamma else "")
    most = gamma or reading.gamma
    unit = "steps" if all(w.steps for w in reading.windows) else "running requests"
    return _made(name, rows, most, 1.0, None if most is None else most + 1.0, unit)


def _shares(reading: Reading) -> Series | None:
    each = math.nan if reading.gamma is None else float(reading.gamma)
    rows = [
        (share, float(w.drafted), w.line, w.when, 1.0 + each * share)
        for w in reading.windows
        if w.drafted and w.accepted is not None
        for share in [w.accepted / w.drafted]
    ]
    return _made("accepted ÷ drafted", rows, reading.gamma, 0.0, 1.0, "drafted tokens")


def _made(
    name: str, rows: Sequence[tuple[float, float, int, str | None, float]],
    gamma: int | None, floor: float, ceiling: float | None, unit: str,
) -> Series | None:  # fmt: skip
    if not rows:
        return None
    values, weights, lines, times, tokens = zip(*rows, strict=True)
    return Series(
        name, np.array(values), np.array(weights), lines, times, np.array(tokens),
        gamma, floor, ceiling, unit,
    )  # fmt: skip


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


def plan(series: Series) -> Plan:
    """Blocks of some 3 τ_int windows; more where those are over 64 or leave events scarce."""
    tau = autocorrelation_time(series.values)
    length = math.ceil(WIDTH * tau) if tau > 1.0 else 1
    length = max(length, math.ceil(series.values.size / MOST_BLOCKS))
    mean_weight = float(np.mean(series.weights))
    needed, scarce = _scarce(series)
    windows = max(length, math.ceil(needed / mean_weight * (1.0 - SLACK)))
    even = Plan(tau, windows, 1.0, 0.0)
    return Plan(
        tau, windows, UNEVEN * _wander(np.ones(windows), even.phi),
        max(EVEN * windows * mean_weight, needed), scarce if windows > length else "",
    )  # fmt: skip


def _scarce(series: Series) -> tuple[float, str]:
    """The weight that holds enough rejections and acceptances, and which of the two is rarer.

    A step that rejects loses at most γ tokens, so (ceiling − mean)/γ is no more than the share of
    such steps; a step that accepts gains at most γ.
    """
    if series.gamma is None or series.ceiling is None or not series.gamma:
        return 0.0, ""
    lost, won = series.ceiling - series.mean, series.mean - series.floor
    rarer = max(min(lost, won), 0.0) / series.gamma
    most = float(series.weights.sum()) * FEWEST_EVENTS
    return min(FEWEST_EVENTS / max(rarer, SLACK), most), "rejected" if lost < won else "accepted"


def _wander(weights: FloatArray, phi: float) -> float:
    """f of one block: Σ_ij n_i n_j φ^|i−j| / (Σ n)²."""
    total, squares, tail = 0.0, 0.0, 0.0
    for n in weights.tolist():
        total, squares, tail = _joined(total, squares, tail, n, phi)
    return squares / total**2


def _joined(
    total: float, squares: float, tail: float, n: float, phi: float
) -> tuple[float, float, float]:
    """The sums of f with one more window; `tail` is Σ n_i φ^(distance to the last window)."""
    tail *= phi
    return total + n, squares + n * n + 2.0 * n * tail, tail + n


def cut(series: Series, how: Plan) -> Blocks:
    """Consecutive windows joined until they are enough; an unfinished last block is dropped."""
    means: list[float] = []
    first: list[int] = []
    last: list[int] = []
    wander: list[float] = []
    weights: list[float] = []
    begin, sums = 0, (0.0, 0.0, 0.0)
    for index, one in enumerate(series.weights.tolist()):
        sums = _joined(*sums, one, how.phi)
        share = sums[1] / sums[0] ** 2
        if share <= how.wander * (1.0 + SLACK) and sums[0] >= how.weight * (1.0 - SLACK):
            part = slice(begin, index + 1)
            means.append(float(np.average(series.values[part], weights=series.weights[part])))
            first.append(begin)
            last.append(index)
            wander.append(share)
            weights.append(sums[0])
            begin, sums = index + 1, (0.0, 0.0, 0.0)
    return Blocks(
        np.array(means), tuple(first), tuple(last), np.array(wander), np.array(weights)
    )  # fmt: skip
