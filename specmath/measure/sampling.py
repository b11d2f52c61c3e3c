"""From logits to the distribution that a token is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray, real

__all__ = ["Sampling", "draw"]


@dataclass(frozen=True)
class Sampling:
    """Temperature ≥ 0 (0 takes the most likely token, the lowest id on ties), then top-p in (0, 1].

    Top-p keeps the fewest most likely tokens whose probabilities sum to at least p.
    """

    temperature: float = 1.0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        real("temperature", self.temperature, 0, 10)
        real("top_p", self.top_p, 0, 1, low_open=True)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def probabilities(self, logits: np.ndarray) -> FloatArray:
        """Rows of logits (…, vocabulary) → rows that sum to 1, float64."""
        if self.greedy:
            chosen = np.argmax(logits, axis=-1)
            found = np.zeros(logits.shape)
            np.put_along_axis(found, chosen[..., None], 1.0, axis=-1)
            return found
        scaled = np.asarray(logits, np.float64) / self.temperature
        found = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        found /= found.sum(axis=-1, keepdims=True)
        return found if self.top_p == 1 else _nucleus(found, self.top_p)

    def __str__(self) -> str:
        return f"T={self.temperature:g}" + ("" if self.top_p == 1 else f", top-p {self.top_p:g}")


def _nucleus(probabilities: FloatArray, top_p: float) -> FloatArray:
    order = np.argsort(-probabilities, axis=-1, kind="stable")
    sorted_ = np.take_along_axis(probabilities, order, axis=-1)
    before = np.cumsum(sorted_, axis=-1) - sorted_
    kept = np.zeros_like(probabilities)
    np.put_along_axis(kept, order, np.where(before < top_p, sorted_, 0.0), axis=-1)
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


def draw(probabilities: FloatArray, rng: np.random.Generator) -> int:
    """One index with these probabilities, which need not sum to exactly 1."""
    heap = np.cumsum(probabilities)
    found = int(np.searchsorted(heap, rng.random() * heap[-1], side="right"))
    # Rounding can put the draw past the last index that has probability.
    return found if found < heap.size else int(np.flatnonzero(probabilities)[-1])
