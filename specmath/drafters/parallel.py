"""Heads that draft all tokens in one pass: Medusa, block-parallel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, whole
from specmath.drafters.base import Drafter, Place, register, sampling_seconds
from specmath.drafters.heads import HEAD_SOURCES, head_model, layer_parameters
from specmath.models import Model, dtype_bytes

__all__ = ["BlockHead", "Medusa"]


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

    def pass_seconds(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        return self.step_seconds(place, positions, batch, context)

    def weight_bytes(self, place: Place) -> float:
        h = place.target.hidden
        return 2.0 * self.heads * (h * h + h * place.target.vocab)

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
        "weight_dtype": HEAD_SOURCES["weight_dtype"],
        "coverage": "a head always has a draft",
    }

    def __post_init__(self) -> None:
        whole("layers", self.layers, 1)
        dtype_bytes(self.weight_dtype, "weight_dtype")

    def cache_model(self, target: Model) -> Model:
        return head_model(target, self.layers, target.vocab)

    def pass_seconds(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        head = self.cache_model(place.target)
        once = place.forward(head, batch, positions, context, weight_dtype=self.weight_dtype)
        sampled = np.asarray(batch, dtype=float) * positions
        return once + sampling_seconds(place.gpu, sampled, head.vocab)

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", gamma, 0)
        once = self.pass_seconds(place, np.maximum(drafted, 1), batch, context)
        return np.where(drafted > 0, once, 0.0)

    def weight_bytes(self, place: Place) -> float:
        return layer_parameters(self.cache_model(place.target)) * dtype_bytes(self.weight_dtype)

    def flops_per_token(self, target: Model) -> float:
        return self.cache_model(target).flops_per_token
