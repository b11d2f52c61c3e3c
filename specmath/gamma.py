"""Choosing γ: optimum, crossover and break-even, for one α at every position.

Everything here broadcasts over numpy arrays; a γ is a Python int for scalar input and an int64
array otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specmath.checks import FloatArray, IntArray, real, whole
from specmath.theorems import alpha_kernel, blockwise, operations_kernel, walltime_kernel

__all__ = [
    "breakeven_alpha",
    "crossover_gamma",
    "optimal_gamma",
]

# Far beyond any draft, and small enough for float64 to tell γ from γ+1 in every formula.
_GAMMA_LIMIT = 10**9
# Two γ whose gain differs by less than this, relative, are a tie: rounding decides below it.
_TIE = 1e-14
_TINY, _BELOW_ONE = float(np.finfo(np.float64).tiny), 1.0 - 2.0**-53
# The best integer is the one next above the real optimum less this: 0.5 at α = 1, 0.4 at 0.1.
_TO_NEXT = 0.45
# Above this γ ln α, α^γ is so near 1 that a series decides; its terms fall at least twentyfold.
_NEAR_ONE = -1.0 / 32.0
_SERIES_TERMS = 13


def optimal_gamma(alpha: ArrayLike, c: ArrayLike, max_gamma: int = 10000) -> IntArray:
    """The γ in 0…max_gamma with the largest τ/(γc + 1), Theorem 3.8; the smallest on ties.

    0 where α = 0 or c ≥ α (Corollary 3.9). Where there is no finite optimum (c = 0 < α, or
    α = 1 > c) it is max_gamma, with a RuntimeWarning. A finite optimum beyond max_gamma gives
    max_gamma silently: the speedup still rises there. On the curve between the two regimes a step
    costs 1 + γb with b = σ + (1−σ)c + σĉ, and b takes the place of c.

    Over real γ the optimum is (x − 1)/L − 1/c, L = −ln α, where x = −W₋₁(−e^{−1−L(1/c−1)});
    the integer beside it is then settled by an exact condition (to a percent where c is
    subnormal, below 2.3e-308).

    Parameters
    ----------
    alpha
        In [0, 1]; array_like.
    c
        Finite, ≥ 0; broadcasts with alpha.
    max_gamma
        Whole, 0 to 10⁹.

    Returns
    -------
    IntArray
        γ; an int for scalar input.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Theorem 3.8, maximised over γ.

    Examples
    --------
    >>> optimal_gamma([0.5, 0.9], 0.05)
    array([ 3, 13])
    """
    alpha, c = real("alpha", alpha, 0.0, 1.0), real("c", c, 0.0)
    largest = _largest(max_gamma)

    def kernel(alpha: FloatArray, c: FloatArray) -> FloatArray:
        # Bounded, so that pairs without a peak, which the last factor drops, stay finite.
        inside = np.clip(alpha, _TINY, _BELOW_ONE)
        return _guess(inside, np.minimum(c, _BELOW_ONE), largest) * (c < alpha)

    best = np.asarray(blockwise(kernel, alpha, c))
    if (c == 0.0).any() or (alpha == 1.0).any():
        endless = (alpha > c) & ((c == 0.0) | (alpha == 1.0))
        best[endless] = largest
        if endless.any():
            warnings.warn(
                f"no finite optimum where c = 0 < alpha or alpha = 1 > c: max_gamma = {largest}",
                RuntimeWarning,
                stacklevel=2,
            )
    doubtful = np.flatnonzero(best < 0.0)
    alpha, c = (np.broadcast_to(array, best.shape).flat[doubtful] for array in (alpha, c))
    best.flat[doubtful] = _walk(alpha, c, -best.flat[doubtful], largest)
    return _integers(best)


def crossover_gamma(
    alpha: ArrayLike, c: ArrayLike = 0.0, c_hat: ArrayLike = 0.0, max_gamma: int = 10000
) -> IntArray:
    """The first γ ≥ 1 at which arithmetic grows at least as much as speed; 0 if none.

    That is operations_increase(α, γ, ĉ) ≥ walltime_improvement(α, γ, c). With c = ĉ = 0, α < √2 −
    1 crosses at once. A draft with ĉ near 1 may cross at γ = 1 and speed lead again for a few
    larger γ; the answer is then still 1.

    Parameters
    ----------
    alpha
        In [0, 1]; array_like.
    c, c_hat
        Finite, ≥ 0; broadcast with alpha.
    max_gamma
        Where the search ends: whole, 0 to 10⁹.

    Returns
    -------
    IntArray
        γ; an int for scalar input.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Theorems 3.8 and 3.11.

    Examples
    --------
    >>> crossover_gamma([0.5, 0.6, 0.7, 0.8, 0.9])
    array([ 3,  5, 10, 24, 99])
    """
    largest = _largest(max_gamma)

    # One search by halving is enough: past γ = 1 there is at most one crossing. With E = α^γ,
    # ψ(γ) = τ² − (γĉ+γ+1)(γc+1) has ψ''' ∝ E(1 − 4αE), so ψ'' falls, then rises to its limit
    # −2c(1+ĉ) ≤ 0, and changes sign once at most, from + to −. Convex, then concave, with
    # ψ(0) = 0: if ψ(1) > 0, ψ stays positive up to a single zero. (α = 1: ψ/γ is linear in γ
    # and ψ(1) > 0 leaves it positive for ever.)
    def kernel(alpha: FloatArray, c: FloatArray, c_hat: FloatArray) -> FloatArray:
        def crossed(gamma: FloatArray) -> NDArray[np.bool_]:
            arithmetic = operations_kernel(alpha, gamma, c_hat)
            return np.greater_equal(arithmetic, walltime_kernel(alpha, gamma, c))

        with np.errstate(over="ignore"):
            first = _first_true(crossed, alpha.size, largest)
        return np.where(first > largest, 0.0, first)

    rate, cost = real("alpha", alpha, 0.0, 1.0), real("c", c, 0.0)
    return _integers(blockwise(kernel, rate, cost, real("c_hat", c_hat, 0.0)))


def breakeven_alpha(gamma: ArrayLike, c: ArrayLike) -> FloatArray:
    """The α at which Theorem 3.8 gives exactly 1: (1/γ) Σ_{i=1}^{γ} α^i = c.

    Parameters
    ----------
    gamma
        Whole, ≥ 0; array_like.
    c
        Finite, ≥ 0; shapes broadcast.

    Returns
    -------
    FloatArray
        α above which speculation is faster. 0 at γ = 0, where both sides are plain decoding; nan
        where c > 1, because no α pays for such a draft.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Theorem 3.8.

    Examples
    --------
    >>> float(breakeven_alpha(4, 0.2))
    0.45531...
    """

    def kernel(gamma: FloatArray, c: FloatArray) -> FloatArray:
        alpha = alpha_kernel(np.minimum(c, 1.0), np.maximum(gamma, 1.0))
        return np.where(gamma == 0.0, 0.0, np.where(c > 1.0, np.nan, alpha))

    return blockwise(kernel, whole("gamma", gamma, 0), real("c", c, 0.0))


def _largest(max_gamma: int) -> int:
    return int(whole("max_gamma", max_gamma, 0, _GAMMA_LIMIT))


def _integers(gamma: FloatArray) -> IntArray:
    """Whole float64 values as int64, and a Python int for a scalar."""
    integers: Any = gamma.astype(np.int64)
    answer: IntArray = integers if integers.ndim else integers.item()
    return answer


def _first_true(
    test: Callable[[FloatArray], NDArray[np.bool_]], size: int, largest: int
) -> FloatArray:
    """The first γ ≥ 1 where `test` holds, element by element; largest+1 where it never does.

    `test` takes one γ an element. Past γ = 1 it must turn true once at most and stay so.
    """
    low, high = np.ones(size), np.full(size, largest + 1.0)
    at_one = test(low) if largest else np.zeros(size, dtype=bool)
    for _ in range(max(largest, 1).bit_length()):
        middle = np.floor((low + high) / 2.0)
        holds = test(middle)
        high = np.where(holds, middle, high)
        low = np.where(holds, low, middle)
    return np.where(at_one, 1.0, high)


def _guess(alpha: FloatArray, c: FloatArray, largest: int) -> FloatArray:
    """γ* in 1…largest by the closed form where 0 < c < α < 1; negative where still in doubt.

    In doubt is what a neighbour beats, and what is too close to α = 1 for the plain comparison.
    """
    log_alpha = np.log(alpha)
    gamma = np.ceil(_continuous_peak(log_alpha, c) - _TO_NEXT)
    gamma = np.clip(gamma, 1.0, largest, out=gamma)
    log_power = log_alpha * gamma
    rises, falls = _better_neighbours(alpha, log_power, c, gamma)
    doubtful = (rises & (gamma < largest)) | (falls & (gamma > 1.0)) | (log_power > _NEAR_ONE)
    # A product, because choosing by an unpredictable mask costs several times as much.
    return np.asarray(gamma * (1.0 - 2.0 * doubtful))


def _continuous_peak(log_alpha: FloatArray, c: FloatArray) -> FloatArray:
    """The real γ with the largest speedup: ln(x)/L − 1, where x − ln x = 1 + L(1/c − 1).

    L = −ln α. The same as (x − 1)/L − 1/c without its cancellation at small c. x is solved as
    1 + t, from the first two terms of its series at x = 1, which are within a third of t
    everywhere, so two Newton steps put γ within 1e-6/L.
    """
    # Bounded, so that the quotient does not overflow; a guess is all that is wanted.
    bend = log_alpha * ((c - 1.0) / np.maximum(c, 1e-304))
    t = np.sqrt(2.0 * bend) + bend * (2.0 / 3.0)
    for _ in range(2):
        t -= (t - np.log1p(t) - bend) * (1.0 + 1.0 / t)
    return np.asarray(-1.0 - np.log1p(t) / log_alpha)


def _walk(alpha: FloatArray, c: FloatArray, gamma: FloatArray, largest: int) -> FloatArray:
    """γ* in 1…largest, uphill from `gamma`, where 0 < c < α < 1.

    The gain of one more token shrinks with γ, so γ* is the first γ ≥ 1 without one. A walk keeps
    its direction, so it ends even where rounding makes two neighbours look better in turn.
    """
    moving = np.arange(gamma.size)
    direction = _uphill(alpha, c, gamma, largest)
    while moving.size:
        gamma[moving] += direction
        onward = _uphill(alpha[moving], c[moving], gamma[moving], largest) == direction
        onward &= direction != 0.0
        moving, direction = moving[onward], direction[onward]
    return gamma


def _uphill(alpha: FloatArray, c: FloatArray, gamma: FloatArray, largest: int) -> FloatArray:
    """+1 or −1 where that neighbour is better than `gamma` and within 1…largest, else 0."""
    log_power = np.log(alpha) * gamma
    rises, falls = _better_neighbours(alpha, log_power, c, gamma)
    near = np.flatnonzero(log_power > _NEAR_ONE)
    miss, cost, n = 1.0 - alpha[near], c[near], gamma[near]
    rises[near] = _gains_near_one(miss, cost, n + 1.0)
    falls[near] = ~_gains_near_one(miss, cost, n)
    return (rises & (gamma < largest)).astype(np.float64) - (falls & (gamma > 1.0))


def _better_neighbours(
    alpha: FloatArray, log_power: FloatArray, c: FloatArray, gamma: FloatArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether γ+1 beats γ, and whether γ does not beat γ−1; log_power is γ ln α.

    γ+1 beats γ exactly when α^n (c + (1−α)(1 + γc)) > c with n = γ+1.
    """
    miss = 1.0 - alpha
    power = np.exp(log_power)
    slope, least = miss * c, c * (1.0 + _TIE)
    level = miss + c + slope * gamma
    return power * alpha * level > least, power * (level - slope) <= least


def _gains_near_one(miss: FloatArray, c: FloatArray, n: FloatArray) -> NDArray[np.bool_]:
    """Whether γ+1 beats γ = n−1: c (α^{−n} − 1 − n·miss) < miss·(1 − c), for n·miss ≪ 1.

    The bracket is the binomial series of (1 − miss)^{−n} from its third term; all are positive.
    """
    tail = np.ones_like(n)
    for k in range(_SERIES_TERMS, 2, -1):
        tail = 1.0 + tail * miss * (n + (k - 1.0)) / k
    excess = n * (n + 1.0) / 2.0 * miss * tail
    return np.less(c * excess, 1.0 - c)
