"""Scenario ↔ TOML file, link and CSV row, without loss; and its errors in sentences."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from specmath.checks import InputError
from specmath.scenario import EXAMPLE, SPECS, Scenario
from specmath.scenario.faults import ScenarioError, messages, short
from specmath.scenario.fields import UNKNOWN
from specmath.scenario.forms import (
    ACCEPTANCE_FORMS,
    COMPUTED_FROM_HARDWARE,
    DRAFT_FORMS,
    HALVES,
    SERVED_ONLY,
    VERIFY_FIELDS,
    VERIFY_FORMS,
)
from specmath.sheets.export import neutralise

__all__ = [
    "LINK_VERSION",
    "MAX_FILE_CHARACTERS",
    "ScenarioError",
    "as_text",
    "build",
    "from_csv",
    "from_link",
    "from_toml",
    "revised",
    "to_csv",
    "to_link",
    "to_toml",
]  # fmt: skip

LINK_VERSION = "1"
"""Goes into each link as `v`: a later default may differ, and an old link must be told apart."""

MAX_FILE_CHARACTERS = 1_000_000

GUARD = "'"
"""Before a label that a spreadsheet would run as a formula; taken off again on reading."""


def build(values: Mapping[str, Any]) -> Scenario:
    """A Scenario, or ScenarioError (an InputError) with every fault in sentences."""
    try:
        return Scenario(**values)
    except ValidationError as error:
        raise ScenarioError(messages(error)) from error


def as_text(value: Any) -> str:
    """A field as text: repr of floats is the shortest that reads back the same."""
    if value is None:
        return UNKNOWN
    if isinstance(value, tuple):
        return ",".join(":".join(map(repr, v)) if isinstance(v, tuple) else repr(v) for v in value)
    return str(value)


def _changed(scenario: Scenario) -> dict[str, Any]:
    """Fields that differ from their default; a price too whose default depends on the GPU."""
    fields = Scenario.model_fields
    priced = {"usd_per_hour"} if scenario.draft_form == "hardware" else set()
    return {n: v for n in fields if (v := getattr(scenario, n)) != fields[n].default or n in priced}


# ── links ────────────────────────────────────────────────────────────────────────────────────


def to_link(scenario: Scenario) -> dict[str, str]:
    """The query parameters that restore the scenario; those at their default are left out."""
    if scenario == EXAMPLE:
        return {}
    return {"v": LINK_VERSION} | {name: as_text(v) for name, v in _changed(scenario).items()}


def from_link(parameters: Mapping[str, str]) -> tuple[Scenario, list[str]]:
    """The scenario of a link and what could not be read of it.

    Never raises: a parameter that is unknown, absurd or missing is reported and the rest is kept,
    a half that is missing altogether is the example's.
    """
    values = dict(parameters)
    version = values.pop("v", LINK_VERSION)
    notices = []
    if version != LINK_VERSION:
        notices.append(
            f"link version must be {LINK_VERSION}, got {short(version)}; reading it anyway"
        )
    if not values:
        return EXAMPLE, notices
    for _ in range(len(values) + 1):
        try:
            return Scenario(**_with_example_halves(values, notices)), notices
        except ValidationError as error:
            notices += messages(error)
            at_fault = _at_fault(values, error)
            if not at_fault:
                break
            values = {name: value for name, value in values.items() if name not in at_fault}
    notices.append("the rest of the link makes no scenario; the example is shown instead")
    return EXAMPLE, notices


def _at_fault(values: dict[str, str], error: ValidationError) -> set[str]:
    """The parameters to leave out: those named, or else the smallest half that is to blame."""
    named = {str(d["loc"][0]) for d in error.errors() if d["loc"]} & set(values)
    if named:
        return named
    for names in (VERIFY_FIELDS, *HALVES.values(), frozenset().union(*HALVES.values())):
        if names.isdisjoint(values):
            continue
        rest = {name: value for name, value in values.items() if name not in names}
        try:
            Scenario(**_with_example_halves(rest, []))
        except ValidationError:
            continue
        return set(names & values.keys())
    return set()


def _with_example_halves(values: dict[str, str], notices: list[str]) -> dict[str, Any]:
    """Fill in γ, the acceptance or the draft cost from the example where a link gives none."""
    filled: dict[str, Any] = dict(values)
    for half, names in {"γ": frozenset({"gamma"}), **HALVES}.items():
        if names.isdisjoint(values):
            used = names | {"target_ms"} if half == "draft cost" else names
            example = {n: v for n, v in _changed(EXAMPLE).items() if n in used}
            filled = {**example, **filled}
            note = f"no {half} could be read from the link: the example's is used"
            if note not in notices:
                notices.append(note)
    return filled


def revised(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """The scenario with some fields given anew; a new form of a half replaces the old one's fields.

    Fields of the form in use keep the form and its other fields (one end of a range alone), but
    a new measurement counts as taken at the γ in use unless `measured_gamma` says otherwise.
    Raises InputError as `build` does.
    """
    kept = _changed(scenario)
    parts = (
        ("acceptance_form", ACCEPTANCE_FORMS, HALVES["acceptance"]),
        ("draft_form", DRAFT_FORMS, HALVES["draft cost"]),
        ("verify_form", VERIFY_FORMS, VERIFY_FIELDS),
    )
    for form, forms, names in parts:
        given, current = names & changes.keys(), getattr(scenario, form)
        own = {*forms[current], "measured_gamma"}
        if current == "hardware":
            own |= {*SERVED_ONLY}
        if given <= own:
            replaced = {"measured_gamma"} if given - {"measured_gamma"} else set()
            kept = {form: current} | {n: v for n, v in kept.items() if n not in replaced}
        else:
            kept = {name: value for name, value in kept.items() if name not in names}
    if not changes.keys().isdisjoint(DRAFT_FORMS["hardware"]):
        kept = {name: value for name, value in kept.items() if name not in COMPUTED_FROM_HARDWARE}
    return build({**kept, **changes})


# ── TOML ─────────────────────────────────────────────────────────────────────────────────────


def to_toml(scenario: Scenario) -> str:
    """All fields that are set, unknown ones as "unknown"; reads back to an equal scenario."""
    values = {
        name: UNKNOWN if value is None else value
        for name, value in scenario.model_dump().items()
        if value is not None
        or (SPECS[name].unknown and Scenario.model_fields[name].default is not None)
    }
    return tomli_w.dumps({"specmath": LINK_VERSION, "scenario": values})


def from_toml(text: str) -> Scenario:
    """Read one scenario; InputError in one sentence a fault (syntax with its line, unknown key)."""
    if len(text) > MAX_FILE_CHARACTERS:
        raise InputError(
            f"a scenario file must have at most {MAX_FILE_CHARACTERS} characters, got {len(text)}"
        )
    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise InputError("not a TOML file: nested too deeply") from error
    except ValueError as error:  # its syntax, or an integer too long for Python
        raise InputError(f"not a TOML file: {error}") from error
    for key in data:
        if key not in ("specmath", "scenario"):
            raise InputError(f"unknown table or key {short(key)}; a scenario file has [scenario]")
    if data.get("specmath", LINK_VERSION) != LINK_VERSION:
        raise InputError(f"specmath must be {LINK_VERSION!r}, got {short(data['specmath'])}")
    if not isinstance(data.get("scenario"), dict):
        raise InputError("a scenario file needs a table [scenario], found none")
    return build(data["scenario"])


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────


def to_csv(scenarios: Sequence[Scenario]) -> str:
    """One row a scenario, one column a field; reads back to equal scenarios."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(Scenario.model_fields)
    for scenario in scenarios:
        writer.writerow(_cell(name, value) for name, value in scenario.model_dump().items())
    return out.getvalue()


def _cell(name: str, value: Any) -> str:
    """Unset is empty, but a field whose default is a number says that it is unknown."""
    if name == "label":
        return (
            GUARD + value if value.startswith(GUARD) or neutralise(value) != value else str(value)
        )
    default = Scenario.model_fields[name].default
    return "" if value is None and default in (None, PydanticUndefined) else as_text(value)


def from_csv(text: str) -> list[Scenario]:
    """Read the rows of `to_csv`; InputError names the row at fault."""
    if len(text) > MAX_FILE_CHARACTERS:
        raise InputError(
            f"a scenario table must have at most {MAX_FILE_CHARACTERS} characters, got {len(text)}"
        )
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        scenarios = [_from_row(number, row) for number, row in enumerate(reader, start=2)]
    except csv.Error as error:
        raise InputError(f"not a CSV table: {error}") from error
    if not scenarios:
        raise InputError("a scenario table needs a header and at least one row, got none")
    return scenarios


def _from_row(number: int, row: Mapping[str | None, Any]) -> Scenario:
    if None in row:
        raise InputError(f"row {number} has more cells than the header")
    filled = {str(n): cell for n, cell in row.items() if cell not in (None, "")}
    if "label" in filled:
        filled["label"] = filled["label"].removeprefix(GUARD)
    try:
        return build(filled)
    except InputError as error:
        raise InputError(f"row {number}: {error}") from error
