"""Reading config.json by field name: aliases, bounds, and one message for what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, TypeAdapter

from specmath.checks import InputError, short, whole
from specmath.foreign import of_type

__all__ = ["Fields", "Name", "Names", "cannot_model"]

Names = tuple[str, ...]  # the spellings of one field, the usual one first
_LARGEST = 2**31  # no width, count or length of a model comes near it


Name = Annotated[str, Field(strict=True, max_length=200)]


class _Forms(BaseModel):
    """What fields must hold that are neither one number nor one flag (those: `Fields.whole`,
    `Fields.flag`). A field that is absent or null is not used."""

    model_config = ConfigDict(protected_namespaces=())

    model_type: Name | None = None
    torch_dtype: Name | None = None
    dtype: Name | None = None
    mamba_ssm_dtype: Name | None = None
    topk_method: Name | None = None
    index_topk_pattern: Name | None = None
    indexer_types: list[Name] | None = None
    layer_types: list[Name] | None = None
    hybrid_layer_pattern: list[StrictInt | StrictBool] | None = None
    mlp_layer_types: list[Name] | None = None
    attn_type_list: list[StrictInt] | None = None
    mlp_only_layers: list[StrictInt] | None = None
    moe_layers: list[StrictInt] | None = None
    no_rope_layers: list[StrictInt | StrictBool] | None = None
    moe_layer_freq: StrictInt | list[StrictInt | StrictBool] | None = None


_FORMS = TypeAdapter(_Forms)


def cannot_model(what: str, field: str) -> InputError:
    """The one form in which a config is refused."""
    return InputError(f"cannot model: {what} (field {field})")


class Fields:
    """A config with its fields under any of the names that authors use for them.

    A null counts as absent: published configs write null for "not used". Raises InputError where
    a list or a text is of another kind.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        of_type(_FORMS, "", config)
        self._config = {key: value for key, value in config.items() if value is not None}

    @property
    def family(self) -> str:
        """`model_type` without its "_text" (a part of a multimodal model); "" where absent."""
        found: str = self._config.get("model_type", "")
        return found.removesuffix("_text")

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
            shown = short(value, quoted=True)
            raise InputError(f"{name} must be a whole number >= {low}, got {shown}")
        return int(whole(name, value, low, _LARGEST))

    def flag(self, *names: str, default: bool = False) -> bool:
        """The first of `names` as true or false."""
        name = self.name_of(*names)
        value = default if name is None else self._config[name]
        if not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {short(value, quoted=True)}")
        return value

    def listed(self, name: str) -> list[Any]:
        """The list that the field holds; empty where absent."""
        found: list[Any] = self.raw(name, default=[])
        return found

    def per_layer(self, name: str, layer_count: int) -> list[Any] | None:
        """A list with one entry a layer, or None where the field is absent or empty."""
        value = self.listed(name)
        if value and len(value) != layer_count:
            raise InputError(
                f"{name} must have num_hidden_layers = {layer_count} entries, got {len(value)}"
            )
        return value or None
