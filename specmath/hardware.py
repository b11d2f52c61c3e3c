"""GPUs: bandwidth, dense peaks, memory, interconnect and an assumed price, each with its source."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from specmath import spelling
from specmath.checks import InputError, real
from specmath.spelling import Entry

__all__ = ["CUSTOM_EXAMPLE", "Gpu", "catalogue", "counted", "custom", "find", "search"]

# The tensor cores run these at the rate of the format named.
_SAME_PEAK = {"fp16": "bf16", "mxfp4": "fp4", "nvfp4": "fp4"}
CUSTOM = "custom:"
CUSTOM_EXAMPLE = "custom:8,2500,288"
"""A GPU that no catalogue has: TB/s of its memory, dense bf16 TFLOP/s, GB; and GB/s of its link."""

_IF_KNOWN = ("usd_per_hour", "tdp")
"""Fields that may be unknown."""
_CUSTOM_NUMBERS = (
    ("bandwidth in TB/s", 0.01, 1000.0, 1e12),
    ("bf16 TFLOP/s", 0.1, 1e6, 1e12),
    ("memory in GB", 1.0, 1e5, 1e9),
    ("interconnect in GB/s", 0.1, 1e5, 1e9),
)
_CUSTOM_LINK = 0.1
"""Interconnect over bandwidth where it is not given: 0.09 to 0.15 in A100, H100, H200 and B200."""
_CUSTOM_USD_PER_HOUR = 2.5


@dataclass(frozen=True)
class Gpu:
    """One GPU, in SI units.

    `bandwidth`: bytes/s of its memory. `peaks`: dense FLOP/s (never the figure "with sparsity") by
    dtype of the operands, accumulated in FP32 (int8: operations/s, INT32); "bf16" is the 16-bit
    format that it has. `memory`: bytes that the driver reports. `interconnect`: bytes/s that one
    GPU sends to its peers, one direction; 0 where it has no peers.
    `usd_per_hour`: an assumption, to be overridden; None where nobody rents it out.
    `tdp`: watts. `engines`: what serves on it. `unified`: its memory is the machine's, and sold in
    several sizes. `sources`: where each field was read.
    """

    name: str
    vendor: str
    bandwidth: float
    peaks: Mapping[str, float] = field(hash=False)
    memory: float
    interconnect: float
    interconnect_kind: str
    usd_per_hour: float | None
    sources: Mapping[str, str] = field(hash=False)
    aliases: tuple[str, ...] = ()
    tdp: float | None = None
    engines: tuple[str, ...] = ()
    unified: bool = False

    @property
    def is_custom(self) -> bool:
        """Whether it was typed as numbers, and is of no catalogue."""
        return self.name.startswith(CUSTOM)

    def __post_init__(self) -> None:
        for name in ("bandwidth", "memory"):
            real(name, getattr(self, name), 0, low_open=True)
        real("interconnect", self.interconnect, 0)
        for name in _IF_KNOWN:
            if (value := getattr(self, name)) is not None:
                real(name, value, 0, low_open=name != "usd_per_hour")
        if not self.peaks:
            raise InputError("peaks must name at least one dtype, got none")
        for dtype, peak in self.peaks.items():
            real(f"peaks[{dtype}]", peak, 0, low_open=True)

    def require_link(self, gpus: int) -> None:
        """Raise InputError where more than one GPU must share a model, and it has no link."""
        if gpus > 1 and not self.interconnect:
            raise InputError(
                f"tensor_parallel must be 1 on {self.name}, which has no link to another "
                f"({self.interconnect_kind}), got {gpus}"
            )

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
    """A record of one entry of gpus.toml, whose `sources` may name a field of its own."""
    sheet = entry.pop("datasheet")
    fields = ("bandwidth", "peaks", "memory", "interconnect", "usd_per_hour", "tdp")
    sources = dict.fromkeys(fields, sheet) | entry.pop("sources")
    for each in ("bandwidth", "memory", "interconnect"):
        entry[each] = float(entry[each])
    lists = {each: tuple(entry.pop(each, ())) for each in ("aliases", "engines")}
    return Gpu(name=name, sources=sources, **{"usd_per_hour": None, **entry, **lists})


@cache
def catalogue() -> Mapping[str, Gpu]:
    """Every GPU of the catalogue, by name."""
    text = resources.files("specmath").joinpath("data/gpus.toml").read_text(encoding="utf-8")
    return {name: _record(name, entry) for name, entry in tomllib.loads(text).items()}


def custom(text: str) -> Gpu:
    """A GPU of 8 TB/s, 2500 dense bf16 TFLOP/s and 288 GB from "custom:8,2500,288".

    A fourth number is its interconnect in GB/s, one direction; 0.1 of the bandwidth is assumed
    otherwise, fp8 at twice the rate of bf16, and 2.50 USD an hour. No calibration is of it, so
    the general coefficients are used. Raises InputError with what is wrong and the bounds.

    Examples
    --------
    >>> custom("custom:8,2500,288").bandwidth
    8000000000000.0
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
    (bandwidth, peak, memory), given = values[:3], "your own numbers"
    link, kind, stated = _CUSTOM_LINK * bandwidth, "assumed", "assumed: a tenth of the bandwidth"
    if len(values) > 3:
        link, kind, stated = values[3], "as given", given
    return Gpu(
        name=CUSTOM + ",".join(f"{float(part):.12g}" for part in parts),
        vendor="your own",
        bandwidth=bandwidth,
        peaks={"bf16": peak, "fp8": 2.0 * peak},
        memory=memory,
        interconnect=link,
        interconnect_kind=kind,
        usd_per_hour=_CUSTOM_USD_PER_HOUR,
        sources={
            "bandwidth": given,
            "peaks": f"{given}; fp8 assumed at twice bf16",
            "memory": given,
            "interconnect": stated,
            "usd_per_hour": "assumed: about an on-demand H100 in 2026; replace it with your own",
        },
    )


_MAKERS = ("nvidia", "amd", "intel", "apple", "google", "aws", "huawei")
# "8x H100", "2x4090"; "4090 x2", "4090x2", but neither "GTX 970" nor "MI300X".
_COUNT = re.compile(
    r"^\s*(?P<before>\d{1,3})\s*[x×*]\s*(?=[a-z\d])"
    r"|(?:(?<=\s)[x×*]\s*|(?<=\d)[x×*])(?P<after>\d{1,3})\s*$",
    re.IGNORECASE,
)
_PRODUCTS = frozenset({"ti", "super", "xt", "xtx", "max", "ultra", "pro", "q", "server", "ada"})
"""Words that tell one card from another of the same number."""
_RANGES = ("geforce", "instinct", "tesla", "radeon", "quadro")


def _one(name: str) -> str:
    """In lower case, without a number of cards and what stands in brackets."""
    return counted(re.sub(r"\([^)]*\)", " ", name.lower()))[0]


def counted(name: str) -> tuple[str, int | None]:
    """The name without its number of cards, and that number; None where it states none.

    Examples
    --------
    >>> counted("8x H100 SXM"), counted("4090 x2"), counted("GTX 970")
    (('H100 SXM', 8), ('4090', 2), ('GTX 970', None))
    """
    found = _COUNT.search(name)
    if found is None or name.strip().lower().startswith(CUSTOM):
        return name, None
    return (name[: found.start()] + name[found.end() :]).strip(), int(
        found["before"] or found["after"]
    )


def _key(name: str) -> str:
    """A spelling without vendor, case and separators: "NVIDIA H100 SXM5" -> "h100sxm5"."""
    bare = _one(name)
    for word in (*_MAKERS, *_RANGES):
        bare = bare.replace(word, "")
    return "".join(c for c in bare if c.isalnum())


@cache
def _by_key() -> dict[str, Gpu]:
    return {
        _key(spelling): gpu for gpu in catalogue().values() for spelling in (gpu.name, *gpu.aliases)
    }


@cache
def _entries() -> tuple[Entry, ...]:
    """The catalogue as it is searched. Its vendor, the size of its memory and the kind of its link
    are words that people add."""
    found = []
    for gpu in catalogue().values():
        sold = {f"{round(gpu.memory / unit)}gb" for unit in (1e9, 2**30)}
        facts = {gpu.vendor.lower(), *_RANGES, *spelling.words(gpu.interconnect_kind)[:1], *sold}
        facts |= {"mac", "macbook", "studio", "mini"} if gpu.vendor == "Apple" else set()
        found.append(Entry(gpu.name, gpu.aliases, frozenset(facts)))
    return tuple(found)


def search(text: str) -> list[str]:
    """Names of the GPUs that hold every word of `text`, the best match first; else what is near."""
    found = _by_key().get(_key(text))
    several = spelling.matches(text, _entries()) or spelling.nearest(text, _entries())
    return list(dict.fromkeys([found.name, *several] if found else several))


def find(name: str | Gpu) -> Gpu:
    """The GPU of that name, however spelt; a record passes, one's own numbers are read by `custom`.

    Parameters
    ----------
    name
        "h100_sxm", "NVIDIA H100 SXM5", "2x RTX 3090 PCIe", "custom:8,2500,288", a `Gpu`. What
        stands in brackets and a number of cards (`counted`) are left out; parts of one name do.

    Returns
    -------
    Gpu
        In SI units.

    Raises
    ------
    InputError
        With the names that it may mean, or the nearest, where the catalogue does not have it.

    Examples
    --------
    >>> find("h100").name
    'H100 SXM'
    >>> find("RTX 5090 (400 W cap)").name
    'RTX 5090'
    """
    return name if isinstance(name, Gpu) else _found(str(name))


def _of_size(name: str) -> Gpu | None:
    """A machine that is sold with several sizes of memory, of the size that its name states.

    "Mac Studio M3 Ultra 96GB": Metal gives the GPU two thirds of up to 36 GB, else three quarters.
    """
    stated = re.search(r"\b(\d{1,3}) ?gb\b", name)
    bare = name.replace(stated[0], " ") if stated else ""
    meant = spelling.chosen(bare, _entries(), _PRODUCTS) if stated else None
    if stated is None or meant is None or not catalogue()[meant].unified:
        return None
    gpu, size = catalogue()[meant], float(stated[1])
    if gpu.vendor == "Apple":
        memory = size * 2**30 * (2 / 3 if size <= 36 else 3 / 4)
    else:
        memory = size * 1e9
    return replace(gpu, name=f"{gpu.name} {size:g}GB", memory=memory)


@lru_cache(maxsize=256)
def _found(name: str) -> Gpu:
    if name.strip().lower().startswith(CUSTOM):
        return custom(name.strip())
    known = _by_key()
    if (key := _key(name)) in known:
        return known[key]
    if meant := spelling.chosen(_one(name), _entries(), _PRODUCTS):
        return catalogue()[meant]
    if sized := _of_size(_one(name)):
        return sized
    hint = f"; or its own TB/s, bf16 TFLOP/s and GB, such as {CUSTOM_EXAMPLE}"
    raise spelling.unknown("gpu must be in the catalogue", name, _entries(), hint)
