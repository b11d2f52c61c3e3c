"""The calibrated numbers of the step-time model: name, unit, range, value and source of each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import resources
from typing import Any

from specmath import hardware
from specmath.checks import InputError, real
from specmath.hardware import Gpu
from specmath.models import dtype_bytes

__all__ = ["Calibration", "Coefficients", "calibration_basis", "coefficients_for", "ranges"]


@dataclass(frozen=True)
class Coefficients:
    """One GPU's coefficients for one arithmetic dtype; units and ranges are in the data file."""

    linear_launch_us: float
    memory_efficiency: float
    arithmetic_efficiency: float
    overlap: float
    tile_tokens: float
    ragged_loss: float
    quantise_efficiency: float
    attention_launch_us: float
    kv_efficiency: float
    cached_mib: float
    cache_speedup: float
    scan_us_per_1000_tokens: float
    attention_arithmetic_efficiency: float
    elementwise_efficiency: float
    kernel_launch_us: float
    all_reduce_us: float
    large_all_reduce_us: float
    link_efficiency: float
    expert_launch_us: float
    expert_memory_efficiency: float
    expert_arithmetic_efficiency: float
    expert_spread: float
    expert_tile_tokens: float
    dequantisation_efficiency: float
    eager_kernel_us: float

    def __post_init__(self) -> None:
        for name, entry in ranges().items():
            real(name, getattr(self, name), entry["low"], entry["high"])


@dataclass(frozen=True)
class Calibration:
    """Where a GPU's coefficients come from, and the error to expect of a step."""

    coefficients: Coefficients
    basis: str
    expected_error: float
    calibrated: bool


@lru_cache
def _data() -> dict[str, Any]:
    text = resources.files("specmath").joinpath("data/steptime.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@lru_cache
def ranges() -> Mapping[str, Mapping[str, Any]]:
    """For each coefficient its unit, lowest and highest value, and meaning."""
    entries: dict[str, dict[str, Any]] = _data()["coefficient"]
    known = {field.name for field in fields(Coefficients)}
    if known != set(entries):
        raise InputError(f"steptime.toml and Coefficients differ in {known ^ set(entries)}")
    return entries


def coefficients_for(gpu: str, dtype: str) -> Coefficients:
    """The coefficients of a catalogue GPU for arithmetic in "bf16" or "fp8"."""
    return _calibration(gpu, dtype).coefficients


@lru_cache
def _calibration(gpu: str, dtype: str) -> Calibration:
    """Own values where the GPU is calibrated for the dtype; the general ones for the rest."""
    data = _data()
    if dtype not in ("bf16", "fp8"):
        raise InputError(f"dtype must be one of bf16, fp8, got {dtype!r}")
    general = {**data["general"]["bf16"], **(data["general"]["fp8"] if dtype == "fp8" else {})}
    own = data["gpu"].get(gpu, {})
    entry = {**own.get("bf16", {}), **(own.get("fp8", {}) if dtype == "fp8" else {})}
    calibrated = dtype in own
    values = {**general, **{k: v for k, v in entry.items() if k in ranges()}}
    if calibrated:
        error = float(own[dtype]["held_out_error"])
        basis = f"{gpu}, {dtype}: calibrated; {data['source']}"
    else:
        error = float(data["general"]["error"])
        basis = f"{gpu}, {dtype}: not calibrated, general coefficients"
    return Calibration(Coefficients(**values), basis, error, calibrated)


def calibration_basis(gpu: str | Gpu, dtype: str = "bf16") -> Calibration:
    """Whether `gpu` is calibrated for weights in `dtype`, on what, and the error to expect.

    `.basis` says it in words; `.expected_error` is the mean absolute relative error of a step:
    with whole models held out where calibrated, with the whole GPU held out otherwise. The
    reference itself is 6-11% off independent measurements; that comes on top.
    """
    record = hardware.find(gpu)
    arithmetic = "fp8" if dtype_bytes(dtype) <= 1 and dtype in record.peaks else "bf16"
    return _calibration(record.name, arithmetic)
