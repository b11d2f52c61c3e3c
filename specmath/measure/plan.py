"""What to measure: prompts with a segment label, and responses where a user has them; the plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from specmath.checks import InputError, real, short, whole
from specmath.foreign import json_of
from specmath.measure.language_model import Sampling
from specmath.measure.report import ALL

__all__ = [
    "Plan", "Prompt", "parse_prompts", "read_prompts", "real_numbers", "spread", "whole_numbers",
]  # fmt: skip

LARGEST_FILE = 20_000_000


@dataclass(frozen=True)
class Prompt:
    """`response` is text that the target produced after it at the settings measured, if known."""

    text: str
    segment: str = ALL
    response: str | None = None


def read_prompts(path: str | Path) -> list[Prompt]:
    """Prompts of a file: .txt (parted by blank lines), .json (a list) or .jsonl (one a line).

    JSON entries are strings, or objects with text (or prompt), and optionally segment and
    response. InputError names the entry at fault.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path.name} must have at most {LARGEST_FILE:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error}") from error
    return parse_prompts(path.name, content)


def parse_prompts(name: str, content: bytes) -> list[Prompt]:
    """Prompts in the content of a file of that name; as `read_prompts`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {name} as UTF-8 text: {error}") from error
    if name.endswith(".txt"):
        text = text.replace("\r\n", "\n")
        found = [Prompt(part.strip("\n")) for part in text.split("\n\n") if part.strip()]
    else:
        found = [_prompt(n, entry) for n, entry in enumerate(_entries(name, text), start=1)]
    if not found:
        raise InputError(f"{name} must hold at least one prompt, got none")
    return found


def _entries(name: str, text: str) -> list[Any]:
    if name.endswith(".jsonl"):
        lines = enumerate(text.split("\n"), start=1)
        return [json_of(f"{name}, line {n}", line) for n, line in lines if line.strip()]
    entries = json_of(name, text)
    if not isinstance(entries, list):
        raise InputError(f"{name} must be a JSON list of prompts, got {type(entries).__name__}")
    return entries


def _prompt(number: int, entry: Any) -> Prompt:
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict):
        raise InputError(f"prompt {number} must be text or an object, got {type(entry).__name__}")
    fields = {"text": entry.get("text", entry.get("prompt")), "segment": entry.get("segment", ALL)}
    if (response := entry.get("response")) is not None:
        fields["response"] = response
    for name, value in fields.items():
        if not isinstance(value, str) or not value:
            raise InputError(
                f"prompt {number}: {name} must be text, got {short(value, quoted=True)}"
            )
    return Prompt(**fields)


def spread(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """`count` prompts, the segments taken in turn; all of them where there are fewer."""
    by_segment: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_segment.setdefault(prompt.segment, []).append(prompt)
    taken = [prompt for turn in zip_longest(*by_segment.values()) for prompt in turn if prompt]
    kept = set(map(id, taken[:count]))
    return [prompt for prompt in prompts if id(prompt) in kept]


# ── numbers as people write them ─────────────────────────────────────────────────────────────


def whole_numbers(name: str, text: str) -> tuple[int, ...]:
    """'1-8' or '1,2,4' → whole numbers in order; InputError for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()) or len(first + last) > 12:
            raise InputError(f"{name} must be whole numbers such as 1-8 or 1,2,4, got {text!r}")
        start, stop = int(first), int(last)
        if stop - start > 1000:
            raise InputError(f"{name} must list at most 1000 numbers, got {text!r}")
        found.update(range(start, stop + 1))
    if not found:
        raise InputError(f"{name} must go from the smaller to the larger number, got {text!r}")
    return tuple(sorted(found))


def real_numbers(name: str, text: str) -> tuple[float, ...]:
    """'0, 0.7, 1' → finite numbers in order, each once; InputError for anything else."""
    try:
        found = {float(part) for part in text.split(",")}
    except ValueError:
        found = {math.nan}
    if not all(map(math.isfinite, found)):
        raise InputError(f"{name} must be numbers such as 0, 0.7, 1, got {text!r}")
    return tuple(sorted(found))


# ── the plan ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Plan:
    """What to measure. `run_gammas` are really run; every γ of `gammas` is replayed.

    `samples` texts a prompt (at temperature 0 one, as all would be alike). `own_prompts` says that
    the prompts are the user's traffic.
    """

    prompts: tuple[Prompt, ...]
    temperatures: tuple[float, ...] = (0.0, 0.7, 1.0)
    top_p: float = 1.0
    gammas: tuple[int, ...] = tuple(range(9))
    run_gammas: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    output_tokens: int = 96
    samples: int = 1
    seed: int = 0
    timing_rounds: int = 30
    batches: tuple[int, ...] = (1,)
    contexts: tuple[int, ...] = (128,)
    own_prompts: bool = False

    def __post_init__(self) -> None:
        if not self.prompts:
            raise InputError("prompts must hold at least one prompt, got none")
        if not self.temperatures or not self.gammas:
            raise InputError("temperatures and gammas must each hold at least one value, got none")
        for temperature in self.temperatures:
            Sampling(temperature, self.top_p)
        whole("gamma", list(self.gammas), 0, 256)
        if unknown := sorted(set(self.run_gammas) - set(self.gammas)):
            raise InputError(f"run_gammas must be among gammas {self.gammas}, got {unknown}")
        for name in ("output_tokens", "samples", "timing_rounds"):
            whole(name, getattr(self, name), 1)
        real("seed", self.seed, 0)
        whole("batch", list(self.batches), 1, 100_000)
        whole("context", list(self.contexts), 1)
        if not self.batches or not self.contexts:
            raise InputError("batches and contexts must each hold at least one value, got none")

    def samples_at(self, temperature: float) -> int:
        return 1 if temperature == 0 else self.samples

    @property
    def units(self) -> int:
        """Generations to do, for the progress."""
        each = 1 + len(self.run_gammas)
        return sum(each * len(self.prompts) * self.samples_at(t) for t in self.temperatures)
