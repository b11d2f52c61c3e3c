"""llama.cpp's draft lengths that adapt: totals of a sequence at each change of its length."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specmath.logs.bounds import bounds_of
from specmath.logs.counts import make_reading
from specmath.logs.estimate import Alpha
from specmath.logs.reading import Channel, Counts, Extras, Reading
from specmath.logs.stream import LogLine, Notes

__all__ = ["MOST_SLOTS", "NO_SLOT", "SLOT", "Adaptive"]

SLOT = re.compile(r"\bid\s{1,6}(\d{1,9}) \| task (-?\d{1,12}) \|")
NO_SLOT = "?"
MOST_SLOTS = 1024
_DEPTH = re.compile(
    r"adaptive draft depth seq (\d{1,6}): (\d{1,4}) -> (\d{1,4}) \(.{0,200}?"
    r"cur_accepted=(\d{1,15}), cur_generated=(\d{1,15})(?:, cur_drop=(-?\d{1,15}))?"
)
_SPEED_SO_FAR = re.compile(
    r"\| (?:n_gen|n_decoded) =\s{1,12}(\d{1,12}), tg =\s{1,12}(\d{1,9}\.\d+) t/s"
)


class Adaptive:
    """Totals of a sequence so far; where they fall another request began."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        self._sum = [0, 0]
        self._depths: set[int] = set()
        self._speeds: dict[str, tuple[int, float]] = {}

    def line(self, text: str, at: LogLine, notes: Notes) -> None:
        """A change of depth, or the speed of a request so far."""
        if found := _SPEED_SO_FAR.search(text):
            slot = SLOT.search(text)
            if len(self._speeds) < MOST_SLOTS:
                self._speeds[slot[0] if slot else NO_SLOT] = int(found[1]), float(found[2])
            return
        if (found := _DEPTH.search(text)) is None:
            return
        accepted, drafted = int(found[4]), int(found[5])
        if accepted > drafted or (found[6] and int(found[6]) != accepted - drafted):
            notes.add("a change of draft depth whose counts contradict each other: left out", at)
            return
        if len(self._last) >= MOST_SLOTS and found[1] not in self._last:
            return
        before = self._last.get(found[1], (0, 0))
        if accepted < before[0] or drafted < before[1]:
            self._sum = [old + new for old, new in zip(self._sum, before, strict=True)]
        self._last[found[1]] = accepted, drafted
        if len(self._depths) < 64:
            self._depths |= {int(found[2]), int(found[3])}

    def readings(self, greedy: str) -> Iterator[Reading]:
        """The totals of all requests: α between bounds, as only the range of the depth is told."""
        accepted, drafted = (
            self._sum[i] + sum(last[i] for last in self._last.values()) for i in (0, 1)
        )
        shortest, longest = min(self._depths, default=0), max(self._depths, default=0)
        if not drafted or shortest < 1:
            return
        low, high = bounds_of(accepted, drafted, drafted / shortest, longest)
        basis = (
            f"bounds, no confidence interval: drafts were {shortest} to {longest} tokens long, as "
            "far as their changes are printed"
        )
        seconds = sum(tokens / speed for tokens, speed in self._speeds.values() if speed > 0)
        tokens = sum(tokens for tokens, speed in self._speeds.values() if speed > 0)
        facts = {
            "draft_depth_low": float(shortest), "draft_depth_high": float(longest),
            "tokens_per_second": tokens / seconds if seconds else None,
        }  # fmt: skip
        yield make_reading(
            Channel("llama.cpp", "server log, adaptive draft depth", "stops"),
            Counts(drafted=drafted, accepted=accepted, gamma=longest),
            Extras(facts=facts),
            [greedy, "steps are not printed: tokens per step and coverage are unknown"],
            Alpha(interval=(low, high), interval_basis=basis),
        )
