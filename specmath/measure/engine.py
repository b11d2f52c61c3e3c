"""What a measurement asks of a model: logits of new tokens, and a cache that can be cut back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cache", "FloatLogits", "LanguageModel", "Tokens"]

FloatLogits = NDArray[np.float32]
Tokens = NDArray[np.int64]


class Cache(Protocol):
    """Keys and values of the tokens read so far, the same number for each sequence."""

    @property
    def length(self) -> int: ...

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""


class LanguageModel(Protocol):
    """A decoder. All sequences of a batch have the same length."""

    @property
    def name(self) -> str: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def context_limit(self) -> int: ...

    @property
    def parameters(self) -> int: ...

    @property
    def config(self) -> Mapping[str, Any]:
        """config.json, for shapes."""

    @property
    def layers(self) -> int: ...

    def new_cache(self, batch: int = 1) -> Cache: ...

    def filled_cache(self, batch: int, context: int) -> Cache:
        """A cache of `context` random tokens, for timing; made without reading them."""

    def forward(self, tokens: Tokens, cache: Any) -> FloatLogits:
        """Logits (batch, new tokens, vocabulary) on the host; the cache grows by the new tokens."""

    def read(self, tokens: Tokens, cache: Any) -> None:
        """As `forward`, for tokens whose logits nobody asks for."""

    def compute(self, tokens: Tokens, cache: Any) -> None:
        """As `forward`, but all logits stay on the device: what timing a forward alone runs."""

    def skipping(self, layers: tuple[int, ...]) -> LanguageModel:
        """The same model without these layers (numbered from 0), weights shared."""

    def seconds(self, call: Callable[[], object]) -> float:
        """Seconds that `call` takes on this model's device, finished."""
