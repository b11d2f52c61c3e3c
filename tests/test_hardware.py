"""The GPU catalogue against what its chips can do, and against the names people type."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from specmath import hardware, models
from specmath.checks import InputError
from specmath.steptime import calibration_basis, step_seconds

# (multiprocessors or compute units, boost clock in GHz, dense 16-bit FLOP a clock each), read in
# the architecture whitepapers (Ampere GA100 and GA102, Hopper, Ada, RTX Blackwell, CDNA 3 and 4):
# the product is an independent way to the datasheet's dense peak. A figure "with sparsity", or one
# with FP16 accumulation, would be off by two.
CHIPS = {
    "H100 SXM": (132, 1.830, 4096),
    "H100 PCIe": (114, 1.620, 4096),
    "H200 SXM": (132, 1.830, 4096),
    "B200 SXM": (148, 1.850, 8192),
    "A100 80GB SXM": (108, 1.410, 2048),
    "A100 80GB PCIe": (108, 1.410, 2048),
    "A100 40GB SXM": (108, 1.410, 2048),
    "L40S": (142, 2.520, 1024),
    "L4": (58, 2.040, 1024),
    "A10G": (80, 1.710, 512),
    "A10": (72, 1.695, 1024),
    "RTX 3090": (82, 1.695, 512),
    "RTX 4090": (128, 2.520, 512),
    "RTX 5090": (170, 2.407, 512),
    "RTX PRO 6000": (188, 2.617, 1024),
    "MI300X": (304, 2.100, 2048),
    "MI355X": (256, 2.400, 4096),
}
# (bus width in bits, Gbit/s a pin): memory bandwidth the same way.
MEMORIES = {
    "A100 40GB SXM": (5120, 2.43),
    "L40S": (384, 18.0),
    "L40": (384, 18.0),
    "L4": (192, 12.5),
    "A10G": (384, 12.5),
    "A10": (384, 12.5),
    "RTX 3090": (384, 19.5),
    "RTX 4090": (384, 21.0),
    "RTX 5090": (512, 28.0),
    "RTX PRO 6000": (512, 28.0),
    "H200 SXM": (6144, 6.25),
    "B200 SXM": (8192, 8.0),
    "MI300X": (8192, 5.2),
    "MI355X": (8192, 8.0),
}
SOLD_AS_GIB = {
    "H100 SXM": 80, "H100 PCIe": 80, "H100 NVL": 94, "H200 SXM": 141, "B200 SXM": 180,
    "A100 80GB SXM": 80, "A100 80GB PCIe": 80, "A100 40GB SXM": 40, "L40S": 48, "L40": 48,
    "L4": 24, "A10G": 24, "A10": 24, "RTX 3090": 24, "RTX 4090": 24, "RTX 5090": 32,
    "RTX PRO 6000": 96, "MI300X": 192, "MI355X": 288,
}  # fmt: skip


@pytest.mark.parametrize("name", CHIPS)
def test_dense_peak_is_units_times_clock_times_width(name):
    units, ghz, flop_a_clock = CHIPS[name]
    assert hardware.find(name).peak("bf16") == pytest.approx(
        units * ghz * 1e9 * flop_a_clock, rel=0.02
    )


@pytest.mark.parametrize("name", MEMORIES)
def test_bandwidth_is_bus_width_times_pin_rate(name):
    bits, gbit = MEMORIES[name]
    # HBM parts are sold at a rounded figure: "8 TB/s" is 8.19.
    assert hardware.find(name).bandwidth == pytest.approx(bits * gbit * 1e9 / 8, rel=0.025)


@pytest.mark.parametrize("name", SOLD_AS_GIB)
def test_memory_is_a_little_less_than_it_is_sold_as(name):
    assert 0.93 <= hardware.find(name).memory / (SOLD_AS_GIB[name] * 2**30) <= 1.0


def test_every_gpu_is_covered_by_an_independent_check():
    assert set(SOLD_AS_GIB) == set(hardware.catalogue())
    assert set(CHIPS) | {"H100 NVL", "L40"} == set(hardware.catalogue())


@pytest.mark.parametrize("gpu", hardware.catalogue().values(), ids=lambda gpu: gpu.name)
def test_entry_is_complete_and_plausible(gpu):
    # FLOP a byte where arithmetic and memory take equally long: all GPUs since 2020 lie here.
    assert 60 <= gpu.peak("bf16") / gpu.bandwidth <= 450
    halved = gpu.peak("bf16")
    for dtype in ("fp8", "fp4"):  # each halving of the operands doubles the rate, or more
        if gpu.computes_in(dtype):
            assert gpu.peak(dtype) >= 1.99 * halved
            halved = gpu.peak(dtype)
    assert gpu.interconnect < gpu.bandwidth
    for field in ("bandwidth", "peaks", "memory", "interconnect", "usd_per_hour"):
        assert gpu.sources[field].strip()
    assert "assumed" in gpu.sources["usd_per_hour"]


def test_nvlink_figures_are_one_direction():
    # Datasheets print both directions together: 600, 900, 900 and 1800 GB/s.
    for name, both in (("A100", 600e9), ("H100", 900e9), ("H200", 900e9), ("B200", 1800e9)):
        assert 2 * hardware.find(name).interconnect == both


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h100_sxm", "H100 SXM"),
        ("h200_sxm", "H200 SXM"),
        ("b200_sxm", "B200 SXM"),
        ("a100_sxm", "A100 80GB SXM"),
        ("l40s", "L40S"),
        ("H100 SXM", "H100 SXM"),
        ("h100", "H100 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB SXM"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_spellings(spelling, name):
    assert hardware.find(spelling).name == name


def test_aliases_are_unambiguous():
    spellings = [
        hardware._key(text)
        for gpu in hardware.catalogue().values()
        for text in {hardware._key(s): s for s in (gpu.name, *gpu.aliases)}.values()
    ]
    assert len(spellings) == len(set(spellings))


def test_a_record_passes_and_is_hashable_and_picklable():
    gpu = hardware.find("h100")
    assert hardware.find(gpu) is gpu
    assert {gpu: 1}[gpu] == 1
    assert pickle.loads(pickle.dumps(gpu)) == gpu


def test_unknown_gpu_offers_the_nearest():
    with pytest.raises(InputError, match=r"got 'h100_sxn'; nearest: H100 SXM"):
        hardware.find("h100_sxn")
    with pytest.raises(InputError, match="H200 SXM"):
        hardware.find("H300")
    with pytest.raises(InputError, match="L40S"):  # nothing near: all of them
        hardware.find("")


def test_a_dtype_the_gpu_lacks_is_refused_with_what_it_has():
    with pytest.raises(InputError, match=r"A100 80GB SXM computes in \(bf16, int8\), got 'fp8'"):
        hardware.find("a100").peak("fp8")
    with pytest.raises(InputError, match="fp4"):
        hardware.find("h100").peak("fp4")
    assert hardware.find("h100").peak("fp16") == hardware.find("h100").peak("bf16")
    assert hardware.find("b200").peak("mxfp4") == 9.0e15


@pytest.mark.parametrize(
    ("field", "value"),
    [("bandwidth", 0.0), ("memory", -1.0), ("interconnect", float("nan")), ("usd_per_hour", -1.0)],
)
def test_a_record_of_ones_own_is_checked(field, value):
    with pytest.raises(InputError, match=f"{field} must be .* got {value}"):
        dataclasses.replace(hardware.find("l4"), **{field: value})


def test_peaks_of_ones_own_are_checked():
    with pytest.raises(InputError, match="at least one dtype"):
        dataclasses.replace(hardware.find("l4"), peaks={})
    with pytest.raises(InputError, match=r"peaks\[bf16\]"):
        dataclasses.replace(hardware.find("l4"), peaks={"bf16": 0.0})


def test_a_gpu_of_ones_own_numbers_is_the_catalogue_gpu_of_those_numbers():
    """An L4 has no calibration either: typed by its numbers it takes the same times."""
    l4 = hardware.find("l4")
    typed = (
        f"{l4.bandwidth / 1e12:.12g}, {l4.peak('bf16') / 1e12:.12g}, "
        f"{l4.memory / 1e9:.12g}, {l4.interconnect / 1e9:.12g}"
    )
    own = hardware.find(f"Custom: {typed}")
    for field in ("bandwidth", "memory", "interconnect"):
        assert getattr(own, field) == pytest.approx(getattr(l4, field), rel=1e-11)
    grid = {"batch": [1, 8, 64], "tokens_per_sequence": 5, "context_tokens": 4096}
    for tp in (1, 2):
        at = grid | {"tensor_parallel": tp}
        expected = step_seconds(models.find("Llama-3.1-8B"), l4, **at)
        assert step_seconds(models.find("Llama-3.1-8B"), own, **at) == pytest.approx(expected)
    assert not calibration_basis(own).calibrated
    assert hardware.find(own.name) == own, "its name says it all: it survives a link and a file"
    assert own.interconnect_kind == "as given"


def test_what_is_assumed_of_a_gpu_of_ones_own_numbers_is_said():
    own = hardware.find("custom:8,2500,288")
    assert (own.bandwidth, own.memory, own.peaks["bf16"]) == (8e12, 288e9, 2500e12)
    assert own.peaks["fp8"] == 5000e12
    assert own.interconnect == 800e9
    for field in ("interconnect", "usd_per_hour", "peaks"):
        assert "assumed" in own.sources[field]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("custom:8,2500", ["bandwidth in TB/s, bf16 TFLOP/s, memory in GB", "'custom:8,2500'"]),
        ("custom:8,2500,288,800,9", ["custom:8,2500,288"]),
        ("custom:8,2500,big", ["memory in GB must be a number", "'big'"]),
        ("custom:8,2500,", ["memory in GB must be a number", "''"]),
        ("custom:8000,2500,288", ["bandwidth in TB/s", "8000", "<= 1000"]),
        ("custom:0,2500,288", ["bandwidth in TB/s", ">= 0.01"]),
        ("custom:8,nan,288", ["bf16 TFLOP/s", "nan"]),
        ("custom:8,2500,-1", ["memory in GB", "-1"]),
        ("custom:8,2500,288,0", ["interconnect in GB/s", "0"]),
        ("GB300", ["'GB300'", "nearest: B200 SXM", "custom:8,2500,288"]),
    ],
)
def test_wrong_numbers_of_ones_own_are_named(text, words):
    with pytest.raises(InputError) as error:
        hardware.find(text)
    assert all(word in str(error.value) for word in words), str(error.value)
