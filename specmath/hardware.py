"""GPUs: bandwidth, dense peaks, memory, interconnect and an assumed price, each with its source."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from specmath.checks import InputError, real

__all__ = ["Gpu", "catalogue", "find"]

_SAME_PEAK = {"fp16": "bf16"}


@dataclass(frozen=True)
class Gpu:
    """One GPU, in SI units, as its datasheet gives it.

    `peaks`: dense FLOP/s (not the figure "with sparsity") by dtype of the multiplication, with
    accumulation in FP32 (INT32 for int8). `interconnect`: bytes/s that one GPU sends to its peers,
    one direction. `usd_per_hour` is an assumption, to be overridden.
    """

    name: str
    vendor: str
    bandwidth: float
    peaks: Mapping[str, float]
    memory: float
    interconnect: float
    interconnect_kind: str
    usd_per_hour: float
    sources: Mapping[str, str]
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

    def peak(self, dtype: str) -> float:
        """Dense FLOP/s for operands of `dtype`; InputError naming what the GPU has."""
        name = _SAME_PEAK.get(dtype, dtype)
        if name not in self.peaks:
            has = ", ".join(self.peaks)
            raise InputError(
                f"dtype must be one that {self.name} computes in ({has}), got {dtype!r}"
            )
        return self.peaks[name]


@cache
def _gpus() -> dict[str, Gpu]:
    text = resources.files("specmath").joinpath("data/gpus.toml").read_text(encoding="utf-8")
    return {name: _record(name, entry) for name, entry in tomllib.loads(text).items()}


def _record(name: str, entry: Mapping[str, object]) -> Gpu:
    fields = dict(entry)
    for key in ("peaks", "sources"):
        fields[key] = MappingProxyType(fields[key])  # type: ignore[call-overload]
    fields["aliases"] = tuple(fields.get("aliases", ()))  # type: ignore[arg-type]
    return Gpu(name=name, **fields)  # type: ignore[arg-type]


def catalogue() -> dict[str, Gpu]:
    """Every GPU of the catalogue, by name."""
    return dict(_gpus())


def _key(name: str) -> str:
    """Spelling without vendor, case and separators: "NVIDIA H100 SXM5" -> "h100sxm5"."""
    text = name.lower()
    for vendor in ("nvidia", "amd", "geforce", "instinct"):
        text = text.replace(vendor, "")
    return "".join(c for c in text if c.isalnum())


def find(name: str | Gpu) -> Gpu:
    """The GPU of that name, however spelt; InputError with the nearest names."""
    if isinstance(name, Gpu):
        return name
    by_key = {}
    for gpu in _gpus().values():
        by_key.update({_key(spelling): gpu for spelling in (gpu.name, *gpu.aliases)})
    key = _key(str(name))
    if key in by_key:
        return by_key[key]
    close = difflib.get_close_matches(key, by_key, n=5, cutoff=0.4)
    nearest = list(dict.fromkeys(by_key[match].name for match in close)) or sorted(_gpus())
    raise InputError(
        f"gpu must be one of the catalogue, got {name!r}; nearest: {', '.join(nearest)}"
    )
