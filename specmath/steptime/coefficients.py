"""The numbers of the step-time model: name, unit, range, meaning, value and source of each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any, Literal

from specmath import hardware
from specmath.checks import InputError, real
from specmath.hardware import Gpu
from specmath.models import dtype_bytes, dtype_name

__all__ = [
    "FORMATS",
    "Calibration",
    "Coefficients",
    "Definition",
    "Format",
    "assumed",
    "calibration_basis",
    "coefficients_for",
    "definitions",
    "format_of",
    "own_coefficients",
]

Format = Literal["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4"]
"""Kernels that have coefficients of their own: fp8 with one scale a tensor or a row, fp8 with one a
block of 128, nvfp4; mxfp4 and int4 are unpacked to 16 bits on the way."""

# A format takes from the one on its right what was not fitted for itself.
_LIKE: dict[Format, Format] = {
    "fp8": "bf16",
    "fp8_block": "fp8",
    "nvfp4": "fp8",
    "mxfp4": "bf16",
    "int4": "bf16",
}
FORMATS: tuple[Format, ...] = ("bf16", *_LIKE)
# A format as it is stored, where the GPU multiplies in it; elsewhere it is unpacked.
_NATIVE: dict[str, Format] = {"fp8": "fp8", "int8": "fp8", "nvfp4": "nvfp4"}
_UNPACKED: dict[str, Format] = {"mxfp4": "mxfp4", "nvfp4": "mxfp4", "int4": "int4"}


@dataclass(frozen=True)
class Definition:
    """What one coefficient means; `value` is assumed before any fit, `source` says why."""

    meaning: str
    unit: str
    low: float
    high: float
    value: float
    source: str
    fp8_value: float | None = None


@dataclass(frozen=True)
class Coefficients:
    """One GPU's coefficients for kernels of one format; `definitions()` tells each one's unit."""

    linear_launch_us: float
    memory_efficiency: float
    arithmetic_efficiency: float
    overlap: float
    ragged_stall: float
    quantise_efficiency: float
    attention_launch_us: float
    kv_efficiency: float
    cached_mib: float
    cache_speedup: float
    uncached_us: float
    scan_us_per_1000_tokens: float
    attention_arithmetic_efficiency: float
    latent_launch_us: float
    latent_efficiency: float
    latent_arithmetic_efficiency: float
    elementwise_efficiency: float
    kernel_launch_us: float
    all_reduce_us: float
    large_all_reduce_us: float
    link_efficiency: float
    ring_share: float
    exchange_us: float
    expert_launch_us: float
    expert_memory_efficiency: float
    expert_arithmetic_efficiency: float
    expert_overlap: float
    expert_spread: float
    expert_balance: float
    tabled_balance: float
    routing_efficiency: float
    dequantisation_efficiency: float
    eager_kernel_us: float
    step_overhead_us: float

    def __post_init__(self) -> None:
        for name, entry in definitions().items():
            real(name, getattr(self, name), entry.low, entry.high)


@dataclass(frozen=True)
class Calibration:
    """Where a GPU's coefficients come from, and the error to expect of a step.

    `expected_error`, `expected_moe_error`: mean absolute relative error of a step, dense models
    and mixtures of experts, measured with whole models (not calibrated: whole GPUs) held out.
    """

    coefficients: Coefficients
    calibrated: bool
    basis: str
    expected_error: float
    expected_moe_error: float | None


def _read(name: str) -> dict[str, Any]:
    text = resources.files("specmath").joinpath("data", name).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def definitions() -> Mapping[str, Definition]:
    """What each coefficient means, by name."""
    found = {name: Definition(**entry) for name, entry in _read("steptime.toml").items()}
    known = {field.name for field in fields(Coefficients)}
    if known != set(found):
        raise InputError(f"steptime.toml and Coefficients differ in {sorted(known ^ set(found))}")
    return found


@cache
def _fitted() -> dict[str, Any]:
    return _read("steptime_fitted.toml")


def _chain(kernels: Format) -> list[Format]:
    """The formats that one takes coefficients from, its own last."""
    found = [kernels]
    while found[0] in _LIKE:
        found.insert(0, _LIKE[found[0]])
    return found


def assumed(kernels: Format) -> Coefficients:
    """The values before any fit: where a fit starts, and what it is pulled towards."""
    values = {name: entry.value for name, entry in definitions().items()}
    if "fp8" in _chain(kernels):
        own = {name: entry.fp8_value for name, entry in definitions().items()}
        values |= {name: value for name, value in own.items() if value is not None}
    return Coefficients(**values)


def _measured(gpu: str, kernels: Format, experts: bool) -> dict[str, Any] | None:
    """What was fitted to such kernels of that GPU, with its error; None where nothing was."""
    entry: dict[str, Any] = _fitted()["gpu"].get(gpu, {}).get(kernels, {})
    return entry if ("expert_error" if experts else "step_error") in entry else None


@cache
def coefficients_for(gpu: str, kernels: Format) -> Coefficients:
    """The coefficients of a catalogue GPU; the general ones where it is not calibrated."""
    data = _fitted()
    values = {name: getattr(assumed(kernels), name) for name in definitions()}
    for source in (data["general"], data["gpu"].get(gpu, {})):
        for each in _chain(kernels):
            values |= source.get(each, {}).get("values", {})
    return Coefficients(**values)


def own_coefficients(given: Mapping[Format, Coefficients], kernels: Format) -> Coefficients | None:
    """What a user's own fit holds for `kernels`, or for the format that they are most like."""
    for each in reversed(_chain(kernels)):
        if each in given:
            return given[each]
        if each == "fp8":
            break
    return None


def format_of(gpu: Gpu, dtype: str, *, experts: bool = False, blocks: bool = False) -> Format:
    """The kernels that multiply weights stored in `dtype` on `gpu`.

    `blocks`: the weights have one scale a block of 128. Where the GPU does not multiply in
    `dtype`, experts have kernels that unpack 4 bits on the way; all else computes as bf16 does.
    """
    native = _NATIVE.get(dtype) if gpu.computes_in(dtype) else None
    if native == "fp8":
        # Of some GPUs only the block kernels' times of experts can be believed.
        only = experts and not _measured(gpu.name, "fp8", True)
        return "fp8_block" if blocks or (only and _measured(gpu.name, "fp8_block", True)) else "fp8"
    if native is not None:
        return native
    return _UNPACKED.get(dtype, "bf16") if experts else "bf16"


def calibration_basis(
    gpu: str | Gpu, dtype: str = "bf16", *, mixture: bool = False, blocks: bool = False
) -> Calibration:
    """Whether `gpu` is calibrated for weights in `dtype`, on what, and the error to expect.

    `mixture`: most of the weights are experts; `blocks`: one scale a block of 128. The reference
    itself is 6-11% off independent measurements: that comes on top of the errors. A format that
    the GPU only stores, and unpacks to bf16, is not calibrated unless its kernels were measured;
    `.basis` says so. Raises InputError for an unknown GPU or dtype.
    """
    record = hardware.find(gpu)
    size, name = dtype_bytes(dtype), dtype_name(dtype)
    kernels = format_of(record, name, experts=mixture, blocks=blocks)
    data = _fitted()
    own = _measured(record.name, kernels, mixture)
    dense = _measured(record.name, "bf16", False)
    entry = own or data["general"].get(kernels, data["general"]["bf16"])
    if own:
        basis = f"calibrated for {record.name} in {kernels} on {data['source']}"
    else:
        basis = f"no calibration for {record.name} in {kernels}: general coefficients"
        basis += f", {data['median']}"
    stored = kernels != "bf16" or size == 2.0
    if not stored or name == "int8":
        how = "unpacked to bf16" if kernels == "bf16" else f"taken as {kernels}"
        basis += f"; {dtype} is {how}, with no measurement of its own"
    return Calibration(
        coefficients_for(record.name, kernels),
        calibrated=bool(own and dense and stored and name != "int8"),
        basis=basis,
        expected_error=entry.get("step_error", data["general"]["bf16"]["step_error"]),
        expected_moe_error=entry.get("moe_step_error", entry.get("expert_error")),
    )
