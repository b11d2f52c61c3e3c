"""quantization_config: in what format the weights are stored, and which parts are not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specmath.checks import InputError
from specmath.models.dtypes import DTYPE_BYTES, Part, Quantisation
from specmath.models.fields import Fields, cannot_model

__all__ = ["read_quantisation"]

_FIELD = "quantization_config"
_SKIPPED = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
# How a module is named in the lists of what stays in 16 bits.
_NAMED: dict[Part, tuple[str, ...]] = {
    "attention": ("self_attn", "attn", "attention"),
    "experts": ("experts",),
    "shared": ("shared_expert", "shared_experts"),
    "mlp": ("mlp",),
}


def read_quantisation(outer: Fields, fields: Fields, layer_count: int) -> Quantisation | None:
    """The quantisation a config states, or None. Raises InputError for a method not known."""
    raw = outer.raw(_FIELD) or fields.raw(_FIELD) or outer.raw("compression_config")
    if not raw:
        return None
    if not isinstance(raw, Mapping):
        raise InputError(f"{_FIELD} must be a JSON object, got {raw!r}")
    dtype, size = _format(raw)
    return Quantisation(dtype, size, _covered(raw, layer_count))


def _format(raw: Mapping[str, Any]) -> tuple[str, float]:
    """Name and bytes a parameter of the stored weights."""
    method = str(raw.get("quant_method") or raw.get("quant_algo") or "").lower()
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8", DTYPE_BYTES["fp8"]
    if method == "mxfp4":
        return "mxfp4", DTYPE_BYTES["mxfp4"]
    if method in ("awq", "gptq", "auto-round"):
        return _integers(raw.get("bits", 4), raw.get("group_size", 128))
    if method == "modelopt":
        return _modelopt(raw)
    if method == "compressed-tensors":
        return _compressed_tensors(raw)
    if method == "bitsandbytes":
        if raw.get("load_in_4bit"):
            return "int4", (4 + 32 / 64) / 8  # one fp32 absolute maximum a block of 64
        return "int8", DTYPE_BYTES["int8"]
    raise cannot_model(f"quantisation {method or 'without a method'!r}", f"{_FIELD}.quant_method")


def _integers(bits: Any, group: Any) -> tuple[str, float]:
    """Groups of integers, each with a 16-bit scale and a zero point of `bits`."""
    if bits not in (4, 8):
        raise cannot_model(f"{bits}-bit integers", f"{_FIELD}.bits")
    if not isinstance(group, int) or isinstance(group, bool):
        raise InputError(f"{_FIELD}.group_size must be a whole number, got {group!r}")
    overhead = (16 + bits) / group if group > 0 else 0.0
    return f"int{bits}", (bits + overhead) / 8


def _modelopt(raw: Mapping[str, Any]) -> tuple[str, float]:
    algorithm = str(raw.get("quant_algo", "")).upper()
    if algorithm.startswith("NVFP4"):
        return "fp4", DTYPE_BYTES["fp4"]
    if algorithm.startswith("FP8"):
        return "fp8", DTYPE_BYTES["fp8"]
    raise cannot_model(f"quantisation {algorithm!r}", f"{_FIELD}.quant_algo")


def _compressed_tensors(raw: Mapping[str, Any]) -> tuple[str, float]:
    groups = raw.get("config_groups") or {}
    weights = [g.get("weights") or {} for g in groups.values() if isinstance(g, Mapping)]
    forms = {(w.get("num_bits"), w.get("type"), w.get("group_size")) for w in weights}
    if len(forms) != 1:
        raise cannot_model(f"{len(forms)} weight formats in one model", f"{_FIELD}.config_groups")
    bits, kind, group = forms.pop()
    if kind == "float":
        if bits == 8:
            return "fp8", DTYPE_BYTES["fp8"]
        if bits == 4:
            name = "mxfp4" if group == 32 else "fp4"
            return name, DTYPE_BYTES[name]
    return _integers(bits, group or -1)


def _covered(raw: Mapping[str, Any], layer_count: int) -> frozenset[Part]:
    """The parts that are quantised: all linear layers but those listed as left alone.

    A list may name a module once for all layers or once a layer; a part counts as left alone where
    half of the layers or more are named.
    """
    patterns = [str(p) for key in _SKIPPED for p in raw.get(key) or []]
    left: set[Part] = set()
    for part, names in _NAMED.items():
        named: set[str] = set()
        for pattern in patterns:
            words = re.split(r"[^a-z0-9_]+", pattern.lower())
            numbers = re.findall(r"layers\.(\d+)\.", pattern)
            if _names_part(part, names, words):
                named.add(numbers[0] if numbers else "all")
        if "all" in named or len(named) * 2 >= max(layer_count, 1):
            left.add(part)
    parts: set[Part] = {"attention", "mlp", "experts", "shared"}
    return frozenset(parts - left)


def _names_part(part: Part, names: tuple[str, ...], words: list[str]) -> bool:
    if any(word in ("gate", "router") or "norm" in word for word in words):
        return False  # a router or a norm inside the part
    if part == "mlp" and any("expert" in word for word in words):
        return False
    return any(word in names for word in words)
