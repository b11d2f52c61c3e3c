"""Drafters that are a decoder, or part of one: a separate model, a share of the target's layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, real, whole
from specmath.drafters.base import Drafter, Place, register, sampling_seconds
from specmath.models import LayerGroup, Model

__all__ = ["LayerSkip", "ParallelModel", "SeparateModel"]


@register
@dataclass(frozen=True)
class SeparateModel(Drafter):
    """A smaller model with its own weights and KV cache: γ forwards one after another.

    d = γ (forward of one position a sequence + sampling), each re-reading its own weights and KV:
    Leviathan et al. 2023 (arXiv 2211.17192), section 2.3. `tensor_parallel` is its own, usually 1:
    the target's other GPUs wait. `weight_dtype` None: as published.
    """

    model: Model
    tensor_parallel: int = 1
    weight_dtype: str | None = None

    kind: ClassVar[str] = "separate"
    label: ClassVar[str] = "Separate draft model"
    sources: ClassVar[Mapping[str, str]] = {
        "tensor_parallel": "one GPU: a small model split over GPUs pays more in all-reduces than "
        "it gains; vLLM's draft_tensor_parallel_size is 1 or the target's",
        "coverage": "a model always has a draft",
    }

    def __post_init__(self) -> None:
        whole("tensor_parallel", self.tensor_parallel, 1)

    def pass_seconds(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        forward = place.forward(
            self.model,
            batch,
            positions,
            context,
            tensor_parallel=self.tensor_parallel,
            weight_dtype=self.weight_dtype,
        )
        sampled = np.asarray(batch, dtype=float) * positions
        return forward + sampling_seconds(place.gpu, sampled, self.model.vocab)

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        return self.passes(gamma) * self.pass_seconds(place, 1, batch, context)

    def weight_bytes(self, place: Place) -> float:
        return self.model.weight_bytes(self.weight_dtype)

    def cache_model(self, target: Model) -> Model:
        return self.model

    def flops_per_token(self, target: Model) -> float:
        return self.model.flops_per_token

    def gpus(self, place: Place) -> int:
        return self.tensor_parallel


@register
@dataclass(frozen=True)
class ParallelModel(SeparateModel):
    """A separate model trained to draft all γ tokens in one forward of γ positions (PARD,
    arXiv 2504.18583, section 3)."""

    kind: ClassVar[str] = "parallel_model"
    label: ClassVar[str] = "Parallel draft model"
    parallel: ClassVar[bool] = True

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", gamma, 0)
        once = self.pass_seconds(place, np.maximum(drafted, 1), batch, context)
        return np.where(drafted > 0, once, 0.0)


@lru_cache(maxsize=64)
def _first_layers(target: Model, share: float) -> Model:
    """The target cut after a share of its layers (at least one), with its output head."""
    wanted = max(1, round(share * target.layer_count))
    groups: list[LayerGroup] = []
    for group in target.layers:
        taken = min(group.count, wanted - sum(g.count for g in groups))
        if taken:
            groups.append(replace(group, count=taken))
    return replace(target, name=f"{target.name}, {wanted} layers", layers=tuple(groups))


@register
@dataclass(frozen=True)
class LayerSkip(Drafter):
    """Self-speculation: the target's first layers and its output head draft, γ times.

    d = γ (forward of `share` of the layers + head), on the target's GPUs; no weights and no cache
    of its own, for the drafted layers' keys and values are the target's. Elhoushi et al. 2024
    (arXiv 2404.16710), section 4.3. They also reuse the drafted layers' activations when
    verifying; that saving is not counted, so the cost is an upper bound.
    """

    share: float = 0.25

    kind: ClassVar[str] = "layer_skip"
    label: ClassVar[str] = "Layer skipping"
    sources: ClassVar[Mapping[str, str]] = {
        "share": "LayerSkip (arXiv 2404.16710) drafts with the first 8 of Llama-2-7B's 32 layers",
        "coverage": "a model always has a draft",
    }

    def __post_init__(self) -> None:
        real("share", self.share, 0, 1, low_open=True)

    def pass_seconds(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        cut = _first_layers(place.target, self.share)
        forward = place.forward(cut, batch, positions, context, weight_dtype=place.weight_dtype)
        sampled = np.asarray(batch, dtype=float) * positions
        return forward + sampling_seconds(place.gpu, sampled, cut.vocab)

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        return self.passes(gamma) * self.pass_seconds(place, 1, batch, context)

    def weight_bytes(self, place: Place) -> float:
        return 0.0

    def flops_per_token(self, target: Model) -> float:
        return _first_layers(target, self.share).flops_per_token
