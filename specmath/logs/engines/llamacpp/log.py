"""llama.cpp's server log: a line a request, and the running totals of each implementation.

    2024-11   draft acceptance rate = r (A accepted / D generated)
    2026      slot print_timing: id n | task n | draft acceptance = r (A accepted / D generated)
              later with `mean acceptance length` or `mean len` (1 + A/N), and rates per position
              on the same line or on an `acc per pos` line of its own
    statistics <type>: …   totals since the start of one way of drafting:
        #calls(b,g,a) = 1 120 120, #gen drafts = N, #acc drafts = steps with an accepted token,
        #gen tokens = D, #acc tokens = A, #mean acc len = 1 + A/N, #acc rate/pos = (R_1, …),
        dur(b,g,a) = begin, generate, accept ms    (the oldest print one `dur = … ms`)

    adaptive draft depth seq n: 7 -> 6 (…, cur_accepted=A, cur_generated=D, cur_drop=A − D)
        totals of a request so far, printed where its draft length changes

A request's first token comes from its prompt, so it takes n − A − 1 decode passes. Newer servers
count n − 1 tokens over the time of decoding as its speed, which the printed speed tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specmath.checks import FloatArray
from specmath.logs.columns import FEWEST, Rows
from specmath.logs.counts import C_FROM_SHARE, Spread, Tally, both, make_reading
from specmath.logs.engines.base import FALL, LARGEST_COUNT, Parser, drafter, rates_in
from specmath.logs.engines.llamacpp.adaptive import MOST_SLOTS, NO_SLOT, SLOT, Adaptive
from specmath.logs.engines.llamacpp.slots import Request, paired
from specmath.logs.reading import Channel, Counts, Extras, Reading
from specmath.logs.stream import LogLine, Notes
from specmath.rates import RATE_LIST

__all__ = ["GREEDY", "Request", "Requests", "timed"]

GREEDY = (
    "llama.cpp drafts greedily by default, and an n-gram draft is a fixed proposal: at a "
    "temperature above 0 this acceptance is how often the target's sample matches it, not the "
    "paper's α"
)
_DRAFT = re.compile(
    r"draft acceptance(?: rate)? = \s{0,4}\d{1,3}\.\d{1,9} \(\s{0,12}(\d{1,15}) accepted /"
    r"\s{0,12}(\d{1,15}) generated\)"
)
_MEAN = re.compile(r"mean (?:acceptance length|len) =\s{0,8}(\d{1,6}\.\d{1,6})")
_RATES = re.compile(rf"(?:acceptance rate per position|acc per pos) = \(({RATE_LIST})\)")
_EVAL = re.compile(
    r"(?<!prompt )\beval time =\s{0,12}(\d{1,12}(?:\.\d{1,6})?) ms /\s{0,12}(\d{1,12}) (?:tok|run)"
    r"(?:\w{1,5} \([^()]{1,60}?,\s{0,12}(\d{1,9}\.\d{1,4}) tokens per second\))?"
)
# What 2026's server prints of a request: its prompt, its decoding, its drafts.
_COMMON = re.compile(
    r"print_timing: id {1,6}(\d{1,9}) \| task -?\d{1,12} \| {1,12}(?:"
    r"(prompt )?eval time = {0,12}(\d{1,12}(?:\.\d{1,6})?) ms / {0,12}(\d{1,12}) tokens"
    r"(?: \( {0,12}[\d.]{1,15} ms per token, {0,12}(\d{1,9}\.\d{1,4}) tokens per second\))?|"
    r"draft acceptance =  {0,4}\d{1,3}\.\d{1,9} \( {0,12}(\d{1,15}) accepted /"
    r" {0,12}(\d{1,15}) generated\)"
    r"(?:, mean (?:acceptance length|len) = {0,8}(\d{1,6}\.\d{1,6}))?"
    rf"(?:, acceptance rate per position = \(({RATE_LIST})\))?[ \r]{{0,4}}(?=\n|\Z))".encode()
)
_LINE = re.compile(r"statistics\s{1,40}([A-Za-z0-9_\-+]{1,40}):(.{1,4000})")
_COUNT = re.compile(r"#(gen drafts|acc drafts|gen tokens|acc tokens) =\s{0,20}(\d{1,15})\b")
_MEAN_LENGTH = re.compile(r"#mean acc len =\s{0,20}(\d{1,6}\.\d{1,6})")
_POSITIONS = re.compile(rf"#acc rate/pos = \(({RATE_LIST})\)")
_NUMBER = r"\s{0,20}\d{1,12}(?:\.\d{1,6})?"
_TIMES = re.compile(rf"dur(?:\(b,g,a\))? =({_NUMBER}(?:,{_NUMBER}){{0,2}}) ms")
_MS = r" {0,20}(\d{1,12}(?:\.\d{1,6})?)"
# A line as printed since 2026: type, drafts, drafted, accepted, mean, rates, three times.
# Counts of ten digits: a piece of them adds up exactly.
_COMMON_TOTALS = re.compile(
    r"statistics {1,40}(?P<free>[A-Za-z0-9_\-+]{1,40}): #calls\(b,g,a\) =[\d ]{1,60}, "
    r"#gen drafts = {0,20}(\d{1,10}), #acc drafts = {0,20}\d{1,15}, "
    r"#gen tokens = {0,20}(\d{1,10}), #acc tokens = {0,20}(\d{1,10})"
    rf"(?:, #mean acc len = {{0,20}}(\d{{1,6}}\.\d{{1,6}}), #acc rate/pos = \(({RATE_LIST})\))?"
    rf", dur\(b,g,a\) ={_MS},{_MS},{_MS} ms[ \r]{{0,4}}(?=\n|\Z)".encode()
)
HALF_MEAN = 0.005 + 1e-9
HALF_RATE = 0.0005 + 1e-9
WAITING = 4096
MOST_TYPES = 64
Totals = tuple[int, ...]
Digits = str | float


class LlamaLog(Parser):
    """Requests end when their slot starts another (or at the end of the log)."""

    name = "llama.cpp"
    marks = (
        b"eval time =", b"draft acceptance", b"acc per pos", b"statistics ",
        b"adaptive draft depth", b", tg = ",
    )  # fmt: skip
    shapes = (_COMMON_TOTALS, _COMMON)
    looks = (
        b"statistics", b"| task", b"mean len", b"mean acceptance length", b"acceptance rate per",
    )  # fmt: skip

    def begin(self) -> None:
        self._open: dict[str, Request] = {}
        self._sums: dict[str, _Logged] = {}
        self._ended: list[tuple[str, Request]] = []
        self._statistics = _Statistics(self.notes)
        self._adaptive = Adaptive()

    def line(self, text: str, at: LogLine) -> None:
        if ", tg = " in text or "adaptive draft depth" in text:
            self._adaptive.line(text, at, self.notes)
            return
        if "statistics " in text:
            self._statistics.line(text, at)
            return
        slot = SLOT.search(text)
        key = slot.group(1) if slot else NO_SLOT
        if found := _EVAL.search(text):
            self._timed(key, at, *found.groups())
            return
        if found := _DRAFT.search(text):
            mean = _MEAN.search(text)
            self._drafted(key, at, found[1], found[2], mean and mean[1])
        elif "draft acceptance" in text:
            self.notes.add("a 'draft acceptance' line is cut off: left out", at)
        if (rates := _RATES.search(text)) and key in self._open:
            self._open[key].rates = rates_in(rates.group(1), self.notes, at)

    def rows(self, found: Sequence[Rows]) -> bool:
        statistics, requests = found
        self._statistics.all(statistics)
        own = requests.take(np.flatnonzero(~requests.told(2)))  # not a prompt's
        if len(own) and not self._paired(own):
            self._one_by_one(own)
        return True

    def _one_by_one(self, own: Rows) -> None:
        slots, rates = own.texts(1), own.texts(9)
        numbers = own.columns(*range(3, 9)).tolist()
        each = zip(own.lines.tolist(), slots, *numbers, rates, strict=True)
        for line, slot, ms, tokens, speed, accepted, drafted, mean, printed in each:
            key, at = slot.decode(), own.source.place(line)
            if not math.isnan(tokens):
                self._timed(key, at, ms, tokens, 0.0 if math.isnan(speed) else speed)
            else:
                self._drafted(key, at, accepted, drafted, None if math.isnan(mean) else mean)
            if printed:
                self._open[key].rates = rates_in(printed.decode(), self.notes, at)

    def _paired(self, own: Rows) -> bool:
        """Take requests of which each line of time has at most one of drafts after it in its slot;
        False, with nothing taken, where anything is otherwise or contradicts itself."""
        if own.told(9).any():
            return False
        pairs = paired(own, self._open)
        if pairs is None or len(self._open | dict.fromkeys(pairs.left)) > MOST_SLOTS:
            return False
        self._take()
        if pairs.ended.size:
            self._sums.setdefault("2026", _Logged("2026")).columns(pairs.ended)
        for key, request in pairs.left.items():
            self._open.pop(key, None)
            self._open[key] = request
        self._open |= pairs.drafted
        return True

    def _timed(
        self, key: str, at: LogLine, milliseconds: Digits, tokens: Digits, speed: Digits | None
    ) -> None:
        request = self._begin(key, at)
        request.milliseconds, request.tokens = float(milliseconds), int(tokens)
        request.speed = float(speed or 0.0)

    def _drafted(
        self, key: str, at: LogLine, accepted: Digits, drafted: Digits, mean: Digits | None
    ) -> None:
        if key not in self._open or self._open[key].accepted is not None:
            self._begin(key, at)
        request = self._open[key]
        request.at, request.accepted, request.drafted = at, int(accepted), int(drafted)
        if mean is not None:
            request.mean = float(mean)

    def _begin(self, key: str, at: LogLine) -> Request:
        if key in self._open:
            self._end(key, self._open.pop(key))
        if len(self._open) >= MOST_SLOTS:
            oldest = next(iter(self._open))
            self._end(oldest, self._open.pop(oldest))
        self._open[key] = Request(at)
        return self._open[key]

    def _end(self, key: str, request: Request) -> None:
        accepted = request.accepted or 0
        if accepted > request.drafted or (request.tokens is not None and accepted > request.tokens):
            self.notes.add("a request whose counts contradict each other left out", request.at)
            return
        self._ended.append(("2024-11" if key == NO_SLOT else "2026", request))
        if len(self._ended) >= WAITING:
            self._take()

    def _take(self) -> None:
        """Add up the requests that ended."""
        ended, self._ended = self._ended, []
        for era in dict.fromkeys(era for era, _ in ended):
            total = self._sums.setdefault(era, _Logged(era))
            total.extend([request for its, request in ended if its == era])

    def readings(self) -> Iterator[Reading]:
        for key, request in self._open.items():
            self._end(key, request)
        self._open.clear()
        self._take()
        sums = self._sums.values()
        requests = [one.reading(self.gamma) for one in sums if one.drafting]
        drafted = sum(one.tally.drafted for one in sums)
        seconds = sum(one.seconds for one in sums)
        totals = list(self._statistics.readings(drafted, seconds, self.gamma))
        if len(requests) == len(totals) == 1 and totals[0].c is not None:
            # The same drafts: their time tells of both.
            one, total = requests[0].warned(C_FROM_SHARE), totals[0]
            took, share = total.draft_seconds, total.draft_share
            requests = [replace(one, c=total.c, draft_seconds=took, draft_share=share)]
        yield from requests
        if not drafted:
            yield from self._adaptive.readings(GREEDY)
        yield from totals

    def plain(self) -> Iterator[Reading]:
        sums = self._sums.values()
        tokens, at_speed = (
            sum(getattr(one, n) for one in sums) for n in ("tokens", "speed_tokens")
        )
        seconds, requests = sum(one.seconds for one in sums), sum(one.plain for one in sums)
        for found in timed("server log", tokens, seconds, requests):
            facts = dict(found.facts) | {"tokens_per_second": (at_speed or tokens) / seconds}
            yield replace(found, facts=tuple(facts.items()))

    def without(self) -> str | None:
        plain = sum(one.plain for one in self._sums.values())
        return f"{plain} llama.cpp requests, none of which drafted" if plain else None


class Requests:
    """Requests of one form: the tokens, seconds and passes of all, the counts of drafting ones."""

    def __init__(self, form: str, measure: str) -> None:
        self.channel = Channel("llama.cpp", form)
        self.tally, self.spread = Tally(), Spread(measure)
        self.plain = self.drafting = self.tokens = 0
        self.seconds = 0.0
        self.passes: int | None = 0
        self.speed_tokens = 0

    def decoded(self, request: Request) -> tuple[int, int]:
        """Count one request that ended; (drafted, accepted) of it."""
        accepted, drafted, tokens = request.accepted or 0, request.drafted, request.tokens
        if drafted:
            self.drafting += 1
        else:
            self.plain += 1
        if tokens is None:
            self.passes = None
        else:
            self.tokens += tokens
            seconds = request.milliseconds / 1000.0
            self.seconds += seconds
            without = abs(request.speed * seconds - tokens) > abs(
                request.speed * seconds - tokens + 1
            )
            self.speed_tokens += tokens - (request.speed > 0 and without)
            self.passes = both(self.passes, max(tokens - accepted - 1, 0))
        return drafted, accepted

    def _decoded_all(self, ended: FloatArray) -> FloatArray:
        """decoded() of requests that tell their tokens, as columns; those that drafted."""
        _, tokens, ms, speed, accepted, drafted, _ = ended
        self.drafting += int((drafted > 0).sum())
        self.plain += int((drafted == 0).sum())
        self.tokens += int(tokens.sum())
        seconds = ms / 1000.0
        self.seconds += float(seconds.sum())
        without = abs(speed * seconds - tokens) > abs(speed * seconds - tokens + 1.0)
        self.speed_tokens += int((tokens - ((speed > 0) & without)).sum())
        self.passes = both(self.passes, int(np.maximum(tokens - accepted - 1.0, 0.0).sum()))
        return ended[:, drafted > 0]

    def made(self, counts: Counts, extras: Extras, warnings: list[str]) -> Reading:
        """The reading of these counts, with the tokens and passes of all requests."""
        facts = {
            "tokens_per_second": self.speed_tokens / self.seconds if self.seconds else None,
            "passes": None if self.passes is None else float(self.passes),
            "requests": float(self.drafting + self.plain),
            "requests_without_draft": float(self.plain),
            "decode_seconds": self.seconds or None,
            **(extras.facts or {}),
        }
        generated, passes = self.tokens or None, self.passes or None
        counts = replace(counts, generated=generated, passes=passes)
        extras = replace(extras, requests=self.spread.requests(), facts=facts)
        return make_reading(self.channel, counts, extras, warnings)


class _Logged(Requests):
    """Requests of one era of the log."""

    def __init__(self, era: str) -> None:
        super().__init__(f"server log, per request ({era})", "tokens_per_step")
        self._rounded = self._untold = self._refused = self._longest = 0
        self._positions: set[int] = set()

    def add(self, request: Request) -> None:
        """One request that ended."""
        drafted, accepted = self.decoded(request)
        if drafted == 0:
            return
        steps, exact = _steps(accepted, drafted, request.mean, request.rates)
        self._rounded += not exact
        if steps is not None:
            self._longest = max(self._longest, math.ceil(drafted / steps))
            self.spread.add(1.0 + accepted / steps)
        elif accepted:
            self._untold += 1
        else:
            self._refused += drafted
        rates = request.rates if steps is not None and request.rates else ()
        self._positions.add(len(rates))
        self.tally.add(
            request.at.line, steps=steps or 0, drafted=drafted, accepted=accepted, survival=rates
        )

    def extend(self, requests: Sequence[Request]) -> None:
        """Requests that ended, in order; in columns where none tells rates by position."""
        drafting = [one for one in requests if one.drafted]
        if any(one.rates or one.tokens is None for one in drafting):
            for request in requests:
                self.add(request)
            return
        for request in requests:
            if not request.drafted:
                self.add(request)
        if drafting:
            self.columns(np.array([one.column for one in drafting]).T)

    def columns(self, ended: FloatArray) -> None:
        """Requests that ended, in order, and told no rates [Request.column, request]."""
        ended = self._decoded_all(ended)
        lines, _, _, _, accepted, drafted, mean = ended
        if not lines.size:
            return
        told = (accepted > 0) & ~np.isnan(mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.maximum(accepted / (mean - 1.0 + HALF_MEAN), 1.0)
            high = np.minimum(accepted / np.maximum(mean - 1.0 - HALF_MEAN, 1e-9), drafted)
        low, high = np.where(mean > 1.0, low, 1.0), np.where(mean > 1.0, high, drafted)
        first, last = np.ceil(low - 1e-9), np.floor(high + 1e-9)
        self._rounded += int((told & (first != last)).sum())
        told &= first <= last
        steps = np.where(told, np.rint(0.5 * (first + last)), 0.0)
        if told.any():
            self._longest = max(self._longest, int(np.ceil(drafted[told] / steps[told]).max()))
        self.spread.extend((1.0 + accepted[told] / steps[told]).tolist())
        self._untold += int((~told & (accepted > 0)).sum())
        self._refused += int(drafted[~told & (accepted == 0)].sum())
        self._positions.add(0)
        places = lines.astype(np.int64)
        self.tally.extend(places, lambda _: None, steps, drafted=drafted, accepted=accepted)

    def _all_steps(self, warnings: list[str]) -> float | None:
        """Steps of all requests, or None where one that accepted tokens does not tell its own."""
        steps = self.tally.steps
        if self._untold or not steps:
            warnings.append(
                f"{self._untold or self.drafting} requests do not print their steps: tokens per "
                "step and coverage are unknown"
            )
            return None
        if self._refused:
            length = (self.tally.drafted - self._refused) / steps
            steps += max(round(self._refused / length), 1)
            warnings.append(
                "requests in which nothing was accepted do not tell their steps: taken as "
                f"{self._refused} drafted tokens in drafts as long as the others, {length:.2f}"
            )
        if self._rounded:
            warnings.append(
                f"steps of {self._rounded} requests follow from a rounded mean length: about right"
            )
        return steps

    def reading(self, gamma: int | None) -> Reading:
        """The sum; at least one request drafted."""
        tally, warnings = self.tally, [GREEDY]
        steps = self._all_steps(warnings)
        whole = steps and len(self._positions) == 1 and not self._refused
        survival = tally.survival if whole else None
        gamma = len(survival) if survival else gamma
        if gamma is None and steps and self._longest:
            gamma = self._longest
            warnings.append(f"gamma {gamma} is the longest mean draft seen: it is not printed")
        counts = Counts(steps, tally.drafted, tally.accepted, survival, gamma)
        return self.made(counts, Extras(tally.windows(2)), warnings)


def _steps(
    accepted: int, drafted: int, mean: float | None, rates: tuple[float, ...] | None
) -> tuple[int | None, bool]:
    """(N, whether it is exact) from A/N, printed as a mean length or as the sum of the rates."""
    printed = [(mean - 1.0, HALF_MEAN)] if mean is not None and mean > 1.0 else []
    if rates:
        printed.append((sum(rates), HALF_RATE * len(rates)))
    if accepted == 0 or (mean is None and not rates):
        return None, True
    low, high = 1.0, float(drafted)
    for value, slack in printed:
        low = max(low, accepted / (value + slack))
        high = min(high, accepted / max(value - slack, 1e-9))
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if first > last:
        return None, False
    return round(0.5 * (first + last)), first == last


def timed(form: str, tokens: float, seconds: float, requests: int | None) -> Iterator[Reading]:
    """A run without speculation: its tokens and the seconds of decoding."""
    if 0 < tokens <= LARGEST_COUNT and 0 < seconds <= LARGEST_COUNT:
        facts = {
            "requests": None if requests is None else float(requests),
            "decode_seconds": seconds,
            "tokens_per_second": tokens / seconds,
        }
        channel = Channel("llama.cpp", f"{form}, no speculation")
        yield make_reading(channel, Counts(generated=round(tokens)), Extras(facts=facts))


# ── running totals ────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Type:
    """One implementation; a run that ended at a restart is banked in `tally`."""

    tally: Tally = field(default_factory=Tally)
    last: Totals = (0, 0, 0)
    rates: tuple[float, ...] | None = None
    seconds: float = 0.0
    banked_seconds: float = 0.0
    restarts: int = 0


class _Statistics:
    """All `statistics` lines of a log."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self._types: dict[str, _Type] = {}

    def line(self, text: str, at: LogLine) -> None:
        """One line of running totals."""
        found = _LINE.search(text)
        if found is None:
            return
        counts = {name: int(value) for name, value in _COUNT.findall(found[2])}
        if not {"gen drafts", "gen tokens", "acc tokens"} <= counts.keys():
            self.notes.add("a 'statistics' line is cut off: left out", at)
            return
        now = (counts["gen drafts"], counts["gen tokens"], counts["acc tokens"])
        if now[2] > now[1] or now[0] > now[1]:
            self.notes.add("a 'statistics' line contradicts itself: left out", at)
            return
        if found[1] not in self._types and len(self._types) >= MOST_TYPES:
            return
        kind = self._types.setdefault(found[1], _Type())
        if any(new < old for new, old in zip(now, kind.last, strict=True)):
            self.notes.add(FALL, at)
            kind.last, kind.restarts = (0, 0, 0), kind.restarts + 1
            kind.banked_seconds, kind.seconds = kind.banked_seconds + kind.seconds, 0.0
        steps, drafted, accepted = (new - old for new, old in zip(now, kind.last, strict=True))
        kind.last = now
        if steps > 0:
            kind.tally.add(at.line, steps=steps, drafted=drafted, accepted=accepted)
        if times := _TIMES.search(found[2]):
            kind.seconds = sum(map(float, times.group(1).split(","))) / 1000.0
        rates, mean = _POSITIONS.search(found[2]), _MEAN_LENGTH.search(found[2])
        kind.rates = rates_in(rates.group(1) if rates else None, self.notes, at)
        if mean and now[0] and abs(float(mean.group(1)) - 1.0 - now[2] / now[0]) > 0.006:
            self.notes.add("#mean acc len is not 1 + accepted / drafts: the counts were used", at)

    def all(self, rows: Rows) -> None:
        """Lines that match _COMMON_TOTALS; halved until what is odd about them stands apart."""
        if not len(rows) or self._rows(rows):
            return
        if len(rows) < FEWEST:
            for index in range(len(rows)):
                self.line(rows.text(index), rows.place(index))
            return
        for part in (slice(len(rows) // 2), slice(len(rows) // 2, None)):
            self.all(rows.take(part))

    def _rows(self, rows: Rows) -> bool:
        """The same as columns; False, with nothing taken, if totals do not go on as they should."""
        totals = rows.columns(2, 3, 4).T
        rates, counts, falling = rows.rates(6)
        times = rows.columns(7, 8, 9)
        steps, drafted, accepted = totals.T
        away = abs(rows.columns(5)[0] - 1.0 - accepted / np.maximum(steps, 1.0))
        odd = ~falling | (accepted > drafted) | (steps > drafted) | ((away > 0.006) & (steps > 0))
        where: dict[str, list[int]] = {}
        for index, kind_name in enumerate(rows.texts(1)):
            where.setdefault(kind_name.decode(), []).append(index)
        kinds = {name: self._types.get(name, _Type()) for name in where}
        if odd.any() or len(self._types | kinds) > MOST_TYPES:
            return False
        grown = {
            name: np.diff(totals[which], axis=0, prepend=[kinds[name].last])
            for name, which in where.items()
        }
        if any(new.min() < 0 for new in grown.values()):
            return False
        self._types |= kinds
        for name, new in grown.items():
            kind, more, last = kinds[name], new[:, 0] > 0, where[name][-1]
            steps, drafted, accepted = new[more].T
            lines = rows.lines[where[name]][more]
            kind.tally.extend(lines, lambda _: None, steps, drafted=drafted, accepted=accepted)
            kind.last = tuple(int(total) for total in totals[last])
            kind.rates = tuple(rates[last, : counts[last]].tolist()) or None
            kind.seconds = sum(float(one[last]) for one in times) / 1000.0
        return True

    def readings(self, drafted: int, decode_seconds: float, gamma: int | None) -> Iterator[Reading]:
        """A reading for each type that drafted.

        `drafted` tokens took `decode_seconds` by the request lines of the same log: where that is
        the same total, drafting time over decode time is the draft's share of a step.
        """
        drafting = {n: k for n, k in self._types.items() if k.tally.drafted and k.tally.steps}
        for name, kind in drafting.items():
            tally = kind.tally
            rates = kind.rates if not kind.restarts else None
            seconds = kind.banked_seconds + kind.seconds
            same = drafted == tally.drafted and 0 < seconds < decode_seconds
            longest = -(-tally.drafted // round(tally.steps))
            yield make_reading(
                drafter(
                    "llama.cpp", f"server log, statistics {name} (since start)", name,
                    since_start=True,
                ),
                replace(
                    tally.counts(), survival=rates, gamma=len(rates) if rates else gamma or longest
                ),
                Extras(
                    tally.windows(2),
                    draft_seconds=seconds / tally.steps if seconds else None,
                    draft_share=seconds / decode_seconds if same else None,
                    facts={"draft_type": name},
                ),
                [
                    GREEDY,
                    "running totals since the server started: they cover the request lines of "
                    "the same log, so do not add the two",
                ],
            )  # fmt: skip
        if len(drafting) > 1:
            yield self._all(list(drafting), drafting.values())

    def _all(self, names: Sequence[str], kinds: Collection[_Type]) -> Reading:
        """All ways of drafting together: a step has a draft of one of them."""
        steps = sum(kind.tally.steps for kind in kinds)
        drafted, accepted = (
            sum(getattr(kind.tally, count) for kind in kinds) for count in ("drafted", "accepted")
        )
        longest = max(-(-kind.tally.drafted // round(kind.tally.steps)) for kind in kinds)
        seconds = sum(kind.banked_seconds + kind.seconds for kind in kinds)
        return make_reading(
            Channel(
                "llama.cpp", "server log, statistics of all drafters (since start)", "stops",
                since_start=True,
            ),
            Counts(steps, drafted, accepted, gamma=longest),
            Extras(
                draft_seconds=seconds / steps if seconds else None,
                facts={"draft_type": " + ".join(names)},
            ),
            [GREEDY, f"the sum of {len(names)} ways of drafting, of which every step had one"],
        )  # fmt: skip
