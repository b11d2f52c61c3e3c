"""What a measurement asks of a model: logits of new tokens, and a cache that can be cut back; and
the distribution that a token is drawn from."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specmath.checks import FloatArray, real

if TYPE_CHECKING:
    from specmath.measure.draws import Draws

__all__ = [
    "Cache", "FloatLogits", "Forwards", "LanguageModel", "Sampling", "Tokens", "draw",
    "read_prompt",
]  # fmt: skip

FloatLogits = NDArray[np.float32]
Tokens = NDArray[np.int64]


class Cache(Protocol):
    """Keys and values of the tokens read so far, the same number for each sequence."""

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""


class LanguageModel(Protocol):
    """A decoder. All sequences of a batch have the same length."""

    name: str
    vocabulary: int
    context_limit: int
    parameters: int
    layers: int
    config: Mapping[str, Any]
    """config.json, for shapes."""
    draws: Draws
    """How tokens are drawn from what `compute` gives."""

    def new_cache(self, batch: int = 1) -> Cache: ...

    def filled_cache(self, batch: int, context: int) -> Cache:
        """A cache of `context` random tokens, for timing; made without reading them."""

    def forward(self, tokens: Tokens, cache: Any) -> FloatLogits:
        """Logits (batch, new tokens, vocabulary) on the host; the cache grows by the new tokens."""

    def read(self, tokens: Tokens, cache: Any) -> object:
        """As `forward`, for tokens whose logits nobody asks for."""

    def compute(self, tokens: Tokens, cache: Any, last: bool = False) -> Any:
        """As `forward`, but the logits stay on the device, and may be those of the last token
        alone."""

    def finish(self) -> None:
        """Wait until the device has done all that was asked of it."""

    def skipping(self, layers: tuple[int, ...]) -> LanguageModel:
        """The same model without these layers (numbered from 0), weights shared."""


class Forwards:
    """Runs forwards; where `parted` it counts their seconds apart from all that lies between.

    Each is then waited for, so that no other work is counted with it.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter, parted: bool = False) -> None:
        self._now, self._parted, self._seconds = now, parted, 0.0

    def __call__(
        self, model: LanguageModel, tokens: Tokens, cache: Cache, last: bool = False
    ) -> Any:
        if not self._parted:
            return model.compute(tokens, cache, last)
        model.finish()
        begun = self._now()
        logits = model.compute(tokens, cache, last)
        model.finish()
        self._seconds += self._now() - begun
        return logits

    def taken(self) -> float:
        """Seconds since this was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def read_prompt(model: LanguageModel, tokens: Sequence[int]) -> Cache:
    """A cache of all but the last token, which the first step then reads."""
    cache = model.new_cache()
    if len(tokens) > 1:
        model.read(np.array([tokens[:-1]]), cache)
    return cache


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
