"""A plan as two tables that people type and paste: a row an endpoint, and a row a segment.

Every cell is text. Numbers are read as spreadsheets write them (1,024, 60%, $2.50); an acceptance
says what it is by how it is written:

    0.8                α                             0.6 to 0.8       a range of α
    0.8, 0.6, 0.45     per-position rates            2.8 @ 4          tokens a step at γ=4
    61% @ 4            accepted ÷ drafted at γ=4     0.5:0.9, 0.5:0.4 share:α of each kind
    (empty)            what others measured
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from specmath.checks import InputError, short
from specmath.plan.files import as_given
from specmath.plan.record import GAMMA_BY, RATE, SHARE, Plan, plan_of
from specmath.scenario import SPECS, Scenario
from specmath.scenario.faults import ScenarioError
from specmath.scenario.fields import UNKNOWN
from specmath.scenario.files import written
from specmath.scenario.forms import HALVES

__all__ = [
    "ENDPOINT_COLUMNS", "SEGMENT_COLUMNS", "Grid", "Row", "acceptance_cell", "endpoint_row",
    "grid_of", "plan_from", "read_acceptance", "read_rows",
]  # fmt: skip

Row = dict[str, str]
"""Text by the column's name."""

ENDPOINT, SEGMENT, ACCEPTANCE, DAY, OTHER = "endpoint", "segment", "acceptance", "day", "other"

ENDPOINT_COLUMNS = (
    ENDPOINT, "model", "gpu", "tensor_parallel", "draft", "engine", RATE, "gamma", GAMMA_BY,
    "usd_per_hour", "headroom", "slo_tpot_ms", "slo_ttft_ms", "slo_e2e_ms", DAY, OTHER,
)  # fmt: skip
SEGMENT_COLUMNS = (
    ENDPOINT, SEGMENT, SHARE, "prompt_tokens", "output_tokens", "prefix_hit", "work", ACCEPTANCE,
    "slo_tpot_ms", "slo_ttft_ms", "slo_e2e_ms", OTHER,
)  # fmt: skip


class Grid(NamedTuple):
    """Both tables, and the plan's name."""

    endpoints: list[Row]
    segments: list[Row]
    name: str = ""


# ── cells ────────────────────────────────────────────────────────────────────────────────────

_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_COMMA = re.compile(r"\d+,\d+")
_MONEY = re.compile(r"[$€£\s\u00a0]|USD")


def _number(name: str, text: str) -> str:
    """A number as Python writes it: without currency and thousands, percent as a fraction."""
    bare = _MONEY.sub("", text)
    percent = bare.endswith("%")
    bare = bare.removesuffix("%")
    if _GROUPED.fullmatch(bare):
        bare = bare.replace(",", "")
    elif _COMMA.fullmatch(bare):
        bare = bare.replace(",", ".")
    if not percent:
        return bare
    try:
        return repr(float(bare) / 100.0)
    except ValueError:
        raise InputError(f"{name} must be a number, got {short(text)}") from None


_RANGE = re.compile(r"(.+?)\s*(?:to|\.\.|–|-|…)\s*(.+)")


def read_acceptance(text: str) -> dict[str, Any]:
    """The fields that a cell says; {} where it is empty.

    Raises
    ------
    InputError
        A cell that is none of the ways in the module's docstring.

    Examples
    --------
    >>> read_acceptance("0.6 to 0.8"), read_acceptance("2.8 @ 4")["measured_gamma"]
    ({'acceptance_form': 'range', 'alpha_low': '0.6', 'alpha_high': '0.8'}, '4')
    """
    cell = text.strip().removeprefix("α").strip().removeprefix("=").strip()
    if not cell or cell == UNKNOWN:
        return {}
    if "@" in cell:
        return _measured(*map(str.strip, cell.split("@", 1)))
    if ":" in cell:
        return {"acceptance_form": "mixture", "mixture": cell.replace(" ", "")}
    parts = [part for part in re.split(r"[,;\s]\s*", cell) if part]
    if len(parts) > 1 and all(_is_number(part) for part in parts):
        if len(parts) == 2 and _COMMA.fullmatch(cell):  # a decimal comma
            return {"acceptance_form": "alpha", "alpha": _number("alpha", cell)}
        rates = ",".join(_number("rates", part) for part in parts)
        return {"acceptance_form": "survival", "rates": rates}
    found = _RANGE.fullmatch(cell)
    if found and all(_is_number(end) for end in found.groups()):
        low, high = (_number("alpha", end) for end in found.groups())
        return {"acceptance_form": "range", "alpha_low": low, "alpha_high": high}
    if not _is_number(cell):
        raise InputError(
            "acceptance must be written as 0.8, 0.6 to 0.8, 0.8, 0.6, 0.45 (by position), 2.8 @ 4 "
            f"(tokens a step at γ), 61% @ 4 (accepted ÷ drafted) or 0.5:0.9, 0.5:0.4, got "
            f"{short(text)}"
        )
    return {"acceptance_form": "alpha", "alpha": _number("alpha", cell)}


def _measured(value: str, gamma: str) -> dict[str, Any]:
    gamma = gamma.removeprefix("γ").removeprefix("=").strip()
    if value.endswith("%"):
        share = _number("accepted_share", value)
        return {"acceptance_form": "accepted_share", "accepted_share": share,
                "measured_gamma": gamma}  # fmt: skip
    return {"acceptance_form": "tokens_per_step", "tokens_per_step": value,
            "measured_gamma": gamma}  # fmt: skip


def _is_number(text: str) -> bool:
    try:
        float(_number("", text))
    except (InputError, ValueError):
        return False
    return True


def acceptance_cell(fields: Mapping[str, Any]) -> str:
    """The cell that says the acceptance of these fields; "" where they say none."""
    get = {n: v for n, v in fields.items() if v not in (None, (), [])}.get
    if (alpha := get("alpha")) is not None:
        return str(alpha)
    if (rates := get("rates")) is not None:
        return rates if isinstance(rates, str) else ", ".join(f"{rate:g}" for rate in rates)
    if (mixture := get("mixture")) is not None:
        if isinstance(mixture, str):
            return mixture
        return ", ".join(f"{share:g}:{alpha:g}" for share, alpha in mixture)
    at = get("measured_gamma")
    if (tokens := get("tokens_per_step")) is not None:
        return f"{tokens} @ {at}"
    if (accepted := get("accepted_per_step")) is not None:
        return f"{1.0 + float(accepted):g} @ {at}"
    if (share := get("accepted_share")) is not None:
        return f"{100.0 * float(share):g}% @ {at}"
    low, high = get("alpha_low"), get("alpha_high")
    return "" if low is None or high is None else f"{low} to {high}"


def _others(text: str) -> dict[str, str]:
    """name=value; name=value."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"other must be name=value; name=value, got {short(part)}")
        found[name.strip()] = value.strip()
    return found


def _values(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    """The fields of a row, cells as the record reads them."""
    found: dict[str, Any] = {}
    for name in columns:
        text = str(row.get(name) or "").strip()
        if not text or name in (ENDPOINT, SEGMENT, ACCEPTANCE, DAY, OTHER):
            continue
        spec = SPECS.get(name)
        numeric = name == SHARE or (spec is not None and spec.low is not None)
        found[name] = _number(name, text) if numeric else text
    found |= read_acceptance(str(row.get(ACCEPTANCE) or ""))
    return found | _others(str(row.get(OTHER) or ""))


# ── plans ────────────────────────────────────────────────────────────────────────────────────


def plan_from(grid: Grid) -> Plan:
    """The plan of both tables; ScenarioError as `plan_of`, and for a segment of no endpoint."""
    faults: list[str] = []
    endpoints: list[dict[str, Any]] = []
    for i, row in enumerate(_filled(grid.endpoints)):
        name = str(row.get(ENDPOINT) or "").strip() or f"endpoint {i + 1}"
        try:
            day = [each for each in re.split(r"[,;\s]+", str(row.get(DAY) or "")) if each]
            values = {"name": name, **_values(row, ENDPOINT_COLUMNS), "segments": []}
            endpoints.append(values | ({"day": day} if day else {}))
        except InputError as error:
            faults.append(f"{name}: {error}")
    by_name = {each["name"]: each for each in endpoints}
    for row in _filled(grid.segments):
        of, name = (str(row.get(key) or "").strip() for key in (ENDPOINT, SEGMENT))
        owner = by_name.get(of) if of else endpoints[0] if len(endpoints) == 1 else None
        if owner is None:
            known = ", ".join(by_name) or "none"
            faults.append(f"endpoint of segment {name or '?'} must be one of {known}, got {of!r}")
            continue
        try:
            owner["segments"].append({"name": name, **_values(row, SEGMENT_COLUMNS)})
        except InputError as error:
            faults.append(f"{owner['name']}: {name}: {error}")
    if faults:
        raise ScenarioError(faults)
    return plan_of(endpoints, grid.name)


def _filled(rows: Sequence[Row]) -> list[Row]:
    """Rows in which something stands."""
    return [row for row in rows if any(str(cell or "").strip() for cell in row.values())]


def grid_of(plan: Plan) -> Grid:
    """The tables that say a plan.

    Examples
    --------
    >>> from specmath.plan.record import plan_of
    >>> plan = plan_of([{"name": "chat", "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3",
    ...                  "prompt_tokens": 1024, "demand_requests_per_second": 20.0}])
    >>> plan_from(grid_of(plan)) == plan
    True
    """
    endpoints, segments = [], []
    for each in as_given(plan):
        said = {n: v for n, v in each.items() if n not in ("name", "segments", "day")}
        own = {n: said.pop(n) for n in list(said) if n in _OF_SEGMENTS}
        row = {ENDPOINT: each["name"], **_cells(said, ENDPOINT_COLUMNS)}
        if each.get("day"):
            row[DAY] = ", ".join(f"{hour:g}" for hour in each["day"])
        endpoints.append(row)
        for one in each["segments"]:
            fields = {n: v for n, v in one.items() if n not in ("name", SHARE)}
            if not HALVES["acceptance"].isdisjoint(fields):
                own_left = {n: v for n, v in own.items() if n not in HALVES["acceptance"]}
            else:
                own_left = own
            cells = _cells({**own_left, **fields}, SEGMENT_COLUMNS)
            share = f"{100.0 * one[SHARE]:.12g}%"
            segments.append({ENDPOINT: each["name"], SEGMENT: one["name"], SHARE: share, **cells})
    return Grid(endpoints, segments, plan.name)


_OF_SEGMENTS = frozenset(
    {*HALVES["acceptance"], "prompt_tokens", "output_tokens", "prompt_spread",
     "output_spread", "prefix_hit", "prefix_hit_speculative", "work", "temperature",
     "acceptance_source"}
)  # fmt: skip
"""Fields of an endpoint that its rows say of each of its segments."""


def _cells(fields: Mapping[str, Any], columns: Sequence[str]) -> Row:
    """Fields as cells; what has no column stands in the last."""
    acceptance = {n: v for n, v in fields.items() if n in HALVES["acceptance"]}
    rest = {n: v for n, v in fields.items() if n not in HALVES["acceptance"]}
    found = {n: _text(rest.pop(n)) for n in columns if n in rest}
    if acceptance and ACCEPTANCE in columns:
        found[ACCEPTANCE] = acceptance_cell(acceptance)
    if rest:
        found[OTHER] = "; ".join(f"{n}={_text(v)}" for n, v in rest.items())
    return found


def _text(value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def endpoint_row(s: Scenario, name: str) -> Grid:
    """The rows that plan a scenario, one endpoint with one segment; without a demand where the
    scenario has none."""
    left_out = ("batch", "concurrency", "request_rate", "arrivals", "label", "acceptance_form",
                "draft_form", "demand_tokens_per_second", "replicas")  # fmt: skip
    fields = {n: v for n, v in written(s).items() if n not in left_out}
    own = {n: fields.pop(n) for n in list(fields) if n in _OF_SEGMENTS}
    segment = {ENDPOINT: name, SEGMENT: name, SHARE: "100%", **_cells(own, SEGMENT_COLUMNS)}
    return Grid([{ENDPOINT: name, **_cells(fields, ENDPOINT_COLUMNS)}], [segment])


def read_rows(text: str, columns: Sequence[str]) -> list[Row]:
    """Rows pasted from a spreadsheet or a CSV, whose first line names the columns.

    Raises
    ------
    InputError
        No line of names, or a name that is no column.

    Examples
    --------
    >>> read_rows("segment\\tshare\\ncode\\t60%", SEGMENT_COLUMNS)
    [{'segment': 'code', 'share': '60%'}]
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise InputError(f"a table needs a line of names and rows below, got {len(lines)} lines")
    mark = next((each for each in ("\t", ";", "|", ",") if each in lines[0]), "\t")
    heads = [_column(cell, columns) for cell in _split(lines[0], mark)]
    return [
        {head: cell for head, cell in zip(heads, _split(line, mark), strict=False) if cell}
        for line in lines[1:]
    ]


def _split(line: str, mark: str) -> list[str]:
    (cells,) = csv.reader([line], delimiter=mark)
    return [cell.strip() for cell in cells]


def _column(head: str, columns: Sequence[str]) -> str:
    """The column of a head: its name, or the label of its field, whatever its case and unit."""
    bare = re.sub(r"\s*\(.*\)\s*", "", head).strip().lower()
    for name in columns:
        label = SPECS[name].label if name in SPECS else name
        if bare in (name, name.replace("_", " "), label.lower()):
            return name
    raise InputError(f"{short(head)} must be one of {', '.join(columns)}")
