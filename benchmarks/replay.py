"""Replay against running speculation for each γ; our exact loop against transformers' own.

    python benchmarks/replay.py [--texts 24] [--temperature 0.7]

First part: wall time to know tokens per step for γ = 1…8 within ±0.05 (95%), the texts given, on
the built-in pair in numpy. Second part (needs torch and transformers): tokens per second of our
loop and of assisted generation on the same pair, same prompts, greedy, γ = 4, taken in turn.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from specmath.measure.language_model import Sampling
from specmath.measure.pairs import builtin_folder, builtin_pair, builtin_prompts, load_pair
from specmath.measure.score import replay_of
from specmath.measure.speculate import generate

GAMMAS = range(1, 9)
LENGTH = 96
WANTED = 0.05


def replay_against_runs(texts: int, temperature: float) -> None:
    pair, sampling = builtin_pair(), Sampling(temperature)
    prompts = [pair.tokenizer.encode(p.text) for p in builtin_prompts()]

    def run(number: int, gamma: int) -> list[int]:
        return generate(
            pair.target, pair.draft, prompts[number % len(prompts)], gamma=gamma, limit=LENGTH,
            sampling=sampling, rng=np.random.default_rng([number, gamma]),
        ).tokens  # fmt: skip

    begun = time.perf_counter()
    given = [(prompts[n % len(prompts)], run(n, 0)) for n in range(texts)]
    sampled = time.perf_counter() - begun
    begun = time.perf_counter()
    replay = replay_of(pair.target, pair.draft, given, sampling, max(GAMMAS))
    counts = replay.steps(list(GAMMAS))
    replayed = time.perf_counter() - begun

    # Repeats of the same texts that a run needs: its steps scatter though the texts are given.
    total, runs_seconds = replay.lengths.sum(), 0.0
    print(f"{texts} texts of {LENGTH} tokens at T={temperature:g}")
    for place, gamma in enumerate(GAMMAS):
        mean, deviation = counts.mean[:, place].sum(), np.sqrt(counts.variance[:, place].sum())
        half = 1.96 * deviation * total / mean**2  # of τ = tokens / steps, first order
        repeats = max(1.0, (half / WANTED) ** 2)
        begun = time.perf_counter()
        for number in range(texts):
            run(number, gamma)
        spent = repeats * (time.perf_counter() - begun)
        runs_seconds += spent
        print(
            f"  γ={gamma}: τ={total / mean:.3f}, one run ±{half:.3f}, {spent:.2f} s for ±{WANTED}"
        )
    print(f"  running all γ: {runs_seconds:.2f} s; replay of all γ: {replayed:.3f} s")
    print(f"  ratio {runs_seconds / replayed:.1f}, with sampling the texts "
          f"({sampled:.2f} s) {runs_seconds / (replayed + sampled):.1f}")  # fmt: skip


def loop_against_transformers(rounds: int) -> None:
    import torch

    torch.set_num_threads(1)
    folder = builtin_folder()
    pair = load_pair(str(folder / "target"), str(folder / "draft"), dtype="float32", device="cpu")
    target, assistant = pair.target.model, pair.draft_model.model  # type: ignore[union-attr]
    assistant.generation_config.num_assistant_tokens = 4
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    assistant.generation_config.assistant_confidence_threshold = 0.0
    target.generation_config.eos_token_id = None
    ours, theirs = [], []
    for number in range(rounds):
        prompt = builtin_prompts()[number % 24 * 2]
        tokens = pair.tokenizer.encode(prompt.text)
        begun = time.perf_counter()
        made = generate(
            pair.target, pair.draft, tokens, gamma=4, limit=LENGTH, sampling=Sampling(0),
            rng=np.random.default_rng(0),
        )  # fmt: skip
        ours.append(len(made.tokens) / (time.perf_counter() - begun))
        begun = time.perf_counter()
        out = target.generate(
            torch.tensor([tokens]), assistant_model=assistant, do_sample=False,
            max_new_tokens=LENGTH, pad_token_id=0,
        )  # fmt: skip
        theirs.append((out.shape[1] - len(tokens)) / (time.perf_counter() - begun))
        assert out[0, len(tokens) :].tolist() == made.tokens, "the two engines differ"
    ratios = np.array(ours[2:]) / np.array(theirs[2:])
    print(f"torch, γ=4, greedy: ours {np.median(ours[2:]):.0f} tokens/s, transformers "
          f"{np.median(theirs[2:]):.0f}; median ratio {np.median(ratios):.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--rounds", type=int, default=16)
    given = parser.parse_args()
    replay_against_runs(given.texts, given.temperature)
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        loop_against_transformers(given.rounds)
    else:
        print("torch or transformers is not installed: the second part is left out")


if __name__ == "__main__":
    main()
