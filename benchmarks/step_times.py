"""Speed and accuracy of the step-time model, beside aiconfigurator and genz-llm.

python -m benchmarks.step_times              # all of it; installs the two into temporary folders
python -m benchmarks.step_times --no-peers   # without them
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from specmath import models
from specmath.checks import FloatArray
from specmath.steptime import step_seconds
from tools.steptime_fit import (
    TABLE,
    ReferenceRow,
    fit_each_gpu,
    fit_without_each_model,
    median_fit,
    nothing_known,
    predict,
    read_reference,
    score,
)

HERE = Path(__file__).parent
PEERS = {"aiconfigurator": "aiconfigurator==0.12.*", "genz": "genz-llm"}
INSTALL_SECONDS, RUN_SECONDS = 600, 300


def best_of(work: Callable[[], object], repeats: int = 5) -> float:
    """Least seconds of several runs: the others shared the machine."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def print_speed() -> None:
    """Steps a second over a grid of γ x batch x context x GPU, in one process."""
    model = models.find("Llama-3.1-8B")
    gpus = ("h100_sxm", "h200_sxm", "b200_sxm", "a100_sxm", "l40s")
    positions = np.arange(1, 17)[:, None, None]
    batch = np.arange(1, 257)[:, None]
    context = np.linspace(512, 131072, 64).astype(int)

    def grid() -> int:
        return sum(
            step_seconds(
                model, gpu, batch=batch, tokens_per_sequence=positions, context_tokens=context
            ).size
            for gpu in gpus
        )

    count, taken = grid(), best_of(grid)
    rate = count / taken / 1e6
    print(f"speed: {count:,} step times in {taken:.3f} s = {rate:.1f} million a second")


def print_accuracy() -> None:
    """Errors with whole models held out, then with whole GPUs held out."""
    table = read_reference(TABLE)
    kept = [row for row in table if not row.excluded]
    choose = fit_without_each_model(kept)
    print("\naccuracy, whole models held out: mean absolute relative error [95th percentile]")
    for title, rows in (("exclusions applied", kept), ("every row", table)):
        for moe, l40s in itertools.product((False, True), (False, True)):
            own = [r for r in rows if r.operators.model.is_moe == moe and (r.gpu == "L40S") == l40s]
            kind = f"{'mixtures' if moe else 'dense'}{', L40S' if l40s else ''}"
            _print_score(f"{title}, {kind}", own, predict(own, choose))
    print("by model held out (exclusions applied, L40S apart)")
    for name in sorted({row.operators.model.name for row in kept}):
        own = [r for r in kept if r.operators.model.name == name and r.gpu != "L40S"]
        _print_score(name, own, predict(own, choose))
    print("by GPU treated as unknown (dense)")
    fits = fit_each_gpu(kept)
    for gpu in fits:
        general = median_fit(fits, without=gpu)
        own = [r for r in kept if r.gpu == gpu and not r.operators.model.is_moe]
        _print_score(gpu, own, predict(own, lambda row, c=general: c, nothing_known))


def _print_score(title: str, rows: list[ReferenceRow], guess: FloatArray) -> None:
    s = score(rows, guess)
    print(
        f"  {title:38} n={s.steps:6}  step {s.step_error:6.1%} [{s.step_error_95:6.1%}]"
        f"  verify ratio {s.ratio_error:6.1%} [{s.ratio_error_95:6.1%}]"
    )


def peer_cases() -> list[dict[str, Any]]:
    grid = itertools.product(
        (("Llama-3.1-8B", 1), ("Llama-3.1-70B", 4)),
        ("h100_sxm", "a100_sxm"),
        (1, 8, 32, 128),
        (1024, 8192),
        (1, 5),
    )
    names = ("gpu", "batch", "context", "positions")
    return [
        {"model": model, "tp": tp} | dict(zip(names, rest, strict=True))
        for (model, tp), *rest in grid
    ]


def run_peer(name: str, requirement: str, cases: list[dict[str, Any]]) -> dict[str, Any] | str:
    """Install a peer into a folder of its own, evaluate `cases`; or say what went wrong."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        try:
            venv.create(folder, with_pip=True)
            python = str(Path(folder) / "bin" / "python")
            command = [python, "-m", "pip", "install", "-q", requirement]
            subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
            done = subprocess.run(
                [python, str(HERE / f"peer_{name}.py")],
                input=json.dumps(cases),
                check=True,
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS,
            )
            answer: dict[str, Any] = json.loads(done.stdout)
            return answer
        except subprocess.CalledProcessError as error:
            message = error.stderr if isinstance(error.stderr, str) else error.stderr.decode()
            return f"failed: {message.strip().splitlines()[-1] if message.strip() else error}"
        except (subprocess.TimeoutExpired, json.JSONDecodeError, OSError) as error:
            return f"failed: {error}"


def own_seconds(cases: list[dict[str, Any]]) -> tuple[FloatArray, float]:
    """The same cases one by one, and the seconds it took."""
    cases = [case | {"model": models.find(case["model"])} for case in cases]
    found = np.array([_one(case) for case in cases])
    return found, best_of(lambda: [_one(case) for case in cases])


def _one(case: dict[str, Any]) -> float:
    return float(
        step_seconds(
            case["model"],
            case["gpu"],
            batch=case["batch"],
            tokens_per_sequence=case["positions"],
            context_tokens=case["context"],
            tensor_parallel=case["tp"],
        )
    )


def print_peers() -> None:
    """Time an evaluation and the steps themselves, side by side."""
    cases = peer_cases()
    own, own_busy = own_seconds(cases)
    print(f"\n{len(cases)} steps one by one: specmath {own_busy / len(cases) * 1e6:.0f} us each")
    columns: dict[str, FloatArray] = {}
    for name, requirement in PEERS.items():
        answer = run_peer(name, requirement, cases)
        if isinstance(answer, str):
            print(f"  {requirement}: {answer}")
            continue
        seconds = np.array([np.nan if s is None else s for s in answer["seconds"]])
        columns[name] = seconds
        known = np.isfinite(seconds)
        each = answer["busy"] / known.sum()
        print(
            f"  {requirement}: {each * 1e6:.0f} us each, {each / (own_busy / len(cases)):.1f}x ours"
        )
        for positions, kind in ((1, "plain steps"), (5, "verify steps, γ=4")):
            chosen = known & np.array([case["positions"] == positions for case in cases])
            if chosen.any():
                ratio = seconds[chosen] / own[chosen]
                print(
                    f"    {kind}: {name}/specmath median {np.median(ratio):.2f}, range "
                    f"{ratio.min():.2f}-{ratio.max():.2f}, mean disagreement "
                    f"{np.abs(ratio - 1).mean():.1%} (n={chosen.sum()})"
                )
    head = f"{'model':15}{'gpu':10}{'tp':>3}{'batch':>6}{'context':>8}{'positions':>10}"
    print(f"\n{head}  ms: specmath", *columns)
    for i, case in enumerate(cases):
        others = "".join(f"{1e3 * column[i]:11.2f}" for column in columns.values())
        print(
            f"{case['model']:15}{case['gpu']:10}{case['tp']:3}{case['batch']:6}"
            f"{case['context']:8}{case['positions']:10}{1e3 * own[i]:14.2f}{others}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--no-peers", action="store_true", help="leave out the other two tools")
    options = parser.parse_args()
    print_speed()
    print_accuracy()
    if not options.no_peers:
        print_peers()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
