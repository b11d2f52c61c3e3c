"""Plan ↔ TOML file, without loss: [[endpoints]], each with [[endpoints.segments]]."""

from __future__ import annotations

from typing import Any

import tomli_w

from specmath.checks import InputError, short
from specmath.plan.record import GAMMA_BY, TAX, Plan, Traces, plan_of
from specmath.scenario.fields import UNKNOWN
from specmath.scenario.files import LINK_VERSION, toml_tables
from specmath.traffic import shipped_trace

__all__ = ["from_toml", "to_toml"]


def to_toml(plan: Plan) -> str:
    """What was said of each endpoint and segment; reads back to an equal plan.

    Examples
    --------
    >>> chat = {"name": "chat", "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3",
    ...         "prompt_tokens": 1024, "demand_requests_per_second": 20.0}
    >>> plan = plan_of([chat])
    >>> from_toml(to_toml(plan)) == plan
    True
    """
    return tomli_w.dumps({
        "specmath": LINK_VERSION,
        "plan": {"name": plan.name},
        "endpoints": as_given(plan),
    })  # fmt: skip


def as_given(plan: Plan) -> list[dict[str, Any]]:
    """The values of `plan_of` that make the plan."""
    found = []
    for each in plan.endpoints:
        values: dict[str, Any] = {"name": each.name, **_written(each.said)}
        values["demand_requests_per_second"] = each.demand
        if each.replicas is not None:
            values["replicas"] = each.replicas
        if each.gamma_by != "one":
            values[GAMMA_BY] = each.gamma_by
        if each.per_request_tax is not None:
            values[TAX] = each.per_request_tax
        if each.day:
            values["day"] = list(each.day)
        values["segments"] = [
            {"name": one.name, "share": one.share, **_written(one.said)} for one in each.segments
        ]
        found.append(values)
    return found


def _written(said: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return {
        name: UNKNOWN if value is None else list(value) if isinstance(value, tuple) else value
        for name, value in said
    }


def from_toml(text: str, traces: Traces = shipped_trace) -> Plan:
    """Read one plan; `traces` finds requests by the name of a trace.

    Raises InputError in one sentence a fault (syntax with its line, unknown key).
    """
    data = toml_tables(text, "a plan")
    for key in data:
        if key not in ("specmath", "plan", "endpoints"):
            raise InputError(f"unknown table or key {short(key)}; a plan has [[endpoints]]")
    if data.get("specmath", LINK_VERSION) != LINK_VERSION:
        raise InputError(f"specmath must be {LINK_VERSION!r}, got {short(data['specmath'])}")
    endpoints, about = data.get("endpoints", []), data.get("plan", {})
    if not endpoints or not _tables(endpoints) or not isinstance(about, dict):
        raise InputError("a plan needs tables [[endpoints]], found none")
    for each in endpoints:
        if not _tables(each.get("segments", [])):
            raise InputError("segments of an endpoint must be tables [[endpoints.segments]]")
        if not isinstance(each.get("day", []), list):
            raise InputError(f"day must be a list of numbers, got {short(each['day'])}")
    return plan_of(endpoints, str(about.get("name", "")), traces)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)
