"""Heads that draft token after token: EAGLE, EAGLE-3, multi-token-prediction modules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, whole
from specmath.drafters.base import Drafter, Place, register, sampling_seconds
from specmath.models import Attention, LayerGroup, Mlp, Model, dtype_bytes

__all__ = ["HEAD_SOURCES", "Eagle", "Eagle3", "Mtp", "head_model", "layer_parameters"]


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

    On a mixture the feed-forward width is 4 times the hidden width: heads are dense, and EAGLE's
    for Mixtral-8x7B has 0.28 billion parameters.
    """
    mlp = target.layers[-1].mlp
    width = 4 * target.hidden if mlp.experts else mlp.intermediate
    group = LayerGroup(layers, _attention(target), Mlp(width, matrices=mlp.matrices))
    return Model(
        name=f"{target.name} head of {layers}",
        hidden=target.hidden,
        vocab=vocab,
        layers=(group,),
        tied_embeddings=True,
    )


def layer_parameters(head: Model) -> int:
    """Parameters of the head's layers, its tables left out."""
    return sum(group.parameters(head.hidden) for group in head.layers)


class _Sequential(Drafter):
    """A head that runs γ times: first over the γ+1 positions just verified, then one at a time.

    d = F(γ+1) + (γ−1) F(1) + γ sampling, F(n) seconds of a forward of n positions a sequence.
    The first pass takes the target's hidden states of all verified positions, as vLLM pads them.
    """

    @abstractmethod
    def cache_model(self, target: Model) -> Model:
        """The head as a model: its layer and the output table it multiplies."""

    @abstractmethod
    def _forward(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        """F(n): seconds of one forward, projections included."""

    def _fusion(self, place: Place, tokens: FloatArray) -> FloatArray:
        """Seconds of preparing the target's hidden states, once a step."""
        return np.zeros_like(tokens)

    def pass_seconds(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        sampled = np.asarray(batch, dtype=float) * positions
        vocab = self.cache_model(place.target).vocab
        forward = self._forward(place, positions, batch, context)
        return forward + sampling_seconds(place.gpu, sampled, vocab)

    def once_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        verified = whole("gamma", gamma, 0) + 1
        wider = self._forward(place, verified, batch, context)
        wider = wider - self._forward(place, 1, batch, context)
        return wider + self._fusion(place, np.asarray(batch, dtype=float) * verified)

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", gamma, 0)
        each = drafted * self.pass_seconds(place, 1, batch, context)
        return np.where(drafted > 0, each + self.once_seconds(place, gamma, batch, context), 0.0)


HEAD_SOURCES = {
    "weight_dtype": "heads are published in 16 bits, also for quantised targets",
    "coverage": "a head always has a draft",
    "first pass": "vLLM pads it to the positions just verified, rejected ones included",
    "width": "4 x hidden on a mixture: EAGLE's table of models gives 0.28B for Mixtral-8x7B",
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
    sources: ClassVar[Mapping[str, str]] = HEAD_SOURCES

    def __post_init__(self) -> None:
        dtype_bytes(self.weight_dtype, "weight_dtype")

    def cache_model(self, target: Model) -> Model:
        return head_model(target, 1, target.vocab)

    def _forward(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        head = self.cache_model(place.target)
        tokens = np.asarray(batch, dtype=float) * positions
        layer = place.forward(head, batch, positions, context, weight_dtype=self.weight_dtype)
        return layer + place.linear(head.hidden, 2 * head.hidden, tokens)

    def _own_parameters(self, target: Model) -> float:
        return layer_parameters(self.cache_model(target)) + 2.0 * target.hidden**2

    def weight_bytes(self, place: Place) -> float:
        return self._own_parameters(place.target) * dtype_bytes(self.weight_dtype)

    def flops_per_token(self, target: Model) -> float:
        return self.cache_model(target).flops_per_token + 4.0 * target.hidden**2


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
        **HEAD_SOURCES,
        "draft_vocab": "draft_vocab_size of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("draft_vocab", self.draft_vocab, 1)

    def cache_model(self, target: Model) -> Model:
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
        head = self.cache_model(place.target)
        tokens = np.asarray(batch, dtype=float) * positions
        layer = place.forward(head, batch, positions, context, weight_dtype=self.weight_dtype)
        rows = self._widening(place.target) / place.tensor_parallel
        return layer + place.linear(rows, head.hidden, tokens)

    def _fusion(self, place: Place, tokens: FloatArray) -> FloatArray:
        return place.linear(place.target.hidden, 3 * place.target.hidden, tokens)

    def _own_parameters(self, target: Model) -> float:
        head, h = self.cache_model(target), target.hidden
        own = layer_parameters(head) + head.head_parameters
        return own + 3.0 * h**2 + self._widening(target) * h

    def flops_per_token(self, target: Model) -> float:
        h = target.hidden
        return self.cache_model(target).flops_per_token + 2.0 * h * self._widening(target)


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

    def cache_model(self, target: Model) -> Model:
        if not target.mtp_layers:
            raise InputError(
                f"target must have a multi-token-prediction module, got {target.name} with none"
            )
        return _last_layer(target)

    def _forward(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        head = self.cache_model(place.target)
        tokens = np.asarray(batch, dtype=float) * positions
        layer = place.forward(head, batch, positions, context, weight_dtype=place.weight_dtype)
        return layer + place.linear(head.hidden, 2 * head.hidden, tokens)

    def weight_bytes(self, place: Place) -> float:
        head = self.cache_model(place.target)
        # The output head and the embedding are the target's.
        tables = head.parameters - layer_parameters(head)
        own = head.weight_bytes(place.weight_dtype) - tables * dtype_bytes(head.base_dtype)
        return own + 2.0 * head.hidden**2 * dtype_bytes(head.base_dtype)

    def flops_per_token(self, target: Model) -> float:
        return self.cache_model(target).flops_per_token + 4.0 * target.hidden**2


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
