"""The tables of a measurement's report: predicted beside measured, acceptance, costs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specmath.foreign import neutralise
from specmath.measure.report import (
    AcceptanceRow,
    Comparison,
    Costs,
    Interval,
    Report,
    ReportPart,
)
from specmath.tables.columns import of_rows
from specmath.tables.table import Column, Table

__all__ = [
    "PREDICTIONS", "acceptance_table", "comparison_table", "cost_tables", "errors_table",
    "median_errors", "report_csv",
]  # fmt: skip

PREDICTIONS = {
    "theorem": "Theorem 3.8, i.i.d. α",
    "replay": "Replay, v = 1",
    "replay_v": "Replay, measured v and d",
}
"""The three predicted speedups of a report, by the name that its fields start with."""

SHORT = {"theorem": "Theorem", "replay": "Replay", "replay_v": "Replay, v and d"}
TIMES = '0.00"×"'

_GAMMA = {"gamma": ("γ", "", "Drafted tokens a step", "0")}
_RUN = {
    "tokens_per_step": ("τ run", "", "Tokens per step of the run, bonus included", "0.00"),
    "replay_tokens_per_step": ("τ replay", "", "Expected on plain decoding's texts", "0.00"),
    "iid_tokens_per_step": ("τ i.i.d.", "", "Expected from α alone (Eq. 1)", "0.00"),
    "verify_cost": ("v", "plain forwards", "Verification in the loop itself", "0.00"),
    "draft_cost": ("d", "plain forwards", "Forwards of the draft in the loop itself", "0.00"),
    "overhead": ("h", "plain steps", "What draws and look-ups of a step add besides", "0.00"),
    "speedup": ("Measured", "", "Tokens a second against plain decoding", TIMES),
}
_EXPECTED = ("replay_tokens_per_step", "iid_tokens_per_step")
"""Of these, what a model of the acceptance expects."""
_Z = {"z": ("z", "", "Steps of the run against replay of its own texts, in deviations", "0.0")}
_ACCEPTANCE = {
    "segment": ("Text", "", "Segment label", ""),
    "temperature": ("T", "", "Temperature", "0.00"),
    "alpha": ("α", "", "Mean chance that a drafted token is accepted", "0.000", "alpha.value"),
}
_SCORED = {
    "tokens": ("Tokens", "", "Scored", "#,##0"),
    "basis": ("Interval", "", "What was taken as independent", ""),
}
_COST = {"cost": ("Value", "plain forwards", "Median of ratios of neighbours", "0.000", "value")}


def median_errors(rows: Sequence[Comparison]) -> dict[str, float]:
    """Median |predicted / measured − 1| over γ of each of `PREDICTIONS`; rows not empty."""
    return {name: float(np.median([abs(row.error(name)) for row in rows])) for name in PREDICTIONS}


def _ends(name: str, of: Sequence[Interval | None], format: str = "0.000") -> list[Column]:
    """The two ends of 95% intervals; None where too few prompts tell them."""
    return [
        Column(f"{name}_{end}", label, "", f"{label} end, 95%",
               tuple(getattr(each, end, None) for each in of), (), format, "measured")
        for end, label in (("low", "Low"), ("high", "High"))
    ]  # fmt: skip


def _errors(rows: Sequence[Comparison], name: str, label: str, live: str = "") -> Column:
    """The error of a prediction, against the column `speedup` where it is live."""
    errors = tuple(100 * row.error(name) for row in rows)
    return Column(f"{name}_error_percent", label, "", "100 × (predicted / measured − 1)", errors,
                  (live,) * len(rows) if live else (), '0"%"', "computed")  # fmt: skip


def _speedups(report: Report, rows: Sequence[Comparison]) -> list[Interval | None]:
    runs = (report.run_of(row.part, row.gamma) for row in rows)
    return [None if run is None else run.speedup for run in runs]


def comparison_table(report: Report, part: ReportPart) -> Table:
    """Predicted beside measured with tokens per step, costs and z; at a part that was run."""
    rows = report.comparison_of(part)
    columns = [
        replace(column, basis="computed" if column.name in _EXPECTED else "measured")
        for column in of_rows(rows, _GAMMA | _RUN)
    ]
    columns += _ends("speedup", _speedups(report, rows), TIMES)
    for name, what in PREDICTIONS.items():
        said = {f"{name}_speedup": (SHORT[name], "", f"Predicted: {what}", TIMES)}
        live = f"100*({{{name}_speedup}}/{{speedup}}-1)"
        columns += [*of_rows(rows, said, "computed")]
        if name == "replay_v":
            columns += _predicted_ends(rows)
        columns += [_errors(rows, name, "Error", live)]
    columns += of_rows(rows, _Z, "computed")
    title = "Predicted beside measured, with tokens per step and costs"
    return Table(title, "measured", tuple(columns))


def _predicted_ends(rows: Sequence[Comparison]) -> list[Column]:
    """The two ends of the prediction's 95%; None where it is not known."""
    return [
        Column(f"replay_v_{end}", label, "", f"{label} end of the prediction, 95%",
               tuple(getattr(row, f"replay_v_{end}") for row in rows), (), TIMES, "computed")
        for end, label in (("low", "Low"), ("high", "High"))
    ]  # fmt: skip


def errors_table(report: Report, part: ReportPart) -> Table:
    """The speedup at each γ that was run there with its interval, that predicted by replay with
    its own, and the error of each prediction."""
    rows = report.comparison_of(part)
    empty = (None,) * len(rows)
    run = _GAMMA | {"speedup": ("Run", "", "Measured speedup", TIMES)}
    columns = (
        *of_rows(rows, run, "measured"),
        Column("between", "95%", "", "95% of the speedup", empty, (), TIMES, "measured"),
        *_ends("between", _speedups(report, rows), TIMES),
        *of_rows(
            rows, {"replay_v_speedup": ("Predicted", "", "By replay, v and d", TIMES)}, "computed"
        ),
        Column(
            "predicted_between",
            "its 95%",
            "",
            "95% of the prediction",
            empty,
            (),
            TIMES,
            "computed",
        ),
        *(
            replace(column, name=column.name.replace("replay_v", "predicted_between"))
            for column in _predicted_ends(rows)
        ),
        *(_errors(rows, name, label) for name, label in SHORT.items()),
    )
    return Table("Errors of the predictions", "measured_errors", columns)


def acceptance_table(rows: Sequence[AcceptanceRow]) -> Table:
    """α of each segment and temperature with its 95% interval; rows not empty."""
    columns = (
        *of_rows(rows, _ACCEPTANCE, "measured"),
        *_ends("alpha", [row.alpha for row in rows]),
        *of_rows(rows, _SCORED, "measured"),
    )
    return Table("Acceptance by segment", "measured_acceptance", columns)


def cost_tables(report: Report) -> list[Table]:
    """c and v(γ) of the forwards with their intervals, a table for each batch and context."""
    return [_costs(costs) for costs in (report.costs, *report.more_costs) if costs is not None]


def _costs(costs: Costs) -> Table:
    rows = [("c", 0, costs.c), *(("v", gamma, v) for gamma, v in sorted(costs.verify.items()))]
    what, gammas, found = zip(*rows, strict=True)
    columns = (
        Column("what", "Cost", "", "c: a draft forward ÷ one of the target; v: a target forward of "
               "γ+1 tokens ÷ of 1", what),
        Column("gamma", "γ", "", "Drafted tokens a step", tuple(g or None for g in gammas), (), "0",
               "measured"),
        *of_rows(found, _COST, "measured"),
        *_ends("cost", found),
    )  # fmt: skip
    at = f" at batch {costs.batch}" + (f", context {costs.context:,}" if costs.context else "")
    stem = f"measured_costs_{costs.batch}_{costs.context}"
    return Table(f"Costs of forwards{at}", stem, columns)


def report_csv(report: Report) -> str:
    """The comparison as CSV, one row a segment, temperature and γ, with relative errors."""
    out = io.StringIO()
    names = list(Comparison.model_fields)
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*names, *(f"{name}_error" for name in PREDICTIONS)])
    for row in report.comparison:
        cells = [getattr(row, name) for name in names]
        cells = [neutralise(cell) if isinstance(cell, str) else cell for cell in cells]
        writer.writerow([*cells, *(row.error(name) for name in PREDICTIONS)])
    return out.getvalue()
