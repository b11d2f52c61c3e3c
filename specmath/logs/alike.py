"""Lines alike: the same but for which digits, and how many, stand in a run, and how many blanks
do where there are several.

A log of nothing but statistics has thousands of lines to a piece and a few dozen forms. What a
form is (which pattern it matches, where its numbers stand) is looked up once; the numbers of all
its lines are then read as columns.

Whether a pattern matches may depend on how long a run is, so two lines are made of a form, one with
its shortest runs and one with its longest. What both are, every line between them is: patterns
bound a run from both sides, and none asks for a particular digit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from specmath.checks import FloatArray, IntArray

__all__ = ["FREE", "MOST_DIGITS", "UNFIT", "UNLIKE", "Alike", "Form", "Forms", "Letters", "Span"]

FREE = "free"
"""The name of a pattern's group that may hold any text: it counts as outside the pattern."""

MOST_FORMS = 2048
MOST_DIGITS = 15
"""So many are a whole number that a float holds, and so is a power of ten of that size."""
_TENS = np.array([10.0**power for power in range(MOST_DIGITS + 1)])
# A word that goes on into a pattern's match, which stands here as a NUL.
_TOUCHES = re.compile(rb"[A-Za-z_]\0|\0[A-Za-z_]")
_SPELLS = re.compile(rb'\\(?![nrt"])')
_NUMBER = re.compile(rb"0(?:\.0)?")
_BLANKS = 1
MOST_BLANKS = 16
"""More than any mark has in a row."""
UNFIT = (b"\0", b"\1")
"""Letters that stand for something here."""
_RUNS = re.compile(rb"[0\1]")
_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_WINDOW = 8
_NIBBLES, _EACH_FOURTH = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x000000FF000000FF)
_BY_FOUR, _BY_TWO = np.uint64(100 + (1_000_000 << 32)), np.uint64(1 + (10_000 << 32))
Span = tuple[int, int]
UNLIKE: Span = (-1, -1)
Lengths = tuple[int, ...]
Looks = tuple[Span, int, tuple[Span | None, ...]]


# ── what lines of one form are ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Probe:
    """A line of a form; letter i of the form stands for the text from ends[i] to ends[i + 1]."""

    text: bytes
    ends: list[int]

    def span(self, found: Span) -> Span:
        """The letters of the form that `found` covers; -1 where an end is amid a run."""
        start, end = (bisect_left(self.ends, at) for at in found)
        return (
            start if self.ends[start] == found[0] else -1,
            end if self.ends[end] == found[1] else -1,
        )


def _probe(form: bytes, runs: Sequence[int], lengths: Lengths) -> Probe:
    counts = np.ones(len(form), dtype=np.int64)
    counts[list(runs)] = lengths
    text = np.repeat(np.frombuffer(form, np.uint8), counts).tobytes().replace(b"\1", b" ")
    return Probe(text, [0, *accumulate(counts.tolist())])


@dataclass(frozen=True, eq=False)
class Form:
    """What lines of one form are, by the form's letters: which of them are runs; the line itself,
    which may stand in JSON; the pattern that it matches; what its groups caught, the first being
    all of it."""

    text: bytes
    runs: tuple[int, ...]
    line: Span
    pattern: int
    groups: tuple[Span | None, ...]
    probes: tuple[Probe, ...]

    def search(self, pattern: re.Pattern[bytes]) -> Span | None:
        """What group 1 of the pattern catches in these lines; UNLIKE where not the same in all."""
        found = set()
        for probe in self.probes:
            match = pattern.search(probe.text, *(probe.ends[end] for end in self.line))
            found.add(probe.span(match.span(1)) if match else None)
        span = found.pop()
        return UNLIKE if found or (span and min(span) < 0) else span

    def outside(self, pattern: re.Pattern[bytes]) -> list[int]:
        """The runs of digits before what the form's own pattern matched, outside of `pattern`."""
        found = set[int]()
        first, end = self.head
        for probe in self.probes:
            ends = probe.ends
            cuts = [m.span() for m in pattern.finditer(probe.text, ends[first], ends[end])]
            found |= {
                i for i in self.runs
                if first <= i < end and self.text[i] == ord("0")
                and not any(a <= ends[i] and ends[i + 1] <= b for a, b in cuts)
            }  # fmt: skip
        return sorted(found)

    @property
    def head(self) -> Span:
        """What stands before the pattern."""
        assert self.groups[0] is not None
        return self.line[0], self.groups[0][0]


class Forms:
    """The forms of lines that match one of `patterns`, looked up once.

    `words`: a line that has one of these beside the pattern is none of them. `inside`: where the
    line stands that a line of JSON carries, None where it does not carry one as it is. `wanted`:
    whether any engine may look at a line.
    """

    def __init__(
        self, patterns: Sequence[re.Pattern[bytes]], words: Sequence[bytes],
        inside: Callable[[bytes], Span | None], wanted: Callable[[str], bool],
    ) -> None:  # fmt: skip
        self.patterns, self._words, self._inside = patterns, words, inside
        self._wanted = wanted
        self._known: dict[bytes, tuple[Lengths, Lengths, Form | None]] = {}

    def idle(self, text: bytes) -> bool:
        """Whether no line of this form is looked at, however many blanks it has; JSON whose escapes
        may spell a letter is."""
        most = text.replace(b"\1", b" " * MOST_BLANKS)
        spelled = b"{" in most and _SPELLS.search(most)
        return not spelled and not self._wanted(most.decode("latin-1"))

    def of(self, letters: Letters, text: bytes, lines: IntArray) -> Alike | None:
        """These lines by their form; None where they are to be looked at one by one."""
        runs = tuple(match.start() for match in _RUNS.finditer(text))
        begins, ends = letters.runs_of(lines, len(runs))
        lengths = ends - begins
        low, high = (tuple(end.tolist()) for end in (lengths.min(axis=0), lengths.max(axis=0)))
        form = self._form(text, runs, low, high)
        return None if form is None else Alike(form, letters, letters.begins[lines], begins, ends)

    def _form(self, text: bytes, runs: Lengths, low: Lengths, high: Lengths) -> Form | None:
        before = self._known.get(text)
        if before is not None:
            shortest, longest = tuple(map(min, low, before[0])), tuple(map(max, high, before[1]))
            if (shortest, longest) == before[:2]:
                return before[2]
            wider = self._made(text, runs, shortest, longest)
            if wider is not None:
                self._known[text] = shortest, longest, wider
                return wider
        found = self._made(text, runs, low, high)
        if before is None and len(self._known) < MOST_FORMS:
            self._known[text] = low, high, found
        return found

    def _made(self, text: bytes, runs: Lengths, low: Lengths, high: Lengths) -> Form | None:
        probes = tuple(_probe(text, runs, lengths) for lengths in dict.fromkeys((low, high)))
        found = {self._look(probe) for probe in probes}
        one = found.pop()
        if found or one is None or any(span and min(span) < 0 for span in (one[0], *one[2])):
            return None
        return Form(text, runs, *one, probes)

    def _look(self, probe: Probe) -> Looks | None:
        """(the line, its pattern, its groups), or None where it is not one of the patterns'."""
        first, last = 0, len(probe.text)
        if b"{" in probe.text:
            inside = self._inside(probe.text)
            if inside is None:
                return None
            first, last = inside
        line = probe.text[first:last]
        found = [(i, m) for i, one in enumerate(self.patterns) if (m := one.search(line))]
        if len(found) != 1 or b"{" in line or not self._alone(line, found[0][1]):
            return None
        index, match = found[0]
        spans = (match.span(group) for group in range(match.re.groups + 1))
        groups = (probe.span((s + first, e + first)) if s >= 0 else None for s, e in spans)
        return probe.span((first, last)), index, tuple(groups)

    def _alone(self, line: bytes, match: re.Match[bytes]) -> bool:
        """Whether none of the words stands beside the match, digits and dots left out."""
        free = b" %b \0" % match[FREE] if FREE in match.re.groupindex else b""
        beside = line[: match.start()] + b"\0" + free + line[match.end() :]
        beside = beside.translate(None, b"0123456789.")
        return not _TOUCHES.search(beside) and not any(word in beside for word in self._words)


# ── the lines of a piece ──────────────────────────────────────────────────────────────────────


class Letters:
    """A piece with a 0 for each run of digits and a _BLANKS for each of several blanks.

    `forms` are its lines as they read so, `begins` where these begin. `data` begins with a newline
    and has none of UNFIT.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        letters = np.frombuffer(data, np.uint8)
        digit, blank = letters - ord("0") < 10, letters == ord(" ")
        goes_on = np.zeros(len(data) + 1, dtype=bool)
        goes_on[1:-1] = (digit[1:] & digit[:-1]) | (blank[1:] & blank[:-1])
        first, last = ~goes_on[:-1], ~goes_on[1:]
        blanks = blank & first & goes_on[1:]
        self.runs: IntArray = np.flatnonzero((digit & first) | blanks)
        self.ends: IntArray = np.flatnonzero((digit | (blank & goes_on[:-1])) & last) + 1
        once = letters * first - blanks * np.uint8(ord(" ") - _BLANKS)
        read = once.tobytes().translate(_AS_ZERO, b"\0")
        self.forms = read.split(b"\n")[1:]
        self.begins: IntArray = np.flatnonzero(letters == ord("\n")) + 1
        self._first: IntArray = np.searchsorted(self.runs, self.begins)
        self._before: NDArray[np.uint64] = np.ndarray(
            (len(data) + 1,), dtype="<u8", buffer=bytes(_WINDOW) + data, strides=(1,)
        )

    def kinds(self) -> Iterator[tuple[bytes, IntArray]]:
        """(form, indices of its lines) of each form."""
        ids: dict[bytes, int] = {}
        which = np.array([ids.setdefault(form, len(ids)) for form in self.forms])
        order = np.argsort(which, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(which))[:-1])
        yield from zip(ids, parts, strict=True)

    def runs_of(self, lines: IntArray, count: int) -> tuple[IntArray, IntArray]:
        """(begins, ends) of the `count` runs of each line [line, run]."""
        which = self._first[lines][:, None] + np.arange(count)
        return self.runs[which], self.ends[which]

    def whole(self, ends: IntArray, lengths: IntArray) -> FloatArray:
        """The numbers that runs of digits make; exact up to MOST_DIGITS."""
        found = _eight(self._before[ends], np.minimum(lengths, _WINDOW)).astype(float)
        if int(lengths.max(initial=0)) > _WINDOW:
            long = np.clip(lengths - _WINDOW, 0, _WINDOW)
            more = _eight(self._before[np.maximum(ends - _WINDOW, 0)], long)
            found += np.where(long > 0, more * 1e8, 0.0)
        return found


def _eight(letters: NDArray[np.uint64], lengths: IntArray) -> NDArray[np.uint64]:
    """The numbers that the last `lengths` of eight letters make, the first letter being lowest.

    Neighbours are added up by one multiplication, pairs of them and the two fours by another two.
    """
    out = (8 * (_WINDOW - np.maximum(lengths, 1))).astype(np.uint64)
    digits = ((letters >> out) << out) & _NIBBLES
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    low = (pairs & _EACH_FOURTH) * _BY_FOUR
    high = ((pairs >> np.uint64(16)) & _EACH_FOURTH) * _BY_TWO
    return np.asarray((low + high) >> np.uint64(32))


@dataclass(frozen=True, eq=False)
class Alike:
    """Lines of one form: where each begins, and where its runs do and end [line, run]."""

    form: Form
    letters: Letters
    begins: IntArray
    runs: IntArray
    ends: IntArray

    def take(self, which: IntArray) -> Alike:
        """Some of them."""
        begins, runs, ends = (one[which] for one in (self.begins, self.runs, self.ends))
        return replace(self, begins=begins, runs=runs, ends=ends)

    def at(self, index: int) -> IntArray:
        """Where letter `index` of the form stands in each line."""
        before = bisect_left(self.form.runs, index) - 1
        if before < 0:
            return self.begins + index
        return np.asarray(self.ends[:, before] + (index - self.form.runs[before] - 1))

    def texts(self, span: Span) -> list[bytes]:
        """What stands at `span` of the form."""
        data, starts, ends = self.letters.data, *map(self.at, span)
        return [data[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]

    def digits(self, indices: Sequence[int]) -> tuple[FloatArray, IntArray]:
        """(whole numbers, how many digits they have) of these runs of the form [line, run]."""
        which = [bisect_left(self.form.runs, index) for index in indices]
        ends = self.ends[:, which]
        lengths = ends - self.runs[:, which]
        return self.letters.whole(ends, lengths), lengths

    def numbers(self, spans: Sequence[Span | None]) -> FloatArray:
        """The numbers printed at these spans [line, span]; nan at None."""
        found = np.full((self.begins.size, len(spans)), np.nan)
        told = [i for i, span in enumerate(spans) if span is not None]
        printed = [span for span in spans if span is not None]
        if not printed:
            return found
        values = self._plain(printed)
        if values is None:
            texts = (self.texts(span) for span in printed)
            values = np.array([[float(text) for text in column] for column in texts]).T
        found[:, told] = values
        return found

    def _plain(self, printed: Sequence[Span]) -> FloatArray | None:
        """Numbers of few digits with a point or without; None where one is none."""
        if not all(_NUMBER.fullmatch(self.form.text, *span) for span in printed):
            return None
        broken = [i for i, (start, end) in enumerate(printed) if end - start > 1]
        runs = [start for start, _ in printed] + [printed[i][0] + 2 for i in broken]
        values, digits = self.digits(runs)
        whole, rest = values[:, : len(printed)], values[:, len(printed) :]
        places = digits[:, len(printed) :]
        digits[:, broken] += places
        if int(digits.max(initial=0)) > MOST_DIGITS:
            return None
        # Both parts are whole and exact: the quotient is the float nearest to what is printed.
        tens = _TENS[places]
        whole[:, broken] = (whole[:, broken] * tens + rest) / tens
        return whole
