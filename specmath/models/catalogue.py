"""The models that come with specmath: config fields in data/models.toml, each with its source."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from specmath import spelling
from specmath.checks import InputError
from specmath.models.config import from_config
from specmath.models.model import Model
from specmath.models.names import key, owner, readings
from specmath.spelling import Entry

__all__ = [
    "LARGEST_DRAFT", "catalogue", "find", "is_config", "named", "parsed", "search", "smaller_kin",
]  # fmt: skip

LARGEST_DRAFT = 0.25
"""Of the target's active parameters: a larger draft seldom pays, and can still be named."""


@cache
def _entries() -> dict[str, dict[str, Any]]:
    text = resources.files("specmath").joinpath("data/models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _config(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry: those of its `base`, a text part included, and its own over them."""
    own: dict[str, Any] = entry.get("config", {})
    if "base" not in entry:
        return own
    return _config(_entries()[entry["base"]]) | own


def _tokenizer(entry: Mapping[str, Any]) -> str:
    """What it says of its tokens, or its `base` does."""
    base = _entries().get(entry.get("base", ""), {})
    return str(entry.get("tokenizer") or (_tokenizer(base) if base else ""))


@cache
def _model(name: str) -> Model:
    entry = _entries()[name]
    if "refused" in entry:
        raise InputError(f"cannot model: {entry['refused']} ({name})")
    own = from_config(_config(entry), name=name, source=entry["source"])
    modules = entry.get("mtp", {}).get("layers", own.mtp_layers)
    return replace(own, tokenizer=_tokenizer(entry), mtp_layers=modules)


@cache
def catalogue() -> Mapping[str, Model]:
    """Every model of the catalogue, by name."""
    return {name: _model(name) for name, entry in _entries().items() if "refused" not in entry}


def smaller_kin(target: Model) -> tuple[Model, ...]:
    """Models of the catalogue that can draft for a target: of its tokenizer, and with a quarter or
    less of the parameters that it passes a token through; one a shape, the smallest first.

    Examples
    --------
    >>> [model.name for model in smaller_kin(find("Llama-3.1-70B"))]
    ['Llama-3.2-1B', 'Llama-3.2-3B', 'Llama-3.1-8B']
    """
    found = {
        (model.hidden, model.layers): model
        for model in reversed(tuple(catalogue().values()))
        if target.tokenizer == model.tokenizer != ""
        and model.parameters < target.parameters
        and model.active_parameters <= LARGEST_DRAFT * target.active_parameters
    }
    return tuple(sorted(found.values(), key=lambda model: model.active_parameters))


@cache
def _by_key() -> dict[str, str]:
    return {
        key(text): name
        for name, entry in _entries().items()
        for text in (name, *entry.get("aliases", ()))
    }


@cache
def _searched() -> tuple[Entry, ...]:
    return tuple(Entry(name, tuple(entry.get("aliases", ()))) for name, entry in _entries().items())


def search(text: str) -> list[str]:
    """Names of the models that hold every word of `text`, the best match first; else what is near.

    Examples
    --------
    >>> search("llama 70")
    ['Llama-3.1-70B', 'Llama-3.3-70B', 'Llama-2-70B']
    """
    exact = [_by_key()[key(name)] for name, _ in readings(text) if key(name) in _by_key()]
    several = spelling.matches(text, _searched())
    found = list(dict.fromkeys([*exact[:1], *several]))
    return found or spelling.nearest(text, _searched())


@lru_cache(maxsize=256)
def find(name: str) -> Model:
    """The catalogue's model of that name, however spelt, in the format that the name states.

    Parameters
    ----------
    name
        As people write it: an owner in front, a tuning or a date behind ("-Instruct", "-0528"), a
        format ("-FP8", "-NVFP4", "-AWQ", "4bit", a GGUF quantisation), or parts of one name.

    Returns
    -------
    Model
        As published; where the name states another format, stored in that.

    Raises
    ------
    InputError
        With the names that it may mean, or the nearest; or why that model cannot be modelled.

    Examples
    --------
    >>> find("unsloth/Qwen3-8B-GGUF:Q4_K_M").name
    'Qwen3-8B-Q4_K_M'
    """
    each = list(readings(str(name)))
    for bare, dtype in each:
        if (known := _by_key().get(key(bare))) is not None:
            return _stored(known, dtype, owner(name))
    bare, dtype = each[-1]
    if meant := spelling.chosen(bare, _searched()):
        return _stored(meant, dtype, owner(name))
    raise spelling.unknown("model must be one of the catalogue", str(name), _searched())


def _stored(name: str, dtype: str | None, by: str) -> Model:
    """That entry in the format stated. NVIDIA's own checkpoints in fp8 and nvfp4 declare an fp8
    cache: `kv_cache_quant_algo` in the hf_quant_config.json of all of them seen."""
    model = _model(name)
    if dtype is None:
        return model
    stored = model.stored_in(dtype)
    if by == "nvidia" and stored.weight_dtype in ("fp8", "nvfp4"):
        return replace(stored, name=f"{by}/{stored.name}", kv_dtype="fp8")
    return stored


_CONFIG = re.compile(r"\s*(?:[A-Za-z]\w*Config\s*)?(?=\{)")
"""What stands before the object: nothing, or its class where it was printed in Python."""


def _python_dict(text: str) -> object:
    """What `print(config.to_dict())` wrote: the literals of Python; None where it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def is_config(text: str) -> bool:
    """Whether a text is a config.json itself, as JSON or as Python prints it; else it is a name."""
    return _CONFIG.match(text) is not None


@lru_cache(maxsize=256)
def named(text: str) -> Model:
    """A catalogue name or the text of a config.json; never a path: links carry this text.

    Raises InputError with the nearest names, or with what the config lacks.
    """
    return parsed(text) if is_config(text) else find(text)


def parsed(text: str) -> Model:
    """The text of a config.json; InputError where it is no JSON object or lacks something."""
    bare = _CONFIG.sub("", text, count=1)
    try:
        config = json.loads(bare)
    except RecursionError as error:
        raise InputError("config.json is not valid JSON: nested too deeply") from error
    except ValueError as error:  # its syntax, or an integer too long for Python
        config = _python_dict(bare)
        if config is None:
            raise InputError(f"config.json is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"config.json must be an object {{ … }}, got {text.strip()[:20]!r}")
    return from_config(config)
