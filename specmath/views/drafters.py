"""Every kind of drafter on the scenario's hardware: what it costs and the α it needs."""

from __future__ import annotations

import numpy as np

from specmath.checks import InputError
from specmath.drafters import kinds
from specmath.predict import Prediction
from specmath.scenario import Scenario
from specmath.serving import ServedStepCost
from specmath.serving.of_scenario import NEEDS_A_MODEL, served_of, tabulated
from specmath.serving.schedule import breakeven_alpha_of
from specmath.sheets.columns import column
from specmath.sheets.tables import Table
from specmath.stepcost import TabulatedStepCost

__all__ = ["drafters_table", "fitting_drafters"]

MOST_GAMMA = 8


def fitting_drafters(scenario: Scenario) -> list[tuple[str, ServedStepCost]]:
    """The scenario's own draft and every other kind that the target can have, with its label."""
    own = served_of(scenario)
    found = [(f"{scenario.draft} (yours)" if own.drafter.kind in NEEDS_A_MODEL else "", own)]
    for kind, record in kinds().items():
        if kind in NEEDS_A_MODEL:
            continue
        try:
            served = served_of(scenario, draft=kind)
            served.draft(1)
        except InputError:  # no such module in this target
            continue
        mark = " (yours)" if kind == scenario.draft else ""
        found.append((record.label + mark, served))
    return [(label, served) for label, served in found if label]


def drafters_table(prediction: Prediction) -> Table:
    """One row a drafter at the scenario's γ, batch and context; computed, not live.

    Break-even α: the i.i.d. acceptance of its drafted steps at which it is no slower than plain
    decoding, at this γ and at the γ (to 8) that needs the least.
    """
    s = prediction.scenario
    rows = fitting_drafters(s)
    gammas = [min(max(1, s.gamma), getattr(v.drafter, "heads", max(1, s.gamma))) for _, v in rows]
    costs = [tabulated(served, max(MOST_GAMMA, s.gamma)) for _, served in rows]
    shares = [served.share for _, served in rows]
    least = [_least_alpha(cost, share) for cost, share in zip(costs, shares, strict=True)]
    at = [
        float(breakeven_alpha_of(cost, gamma, share))
        for cost, gamma, share in zip(costs, gammas, shares, strict=True)
    ]
    return Table(
        "Drafters on this hardware, and the α each needs",
        "drafters",
        (
            column("draft", [label for label, _ in rows]),
            column("c", [served.c for _, served in rows]),
            column("coverage", shares),
            column("gamma", gammas),
            column(
                "step_cost",
                [float(cost.total(g)) for cost, g in zip(costs, gammas, strict=True)],
            ),
            column("breakeven_alpha", at, definition="Least i.i.d. α that is no slower at this γ"),
            column("least_alpha", [alpha for alpha, _ in least]),
            column("least_alpha_gamma", [gamma for _, gamma in least]),
        ),
    )


def _least_alpha(cost: TabulatedStepCost, share: float) -> tuple[float | None, int | None]:
    """The smallest break-even α over γ = 1 … 8 and where it is; None where no α is enough."""
    gammas = np.arange(1, min(MOST_GAMMA, cost.reach) + 1)
    alphas = breakeven_alpha_of(cost, gammas, share)
    if np.isnan(alphas).all():
        return None, None
    best = int(np.nanargmin(alphas))
    return float(alphas[best]), int(gammas[best])
