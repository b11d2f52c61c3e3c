"""The largest γ within a budget of extra arithmetic or of extra cost, for any acceptance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specmath.checks import real
from specmath.halves import Halves

__all__ = ["Budget", "within_budget"]

ROUNDING = 1e-12
"""A γ that meets the budget exactly must not fall out of it by rounding."""


@dataclass(frozen=True)
class Budget:
    """Largest γ, and what it does to arithmetic, cost and speed (all × plain decoding).

    `beyond`: the budget allows more, but the step cost is not known there.
    """

    gamma: int
    operations: float
    cost: float
    speedup: float
    beyond: bool


def within_budget(
    halves: Halves,
    *,
    extra_operations: float | None = None,
    extra_cost: float | None = None,
    gpu_ratio: float = 1.0,
) -> Budget:
    """The largest γ ≤ 10,000, and for which the cost is known, that keeps within every budget.

    A smaller γ need not: with an overhead, or on a measured curve of v, few tokens may cost more.

    `extra_operations` and `extra_cost` ≥ 0 are fractions (0.5: half as much again) of the
    arithmetic per token (Theorem 3.11) and of the cost per token gpu_ratio·s/τ at the same price
    and batch; None is no budget. `gpu_ratio` ≥ 1: GPUs with the draft's over those without.
    Raises InputError outside the ranges.
    """
    gammas = np.arange(halves.cost.reach + 1)
    operations, slowdown = halves.operations(gammas), 1.0 / halves.speedup(gammas)
    cost = np.where(gammas > 0, real("gpu_ratio", gpu_ratio, 1), 1.0) * slowdown
    allowed = np.ones(gammas.shape, dtype=bool)
    budgets = (
        ("extra_operations", extra_operations, operations),
        ("extra_cost", extra_cost, cost),
    )
    for name, budget, spent in budgets:
        if budget is not None:
            allowed &= spent <= (1.0 + float(real(name, budget, 0))) * (1.0 + ROUNDING)
    largest = int(np.flatnonzero(allowed)[-1])
    work, price = float(operations[largest]), float(cost[largest])
    speedup = 1.0 / float(slowdown[largest])
    return Budget(largest, work, price, speedup, beyond=bool(largest == gammas[-1]))
