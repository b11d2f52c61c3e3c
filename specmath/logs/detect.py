"""Reading telemetry: each engine sees the lines that hold its marks; content decides."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from specmath.checks import IntArray, whole
from specmath.logs.alike import Forms, Span
from specmath.logs.carriers import (
    json_in,
    json_value,
    looks_like_json,
    python_values,
    quoted,
    strings_and_objects,
    text_of_bytes,
    without_escapes,
    without_prefix,
)
from specmath.logs.columns import Rows, Waiting, plain_text, positions, take_out
from specmath.logs.engines import ENGINES
from specmath.logs.engines.base import Parser
from specmath.logs.engines.guidellm import table_readings
from specmath.logs.general import General
from specmath.logs.marks import BLOCK, STEMS, Marks, bit_of
from specmath.logs.reading import Reading
from specmath.logs.stream import LogError, LogLine, Notes, Readable, Source, as_sources, pieces
from specmath.rates import start_of

__all__ = ["Marks", "read", "read_run"]

LARGEST_BLOCK = 32 << 20
MOST_NESTED = 4
MOST_FAILURES = 200
KEPT = 16 << 20
DENSE = 0.5
"""Where that share of lines has a stem, looking for those in the next piece is no gain."""
_SHAPES = [(index, shape) for index, engine in enumerate(ENGINES) for shape in engine.shapes]
_WORDS = [word for engine in ENGINES for word in (*engine.marks, *engine.looks)]
_SHARED = (
    b":        ", b"num_spec", b"synthetic", b"speculative_", b'timings"', b"draft_n", b"n_draft ",
    b"n_predict ", b"n_drafted ", b"n_accept ", b"accept_length", b"Processed prompts: ",
    b" tok/sec", b", tg = ", b" seconds, speed: ", b"num_drafts: ", b"num_draft_tokens: ",
    b"num_accepted_tokens: ", b"mean acceptance length: ", b"total_num_output_tokens: ",
    b"acceptance at token ", b"draft_rounds", b"from_draft",
)  # fmt: skip
"""Marks that other programs may print too: what holds no other is left to the general reader."""
_ANY = re.compile(b"|".join(map(re.escape, STEMS)) + b"|[a-z]+_total")
# One string without escapes, its longest, among short ones: what most collectors write.
_VALUE = rb'(?:"[^"\\\n]{0,60}"|[-\d.eE]{1,24}|true|false|null)'
_WRAPPED = re.compile(
    rb'\{((?:"[\w.@-]{1,40}": ?' + _VALUE + rb', ?)*)"[\w.@-]{1,40}": ?"'
    rb'([^"\\\n]{61,})(?:\\r)?(?:\\n)?"((?:, ?"[\w.@-]{1,40}": ?' + _VALUE + rb")*)\}\s*$"
)


@lru_cache(maxsize=1024)
def _empty(rest: bytes) -> bool:
    """Whether what stands beside a wrapped line, its digits left out, holds no stem."""
    return _ANY.search(rest) is None


def _inside(line: bytes) -> Span | None:
    """Where the one string stands, without escapes, of a line of JSON that says nothing else."""
    simple = _WRAPPED.match(line)
    if simple and _empty((simple[1] + simple[3]).translate(None, b"0123456789")):
        return simple.span(2)
    return None


def _parts(data: bytes, newlines: IntArray, which: IntArray) -> Iterator[bytes]:
    """The lines of these indices."""
    starts, ends = newlines[which] + 1, np.append(newlines[1:], len(data))[which]
    return (data[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True))


_OWN = [mark for engine in ENGINES for mark in engine.marks if mark not in _SHARED]
_ANCHORED = sum(2 << index for index, engine in enumerate(ENGINES) if engine.anchored)
"""Bits of the engines whose lines must begin with their mark."""


def read(source: Readable | Iterable[Readable], *, gamma: int | None = None) -> list[Reading]:
    """Every reading in `source`: one for each channel of each engine found in it.

    A log of any length is read in bounded memory; gzip is expanded. Lines that could not be read
    are in `Reading.warnings`, with their numbers.

    Parameters
    ----------
    source
        Pasted text (str), the bytes of a file, a Path, an open binary file, or several of these in
        order of time: two dumps of one server's metrics give the change between them.
    gamma
        Draft length, tokens, 1 to 256, where the format does not print it.

    Returns
    -------
    list[Reading]
        At least one.

    Raises
    ------
    LogError
        Nothing could be read; it says what was found instead.

    Examples
    --------
    >>> (reading,) = read(
    ...     "SpecDecoding metrics: Mean acceptance length: 2.85, Accepted: 925 tokens, "
    ...     "Drafted: 1500 tokens, Per-position acceptance rate: 0.800, 0.600, 0.450"
    ... )
    >>> reading.engine, reading.gamma, reading.survival
    ('vllm', 3, (0.8, 0.6, 0.45))
    """
    return _Run(as_sources(source), gamma).finish()


PLAIN = "a plain run: BEFORE of a review (logs review), or the --baseline of another log"


def read_run(source: Readable | Iterable[Readable], *, gamma: int | None = None) -> list[Reading]:
    """read(), or the speed of a plain run where nothing in `source` speculated.

    Raises read()'s LogError where there is no speed either. In a stream that cannot be read twice
    no printed table is found.
    """
    sources = as_sources(source)
    run = _Run(sources, gamma)
    try:
        return run.finish()
    except LogError:
        found = [one for parser in run.parsers for one in parser.plain()]
        again = [one for one in sources if one.rewound()]
        found += table_readings(piece for one in again for _, piece in pieces(one, Notes()))
        if not found:
            raise
        return [one.warned(PLAIN) for one in found]


class _Run:
    """All engines over one call of read()."""

    def __init__(self, sources: Sequence[Source], gamma: int | None) -> None:
        if gamma is not None:
            gamma = int(whole("gamma", gamma, 1, 256))
        if not sources:
            raise LogError("no log given")
        self.sources = sources
        self.notes = Notes()
        self.parsers: list[Parser] = [engine(gamma, Notes()) for engine in ENGINES]
        self.marks = Marks(ENGINES)
        self.forms = Forms([shape for _, shape in _SHAPES], _WORDS, _inside, self.marks.any)
        self.dense = False
        self.empty = True
        self.start = ""
        self.binary = False
        self.unsure: list[str] = []
        self.kept: list[list[tuple[int, bytes]]] = []
        for one in sources:
            self.feed(one)

    def feed(self, source: Source) -> None:
        """Stream one source through every parser."""
        block, kept, size = _Block(), list[tuple[int, bytes]](), 0
        again = source.can_rewind()
        self.kept.append(kept)
        for first, piece in pieces(source, self.notes):
            if not again and size < KEPT:
                kept.append((first, piece))
                size += len(piece)
            if self.empty and piece.strip():
                self.empty, self.start = False, piece[:400].decode("utf-8", "replace")
            self.binary = self.binary or b"\0" in piece
            self._piece(source, first, piece, block)
        self._close(source, block, complete=False)

    def _piece(self, source: Source, first: int, piece: bytes, block: _Block) -> None:
        data = b"\n" + piece  # so that the first line, too, follows a newline
        if b"\x1b" in data:
            data = without_escapes(data)
        resume = self._take(source, data, 1, block) if block.open else 0
        newlines = positions(data, "\n")
        blocks = block_starts(data, newlines)
        if resume or blocks:
            self._amid_blocks(source, first, data, resume, blocks, block)
        else:
            self._lines(source, first, data, newlines)

    def _amid_blocks(
        self, source: Source, first: int, data: bytes, resume: int, blocks: list[int],
        block: _Block,
    ) -> None:  # fmt: skip
        """Lines one by one, and JSON values that span several of them."""
        for index, start, end, bits in self.marks.lines(data, blocks):
            if start < resume:
                continue
            line = data[start:end]
            if bits & BLOCK:
                block.begin(first + index, line)
                resume = self._take(source, data, start, block)
            else:
                self._line(line, bits, source.place(first + index))

    def _lines(self, source: Source, first: int, data: bytes, newlines: IntArray) -> None:
        """Lines none of which opens a JSON value that goes on."""
        held = np.arange(newlines.size)
        if not self.dense:
            held = np.flatnonzero(self.marks.found(data, newlines)[1])
            if not held.size:
                return
            data = b"\n" + b"\n".join(_parts(data, newlines, held))
            self.dense = held.size > DENSE * newlines.size
            newlines = positions(data, "\n")
        left, rows = take_out(source, data, first + held, self.forms)
        self.dense = self.dense and left.size < (1.0 - DENSE) * held.size
        waiting = self._waiting(rows)
        numbers = (first + held[left]).tolist()
        lines = _parts(data, newlines, left)
        rest = b"\n" + b"\n".join(self._unwrapped(one) if b"{" in one else one for one in lines)
        for index, start, end, bits in self.marks.lines(rest):
            line = rest[start:end]
            for one in waiting:
                if bits & one.bit or b"{" in line:
                    one.give(numbers[index])
            self._line(line, bits, source.place(numbers[index]))
        for one in waiting:
            one.give(math.inf)

    def _waiting(self, rows: Sequence[Rows]) -> list[Waiting]:
        """An engine's rows together."""
        waiting = []
        for index in sorted({index for index, _ in _SHAPES}) if rows else ():
            own = [found for found, (of, _) in zip(rows, _SHAPES, strict=True) if of == index]
            waiting.append(Waiting(self.parsers[index], bit_of(index), own))
        return waiting

    def _unwrapped(self, line: bytes) -> bytes:
        """The one string in the JSON of a line that holds a stem; the line itself if there is
        more to it."""
        if (simple := _inside(line)) is not None:
            return line[slice(*simple)]
        text = line.decode("utf-8", "replace").strip()
        value = json_in(text)
        if not isinstance(value, dict):
            return line
        for key, inner in value.items():
            if (spelled := text_of_bytes(inner)) is not None:
                value[key] = spelled
        held = [v for v in value.values() if isinstance(v, str) and self.marks.any(v)]
        if len(held) != 1 or "\n" in held[0].rstrip() or looks_like_json(held[0]):
            return line
        rest = {key: v for key, v in value.items() if v is not held[0]}
        if self.marks.any(repr(rest)):
            return line
        return without_escapes(held[0].strip().encode("utf-8", "replace"))

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
        if not self.marks.found(b"\n" + data)[1].any():
            return
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
        for index, start, end, bits in self.marks.lines(data):
            line = data[start:end]
            if not line.lstrip().startswith((b"{", b"[{")):
                self._line(line, bits, source.place(place.line + index), json=False)

    def _line(self, line: bytes, bits: int, at: LogLine, *, json: bool = True) -> None:
        text = plain_text(line)
        if json and "{" in text:
            value = json_in(text)
            if value is not None:
                self._value(value, at)
                return
            for value in python_values(text) if "{'" in text else ():
                self._value(value, at)
        self._text(text, bits & ~BLOCK, at)

    def _text(self, text: str, bits: int, at: LogLine) -> None:
        """A line of text, to each engine whose mark is in it."""
        bare = text
        if bits & _ANCHORED:
            bare = without_prefix((quoted(text) if '="' in text else None) or text)
        while bits:
            low = bits & -bits
            index = low.bit_length() - 2
            self.parsers[index].line(bare if low & _ANCHORED else text, at)
            bits ^= low

    def _value(self, value: object, at: LogLine, depth: int = 0) -> None:
        """Offer each object to the engines, outermost first, until one takes it; look into every
        string for lines, and for JSON again."""
        items = strings_and_objects(value)
        taken: bool | None = None
        while True:
            try:
                item = items.send(taken)
            except StopIteration:
                return
            taken = None
            if isinstance(item, dict):
                taken = any(parser.document(item, at) for parser in self.parsers)
            elif isinstance(item, str) and self.marks.any(item):
                self._string(item, at, depth)

    def _string(self, text: str, at: LogLine, depth: int) -> None:
        inner = json_value(text) if looks_like_json(text) else None
        if isinstance(inner, (dict, list)) and depth < MOST_NESTED:
            self._value(inner, at, depth + 1)
            return
        data = b"\n" + without_escapes(text.encode("utf-8", "replace"))
        for _, start, end, bits in self.marks.lines(data):
            self._line(data[start:end], bits, at, json=depth < MOST_NESTED)

    def finish(self) -> list[Reading]:
        """The readings, or the LogError that says why there are none."""
        common = self.notes.texts()
        found: list[Reading] = [
            one.warned(*parser.notes.texts(), *common)
            for parser in self.parsers
            for one in parser.readings()
        ]
        if not found:
            found = [one.warned(*common) for one in self._general()]
        if not found:
            dropped = [text for parser in self.parsers for text in parser.notes.texts()]
            raise LogError(self._why([*common, *dropped]))
        return found

    def _general(self) -> list[Reading]:
        """What no known format reads, read by the meaning of its names; no line of a known one."""
        found: list[Reading] = []
        for source, kept in zip(self.sources, self.kept, strict=True):
            again = pieces(source, Notes()) if source.rewound() else iter(kept)
            general = General(source.place(0), self.known)
            found += general.read(again)
            self.unsure += [f"{place}: '{name}'" for name, place in general.unsure.items()]
        return found

    def known(self, text: str) -> bool:
        """Whether a known format reads lines like this."""
        data = text.encode("utf-8", "replace")
        return any(mark in data for mark in _OWN)

    def _why(self, notes: list[str]) -> str:
        if self.empty:
            return f"{self.sources[0].name or 'the log'} is empty"
        seen = [text for parser in self.parsers if (text := parser.without()) is not None]
        said = "; ".join([*seen, *notes[:5]])
        if said:
            return f"no speculation to read: {said}"
        if self.unsure:
            names = ", ".join(self.unsure[:8])
            return (
                "no speculation read: it is in no known format, and no identity (accepted <= "
                "drafted, tokens per step = 1 + accepted / steps, share = accepted / drafted) "
                f"could confirm what these names mean: {names}"
            )
        names = ", ".join(sorted({engine.name for engine in ENGINES}))
        hint = " (it looks binary)" if self.binary else ""
        named = any(source.is_name for source in self.sources)
        file = ". This is a name, not a log: open the file (in Python, pass its Path)"
        return (
            f"no speculation found{hint}: no line is in the telemetry format of {names}. "
            f"It starts {start_of(self.start)}{file if named else ''}"
        )


_CLOSERS = {b"{": (b"\n}",), b"[": (b"\n]",), b"[{": (b"\n}", b"\n]")}


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
        opened = line.strip()[:2]
        self._closers = _CLOSERS[opened if opened == b"[{" else opened[:1]]

    def take(self, data: bytes, start: int) -> int | None:
        """Take `data` from `start`; the offset after the closing line, or None if still open."""
        look = start - 1 if self._parts else start
        ends = [at for close in self._closers if (at := data.find(close, look)) >= 0]
        end = min(line_end(data, min(ends) + 1) + 1, len(data)) if ends else len(data)
        self._parts.append(data[start:end])
        self.size += end - start
        return end if ends else None

    def end(self) -> bytes:
        """Close, and give back what was taken."""
        data, self._parts, self.open = b"".join(self._parts), [], False
        return data


def block_starts(data: bytes, newlines: IntArray) -> list[int]:
    """Starts of the lines that open a JSON value which goes on over further lines.

    They begin with { or [ and do not end with } or ]. `data` begins with a newline; `newlines`
    are its places.
    """
    letters = np.frombuffer(data, np.uint8)
    first = letters[np.minimum(newlines + 1, len(data) - 1)]
    some = np.flatnonzero((first == _BRACE) | (first == _BRACKET))
    if not some.size:
        return []
    starts, ends = newlines[some] + 1, np.append(newlines, len(data))[some + 1] - 1
    first, last = first[some], letters[ends]
    second = letters[np.minimum(starts + 1, len(data) - 1)]
    closed = (last == _BRACE + 2) | ((last == _BRACKET + 2) & (ends > starts))
    text = (first == _BRACKET) & (second != _BRACE) & (second > ord(" "))  # [2026-05-04 …
    found = starts[~(closed | text)].tolist()
    return [at for at in found if opens_block(data[at : line_end(data, at)])]


_BRACE, _BRACKET = (ord(letter) for letter in "{[")


def line_end(data: bytes, start: int) -> int:
    """Where the line that begins at `start` ends, its newline not included."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


# ── JSON amid a log: documents, one object a line, what is left of a cut-off one ─────────────


def opens_block(line: bytes) -> bool:
    """Whether `line` opens a JSON value that goes on over further lines."""
    text = line.strip()
    if text in (b"{", b"[", b"[{"):
        return True
    return text.startswith((b'{"', b'[{"')) and not text.endswith((b"}", b"]"))


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
