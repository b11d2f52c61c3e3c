"""The pieces of a report as HTML: sentences, tables, charts, files. All text is escaped here."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from urllib.parse import urlencode

import plotly.graph_objects as go
import plotly.io as pio

from specmath.checks import plain_text
from specmath.numbers import significant
from specmath.tables.table import Cell, Column, Table, shown
from specmath.words.said import Said

__all__ = [
    "all_columns", "chart_html", "file_html", "head", "link_html", "list_html", "paragraph",
    "said_html", "table_html",
]  # fmt: skip

CHART = (680, 300)
"""Pixels of a chart: as wide as paper has room for."""

WRAPPED, LINE, FEW = 36, 20, 6
"""Characters beyond which the text of a cell breaks into lines, and those of such a line; and
columns of a table that has room."""

NARROW = 0.9
"""Of a text, its letters over its digits, by which CSS counts (ch)."""

MINUS = "\u2212"
ENDS = ("_low", "_high")


def text_of(text: str) -> str:
    return escape(plain_text(text))


def head(level: int, text: str) -> str:
    return f"<h{level}>{text_of(text)}</h{level}>"


def paragraph(text: str, kind: str = "") -> str:
    """Empty where nothing is said."""
    if not text:
        return ""
    return f'<p class="{kind}">{text_of(text)}</p>' if kind else f"<p>{text_of(text)}</p>"


def list_html(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{text_of(text)}</li>' for text in texts)}</ul>" if texts else ""


def said_html(said: Said) -> str:
    """The answer in a sentence, and the reasons."""
    answer = f'<p class="headline {said.state}">{text_of(said.headline)}.</p>'
    return answer + "".join(map(paragraph, said.because))


# ── tables ───────────────────────────────────────────────────────────────────────────────────


def table_html(
    table: Table,
    *,
    groups: Mapping[str, tuple[str, str]] | None = None,
    totals: Collection[str] = (),
    unknown: str = "",
) -> str:
    """The table in its number formats; where `x_low` and `x_high` stand beside a column x, the
    three are one cell: the value, and below it its range.

    `groups`: of a column the heading that it shares with those beside it, and its own below that.
    `totals`: columns of which the last row is the total. `unknown`: what stands where a value is
    not known; a total that is none is empty.
    """
    columns = {c.name: c for c in table.columns}
    ends = {f"{name}{end}" for name in columns for end in ENDS}
    shown_as = _laid_out([c for name, c in columns.items() if name not in ends])
    last = len(table) - 1 if totals else len(table)
    lines = [
        "".join(
            f"<td{look}>{_cell(columns, c, row) or unknown * (row < last or c.name in totals)}</td>"
            for c, look in shown_as
        )
        for row in range(len(table))
    ]
    heads = _heads(shown_as) if groups is None else _grouped(shown_as, groups)
    return _table(table, heads, lines, total=bool(totals))


def all_columns(table: Table) -> str:
    """The whole table, ends apart, folded; not on paper."""
    shown_as = _laid_out(table.columns)
    lines = [
        "".join(f"<td{look}>{text_of(_written(c, c.values[row]))}</td>" for c, look in shown_as)
        for row in range(len(table))
    ]
    return (
        f"<details><summary>{text_of(table.title)}: all columns</summary>"
        f"{_table(table, _heads(shown_as), lines)}</details>"
    )


def _table(table: Table, heads: str, lines: Sequence[str], *, total: bool = False) -> str:
    rows = "".join(f"<tr>{line}</tr>" for line in (lines[:-1] if total else lines))
    rows += f'<tr class="total">{lines[-1]}</tr>' if total else ""
    return (
        f'<div class="wide"><table class="{escape(table.name)}"><thead>{heads}</thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


Look = Sequence[tuple[Column, str]]
"""Columns, each with the attributes of its cells."""


def _laid_out(columns: Sequence[Column]) -> Look:
    return [(c, _look(c, roomy=len(columns) <= FEW)) for c in columns]


def _look(column: Column, *, roomy: bool) -> str:
    """Numbers to the right; text to the left, as wide as its longest word or, where it breaks into
    lines, as some words; no wider, so that the table fits."""
    texts = [value for value in column.values if isinstance(value, str)]
    if not texts:
        return f' data-column="{column.name}"'
    widest = max(map(len, texts))
    word = max((len(word) for text in (column.label, *texts) for word in text.split()), default=0)
    least = LINE if widest > WRAPPED else min(max(word, (widest + 1) // 2) + 3, LINE)
    if roomy and widest <= WRAPPED:
        least = max(least, round(NARROW * widest) + 3)
    kind = "text long" if widest > WRAPPED else "text"
    return f' data-column="{column.name}" class="{kind}" style="--least:{least}ch"'


def _heads(columns: Look) -> str:
    return f"<tr>{''.join(_head(c, look, _label(c)) for c, look in columns)}</tr>"


def _label(column: Column) -> str:
    return f"{column.label} ({column.unit})" if column.unit else column.label


def _head(column: Column, look: str, label: str, more: str = "") -> str:
    return f'<th title="{text_of(column.definition)}"{look}{more}>{text_of(label)}</th>'


def _grouped(columns: Look, groups: Mapping[str, tuple[str, str]]) -> str:
    """Two rows of headings."""
    above, below = "", ""
    for group, each in groupby(columns, key=lambda at: groups.get(at[0].name, ("", ""))[0]):
        held = list(each)
        if not group:
            above += "".join(_head(c, look, _label(c), ' rowspan="2"') for c, look in held)
            continue
        above += f'<th class="group" colspan="{len(held)}">{text_of(group)}</th>'
        below += "".join(_head(c, look, groups[c.name][1]) for c, look in held)
    return f"<tr>{above}</tr><tr>{below}</tr>"


def _cell(columns: Mapping[str, Column], column: Column, row: int) -> str:
    """The value, and its range where that has two ends that read differently."""
    ends = [columns.get(f"{column.name}{end}") for end in ENDS]
    low, high = ("" if c is None else _written(c, c.values[row]) for c in ends)
    span = ""
    if low and high and low != high:
        span = f"<small>{text_of(low)} to&nbsp;{text_of(high)}</small>"
    return f"{text_of(_written(column, column.values[row]))}{span}"


def _written(column: Column, value: Cell) -> str:
    if value is None or isinstance(value, str | bool):
        return shown(value)
    if column.format or isinstance(value, int):
        return shown(value, column.format or "#,##0").replace("-", MINUS)
    return significant(value).replace("-", MINUS)


# ── charts ───────────────────────────────────────────────────────────────────────────────────


def chart_html(figure: go.Figure, title: str, sentence: str, file: str) -> str:
    """A chart of fixed size with its title, its sentence and a button for its image."""
    width, height = CHART
    figure.update_layout(template="plotly_white", width=width, height=height, autosize=False)
    # Within a script nothing is escaped; "<" could end it.
    told = (pio.to_json(figure) or "{}").replace("<", "\\u003c")
    return (
        '<figure class="chart"><div class="head">'
        f'<h3>{text_of(title)}</h3><button type="button" data-title="{text_of(title)}" '
        f'data-file="{escape(_file_name(file))}">PNG</button></div>'
        f'<div class="plot" style="width:{width}px;height:{height}px"></div>'
        f"<figcaption>{text_of(sentence)}</figcaption>"
        f'<script type="application/json">{told}</script></figure>'
    )


def _file_name(text: str) -> str:
    """Letters, digits and hyphens of it."""
    return re.sub(r"[^\w]+", "-", plain_text(text)).strip("-")[:80].lower() or "chart"


# ── the way back ─────────────────────────────────────────────────────────────────────────────


def file_html(title: str, name: str, content: str) -> str:
    """A file that the page holds: to copy, or to save under the name."""
    data = base64.b64encode(content.encode("utf-8")).decode("ascii")
    href = f"data:application/toml;base64,{data}"
    # A line feed at the beginning of <pre> is left out by browsers.
    return (
        f"<details><summary>{text_of(title)}</summary>"
        f'<p><a download="{escape(name)}" href="{href}">{escape(name)}</a></p>'
        f"<pre>\n{escape(content)}</pre></details>"
    )


def link_html(whose: str, link: Mapping[str, str]) -> str:
    """The query of a link; whose scenario it is."""
    return f"<li>{text_of(whose)}: <code>?{escape(urlencode(link))}</code></li>"


def links_html(links: Iterable[str]) -> str:
    return f"<ul>{''.join(links)}</ul>"
