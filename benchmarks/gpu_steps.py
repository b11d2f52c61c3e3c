"""Step times of 8B and 1B shapes with random weights: batch 1, 8, 32, 128, context 1k and 8k, 1…9
tokens a sequence, bf16.

    python benchmarks/gpu_steps.py --gpu h100_sxm --out gpu_steps.csv

At most five minutes on one GPU: shapes are taken in the order of their use until the time is up,
and the rows say what was reached. The rows are those that `specmath.steptime.calibration` reads,
and are compared with the step-time model of the GPU named. Without a GPU it runs small shapes on
the CPU and says so; it has not met a GPU yet. Forwards run as transformers runs them, kernel by
kernel: at small batches launching them takes longer than in a server that replays CUDA graphs.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specmath import models
from specmath.checks import InputError
from specmath.measure.timing import calibration_rows, time_steps
from specmath.measure.torch_load import random_model

BUDGET_SECONDS = 285
LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_1B = LLAMA_8B | {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
    "tie_word_embeddings": True,
}  # fmt: skip
SMALL = LLAMA_1B | {
    "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1024,
}  # fmt: skip
TINY = SMALL | {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 1,
                "num_attention_heads": 4}  # fmt: skip
GPU_SHAPES = [(batch, context) for context in (1024, 8192) for batch in (1, 8, 32, 128)]
CPU_SHAPES = [(1, 128), (4, 128), (1, 512)]


def timed(name: str, config: dict[str, Any], shapes: list[tuple[int, int]], device: str,
          dtype: str, until: float) -> list[dict[str, Any]]:  # fmt: skip
    """Rows of one model, until the time is up; a shape that does not fit is passed over."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps(config))
        model = random_model(str(file), dtype=dtype, device=device)
    rows = []
    for batch, context in shapes:
        if time.perf_counter() > until:
            print(f"{name}: time is up before batch {batch}, context {context}")
            break
        times = time_steps(
            model, None, gammas=range(1, 9), batches=[batch], contexts=[context],
            rounds=5 if device == "cuda" else 3, warmup=2,
        )  # fmt: skip
        for note in times.notes:
            print(f"{name}: {note}")
        found = calibration_rows(times, model, "", "bf16" if dtype == "bfloat16" else "fp32")
        for row, forward in zip(found, times.forwards, strict=True):
            spread = forward.median
            rows.append(row | {"model": name, "low": spread.low, "high": spread.high})
            print(f"{name} B={batch} L={context} n={forward.tokens}: {1000 * spread.value:.3f} ms "
                  f"[{1000 * spread.low:.3f}, {1000 * spread.high:.3f}]", flush=True)  # fmt: skip
    return rows


def compare(rows: list[dict[str, Any]], configs: dict[str, dict[str, Any]], gpu: str) -> None:
    """Error of the step-time model, before and after calibration to these very rows."""
    from specmath.steptime.calibration import calibrate

    known = {name: models.from_config(config, name) for name, config in configs.items()}
    fits = calibrate([row | {"model": known[row["model"]], "gpu": gpu} for row in rows])
    (fit,) = fits.values()
    print(f"step-time model on {gpu}: mean error {fit.error_before:.1%}")
    print(f"calibrated {fit.error:.1%}, held out {fit.held_out_error or float('nan'):.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", help="name of the GPU in specmath's list, for the comparison")
    parser.add_argument("--out", type=Path, default=Path("gpu_steps.csv"))
    given = parser.parse_args()
    import torch

    begun = time.perf_counter()
    on_gpu = torch.cuda.is_available()
    device, dtype = ("cuda", "bfloat16") if on_gpu else ("cpu", "float32")
    machine = torch.cuda.get_device_name(0) if on_gpu else platform.processor() or "CPU"
    if not on_gpu:
        print("No GPU here: small shapes on the CPU. These rows say nothing about a GPU.")
    configs = {"8b": LLAMA_8B, "1b": LLAMA_1B} if on_gpu else {"small": SMALL, "tiny": TINY}
    rows = []
    for place, (name, config) in enumerate(configs.items()):
        until = begun + BUDGET_SECONDS * (0.7, 1.0)[place]
        try:
            shapes = GPU_SHAPES if on_gpu else CPU_SHAPES
            rows += timed(name, config, shapes, device, dtype, until)
        except InputError as error:
            print(f"{name}: {error}")
        if on_gpu:
            torch.cuda.empty_cache()
    stamp = {"machine": machine, "torch": torch.__version__, "date": datetime.date.today()}
    if rows:
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0], *stamp])
            writer.writeheader()
            writer.writerows(row | stamp for row in rows)
        print(f"{len(rows)} rows in {given.out}, {time.perf_counter() - begun:.0f} s, {machine}")
    if on_gpu and given.gpu and rows:
        compare(rows, configs, given.gpu)


if __name__ == "__main__":
    main()
