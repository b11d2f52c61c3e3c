"""What a config.json leaves unsaid because its model's code says it: facts by `model_type`.

Each set names families whose Hugging Face implementation has the feature with no field for it.
"""

from __future__ import annotations

__all__ = [
    "FOUR_NORMS",
    "HEAD_NORM",
    "LAYER_NORM_BIAS",
    "QKV_BIAS",
    "TIED_BY_DEFAULT",
    "TWO_MATRICES",
    "UNSUPPORTED",
]

# tie_word_embeddings defaults to true.
TIED_BY_DEFAULT = frozenset(
    {"gemma", "gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "gpt2", "opt", "cohere"}
    | {"cohere2", "starcoder2", "falcon", "bloom"}
)
# Query, key and value projections have a bias.
QKV_BIAS = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text"})
# RMS norm of each query and key head.
HEAD_NORM = frozenset(
    {"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe"}
    | {"qwen3_5_moe_text", "qwen3_vl_text", "qwen3_vl_moe_text", "gemma3", "gemma3_text"}
    | {"gemma4_text", "hunyuan_v1_dense", "smollm3_qk"}
)
# Norms before and after both halves of a layer.
FOUR_NORMS = frozenset({"gemma2", "gemma3", "gemma3_text", "gemma4_text", "glm4"})
# A feed-forward of two matrices: up, activation, down.
TWO_MATRICES = frozenset(
    {"gpt2", "opt", "gpt_neox", "phi", "starcoder2", "falcon", "nemotron", "bloom"}
)
# LayerNorm with a bias, and biases on every projection.
LAYER_NORM_BIAS = frozenset({"gpt2", "opt", "gpt_neox", "phi", "starcoder2"})

# model_type -> what it is: families that are not a decoder of the kinds modelled here.
UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(
        ("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "t5gemma"), "encoder-decoder"
    ),
    **dict.fromkeys(("whisper", "nllb", "m2m_100", "marian"), "encoder-decoder"),
    **dict.fromkeys(("bert", "roberta", "deberta-v2", "modernbert"), "encoder without a decoder"),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "codestral_mamba"), "state-space layers"),
    **dict.fromkeys(("jamba", "bamba", "zamba", "zamba2", "nemotron_h"), "state-space layers"),
    **dict.fromkeys(("granitemoehybrid", "falcon_h1", "plamo2"), "state-space layers"),
    **dict.fromkeys(("rwkv", "rwkv5", "rwkv6", "rwkv7", "recurrent_gemma"), "recurrent layers"),
    **dict.fromkeys(("llada", "dream", "sdar", "llada_moe", "llada2_moe"), "diffusion"),
    "mllama": "cross-attention to an image encoder",
    "mllama_text_model": "cross-attention to an image encoder",
    "kimi_linear": "Kimi delta attention",
    "deepseek_v4": "compressed sparse attention",
    "gemma3n": "layers that share caches and take per-layer embeddings",
    "gemma3n_text": "layers that share caches and take per-layer embeddings",
    "medusa": "a Medusa head: it is a drafter, not a model",
    "eagle": "an EAGLE head: it is a drafter, not a model",
}
