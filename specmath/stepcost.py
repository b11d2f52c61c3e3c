"""Step cost: what one speculative step costs, in plain decode steps. Knows nothing of acceptance.

    s(γ) = v(γ) + d(γ) + h      v verification, d drafting, h everything else speculation adds

At γ=0 nothing is drafted: v = 1, d = h = 0, so s(0) = 1 for every input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole

__all__ = ["LinearStepCost", "StepCost", "sigma_from_verify_cost"]


class StepCost(Protocol):
    """Any step cost: three parts, each in plain steps, each with the shape of γ."""

    def verify(self, gamma: ArrayLike) -> FloatArray: ...

    def draft(self, gamma: ArrayLike) -> FloatArray: ...

    def extra(self, gamma: ArrayLike) -> FloatArray: ...

    def total(self, gamma: ArrayLike) -> FloatArray: ...


def sigma_from_verify_cost(verify_cost: float, gamma: int) -> float:
    """σ = (v − 1) / γ: where between memory-bound (0) and compute-bound (1) a pass lies.

    v > 0 in plain steps, γ ≥ 1; ValueError otherwise. A measured v outside [1, γ+1] is legal
    and gives σ outside [0, 1].
    """
    real("verify_cost", verify_cost, 0, low_open=True)
    return (verify_cost - 1.0) / int(whole("gamma", gamma, 1))


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

    @property
    def draft_each(self) -> float:
        """Cost of one drafted token, plain steps."""
        share = min(1.0, max(0.0, self.sigma))
        return (1 - share) * self.c + share * self.c_hat

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
