"""Has acceptance fallen? A test with a stated false-alarm rate.

The mean of a run R of current windows is laid beside the baseline's, both with the weights of
specmath.review.blocks,

    T_R = (μ₀ − R) / (S √(1/W₀ + 1/W_R))        Student's t with B₀ − 1 degrees of freedom

where the B₀ blocks of the baseline tell S alone, so that a fall cannot hide in a spread of its own
making; of the whole log the B₁ of the current log tell it as well (a two-sample t test, of
B₀ + B₁ − 2 degrees). What a call may spend on false alarms, its rate, is divided beforehand: 65% on
the whole current log, where a change between the two logs shows, 15% on its parts (runs of 1, 2, 4,
… blocks, wherever they begin; as much on each length), where a fall shows that came later or has
ended. The shares of all runs add up to less than the rate (Bonferroni), whatever the runs have in
common; what is left is for blocks that are not quite Gaussian or independent. The p-value is the
least of p_R / share_R.

Few blocks do not show whether neighbours among them are alike, so S is widened by
√(1 + (8/B₀)⁶): 0.2% at 20 blocks, 12% at 10, 160% at 6. How near simulation comes to the stated
rate, and what it sees, is told in docs/logs.md.

Without windows two totals are laid beside each other:

    z = (τ₀ − τ₁) / √(Var(L₀)/N₀ + Var(L₁)/N₁)         steps taken as independent

Steps of one request are alike, and so are requests of one hour: the true variance is larger by a
design effect ≥ 1 that totals do not show. It grows with the load (a window of n steps whose mean
wanders by σ has about 1 + n σ²/Var(L), times its autocorrelation time), so no constant stands in
for it. Two things do follow: where z is below its limit there is no fall beyond chance, whatever
the effect; and (z/limit)² is the design effect below which there would be one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import fdtri, ndtr, ndtri, stdtr, stdtrit

from specmath.checks import FloatArray, InputError, IntArray, real
from specmath.estimate import step_variance
from specmath.logs.reading import Reading
from specmath.logs.spread import block_starts
from specmath.review.blocks import (
    Baseline,
    Measure,
    Rare,
    WindowSeries,
    baseline_of,
    comparable,
    spread_of,
)

__all__ = ["FEWEST_BLOCKS", "SHORT", "Drift", "Run", "Why", "drift", "runs_of"]

FEWEST_BLOCKS = 6
FEWEST_STEPS = 200
"""Of each total."""

SHORT = 50
"""Windows of a log that are enough where neighbours are not alike."""

WHOLE, PARTS = 0.65, 0.15
"""What of the rate goes to the whole current log, and to its parts."""

FEW = 8.0
"""Blocks: of fewer the spread is widened, of more hardly."""

MOST_LOOKS = 64
MOST_CELLS = 512
QUIET = 0.5
"""Below this share of the baseline's steps a window's error is scaled by its steps alone: steps of
a request are alike, and of few steps fewer requests."""

TINY = 1e-9

Why = Literal[
    "flat baseline", "short baseline", "scarce baseline", "short current", "quiet current", "blind",
    "no windows", "fall without windows",
]  # fmt: skip
"""Why the logs cannot tell. Flat: the baseline does not vary at all. Short: too few windows, for as
long as neighbours are alike, or (scarce) for as rare as rejections or acceptances are; quiet: too
few steps in them. Blind: not even a draft that is never accepted would be seen."""


@dataclass(frozen=True)
class Drift:
    """What a comparison found.

    `fallen` is None where the logs cannot tell (`why`). `before` and `after` are means of
    `measure`, of drafts cut at `cut_gamma` tokens where the two sides drafted differently; `after`
    and `since` (line and time) belong to the run of blocks that lies furthest below chance. Where
    it has ended, `until` is its last window and `later` the mean since. `p_value` is that of the
    whole current log; `detected` is where the alarm would first have been raised, which an earlier
    fall may have done. `smallest` is the fall that would have been seen about half the time had
    it lasted for all of the current log. `tokens_before` and
    `tokens_after` are tokens per step at the γ that each side ran, over the same windows as
    `before` and `after`.

    A log too short would need about `needed_windows`; `scarce` says which steps are so rare in the
    baseline that its blocks are long; of a quiet current log a window of the baseline weighs
    `quieter` times as much.

    Without windows two totals are compared: `p_value` is that of `independent` steps, or of the
    `design_effect` that was assumed; `tipping` is the effect below which the fall is beyond chance.
    """

    fallen: bool | None
    measure: Measure
    before: float
    after: float
    p_value: float | None = None
    rate: float = 0.01
    since_line: int | None = None
    since: str | None = None
    detected_line: int | None = None
    detected: str | None = None
    until_line: int | None = None
    until: str | None = None
    later: float | None = None
    abrupt: bool | None = None
    tokens_before: float | None = None
    tokens_after: float | None = None
    baseline_blocks: int = 0
    current_blocks: int = 0
    block_windows: int = 0
    baseline_windows: int = 0
    correlation_windows: float = 1.0
    smallest: float | None = None
    independent: bool = False
    design_effect: float | None = None
    tipping: float | None = None
    why: Why | None = None
    cut_gamma: int | None = None
    current_windows: int = 0
    needed_windows: int | None = None
    scarce: Rare | None = None
    quieter: float | None = None

    @property
    def change(self) -> float:
        """after / before − 1."""
        return self.after / self.before - 1.0


def drift(
    before: Reading, after: Reading, rate: float = 0.01, design_effect: float | None = None
) -> Drift:
    """Compare two logs of one server.

    Parameters
    ----------
    before, after
        The baseline and the current log.
    rate
        In (0, 0.5]: P(alarm | nothing changed) of one call.
    design_effect
        ≥ 1, used where there are no windows only: the variance of a total over that of independent
        steps, as the caller assumes it.

    Returns
    -------
    Drift
        Fallen, not, or that the logs cannot tell.

    Raises
    ------
    InputError
        The two share no measure (another γ without per-position rates).

    Examples
    --------
    >>> def totals(*survival):
    ...     return Reading("vllm", "totals", steps=10000, survival=survival, gamma=len(survival))
    >>> drift(totals(0.8, 0.6, 0.45), totals(0.7, 0.5, 0.35), design_effect=4.0).fallen
    True
    """
    rate = float(real("rate", rate, 0, 0.5, low_open=True))
    if design_effect is not None:
        design_effect = float(real("design_effect", design_effect, 1))
    pair = comparable(before, after)
    if pair is None:
        return _totals_compared(before, after, rate, design_effect)
    return _windows_compared(*pair, rate)


# ── two totals ───────────────────────────────────────────────────────────────────────────────


def _totals_compared(before: Reading, after: Reading, rate: float, effect: float | None) -> Drift:
    """One look at two totals; None unless the steps are too few even if independent."""
    rates, steps = zip(*((r.survival or (), r.steps or 0) for r in (before, after)), strict=True)
    gamma = min(map(len, rates))
    if not gamma or min(steps) < FEWEST_STEPS:
        return _totals_beside(before, after, rate)
    variance = sum(step_variance(s[:gamma]) / n for s, n in zip(rates, steps, strict=True))
    if variance <= 0.0:
        return _totals_beside(before, after, rate)
    first, last = (1.0 + math.fsum(survival[:gamma]) for survival in rates)
    tokens = [1.0 + math.fsum(survival) for survival in rates]
    z, limit = (first - last) / math.sqrt(variance), float(-ndtri(rate))
    found = Drift(
        None, "tokens_per_step", first, last, rate=rate, tokens_before=tokens[0],
        tokens_after=tokens[1], cut_gamma=None if before.gamma == after.gamma else gamma,
    )  # fmt: skip
    if effect is None and z > limit:
        return replace(found, why="fall without windows", tipping=(z / max(limit, TINY)) ** 2)
    z /= math.sqrt(effect or 1.0)
    return replace(
        found, fallen=z > limit, p_value=float(ndtr(-z)), independent=effect is None,
        design_effect=effect,
    )  # fmt: skip


def _totals_beside(before: Reading, after: Reading, rate: float) -> Drift:
    """Two means of which not even the error of independent steps is known."""
    means = before.tokens_per_step, after.tokens_per_step
    if means[0] is None or means[1] is None or before.gamma != after.gamma:
        raise InputError(
            "BASELINE and CURRENT must share a measure: tokens per step at one γ, or rates for "
            f"each position; got γ={before.gamma} and γ={after.gamma}"
        )
    return Drift(None, "tokens_per_step", means[0], means[1], rate=rate, why="no windows")


# ── the test over windows ────────────────────────────────────────────────────────────────────


def _windows_compared(base: WindowSeries, now: WindowSeries, rate: float) -> Drift:
    against = baseline_of(base)
    length = against.length
    found = Drift(
        None, base.measure, base.mean(), now.mean(), rate=rate, baseline_blocks=against.blocks,
        block_windows=length, baseline_windows=base.values.size, correlation_windows=against.tau,
        tokens_before=base.mean_tokens(), tokens_after=now.mean_tokens(),
        cut_gamma=base.gamma if base.cut else None, current_windows=now.values.size,
        scarce=against.scarce,
    )  # fmt: skip
    if np.ptp(base.values) <= TINY and base.values.size >= FEWEST_BLOCKS:
        return replace(found, why="flat baseline")
    if against.blocks < FEWEST_BLOCKS or not against.spread > 0.0:
        why: Why = "scarce baseline" if against.scarce else "short baseline"
        return replace(found, why=why, needed_windows=FEWEST_BLOCKS * length)
    by_weight = math.ceil(against.needed / float(now.weights.mean()) * (1.0 - TINY))
    if now.values.size < length or now.values.size < by_weight:
        needed = max(by_weight, length)
        if by_weight <= length:
            return replace(found, why="short current", needed_windows=needed)
        quieter = float(base.weights.mean() / now.weights.mean())
        return replace(found, why="quiet current", needed_windows=needed, quieter=quieter)
    return _tested(replace(found, current_blocks=now.values.size // length), against, base, now)


@dataclass(frozen=True)
class Run:
    """Blocks first … last of the current log, and what of the rate is spent on them."""

    first: int
    last: int
    share: float


def runs_of(blocks: int) -> list[Run]:
    """The whole log, and runs of 1, 2, 4, … of its blocks; their shares add up to no more than 1.

    Examples
    --------
    >>> [(run.first, run.last, round(run.share, 3)) for run in runs_of(3)]
    [(0, 2, 0.65), (0, 0, 0.025), (1, 1, 0.025), (2, 2, 0.025), (0, 1, 0.037), (1, 2, 0.037)]
    """
    lengths = [1 << i for i in range((blocks - 1).bit_length())]
    parts = [
        Run(first, first + length - 1, PARTS / len(lengths) / (blocks - length + 1))
        for length in lengths
        for first in range(blocks - length + 1)
    ]
    return [Run(0, blocks - 1, WHOLE), *parts]


def _tested(found: Drift, against: Baseline, base: WindowSeries, now: WindowSeries) -> Drift:
    looks = min(found.current_blocks, MOST_LOOKS)
    edges = np.append(block_starts(now.values.size, looks), now.values.size)
    runs = runs_of(looks)
    first, last = (np.array([getattr(run, name) for run in runs]) for name in ("first", "last"))
    shares = np.array([run.share for run in runs])
    error, fall = _compared(against, base, now, edges[first], edges[last + 1])
    free = np.full(len(runs), against.blocks - 1)
    error[0], free[0] = _of_both(error[0], against, now)
    chances = np.minimum(stdtr(free, -fall / error) / shares, 1.0)
    found = replace(
        found, p_value=float(chances.min()), fallen=bool(chances.min() <= found.rate),
        smallest=float(stdtrit(free[0], 1.0 - found.rate * WHOLE) * error[0]),
    )  # fmt: skip
    if not found.fallen:
        blind = (found.smallest or 0.0) >= found.before - now.floor
        return replace(found, fallen=None, why="blind") if blind else found
    at = int(edges[last[chances <= found.rate].min() + 1]) - 1
    found = replace(found, detected_line=now.lines[at], detected=now.times[at])
    return _described(found, against, base, now)


def _of_both(error: float, against: Baseline, now: WindowSeries) -> tuple[float, int]:
    """The standard error with S of both logs, each about its own mean, and its degrees."""
    blocks, theirs = now.values.size // against.length, against.blocks - 1
    weights = against.weights(now.weights)
    spread = spread_of(weights, now.values - np.average(now.values, weights=weights), blocks)
    free = theirs + blocks - 1
    pooled = (theirs * against.spread + (blocks - 1) * spread) / free
    return error * math.sqrt(pooled / against.spread), free


def _compared(
    against: Baseline, base: WindowSeries, now: WindowSeries, starts: IntArray, stops: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Of runs of windows start … stop−1: the standard error of μ₀ − R, and μ₀ − R."""
    weights = against.weights(now.weights)
    weight, moment, steps = (
        sums[stops] - sums[starts]
        for sums in (
            np.append(0.0, np.cumsum(each))
            for each in (weights, weights * (against.mean - now.values), now.weights)
        )
    )
    inverse = 1.0 / weight
    if float(now.weights.mean()) < QUIET * float(base.weights.mean()):
        inverse = np.maximum(inverse, float(base.weights.sum()) / against.weight / steps)
    widened = 1.0 + (FEW / against.blocks) ** 6
    return np.sqrt(against.spread * widened * (1.0 / against.weight + inverse)), moment / weight


def _described(found: Drift, against: Baseline, base: WindowSeries, now: WindowSeries) -> Drift:
    """The run of windows that lies furthest below chance in numbers: how low, from where, how long.

    It lasts to the end of the log unless what follows is nearer to the baseline than to the run.
    Runs begin and end at cells of one autocorrelation time.
    """
    n = now.values.size
    cells = max(min(n // math.ceil(against.tau), MOST_CELLS), 1)
    edges = np.append(block_starts(n, cells), n)
    starts, stops = (index.ravel() for index in np.triu_indices(cells))
    error, fall = _compared(against, base, now, edges[starts], edges[stops + 1])
    tokens, steps = (
        np.append(0.0, np.cumsum(each)) for each in (now.weights * now.values, now.weights)
    )
    ends = edges[stops + 1], edges[starts]
    means = (tokens[ends[0]] - tokens[ends[1]]) / (steps[ends[0]] - steps[ends[1]])
    lower = np.where(means < found.before, fall / error, -np.inf)
    run = int(np.argmax(lower))
    if lower[run] <= 0.0:  # by the weights of the test alone: no fall to be told
        return replace(found, fallen=False, detected_line=None, detected=None)
    start, stop = int(starts[run]), int(stops[run]) + 1
    first, end = int(edges[start]), int(edges[stop])
    low, rest = now.mean(slice(first, end)), slice(end, None)
    if end < n and now.mean(rest) >= 0.5 * (found.before + low):
        found = replace(
            found, later=now.mean(rest), until_line=now.lines[end - 1], until=now.times[end - 1]
        )
    else:
        end, stop = n, cells
    part = slice(first, end)
    each = np.array([now.mean(slice(int(edges[i]), int(edges[i + 1]))) for i in range(stop)])
    return replace(
        found, after=now.mean(part), tokens_after=now.mean_tokens(part),
        since_line=now.lines[first], since=now.times[first],
        abrupt=_abrupt(each, start, found.before),
    )  # fmt: skip


def _abrupt(means: FloatArray, start: int, base: float) -> bool | None:
    """Whether one step from μ₀ fits no worse than a straight slope; None with under 4 blocks.

    A step within the log has two parameters, as a slope has: the squares decide. One before its
    start has one: then the slope must fall, beyond chance at 5% (F test of its parameter).
    """
    n = means.size
    if n < 4:
        return None
    order = np.arange(n)
    level = np.where(order < start, base, means[start:].mean())
    slope, offset = np.polyfit(order, means, 1)
    squares = [float(((means - fit) ** 2).sum()) for fit in (level, offset + slope * order)]
    allowed = 1.0 + float(fdtri(1, n - 2, 0.9)) / (n - 2) if start == 0 else 1.0
    return bool(slope >= 0.0 or squares[0] <= squares[1] * allowed + TINY**2)
