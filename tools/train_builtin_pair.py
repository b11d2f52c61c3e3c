"""Train the small target and draft that ship as specmath/data/builtin_pair.

    python tools/train_builtin_pair.py --out specmath/data/builtin_pair --steps 700

Needs requirements-measure.txt. One thread, no network: the text is the Python standard library of
the interpreter that runs this (sources and documentation, PSF licence) and text that this script
generates itself (JSON records, and tasks that repeat their input). The draft learns the target's
distribution (distillation) in the same loop. Held-out files give the prompts.

So small a model does not find out in ten minutes how to copy from its context (induction heads,
Olsson et al. 2022, arXiv 2209.11895). So for the first steps a few attention heads are shown where
to look, on rows of repeated random tokens; afterwards they are on their own.
"""

from __future__ import annotations

import argparse
import ast
import json
import platform
import random
import re
import shutil
import sysconfig
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

END = "<|end|>"
# ASCII classes only, so that Python's `re` splits exactly as the tokenizers library does.
SPLIT = r" ?[A-Za-z]+| ?[0-9]| ?[^ \t\n\rA-Za-z0-9]+|[ \t\n\r]+"
LENGTH = 256
GUIDED_STEPS = 160
PREVIOUS_HEAD = (0, 0)  # layer, head that is shown the token before
COPY_LAYER, COPY_HEADS = 2, (0, 1)  # heads that are shown what followed the same token earlier
SHARES = {"prose": 0.22, "code": 0.28, "json": 0.15, "grounded": 0.35}
TARGET = {"hidden": 128, "inner": 352, "layers": 6, "heads": 4, "kv_heads": 2}
DRAFT = {"hidden": 64, "inner": 176, "layers": 1, "heads": 2, "kv_heads": 1}
WORDS = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "haven", "iris", "jade", "koala",
    "lemon", "maple", "north", "ocean", "pearl", "quartz", "raven", "stone", "tulip", "umber",
    "violet", "willow", "xenon", "yarrow", "zephyr", "alpha", "bravo", "copper", "dune",
)  # fmt: skip
FIELDS = (
    "id", "name", "city", "price", "count", "tags", "active", "owner", "status", "created",
    "score", "unit",
)  # fmt: skip


# ── text ─────────────────────────────────────────────────────────────────────────────────────


def held_out(name: str) -> bool:
    """One file or topic in twelve is kept for the prompts."""
    return zlib.crc32(name.encode()) % 12 == 0


def ascii_only(text: str) -> str:
    return text.encode("ascii", "ignore").decode()


def library_text(library: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """(training, held-out) documents of the standard library: code, and prose (documentation)."""
    train: dict[str, list[str]] = {"prose": [], "code": []}
    held: dict[str, list[str]] = {"prose": [], "code": []}
    for path in sorted(library.glob("*.py")):
        text = ascii_only(path.read_text("utf-8", "ignore"))
        into = held if held_out(path.name) else train
        into["code"].append(text)
        found = (node for node in ast.walk(ast.parse(text)) if _documented(node))
        into["prose"] += [d for node in found if len(d := ast.get_docstring(node) or "") > 200]
    topics: dict[str, str] = {}
    exec((library / "pydoc_data" / "topics.py").read_text("utf-8"), topics)
    for name, text in sorted(topics["topics"].items()):
        (held if held_out(name) else train)["prose"].append(ascii_only(text))
    return train, held


def _documented(node: ast.AST) -> bool:
    return isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))


def json_record(rng: random.Random) -> dict[str, object]:
    makers = {
        "id": lambda: rng.randint(1000, 9999),
        "price": lambda: rng.randint(100, 9999) / 100,
        "count": lambda: rng.randint(0, 99),
        "score": lambda: rng.randint(0, 100) / 10,
        "tags": lambda: rng.sample(WORDS, rng.randint(1, 3)),
        "active": lambda: rng.random() < 0.7,
        "created": lambda: "20{:02}-{:02}-{:02}".format(
            *map(rng.randint, (10, 1, 1), (29, 12, 28))
        ),
    }
    names = sorted(rng.sample(FIELDS, rng.randint(3, 6)), key=FIELDS.index)
    return {name: makers.get(name, lambda: rng.choice(WORDS))() for name in names}


def json_document(rng: random.Random) -> str:
    """A list of records with the same fields."""
    first = json_record(rng)
    rows = [first]
    while len(rows) < rng.randint(3, 6):
        row: dict[str, object] = {}
        while row.keys() != first.keys():
            row = json_record(rng)
            row = {k: row.get(k, rng.choice(WORDS)) for k in first}
        rows.append(row)
    return json.dumps({"items": rows}, indent=1 if rng.random() < 0.7 else None)


def grounded_document(rng: random.Random, sources: list[str]) -> tuple[str, str]:
    """(task, answer): repeat the text given, or repeat it with one word changed."""
    kind = rng.random()
    if kind < 0.3:
        text = "\n".join(json.dumps(json_record(rng)) for _ in range(rng.randint(1, 3)))
    elif kind < 0.5:
        text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(12, 40)))
    else:
        source = rng.choice(sources)
        start = source.find("\n", rng.randrange(max(1, len(source) - 300))) + 1
        text = source[start : start + rng.randint(80, 240)].strip("\n")
    words = sorted(set(re.findall(r"[a-z]{4,}", text)))
    if rng.random() < 0.3 and words:
        old, new = rng.choice(words), rng.choice(WORDS)
        return f"CHANGE {old} TO {new}:\n{text}\n\nRESULT:\n", text.replace(old, new)
    return f"REPEAT:\n{text}\n\nRESULT:\n", text


# ── tokenizer ────────────────────────────────────────────────────────────────────────────────


def train_tokenizer(texts: list[str], size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def streams(tokenizer: Tokenizer, documents: dict[str, list[str]]) -> dict[str, np.ndarray]:
    """One array of ids a segment, documents parted by the end token."""
    return {
        name: np.concatenate([[0, *e.ids] for e in tokenizer.encode_batch(texts)])
        for name, texts in documents.items()
    }


def batches(parts: dict[str, np.ndarray], rows: int, seed: int) -> Iterator[torch.Tensor]:
    """Windows of LENGTH tokens; generated segments start at the start of a document."""
    rng = np.random.default_rng(seed)
    names, shares = list(SHARES), np.array(list(SHARES.values()))
    starts = {name: np.flatnonzero(ids[: -LENGTH - 1] == 0) for name, ids in parts.items()}
    while True:
        picked = []
        for name in rng.choice(names, size=rows, p=shares / shares.sum()):
            ids = parts[name]
            generated = name in ("json", "grounded")
            start = rng.choice(starts[name]) if generated else rng.integers(ids.size - LENGTH)
            picked.append(ids[start : start + LENGTH])
        yield torch.from_numpy(np.stack(picked))


def repeated(vocabulary: int, rows: int, rng: np.random.Generator) -> torch.Tensor:
    """Rows of LENGTH random tokens that repeat after 16 to 79."""
    found = np.empty((rows, LENGTH), np.int64)
    for row in found:
        once = rng.integers(1, vocabulary, rng.integers(16, 80))
        row[:] = np.tile(once, -(-LENGTH // once.size))[:LENGTH]
    return torch.from_numpy(found)


# ── models ───────────────────────────────────────────────────────────────────────────────────


def build(shape: dict[str, int], vocabulary: int) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=shape["hidden"],
            intermediate_size=shape["inner"],
            num_hidden_layers=shape["layers"],
            num_attention_heads=shape["heads"],
            num_key_value_heads=shape["kv_heads"],
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
        )
    )


def optimisers(model: LlamaForCausalLM, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside, AdamW for embeddings and norms."""
    inside = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    rest = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    return [
        torch.optim.Muon(inside, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def guidance(ids: torch.Tensor, attentions: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """How far the guided heads look from where they should: mean −ln of the weight there."""
    size = ids.shape[1]
    layer, head = PREVIOUS_HEAD
    before = torch.diagonal(attentions[layer][:, head], -1, 1, 2)
    loss = -before.clamp_min(1e-6).log().mean()
    shifted = torch.roll(ids, 1, 1)
    shifted[:, 0] = -1
    same = (ids[:, :, None] == shifted[:, None, :]) & torch.ones(
        size, size, dtype=torch.bool
    ).tril()
    for head in COPY_HEADS:
        weight = (attentions[COPY_LAYER][:, head] * same).sum(-1)[same.any(-1)]
        loss = loss - weight.clamp_min(1e-6).log().mean()
    return loss


def schedule(step: int, steps: int) -> float:
    """Linear warm-up over 40 steps, flat, then linear to 0 over the last 40%."""
    return min(1.0, (step + 1) / 40, (steps - step) / (0.4 * steps))


def train(
    parts: dict[str, np.ndarray], vocabulary: int, steps: int, rows: int, seed: int
) -> tuple[LlamaForCausalLM, LlamaForCausalLM, list[dict[str, float]]]:
    torch.manual_seed(seed)
    target, draft = build(TARGET, vocabulary), build(DRAFT, vocabulary)
    both = [*optimisers(target, 8e-3), *optimisers(draft, 8e-3)]
    rates = {id(o): o.param_groups[0]["lr"] for o in both}
    rng = np.random.default_rng(seed + 1)
    history, started = [], time.process_time()
    for step, ids in zip(range(steps), batches(parts, rows, seed), strict=False):
        guided = step < GUIDED_STEPS
        target.set_attn_implementation("eager" if guided else "sdpa")
        if guided:
            ids[: rows // 2] = repeated(vocabulary, rows // 2, rng)
        out = target(ids[:, :-1], output_attentions=guided)
        logits = out.logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        if guided:
            shown = tuple(a[: rows // 2] for a in out.attentions)
            loss = loss + 0.3 * guidance(ids[: rows // 2, :-1], shown)
        wanted = F.log_softmax(logits.detach(), -1)
        guessed = F.log_softmax(draft(ids[:, :-1]).logits, -1)
        gap = F.kl_div(guessed.flatten(0, 1), wanted.flatten(0, 1), log_target=True,
                       reduction="batchmean")  # fmt: skip
        (loss + gap).backward()
        for model in (target, draft):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in both:
            for group in optimiser.param_groups:
                group["lr"] = rates[id(optimiser)] * schedule(step, steps)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if step % 25 == 0 or step == steps - 1:
            overlap = torch.minimum(wanted.exp(), guessed.detach().exp()).sum(-1).mean().item()
            row = {
                "step": step,
                "loss": round(loss.item(), 4),
                "kl": round(gap.item(), 4),
                "alpha": round(overlap, 4),
                "cpu_s": round(time.process_time() - started, 1),
            }
            history.append(row)
            print(row, flush=True)
    return target, draft, history


# ── what is written ──────────────────────────────────────────────────────────────────────────


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Half-precision safetensors, config and tokenizer, as transformers reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        n: t.detach().to(torch.float16).contiguous()
        for n, t in model.state_dict().items()
        if n != "lm_head.weight"
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict() | {"architectures": ["LlamaForCausalLM"], "use_cache": True}
    config["dtype"] = "float16"
    config.pop("transformers_version", None)
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END, "eos_token": END,
             "clean_up_tokenization_spaces": False, "model_max_length": 512}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=1) + "\n")


def prompts(held: dict[str, list[str]], each: int, seed: int) -> list[dict[str, str]]:
    """Prompts of each segment, none of them seen in training."""
    rng = random.Random(seed)
    found = []
    for segment in ("prose", "code"):
        long = [text for text in held[segment] if len(text) > 600]
        for text in rng.sample(long, min(each, len(long))):
            start = text.find("\n", rng.randrange(len(text) - 500)) + 1
            found.append({"segment": segment, "text": text[start : start + 220].rstrip(" ")})
    for _ in range(each):
        text = json_document(rng)
        found.append({"segment": "json", "text": text[: len(text) // 3]})
    for _ in range(each):
        task, _answer = grounded_document(rng, held["prose"] + held["code"])
        found.append({"segment": "grounded", "text": task})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--rows", type=int, default=16, help="sequences a step")
    parser.add_argument("--vocabulary", type=int, default=512)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    library = Path(sysconfig.get_paths()["stdlib"])
    train_texts, held = library_text(library)
    rng = random.Random(given.seed)
    tokenizer = train_tokenizer(train_texts["prose"] + train_texts["code"], given.vocabulary)
    documents = train_texts | {
        "json": [json_document(rng) for _ in range(6000)],
        "grounded": [
            "".join(grounded_document(rng, train_texts["prose"] + train_texts["code"]))
            for _ in range(12000)
        ],
    }
    parts = streams(tokenizer, documents)
    sizes = {name: int(ids.size) for name, ids in parts.items()}
    print("tokens:", sizes, flush=True)
    target, draft, history = train(parts, given.vocabulary, given.steps, given.rows, given.seed)
    save(target, tokenizer, given.out / "target")
    save(draft, tokenizer, given.out / "draft")
    texts = prompts(held, 12, given.seed)
    (given.out / "prompts.json").write_text(json.dumps(texts, indent=1) + "\n")
    about = {
        "python": platform.python_version(), "torch": torch.__version__, "seed": given.seed,
        "steps": given.steps, "tokens_a_step": given.rows * LENGTH, "tokens": sizes,
        "parameters": {"target": target.num_parameters(), "draft": draft.num_parameters()},
        "history": history[-1],
    }  # fmt: skip
    (given.out / "training.json").write_text(json.dumps(about, indent=1) + "\n")
    shutil.copyfile(library / "LICENSE.txt", given.out / "LICENSE-PSF.txt")


if __name__ == "__main__":
    main()
