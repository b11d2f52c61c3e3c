"""Texts that SmolLM2-135M-Instruct writes for the training of its draft, with its hidden states.

    python tools/smollm2_texts.py --work DIR --batches 60 --seed 1

The target answers prompts of this project's own (smollm2_tasks.py) at temperatures 0.3, 0.7 and 1.
Its last hidden states are kept, so that its whole distribution is known later without running it
again. May run in several processes with different seeds, and while the training runs. One thread
each: two threads that wait for one another are slower beside other programs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from smollm2_tasks import prompts

from specmath.measure import smollm2

BATCH = 128
ANSWER = 104  # tokens of an answer, at most
LONGEST_PROMPT = 120
TEMPERATURES = (0.3, 0.7, 1.0)
TOKENS_A_STEP = 1024
HELD_OUT = 1  # first files, kept out of training, on which progress is told


class Writer:
    """The target in bfloat16 with a cache of fixed size: many rows at once, one token each."""

    def __init__(self, model: Any) -> None:
        config = model.config
        self.layers, self.eps = config.num_hidden_layers, config.rms_norm_eps
        self.groups = config.num_key_value_heads
        self.each = config.num_attention_heads // self.groups
        self.width = config.hidden_size // config.num_attention_heads
        self.w = {k: v.detach().to(torch.bfloat16) for k, v in model.state_dict().items()}
        self.embedding = self.w["model.embed_tokens.weight"]
        length = LONGEST_PROMPT + ANSWER
        powers = torch.arange(0, self.width, 2) / self.width
        angles = torch.arange(length)[:, None] / config.rope_parameters["rope_theta"] ** powers
        self.cos = torch.cat([angles.cos()] * 2, -1).to(torch.bfloat16)
        self.sin = torch.cat([angles.sin()] * 2, -1).to(torch.bfloat16)

    def cache(self, rows: int) -> torch.Tensor:
        shape = (self.layers, 2, rows, self.groups, LONGEST_PROMPT + ANSWER, self.width)
        return torch.zeros(shape, dtype=torch.bfloat16)

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], self.w[name], self.eps)

    def turned(self, x: torch.Tensor, at: int) -> torch.Tensor:
        """Rotary positions on (rows, heads, n, width)."""
        here = slice(at, at + x.shape[2])
        first, second = x.chunk(2, -1)
        return x * self.cos[here] + torch.cat([-second, first], -1) * self.sin[here]

    def hidden(self, ids: torch.Tensor, cache: torch.Tensor, at: int) -> torch.Tensor:
        """Hidden states under the head, (rows, n, hidden), of tokens at positions at … at+n−1."""
        rows, n = ids.shape
        x = self.embedding[ids]
        hidden_future = torch.ones(n, at + n, dtype=torch.bool).triu(at + 1).repeat(self.each, 1)
        for number in range(self.layers):
            name = f"model.layers.{number}."
            h = self.norm(x, name + "input_layernorm.weight")
            q, k, v = (
                F.linear(h, self.w[f"{name}self_attn.{part}_proj.weight"])
                .view(rows, n, -1, self.width)
                .transpose(1, 2)
                for part in "qkv"
            )
            keys, values = cache[number]
            keys[:, :, at : at + n] = self.turned(k, at)
            values[:, :, at : at + n] = v
            q = self.turned(q, at).reshape(rows, self.groups, self.each * n, self.width)
            scores = q @ keys[:, :, : at + n].transpose(2, 3) * self.width**-0.5
            weights = scores.float().masked_fill(hidden_future, -torch.inf).softmax(-1)
            mixed = (weights.to(torch.bfloat16) @ values[:, :, : at + n]).view(
                rows, -1, n, self.width
            )
            mixed = mixed.transpose(1, 2).reshape(rows, n, -1)
            x = x + F.linear(mixed, self.w[name + "self_attn.o_proj.weight"])
            h = self.norm(x, name + "post_attention_layernorm.weight")
            gate, up = (
                F.linear(h, self.w[f"{name}mlp.{part}_proj.weight"]) for part in ("gate", "up")
            )
            x = x + F.linear(F.silu(gate) * up, self.w[name + "mlp.down_proj.weight"])
        return self.norm(x, "model.norm.weight")


def write_batch(
    writer: Writer, texts: list[list[int]], stop: int, seed: int
) -> dict[str, np.ndarray]:
    """Answers to prompts of similar length: rows that are still in their prompt read on."""
    torch.manual_seed(seed)
    starts = torch.tensor([len(t) for t in texts])
    rows, shortest = len(texts), int(starts.min())
    tokens = torch.full((rows, LONGEST_PROMPT + ANSWER), stop)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor(text)
    heat = torch.tensor(TEMPERATURES)[torch.arange(rows) % len(TEMPERATURES)]
    kept = torch.zeros(*tokens.shape, writer.embedding.shape[1], dtype=torch.float16)
    ends = starts + ANSWER
    which, live = torch.arange(rows), torch.ones(rows, dtype=torch.bool)
    cache, at, new = writer.cache(rows), 0, tokens[:, :shortest]
    while live.any():
        h = writer.hidden(new, cache, at)
        at += new.shape[1]
        kept[which, at - new.shape[1] : at] = h.half()
        logits = F.linear(h[:, -1], writer.embedding).float() / heat[which, None]
        heap = logits.softmax(-1).cumsum(-1)
        drawn = torch.searchsorted(heap, torch.rand(len(which), 1) * heap[:, -1:])[:, 0]
        writes = at >= starts[which]
        drawn = torch.where(writes, drawn.clamp(max=heap.shape[1] - 1), tokens[which, at])
        tokens[which, at] = drawn
        over = live & writes & (drawn == stop)
        ends[which[over]] = at + 1
        live = live & ~over & (at + 1 < ends[which])
        if live.float().mean() < 0.8:  # copying the cache costs as much as a step
            which, cache, drawn, live = which[live], cache[:, :, live], drawn[live], live[live]
        new = drawn[:, None]
    last = int(ends.max())
    return {
        "tokens": tokens[:, :last].numpy().astype(np.int32), "starts": starts.numpy(),
        "ends": ends.numpy(), "temperatures": heat.numpy(), "hidden": kept[:, :last].numpy(),
    }  # fmt: skip


def sample(work: Path, batches: int, seed: int) -> None:
    reader = smollm2.gguf_reader()
    tokenizer, writer = smollm2.GgufTokenizer(reader), Writer(smollm2.target_model(reader))
    written: list[str] = []
    for pool in range((batches + 7) // 8):
        asked = prompts(8 * BATCH, seed * 1000 + pool, written)
        encoded = sorted((tokenizer.encode(text) for _, text in asked), key=len)
        encoded = [t for t in encoded if len(t) <= LONGEST_PROMPT]
        order = np.random.default_rng([seed, pool]).permutation(8)
        for part in order[: batches - 8 * pool]:
            begun = time.perf_counter()
            texts = encoded[part * BATCH : (part + 1) * BATCH]
            made = write_batch(writer, texts, tokenizer.stop_ids[0], seed * 10000 + pool * 8 + part)
            np.savez(work / f".{seed}.npz", **made)
            (work / f".{seed}.npz").rename(work / f"texts-{seed:02d}-{pool * 8 + part:03d}.npz")
            count = int((made["ends"] - made["starts"]).sum())
            answers = zip(made["tokens"], made["starts"], made["ends"], strict=True)
            written += [tokenizer.decode(row[a:b].tolist()) for row, a, b in answers]
            print(
                f"{count} tokens, {count / (time.perf_counter() - begun):.0f} a second", flush=True
            )


class Texts:
    """The files that are there; more may come while training runs."""

    def __init__(self, work: Path) -> None:
        self.work, self.files = work, {}

    def refresh(self) -> list[dict[str, torch.Tensor]]:
        for path in sorted(self.work.glob("texts-*.npz")):
            if path.name not in self.files:
                self.files[path.name] = {k: torch.from_numpy(v) for k, v in np.load(path).items()}
        return list(self.files.values())

    @property
    def tokens(self) -> int:
        return sum(int((f["ends"] - f["starts"]).sum()) for f in self.files.values())


def answers(file: dict[str, torch.Tensor], rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tokens; where an answer's next token was drawn; hidden state and temperature there."""
    last = int(file["ends"][rows].max())
    place = torch.arange(last)
    there = (place >= file["starts"][rows, None] - 1) & (place < file["ends"][rows, None] - 1)
    heat = file["temperatures"][rows, None].expand(there.shape)[there]
    return file["tokens"][rows, :last].long(), there, file["hidden"][rows, :last][there], heat


def batches(texts: Texts, rng: np.random.Generator) -> Iterator[tuple[torch.Tensor, ...]]:
    """Passes over all texts in random order, rows of one file together (similar lengths)."""
    while True:
        files = texts.refresh()[HELD_OUT:]
        groups = []
        for number, file in enumerate(files):
            size = max(1, TOKENS_A_STEP // int(file["ends"].max()))
            rows = rng.permutation(len(file["starts"]))
            groups += [(number, rows[n : n + size]) for n in range(0, len(rows), size)]
        for n in rng.permutation(len(groups)):
            number, rows = groups[n]
            yield answers(files[number], torch.from_numpy(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for the texts")
    parser.add_argument("--batches", type=int, default=60, help=f"of {BATCH} texts")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.work.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        sample(given.work, given.batches, given.seed)


if __name__ == "__main__":
    main()
