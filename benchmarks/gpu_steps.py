"""c and v of an 8B with a 1B at random weights, three ways, beside the step-time model.

    python benchmarks/gpu_steps.py --gpu h200 --out gpu_steps.csv     under 8 minutes on one GPU
    python benchmarks/gpu_steps.py --tiny                             seconds, on a processor

For each batch and context, bf16, 1 to 9 tokens a sequence:

- `eager`: forwards as transformers runs them, kernel by kernel: what `specmath measure` times;
- `draws`: the same with the draws on the device (batch 1): what a step of the loop adds;
- `captured`: a step as a server runs it, one CUDA graph (benchmarks/captured_step.py);
- `model`: `specmath.steptime` for the GPU named.

Shapes are taken in the order of their use until the time is up; rows are written after each, so
that what is done is kept. `captured` rows are what `specmath.steptime.calibration` reads. It has
not met a GPU yet; on a processor nothing is captured, and the rows say nothing about a GPU.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.captured_step import CapturedStep
from specmath import models
from specmath.checks import InputError
from specmath.measure.draws import Proposal
from specmath.measure.language_model import Sampling
from specmath.measure.memory import out_of_memory
from specmath.measure.timing import StepTimes, median_interval, time_steps
from specmath.measure.torch_model import TorchModel, random_model
from specmath.outfile import write_file
from specmath.steptime import step_seconds
from specmath.steptime.calibration import calibrate

BUDGET_SECONDS = 420
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
TINY_TARGET = LLAMA_1B | {
    "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
}  # fmt: skip
TINY_DRAFT = TINY_TARGET | {"num_hidden_layers": 1}
SHAPES = [(1, 1024), (8, 1024), (32, 1024), (1, 8192), (8, 8192), (128, 1024), (32, 8192)]
GAMMAS = (1, 2, 3, 4, 5, 8)

Row = dict[str, Any]


def built(config: dict[str, Any], device: str, dtype: str) -> TorchModel:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps(config))
        return random_model(str(file), dtype=dtype, device=device)


def seconds_of(call: Callable[[], object], finish: Callable[[], None], rounds: int) -> Any:
    """Median of `rounds` with its interval, after two that warm up."""
    spent = []
    for _ in range(rounds + 2):
        finish()
        begun = time.perf_counter()
        call()
        finish()
        spent.append(time.perf_counter() - begun)
    return median_interval(np.array(spent[2:]))


def row(name: str, how: str, batch: int, tokens: int, context: int, found: Any) -> Row:
    return {
        "model": name, "how": how, "batch": batch, "tokens_per_seq": tokens, "context": context,
        "seconds": found.value, "low": found.low, "high": found.high,
    }  # fmt: skip


def eager_rows(times: StepTimes) -> list[Row]:
    return [row(t.model, "eager", t.batch, t.tokens, t.context, t.median) for t in times.forwards]


def draw_rows(target: TorchModel, context: int, rounds: int) -> list[Row]:
    """A plain step and a verification of 3, with their draws at T=1, whole and top-p 0.95."""
    rows, cache = [], target.filled_cache(1, context)
    for top_p in (1.0, 0.95):
        sampling, rng = Sampling(1.0, top_p), np.random.default_rng(0)
        for gamma in (0, 3):
            drafted = rng.integers(0, target.vocabulary, gamma).tolist()

            def step(drafted: list[int] = drafted, sampling: Sampling = sampling) -> None:
                logits = target.compute(np.array([[0, *drafted]]), cache)[0]
                target.draws.verify(logits, Proposal(drafted), sampling, np.random.default_rng(0))
                cache.truncate(context)

            how = "draws" if top_p == 1 else f"draws, top-p {top_p:g}"
            found = seconds_of(step, target.finish, rounds)
            rows.append(row("target", how, 1, gamma + 1, context, found))
    return rows


def captured_rows(name: str, model: TorchModel, batch: int, context: int, sizes: list[int],
                  rounds: int) -> list[Row]:  # fmt: skip
    step = CapturedStep(model.model, batch, context, max(sizes))
    return [
        row(name, "captured", batch, tokens, context,
            seconds_of(step.captured(tokens), model.finish, rounds))
        for tokens in sizes
    ]  # fmt: skip


def model_rows(rows: list[Row], configs: dict[str, dict[str, Any]], gpu: str) -> list[Row]:
    """The step-time model at every shape that was captured."""
    found = []
    for each in (r for r in rows if r["how"] == "captured"):
        seconds = float(step_seconds(
            models.from_config(configs[each["model"]], each["model"]), gpu, batch=each["batch"],
            tokens_per_sequence=each["tokens_per_seq"], context_tokens=each["context"],
        ))  # fmt: skip
        found.append(each | {"how": "model", "seconds": seconds, "low": seconds, "high": seconds})
    return found


def ratios(rows: list[Row]) -> None:
    """c and v of each way, beside each other."""
    at = {(r["how"], r["model"], r["batch"], r["context"], r["tokens_per_seq"]): r["seconds"]
          for r in rows}  # fmt: skip
    for batch, context in dict.fromkeys((r["batch"], r["context"]) for r in rows):
        print(f"\nbatch {batch}, context {context}")
        for how in ("eager", "captured", "model"):
            plain = at.get((how, "target", batch, context, 1))
            if plain is None:
                continue
            draft = at.get((how, "draft", batch, context, 1))
            c = "" if draft is None else f"c = {draft / plain:.3f}, "
            wide = {g: at.get((how, "target", batch, context, g + 1)) for g in GAMMAS}
            v = ", ".join(f"{g}: {s / plain:.3f}" for g, s in wide.items() if s is not None)
            print(f"  {how:9} plain step {1000 * plain:.3f} ms, {c}v over γ {v}")
        for how in ("draws", "draws, top-p 0.95"):
            for tokens in (1, 4):
                step = at.get((how, "target", batch, context, tokens))
                bare = at.get(("eager", "target", batch, context, tokens))
                if step is not None and bare is not None:
                    print(f"  {how}: {tokens} tokens {1000 * (step - bare):+.3f} ms a step")


def beside_the_model(rows: list[Row], configs: dict[str, dict[str, Any]], gpu: str) -> None:
    """Error of the step-time model on the captured steps, before and after calibration to them."""
    known = {name: models.from_config(config, name) for name, config in configs.items()}
    measured = [r | {"model": known[r["model"]], "gpu": gpu, "dtype": "bf16"}
                for r in rows if r["how"] == "captured"]  # fmt: skip
    if measured:
        (fit,) = calibrate(measured).values()
        print(f"\nstep-time model on {gpu}: mean error {fit.error_before:.1%}, calibrated "
              f"{fit.error:.1%}, held out {fit.held_out_error or float('nan'):.1%}")  # fmt: skip


def save(out: Path, rows: list[Row], machine: str) -> None:
    text = io.StringIO()
    stamp = {"machine": machine, "torch": torch.__version__, "date": datetime.date.today()}
    writer = csv.DictWriter(text, [*rows[0], *stamp], lineterminator="\n")
    writer.writeheader()
    writer.writerows(r | stamp for r in rows)
    write_file(out, text.getvalue().encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpu", help="name of the GPU in specmath's list, for the step-time model")
    parser.add_argument("--out", type=Path, default=Path("gpu_steps.csv"))
    parser.add_argument("--tiny", action="store_true", help="small models on the processor")
    parser.add_argument("--seconds", type=float, default=BUDGET_SECONDS)
    given = parser.parse_args()
    until = time.perf_counter() + given.seconds
    on_gpu = torch.cuda.is_available() and not given.tiny
    if not on_gpu and not given.tiny:
        sys.exit("no GPU here; --tiny runs small models on the processor")
    device, dtype = ("cuda", "bfloat16") if on_gpu else ("cpu", "float32")
    machine = torch.cuda.get_device_name(0) if on_gpu else platform.processor() or "CPU"
    shapes, rounds = (SHAPES, 10) if on_gpu else ([(1, 32), (2, 64)], 2)
    configs = {"target": LLAMA_8B, "draft": LLAMA_1B}
    if not on_gpu:
        torch.set_num_threads(1)  # so small that threads would wait for each other
        configs = {"target": TINY_TARGET, "draft": TINY_DRAFT}
    pair = {name: built(config, device, dtype) for name, config in configs.items()}
    print(f"{machine}: {given.seconds - until + time.perf_counter():.0f} s to build both")
    rows: list[Row] = []
    for batch, context in shapes:
        if time.perf_counter() > until:
            print(f"time is up before batch {batch}, context {context}")
            break
        parts: list[tuple[str, Callable[[], list[Row]]]] = [
            ("captured target", lambda b=batch, c=context: captured_rows(
                "target", pair["target"], b, c, [1, *(g + 1 for g in GAMMAS)], rounds)),
            ("captured draft", lambda b=batch, c=context: captured_rows(
                "draft", pair["draft"], b, c, [1, 2], rounds)),
            ("eager", lambda b=batch, c=context: eager_rows(time_steps(
                pair["target"], pair["draft"], gammas=(1, 3, 5), batches=[b], contexts=[c],
                rounds=rounds))),
        ]  # fmt: skip
        if batch == 1:
            parts.append(("draws", lambda c=context: draw_rows(pair["target"], c, rounds)))
        for what, make in parts:
            try:
                rows += make()
            except (InputError, RuntimeError, MemoryError) as error:
                if not out_of_memory(error) and not on_gpu:
                    raise
                print(f"{what} at batch {batch}, context {context}: {str(error).splitlines()[0]}")
            if on_gpu:
                torch.cuda.empty_cache()
        if rows:
            save(given.out, rows, machine)
        print(f"{time.perf_counter() - until + given.seconds:.0f} s: batch {batch}, "
              f"context {context} done", flush=True)  # fmt: skip
    if given.gpu:
        rows += model_rows(rows, configs, given.gpu)
        save(given.out, rows, machine)
    ratios(rows)
    if given.gpu and on_gpu:
        beside_the_model(rows, configs, given.gpu)


if __name__ == "__main__":
    main()
