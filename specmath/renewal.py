"""How many speculative steps a request takes: the exact distribution of a discrete renewal.

    K = min{k : L_1 + … + L_k ≥ M}          P(K > k) = P(L_1 + … + L_k < M)

L_j are the tokens of the steps, independent and of one law P(L = n) = s_{n−1} − s_n for n ≤ γ,
P(L = γ+1) = s_γ. The last step may bring more than is left: tokens past M are cut. Knows nothing of
time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft
from scipy.special import logsumexp, ndtr

from specmath.acceptance import (
    Acceptance,
    CoveredAcceptance,
    MixtureAcceptance,
    StoppedAcceptance,
)
from specmath.checks import FloatArray, InputError, IntArray, whole
from specmath.replay import ReplayAcceptance
from specmath.trees import TreeAcceptance

__all__ = [
    "LARGEST_EXACT",
    "NORMAL_ERROR",
    "Kind",
    "StepCount",
    "boundary_steps",
    "kinds_of",
    "steps_to_emit",
]

LARGEST_EXACT = 100_000
"""Tokens beyond which the normal limit stands for the exact distribution."""

NORMAL_ERROR = 1e-4
"""How far a quantile from 1 to 99% of the normal limit is off there at most, as a share of the
steps."""

UNSEEN = 1e-14
"""Chance below which no further step is counted."""

NEVER = 1e-200
"""Chance below which a step of so many tokens does not come: logarithms end there."""
LOG_UNSEEN = math.log(UNSEEN)
TILTS = np.geomspace(1e-3, 30.0, 60)
"""θ at which a sum of steps is bounded."""

REACH = 8.0
"""Standard deviations that hold all but `UNSEEN` of a normal."""


@dataclass(frozen=True)
class Kind:
    """Requests that accept alike: their share of all requests, and the law of a step's tokens,
    entry j of which is P(L = j+1)."""

    share: float
    law: tuple[float, ...]

    @property
    def tokens(self) -> float:
        """E L, tokens a step."""
        return sum(n * p for n, p in enumerate(self.law, start=1))


def kinds_of(acceptance: Acceptance, gamma: int) -> tuple[Kind, ...]:
    """The kinds of request of an acceptance at γ: more than one only of a mixture, each request of
    which is of one part; with equally many tokens a request, shares of tokens are of requests.

    Raises InputError for a replayed text, whose steps depend on where they begin.

    Examples
    --------
    >>> from specmath.acceptance import IidAcceptance
    >>> mixed = MixtureAcceptance((0.5, 0.5), (IidAcceptance(1.0), IidAcceptance(0.0)))
    >>> [(kind.share, kind.tokens) for kind in kinds_of(mixed, 2)]
    [(0.5, 3.0), (0.5, 1.0)]
    """
    return tuple(
        Kind(share, tuple(part.step_pmf(gamma).tolist())) for share, part in _parts(acceptance)
    )


def _parts(acceptance: Acceptance) -> Iterable[tuple[float, Acceptance]]:
    """What each request accepts by, with the share of such requests."""
    if isinstance(acceptance, ReplayAcceptance):
        raise InputError(
            "the acceptance of a tail must give one law of a step, got a replayed text, whose "
            "steps depend on where they begin: its own `steps_pmf` has their distribution"
        )
    if isinstance(acceptance, MixtureAcceptance):
        for weight, kind in zip(acceptance.weights, acceptance.parts, strict=True):
            yield from ((weight * share, part) for share, part in _parts(kind) if weight)
    elif isinstance(acceptance, CoveredAcceptance | StoppedAcceptance):
        for share, part in _parts(acceptance.part):
            yield share, replace(acceptance, part=part)
    elif isinstance(acceptance, TreeAcceptance):
        for share, part in _parts(acceptance.chain):
            yield share, replace(acceptance, chain=part)
    else:
        yield 1.0, acceptance


@dataclass(frozen=True, eq=False)
class StepCount:
    """A distribution of whole numbers of steps: ascending, each with its chance."""

    steps: IntArray
    chances: FloatArray

    @property
    def mean(self) -> float:
        """E K."""
        return float(self.steps @ self.chances)

    @property
    def variance(self) -> float:
        """Var K."""
        return float((self.steps - self.mean) ** 2 @ self.chances)

    def quantile(self, level: ArrayLike) -> IntArray:
        """The least k with P(K ≤ k) ≥ level; shape of `level`, in [0, 1]."""
        reached = np.cumsum(self.chances)
        at = np.searchsorted(reached, np.asarray(level) - UNSEEN * len(reached))
        return np.asarray(self.steps[np.minimum(at, len(self.steps) - 1)])


def steps_to_emit(acceptance: Acceptance, tokens: int, gammas: ArrayLike) -> tuple[StepCount, ...]:
    """How many steps M tokens take at each γ; exact to M = 100,000, the normal limit beyond.

    Parameters
    ----------
    acceptance
        Of all steps, with and without a draft. Of a mixture each request belongs to one part, so
        that the distribution is the mixture of the parts'.
    tokens
        M, whole, ≥ 0: of a request of N tokens the N − 1 after the first, which comes from its
        prompt.
    gammas
        Whole, ≥ 0; array_like.

    Returns
    -------
    tuple of StepCount
        One a γ, in order; chances sum to 1 within 1e-12.

    Raises
    ------
    InputError
        Outside these ranges, and for a replayed text.

    References
    ----------
    Feller 1968, An Introduction to Probability Theory and Its Applications, vol. 1, XIII.6, for the
    limit: mean M/τ + E L(L−1) / 2τ², variance M Var(L) / τ³.

    Examples
    --------
    >>> from specmath.acceptance import IidAcceptance
    >>> (count,) = steps_to_emit(IidAcceptance(0.5), 2, [1])
    >>> count.steps, count.chances
    (array([1, 2]), array([0.5, 0.5]))
    """
    wanted, found = int(whole("tokens", tokens, 0)), []
    for gamma in np.atleast_1d(whole("gammas", gammas, 0)):
        kinds = kinds_of(acceptance, int(gamma))
        found.append(_mixed([(kind.share, _count(kind.law, wanted)) for kind in kinds]))
    return tuple(found)


def _mixed(each: Sequence[tuple[float, StepCount]]) -> StepCount:
    if len(each) == 1:
        return each[0][1]
    low = min(int(count.steps[0]) for _, count in each)
    high = max(int(count.steps[-1]) for _, count in each)
    chances = np.zeros(high - low + 1)
    for share, count in each:
        chances[count.steps - low] += share * count.chances
    kept = np.flatnonzero(chances)
    return StepCount(low + kept, chances[kept])


def boundary_steps(law: Sequence[float]) -> float:
    """E L(L−1) / 2τ²: the steps that cutting the last one adds to M/τ, for M of many steps.

    Examples
    --------
    >>> boundary_steps([0.0, 1.0])
    0.25
    """
    p, n = np.asarray(law), np.arange(1, len(law) + 1)
    return float(p @ (n * (n - 1)) / (2.0 * (p @ n) ** 2))


@lru_cache(maxsize=512)
def _count(law: tuple[float, ...], tokens: int) -> StepCount:
    p = np.asarray(law)
    p = np.trim_zeros(np.where(p < NEVER, 0.0, p), "b")
    if tokens == 0 or p[-1] == p.sum():  # every step brings as many
        return StepCount(np.array([math.ceil(tokens / len(p))]), np.ones(1))
    return _exact(p, tokens) if tokens <= LARGEST_EXACT else _normal(p, tokens)


def _moments(p: FloatArray) -> tuple[float, float]:
    n = np.arange(1, len(p) + 1)
    mean = float(p @ n)
    return mean, float(p @ (n - mean) ** 2)


def _exact(p: FloatArray, tokens: int) -> StepCount:
    """Sums of steps by convolution, from the largest k at which no request has ended yet."""
    up, down = _log_moments(p, TILTS), _log_moments(p, -TILTS)
    # Chernoff: P(S_k ≥ M) ≤ e^{−θM} (E e^{θL})^k, and the same below.
    first = max(0, int(np.max((TILTS * (tokens - 1) + LOG_UNSEEN) / up)))

    def lowest(steps: int) -> int:
        return max(steps, int(np.max((LOG_UNSEEN - steps * down) / TILTS)))

    sums, low = np.ones(1), 0
    if first:  # by the power of the transform
        size = fft.next_fast_len(2 * tokens + len(p), real=True)
        whole = fft.irfft(fft.rfft(np.concatenate(([0.0], p)), size) ** first, size)
        low = lowest(first)
        sums = np.maximum(whole[low:tokens], 0.0)
    left, step = [1.0], first  # P(K > first), P(K > first + 1), …
    while left[-1] > UNSEEN:
        step += 1
        before, low = low + 1, max(low + 1, lowest(step))
        sums = np.convolve(sums, p)[low - before : max(0, tokens - before)]
        left.append(float(sums.sum()))
    chances = np.maximum(-np.diff([*left[:-1], 0.0]), 0.0)
    kept = np.flatnonzero(chances > UNSEEN)
    return StepCount(first + 1 + kept, chances[kept] / chances[kept].sum())


def _log_moments(p: FloatArray, tilts: FloatArray) -> FloatArray:
    """ln E e^{θL} at each θ."""
    n = np.arange(1, len(p) + 1)
    return np.asarray(logsumexp(np.outer(tilts, n), axis=1, b=p))


def _normal(p: FloatArray, tokens: int) -> StepCount:
    """The limit of the renewal theorem, at whole numbers."""
    mean, variance = _moments(p)
    centre = tokens / mean + boundary_steps(p.tolist())
    deviation = math.sqrt(tokens * variance / mean**3)
    least = max(math.ceil(tokens / len(p)), math.floor(centre - REACH * deviation))
    steps = np.arange(least, min(tokens, math.ceil(centre + REACH * deviation)) + 1)
    chances = np.diff(ndtr((np.append(steps, steps[-1] + 1) - 0.5 - centre) / deviation))
    return StepCount(steps, chances / chances.sum())
