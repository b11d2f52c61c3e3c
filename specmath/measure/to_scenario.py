"""A report as a scenario of the calculator."""

from __future__ import annotations

from typing import Any, Literal

from specmath.checks import InputError
from specmath.measure.report import AcceptanceRow, Costs, Report
from specmath.scenario import Scenario
from specmath.scenario.files import build

__all__ = ["best_gamma", "to_scenario"]


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
    Costs: both times in ms, σ from v(γ), ĉ. Without a GPU the price is left unknown. InputError
    where the report lacks the segment, the temperature, γ or the costs.
    """
    row = _row(report, segment, temperature)
    costs = report.costs
    if costs is None:
        raise InputError("this report has no costs: it stopped before timing was done")
    gamma = best_gamma(report, row, costs) if gamma is None else int(gamma)
    if gamma not in report.settings.gammas or gamma < 1:
        raise InputError(f"gamma must be one of {report.settings.gammas} and >= 1, got {gamma}")
    values: dict[str, Any] = {
        "label": _label(report, segment),
        "gamma": gamma,
        "target_ms": max(1000 * costs.target_seconds.value, 0.001),
        "draft_ms": 1000 * costs.draft_seconds.value,
        "c_hat": "unknown" if costs.c_hat is None else costs.c_hat,
        "sigma": min(max((costs.verify[gamma].value - 1) / gamma, -0.5), 10.0),
        "temperature": row.temperature,
        "output_tokens": report.settings.output_tokens,
        "acceptance_source": "my_traffic" if report.settings.own_prompts else "other_traffic",
    }
    for name, count in (
        ("target_billions", report.pair.target_parameters),
        ("draft_billions", report.pair.draft_parameters),
    ):
        if count >= 1_000_000:
            values[name] = count / 1e9
    if not report.machine.accelerator:
        values["usd_per_hour"] = "unknown"
    if acceptance == "range":
        values |= {"alpha_low": row.alpha.low, "alpha_high": row.alpha.high}
    else:
        at = report.settings.gammas.index(gamma)
        values["rates"] = row.survival[at][1:]
    return build(values)


def best_gamma(report: Report, row: AcceptanceRow, costs: Costs) -> int:
    """The γ ≥ 1 of the report with the largest τ / (v + γc), the smallest on ties."""
    speedups = {
        gamma: tokens / (costs.verify[gamma].value + gamma * costs.c.value)
        for gamma, tokens in zip(report.settings.gammas, row.tokens_per_step, strict=True)
        if gamma > 0
    }
    return max(sorted(speedups), key=lambda gamma: speedups[gamma])


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
