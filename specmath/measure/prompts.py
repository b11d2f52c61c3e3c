"""Prompts with a segment label, and responses where a user has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specmath.checks import InputError

__all__ = ["Prompt", "parse_prompts", "read_prompts", "spread"]

LARGEST_FILE = 20_000_000


@dataclass(frozen=True)
class Prompt:
    """`response` is text that the target produced after it at the settings measured, if known."""

    text: str
    segment: str = "all"
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
    try:
        if name.endswith(".jsonl"):
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise InputError(f"{name} must be a JSON list of prompts, got {type(entries).__name__}")
    return entries


def _prompt(number: int, entry: Any) -> Prompt:
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, dict):
        raise InputError(f"prompt {number} must be text or an object, got {type(entry).__name__}")
    fields = {
        "text": entry.get("text", entry.get("prompt")),
        "segment": entry.get("segment", "all"),
    }
    if (response := entry.get("response")) is not None:
        fields["response"] = response
    for name, value in fields.items():
        if not isinstance(value, str) or not value:
            raise InputError(f"prompt {number}: {name} must be text, got {value!r}")
    return Prompt(**fields)


def spread(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """`count` prompts, the segments taken in turn; all of them where there are fewer."""
    by_segment: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_segment.setdefault(prompt.segment, []).append(prompt)
    taken: list[Prompt] = []
    for turn in range(max(map(len, by_segment.values()), default=0)):
        taken += [group[turn] for group in by_segment.values() if turn < len(group)]
    kept = set(map(id, taken[:count]))
    return [prompt for prompt in prompts if id(prompt) in kept]
