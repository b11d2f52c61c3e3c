"""The public record as tables: its rows beside their predictions, and the figures of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from specmath.checks import short
from specmath.published.claims import Found, worst
from specmath.published.nearest import Near
from specmath.published.rows import Quantity
from specmath.published.score import Scored
from specmath.published.summary import Group, Other, Summary, value_of
from specmath.tables.table import Basis, Cell, Column, Table
from specmath.words.published import (
    CLAIM_WORDS,
    case_words,
    claim_verdict,
    code_words,
    miss_words,
    reason_words,
)

__all__ = [
    "ROW_COLUMNS", "claims_table", "filled", "groups_table", "misses_table", "near_table",
    "others_table", "reasons_table", "rows_table",
]  # fmt: skip


class _Meaning(NamedTuple):
    """A column: `of` is where its cell stands in the record of a row, or makes it."""

    label: str
    unit: str
    definition: str
    of: str | Callable[[Any], Cell]
    format: str = ""
    basis: Basis = "published"


_Meanings = Mapping[str, tuple[Any, ...]]

_ROWS: _Meanings = {
    "id": ("Row", "", "Its id in the record", "case.id"),
    "quantity": ("Quantity", "", "What was measured", "quantity"),
    "predicted": (
        "Predicted", "", "By the method; ms where the quantity ends in _ms", "predicted", "0.000",
        "computed",
    ),
    "low": ("Low", "", "Low end of its interval", "low", "0.000", "computed"),
    "high": ("High", "", "High end of its interval", "high", "0.000", "computed"),
    "measured": ("Measured", "", "As published", "measured", "0.000"),
    "error": ("Error", "", "predicted / measured − 1", "error", "0.0%", "computed"),
    "method": ("Method", "", "From which inputs it was predicted", "method"),
    "reason": ("Reason", "", "Why it is not predicted", lambda s: reason_words(s.reason)),
    "model": ("Model", "", "Target, as written", "case.model"),
    "drafter": ("Drafter", "", "As written; none: plain", lambda s: s.case.drafter or "none"),
    "gamma": ("Draft tokens", "", "γ", "case.gamma", "0"),
    "gpu": ("Hardware", "", "As written", "case.hardware"),
    "engine": ("Engine", "", "As read", lambda s: value_of(s, "engine")),
    "concurrency": ("Concurrency", "", "Requests in flight", "case.concurrency", "0"),
    "sets": (
        "Sets", "", "The number of this product that the row set: not counted in figures",
        lambda s: s.sets or None,
    ),
    "repeats": (
        "Repeats", "", "The row that holds the same run: not counted twice",
        lambda s: s.repeats or None,
    ),
    "source": ("Source", "", "Who measured it", "case.source"),
    "citation": ("Citation", "", "Where it can be read", "case.citation"),
}  # fmt: skip
ROW_COLUMNS = {name: _Meaning(*meaning) for name, meaning in _ROWS.items()}

_GROUPS: _Meanings = {
    "by": ("By", "", "What the rows share", "by"),
    "name": ("Group", "", "Its value", "name"),
    "quantity": ("Quantity", "", "What was measured", "quantity"),
    "method": ("Method", "", "From which inputs it was predicted", "method"),
    "n": ("Rows", "", "Rows of the group", "n", "#,##0", "computed"),
    "median": (
        "Median error", "", "Median of |predicted / measured − 1|", "median", "0.0%", "computed",
    ),
    "p90": ("90% error", "", "90% quantile of it", "p90", "0.0%", "computed"),
    "bias": (
        "Bias", "", "Median of predicted / measured − 1; above 0 is too high", "bias", "0.0%",
        "computed",
    ),
    "within_10": ("Within 10%", "", "Share of rows", "within_10", "0%", "computed"),
    "within_20": ("Within 20%", "", "Share of rows", "within_20", "0%", "computed"),
    "sign_right": (
        "Sign right", "", "Share of speedups on the right side of 1", "sign_right", "0%",
        "computed",
    ),
    "coverage": (
        "Interval holds", "", "Share of stated intervals that hold the measured value", "coverage",
        "0%", "computed",
    ),
    "intervals": ("Intervals", "", "Rows that have one", "intervals", "#,##0", "computed"),
}  # fmt: skip

_REASONS: _Meanings = {
    "reason": ("Why not scored", "", "As said of each", lambda why: code_words(why.code)),
    "rows": ("Rows", "", "So many", "cases", "#,##0", "computed"),
    "such_as": (
        "Such as",
        "",
        "The first of them, and what of it",
        lambda why: short(f"{why.row}: {why.detail}" if why.detail else why.row, 48),
    ),
}

_CLAIMS: _Meanings = {
    "claim": ("Claim", "", "As passed on", lambda f: CLAIM_WORDS[f.claim.name]),
    "verdict": ("The record says", "", "The claim weighed", claim_verdict),
}

_MISSES: _Meanings = {
    "case": ("Row", "", "What ran", lambda m: case_words(m.scored.case)),
    "method": ("Method", "", "How it was predicted", "scored.method"),
    "measured": ("Measured", "", "As published", "scored.measured", "0.00"),
    "predicted": ("Predicted", "", "By the method", "scored.predicted", "0.00", "computed"),
    "error": ("Error", "", "predicted / measured − 1", "scored.error", "0.0%", "computed"),
    "rows": ("Rows like it", "", "As far off, same run", "rows", "0"),
    "why": ("Why", "", "What explains it", miss_words),
}

_OTHERS: _Meanings = {
    "tool": ("Tool", "", "As the record names it", "tool"),
    "quantity": ("Quantity", "", "What was measured", "quantity"),
    "method": ("Our method", "", "How this product predicts it", "method"),
    "rows": ("Rows", "", "Rows that both predict", "n", "0", "computed"),
    "theirs": ("Its error", "", "Mean of |predicted / measured − 1|", "theirs", "0.0%"),
    "ours": (
        "Ours", "", "The same of this product, on the same rows", "ours", "0.0%", "computed",
    ),
}  # fmt: skip

_NEAR: _Meanings = {
    "case": ("Measured by others", "", "The row", lambda n: case_words(n.scored.case)),
    "measured": ("Measured", "×", "As published", "scored.measured", "0.00"),
    "said": ("Said", "×", "Predicted for that row", "scored.predicted", "0.00", "computed"),
    "distance": (
        "Distance", "", "0: the same model, GPU, drafter, engine, γ and load", "distance", "0.0",
        "computed",
    ),
}  # fmt: skip


def rows_table(scored: Sequence[Scored]) -> Table:
    """Every row of the record by every method, predicted beside measured."""
    return _table("Published rows, predicted and measured", "published", _ROWS, scored)


def groups_table(groups: Sequence[Group], title: str = "How far off, by group") -> Table:
    """Groups and their figures; what all share, or none has, left out."""
    drop = {"by"}
    if all(group.by == "method" for group in groups):
        drop.add("name")
    if len({group.quantity for group in groups}) == 1:
        drop.add("quantity")
    drop |= {"intervals"} if all(group.coverage is None for group in groups) else set()
    shown = {name: meaning for name, meaning in _GROUPS.items() if name not in drop}
    return filled(_table(title, "published_summary", shown, groups))


def filled(table: Table) -> Table:
    """The columns of which some row has a cell."""
    known = (c for c in table.columns if any(value is not None for value in c.values))
    return replace(table, columns=tuple(known))


def reasons_table(found: Summary) -> Table:
    """Rows that no method predicts, by why."""
    return _table("Rows that are not scored", "published_reasons", _REASONS, found.reasons)


def claims_table(found: Sequence[Found]) -> Table:
    """Ranges in circulation beside what was measured and what is predicted for the same rows."""
    return _table("Claims beside the record", "published_claims", _CLAIMS, found)


def misses_table(scored: Sequence[Scored], quantity: Quantity) -> Table | None:
    """The largest misses, one of each kind, and what explains them; None where none is scored."""
    found = worst(scored, quantity)
    return _table("The largest misses", "published_misses", _MISSES, found) if found else None


def others_table(found: Sequence[Other]) -> Table:
    """Other tools on the rows that carry their predictions."""
    return _table("Beside other tools", "published_others", _OTHERS, found)


def near_table(found: Sequence[Near]) -> Table:
    """The published rows nearest to a scenario."""
    return _table("The nearest measured cases", "published_nearest", _NEAR, found)


def _table(title: str, name: str, meanings: _Meanings, rows: Sequence[Any]) -> Table:
    """Columns by their meanings, a cell a row."""
    columns = []
    for column, meaning in meanings.items():
        m = _Meaning(*meaning)
        cells = map(attrgetter(m.of) if isinstance(m.of, str) else m.of, rows)
        columns.append(
            Column(column, m.label, m.unit, m.definition, tuple(cells), (), m.format, m.basis)
        )
    return Table(title, name, tuple(columns))
