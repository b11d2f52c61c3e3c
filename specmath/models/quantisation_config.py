"""quantization_config: in what format weights and cache are stored, and which parts are not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, StrictInt, TypeAdapter

from specmath.checks import InputError
from specmath.foreign import of_type
from specmath.models.config_fields import Fields, Name, cannot_model
from specmath.models.dtypes import DTYPE_BYTES, Part, Quantisation

__all__ = ["read_kv_dtype", "read_quantisation"]

_FIELD = "quantization_config"
# Methods that say nothing but the format.
_FORMATS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4"}
# The words by which a pattern means a part; the first part that is met counts.
_MARKS: dict[Part, set[str]] = {
    "attention": {"self_attn", "attn", "linear_attn", "q_proj", "k_proj", "v_proj", "o_proj"},
    "shared": {"shared_expert", "shared_experts"},
    "experts": {"experts"},
}
_FEED_FORWARD: frozenset[Part] = frozenset({"mlp", "experts", "shared"})
# Families whose "mlp" is the dense network beside the experts.
_DENSE_BESIDE = ("gemma4",)


class _Weights(BaseModel):
    num_bits: StrictInt | None = None
    type: Name | None = None
    group_size: StrictInt | None = None
    symmetric: bool = False


class _Group(BaseModel):
    weights: _Weights | None = None
    targets: list[Name] | None = None


class _Layer(BaseModel):
    quant_algo: Name | None = None


class _Method(BaseModel):
    """The fields that are used, of every method's."""

    quant_method: Name | None = None
    bits: StrictInt | None = None
    group_size: StrictInt | None = None
    quant_algo: Name | None = None
    kv_cache_quant_algo: Name | None = None
    kv_cache_scheme: _Weights | None = None
    load_in_4bit: bool | None = None
    config_groups: dict[str, _Group] | None = None
    quantized_layers: dict[str, _Layer] | None = None
    modules_to_not_convert: list[Name] | None = None
    ignored_layers: list[Name] | None = None
    ignore: list[Name] | None = None
    exclude_modules: list[Name] | None = None


_METHOD = TypeAdapter(_Method)
Format = tuple[str, float]  # name, and bytes a parameter


def _stated(fields: Fields) -> _Method | None:
    raw = fields.raw(_FIELD, "compression_config")
    return of_type(_METHOD, _FIELD, raw) if raw else None


def read_kv_dtype(fields: Fields) -> str | None:
    """The format of the cache that the checkpoint declares, "fp8" or "int8"; None: none."""
    stated = _stated(fields)
    if stated is None:
        return None
    if scheme := stated.kv_cache_scheme:
        eight = {"float": "fp8", "int": "int8"}
        return eight.get(scheme.type or "") if scheme.num_bits == 8 else None
    return {"FP8": "fp8", "INT8": "int8"}.get((stated.kv_cache_quant_algo or "").upper())


def read_quantisation(
    fields: Fields, layer_count: int, sizes: dict[Part, int]
) -> Quantisation | None:
    """The quantisation a config states, or None; `sizes`: parameters by part.

    Raises InputError for a method not known.
    """
    stated = _stated(fields)
    if stated is None:
        return None
    if formats := _formats_by_module(stated):
        return _mixed(formats, sizes, fields.family)
    dtype, size = _format(stated)
    return Quantisation(dtype, size, _covered(stated, layer_count, fields.family))


def _format(stated: _Method) -> Format:
    """Name and bytes a parameter of the stored weights."""
    method = (stated.quant_method or ("modelopt" if stated.quant_algo else "")).lower()
    if method in _FORMATS:
        return _FORMATS[method], DTYPE_BYTES[_FORMATS[method]]
    if method in ("awq", "gptq", "auto-round"):
        return _integers(stated.bits, stated.group_size)
    if method == "modelopt":
        return _algorithm(stated.quant_algo)
    if method == "compressed-tensors":
        forms = {_weights_format(g.weights or _Weights()) for g in _groups(stated)}
        if len(forms) != 1:
            raise cannot_model(
                f"{len(forms)} weight formats in one model", f"{_FIELD}.config_groups"
            )
        return forms.pop()
    if method == "bitsandbytes":
        if stated.load_in_4bit:
            return "int4", (4 + 32 / 64) / 8  # one fp32 absolute maximum a block of 64
        return "int8", DTYPE_BYTES["int8"]
    raise cannot_model(f"weights quantised by {method or 'no'} method", f"{_FIELD}.quant_method")


def _algorithm(said: str | None) -> Format:
    """NVIDIA's names: FP8, NVFP4, W4A16_NVFP4, W4A16_AWQ, W4A8_AWQ."""
    name = (said or "").upper()
    for part, dtype in (("NVFP4", "nvfp4"), ("MXFP4", "mxfp4"), ("W4A", "int4"), ("FP8", "fp8")):
        if part in name:
            return dtype, DTYPE_BYTES[dtype]
    raise cannot_model(f"weights quantised as {name or 'nothing'}", f"{_FIELD}.quant_algo")


def _integers(bits: int | None, group: int | None) -> Format:
    """Groups of integers, each with a 16-bit scale and a zero point of `bits`; -1: no groups.
    Not given: 4 bits in groups of 128."""
    bits, group = 4 if bits is None else bits, 128 if group is None else group
    if bits not in (4, 8):
        raise cannot_model(f"{bits}-bit integer weights", f"{_FIELD}.bits")
    if group == 0:
        raise InputError(f"{_FIELD}.group_size must be a whole number > 0, or -1, got {group!r}")
    overhead = (16 + bits) / group if group > 0 else 0.0
    return f"int{bits}", (bits + overhead) / 8


def _groups(stated: _Method) -> Iterable[_Group]:
    return (stated.config_groups or {}).values()


def _weights_format(weights: _Weights) -> Format:
    bits, group = weights.num_bits, weights.group_size
    if weights.type == "float" and bits in (4, 8):
        name = "fp8" if bits == 8 else ("mxfp4" if group == 32 else "nvfp4")
        return name, DTYPE_BYTES[name]
    name, size = _integers(bits or 0, group or -1)
    # Symmetric ones store no zero point.
    return name, size - (bits or 0) / group / 8 if weights.symmetric and group else size


def _formats_by_module(stated: _Method) -> list[tuple[str, Format]]:
    """(module, format) of a checkpoint in several formats; empty where it has one for all."""
    if stated.quantized_layers:
        layers = stated.quantized_layers.items()
        return [(name, _algorithm(layer.quant_algo)) for name, layer in layers]
    groups = [(_weights_format(g.weights), g.targets or ()) for g in _groups(stated) if g.weights]
    if len({found for found, _ in groups}) < 2:
        return []
    return [(name, found) for found, targets in groups for name in targets]


def _mixed(formats: list[tuple[str, Format]], sizes: dict[Part, int], family: str) -> Quantisation:
    """Each part in the format of most of its modules; all together at their mean size, under the
    name of the format that holds most bytes."""
    votes: dict[Part, Counter[Format]] = {}
    for module, found in formats:
        for part in _parts_named(re.findall(r"[a-z0-9_]+", module.lower()), family):
            votes.setdefault(part, Counter())[found] += 1
    chosen = {part: v.most_common(1)[0][0] for part, v in votes.items() if sizes.get(part)}
    if not chosen:
        raise cannot_model("several weight formats, of modules not known", _FIELD)
    held: Counter[str] = Counter()
    for part, (dtype, size) in chosen.items():
        held[dtype] += round(size * sizes[part])
    mean = sum(held.values()) / sum(sizes[part] for part in chosen)
    return Quantisation(held.most_common(1)[0][0], mean, frozenset(chosen))


def _covered(stated: _Method, layer_count: int, family: str) -> frozenset[Part]:
    """The parts that are quantised: all linear layers but those listed as left alone.

    A list names a module once for all layers or once a layer; a part counts as left alone where
    at least half of the layers are named.
    """
    named: dict[Part, set[str]] = {part: set() for part in ("attention", *_FEED_FORWARD)}
    listed = (
        stated.modules_to_not_convert, stated.ignored_layers, stated.ignore, stated.exclude_modules
    )  # fmt: skip
    for pattern in (text.lower() for names in listed for text in names or ()):
        layer = re.search(r"layers\.(\d+)\.", pattern)
        for part in _parts_named(re.findall(r"[a-z0-9_]+", pattern), family):
            if part in named:
                named[part].add(layer.group(1) if layer else "all")
    return frozenset(
        part
        for part, layers in named.items()
        if "all" not in layers and 2 * len(layers) < layer_count
    )


def _parts_named(words: list[str], family: str) -> frozenset[Part]:
    """The parts that a pattern like "model.layers.*.mlp.shared_experts" means."""
    if any("norm" in word or "index" in word for word in words) or "router" in words:
        return frozenset()  # too small to decide a part
    if "lm_head" in words:
        return frozenset({"head"})
    if "gate" in words and not any("proj" in word for word in words):
        return frozenset()  # the router of most mixtures
    for part, marks in _MARKS.items():
        if marks.intersection(words):
            return frozenset({part})
    if family in _DENSE_BESIDE and "mlp" in words:
        return frozenset({"mlp", "shared"})
    if words and words[-1] == "mlp":
        return _FEED_FORWARD
    return frozenset({"mlp"}) if "mlp" in words else frozenset()
