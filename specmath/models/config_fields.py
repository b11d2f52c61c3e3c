"""Reading config.json by field name: aliases, bounds, and one message for what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from specmath.checks import InputError, whole

__all__ = ["Fields", "Names", "cannot_model"]

Names = tuple[str, ...]  # the spellings of one field, the usual one first
_LARGEST = 2**31  # no width, count or length of a model comes near it


def cannot_model(what: str, field: str) -> InputError:
    """The one form in which a config is refused."""
    return InputError(f"cannot model: {what} (field {field})")


class Fields:
    """A config with its fields under any of the names that authors use for them.

    A null counts as absent: published configs write null for "not used".
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {key: value for key, value in config.items() if value is not None}

    @property
    def family(self) -> str:
        """`model_type` without its "_text" (a part of a multimodal model); "" where absent."""
        return str(self._config.get("model_type", "")).removesuffix("_text")

    def with_defaults(self, defaults: Mapping[str, Any]) -> Fields:
        """These fields, and `defaults` for those that are absent."""
        return Fields({**defaults, **self._config})

    def raw(self, *names: str, default: Any = None) -> Any:
        """The first of `names` that is present, as it stands."""
        return next((self._config[n] for n in names if n in self._config), default)

    def name_of(self, *names: str) -> str | None:
        """The first of `names` that is present."""
        return next((name for name in names if name in self._config), None)

    def has(self, *names: str) -> bool:
        return self.name_of(*names) is not None

    def require(self, groups: Iterable[Names]) -> None:
        """Raise InputError listing the usual name of every field that is missing."""
        missing = [names[0] for names in groups if not self.has(*names)]
        if missing:
            raise InputError(f"config lacks {', '.join(dict.fromkeys(missing))}")

    def whole(self, *names: str, low: int = 1, default: int | None = None) -> int:
        """The first of `names` as a whole number >= low; `default` where none is present."""
        name = self.name_of(*names)
        if name is None:
            if default is None:
                raise InputError(f"config lacks {names[0]}")
            return default
        value = self._config[name]
        if isinstance(value, list):
            raise cannot_model("layers of different sizes", name)
        if isinstance(value, (str, dict)):
            raise InputError(f"{name} must be a whole number >= {low}, got {value!r}")
        return int(whole(name, value, low, _LARGEST))

    def flag(self, *names: str, default: bool = False) -> bool:
        """The first of `names` as true or false."""
        name = self.name_of(*names)
        value = default if name is None else self._config[name]
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {value!r}")
        return value

    def listed(self, name: str) -> list[Any]:
        """The list that the field holds; empty where absent."""
        value = self.raw(name, default=[])
        if not isinstance(value, list):
            raise InputError(f"{name} must be a list, got {value!r}")
        return value

    def per_layer(self, name: str, layer_count: int) -> list[Any] | None:
        """A list with one entry a layer, or None where the field is absent or empty."""
        value = self.listed(name)
        if value and len(value) != layer_count:
            raise InputError(
                f"{name} must have num_hidden_layers = {layer_count} entries, got {len(value)}"
            )
        return value or None
