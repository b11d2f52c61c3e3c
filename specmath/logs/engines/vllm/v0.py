"""vLLM's `Speculative metrics: …` lines: v0 (to 2025), and the first v1 builds.

v0 prints totals since the start, and its "accepted" counts every position that would pass on its
own, even after a rejection: accepted / drafted there is an α of single tokens. The first v1 builds
print one interval a line in almost the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from specmath.logs.counts import Tally, make_reading
from specmath.logs.engines.base import FALL, Parser, timestamp
from specmath.logs.estimate import binomial_alpha
from specmath.logs.reading import Channel, Extras, Reading
from specmath.logs.stream import LogLine, Notes

_NUM = r"(\d{1,15}(?:\.\d{1,15})?)"
_V0 = re.compile(
    rf"Speculative metrics: Draft acceptance rate: {_NUM}, System efficiency: {_NUM}, "
    r"Number of speculative tokens: (\d{1,4}), Number of accepted tokens: (\d{1,15}), "
    r"Number of draft tokens(?: tokens)?: (\d{1,15}), "
    r"Number of emitted tokens(?: tokens)?: (\d{1,15})"
)
_FIRST = re.compile(
    rf"Speculative metrics: Draft acceptance rate: {_NUM}, Number of accepted tokens: (\d{{1,15}}),"
    r" Number of draft tokens: (\d{1,15})"
)


class VllmOldLog(Parser):
    """v0 totals by draft length, and the intervals of the first v1 builds."""

    name = "vllm"
    marks = (b"Speculative metrics: ",)

    def begin(self) -> None:
        self._v0: dict[int, _Cumulative] = {}
        self._first = Tally()

    def line(self, text: str, at: LogLine) -> None:
        if found := _V0.search(text):
            gamma, *totals = map(int, found.groups()[2:])
            if gamma < 1 or totals[1] < totals[0]:
                self.notes.add("a v0 line that contradicts itself was left out", at)
                return
            state, efficiency = self._v0.setdefault(gamma, _Cumulative(gamma)), float(found[2])
            state.add(totals, efficiency, timestamp(text), at, self.notes)
        elif found := _FIRST.search(text):
            accepted, drafted = int(found[2]), int(found[3])
            if accepted > drafted:
                self.notes.add("more tokens accepted than drafted: line left out", at)
                return
            steps, when = drafted / self.gamma if self.gamma else 0.0, timestamp(text)
            self._first.add(at.line, when, steps=steps, drafted=drafted, accepted=accepted)
        else:
            self.notes.add("a 'Speculative metrics' line is cut off: left out", at)

    def readings(self) -> Iterator[Reading]:
        yield from (state.reading() for state in self._v0.values() if state.tally.drafted)
        if self._first.drafted:
            channel = Channel("vllm", "v1 log (before 2025-04)")
            counts = self._first.counts(gamma=self.gamma)
            yield make_reading(channel, counts, Extras(self._first.windows()))


class _Cumulative:
    """v0 totals of one draft length: the last line of each run between restarts, added up."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma
        self.own = self.drafted = 0
        self.tally = Tally()
        self._last = [0, 0, 0]

    def add(
        self, now: list[int], efficiency: float, when: str | None, at: LogLine, notes: Notes
    ) -> None:
        """One line of totals: accepted, drafted, emitted; where they fall the server restarted.

        System efficiency = emitted / (N(γ+1)) is the identity that says the bonus is counted.
        """
        steps, full = now[1] / self.gamma, self.gamma + 1
        if steps and abs(efficiency - now[2] / (steps * full)) > 0.002:
            notes.add(
                "system efficiency is not emitted / (steps x (gamma + 1)): tokens per step of "
                "this line cannot be trusted",
                at,
            )
        if any(new < old for new, old in zip(now, self._last, strict=True)):
            notes.add(FALL, at)
            self._last = [0, 0, 0]
        own, drafted, emitted = (new - old for new, old in zip(now, self._last, strict=True))
        self._last = now
        steps = drafted / self.gamma
        if steps > 0:
            self.own += own
            contiguous = max(round(emitted - steps), 0)
            self.tally.add(at.line, when, steps=steps, drafted=drafted, accepted=contiguous)

    def reading(self) -> Reading:
        """τ from emitted tokens; α from the rate of single positions."""
        tally = self.tally
        return make_reading(
            Channel("vllm", "v0 log (totals since start)", since_start=True),
            tally.counts(gamma=self.gamma),
            Extras(tally.windows()),
            [
                f"v0's 'accepted' ({self.own}) counts positions that pass on their own, even after "
                "a rejection; accepted here is emitted − steps, the contiguous ones"
            ],
            binomial_alpha(self.own, tally.drafted, "per token", "per-token rate"),
        )
