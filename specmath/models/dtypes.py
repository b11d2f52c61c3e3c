"""Formats in which numbers are stored: bits each, scales included, and the parts they cover."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from specmath.checks import InputError, real, short

__all__ = [
    "DTYPE_BYTES",
    "GGUF_BITS",
    "NATIVE",
    "Quantisation",
    "dtype_bytes",
    "dtype_name",
    "known",
]

NATIVE = "native"
"""As published, whatever that is."""

# Block formats carry scales: fp8 and int8 one fp32 a 128x128 block or one scale a channel (under
# 0.03%, left out); mxfp4 one byte a 32 numbers (OCP MX 1.0); nvfp4 one byte a 16; int4 (AWQ, GPTQ)
# a 16-bit scale and a 4-bit zero a group of 128.
DTYPE_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "nvfp4": (4 + 8 / 16) / 8,
    "mxfp4": (4 + 8 / 32) / 8,
    "int4": (4 + 20 / 128) / 8,
}
# Bits a weight of a whole GGUF file, embeddings included: the table for Llama-3.1-8B in llama.cpp's
# tools/quantize/README.md; q3_k_m, q4_0, q4_1, q5_0, q5_1 from the sizes for Llama-3-8B in its
# tools/quantize/quantize.cpp; tq1_0, tq2_0 the block's own. Files mix block types, by model: ±4%.
# The _xl ones are unsloth's: q2, q3 and q6 from the files of Qwen3.8-27B (9.2, 12.2, 23.6 GiB);
# q4, q5 and q8 presumed, between their neighbours.
GGUF_BITS: dict[str, float] = {
    "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "iq2_xs": 2.5882, "iq2_s": 2.7403,
    "iq2_m": 2.9294, "iq3_xxs": 3.2548, "iq3_xs": 3.4977, "iq3_s": 3.6606, "iq3_m": 3.7628,
    "iq4_xs": 4.4597, "iq4_nl": 4.6818, "tq1_0": 1.6875, "tq2_0": 2.0625,
    "q2_k_s": 2.9697, "q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_m": 4.0007, "q3_k_l": 4.2979,
    "q4_0": 4.6425, "q4_1": 5.1132, "q4_k_s": 4.6672, "q4_k_m": 4.8944, "q5_0": 5.5732,
    "q5_1": 6.0439, "q5_k_s": 5.5704, "q5_k_m": 5.7036, "q6_k": 6.5633, "q8_0": 8.5008,
    "q2_k_xl": 2.9, "q3_k_xl": 3.84, "q4_k_xl": 5.0, "q5_k_xl": 5.8, "q6_k_xl": 7.4,
    "q8_k_xl": 9.5,
}  # fmt: skip
_SPELLINGS = {
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "float8_e4m3fn": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "e4m3": "fp8",
    "w8a8_fp8": "fp8",
    "fp4": "nvfp4",
    "w4a4": "nvfp4",
    "awq": "int4",
    "gptq": "int4",
    "autoround": "int4",
    "w4a16": "int4",
    "w4a8": "int4",
    "w8a16": "int8",
    "w8a8": "int8",
    "q2": "q2_k",
    "q3": "q3_k_m",
    "q4": "q4_k_m",
    "q5": "q5_k_m",
    "q6": "q6_k",
    "q8": "q8_0",
    "q3_k": "q3_k_m",
    "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
    "q4_k_l": "q4_k_m",
    "q5_k_l": "q5_k_m",
    "q6_k_l": "q6_k",
}
_BITS = re.compile(r"(\d{1,2}(?:\.\d{1,4})?)(?:[ _-]?(bits?|bpw))?")
_GROUP_BITS = 32 / 64  # MLX and bitsandbytes: two 16-bit numbers, or one fp32, a group of 64

Part = Literal["attention", "mlp", "experts", "shared", "head", "embeddings"]
_LINEAR_LAYERS: frozenset[Part] = frozenset({"attention", "mlp", "experts", "shared"})
_ALL: frozenset[Part] = _LINEAR_LAYERS | {"head", "embeddings"}


def dtype_name(dtype: str, field: str = "dtype") -> str:
    """The short name of a format: "torch.bfloat16" is "bf16", "Q4_K_M" "q4_k_m", "5.5 bpw" "5.5".

    A whole number of "bits", as quantisers of MLX and bitsandbytes say it ("4bit"), is that and
    the scales of its groups: "4.5". Raises InputError with the formats there are.
    """
    text = str(dtype).strip().lower().removeprefix("torch.").removeprefix("ud-")
    name = _SPELLINGS.get(text, text)
    if name in DTYPE_BYTES or name in GGUF_BITS:
        return name
    found = _BITS.fullmatch(text)
    if found is None:
        raise InputError(
            f"{field} must be one of {', '.join(DTYPE_BYTES)}, a GGUF quantisation such as q4_k_m, "
            f"or bits a weight such as 5.5, got {short(dtype)!r}"
        )
    bits = float(found[1])
    if (found[2] or "").startswith("bit") and bits < 16 and bits == int(bits):
        bits += _GROUP_BITS
    real(f"{field}, in bits a weight,", bits, 1, 16)
    return f"{bits:g}"


def known(text: str, field: str = "weight_dtype") -> str:
    """A storage format as a scenario keeps it: "native", or `dtype_name`.

    Raises InputError with the formats there are.

    Examples
    --------
    >>> known("Q4_K_M"), known("W4A16"), known("NVFP4"), known("5.5bpw"), known("8-bit")
    ('q4_k_m', 'int4', 'nvfp4', '5.5', '8.5')
    """
    if str(text).strip().lower() == NATIVE:
        return NATIVE
    return dtype_name(text, field)


def dtype_bytes(dtype: str, field: str = "dtype") -> float:
    """Bytes a number, its share of the scales included."""
    name = dtype_name(dtype, field)
    if name in DTYPE_BYTES:
        return DTYPE_BYTES[name]
    return GGUF_BITS.get(name, 0.0) / 8 or float(name) / 8


@dataclass(frozen=True)
class Quantisation:
    """The weights of `parts` are stored in `dtype` at `bytes_per_parameter`; the rest is not.

    A checkpoint of several formats has the mean size of its parts, and the format of most bytes.
    """

    dtype: str
    bytes_per_parameter: float
    parts: frozenset[Part] = _LINEAR_LAYERS

    def __post_init__(self) -> None:
        real("bytes_per_parameter", self.bytes_per_parameter, 0, 8, low_open=True)

    @classmethod
    def of(cls, dtype: str) -> Quantisation:
        """Every linear layer in `dtype`; embeddings, output head, router and norms are not.

        Bits a weight, and those of a GGUF file, are means over all: both tables included.
        """
        name = dtype_name(dtype)
        return cls(name, dtype_bytes(name), _LINEAR_LAYERS if name in DTYPE_BYTES else _ALL)
