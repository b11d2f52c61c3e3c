"""Runs in genz-llm's own environment: cases as JSON on stdin, seconds as JSON on stdout."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import warnings

warnings.filterwarnings("ignore")

from GenZ import decode_moddeling  # noqa: E402

MODELS = {
    "Llama-3.1-8B": "meta-llama/meta-llama-3.1-8b",
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
}
SYSTEMS = {"h100_sxm": "H100_GPU", "a100_sxm": "A100_80GB_GPU"}


def seconds(case: dict) -> float | None:
    """One decode step; None where genz-llm has no such step, or says it does not fit."""
    if case["positions"] > 1:
        return None
    try:
        found = decode_moddeling(
            model=MODELS[case["model"]],
            batch_size=case["batch"],
            input_tokens=case["context"],
            output_tokens=0,
            Bb=1,
            system_name=SYSTEMS[case["gpu"]],
            bits="bf16",
            tensor_parallel=case["tp"],
        )
    except ValueError:
        return None
    return float(found["Latency"]) / 1e3


def main() -> None:
    cases = json.load(sys.stdin)
    passes = []
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(3):
            start = time.perf_counter()
            found = [seconds(case) for case in cases]
            passes.append(time.perf_counter() - start)
    json.dump({"seconds": found, "busy": min(passes)}, sys.stdout)


main()
