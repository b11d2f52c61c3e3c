"""Endpoints and their segments: what each serves, on what, within what, for how much.

An endpoint is a scenario in the hardware form; a segment is a kind of request that it serves, with
the fields of the scenario in which its requests differ: what is accepted, lengths, the prefix
cache, what is promised. Whatever a segment does not say is the endpoint's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from specmath.checks import InputError, short
from specmath.lengths import spread_of_lengths
from specmath.scenario import SPECS, Scenario
from specmath.scenario.faults import ScenarioError
from specmath.scenario.files import build
from specmath.scenario.forms import HALVES
from specmath.scenario.parts import Part, blended
from specmath.traffic import Traffic, shipped_trace

__all__ = [
    "GAMMA_BY", "HOURS", "MOST_ENDPOINTS", "MOST_SEGMENTS", "RATE", "SEGMENT_FIELDS", "SHARE",
    "TAX", "GammaBy", "Plan", "PlannedEndpoint", "Segment", "plan_of",
]  # fmt: skip

HOURS = 24
MOST_ENDPOINTS, MOST_SEGMENTS = 32, 32
"""Of a plan, and of an endpoint: more is a table of requests, which a simulation reads."""

MOST_REPLICAS, MOST_TAX = 1_000_000, 100

RATE, SHARE = "demand_requests_per_second", "share"
"""How a segment says how much of the traffic it is."""

GammaBy = Literal["one", "request"]
GAMMA_BY, TAX = "gamma_by", "per_request_tax"
"""How an endpoint says that its engine has a γ for each request ("request") or one for all ("one"),
and what the former costs, percent of a step."""

TRACE = "trace"
"""How it says its lengths by requests that came."""

SEGMENT_FIELDS = (
    *(name for name in SPECS if name in HALVES["acceptance"]),
    "acceptance_source", "work", "temperature", "prompt_tokens", "output_tokens",
    "prompt_spread", "output_spread", "prefix_hit", "prefix_hit_speculative",
    "slo_tpot_ms", "slo_ttft_ms", "slo_e2e_ms",
)  # fmt: skip
"""In which its requests may differ from the endpoint's others."""

NOT_OF_AN_ENDPOINT = ("batch", "concurrency", "request_rate", "arrivals", "label", "prefill_share")
"""A plan's load follows from its demand."""

ROUNDED = 0.005
"""How far shares may be off 1: they are typed in percent."""


@dataclass(frozen=True)
class Segment:
    """A kind of request: its share of the endpoint's requests, in (0, 1], and its scenario. `said`:
    the fields it was given."""

    name: str
    share: float
    scenario: Scenario
    said: tuple[tuple[str, Any], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class PlannedEndpoint:
    """What one endpoint runs on and serves.

    Attributes
    ----------
    name
        Told apart by it.
    scenario
        All its requests in the mean: `blended` where they are of several segments.
    segments
        At least one.
    gamma_by
        Whether the engine has one γ for all requests, or one for each kind.
    per_request_tax
        What it costs to have the latter, percent of a step; None: not known, taken as 0.
    replicas
        That run now; None: as many as serve the demand without speculation.
    day
        Of each hour, its requests over those of the busiest one, in [0, 1]; () where all hours are
        alike.
    said
        The fields it was given.
    """

    name: str
    scenario: Scenario
    segments: tuple[Segment, ...]
    replicas: int | None = None
    day: tuple[float, ...] = ()
    said: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    gamma_by: GammaBy = "one"
    per_request_tax: float | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """For a prediction: none where all requests are alike."""
        if len(self.segments) == 1:
            return ()
        return tuple(Part(each.share, each.scenario) for each in self.segments)

    @property
    def demand(self) -> float:
        """Requests a second, of the busiest hour."""
        found = self.scenario.demand_requests_per_second
        assert found is not None
        return found


@dataclass(frozen=True)
class Plan:
    """Endpoints in the order given, at least one."""

    endpoints: tuple[PlannedEndpoint, ...]
    name: str = ""


Traces = Callable[[str], Traffic]


def plan_of(
    endpoints: Sequence[Mapping[str, Any]], name: str = "", traces: Traces = shipped_trace
) -> Plan:
    """A plan from named values, as a file has them.

    Parameters
    ----------
    endpoints
        Of each the fields of its scenario, its `name`, and where it has them `segments`, each with
        a `name`, `share` or `demand_requests_per_second`, and `SEGMENT_FIELDS`; and `day`, one
        number an hour, of which only the shape counts. A `trace` in place of lengths stands for the
        means of its requests.
    name
        Of the plan.
    traces
        Finds the requests of a trace by its name.

    Returns
    -------
    Plan
        Validated.

    Raises
    ------
    ScenarioError
        An InputError with every fault in sentences, each with the endpoint and the segment.

    Examples
    --------
    >>> served = {"gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3", "prompt_tokens": 1024,
    ...           "demand_requests_per_second": 20}
    >>> plan = plan_of([served | {"name": "chat", "segments": [
    ...     {"name": "code", "share": 0.25, "alpha": 0.8}, {"name": "talk", "share": 0.75}]}])
    >>> [(each.name, each.share) for each in plan.endpoints[0].segments]
    [('code', 0.25), ('talk', 0.75)]
    """
    if not endpoints:
        raise ScenarioError(["a plan needs at least one endpoint, got none"])
    if len(endpoints) > MOST_ENDPOINTS:
        raise ScenarioError(
            [f"a plan must have at most {MOST_ENDPOINTS} endpoints, got {len(endpoints)}"]
        )
    faults: list[str] = []
    found: list[PlannedEndpoint] = []
    for i, each in enumerate(endpoints):
        called = str(each.get("name") or f"endpoint {i + 1}")
        if called in [one.name for one in found]:
            faults.append(f"{called}: each endpoint must have a name of its own")
        try:
            found.append(_endpoint(called, each, traces))
        except InputError as error:
            faults += [f"{called}: {fault}" for fault in _faults(error)]
    if faults:
        raise ScenarioError(faults)
    return Plan(tuple(found), name)


def _faults(error: InputError) -> list[str]:
    return error.faults if isinstance(error, ScenarioError) else [str(error)]


def _endpoint(called: str, given: Mapping[str, Any], traces: Traces) -> PlannedEndpoint:
    own = {n: v for n, v in given.items() if n not in ("name", "segments", "day")}
    if wrong := [n for n in own if n in NOT_OF_AN_ENDPOINT]:
        raise InputError(f"{wrong[0]} must be left out of a plan: it follows from {RATE}")
    if TRACE in own:
        raise InputError(f"{TRACE} must be a segment's: it is a field of [[endpoints.segments]]")
    listed = list(given.get("segments") or [{"name": called}])
    if len(listed) > MOST_SEGMENTS:
        raise InputError(
            f"an endpoint must have at most {MOST_SEGMENTS} segments, got {len(listed)}"
        )
    # A scenario says its demand by one of them; a plan has both.
    replicas = _replicas(own.pop("replicas", None))
    gamma_by, tax = _gamma_by(own.pop(GAMMA_BY, None), len(listed)), _tax(own.pop(TAX, None))
    demand, shares = _shares(own.pop(RATE, None), listed)
    segments, faults = _segments(listed, shares, own | {RATE: demand}, traces)
    if faults:
        raise ScenarioError(faults)
    base = segments[0].scenario
    if len(segments) > 1:
        free = {n: v for n, v in own.items() if n not in HALVES["acceptance"]}
        plain = build({"acceptance_form": "range", **free, RATE: demand})
        base = blended(plain, [Part(each.share, each.scenario) for each in segments])
    if not base.costs.computed:
        raise InputError(
            f"gpu, model and draft must be given, got draft_form={base.draft_form}: a plan "
            "computes its steps"
        )
    day = _day(given.get("day") or ())
    said = tuple(sorted(own.items()))
    return PlannedEndpoint(called, base, tuple(segments), replicas, day, said, gamma_by, tax)


def _gamma_by(given: Any, segments: int) -> GammaBy:
    found = "one" if given is None else str(given)
    if found == "one":
        return "one"
    if found != "request":
        may = " or ".join(f'"{word}"' for word in get_args(GammaBy))
        raise InputError(f'{GAMMA_BY} must be {may}, got "{short(given)}"')
    if segments < 2:
        raise InputError(
            f'{GAMMA_BY} = "request" needs at least 2 segments, got {segments}: requests that are '
            "all alike draft alike"
        )
    return "request"


def _tax(given: Any) -> float | None:
    if given is None:
        return None
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not 0.0 <= value <= MOST_TAX:
        raise InputError(f"{TAX} must be percent >= 0 and <= {MOST_TAX}, got {short(given)}")
    return value


def _replicas(given: Any) -> int | None:
    if given is None:
        return None
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not (1 <= value <= MOST_REPLICAS and value.is_integer()):
        raise InputError(
            f"replicas must be a whole number >= 1 and <= {MOST_REPLICAS}, got {short(given)}"
        )
    return int(value)


def _segments(
    listed: Sequence[Mapping[str, Any]],
    shares: Sequence[float],
    own: Mapping[str, Any],
    traces: Traces,
) -> tuple[list[Segment], list[str]]:
    segments: list[Segment] = []
    faults: list[str] = []
    for i, (each, share) in enumerate(zip(listed, shares, strict=True)):
        name = str(each.get("name") or f"segment {i + 1}")
        where = f"{name}: " if len(listed) > 1 else ""
        if name in [one.name for one in segments]:
            faults.append(f"{where}each segment must have a name of its own")
        fields = {n: v for n, v in each.items() if n not in ("name", SHARE, RATE)}
        try:
            scenario = _scenario(own, _of_trace(fields, traces))
            segments.append(Segment(name, share, scenario, tuple(fields.items())))
        except InputError as error:
            faults += [f"{where}{fault}" for fault in _faults(error)]
    return segments, faults


def _of_trace(fields: Mapping[str, Any], traces: Traces) -> dict[str, Any]:
    """The fields with the lengths of a trace in place of its name, means and spreads; those that
    are given stay."""
    found = dict(fields)
    if TRACE not in found:
        return found
    traffic = traces(str(found.pop(TRACE)))
    prompts = float(traffic.prompt_tokens.mean())
    means: dict[str, Any] = {
        "prompt_tokens": round(prompts),
        "output_tokens": max(1, round(float(traffic.output_tokens.mean()))),
        "prompt_spread": spread_of_lengths(traffic.prompt_tokens),
        "output_spread": spread_of_lengths(traffic.output_tokens),
    }
    if traffic.prefix_tokens is not None and prompts:
        means["prefix_hit"] = float(traffic.prefix_tokens.mean()) / prompts
    return means | found


def _scenario(own: Mapping[str, Any], fields: Mapping[str, Any]) -> Scenario:
    """The endpoint's, with what the segment says otherwise; an acceptance replaces the endpoint's
    whole, and one that nobody gave is what others measured."""
    if wrong := [name for name in fields if name not in SEGMENT_FIELDS]:
        raise InputError(
            f"{short(wrong[0])} must be one of a segment's fields ({', '.join(SEGMENT_FIELDS)})"
        )
    kept = dict(own)
    if not HALVES["acceptance"].isdisjoint(fields):
        kept = {n: v for n, v in kept.items() if n not in HALVES["acceptance"]}
    values = {**kept, **fields}
    if HALVES["acceptance"].isdisjoint(values):
        values["acceptance_form"] = "range"
    found = build(values)
    if found.prompt_tokens is None:
        raise InputError("prompt_tokens must be given, got none: each request brings a prompt")
    return found


def _shares(demand: Any, listed: Sequence[Mapping[str, Any]]) -> tuple[float, list[float]]:
    """Requests a second of all, and the share of each segment."""
    rates, shares = ([each.get(name) for each in listed] for name in (RATE, SHARE))
    whole = None if demand is None else _positive(RATE, demand)
    if any(rate is not None for rate in rates):
        if any(rate is None for rate in rates) or any(share is not None for share in shares):
            raise InputError(
                f"each segment must give its {RATE}, or each its share, got some of both"
            )
        each = [_positive(RATE, rate) for rate in rates]
        total = math.fsum(each)
        if whole is not None and abs(total / whole - 1.0) > ROUNDED:
            raise InputError(
                f"{RATE} of all segments must sum to the endpoint's {whole:g}, got {total:g}"
            )
        return total, [rate / total for rate in each]
    if whole is None:
        raise InputError(f"{RATE} must be given, of the endpoint or of each segment, got none")
    if len(listed) == 1 and shares[0] is None:
        return whole, [1.0]
    if any(share is None for share in shares):
        raise InputError("each segment must give its share, got some without one")
    each = [_positive(SHARE, share) for share in shares]
    total = math.fsum(each)
    # Percent are as good as fractions.
    unit = 100.0 if abs(total / 100.0 - 1.0) <= ROUNDED else 1.0
    if abs(total / unit - 1.0) > ROUNDED:
        raise InputError(f"shares of the segments must sum to 1, got {total:g}")
    return whole, [share / total for share in each]


def _positive(name: str, given: Any) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not 0.0 < value < math.inf:
        raise InputError(f"{name} must be a finite number > 0, got {short(given)}")
    return value


def _day(given: Iterable[Any]) -> tuple[float, ...]:
    """Hours over the busiest one."""
    hours = []
    for hour, each in enumerate(given):
        try:
            value = float(each)
        except (TypeError, ValueError):
            value = math.nan
        if not 0.0 <= value < math.inf:
            raise InputError(f"day must be numbers >= 0, got {short(each)} at hour {hour}")
        hours.append(value)
    if not hours:
        return ()
    if len(hours) != HOURS:
        raise InputError(f"day must have {HOURS} numbers, one an hour, got {len(hours)}")
    if not max(hours):
        raise InputError("day must have an hour with requests, got only 0")
    return tuple(hour / max(hours) for hour in hours)
