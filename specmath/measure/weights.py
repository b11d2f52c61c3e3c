# mypy: disable-error-code="import-not-found"
"""What a config.json and its tensors are, said before they are run as a model.

Refused by name: heads that draft from a target's hidden states, models with a state that cannot be
cut back to an earlier token, quantised weights where random ones were asked for, tensors that are
missing or of another shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from specmath.checks import InputError, short
from specmath.foreign import json_of, of_type

__all__ = ["check_cache", "check_folder", "check_tensors", "read_config", "tensor_names"]

_Width = Annotated[int, Field(strict=True, gt=0, le=10**7)] | None
_Count = Annotated[int, Field(strict=True, gt=0, le=10**4)] | None


class _Config(BaseModel):
    """What every decoder's config.json is held to, so that no model of 10^400 rows is begun."""

    model_config = ConfigDict(extra="allow")

    model_type: Annotated[str, Field(strict=True, min_length=1, max_length=100)]
    architectures: list[str] | None = None
    layer_types: list[str] | None = None
    hidden_size: _Width = None
    intermediate_size: _Width = None
    vocab_size: _Width = None
    max_position_embeddings: Annotated[int, Field(strict=True, gt=0, le=10**9)] | None = None
    head_dim: _Count = None
    num_hidden_layers: _Count = None
    num_attention_heads: _Count = None
    num_key_value_heads: _Count = None
    num_experts: _Count = None
    num_local_experts: _Count = None
    n_routed_experts: _Count = None
    quantization_config: dict[str, Any] | None = None


_CONFIG = TypeAdapter(_Config)
_LARGEST_CONFIG = 10_000_000
_LARGEST_HEADER = 100_000_000

CUT_BACK = {"full_attention", "sliding_attention", "chunked_attention", "attention"}
"""Kinds of layers whose cache holds keys and values of each token, and nothing else."""

_HEADS = {
    "an EAGLE head": re.compile(r"eagle|^(?:model\.)?fc\.weight$|^d2t$|^t2d$|^midlayer\.", re.I),
    "a Medusa head": re.compile(r"medusa", re.I),
    "a head of another kind": re.compile(r"hydra|speculator|dflash|dspark|mtpdraft|mtp_head", re.I),
}
"""Heads that draft from hidden states: by their architecture, or by tensors that only they have."""


def read_config(file: Path | str) -> dict[str, Any]:
    """A config.json, validated; InputError says what is wrong with it."""
    path = Path(file)
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise InputError(f"{path} must have at most {_LARGEST_CONFIG:,} bytes")
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"cannot read {path} as a config.json: {short(str(error).strip(), 200)}"
        ) from error
    config = json_of(str(path), text)
    if not isinstance(config, dict) or "model_type" not in config:
        raise InputError(f"{path} must be a JSON object with model_type")
    of_type(_CONFIG, f"{path.name} of {path.parent.name}", config)
    return config


def tensor_names(file: Path) -> list[str]:
    """Names of the tensors of a safetensors file; none where its header cannot be read."""
    try:
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(size)) if size <= _LARGEST_HEADER else {}
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in header if name != "__metadata__"] if isinstance(header, dict) else []


def check_folder(source: str, folder: Path) -> dict[str, Any]:
    """The config of a folder with weights; InputError names what is wrong with it."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{source} must hold config.json, found none")
    files = list(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{source} must hold safetensors weights, found none; others are refused")
    config = read_config(folder / "config.json")
    _check_head(source, config, [name for file in files for name in tensor_names(file)])
    if "auto_map" in config:
        raise InputError(f"{source} needs code of its own (auto_map), which is never run")
    check_cache(source, config)
    return config


def _check_head(source: str, config: Mapping[str, Any], tensors: Collection[str]) -> None:
    """InputError for a head that needs the target's hidden states."""
    named = [config["model_type"], *(config.get("architectures") or ())]
    named += [key for key in config if key.startswith(("medusa_", "speculators_", "eagle_"))]
    for what, pattern in _HEADS.items():
        if any(pattern.search(name) for name in (*named, *tensors)):
            raise InputError(
                f"{source} is {what}: it drafts from its target's hidden states and is no model "
                "by itself, so transformers would run it with random weights. Serve it and measure "
                "the server (specmath measure server URL)"
            )


def check_cache(source: str, config: Mapping[str, Any]) -> None:
    """InputError for a model whose cache cannot be cut back to an earlier token."""
    kinds = sorted(set(config.get("layer_types") or ()) - CUT_BACK)
    if not kinds and not _stateful(config["model_type"]):
        return
    layers = f" (layers of kind {', '.join(map(short, kinds[:3]))})" if kinds else ""
    raise InputError(
        f"{source} is a {short(config['model_type'])}, a hybrid or recurrent model{layers}: its "
        "state cannot be cut back to an earlier token, as a rejected draft needs. A server keeps "
        "copies of the state: measure the server (specmath measure server URL)"
    )


def _stateful(model_type: str) -> bool:
    """Whether transformers says so of the architecture."""
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        made = AutoModelForCausalLM._model_mapping[CONFIG_MAPPING[model_type]]
    except (KeyError, AttributeError, ImportError):
        return False  # unknown: loading says so
    each = made if isinstance(made, (list, tuple)) else [made]
    return any(getattr(kind, "_is_stateful", False) for kind in each)


def check_tensors(source: str, found: Mapping[str, Any]) -> int:
    """InputError where the loader's report says that a tensor has random values; how many tensors
    of the files went unread."""
    said = {
        "lacks": sorted(map(str, found.get("missing_keys", ()))),
        "holds in another shape": sorted(
            str(key[0] if isinstance(key, (list, tuple)) else key)
            for key in found.get("mismatched_keys", ())
        ),
    }
    for fault, names in said.items():
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise InputError(
                f"{source} {fault} the tensor {short(names[0], 100)}{more}: it would run on random "
                "values there. The checkpoint is damaged, or of another architecture than its "
                "config.json says"
            )
    return len(found.get("unexpected_keys", ()))
