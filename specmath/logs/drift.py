"""Has acceptance fallen? A sequential test with a stated false-alarm rate, and what it costs.

Blocks of the baseline have mean μ₀ and spread S; blocks of the current log are looked at one by
one. After block k the test asks of every run j … k of current blocks how far its mean lies below:

    D_jk = (μ₀ − mean_{j…k}) / (S √(1/m + 1/(k−j+1)))           m baseline blocks

and alarms at the first k at which one of them exceeds a limit. The limit is the quantile of
max_{j≤k} D_jk under no change, by Monte Carlo: for Gaussian blocks it depends on m and on the
number of current blocks only, so the probability of any alarm in the whole current log is the
stated rate. Blocks are means over hundreds of steps, hence near Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from specmath.checks import FloatArray, InputError, real
from specmath.logs.blocks import Blocks, Series, block_windows, comparable, cut
from specmath.logs.drift_totals import Totals, totals
from specmath.logs.record import Reading
from specmath.wording import significant

__all__ = ["Drift", "alarm_limit", "drift"]

FEWEST_BLOCKS = 6
MOST_CURRENT = 64
REPLICATES = 20_000
SEED = 20_240_611
TINY = 1e-9


@dataclass(frozen=True)
class Drift:
    """What a comparison found.

    `fallen` is None where the logs cannot tell (`why`). `before` and `after` are means of
    `measure`; `after` and `since` (line and time) belong to the run of blocks since the change
    where there is one. `p_value` is that of the whole current log; `detected` is where the alarm
    would first have been raised. `smallest` is the fall that would have been seen half the time
    had it lasted for all of the current log.

    Without windows two totals are compared (specmath.logs.drift_totals): `p_value` is then that of
    `independent` steps, or of the `design_effect` that was assumed; `tipping` is the effect below
    which the fall is beyond chance.
    """

    fallen: bool | None
    measure: str
    before: float
    after: float
    p_value: float | None = None
    rate: float = 0.01
    since_line: int | None = None
    since: str | None = None
    detected_line: int | None = None
    detected: str | None = None
    abrupt: bool | None = None
    baseline_blocks: int = 0
    current_blocks: int = 0
    block_windows: int = 0
    correlation_windows: float = 1.0
    smallest: float | None = None
    independent: bool = False
    design_effect: float | None = None
    tipping: float | None = None
    why: str = ""

    @property
    def change(self) -> float:
        """after / before − 1."""
        return self.after / self.before - 1.0


def drift(
    before: Reading, after: Reading, rate: float = 0.01, design_effect: float | None = None
) -> Drift:
    """Compare two logs of one server. `rate` in (0, 0.5]: P(alarm | nothing changed) of one call.

    `design_effect`, at least 1, is used where there are no windows only: the variance of a total
    over that of independent steps, as the caller assumes it. Raises InputError where the two share
    no measure (another γ without per-position rates).
    """
    rate = float(real("rate", rate, 0, 0.5, low_open=True))
    if design_effect is not None:
        design_effect = float(real("design_effect", design_effect, 1))
    pair = comparable(before, after)
    if pair is None:
        return _without_windows(before, after, rate, design_effect)
    base, now = pair
    length, tau = block_windows(base)
    weight = length * float(np.mean(base.weights))
    weight = max(weight, float(now.weights.sum()) / MOST_CURRENT)
    blocks, current = cut(base, weight), cut(now, weight)
    m, k = blocks.means.size, current.means.size
    per_block = max(1, round(weight / float(np.mean(base.weights))))
    found = Drift(
        None, base.measure, base.mean, now.mean, rate=rate, baseline_blocks=m, current_blocks=k,
        block_windows=per_block, correlation_windows=tau,
    )  # fmt: skip
    if m < FEWEST_BLOCKS:
        return replace(found, why=_too_short("baseline", base, m, FEWEST_BLOCKS, found))
    if k < 1:
        return replace(found, why=_too_short("current log", now, k, 1, found))
    widened = 1.0 / math.sqrt(1.0 - tau / (2.0 * max(per_block, tau))) if tau > 1.0 else 1.0
    spread = float(blocks.means.std(ddof=1)) * widened
    if spread <= 0.0:
        why = "the baseline does not vary at all: too few digits, or the same line again"
        return replace(found, why=why)
    return _tested(found, current, now, float(blocks.means.mean()), spread)


def _too_short(which: str, series: Series, blocks: int, need: int, found: Drift) -> str:
    return (
        f"the {which} is too short: its {series.values.size} windows hold {blocks} independent "
        f"blocks of {found.block_windows} windows (neighbours are alike over "
        f"{found.correlation_windows:.1f} windows); {need * found.block_windows} windows are needed"
    )


NO_WINDOWS = (
    "a mean without windows does not show how much it varies by itself: give log lines, or "
    f"metrics scraped at least {FEWEST_BLOCKS + 1} times"
)


def _without_windows(before: Reading, after: Reading, rate: float, effect: float | None) -> Drift:
    pair = totals(before, after)
    if pair is not None:
        return _totals_tested(pair, rate, effect)
    values = before.tokens_per_step, after.tokens_per_step
    if None in values or before.gamma != after.gamma:
        raise InputError(
            "BASELINE and CURRENT must share a measure: tokens per step at one γ, or rates for "
            f"each position; got γ={before.gamma} and γ={after.gamma}"
        )
    level = float(values[0] or 0), float(values[1] or 0)
    return Drift(None, "tokens per step", *level, rate=rate, why=NO_WINDOWS)


def _totals_tested(pair: Totals, rate: float, effect: float | None) -> Drift:
    """One look at two totals; None unless the steps are too few even if independent."""
    limit = float(-ndtri(rate))
    found = Drift(None, pair.measure, pair.before, pair.after, rate=rate)
    if effect is None and pair.z > limit:
        tipping = (pair.z / max(limit, TINY)) ** 2
        why = (
            f"{NO_WINDOWS}. This fall is beyond chance only if the design effect (variance over "
            f"that of independent steps) is below {significant(tipping)}, and totals do not show it"
        )
        return replace(found, tipping=tipping, why=why)
    z = pair.z / math.sqrt(effect or 1.0)
    fallen, p = z > limit, float(ndtr(-z))
    return replace(
        found, fallen=fallen, p_value=p, independent=effect is None, design_effect=effect
    )


# ── the test ─────────────────────────────────────────────────────────────────────────────────


def _falls(means: FloatArray, base: float, spread: float, m: int) -> FloatArray:
    """D_jk as a matrix [k, j] with −∞ for j > k; `means` may have leading axes."""
    blocks = means.shape[-1]
    sums = np.concatenate((np.zeros((*means.shape[:-1], 1)), np.cumsum(means, axis=-1)), axis=-1)
    found = np.full((*means.shape[:-1], blocks, blocks), -np.inf)
    for k in range(blocks):
        lengths = np.arange(k + 1, 0, -1)
        runs = (sums[..., k + 1, None] - sums[..., : k + 1]) / lengths
        found[..., k, : k + 1] = (base - runs) / (spread * np.sqrt(1.0 / m + 1.0 / lengths))
    return found


@lru_cache(maxsize=64)
def _maxima(m: int, k: int) -> FloatArray:
    """max D_jk of logs in which nothing changed, sorted, one a replicate."""
    random = np.random.default_rng(SEED)
    base = random.standard_normal((REPLICATES, 1)) / np.sqrt(m)
    spread = np.sqrt(random.chisquare(m - 1, (REPLICATES, 1)) / (m - 1))
    sums = np.cumsum(random.standard_normal((REPLICATES, k)), axis=1)
    sums = np.concatenate((np.zeros((REPLICATES, 1)), sums), axis=1)
    best = np.full(REPLICATES, -np.inf)
    for length in range(1, k + 1):
        runs = (sums[:, length:] - sums[:, :-length]).min(axis=1, keepdims=True) / length
        fall = (base - runs) / (spread * np.sqrt(1.0 / m + 1.0 / length))
        best = np.maximum(best, fall[:, 0])
    best.sort()
    best.flags.writeable = False
    return best


def alarm_limit(baseline_blocks: int, current_blocks: int, rate: float) -> float:
    """The limit that max D_jk exceeds with probability `rate` where nothing changed."""
    return float(np.quantile(_maxima(baseline_blocks, current_blocks), 1.0 - rate))


def _tested(found: Drift, current: Blocks, now: Series, base: float, spread: float) -> Drift:
    m, k = found.baseline_blocks, found.current_blocks
    falls = _falls(current.means, base, spread, m)
    maxima, limit = _maxima(m, k), alarm_limit(m, k, found.rate)
    largest = float(falls.max())
    p_value = (1 + maxima.size - int(np.searchsorted(maxima, largest))) / (maxima.size + 1)
    smallest = limit * spread * math.sqrt(1.0 / m + 1.0 / k)
    found = replace(found, fallen=largest > limit, p_value=p_value, smallest=smallest)
    if not found.fallen:
        return found
    start = _start(falls)
    alarms = start + np.flatnonzero(falls[start:].max(axis=1) > limit)
    first, seen = current.first[start], current.last[int(alarms[0])]
    after = float(np.average(now.values[first:], weights=now.weights[first:]))
    return replace(
        found, after=after,
        since_line=now.lines[first], since=now.times[first],
        detected_line=now.lines[seen], detected=now.times[seen],
        abrupt=_abrupt(current.means, start, base),
    )  # fmt: skip


def _start(falls: FloatArray) -> int:
    """Where the change began: the first block of the run that lies furthest below."""
    last, _ = np.unravel_index(int(np.argmax(falls)), falls.shape)
    return int(np.argmax(falls[last]))


def _abrupt(means: FloatArray, start: int, base: float) -> bool | None:
    """Whether one step from μ₀ fits better than a straight slope; None with under 4 blocks."""
    if means.size < 4:
        return None
    level = np.where(np.arange(means.size) < start, base, means[start:].mean())
    slope, offset = np.polyfit(np.arange(means.size), means, 1)
    ramp = offset + slope * np.arange(means.size)
    return bool(((means - level) ** 2).sum() <= ((means - ramp) ** 2).sum())
