"""The feed-forward part of each layer, as a config.json describes it."""

from __future__ import annotations

from specmath.checks import InputError, short
from specmath.models.config_fields import Fields, Names
from specmath.models.families import LAYER_NORM_BIAS, TWO_MATRICES
from specmath.models.layers import Mlp

__all__ = ["mlp_needs", "read_mlp"]

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "top_k_experts", "experts_per_token", "moe_k")
_WIDTH = ("intermediate_size", "ffn_dim", "n_inner")
_EXPERT_WIDTH = ("moe_intermediate_size", "intermediate_size")


def _experts(fields: Fields) -> int:
    """Experts of a mixture layer; 0 for a dense model. Gemma 4 can switch its mixture off."""
    if not fields.flag("enable_moe_block", default=True):
        return 0
    count = fields.whole(*_EXPERTS, low=0, default=0)
    return count if count > 1 else 0


def mlp_needs(fields: Fields) -> list[Names]:
    """The fields that this config's feed-forward layers cannot be read without."""
    if _experts(fields):
        return [_PER_TOKEN, _EXPERT_WIDTH]
    return [] if fields.family == "gpt2" else [_WIDTH]


def read_mlp(fields: Fields, hidden: int, layer_count: int) -> list[Mlp]:
    """One record a layer, in order."""
    experts = _experts(fields)
    if not experts:
        return [_dense(fields, hidden)] * layer_count
    sparse = _sparse_layers(fields, layer_count)
    mixture = _mixture(fields, experts, hidden)
    dense = mixture if all(sparse) else _dense(fields, hidden)
    return [mixture if is_sparse else dense for is_sparse in sparse]


def _dense(fields: Fields, hidden: int) -> Mlp:
    family = fields.family
    # Llama 4 keeps the width of its dense layers apart from that of its experts.
    names = ("intermediate_size_mlp", *_WIDTH) if family == "llama4" else _WIDTH
    return Mlp(
        intermediate=fields.whole(*names, default=4 * hidden if family == "gpt2" else None),
        matrices=2 if family in TWO_MATRICES else 3,
        bias=fields.flag("mlp_bias", "use_bias", default=family in LAYER_NORM_BIAS),
    )


def _mixture(fields: Fields, experts: int, hidden: int) -> Mlp:
    family = fields.family
    per_token = fields.whole(*_PER_TOKEN)
    if per_token > experts:
        name = fields.name_of(*_PER_TOKEN)
        raise InputError(f"{name} must be <= the number of experts = {experts}, got {per_token}")
    width = fields.whole(*_EXPERT_WIDTH)
    shared = _shared_width(fields, width)
    extra = experts if _routing_bias(fields) else 0
    if shared and fields.has("shared_expert_intermediate_size"):
        extra += hidden  # Qwen: a gate of one output on the shared expert
    if family == "gemma4":  # three more norms; the router's input and expert scales
        extra += 4 * hidden + experts
    return Mlp(
        intermediate=width,
        experts=experts,
        experts_per_token=per_token,
        shared_intermediate=shared,
        bias=family == "gpt_oss",
        extra_parameters=extra,
    )


def _routing_bias(fields: Fields) -> bool:
    """Whether the router adds a bias an expert."""
    by_family = fields.family in ("gpt_oss", "glm4_moe", "glm4_moe_lite")
    named = fields.raw("topk_method") == "noaux_tc"
    return by_family or named or fields.flag("use_routing_bias")


def _shared_width(fields: Fields, expert_width: int) -> int:
    """Total width of what every token passes through besides its routed experts."""
    stated = ("shared_expert_intermediate_size", "shared_intermediate_size")
    if fields.has(*stated):
        return fields.whole(*stated, low=0)
    if fields.family == "llama4":
        return expert_width
    if fields.family == "gemma4":  # its dense feed-forward runs beside the experts
        return fields.whole("intermediate_size")
    return expert_width * fields.whole("n_shared_experts", "num_shared_experts", low=0, default=0)


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
    if isinstance(fields.raw("moe_layer_freq"), list):  # one flag a layer
        flags = fields.per_layer("moe_layer_freq", layer_count) or [1] * layer_count
        return [bool(flag) and place >= first for place, flag in enumerate(flags)]
    every = fields.whole("moe_layer_freq", default=1)
    step = fields.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    dense = _places(fields, "mlp_only_layers", layer_count)
    chosen = _places(fields, "moe_layers", layer_count)
    return [
        place >= first
        and place % every == 0
        and (place + 1) % step == 0
        and place not in dense
        and (not chosen or place in chosen)
        for place in range(layer_count)
    ]


def _places(fields: Fields, name: str, layer_count: int) -> set[int]:
    """A list of layer numbers, empty where absent."""
    value = fields.listed(name)
    if not all(isinstance(place, int) and 0 <= place < layer_count for place in value):
        raise InputError(
            f"{name} must list layer numbers >= 0 and < num_hidden_layers = {layer_count}, "
            f"got {short(value)}"
        )
    return set(value)
