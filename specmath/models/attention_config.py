"""The attention of each layer, as a config.json describes it."""

from __future__ import annotations

from typing import Literal

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
_WINDOW = ("sliding_window", "attention_chunk_size")
_LINEAR = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)


def attention_needs(fields: Fields) -> list[Names]:
    """The fields that this config's attention cannot be read without."""
    needs: list[Names] = [_HEADS]
    if fields.has("kv_lora_rank"):
        needs += [("qk_nope_head_dim",), ("qk_rope_head_dim",), ("v_head_dim",)]
    if fields.has("index_topk"):
        needs += [("kv_lora_rank",), ("index_n_heads",), ("index_head_dim",)]
    listed = fields.listed("layer_types")
    if fields.has("full_attention_interval") or "linear_attention" in listed:
        needs += [(name,) for name in _LINEAR]
    if "sliding_attention" in listed:
        needs.append(_WINDOW)
    return needs


def read_attention(fields: Fields, hidden: int, layer_count: int) -> list[Attention]:
    """One record a layer, in order."""
    if fields.has("kv_lora_rank"):
        return [_mla(fields)] * layer_count
    kinds = _kinds(fields, layer_count)
    records = {kind: _record(fields, hidden, kind) for kind in dict.fromkeys(kinds)}
    return [records[kind] for kind in kinds]


def _kinds(fields: Fields, layer_count: int) -> list[Kind]:
    """full, sliding or linear for each layer: listed, or by the rule of the family."""
    named = fields.per_layer("layer_types", layer_count)
    if named is not None:
        unknown = [kind for kind in named if kind not in _KINDS]
        if unknown:
            raise cannot_model(f"layers of type {unknown[0]!r}", "layer_types")
        return [_KINDS[kind] for kind in named]
    places = range(1, layer_count + 1)
    if fields.has("full_attention_interval"):
        every = fields.whole("full_attention_interval")
        return ["linear" if place % every else "full" for place in places]
    if _window(fields) is None:
        return ["full"] * layer_count
    if fields.has("attention_chunk_size"):
        return _llama4_kinds(fields, layer_count)
    if fields.has("sliding_window_pattern", "_sliding_window_pattern"):
        every = fields.whole("sliding_window_pattern", "_sliding_window_pattern")
        return ["sliding" if place % every else "full" for place in places]
    if fields.family == "gemma2":
        return ["sliding" if place % 2 else "full" for place in places]
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
    shared = False
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


def _mla(fields: Fields) -> Attention:
    query_rank = fields.whole("q_lora_rank", low=0, default=0)
    latent = fields.whole("kv_lora_rank")
    nope, rope = fields.whole("qk_nope_head_dim"), fields.whole("qk_rope_head_dim")
    index_heads = index_dim = index_topk = 0
    if fields.has("index_topk"):
        _refuse_shared_index(fields)
        index_topk = fields.whole("index_topk")
        index_heads, index_dim = fields.whole("index_n_heads"), fields.whole("index_head_dim")
    return Attention(
        kind="mla",
        heads=fields.whole(*_HEADS),
        kv_heads=1,
        head_dim=nope + rope,
        q_lora_rank=query_rank,
        kv_lora_rank=latent,
        rope_head_dim=rope,
        nope_head_dim=nope,
        v_head_dim=fields.whole("v_head_dim"),
        index_heads=index_heads,
        index_head_dim=index_dim,
        index_topk=index_topk,
        extra_parameters=query_rank + latent + 2 * index_dim,
    )


def _refuse_shared_index(fields: Fields) -> None:
    """Every layer must run its own indexer: how much sharing saves is not modelled."""
    what = "layers that share one sparse-attention index"
    if fields.whole("index_topk_freq", default=1) > 1:
        raise cannot_model(what, "index_topk_freq")
    if "S" in str(fields.raw("index_topk_pattern", default="")):
        raise cannot_model(what, "index_topk_pattern")
    if "shared" in fields.listed("indexer_types"):
        raise cannot_model(what, "indexer_types")


def _linear(fields: Fields) -> Attention:
    key_heads, value_heads, key_dim, value_dim, kernel = (fields.whole(n) for n in _LINEAR)
    if value_heads % key_heads:
        raise InputError(
            f"linear_num_key_heads must divide linear_num_value_heads = {value_heads}, "
            f"got {key_heads}"
        )
    return Attention(
        kind="linear",
        heads=value_heads,
        kv_heads=key_heads,
        head_dim=key_dim,
        v_head_dim=value_dim,
        conv_kernel=kernel,
        state_bytes_per_element=dtype_bytes(
            fields.raw("mamba_ssm_dtype", default="bf16"), "mamba_ssm_dtype"
        ),
    )
