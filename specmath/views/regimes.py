"""The regimes: what memory-bound, yours and compute-bound do to latency and to cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specmath.checks import FloatArray
from specmath.halves import Halves
from specmath.predict import Prediction
from specmath.sheets.columns import SPEEDUP, column, field_input, mixed_draft
from specmath.sheets.tables import Input, Table
from specmath.stepcost import LinearStepCost, StepCost

__all__ = ["regime_costs", "regime_table"]


NAMES = ("Memory-bound (v = 1)", "Yours", "Compute-bound (v = γ+1)")


def _costs(cost: StepCost) -> list[StepCost]:
    """The two ends, which are the theorems and know no overhead, and between them the scenario."""
    return [
        cost.memory_bound(),
        cost,
        LinearStepCost(cost.c, cost.c_hat, sigma=1.0),
    ]


def _step_formulas(cost: StepCost) -> list[str | None]:
    """s of each regime, live; what was tabulated is a constant."""
    compute = "{verify_cost}+{gamma}*{c_hat}"
    if not isinstance(cost, LinearStepCost):
        return [None, None, compute]
    own = f"{{verify_cost}}+{{gamma}}*{mixed_draft('{c}')}+{{overhead}}*({{gamma}}>0)"
    return ["{verify_cost}+{gamma}*{c}", own, compute]


def regime_costs(prediction: Prediction) -> list[tuple[str, FloatArray]]:
    """Cost per token against plain decoding over γ, one curve a regime: GPUs × s/τ."""
    gammas = prediction.curve.gamma
    gpus = np.where(gammas > 0, prediction.gpu_ratio, 1.0)
    acceptance = prediction.halves.acceptance
    return [
        (name, gpus / Halves(acceptance, cost).speedup(gammas))
        for name, cost in zip(NAMES, _costs(prediction.halves.cost), strict=True)
    ]


def regime_table(prediction: Prediction) -> Table:
    """Each regime's latency beside that regime's cost, at the scenario's γ.

    Memory-bound: v = 1, Theorem 3.8. Compute-bound: v = γ+1 and the draft at ĉ, so that speedup
    is one over the operations increase. Between them, the scenario's own σ.
    """
    s, cost = prediction.scenario, prediction.halves.cost
    costs = _costs(cost)
    sigmas = np.array([each.sigma_at(s.gamma) for each in costs])
    totals = np.array([float(each.total(s.gamma)) for each in costs])
    speedups = prediction.tokens_per_step / totals
    gpus = prediction.gpu_ratio if s.gamma else 1.0
    columns = [
        column("regime", NAMES),
        column("sigma", sigmas),
        column("verify_cost", 1 + sigmas * s.gamma, "1+{sigma}*{gamma}"),
        column("step_cost", totals, _step_formulas(cost)),
        column("walltime_improvement", speedups, SPEEDUP),
        column(
            "cost_change_percent",
            100 * (gpus / speedups - 1),
            "100*({gpu_ratio}/{walltime_improvement}-1)",
        ),
    ]
    inputs = [
        replace(
            field_input("gamma", s.gamma, "computed"),
            definition="That of the scenario: tokens_per_step and the verification are those of it",
        ),
        field_input("tokens_per_step", prediction.tokens_per_step, "computed"),
        *(field_input(name, getattr(cost, name), "assumed") for name in ("c", "c_hat")),
        field_input("overhead", float(cost.extra(max(1, s.gamma))), "assumed"),
        Input("gpu_ratio", "GPUs with / without", "", "Extra GPUs for the draft", gpus, ""),
    ]
    if prediction.tpot_plain is not None:
        target_ms = prediction.tpot_plain * 1e3
        time = column("tpot_ms", target_ms / speedups, "{target_ms}/{walltime_improvement}")
        columns.insert(-1, time)
        inputs.append(field_input("target_ms", target_ms, "measured"))
    if prediction.usd_plain is not None:
        usd = prediction.usd_plain * gpus / speedups
        formula = "{usd_plain}*{gpu_ratio}/{walltime_improvement}"
        columns.insert(-1, column("usd_per_million_tokens", usd, formula))
        plain = prediction.usd_plain
        inputs.append(Input("usd_plain", "Plain decoding", "USD", "Per million tokens", plain))
    return Table("Each regime's latency beside its cost", "regimes", tuple(columns), tuple(inputs))
