"""vLLM's `SpecDecoding metrics: …` lines as columns: one interval a row.

The era follows from the identity that holds: the mean length is Σ rates (2025-04, without the
bonus token) or 1 + Σ rates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, IntArray
from specmath.logs.lanes import BoolArray, Rows, rate_columns
from specmath.logs.survival import RATE_LIST

__all__ = [
    "COMMON", "CURRENT_FORM", "FORMS", "MIDDLE_FORM", "NUMBER", "PLAIN_FORM", "Cover", "Intervals",
    "generation_before", "length_tolerance", "steps_of",
]  # fmt: skip

NUMBER = r"\d{1,15}(?:\.\d{1,15})?"
COMMON = re.compile(
    rf"SpecDecoding metrics: (?:Draft acceptance rate: ({NUMBER})%, )?"
    rf"Mean acceptance length: ({NUMBER}), "
    rf"(?:Accepted throughput: {NUMBER} tokens/s, Drafted throughput: ({NUMBER}) tokens/s, )?"
    r"Accepted: (\d{1,10}) tokens, Drafted: (\d{1,10}) tokens, "
    rf"Per-position acceptance rate: ({RATE_LIST})"
    rf"(?:,? ?Avg Draft acceptance rate: ({NUMBER})%)?[ \r]{{0,4}}(?=\n|\Z)".encode()
)
"""Counts of ten digits: a piece of them adds up exactly."""
PLAIN_FORM = "v1 log (2025-04, mean length without the bonus token)"
MIDDLE_FORM = "v1 log (2025-05 to 2025-09)"
CURRENT_FORM = "v1 log (2025-09 on)"
FORMS = (PLAIN_FORM, MIDDLE_FORM, CURRENT_FORM)
PLAIN, MIDDLE, CURRENT = range(3)


@dataclass(frozen=True)
class Intervals:
    """Columns of one length; `good`: nothing contradicts anything, and something was drafted.

    `speed` is drafted tokens per second, nan where not printed; `rates` is filled up with zeros
    to the longest draft, `positions` says how many there are; `form` indexes FORMS.
    """

    accepted: FloatArray
    drafted: FloatArray
    speed: FloatArray
    rates: FloatArray
    positions: IntArray
    steps: FloatArray
    form: IntArray
    good: BoolArray

    @classmethod
    def of(cls, rows: Rows) -> Intervals:
        """The intervals of lines that match COMMON."""
        length, accepted, drafted = map(rows.column, (2, 4, 5))
        first, speed, last = map(rows.optional, (1, 3, 7))
        rates, positions, falling = rate_columns([match[6] for match in rows.matches])
        total, tolerance = rates.sum(axis=1), length_tolerance(positions)
        plain = abs(length - total) <= tolerance
        form = np.where(plain, PLAIN, np.where(np.isnan(speed), MIDDLE, CURRENT))
        good: BoolArray = falling & (drafted > 0) & (accepted <= drafted)
        good &= plain | (abs(length - 1.0 - total) <= tolerance)
        drafted = np.maximum(drafted, 1.0)
        printed = np.where(np.isnan(first), last, first) / 100.0
        good &= np.isnan(printed) | (abs(printed - accepted / drafted) <= 0.001)
        steps = steps_of(accepted, drafted, total, positions)
        return cls(accepted, drafted, speed, rates, positions, steps, form, good)

    def kinds(self, run: slice) -> list[tuple[int, int, IntArray]]:
        """(form, positions, indices of the rows) in `run`, the kind that comes first first."""
        kind = self.form[run] * 1024 + self.positions[run]
        kinds, first = np.unique(kind, return_index=True)
        return [
            (int(one) // 1024, int(one) % 1024, run.start + np.flatnonzero(kind == one))
            for one in kinds[np.argsort(first)]
        ]


def generation_before(
    metrics: Rows, throughputs: Rows, carried: float | None
) -> tuple[FloatArray, float | None]:
    """(the generation throughput printed since the interval before, nan where none; what is left).

    `carried` is what was printed above these rows since the last interval.
    """
    rates = np.append(throughputs.column(1), np.nan)
    # The last of them above each interval; -1, the nan, where there is none.
    last = np.searchsorted(throughputs.lines, metrics.lines) - 1
    found = np.where(np.diff(last, prepend=-1) > 0, rates[last], np.nan)
    if found.size and last[0] < 0 and carried is not None:
        found[0] = carried
    if len(throughputs) > (last[-1] + 1 if last.size else 0):
        return found, float(rates[-2])
    return found, None if last.size else carried


def length_tolerance(positions: IntArray | int) -> FloatArray:
    """How far a length of two digits may lie from the sum of rates of three."""
    return np.asarray(0.006 + 0.0005 * positions)


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

    def add(
        self,
        per_second: ArrayLike,
        generation: ArrayLike,
        steps: ArrayLike,
        accepted: ArrayLike,
        drafted: ArrayLike,
    ) -> None:
        """Intervals in order: drafted and generated tokens per second, and the counts."""
        columns = (per_second, generation, steps, accepted, drafted)
        per_second, generation, steps, accepted, drafted = (
            np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in columns
        )
        seconds = np.divide(
            drafted, per_second, out=np.full(drafted.size, np.inf), where=per_second > 0
        )
        while seconds.size:
            shorter = np.flatnonzero(seconds < self._shortest / 1.5)
            end = int(shorter[0]) if shorter.size else seconds.size
            usual = np.flatnonzero(seconds[:end] <= 1.5 * self._shortest)
            self._idle += end - usual.size
            self._steps += float(steps[usual].sum())
            self._passes += float((generation[usual] * seconds[usual] - accepted[usual]).sum())
            if end < seconds.size:
                self._shortest, self._steps, self._passes = float(seconds[end]), 0.0, 0.0
            seconds, generation = seconds[end:], generation[end:]
            steps, accepted = steps[end:], accepted[end:]

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
