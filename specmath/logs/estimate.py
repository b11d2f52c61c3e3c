"""Acceptance from counts: α by the route that the counts allow, and its 95% interval.

Symbols: N verify steps that carried a draft, D tokens drafted, A accepted, R_i = s_i survival,
g the draft length. A step is a chain: it accepts until its first rejection.

α is the chance that a drafted token is accepted, given all before it in the draft were, over all
tokens tried: where traffic differs from window to window, the share of the pooled tries, in which a
window counts by its load. Its interval holds, 95 times of 100, what the same traffic gives in the
long run, by the spread over windows (specmath.logs.spread). A total without windows, or fewer than
four of them, does not show that: no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray
from specmath.estimate import Z95, step_variance, wilson
from specmath.logs.reading import Counts, Reading, Route, Window
from specmath.logs.spread import FEWEST, TELLING, ratio_spread

__all__ = [
    "TOO_FEW", "Alpha", "Ends", "alpha_bounds", "binomial_alpha", "estimate_alpha",
    "independent_interval", "invert_accepted", "survival_ends", "window_ends",
]  # fmt: skip

SAME = 0.005
INDEPENDENT = "95%, steps taken as independent"
UNTOLD = "no interval: the steps are not told"
TOO_FEW = "too few windows to say"

Ends = tuple[FloatArray, FloatArray] | None
"""The low and the high ends of several numbers; None where nothing tells them."""


@dataclass(frozen=True, slots=True)
class Alpha:
    """An estimate, how it was obtained, its interval and what the interval covers.

    Without an interval `interval_basis` says why, where there is an estimate.
    """

    value: float | None = None
    route: Route | None = None
    basis: str | None = None
    interval: tuple[float, float] | None = None
    interval_basis: str | None = None


def invert_accepted(accepted_per_step: float, drafted_per_step: float) -> float:
    """α of which a step that drafts g tokens accepts Σ_{i=1..g} α^i on average.

    A g between whole numbers is a mixture of the two lengths beside it, which is exact where the
    length of a draft does not depend on its text. Bisection: the sum is monotone in α. Values at
    or beyond the ends give 0 and 1.
    """
    if accepted_per_step <= 0.0:
        return 0.0
    if accepted_per_step >= drafted_per_step:
        return 1.0
    shares, powers = _shares(drafted_per_step)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(shares @ middle**powers) < accepted_per_step:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _shares(length: float) -> tuple[FloatArray, FloatArray]:
    """The share of steps that draft an i-th token, and i = 1, 2, …, where `length` is the mean."""
    whole = math.floor(length)
    return np.append(np.ones(whole), length - whole), np.arange(1, whole + 2, dtype=np.float64)


def alpha_bounds(
    steps: float, drafted: float, accepted: float, last_survival: float, gamma: int
) -> tuple[float, float]:
    """α = A / (A + rejections), from the most and the fewest rejections the counts allow.

    The most: every step that did not accept g tokens was rejected somewhere, N(1 − R_g). A draft
    that stopped early may have been accepted whole; the N·g − D missing tokens allow for at most
    that many such steps, and the D − A tokens lost need (D − A)/g rejections at least.
    """
    most = max(steps * (1.0 - last_survival), 0.0)
    fewest = min(max(most - max(steps * gamma - drafted, 0.0), (drafted - accepted) / gamma), most)
    low = accepted / (accepted + most) if accepted + most > 0 else 0.0
    high = accepted / (accepted + fewest) if accepted + fewest > 0 else 1.0
    return low, high


def binomial_alpha(accepted: float, trials: float, route: Route, basis: str) -> Alpha:
    """α where single tokens were tried: accepted / trials, of all windows together."""
    if trials <= 0 or not 0 <= accepted <= trials:
        return Alpha()
    return Alpha(accepted / trials, route, basis, None, TOO_FEW)


def estimate_alpha(counts: Counts, windows: Sequence[Window] = ()) -> Alpha:
    """The best α the counts allow: per position, else inverted share, else inverted τ.

    Per position: maximum likelihood for i.i.d. acceptance, accepted over accepted plus rejected.
    Otherwise Σ_{i≤g} α^i = A/N is solved for α, which needs the draft length g.
    """
    steps, drafted, accepted, gamma = counts.steps, counts.drafted, counts.accepted, counts.gamma
    if counts.survival:
        return _per_position(counts, counts.survival, windows)
    if gamma is None or gamma < 1:
        return Alpha()
    length, basis = float(gamma), "inverted tokens per step"
    route: Route = "tokens per step"
    if drafted and accepted is not None:
        length = min(drafted / steps, length) if steps else length
        mean = min(accepted / drafted, 1.0) * length
        route, basis = "share", "inverted share"
        if length < gamma - SAME:
            route, basis = "share of mean draft", "inverted share at the mean draft length"
    elif counts.tokens_per_step is not None:
        mean = counts.tokens_per_step - 1.0
    else:
        return Alpha()
    value = invert_accepted(mean, length)
    error = _accepted(windows, value, length)
    if error is None:
        return Alpha(value, route, basis, None, TOO_FEW)
    return Alpha(value, route, basis, error.around(value, value), error.over)


def _per_position(counts: Counts, survival: Sequence[float], windows: Sequence[Window]) -> Alpha:
    route: Route = "histogram" if counts.histogram else "per position"
    basis = route.replace(" ", "-")
    gamma, total = len(survival), float(sum(survival))
    steps, drafted, accepted = counts.steps, counts.drafted, counts.accepted
    if steps is None or drafted is None or accepted is None:
        trials = total + 1.0 - survival[-1]
        return Alpha(total / trials, route, basis, None, TOO_FEW) if trials > 0 else Alpha()
    if steps <= 0 or drafted <= 0:
        return Alpha()
    low, high = alpha_bounds(steps, drafted, accepted, survival[-1], gamma)
    error = _tried(windows, gamma) or _accepted(windows, low, gamma)
    if high - low < SAME:
        if error is None:
            return Alpha(low, route, basis, None, TOO_FEW)
        return Alpha(low, route, basis, error.around(low, high), error.over)
    if error is None:
        trials = accepted + steps * (1.0 - survival[-1])
        error = _Error(0.0, Z95, trials, f"{TOO_FEW} more than {INDEPENDENT}")
    over = f"whichever drafts stopped early; {error.over}"
    basis += ", a lower bound: drafts vary in length"
    return Alpha(low, "lower bound", basis, error.around(low, high), over)


# ── the error over windows ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Error:
    """The variance of α over windows (0: not seen), by how many of its roots the interval reaches,
    how many tokens were tried, and what the interval covers."""

    variance: float
    reach: float
    trials: float
    over: str

    def around(self, low: float, high: float) -> tuple[float, float]:
        """Wilson's interval, of as many independent tries as have this variance."""
        trials, binomial = self.trials, low * (1.0 - low)
        if binomial > 0.0 and self.variance > 0.0:
            trials = binomial / self.variance
        ends = wilson((low, high), trials, self.reach)
        return float(ends[0][0]), float(ends[1][1])


def _error(
    sums: FloatArray, sizes: FloatArray, chance: float, slope: float, tries: float
) -> _Error | None:
    """Of Σ sums / Σ sizes, which rises by `slope` a unit of α; `tries` a unit of size."""
    kept = sizes > 0.0
    found = ratio_spread(sums[kept], sizes[kept], chance)
    if found is None:
        return None
    windows = int(kept.sum())
    over = f"95%, by the spread over {windows} windows"
    if found.length > 1:
        over += f" in {found.blocks} blocks"
    elif windows < TELLING:
        over += ", neighbours taken as unlike"
    return _Error(found.variance / slope**2, found.reach, tries * float(sizes.sum()), over)


def _tried(windows: Sequence[Window], gamma: int) -> _Error | None:
    """Of accepted over tried tokens; None unless enough windows, and all, tell their γ rates."""
    rows = []
    for w in windows:
        if not w.steps or w.accepted is None:
            continue
        if not w.survival or len(w.survival) != gamma:
            return None
        rows.append((w.accepted, w.accepted + w.steps * (1.0 - w.survival[-1])))
    if len(rows) < FEWEST:
        return None
    accepted, tried = np.array(rows, dtype=np.float64).T
    share = float(accepted.sum()) / max(float(tried.sum()), 1.0)
    return _error(accepted, tried, share * (1.0 - share), 1.0, 1.0)


def _accepted(windows: Sequence[Window], alpha: float, length: float) -> _Error | None:
    """Of accepted tokens over steps, at the slope of Σ α^i; over weights without steps."""
    rows = [
        (float(w.accepted), float(w.steps)) for w in windows if w.steps and w.accepted is not None
    ]
    counted = len(rows) >= FEWEST
    if not counted:
        rows = [
            (w.weight * (w.tokens_per_step - 1.0), w.weight)
            for w in windows
            if w.tokens_per_step is not None
        ]
    if len(rows) < FEWEST:
        return None
    accepted, steps = np.array(rows, dtype=np.float64).T
    shares, powers = _shares(length)
    reached = shares * alpha**powers
    slope = float((shares * powers) @ alpha ** (powers - 1.0))
    tries = float(shares @ alpha ** (powers - 1.0))
    chance = step_variance(reached.tolist()) if counted else 0.0
    return _error(accepted, steps, chance, slope, tries)


def independent_interval(alpha: float, gamma: int, steps: float) -> tuple[float, float]:
    """95% of α inverted from a mean, were its steps independent: no interval is narrower.

    For what must not be taken as certain where windows do not tell more.
    """
    shares, powers = _shares(gamma)
    tries = float(shares @ alpha ** (powers - 1.0))
    variance = step_variance((shares * alpha**powers).tolist()) / steps
    slope = float((shares * powers) @ alpha ** (powers - 1.0))
    return _Error(variance / slope**2, Z95, tries * steps, INDEPENDENT).around(alpha, alpha)


# ── for charts and tables ─────────────────────────────────────────────────────────────────────


def survival_ends(reading: Reading) -> tuple[Ends, str]:
    """Of s_1 … s_γ of a reading with survival, and what they rest on.

    By the spread over the windows that tell all rates, as that of α.
    """
    survival = reading.survival or ()
    rows = [w for w in reading.windows if w.steps and len(w.survival or ()) == len(survival)]
    if not survival or not reading.steps or len(rows) < FEWEST:
        return None, TOO_FEW if reading.steps else UNTOLD
    steps = np.array([float(w.steps or 0) for w in rows])
    reached = np.array([w.survival for w in rows]) * steps[:, None]
    errors = [
        _error(column, steps, rate * (1.0 - rate), 1.0, 1.0)
        for column, rate in zip(reached.T, survival, strict=True)
    ]
    if None in errors:
        return None, TOO_FEW
    pairs = [e.around(rate, rate) for e, rate in zip(errors, survival, strict=True) if e]
    low, high = np.array(pairs).T
    return (low, high), f"95%, by the spread over {len(rows)} windows"


def window_ends(reading: Reading) -> tuple[Ends, str]:
    """Of the tokens per step of each window that tells them, from its own steps; and their basis.

    The variance of a step is that of the reading's survival, or of its α at every position.
    """
    rows = [w for w in reading.windows if w.tokens_per_step is not None]
    survival = reading.survival
    if survival is None and reading.alpha is not None and reading.gamma:
        survival = tuple(reading.alpha**i for i in range(1, reading.gamma + 1))
    if survival is None or not all(w.steps for w in rows):
        return None, UNTOLD
    tokens = np.array([w.tokens_per_step for w in rows], dtype=float)
    steps = np.array([w.steps for w in rows], dtype=float)
    half = Z95 * np.sqrt(step_variance(survival) / steps)
    return (tokens - half, tokens + half), INDEPENDENT
