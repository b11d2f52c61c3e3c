"""Drafters: what proposes the tokens, what that costs in seconds, weights and cache.

A kind is a frozen record registered under its name (`kinds()`); a new kind is one class.
"""

from __future__ import annotations

from specmath.drafters.base import Decoder, Drafter, kinds, sampling_seconds
from specmath.drafters.catalogue import (
    LayerSkip,
    NGram,
    ParallelModel,
    SeparateModel,
    Suffix,
    named,
    recorded,
)
from specmath.drafters.heads import (
    Assistant,
    BlockHead,
    DFlash,
    DSpark,
    Eagle,
    Eagle3,
    Medusa,
    Mtp,
    PEagle,
)

__all__ = [
    "Assistant",
    "BlockHead",
    "DFlash",
    "DSpark",
    "Decoder",
    "Drafter",
    "Eagle",
    "Eagle3",
    "LayerSkip",
    "Medusa",
    "Mtp",
    "NGram",
    "PEagle",
    "ParallelModel",
    "SeparateModel",
    "Suffix",
    "kinds",
    "named",
    "recorded",
    "sampling_seconds",
]
