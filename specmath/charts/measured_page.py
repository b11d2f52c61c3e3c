"""One measurement as a page of HTML that needs nothing else: no network, no server."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import specmath
from specmath.charts.measure import (
    alpha_by_segment,
    gap_histogram,
    speedup_beside,
    survival_by_position,
)
from specmath.measure.report import Report, ReportPart
from specmath.tables.measured import acceptance_table, comparison_table, cost_tables
from specmath.tables.table import Table, shown
from specmath.words.measured import check_said, clock_said, headline, where_measured

__all__ = ["measured_page"]

STYLE = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: #111827; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2.5rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #d1d5db }
th { font-weight: 600 } .wide { overflow-x: auto } .small { color: #4b5563; font-size: .9rem }
.bad { color: #b91c1c; font-weight: 600 }
"""


def measured_page(report: Report) -> str:
    """The page: the outcome at each temperature over all texts, what the report says about itself,
    charts, tables. Text of the report is shown, never obeyed."""
    title = f"Measured: {report.pair.target} with {report.pair.draft}"
    body = "\n".join(_body(report, title))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="generator" content="specmath {escape(specmath.__version__)}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def _body(report: Report, title: str) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    if report.status == "partial":
        yield f'<p class="bad">Partial: {escape(report.reason)}.</p>'
    overall = [part for part in report.parts if report.acceptance_of(part).overall]
    for part in overall:
        outcome, numbers = headline(report, part)
        at = f"At T={part.temperature:g}: {outcome}"
        yield f"<p><strong>{escape(at)}</strong> {escape(numbers)}</p>"
    where = " ".join((where_measured(report), clock_said(report)))
    yield f'<p class="small">{escape(where)}</p>'
    lines = [
        f'<li class="{check.level}">{escape(check_said(check))}</li>' for check in report.checks
    ]
    yield f"<ul>{''.join(lines)}</ul>" if lines else ""
    script: bool | str = True  # once, with the first chart
    for figure_title, figure in _figures(report, overall[-1]) if overall else ():
        figure.update_layout(template="plotly_white")
        drawn = figure.to_html(full_html=False, include_plotlyjs=script, default_height="360px")
        yield f"<h2>{escape(figure_title)}</h2>\n{drawn}"
        script = False
    for table_title, table in _tables(report, overall):
        yield f"<h2>{escape(table_title)}</h2>\n{_html(table)}"


def _figures(report: Report, part: ReportPart) -> Iterator[tuple[str, Any]]:
    row, rows, at = (
        report.acceptance_of(part),
        report.comparison_of(part),
        f"T={part.temperature:g}",
    )
    runs = [report.run_of(part, each.gamma) for each in rows]
    if rows:
        yield f"Speedup over γ at {at}: predicted and measured", speedup_beside(rows, runs)
    yield "Acceptance by text", alpha_by_segment(report.acceptance)
    gamma = max((each.gamma for each in rows), default=max(report.settings.gammas))
    if gamma > 0:
        survival = row.survival[report.settings.gammas.index(gamma)]
        figure = survival_by_position(row, survival, report.run_of(part, gamma))
        yield f"How far a draft survives at {at}, γ={gamma}", figure
    best, plain = report.best_of(part), report.run_of(part, 0)
    spec = None if best is None else report.run_of(part, best.gamma)
    if plain is not None and spec is not None and plain.gap_counts and spec.gap_counts:
        yield f"Gaps between chunks at {at}, plain and γ={spec.gamma}", gap_histogram(plain, spec)


def _tables(report: Report, overall: list[ReportPart]) -> Iterator[tuple[str, Table]]:
    for part in overall:
        if report.comparison_of(part):
            table = comparison_table(report, part)
            yield f"{table.title}, at T={part.temperature:g}", table
    shown_once = [acceptance_table(report.acceptance)] if report.acceptance else []
    for table in (*shown_once, *cost_tables(report)):
        yield table.title, table


def _html(table: Table) -> str:
    heads = [(c.definition, f"{c.label} ({c.unit})" if c.unit else c.label) for c in table.columns]
    head = "".join(f'<th title="{escape(said)}">{escape(name)}</th>' for said, name in heads)
    columns = [[shown(value, c.format) for value in c.values] for c in table.columns]
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>"
        for line in zip(*columns, strict=True)
    )
    return f'<div class="wide"><table><tr>{head}</tr>{lines}</table></div>'
