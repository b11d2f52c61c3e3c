"""Has acceptance fallen? A sequential test with a stated false-alarm rate.

Blocks of the current log are looked at one by one. After each the test asks of every run of
current blocks that ends there how far its mean lies below that of the baseline's blocks
(specmath.logs.drift_limits), and alarms where one exceeds a limit. The limit is the quantile of the
largest such fall in the whole log under no change, so the probability of any alarm in it is the
stated rate. specmath.logs.blocks cuts both logs so that a current block varies no more than the
baseline's do. How near simulation comes to the stated rate is told in docs/logs.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtri, ndtr, ndtri

from specmath.checks import FloatArray, InputError, real
from specmath.logs.blocks import FEWEST_EVENTS, Blocks, Plan, Series, comparable, cut, plan
from specmath.logs.drift_limits import MOST_LOOKS, alarm_limit, falls, maxima, stretched
from specmath.logs.drift_totals import Totals, totals
from specmath.logs.record import Reading
from specmath.wording import count, significant

__all__ = ["SHORT", "Drift", "drift"]

FEWEST_BLOCKS = 6
SHORT = 50
"""Windows: n of a baseline do not show its correlation well; spread is widened √(1 + (50/n)²)."""

TINY = 1e-9


@dataclass(frozen=True)
class Drift:
    """What a comparison found.

    `fallen` is None where the logs cannot tell (`why`). `before` and `after` are means of
    `measure`; `after` and `since` (line and time) belong to the run of blocks that lies furthest
    below chance. Where it has ended, `until` is its last window and `later` the mean since.
    `p_value` is that of the whole current log; `detected` is where the alarm would first have been
    raised, which an earlier fall may have done. `smallest` is the fall that would have been seen
    about half the time or more (42 to 69% in simulation) had it lasted for all of the current log.
    `tokens_before` and `tokens_after` are tokens per step at the γ that each side ran, over the
    same windows as `before` and `after`.

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
    return _windows_tested(*pair, rate)


def _windows_tested(base: Series, now: Series, rate: float) -> Drift:
    how = plan(base)
    blocks = cut(base, how)
    m = blocks.means.size
    found = Drift(
        None, base.measure, base.mean, now.mean, rate=rate, baseline_blocks=m,
        block_windows=how.windows, baseline_windows=base.values.size, correlation_windows=how.tau,
        tokens_before=_tokens(base, slice(None)), tokens_after=_tokens(now, slice(None)),
    )  # fmt: skip
    if np.ptp(base.values) <= TINY and base.values.size >= FEWEST_BLOCKS:
        why = "the baseline does not vary at all: too few digits, or the same line again"
        return replace(found, why=why)
    if m < FEWEST_BLOCKS:
        return replace(found, why=_baseline_too_short(base, how, m))
    as_sure = replace(
        how, wander=float(blocks.wander.mean()), weight=float(1.0 / (1.0 / blocks.weights).mean())
    )
    current = cut(now, as_sure)
    each = float(np.mean(np.subtract(blocks.last, blocks.first))) + 1.0
    found = replace(found, current_blocks=current.means.size, block_windows=round(each))
    if not current.means.size:
        return replace(found, why=_current_too_short(base, now, as_sure))
    left = 1.0 - how.tau / (2.0 * max(each, how.tau)) if how.tau > 1.0 else 1.0
    widened = math.sqrt((1.0 + (SHORT / base.values.size) ** 2) / left)
    return _tested(found, blocks, current, now, _ceiling(base, now), widened)


def _tokens(series: Series, part: slice) -> float | None:
    """Mean tokens per step at the γ that ran; None where a window does not tell."""
    value = float(np.average(series.tokens[part], weights=series.weights[part]))
    return None if math.isnan(value) else value


def _ceiling(base: Series, now: Series) -> float | None:
    if base.ceiling is None or now.ceiling is None:
        return None
    return max(base.ceiling, now.ceiling, float(base.values.max()), float(now.values.max()))


def _baseline_too_short(base: Series, how: Plan, blocks: int) -> str:
    because = f"neighbours are alike over {how.tau:.1f} windows"
    if how.scarce:
        because = f"{how.scarce} drafts are rare in it, and a block needs {FEWEST_EVENTS}"
    return (
        f"the baseline is too short: its {base.values.size} windows hold {blocks} independent "
        f"blocks of about {how.windows} windows ({because}); about {FEWEST_BLOCKS * how.windows} "
        "windows are needed"
    )


def _current_too_short(base: Series, now: Series, how: Plan) -> str:
    """Which is missing, windows or steps, and how much of the current log would do."""
    size, each = now.values.size, float(now.weights.mean())
    by_weight = math.ceil(how.weight / each)
    quieter = by_weight > how.windows
    because = f"a block of the baseline holds {count(how.windows, 'window')}"
    if quieter:
        because = (
            f"it is quieter than the baseline ({significant(each)} against "
            f"{significant(float(base.weights.mean()))} {base.unit} a window), and "
            f"a block must hold as many as one of the baseline's, {significant(how.weight)}"
        )
    need = max(by_weight, how.windows, size + 1)
    return (
        f"the current log is too short: {because}; about {need} windows are needed, it has {size}"
    )


NOTHING_SEEN = (
    "the logs are too short: even if no draft were accepted any more they could not show it; give "
    f"{SHORT} windows or more of each"
)
NO_WINDOWS = (
    "a mean without windows does not show how much it varies by itself: give log lines, or "
    f"metrics scraped at least {FEWEST_BLOCKS + 1} times, better {SHORT} or more"
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
    found = Drift(
        None, pair.measure, pair.before, pair.after, rate=rate,
        tokens_before=pair.tokens_before, tokens_after=pair.tokens_after,
    )  # fmt: skip
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


def _tested(
    found: Drift, blocks: Blocks, current: Blocks, now: Series, ceiling: float | None,
    widened: float,
) -> Drift:  # fmt: skip
    scale = stretched(blocks.means, ceiling)
    base, spread = float(scale.mean()), float(scale.std(ddof=1)) * widened
    m, g = scale.size, math.ceil(current.means.size / MOST_LOOKS)
    looks = current.means.size // g
    each = stretched(current.means, ceiling)[: looks * g].reshape(looks, g).mean(axis=1)
    seen = falls(each, base, max(spread, TINY), m, g)
    chance, limit = maxima(m, looks, g), alarm_limit(m, looks, found.rate, g)
    largest = float(seen.max())
    p_value = (1 + chance.size - int(np.searchsorted(chance, largest))) / (chance.size + 1)
    shift = limit * spread * math.sqrt(1.0 / m + 1.0 / (g * looks))
    smallest = shift if ceiling is None else shift * (shift - 2.0 * base)
    found = replace(found, fallen=largest > limit, p_value=p_value, smallest=smallest)
    if not found.fallen:
        blind = smallest >= found.before - now.floor
        return replace(found, fallen=None, why=NOTHING_SEEN) if blind else found
    alarm = int(np.flatnonzero(seen.max(axis=1) > limit)[0])
    stop, start = np.unravel_index(int(np.argmax(seen)), seen.shape)
    at = current.last[(alarm + 1) * g - 1]
    found = replace(found, detected_line=now.lines[at], detected=now.times[at])
    return _described(found, blocks, current, now, int(start) * g, (int(stop) + 1) * g)


def _described(
    found: Drift, blocks: Blocks, current: Blocks, now: Series, start: int, stop: int
) -> Drift:
    """The run of current blocks start … stop−1 in numbers: how low, from where, until where.

    It lasts to the end of the log unless what follows is nearer to the baseline than to the run.
    """
    level, first, end = float(blocks.means.mean()), current.first[start], current.last[stop - 1] + 1
    low = _mean(now, slice(first, end))
    rest = slice(end, None)
    if stop < current.means.size and _mean(now, rest) >= 0.5 * (level + low):
        found = replace(
            found, later=_mean(now, rest), until_line=now.lines[end - 1], until=now.times[end - 1]
        )  # fmt: skip
    else:
        end, stop = now.values.size, current.means.size
    part = slice(first, end)
    return replace(
        found, after=_mean(now, part), tokens_after=_tokens(now, part),
        since_line=now.lines[first], since=now.times[first],
        abrupt=_abrupt(current.means[:stop], start, level),
    )  # fmt: skip


def _mean(series: Series, part: slice) -> float:
    return float(np.average(series.values[part], weights=series.weights[part]))


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
