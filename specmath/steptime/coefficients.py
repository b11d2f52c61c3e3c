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
from specmath.models import dtype_bytes

__all__ = [
    "Arithmetic",
    "Calibration",
    "Coefficients",
    "Definition",
    "assumed",
    "calibration_basis",
    "coefficients_for",
    "definitions",
]

Arithmetic = Literal["bf16", "fp8"]


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
    """One GPU's coefficients for arithmetic in one dtype; `definitions()` tells each one's unit."""

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
    elementwise_efficiency: float
    kernel_launch_us: float
    all_reduce_us: float
    large_all_reduce_us: float
    link_efficiency: float
    ring_share: float
    expert_launch_us: float
    expert_memory_efficiency: float
    expert_arithmetic_efficiency: float
    expert_spread: float
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


def assumed(arithmetic: Arithmetic) -> Coefficients:
    """The values before any fit: where a fit starts, and what it is pulled towards."""
    values = {name: entry.value for name, entry in definitions().items()}
    if arithmetic == "fp8":
        own = {name: entry.fp8_value for name, entry in definitions().items()}
        values |= {name: value for name, value in own.items() if value is not None}
    return Coefficients(**values)


@cache
def _calibration(gpu: str, arithmetic: Arithmetic) -> Calibration:
    """Own values where the GPU is calibrated; general ones for the rest, and assumed below them."""
    data = _fitted()
    own = data["gpu"].get(gpu, {})
    wanted: tuple[Arithmetic, ...] = ("bf16", "fp8") if arithmetic == "fp8" else ("bf16",)
    values = {name: getattr(assumed(arithmetic), name) for name in definitions()}
    for source in (data["general"], own):
        for dtype in wanted:
            values |= source.get(dtype, {}).get("values", {})
    calibrated = arithmetic in own
    entry = own[arithmetic] if calibrated else data["general"][arithmetic]
    if calibrated:
        basis = f"calibrated for {gpu} in {arithmetic} on {data['source']}"
    else:
        basis = f"no calibration for {gpu} in {arithmetic}: general coefficients, {data['median']}"
    return Calibration(
        Coefficients(**values),
        calibrated,
        basis,
        expected_error=entry["step_error"],
        expected_moe_error=entry.get("moe_step_error"),
    )


def coefficients_for(gpu: str, arithmetic: Arithmetic) -> Coefficients:
    """The coefficients of a catalogue GPU; the general ones where it is not calibrated."""
    return _calibration(gpu, arithmetic).coefficients


def calibration_basis(gpu: str | Gpu, dtype: str = "bf16") -> Calibration:
    """Whether `gpu` is calibrated for weights in `dtype`, on what, and the error to expect.

    The reference itself is 6-11% off independent measurements: that comes on top of the errors.
    Weight-only formats compute in bf16 and have no calibration of their own; `.basis` says so.
    Raises InputError for an unknown GPU or dtype.
    """
    record = hardware.find(gpu)
    size = dtype_bytes(dtype)
    native = size <= 1.0 and dtype in record.peaks
    found = _calibration(record.name, "fp8" if native else "bf16")
    if size == 2.0 or dtype == "fp8":
        return found
    how = "taken as fp8" if native else "unpacked to bf16"
    basis = f"{found.basis}; {dtype} is {how}, with no measurement of its own"
    return Calibration(
        found.coefficients, False, basis, found.expected_error, found.expected_moe_error
    )
