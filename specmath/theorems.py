"""Closed forms of Leviathan, Kalman, Matias (2023), arXiv 2211.17192, and their inverses.

Every function broadcasts over numpy arrays and returns a NumPy scalar for scalar input. Results
are within 1e-12 relative of the exact value for α in [0, 1], γ up to 10,000 and any finite c:
the forms in log1p and expm1 keep that near α = 1, where (1−α^{γ+1})/(1−α) cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specmath.checks import FloatArray, InputError, real, whole

__all__ = [
    "acceptance_from_distributions",
    "alpha_from_accepted_share",
    "alpha_from_tokens_per_step",
    "expected_tokens",
    "guaranteed_improvement",
    "implied_draft_cost",
    "improves",
    "operations_increase",
    "walltime_improvement",
]

# Large enough to hide numpy's cost per call, small enough for the temporaries to stay in cache
# and below the 128 KiB from which malloc maps fresh pages for every one of them.
_BLOCK = 12288
# Multiplying by a power of two is exact; this one keeps γc finite for every int64 γ.
_SCALE = 2.0**-64
# What a printed distribution may miss of 1: float16 and rounded tables do.
_SUM_TOLERANCE = 1e-3
# About one Newton step a factor of ten in γ, and four more to full precision.
_NEWTON_STEPS = 60


def blockwise(kernel: Callable[..., FloatArray], *arrays: NDArray[np.generic]) -> FloatArray:
    """`kernel` over the broadcast of `arrays`, one cache-sized block of float64 at a time.

    The kernel takes 1-D arrays, which it must not change, and returns one of the same length.
    """
    if not any(array.ndim for array in arrays):
        scalar: FloatArray = kernel(*(array.astype(np.float64).reshape(1) for array in arrays))[0]
        return scalar
    result = np.empty(np.broadcast_shapes(*(array.shape for array in arrays)))
    iterator = np.nditer(
        [*arrays, result],
        flags=["external_loop", "buffered", "zerosize_ok"],
        # numpy's stub knows one flag an operand; the function wants a list of them.
        op_flags=[*[["readonly"]] * len(arrays), ["writeonly"]],  # type: ignore[list-item]
        op_dtypes=[np.float64] * (len(arrays) + 1),
        buffersize=_BLOCK,
    )
    with iterator:
        for *blocks, out in iterator:
            out[...] = kernel(*blocks)
    return result


def tokens_kernel(alpha: FloatArray, gamma: FloatArray) -> FloatArray:
    """τ of Eq. 1 on float64 arrays of one shape, unchecked."""
    n = gamma + 1.0
    miss = 1.0 - alpha
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = np.expm1(n * np.log1p(-miss)) / -miss
    # fmin also replaces the 0/0 of α = 1 by its limit, γ+1; together they make γ = 0 exactly 1.
    return np.asarray(np.fmin(np.maximum(tokens, 1.0), n))


def walltime_kernel(alpha: FloatArray, gamma: FloatArray, c: FloatArray) -> FloatArray:
    """Theorem 3.8 on float64 arrays of one shape, unchecked."""
    return tokens_kernel(alpha, gamma) * _SCALE / (gamma * (c * _SCALE) + _SCALE)


def operations_kernel(alpha: FloatArray, gamma: FloatArray, c_hat: FloatArray) -> FloatArray:
    """Theorem 3.11 on float64 arrays of one shape, unchecked."""
    step = gamma * (c_hat * _SCALE) + (gamma + 1.0) * _SCALE
    return step / tokens_kernel(alpha, gamma) / _SCALE


def expected_tokens(alpha: ArrayLike, gamma: ArrayLike) -> FloatArray:
    """Tokens emitted a speculative step: τ = (1 − α^{γ+1}) / (1 − α), and γ+1 at α = 1.

    Parameters
    ----------
    alpha
        Probability that a drafted token is accepted, in [0, 1]; array_like.
    gamma
        Drafted tokens a step, whole, ≥ 0; shapes broadcast.

    Returns
    -------
    FloatArray
        τ in [1, γ+1], the bonus or correction token included.

    Raises
    ------
    InputError
        A value outside its range (a ValueError).

    References
    ----------
    Leviathan, Kalman, Matias 2023, arXiv 2211.17192, Eq. 1.

    Examples
    --------
    >>> expected_tokens([0.6, 0.8], 4)
    array([2.3056, 3.3616])
    """
    return blockwise(tokens_kernel, real("alpha", alpha, 0.0, 1.0), whole("gamma", gamma, 0))


def walltime_improvement(alpha: ArrayLike, gamma: ArrayLike, c: ArrayLike) -> FloatArray:
    """Speedup over plain decoding while a verification costs one plain step: τ / (γc + 1).

    Parameters
    ----------
    alpha
        In [0, 1]; array_like.
    gamma
        Whole, ≥ 0.
    c
        Walltime of one draft forward in target forwards, finite, ≥ 0. The three broadcast.

    Returns
    -------
    FloatArray
        Times faster; below 1 speculation is slower.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Theorem 3.8.

    Examples
    --------
    >>> float(walltime_improvement(0.8, 4, 0.1))
    2.40114...
    """
    rate, drafted = real("alpha", alpha, 0.0, 1.0), whole("gamma", gamma, 0)
    return blockwise(walltime_kernel, rate, drafted, real("c", c, 0.0))


def operations_increase(alpha: ArrayLike, gamma: ArrayLike, c_hat: ArrayLike = 0.0) -> FloatArray:
    """Arithmetic a token over that of plain decoding: (γĉ + γ + 1) / τ, always ≥ 1.

    Parameters
    ----------
    alpha
        In [0, 1]; array_like.
    gamma
        Whole, ≥ 0.
    c_hat
        Operations of one draft forward in target forwards, finite, ≥ 0. The three broadcast.

    Returns
    -------
    FloatArray
        Times plain decoding.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Theorem 3.11.

    Examples
    --------
    >>> float(operations_increase(0.8, 4))
    1.48738...
    """
    rate, drafted = real("alpha", alpha, 0.0, 1.0), whole("gamma", gamma, 0)
    return blockwise(operations_kernel, rate, drafted, real("c_hat", c_hat, 0.0))


def improves(alpha: ArrayLike, c: ArrayLike) -> NDArray[np.bool_]:
    """Whether some γ ≥ 1 beats plain decoding under Theorem 3.8: exactly when α > c.

    Parameters
    ----------
    alpha
        In [0, 1]; array_like.
    c
        Finite, ≥ 0; shapes broadcast.

    Returns
    -------
    NDArray[np.bool_]
        Of the broadcast shape.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Corollary 3.9.

    Examples
    --------
    >>> improves([0.2, 0.8], 0.5)
    array([False,  True])
    """
    answer: NDArray[np.bool_] = np.greater(real("alpha", alpha, 0.0, 1.0), real("c", c, 0.0))
    return answer


def guaranteed_improvement(alpha: ArrayLike, c: ArrayLike) -> FloatArray:
    """The speedup that the best γ reaches at least: (1+α)/(1+c) where α > c, else 1.

    It is the speedup at γ = 1; where α ≤ c plain decoding (γ = 0) is the best.

    Parameters
    ----------
    alpha
        In [0, 1]; array_like.
    c
        Finite, ≥ 0; shapes broadcast.

    Returns
    -------
    FloatArray
        Times faster, ≥ 1.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Corollary 3.9.

    Examples
    --------
    >>> float(guaranteed_improvement(0.8, 0.1))
    1.63636...
    """
    at_one = (1.0 + real("alpha", alpha, 0.0, 1.0)) / (1.0 + real("c", c, 0.0))
    bound: FloatArray = np.maximum(at_one, 1.0)
    return bound


def acceptance_from_distributions(p: ArrayLike, q: ArrayLike) -> FloatArray:
    """α at one context from the two next-token distributions: Σ min(p, q) = 1 − TV(p, q).

    Parameters
    ----------
    p, q
        Target and draft, both after temperature and top-p; last axis the vocabulary, of equal
        length; leading axes broadcast. Entries ≥ 0, each summing to 1 within 1e-3 (not rescaled).

    Returns
    -------
    FloatArray
        α in [0, 1], of the leading shape; the α of a task is its mean over contexts.

    Raises
    ------
    InputError
        Not distributions, or of unequal length.

    References
    ----------
    Leviathan et al. 2023, Corollary 3.6.

    Examples
    --------
    >>> float(acceptance_from_distributions([0.7, 0.3], [0.5, 0.5]))
    0.8
    """
    target, draft = _distribution("p", p), _distribution("q", q)
    if target.shape[-1] != draft.shape[-1]:
        raise InputError(
            f"q must have as many entries as p (> 0 and equal to {target.shape[-1]}), "
            f"got {draft.shape[-1]}"
        )
    overlap: FloatArray = np.minimum(np.minimum(target, draft).sum(axis=-1), 1.0)
    return overlap


def _distribution(name: str, values: ArrayLike) -> FloatArray:
    array = real(name, values, 0.0)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise InputError(f"{name} must be a distribution of >= 1 entries, got {values!r}")
    low, high = 1.0 - _SUM_TOLERANCE, 1.0 + _SUM_TOLERANCE
    real(f"the sum of {name}", array.sum(axis=-1), low, high)
    return array


def alpha_from_accepted_share(share: ArrayLike, gamma: ArrayLike) -> FloatArray:
    """α behind an accepted share r = accepted / drafted = (τ − 1)/γ = (1/γ) Σ_{i=1}^{γ} α^i.

    Most engines print r as "acceptance rate". Assumes the same α at every position.

    Parameters
    ----------
    share
        r in [0, 1]; array_like.
    gamma
        Whole, ≥ 1 (nothing is drafted at γ = 0, so nothing follows); shapes broadcast.

    Returns
    -------
    FloatArray
        α in [0, 1], never below r.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Inverse of Leviathan et al. 2023, Eq. 1.

    Examples
    --------
    >>> float(alpha_from_accepted_share(0.8, 5))
    0.92651...
    """
    return blockwise(alpha_kernel, real("share", share, 0.0, 1.0), whole("gamma", gamma, 1))


def alpha_from_tokens_per_step(tokens_per_step: ArrayLike, gamma: ArrayLike) -> FloatArray:
    """α with τ(α, γ) = tokens_per_step, the bonus or correction token included.

    Assumes the same α at every position.

    Parameters
    ----------
    tokens_per_step
        τ in [1, γ+1]; array_like.
    gamma
        Whole, ≥ 1; shapes broadcast.

    Returns
    -------
    FloatArray
        α in [0, 1].

    Raises
    ------
    InputError
        A value outside its range, naming the bound γ+1.

    References
    ----------
    Inverse of Leviathan et al. 2023, Eq. 1.

    Examples
    --------
    >>> float(alpha_from_tokens_per_step(4, 4))
    0.88817...
    """
    drafted = whole("gamma", gamma, 1)
    tokens = _tokens_per_step(tokens_per_step, drafted)
    return blockwise(alpha_kernel, np.asarray((tokens - 1.0) / drafted), drafted)


def implied_draft_cost(
    walltime_improvement: ArrayLike, tokens_per_step: ArrayLike, gamma: ArrayLike
) -> FloatArray:
    """c that Theorem 3.8 needs for a measured speedup S at τ tokens a step: (τ/S − 1)/γ.

    Everything a step costs beyond one plain step counts as draft cost here.

    Parameters
    ----------
    walltime_improvement
        S > 0; array_like.
    tokens_per_step
        τ in [1, γ+1].
    gamma
        Whole, ≥ 1. The three broadcast.

    Returns
    -------
    FloatArray
        c, not clipped: below 0 where no c ≥ 0 explains the measurement, because S is above τ, the
        ceiling of a free draft.

    Raises
    ------
    InputError
        A value outside its range.

    References
    ----------
    Leviathan et al. 2023, Theorem 3.8 solved for c.

    Examples
    --------
    >>> float(implied_draft_cost(1.7, 2.5, 4))
    0.11764...
    """
    drafted = whole("gamma", gamma, 1)
    tokens = _tokens_per_step(tokens_per_step, drafted)
    speedup = real("walltime_improvement", walltime_improvement, 0.0, low_open=True)
    # (τ − S)/S rather than τ/S − 1: near S = τ the subtraction is exact.
    implied: FloatArray = (tokens - speedup) / speedup / drafted
    return implied


def _tokens_per_step(value: ArrayLike, gamma: NDArray[np.int64]) -> FloatArray:
    """`value` within [1, γ+1], element by element."""
    tokens = real("tokens_per_step", value, 1.0)
    too_many = tokens > gamma + 1.0
    if too_many.any():
        found = np.broadcast_to(tokens, too_many.shape)[too_many].flat[0]
        drafted = np.broadcast_to(gamma, too_many.shape)[too_many].flat[0]
        raise InputError(
            f"tokens_per_step must be a finite number >= 1 and <= gamma + 1 = {drafted + 1}, "
            f"got {found}"
        )
    return tokens


def alpha_kernel(share: FloatArray, gamma: FloatArray) -> FloatArray:
    """α in [0, 1] with (1/γ) Σ_{i=1}^{γ} α^i = share, γ ≥ 1, unchecked.

    Newton on the log of both sides in L = −ln α, where the mean is
    e^{−L} (1 − e^{−γL}) / (γ (1 − e^{−L})). Its log is convex and falls with L, so steps from
    the left of the root approach it without overshooting, from any distance.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_share = np.log(share)
        # Left of the root: the mean of α^i is at least α^{(γ+1)/2} and at least α/γ.
        decay = np.maximum(-2.0 * log_share / (gamma + 1.0), -log_share - np.log(gamma))
        for _ in range(_NEWTON_STEPS):
            log_mean = -decay + np.log(np.expm1(-gamma * decay) / (gamma * np.expm1(-decay)))
            step = (log_mean - log_share) / _log_mean_slope(decay, gamma)
            decay = decay + step
            # Steps shrink quadratically, so the error left is far below the last one.
            if not np.any(np.abs(step) > 1e-8 * decay + 1e-15):
                break
        alpha = np.exp(-decay)
    return np.where(share <= 0.0, 0.0, np.where(share >= 1.0, 1.0, alpha))


def _log_mean_slope(decay: FloatArray, gamma: FloatArray) -> FloatArray:
    """Minus the slope in L of ln((1/γ) Σ e^{−iL}): between 1 and (γ+1)/2."""
    slope = 1.0 + 1.0 / np.expm1(decay) - gamma / np.expm1(gamma * decay)
    # Both fractions grow as 1/L and cancel; their series takes over where few digits are left.
    near_one = (gamma + 1.0) / 2.0 - (gamma * gamma - 1.0) * decay / 12.0
    return np.where(gamma * decay < 1e-4, near_one, slope)
