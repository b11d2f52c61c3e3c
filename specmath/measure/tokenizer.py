"""Byte-level BPE in plain Python: reads the built-in pair's tokenizer.json without a library."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from specmath.checks import InputError

__all__ = ["ByteBpe", "Tokenizer", "agreement", "tokenizer_difference"]


class Tokenizer(Protocol):
    """Text ↔ ids, and the whole vocabulary for comparison."""

    vocabulary: dict[str, int]
    stop_ids: tuple[int, ...]

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: list[int]) -> str: ...


def tokenizer_difference(first: dict[str, int], second: dict[str, int]) -> str:
    """Why two vocabularies cannot share a draft, in words; "" where they can.

    Speculation compares ids, so every token must have the same id in both.
    """
    if first == second:
        return ""
    moved = [token for token in first if token in second and second[token] != first[token]]
    missing = [token for token in first if token not in second]
    added = [token for token in second if token not in first]
    parts = [f"{len(first)} tokens against {len(second)}"]
    if missing or added:
        example, alone = (missing or added)[0], len(missing) + len(added)
        parts.append(f"{alone} {'is' if alone == 1 else 'are'} in one only, such as {example!r}")
    if moved:
        example = moved[0]
        parts.append(
            f"{len(moved)} have another id, such as {example!r}: {first[example]} "
            f"against {second[example]}"
        )
    return "; ".join(parts)


def agreement(first: Sequence[Any], second: Sequence[Any]) -> int:
    """How many tokens are the same from the start."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's printable stand-ins for bytes (Radford et al. 2019): itself where printable."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + n) for n, b in enumerate(others)}


def read_json(folder: Path, name: str) -> Any:
    """What a file of a model's folder holds; InputError where it cannot be read."""
    try:
        return json.loads((folder / name).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {name} of {folder.name}: {error}") from error


class ByteBpe:
    """The tokenizer that tools/train_builtin_pair.py writes: split by a pattern, bytes, merges."""

    def __init__(self, data: dict[str, Any]) -> None:
        try:
            self._ids: dict[str, int] = dict(data["model"]["vocab"])
            pairs = [m if isinstance(m, list) else m.split(" ") for m in data["model"]["merges"]]
            self._split = re.compile(data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"])
            special = {t["content"]: int(t["id"]) for t in data["added_tokens"]}
        except (KeyError, IndexError, TypeError, re.error) as error:
            raise InputError(
                f"tokenizer.json is not the built-in pair's kind: {error!r}"
            ) from error
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        self._bytes = _byte_alphabet()
        self.vocabulary = self._ids | special
        self.stop_ids = tuple(special.values())
        self._tokens = {number: token for token, number in self.vocabulary.items()}

    @classmethod
    def load(cls, folder: Path) -> ByteBpe:
        return cls(read_json(folder, "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        return [i for piece in self._split.findall(text) for i in self._merged(piece)]

    def _merged(self, piece: str) -> list[int]:
        """Merge the pair of lowest rank until none is left."""
        parts = [self._bytes[byte] for byte in piece.encode("utf-8")]
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in pairwise(parts)]
            best = min(ranks)
            if best == len(self._ranks):
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self._ids[part] for part in parts]

    def decode(self, ids: list[int]) -> str:
        back = {char: byte for byte, char in self._bytes.items()}
        plain = (self._tokens[i] for i in ids if i not in self.stop_ids)
        return bytes(back[char] for token in plain for char in token).decode("utf-8", "replace")
