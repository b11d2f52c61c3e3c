"""Step cost: what one speculative step costs, in plain decode steps. Knows nothing of acceptance.

    s(γ) = v(γ) + d(γ) + h      v verification, d drafting, h everything else speculation adds

At γ=0 nothing is drafted: v = 1, d = h = 0, so s(0) = 1 for every input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, IntArray, real, whole

__all__ = [
    "SEARCH_LIMIT",
    "Covered",
    "LinearStepCost",
    "Observed",
    "StepCost",
    "TabulatedStepCost",
    "measured_step_cost",
    "moved",
    "sigma_from_verify_cost",
    "verify_cost_from_sigma",
]

SEARCH_LIMIT = 10_000
"""γ at which a search for an unlimited optimum, crossover or budget gives up."""


class StepCost(ABC):
    """Any step cost: three parts in plain steps, each with the shape of γ, up to γ = `reach`."""

    if TYPE_CHECKING:  # fields of some records, computed by others

        @property
        def c(self) -> float:
            """One draft forward over one target forward, in walltime."""

        @property
        def c_hat(self) -> float:
            """One draft forward over one target forward, in arithmetic operations."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """The largest γ for which the cost is known."""

    @abstractmethod
    def verify(self, gamma: ArrayLike) -> FloatArray:
        """v(γ), 1 at γ=0; γ a whole number in [0, reach], scalar or array, ValueError otherwise."""

    @abstractmethod
    def draft(self, gamma: ArrayLike) -> FloatArray:
        """d(γ), 0 at γ=0."""

    @abstractmethod
    def extra(self, gamma: ArrayLike) -> FloatArray:
        """h, 0 at γ=0."""

    def total(self, gamma: ArrayLike) -> FloatArray:
        """s(γ) = v + d + h."""
        return self.verify(gamma) + self.draft(gamma) + self.extra(gamma)

    def points(self, gammas: ArrayLike, excess: FloatArray) -> FloatArray:
        """s(γ) [draws, γ] where what a step costs beyond a plain one is `excess` [draws] times what
        is said: 1 + excess (s − 1), so that γ=0 keeps its 1."""
        return np.asarray(1.0 + np.multiply.outer(excess, self.total(gammas) - 1.0))

    def sigma_at(self, gamma: int) -> float:
        """σ = (v − 1)/γ there; 0 at γ=0."""
        return (float(self.verify(gamma)) - 1.0) / gamma if gamma else 0.0

    @abstractmethod
    def largest_c(self, gamma: int, spare: float) -> float | None:
        """The c at which s(γ) is `spare` plain steps more; None where c does not count. γ ≥ 1."""

    @abstractmethod
    def with_draft_cost(self, c: float) -> StepCost:
        """The same verification and overhead with another draft cost."""

    @abstractmethod
    def memory_bound(self) -> StepCost:
        """v = 1 and h = 0 with the same draft: Theorem 3.8."""


def sigma_from_verify_cost(verify_cost: float, gamma: int) -> float:
    """σ = (v − 1) / γ: where between memory-bound (0) and compute-bound (1) a pass lies.

    v > 0 in plain steps, γ ≥ 1; InputError otherwise. A measured v outside [1, γ+1] is legal
    and gives σ outside [0, 1].

    Examples
    --------
    >>> round(sigma_from_verify_cost(1.4, 4), 9)
    0.1
    """
    real("verify_cost", verify_cost, 0, low_open=True)
    return (verify_cost - 1.0) / int(whole("gamma", gamma, 1))


def verify_cost_from_sigma(sigma: float, gamma: int) -> float:
    """v = 1 + σγ, the inverse of `sigma_from_verify_cost`; γ ≥ 0, InputError otherwise.

    Examples
    --------
    >>> verify_cost_from_sigma(0.1, 4)
    1.4
    """
    return 1.0 + sigma * int(whole("gamma", gamma, 0))


@dataclass(frozen=True)
class LinearStepCost(StepCost):
    """The curve between Leviathan's two theorems.

        v = 1 + σγ          d = γ [(1−σ) c + σ ĉ]          h = overhead if γ ≥ 1

    σ=0: s = 1 + γc, and τ/s is Theorem 3.8 (walltime). σ=1: s = γ+1+γĉ, and s/τ is Theorem 3.11
    (operations).

    Attributes
    ----------
    c, c_hat, overhead
        ≥ 0, plain steps.
    sigma
        Outside [0, 1] it is a measured v and leaves the draft at the nearer end; v must stay
        positive, InputError where it does not.

    References
    ----------
    Leviathan et al. 2023, arXiv 2211.17192, Theorems 3.8 and 3.11.

    Examples
    --------
    >>> LinearStepCost(c=0.1).total([0, 1, 4])
    array([1. , 1.1, 1.4])
    """

    c: float
    c_hat: float = 0.0
    sigma: float = 0.0
    overhead: float = 0.0

    def __post_init__(self) -> None:
        for name in ("c", "c_hat", "overhead"):
            real(name, getattr(self, name), 0)
        real("sigma", self.sigma, -1)

    def memory_bound(self) -> LinearStepCost:
        return LinearStepCost(self.c, self.c_hat)

    @property
    def draft_each(self) -> float:
        """Cost of one drafted token, plain steps."""
        share = min(1.0, max(0.0, self.sigma))
        return (1 - share) * self.c + share * self.c_hat

    @property
    def reach(self) -> int:
        """10,000, or before a negative σ (a measured v < 1) takes v to 0."""
        if self.sigma * SEARCH_LIMIT > -1.0:
            return SEARCH_LIMIT
        return int(np.ceil(-1 / self.sigma)) - 1

    def sigma_at(self, gamma: int) -> float:
        return self.sigma

    def largest_c(self, gamma: int, spare: float) -> float | None:
        share = 1.0 - min(1.0, max(0.0, self.sigma))
        return self.c + spare / (gamma * share) if share > 0 else None

    def with_draft_cost(self, c: float) -> LinearStepCost:
        return replace(self, c=c)

    def verify(self, gamma: ArrayLike) -> FloatArray:
        cost = 1.0 + self.sigma * whole("gamma", gamma, 0)
        if np.any(cost <= 0):
            raise InputError(
                f"verify_cost must be > 0 plain steps, got {np.min(cost):g}: "
                f"sigma={self.sigma:g} reaches 0 at gamma={-1 / self.sigma:.3g}"
            )
        return np.asarray(cost)

    def draft(self, gamma: ArrayLike) -> FloatArray:
        return np.asarray(whole("gamma", gamma, 0) * self.draft_each)

    def extra(self, gamma: ArrayLike) -> FloatArray:
        return np.where(whole("gamma", gamma, 0) > 0, self.overhead, 0.0)


@dataclass(frozen=True)
class TabulatedStepCost(StepCost):
    """A step cost known at γ = 0 … K: from the step-time model of a GPU, or measured.

    d(γ) need not be γc: a parallel drafter makes one pass, and a host adds to each. At γ=0 the
    parts are 1, 0, 0 by definition, whatever the rounding of the quotients they came from.

    Attributes
    ----------
    verify_costs, draft_costs, extras
        Of γ = 1 … K in plain steps: verify > 0, the others ≥ 0, K ≥ 1; InputError otherwise, as
        beyond K.
    c, c_hat
        One draft forward over one target forward, in walltime (host left out) and in arithmetic.
    bases
        A step without a draft at the batch of each of these γ, > 0, plain steps: 1 unless a faster
        arm has fewer requests inside, as in an open loop. None: 1.

    Examples
    --------
    >>> TabulatedStepCost((1.1, 1.2), (0.1, 0.12), (0.05, 0.05), 0.1, 0.01).total([0, 1, 2])
    array([1.  , 1.25, 1.37])
    """

    verify_costs: tuple[float, ...]
    draft_costs: tuple[float, ...]
    extras: tuple[float, ...]
    c: float
    c_hat: float
    bases: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        each = (self.verify_costs, self.draft_costs, self.extras, self.bases)
        lengths = {len(costs) for costs in each if costs is not None}
        if len(lengths) != 1 or lengths == {0}:
            raise InputError(f"the costs must have one length >= 1, got {sorted(lengths)}")
        real("verify_costs", self.verify_costs, 0, low_open=True)
        real("bases", self.bases or 1.0, 0, low_open=True)
        for name in ("draft_costs", "extras", "c", "c_hat"):
            real(name, getattr(self, name), 0)

    @property
    def reach(self) -> int:
        """K, the largest γ of the table."""
        return len(self.verify_costs)

    def _at(self, plain: float, costs: tuple[float, ...], gamma: ArrayLike) -> FloatArray:
        return np.array((plain, *costs))[whole("gamma", gamma, 0, self.reach)]

    def verify(self, gamma: ArrayLike) -> FloatArray:
        return self._at(1.0, self.verify_costs, gamma)

    def draft(self, gamma: ArrayLike) -> FloatArray:
        return self._at(0.0, self.draft_costs, gamma)

    def extra(self, gamma: ArrayLike) -> FloatArray:
        return self._at(0.0, self.extras, gamma)

    def points(self, gammas: ArrayLike, excess: FloatArray) -> FloatArray:
        base = 1.0 if self.bases is None else self._at(1.0, self.bases, gammas)
        return np.asarray(base + np.multiply.outer(excess, self.total(gammas) - base))

    def largest_c(self, gamma: int, spare: float) -> float | None:
        drafting = float(self.draft(gamma))
        # Drafting is c times something: γ passes, or one for all γ, with their host time.
        return self.c * (1.0 + spare / drafting) if self.c * drafting > 0 else spare / gamma

    def memory_bound(self) -> TabulatedStepCost:
        """The same drafting where any pass of the target costs one plain step: v = 1, h = 0."""
        return replace(self, verify_costs=(1.0,) * self.reach, extras=(0.0,) * self.reach)

    def with_draft_cost(self, c: float) -> TabulatedStepCost:
        if self.c == 0:
            drafts = tuple(c * gamma for gamma in range(1, self.reach + 1))
        else:  # however many passes: each is dearer by the same factor
            drafts = tuple(c * (cost / self.c) for cost in self.draft_costs)
        return replace(self, draft_costs=drafts, c=c)


LARGEST_VERIFY_COST = 10_000.0
"""Plain steps: beyond it a measured v is a slip of the pen."""


def measured_step_cost(
    verify_costs: Sequence[float], c: float, c_hat: float = 0.0, overhead: float = 0.0
) -> TabulatedStepCost:
    """The step cost of a measured curve: verify_costs[i] is v of i + 2 tokens, in plain steps.

        v(γ) = verify_costs[γ−1]          d(γ) = γ c          h = overhead if γ ≥ 1

    Parameters
    ----------
    verify_costs
        At least one v, each finite, > 0 and ≤ 10,000.
    c, c_hat, overhead
        ≥ 0, plain steps.

    Returns
    -------
    TabulatedStepCost
        Known up to γ = len(verify_costs).

    Raises
    ------
    InputError
        A value outside its range.

    Examples
    --------
    >>> measured_step_cost((1.1, 1.2, 1.5), c=0.1).total([0, 1, 2, 3])
    array([1. , 1.2, 1.4, 1.8])
    """
    curve = real("verify_costs", verify_costs, 0, LARGEST_VERIFY_COST, low_open=True)
    if curve.ndim != 1 or not curve.size:
        raise InputError(f"verify_costs must be a list of at least one number, got {verify_costs}")
    real("c", c, 0)
    real("overhead", overhead, 0)
    drafts = tuple(c * gamma for gamma in range(1, len(curve) + 1))
    return TabulatedStepCost(tuple(curve.tolist()), drafts, (overhead,) * len(curve), c, c_hat)


@dataclass(frozen=True)
class Covered(StepCost):
    """The cost of all steps where only a share κ of them has a draft: κ s(γ) + 1−κ.

    One sequence: in a batch all share the step, which `ServedPair` computes.

    Attributes
    ----------
    part
        What a step with a draft costs.
    coverage
        κ in [0, 1]; InputError otherwise.

    Examples
    --------
    >>> float(Covered(LinearStepCost(c=0.1), 0.5).total(4))
    1.2
    """

    part: StepCost
    coverage: float

    def __post_init__(self) -> None:
        real("coverage", self.coverage, 0, 1)

    @property
    def c(self) -> float:
        return self.part.c

    @property
    def c_hat(self) -> float:
        return self.part.c_hat

    @property
    def reach(self) -> int:
        return self.part.reach

    def verify(self, gamma: ArrayLike) -> FloatArray:
        return np.asarray(self.coverage * self.part.verify(gamma) + (1.0 - self.coverage))

    def draft(self, gamma: ArrayLike) -> FloatArray:
        return np.asarray(self.coverage * self.part.draft(gamma))

    def extra(self, gamma: ArrayLike) -> FloatArray:
        return np.asarray(self.coverage * self.part.extra(gamma))

    def largest_c(self, gamma: int, spare: float) -> float | None:
        return self.part.largest_c(gamma, spare / self.coverage) if self.coverage else None

    def with_draft_cost(self, c: float) -> Covered:
        return replace(self, part=self.part.with_draft_cost(c))

    def memory_bound(self) -> Covered:
        return replace(self, part=self.part.memory_bound())


def moved(expected: FloatArray, at: FloatArray, seen: FloatArray, drafted: IntArray) -> FloatArray:
    """Costs `expected` […, γ] moved as a step is that was expected to cost `at` and cost `seen`,
    plain steps: see `Observed`."""
    above = at - 1.0
    share = (seen - 1.0) / np.where(above > 0, above, np.nan)
    scaled = 1.0 + (expected - 1.0) * share
    cheaper = np.where((seen >= 1.0) & (above > 0), scaled, seen)
    found = np.where(seen >= at, expected + (seen - at), cheaper)
    return np.where(drafted == 0, 1.0, found)


@dataclass(frozen=True)
class Observed(StepCost):
    """A cost of which one step was seen.

    What `seen` exceeds `expected` by at the γ that ran comes with every draft, as overhead. What
    it falls short of it by cannot: then the excess of each step over a plain one is taken in the
    same proportion, and a step below a plain one costs the same at every γ.

    Attributes
    ----------
    expected
        The cost before anything was seen.
    ran
        The γ of the step that was seen, ≥ 1.
    seen
        What it cost, > 0, plain steps; InputError otherwise.
    drawn
        The same at the joint points [draws], where the plain step or what waits is open; None: as
        `seen` at all of them.

    Examples
    --------
    >>> Observed(LinearStepCost(c=0.1), 4, 1.7).total([0, 4, 6])
    array([1. , 1.7, 1.9])
    """

    expected: StepCost
    ran: int
    seen: float
    drawn: FloatArray | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        real("seen", self.seen, 0, low_open=True)
        whole("ran", self.ran, 1, self.expected.reach)

    @property
    def c(self) -> float:
        return self.expected.c

    @property
    def c_hat(self) -> float:
        return self.expected.c_hat

    @property
    def reach(self) -> int:
        return self.expected.reach

    def total(self, gamma: ArrayLike) -> FloatArray:
        drafted, seen = whole("gamma", gamma, 0), np.asarray(self.seen)
        return moved(self.expected.total(drafted), self.expected.total(self.ran), seen, drafted)

    def points(self, gammas: ArrayLike, excess: FloatArray) -> FloatArray:
        drafted = whole("gamma", gammas, 0)
        at = self.expected.points([self.ran], excess)
        seen = np.asarray(self.seen if self.drawn is None else self.drawn[:, None])
        return moved(self.expected.points(drafted, excess), at, seen, drafted)

    def verify(self, gamma: ArrayLike) -> FloatArray:
        return self.expected.verify(gamma)

    def draft(self, gamma: ArrayLike) -> FloatArray:
        return self.expected.draft(gamma)

    def extra(self, gamma: ArrayLike) -> FloatArray:
        """What is neither verification nor drafting, below 0 where the step was cheaper."""
        return np.asarray(self.total(gamma) - self.verify(gamma) - self.draft(gamma))

    def largest_c(self, gamma: int, spare: float) -> float | None:
        return self.expected.largest_c(gamma, spare)

    def with_draft_cost(self, c: float) -> Observed:
        return replace(self, expected=self.expected.with_draft_cost(c))

    def memory_bound(self) -> StepCost:
        return self.expected.memory_bound()
