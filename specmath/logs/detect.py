"""Reading telemetry: each engine sees the lines that hold its marks; content decides."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator

from specmath.checks import whole
from specmath.logs.documents import (
    json_value,
    looks_like_json,
    objects,
    opens_block,
    salvage,
    unwrapped,
)
from specmath.logs.engine import Node, Parser
from specmath.logs.engines import ENGINES
from specmath.logs.errors import LogError, start_of
from specmath.logs.lanes import Waiting, plain_text, take_out
from specmath.logs.marks import BLOCK, Marks, bit_of, block_starts, line_end
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.source import Readable, Source, as_sources, pieces

__all__ = ["read"]

LARGEST_BLOCK = 32 << 20
# What JSON loggers (docker, zap, pino, structlog) call the line they wrap.
_WRAPPED = ("log", "message", "msg", "MESSAGE")

_SHAPES = [(index, shape) for index, engine in enumerate(ENGINES) for shape in engine.shapes]
_WORDS = [word for engine in ENGINES for word in (*engine.marks, *engine.looks)]


def read(source: Readable | Iterable[Readable], *, gamma: int | None = None) -> list[Reading]:
    """Every reading in `source`: one for each channel of each engine found in it.

    `source` is pasted text (str), the bytes of a file, a Path, an open binary file, or several of
    these in order of time: two dumps of one server's metrics give the change between them. gzip
    is expanded. `gamma` (tokens, >= 1) is the draft length where the format does not print it.
    A log of any length is read in bounded memory.

    Raises LogError where nothing could be read, saying what was found instead. Lines that could
    not be read are in `Reading.warnings`, with their numbers.
    """
    if gamma is not None:
        gamma = int(whole("gamma", gamma, 1, 256))
    sources = as_sources(source)
    if not sources:
        raise LogError("no log given")
    run = _Run(gamma)
    for one in sources:
        run.feed(one)
    return run.finish(sources)


class _Run:
    """All engines over one call of read()."""

    def __init__(self, gamma: int | None) -> None:
        self.notes = Notes()
        self.kept = [(engine, Notes()) for engine in ENGINES]
        self.parsers: list[Parser] = [engine.parser(gamma, notes) for engine, notes in self.kept]
        self.marks = Marks(ENGINES)
        self.empty = True
        self.start = ""
        self.binary = False

    def feed(self, source: Source) -> None:
        """Stream one source through every parser."""
        block = _Block()
        for first, piece in pieces(source, self.notes):
            if self.empty and piece.strip():
                self.empty, self.start = False, piece[:400].decode("utf-8", "replace")
            self.binary = self.binary or b"\0" in piece
            self._piece(source, first, piece, block)
        self._close(source, block, complete=False)

    def _piece(self, source: Source, first: int, piece: bytes, block: _Block) -> None:
        data = b"\n" + piece  # so that the first line, too, follows a newline
        if not block.open:
            data = unwrapped(data)
        resume = self._take(source, data, 1, block) if block.open else 0
        waiting: Iterable[Waiting] = ()
        if not resume and not _holds_block(data):
            data, waiting = self._common(source, first, data)
        number, counted = first - 1, 0
        for start, end, bits in self.marks.lines(data):
            if start < resume:
                continue
            number += data.count(b"\n", counted, start)
            counted = start
            line = data[start:end]
            for rows in waiting:
                if bits & rows.bit or b"{" in line:
                    rows.give(number)
            if bits & BLOCK and opens_block(line):
                block.begin(number, line)
                resume = self._take(source, data, start, block)
            else:
                self._line(line, bits, source.place(number))
        for rows in waiting:
            rows.give(math.inf)

    def _common(self, source: Source, first: int, data: bytes) -> tuple[bytes, Iterable[Waiting]]:
        """`data` without the lines of common shapes, and those, an engine's together."""
        data, rows = take_out(source, first, data, [shape for _, shape in _SHAPES], _WORDS)
        waiting = []
        for index in sorted({index for index, _ in _SHAPES}) if rows else ():
            own = [found for found, (of, _) in zip(rows, _SHAPES, strict=True) if of == index]
            waiting.append(Waiting(self.parsers[index], bit_of(index), own))
        return data, waiting

    def _take(self, source: Source, data: bytes, start: int, block: _Block) -> int:
        """Give the block `data` from `start` up to its end; the offset after it."""
        end = block.take(data, start)
        if end is not None:
            self._close(source, block, complete=True)
            return end
        if block.size > LARGEST_BLOCK:
            self._close(source, block, complete=False)
        return len(data)

    def _close(self, source: Source, block: _Block, *, complete: bool) -> None:
        if not block.open:
            return
        place, data = source.place(block.first), block.end()
        text = data.decode("utf-8", "replace")
        value = json_value(text)
        if value is not None:
            self._value(value, place)
            return
        inside = 0
        for value in salvage(text):
            inside += 1
            self._value(value, place)
        if inside and not complete:
            self.notes.add(f"JSON is cut off: {inside} complete objects in it were read", place)
        data = b"\n" + data
        for start, end, bits in self.marks.lines(data):
            line = data[start:end]
            if not looks_like_json(line.decode("utf-8", "replace").strip()):
                number = place.line - 1 + data.count(b"\n", 0, start)
                self._line(line, bits, source.place(number), json=False)

    def _line(self, line: bytes, bits: int, at: Place, *, json: bool = True) -> None:
        text = plain_text(line)
        plain = text.removeprefix("data:").lstrip()
        if json and looks_like_json(plain):
            value = json_value(plain)
            if value is not None:
                self._value(value, at)
                return
        bits &= ~BLOCK
        while bits:
            low = bits & -bits
            self.parsers[low.bit_length() - 2].line(text, at)
            bits ^= low

    def _value(self, value: object, at: Place) -> None:
        """Offer each object to the engines, outermost first, until one takes it."""
        queue: deque[Node] = deque(objects(value))
        while queue:
            node = queue.popleft()
            wrapped = next((node[key] for key in _WRAPPED if isinstance(node.get(key), str)), None)
            if isinstance(wrapped, str):
                self._wrapped(wrapped, at)
            if not any(parser.document(node, at) for parser in self.parsers):
                for inner in node.values():
                    if isinstance(inner, (dict, list)):
                        queue.extend(objects(inner))

    def _wrapped(self, text: str, at: Place) -> None:
        """A line that a JSON logger wrapped."""
        data = b"\n" + text.encode("utf-8", "replace")
        for start, end, bits in self.marks.lines(data):
            self._line(data[start:end], bits, at, json=False)

    def finish(self, sources: list[Source]) -> list[Reading]:
        """The readings, or the LogError that says why there are none."""
        common = self.notes.texts()
        found = []
        for parser, (_, notes) in zip(self.parsers, self.kept, strict=True):
            readings = parser.readings()
            found += [one.warned(*notes.texts(), *common) for one in readings]
        if found:
            return found
        raise LogError(self._why(sources, [*common, *self._dropped()]))

    def _dropped(self) -> Iterator[str]:
        for _, notes in self.kept:
            yield from notes.texts()

    def _why(self, sources: list[Source], notes: list[str]) -> str:
        if self.empty:
            return f"{sources[0].name or 'the log'} is empty"
        seen = [text for parser in self.parsers if (text := parser.without()) is not None]
        said = "; ".join([*seen, *notes[:5]])
        if said:
            return f"no speculation to read: {said}"
        names = ", ".join(sorted({engine.name for engine in ENGINES}))
        hint = " (it looks binary)" if self.binary else ""
        named = any(source.is_name for source in sources)
        file = ". This is a name, not a log: open the file (in Python, pass its Path)"
        return (
            f"no speculation found{hint}: no line is in the telemetry format of {names}. "
            f"It starts {start_of(self.start)}{file if named else ''}"
        )


def _holds_block(data: bytes) -> bool:
    """Whether a JSON value that spans several lines begins here: what is in it are no lines."""
    return any(opens_block(data[at : line_end(data, at)]) for at in block_starts(data))


class _Block:
    """Lines of a JSON value that spans several: kept until one closes it at the left margin."""

    def __init__(self) -> None:
        self.open = False
        self.first = 0
        self.size = 0
        self._parts: list[bytes] = []
        self._closers: tuple[bytes, ...] = ()

    def begin(self, number: int, line: bytes) -> None:
        """Open at line `number`, which reads `line`."""
        self.open, self.first, self.size, self._parts = True, number, 0, []
        text = line.strip()
        self._closers = (b"\n}",) if text.startswith(b"{") else (b"\n]",)
        if text.startswith(b"[{"):
            self._closers = (b"\n}", b"\n]")

    def take(self, data: bytes, start: int) -> int | None:
        """Take `data` from `start`; the offset after the closing line, or None if still open."""
        look = start - 1 if self._parts else start
        ends = [at for close in self._closers if (at := data.find(close, look)) >= 0]
        end = len(data)
        if ends:
            newline = data.find(b"\n", min(ends) + 1)
            end = len(data) if newline < 0 else newline + 1
        self._parts.append(data[start:end])
        self.size += end - start
        return end if ends else None

    def end(self) -> bytes:
        """Close, and give back what was taken."""
        data, self._parts, self.open = b"".join(self._parts), [], False
        return data
