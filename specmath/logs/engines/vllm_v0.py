"""vLLM's `Speculative metrics: …` lines: v0 (to 2025), and the first v1 builds.

v0 prints totals since the start, and its "accepted" counts every position that would pass on its
own, even after a rejection: accepted / drafted there is an α of single tokens. The first v1 builds
print one interval a line in almost the same words.
"""

from __future__ import annotations

import re

from specmath.logs.engine import Engine, Parser, timestamp
from specmath.logs.estimate import binomial_alpha
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.tally import Tally, make_reading

__all__ = ["ENGINE"]

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

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._v0: dict[int, _Cumulative] = {}
        self._first = Tally()

    def line(self, text: str, at: Place) -> None:
        if found := _V0.search(text):
            gamma, accepted, drafted, emitted = (int(found.group(i)) for i in (3, 4, 5, 6))
            if gamma < 1 or drafted < accepted:
                self.notes.add("a v0 line that contradicts itself was left out", at)
                return
            state = self._v0.setdefault(gamma, _Cumulative(gamma))
            state.add(accepted, drafted, emitted, text, at, self.notes)
            state.efficiency(float(found.group(2)), drafted, emitted, at, self.notes)
        elif found := _FIRST.search(text):
            self._first_v1(int(found.group(2)), int(found.group(3)), text, at)
        else:
            self.notes.add("a 'Speculative metrics' line is cut off: left out", at)

    def _first_v1(self, accepted: int, drafted: int, text: str, at: Place) -> None:
        if accepted > drafted:
            self.notes.add("more tokens accepted than drafted: line left out", at)
            return
        steps = drafted / self.gamma if self.gamma else 0.0
        self._first.add(
            steps=steps, drafted=drafted, accepted=accepted, line=at.line, when=timestamp(text)
        )

    def readings(self) -> list[Reading]:
        found = [state.reading() for state in self._v0.values() if state.tally.drafted]
        if self._first.drafted:
            found.append(
                make_reading(
                    "vllm",
                    "v1 log (before 2025-04)",
                    steps=self._first.steps or None,
                    drafted=self._first.drafted,
                    accepted=self._first.accepted,
                    gamma=self.gamma,
                    windows=self._first.series.windows(),
                )
            )
        return found


class _Cumulative:
    """v0 totals of one draft length: the last line of each run between restarts, added up."""

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma
        self.own = self.drafted = 0
        self.tally = Tally()
        self._last = (0, 0, 0)

    def add(
        self, accepted: int, drafted: int, emitted: int, text: str, at: Place, notes: Notes
    ) -> None:
        """One line of totals; falling totals mean that the server restarted."""
        last = self._last
        if accepted < last[0] or drafted < last[1] or emitted < last[2]:
            notes.add("totals fall here: the server restarted, its runs are added up", at)
            last = (0, 0, 0)
        self._last = (accepted, drafted, emitted)
        steps = (drafted - last[1]) / self.gamma
        if steps <= 0:
            return
        self.own += accepted - last[0]
        self.tally.add(
            steps=steps,
            drafted=drafted - last[1],
            accepted=max(round(emitted - last[2] - steps), 0),
            line=at.line,
            when=timestamp(text),
        )

    def efficiency(
        self, printed: float, drafted: int, emitted: int, at: Place, notes: Notes
    ) -> None:
        """System efficiency = emitted / (N(γ+1)): the identity that says the bonus is counted."""
        if not drafted:
            return
        steps = drafted / self.gamma
        if abs(printed - emitted / (steps * (self.gamma + 1))) > 0.002:
            notes.add(
                "system efficiency is not emitted / (steps x (gamma + 1)): tokens per step of "
                "this line cannot be trusted",
                at,
            )

    def reading(self) -> Reading:
        """τ from emitted tokens; α from the rate of single positions."""
        tally = self.tally
        return make_reading(
            "vllm",
            "v0 log (totals since start)",
            steps=tally.steps,
            drafted=tally.drafted,
            accepted=tally.accepted,
            gamma=self.gamma,
            windows=tally.series.windows(),
            warnings=[
                f"v0's 'accepted' ({self.own}) counts positions that pass on their own, even after "
                "a rejection; accepted here is emitted − steps, the contiguous ones"
            ],
            alpha=binomial_alpha(self.own, tally.drafted, "per-token rate"),
        )


ENGINE = Engine("vllm", (b"Speculative metrics: ",), VllmOldLog)
