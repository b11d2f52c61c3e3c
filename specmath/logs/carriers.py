"""What carries a log line: JSON of collectors, prefixes of terminals, quotes of logfmt, colours.

Docker's json-file, journald, Loki, Grafana, Splunk, GCP and Elasticsearch wrap a line as a string
somewhere in JSON; docker compose, kubectl, stern, CRI, syslog and grep put something before it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Generator, Iterator, Sequence

__all__ = [
    "in_order", "json_in", "json_value", "looks_like_json", "python_values", "quoted",
    "strings_and_objects", "text_of_bytes", "without_escapes", "without_prefix",
]  # fmt: skip

_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-9;:?]*[A-Za-z]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9])"
)
_PREFIX = re.compile(
    r"(?:"
    r"\[pod/[\w./-]{1,200}\]\s|"  # kubectl --prefix
    r"[\w.-]{1,80}\s{0,60}\|\s|"  # docker compose
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\s(?:std(?:out|err) [FP]\s)?|"
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} [\w./@-]{1,80}(?:\[\d{1,9}\])?:\s|"  # syslog
    r"[\w.-]{1,80}-[a-z0-9]{5} [\w.-]{1,60}\s(?:›\s)?|"  # stern
    r"(?:[\w./-]{1,200}:)?\d{1,9}:(?=\S)"  # grep -n
    r")"
)
_QUOTED = re.compile(r'(?:^|\s)(?:msg|message|log|line|event)="((?:[^"\\]|\\.){1,100000})"')
_UNQUOTE = re.compile(r'\\(["\\ntr])')
_LETTER = {"n": "\n", "t": "\t", "r": "\r"}
_WHEN = (
    "timestamp", "@timestamp", "time", "ts", "tsNs", "_time", "receiveTimestamp",
    "__REALTIME_TIMESTAMP",
)  # fmt: skip
_SPOKEN = frozenset(("choices", "messages", "generated_texts", "prompt", "input_text"))
"""What a model said or was told is no log of the server."""

MOST_PREFIXES = 4
LONGEST_LITERAL = 200_000
SHORTEST = 12


def without_escapes(data: bytes) -> bytes:
    """`data` without what colours a terminal, such as grep's marks of what it found."""
    return _ESCAPES.sub(b"", data)


def without_prefix(text: str) -> str:
    """A line without the names and times that a terminal's tool puts before it."""
    for _ in range(MOST_PREFIXES):
        found = _PREFIX.match(text)
        if found is None:
            break
        text = text[found.end() :].lstrip()
    return text


def quoted(text: str) -> str | None:
    """The message of a logfmt line, its escapes undone; None where there is none."""
    found = _QUOTED.search(text)
    if found is None:
        return None
    if "\\" not in found[1]:
        return found[1]
    return _UNQUOTE.sub(lambda one: _LETTER.get(one[1], one[1]), found[1])


def json_value(text: str | bytes) -> object:
    """The JSON value of `text`, or None where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def looks_like_json(text: str) -> bool:
    """Whether `text` starts as a JSON object or list of objects does."""
    return text.lstrip().startswith(("{", "[{"))


def json_in(text: str) -> object:
    """The JSON object or list of objects with which a line ends, whatever stands before it."""
    if not text.endswith(("}", "]")):
        return None
    starts = [at for at in (text.find('{"'), text.find('[{"')) if at >= 0]
    return json_value(text[min(starts) :]) if starts else None


def python_values(text: str) -> Iterator[object]:
    """The outermost dicts that stand in a line as Python prints them."""
    at, depth, first = text.find("{'"), 0, -1
    if at < 0 or len(text) > LONGEST_LITERAL:
        return
    quote = ""
    escaped = False
    for index in range(at, len(text)):
        letter = text[index]
        if quote:
            if escaped:
                escaped = False
            elif letter == "\\":
                escaped = True
            elif letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        elif letter == "{":
            first = index if depth == 0 else first
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                try:
                    yield ast.literal_eval(text[first : index + 1])
                except (ValueError, SyntaxError, RecursionError, MemoryError):
                    return


def strings_and_objects(value: object) -> Generator[object, bool | None, None]:
    """The objects and strings in a JSON value, outer ones first, in order of time.

    Sending True after an object skips what is inside it.
    """
    stack: list[object] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            taken = yield item
            if not taken:
                inner = [v for key, v in item.items() if key not in _SPOKEN]
                stack += reversed([v for v in inner if isinstance(v, (dict, list, str))])
        elif isinstance(item, list):
            if (text := text_of_bytes(item)) is not None:
                yield text
            else:
                stack += reversed(in_order(item))
        elif isinstance(item, str) and len(item) >= SHORTEST:
            yield item


def text_of_bytes(item: object) -> str | None:
    """The text of a list of bytes, as journald gives a MESSAGE that holds escapes."""
    if not isinstance(item, list) or len(item) < SHORTEST:
        return None
    if not all(type(one) is int and 0 <= one < 256 for one in item):
        return None
    return without_escapes(bytes(item)).decode("utf-8", "replace")


def in_order(items: Sequence[object]) -> Sequence[object]:
    """Entries of a collector from the oldest to the newest: many give the newest first."""
    if len(items) < 2:
        return items
    first, last = _when(items[0]), _when(items[-1])
    if first is None or last is None or len(first) != len(last) or first <= last:
        return items
    return items[::-1]


def _when(item: object) -> str | None:
    if isinstance(item, list) and len(item) >= 2 and isinstance(item[0], str):
        return item[0] if item[0][:1].isdigit() else None
    if isinstance(item, dict):
        found = (item.get(key) for key in _WHEN)
        return next((str(when) for when in found if isinstance(when, (str, int))), None)
    return None
