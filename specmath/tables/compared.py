"""Scenarios side by side: what they differ in, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specmath.estimate import Estimate
from specmath.predict import Prediction
from specmath.scenario import SPECS
from specmath.scenario.files import as_text
from specmath.tables.columns import COLUMNS
from specmath.tables.table import Column, Table

__all__ = ["compared_table", "differing"]

_ON = {"use": "on", "raise": "on", "lower": "on", "skip": "off", "measure": "measure first"}
"""The first of the two decisions, by action."""

_NUMBERS: dict[str, tuple[str, str, Callable[[Prediction], Estimate | None]]] = {
    "walltime_improvement": ("Speedup", "×", lambda p: p.speedup),
    "tpot_plain_ms": ("TPOT, plain", "ms", lambda p: _milli(p.tpot_plain)),
    "tpot_ms": ("TPOT", "ms", lambda p: _milli(p.tpot)),
    "usd_per_million_tokens": ("Cost", "USD per 1M tokens", lambda p: p.usd),
}
"""Label, unit and number of what is compared."""


def differing(predictions: Sequence[Prediction]) -> tuple[str, ...]:
    """The fields in which the scenarios are not all alike, but for their label."""
    scenarios = [p.scenario for p in predictions]
    return tuple(
        name
        for name in SPECS
        if name != "label"
        and any(getattr(s, name) != getattr(scenarios[0], name) for s in scenarios)
    )


def compared_table(named: Sequence[tuple[str, Prediction]]) -> Table:
    """One row a scenario: its name, the fields in which they differ, the decision, the numbers at
    the γ in use with their ends. What is unknown is empty."""
    predictions = [p for _, p in named]
    columns = [Column("scenario_name", "", "", "Which scenario", tuple(n for n, _ in named))]
    columns += [_field(name, predictions) for name in differing(predictions)]
    columns += [
        Column("decision", "Decision", "", "On, off, or measure first",
               tuple(_ON[p.decision.action] for p in predictions)),
        Column("gamma_in_use", "γ in use", "tokens", "Given, else recommended",
               tuple(p.gamma for p in predictions), format="0"),
    ]  # fmt: skip
    for name, (label, unit, number) in _NUMBERS.items():
        found = [number(p) for p in predictions]
        for end, attribute in (("", "value"), ("_low", "low"), ("_high", "high")):
            values = tuple(None if e is None else getattr(e, attribute) for e in found)
            meaning = COLUMNS[name].definition if name in COLUMNS else label
            columns.append(Column(f"{name}{end}", label, unit, meaning, values))
    return Table("Side by side", "compared", tuple(columns))


def _field(name: str, predictions: Sequence[Prediction]) -> Column:
    """The values of one field as a form shows them."""
    spec = SPECS[name]
    given = (getattr(p.scenario, name) for p in predictions)
    values = tuple(spec.label_of(v) if spec.choices else _said(v) for v in given)
    return Column(f"field_{name}", spec.title, "", spec.help, values)


def _said(value: object) -> str:
    return "–" if value in (None, ()) else as_text(value)


def _milli(seconds: Estimate | None) -> Estimate | None:
    return seconds and seconds.map(lambda s: s * 1e3)
