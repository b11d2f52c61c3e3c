"""A report as a scenario of the calculator."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from specmath.checks import InputError
from specmath.measure.report import ALL, AcceptanceRow, Costs, Report, ReportPart
from specmath.scenario import Scenario
from specmath.scenario.files import build, revised
from specmath.stepcost import TabulatedStepCost

__all__ = ["best_gamma", "step_cost", "to_scenario"]


def to_scenario(
    report: Report, *, segment: str = ALL, temperature: float | None = None,
    gamma: int | None = None, acceptance: Literal["survival", "range"] = "survival",
    into: Scenario | None = None,
) -> Scenario:  # fmt: skip
    """The scenario that opens a measurement in the calculator.

    `acceptance` "survival" gives the per-position rates replayed at γ; "range" the interval of α.
    temperature defaults to the last one measured, γ to the best by replay with the measured v.
    Costs: both times in ms, v at every γ up to the largest measured (on a line between those of the
    report), ĉ, and as overhead what drafting spends at γ beyond γ forwards; where the loop drafts
    cheaper than γ forwards, c is what it pays.
    Without a GPU the price is left unknown.

    What was measured on a GPU was run by transformers as it is: c and v are not those of a server,
    so the acceptance alone is taken, up to the largest γ unless one is given, and none is chosen.
    So it is where `into` names a scenario whose costs come from hardware: it gets the acceptance.
    InputError where the report lacks the segment, the temperature, γ or the costs.
    """
    if into is not None and into.costs.computed:
        return revised(into, _acceptance(report, segment, temperature, gamma, acceptance))
    if report.machine.accelerator:
        found = _acceptance(report, segment, temperature, gamma, acceptance)
        return build(found | {"draft_form": "range", "label": _label(report, segment)})
    row, costs, steps = _measured(report, segment, temperature)
    if gamma is None:
        gamma = best_gamma(report, segment=segment, temperature=row.temperature)
    values = _acceptance(report, segment, row.temperature, gamma, acceptance)
    drafting = steps[gamma][1]
    c = min(costs.c.value, drafting / gamma)
    reach = range(1, max(steps) + 1)
    curve = np.interp(reach, list(steps), [v for v, _ in steps.values()])
    target_ms = max(1000 * costs.target_seconds.value, 0.001)
    values |= {
        "label": _label(report, segment),
        "gamma": gamma,
        "target_ms": target_ms,
        "draft_ms": c * target_ms,  # so that their ratio is c, measured in pairs
        "c_hat": "unknown" if costs.c_hat is None else costs.c_hat,
        "verify_costs": tuple(curve.tolist()),
        "overhead": max(0.0, drafting - gamma * c),
        "output_tokens": report.settings.output_tokens,
        "usd_per_hour": "unknown",
    }
    for name in ("target", "draft"):
        if count := getattr(report.pair, f"{name}_parameters"):  # a look-up has none
            values[f"{name}_billions"] = count / 1e9
    return build(values)


def _acceptance(
    report: Report, segment: str, temperature: float | None, gamma: int | None,
    form: Literal["survival", "range"],
) -> dict[str, Any]:  # fmt: skip
    """Fields of a scenario: what carries over to any engine."""
    row, gammas = _row(report, segment, temperature), report.settings.gammas
    gamma = max(gammas) if gamma is None else gamma
    if gamma not in gammas or gamma < 1:
        raise InputError(f"gamma must be one of {gammas} and >= 1, got {gamma}")
    values: dict[str, Any] = {
        "temperature": row.temperature,
        "acceptance_source": "my_traffic" if report.settings.own_prompts else "other_traffic",
    }
    if form == "range":
        return values | {"alpha_low": row.alpha.low, "alpha_high": row.alpha.high}
    return values | {"rates": row.survival[gammas.index(gamma)][1:]}


def step_cost(
    report: Report, *, segment: str = ALL, temperature: float | None = None
) -> TabulatedStepCost:
    """The measured s(γ) up to γ = K, K the end of an unbroken run of the report's γs.

    v and d are those of the loop itself where γ was run, d with all that a step spends besides the
    forwards; elsewhere those of the forwards, and in d the median over the γ run of the rest.
    InputError as `to_scenario`, and where the report has no γ = 1.
    """
    _, costs, steps = _measured(report, segment, temperature)
    parts = [steps[gamma] for n, gamma in enumerate(steps) if gamma == n][1:]
    if not parts:
        raise InputError("this report has no gamma = 1, from which a table of costs starts")
    verify, drafting = zip(*parts, strict=True)
    c_hat = 0.0 if costs.c_hat is None else costs.c_hat
    return TabulatedStepCost(verify, drafting, (0.0,) * len(parts), costs.c.value, c_hat)


def best_gamma(report: Report, *, segment: str = ALL, temperature: float | None = None) -> int:
    """The γ ≥ 1 of the report with the largest replayed τ / (v + d), the smallest on ties."""
    row, _, steps = _measured(report, segment, temperature)
    speedups = {
        gamma: tokens / sum(steps[gamma])
        for gamma, tokens in zip(report.settings.gammas, row.tokens_per_step, strict=True)
        if gamma > 0
    }
    if not speedups:
        raise InputError("this report has no gamma >= 1")
    return max(sorted(speedups), key=lambda gamma: speedups[gamma])


def _row(report: Report, segment: str, temperature: float | None) -> AcceptanceRow:
    """The acceptance there; at the last temperature measured where none is given."""
    if not report.acceptance:
        raise InputError("this report has no acceptance: it stopped before any text was replayed")
    wanted = report.acceptance[-1].temperature if temperature is None else temperature
    part = ReportPart(segment, wanted)
    if part not in report.parts:
        known = sorted(map(tuple, report.parts))
        raise InputError(f"no segment {segment!r} at T={wanted:g} in this report; it has {known}")
    return report.acceptance_of(part)


def _measured(
    report: Report, segment: str, temperature: float | None
) -> tuple[AcceptanceRow, Costs, dict[int, tuple[float, float]]]:
    """Acceptance and costs there, and (v, d) at γ = 0 and every γ of the report, in order, as
    `step_cost` says."""
    row = _row(report, segment, temperature)
    costs = report.costs
    if costs is None:
        raise InputError("this report has no costs: it stopped before timing was done")
    ran = {
        each.gamma: (each.verify_cost, max(0.0, each.draft_cost + each.overhead))
        for each in report.comparison if each.part == row.part
    }  # fmt: skip
    c, forwards = costs.c.value, {g: costs.verify[g].value for g in report.settings.gammas if g}
    # A γ that was not run must not look cheaper only because nobody saw its loop.
    besides = [sum(step) - forwards[g] - g * c for g, step in ran.items() if g in forwards]
    spent = float(np.median(besides)) if besides else 0.0
    timed = {g: (v, max(0.0, g * c + spent)) for g, v in forwards.items()}
    steps = {0: (1.0, 0.0)} | dict(sorted((timed | ran).items()))
    return row, costs, steps


def _label(report: Report, segment: str) -> str:
    where = "" if segment == ALL else f", {segment}"
    text = f"Measured: {report.pair.target} with {report.pair.draft}{where}"
    return "".join(c for c in text if c.isprintable())[:80]
