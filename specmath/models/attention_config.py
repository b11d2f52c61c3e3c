"""The attention of each layer, as a config.json describes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from specmath.checks import InputError
from specmath.models.config_fields import Fields, Names, cannot_model
from specmath.models.dtypes import dtype_bytes
from specmath.models.families import HEAD_NORM, LAYER_NORM_BIAS, QKV_BIAS, WIDTH_NORM
from specmath.models.layers import Attention

__all__ = ["attention_needs", "read_attention"]

Kind = Literal["full", "sliding", "linear"]
_KINDS: dict[str, Kind] = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "linear",
}
_HEADS = ("num_attention_heads", "n_head")
_PATTERN = ("sliding_window_pattern", "_sliding_window_pattern")
_WINDOW = ("sliding_window", "attention_chunk_size")
# Sizes of an `Attention` -> the config's names for them.
_LATENT = {
    "kv_lora_rank": "kv_lora_rank",
    "nope_head_dim": "qk_nope_head_dim",
    "rope_head_dim": "qk_rope_head_dim",
    "v_head_dim": "v_head_dim",
}
_WINDOWED = {
    "heads": "swa_num_attention_heads",
    "kv_heads": "swa_num_key_value_heads",
    "head_dim": "swa_head_dim",
    "v_head_dim": "swa_v_head_dim",
}
_INDEX = {
    "index_topk": "index_topk",
    "index_heads": "index_n_heads",
    "index_head_dim": "index_head_dim",
}
_LINEAR = {
    "kv_heads": "linear_num_key_heads",
    "heads": "linear_num_value_heads",
    "head_dim": "linear_key_head_dim",
    "v_head_dim": "linear_value_head_dim",
    "conv_kernel": "linear_conv_kernel_dim",
}


def attention_needs(fields: Fields) -> list[Names]:
    """The fields that this config's attention cannot be read without."""
    needs: list[Names] = [_HEADS]
    if fields.has("kv_lora_rank"):
        needs += [(name,) for name in _LATENT.values()]
    if fields.has("index_topk"):
        needs += [(name,) for name in ("kv_lora_rank", *_INDEX.values())]
    listed = fields.listed("layer_types")
    if fields.has("full_attention_interval") or "linear_attention" in listed:
        needs += [(name,) for name in _LINEAR.values()]
    if "sliding_attention" in listed or any(fields.listed("hybrid_layer_pattern")):
        needs.append(_WINDOW)
    return needs


def read_attention(fields: Fields, hidden: int, layer_count: int) -> list[Attention]:
    """One record a layer, in order."""
    if fields.has("kv_lora_rank"):
        return _latent_layers(fields, layer_count)
    kinds = _kinds(fields, layer_count)
    records = {kind: _record(fields, hidden, kind) for kind in dict.fromkeys(kinds)}
    return [records[kind] for kind in kinds]


def _kinds(fields: Fields, layer_count: int) -> list[Kind]:
    """full, sliding or linear for each layer: listed, or by the rule of the family."""
    named = fields.per_layer("layer_types", layer_count)
    if named is not None:
        if unknown := [kind for kind in named if kind not in _KINDS]:
            raise cannot_model(f"layers of type {unknown[0]!r}", "layer_types")
        return [_KINDS[kind] for kind in named]
    flags = fields.per_layer("hybrid_layer_pattern", layer_count)
    if flags is not None:  # MiMo: 1 has the window
        return ["sliding" if flag else "full" for flag in flags]
    places = range(1, layer_count + 1)
    if fields.has("full_attention_interval"):
        every = fields.whole("full_attention_interval")
        return ["linear" if place % every else "full" for place in places]
    if _window(fields) is None:
        return ["full"] * layer_count
    if fields.has("attention_chunk_size"):
        return _llama4_kinds(fields, layer_count)
    if fields.has(*_PATTERN) or fields.family == "gemma2":
        every = fields.whole(*_PATTERN, default=2)
        return ["sliding" if place % every else "full" for place in places]
    # Qwen2: the layers from max_window_layers on have the window. Mistral: all of them.
    first = fields.whole("max_window_layers", low=0, default=0)
    return ["full" if place <= first else "sliding" for place in places]


def _llama4_kinds(fields: Fields, layer_count: int) -> list[Kind]:
    """Llama 4 attends within a chunk, but for the layers without rotary positions."""
    rotary = fields.per_layer("no_rope_layers", layer_count)
    if rotary is None:
        every = fields.whole("no_rope_layer_interval", default=4)
        rotary = [place % every for place in range(1, layer_count + 1)]
    return ["sliding" if has_rotary else "full" for has_rotary in rotary]


def _window(fields: Fields) -> int | None:
    """The window of the sliding layers. Qwen states one and leaves it off unless it says on."""
    on = fields.flag("use_sliding_window", default=not fields.family.startswith("qwen"))
    return fields.whole(*_WINDOW) if on and fields.has(*_WINDOW) else None


def _heads(fields: Fields, hidden: int) -> tuple[int, int, int]:
    heads = fields.whole(*_HEADS)
    kv_heads = fields.whole("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise InputError(
            f"num_key_value_heads must divide num_attention_heads = {heads}, got {kv_heads}"
        )
    if not fields.has("head_dim") and hidden % heads:
        raise InputError(
            "num_attention_heads must divide hidden_size where head_dim is absent, "
            f"got {heads} and {hidden}"
        )
    return heads, kv_heads, fields.whole("head_dim", default=hidden // heads)


def _record(fields: Fields, hidden: int, kind: Kind) -> Attention:
    if kind == "linear":
        return _linear(fields)
    family = fields.family
    heads, kv_heads, head_dim = _heads(fields, hidden)
    value_dim, shared = fields.whole("v_head_dim", low=0, default=0), False
    if kind == "sliding" and fields.has("swa_num_attention_heads"):
        # MiMo: the layers with a window have heads of their own.
        sizes = {size: fields.whole(name) for size, name in _WINDOWED.items()}
        heads, kv_heads, head_dim, value_dim = sizes.values()
    if kind == "full" and fields.has("global_head_dim"):
        # Gemma 4: the full layers have fewer, wider key heads, and one projection for both.
        head_dim = fields.whole("global_head_dim")
        kv_heads = fields.whole("num_global_key_value_heads", default=kv_heads)
        shared = fields.flag("attention_k_eq_v")
    every_bias = fields.flag("attention_bias", "use_bias", default=family in LAYER_NORM_BIAS)
    return Attention(
        kind=kind,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=value_dim,
        window=_window(fields) if kind == "sliding" else None,
        keys_are_values=shared,
        output_gate=fields.flag("attn_output_gate", default=family == "qwen3_next"),
        qkv_bias=every_bias or fields.flag("qkv_bias", default=family in QKV_BIAS),
        output_bias=every_bias and not family.startswith("glm4"),
        extra_parameters=_norm_parameters(fields, heads, kv_heads, head_dim),
    )


def _norm_parameters(fields: Fields, heads: int, kv_heads: int, head_dim: int) -> int:
    """Norms of queries and keys, and gpt-oss's one sink a head."""
    family = fields.family
    if family == "gpt_oss":
        return heads
    if family in WIDTH_NORM:
        return (heads + kv_heads) * head_dim
    if family == "llama4":  # its norm has no weights
        return 0
    return 2 * head_dim if fields.flag("use_qk_norm", default=family in HEAD_NORM) else 0


def _latent_layers(fields: Fields, layer_count: int) -> list[Attention]:
    """Latent attention; some layers take the tokens that an earlier layer's index picked."""
    own = _mla(fields)
    if not own.index_topk:
        return [own] * layer_count
    norms = own.extra_parameters - 2 * own.index_head_dim
    follows = replace(own, index_heads=0, index_head_dim=0, extra_parameters=norms)
    return [follows if reuses else own for reuses in _reused_index(fields, layer_count)]


def _mla(fields: Fields) -> Attention:
    query_rank = fields.whole("q_lora_rank", low=0, default=0)
    sizes = _sizes(fields, _LATENT)
    if fields.has("index_topk"):
        sizes |= _sizes(fields, _INDEX)
    return Attention(
        kind="mla",
        heads=fields.whole(*_HEADS),
        kv_heads=1,
        head_dim=sizes["nope_head_dim"] + sizes["rope_head_dim"],
        q_lora_rank=query_rank,
        extra_parameters=query_rank + sizes["kv_lora_rank"] + 2 * sizes.get("index_head_dim", 0),
        **sizes,
    )


def _sizes(fields: Fields, names: dict[str, str]) -> dict[str, Any]:
    """Sizes of an `Attention` by its own names; each must be stated."""
    return {size: fields.whole(name) for size, name in names.items()}


def _reused_index(fields: Fields, layer_count: int) -> list[bool]:
    """Which layers reuse one, by the list, the pattern or the interval (read as in SGLang)."""
    if (kinds := fields.per_layer("indexer_types", layer_count)) is not None:
        if unknown := [kind for kind in kinds if kind not in ("full", "shared")]:
            raise cannot_model(f"an index of type {unknown[0]!r}", "indexer_types")
        return [kind == "shared" for kind in kinds]
    pattern = fields.raw("index_topk_pattern", default="")
    if pattern:
        return [pattern[place : place + 1] == "S" for place in range(layer_count)]
    every = fields.whole("index_topk_freq", default=1)
    first = fields.whole("index_skip_topk_offset", low=0, default=2) - 1
    return [max(place - first, 0) % every != 0 for place in range(layer_count)]


def _linear(fields: Fields) -> Attention:
    sizes = _sizes(fields, _LINEAR)
    if sizes["heads"] % sizes["kv_heads"]:
        raise InputError(
            "linear_num_key_heads must divide linear_num_value_heads = "
            f"{sizes['heads']}, got {sizes['kv_heads']}"
        )
    state = dtype_bytes(fields.raw("mamba_ssm_dtype", default="bf16"), "mamba_ssm_dtype")
    return Attention(kind="linear", state_bytes_per_element=state, **sizes)
