"""Bytes a number takes in each format, scales included, and which parts a format covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specmath.checks import InputError, real

__all__ = ["DTYPE_BYTES", "DTYPE_NAMES", "Quantisation", "dtype_bytes", "dtype_name"]

# Block formats carry scales: fp8 and int8 one fp32 a 128x128 block or one scale a channel (under
# 0.03%, left out); mxfp4 one byte a 32 numbers (OCP MX 1.0); nvfp4 one byte a 16; int4 (AWQ, GPTQ)
# a 16-bit scale and a 4-bit zero a group of 128.
DTYPE_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": (4 + 8 / 16) / 8,
    "mxfp4": (4 + 8 / 32) / 8,
    "int4": (4 + 20 / 128) / 8,
}
_SPELLINGS = {
    "float32": "fp32",
    "float": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float8_e4m3fn": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "nvfp4": "fp4",
}
DTYPE_NAMES = tuple(DTYPE_BYTES)

Part = Literal["attention", "mlp", "experts", "shared", "head"]
_LINEAR_LAYERS: frozenset[Part] = frozenset({"attention", "mlp", "experts", "shared"})


def dtype_name(dtype: str, field: str = "dtype") -> str:
    """The short name of a number format ("bfloat16" and "torch.bfloat16" are "bf16")."""
    text = str(dtype).lower().removeprefix("torch.")
    name = _SPELLINGS.get(text, text)
    if name not in DTYPE_BYTES:
        raise InputError(f"{field} must be one of {', '.join(DTYPE_NAMES)}, got {dtype!r}")
    return name


def dtype_bytes(dtype: str, field: str = "dtype") -> float:
    """Bytes a number, its share of the scales included."""
    return DTYPE_BYTES[dtype_name(dtype, field)]


@dataclass(frozen=True)
class Quantisation:
    """The weights of `parts` are stored in `dtype` at `bytes_per_parameter`; the rest is not."""

    dtype: str
    bytes_per_parameter: float
    parts: frozenset[Part] = _LINEAR_LAYERS

    def __post_init__(self) -> None:
        real("bytes_per_parameter", self.bytes_per_parameter, 0, 8, low_open=True)

    @classmethod
    def of(cls, dtype: str) -> Quantisation:
        """Every linear layer in `dtype`; embeddings, output head, router and norms are not."""
        name = dtype_name(dtype)
        return cls(name, DTYPE_BYTES[name])
