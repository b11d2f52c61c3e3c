"""Cells of a scenario: which are for typing, where each value is from, and what they must not be.

A cell is `editable` where the formulas of the file are what the library would do with another
value of it. Where it would solve for more anew (another load, other step times), it is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specmath import hardware
from specmath.predict import Prediction
from specmath.scenario import SPECS, Scenario
from specmath.tables.columns import COLUMNS
from specmath.tables.table import REFERENCES, Basis, Column, Input, parse

__all__ = [
    "acceptance_from", "derived", "field_cell", "fixed", "given", "greatest", "least",
    "money_cells", "plain_cells", "reachable", "waiting_cells",
]  # fmt: skip

GIVEN = "As given in the scenario"
DEFAULT = "Not given: what specmath assumes"
TIMED = frozenset({"target_ms", "draft_ms", "run_ms", "run_tokens_per_step", "verify_costs"})
"""Fields that only a measurement gives."""

_ACCEPTANCE_FROM: Mapping[str, tuple[Basis, str]] = {
    "my_traffic": ("measured", "On your own traffic, as given in the scenario"),
    "other_traffic": ("measured", "On other text, as given in the scenario"),
    "assumed": ("assumed", GIVEN),
}


def acceptance_from(s: Scenario) -> tuple[Basis, str]:
    """What the scenario says of where its acceptance is from."""
    if s.acceptance_source in _ACCEPTANCE_FROM:
        return _ACCEPTANCE_FROM[s.acceptance_source]
    if s.accepts.measured or s.rates:
        return "measured", f"{GIVEN}, which does not say on what traffic"
    return "assumed", f"{GIVEN}, which does not say where it is from"


def given(s: Scenario, name: str) -> tuple[Basis, str]:
    """Where the value of a field is from."""
    value, default = getattr(s, name), type(s).model_fields[name].default
    if name in TIMED:
        return "measured", f"{GIVEN}, which asks for what was measured"
    if name in s.costs.cited and value == s.costs.cited[name]:
        return "published", SPECS[name].help
    if value == default:
        return "assumed", DEFAULT
    if name == "usd_per_hour" and s.costs.computed and value == _price_of(s):
        return "assumed", f"Not given: what specmath takes for {s.gpu}"
    return "assumed", f"{GIVEN}, which does not say where it is from"


def _price_of(s: Scenario) -> float | None:
    return hardware.find(str(s.gpu)).usd_per_hour


def field_cell(
    s: Scenario, name: str, value: Any = None, *, format: str = "", editable: bool = True
) -> Input:
    """The cell of a field of the scenario; `value` where the library takes another for it."""
    spec, own = SPECS[name], getattr(s, name) if value is None else value
    said = name.replace("_", " ") if not spec.label else spec.label
    basis, source = given(s, name)
    return Input(name, said, spec.unit, spec.help, own, format, basis, source, editable=editable)


def fixed(name: str, value: Any, source: str = "Computed by specmath", **said: Any) -> Input:
    """A number that only the library computes, named as a column or a field is."""
    base = name.removesuffix("_at_gamma")
    if base in COLUMNS:
        label, unit, definition, format, _ = COLUMNS[base]
    else:
        spec = SPECS[base]
        label, unit, definition, format = spec.label, spec.unit, spec.help, ""
    said = {"label": label, "unit": unit, "definition": definition, "format": format} | said
    return Input(name=name, value=value, basis="computed", source=source, editable=False, **said)


def derived(name: str, label: str, unit: str, definition: str, value: Any, formula: str | None,
            format: str = "0.0000") -> Input:  # fmt: skip
    """A cell that follows from those above it; without a formula it is fixed."""
    source = "" if formula else "Computed by specmath"
    return Input(
        name,
        label,
        unit,
        definition,
        value,
        format,
        "computed",
        source,
        formula,
        formula is not None,
    )


def least(a: str, b: str) -> str:
    """The smaller of two terms; files name no functions."""
    return f"({a}*({a}<={b})+{b}*({b}<{a}))"


def greatest(a: str, b: str) -> str:
    """The larger of two terms."""
    return f"({a}*({a}>={b})+{b}*({b}>{a}))"


def reachable(columns: Sequence[Column], inputs: Iterable[Input]) -> tuple[Input, ...]:
    """Of the inputs, once each, those that some formula of the columns comes to: no cell of a file
    looks like one that does something and does nothing."""
    known = {item.name: item for item in inputs}
    wanted = {
        token.text
        for column in columns
        for row in range(len(column.values))
        for token in parse(column.formula(row) or "0")
        if token.kind in REFERENCES
    }
    open_names = [name for name in wanted if name in known]
    while open_names:
        for token in parse(known[open_names.pop()].formula or "0"):
            if token.kind in REFERENCES and token.text not in wanted:
                wanted.add(token.text)
                open_names.append(token.text)
    return tuple(item for name, item in known.items() if name in wanted)


def money_cells(p: Prediction, names: Sequence[str]) -> list[Input]:
    """Price, demand, batch and GPUs; with hardware only what _FORMATS has: another batch or another
    number of GPUs has other step times."""
    s, free = p.scenario, p.endpoint.pair is None
    return [
        field_cell(s, name, format=_FORMATS.get(name, "0"), editable=free or name in _FORMATS)
        for name in names
    ]


_FORMATS = {
    "usd_per_hour": "0.00",
    "demand_tokens_per_second": "#,##0",
    "demand_requests_per_second": "#,##0.00",
    "replicas": "#,##0",
    "headroom": "0.00",
}


def plain_cells(p: Prediction) -> list[Input]:
    """The time per token of plain decoding: what was typed and other requests' prompts, or as it
    was computed."""
    plain = p.tpot_plain
    if plain is None:
        return []
    label, meant = "Plain time per token", "Of plain decoding, with what prompts take"
    value = plain.value * 1e3
    if p.endpoint.pair is None:
        text = "{target_ms}*(1+{plain_waiting})" if p.speculation.waiting else "{target_ms}"
        cells = [field_cell(p.scenario, "target_ms", format="0.00"), *waiting_cells(p)]
        return [*cells, derived("plain_ms", label, "ms", meant, value, text, "0.00")]
    typed = p.scenario.target_ms is not None
    source = f"{GIVEN}; the steps were computed to it" if typed else "By the step-time model"
    return [
        Input("plain_ms", label, "ms", meant, value, "0.00", "measured" if typed else "computed",
              source, editable=False)
    ]  # fmt: skip


def waiting_cells(p: Prediction) -> list[Input]:
    """What other requests' prompts take of a token of plain decoding, where they take something."""
    ours, s = p.speculation, p.scenario
    if not ours.waiting:
        return []
    if p.endpoint.pair is not None:
        return [fixed("plain_waiting", ours.plain_waiting)]
    said = COLUMNS["plain_waiting"]
    share = field_cell(s, "prefill_share", format="0.00")
    text = "{prefill_share}/(1-{prefill_share})"
    return [share, derived("plain_waiting", said.label, said.unit, said.definition,
                           ours.plain_waiting, text, said.format)]  # fmt: skip
