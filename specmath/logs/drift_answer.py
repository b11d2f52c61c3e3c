"""Drift from readings to words: the one answer that the command line and the page both show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specmath.checks import InputError
from specmath.logs.drift import NO_WINDOWS, Drift, drift
from specmath.logs.drift_report import Cause, DriftCost, alarm_sentence, causes, cost_of, sentence
from specmath.logs.record import Reading
from specmath.logs.taken import scenario_from
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.wording import count

__all__ = ["CHECK_FIRST", "DriftAnswer", "drift_answer"]

CHECK_FIRST = "Check, likeliest first:"
IN_ONE_FILE = "Metrics pages one after another in one file are read as a series, for instance from:"
SCRAPE = "while sleep 10; do curl -s http://127.0.0.1:8000/metrics >> current.txt; done"
SHOWN = 360
UNNOTICED = (
    f"with fewer than {SHOWN} baseline windows up to 9 times that where neighbours are alike over "
    "dozens of windows, which so few need not show"
)
OVERLAP = (
    "All of CURRENT's counters are above BASELINE's: if the server was not restarted between them, "
    "CURRENT's totals hold BASELINE's too, and the change is larger than it looks. Both pages, the "
    "older first, as CURRENT give the change between them."
)


@dataclass(frozen=True)
class DriftAnswer:
    """What was found between two readings, what it costs and what may have caused it."""

    before: Reading
    after: Reading
    found: Drift
    cost: DriftCost | None
    causes: tuple[Cause, ...]

    @property
    def sentence(self) -> str:
        """The answer in words, with the cost where it is known."""
        return sentence(self.found, self.cost)

    @property
    def cause_lines(self) -> tuple[str, ...]:
        """One line a cause: what, what speaks for it, how to check it."""
        return tuple(
            f"{cause.what}{f' ({cause.seen})' if cause.seen else ''}: {cause.check}"
            for cause in self.causes
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """How it was tested, what to know of it, what would be needed where it could not be."""
        found = self.found
        notes = []
        if found.detected_line is not None:
            notes.append(alarm_sentence(found))
        if found.current_blocks:
            notes.append(_tested_how(found))
        if self.before.engine != self.after.engine:
            pair = f"{self.before.engine}, then {self.after.engine}"
            notes.append(f"Another engine: {pair}. What differs may be the way it counts.")
        if _may_overlap(self.before, self.after):
            notes.append(OVERLAP)
        if self.command:
            notes.append(IN_ONE_FILE)
        return tuple(notes)

    @property
    def command(self) -> str:
        """What gives windows where there are none; belongs below the notes."""
        return SCRAPE if self.found.why.startswith(NO_WINDOWS) else ""


def drift_answer(
    before: Sequence[Reading],
    after: Sequence[Reading],
    base: Scenario,
    rate: float = 0.01,
    design_effect: float | None = None,
) -> DriftAnswer:
    """Compare two logs, each read into one reading or several; `base` holds the costs.

    Of several the same channel of both is taken. Raises InputError where they share no measure.
    """
    first, last = _pair(before, after)
    found = drift(first, last, rate, design_effect)
    likely = causes(found, first, last) if found.fallen else ()
    return DriftAnswer(first, last, found, _cost(found, first, last, base), likely)


def _pair(before: Sequence[Reading], after: Sequence[Reading]) -> tuple[Reading, Reading]:
    """The same channel of both logs where there is one; of several, that with most windows."""
    pairs = [(a, b) for a in before for b in after if (a.engine, a.format) == (b.engine, b.format)]
    if pairs:
        return max(pairs, key=lambda pair: min(len(pair[0].windows), len(pair[1].windows)))
    longest = [max(side, key=lambda reading: len(reading.windows)) for side in (before, after)]
    return longest[0], longest[1]


def _cost(found: Drift, before: Reading, after: Reading, base: Scenario) -> DriftCost | None:
    try:
        first = predict(scenario_from(before, base))
        same = before.gamma == after.gamma
        return cost_of(found, first, first if same else predict(scenario_from(after, base)))
    except InputError:
        return None


def _tested_how(found: Drift) -> str:
    """The blocks, and what the stated rate is worth: see the tables of docs/logs.md."""
    said = (
        f"{found.baseline_blocks} baseline blocks of about "
        f"{count(found.block_windows, 'window')}, {found.current_blocks} current ones that vary no "
        f"more; false alarms: {found.rate:g} a call"
    )
    if found.baseline_windows < SHOWN:
        return f"{said}; {UNNOTICED}."
    return f"{said}."


def _may_overlap(before: Reading, after: Reading) -> bool:
    """Totals since the start that only grew: of one start of one server, they overlap."""
    if not all("since start" in reading.format for reading in (before, after)):
        return False
    pairs = ((before.steps, after.steps), (before.accepted, after.accepted))
    return all(a is not None and b is not None and b > a for a, b in pairs)
