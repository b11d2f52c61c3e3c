"""A language model small enough to enumerate: the next token depends on the last one alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specmath.measure.draws import HostDraws


class TableCache:
    def __init__(self) -> None:
        self.length = 0

    def truncate(self, length: int) -> None:
        assert 0 <= length <= self.length
        self.length = length


@dataclass
class TableModel:
    """Row t of `table` holds the logits after token t. Counts its forwards."""

    table: np.ndarray
    name: str = "table"
    context_limit: int = 1000
    layers: int = 1
    parameters: int = 10
    config: dict[str, Any] = field(default_factory=dict)
    forwards: int = 0
    draws: HostDraws = field(default_factory=HostDraws)

    @property
    def vocabulary(self) -> int:
        return len(self.table)

    def new_cache(self, batch: int = 1) -> TableCache:
        return TableCache()

    def filled_cache(self, batch: int, context: int) -> TableCache:
        cache = TableCache()
        cache.length = context
        return cache

    def forward(self, tokens: np.ndarray, cache: TableCache) -> np.ndarray:
        self.forwards += 1
        cache.length += tokens.shape[1]
        return self.table[tokens]

    def read(self, tokens: np.ndarray, cache: TableCache) -> None:
        cache.length += tokens.shape[1]

    def compute(self, tokens: np.ndarray, cache: TableCache, last: bool = False) -> np.ndarray:
        return self.forward(tokens, cache)[:, -1 if last else 0 :]

    def finish(self) -> None: ...

    def skipping(self, layers: tuple[int, ...]) -> TableModel:
        return self


def pair(seed: int, vocabulary: int = 4, scale: float = 1.5) -> tuple[TableModel, TableModel]:
    """A target, and a draft whose logits are the target's with noise."""
    rng = np.random.default_rng(seed)
    table = rng.normal(0, scale, (vocabulary, vocabulary))
    noise = rng.normal(0, 1.0, table.shape)
    return TableModel(table.astype(np.float32)), TableModel((table + noise).astype(np.float32))
