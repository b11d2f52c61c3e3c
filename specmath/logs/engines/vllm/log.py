"""vLLM's `SpecDecoding metrics: …` lines: v1, one interval a line, four eras.

The mean acceptance length left out the bonus token until PR 17908 (2025-05). Which one holds is
decided by the per-position rates: their sum is the length without it, or it is one more.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, IntArray
from specmath.logs.columns import BoolArray, Rows
from specmath.logs.counts import Tally, make_reading
from specmath.logs.engines.base import HOST, SYNTHETIC, Parser, rates_in, timestamp
from specmath.logs.lanes import Lanes, with_pooled
from specmath.logs.reading import FULL_DRAFT, Channel, Counts, Extras, Lane, Reading, Shape
from specmath.logs.service import Meter, together
from specmath.logs.stream import LogLine, Notes
from specmath.rates import RATE_LIST

NUMBER = r"\d{1,15}(?:\.\d{1,15})?"
_COMMON = re.compile(
    rf"SpecDecoding metrics: (?:Draft acceptance rate: ({NUMBER})%, )?"
    rf"Mean acceptance length: ({NUMBER}), "
    rf"(?:Accepted throughput: {NUMBER} tokens/s, Drafted throughput: ({NUMBER}) tokens/s, )?"
    r"Accepted: (\d{1,10}) tokens, Drafted: (\d{1,10}) tokens, "
    rf"Per-position acceptance rate: ({RATE_LIST})"
    rf"(?:,? ?Avg Draft acceptance rate: ({NUMBER})%)?[ \r]{{0,4}}(?=\n|\Z)".encode()
)
"""Counts of ten digits: a piece of them adds up exactly."""
FORMS = (
    "v1 log (2025-04, mean length without the bonus token)",
    "v1 log (2025-05 to 2025-09)",
    "v1 log (2025-09 on)",
)
PLAIN, MIDDLE, CURRENT = range(3)


_V1_LINE = "SpecDecoding metrics: "
# In the order printed since 2025-04: `rate` came first until 2025-09, and last since.
_V1 = re.compile(
    rf"SpecDecoding metrics: (?:Draft acceptance rate: (?P<rate>{NUMBER}|nan)%, )?"
    rf"(?:Mean acceptance length: (?P<length>{NUMBER}|nan), )?"
    rf"(?:Accepted throughput: {NUMBER} tokens/s, )?"
    rf"(?:Drafted throughput: (?P<speed>{NUMBER}) tokens/s, )?"
    r"Accepted: (?P<accepted>\d{1,15}) tokens, Drafted: (?P<drafted>\d{1,15}) tokens"
    rf"(?:, Per-position acceptance rate: (?P<rates>{RATE_LIST}))?"
    rf"(?:,? ?Avg Draft acceptance rate: (?P<average>{NUMBER}|nan)%)?"
)
_GENERATION = re.compile(rf"Avg generation throughput: ({NUMBER}) tokens/s")
_COUNT = r"(\d{1,9})"
# In the order of Meter.NAMES.
_LOAD = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\bRunning: {_COUNT} reqs",
        rf"\b(?:Waiting|Pending): {_COUNT} reqs",
        rf"GPU KV cache usage: ({NUMBER})%",
        rf"\bPrefix cache hit rate: (?:GPU: )?({NUMBER})%",
        _GENERATION.pattern,
        rf"Avg prompt throughput: ({NUMBER}) tokens/s",
    )
)
_COMMON_LOAD = re.compile(
    rf"Avg prompt throughput: ({NUMBER}) tokens/s, Avg generation throughput: ({NUMBER}) tokens/s"
    rf"(?:, Running: {_COUNT} reqs)?(?:, Waiting: {_COUNT} reqs)?"
    rf"(?:, GPU KV cache usage: ({NUMBER})%)?(?:, Prefix cache hit rate: ({NUMBER})%)?".encode()
)
_FACTS = {
    "version": re.compile(r"(?:LLM engine \(v|API server version )([\w.+-]{1,60})"),
    "model": re.compile(r"\bmodel=['\"]([^'\"]{1,200})['\"]"),
}
_PID = re.compile(rb"\bpid=(\d{1,10})\)")
_ENGINE = re.compile(rb"\bEngine (\d{1,6}): ")
_CONFIG = re.compile(r"num_spec(?:ulative)?_tokens['\"]?\s?[=:]\s?(\d{1,3})\b")

RATE_FORM = "v1 log (2025-04, rate only)"
UNRESOLVED_FORM = "v1 log (mean length, bonus token unresolved)"


class VllmLog(Parser):
    """Sums the intervals of each server, era and draft length; averages its load."""

    name = "vllm"
    marks = (
        b"SpecDecoding metrics: ", b"Avg generation throughput: ", b"DiffusionDecoding metrics",
        b"num_spec", b"synthetic", b"speculative_token_tree", b"LLM engine (v",
        b"API server version ",
    )  # fmt: skip
    shapes = (_COMMON, _COMMON_LOAD)
    looks = (b"Running: ", b"Waiting: ", b"GPU KV cache usage", b"Prefix cache hit rate")

    def begin(self) -> None:
        self._servers: Lanes[_Server] = Lanes(lambda: _Server(Notes()), _Server(self.notes))
        self._engines: dict[tuple[str | None, str | None], str] = {}
        self._configured: set[int] = set()
        self._tree = False
        self._other: set[str] = set()
        self._facts: dict[str, str] = {}

    def line(self, text: str, at: LogLine) -> None:
        if _V1_LINE in text:
            for server in self._servers.of(self._lane(text.encode())):
                server.interval(text, at)
        elif _GENERATION.search(text):
            for server in self._servers.of(self._lane(text.encode())):
                server.load(text, at)
            self._other.add("vLLM throughput lines")
        elif "DiffusionDecoding metrics" in text:
            self._other.add("vLLM DiffusionDecoding lines, which are not speculation")
        else:
            self._setting(text)

    def rows(self, found: Sequence[Rows]) -> bool:
        metrics, loads = found
        lanes = {self._lane(head) for rows in (loads, metrics) for head in rows.heads()}
        if self._servers.several or len(lanes) != 1:
            return False
        server, *rest = self._servers.of(*lanes)
        if rest or not server.rows(metrics, loads):
            return False
        if len(loads):
            self._other.add("vLLM throughput lines")
        return True

    def _lane(self, line: bytes) -> Lane:
        """Whose line: an interval's engine is that of the load line its process printed above."""
        host, pid, engine = (
            found and found[1].decode() for found in (HOST.match(line), _PID.search(line),
                                                      _ENGINE.search(line))
        )  # fmt: skip
        if engine is not None:
            self._engines[host, pid] = engine
        return Lane(engine=self._engines.get((host, pid)), pid=pid, host=host)

    def _setting(self, text: str) -> None:
        for name, pattern in _FACTS.items():
            if found := pattern.search(text):
                self._facts[name] = found[1]
        if "synthetic" in text and ("rejection_sample" in text or "accept" in text):
            self.notes.add(SYNTHETIC)
        if found := _CONFIG.search(text):
            self._configured.add(int(found.group(1)))
        if "speculative_token_tree" in text and "speculative_token_tree=None" not in text:
            self._tree = self._tree or text.count("(", text.find("speculative_token_tree")) > 1

    def readings(self) -> Iterator[Reading]:
        known = self.gamma or (min(self._configured) if len(self._configured) == 1 else None)
        shape: Shape = "tree" if self._tree else "chain"
        yield from self._by_lane(lambda server: list(server.readings(known, shape)))

    def plain(self) -> Iterator[Reading]:
        yield from self._by_lane(_Server.plain)

    def _by_lane(self, readings: Callable[[_Server], list[Reading]]) -> Iterator[Reading]:
        lanes = list(self._servers.each())
        facts: tuple[tuple[str, float | str], ...] = tuple(self._facts.items())
        each = [
            replace(reading, lane=lane, service=server.meter.service(), facts=facts)
            for lane, server in lanes
            for reading in readings(server)
        ]
        if not self._servers.several:
            yield from each
            return
        pooled, whole = readings(self._servers.whole), self._servers.whole.meter.service()
        servers = sorted((server for _, server in lanes), key=lambda server: server.first)
        if any(a.last < b.first for a, b in itertools.pairwise(servers)):
            text = "another process prints from here on: the server restarted, maybe otherwise set"
            pooled = [one.warned(text) for one in pooled]
            facts = (*facts, ("restarts", 1.0))
        else:
            whole = together([server.meter.service() for server in servers])
        yield from with_pooled(each, [replace(one, service=whole, facts=facts) for one in pooled])

    def without(self) -> str | None:
        return "found " + " and ".join(sorted(self._other)) if self._other else None


class _Server:
    """The intervals and the load of one server."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.meter = Meter()
        self.first = self.last = 0, 0
        self._groups: defaultdict[tuple[str, int | None], Tally] = defaultdict(Tally)
        self._plain = Tally()
        self._rate: float | None = None
        self._cover = Cover()
        self._by_stamps = Cover()
        self._stamp: float | None = None

    def _between(self, when: str | None) -> float:
        """Seconds since the interval before, by the printed times; nan where they do not tell."""
        before, self._stamp = self._stamp, seconds_of(when)
        if before is None or self._stamp is None:
            return math.nan
        gone = self._stamp - before
        return gone if 0.0 < gone <= Cover.LONGEST_SECONDS else math.nan

    def _seen(self, *places: LogLine) -> None:
        for at in places:
            self.last = at.order, at.line
            self.first = self.first if any(self.first) else self.last

    def load(self, text: str, at: LogLine) -> None:
        """A line of throughput and load."""
        self._seen(at)
        found = [pattern.search(text) for pattern in _LOAD]
        running, waiting, kv, hits, self._rate, prompt = (
            float(one[1]) if one else math.nan for one in found
        )
        self.meter.add(running, waiting, kv / 100.0, hits / 100.0, self._rate, prompt)

    def rows(self, metrics: Rows, loads: Rows) -> bool:
        """Lines as columns; False, with nothing taken, where something is odd about one."""
        generation, rate = generation_before(metrics, loads, self._rate)
        if len(metrics) and not self._pool(metrics, generation):
            return False
        self._rate = rate
        if len(loads):
            prompt, made, running, waiting, kv, hits = loads.columns(*range(1, 7))
            self.meter.extend(running, waiting, kv / 100.0, hits / 100.0, made, prompt)
        self._seen(*(rows.place(i) for rows in (metrics, loads) if len(rows) for i in (0, -1)))
        return True

    def _pool(self, rows: Rows, generation: FloatArray) -> bool:
        """Add the intervals of lines that match _COMMON, unless something is odd about one."""
        first, length, speed, accepted, drafted, last = rows.columns(1, 2, 3, 4, 5, 7)
        rates, positions, falling = rows.rates(6)
        total = rates.sum(axis=1)
        form, fits = form_of(length, total, positions, ~np.isnan(speed))
        printed = np.where(np.isnan(first), last, first) / 100.0
        good = fits & falling & (drafted > 0) & (accepted <= drafted)
        good &= ~(abs(printed - accepted / np.maximum(drafted, 1.0)) > 0.001)
        if not good.all():
            return False
        steps = steps_of(accepted, drafted, total, positions)
        for era, many in dict.fromkeys(zip(form.tolist(), positions.tolist(), strict=True)):
            which = np.flatnonzero((form == era) & (positions == many))
            part = rows.take(which)
            self._groups[FORMS[era], many].extend(
                part.lines, part.when, steps[which], drafted=drafted[which],
                accepted=accepted[which], survival=rates[which, :many],
            )  # fmt: skip
        told = ~np.isnan(generation + speed) & (form == CURRENT)
        self._cover.add(*(c[told] for c in (speed, generation, steps, accepted, drafted)))
        if (older := np.flatnonzero(form != CURRENT)).size:
            seconds = np.array([self._between(rows.when(i)) for i in older.tolist()])
            columns = np.array(
                [drafted[older] / seconds]
                + [column[older] for column in (generation, steps, accepted, drafted)]
            )
            self._by_stamps.add(*columns[:, ~np.isnan(columns).any(axis=0)])
        return True

    def interval(self, text: str, at: LogLine) -> None:
        """A line of counts."""
        self._seen(at)
        found = _V1.search(text)
        if found is None:
            self.notes.add("a 'SpecDecoding metrics' line is cut off: left out", at)
            return
        accepted, drafted = int(found["accepted"]), int(found["drafted"])
        generation, self._rate = self._rate, None
        if drafted == 0:
            return
        if accepted > drafted:
            self.notes.add("more tokens accepted than drafted: line left out", at)
            return
        printed = found["rate"] or found["average"]
        if printed and not abs(float(printed) / 100.0 - accepted / drafted) <= 0.001:
            self.notes.add("the printed rate is not accepted / drafted: the counts were used", at)
        if found["rates"] is None and "Per-position" in text:
            self.notes.add("per-position rates are cut off: not used", at)
        rates = rates_in(found["rates"], self.notes, at)
        length, when = float(found["length"] or "nan"), timestamp(text)
        if rates is None or math.isnan(length):
            for tally, steps in self._without_rates(accepted, length):
                tally.add(at.line, when, steps=steps, drafted=drafted, accepted=accepted)
            return
        total, many = sum(rates), len(rates)
        era, fits = form_of(length, total, many, found["speed"] is not None)
        if not fits:
            self.notes.add(
                f"mean acceptance length {length:g} is neither the sum of the per-position rates "
                f"nor one more ({total:.3f}): the rates and counts were used",
                at,
            )
        form, steps = FORMS[int(era)], float(steps_of(accepted, drafted, total, many))
        self._groups[form, many].add(
            at.line, when, steps=steps, drafted=drafted, accepted=accepted, survival=rates
        )
        if generation is not None and era == CURRENT:
            self._cover.add(float(found["speed"]), generation, steps, accepted, drafted)
        if era != CURRENT:
            seconds = self._between(when)
            if generation is not None and not math.isnan(seconds):
                self._by_stamps.add(drafted / seconds, generation, steps, accepted, drafted)

    def _without_rates(self, accepted: int, mean: float) -> list[tuple[Tally, float]]:
        """(where to, steps) of counts alone: steps follow from a known γ, or the mean length."""
        if not mean > 1.0 or accepted == 0:
            return [(self._groups[RATE_FORM, None], 0.0)]
        # Two readings are kept side by side; readings() tells which of them can be.
        bonus = self._groups[UNRESOLVED_FORM, None]
        return [(bonus, accepted / (mean - 1.0)), (self._plain, accepted / mean)]

    def readings(self, known: int | None, shape: Shape) -> Iterator[Reading]:
        """A reading for each era and draft length; `known`: the γ where no rates tell it."""
        for (form, gamma), tally in self._groups.items():
            if form == UNRESOLVED_FORM:
                yield self._resolve(tally, known, shape)
            elif tally.drafted:
                yield self._reading(form, tally, gamma or known, shape)

    def _reading(self, form: str, tally: Tally, gamma: int | None, shape: Shape) -> Reading:
        warnings, passes = [], None
        steps: float | None = tally.steps
        if not steps:
            steps = tally.drafted / gamma if gamma else None
        elif gamma and tally.drafted < FULL_DRAFT * gamma * steps:
            warnings.append(
                f"drafts vary in length ({tally.drafted / steps:.2f} tokens a step of at "
                f"most {gamma}): steps follow from the per-position rates, and a draft that "
                "stopped early lowers the rates at later positions"
            )
        if form in FORMS and steps:
            current = form == FORMS[CURRENT]
            ratio, notes = (self._cover if current else self._by_stamps).passes_per_step()
            passes = steps * ratio if ratio else None
            warnings += notes
            if passes and not current:
                passes = max(passes, steps)
                warnings.append(
                    "coverage is from the generation throughput and the time between the printed "
                    "seconds: about right"
                )
            elif not current:
                warnings.append(
                    "coverage is unknown: no generation throughput and time stands beside the "
                    "counts, so steps without a draft are not seen"
                )
        counts = replace(tally.counts(), steps=steps, gamma=gamma, passes=passes)
        channel = Channel("vllm", form, shape)
        return make_reading(channel, counts, Extras(tally.windows()), warnings)

    def _resolve(self, bonus: Tally, gamma: int | None, shape: Shape) -> Reading:
        """A length without per-position rates: the reading whose D/N is a whole γ, or both."""
        both, fitting = [], []
        for tally, says in ((bonus, "with"), (self._plain, "without")):
            form = f"v1 log (mean length {says} the bonus token)"
            length = tally.drafted / tally.steps
            whole = round(length)
            if abs(length - whole) < 0.03 and whole >= 1 and gamma in (None, whole):
                fitting.append(self._reading(form, tally, whole, shape))
            both.append(self._reading(form, tally, gamma, shape))
        if len(fitting) == 1:
            return fitting[0]
        counts = Counts(drafted=bonus.drafted, accepted=bonus.accepted, gamma=gamma)
        main = make_reading(Channel("vllm", UNRESOLVED_FORM), counts)
        text = "whether the mean length counts the bonus token cannot be told: two readings"
        return replace(main, alternatives=tuple(fitting or both)).warned(text)

    def plain(self) -> list[Reading]:
        """The load alone, of a run that did not speculate."""
        if not self.meter.service().speed_told:
            return []
        return [make_reading(Channel("vllm", "log, no speculation"), Counts())]


def seconds_of(when: str | None) -> float | None:
    """Seconds of a printed time, to be subtracted within a month."""
    if when is None:
        return None
    day, clock = when[-14:-9], when[-8:]
    hour, minute, second = map(int, clock.split(":"))
    month, date = map(int, day.split("-"))
    return ((31.0 * month + date) * 24.0 + hour) * 3600.0 + 60.0 * minute + second


# ── the same of a line as of columns of lines ─────────────────────────────────────────────────


def generation_before(
    metrics: Rows, throughputs: Rows, carried: float | None
) -> tuple[FloatArray, float | None]:
    """(the generation throughput printed since the interval before, nan where none; what is left).

    `carried` is what was printed above these rows since the last interval.
    """
    rates = np.append(throughputs.columns(2), np.nan)
    # The last of them above each interval; -1, the nan, where there is none.
    last = np.searchsorted(throughputs.lines, metrics.lines) - 1
    found = np.where(np.diff(last, prepend=-1) > 0, rates[last], np.nan)
    if found.size and last[0] < 0 and carried is not None:
        found[0] = carried
    if len(throughputs) > (last[-1] + 1 if last.size else 0):
        return found, float(rates[-2])
    return found, None if last.size else carried


def form_of(
    length: ArrayLike, total: ArrayLike, positions: ArrayLike, throughput: ArrayLike
) -> tuple[IntArray, BoolArray]:
    """(index into FORMS, whether an identity holds): length = Σ rates (no bonus) or 1 + Σ rates.

    A length of two digits lies a little off the sum of rates of three. `throughput`: is printed.
    """
    tolerance = 0.006 + 0.0005 * np.asarray(positions)
    plain, bonus = (abs(np.subtract(length, total) - one) <= tolerance for one in (0.0, 1.0))
    return np.where(plain, PLAIN, np.where(throughput, CURRENT, MIDDLE)), plain | bonus


def steps_of(
    accepted: ArrayLike, drafted: ArrayLike, total: ArrayLike, positions: ArrayLike
) -> FloatArray:
    """N = D/γ where the printed rates agree with it; else A/Σ rates (drafts of varying length).

    At least 1. `total` is Σ rates; one shape, drafted ≥ 1.
    """
    accepted, drafted, total, positions = map(np.asarray, (accepted, drafted, total, positions))
    even = drafted / positions
    agrees = (total <= 0.0) | (abs(accepted / even - total) <= 0.0006 * positions + 1.0 / even)
    by_rates = accepted / np.where(agrees, 1.0, total)
    return np.maximum(np.rint(np.where(agrees, even, by_rates)), 1.0)


class Cover:
    """Passes per step from the throughputs: only intervals without an idle gap count.

    vLLM divides by the time since the last *printed* line, so after idle its speculative
    throughputs are diluted while the generation throughput is not.
    """

    LONGEST_SECONDS = 90.0

    def __init__(self) -> None:
        self._shortest = self.LONGEST_SECONDS
        self._steps = self._passes = 0.0
        self._idle = 0

    def add(self, *columns: ArrayLike) -> None:
        """Intervals in order: drafted and generated tokens per second; steps, accepted, drafted."""
        speed, *rest, drafted = np.array([np.atleast_1d(column) for column in columns], dtype=float)
        seconds = np.divide(drafted, speed, out=np.full(drafted.size, np.inf), where=speed > 0)
        left = np.array((seconds, *rest))
        while left.size:
            seconds, generation, steps, accepted = left
            shorter = np.flatnonzero(seconds < self._shortest / 1.5)
            end = int(shorter[0]) if shorter.size else seconds.size
            usual = np.flatnonzero(seconds[:end] <= 1.5 * self._shortest)
            self._idle += end - usual.size
            self._steps += float(steps[usual].sum())
            self._passes += float((generation[usual] * seconds[usual] - accepted[usual]).sum())
            if end < seconds.size:
                self._shortest, self._steps, self._passes = float(seconds[end]), 0.0, 0.0
            left = left[:, end:]

    def passes_per_step(self) -> tuple[float | None, list[str]]:
        """(passes / steps, notes)."""
        notes = []
        if self._idle:
            notes.append(
                f"{self._idle} intervals follow an idle gap: their printed throughputs are "
                "diluted, so their counts were used and their throughputs were not"
            )
        if self._steps <= 0 or self._passes <= 0:
            return None, notes
        ratio = self._passes / self._steps
        if ratio > 1.01:
            notes.append(
                "coverage is a lower bound: the first token of a request comes from prefill and "
                "looks like a step without a draft"
            )
        return ratio, notes
