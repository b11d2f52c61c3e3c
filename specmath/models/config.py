"""From a Hugging Face config.json to a `Model`; what cannot be modelled is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specmath.checks import InputError
from specmath.models.attention_config import read_attention
from specmath.models.dtypes import dtype_name
from specmath.models.families import FOUR_NORMS, LAYER_NORM_BIAS, TIED_BY_DEFAULT, UNSUPPORTED
from specmath.models.fields import Fields, cannot_model
from specmath.models.layers import LayerGroup
from specmath.models.mlp_config import read_mlp
from specmath.models.model import Model
from specmath.models.quantisation_config import read_quantisation

__all__ = ["from_config", "load"]

_NESTED = ("text_config", "language_config", "llm_config", "thinker_config")
# Field -> what it means. Any of these present and not zero, false or empty: refused.
_UNMODELLED = {
    "is_encoder_decoder": "encoder-decoder",
    "_diffusers_version": "diffusion",
    "ssm_cfg": "state-space layers (Mamba)",
    "ssm_state_size": "state-space layers (Mamba)",
    "state_size": "state-space layers (Mamba)",
    "mamba_d_state": "state-space layers (Mamba)",
    "mamba_num_heads": "state-space layers (Mamba)",
    "hybrid_override_pattern": "state-space layers (Mamba)",
    "attn_type_list": "lightning attention",
    "linear_attn_config": "Kimi delta attention",
    "cross_attention_layers": "cross-attention to an image encoder",
    "num_kv_shared_layers": "layers that share one cache",
    "hidden_size_per_layer_input": "per-layer embeddings",
    "block_configs": "layers of different shapes",
    "num_key_value_heads_per_layer": "layers of different shapes",
    "compress_ratios": "compressed sparse attention",
    "draft_vocab_size": "a draft head: it is a drafter, not a model",
    "medusa_num_heads": "a Medusa head: it is a drafter, not a model",
}


def from_config(config: Mapping[str, Any], name: str = "", source: str = "") -> Model:
    """The model that a config.json describes.

    `config` is the parsed JSON: a decoder-only model, dense or mixture of experts, with full,
    sliding-window, latent (MLA) or gated-delta-net attention; of a multimodal config the text
    part. `name` defaults to the config's `_name_or_path` or `model_type`.

    Raises InputError: a field that is missing, out of range or of the wrong type, by name; or
    "cannot model: ..." for an architecture not covered.
    """
    if not isinstance(config, Mapping):
        raise InputError(f"config must be a JSON object, got {type(config).__name__}")
    outer, fields, notes = _text_part(config)
    _refuse_unmodelled(outer, fields)
    fields.require(
        ("num_hidden_layers", "n_layer"),
        ("hidden_size", "n_embd"),
        ("num_attention_heads", "n_head"),
        ("vocab_size",),
    )
    family = fields.text("model_type")
    hidden = fields.whole("hidden_size", "n_embd")
    layers = _layer_groups(fields, hidden)
    layer_count = sum(group.count for group in layers)
    base = _dtype(outer, fields)
    quantisation = read_quantisation(outer, fields, layer_count)
    tied = outer.flag(
        "tie_word_embeddings",
        default=fields.flag("tie_word_embeddings", default=family in TIED_BY_DEFAULT),
    )
    return Model(
        name=name or outer.text("_name_or_path") or family or "model",
        hidden=hidden,
        vocab=fields.whole("vocab_size"),
        layers=layers,
        tied_embeddings=tied,
        weight_dtype=base if quantisation is None else quantisation.dtype,
        kv_dtype=base,
        base_dtype=base,
        quantisation=quantisation,
        max_context=_max_context(fields),
        position_parameters=_position_parameters(fields, hidden),
        final_norm_parameters=hidden * (2 if family in LAYER_NORM_BIAS else 1),
        source=source,
        notes=notes + _left_out(fields),
    )


def load(path_or_text: str | Path) -> Model:
    """A model from a config.json: a path to the file, its folder, or the JSON text itself."""
    text = str(path_or_text)
    if isinstance(path_or_text, Path) or not text.lstrip().startswith(("{", "[")):
        path = Path(path_or_text)
        path = path / "config.json" if path.is_dir() else path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"config cannot be read from {str(path_or_text)!r}: {error}"
            ) from error
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"config is not JSON: {error}") from error
    return from_config(config)


def _text_part(config: Mapping[str, Any]) -> tuple[Fields, Fields, tuple[str, ...]]:
    """The whole config, its language part, and a note of what a multimodal config loses."""
    outer = Fields(config)
    nested = next((key for key in _NESTED if isinstance(outer.raw(key), Mapping)), None)
    if nested is None:
        return outer, outer, ()
    inner: Mapping[str, Any] = outer.raw(nested)
    if nested == "thinker_config" and isinstance(inner.get("text_config"), Mapping):
        inner = inner["text_config"]
    towers = [key for key in ("vision_config", "audio_config") if outer.has(key)]
    notes = (f"{', '.join(towers)} not counted: only the text model is",) if towers else ()
    return outer, Fields(inner), notes


def _refuse_unmodelled(outer: Fields, fields: Fields) -> None:
    for part in (outer, fields):
        family = part.text("model_type")
        if family in UNSUPPORTED:
            raise cannot_model(UNSUPPORTED[family], f"model_type = {family}")
        for field, what in _UNMODELLED.items():
            if part.raw(field):
                raise cannot_model(what, field)


def _layer_groups(fields: Fields, hidden: int) -> tuple[LayerGroup, ...]:
    layer_count = fields.whole("num_hidden_layers", "n_layer")
    family = fields.text("model_type")
    attentions = read_attention(fields, hidden, layer_count)
    mlps = read_mlp(fields, hidden, layer_count)
    norms = (4 if family in FOUR_NORMS else 2) * (2 if family in LAYER_NORM_BIAS else 1) * hidden
    # Equal layers are gathered wherever they stand: only their number matters for time and size.
    kinds: dict[tuple[Any, Any], int] = {}
    for pair in zip(attentions, mlps, strict=True):
        kinds[pair] = kinds.get(pair, 0) + 1
    return tuple(LayerGroup(count, *pair, norms) for pair, count in kinds.items())


def _dtype(outer: Fields, fields: Fields) -> str:
    """The 16- or 32-bit format of the weights that no quantisation covers."""
    found = fields.raw("torch_dtype", "dtype") or outer.raw("torch_dtype", "dtype")
    return "bf16" if found in (None, "auto") else dtype_name(found, "torch_dtype")


def _max_context(fields: Fields) -> int | None:
    if not fields.has("max_position_embeddings", "n_positions"):
        return None
    return fields.whole("max_position_embeddings", "n_positions")


def _position_parameters(fields: Fields, hidden: int) -> int:
    """Learned positions of GPT-2 and OPT (which keeps two more than it uses)."""
    family = fields.text("model_type")
    if family not in ("gpt2", "opt"):
        return 0
    return hidden * ((_max_context(fields) or 0) + (2 if family == "opt" else 0))


def _left_out(fields: Fields) -> tuple[str, ...]:
    names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
    heads = fields.whole(*names, low=0, default=0)
    return (f"{heads} multi-token-prediction layer(s) not counted",) if heads else ()
