"""llama.cpp's server log: a line a request, and the running totals of each implementation.

    2024-11   draft acceptance rate = r (A accepted / D generated)
    2026      slot print_timing: id n | task n | draft acceptance = r (A accepted / D generated)
              later with `mean acceptance length` or `mean len` (1 + A/N), and rates per position
              on the same line or on an `acc per pos` line of its own
    statistics <type>: …   totals since the start, with the number of drafts and drafting time

A request's first token comes from its prompt, so it takes n − A − 1 decode passes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from specmath.logs.engine import Engine, Parser
from specmath.logs.errors import LogError
from specmath.logs.lanes import Rows
from specmath.logs.llamacpp_statistics import COMMON, Statistics
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.survival import RATE_LIST, parse_rates
from specmath.logs.tally import Spread, Tally, make_reading

__all__ = ["ENGINE", "GREEDY"]

GREEDY = (
    "llama.cpp drafts greedily by default, and an n-gram draft is a fixed proposal: at a "
    "temperature above 0 this acceptance is how often the target's sample matches it, not the "
    "paper's α"
)
_SLOT = re.compile(r"\bid\s{1,6}(\d{1,9}) \| task (-?\d{1,12}) \|")
_DRAFT = re.compile(
    r"draft acceptance(?: rate)? = \s{0,4}\d{1,3}\.\d{1,9} \(\s{0,12}(\d{1,15}) accepted /"
    r"\s{0,12}(\d{1,15}) generated\)"
)
_MEAN = re.compile(r"mean (?:acceptance length|len) =\s{0,8}(\d{1,6}\.\d{1,6})")
_RATES = re.compile(rf"(?:acceptance rate per position|acc per pos) = \(({RATE_LIST})\)")
_EVAL = re.compile(
    r"(?<!prompt )\beval time =\s{0,12}(\d{1,12}(?:\.\d{1,6})?) ms /\s{0,12}(\d{1,12}) tokens"
)
# What 2026's server prints of a request: its prompt, its decoding, its drafts.
_COMMON = re.compile(
    r"print_timing: id {1,6}(\d{1,9}) \| task -?\d{1,12} \| {1,12}(?:"
    r"(prompt )?eval time = {0,12}(\d{1,12}(?:\.\d{1,6})?) ms / {0,12}(\d{1,12}) tokens|"
    r"draft acceptance =  {0,4}\d{1,3}\.\d{1,9} \( {0,12}(\d{1,15}) accepted /"
    r" {0,12}(\d{1,15}) generated\)"
    r"(?:, mean (?:acceptance length|len) = {0,8}(\d{1,6}\.\d{1,6}))?"
    rf"(?:, acceptance rate per position = \(({RATE_LIST})\))?[ \r]{{0,4}}(?=\n|\Z))".encode()
)
HALF_MEAN = 0.005 + 1e-9
HALF_RATE = 0.0005 + 1e-9
MOST_SLOTS = 1024
NO_SLOT = "?"


@dataclass(slots=True)
class _Request:
    at: Place
    tokens: int | None = None
    milliseconds: float = 0.0
    accepted: int | None = None
    drafted: int = 0
    mean: float | None = None
    rates: tuple[float, ...] | None = None


class LlamaLog(Parser):
    """Requests end when their slot starts another (or at the end of the log)."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._open: dict[str, _Request] = {}
        self._sums: dict[str, _Sum] = {}
        self._statistics = Statistics(notes)

    def line(self, text: str, at: Place) -> None:
        if "statistics " in text:
            self._statistics.line(text, at)
            return
        slot = _SLOT.search(text)
        key = slot.group(1) if slot else NO_SLOT
        if found := _EVAL.search(text):
            self._timed(key, float(found.group(1)), int(found.group(2)), at)
            return
        if found := _DRAFT.search(text):
            mean = _MEAN.search(text)
            length = float(mean.group(1)) if mean else None
            self._drafted(key, int(found.group(1)), int(found.group(2)), length, at)
        elif "draft acceptance" in text:
            self.notes.add("a 'draft acceptance' line is cut off: left out", at)
        if (rates := _RATES.search(text)) and key in self._open:
            self._open[key].rates = self._checked(rates.group(1), at)

    def rows(self, found: Sequence[Rows]) -> None:
        statistics, requests = found
        if len(statistics):
            self._statistics.rows(statistics)
        for index, match in enumerate(requests.matches):
            slot, prompt, ms, tokens, accepted, drafted, mean, rates = match.groups()
            if prompt:
                continue
            key, at = slot.decode(), requests.place(index)
            if tokens:
                self._timed(key, float(ms), int(tokens), at)
                continue
            self._drafted(key, int(accepted), int(drafted), float(mean) if mean else None, at)
            if rates:
                self._open[key].rates = self._checked(rates.decode(), at)

    def _timed(self, key: str, milliseconds: float, tokens: int, at: Place) -> None:
        request = self._begin(key, at)
        request.milliseconds, request.tokens = milliseconds, tokens

    def _drafted(
        self, key: str, accepted: int, drafted: int, mean: float | None, at: Place
    ) -> None:
        if key not in self._open or self._open[key].accepted is not None:
            self._begin(key, at)
        request = self._open[key]
        request.at = at
        request.accepted, request.drafted = accepted, drafted
        if mean is not None:
            request.mean = mean

    def _checked(self, text: str, at: Place) -> tuple[float, ...] | None:
        try:
            return parse_rates(text)
        except LogError as error:
            self.notes.add(f"per-position rates not used: {error}", at)
            return None

    def _begin(self, key: str, at: Place) -> _Request:
        if key in self._open:
            self._end(key, self._open.pop(key))
        if len(self._open) >= MOST_SLOTS:
            oldest = next(iter(self._open))
            self._end(oldest, self._open.pop(oldest))
        self._open[key] = _Request(at)
        return self._open[key]

    def _end(self, key: str, request: _Request) -> None:
        accepted = request.accepted or 0
        if accepted > request.drafted or (request.tokens is not None and accepted > request.tokens):
            self.notes.add("a request whose counts contradict each other left out", request.at)
            return
        era = "2024-11" if key == NO_SLOT else "2026"
        if era not in self._sums:
            self._sums[era] = _Sum(era)
        self._sums[era].add(request)

    def readings(self) -> list[Reading]:
        for key, request in self._open.items():
            self._end(key, request)
        self._open.clear()
        found = [one.reading(self.gamma) for one in self._sums.values() if one.drafting]
        drafted = sum(one.tally.drafted for one in self._sums.values())
        seconds = sum(one.seconds for one in self._sums.values())
        return found + self._statistics.readings(GREEDY, drafted, seconds, self.gamma)

    def without(self) -> str | None:
        plain = sum(one.plain for one in self._sums.values())
        return f"{plain} llama.cpp requests, none of which drafted" if plain else None


class _Sum:
    """Requests of one era."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.tally = Tally()
        self.spread = Spread("tokens_per_step")
        self.plain = self.drafting = 0
        self.tokens, self.seconds = 0, 0.0
        self._passes: int | None = 0
        self._rounded = self._untold = self._refused = self._longest = 0
        self._positions: set[int] = set()

    def add(self, request: _Request) -> None:
        """One request that ended."""
        accepted, drafted = request.accepted or 0, request.drafted
        if request.tokens is None:
            self._passes = None
        else:
            self.tokens += request.tokens
            self.seconds += request.milliseconds / 1000.0
            if self._passes is not None:
                self._passes += max(request.tokens - accepted - 1, 0)
        if drafted == 0:
            self.plain += 1
            return
        self.drafting += 1
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
            steps=steps or 0,
            drafted=drafted,
            accepted=accepted,
            survival=rates,
            line=request.at.line,
        )

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
        requests = self.drafting + self.plain
        return make_reading(
            "llama.cpp",
            f"server log, per request ({self.era})",
            steps=steps,
            drafted=tally.drafted,
            accepted=tally.accepted,
            survival=survival,
            gamma=gamma,
            generated=self.tokens or None,
            passes=self._passes or None,
            windows=tally.series.windows() if self.drafting > 1 else (),
            requests=self.spread.requests(),
            facts={
                "requests": float(requests),
                "requests_without_draft": float(self.plain),
                "decode_seconds": self.seconds or None,
                "tokens_per_second": self.tokens / self.seconds if self.seconds else None,
            },
            warnings=warnings,
        )


def _steps(
    accepted: int, drafted: int, mean: float | None, rates: tuple[float, ...] | None
) -> tuple[int | None, bool]:
    """(N, whether it is exact) from A/N, printed as a mean length or as the sum of the rates."""
    if accepted == 0:
        return None, True
    low, high = 1.0, float(drafted)
    if mean is not None and mean > 1.0:
        low = max(low, accepted / (mean - 1.0 + HALF_MEAN))
        high = min(high, accepted / max(mean - 1.0 - HALF_MEAN, 1e-9))
    if rates:
        slack = HALF_RATE * len(rates)
        low = max(low, accepted / (sum(rates) + slack))
        high = min(high, accepted / max(sum(rates) - slack, 1e-9))
    if mean is None and not rates:
        return None, True
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if first > last:
        return None, False
    return round(0.5 * (first + last)), first == last


ENGINE = Engine(
    "llama.cpp",
    (b"eval time =", b"draft acceptance", b"acc per pos", b"statistics "),
    LlamaLog,
    (COMMON, _COMMON),
    (b"statistics", b"| task", b"mean len", b"mean acceptance length", b"acceptance rate per"),
)
