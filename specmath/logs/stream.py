"""Bytes to whole lines, where each line stands, and what is noted on the way.

Gzip, UTF-16, long lines and cut-off files included. A log of gigabytes passes through in pieces of
one megabyte.
"""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from specmath.checks import InputError

__all__ = ["LogError", "LogLine", "Notes", "Readable", "Source", "as_sources", "pieces"]

MOST_KINDS = 60
PIECE = 1 << 20
LONGEST_LINE = 64 << 20
# A log compresses 10- to 100-fold; deflate's limit is 1032. Zeros are what reaches it.
BOMB_RATIO = 200
BOMB_FLOOR = 64 << 20
MOST_EXPANDED = 64 << 30

_OTHER_PACKING = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}

Readable = str | bytes | Path | BinaryIO


class LogError(InputError):
    """Telemetry that cannot be read: the message says what was expected and what was found."""


class LogLine(NamedTuple):
    """Where a line stands: its source ("" for pasted text), the source's order, line number."""

    source: str
    order: int
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.source else f"line {self.line}"


class Notes:
    """Warnings, each kind once: a log with a million bad lines leaves one note that counts them."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[LogLine | None, int]] = {}

    def add(self, text: str, at: LogLine | None = None) -> None:
        """Note `text`; repeats are counted, and only the first place is kept."""
        first, count = self._kinds.get(text, (at, 0))
        if count or len(self._kinds) < MOST_KINDS:
            self._kinds[text] = (first, count + 1)

    def texts(self) -> tuple[str, ...]:
        """The notes by their first places; before them those of no place."""
        kinds = sorted(self._kinds.items(), key=lambda kind: kind[1][0][1:] if kind[1][0] else ())
        return tuple(self._one(text, *kind) for text, kind in kinds)

    @staticmethod
    def _one(text: str, first: LogLine | None, count: int) -> str:
        where = f"{first}: " if first is not None else ""
        more = f" (and {count - 1} more like it)" if count > 1 and first is not None else ""
        return f"{where}{text}{more}"


class Source:
    """One log: pasted text, the bytes of an upload, a file, or an open binary stream."""

    def __init__(self, content: Readable, order: int, only: bool) -> None:
        self.order = order
        self.name = "" if only else f"input {order + 1}"
        self._content = content
        if isinstance(content, Path):
            self.name = content.name

    @property
    def is_name(self) -> bool:
        """Whether pasted text is one word, as a file's name is."""
        return isinstance(self._content, str) and len(self._content.split()) == 1

    def can_rewind(self) -> bool:
        """Whether the source can be read again."""
        return isinstance(self._content, (str, bytes, Path)) or self._content.seekable()

    def rewound(self) -> bool:
        """Set a stream back to its beginning; whether the source can be read again."""
        if not self.can_rewind():
            return False
        if not isinstance(self._content, (str, bytes, Path)):
            self._content.seek(0)
        return True

    def place(self, line: int) -> LogLine:
        """The place of line number `line`, counted from 1."""
        return LogLine(self.name, self.order, line)

    def open(self) -> BinaryIO:
        """The raw bytes; LogError names a file that cannot be opened."""
        if isinstance(self._content, (str, bytes)):
            text = self._content
            return io.BytesIO(text.encode("utf-8", "replace") if isinstance(text, str) else text)
        if isinstance(self._content, Path):
            try:
                return self._content.open("rb")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise LogError(f"cannot open {self._content}: {reason}") from error
        return self._content


def as_sources(content: Readable | Iterable[Readable]) -> list[Source]:
    """The sources in the order given. A str is pasted text; a file is a Path."""
    single = isinstance(content, (str, bytes, Path)) or hasattr(content, "read")
    items: list[Readable] = [content] if single else list(content)  # type: ignore[list-item, arg-type]
    for item in items:
        if not isinstance(item, (str, bytes, Path)) and not hasattr(item, "read"):
            raise LogError(f"a source is text, bytes, a Path or a binary file, got {item!r}")
    return [Source(item, order, len(items) == 1) for order, item in enumerate(items)]


def pieces(source: Source, notes: Notes) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, bytes of whole lines), in order; the last may lack a newline."""
    number, carry = 1, b""
    skipping = False
    for chunk in _chunks(source, notes):
        if skipping:
            newline = chunk.find(b"\n")
            if newline < 0:
                continue
            chunk, skipping, number = chunk[newline + 1 :], False, number + 1
        data = carry + chunk if carry else chunk
        cut = data.rfind(b"\n") + 1
        whole, carry = data[:cut], data[cut:]
        if whole:
            yield number, whole
            number += int(np.count_nonzero(np.frombuffer(whole, np.uint8) == ord("\n")))
        if len(carry) > LONGEST_LINE:
            notes.add(
                f"a line longer than {LONGEST_LINE >> 20} MiB was skipped", source.place(number)
            )
            carry, skipping = b"", True
    if carry:
        yield number, carry


def _chunks(source: Source, notes: Notes) -> Iterator[bytes]:
    """Decompressed UTF-8 (or whatever single-byte text it is) in chunks of one megabyte."""
    raw = source.open()
    try:
        head = raw.read(8)
        if not isinstance(head, bytes):
            raise LogError("a log file must be opened in binary mode")
        for magic, packing in _OTHER_PACKING.items():
            if head.startswith(magic):
                raise LogError(
                    f"{source.name or 'this'} is {packing}-compressed: decompress it first "
                    "(gzip is read as it is)"
                )
        joined = _Rejoined(head, raw)
        packed = head.startswith(b"\x1f\x8b")
        chunks = _gunzip(joined, source, notes) if packed else iter(lambda: joined.read(PIECE), b"")
        yield from _as_utf8(chunks)
    except OSError as error:
        raise LogError(f"cannot read {source.name or 'the input'}: {error}") from error
    finally:
        if raw is not source._content:
            raw.close()


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were already taken, counting what has been read."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
        else:
            data = self._rest.read(size)
        self.taken += len(data)
        return data


def _gunzip(packed: _Rejoined, source: Source, notes: Notes) -> Iterator[bytes]:
    expanded = 0
    # GzipFile asks only for read(); it reads ahead at most one buffer.
    with gzip.GzipFile(fileobj=packed, mode="rb") as stream:
        while True:
            try:
                chunk = stream.read1(PIECE)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                notes.add(
                    f"{source.name or 'the gzip data'} is cut off or damaged after {expanded} "
                    f"expanded bytes ({error}): what came before was read"
                )
                return
            if not chunk:
                return
            expanded += len(chunk)
            bomb = expanded > BOMB_FLOOR and expanded > BOMB_RATIO * packed.taken
            if bomb or expanded > MOST_EXPANDED:
                raise LogError(
                    f"{source.name or 'the gzip data'} expands to more than {expanded >> 20} MiB "
                    f"from {packed.taken} bytes: refused as a gzip bomb (limit {BOMB_RATIO} times "
                    f"its size above {BOMB_FLOOR >> 20} MiB, and {MOST_EXPANDED >> 30} GiB in all)"
                )
            yield chunk


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-16 (what PowerShell's > writes) as UTF-8; a byte-order mark is dropped."""
    first = next(chunks, b"") + next(chunks, b"")  # the eight bytes of its head, and more
    wide = _utf16(first)
    if wide is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(wide)("replace")
    for chunk in itertools.chain((first,), chunks):
        yield decoder.decode(chunk).encode("utf-8", "replace")


def _utf16(first: bytes) -> str | None:
    """The name of the UTF-16 that `first` is in, by its mark or because every other byte is 0."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = first[0:4096:2], first[1:4096:2]
    for name, zeros, letters in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if len(letters) > 8 and zeros.count(0) > 0.9 * len(zeros) and not letters.count(0):
            return name
    return None
