"""GPUs: bandwidth, dense peaks, memory, interconnect and an assumed price, each with its source."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from specmath.checks import InputError, real

__all__ = ["CUSTOM_EXAMPLE", "Gpu", "catalogue", "custom", "find"]

# The tensor cores run these at the rate of the format named.
_SAME_PEAK = {"fp16": "bf16", "mxfp4": "fp4", "nvfp4": "fp4"}
CUSTOM = "custom:"
CUSTOM_EXAMPLE = "custom:8,2500,288"
"""A GPU that no catalogue has: TB/s of its memory, dense bf16 TFLOP/s, GB; and GB/s of its link."""

_CUSTOM_NUMBERS = (
    ("bandwidth in TB/s", 0.01, 1000.0, 1e12),
    ("bf16 TFLOP/s", 0.1, 1e6, 1e12),
    ("memory in GB", 1.0, 1e5, 1e9),
    ("interconnect in GB/s", 0.1, 1e5, 1e9),
)
_CUSTOM_LINK = 0.1
"""Interconnect over bandwidth where it is not given: 0.09 to 0.15 in A100, H100, H200 and B200."""
_CUSTOM_USD_PER_HOUR = 2.5

_PRICE_SOURCE = "2026, assumed list price of on-demand clouds; replace it with your own"


@dataclass(frozen=True)
class Gpu:
    """One GPU, in SI units.

    `bandwidth`: bytes/s of its memory. `peaks`: dense FLOP/s (never the figure "with sparsity") by
    dtype of the operands, accumulated in FP32 (int8: operations/s, INT32). `memory`: bytes that the
    driver reports. `interconnect`: bytes/s that one GPU sends to its peers, one direction.
    `usd_per_hour`: an assumption, to be overridden. `sources`: where each field was read.
    """

    name: str
    vendor: str
    bandwidth: float
    peaks: Mapping[str, float] = field(hash=False)
    memory: float
    interconnect: float
    interconnect_kind: str
    usd_per_hour: float
    sources: Mapping[str, str] = field(hash=False)
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        real("bandwidth", self.bandwidth, 0, low_open=True)
        real("memory", self.memory, 0, low_open=True)
        real("interconnect", self.interconnect, 0, low_open=True)
        real("usd_per_hour", self.usd_per_hour, 0)
        if not self.peaks:
            raise InputError("peaks must name at least one dtype, got none")
        for dtype, peak in self.peaks.items():
            real(f"peaks[{dtype}]", peak, 0, low_open=True)

    def computes_in(self, dtype: str) -> bool:
        """Whether the tensor cores take operands of `dtype`."""
        return _SAME_PEAK.get(dtype, dtype) in self.peaks

    def peak(self, dtype: str) -> float:
        """Dense FLOP/s for operands of `dtype`.

        Raises InputError naming the dtypes that the GPU computes in.
        """
        if not self.computes_in(dtype):
            has = ", ".join(self.peaks)
            raise InputError(f"dtype must be one {self.name} computes in ({has}), got {dtype!r}")
        return self.peaks[_SAME_PEAK.get(dtype, dtype)]


def _record(name: str, entry: dict[str, Any]) -> Gpu:
    sheet = entry["datasheet"]
    sources = {
        "bandwidth": sheet,
        "peaks": sheet,
        "memory": entry["memory_source"],
        "interconnect": sheet,
        "usd_per_hour": _PRICE_SOURCE,
    }
    return Gpu(
        name=name,
        vendor=entry["vendor"],
        bandwidth=entry["bandwidth"],
        peaks=entry["peaks"],
        memory=float(entry["memory"]),
        interconnect=entry["interconnect"],
        interconnect_kind=entry["interconnect_kind"],
        usd_per_hour=entry["usd_per_hour"],
        sources=sources,
        aliases=tuple(entry["aliases"]),
    )


@cache
def _gpus() -> dict[str, Gpu]:
    text = resources.files("specmath").joinpath("data/gpus.toml").read_text(encoding="utf-8")
    return {name: _record(name, entry) for name, entry in tomllib.loads(text).items()}


def catalogue() -> dict[str, Gpu]:
    """Every GPU of the catalogue, by name."""
    return dict(_gpus())


def custom(text: str) -> Gpu:
    """ "custom:8,2500,288" → a GPU of 8 TB/s, 2500 dense bf16 TFLOP/s and 288 GB.

    A fourth number is its interconnect in GB/s, one direction; 0.1 of the bandwidth is assumed
    otherwise, fp8 at twice the rate of bf16, and 2.50 USD an hour. No calibration is of it, so
    the general coefficients are used. Raises InputError with what is wrong and the bounds.
    """
    parts = text[len(CUSTOM) :].split(",")
    if len(parts) not in (3, 4):
        raise InputError(
            f"gpu must be custom: bandwidth in TB/s, bf16 TFLOP/s, memory in GB (and interconnect "
            f"in GB/s), such as {CUSTOM_EXAMPLE}; got {text!r}"
        )
    values = []
    for part, (what, low, high, unit) in zip(parts, _CUSTOM_NUMBERS, strict=False):
        try:
            number = float(part)
        except ValueError as error:
            raise InputError(f"gpu: {what} must be a number, got {part.strip()!r}") from error
        values.append(float(real(f"gpu: {what}", number, low, high)) * unit)
    bandwidth, peak, memory = values[:3]
    given = "your own numbers"
    return Gpu(
        name=CUSTOM + ",".join(f"{float(part):.12g}" for part in parts),
        vendor="your own",
        bandwidth=bandwidth,
        peaks={"bf16": peak, "fp8": 2.0 * peak},
        memory=memory,
        interconnect=values[3] if len(values) > 3 else _CUSTOM_LINK * bandwidth,
        interconnect_kind="as given" if len(values) > 3 else "assumed",
        usd_per_hour=_CUSTOM_USD_PER_HOUR,
        sources={
            "bandwidth": given,
            "peaks": f"{given}; fp8 assumed at twice bf16",
            "memory": given,
            "interconnect": given if len(values) > 3 else "assumed: a tenth of the bandwidth",
            "usd_per_hour": "assumed: about an on-demand H100 in 2026; replace it with your own",
        },
    )


def _key(name: str) -> str:
    """A spelling without vendor, case and separators: "NVIDIA H100 SXM5" -> "h100sxm5"."""
    text = name.lower()
    for word in ("nvidia", "amd", "geforce", "instinct", "tesla"):
        text = text.replace(word, "")
    return "".join(c for c in text if c.isalnum())


@cache
def _by_key() -> dict[str, Gpu]:
    return {
        _key(spelling): gpu for gpu in _gpus().values() for spelling in (gpu.name, *gpu.aliases)
    }


def find(name: str | Gpu) -> Gpu:
    """The GPU of that name, however spelt ("h100_sxm", "NVIDIA H100 SXM5"); a record passes, and
    one's own numbers as `custom` reads them.

    Raises InputError with the nearest names where the catalogue does not have it.
    """
    if isinstance(name, Gpu):
        return name
    if str(name).strip().lower().startswith(CUSTOM):
        return custom(str(name).strip())
    known = _by_key()
    key = _key(str(name))
    if key in known:
        return known[key]
    close = difflib.get_close_matches(key, known, n=5, cutoff=0.4)
    nearest = list(dict.fromkeys(known[match].name for match in close)) or sorted(_gpus())
    raise InputError(
        f"gpu must be in the catalogue, got {name!r}; nearest: {', '.join(nearest)}; or its own "
        f"TB/s, bf16 TFLOP/s and GB, such as {CUSTOM_EXAMPLE}"
    )
