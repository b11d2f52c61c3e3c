"""The feed-forward part of each layer, as a config.json describes it."""

from __future__ import annotations

from specmath.checks import InputError
from specmath.models.families import LAYER_NORM_BIAS, TWO_MATRICES
from specmath.models.fields import Fields
from specmath.models.layers import Mlp

__all__ = ["read_mlp"]

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "top_k_experts", "experts_per_token", "moe_topk", "moe_k")
_WIDTH = ("intermediate_size", "ffn_dim", "n_inner")


def read_mlp(fields: Fields, hidden: int, layer_count: int) -> list[Mlp]:
    """One record a layer, in order."""
    experts = fields.whole(*_EXPERTS, low=0, default=0)
    if experts <= 1:
        return [_dense(fields, hidden)] * layer_count
    sparse = _sparse_layers(fields, layer_count)
    mixture = _mixture(fields, experts, hidden)
    dense = mixture if all(sparse) else _dense(fields, hidden)
    return [mixture if is_sparse else dense for is_sparse in sparse]


def _dense(fields: Fields, hidden: int) -> Mlp:
    family = fields.text("model_type")
    default = 4 * hidden if family in ("gpt2", "falcon", "bloom") else None
    # Llama 4 keeps the width of its dense layers apart from that of its experts.
    width = fields.whole("intermediate_size_mlp", *_WIDTH, default=default)
    return Mlp(
        intermediate=width,
        matrices=2 if family in TWO_MATRICES else 3,
        bias=fields.flag("mlp_bias", default=family in LAYER_NORM_BIAS),
    )


def _mixture(fields: Fields, experts: int, hidden: int) -> Mlp:
    family = fields.text("model_type")
    fields.require(_PER_TOKEN, ("moe_intermediate_size", "intermediate_size"))
    per_token = fields.whole(*_PER_TOKEN)
    if per_token > experts:
        name = next(n for n in _PER_TOKEN if fields.has(n))
        raise InputError(f"{name} must be <= the {experts} experts, got {per_token}")
    width = fields.whole("moe_intermediate_size", "intermediate_size")
    shared = _shared_width(fields, width)
    routing_bias = fields.text("topk_method") == "noaux_tc" or fields.flag("use_routing_bias")
    extra = experts if routing_bias or family == "gpt_oss" else 0
    if fields.has("shared_expert_intermediate_size") and shared:
        extra += hidden  # Qwen: a gate of one output on the shared expert
    return Mlp(
        intermediate=width,
        experts=experts,
        experts_per_token=per_token,
        shared_intermediate=shared,
        bias=family == "gpt_oss",
        extra_parameters=extra,
    )


def _shared_width(fields: Fields, expert_width: int) -> int:
    """Total width of what every token passes through besides its routed experts."""
    if fields.has("shared_expert_intermediate_size", "shared_intermediate_size"):
        return fields.whole("shared_expert_intermediate_size", "shared_intermediate_size", low=0)
    count = fields.whole("n_shared_experts", "num_shared_experts", low=0, default=0)
    if count:
        return count * expert_width
    family = fields.text("model_type")
    if family == "llama4_text":
        return expert_width
    if family == "gemma4_text":  # its dense feed-forward runs beside the experts
        return fields.whole("intermediate_size")
    return 0


def _sparse_layers(fields: Fields, layer_count: int) -> list[bool]:
    """Which layers hold experts: listed, or by the fields that say where they start and recur."""
    named = fields.per_layer("mlp_layer_types", layer_count)
    if named is not None:
        return [kind == "sparse" for kind in named]
    first = fields.whole("first_k_dense_replace", low=0, default=0)
    if first > layer_count:
        raise InputError(
            f"first_k_dense_replace must be <= num_hidden_layers = {layer_count}, got {first}"
        )
    sparse = [place >= first for place in range(layer_count)]
    if isinstance(fields.raw("moe_layer_freq"), list):
        listed = fields.per_layer("moe_layer_freq", layer_count) or []
        return [bool(entry) and late for entry, late in zip(listed, sparse, strict=True)]
    freq = fields.whole("moe_layer_freq", default=1)
    step = fields.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    dense = set(fields.raw("mlp_only_layers", default=[]))
    chosen = fields.raw("moe_layers")
    return [
        is_late
        and place % freq == 0
        and (place + 1) % step == 0
        and place not in dense
        and (chosen is None or place in chosen)
        for place, is_late in enumerate(sparse)
    ]
