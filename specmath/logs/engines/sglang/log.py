"""SGLang's `Decode batch` log lines: three eras, told apart by the identity that holds.

    accept len = (A + N)/N, the bonus token included, in every era
    era A (2025-10)  accept rate = accept len / num_draft_tokens
    era B (2026)     accept rate = (accept len − 1) / (num_draft_tokens − 1)

For a chain num_draft_tokens is γ + 1. It is a whole number, so a printed pair allows few values;
consecutive lines must agree on one. With speculative_eagle_topk > 1 it counts tree nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from specmath.logs.columns import Rows
from specmath.logs.counts import Tally, make_reading
from specmath.logs.engines.base import HOST, Parser, timestamp
from specmath.logs.lanes import Lanes, with_pooled
from specmath.logs.reading import Channel, Counts, Extras, Lane, Reading
from specmath.logs.service import Meter, together
from specmath.logs.stream import LogLine, Notes

_NUM = r"(\d{1,6}(?:\.\d{1,6})?)"
_LENGTH = re.compile(rf"accept len: {_NUM}")
_RATE = re.compile(rf"accept rate: {_NUM}")
_RUNNING = re.compile(r"#running-req: (\d{1,9})")
_SETTING = re.compile(
    r"speculative_(eagle_topk|num_steps|num_draft_tokens)['\"]?\s?[=:]\s?(\d{1,4})\b"
)
_COMMON = re.compile(
    rf"Decode batch[.,] #running-req: (\d{{1,9}}), (?P<free>[^\n]{{1,200}}?)accept len: {_NUM}, "
    rf"accept rate: {_NUM},".encode()
)
# In the order of Meter.NAMES; prefix hits and prompts stand in the lines of prefill.
_LOAD = (
    re.compile(rb"#running-req: (\d{1,9})"),
    re.compile(rb"#queue-req: (\d{1,9})"),
    re.compile(rb"token usage: (\d{1,6}(?:\.\d{1,6})?)"),
    None,
    re.compile(rb"gen throughput \(token/s\): (\d{1,9}(?:\.\d{1,6})?)"),
    None,
)
_RANK = re.compile(rb"\[[^\]\n]{0,60} DP(\d{1,4})\b")
HALF = 0.005 + 1e-9
MOST_DRAFT_TOKENS = 64
MOST_SEGMENTS = 64

OLD, ERA_A, ERA_B, UNKNOWN = "2025 H1", "A, 2025-10", "B, 2026", "unknown"
Candidate = tuple[str, int]


@lru_cache(maxsize=4096)
def _candidates(length: float, rate: float) -> frozenset[Candidate]:
    """(era, num_draft_tokens) that a printed length and rate allow, both rounded to 0.01.

    A chain of n draft tokens (its root included) emits at most n a step. A rate that rounds to
    zero bounds n from below only.
    """
    found = set()
    for era, over in ((ERA_A, 0.0), (ERA_B, 1.0)):
        low = max((length - over - HALF) / (rate + HALF) + over, length - HALF, 2.0)
        high = float(MOST_DRAFT_TOKENS)
        if rate > HALF:
            high = min((length - over + HALF) / (rate - HALF) + over, high)
        found |= {(era, tokens) for tokens in range(math.ceil(low), math.floor(high) + 1)}
    return frozenset(found)


@dataclass(slots=True)
class _Segment:
    """Consecutive lines of one era; their weights are running requests."""

    candidates: frozenset[Candidate] | None
    tally: Tally = field(default_factory=Tally)
    lines: int = 0


class SglangLog(Parser):
    """Means weighted by running requests: every line covers the same number of batch steps."""

    name = "sglang"
    marks = (b"Decode batch", b"speculative_")
    empty = "{} SGLang 'Decode batch' lines without accept len"
    shapes = (_COMMON,)
    looks = (b"accept len", b"accept rate", b"#running-req")

    def begin(self) -> None:
        self._servers: Lanes[_Server] = Lanes(
            lambda: _Server(self.gamma, Notes()), _Server(self.gamma, self.notes)
        )
        self._settings: dict[str, int] = {}

    def line(self, text: str, at: LogLine) -> None:
        for name, value in _SETTING.findall(text):
            self._settings[name] = int(value)
        if "Decode batch" in text or _LENGTH.search(text):
            for server in self._servers.of(_lane(text.encode())):
                server.line(text, at)

    def rows(self, found: Sequence[Rows]) -> bool:
        (rows,) = found
        lanes = set(map(_lane, rows.heads()))
        if self._servers.several or len(lanes) != 1:
            return False
        server, *rest = self._servers.of(*lanes)
        return not rest and server.rows(rows)

    def readings(self) -> Iterator[Reading]:
        settings = self._settings
        yield from self._by_lane(lambda server: list(server.readings(settings)))

    def plain(self) -> Iterator[Reading]:
        yield from self._by_lane(_Server.plain)

    def _by_lane(self, readings: Callable[[_Server], list[Reading]]) -> Iterator[Reading]:
        each = [
            replace(reading, lane=lane, service=server.meter.service())
            for lane, server in self._servers.each()
            for reading in readings(server)
        ]
        if not self._servers.several:
            yield from each
            return
        whole = together([server.meter.service() for _, server in self._servers.each()])
        pooled = [replace(one, service=whole) for one in readings(self._servers.whole)]
        yield from with_pooled(each, pooled)

    def without(self) -> str | None:
        lines, undrafted = self._servers.whole.lines, self._servers.whole.undrafted
        if lines:
            return (
                f"an SGLang log in which no step with requests was logged (#running-req: 0 in all "
                f"{lines} lines with an accept len)"
            )
        return self.empty.format(undrafted) if undrafted else None


def _lane(line: bytes) -> Lane:
    rank, host = _RANK.search(line), HOST.match(line)
    return Lane(rank=rank and rank[1].decode(), host=host and host[1].decode())


class _Server:
    """The segments and the load of one server."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        self.gamma = gamma
        self.notes = notes
        self.meter = Meter()
        self.undrafted = 0
        self._segments: list[_Segment] = []
        self._settings: dict[str, int] = {}

    @property
    def lines(self) -> int:
        """Lines with an accept len."""
        return sum(segment.lines for segment in self._segments)

    def line(self, text: str, at: LogLine) -> None:
        """One line of a decode batch."""
        self.meter.add(*_load(text.encode()))
        found, rate, running = (one.search(text) for one in (_LENGTH, _RATE, _RUNNING))
        if found is None:
            self.undrafted += 1
            return
        length = float(found[1])
        if rate is not None and float(rate[1]) > 1.0 + HALF:
            self.notes.add("an accept rate above 1 is not a rate: not used", at)
        if length < 1.0 - HALF:
            self.notes.add("an accept len below 1 was left out", at)
            return
        segment = self._segment(self._options(length, float(rate[1])) if rate else None)
        segment.lines += 1
        weight = float(running[1]) if running else 1.0
        segment.tally.add_mean(at.line, timestamp(text), length, weight)

    def rows(self, rows: Rows) -> bool:
        """Lines as columns; False, with nothing taken, where something is odd about one."""
        weight, length, rate = rows.columns(1, 3, 4)
        pairs = set(zip(length.tolist(), rate.tolist(), strict=True))
        before = [last.candidates or frozenset() for last in self._segments[-1:]]
        both = frozenset.intersection(*before, *(self._options(*pair) for pair in pairs))
        if not both or length.min() < 1.0 - HALF:
            return False
        segment = self._segment(both)
        segment.lines += len(rows)
        segment.tally.extend(rows.lines, rows.when, weight, tokens=length)
        self.meter.extend(*rows.searched(_LOAD))
        return True

    def _options(self, length: float, rate: float) -> frozenset[Candidate]:
        options = _candidates(length, rate)
        if self.gamma:
            options = frozenset(o for o in options if o[1] == self.gamma + 1) or options
        return options

    def _segment(self, options: frozenset[Candidate] | None) -> _Segment:
        """The last segment where lines of these options go on from it, else a new one."""
        last = self._segments[-1] if self._segments else None
        if last is not None:
            both = options and last.candidates and options & last.candidates
            if both or options == last.candidates:
                last.candidates = both or options
                return last
            if len(self._segments) >= MOST_SEGMENTS:
                self.notes.add(f"the era changes more than {MOST_SEGMENTS} times: rates not used")
                return last
        self._segments.append(_Segment(options))
        return self._segments[-1]

    def readings(self, settings: dict[str, int]) -> Iterator[Reading]:
        """A reading an era and draft length; `settings` as the server printed them."""
        self._settings = settings
        merged: dict[tuple[str, int | None], list[_Segment]] = {}
        ambiguous = []
        for segment in self._segments:
            options = segment.candidates
            if segment.tally.steps <= 0:
                continue
            chosen = sorted(self._settled(options)) if options else []
            lengths = {tokens for _, tokens in chosen}
            if len(lengths) > 1:
                ambiguous.append((segment, chosen))
                continue
            eras = " or ".join(era for era, _ in chosen) or (OLD if options is None else UNKNOWN)
            merged.setdefault((eras, max(lengths, default=None)), []).append(segment)
        for (era, tokens), segments in merged.items():
            yield self._reading(era, tokens, segments)
        for segment, chosen in ambiguous:
            yield self._ambiguous(segment, chosen)

    def _settled(self, options: frozenset[Candidate]) -> frozenset[Candidate]:
        """The candidates that agree with the printed server arguments, where there are any."""
        tokens = self._settings.get("num_draft_tokens")
        return frozenset(o for o in options if o[1] == tokens) or options

    def _reading(self, era: str, tokens: int | None, segments: list[_Segment]) -> Reading:
        tally = segments[0].tally
        for other in segments[1:]:
            tally.absorb(other.tally)
        warnings = []
        if sum(segment.lines for segment in segments) > 1:
            warnings.append(
                "the mean over lines is weighted by #running-req: steps are not printed"
            )
        if era == UNKNOWN:
            warnings.append(
                "the accept rate fits neither len / n nor (len - 1) / (n - 1) for a whole n: not "
                "used (a token tree, or a build before PR 11572)"
            )
        given = self._settings.get("num_draft_tokens")
        gamma = tokens - 1 if tokens else self.gamma or (given or 0) - 1
        if tokens and self.gamma and gamma != self.gamma:
            warnings.append(f"the printed rates say gamma {gamma}, not the given {self.gamma}")
        tree = self._is_tree()
        if not tree and "eagle_topk" not in self._settings and gamma > 0:
            warnings.append("α takes the draft as a chain (speculative_eagle_topk 1)")
        if tree:
            gamma = self._settings.get("num_steps", 0)
        counts = Counts(gamma=gamma, tokens_per_step=max(tally.tokens_per_step, 1.0))
        channel = Channel("sglang", f"log, era {era}", "tree" if tree else "chain")
        return make_reading(channel, counts, Extras(tally.windows()), warnings)

    def _is_tree(self) -> bool:
        steps, tokens = self._settings.get("num_steps"), self._settings.get("num_draft_tokens")
        odd = steps is not None and tokens is not None and tokens > steps + 1
        return self._settings.get("eagle_topk", 1) > 1 or odd

    def _ambiguous(self, segment: _Segment, chosen: list[Candidate]) -> Reading:
        """Both readings, side by side; the common one keeps only what they agree on."""
        eras = " or ".join(sorted({era for era, _ in chosen}))
        readings = tuple(self._reading(era, tokens, [segment]) for era, tokens in chosen[:8])
        channel = Channel("sglang", f"log, era {eras}: ambiguous")
        counts = Counts(tokens_per_step=segment.tally.tokens_per_step)
        main = make_reading(channel, counts, Extras(segment.tally.windows()))
        text = "the accept rate fits more than one era or draft length: all readings are given"
        return replace(main, alternatives=readings).warned(text)

    def plain(self) -> list[Reading]:
        """The load alone, of a run that did not speculate."""
        if not self.meter.service().speed_told:
            return []
        return [make_reading(Channel("sglang", "log, no speculation"), Counts())]


def _load(line: bytes) -> list[float]:
    """What a line tells, in the order of Meter.NAMES."""
    found = (pattern and pattern.search(line) for pattern in _LOAD)
    return [float(one[1]) if one else math.nan for one in found]
