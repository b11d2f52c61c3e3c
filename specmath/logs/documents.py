"""JSON amid a log: whole documents, one object a line, and what is left of a cut-off one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from specmath.logs.engine import Node

__all__ = ["json_value", "looks_like_json", "objects", "opens_block", "salvage", "unwrapped"]

MOST_DEPTH = 64
MOST_FAILURES = 200
# Docker's json-file: a line of text without a quote or a backslash in it that begins no JSON.
_DOCKER = re.compile(
    rb'^\{"log":"(?!\s*[\[{]\s*(?:[{\[\\"]))([^"\\\n]*)(?:\\r)?(?:\\n)?","stream":"std(?:out|err)",'
    rb'"time":"[0-9TZ:.+-]{1,40}"\}\r?$',
    re.MULTILINE,
)


def looks_like_json(text: str) -> bool:
    """Whether `text` starts as a JSON object or list of objects does."""
    return text.startswith(("{", "[{", "[ {"))


def opens_block(line: bytes) -> bool:
    """Whether `line` opens a JSON value that goes on over further lines."""
    text = line.strip()
    if text in (b"{", b"[", b"[{"):
        return True
    return text.startswith((b'{"', b'[{"')) and not text.endswith((b"}", b"]"))


def json_value(text: str) -> object:
    """The JSON value of `text`, or None where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def objects(value: object) -> Iterator[Node]:
    """The outermost objects in `value`: itself, or those in a list or list of lists."""
    stack, depth = [value], 0
    while stack and depth < MOST_DEPTH:
        below: list[object] = []
        for item in stack:
            if isinstance(item, dict):
                yield item
            elif isinstance(item, list):
                below += item
        stack, depth = below, depth + 1


def salvage(text: str) -> Iterator[object]:
    """The complete objects inside a JSON text that breaks off, or that holds several in a row."""
    decoder = json.JSONDecoder()
    at, failures = text.find("{"), 0
    while at >= 0 and failures < MOST_FAILURES:
        try:
            value, end = decoder.raw_decode(text, at)
            yield value
        except (ValueError, RecursionError):
            failures, end = failures + 1, at + 1
        at = text.find("{", end)


def unwrapped(data: bytes) -> bytes:
    """`data` with the lines that Docker wrapped in JSON as they were, where they are plain text."""
    return _DOCKER.sub(rb"\1", data) if b'\n{"log":"' in data else data
