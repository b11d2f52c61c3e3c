"""What a measurement's report says, as sentences and tables; `Place` picks a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from specmath.measure.report import AcceptanceRow, Comparison, Interval, Report, RunRow
from specmath.sheets.tables import Basis, Column, Table
from specmath.wording import change, count, faster, ratio, significant

__all__ = [
    "PREDICTIONS",
    "Place",
    "acceptance_of",
    "acceptance_table",
    "comparison_at_best",
    "comparison_of",
    "comparison_table",
    "cost_table",
    "error_rows",
    "headline",
    "median_errors",
    "places",
    "run_of",
    "where_measured",
]

PREDICTIONS = {
    "theorem": "Theorem 3.8, i.i.d. α",
    "replay": "Replay, v = 1",
    "replay_v": "Replay, measured v and d",
}
"""The three predicted speedups of a report, by the name that its fields start with."""

SHORT = {"theorem": "Theorem", "replay": "Replay", "replay_v": "Replay, v and d"}


class Place(NamedTuple):
    """Which part of a report: texts of one segment at one temperature."""

    segment: str
    temperature: float


def places(report: Report) -> list[Place]:
    """The parts that a report holds acceptance for, in its order."""
    return list(dict.fromkeys(Place(row.segment, row.temperature) for row in report.acceptance))


def acceptance_of(report: Report, place: Place) -> AcceptanceRow:
    """The acceptance of a place of `places`."""
    return next(row for row in report.acceptance if (row.segment, row.temperature) == place)


def comparison_of(report: Report, place: Place) -> list[Comparison]:
    """Predicted beside measured for each γ ≥ 1 that was run there, by γ."""
    found = [row for row in report.comparison if (row.segment, row.temperature) == place]
    return sorted((row for row in found if row.gamma > 0), key=lambda row: row.gamma)


def run_of(report: Report, place: Place, gamma: int) -> RunRow | None:
    """What was seen in the steps run there at γ; None where none were."""
    for row in report.runs:
        if (row.segment, row.temperature, row.gamma) == (*place, gamma):
            return row
    return None


def median_errors(rows: Sequence[Comparison]) -> dict[str, float]:
    """Median |predicted / measured − 1| over γ of each of `PREDICTIONS`; rows not empty."""
    return {name: float(np.median([abs(row.error(name)) for row in rows])) for name in PREDICTIONS}


def headline(report: Report, place: Place) -> tuple[str, str]:
    """What was found at that place: the outcome in bold words, and the numbers behind it."""
    row, ran = acceptance_of(report, place), comparison_at_best(report, place)
    numbers = f"α = {_interval(row.alpha)}"
    if report.costs is not None:
        numbers += f", c = {_interval(report.costs.c)}"
    if ran is None:
        return "acceptance is known, no speculative run was finished.", f"{numbers}."
    run = run_of(report, place, ran.gamma)
    between = run.speedup if run is not None else None
    said = (
        f"Predicted: {ratio(ran.replay_v_speedup)} by replay with measured costs, "
        f"{ratio(ran.theorem_speedup)} by the theorem. {numbers}."
    )
    if between is None:
        return f"γ={ran.gamma} ran {faster(ran.speedup)}.", said
    interval = f"(95%: {significant(between.low)} to {ratio(between.high)})"
    if between.low <= 1 <= between.high:
        return (
            f"γ={ran.gamma} ran {faster(ran.speedup)}, within the noise {interval}.",
            f"{said} A quiet machine, more prompts or longer texts narrow it.",
        )
    return f"γ={ran.gamma} ran {faster(ran.speedup)} {interval}.", said


def comparison_at_best(report: Report, place: Place) -> Comparison | None:
    """The row of the γ that replay with measured costs calls best; None where none was run."""
    rows = comparison_of(report, place)
    return max(rows, key=lambda row: row.replay_v_speedup) if rows else None


def where_measured(report: Report) -> str:
    """Machine, date, pair and how much text, for the line below the answer."""
    machine, pair, settings = report.machine, report.pair, report.settings
    processor = f"{machine.accelerator}, {machine.processor}".removeprefix(", ")
    draft = f" ({pair.draft_parameters:,} parameters)" if pair.draft_parameters else ""
    return (
        f"Measured on {processor}, {count(machine.threads, 'thread')}, {_day(report.created)}, in "
        f"{report.seconds:.0f} s: {pair.target} ({pair.target_parameters:,} parameters) with "
        f"{pair.draft}{draft}, {pair.dtype}; {count(settings.prompts, 'prompt')}, up to "
        f"{settings.output_tokens:,} tokens each. {machine.software}."
    )


def _day(created: str) -> str:
    try:
        at = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at.tzinfo else f"{at:%Y-%m-%d %H:%M}"


def _interval(found: Interval) -> str:
    if found.low == found.high:
        return significant(found.value)
    return f"{significant(found.value)} ({significant(found.low)} to {significant(found.high)})"


def _column(name: str, label: str, unit: str, definition: str, values: Sequence[float | int | str],
            format: str = "0.000", formula: str = "") -> Column:  # fmt: skip
    formulas = (formula,) * len(values) if formula else ()
    basis: Basis = "computed" if formula else "measured"
    return Column(name, label, unit, definition, tuple(values), formulas, format, basis)


def error_rows(report: Report, place: Place) -> list[tuple[str, ...]]:
    """Per γ: γ, the measured speedup with its interval, each of `PREDICTIONS` with its error."""
    found = []
    for row in comparison_of(report, place):
        run = run_of(report, place, row.gamma)
        between = None if run is None else run.speedup
        interval = "" if between is None else f" ({between.low:.2f}–{between.high:.2f})"
        predicted = [getattr(row, f"{name}_speedup") for name in PREDICTIONS]
        cells = [f"{value:.2f}× ({change(value, row.speedup)})" for value in predicted]
        found.append((f"{row.gamma}", f"{row.speedup:.2f}×{interval}", *cells))
    return found


def comparison_table(rows: Sequence[Comparison]) -> Table:
    """Predicted beside measured with tokens per step, costs and z; rows not empty."""
    return Table(
        "Predicted beside measured, with tokens per step and costs",
        "measured",
        (
            _column("gamma", "γ", "", "Drafted tokens a step", [r.gamma for r in rows], "0"),
            _column("tokens_per_step", "τ run", "", "Tokens per step of the run, bonus included",
                    [r.tokens_per_step for r in rows], "0.00"),
            _column("replay_tokens_per_step", "τ replay", "", "Expected on plain decoding's texts",
                    [r.replay_tokens_per_step for r in rows], "0.00"),
            _column("iid_tokens_per_step", "τ i.i.d.", "", "Expected from α alone (Eq. 1)",
                    [r.iid_tokens_per_step for r in rows], "0.00"),
            _column("verify_cost", "v", "plain steps", "Verification in the loop itself",
                    [r.verify_cost for r in rows], "0.00"),
            _column("draft_cost", "d", "plain steps", "Drafting in the loop itself",
                    [r.draft_cost for r in rows], "0.00"),
            _column("speedup", "Measured", "", "Tokens a second against plain decoding",
                    [r.speedup for r in rows], '0.00"×"'),
            *(
                column
                for name, label in SHORT.items()
                for column in _predicted_and_error(rows, name, label)
            ),
            _column("z", "z", "", "Steps of the run against replay of its own texts, in deviations",
                    [r.z for r in rows], "0.0"),
        ),
    )  # fmt: skip


def _predicted_and_error(rows: Sequence[Comparison], name: str, label: str) -> tuple[Column, ...]:
    predicted = [getattr(row, f"{name}_speedup") for row in rows]
    errors = [100 * row.error(name) for row in rows]
    formula = f"100*({{{name}_speedup}}/{{speedup}}-1)"
    what = f"Predicted: {PREDICTIONS[name]}"
    return (
        _column(f"{name}_speedup", label, "", what, predicted, '0.00"×"'),
        _column(f"{name}_error_percent", "Error", "", "100 × (predicted / measured − 1)", errors,
                '0"%"', formula),
    )  # fmt: skip


def acceptance_table(rows: Sequence[AcceptanceRow]) -> Table:
    """α of each segment and temperature with its 95% interval; rows not empty."""
    return Table(
        "Acceptance by segment",
        "measured_acceptance",
        (
            _column("segment", "Text", "", "Segment label", [r.segment for r in rows], ""),
            _column("temperature", "T", "", "Temperature", [r.temperature for r in rows], "0.00"),
            _column("alpha", "α", "", "Mean chance that a drafted token is accepted",
                    [r.alpha.value for r in rows]),
            _column("alpha_low", "Low", "", "Low end, 95%", [r.alpha.low for r in rows]),
            _column("alpha_high", "High", "", "High end, 95%", [r.alpha.high for r in rows]),
            _column("tokens", "Tokens", "", "Scored", [r.tokens for r in rows], "#,##0"),
            _column("basis", "Interval", "", "What was taken as independent",
                    [r.basis for r in rows], ""),
        ),
    )  # fmt: skip


def cost_table(report: Report) -> Table | None:
    """v(γ) of the forwards with its interval; None where they were not timed."""
    if report.costs is None or not report.costs.verify:
        return None
    verify = sorted(report.costs.verify.items())
    return Table(
        "Verification cost",
        "measured_costs",
        (
            _column("gamma", "γ", "", "Drafted tokens a step", [g for g, _ in verify], "0"),
            _column("verify_cost", "v(γ)", "plain steps", "Target forward of γ+1 tokens ÷ of 1",
                    [v.value for _, v in verify]),
            _column("verify_cost_low", "Low", "", "Low end, 95%", [v.low for _, v in verify]),
            _column("verify_cost_high", "High", "", "High end, 95%", [v.high for _, v in verify]),
        ),
    )  # fmt: skip
