"""The models that come with specmath: config fields in data/models.toml, each with its source."""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from specmath.checks import InputError
from specmath.models.config import from_config
from specmath.models.model import Model

__all__ = ["catalogue", "find"]


@cache
def _entries() -> dict[str, dict[str, Any]]:
    text = resources.files("specmath").joinpath("data/models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _models() -> dict[str, Model]:
    return {
        name: from_config(entry["config"], name=name, source=entry["source"])
        for name, entry in _entries().items()
    }


def catalogue() -> dict[str, Model]:
    """Every model of the catalogue, by name."""
    return dict(_models())


def _key(name: str) -> str:
    """Spelling without owner, case, spaces and underscores: "meta-llama/Llama 3.1 8B"."""
    last = name.strip().rsplit("/", 1)[-1].lower()
    return "".join(c for c in last.removeprefix("meta-") if c not in " -_")


def find(name: str) -> Model:
    """The catalogue's model of that name, however spelt; InputError with the nearest names."""
    by_key = {_key(known): known for known in _models()}
    for known, entry in _entries().items():
        by_key.update({_key(alias): known for alias in entry.get("aliases", [])})
    key = _key(str(name))
    if key in by_key:
        return _models()[by_key[key]]
    close = difflib.get_close_matches(key, by_key, n=5, cutoff=0.4)
    nearest = list(dict.fromkeys(by_key[match] for match in close)) or sorted(_models())
    raise InputError(
        f"model must be one of the catalogue, got {name[:60]!r}; nearest: {', '.join(nearest)}"
    )
