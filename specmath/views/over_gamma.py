"""The table over γ: one row a number of drafted tokens, with a live formula for every result."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from specmath.acceptance import Acceptance, IidAcceptance, MixtureAcceptance, PerPositionAcceptance
from specmath.palette import COST, SPECULATION
from specmath.predict import Prediction, usd_at
from specmath.scenario import SPECS
from specmath.serving import CoveredAcceptance
from specmath.sheets.columns import SPEEDUP, column, field_input, mixed_draft
from specmath.sheets.tables import Basis, Chart, Column, Input, Table
from specmath.stepcost import LinearStepCost, TabulatedStepCost

__all__ = ["gamma_table"]


Parts = tuple[list[Column], list[Input]]


def gamma_table(prediction: Prediction) -> Table:
    """One row a γ: tokens per step, its cost, speedup, arithmetic, time and money.

    Live in the file: acceptance (α, or each conditional rate), c or the two times, ĉ, σ, h, batch
    and price. τ is a running sum of the survival, so α = 0 and α = 1 need no special case.
    """
    curve, acceptance = prediction.curve, prediction.halves.acceptance
    accepted, accepted_inputs = _BY_ACCEPTANCE[type(acceptance)](acceptance, curve.gamma)
    cost = prediction.halves.cost
    costs, cost_inputs = _BY_COST[type(cost)](prediction, cost)
    money, money_inputs = _money_columns(prediction)
    share = "{coverage}*" if isinstance(acceptance, CoveredAcceptance) else ""
    operations = f"({share}{{gamma}}*({{c_hat}}+1)+1)/{{tokens_per_step}}"
    outcome = [
        column("walltime_improvement", curve.walltime_improvement, SPEEDUP),
        column("operations_increase", curve.operations_increase, operations),
    ]
    if curve.low is not None and curve.high is not None:
        outcome.append(column("walltime_improvement_low", curve.low))
        outcome.append(column("walltime_improvement_high", curve.high))
    inputs = {i.name: i for i in (*accepted_inputs, *cost_inputs, *money_inputs)}
    return Table(
        "Speculative decoding over the number of drafted tokens",
        "gamma",
        (column("gamma", curve.gamma), *accepted, *costs, *outcome, *money),
        tuple(inputs.values()),
        Chart(
            "gamma",
            ("walltime_improvement", "operations_increase"),
            "× plain decoding",
            (SPECULATION, COST),
        ),
    )


def _survival_columns(
    acceptance: Acceptance, gammas: np.ndarray, rate: str, suffix: str = ""
) -> list[Column]:
    """Survival and its running sum; `rate` names the column or input with the conditional rate."""
    survival, rest = acceptance.survival(int(gammas[-1])), len(gammas) - 1
    here, above = f"{{survival{suffix}}}", f"{{tokens_per_step{suffix}^}}"
    return [
        column(
            "survival",
            survival,
            ("1", *(f"{{survival{suffix}^}}*{{{rate}}}",) * rest),
            suffix=suffix,
        ),
        column(
            "tokens_per_step",
            np.cumsum(survival),
            (here, *(f"{above}+{here}",) * rest),
            suffix=suffix,
        ),
    ]


def _iid(acceptance: IidAcceptance, gammas: np.ndarray) -> Parts:
    alpha = field_input("alpha", acceptance.alpha, "computed", "0.0000")
    return _survival_columns(acceptance, gammas, "alpha"), [alpha]


def _per_position(acceptance: PerPositionAcceptance, gammas: np.ndarray) -> Parts:
    measured = acceptance.conditional[: len(gammas) - 1]
    beyond = len(gammas) - 1 - len(measured)
    conditional = column(
        "conditional",
        (None, *measured, *(measured[-1:] * beyond)),
        (None,) * (1 + len(measured)) + ("{conditional^}",) * beyond,
        definition="P(token accepted | all before it were); measured to "
        f"gamma={len(acceptance.rates)}, the last rate is carried on beyond",
    )
    return [conditional, *_survival_columns(acceptance, gammas, "conditional")], []


def _mixture(acceptance: MixtureAcceptance, gammas: np.ndarray) -> Parts:
    columns: list[Column] = []
    inputs: list[Input] = []
    pairs = list(zip(acceptance.weights, acceptance.parts, strict=True))
    for i, (share, part) in enumerate(pairs, start=1):
        alpha = part.alpha if isinstance(part, IidAcceptance) else None
        inputs.append(Input(f"share_{i}", f"Share {i}", "", "Share of the output tokens", share))
        inputs.append(Input(f"alpha_{i}", f"α {i}", "", SPECS["alpha"].help, alpha))
        columns += _survival_columns(part, gammas, f"alpha_{i}", f"_{i}")
    kinds = range(1, len(pairs) + 1)
    shares = "+".join(f"{{share_{i}}}" for i in kinds)
    steps = "+".join(f"{{share_{i}}}/{{tokens_per_step_{i}}}" for i in kinds)
    total = column(
        "tokens_per_step",
        np.asarray(acceptance.tokens_per_step(gammas)),
        f"({shares})/({steps})",
        definition="Blend that averages time per token: Σ share / Σ (share / tokens_per_step)",
    )
    return [*columns, total], inputs


def _covered(acceptance: CoveredAcceptance, gammas: np.ndarray) -> Parts:
    """Over all steps where only a share κ has a draft: τ = κ × (that of the drafted) + 1 − κ."""
    drafted, inputs = _BY_ACCEPTANCE[type(acceptance.part)](acceptance.part, gammas)
    drafted = [replace(c, name=f"{c.name}_drafted", formulas=_renamed(c.formulas)) for c in drafted]
    total = column(
        "tokens_per_step",
        np.asarray(acceptance.tokens_per_step(gammas)),
        "{coverage}*{tokens_per_step_drafted}+1-{coverage}",
        definition="Over all steps: coverage × that of the steps with a draft + 1 − coverage",
    )
    return [*drafted, total], [*inputs, field_input("coverage", acceptance.coverage, "assumed")]


def _renamed(formulas: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """The formulas of the drafted steps, looking at the drafted columns."""
    pattern = re.compile(r"\{((?:survival|tokens_per_step|conditional)\w*)(\^?)\}")
    return tuple(f and pattern.sub(r"{\1_drafted\2}", f) for f in formulas)


_BY_ACCEPTANCE: dict[type, Callable[..., Parts]] = {
    IidAcceptance: _iid,
    PerPositionAcceptance: _per_position,
    MixtureAcceptance: _mixture,
    CoveredAcceptance: _covered,
}


def _basis(prediction: Prediction, name: str) -> Basis:
    """A number the user typed counts as measured; one left at its default is assumed."""
    default = type(prediction.scenario).model_fields[name].default
    return "assumed" if getattr(prediction.scenario, name) in (default, None) else "measured"


def _given_inputs(prediction: Prediction, *names: str) -> list[Input]:
    scenario = prediction.scenario
    return [field_input(n, getattr(scenario, n), _basis(prediction, n)) for n in names]


def _live_c(prediction: Prediction) -> tuple[str, list[Input]]:
    """c as a formula of what was given, and the cells it looks at."""
    if prediction.scenario.draft_form == "times":
        return "({draft_ms}/{target_ms})", _given_inputs(prediction, "draft_ms", "target_ms")
    return "{c}", [field_input("c", prediction.halves.cost.c, _basis(prediction, "c"))]


def _linear_cost(prediction: Prediction, cost: LinearStepCost) -> Parts:
    curve = prediction.curve
    inputs = [
        field_input(name, getattr(cost, name), _basis(prediction, name))
        for name in ("c_hat", "sigma", "overhead")
    ]
    c, cells = _live_c(prediction)
    inputs += cells
    return [
        column("verify_cost", curve.verify_cost, "1+{sigma}*{gamma}"),
        column(
            "draft_cost", curve.draft_cost, f"{{gamma}}*{mixed_draft(c)}+{{overhead}}*({{gamma}}>0)"
        ),
        column("step_cost", curve.step_cost, "{verify_cost}+{draft_cost}"),
    ], inputs


def _tabulated_cost(prediction: Prediction, cost: TabulatedStepCost) -> Parts:
    """From the step-time model: constants in the file, because no formula of a cell makes them.
    Of a measured curve only v is constant."""
    curve = prediction.curve
    if prediction.scenario.verify_form == "curve":
        c, cells = _live_c(prediction)
        measured = "Passes over gamma + 1 tokens as measured; not live"
        drafting = "gamma × c, and the overhead where gamma ≥ 1"
        live = f"{{gamma}}*{c}+{{overhead}}*({{gamma}}>0)"
        return [
            column("verify_cost", curve.verify_cost, definition=measured, basis="measured"),
            column("draft_cost", curve.draft_cost, live, definition=drafting),
            column("step_cost", curve.step_cost, "{verify_cost}+{draft_cost}"),
        ], [
            field_input("c_hat", cost.c_hat, _basis(prediction, "c_hat")),
            *_given_inputs(prediction, "overhead"),
            *cells,
        ]
    source = "From the step-time model at the batch, context and GPU of the scenario; not live"
    return [
        column("verify_cost", curve.verify_cost, definition=source),
        column("draft_cost", curve.draft_cost, definition=source),
        column("step_cost", curve.step_cost, "{verify_cost}+{draft_cost}"),
    ], [field_input("c_hat", cost.c_hat, "computed")]


_BY_COST: dict[type, Callable[..., Parts]] = {
    LinearStepCost: _linear_cost,
    TabulatedStepCost: _tabulated_cost,
}


def _money_columns(prediction: Prediction) -> Parts:
    s, curve = prediction.scenario, prediction.curve
    if prediction.tpot_plain is None:
        return [], []
    target_ms = prediction.tpot_plain * 1e3
    inputs = [
        field_input("target_ms", target_ms, "computed" if s.target_ms is None else "measured")
    ]
    tpot_ms = target_ms / curve.walltime_improvement
    columns = [column("tpot_ms", tpot_ms, "{target_ms}/{walltime_improvement}")]
    if s.usd_per_hour is not None:
        gpus = "({tensor_parallel}+{draft_gpus}*({gamma}>0))"
        columns.append(
            column(
                "usd_per_million_tokens",
                [
                    usd_at(s, ms / 1e3, speculative=g > 0)
                    for ms, g in zip(tpot_ms, curve.gamma, strict=True)
                ],
                f"{gpus}*{{usd_per_hour}}/3600*{{tpot_ms}}*1000/{{batch}}",
            )
        )
        for name in ("batch", "tensor_parallel", "draft_gpus", "usd_per_hour"):
            inputs.append(field_input(name, getattr(s, name), _basis(prediction, name)))
    return columns, inputs
