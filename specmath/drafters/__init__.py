"""Drafters: what proposes the tokens, what that costs in seconds, weights and cache.

A kind is a frozen record registered under its name (`kinds()`, `drafter(kind, ...)`); a new kind
is one class. `ENGINES` holds what an engine adds around the forwards.
"""

from __future__ import annotations

from specmath.drafters.base import EAGER, Drafter, Place, drafter, kinds, sampling_seconds
from specmath.drafters.engine import ENGINES, EngineOverhead, engine_overhead
from specmath.drafters.heads import Eagle, Eagle3, Mtp
from specmath.drafters.lookup import NGram
from specmath.drafters.models import LayerSkip, ParallelModel, SeparateModel
from specmath.drafters.parallel import BlockHead, Medusa

__all__ = [
    "EAGER",
    "ENGINES",
    "BlockHead",
    "Drafter",
    "Eagle",
    "Eagle3",
    "EngineOverhead",
    "LayerSkip",
    "Medusa",
    "Mtp",
    "NGram",
    "ParallelModel",
    "Place",
    "SeparateModel",
    "drafter",
    "engine_overhead",
    "kinds",
    "sampling_seconds",
]
