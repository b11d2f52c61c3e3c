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
from dataclasses import dataclass

from specmath.logs.engine import Engine, Parser
from specmath.logs.errors import LogError
from specmath.logs.llamacpp_statistics import Statistics
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.survival import check_survival
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
_RATES = re.compile(
    r"(?:acceptance rate per position|acc per pos) = \(((?:\d\.\d{1,9}(?:, )?){1,256})\)"
)
_EVAL = re.compile(
    r"(?<!prompt )\beval time =\s{0,12}(\d{1,12}(?:\.\d{1,6})?) ms /\s{0,12}(\d{1,12}) tokens"
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
        self._tally = Tally()
        self._spread = Spread("tokens_per_step")
        self._statistics = Statistics(notes)
        self._plain = self._drafting = self._rounded = 0
        self._tokens = self._seconds = 0.0
        self._passes: float | None = 0.0
        self._unknown = 0
        self._longest = 0
        self._positions: set[int] = set()
        self._slots = False

    def line(self, text: str, at: Place) -> None:
        if "statistics " in text:
            self._statistics.line(text, at)
            return
        slot = _SLOT.search(text)
        key = slot.group(1) if slot else NO_SLOT
        if found := _EVAL.search(text):
            request = self._begin(key, at)
            request.milliseconds, request.tokens = float(found.group(1)), int(found.group(2))
            return
        if found := _DRAFT.search(text):
            if key not in self._open or self._open[key].accepted is not None:
                self._begin(key, at)
            request = self._open[key]
            request.at, self._slots = at, self._slots or slot is not None
            request.accepted, request.drafted = int(found.group(1)), int(found.group(2))
            if mean := _MEAN.search(text):
                request.mean = float(mean.group(1))
        elif "draft acceptance" in text:
            self.notes.add("a 'draft acceptance' line is cut off: left out", at)
        if (rates := _RATES.search(text)) and key in self._open:
            self._open[key].rates = self._checked(rates.group(1), at)

    def _checked(self, text: str, at: Place) -> tuple[float, ...] | None:
        try:
            return check_survival(tuple(float(rate) for rate in text.split(", ") if rate))
        except LogError as error:
            self.notes.add(f"per-position rates not used: {error}", at)
            return None

    def _begin(self, key: str, at: Place) -> _Request:
        if key in self._open:
            self._end(self._open.pop(key))
        if len(self._open) >= MOST_SLOTS:
            self._end(self._open.pop(next(iter(self._open))))
        self._open[key] = _Request(at)
        return self._open[key]

    def _end(self, request: _Request) -> None:
        accepted, drafted = request.accepted or 0, request.drafted
        if accepted > drafted or (request.tokens is not None and accepted > request.tokens):
            self.notes.add("a request whose counts contradict each other left out", request.at)
            return
        if request.tokens is not None:
            self._tokens += request.tokens
            self._seconds += request.milliseconds / 1000.0
        if self._passes is not None and request.tokens is not None:
            self._passes += max(request.tokens - accepted - 1, 0)
        elif request.tokens is None:
            self._passes = None
        if request.accepted is None or drafted == 0:
            self._plain += 1
            return
        self._drafting += 1
        steps, exact = _steps(accepted, drafted, request.mean, request.rates)
        self._rounded += not exact
        if steps is None:
            self._unknown += drafted
        else:
            self._longest = max(self._longest, math.ceil(drafted / steps))
            self._spread.add(1.0 + accepted / steps)
        rates = request.rates if steps is not None and request.rates else ()
        self._positions.add(len(rates))
        self._tally.add(
            steps=steps or 0,
            drafted=drafted,
            accepted=accepted,
            survival=rates,
            line=request.at.line,
        )

    def readings(self) -> list[Reading]:
        for request in self._open.values():
            self._end(request)
        self._open.clear()
        found = []
        if self._drafting:
            found.append(self._requests())
        same = self._tally.drafted if self._seconds else None
        return found + self._statistics.readings(GREEDY, same, self._seconds, self.gamma)

    def _requests(self) -> Reading:
        tally, warnings = self._tally, [GREEDY]
        steps: float | None = tally.steps or None
        if steps and self._unknown:
            mean_length = (tally.drafted - self._unknown) / steps
            steps += max(round(self._unknown / mean_length), 1)
            warnings.append(
                "requests in which nothing was accepted do not tell their steps: taken as "
                f"{self._unknown} drafted tokens in drafts as long as the others, {mean_length:.2f}"
            )
        if self._rounded and steps:
            warnings.append(
                f"steps of {self._rounded} requests follow from a rounded mean length: about right"
            )
        if steps is None:
            warnings.append(
                "steps are not printed: passes without a draft cannot be told from passes in which "
                "no token was accepted, so tokens per step and coverage are unknown"
            )
        whole = len(self._positions) == 1 and 0 not in self._positions and not self._unknown
        survival = tally.survival if whole else None
        gamma = self.gamma or (len(survival) if survival else None)
        if gamma is None and self._longest:
            gamma = self._longest
            warnings.append(
                f"gamma {gamma} is the longest mean draft seen: the log does not print it"
            )
        return make_reading(
            "llama.cpp",
            "server log, per request" + (" (2026)" if self._slots else " (2024-11)"),
            steps=steps,
            drafted=tally.drafted,
            accepted=tally.accepted,
            survival=survival,
            gamma=gamma,
            generated=round(self._tokens) or None,
            passes=self._passes or None,
            windows=tally.series.windows() if self._drafting > 1 else (),
            requests=self._spread.requests(),
            facts={
                "requests": float(self._drafting + self._plain),
                "requests_without_draft": float(self._plain),
                "decode_seconds": self._seconds or None,
                "tokens_per_second": self._tokens / self._seconds if self._seconds else None,
            },
            warnings=warnings,
        )

    def without(self) -> str | None:
        return f"{self._plain} llama.cpp requests, none of which drafted" if self._plain else None


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
)
