"""Acceptance from counts: α by the route that the counts allow, with an interval.

Symbols: N verify steps that carried a draft, D tokens drafted, A accepted, R_i = s_i survival,
g the draft length. A step is a chain: it accepts until its first rejection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from specmath.logs.record import Window

__all__ = [
    "Alpha",
    "alpha_bounds",
    "binomial_alpha",
    "conditional",
    "estimate_alpha",
    "invert_accepted",
    "wilson",
]

Z95 = float(ndtri(0.975))
FEWEST_WINDOWS = 10
SAME = 0.005


@dataclass(frozen=True, slots=True)
class Alpha:
    """An estimate, how it was obtained, its interval and what the interval covers."""

    value: float | None = None
    basis: str | None = None
    interval: tuple[float, float] | None = None
    interval_basis: str | None = None


def conditional(survival: Sequence[float]) -> tuple[float, ...]:
    """a_i = s_i / s_{i−1}, with s_0 = 1; stops at the first position never reached."""
    rates, before = [], 1.0
    for rate in survival:
        if before <= 0.0:
            break
        rates.append(rate / before)
        before = rate
    return tuple(rates)


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
    whole = math.floor(drafted_per_step)
    powers = np.arange(1, whole + 2, dtype=np.float64)
    shares = np.append(np.ones(whole), drafted_per_step - whole)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(shares @ middle**powers) < accepted_per_step:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


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


def binomial_alpha(accepted: float, trials: float, basis: str) -> Alpha:
    """α where single tokens were tried: accepted / trials, with Wilson's interval."""
    if trials <= 0 or not 0 <= accepted <= trials:
        return Alpha()
    share = accepted / trials
    return Alpha(share, basis, wilson(share, trials), "95%, tokens taken as independent")


def estimate_alpha(
    *,
    steps: float | None,
    drafted: float | None,
    accepted: float | None,
    survival: Sequence[float] | None,
    gamma: int | None,
    tokens_per_step: float | None,
    from_histogram: bool = False,
    windows: Sequence[Window] = (),
) -> Alpha:
    """The best α the counts allow: per position, then inverted share, then inverted τ.

    Per position: maximum likelihood for i.i.d. acceptance, accepted over accepted plus rejected.
    Otherwise Σ_{i≤g} α^i = A/N is solved for α, which needs the draft length g.
    """
    if survival:
        return _per_position(steps, drafted, accepted, survival, from_histogram, windows)
    if gamma is None or gamma < 1:
        return Alpha()
    if drafted and accepted is not None:
        mean_length = min(drafted / steps, float(gamma)) if steps else float(gamma)
        share = min(accepted / drafted, 1.0)
        value = invert_accepted(share * mean_length, mean_length)
        basis = "inverted share"
        if mean_length < gamma - SAME:
            basis += " at the mean draft length"
        interval, how = _inverted_interval(
            value, share * mean_length, mean_length, steps or drafted / gamma, windows
        )
        return Alpha(value, basis, interval, how)
    if tokens_per_step is not None:
        value = invert_accepted(tokens_per_step - 1.0, float(gamma))
        if not steps:
            return Alpha(value, "inverted tokens per step")
        interval, how = _inverted_interval(
            value, tokens_per_step - 1.0, float(gamma), steps, windows
        )
        return Alpha(value, "inverted tokens per step", interval, how)
    return Alpha()


def _per_position(
    steps: float | None,
    drafted: float | None,
    accepted: float | None,
    survival: Sequence[float],
    from_histogram: bool,
    windows: Sequence[Window],
) -> Alpha:
    basis = "histogram" if from_histogram else "per-position"
    gamma, total = len(survival), float(sum(survival))
    if steps is None or drafted is None or accepted is None:
        trials = total + 1.0 - survival[-1]
        return Alpha(total / trials, basis) if trials > 0 else Alpha()
    low, high = alpha_bounds(steps, drafted, accepted, survival[-1], gamma)
    if steps <= 0 or drafted <= 0:
        return Alpha()
    effect, how = _design_effect(windows, survival)
    trials = (accepted + steps * (1.0 - survival[-1])) / effect
    bottom, top = wilson(low, trials)[0], wilson(high, trials)[1]
    if high - low < SAME:
        return Alpha(low, basis, (bottom, top), how)
    return Alpha(
        low,
        f"{basis}, a lower bound: drafts vary in length",
        (bottom, top),
        f"whichever drafts stopped early; {how}",
    )


def wilson(share: float, trials: float) -> tuple[float, float]:
    """Wilson's 95% score interval of a binomial share (Wilson 1927)."""
    if trials <= 0:
        return 0.0, 1.0
    square = Z95 * Z95 / trials
    centre = (share + 0.5 * square) / (1.0 + square)
    half = math.sqrt(share * (1.0 - share) * square + 0.25 * square * square) / (1.0 + square)
    # At 0 and 1 an end is the share itself, but for rounding.
    return max(min(centre - half, share), 0.0), min(max(centre + half, share), 1.0)


def _step_variance(survival: Sequence[float]) -> float:
    """Variance of the accepted tokens of one step: E[L²] − E[L]², with P(L ≥ i) = s_i."""
    rates = np.asarray(survival, dtype=np.float64)
    index = np.arange(1, rates.size + 1)
    return max(float(((2 * index - 1) * rates).sum() - rates.sum() ** 2), 0.0)


def _design_effect(windows: Sequence[Window], survival: Sequence[float]) -> tuple[float, str]:
    """How much wider than independent steps the spread over windows says the error is (≥ 1).

    The ratio estimator ΣA/ΣN, its variance taken over windows, against Var(L)/N.
    """
    pairs = [(w.accepted, w.steps) for w in windows if w.steps and w.accepted is not None]
    alone = "95%, steps taken as independent"
    if len(pairs) < FEWEST_WINDOWS:
        return 1.0, alone
    accepted, steps = np.asarray(pairs, dtype=np.float64).T
    residual = accepted - steps * (accepted.sum() / steps.sum())
    clustered = float((residual**2).sum()) * len(pairs) / (len(pairs) - 1) / steps.sum() ** 2
    independent = _step_variance(survival) / steps.sum()
    if independent <= 0.0 or clustered <= independent:
        return 1.0, alone
    effect = clustered / independent
    return float(effect), f"95%, widened by the spread over {len(pairs)} windows"


def _inverted_interval(
    value: float, mean: float, length: float, steps: float, windows: Sequence[Window]
) -> tuple[tuple[float, float], str]:
    survival = [value**i for i in range(1, max(math.ceil(length), 1) + 1)]
    effect, how = _design_effect(windows, survival)
    half = Z95 * math.sqrt(effect * _step_variance(survival) / steps)
    # At 0 or 1 the variance vanishes; the rule of three keeps the interval from collapsing.
    low = invert_accepted(mean - max(half, 3.0 * length / steps * (value >= 1.0)), length)
    high = invert_accepted(mean + max(half, 3.0 / steps * (value <= 0.0)), length)
    return (low, high), how
