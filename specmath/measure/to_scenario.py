"""A report as a scenario of the calculator."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from specmath.checks import InputError
from specmath.measure.report import AcceptanceRow, Costs, Report
from specmath.scenario import Scenario
from specmath.scenario.files import build
from specmath.stepcost import TabulatedStepCost

__all__ = ["best_gamma", "step_cost", "to_scenario"]


def to_scenario(
    report: Report,
    *,
    segment: str = "all",
    temperature: float | None = None,
    gamma: int | None = None,
    acceptance: Literal["survival", "range"] = "survival",
) -> Scenario:
    """The scenario that opens a measurement in the calculator.

    `acceptance` "survival" gives the per-position rates replayed at γ; "range" the interval of α.
    temperature defaults to the last one measured, γ to the best by replay with the measured v.
    Costs: both times in ms, v at every γ up to the largest measured (on a line between those of the
    report), ĉ, and as overhead what drafting spends at γ beyond γ forwards; where the loop drafts
    cheaper than γ forwards, c is what it pays.
    Without a GPU the price is left unknown. InputError
    where the report lacks the segment, the temperature, γ or the costs.
    """
    row = _row(report, segment, temperature)
    costs = _costs(report)
    if gamma is None:
        gamma = best_gamma(report, segment=segment, temperature=row.temperature)
    if gamma not in report.settings.gammas or gamma < 1:
        raise InputError(f"gamma must be one of {report.settings.gammas} and >= 1, got {gamma}")
    steps = _steps(report, row, costs)
    drafting = steps[gamma][1]
    c = min(costs.c.value, drafting / gamma)
    reach = range(1, max(steps) + 1)
    curve = np.interp(reach, list(steps), [v for v, _ in steps.values()])
    target_ms = max(1000 * costs.target_seconds.value, 0.001)
    values: dict[str, Any] = {
        "label": _label(report, segment),
        "gamma": gamma,
        "target_ms": target_ms,
        "draft_ms": c * target_ms,  # so that their ratio is c, measured in pairs
        "c_hat": "unknown" if costs.c_hat is None else costs.c_hat,
        "verify_costs": tuple(curve.tolist()),
        "overhead": max(0.0, drafting - gamma * c),
        "temperature": row.temperature,
        "output_tokens": report.settings.output_tokens,
        "acceptance_source": "my_traffic" if report.settings.own_prompts else "other_traffic",
    }
    for name, count in (
        ("target_billions", report.pair.target_parameters),
        ("draft_billions", report.pair.draft_parameters),
    ):
        if count:  # a look-up has none
            values[name] = count / 1e9
    if not report.machine.accelerator:
        values["usd_per_hour"] = "unknown"
    if acceptance == "range":
        values |= {"alpha_low": row.alpha.low, "alpha_high": row.alpha.high}
    else:
        at = report.settings.gammas.index(gamma)
        values["rates"] = row.survival[at][1:]
    return build(values)


def step_cost(
    report: Report, *, segment: str = "all", temperature: float | None = None
) -> TabulatedStepCost:
    """The measured s(γ) for γ = 0 … K, K the end of an unbroken run of the report's γs.

    v and d are those of the loop itself where γ was run; elsewhere those of the forwards, and in d
    what the loop spent besides (the median over the γ run). InputError as `to_scenario`, and where
    the report has no γ = 1.
    """
    row, costs = _row(report, segment, temperature), _costs(report)
    steps = _steps(report, row, costs)
    parts: list[tuple[float, float]] = []
    while len(parts) in steps:
        parts.append(steps[len(parts)])
    if len(parts) == 1:
        raise InputError("this report has no gamma = 1, from which a table of costs starts")
    verify, drafting = zip(*parts, strict=True)
    c_hat = 0.0 if costs.c_hat is None else costs.c_hat
    return TabulatedStepCost(verify, drafting, (0.0,) * len(parts), costs.c.value, c_hat)


def best_gamma(report: Report, *, segment: str = "all", temperature: float | None = None) -> int:
    """The γ ≥ 1 of the report with the largest replayed τ / (v + d), the smallest on ties."""
    row = _row(report, segment, temperature)
    steps = _steps(report, row, _costs(report))
    speedups = {
        gamma: tokens / sum(steps[gamma])
        for gamma, tokens in zip(report.settings.gammas, row.tokens_per_step, strict=True)
        if gamma > 0
    }
    if not speedups:
        raise InputError("this report has no gamma >= 1")
    return max(sorted(speedups), key=lambda gamma: speedups[gamma])


def _costs(report: Report) -> Costs:
    if report.costs is None:
        raise InputError("this report has no costs: it stopped before timing was done")
    return report.costs


def _steps(report: Report, row: AcceptanceRow, costs: Costs) -> dict[int, tuple[float, float]]:
    """(v, d) at γ = 0 and every γ of the report, as `step_cost` says."""
    ran = {
        each.gamma: (each.verify_cost, each.draft_cost)
        for each in report.comparison
        if (each.segment, each.temperature) == (row.segment, row.temperature)
    }
    c, forwards = costs.c.value, {g: costs.verify[g].value for g in report.settings.gammas if g}
    # A γ that was not run must not look cheaper only because nobody saw its loop.
    besides = [sum(step) - forwards[g] - g * c for g, step in ran.items() if g in forwards]
    spent = float(np.median(besides)) if besides else 0.0
    timed = {g: (v, max(0.0, g * c + spent)) for g, v in forwards.items()}
    return {0: (1.0, 0.0)} | dict(sorted((timed | ran).items()))


def _row(report: Report, segment: str, temperature: float | None) -> AcceptanceRow:
    if not report.acceptance:
        raise InputError("this report has no acceptance: it stopped before any text was replayed")
    wanted = report.acceptance[-1].temperature if temperature is None else temperature
    for row in report.acceptance:
        if row.segment == segment and row.temperature == wanted:
            return row
    known = sorted({(row.segment, row.temperature) for row in report.acceptance})
    raise InputError(f"no segment {segment!r} at T={wanted:g} in this report; it has {known}")


def _label(report: Report, segment: str) -> str:
    where = "" if segment == "all" else f", {segment}"
    text = f"Measured: {report.pair.target} with {report.pair.draft}{where}"
    return "".join(c for c in text if c.isprintable())[:80]
