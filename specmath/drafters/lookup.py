"""Drafters that look tokens up instead of computing them: n-grams, suffix trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, real, whole
from specmath.drafters.base import Drafter, Place, register
from specmath.models import Model

__all__ = ["NGram"]


@register
@dataclass(frozen=True)
class NGram(Drafter):
    """Prompt lookup, n-gram or suffix decoding: copies what followed the last tokens before.

    Only a share κ = `coverage` of the sequence-steps find a match and get a draft; the lookup,
    `lookup_seconds` once a step, is paid whether or not one is found. No weights, no cache.
    Servers count acceptance over the steps that had a draft only.
    """

    coverage: float = 0.5
    lookup_seconds: float = 1e-4

    kind: ClassVar[str] = "ngram"
    label: ClassVar[str] = "N-gram or suffix lookup"
    parallel: ClassVar[bool] = True
    sources: ClassVar[Mapping[str, str]] = {
        "coverage": "assumed: low where nothing repeats, high in edits of given text; measure it "
        "as steps with a draft over all steps",
        "lookup_seconds": "vLLM issue 22408: 5-8% of the step of OPT-125M and 0.9% of that of "
        "Llama 4 Scout, both about 0.1 ms; it grows with context and batch where the host "
        "searches one sequence after another",
    }

    def __post_init__(self) -> None:
        real("coverage", self.coverage, 0, 1)
        real("lookup_seconds", self.lookup_seconds, 0)

    def passes(self, gamma: ArrayLike) -> FloatArray:
        return np.zeros(np.shape(whole("gamma", gamma, 0)))

    def step_seconds(
        self, place: Place, gamma: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        drafted = whole("gamma", gamma, 0)
        shape = np.broadcast_shapes(np.shape(drafted), np.shape(batch), np.shape(context))
        return np.where(np.broadcast_to(drafted, shape) > 0, self.lookup_seconds, 0.0)

    def pass_seconds(
        self, place: Place, positions: ArrayLike, batch: ArrayLike, context: ArrayLike
    ) -> FloatArray:
        return self.step_seconds(place, positions, batch, context)

    def weight_bytes(self, place: Place) -> float:
        return 0.0

    def flops_per_token(self, target: Model) -> float:
        return 0.0
