"""Reading config.json by field name: aliases, bounds, and one message for what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specmath.checks import InputError, whole

__all__ = ["Fields", "cannot_model"]


def cannot_model(what: str, field: str) -> InputError:
    """The one form in which a config is refused."""
    return InputError(f"cannot model: {what} (field {field})")


class Fields:
    """A config with its fields under any of the names that authors use for them.

    A null counts as absent: published configs write null for "not used".
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {key: value for key, value in config.items() if value is not None}

    def raw(self, *names: str, default: Any = None) -> Any:
        """The first of `names` that is present, as it stands."""
        return next((self._config[n] for n in names if n in self._config), default)

    def has(self, *names: str) -> bool:
        return any(name in self._config for name in names)

    def _found(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if name in self._config), None)

    def require(self, *groups: tuple[str, ...]) -> None:
        """Raise InputError listing every group of names of which none is present."""
        missing = [" or ".join(names) for names in groups if self._found(names) is None]
        if missing:
            raise InputError(f"config lacks {', '.join(missing)}")

    def whole(self, *names: str, low: int = 1, default: int | None = None) -> int:
        """The first of `names` as a whole number >= low; `default` where none is present."""
        name = self._found(names)
        if name is None:
            if default is None:
                raise InputError(f"config lacks {' or '.join(names)}")
            return default
        value = self._config[name]
        if isinstance(value, (list, dict)):
            raise cannot_model("layers of different sizes", name)
        if isinstance(value, str):
            raise InputError(f"{name} must be a whole number >= {low}, got {value!r}")
        return int(whole(name, value, low))

    def flag(self, *names: str, default: bool = False) -> bool:
        """The first of `names` as true or false."""
        name = self._found(names)
        if name is None:
            return default
        value = self._config[name]
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {value!r}")
        return value

    def text(self, *names: str, default: str = "") -> str:
        """The first of `names` as text."""
        return str(self.raw(*names, default=default))

    def per_layer(self, name: str, layer_count: int) -> list[Any] | None:
        """A list with one entry a layer, or None where the field is absent or empty."""
        value = self.raw(name)
        if not value:
            return None
        if not isinstance(value, list) or len(value) != layer_count:
            size = len(value) if isinstance(value, list) else repr(value)
            raise InputError(
                f"{name} must list num_hidden_layers = {layer_count} layers, got {size}"
            )
        return value
