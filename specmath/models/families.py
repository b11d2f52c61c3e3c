"""What a config.json leaves unsaid because its model's code says it: facts by `model_type`.

Each set names families whose Hugging Face implementation has the feature with no field for it;
names are without the "_text" of a multimodal model's language part.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "DEFAULTS",
    "FOUR_NORMS",
    "HEAD_NORM",
    "KNOWN",
    "LAYER_NORM_BIAS",
    "QKV_BIAS",
    "TIED_BY_DEFAULT",
    "TWO_MATRICES",
    "UNSUPPORTED",
    "WIDTH_NORM",
]

# Query, key and value projections have a bias.
QKV_BIAS = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"})
# RMS norm of each query and key head, weights shared by the heads.
HEAD_NORM = frozenset(
    {"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"}
    | {"gemma3", "gemma4"}
)
# RMS norm over all query heads, and over all key heads.
WIDTH_NORM = frozenset({"minimax_m2", "olmo2", "olmo3", "olmoe"})
# Norms before and after both halves of a layer.
FOUR_NORMS = frozenset({"gemma2", "gemma3", "gemma4", "glm4"})
# A feed-forward of two matrices: up, activation, down.
TWO_MATRICES = frozenset({"gpt2", "opt", "gpt_neox", "phi", "starcoder2", "nemotron"})
# LayerNorm with a bias, and biases on every projection.
LAYER_NORM_BIAS = frozenset({"gpt2", "opt", "gpt_neox", "phi", "starcoder2"})
# tie_word_embeddings defaults to true.
TIED_BY_DEFAULT = frozenset(
    {"gemma", "gemma2", "gemma3", "gemma4", "gpt2", "opt", "cohere", "cohere2", "starcoder2"}
)
KNOWN = QKV_BIAS.union(HEAD_NORM, WIDTH_NORM, FOUR_NORMS, LAYER_NORM_BIAS, TIED_BY_DEFAULT) | {
    "llama", "mistral", "ministral", "ministral3", "mixtral", "phi3", "granite", "nemotron",
    "smollm3", "llama4", "gpt_oss", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "mimo_v2_flash",
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2",
}  # fmt: skip

# Fields that published configs omit because they equal the default of their class.
DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "sliding_window_pattern": 6,
    },
}

# What a family is -> its model_types: those not a decoder of the kinds modelled here.
_OTHERS: dict[str, tuple[str, ...]] = {
    "encoder-decoder": (
        "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "t5gemma", "whisper", "m2m_100", "marian",
    ),
    "encoder without a decoder": ("bert", "roberta", "deberta-v2", "modernbert"),
    "state-space layers (Mamba)": (
        "mamba", "mamba2", "falcon_mamba", "jamba", "bamba", "zamba", "zamba2", "nemotron_h",
        "granitemoehybrid", "falcon_h1", "plamo2",
    ),
    "recurrent layers": ("rwkv", "rwkv5", "rwkv6", "rwkv7", "recurrent_gemma"),
    "diffusion": ("llada", "llada_moe", "llada2_moe", "dream", "sdar"),
    "cross-attention to an image encoder": ("mllama", "mllama_text_model"),
    "layers that share one cache and take per-layer embeddings": ("gemma3n",),
    "lightning attention": ("minimax", "minimax_m1", "bailing_moe_linear"),
    "Kimi delta attention": ("kimi_linear",),
    "compressed sparse attention": ("deepseek_v4",),
    "a mixture of attention experts": ("jetmoe",),
    "a Medusa head (a drafter, not a model)": ("medusa",),
    "an EAGLE head (a drafter, not a model)": ("eagle",),
}  # fmt: skip
UNSUPPORTED = {family: what for what, named in _OTHERS.items() for family in named}
