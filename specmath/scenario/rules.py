"""What holds between the fields of a scenario: forms inferred and checked, lists read from text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specmath import hardware
from specmath.checks import InputError
from specmath.logs.paste import read_rates
from specmath.scenario.acceptances import given_acceptance
from specmath.scenario.fields import UNKNOWN, FieldSpec
from specmath.scenario.forms import (
    ACCEPTANCE_FORMS,
    CITED_RANGES,
    COMPUTED_FROM_HARDWARE,
    DRAFT_FORMS,
    MEASURED_AT,
    SERVED_ONLY,
    VERIFY_FORMS,
)
from specmath.stepcost import measured_step_cost

if TYPE_CHECKING:
    from specmath.scenario.record import Scenario

__all__ = ["check", "normalised"]

Specs = Mapping[str, FieldSpec]
FORMS = {
    "acceptance_form": ACCEPTANCE_FORMS,
    "draft_form": DRAFT_FORMS,
    "verify_form": VERIFY_FORMS,
}


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
    for name, read in _READERS.items():
        if isinstance(values.get(name), str):
            values[name] = read(values)
    for form, forms in FORMS.items():
        given = _given_forms(values, forms)
        if form not in values and given:
            if len(given) > 1:
                raise ValueError(f"{form} is ambiguous: {', '.join(given)} were all given")
            values[form] = given[0]
    for form, cited in CITED_RANGES.items():
        if values.get(form) == "range":
            values |= {k: v for k, v in cited.items() if values.get(k) is None}
    if values.get("draft_form") == "hardware" and "usd_per_hour" not in values:
        values |= _assumed_price(values.get("gpu"))
    if values.get("acceptance_form") in MEASURED_AT and values.get("measured_gamma") is None:
        values["measured_gamma"] = values.get("gamma") or None
    return values


def _optional(name: str, specs: Specs) -> bool:
    return name in specs and specs[name].unknown


def _read_rates(values: Mapping[str, Any]) -> tuple[float, ...]:
    """Survival may come as any log line; conditional rates, which may rise, as numbers only."""
    text = values["rates"]
    if values.get("acceptance_form") != "conditional":
        return read_rates(text)
    return _numbers("rates", text, "0.8, 0.75, 0.7")


def _read_verify_costs(values: Mapping[str, Any]) -> tuple[float, ...]:
    return _numbers("verify_costs", values["verify_costs"], "1.05, 1.08, 1.3")


def _numbers(name: str, text: str, example: str) -> tuple[float, ...]:
    if ";" in text and "," in text:  # 1,05;1,1 in one country is 1.05 and 1.1, in another four
        raise ValueError(f"{name} must be separated by commas or by semicolons, got {text!r}")
    parts = [part.strip() for part in text.strip().rstrip(",;").replace(";", ",").split(",")]
    if len(parts) > 1 and "" in parts:  # leaving one out would move all that follow
        raise ValueError(f"{name} must have a number between any two commas, got {text!r}")
    try:
        return tuple(float(part) for part in parts if part)
    except ValueError as error:
        raise ValueError(f"{name} must be numbers such as {example}, got {text!r}") from error


def _read_mixture(values: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """'0.5:0.9, 0.5:0.4' → ((0.5, 0.9), (0.5, 0.4))."""
    parts = [part.split(":") for part in values["mixture"].split(",") if part.strip()]
    try:
        return tuple((float(share), float(alpha)) for share, alpha in parts)
    except ValueError as error:
        raise ValueError(
            f"mixture must be share:alpha pairs such as 0.5:0.9,0.5:0.4, got {values['mixture']!r}"
        ) from error


_READERS = {"rates": _read_rates, "mixture": _read_mixture, "verify_costs": _read_verify_costs}
"""Fields that are lists, and how each is read from text."""


def _assumed_price(gpu: Any) -> dict[str, float]:
    """The catalogue's assumed price of that GPU; a wrong name is refused where it is used."""
    try:
        return {"usd_per_hour": hardware.find(gpu).usd_per_hour}
    except InputError:
        return {}


def _present(value: Any) -> bool:
    return value is not None and value != () and value != []


def _given_forms(values: Mapping[str, Any], forms: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Forms for which a field of their own is present; the target's time serves every form."""
    owners = {f: form for form, fs in reversed(list(forms.items())) for f in fs if f != "target_ms"}
    return list(dict.fromkeys(o for f, o in owners.items() if _present(values.get(f))))


# ── after validation: what fits together ─────────────────────────────────────────────────────


def check(scenario: Scenario, specs: Specs) -> None:
    """Raises ValueError where the fields do not fit together."""
    for name, forms in FORMS.items():
        _check_form(scenario, name, forms, specs)
    for low, high in (("alpha_low", "alpha_high"), ("c_low", "c_high")):
        bottom, top = getattr(scenario, low), getattr(scenario, high)
        if bottom is not None and bottom > top:
            raise ValueError(f"{low} must be <= {high} = {top:g}, got {bottom:g}")
    _check_measured(scenario)
    _check_hardware(scenario)
    _check_curve(scenario)
    # The acceptance models check their own rates, with position and value.
    given_acceptance(scenario)


def _check_form(
    scenario: Scenario, name: str, forms: Mapping[str, tuple[str, ...]], specs: Specs
) -> None:
    form = getattr(scenario, name)
    needed, fields = forms[form], type(scenario).model_fields
    for field in needed:
        # A field with a default may be unknown instead: the slope of verification.
        if not _present(getattr(scenario, field)) and not _present(fields[field].default):
            raise ValueError(f"{name}={form} needs {field} ({specs[field].bounds}), got nothing")
    others = {f for fields in forms.values() for f in fields} - set(needed) - {"target_ms"}
    extra = sorted(f for f in others if getattr(scenario, f) != fields[f].default)
    if extra:
        raise ValueError(
            f"{name}={form} does not use {', '.join(extra)}: leave out one or the other"
        )


def _check_measured(scenario: Scenario) -> None:
    """τ and accepted counts must be possible at the γ they were measured at."""
    form, gamma = scenario.acceptance_form, scenario.measured_gamma
    if form not in MEASURED_AT:
        return
    if gamma is None:
        raise ValueError(f"{form} needs measured_gamma (a whole number >= 1), got nothing")
    top = {"accepted_per_step": gamma, "tokens_per_step": gamma + 1, "accepted_share": 1}[form]
    value = getattr(scenario, form)
    if value > top:
        raise ValueError(f"{form} must be <= {top} when measured at gamma={gamma}, got {value:g}")


def _check_curve(scenario: Scenario) -> None:
    """A measured curve of v must be one, and reach the γ in use."""
    if scenario.verify_form != "curve":
        return
    reach = measured_step_cost(scenario.verify_costs, c=0.0).reach
    if scenario.gamma > reach:
        raise ValueError(
            f"gamma must be <= {reach}, the last of verify_costs ({reach + 1} tokens), got "
            f"{scenario.gamma}"
        )


def _check_hardware(scenario: Scenario) -> None:
    """What the step-time model computes may not be given beside it, nor what only it uses beside
    another form; the GPU must be known."""
    fields, form = type(scenario).model_fields, scenario.draft_form
    if form != "hardware":
        unused = [n for n in SERVED_ONLY if getattr(scenario, n) != fields[n].default]
        if unused:
            raise ValueError(
                f"draft_form={form} does not use {', '.join(unused)}: give gpu, model and draft "
                "instead, or leave it out"
            )
        return
    given = [n for n in COMPUTED_FROM_HARDWARE if getattr(scenario, n) != fields[n].default]
    if given:
        raise ValueError(f"draft_form=hardware computes {', '.join(given)}: leave it out")
    hardware.find(scenario.gpu or "")
