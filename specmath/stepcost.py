"""Step cost: what one speculative step costs, in plain decode steps. Knows nothing of acceptance.

    s(γ) = v(γ) + d(γ) + h      v verification, d drafting, h everything else speculation adds

At γ=0 nothing is drafted: v = 1, d = h = 0, so s(0) = 1 for every input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole

__all__ = [
    "SEARCH_LIMIT",
    "LinearStepCost",
    "StepCost",
    "TabulatedStepCost",
    "measured_step_cost",
    "sigma_from_verify_cost",
    "verify_cost_from_sigma",
]

SEARCH_LIMIT = 10_000
"""γ at which a search for an unlimited optimum, crossover or budget gives up."""


class StepCost(Protocol):
    """Any step cost: three parts in plain steps, each with the shape of γ, up to γ = `reach`."""

    @property
    def c(self) -> float: ...

    @property
    def c_hat(self) -> float: ...

    @property
    def reach(self) -> int:
        """The largest γ for which the cost is known."""

    def verify(self, gamma: ArrayLike) -> FloatArray: ...

    def draft(self, gamma: ArrayLike) -> FloatArray: ...

    def extra(self, gamma: ArrayLike) -> FloatArray: ...

    def total(self, gamma: ArrayLike) -> FloatArray: ...

    def sigma_at(self, gamma: int) -> float:
        """σ = (v − 1)/γ there."""

    def largest_c(self, gamma: int, spare: float) -> float | None:
        """The c at which s(γ) is `spare` plain steps more; None where c does not count."""

    def with_draft_cost(self, c: float) -> StepCost:
        """The same verification and overhead with another draft cost."""

    def memory_bound(self) -> StepCost:
        """v = 1 and h = 0 with the same draft: Theorem 3.8."""


def sigma_from_verify_cost(verify_cost: float, gamma: int) -> float:
    """σ = (v − 1) / γ: where between memory-bound (0) and compute-bound (1) a pass lies.

    v > 0 in plain steps, γ ≥ 1; ValueError otherwise. A measured v outside [1, γ+1] is legal
    and gives σ outside [0, 1].
    """
    real("verify_cost", verify_cost, 0, low_open=True)
    return (verify_cost - 1.0) / int(whole("gamma", gamma, 1))


def verify_cost_from_sigma(sigma: float, gamma: int) -> float:
    """v = 1 + σγ, the inverse of `sigma_from_verify_cost`; γ ≥ 0, ValueError otherwise."""
    return 1.0 + sigma * int(whole("gamma", gamma, 0))


@dataclass(frozen=True)
class LinearStepCost:
    """The curve between Leviathan's two theorems (arXiv 2211.17192).

        v = 1 + σγ          d = γ [(1−σ) c + σ ĉ]          h = overhead if γ ≥ 1

    σ=0: s = 1 + γc, and τ/s is Theorem 3.8 (walltime). σ=1: s = γ+1+γĉ, and s/τ is Theorem 3.11
    (operations). c, ĉ, overhead ≥ 0 plain steps. σ outside [0, 1] is a measured v and leaves
    the draft at the nearer end; v must stay positive, ValueError where it does not.
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

    def total(self, gamma: ArrayLike) -> FloatArray:
        return self.verify(gamma) + self.draft(gamma) + self.extra(gamma)


@dataclass(frozen=True)
class TabulatedStepCost:
    """A step cost known at γ = 0 … K: from the step-time model of a GPU, or measured.

    d(γ) need not be γc: a parallel drafter makes one pass, and a host adds to each.

    `verify_costs`, `draft_costs` and `extras` have K+1 entries in plain steps and start with
    1, 0, 0; verify > 0, the others ≥ 0, ValueError otherwise, as beyond K. c and ĉ are one draft
    forward over one target forward, in walltime (host left out) and in arithmetic.
    """

    verify_costs: tuple[float, ...]
    draft_costs: tuple[float, ...]
    extras: tuple[float, ...]
    c: float
    c_hat: float

    def __post_init__(self) -> None:
        lengths = {len(self.verify_costs), len(self.draft_costs), len(self.extras)}
        if len(lengths) != 1 or lengths == {0}:
            raise InputError(f"the three costs must have one length >= 1, got {sorted(lengths)}")
        real("verify_costs", self.verify_costs, 0, low_open=True)
        for name in ("draft_costs", "extras", "c", "c_hat"):
            real(name, getattr(self, name), 0)
        first = (self.verify_costs[0], self.draft_costs[0], self.extras[0])
        if first != (1.0, 0.0, 0.0):
            raise InputError(f"verify, draft and extra must be 1, 0, 0 at gamma=0, got {first}")

    @property
    def reach(self) -> int:
        """K, the largest γ of the table."""
        return len(self.verify_costs) - 1

    def _at(self, costs: tuple[float, ...], gamma: ArrayLike) -> FloatArray:
        return np.asarray(costs)[whole("gamma", gamma, 0, self.reach)]

    def verify(self, gamma: ArrayLike) -> FloatArray:
        return self._at(self.verify_costs, gamma)

    def draft(self, gamma: ArrayLike) -> FloatArray:
        return self._at(self.draft_costs, gamma)

    def extra(self, gamma: ArrayLike) -> FloatArray:
        return self._at(self.extras, gamma)

    def total(self, gamma: ArrayLike) -> FloatArray:
        return self.verify(gamma) + self.draft(gamma) + self.extra(gamma)

    def sigma_at(self, gamma: int) -> float:
        return (float(self.verify(gamma)) - 1.0) / gamma if gamma else 0.0

    def largest_c(self, gamma: int, spare: float) -> float | None:
        drafting = float(self.draft(gamma))
        # Drafting is c times something: γ passes, or one for all γ, with their host time.
        return self.c * (1.0 + spare / drafting) if self.c * drafting > 0 else spare / gamma

    def scaled(self, verify: float, rest: float) -> TabulatedStepCost:
        """Steps with γ ≥ 1 whose verification costs `verify` > 0 times as much, and whose
        drafting and overhead cost `rest` > 0 times as much."""

        def dearer(costs: tuple[float, ...], factor: float) -> tuple[float, ...]:
            return (costs[0], *(factor * cost for cost in costs[1:]))

        return TabulatedStepCost(
            dearer(self.verify_costs, verify),
            dearer(self.draft_costs, rest),
            dearer(self.extras, rest),
            rest * self.c,
            self.c_hat,
        )

    def memory_bound(self) -> TabulatedStepCost:
        """The same drafting where any pass of the target costs one plain step: v = 1, h = 0."""
        size = self.reach + 1
        return replace(self, verify_costs=(1.0,) * size, extras=(0.0,) * size)

    def with_draft_cost(self, c: float) -> TabulatedStepCost:
        if self.c == 0:
            drafts = tuple(c * gamma for gamma in range(self.reach + 1))
        else:  # however many passes: each is dearer by the same factor
            drafts = tuple(c / self.c * cost for cost in self.draft_costs)
        return replace(self, draft_costs=drafts, c=c)


LARGEST_VERIFY_COST = 10_000.0
"""Plain steps: beyond it a measured v is a slip of the pen."""


def measured_step_cost(
    verify_costs: Sequence[float], c: float, c_hat: float = 0.0, overhead: float = 0.0
) -> TabulatedStepCost:
    """The step cost of a measured curve: verify_costs[i] is v of i + 2 tokens, in plain steps.

        v(γ) = verify_costs[γ−1]          d(γ) = γ c          h = overhead if γ ≥ 1

    At least one v, each finite, > 0 and ≤ 10,000; c, ĉ, overhead ≥ 0; ValueError otherwise.
    Known up to γ = len(verify_costs).
    """
    curve = real("verify_costs", verify_costs, 0, LARGEST_VERIFY_COST, low_open=True)
    if curve.ndim != 1 or not curve.size:
        raise InputError(f"verify_costs must be a list of at least one number, got {verify_costs}")
    real("c", c, 0)
    real("overhead", overhead, 0)
    drafts = tuple(c * gamma for gamma in range(len(curve) + 1))
    extras = (0.0, *[overhead] * len(curve))
    return TabulatedStepCost((1.0, *curve.tolist()), drafts, extras, c, c_hat)
