"""Tables of one prediction: over γ, choosing γ, regimes; each with live formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from specmath.acceptance import IidAcceptance
from specmath.checks import FloatArray
from specmath.gamma import crossover_gamma
from specmath.palette import COST, SPECULATION
from specmath.predict import Prediction, usd_at
from specmath.speculation import breakeven_alpha_of
from specmath.stepcost import Covered, LinearStepCost, Observed, StepCost
from specmath.tables.columns import COLUMNS, column, columns_of
from specmath.tables.inputs import derived, fixed, money_cells, plain_cells, reachable
from specmath.tables.live import Halves
from specmath.tables.live_acceptance import Parts
from specmath.tables.table import Chart, Input, Table
from specmath.theorems import operations_increase, walltime_improvement

__all__ = [
    "alpha_gamma_table",
    "crossover_table",
    "draft_cost_table",
    "gamma_table",
    "regime_costs",
    "regime_table",
]


def gamma_table(prediction: Prediction) -> Table:
    """One row a γ: tokens per step, its cost, speedup, arithmetic, time and money.

    Live in the file: acceptance (α, each rate, a mixture, a range), c or the two times, ĉ, σ, h, a
    measured curve or run, batch and price; with hardware as far as `specmath.tables.live` says.
    τ is a running sum of the survival, so α = 0 and α = 1 need no special case.

    Examples
    --------
    >>> from specmath import EXAMPLE, predict
    >>> column = gamma_table(predict(EXAMPLE)).column("walltime_improvement")
    >>> round(column.values[4], 4), column.formula(4)
    (2.2222, '{tokens_per_step}/{step_cost}')
    """
    halves, money = Halves(prediction).columns(), _money_columns(prediction)
    columns = (column("gamma", prediction.curve.gamma), *halves[0], *money[0])
    return Table(
        "Speculative decoding over the number of drafted tokens",
        "gamma",
        columns,
        reachable(columns, (*halves[1], *money[1])),
        Chart("gamma", ("walltime_improvement", "operations_increase"), "× plain decoding",
              (SPECULATION, COST)),
    )  # fmt: skip


def _money_columns(p: Prediction) -> Parts:
    """Time, throughput and cost per token over γ."""
    s, curve = p.scenario, p.curve
    if p.tpot_plain is None:
        return [], []
    tpot_ms = p.tpot_plain.value * 1e3 / curve.walltime_improvement
    each = list(zip(tpot_ms / 1e3, curve.gamma.tolist(), strict=True))
    rate = np.array([float(p.endpoint.throughput(t, g)) for t, g in each])
    held = p.endpoint.batch_held
    columns = [
        column("tpot_ms", tpot_ms, "{plain_ms}/{walltime_improvement}"),
        column("tokens_per_second", rate, "{batch}*1000/{tpot_ms}" if held else ()),
    ]
    inputs = [*plain_cells(p), *money_cells(p, ["batch"])]
    if s.usd_per_hour is not None:
        usd = np.array([float(usd_at(p.endpoint, t, g)) for t, g in each])
        gpus = "({tensor_parallel}+{draft_gpus}*({gamma}>0))"
        live = f"{gpus}*{{usd_per_hour}}/3600*1000000/{{tokens_per_second}}"
        columns.append(column("usd_per_million_tokens", usd, live))
        inputs += money_cells(p, ["tensor_parallel", "draft_gpus", "usd_per_hour"])
    return columns, inputs


# ── choosing γ ────────────────────────────────────────────────────────────────────────────────────


ALPHAS = np.round(np.arange(0, 1.001, 0.05), 2)
OF_THE_STEPS = "Of the step costs of the scenario, which are fixed in this file"
CROSSOVER_ALPHAS = (0.3, 0.41, 0.42, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
DRAFT_COSTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def alpha_gamma_table(prediction: Prediction) -> Table:
    """Speedup over α × γ at the scenario's step cost: one row a pair, for a heat map or a pivot."""
    ours, gammas = prediction.speculation, prediction.curve.gamma
    size, share = len(gammas), ours.coverage
    each = [ours.with_drafted(IidAcceptance(float(a))) for a in ALPHAS]
    waiting, waits, _ = Halves(prediction).waiting(gammas)
    values = {
        "alpha": np.repeat(ALPHAS, size),
        "gamma": np.tile(gammas, len(ALPHAS)),
        "step_cost": np.tile(ours.cost.total(gammas), len(ALPHAS)),
        "tokens_per_step": np.concatenate([one.tokens(gammas) for one in each]),
        **{name: np.tile(each_gamma, len(ALPHAS)) for name, each_gamma in waits.items()},
        "walltime_improvement": np.concatenate([one.speedup(gammas) for one in each]),
    }
    rest = "1+{alpha}*{tokens_per_step^}"
    inputs: tuple[Input, ...] = ()
    if share < 1:  # of all steps, those without a draft emit one token
        rest = "1+{alpha}*({tokens_per_step^}-1+{coverage})"
        inputs = (fixed("coverage", share, OF_THE_STEPS),)
    if ours.waiting:
        inputs += (fixed("plain_waiting", ours.plain_waiting, OF_THE_STEPS),)
    live: dict[str, Any] = {
        "alpha": (None, *("{alpha^}",) * (size - 1)) * len(ALPHAS),
        "tokens_per_step": ("1", *(rest,) * (size - 1)) * len(ALPHAS),
        "walltime_improvement": waiting,
    }
    title = "Speedup over acceptance and drafted tokens"
    of_the_steps = {"step_cost": f"{COLUMNS['step_cost'].definition}. {OF_THE_STEPS}"}
    columns = tuple(
        replace(c, editable=c.name == "alpha") for c in columns_of(values, live, of_the_steps)
    )
    return Table(title, "alpha_gamma", columns, inputs)


def crossover_table(prediction: Prediction) -> Table:
    """Over α: the first γ at which arithmetic grows at least as much as speed (memory-bound)."""
    cost = prediction.speculation.cost
    alphas = np.array(CROSSOVER_ALPHAS)
    crossings = np.asarray(crossover_gamma(alphas, cost.c, cost.c_hat))
    before, known = np.maximum(crossings - 1, 0), crossings > 0
    speed = np.where(known, walltime_improvement(alphas, before, cost.c), np.nan)
    operations = np.where(known, operations_increase(alphas, before, cost.c_hat), np.nan)
    values: dict[str, Any] = {
        "alpha": alphas,
        "crossover_gamma": [int(g) or None for g in crossings],
        "speedup_before": speed,
        "operations_before": operations,
    }
    return Table("Where arithmetic outgrows speed", "crossover", columns_of(values))


def draft_cost_table(prediction: Prediction) -> Table:
    """Over c: the best γ, its speedup, and the least α that breaks even at the scenario's γ."""
    gamma, ours = prediction.gamma, prediction.speculation
    gammas, most = prediction.curve.gamma, prediction.scenario.max_gamma
    costs = sorted({*DRAFT_COSTS, round(ours.cost.c, 4)})
    each = [ours.cost.with_draft_cost(c) for c in costs]
    speeds = np.array([ours.with_cost(cost).speedup(gammas) for cost in each])
    values: dict[str, Any] = {
        "c": costs,
        "best_gamma": speeds[:, : most + 1].argmax(axis=1),
        "best_speedup": speeds[:, : most + 1].max(axis=1),
        "speedup_at_gamma": speeds[:, gamma],
        "breakeven_alpha": [float(breakeven_alpha_of(c, gamma, ours.coverage)) for c in each],
    }
    return Table("What the draft's cost does", "draft_cost", columns_of(values))


# ── regimes ───────────────────────────────────────────────────────────────────────────────────────


NAMES = ("Memory-bound (v = 1)", "Yours", "Compute-bound (v = γ+1)")


def _regimes(cost: StepCost) -> list[StepCost]:
    """The two ends, which are the theorems and know no overhead, and between them the scenario."""
    compute: StepCost = LinearStepCost(cost.c, cost.c_hat, sigma=1.0)
    each = cost.expected if isinstance(cost, Observed) else cost
    if isinstance(each, Covered):
        compute = Covered(compute, each.coverage)
    return [cost.memory_bound(), cost, compute]


def regime_costs(prediction: Prediction) -> list[tuple[str, FloatArray]]:
    """Cost per token against plain decoding over γ, one curve a regime: GPUs × s/τ."""
    gammas = prediction.curve.gamma
    gpus = np.where(gammas > 0, prediction.gpu_ratio, 1.0)
    ours = prediction.speculation
    return [
        (name, gpus / ours.with_cost(cost).speedup(gammas))
        for name, cost in zip(NAMES, _regimes(ours.cost), strict=True)
    ]


def regime_table(prediction: Prediction) -> Table:
    """Each regime's latency beside that regime's cost, at the γ in use.

    Memory-bound: v = 1, Theorem 3.8. Compute-bound: v = γ+1 and the draft at ĉ, so that speedup
    is one over the operations increase. Between them, the scenario's own σ. Live as the table over
    γ is; σ is the slope that v has.
    """
    p, gamma, ours = prediction, prediction.gamma, prediction.speculation
    halves, costs = Halves(p), _regimes(ours.cost)
    sigmas = np.array([each.sigma_at(gamma) for each in costs])
    speedups = np.array([float(ours.with_cost(each).speedup(gamma)) for each in costs])
    ratio, waits, live_waits = halves.waiting(np.full(len(costs), gamma))
    values: dict[str, Any] = {
        "regime": NAMES,
        **waits,
        "slope": sigmas,
        "verify_cost": 1 + sigmas * gamma,
        "step_cost": [float(each.total(gamma)) for each in costs],
        "walltime_improvement": speedups,
    }
    live: dict[str, Any] = {
        **live_waits,
        "slope": (
            None,
            halves.cost.slope(gamma),
            "{coverage}" if halves.cost.covered and gamma else None,
        ),
        "verify_cost": "1+{slope}*{gamma}",
        "step_cost": halves.cost.regimes(),
        "walltime_improvement": ratio.replace("{tokens_per_step}", "{tokens_per_step_at_gamma}"),
    }
    inputs = [*halves.cells()]
    if p.tpot_plain is not None:
        values["tpot_ms"] = p.tpot_plain.value * 1e3 / speedups
        live["tpot_ms"] = "{plain_ms}/{walltime_improvement}"
        inputs += [*plain_cells(p), *money_cells(p, ["batch"])]
    gpus, ratio_cells = p.gpu_ratio if gamma else 1.0, _gpu_ratio(p)
    inputs += ratio_cells
    # Else the throughput, and so the cost, does not follow the time per token.
    held = p.endpoint.batch_held
    if p.usd_plain is not None and p.tpot_plain is not None and held:
        values["usd_per_million_tokens"] = p.usd_plain.value * gpus / speedups
        live["usd_per_million_tokens"] = "{usd_plain}*{gpu_ratio}/{walltime_improvement}"
        inputs += _usd_plain(p)
    values["cost_change_percent"] = 100 * (gpus / speedups - 1)
    live["cost_change_percent"] = "100*({gpu_ratio}/{walltime_improvement}-1)"
    columns = columns_of(values, live)
    title = f"Each regime's latency beside its cost, at γ={gamma}"
    return Table(title, "regimes", columns, reachable(columns, inputs))


def _gpu_ratio(p: Prediction) -> list[Input]:
    gpus = p.gpu_ratio if p.gamma else 1.0
    said = "Extra GPUs for the draft"
    text = "({tensor_parallel}+{draft_gpus})/{tensor_parallel}" if p.gamma else "1"
    ratio = derived("gpu_ratio", "GPUs with / without", "", said, gpus, text, "0.00")
    return [*money_cells(p, ["tensor_parallel", "draft_gpus"]), ratio]


def _usd_plain(p: Prediction) -> list[Input]:
    """Dollars per million tokens of plain decoding, and the throughput they come from."""
    assert p.tpot_plain is not None
    assert p.usd_plain is not None
    rate = float(p.endpoint.throughput(p.tpot_plain.value, 0))
    return [
        *money_cells(p, ["usd_per_hour"]),
        derived("plain_rate", "One replica, plain", "tokens/s", "Output tokens a second", rate,
                "{batch}*1000/{plain_ms}" if p.endpoint.pair is None else None, "#,##0.0"),
        derived("usd_plain", "Plain decoding", "USD", "Per million output tokens",
                p.usd_plain.value, "{tensor_parallel}*{usd_per_hour}/3600*1000000/{plain_rate}",
                "0.000"),
    ]  # fmt: skip
