"""Inputs made wrong: bytes and structures changed as hands, programs and attackers change them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["TOKENS", "VALUES", "bytes_of", "json_of", "structure_of", "text_of"]

TOKENS = (
    b"nan", b"NaN", b"-1", b"inf", b"1e400", b"1e308", b"99999999999999999999999", b"0", b"0.0",
    b"1.0", b"-0.5", b"null", b"true", b'"x"', b"[]", b"{}", b"[1,2", b"\x00", b"\xff", b"\n",
    b"%", b"", b"1e-9", b"1000000000000000", b"(", b"{", b"}", b"]", b",", b"\r\n", b"\x1b[31m",
    "\u202e".encode(), "τ".encode(), b"9" * 400, b"9" * 5000, b"[" * 2000, b'{"a":' * 2000,
)  # fmt: skip
"""What stands in place of a few bytes."""


def _nested(depth: int) -> Any:
    return [_nested(depth - 1)] if depth else 1


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 0.5, -0.5, 1.0, 1e-320, 1e308, -1e308, float("nan"),
    float("inf"), 2**31, 2**63, 2**64, 10**30, 10**400, "", "x", "0", "1e3", "nan",
    "τ\u202e\x1b[0m", "x" * 5000, "9" * 400, [], {}, [[]], [["x"]], [{}], {"a": 1}, {"": None},
    [None], [1, "x", None], [0.5] * 300, [1] * 64, _nested(60),
)  # fmt: skip
"""What stands in place of a value of a structure."""


def bytes_of(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """`data` with one to four spans replaced, flipped, doubled, cut, or spliced from `others`."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(changed))
        end = min(start + rng.randint(0, 12), len(changed))
        span = slice(start, end)
        match rng.randrange(6):
            case 0:
                changed[span] = bytes(byte ^ 1 << rng.randrange(8) for byte in changed[span])
            case 1:
                changed[end:end] = changed[start : start + rng.randint(1, 200)]
            case 2:
                del changed[start : start + rng.choice((1, 8, 64, len(changed)))]
            case 3 if others:
                other = rng.choice(others)
                at = rng.randint(0, len(other))
                changed[span] = other[at : at + rng.randint(1, 300)]
            case _:
                changed[span] = rng.choice(TOKENS)
    return bytes(changed)


def text_of(rng: random.Random, text: str) -> str:
    """As `bytes_of`, of text."""
    return bytes_of(rng, text.encode("utf-8", "replace")).decode("utf-8", "replace")


def structure_of(rng: random.Random, value: Any) -> Any:
    """A copy of nested dicts and lists with one to three places given another value, renamed,
    exchanged or taken away."""
    changed = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(changed))
        if not places:
            return rng.choice(VALUES)
        inner, key = rng.choice(places)
        old = inner[key]
        match rng.randrange(8):
            case 0:
                del inner[key]
            case 1 if isinstance(inner, dict):
                inner[f"{key}s"] = inner.pop(key)
            case 2:
                other, at = rng.choice(places)
                inner[key] = copy.deepcopy(other[at])
            case 3 | 4 if isinstance(old, (int, float)) and not isinstance(old, bool):
                inner[key] = rng.choice((old * 10**6, -old, old + 1, old - 1, [old], f"{old}"))
            case 5 if isinstance(old, str):
                inner[key] = text_of(rng, old)
            case _:
                inner[key] = copy.deepcopy(rng.choice(VALUES))
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def json_of(rng: random.Random, value: Any, written: Callable[[Any], str] = json.dumps) -> str:
    """The text of a changed structure; now and then changed as text besides, or a key doubled."""
    text = written(structure_of(rng, value))
    chance = rng.random()
    if chance < 0.05 and isinstance(value, dict) and text.startswith("{") and value:
        return (
            f"{{{json.dumps(rng.choice(list(value)))}: {json.dumps(rng.choice(VALUES))}, {text[1:]}"
        )
    return text_of(rng, text) if chance < 0.2 else text
