"""Heads on the target's hidden states: one token at a time, or all of them in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, whole
from specmath.drafters.base import Decoder, Drafter, Origin, sampling_seconds
from specmath.models import Attention, LayerGroup, Mlp, Model, dtype_bytes
from specmath.steptime import Placement

__all__ = [
    "Assistant",
    "BlockHead",
    "DFlash",
    "DSpark",
    "Eagle",
    "Eagle3",
    "Medusa",
    "Mtp",
    "PEagle",
]

ASSISTED = ("gemma4",)
"""Families whose publisher releases an assistant beside the target."""

# ── layers like the target's ─────────────────────────────────────────────────────────────────


def _attention(target: Model) -> Attention:
    """The target's last attention over the whole context: what its heads are built with."""
    for attention in (group.attention for group in reversed(target.layers)):
        if attention.kind == "sliding":
            return replace(attention, kind="full", window=None)
        if attention.kind != "linear":
            return attention
    raise InputError(f"target must have an attention layer, got {target.name} with none")


@lru_cache(maxsize=256)
def _head_model(target: Model, layers: int, vocab: int) -> Model:
    """`layers` dense layers like the target's with an output table of `vocab` rows, in 16 bits.

    On a mixture the feed-forward width is 4 times the hidden width: heads are dense, and EAGLE's
    for Mixtral-8x7B has 0.28 billion parameters.
    """
    mlp = target.layers[-1].mlp
    width = 4 * target.hidden if mlp.experts else mlp.intermediate
    group = LayerGroup(layers, _attention(target), Mlp(width, matrices=mlp.matrices))
    name = f"{target.name} head of {layers}"
    return Model(name, target.hidden, vocab, layers=(group,), tied_embeddings=True)


def _layer_parameters(head: Model) -> int:
    """Parameters of the head's layers, its tables left out."""
    return sum(group.parameters(head.hidden) for group in head.layers)


_HEAD_SOURCES = {
    "weight_dtype": "heads are published in 16 bits, also for quantised targets",
    "coverage": "a head always has a draft",
    "first pass": "vLLM pads it to the positions just verified, rejected ones included",
    "width": "4 x hidden on a mixture: EAGLE's table of models gives 0.28B for Mixtral-8x7B",
    "projection": "held whole by every GPU (SGLang pull request 4716)",
}


@dataclass(frozen=True)
class _Head(Decoder):
    """`layers` like the target's, trained for it. `draft_vocab` rows of an output table of its own
    (at most the target's vocabulary); None: the target's table, which adds no memory."""

    layers: int = 1
    draft_vocab: int | None = None
    weight_dtype: str = "bf16"

    def __post_init__(self) -> None:
        dtype_bytes(self.weight_dtype, "weight_dtype")
        whole("layers", self.layers, 1)
        if self.draft_vocab is not None:
            whole("draft_vocab", self.draft_vocab, 1)

    def decoder(self, target: Model) -> Model:
        return _head_model(target, self.layers, min(self.draft_vocab or target.vocab, target.vocab))

    def parameters(self, target: Model) -> float:
        """Parameters that the target does not have: layers, projection, a table of its own."""
        outputs, inputs = self.projection(target)
        head = self.decoder(target)
        own = head.head_parameters if self.draft_vocab else 0
        return _layer_parameters(head) + outputs * inputs + own

    def weight_bytes(self, place: Placement) -> float:
        return self.parameters(place.model) * dtype_bytes(self.weight_dtype)


class _Sequential(Decoder):
    """A head that runs γ times: first over the γ+1 positions just verified, then one at a time.

    d = F(γ+1) + (γ−1) F(1) + γ sampling. The first pass takes the target's hidden states of all
    verified positions, as vLLM pads them; those of `fused` layers are joined by one product a step.
    """

    fused: ClassVar[int] = 0

    def projection(self, target: Model) -> tuple[float, float]:
        return target.hidden, 2 * target.hidden

    def once_seconds(
        self, place: Placement, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        verified = whole("gamma", gamma, 0) + 1
        wider = self.forward_seconds(place, verified, batch, context)
        wider = wider - self.forward_seconds(place, 1, batch, context)
        if not self.fused:
            return wider
        h, tokens = place.model.hidden, np.asarray(batch, dtype=float) * verified
        return wider + place.product_seconds(h, self.fused * h, tokens)


# ── one token at a time ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Eagle(_Head, _Sequential, kind="eagle", label="EAGLE head"):
    """EAGLE head: a projection 2h→h, one layer like the target's, and the target's output head.

    Li et al. 2024 (arXiv 2401.15077), section 3.1. Embedding and output head are the target's and
    add no memory; the full vocabulary is multiplied for every drafted token unless a reduced one
    is given (FR-Spec, arXiv 2502.14856).
    """

    recorded: ClassVar[str] = "eagle"
    sources: ClassVar[Mapping[str, str]] = {
        **_HEAD_SOURCES,
        "layers": "one layer (arXiv 2401.15077, section 3.1)",
        "draft_vocab": "the target's output head",
    }


@dataclass(frozen=True)
class Eagle3(Eagle, kind="eagle3", label="EAGLE-3 head"):
    """EAGLE-3 head: one layer whose queries, keys and values read 2h inputs, a reduced vocabulary.

    Li et al. 2025 (arXiv 2503.01840), section 3.1: hidden states of three target layers are fused
    by a 3h→h projection once a step; each pass joins that with the embedding (2h). `draft_vocab`
    rows of its own output table; the target's whole vocabulary where that is smaller.
    """

    draft_vocab: int | None = 32000

    recorded: ClassVar[str] = "eagle3"
    splits_projection: ClassVar[bool] = True
    fused: ClassVar[int] = 3
    sources: ClassVar[Mapping[str, str]] = {
        **_HEAD_SOURCES,
        "layers": "one layer (arXiv 2503.01840, section 3.1)",
        "draft_vocab": "draft_vocab_size of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    }

    def projection(self, target: Model) -> tuple[float, float]:
        """Queries, keys and values (a latent where there is one) read h more inputs."""
        a = _attention(target)
        if a.kind == "mla":
            return a.q_lora_rank + a.kv_lora_rank + a.rope_head_dim, target.hidden
        return a.heads * a.head_dim + a.kv_heads * (a.head_dim + a.value_dim), target.hidden

    def parameters(self, target: Model) -> float:
        """The layer, what it reads more, the fusion and the output table."""
        return super().parameters(target) + float(self.fused) * target.hidden**2


@dataclass(frozen=True)
class Mtp(_Sequential, kind="mtp", label="MTP module"):
    """Multi-token-prediction module that comes with the target, run γ times.

    A 2h→h projection, one layer of the target's last kind (a mixture where that is one) and the
    target's output head: DeepSeek-V3 (arXiv 2412.19437), section 2.2. Stored as the target is.
    Raises InputError where the target's config has no such module.
    """

    recorded: ClassVar[str] = "mtp"
    origin: ClassVar[Origin] = "module"
    sources: ClassVar[Mapping[str, str]] = {
        "coverage": "a module always has a draft",
        "passes": "one module run γ times, as vLLM does; further published modules are not used",
    }

    def suits(self, target: Model) -> bool:
        return target.mtp_layers > 0

    def trained_depth(self, target: Model) -> int:
        return target.mtp_layers

    def decoder(self, target: Model) -> Model:
        if not self.suits(target):
            raise InputError(
                f"target must have a multi-token-prediction module, got {target.name} with none"
            )
        return _last_layer(target)

    def weight_bytes(self, place: Placement) -> float:
        head = self.decoder(place.model)
        # The output head and the embedding are the target's.
        tables = head.parameters - _layer_parameters(head)
        own = head.weight_bytes(place.weight_dtype) - tables * dtype_bytes(head.base_dtype)
        return own + 2.0 * head.hidden**2 * dtype_bytes(head.base_dtype)


@lru_cache(maxsize=64)
def _last_layer(target: Model) -> Model:
    bare = replace(target, position_parameters=0, final_norm_parameters=0, mtp_layers=0)
    name, layer = f"{target.name} MTP module", replace(target.layers[-1], count=1)
    return replace(bare, name=name, layers=(layer,), tied_embeddings=True)


@lru_cache(maxsize=64)
def _assistant(target: Model, layers: int, hidden: int) -> Model:
    """Layers that query the target's cache: the last one as the target's last, the others as the
    kind before it (sliding windows); width 4 × hidden."""
    last = target.layers[-1].attention
    before = next((g.attention for g in reversed(target.layers) if g.attention != last), last)
    mlp = Mlp(4 * hidden, matrices=target.layers[-1].mlp.matrices)
    groups = tuple(
        LayerGroup(count, attention, mlp)
        for count, attention in ((layers - 1, before), (1, last))
        if count
    )
    name = f"{target.name} assistant"
    return Model(name, hidden, target.vocab, layers=groups, tied_embeddings=True)


@dataclass(frozen=True)
class Assistant(_Head, kind="assistant", label="MTP assistant (Gemma 4)"):
    """Gemma 4's MTP assistant: a narrow decoder of its own that reads the target's cache.

    A projection 2h→`hidden`, four layers with queries only over the target's keys and values, a
    tied output table of `hidden`, and a projection back to h, γ times: no cache and no prompt of
    its own. Its layers are counted with keys and values, a few per cent too many.
    """

    layers: int = 4
    hidden: int = 1024

    recorded: ClassVar[str] = "mtp"
    origin: ClassVar[Origin] = "module"
    sources: ClassVar[Mapping[str, str]] = {
        "layers": "four, and queries only: vLLM's gemma4_mtp, memra-engine's gemma_spec",
        "hidden": "1024 beside a target of 2816 (memra-engine's gemma_spec)",
        "weight_dtype": _HEAD_SOURCES["weight_dtype"],
        "draft_vocab": "the target's vocabulary, in a narrower table of its own",
        "width": "assumed: 4 x hidden",
        "coverage": "a model always has a draft",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("hidden", self.hidden, 1)

    def suits(self, target: Model) -> bool:
        return target.family in ASSISTED

    def decoder(self, target: Model) -> Model:
        own = _assistant(target, self.layers, self.hidden)
        return replace(own, vocab=min(self.draft_vocab or own.vocab, own.vocab))

    def projection(self, target: Model) -> tuple[float, float]:
        """2h→hidden and hidden→h: as one product of `hidden` outputs and 3h inputs."""
        return self.hidden, 3 * target.hidden

    def parameters(self, target: Model) -> float:
        outputs, inputs = self.projection(target)
        return self.decoder(target).parameters + outputs * inputs

    def cache_model(self, target: Model) -> None:
        return None


# ── all tokens in one pass ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Medusa(Drafter, kind="medusa", label="Medusa heads"):
    """Medusa: head i predicts the token i places ahead, all from one hidden state, in one pass.

    Each is a residual block h→h and an output table of its own (Cai et al. 2024, arXiv 2401.10774,
    section 3.1), so γ heads read γ tables: one pass, but not of constant cost. `heads` are loaded
    whether used or not; γ beyond them raises InputError.
    """

    heads: int = 5

    recorded: ClassVar[str] = "medusa"
    parallel: ClassVar[bool] = True
    sources: ClassVar[Mapping[str, str]] = {
        "heads": "five heads are the paper's suggestion (arXiv 2401.10774, section 3.1)",
        "coverage": "a head always has a draft",
    }

    def __post_init__(self) -> None:
        whole("heads", self.heads, 1)

    @property
    def reach(self) -> float:
        return self.heads

    def pass_seconds(
        self, place: Placement, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", positions, 0, self.heads)
        h, vocab = place.model.hidden, place.model.vocab
        one = place.product_seconds(h, h, batch)
        one = one + place.product_seconds(vocab / place.tensor_parallel, h, batch)
        return np.asarray(drafted * (one + sampling_seconds(place.device, batch, vocab)))

    def weight_bytes(self, place: Placement) -> float:
        return self.heads * self.flops_per_token(place.model)  # 2 bytes, and 2 FLOPs, a parameter

    def flops_per_token(self, target: Model) -> float:
        return 2.0 * target.hidden * (target.hidden + target.vocab)


_BLOCK_SOURCES = {
    "layers": "five layers, as DFlash's heads for Qwen3 (arXiv 2602.06036)",
    "weight_dtype": _HEAD_SOURCES["weight_dtype"],
    "draft_vocab": "the target's output head",
    "coverage": "a head always has a draft",
}


@dataclass(frozen=True)
class BlockHead(_Head, kind="block", label="Block-parallel head"):
    """Block-parallel head: a few layers like the target's fill γ positions in one pass.

    One forward of γ positions a sequence through `layers` layers and the output head; own weights
    and KV cache of those layers.
    """

    layers: int = 5

    recorded: ClassVar[str] = "block"
    parallel: ClassVar[bool] = True
    sources: ClassVar[Mapping[str, str]] = _BLOCK_SOURCES


@dataclass(frozen=True)
class DFlash(BlockHead, kind="dflash", label="DFlash head"):
    """DFlash: a block-parallel head that reads hidden states of `fused` target layers.

    arXiv 2602.06036. The states are joined by one product fused·h→h of the positions just
    verified, once a step.
    """

    fused: ClassVar[int] = 5
    sources: ClassVar[Mapping[str, str]] = {
        **_BLOCK_SOURCES,
        "fused": "five target layers (arXiv 2602.06036; the same in DSpark's heads)",
    }

    def once_seconds(
        self, place: Placement, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        h = place.model.hidden
        verified = np.asarray(batch, dtype=float) * (whole("gamma", gamma, 0) + 1)
        return place.product_seconds(h, self.fused * h, verified)

    def parameters(self, target: Model) -> float:
        return super().parameters(target) + float(self.fused) * target.hidden**2


@dataclass(frozen=True)
class DSpark(DFlash, kind="dspark", label="DSpark head"):
    """DSpark: DFlash's layers, and a Markov head that biases each position by the token before.

    arXiv 2607.05147. The bias is a product rank→vocabulary for one position after another: γ small
    products a step, each with its sampling. The confidence head is a vector: not counted.
    """

    markov_rank: int = 256

    sources: ClassVar[Mapping[str, str]] = {
        **DFlash.sources,
        "layers": "five layers (makora-ai/gemma4-26b-a4b-dspark, speculators' DSpark)",
        "markov_rank": "256 (makora-ai/gemma4-26b-a4b-dspark)",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("markov_rank", self.markov_rank, 0)

    def once_seconds(
        self, place: Placement, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        vocab = self.decoder(place.model).vocab / place.tensor_parallel
        each = place.product_seconds(vocab, self.markov_rank, batch)
        each = each + sampling_seconds(place.device, batch, vocab)
        return super().once_seconds(place, gamma, batch, context) + np.asarray(gamma) * each

    def parameters(self, target: Model) -> float:
        """With the tables that embed the token before and turn the rank into logits."""
        tables = self.markov_rank * (target.vocab + self.decoder(target).vocab)
        return super().parameters(target) + tables


@dataclass(frozen=True)
class PEagle(DFlash, kind="p-eagle", label="P-EAGLE head"):
    """P-EAGLE: an EAGLE-3 head of several layers that fills γ positions in one pass."""

    layers: int = 4
    draft_vocab: int | None = 32000

    fused: ClassVar[int] = 3
    sources: ClassVar[Mapping[str, str]] = {
        **_HEAD_SOURCES,
        "layers": "four (amazon/gpt-oss-20b-p-eagle); two in vLLM pull request 32887",
        "draft_vocab": "assumed: that of EAGLE-3's heads",
        "fused": "three target layers, as EAGLE-3 (amazon/gpt-oss-20b-p-eagle)",
    }
