"""Choosing γ: speedup over α × γ, the crossover over α, the effect of c."""

from __future__ import annotations

import numpy as np

from specmath.gamma import crossover_gamma
from specmath.halves import Halves
from specmath.predict import Prediction
from specmath.serving.schedule import breakeven_alpha_of
from specmath.sheets.columns import SPEEDUP, column, field_input
from specmath.sheets.tables import Input, Table
from specmath.theorems import expected_tokens, operations_increase, walltime_improvement

__all__ = ["alpha_gamma_table", "crossover_table", "draft_cost_table"]

ALPHAS = np.round(np.arange(0, 1.001, 0.05), 2)
CROSSOVER_ALPHAS = (0.3, 0.41, 0.42, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
DRAFT_COSTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def alpha_gamma_table(prediction: Prediction) -> Table:
    """Speedup over α × γ at the scenario's step cost: one row a pair, for a heat map or a pivot."""
    cost, gammas = prediction.halves.cost, prediction.curve.gamma
    size = len(gammas)
    totals = cost.total(gammas)
    share = prediction.halves.coverage
    tokens = np.asarray(expected_tokens(ALPHAS[:, None], gammas[None, :]))
    tokens = share * tokens + 1.0 - share
    same_alpha = (None, *("{alpha^}",) * (size - 1)) * len(ALPHAS)
    rest = "1+{alpha}*{tokens_per_step^}"
    inputs: tuple[Input, ...] = ()
    if share < 1:  # of all steps, those without a draft emit one token
        rest = "1+{alpha}*({tokens_per_step^}-1+{coverage})"
        inputs = (field_input("coverage", share, "assumed"),)
    running = ("1", *(rest,) * (size - 1)) * len(ALPHAS)
    return Table(
        "Speedup over acceptance and drafted tokens",
        "alpha_gamma",
        (
            column("alpha", np.repeat(ALPHAS, size), same_alpha),
            column("gamma", np.tile(gammas, len(ALPHAS))),
            column("step_cost", np.tile(totals, len(ALPHAS))),
            column("tokens_per_step", tokens.ravel(), running),
            column("walltime_improvement", (tokens / totals).ravel(), SPEEDUP),
        ),
        inputs,
    )


def crossover_table(prediction: Prediction) -> Table:
    """Over α: the first γ at which arithmetic grows at least as much as speed (memory-bound)."""
    cost = prediction.halves.cost
    alphas = np.array(CROSSOVER_ALPHAS)
    crossings = np.asarray(crossover_gamma(alphas, cost.c, cost.c_hat))
    before, known = np.maximum(crossings - 1, 0), crossings > 0
    speed = np.where(known, walltime_improvement(alphas, before, cost.c), np.nan)
    operations = np.where(known, operations_increase(alphas, before, cost.c_hat), np.nan)
    return Table(
        "Where arithmetic outgrows speed",
        "crossover",
        (
            column("alpha", alphas),
            column("crossover_gamma", [int(g) or None for g in crossings]),
            column("speedup_before", speed),
            column("operations_before", operations),
        ),
    )


def draft_cost_table(prediction: Prediction) -> Table:
    """Over c: the best γ, its speedup, and the least α that breaks even at the scenario's γ."""
    s, acceptance, own = prediction.scenario, prediction.halves.acceptance, prediction.halves.cost
    gammas = prediction.curve.gamma
    costs = sorted({*DRAFT_COSTS, round(own.c, 4)})
    each = [own.with_draft_cost(c) for c in costs]
    rows = [Halves(acceptance, cost).speedup(gammas) for cost in each]
    share = prediction.halves.coverage
    least = [float(breakeven_alpha_of(cost, s.gamma, share)) for cost in each]
    best = [int(np.argmax(row[: s.max_gamma + 1])) for row in rows]
    return Table(
        "What the draft's cost does",
        "draft_cost",
        (
            column("c", costs),
            column("best_gamma", best),
            column("best_speedup", [float(row[g]) for row, g in zip(rows, best, strict=True)]),
            column("speedup_at_gamma", [float(row[s.gamma]) for row in rows]),
            column("breakeven_alpha", least),
        ),
    )
