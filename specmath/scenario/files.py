"""Scenario ↔ TOML file and link, without loss; and its errors in sentences."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import tomli_w
from pydantic import ValidationError

from specmath.checks import InputError
from specmath.scenario import EXAMPLE, SPECS, Scenario
from specmath.scenario.faults import ScenarioError, messages, short
from specmath.scenario.fields import UNKNOWN
from specmath.scenario.forms import COST, FORMS, HALVES, SHARED, Hardware

__all__ = [
    "LINK_VERSION",
    "MAX_FILE_CHARACTERS",
    "ScenarioError",
    "as_text",
    "build",
    "drafts_in",
    "from_link",
    "from_toml",
    "revised",
    "rollout_in",
    "to_link",
    "to_toml",
    "toml_tables",
    "written",
]  # fmt: skip

LINK_VERSION = "1"
"""Goes into each link as `v`: a later default may differ, and an old link must be told apart."""

MAX_FILE_CHARACTERS = 1_000_000

TABLES = ("specmath", "scenario", "drafts", "specmath_rollout", "rollout")
"""What a file may hold: a scenario, and beside it candidates, or what is expected of a trial."""

NEEDED = ("acceptance", "draft cost")
"""What the example fills in where a link has none of it; the rest has a default."""


def build(values: Mapping[str, Any]) -> Scenario:
    """A Scenario from named values.

    Parameters
    ----------
    values
        Field name to value; text is read as a form or a file would write it.

    Returns
    -------
    Scenario
        Validated.

    Raises
    ------
    ScenarioError
        An InputError with every fault in sentences.

    Examples
    --------
    >>> build({"alpha": "0.8", "c": "0.1"}).alpha
    0.8
    >>> build({"alpha": 2, "c": 0.1})
    Traceback (most recent call last):
    specmath.scenario.faults.ScenarioError: alpha must be a finite number >= 0 and <= 1, got 2
    """
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


def written(scenario: Scenario) -> dict[str, Any]:
    """The fields that differ from their default, as options take them: lists comma-joined,
    what is unknown by that word."""
    changed = _changed(scenario).items()
    return {n: as_text(v) if v is None or isinstance(v, tuple) else v for n, v in changed}


# ── links ────────────────────────────────────────────────────────────────────────────────────


def to_link(scenario: Scenario) -> dict[str, str]:
    """The query parameters that restore the scenario; those at their default are left out.

    Examples
    --------
    >>> to_link(Scenario(alpha=0.8, c=0.1, gamma=4))
    {'v': '1', 'alpha': '0.8', 'gamma': '4', 'c': '0.1'}
    """
    return {"v": LINK_VERSION} | {name: as_text(v) for name, v in _changed(scenario).items()}


def from_link(parameters: Mapping[str, str]) -> tuple[Scenario, list[str]]:
    """The scenario of a link and what could not be read of it.

    Never raises: a parameter that is unknown, absurd or missing is reported and the rest is kept,
    a half that is missing altogether is the example's.

    Examples
    --------
    >>> scenario = Scenario(alpha=0.8, c=0.1)
    >>> from_link(to_link(scenario)) == (scenario, [])
    True
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
    for names in (*reversed(HALVES.values()), frozenset().union(*HALVES.values())):
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
    """Fill in the acceptance or the draft cost from the example where a link gives none."""
    filled: dict[str, Any] = dict(values)
    for half in NEEDED:
        names = HALVES[half]
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

    Examples
    --------
    >>> revised(Scenario(alpha=0.8, c=0.1), {"target_ms": 40, "draft_ms": 8}).draft_form
    'times'
    """
    kept = _changed(scenario)
    for field, names in zip(FORMS, HALVES.values(), strict=True):
        given, current = names & changes.keys(), getattr(scenario, field)
        own = {*FORMS[field][current].fields, "measured_gamma", "coverage"}
        if field == "draft_form":
            own |= {*COST[current].alone}
        if given <= own:
            measured = field == "acceptance_form" and given - {"measured_gamma"}
            replaced = {"measured_gamma"} if measured else set()
            kept = {field: current} | {n: v for n, v in kept.items() if n not in replaced}
        else:
            kept = {name: value for name, value in kept.items() if name not in names}
    if not changes.keys().isdisjoint(Hardware.fields):
        left = {*Hardware.computes}
        if not scenario.costs.computed:  # a time of other hardware
            left |= SHARED
        kept = {name: value for name, value in kept.items() if name not in left}
    return build({**kept, **changes})


# ── TOML ─────────────────────────────────────────────────────────────────────────────────────


def to_toml(scenario: Scenario, drafts: Mapping[str, Any] | None = None) -> str:
    """All fields that are set, unknown ones as "unknown"; reads back to an equal scenario.

    `drafts`: what stands beside it in a table of that name, for `drafts_in`.

    Examples
    --------
    >>> scenario = Scenario(alpha=0.8, c=0.1, sigma=None)
    >>> from_toml(to_toml(scenario)) == scenario
    True
    """
    values = {
        name: UNKNOWN if value is None else value
        for name, value in scenario.model_dump().items()
        if value is not None
        or (SPECS[name].unknown and Scenario.model_fields[name].default is not None)
    }
    beside = {"drafts": drafts} if drafts else {}
    return tomli_w.dumps({"specmath": LINK_VERSION, "scenario": values, **beside})


def from_toml(text: str) -> Scenario:
    """Read one scenario; InputError in one sentence a fault (syntax with its line, unknown key)."""
    data = _tables(text)
    if data.get("specmath", LINK_VERSION) != LINK_VERSION:
        raise InputError(f"specmath must be {LINK_VERSION!r}, got {short(data['specmath'])}")
    if not isinstance(data.get("scenario"), dict):
        raise InputError("a scenario file needs a table [scenario], found none")
    return build(data["scenario"])


def drafts_in(text: str) -> Any:
    """What a scenario file holds of drafts beside it, as it stands; nothing: an empty table."""
    return _tables(text).get("drafts", {})


def rollout_in(text: str) -> Any:
    """What a rollout file holds beside its scenario, as it stands; None of any other."""
    return _tables(text).get("rollout")


def _tables(text: str) -> dict[str, Any]:
    data = toml_tables(text, "a scenario file")
    for key in data:
        if key not in TABLES:
            raise InputError(f"unknown table or key {short(key)}; a scenario file has [scenario]")
    return data


def toml_tables(text: str, what: str) -> dict[str, Any]:
    """The tables of a TOML file; InputError where `what` is too long or none."""
    if len(text) > MAX_FILE_CHARACTERS:
        raise InputError(
            f"{what} must have at most {MAX_FILE_CHARACTERS} characters, got {len(text)}"
        )
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise InputError("not a TOML file: nested too deeply") from error
    except ValueError as error:  # its syntax, or an integer too long for Python
        raise InputError(f"not a TOML file: {error}") from error
