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
    "H200 NVL": (132, 1.545, 4096),
    "GH200": (132, 1.830, 4096),
    "B300 SXM": (148, 1.850, 8192),
    "A100 40GB PCIe": (108, 1.410, 2048),
    "A30": (56, 1.440, 2048),
    "A40": (84, 1.740, 1024),
    "L40": (142, 2.490, 512),
    "V100 SXM2 32GB": (80, 1.530, 1024),
    "T4": (40, 1.590, 1024),
    "P40": (30, 1.531, 256),
    "RTX PRO 6000 Max-Q": (188, 2.280, 1024),
    "RTX 6000 Ada": (142, 2.505, 1024),
    "RTX A6000": (84, 1.800, 1024),
    "RTX 5080": (84, 2.617, 512),
    "RTX 5070 Ti": (70, 2.452, 512),
    "RTX 5060 Ti 16GB": (36, 2.572, 512),
    "RTX 4080": (76, 2.505, 512),
    "RTX 4080 SUPER": (80, 2.550, 512),
    "RTX 4070 Ti SUPER": (66, 2.610, 512),
    "RTX 4060 Ti 16GB": (34, 2.535, 512),
    "RTX 3090 Ti": (84, 1.860, 512),
    "RTX 3080": (68, 1.710, 512),
    "RTX 3060 12GB": (28, 1.777, 512),
    "MI210": (104, 1.700, 1024),
    "MI250X": (220, 1.700, 1024),
    "MI300A": (228, 2.100, 2048),
    "MI325X": (304, 2.100, 2048),
    "MI350X": (256, 2.200, 4096),
    "RX 7900 XTX": (96, 2.498, 512),
    "RX 7900 XT": (84, 2.394, 512),
    "RX 9070 XT": (64, 2.970, 1024),
    "R9700 AI PRO": (64, 2.920, 1024),
    "W7900": (96, 2.495, 512),
    "Strix Halo": (40, 2.900, 512),
    "Apple M1": (8, 1.278, 256),
    "Apple M2 Max": (38, 1.398, 256),
    "Apple M4 Max": (40, 1.800, 256),
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
    "B200 SXM": (7680, 8.0),
    "MI300X": (8192, 5.2),
    "MI355X": (8192, 8.0),
    "H200 NVL": (6144, 6.25),
    "A40": (384, 14.5),
    "A30": (3072, 2.43),
    "T4": (256, 10.0),
    "P40": (384, 7.2),
    "RTX PRO 6000 Server": (512, 25.0),
    "RTX PRO 6000 Max-Q": (512, 28.0),
    "RTX 6000 Ada": (384, 20.0),
    "RTX A6000": (384, 16.0),
    "RTX 5080": (256, 30.0),
    "RTX 5070 Ti": (256, 28.0),
    "RTX 5060 Ti 16GB": (128, 28.0),
    "RTX 4080": (256, 22.4),
    "RTX 4080 SUPER": (256, 23.0),
    "RTX 4070 Ti SUPER": (256, 21.0),
    "RTX 4060 Ti 16GB": (128, 18.0),
    "RTX 3090 Ti": (384, 21.0),
    "RTX 3080": (320, 19.0),
    "RTX 3060 12GB": (192, 15.0),
    "DGX Spark": (256, 8.533),
    "Jetson AGX Thor": (256, 8.533),
    "Jetson AGX Orin 64GB": (256, 6.4),
    "MI210": (4096, 3.2),
    "MI250X": (8192, 3.2),
    "MI325X": (8192, 6.0),
    "MI350X": (8192, 8.0),
    "RX 7900 XTX": (384, 20.0),
    "RX 7900 XT": (320, 20.0),
    "RX 9070 XT": (256, 20.0),
    "R9700 AI PRO": (256, 20.0),
    "W7900": (384, 18.0),
    "Strix Halo": (256, 8.0),
    "Arc B580": (192, 19.0),
    "Arc Pro B60": (192, 19.0),
    "Arc Pro B70": (256, 19.0),
    "Apple M4 Max": (512, 8.533),
    "Apple M3 Ultra": (1024, 6.4),
    "Apple M2 Ultra": (1024, 6.4),
    "Apple M5": (128, 9.6),
    "EPYC 9654": (768, 4.8),
    "EPYC 9755": (768, 6.4),
    "Xeon 6980P": (768, 8.8),
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


def test_most_gpus_are_covered_by_an_independent_check():
    """The rest are chips whose clocks their makers do not print."""
    catalogue = hardware.catalogue()
    assert set(CHIPS) | set(MEMORIES) | set(SOLD_AS_GIB) <= set(catalogue)
    assert len(set(CHIPS) | set(MEMORIES)) >= 0.65 * len(catalogue)


@pytest.mark.parametrize("gpu", hardware.catalogue().values(), ids=lambda gpu: gpu.name)
def test_entry_is_complete_and_plausible(gpu):
    # FLOP a byte where arithmetic and memory take equally long: from processors and Macs without
    # matrix units to AMX, TPUs and Thor.
    assert 25 <= gpu.peak("bf16") / gpu.bandwidth <= 1000
    halved = gpu.peak("bf16")
    for dtype in ("fp8", "fp4"):  # fewer bits are never slower
        if gpu.computes_in(dtype):
            assert gpu.peak(dtype) >= halved
            halved = gpu.peak(dtype)
    assert gpu.interconnect < gpu.bandwidth
    assert gpu.engines
    for field in ("bandwidth", "peaks", "memory", "interconnect", "usd_per_hour"):
        assert gpu.sources[field].strip()
    assert ("assumed" in gpu.sources["usd_per_hour"]) == (gpu.usd_per_hour is not None)


def test_eight_bits_are_not_twice_as_fast_everywhere():
    ratio = {n: g.peak("fp8") / g.peak("bf16") for n, g in hardware.catalogue().items()
             if g.computes_in("fp8")}  # fmt: skip
    assert {n for n, r in ratio.items() if r == 1} >= {"Gaudi 3", "TPU v5p", "TPU v6e"}
    assert not {"A100 80GB SXM", "RTX 3090", "RX 7900 XTX", "Arc B580", "Apple M4 Max"} & set(ratio)


def test_a_gpu_without_a_link_is_one_gpu():
    mac = hardware.find("M3 Ultra")
    assert mac.interconnect == 0
    mac.require_link(1)
    with pytest.raises(InputError, match=r"tensor_parallel must be 1 on Apple M3 Ultra.*got 2"):
        step_seconds(models.find("Llama-3.1-8B"), mac, batch=1, tokens_per_sequence=1,
                     context_tokens=512, tensor_parallel=2)  # fmt: skip
    one = step_seconds(models.find("Llama-3.1-8B"), mac, batch=1, tokens_per_sequence=1,
                       context_tokens=512)  # fmt: skip
    assert float(one) > models.find("Llama-3.1-8B").weight_bytes() * 0.9 / mac.bandwidth


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
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Server"),
        ("A100-SXM4-80GB", "A100 80GB SXM"),
        ("A100-PCIE-40GB", "A100 40GB PCIe"),
        ("RTX 5090 (400 W cap)", "RTX 5090"),
        ("2x RTX 3090 PCIe", "RTX 3090"),
        ("8xH100", "H100 SXM"),
        ("RTX 3090 24GB", "RTX 3090"),
        ("M3 Ultra", "Apple M3 Ultra"),
        ("Mac Studio M2 Ultra", "Apple M2 Ultra"),
        ("NVIDIA GB10", "DGX Spark"),
        ("Ryzen AI Max+ 395", "Strix Halo"),
        ("AMD Radeon AI PRO R9700", "R9700 AI PRO"),
        ("a6000", "RTX A6000"),
        ("H20", "H20"),
        ("GB300", "GB300"),
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
    with pytest.raises(InputError, match=r"nearest: .*H200 SXM"):
        hardware.find("H300")
    with pytest.raises(InputError, match=r"got ''; it holds 95, such as H100 SXM"):
        hardware.find("")


@pytest.mark.parametrize(
    ("text", "may_mean"),
    [("RTX 4070 Ti", "RTX 4070 Ti SUPER"), ("RX 9070", "RX 9070 XT"), ("RTX 5070", "RTX 5070 Ti"),
     ("7900", "RX 7900 XTX, RX 7900 XT"), ("MI300", "MI300X, MI300A"),
     ("RTX 6000", "RTX PRO 6000, RTX 6000 Ada")],
)  # fmt: skip
def test_a_part_that_several_cards_or_another_card_have_is_asked_back(text, may_mean):
    with pytest.raises(InputError, match=f"got '{text}'; it may mean: {may_mean}"):
        hardware.find(text)


def test_a_machine_sold_with_several_sizes_of_memory():
    """Metal lets the GPU use two thirds of up to 36 GB and three quarters of more."""
    small, large = hardware.find("Apple M4 16GB"), hardware.find("Mac Studio M3 Ultra 96GB (Metal)")
    assert small.memory == pytest.approx(16 * 2**30 * 2 / 3)
    assert large.memory == pytest.approx(96 * 2**30 * 3 / 4)
    assert large.bandwidth == hardware.find("M3 Ultra").bandwidth
    assert hardware.find(large.name) == large
    assert hardware.find("Strix Halo 64 GB").memory == 64e9
    assert hardware.find("Apple M4 32GB").memory == pytest.approx(hardware.find("M4").memory)
    with pytest.raises(InputError, match="nearest: RTX 4090"):
        hardware.find("RTX 4090 48GB")


def test_search_by_any_part():
    assert hardware.search("3090") == ["RTX 3090", "RTX 3090 Ti"]
    assert hardware.search("m4") == ["Apple M4", "Apple M4 Pro", "Apple M4 Max"]
    assert set(hardware.search("blackwell server")) == {"RTX PRO 6000 Server"}
    assert hardware.search("h100_sxn")[0] == "H100 SXM"


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
        ("GB400", ["'GB400'", "nearest: GB200", "custom:8,2500,288"]),
    ],
)
def test_wrong_numbers_of_ones_own_are_named(text, words):
    with pytest.raises(InputError) as error:
        hardware.find(text)
    assert all(word in str(error.value) for word in words), str(error.value)
