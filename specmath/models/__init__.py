"""Models: what a config.json says about parameters, bytes and FLOPs. Knows nothing of GPUs."""

from __future__ import annotations

from specmath.models.catalogue import (
    catalogue,
    find,
    is_config,
    named,
    parsed,
    search,
    smaller_kin,
)
from specmath.models.config import from_config, load
from specmath.models.dtypes import DTYPE_BYTES, Quantisation, dtype_bytes, dtype_name, known
from specmath.models.layers import Attention, LayerGroup, Mlp
from specmath.models.model import Model

__all__ = [
    "DTYPE_BYTES",
    "Attention",
    "LayerGroup",
    "Mlp",
    "Model",
    "Quantisation",
    "catalogue",
    "dtype_bytes",
    "dtype_name",
    "find",
    "from_config",
    "is_config",
    "known",
    "load",
    "named",
    "parsed",
    "search",
    "smaller_kin",
]
