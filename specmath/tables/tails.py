"""Slow requests: a row a quantity and statistic, in both arms; the quantiles of the chart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from specmath.estimate import Estimate
from specmath.tables.columns import ends_of
from specmath.tables.table import Column, Table
from specmath.tails import GAPS, Arms, Tails
from specmath.words.tails import GAP_LABELS, GAP_TOOLS

__all__ = ["gap_tools_table", "quantiles_table", "tails_part", "tails_table"]

FULLEST = "A step full of prompts"

Of = Literal["request", "decode", "gap"]

_STATISTICS: dict[str, float | None] = {"mean": None, "p50": 0.5, "p90": 0.9, "p99": 0.99}
"""Of a quantity, with its quantile."""


class _Row(NamedTuple):
    of: Of
    quantity: str
    statistic: str
    unit: str
    plain: Estimate
    speculative: Estimate

    @property
    def speedup(self) -> Estimate | None:
        """Plain over speculative; none where speculation may take no time at all."""
        ours = self.speculative
        if (
            ours.value == 0.0
            or ours.low == 0.0
            or (ours.points is not None and not ours.points.all())
        ):
            return None
        return self.plain.with_(self.speculative, lambda before, after: before / after)


def tails_table(found: Tails) -> Table:
    """Mean and quantiles of a request's time and of the gaps between its tokens, with their ends;
    computed, not live."""
    rows = list(_rows(found))
    columns = [
        Column("of", "Of", "", "A request, its tokens after the first, or the gaps between them",
               tuple(r.of for r in rows)),
        Column("quantity", "Quantity", "", "What is timed", tuple(r.quantity for r in rows)),
        Column("statistic", "Statistic", "", "Mean, or the time that so many % stay within",
               tuple(r.statistic for r in rows)),
        Column("unit", "Unit", "", "Of the row's times", tuple(r.unit for r in rows)),
        *ends_of(("plain", "Plain", "", "Without speculation", ""), [r.plain for r in rows]),
        *ends_of(("speculative", "Speculative", "", f"At γ={found.gamma}", ""),
                 [r.speculative for r in rows]),
        *ends_of(("speedup", "Speedup", "×", "Plain over speculative", "0.00"),
                 [r.speedup for r in rows]),
    ]  # fmt: skip
    return Table(f"Slow requests of {found.tokens:,} tokens", "tails", tuple(columns))


def tails_part(table: Table, *of: Of) -> Table:
    """The rows of the first of these that there are, of one quantity under its name; of gaps
    without a speedup, which of a gap of 0 has no end."""
    said = table.column("of").values
    first = next(each for each in of if each in said)
    kept = [i for i, value in enumerate(said) if value == first]
    parts = {c.name: replace(c, values=tuple(c.values[i] for i in kept)) for c in table.columns}
    quantities = {*parts["quantity"].values}
    if len(quantities) == 1:
        parts["statistic"] = replace(parts["statistic"], label=str(quantities.pop()))
        del parts["quantity"]
    gone = ("of", *(("speedup", "speedup_low", "speedup_high") if first == "gap" else ()))
    return replace(table, columns=tuple(c for name, c in parts.items() if name not in gone))


def _rows(found: Tails) -> Iterator[_Row]:
    long, short = ("s", "ms") if found.timed else ("plain steps",) * 2
    scale = 1e3 if found.timed else 1.0

    def each(of: Of, label: str, arms: Arms, unit: str, by: float) -> Iterator[_Row]:
        for statistic, level in _STATISTICS.items():
            if of == "gap" and statistic == "p90":
                continue
            plain, ours = (
                (arm.mean if level is None else arm.at(level)).map(lambda time: time * by)
                for arm in (arms.plain, arms.speculative)
            )
            yield _Row(of, label, statistic, unit, plain, ours)

    if found.request is not None:
        yield from each("request", "Whole request", found.request, long, 1.0)
    yield from each("decode", "Tokens after the first", found.decode, long, 1.0)
    for name in GAPS:
        yield from each("gap", GAP_LABELS[name], found.gaps[name], short, scale)
    if found.fullest is not None:
        plain, ours = (seconds.map(lambda time: time * scale) for seconds in found.fullest)
        yield _Row("gap", FULLEST, "longest", short, plain, ours)


def gap_tools_table() -> Table:
    """The four meanings of inter-token latency, and which tool means which."""
    columns = (
        Column("gap", "Called ITL", "", "What is measured", tuple(GAP_LABELS.values())),
        Column("tools", "Who means it", "", "Tools, and the name there",
               tuple(GAP_TOOLS[name] for name in GAP_LABELS)),
    )  # fmt: skip
    return Table("What tools call inter-token latency", "gap_tools", columns)


def quantiles_table(found: Tails) -> Table:
    """The quantiles of a request's time in both arms: what the chart draws."""
    arms = found.whole
    levels = arms.plain.levels
    times = [[arm.at(level) for level in levels] for arm in (arms.plain, arms.speculative)]
    unit = "s" if found.timed else "plain steps"
    columns = [
        Column("quantile", "Requests", "%", "Share of the requests that take no longer",
               tuple(100.0 * level for level in levels), format="0.0"),
        *ends_of(("plain", "Plain", unit, "Without speculation", "0.000"), times[0]),
        *ends_of(("speculative", "Speculative", unit, f"At γ={found.gamma}", "0.000"), times[1]),
    ]  # fmt: skip
    return Table("How long requests take", "quantiles", tuple(columns))
