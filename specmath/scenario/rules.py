"""What holds between the fields of a scenario: forms inferred and checked, lists read from text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from specmath import hardware
from specmath.checks import InputError, short
from specmath.rates import read_rates, start_of
from specmath.scenario.fields import UNKNOWN, FieldSpec
from specmath.scenario.forms import (
    ACCEPTANCE,
    COST,
    DEMANDS,
    FORMS,
    LOADS,
    SHARED,
    Form,
    Hardware,
    Measured,
)
from specmath.stepcost import measured_step_cost
from specmath.trees import read_shape

if TYPE_CHECKING:
    from specmath.scenario.record import Scenario

__all__ = ["check", "normalised"]

Specs = Mapping[str, FieldSpec]


# ── before validation: what was meant ────────────────────────────────────────────────────────


def normalised(data: Mapping[str, Any], specs: Specs) -> dict[str, Any]:
    """The values with "unknown" as None, lists read from text, and each form read off its fields.

    Raises ValueError, as pydantic wants it, where a form is ambiguous or a text unreadable.
    """
    values = {k: None if v == UNKNOWN and _optional(k, specs) else v for k, v in data.items()}
    for name, value in values.items():
        # Python counts True as 1; a file that says `gamma = true` is a mistake.
        if isinstance(value, bool) and name in specs:
            raise ValueError(f"{name} must be {specs[name].bounds}, got {value}")
    values |= _counted_gpus(values)
    for name, read in _READERS.items():
        if isinstance(values.get(name), str):
            values[name] = read(values)
    for field, forms in FORMS.items():
        given = _given_forms(values, forms)
        if field not in values and given:
            if len(given) > 1:
                raise ValueError(f"{field} is ambiguous: {', '.join(given)} were all given")
            values[field] = given[0]
        form = forms.get(str(values.get(field)))
        if form is not None:
            values |= {k: v for k, v in form.cited.items() if values.get(k) is None}
    if values.get("draft_form") == Hardware.name and "usd_per_hour" not in values:
        values |= _assumed_price(values.get("gpu"))
    accepts = ACCEPTANCE.get(str(values.get("acceptance_form")))
    if accepts is not None and accepts.measured and values.get("measured_gamma") is None:
        gamma = values.get("gamma") or None
        # One that is refused is refused once, under its own name.
        values["measured_gamma"] = 1 if _is_refused(gamma, specs["gamma"]) else gamma
    tree = values["tree"] = values.get("tree") or None
    if isinstance(tree, str) and values.get("gamma") is None:
        values["gamma"] = read_shape(tree).nodes
    return values


def _is_refused(value: Any, spec: FieldSpec) -> bool:
    """Whether a whole-number field takes it for none of its values."""
    if value is None or spec.low is None or spec.high is None:
        return False
    try:
        number = float(value)
    except (TypeError, ValueError):
        return True
    return not (spec.low <= number <= spec.high and number.is_integer())


def _optional(name: str, specs: Specs) -> bool:
    return name in specs and specs[name].unknown


def _read_rates(values: Mapping[str, Any]) -> tuple[float, ...]:
    """Survival may come as a line that labels it; conditional rates, which may rise, as numbers."""
    text = values["rates"]
    if values.get("acceptance_form") == "conditional":
        return _numbers("rates", text, "0.8, 0.75, 0.7")
    found = read_rates(text)
    if found is None:
        raise ValueError(
            "rates must be numbers such as 0.9, 0.8, 0.7 or 90%, 80%, 70%, or a log line that "
            f"prints them for each position, got {start_of(text)}"
        )
    return found


def _read_verify_costs(values: Mapping[str, Any]) -> tuple[float, ...]:
    return _numbers("verify_costs", values["verify_costs"], "1.05, 1.08, 1.3")


def _numbers(name: str, text: str, example: str) -> tuple[float, ...]:
    shown = short(text, quoted=True)
    if ";" in text and "," in text:  # 1,05;1,1 in one country is 1.05 and 1.1, in another four
        raise ValueError(f"{name} must be separated by commas or by semicolons, got {shown}")
    parts = [part.strip() for part in text.strip().rstrip(",;").replace(";", ",").split(",")]
    if len(parts) > 1 and "" in parts:  # leaving one out would move all that follow
        raise ValueError(f"{name} must have a number between any two commas, got {shown}")
    try:
        return tuple(float(part) for part in parts if part)
    except ValueError as error:
        raise ValueError(f"{name} must be numbers such as {example}, got {shown}") from error


def _read_mixture(values: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """'0.5:0.9, 0.5:0.4' → ((0.5, 0.9), (0.5, 0.4))."""
    parts = [part.split(":") for part in values["mixture"].split(",") if part.strip()]
    try:
        return tuple((float(share), float(alpha)) for share, alpha in parts)
    except ValueError as error:
        shown = short(values["mixture"], quoted=True)
        raise ValueError(
            f"mixture must be share:alpha pairs such as 0.5:0.9,0.5:0.4, got {shown}"
        ) from error


_READERS = {"rates": _read_rates, "mixture": _read_mixture, "verify_costs": _read_verify_costs}
"""Fields that are lists, and how each is read from text."""


def _counted_gpus(values: Mapping[str, Any]) -> dict[str, Any]:
    """ "2x RTX 4090" is two GPUs a copy of the target, unless another number of them is given."""
    if not isinstance(values.get("gpu"), str):
        return {}
    gpu, count = hardware.counted(values["gpu"])
    if count is None:
        return {}
    if str(given := values.get("tensor_parallel") or count) != str(count):
        raise ValueError(
            f"gpu names {count} cards, got {short(values['gpu'], quoted=True)}, and "
            f"tensor_parallel is {short(given)}: give the GPU alone, or the same number"
        )
    return {"gpu": gpu, "tensor_parallel": count}


def _assumed_price(gpu: Any) -> dict[str, float | None]:
    """The catalogue's assumed price of that GPU, None where it has none.

    A wrong name is refused where it is used.
    """
    try:
        return {"usd_per_hour": hardware.find(gpu).usd_per_hour}
    except InputError:
        return {}


def _present(value: Any) -> bool:
    return value is not None and value != () and value != []


def _given_forms(values: Mapping[str, Any], forms: Mapping[str, Form]) -> list[str]:
    """Forms for which a field of their own is present; the target's time serves every form."""
    owners: dict[str, str] = {}
    for form in forms.values():
        for name in form.fields:
            owners.setdefault(name, form.name)
    mine = owners.keys() - SHARED
    return list(dict.fromkeys(owners[n] for n in owners if n in mine and _present(values.get(n))))


# ── after validation: what fits together ─────────────────────────────────────────────────────


def check(scenario: Scenario, specs: Specs) -> None:
    """Raises ValueError where the fields do not fit together."""
    for field, forms in FORMS.items():
        _check_form(scenario, field, forms, specs)
    for low, high in (("alpha_low", "alpha_high"), ("c_low", "c_high")):
        bottom, top = getattr(scenario, low), getattr(scenario, high)
        if bottom is not None and top is not None and bottom > top:
            raise ValueError(f"{low} must be <= {high} = {top:g}, got {bottom:g}")
    _check_measured(scenario)
    _check_computed(scenario)
    _check_load(scenario)
    _check_demand(scenario)
    _check_draft(scenario)
    _check_curve(scenario)
    # The acceptance models check their own rates, with position and value.
    scenario.accepts.acceptance(scenario)


def _check_form(scenario: Scenario, field: str, forms: Mapping[str, Form], specs: Specs) -> None:
    form, fields = forms[getattr(scenario, field)], type(scenario).model_fields
    for name in () if form.optional else form.fields:
        if not _present(getattr(scenario, name)):
            bounds = specs[name].bounds
            raise ValueError(f"{field}={form.name} needs {name} ({bounds}), got nothing")
    others = {f for each in forms.values() for f in each.fields} - {*form.fields, *SHARED}
    extra = sorted(f for f in others if getattr(scenario, f) != fields[f].default)
    if extra:
        raise ValueError(
            f"{field}={form.name} does not use {', '.join(extra)}: leave out one or the other"
        )


def _check_measured(scenario: Scenario) -> None:
    """τ and accepted counts must be possible at the γ they were measured at."""
    form, gamma = scenario.accepts, scenario.measured_gamma
    if not isinstance(form, Measured):
        return
    if gamma is None:
        raise ValueError(f"{form.name} needs measured_gamma (a whole number >= 1), got nothing")
    value, top = form.given(scenario, form.name), form.top(gamma)
    if value > top:
        raise ValueError(
            f"{form.name} must be <= {top:g} when measured at gamma={gamma}, got {value:g}"
        )
    drafted = scenario.drafted_per_step
    if drafted is not None and drafted <= gamma and value > (top := form.top(drafted)):
        raise ValueError(
            f"{form.name} must be <= {top:g} where {drafted:g} are drafted a step, got {value:g}"
        )


def _check_curve(scenario: Scenario) -> None:
    """A measured curve of v must be one, and reach the γ in use."""
    if scenario.verify_form != "curve":
        return
    reach = measured_step_cost(scenario.verify_costs, c=0.0).reach
    if (scenario.gamma or 0) > reach:
        raise ValueError(
            f"gamma must be <= {reach}, the last of verify_costs ({reach + 1} tokens), got "
            f"{scenario.gamma}"
        )


def _check_draft(scenario: Scenario) -> None:
    """A tree has γ nodes; drafts that stop early are no longer than γ, and no tree."""
    gamma, drafted = scenario.gamma, scenario.drafted_per_step
    if scenario.tree is not None:
        nodes = read_shape(scenario.tree).nodes
        if gamma != nodes:
            raise ValueError(f"gamma must be {nodes}, the nodes of the tree, got {gamma}")
        if drafted is not None:
            raise ValueError("drafted_per_step does not go with a tree: leave out one or the other")
    if drafted is None:
        return
    most = scenario.measured_gamma if scenario.accepts.measured else gamma
    if not most:
        raise ValueError("drafted_per_step needs gamma, the most that is drafted, got nothing")
    if drafted > most:
        raise ValueError(f"drafted_per_step must be <= gamma = {most}, got {drafted:g}")


def _check_load(scenario: Scenario) -> None:
    """One way to say the load: batch, concurrency or request rate."""
    fields = type(scenario).model_fields
    said = [n for n in LOADS if getattr(scenario, n) != fields[n].default]
    if len(said) > 1:
        raise ValueError(f"{', '.join(said)} must be one of them, got all: the batch follows")
    run = [n for n in ("run_gamma", "run_ms") if getattr(scenario, n) is None]
    if len(run) == 1:
        raise ValueError(f"a measured run needs {run[0]} as well, got nothing")
    if scenario.run_ms is not None and not scenario.costs.computed and scenario.target_ms is None:
        raise ValueError("run_ms needs target_ms, the plain time, got nothing")
    if scenario.request_rate is not None and scenario.arrivals == "one_wave":
        raise ValueError("arrivals must be sustained at a request_rate, got one_wave")
    if scenario.request_rate is not None and scenario.prompt_tokens is None:
        raise ValueError("request_rate needs prompt_tokens, got nothing")


def _check_demand(scenario: Scenario) -> None:
    """One way to say what is to be served: requests, tokens or replicas."""
    said = [name for name in DEMANDS if getattr(scenario, name) is not None]
    if len(said) > 1:
        raise ValueError(f"{', '.join(said)} must be one of them, got all: the others follow")


def _check_computed(scenario: Scenario) -> None:
    """What a form computes may not be given beside it, nor what only another form reads; the GPU
    must be known."""
    fields, form = type(scenario).model_fields, scenario.costs

    def given(names: Iterable[str]) -> str:
        return ", ".join(n for n in names if getattr(scenario, n) != fields[n].default)

    unread = given({n: 0 for each in COST.values() for n in each.alone if n not in form.alone})
    if unread:
        raise ValueError(
            f"draft_form={form.name} does not use {unread}: give gpu, model and draft instead, or "
            "leave it out"
        )
    if computed := given(form.computes):
        raise ValueError(f"draft_form={form.name} computes {computed}: leave it out")
    if form.computed:
        hardware.find(scenario.gpu or "")
