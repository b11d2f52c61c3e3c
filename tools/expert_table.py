"""Make the stored table of mixture kernels, and the matrix products and layers of latent attention
that coefficients are fitted to, from the operator tables that aiconfigurator-core ships.

    python -m tools.expert_table UNPACKED_WHEEL

where UNPACKED_WHEEL holds `aiconfigurator_core/systems/data` of aiconfigurator-core 0.12.0
(Apache-2.0, NVIDIA; `pip download --no-deps aiconfigurator-core==0.12.0`, then unzip). Writes
specmath/data/expert_kernels.npz, tests/data/matrix_products.csv.gz and
tests/data/latent_attention.csv.gz. Needs pyarrow.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
GPUS = {
    "a100_sxm": "A100 80GB SXM",
    "b200_sxm": "B200 SXM",
    "b300_sxm": "B300 SXM",
    "gb200": "GB200",
    "gb300": "GB300",
    "h100_sxm": "H100 SXM",
    "h200_sxm": "H200 SXM",
    "l40s": "L40S",
    "rtx_pro_6000_server": "RTX PRO 6000 Server",
}
# vLLM 0.24.0's kernels; the A100 was measured with 0.14.0 only.
VERSIONS = {"a100_sxm": "0.14.0"}
FORMATS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4",
    "int4_wo": "int4",
}
# fp8 experts with one scale a tensor are 3-4 times slower than bf16 there: not what a server runs.
NOT_BELIEVED = {("h100_sxm", "fp8"), ("h200_sxm", "fp8")}
ROUTING = "power_law_1.2"
# More slices or groups than a few nodes have, and Nemotron's experts of two matrices, are left out.
MOST_SLICES, MOST_GROUPS, MOST_TOKENS = 8, 32, 16384
UNGATED = {(128, 6, 2688, 1856), (512, 22, 1024, 2688), (512, 22, 2048, 5120)}
UNGATED |= {(512, 22, 4096, 2688), (512, 22, 8192, 5120), (16, 1, 8192, 5120)}
LAYER = ("num_experts", "topk", "hidden_size", "inter_size", "moe_tp_size", "moe_ep_size")

# Matrix products: SGLang's block kernels (vLLM's were timed with the host's launches), and vLLM's
# nvfp4.
PRODUCTS = {
    "fp8_block": ("sglang", "0.5.14", "fp8_block", ("h100_sxm", "h200_sxm", "b200_sxm")),
    "nvfp4": ("vllm", "0.24.0", "nvfp4", ("b200_sxm",)),
}
# Latent attention: SGLang's kernels, a cache in 16 bits; vLLM's are timed with their projections.
LATENT_GPUS, LATENT_VERSION = ("h100_sxm", "h200_sxm", "b200_sxm"), "0.5.14"
LEAST_CONTEXT, LEAST_HEADS = 256, 8
WIDTHS = (1024, 2048, 4096, 6144, 7168, 8192, 16384)
COUNTS = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 512, 1024, 2048, 4096, 8192)


def read(path: Path) -> list[dict[str, Any]]:
    from pyarrow import parquet

    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def expert_series(data: Path) -> dict[tuple[str, str, tuple[int, ...]], dict[int, float]]:
    """Milliseconds by tokens, by GPU, format and layer."""
    found: dict[tuple[str, str, tuple[int, ...]], dict[int, float]] = {}
    for folder, gpu in GPUS.items():
        version = VERSIONS.get(folder, "0.24.0")
        for row in read(data / folder / "moe" / "vllm" / version / "moe_perf.parquet"):
            kernels = FORMATS.get(row["moe_dtype"])
            layer = tuple(row[name] for name in LAYER)
            if kernels is None or row["distribution"] != ROUTING or layer[:4] in UNGATED:
                continue
            if (folder, kernels) in NOT_BELIEVED or row["num_tokens"] > MOST_TOKENS:
                continue
            if layer[4] <= MOST_SLICES and layer[5] <= MOST_GROUPS:
                found.setdefault((gpu, kernels, layer), {})[row["num_tokens"]] = row["latency"]
    return found


def write_experts(data: Path, path: Path) -> None:
    series = dict(sorted(expert_series(data).items()))
    tokens = sorted({count for times in series.values() for count in times})
    gpus = sorted({gpu for gpu, _, _ in series})
    formats = sorted({kernels for _, kernels, _ in series})
    times = [[line.get(count, np.nan) for count in tokens] for line in series.values()]
    np.savez_compressed(
        path,
        source=np.array(
            "aiconfigurator-core 0.12.0, systems/data/*/moe/vllm/*/moe_perf.parquet, "
            f"distribution {ROUTING} (Apache-2.0, NVIDIA)"
        ),
        tokens=np.array(tokens, dtype=np.int32),
        gpus=np.array(gpus),
        formats=np.array(formats),
        gpu=np.array([gpus.index(gpu) for gpu, _, _ in series], dtype=np.int8),
        format=np.array([formats.index(kernels) for _, kernels, _ in series], dtype=np.int8),
        layer=np.array([layer for _, _, layer in series], dtype=np.int32),
        milliseconds=np.array(times, dtype=np.float16),
    )


def write_products(data: Path, path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("gpu", "format", "tokens", "outputs", "inputs", "microseconds"))
    for kernels, (engine, version, name, folders) in PRODUCTS.items():
        for folder in folders:
            for row in read(data / folder / "gemm" / engine / version / "gemm_perf.parquet"):
                sizes = (row["m"], row["n"], row["k"])
                wanted = sizes[0] in COUNTS and sizes[1] in WIDTHS and sizes[2] in WIDTHS
                if row["gemm_dtype"] == name and wanted:
                    taken = f"{row['latency'] * 1e3:.4g}"
                    writer.writerow((GPUS[folder], kernels, *sizes, taken))
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def write_latents(data: Path, path: Path) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("gpu", "heads", "batch", "context", "microseconds"))
    for folder in LATENT_GPUS:
        source = data / folder / "mla" / "sglang" / LATENT_VERSION / "generation_mla_perf.parquet"
        least: dict[tuple[int, int, int], float] = {}
        for row in read(source):
            at = (row["num_heads"], row["batch_size"], row["isl"] + row["step"] - 1)
            wide = at[0] >= LEAST_HEADS and at[2] >= LEAST_CONTEXT
            if row["kv_cache_dtype"] == "bfloat16" and wide:
                least[at] = min(least.get(at, np.inf), row["latency"])
        for at, taken in sorted(least.items()):
            writer.writerow((GPUS[folder], *at, f"{taken * 1e3:.4g}"))
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def main() -> None:
    data = Path(sys.argv[1]) / "aiconfigurator_core" / "systems" / "data"
    write_experts(data, ROOT / "specmath" / "data" / "expert_kernels.npz")
    write_products(data, ROOT / "tests" / "data" / "matrix_products.csv.gz")
    write_latents(data, ROOT / "tests" / "data" / "latent_attention.csv.gz")


if __name__ == "__main__":
    main()
