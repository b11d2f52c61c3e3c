"""One definition a field: it makes the widget, the URL key, the column, the option and the help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field
from pydantic.fields import FieldInfo

__all__ = ["UNKNOWN", "Choice", "FieldSpec", "choice", "number", "spec_of", "text"]

UNKNOWN = "unknown"
"""How "I don't know" is written in a link, a file and a column."""


@dataclass(frozen=True)
class Choice:
    """One option of a choice field: what is stored, what is read, and what stands behind it."""

    value: str
    label: str
    help: str = ""


@dataclass(frozen=True)
class FieldSpec:
    """What a person is told about a field, and the range that is accepted.

    `slider` is the range a slider offers; the typed twin accepts all of [low, high].
    `unknown` marks a field that may be "I don't know"; `open` one whose choices are the usual
    values among others that its record reads.
    """

    name: str
    label: str
    unit: str
    help: str
    group: str
    symbol: str = ""
    low: float | None = None
    high: float | None = None
    whole: bool = False
    slider: tuple[float, float] | None = None
    step: float | None = None
    unknown: bool = False
    choices: tuple[Choice, ...] = ()
    open: bool = False
    example: str = ""
    max_length: int | None = None
    listed: bool = False

    @property
    def title(self) -> str:
        """Label with symbol and unit, as it stands above the widget."""
        symbol = f" {self.symbol}" if self.symbol else ""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.label}{symbol}{unit}"

    @property
    def bounds(self) -> str:
        """The accepted values in words, for messages."""
        if self.choices:
            more = " or bits a weight" if self.open else ""
            return "one of " + ", ".join(c.value for c in self.choices) + more
        if self.max_length is not None:
            if self.listed:
                return f"a list of at most {self.max_length} entries"
            return f"text of at most {self.max_length} characters"
        kind = "a whole number" if self.whole else "a finite number"
        return f"{kind} >= {self.low:.12g} and <= {self.high:.12g}"

    def label_of(self, value: str) -> str:
        """The label of one of the choices; of another value itself."""
        return next((c.label for c in self.choices if c.value == value), value)


def _field(default: Any, spec: dict[str, Any], **rules: Any) -> Any:
    return Field(default, json_schema_extra={"spec": spec}, **rules)


def number(
    default: Any,
    label: str,
    unit: str,
    help: str,
    group: str,
    *,
    low: float,
    high: float,
    **more: Any,
) -> Any:
    """A numeric field bounded by [low, high]; `more` are further FieldSpec entries."""
    spec = {"label": label, "unit": unit, "help": help, "group": group, "low": low, "high": high}
    return _field(default, spec | more, ge=low, le=high, allow_inf_nan=False)


def choice(
    default: Any, label: str, help: str, group: str, choices: tuple[Choice, ...], **more: Any
) -> Any:
    """A field with named options."""
    spec = {"label": label, "unit": "", "help": help, "group": group, "choices": choices}
    return _field(default, spec | more)


def text(default: Any, label: str, help: str, group: str, *, max_length: int, **more: Any) -> Any:
    """A field of text or a list of at most `max_length` entries; its record checks the rest."""
    spec = {"label": label, "unit": "", "help": help, "group": group, "max_length": max_length}
    listed = isinstance(default, tuple)
    return _field(default, spec | {"listed": listed} | more, max_length=max_length)


def spec_of(name: str, info: FieldInfo) -> FieldSpec:
    """The FieldSpec written into a pydantic field by the functions above."""
    extra = info.json_schema_extra
    if not isinstance(extra, dict) or not isinstance(extra.get("spec"), dict):
        raise TypeError(f"field {name} has no definition")
    return FieldSpec(name=name, **extra["spec"])  # type: ignore[arg-type]
