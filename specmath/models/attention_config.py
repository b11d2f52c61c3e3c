"""The attention of each layer, as a config.json describes it."""

from __future__ import annotations

from specmath.checks import InputError
from specmath.models.dtypes import dtype_bytes
from specmath.models.families import HEAD_NORM, LAYER_NORM_BIAS, QKV_BIAS
from specmath.models.fields import Fields, cannot_model
from specmath.models.layers import Attention

__all__ = ["read_attention"]

_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "local_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "linear",
}


def read_attention(fields: Fields, hidden: int, layer_count: int) -> list[Attention]:
    """One record a layer, in order."""
    if fields.has("kv_lora_rank"):
        return [_mla(fields)] * layer_count
    kinds = _kinds(fields, layer_count)
    records = {kind: _one(fields, hidden, kind) for kind in sorted(set(kinds))}
    return [records[kind] for kind in kinds]


def _kinds(fields: Fields, layer_count: int) -> list[str]:
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
    if fields.has("attention_chunk_size"):
        return _llama4_kinds(fields, layer_count)
    if not _window(fields):
        return ["full"] * layer_count
    if fields.text("model_type") == "gemma2":
        return ["sliding" if place % 2 else "full" for place in places]
    if fields.has("sliding_window_pattern", "_sliding_window_pattern"):
        every = fields.whole("sliding_window_pattern", "_sliding_window_pattern")
        return ["sliding" if place % every else "full" for place in places]
    if fields.text("model_type").startswith("gemma3"):
        return ["sliding" if place % 6 else "full" for place in places]
    # Qwen2: the layers from max_window_layers on have the window. Mistral: all of them.
    first = fields.whole("max_window_layers", low=0, default=0)
    return ["full" if place <= first else "sliding" for place in places]


def _llama4_kinds(fields: Fields, layer_count: int) -> list[str]:
    """Llama 4 attends within a chunk, but for the layers without rotary positions."""
    rotary = fields.per_layer("no_rope_layers", layer_count)
    if rotary is None:
        every = fields.whole("no_rope_layer_interval", default=4)
        rotary = [place % every for place in range(1, layer_count + 1)]
    return ["sliding" if has_rotary else "full" for has_rotary in rotary]


def _window(fields: Fields) -> int | None:
    """The window of the sliding layers. Qwen2 states one and switches it off."""
    if not fields.flag("use_sliding_window", default=True):
        return None
    if not fields.has("sliding_window", "attention_chunk_size"):
        return None
    return fields.whole("sliding_window", "attention_chunk_size")


def _heads(fields: Fields, hidden: int) -> tuple[int, int, int]:
    heads = fields.whole("num_attention_heads", "n_head")
    default_kv = 1 if fields.flag("multi_query") else heads
    kv_heads = fields.whole("num_key_value_heads", "num_kv_heads", default=default_kv)
    if not fields.has("head_dim") and hidden % heads:
        raise InputError(
            f"hidden_size must be a multiple of num_attention_heads where head_dim is absent, "
            f"got {hidden} and {heads}"
        )
    head_dim = fields.whole("head_dim", default=hidden // heads)
    if heads % kv_heads:
        raise InputError(
            f"num_key_value_heads must divide num_attention_heads = {heads}, got {kv_heads}"
        )
    return heads, kv_heads, head_dim


def _one(fields: Fields, hidden: int, kind: str) -> Attention:
    if kind == "linear":
        return _linear(fields)
    family = fields.text("model_type")
    heads, kv_heads, head_dim = _heads(fields, hidden)
    window = _window(fields)
    shared = False
    if kind == "full" and fields.has("global_head_dim"):
        # Gemma 4: the full layers have fewer, wider heads, and keys serve as values.
        head_dim = fields.whole("global_head_dim")
        shared = fields.flag("attention_k_eq_v")
        kv_heads = fields.whole("num_global_key_value_heads", default=kv_heads)
    if kind == "sliding" and window is None:
        raise InputError("config lacks sliding_window, which its layer_types need")
    every_bias = fields.flag("attention_bias", "bias", default=family in LAYER_NORM_BIAS)
    return Attention(
        kind="sliding" if kind == "sliding" else "full",
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        window=window if kind == "sliding" else None,
        keys_are_values=shared,
        output_gate=fields.flag("attn_output_gate", default=family == "qwen3_next"),
        qkv_bias=every_bias or fields.flag("qkv_bias", default=family in QKV_BIAS),
        output_bias=every_bias and not family.startswith("glm4"),
        extra_parameters=_norm_parameters(fields, heads, kv_heads, head_dim),
    )


def _norm_parameters(fields: Fields, heads: int, kv_heads: int, head_dim: int) -> int:
    """Norms of queries and keys, and gpt-oss's one sink a head."""
    family = fields.text("model_type")
    if family == "gpt_oss":
        return heads
    if family in ("minimax_m2", "olmo2", "olmo3"):
        return (heads + kv_heads) * head_dim
    if family in HEAD_NORM or (fields.flag("use_qk_norm") and family != "llama4_text"):
        return 2 * head_dim
    return 0


def _mla(fields: Fields) -> Attention:
    heads = fields.whole("num_attention_heads")
    fields.require(("qk_nope_head_dim",), ("qk_rope_head_dim",), ("v_head_dim",))
    query_rank = fields.whole("q_lora_rank", low=0, default=0)
    latent = fields.whole("kv_lora_rank")
    nope, rope = fields.whole("qk_nope_head_dim"), fields.whole("qk_rope_head_dim")
    index = fields.has("index_topk")
    if index:
        fields.require(("index_n_heads",), ("index_head_dim",))
    index_dim = fields.whole("index_head_dim") if index else 0
    return Attention(
        kind="mla",
        heads=heads,
        kv_heads=1,
        head_dim=nope + rope,
        q_lora_rank=query_rank,
        kv_lora_rank=latent,
        rope_head_dim=rope,
        nope_head_dim=nope,
        v_head_dim=fields.whole("v_head_dim"),
        index_heads=fields.whole("index_n_heads") if index else 0,
        index_head_dim=index_dim,
        index_topk=fields.whole("index_topk") if index else 0,
        extra_parameters=query_rank + latent + 2 * index_dim,
    )


def _linear(fields: Fields) -> Attention:
    fields.require(
        ("linear_num_key_heads",),
        ("linear_num_value_heads",),
        ("linear_key_head_dim",),
        ("linear_value_head_dim",),
        ("linear_conv_kernel_dim",),
    )
    return Attention(
        kind="linear",
        heads=fields.whole("linear_num_value_heads"),
        kv_heads=fields.whole("linear_num_key_heads"),
        head_dim=fields.whole("linear_key_head_dim"),
        v_head_dim=fields.whole("linear_value_head_dim"),
        conv_kernel=fields.whole("linear_conv_kernel_dim"),
        state_bytes_per_element=dtype_bytes(
            fields.text("mamba_ssm_dtype", default="bf16"), "mamba_ssm_dtype"
        ),
    )
