"""Tables of one prediction: over γ, what γ does, choosing γ, regimes; each with live formulas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import sub
from typing import Any

import numpy as np

from specmath.acceptance import (
    Acceptance,
    CoveredAcceptance,
    IidAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
)
from specmath.bill import Bill
from specmath.checks import FloatArray
from specmath.estimate import Estimate, conditional
from specmath.frontier import per_gpu, per_user
from specmath.gamma import crossover_gamma
from specmath.palette import COST, SPECULATION
from specmath.predict import Prediction, usd_at
from specmath.scenario import SPECS
from specmath.speculation import breakeven_alpha_of
from specmath.stepcost import Covered, LinearStepCost, StepCost
from specmath.tables.columns import (
    COLUMNS,
    DILUTED,
    SPEEDUP,
    column,
    columns_of,
    field_input,
    mixed_draft,
)
from specmath.tables.table import Chart, Column, Input, Table
from specmath.theorems import operations_increase, walltime_improvement
from specmath.trees import TreeAcceptance

__all__ = [
    "alpha_gamma_table",
    "bill_table",
    "crossover_table",
    "draft_cost_table",
    "gamma_table",
    "numbers_table",
    "regime_costs",
    "regime_table",
]

Parts = tuple[list[Column], list[Input]]


def gamma_table(prediction: Prediction) -> Table:
    """One row a γ: tokens per step, its cost, speedup, arithmetic, time and money.

    Live in the file: acceptance (α, or each conditional rate), c or the two times, ĉ, σ, h, batch
    and price. τ is a running sum of the survival, so α = 0 and α = 1 need no special case.

    Examples
    --------
    >>> from specmath import EXAMPLE, predict
    >>> column = gamma_table(predict(EXAMPLE)).column("walltime_improvement")
    >>> round(column.values[4], 4), column.formula(4)
    (2.2222, '{tokens_per_step}/{step_cost}')
    """
    curve, acceptance = prediction.curve, prediction.speculation.acceptance
    accepted, accepted_inputs = _accepted(acceptance, curve.gamma)
    costs, cost_inputs = _costs(prediction, prediction.speculation.cost)
    money, money_inputs = _money_columns(prediction)
    share = "{coverage}*" if isinstance(acceptance, CoveredAcceptance) else ""
    operations = f"({share}{{gamma}}*({{c_hat}}+1)+1)/{{tokens_per_step}}"
    waiting, waits, plain_waits = _waiting(prediction, curve.gamma)
    outcome: dict[str, Any] = {
        **waits,
        "walltime_improvement": curve.walltime_improvement,
        "operations_increase": curve.operations_increase,
    }
    live = {"walltime_improvement": waiting, "operations_increase": operations}
    if curve.low is not None and curve.high is not None:
        outcome |= {"walltime_improvement_low": curve.low, "walltime_improvement_high": curve.high}
    inputs = {i.name: i for i in (*accepted_inputs, *cost_inputs, *plain_waits, *money_inputs)}
    return Table(
        "Speculative decoding over the number of drafted tokens",
        "gamma",
        (column("gamma", curve.gamma), *accepted, *costs, *columns_of(outcome, live), *money),
        tuple(inputs.values()),
        Chart("gamma", tuple(live), "× plain decoding", (SPECULATION, COST)),
    )


def _waiting(
    prediction: Prediction, gammas: np.ndarray
) -> tuple[str, dict[str, FloatArray], list[Input]]:
    """The ratio as a formula, and what it looks at where prompts take their share of the time."""
    ours = prediction.speculation
    if not ours.waiting:
        return SPEEDUP, {}, []
    said = COLUMNS["plain_waiting"]
    plain = Input(
        "plain_waiting", said.label, said.unit, said.definition, ours.plain_waiting, said.format,
        said.basis,
    )  # fmt: skip
    return DILUTED, {"waiting": ours.waits(gammas)}, [plain]


def _survival_columns(
    acceptance: Acceptance, gammas: np.ndarray, rate: str, suffix: str = ""
) -> list[Column]:
    """Survival and its running sum; `rate` names the column or input with the conditional rate."""
    survival, rest = acceptance.survival(int(gammas[-1])), len(gammas) - 1
    here, above = f"{{survival{suffix}}}", f"{{tokens_per_step{suffix}^}}"
    product = ("1", *(f"{{survival{suffix}^}}*{{{rate}}}",) * rest)
    total = (here, *(f"{above}+{here}",) * rest)
    return [
        column("survival", survival, product, suffix=suffix),
        column("tokens_per_step", np.cumsum(survival), total, suffix=suffix),
    ]


def _accepted(acceptance: Acceptance, gammas: np.ndarray) -> Parts:
    if isinstance(acceptance, CoveredAcceptance):
        tokens = np.asarray(acceptance.tokens_per_step(gammas))
        parts = _accepted(acceptance.part, gammas)
        return _over_all_steps("tokens_per_step", tokens, acceptance.coverage, parts)
    if isinstance(acceptance, MixtureAcceptance):
        return _mixture(acceptance, gammas)
    if isinstance(acceptance, PerPositionAcceptance):
        measured = acceptance.conditional[: len(gammas) - 1]
        beyond = len(gammas) - 1 - len(measured)
        rates = column(
            "conditional",
            (None, *measured, *(measured[-1:] * beyond)),
            (None,) * (1 + len(measured)) + ("{conditional^}",) * beyond,
            definition="P(token accepted | all before it were); measured to "
            f"gamma={len(acceptance.rates)}, the last rate is carried on beyond",
        )
        return [rates, *_survival_columns(acceptance, gammas, "conditional")], []
    if isinstance(acceptance, IidAcceptance):
        alpha = field_input("alpha", acceptance.alpha, "computed", "0.0000")
        return _survival_columns(acceptance, gammas, "alpha"), [alpha]
    if isinstance(acceptance, TreeAcceptance):  # another tree at each number of nodes
        tokens = np.asarray(acceptance.tokens_per_step(gammas))
        return [column("tokens_per_step", tokens, definition="Of the best tree of γ nodes")], []
    each = conditional(acceptance.survival(int(gammas[-1]))[1:].tolist())
    never = len(gammas) - 1 - len(each)
    rates = column(
        "conditional",
        (None, *each, *(0.0,) * never),
        definition="P(token drafted and accepted | all before it were): it falls with the "
        "position, or drafts stop early",
    )
    return [rates, *_survival_columns(acceptance, gammas, "conditional")], []


def _mixture(acceptance: MixtureAcceptance, gammas: np.ndarray) -> Parts:
    columns: list[Column] = []
    inputs: list[Input] = []
    kinds = range(1, len(acceptance.parts) + 1)
    for i, share, part in zip(kinds, acceptance.weights, acceptance.parts, strict=True):
        alpha = part.alpha if isinstance(part, IidAcceptance) else None
        inputs.append(Input(f"share_{i}", f"Share {i}", "", "Share of the output tokens", share))
        inputs.append(Input(f"alpha_{i}", f"α {i}", "", SPECS["alpha"].help, alpha))
        columns += _survival_columns(part, gammas, f"alpha_{i}", f"_{i}")
    shares = "+".join(f"{{share_{i}}}" for i in kinds)
    steps = "+".join(f"{{share_{i}}}/{{tokens_per_step_{i}}}" for i in kinds)
    total = column(
        "tokens_per_step",
        np.asarray(acceptance.tokens_per_step(gammas)),
        f"({shares})/({steps})",
        definition="Blend that averages time per token: Σ share / Σ (share / tokens_per_step)",
    )
    return [*columns, total], inputs


def _over_all_steps(name: str, values: np.ndarray, share: float, parts: Parts) -> Parts:
    """Where only a share κ of the steps has a draft: κ × (that of the drafted) + 1 − κ."""
    columns, inputs = parts
    mine = re.compile(rf"\{{({'|'.join(c.name for c in columns)})(\^?)\}}")
    drafted = [
        replace(c, name=f"{c.name}_drafted",
                formulas=tuple(f and mine.sub(r"{\1_drafted\2}", f) for f in c.formulas))
        for c in columns
    ]  # fmt: skip
    total = column(
        name,
        values,
        f"{{coverage}}*{{{name}_drafted}}+1-{{coverage}}",
        definition="Over all steps: coverage × that of the steps with a draft + 1 − coverage",
    )
    return [*drafted, total], [*inputs, field_input("coverage", share, "assumed")]


def _given(prediction: Prediction, cells: Mapping[str, Any]) -> list[Input]:
    """A number the user typed counts as measured; one left at its default is assumed."""
    s, fields = prediction.scenario, type(prediction.scenario).model_fields
    typed = {name for name in cells if getattr(s, name) not in (fields[name].default, None)}
    return [field_input(n, v, "measured" if n in typed else "assumed") for n, v in cells.items()]


def _costs(prediction: Prediction, cost: StepCost) -> Parts:
    """v, d + h and s. From the step-time model they are constants in the file, because no formula
    of a cell makes them; of a measured curve only v is."""
    s, gammas = prediction.scenario, prediction.curve.gamma
    if isinstance(cost, Covered):
        parts = _costs(prediction, cost.part)
        return _over_all_steps("step_cost", cost.total(gammas), cost.coverage, parts)
    values = {
        "verify_cost": cost.verify(gammas),
        "draft_cost": cost.draft(gammas) + cost.extra(gammas),
        "step_cost": cost.total(gammas),
    }
    live = {"step_cost": "{verify_cost}+{draft_cost}"}
    if not (isinstance(cost, LinearStepCost) or s.verify_costs):
        source = "From the step-time model at the batch, context and GPU of the scenario; not live"
        said = dict.fromkeys(("verify_cost", "draft_cost"), source)
        return [*columns_of(values, live, said)], [field_input("c_hat", cost.c_hat, "computed")]
    c, cells = "{c}", {"c": cost.c}
    if s.draft_ms is not None and s.target_ms is not None:
        c, cells = "({draft_ms}/{target_ms})", {"draft_ms": s.draft_ms, "target_ms": s.target_ms}
    live["draft_cost"] = "{gamma}*%s+{overhead}*({gamma}>0)"
    if isinstance(cost, LinearStepCost):
        live["verify_cost"] = "1+{sigma}*{gamma}"
        live["draft_cost"] %= mixed_draft(c)
        cells = {"c_hat": cost.c_hat, "sigma": cost.sigma, "overhead": s.overhead, **cells}
        return [*columns_of(values, live)], _given(prediction, cells)
    live["draft_cost"] %= c
    said = {
        "verify_cost": "Passes over gamma + 1 tokens as measured; not live",
        "draft_cost": "gamma × c, and the overhead where gamma ≥ 1",
    }
    verify, *rest = columns_of(values, live, said)
    cells = {"c_hat": cost.c_hat, "overhead": s.overhead, **cells}
    return [replace(verify, basis="measured"), *rest], _given(prediction, cells)


def _money_columns(prediction: Prediction) -> Parts:
    s, curve = prediction.scenario, prediction.curve
    if prediction.tpot_plain is None:
        return [], []
    target_ms = prediction.tpot_plain.value * 1e3
    inputs = [
        field_input("target_ms", target_ms, "computed" if s.target_ms is None else "measured")
    ]
    tpot_ms = target_ms / curve.walltime_improvement
    columns = [column("tpot_ms", tpot_ms, "{target_ms}/{walltime_improvement}")]
    if s.usd_per_hour is not None:
        endpoint = prediction.endpoint
        each = zip(tpot_ms / 1e3, curve.gamma.tolist(), strict=True)
        usd = np.array([float(usd_at(endpoint, t, g)) for t, g in each])
        held = _held(prediction)
        gpus = "({tensor_parallel}+{draft_gpus}*({gamma}>0))"
        live = f"{gpus}*{{usd_per_hour}}/3600*{{tpot_ms}}*1000/{{batch}}"
        columns.append(column("usd_per_million_tokens", usd, live if held else ()))
        names = ("batch", "tensor_parallel", "draft_gpus", "usd_per_hour") if held else ()
        inputs += _given(prediction, {name: getattr(s, name) for name in names})
    return columns, inputs


def _held(prediction: Prediction) -> bool:
    """Whether a batch is held: else the throughput, and so the cost, does not follow TPOT alone."""
    load = prediction.endpoint.load
    return load is None or load.requests.batch is not None


# ── plain, speculative and the change ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Quantity:
    """One row, in its unit; None while unknown. `write` makes a count whole."""

    label: str
    unit: str
    plain: Estimate | None
    speculative: Estimate | None
    change: Estimate | None
    write: Callable[[float], float] = float


def numbers_table(p: Prediction) -> Table:
    """Speed, times, throughput, cost and arithmetic at the γ in use, as far as they are known."""
    one = Estimate(1.0)
    work = _Quantity("Arithmetic per token", "×", one, p.operations, _percent(p.operations, one))
    return _beside(
        f"What γ={p.gamma} does", "numbers", [*_answered(p), work], "change_percent", "%"
    )


def card_table(p: Prediction) -> Table:
    """What the answer shows large: the rows of `numbers_table` that are known, but arithmetic."""
    rows = [row for row in _answered(p) if row.speculative is not None]
    return _beside(f"The answer at γ={p.gamma}", "card", rows, "change_percent", "%")


def _answered(p: Prediction) -> list[_Quantity]:
    """Speedup first, then what a user and the bill see of it; a request's times where known."""
    one = Estimate(1.0)
    plain_ms, ms = (t and t.map(lambda seconds: seconds * 1e3) for t in (p.tpot_plain, p.tpot))
    rows = [
        _Quantity("Speed", "×", one, p.speedup, _percent(p.speedup, one)),
        _Quantity("Time per token", "ms", plain_ms, ms, _percent(p.tpot, p.tpot_plain)),
        *_throughputs(p),
        _Quantity("Cost per 1M tokens", "USD", p.usd_plain, p.usd, _percent(p.usd, p.usd_plain)),
        *_per_dollar(p),
    ]
    least = "" if p.scenario.ttft_ms is not None else ", at least"
    times = {f"Time to first token{least}": p.first_token, "Whole request": p.whole_request}
    for label, both in times.items():
        if both is not None:
            before, after = (t.map(lambda seconds: seconds * 1e3) for t in both)
            rows.append(_Quantity(label, "ms", before, after, _percent(after, before)))
    return rows


def _throughputs(p: Prediction) -> list[_Quantity]:
    """Output tokens a second that one user sees, and that one GPU gives; the second where the load
    is known from hardware."""
    rates = {"Tokens/s per user": per_user(p), "Tokens/s per GPU": per_gpu(p)}
    return [
        _Quantity(label, "tokens/s", *both, _percent(both[1], both[0]))
        for label, both in rates.items()
        if both is not None
    ]


def _per_dollar(p: Prediction) -> list[_Quantity]:
    """Output tokens that a dollar buys; none while the price is not known, or nothing."""
    if p.usd is None or p.usd_plain is None or not p.usd.value or not p.usd_plain.value:
        return []
    before, after = (each.map(lambda usd: 1e6 / usd) for each in (p.usd_plain, p.usd))
    return [_Quantity("Tokens per $1", "tokens", before, after, _percent(after, before))]


def _percent(now: Estimate | None, before: Estimate | None) -> Estimate | None:
    """Relative change, point by point: the error of the plain step cancels."""
    if now is None or before is None or before.value == 0:
        return None
    return now.with_(before, lambda a, b: (a / b - 1.0) * 100.0)


def _hundredfold(share: float) -> float:
    return 100.0 * share


_BILL = (
    ("Replicas", "", round, "replicas"),
    ("GPUs", "", round, "all_gpus"),
    ("Bill a month (730 h)", "USD", float, "usd_per_month"),
    ("Of the bill, per 1M output tokens", "USD", float, "billed_per_million"),
    ("Of the bill, per 1M tokens in all", "USD", float, "billed_per_million_total"),
    ("Use of the replicas, %", "", _hundredfold, "use"),
    ("One replica kept busy", "tokens/s", float, "tokens_per_second"),
    ("Kept busy, per 1M output tokens", "USD", float, "usd_per_million"),
    ("Kept busy, per 1M tokens in all", "USD", float, "usd_per_million_total"),
    ("Kept busy, output tokens for $1", "tokens", float, "tokens_per_dollar"),
    ("Kept busy, energy per 1M output tokens, at most", "Wh", float, "wh_per_million"),
)
"""Rows of the bill: label, unit, how it is written, and what of a fleet it is."""
_WHOLE = {
    "replicas",
    "all_gpus",
    "usd_per_month",
    "billed_per_million",
    "billed_per_million_total",
    "use",
}
"""Those that only a demand gives."""


def bill_table(found: Bill) -> Table:
    """Replicas, USD a month and what a token costs in both fleets; change in their units. What is
    not known stays empty; without a demand there are no rows of whole replicas."""
    rows = []
    for label, unit, write, name in _BILL:
        if found.demand is None and name in _WHOLE:
            continue
        before, after = (getattr(fleet, name) for fleet in (found.plain, found.speculative))
        change = None if before is None or after is None else after.with_(before, sub)
        rows.append(_Quantity(label, unit, before, after, change, write))
    return _beside("The bill, in whole replicas", "bill", rows, "change", "")


def _beside(title: str, name: str, rows: Sequence[_Quantity], change: str, unit: str) -> Table:
    """Of each number three columns, itself and its ends, which a page shows as one."""
    parts = (("plain", "plain", ""), ("speculative", "speculative", ""), ("change", change, unit))
    ends = (("value", "", ""), ("low", "_low", ", low"), ("high", "_high", ", high"))
    columns = [
        Column("quantity", "", "", "What is compared", tuple(r.label for r in rows)),
        Column("unit", "Unit", "", "Of the numbers of the row", tuple(r.unit for r in rows)),
    ]
    for (part, shown, of), (end, suffix, words) in product(parts, ends):
        label = f"{part.capitalize()}{words}"
        numbers = ((row, getattr(getattr(row, part), end, None)) for row in rows)
        values = tuple(number if number is None else row.write(number) for row, number in numbers)
        columns.append(Column(f"{shown}{suffix}", label, of, label, values))
    return Table(title, name, tuple(columns))


# ── choosing γ ────────────────────────────────────────────────────────────────────────────────────


ALPHAS = np.round(np.arange(0, 1.001, 0.05), 2)
CROSSOVER_ALPHAS = (0.3, 0.41, 0.42, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
DRAFT_COSTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def alpha_gamma_table(prediction: Prediction) -> Table:
    """Speedup over α × γ at the scenario's step cost: one row a pair, for a heat map or a pivot."""
    ours, gammas = prediction.speculation, prediction.curve.gamma
    size, share = len(gammas), ours.coverage
    each = [ours.with_drafted(IidAcceptance(float(a))) for a in ALPHAS]
    waiting, waits, plain_waits = _waiting(prediction, gammas)
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
        inputs = (field_input("coverage", share, "assumed"),)
    inputs += tuple(plain_waits)
    live: dict[str, Any] = {
        "alpha": (None, *("{alpha^}",) * (size - 1)) * len(ALPHAS),
        "tokens_per_step": ("1", *(rest,) * (size - 1)) * len(ALPHAS),
        "walltime_improvement": waiting,
    }
    title = "Speedup over acceptance and drafted tokens"
    return Table(title, "alpha_gamma", columns_of(values, live), inputs)


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


_OF_THAT_GAMMA = "That of the scenario: tokens_per_step and the verification are those of it"
NAMES = ("Memory-bound (v = 1)", "Yours", "Compute-bound (v = γ+1)")


def _regimes(cost: StepCost) -> list[StepCost]:
    """The two ends, which are the theorems and know no overhead, and between them the scenario."""
    compute: StepCost = LinearStepCost(cost.c, cost.c_hat, sigma=1.0)
    if isinstance(cost, Covered):
        compute = Covered(compute, cost.coverage)
    return [cost.memory_bound(), cost, compute]


def _step_formulas(cost: StepCost) -> list[str | None]:
    """s of each regime, live; what was tabulated is a constant."""
    if isinstance(cost, Covered):
        return [None, None, None]
    compute = "{verify_cost}+{gamma}*{c_hat}"
    if not isinstance(cost, LinearStepCost):
        return [None, None, compute]
    own = f"{{verify_cost}}+{{gamma}}*{mixed_draft('{c}')}+{{overhead}}*({{gamma}}>0)"
    return ["{verify_cost}+{gamma}*{c}", own, compute]


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
    """Each regime's latency beside that regime's cost, at the scenario's γ.

    Memory-bound: v = 1, Theorem 3.8. Compute-bound: v = γ+1 and the draft at ĉ, so that speedup
    is one over the operations increase. Between them, the scenario's own σ.
    """
    gamma, ours = prediction.gamma, prediction.speculation
    cost, costs = ours.cost, _regimes(ours.cost)
    sigmas = np.array([each.sigma_at(gamma) for each in costs])
    speedups = np.array([float(ours.with_cost(each).speedup(gamma)) for each in costs])
    gpus = prediction.gpu_ratio if gamma else 1.0
    waiting, waits, plain_waits = _waiting(prediction, np.full(len(costs), gamma))
    values: dict[str, Any] = {
        "regime": NAMES,
        **waits,
        "sigma": sigmas,
        "verify_cost": 1 + sigmas * gamma,
        "step_cost": [float(each.total(gamma)) for each in costs],
        "walltime_improvement": speedups,
    }
    live: dict[str, Any] = {
        "verify_cost": "1+{sigma}*{gamma}",
        "step_cost": _step_formulas(cost),
        "walltime_improvement": waiting,
        "tpot_ms": "{target_ms}/{walltime_improvement}",
        "usd_per_million_tokens": "{usd_plain}*{gpu_ratio}/{walltime_improvement}",
        "cost_change_percent": "100*({gpu_ratio}/{walltime_improvement}-1)",
    }
    inputs = [
        replace(field_input("gamma", gamma, "computed"), definition=_OF_THAT_GAMMA),
        field_input("tokens_per_step", prediction.tokens_per_step, "computed"),
        *(field_input(name, getattr(cost, name), "assumed") for name in ("c", "c_hat")),
        field_input("overhead", float(cost.extra(max(1, gamma))), "assumed"),
        Input("gpu_ratio", "GPUs with / without", "", "Extra GPUs for the draft", gpus, ""),
        *plain_waits,
    ]
    if prediction.tpot_plain is not None:
        target_ms = prediction.tpot_plain.value * 1e3
        values["tpot_ms"] = target_ms / speedups
        inputs.append(field_input("target_ms", target_ms, "measured"))
    if prediction.usd_plain is not None and _held(prediction):
        plain = prediction.usd_plain.value
        values["usd_per_million_tokens"] = plain * gpus / speedups
        inputs.append(Input("usd_plain", "Plain decoding", "USD", "Per million tokens", plain))
    values["cost_change_percent"] = 100 * (gpus / speedups - 1)
    columns = columns_of(values, live)
    return Table("Each regime's latency beside its cost", "regimes", columns, tuple(inputs))
