"""How far a mean over windows may be off, from the spread of the windows themselves.

The mean is a ratio of sums over windows, r = Σ y_i / Σ n_i, so that a window counts by its load
(Cochran 1977, Sampling Techniques, Sec. 6.4). Its error has two parts: the chance of the steps,
which shrinks with a window's size, and the wander of traffic, which does not:

    Var(y_i/n_i) = Ω_i = ν/n_i + σ²        Var(r) = Σ w_i² Ω_i,   w_i = n_i / Σ n

ν is known where steps are counted, σ² comes from the residuals e_i = y_i/n_i − r (moments, never
below 0). The variance is Σ w_i² a_i e_i², with a_i = Ω_i/(Ω_i (1 − 2 w_i) + Var(r)), which makes it
unbiased (Bell, McCaffrey 2002). The quotient of r's error and its root is Student's t with one
degree of freedom less than windows where windows weigh alike. Where they do not, its law under Ω is
that of two quadratic forms in Gaussians, and its quantile is computed (`critical`).

Windows of one server are alike because its traffic is. They are joined into blocks long enough that
blocks may be taken as independent, as far as the windows tell (`block_length`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, stdtrit

from specmath.checks import FloatArray, IntArray

__all__ = [
    "ENOUGH", "FEWEST", "TELLING", "RatioSpread", "autocorrelation_time", "block_length",
    "block_starts", "critical", "ratio_spread",
]  # fmt: skip

FEWEST = 4
"""Windows, or blocks of them, below which the spread says too little for an interval."""

TELLING = 16
"""Windows below which their order does not show whether neighbours are alike."""

MOST_BLOCKS = 64
WIDTH = 3.0
"""Windows of a block in autocorrelation times."""

WINDOW = 5.0
"""Lags to which correlations are summed, in autocorrelation times."""

ENOUGH = 45
BEYOND_CHANCE = 1.5, 2.0
"""Standard errors by which a sum of correlations must exceed 0 to count: of fewer than ENOUGH
windows, which show so little that the side of caution is the longer block; and of more."""

LEVEL = 0.95
LEAST = 0.05
"""The variance is not taken below what 19 of 20 logs of independent steps show."""

FLAT = 1e-12
EXACT = 1e-9
NODES = 32
_SQUARES = np.sin((np.arange(NODES) + 0.5) / NODES * np.pi / 2.0) ** 2


@dataclass(frozen=True, slots=True)
class RatioSpread:
    """The variance of a ratio, by how many of its roots the 95% interval reaches, from so many
    blocks of so many windows."""

    variance: float
    reach: float
    blocks: int
    length: int


# ── blocks of windows that may be taken as independent ────────────────────────────────────────


def autocorrelation_time(parts: FloatArray) -> float:
    """τ_int = 1 + 2 Σ_k ρ_k in windows, as far as it exceeds chance; at least 1.

    `parts` are what each window adds to the error of the mean, w_i (y_i/n_i − r). The sum is taken
    to M = 1, 2, 4, … n/4 lags, because a weak correlation over many windows shows in a long sum
    only; each has the standard error 2 √(M/n) where nothing is correlated, and counts where it is
    so many of them above 1 (BEYOND_CHANCE). The largest up to M = 5 τ is taken, raised by half its
    relative error √(2(2M+1)/n) (Sokal 1997, Functional Integration, Sec. 3). Each ρ_k is raised by
    1/n, what estimating the mean from the same n windows takes off it (Kendall 1954).
    """
    n = parts.size
    centred = parts - parts.mean()
    variance = float(centred @ centred)
    if n < TELLING or variance <= FLAT * max(1e-300, float(parts @ parts)):
        return 1.0
    size = 1 << (2 * n - 1).bit_length()
    powers = np.abs(np.fft.rfft(centred, size)) ** 2
    sums = np.cumsum(np.fft.irfft(powers, size)[1 : n // 4 + 1] / variance + 1.0 / n)
    beyond = BEYOND_CHANCE[n >= ENOUGH]
    tau, raised, lags = 1.0, 1.0, 1
    while lags <= n // 4 and not 1.0 < tau < lags / WINDOW:
        total = 1.0 + 2.0 * float(sums[lags - 1])
        if total > max(tau, 1.0 + beyond * 2.0 * math.sqrt(lags / n)):
            tau, raised = total, total * (1.0 + math.sqrt((2 * lags + 1) / (2 * n)))
        lags *= 2
    return raised


def block_length(parts: FloatArray, unseen: int = 1) -> int:
    """Windows of a block: three autocorrelation times; where none is seen, `unseen` of them.

    That is more than one where windows allow it: a correlation too weak to be seen is weaker
    between blocks than between windows.
    """
    tau = autocorrelation_time(parts)
    return max(math.ceil(WIDTH * tau) if tau > 1.0 else 1, unseen)


def block_starts(windows: int, blocks: int) -> IntArray:
    """The first window of each of `blocks` blocks as even as can be."""
    return np.arange(blocks) * windows // blocks


# ── the error of a ratio ─────────────────────────────────────────────────────────────────────


def ratio_spread(sums: FloatArray, sizes: FloatArray, chance: float = 0.0) -> RatioSpread | None:
    """The error of Σ sums / Σ sizes over windows in their order; None where they are too few.

    Parameters
    ----------
    sums, sizes
        y_i and n_i > 0 of each window.
    chance
        ν: the variance of a window's ratio times its size where steps are independent; 0 where it
        is not known.

    Examples
    --------
    >>> found = ratio_spread(np.array([1.0, 2, 3, 4, 5, 3]), np.full(6, 10.0))  # e = −.2, −.1, …
    >>> round(found.variance * 300, 9), round(found.reach, 3)  # Σe²/(6·5), Student's t of 5
    (1.0, 2.571)
    """
    if sizes.size < FEWEST:
        return None
    count = sizes.size
    unseen = 3 if count >= ENOUGH else 2 if count >= 15 * 2 else 1
    length = block_length(sums - sums.sum() / sizes.sum() * sizes, unseen)
    blocks = min(count // length, MOST_BLOCKS)
    if blocks < FEWEST:
        return None
    starts = block_starts(count, blocks)
    y, n = np.add.reduceat(sums, starts), np.add.reduceat(sizes, starts)
    total = float(n.sum())
    weights, errors = n / total, y / n - float(y.sum()) / total
    varies = _variances(n, errors, chance)
    unbiased = varies / (varies * (1.0 - 2.0 * weights) + float(weights**2 @ varies))
    variance = float(weights**2 * unbiased @ errors**2)
    free = blocks - 1
    least = chance / total * float(chdtri(free, 1.0 - LEAST)) / free
    root = np.sqrt(varies)
    # Of standard Gaussians x: r's error is p·x, and its variance estimate |F x|².
    form = (weights * np.sqrt(unbiased))[:, None] * (np.eye(blocks) - weights) * root
    reach = critical(weights * root, form.T @ form)
    return RatioSpread(max(variance, least), reach, blocks, math.ceil(count / blocks))


def _variances(sizes: FloatArray, errors: FloatArray, chance: float) -> FloatArray:
    """Ω_i, with σ² by moments: Σ n e² is (k−1) ν + σ² (Σ n − Σ n²/Σ n) in the mean."""
    total = float(sizes.sum())
    excess = float(sizes @ errors**2) - (sizes.size - 1) * chance
    wander = max(excess / (total - float(sizes @ sizes) / total), 0.0)
    found = chance / sizes + wander
    return found if float(found.max()) > 0.0 else np.ones_like(sizes)


def critical(direction: FloatArray, form: FloatArray, level: float = LEVEL) -> float:
    """c of P(|p·x| > c √(x'Cx)) = 1 − level for standard Gaussians x: `direction` p, `form` C.

    p p' − c² C has one positive eigenvalue μ and negative ones −m_j; the probability that its form
    is positive is 2/π ∫_0^{π/2} Π_j (1 + m_j/(μ sin²θ))^{−1/2} dθ (Craig 1991, for Gaussians). The
    product follows from the eigenvalues λ of C alone, for any c, by the secular equation
    Σ q²/(μ + c²λ) = 1 with q the components of p.

    Examples
    --------
    >>> apart = np.eye(5) - 0.2  # a mean of five against their spread: Student's t of 4
    >>> round(critical(np.full(5, 0.2), apart / 20), 3)
    2.776
    """
    values, vectors = np.linalg.eigh(form)
    values = np.maximum(values, 0.0)
    squares = (vectors.T @ direction) ** 2
    wanted = math.log(1.0 - level)

    def miss(log_c: float) -> float:
        return math.log(_beyond(values * math.exp(2.0 * log_c), squares)) - wanted

    # The secant in logarithms, in which the tail is almost straight.
    last = math.log(float(stdtrit(max(direction.size - 1, 1), 0.5 + level / 2.0)))
    before = miss(last)
    if abs(before) < EXACT:
        return math.exp(last)
    here = last + 0.1
    for _ in range(30):
        now = miss(here)
        if abs(now) < EXACT or now == before:
            break
        step = now * (here - last) / (now - before)
        last, before, here = here, now, here - min(max(step, -1.0), 1.0)
    return math.exp(here)


def _beyond(scaled: FloatArray, squares: FloatArray) -> float:
    """The probability above, for c² λ and q²."""
    top = float(squares[scaled <= FLAT * scaled.max()].sum()) or FLAT
    for _ in range(60):  # Newton from the left of a falling convex function: monotone
        shares = squares / (top + scaled)
        step = (float(shares.sum()) - 1.0) / float((shares / (top + scaled)).sum())
        top += step
        if abs(step) <= 1e-12 * top:
            break
    at = top * _SQUARES[:, None]
    logs = np.log1p(scaled / at).sum(axis=1)
    rest = at[:, 0] * (squares / ((top + scaled) * (at + scaled))).sum(axis=1)
    return float(np.mean(np.exp(-0.5 * (logs + np.log(rest)))))
