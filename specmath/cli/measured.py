"""How a measurement stands on the screen: acceptance, costs, predicted beside measured, checks."""

from __future__ import annotations

from specmath.cli.output import Row, ends_row, print_rows
from specmath.cli.terminal import say, say_each
from specmath.measure.report import Costs, Report
from specmath.words.measured import check_said, clock_said

__all__ = ["print_report"]

COMPARED = {
    "T": "temperature", "γ": "gamma", "tokens/step": "tokens_per_step",
    "replay": "replay_tokens_per_step", "i.i.d.": "iid_tokens_per_step", "speedup": "speedup",
    "by replay with v": "replay_v_speedup", "low": "replay_v_low", "high": "replay_v_high",
    "by theorem": "theorem_speedup", "z": "z",
}  # fmt: skip
"""Columns of the comparison on the screen, and the fields of the report that they show."""


def print_report(report: Report, style: str) -> None:
    """As a table everything; as rows predicted beside measured, or where nothing was run the
    acceptance alone."""
    if style != "table":
        rows = _rows(report)
        if rows or style == "json":  # a table of nothing has no head
            print_rows(rows, style)
        return
    pair = report.pair
    where = f"{report.machine.accelerator}, {report.machine.processor}".removeprefix(", ")
    say(f"{pair.target} with {pair.draft}, on {where}")
    if report.status == "partial":
        say(f"Partial: {report.reason}.")
    for costs in (report.costs, *report.more_costs):
        if costs is not None:
            _print_costs(costs, several=bool(report.more_costs))
    alphas: list[Row] = [
        {"segment": row.segment, "T": row.temperature, "alpha": row.alpha.value,
         "low": row.alpha.low, "high": row.alpha.high, "tokens": row.tokens}
        for row in report.acceptance
    ]  # fmt: skip
    if alphas:
        say()
        print_rows(alphas, "table")
    overall = [row for row in report.comparison if row.overall]
    if overall:
        say()
        cells = [{head: getattr(row, name) for head, name in COMPARED.items()} for row in overall]
        print_rows(cells, "table")
    say_each("\n", (f"{check.level}: {check_said(check)}" for check in report.checks))
    if clock := clock_said(report):
        say(f"\n{clock}")
    say(f"\n{report.seconds:.0f} s")


def _print_costs(costs: Costs, *, several: bool) -> None:
    if several:
        say(f"Batch {costs.batch}, context {costs.context}:")
    c_hat = "not modelled" if costs.c_hat is None else f"{costs.c_hat:.3f}"
    say(f"c = {costs.c.value:.3f} [{costs.c.low:.3f}, {costs.c.high:.3f}], ĉ = {c_hat}")
    verify = ", ".join(f"{gamma}: {v.value:.2f}" for gamma, v in costs.verify.items())
    say(f"v over γ: {verify}")


def _rows(report: Report) -> list[Row]:
    if report.comparison:
        return [row.model_dump() for row in report.comparison]
    return [
        {"segment": row.segment, "temperature": row.temperature, "gamma": gamma,
         **ends_row("alpha", row.alpha), "replay_tokens_per_step": tokens}
        for row in report.acceptance
        for gamma, tokens in zip(report.settings.gammas, row.tokens_per_step, strict=True)
    ]  # fmt: skip
