"""The inputs that an answer rests on, and where each is from: given, assumed, measured, published.

A row an input; of an endpoint of several segments those of all its requests first, then what each
segment says for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from specmath.checks import short
from specmath.numbers import significant
from specmath.plan.decided import EndpointAnswer, SegmentAnswer
from specmath.plan.record import RATE, SEGMENT_FIELDS
from specmath.predict import Prediction
from specmath.scenario import SPECS, Scenario
from specmath.scenario.files import as_text
from specmath.scenario.forms import HALVES, LOADS, Hardware, Recorded
from specmath.tables.inputs import DEFAULT, TIMED, acceptance_from, given
from specmath.tables.table import Column, Table, shown
from specmath.words.acceptance import band_sentence, range_notes

__all__ = ["endpoint_inputs_table", "scenario_inputs_table"]

From = Literal["Given", "Assumed", "Measured", "Published"]

_SILENT = frozenset({
    "label", "acceptance_form", "draft_form", "verify_form", "alpha_low", "alpha_high",
    "acceptance_source", "arrivals", "max_gamma", "gamma",
})  # fmt: skip
"""Told by what they choose, by the answer or by the acceptance."""

_EMPTY = (None, (), "", "unknown")
LONGEST = 80


class _Row(NamedTuple):
    whose: str
    label: str
    value: str
    unit: str
    basis: From
    source: str


def endpoint_inputs_table(answer: EndpointAnswer) -> Table:
    """The inputs of one endpoint of a plan.

    Given is what the plan's file says; the load of a replica follows from the demand and is none.
    """
    endpoint, segments = answer.endpoint, answer.segments
    said = {name for name, _ in endpoint.said} | {RATE}
    apart = len(segments) > 1
    own = [{name for name, _ in segment.said} for segment in endpoint.segments]
    scenarios = [segment.scenario for segment in endpoint.segments]
    rows: list[_Row] = []
    for name in _counted(endpoint.scenario, of_plan=True):
        holders = [
            s for s, told in zip(scenarios, own, strict=True) if name not in told or not apart
        ]
        if not holders:
            continue
        # What a segment may say is, of all, what those have that do not say it.
        s = holders[0] if name in SEGMENT_FIELDS else endpoint.scenario
        told = name in said or (not apart and name in own[0])
        if name == "context_tokens" and not told:
            continue  # follows from the requests
        rows += _field("", s, name, answer.prediction, told=told)
    if endpoint.gamma_by != "one":
        rows.append(_Row("", "γ", "for each request", "", "Given", ""))
    if endpoint.per_request_tax is not None:
        tax = shown(endpoint.per_request_tax, "0.0")
        rows.append(_Row("", "Cost of a γ for each request", tax, "% of a step", "Given", ""))
    if endpoint.replicas is not None:
        label = SPECS["replicas"].label
        rows.append(_Row("", label, shown(endpoint.replicas, "#,##0"), "", "Given", ""))
    for segment, told_by in zip(segments, own, strict=True):
        rows += _segment(segment, told_by, apart=apart)
    return _table(rows, apart=apart)


def _segment(segment: SegmentAnswer, told: set[str], *, apart: bool) -> Iterator[_Row]:
    p, whose = segment.prediction, segment.name if apart else ""
    if apart:
        share = shown(100.0 * segment.share, "0.0")
        yield _Row(whose, "Share of the requests", share, "%", "Given", "")
        for name in _counted(p.scenario, of_plan=True):
            if name in told:
                yield from _field(whose, p.scenario, name, p, told=True)
    yield from _acceptance(whose, p)


def scenario_inputs_table(p: Prediction) -> Table:
    """The inputs of one scenario; a value that is the default reads as assumed."""
    s = p.scenario
    # What is open has no value; the assumptions say between what.
    is_open = any(unknown.field == "besides" for unknown in p.endpoint.unknown)
    names = [n for n in _counted(s) if not is_open or n not in ("sigma", "overhead")]
    rows = [row for name in names for row in _field("", s, name, p, told=_changed(s, name))]
    return _table([*rows, *_acceptance("", p)], apart=False)


def _changed(s: Scenario, name: str) -> bool:
    basis, source = given(s, name)
    return basis != "assumed" or not source.startswith("Not given")


def _table(rows: Iterable[_Row], *, apart: bool) -> Table:
    columns = {name: tuple(getattr(row, name) for row in rows) for name in _Row._fields}
    heads = {
        "whose": ("segment", "Segment", "That has it for itself; empty: all requests"),
        "label": ("input", "Input", "As the form calls it"),
        "value": ("value", "Value", "As taken"),
        "unit": ("unit", "Unit", "Of the value"),
        "basis": ("basis", "From", "Given in the file, assumed, measured by you, or published"),
        "source": ("source", "Source", "Where it is from"),
    }
    kept = [name for name in heads if apart or name != "whose"]
    made = [Column(heads[n][0], heads[n][1], "", heads[n][2], columns[n]) for n in kept]
    return Table("Inputs and where they are from", "inputs", tuple(made))


# ── fields ───────────────────────────────────────────────────────────────────────────────────


def _counted(s: Scenario, *, of_plan: bool = False) -> Iterator[str]:
    """The fields that the answer may rest on and that have a value, but for the acceptance."""
    hidden = _SILENT | HALVES["acceptance"]
    if s.costs.computed:
        hidden |= {*Hardware.computes}
    else:
        hidden |= {*Hardware.alone}
    if of_plan:
        hidden |= {*LOADS, "prefill_share"}
    elif s.concurrency is not None or s.request_rate is not None:
        hidden |= {"batch"}
    if not s.costs.computed and "sigma" not in s.verifies.fields:
        hidden |= {"sigma"}
    yield from (n for n in SPECS if n not in hidden and getattr(s, n) not in _EMPTY)


def _field(whose: str, s: Scenario, name: str, p: Prediction, *, told: bool) -> Iterator[_Row]:
    spec, value = SPECS[name], getattr(s, name)
    basis, source = given(s, name)
    found: From = "Given"
    if name in TIMED:
        found = "Measured"
    elif basis == "published":
        found = "Published"
    elif not told:
        found = "Assumed"
    # What was given, or is the default, needs no further word; a price that is the GPU's does.
    source = "" if found == "Given" or source == DEFAULT else source
    label = spec.label or name.replace("_", " ")
    unit = "" if spec.choices else spec.unit
    yield _Row(whose, label, _value(name, value, p), unit, found, source)


def _value(name: str, value: object, p: Prediction) -> str:
    """As a form shows it; a config.json by the name of its model."""
    pair = p.endpoint.pair
    if name == "model" and pair is not None:
        return short(pair.target.name, LONGEST)
    if isinstance(value, str):
        return short(SPECS[name].label_of(value), LONGEST)
    if isinstance(value, int | float):
        return shown(value, "#,##0") if isinstance(value, int) else significant(value)
    return short(as_text(value), LONGEST)


# ── acceptance ───────────────────────────────────────────────────────────────────────────────


def _acceptance(whose: str, p: Prediction) -> Iterator[_Row]:
    """What was given of it, or the range that others measured."""
    s, band = p.scenario, p.endpoint.band
    if s.accepts.nobodys(s):
        yield _Row(whose, "Acceptance α", "0 to 1", "", "Assumed", range_notes(p)[0])
        return
    if band is not None and isinstance(s.accepts, Recorded):
        low, _, high = s.accepts.ends(s)  # one of them may be typed
        value = f"{significant(low)} to {significant(high)}"
        yield _Row(whose, "Acceptance α", value, "", "Published", band_sentence(band))
        return
    basis, source = acceptance_from(s)
    found: From = "Measured" if basis == "measured" else "Given"
    names = [*s.accepts.fields, "measured_gamma"]
    for name in names:
        value = getattr(s, name)
        if value not in _EMPTY:
            spec = SPECS[name]
            yield _Row(whose, spec.label, _value(name, value, p), spec.unit, found, source)
