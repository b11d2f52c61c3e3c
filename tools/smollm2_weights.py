"""The trained draft as its file holds it: the inverse of `specmath.measure.smollm2.read_draft`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specmath.measure.smollm2 import KEPT, SCALE, DraftWeights


def pack(weights: DraftWeights) -> dict[str, NDArray[Any]]:
    """As shipped: W = int8 · scale for each row of a matrix, vectors in float32, ids in int32.

    The largest entry of a row becomes ±127, so an entry is off by at most scale/2.
    """
    found: dict[str, NDArray[Any]] = {KEPT: weights.kept.astype(np.int32)}
    for name, values in weights.tensors.items():
        if values.ndim == 1:
            found[name] = values.astype(np.float32)
            continue
        largest = np.abs(values).max(axis=1, keepdims=True)
        scale = np.where(largest > 0, largest, 1.0).astype(np.float32) / np.float32(127)
        found[name] = np.rint(values / scale).astype(np.int8)
        found[name + SCALE] = scale[:, 0]
    return found
