"""quantization_config: in what format the weights are stored, and which parts are not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specmath.checks import InputError
from specmath.models.config_fields import Fields, cannot_model
from specmath.models.dtypes import DTYPE_BYTES, Part, Quantisation

__all__ = ["read_quantisation"]

_FIELD = "quantization_config"
_SKIPPED = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
_ATTENTION = {"self_attn", "attn", "linear_attn", "q_proj", "k_proj", "v_proj", "o_proj"}
_SHARED = {"shared_expert", "shared_experts"}
_FEED_FORWARD: frozenset[Part] = frozenset({"mlp", "experts", "shared"})


def read_quantisation(fields: Fields, layer_count: int) -> Quantisation | None:
    """The quantisation a config states, or None. Raises InputError for a method not known."""
    raw = fields.raw(_FIELD, "compression_config")
    if not raw:
        return None
    if not isinstance(raw, Mapping):
        raise InputError(f"{_FIELD} must be a JSON object, got {raw!r}")
    dtype, size = _format(raw)
    return Quantisation(dtype, size, _covered(raw, layer_count))


def _format(raw: Mapping[str, Any]) -> tuple[str, float]:
    """Name and bytes a parameter of the stored weights."""
    method = str(raw.get("quant_method") or "").lower()
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8", DTYPE_BYTES["fp8"]
    if method == "mxfp4":
        return "mxfp4", DTYPE_BYTES["mxfp4"]
    if method in ("awq", "gptq", "auto-round"):
        return _integers(raw.get("bits", 4), raw.get("group_size", 128))
    if method == "modelopt":
        return _modelopt(str(raw.get("quant_algo", "")).upper())
    if method == "compressed-tensors":
        return _compressed_tensors(raw)
    if method == "bitsandbytes":
        if raw.get("load_in_4bit"):
            return "int4", (4 + 32 / 64) / 8  # one fp32 absolute maximum a block of 64
        return "int8", DTYPE_BYTES["int8"]
    raise cannot_model(f"weights quantised by {method or 'no'} method", f"{_FIELD}.quant_method")


def _integers(bits: Any, group: Any) -> tuple[str, float]:
    """Groups of integers, each with a 16-bit scale and a zero point of `bits`; -1: no groups."""
    if bits not in (4, 8):
        raise cannot_model(f"{bits}-bit integer weights", f"{_FIELD}.bits")
    if not isinstance(group, int) or isinstance(group, bool) or group == 0:
        raise InputError(f"{_FIELD}.group_size must be a whole number > 0, or -1, got {group!r}")
    overhead = (16 + bits) / group if group > 0 else 0.0
    return f"int{bits}", (bits + overhead) / 8


def _modelopt(algorithm: str) -> tuple[str, float]:
    for prefix, dtype in (("NVFP4", "fp4"), ("FP8", "fp8")):
        if algorithm.startswith(prefix):
            return dtype, DTYPE_BYTES[dtype]
    raise cannot_model(f"weights quantised as {algorithm or 'nothing'}", f"{_FIELD}.quant_algo")


def _compressed_tensors(raw: Mapping[str, Any]) -> tuple[str, float]:
    groups = raw.get("config_groups") or {}
    weights = [g.get("weights") or {} for g in groups.values() if isinstance(g, Mapping)]
    forms = {(w.get("num_bits"), w.get("type"), w.get("group_size")) for w in weights}
    if len(forms) != 1:
        raise cannot_model(f"{len(forms)} weight formats in one model", f"{_FIELD}.config_groups")
    bits, kind, group = forms.pop()
    if kind == "float" and bits in (4, 8):
        name = "fp8" if bits == 8 else ("mxfp4" if group == 32 else "fp4")
        return name, DTYPE_BYTES[name]
    return _integers(bits, group or -1)


def _covered(raw: Mapping[str, Any], layer_count: int) -> frozenset[Part]:
    """The parts that are quantised: all linear layers but those listed as left alone.

    A list names a module once for all layers or once a layer; a part counts as left alone where
    at least half of the layers are named.
    """
    named: dict[Part, set[str]] = {"attention": set(), "mlp": set(), "experts": set()}
    named["shared"] = set()
    for pattern in (text.lower() for key in _SKIPPED for text in _patterns(raw, key)):
        layer = re.search(r"layers\.(\d+)\.", pattern)
        for part in _parts_named(re.findall(r"[a-z0-9_]+", pattern)):
            named[part].add(layer.group(1) if layer else "all")
    return frozenset(
        part
        for part, layers in named.items()
        if "all" not in layers and 2 * len(layers) < layer_count
    )


def _patterns(raw: Mapping[str, Any], key: str) -> list[str]:
    value = raw.get(key) or []
    if not isinstance(value, list):
        raise InputError(f"{_FIELD}.{key} must be a list of module names, got {value!r}")
    return [str(entry) for entry in value]


def _parts_named(words: list[str]) -> frozenset[Part]:
    """The parts that a pattern like "model.layers.*.mlp.shared_experts" leaves alone."""
    if any("norm" in word for word in words) or "router" in words:
        return frozenset()
    if "gate" in words and not any("proj" in word for word in words):
        return frozenset()  # the router of most mixtures
    if _ATTENTION.intersection(words):
        return frozenset({"attention"})
    if _SHARED.intersection(words):
        return frozenset({"shared"})
    if "experts" in words:
        return frozenset({"experts"})
    if words and words[-1] == "mlp":
        return _FEED_FORWARD
    return frozenset({"mlp"}) if "mlp" in words else frozenset()
