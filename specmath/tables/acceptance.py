"""Acceptance that others measured, as tables: bands, the pairs of a band, every row."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.acceptance_record import COLUMNS, Band, Pair, Row
from specmath.tables.columns import of_rows
from specmath.tables.table import Column, Table

__all__ = ["bands_table", "pairs_table", "record_table"]

_BANDS = {
    "kind": ("Draft", "", "Kind of drafter; empty: every kind", ""),
    "work": ("Work", "", "Kind of work; empty: every kind", ""),
    "target": ("Target", "", "Where the band is of one target alone", ""),
    "alpha": ("α", "", "Median of the pairs; do not use it alone", "0.00", "median"),
    "alpha_low": ("α, low", "", "Low end of the band", "0.00", "low"),
    "alpha_high": ("α, high", "", "High end of the band", "0.00", "high"),
    "ends": (
        "Ends", "", "10 and 90% quantiles of the pairs; least and largest, where few sources; or "
        "wider than these, where few pairs", "", "basis",
    ),
    "pairs": ("n", "pairs", "Drafter and target by source, each weighed once", "0"),
    "measurements": ("Measured", "", "Chains behind the pairs, over γ and data sets", "0", "rows"),
}  # fmt: skip
_PAIRS = {
    "kind": ("Kind", "", "Kind of drafter", ""),
    "work": ("Work", "", "Kind of work", ""),
    "drafter": ("Draft", "", "As the source names it", ""),
    "target": ("Target", "", "As the source names it", ""),
    "alpha": ("α", "", "Mean over its chains", "0.000"),
    "measurements": ("Measured", "", "Its chains", "0", "spread"),
}
_PLAIN = {"alpha": "0.000", "tokens_per_step": "0.00", "accepted_share": "0.000"}
RENAMED = {"date": "published"}
"""A file has its own date."""


def bands_table(bands: Sequence[Band]) -> Table:
    """Bands with their ends, n and sources."""
    gammas = [_span(*band.gammas) for band in bands]
    sources = [", ".join(band.sources) for band in bands]
    columns = (
        *of_rows(bands, _BANDS, "published"),
        _text("gammas", "γ", "Drafted tokens a step at which it was measured", gammas),
        _text("sources", "Sources", "Who measured: repositories, model cards, papers", sources),
    )
    return Table("Acceptance measured by others", "acceptance_bands", columns)


def pairs_table(pairs: Sequence[Pair]) -> Table:
    """The pairs behind a band, each with its source."""
    columns = (
        *of_rows(pairs, _PAIRS, "published"),
        _text("gammas", "γ", "Drafted tokens a step", [_listed(p.gammas) for p in pairs]),
        _text("source", "Source", "Where it can be read", [p.source for p in pairs]),
        _text("published", "Date", "Of the source", [_span(*_ends(p.dates)) for p in pairs]),
    )
    return Table("What the band is of", "acceptance_pairs", columns)


def record_table(rows: Sequence[Row]) -> Table:
    """Every row of the record as it is in its file."""
    said = {
        RENAMED.get(name, name): (name, "", "As in the record", _PLAIN.get(name, ""), name)
        for name in COLUMNS
    }
    return Table("The record of acceptance", "acceptance_record", of_rows(rows, said, "published"))


def _text(name: str, label: str, definition: str, cells: Sequence[str]) -> Column:
    return Column(name, label, "", definition, tuple(cells), (), "", "published")


def _ends(dates: Sequence[str]) -> tuple[str, str]:
    return min(dates, default=""), max(dates, default="")


def _span(least: object, most: object) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _listed(gammas: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(set(gammas))))
