"""Drafters that are a small part trained onto the target: EAGLE, MTP, Medusa, block-parallel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, whole
from specmath.drafters.base import Drafter, Place, register, sampling_seconds
from specmath.models import Attention, LayerGroup, Mlp, Model, dtype_bytes

__all__ = ["BlockHead", "Eagle", "Eagle3", "Medusa", "Mtp"]


def _attention(target: Model) -> Attention:
    """The target's last attention over the whole context: what its heads are built with."""
    for group in reversed(target.layers):
        if group.attention.kind != "linear":
            return _unwindowed(group.attention)
    raise InputError(f"target must have an attention layer, got {target.name} with none")


def _unwindowed(attention: Attention) -> Attention:
    sliding = attention.kind == "sliding"
    return replace(attention, kind="full", window=None) if sliding else attention


@lru_cache(maxsize=256)
def head_model(target: Model, layers: int, vocab: int) -> Model:
    """`layers` dense layers like the target's with an output table of `vocab` rows, in 16 bits.

    On a mixture the feed-forward width is that of what one token passes: k experts and the
    shared part.
    """
    mlp = target.layers[-1].mlp
    width = mlp.intermediate
    if mlp.experts:
        width = mlp.experts_per_token * mlp.intermediate + mlp.shared_intermediate
    group = LayerGroup(layers, _attention(target), Mlp(width, matrices=mlp.matrices))
    return Model(
        name=f"{target.name} head of {layers}",
        hidden=target.hidden,
        vocab=vocab,
        layers=(group,),
        tied_embeddings=True,
    )


def _layer_parameters(head: Model) -> int:
    return sum(group.parameters(head.hidden) for group in head.layers)


class _Sequential(Drafter):
    """A head that runs γ times: first over the γ+1 positions just verified, then one at a time.

    d = F(γ+1) + (γ−1) F(1) + γ sampling, F(n) seconds of a forward of n positions a sequence.
    The first pass takes the target's hidden states of all verified positions, as vLLM pads them.
    """

    def _head(self, target: Model) -> Model:
        raise NotImplementedError

    def _forward(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        raise NotImplementedError

    def _once(self, place: Place, tokens: FloatArray) -> FloatArray:
        """What a step pays once besides its passes."""
        return np.zeros_like(tokens)

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", gamma, 0)
        later = np.maximum(drafted - 1, 0) * self._forward(place, 1, batch, context)
        first = self._forward(place, drafted + 1, batch, context)
        once = self._once(place, np.asarray(batch, dtype=float) * (drafted + 1.0))
        vocab = self._head(place.target).vocab
        sampling = drafted * sampling_seconds(place.gpu, batch, vocab)
        return np.where(drafted > 0, first + later + once + sampling, 0.0)

    def forward_seconds(self, place: Place, batch: ArrayLike, context: ArrayLike) -> FloatArray:
        vocab = self._head(place.target).vocab
        once = self._forward(place, 1, batch, context)
        return once + sampling_seconds(place.gpu, batch, vocab)


_HEAD_SOURCES = {
    "weight_dtype": "heads are published in 16 bits, also for quantised targets",
    "coverage": "a head always has a draft",
    "first pass": "vLLM pads it to the positions just verified, rejected ones included",
    "projection": "held whole by every GPU (SGLang pull request 4716)",
}


@register
@dataclass(frozen=True)
class Eagle(_Sequential):
    """EAGLE head: a projection 2h→h, one layer like the target's, and the target's output head.

    Li et al. 2024 (arXiv 2401.15077), section 3.1. Embedding and output head are the target's and
    add no memory; the full vocabulary is multiplied for every drafted token.
    """

    weight_dtype: str = "bf16"

    kind: ClassVar[str] = "eagle"
    label: ClassVar[str] = "EAGLE head"
    sources: ClassVar[Mapping[str, str]] = _HEAD_SOURCES

    def __post_init__(self) -> None:
        dtype_bytes(self.weight_dtype, "weight_dtype")

    def _head(self, target: Model) -> Model:
        return head_model(target, 1, target.vocab)

    def _forward(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        head = self._head(place.target)
        tokens = np.asarray(batch, dtype=float) * positions
        layer = place.forward(head, batch, positions, context, weight_dtype=self.weight_dtype)
        return layer + place.linear(head.hidden, 2 * head.hidden, tokens)

    def _own_parameters(self, target: Model) -> float:
        return _layer_parameters(self._head(target)) + 2.0 * target.hidden**2

    def weight_bytes(self, place: Place) -> float:
        return self._own_parameters(place.target) * dtype_bytes(self.weight_dtype)

    def kv_bytes_per_token(self, place: Place) -> float:
        return self._head(place.target).kv_bytes_per_token(place.kv_dtype)

    def flops_per_token(self, target: Model) -> float:
        return self._head(target).flops_per_token + 4.0 * target.hidden**2


@register
@dataclass(frozen=True)
class Eagle3(Eagle):
    """EAGLE-3 head: one layer whose queries, keys and values read 2h inputs, a reduced vocabulary.

    Li et al. 2025 (arXiv 2503.01840), section 3.1: hidden states of three target layers are fused
    by a 3h→h projection once a step; each pass joins that with the embedding (2h). `draft_vocab`
    rows of its own output table; the target's whole vocabulary where that is smaller.
    """

    draft_vocab: int = 32000

    kind: ClassVar[str] = "eagle3"
    label: ClassVar[str] = "EAGLE-3 head"
    sources: ClassVar[Mapping[str, str]] = {
        **_HEAD_SOURCES,
        "draft_vocab": "draft_vocab_size of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("draft_vocab", self.draft_vocab, 1)

    def _head(self, target: Model) -> Model:
        return head_model(target, 1, min(self.draft_vocab, target.vocab))

    def _widening(self, target: Model) -> float:
        """Rows that read h more inputs: queries, keys and values (a latent where there is one)."""
        a = _attention(target)
        if a.kind == "mla":
            return float(a.q_lora_rank + a.kv_lora_rank + a.rope_head_dim)
        return float(a.heads * a.head_dim + a.kv_heads * (a.head_dim + a.value_dim))

    def _forward(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        head = self._head(place.target)
        tokens = np.asarray(batch, dtype=float) * positions
        layer = place.forward(head, batch, positions, context, weight_dtype=self.weight_dtype)
        rows = self._widening(place.target) / place.tensor_parallel
        return layer + place.linear(rows, head.hidden, tokens)

    def _once(self, place: Place, tokens: FloatArray) -> FloatArray:
        return place.linear(place.target.hidden, 3 * place.target.hidden, tokens)

    def _own_parameters(self, target: Model) -> float:
        head, h = self._head(target), target.hidden
        own = _layer_parameters(head) + head.head_parameters
        return own + 3.0 * h**2 + self._widening(target) * h

    def flops_per_token(self, target: Model) -> float:
        h = target.hidden
        return self._head(target).flops_per_token + 2.0 * h * self._widening(target)


@register
@dataclass(frozen=True)
class Mtp(_Sequential):
    """Multi-token-prediction module that comes with the target, run γ times.

    A 2h→h projection, one layer of the target's last kind (a mixture where that is one) and the
    target's output head: DeepSeek-V3 (arXiv 2412.19437), section 2.2. Stored as the target is.
    Raises InputError where the target's config has no such module.
    """

    kind: ClassVar[str] = "mtp"
    label: ClassVar[str] = "MTP module"
    sources: ClassVar[Mapping[str, str]] = {
        "coverage": "a module always has a draft",
        "passes": "one module run γ times, as vLLM does; further published modules are not used",
    }

    def _head(self, target: Model) -> Model:
        if not target.mtp_layers:
            raise InputError(
                f"target must have a multi-token-prediction module, got {target.name} with none"
            )
        return _last_layer(target)

    def _forward(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        head = self._head(place.target)
        tokens = np.asarray(batch, dtype=float) * positions
        layer = place.forward(head, batch, positions, context, weight_dtype=place.weight_dtype)
        return layer + place.linear(head.hidden, 2 * head.hidden, tokens)

    def weight_bytes(self, place: Place) -> float:
        head = self._head(place.target)
        # The output head and the embedding are the target's.
        tables = head.parameters - _layer_parameters(head)
        own = head.weight_bytes(place.weight_dtype) - tables * dtype_bytes(head.base_dtype)
        return own + 2.0 * head.hidden**2 * dtype_bytes(head.base_dtype)

    def kv_bytes_per_token(self, place: Place) -> float:
        return self._head(place.target).kv_bytes_per_token(place.kv_dtype)

    def flops_per_token(self, target: Model) -> float:
        return self._head(target).flops_per_token + 4.0 * target.hidden**2


@lru_cache(maxsize=64)
def _last_layer(target: Model) -> Model:
    return replace(
        target,
        name=f"{target.name} MTP module",
        layers=(replace(target.layers[-1], count=1),),
        tied_embeddings=True,
        position_parameters=0,
        final_norm_parameters=0,
        mtp_layers=0,
    )


@register
@dataclass(frozen=True)
class Medusa(Drafter):
    """Medusa: head i predicts the token i places ahead, all from one hidden state, in one pass.

    Each is a residual block h→h and an output table of its own (Cai et al. 2024, arXiv 2401.10774,
    section 3.1), so γ heads read γ tables: one pass, but not of constant cost. `heads` are loaded
    whether used or not; γ beyond them raises InputError.
    """

    heads: int = 5

    kind: ClassVar[str] = "medusa"
    label: ClassVar[str] = "Medusa heads"
    parallel: ClassVar[bool] = True
    sources: ClassVar[Mapping[str, str]] = {
        "heads": "five heads are the paper's suggestion (arXiv 2401.10774, section 3.1)",
        "coverage": "a head always has a draft",
    }

    def __post_init__(self) -> None:
        whole("heads", self.heads, 1)

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", gamma, 0, self.heads)
        h, vocab = place.target.hidden, place.target.vocab
        one = place.linear(h, h, batch) + place.linear(vocab / place.tensor_parallel, h, batch)
        one = one + sampling_seconds(place.gpu, batch, vocab)
        shape = np.broadcast_shapes(drafted.shape, np.shape(batch), np.shape(context))
        return np.broadcast_to(drafted * one, shape).copy()

    def weight_bytes(self, place: Place) -> float:
        h = place.target.hidden
        return 2.0 * self.heads * (h * h + h * place.target.vocab)

    def kv_bytes_per_token(self, place: Place) -> float:
        return 0.0

    def flops_per_token(self, target: Model) -> float:
        return 2.0 * target.hidden * (target.hidden + target.vocab)


@register
@dataclass(frozen=True)
class BlockHead(Drafter):
    """Block-parallel head: a few layers like the target's fill γ positions in one pass.

    One forward of γ positions a sequence through `layers` layers and the target's output head, as
    in DFlash (arXiv 2602.06036); own weights and KV cache of those layers.
    """

    layers: int = 5
    weight_dtype: str = "bf16"

    kind: ClassVar[str] = "block"
    label: ClassVar[str] = "Block-parallel head"
    parallel: ClassVar[bool] = True
    sources: ClassVar[Mapping[str, str]] = {
        "layers": "five layers, as DFlash's heads for Qwen3 (arXiv 2602.06036)",
        "weight_dtype": _HEAD_SOURCES["weight_dtype"],
        "coverage": "a head always has a draft",
    }

    def __post_init__(self) -> None:
        whole("layers", self.layers, 1)
        dtype_bytes(self.weight_dtype, "weight_dtype")

    def _head(self, target: Model) -> Model:
        return head_model(target, self.layers, target.vocab)

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", gamma, 0)
        positions = np.maximum(drafted, 1)
        head = self._head(place.target)
        once = place.forward(head, batch, positions, context, weight_dtype=self.weight_dtype)
        sampled = np.asarray(batch, dtype=float) * positions
        once = once + sampling_seconds(place.gpu, sampled, head.vocab)
        return np.where(drafted > 0, once, 0.0)

    def weight_bytes(self, place: Place) -> float:
        return _layer_parameters(self._head(place.target)) * dtype_bytes(self.weight_dtype)

    def kv_bytes_per_token(self, place: Place) -> float:
        return self._head(place.target).kv_bytes_per_token(place.kv_dtype)

    def flops_per_token(self, target: Model) -> float:
        return self._head(target).flops_per_token
