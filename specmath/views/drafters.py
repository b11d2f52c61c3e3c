"""Every kind of drafter on the scenario's hardware: what it costs and the α it needs."""

from __future__ import annotations

import numpy as np

from specmath.checks import FloatArray, InputError
from specmath.drafters import kinds
from specmath.predict import ROUNDING, Prediction
from specmath.scenario import Scenario
from specmath.serving import ServedStepCost
from specmath.serving.of_scenario import NEEDS_A_MODEL, known_biases, served_of, tabulated
from specmath.serving.schedule import breakeven_alpha_of
from specmath.sheets.columns import column
from specmath.sheets.tables import Cell, Table
from specmath.stepcost import TabulatedStepCost
from specmath.wording import ratio, significant

__all__ = ["drafters_notes", "drafters_sentence", "drafters_table", "fitting_drafters"]

MOST_GAMMA = 8
YOURS = " (yours)"


def fitting_drafters(scenario: Scenario) -> list[tuple[str, ServedStepCost]]:
    """The scenario's own draft and every other kind that the target can have, with its label."""
    own = served_of(scenario)
    found = [(f"{scenario.draft}{YOURS}" if own.drafter.kind in NEEDS_A_MODEL else "", own)]
    for kind, record in kinds().items():
        if kind in NEEDS_A_MODEL:
            continue
        try:
            served = served_of(scenario, draft=kind)
            served.draft(1)
        except InputError:  # no such module in this target
            continue
        mark = YOURS if kind == scenario.draft else ""
        found.append((record.label + mark, served))
    return [(label, served) for label, served in found if label]


def drafters_table(prediction: Prediction) -> Table:
    """One row a drafter at the scenario's γ, batch and context; computed, not live.

    Break-even α: the i.i.d. acceptance of its drafted steps at which it is no slower than plain
    decoding, at this γ and at the γ (to 8) that needs the least. Best γ and its speedup: at the
    acceptance of the scenario, taken for each drafter.
    """
    s = prediction.scenario
    rows = fitting_drafters(s)
    gammas = [min(max(1, s.gamma), getattr(v.drafter, "heads", max(1, s.gamma))) for _, v in rows]
    costs = [tabulated(served, max(MOST_GAMMA, s.gamma)) for _, served in rows]
    speeds = [_speedups(prediction, served) for _, served in rows]
    best = [int(np.argmax(speed)) for speed in speeds]
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
            column("best_gamma", best),
            column(
                "best_speedup",
                [float(speed[g]) for speed, g in zip(speeds, best, strict=True)],
                definition="At the acceptance of the scenario, taken for each drafter",
            ),
        ),
    )


def _speedups(prediction: Prediction, served: ServedStepCost) -> FloatArray:
    """τ/s over γ = 0 … the largest considered, with the scenario's acceptance of drafted steps."""
    cost = tabulated(served, max(MOST_GAMMA, prediction.scenario.max_gamma))
    gammas = np.arange(min(prediction.scenario.max_gamma, cost.reach) + 1)
    tokens = served.accepts(prediction.halves.drafted).tokens_per_step(gammas)
    return np.asarray(tokens) / cost.total(gammas)


def drafters_sentence(prediction: Prediction) -> str:
    """Which drafter is fastest on the scenario's hardware at its acceptance, and the α each needs.

    Fastest by the computed step cost alone: the acceptance, which is each drafter's own, is taken
    as the same.
    """
    rows = drafters_table(prediction).rows()
    ranked = sorted(rows, key=lambda row: -_number(row["best_speedup"]))
    first, *others = ranked
    at = f"α={prediction.alpha:.3g} for each"
    need = ", ".join(f"{row['draft']} {_alpha(row['least_alpha'])}" for row in ranked)
    needs = f"To pay at all (at some γ to {MOST_GAMMA}) each needs an α above: {need}."
    if _number(first["best_speedup"]) <= 1.0 + ROUNDING:
        return f"At your batch and context, with {at}, no drafter beats plain decoding. {needs}"
    after = [
        row
        for place, row in enumerate(others)
        if _number(row["best_speedup"]) > 1.0 + ROUNDING
        and (place < 2 or str(row["draft"]).endswith(YOURS))
    ]
    told = "".join(f", then {row['draft']} {_reached(row)}" for row in after)
    return (
        f"On your hardware, with {at}, {first['draft']} would be fastest: {_reached(first)}{told}. "
        f"{needs} Drafters differ in α more than in cost: measure it on your text."
    )


def drafters_notes(prediction: Prediction) -> tuple[str, ...]:
    """The notes of the prediction, after the known biases of every drafter in the table."""
    rows = fitting_drafters(prediction.scenario)
    biases = [note for _, served in rows for note in known_biases(served)]
    return tuple(dict.fromkeys((*biases, *prediction.notes)))


def _number(value: Cell) -> float:
    return value if isinstance(value, float) else 0.0


def _alpha(value: Cell) -> str:
    return "no α is enough" if value is None else significant(_number(value), 2)


def _reached(row: dict[str, Cell]) -> str:
    return f"{ratio(_number(row['best_speedup']))} at γ={row['best_gamma']}"


def _least_alpha(cost: TabulatedStepCost, share: float) -> tuple[float | None, int | None]:
    """The smallest break-even α over γ = 1 … 8 and where it is; None where no α is enough."""
    gammas = np.arange(1, min(MOST_GAMMA, cost.reach) + 1)
    alphas = breakeven_alpha_of(cost, gammas, share)
    if np.isnan(alphas).all():
        return None, None
    best = int(np.nanargmin(alphas))
    return float(alphas[best]), int(gammas[best])
