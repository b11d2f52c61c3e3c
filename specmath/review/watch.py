"""A server watched as it runs: a window an interval, and a look for drift every so many windows.

Every look lays the newest `look` windows beside the baseline and is a test of its own, with a rate
of false alarms of its own: looks do not overlap, so on average 1/rate of them pass between two
false alarms. The baseline is another log, or the first `learn` windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from specmath.checks import real, whole
from specmath.logs.counts import Tally, make_reading
from specmath.logs.lanes import whole_side
from specmath.logs.reading import Channel, Counts, Extras, Reading, Window
from specmath.logs.service import Service
from specmath.review.drift import Drift, drift

__all__ = ["Interval", "Watch"]

MOST_LOOK = 4096


@dataclass(frozen=True)
class Interval:
    """What one interval told. `reading` None where nothing was drafted in it; `found` at the end of
    a look; `learning`: windows still wanted for the baseline."""

    reading: Reading | None
    service: Service
    found: Drift | None
    learning: int


class Watch:
    """Windows as they come, against a baseline.

    Parameters
    ----------
    baseline
        A reading with windows; None: the first `learn` windows are the baseline.
    learn, look
        Windows of the baseline that is learnt, and of each look; 10 to 4096.
    rate
        P(false alarm) of one look, > 0 and <= 0.5.
    """

    def __init__(
        self, baseline: Reading | None = None, *, learn: int = 60, look: int = 30,
        rate: float = 0.001,
    ) -> None:  # fmt: skip
        self.learn = int(whole("learn", learn, 10, MOST_LOOK))
        self.look = int(whole("look", look, 10, MOST_LOOK))
        self.rate = float(real("rate", rate, 0, 0.5, low_open=True))
        self.alarms = 0
        self.baseline = baseline
        self._kept: list[Window] = []
        self._channel = Channel("unknown", "watched")

    def take(self, readings: Sequence[Reading]) -> Interval:
        """The readings of one interval, those of several servers pooled where they agree."""
        whole_, _ = whole_side(readings)
        drafting = next((one for one in whole_ if one.speculates), None)
        served = next((one.service for one in whole_ if one.service.told), Service())
        if drafting is not None:
            self._channel = Channel(drafting.engine, "watched", drafting.shape)
            self._kept += _windows(drafting)
        return Interval(drafting, served, self._judged(), self._wanted())

    def _wanted(self) -> int:
        return 0 if self.baseline is not None else max(self.learn - len(self._kept), 0)

    def _judged(self) -> Drift | None:
        if self.baseline is None:
            if len(self._kept) >= self.learn:
                learnt, self._kept = self._kept[: self.learn], self._kept[self.learn :]
                self.baseline = _together(learnt, self._channel)
            return None
        if len(self._kept) < self.look:
            return None
        newest, self._kept = self._kept, []
        found = drift(self.baseline, _together(newest, self._channel), self.rate)
        self.alarms += bool(found.fallen)
        return found


def _windows(reading: Reading) -> Iterable[Window]:
    """Its windows, or all of it as one."""
    if reading.windows:
        return reading.windows
    one = Window(
        0, None, reading.steps, reading.drafted, reading.accepted, reading.tokens_per_step,
        reading.survival, float(reading.steps or 1),
    )  # fmt: skip
    return (one,) if one.tokens_per_step is not None else ()


def _together(windows: Sequence[Window], channel: Channel) -> Reading:
    tally = Tally()
    for each in windows:
        counted = each.steps, each.drafted, each.accepted
        if None in counted or not each.steps:
            tally.add_mean(each.line, each.when, each.tokens_per_step or 1.0, each.weight)
        else:
            tally.add(each.line, each.when, steps=each.steps, drafted=each.drafted or 0,
                      accepted=each.accepted or 0, survival=each.survival or ())  # fmt: skip
    told = all(each.steps for each in windows)
    counts = tally.counts() if told else Counts(tokens_per_step=tally.tokens_per_step)
    return replace(make_reading(channel, counts, Extras(tally.windows())), warnings=())
