"""The JSON of every command over scenarios and log samples: what structure may not move.

`python tests/golden/make.py` writes golden.json.gz anew; say in the commit which numbers moved and
why. Compared by tests/test_golden.py.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "data" / "log_samples"
GOLDEN = HERE / "golden.json.gz"

ACCEPTANCE = (
    "--alpha 0.8", "--alpha 0.35", "--alpha 1", "--alpha 0", "--accepted-per-step 3",
    "--accepted-per-step 0.5", "--tokens-per-step 2.6 --measured-gamma 3",
    "--accepted-share 0.61 --measured-gamma 5", "--rates 0.8,0.6,0.45",
    "--rates 0.8,0.9,0.7 --acceptance-form conditional", "--mixture 0.5:0.9,0.5:0.4",
    "--workload creative", "--acceptance-form range", "--alpha-low 0.6 --alpha-high 0.7",
)  # fmt: skip
COST = (
    "--target-ms 40 --draft-ms 8", "--c 0.1", "--c 0", "--c 0.1 --target-ms 30 --sigma 0.2",
    "--c 0.05 --sigma unknown", "--c 0.1 --c-hat unknown --overhead 0.15", "--draft-form range",
    "--c-low 0.05 --c-high 0.1 --target-ms 20", "--c 0.1 --verify-costs 1.2,1.3,1.5,1.9,2.4,2.6",
    "--gpu h100 --model Llama-3.1-8B --draft Llama-3.2-1B", "--gpu h100 --model Llama-3.1-8B "
    "--draft eagle3 --batch 16", "--gpu h200 --model Llama-3.1-70B --draft ngram "
    "--tensor-parallel 4 --batch 32 --context-tokens 8192", "--gpu l40s --model Qwen3-8B --draft "
    "Qwen3-0.6B --batch 8 --coverage 0.7", "--gpu b200 --model Qwen3-30B-A3B --draft block",
    "--gpu a100 --model Llama-3.1-8B --draft medusa --weight-dtype int4",
)  # fmt: skip
GAMMA = ("--gamma 4", "--gamma 0", "--gamma 1", "--gamma 3 --max-gamma 5")
COSTS_OF_LOGS = ("", "--c 0.1", "--gpu h100 --model Llama-3.1-8B --draft Llama-3.2-1B")
PLAIN = ("", "--baseline-itl-ms 25 --tpot-ms 14")
# A closed loop of certain drafts: nothing is drawn, and nobody comes in the middle of a step.
SIMULATED = (
    "simulate --gpu h100 --model Llama-3.1-8B --draft eagle3 --alpha 1 --gamma 3 --concurrency 4 "
    "--prompt-tokens 512 --output-tokens 64 --requests 40"
)
PAIRS = (
    ("vllm_bench_serve_result.json", "sglang_bench_serving.jsonl"),
    ("guidellm_table.txt", "vllm_bench_serve_result.json"),
    ("vllm_v1_prometheus_t0.txt", "vllm_v1_prometheus_t1.txt"),
    ("vllm_v1_log_history.txt", "vllm_v1_log_current.txt"),
    ("captured_llamacpp/resp_none.json", "captured_llamacpp/resp_draftself.json"),
    ("captured_llamacpp/log_none.txt", "captured_llamacpp/log_ngsimple.txt"),
)


def commands() -> list[str]:
    """Sixty scenarios, each form of each half with several of the other; every sample; pairs."""
    chosen = random.Random(8)
    pairs = [(a, c) for a in ACCEPTANCE for c in COST]
    chosen.shuffle(pairs)
    # Each value of both lists at least once, then by chance up to sixty.
    picked = [(a, COST[i % len(COST)]) for i, a in enumerate(ACCEPTANCE)]
    picked += [(ACCEPTANCE[i % len(ACCEPTANCE)], c) for i, c in enumerate(reversed(COST))]
    picked += pairs[: 60 - len(picked)]
    options = [f"{a} {c} {GAMMA[i % len(GAMMA)]}" for i, (a, c) in enumerate(picked)]
    found = [f"{command} {o}" for o in options for command in ("predict", "gamma")]
    found += [f"batch {o}" for o in options if "--gpu" in o][:6]
    found += [f"tails {o}" for o in options[::5]]
    served = [o for o in options if "--gpu" in o][:4]
    demand = "--prompt-tokens 800 --slo-tpot-ms 15 --demand-requests-per-second 40"
    found += [f"capacity {o} {demand} --by {by}" for o in served for by in ("arm", "rate", "gamma")]
    samples = sorted(p for p in SAMPLES.rglob("*") if p.suffix not in (".md", ""))
    names = [p.relative_to(SAMPLES).as_posix() for p in samples]
    found += [
        f"logs {name} {cost} {plain} {gamma}"
        for name in names
        for cost in COSTS_OF_LOGS
        for plain, gamma in ((PLAIN[0], ""), (PLAIN[0], "--gamma 4"), (PLAIN[1], "--gamma 4"))
    ]
    found += [SIMULATED, *(f"review {a} {b}" for a, b in PAIRS)]
    return found + [f"logs drift {a} {b}" for a, b in PAIRS]


def answer(command: str) -> dict[str, Any]:
    """Exit code, JSON and the sentence on stderr of one command."""
    from specmath.cli import main

    words = [
        str(SAMPLES / word) if "." in word and (SAMPLES / word).exists() else word
        for word in command.split()
    ]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*words, "--format", "json"])
        except SystemExit as stop:
            code = int(stop.code or 0)
    text = out.getvalue().replace(str(SAMPLES), "")
    said = err.getvalue().replace(str(SAMPLES), "")
    return {"code": code, "out": json.loads(text) if text else None, "err": said}


def differences(path: str, before: Any, now: Any) -> list[str]:
    """Fields that are not what they were: numbers to 1e-9, added keys are none, prose is none."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            d
            for key, value in before.items()
            for d in (
                differences(f"{path}.{key}", value, now[key])
                if key in now
                else [f"{path}.{key} is gone, was {value!r:.60}"]
            )
        ]
    if isinstance(before, list) and isinstance(now, list):
        if all(isinstance(v, str) for v in (*before, *now)):
            return []
        if len(before) != len(now):
            return [f"{path} has {len(now)} entries, had {len(before)}"]
        pairs = enumerate(zip(before, now, strict=True))
        return [d for i, (b, n) in pairs for d in differences(f"{path}[{i}]", b, n)]
    numbers = (int, float)
    if isinstance(before, numbers) and isinstance(now, numbers) and type(before) is not bool:
        close = abs(before - now) <= 1e-9 * max(1e-6, abs(before), abs(now))
        return [] if close else [f"{path}: {before!r} → {now!r}"]
    prose = isinstance(before, str) and isinstance(now, str) and " " in before + now
    return [] if prose or before == now else [f"{path}: {before!r:.80} → {now!r:.80}"]


def main() -> None:
    found = {command: answer(command) for command in commands()}
    with gzip.GzipFile(GOLDEN, "wb", mtime=0) as file:
        file.write(json.dumps(found, ensure_ascii=False, sort_keys=True).encode())
    print(f"{len(found)} answers, {GOLDEN.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))
    main()
