"""vLLM's `SpecDecoding metrics: …` lines: v1, one interval a line, four eras.

The mean acceptance length left out the bonus token until PR 17908 (2025-05). Which one holds is
decided by the per-position rates: their sum is the length without it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specmath.checks import FloatArray
from specmath.logs.engine import SYNTHETIC, Engine, Parser, timestamp
from specmath.logs.errors import LogError
from specmath.logs.lanes import Rows, in_runs
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.survival import RATE_LIST, parse_rates
from specmath.logs.tally import Tally, make_reading
from specmath.logs.vllm_intervals import (
    COMMON,
    CURRENT_FORM,
    FORMS,
    MIDDLE_FORM,
    NUMBER,
    PLAIN_FORM,
    Cover,
    Intervals,
    generation_before,
    length_tolerance,
    steps_of,
)

__all__ = ["ENGINE", "VllmLog"]

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
_COMMON_GENERATION = re.compile(_GENERATION.pattern.encode())
_CONFIG = re.compile(r"num_spec(?:ulative)?_tokens['\"]?\s?[=:]\s?(\d{1,3})\b")

RATE_FORM = "v1 log (2025-04, rate only)"
UNRESOLVED_FORM = "v1 log (mean length, bonus token unresolved)"


class VllmLog(Parser):
    """Sums the intervals of each era and draft length; v0's totals are cut at restarts."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._groups: defaultdict[tuple[str, int | None], Tally] = defaultdict(Tally)
        self._plain: Tally = Tally()
        self._rate: float | None = None
        self._cover = Cover()
        self._configured: set[int] = set()
        self._tree = False
        self._other: set[str] = set()

    def line(self, text: str, at: Place) -> None:
        if _V1_LINE in text:
            self._v1(text, at)
        elif found := _GENERATION.search(text):
            self._rate = float(found.group(1))
            self._other.add("vLLM throughput lines")
        elif "DiffusionDecoding metrics" in text:
            self._other.add("vLLM DiffusionDecoding lines, which are not speculation")
        else:
            self._setting(text)

    def rows(self, found: Sequence[Rows]) -> None:
        metrics, throughputs = found
        if len(throughputs):
            self._other.add("vLLM throughput lines")
        generation, self._rate = generation_before(metrics, throughputs, self._rate)
        if not len(metrics):
            return
        following, intervals = self._rate, Intervals.of(metrics)

        def one(index: int) -> None:
            told = float(generation[index])
            self._rate = None if math.isnan(told) else told
            self.line(metrics.text(index), metrics.place(index))

        def many(run: slice) -> None:
            self._pool(metrics, intervals, generation, run)

        in_runs(intervals.good, many, one)
        self._rate = following

    def _pool(self, rows: Rows, all_: Intervals, generation: FloatArray, run: slice) -> None:
        """Add intervals of which nothing is odd."""
        for form, positions, which in all_.kinds(run):
            where = which.tolist()

            def when(index: int, where: list[int] = where) -> str | None:
                return timestamp(rows.text(where[index]))

            self._groups[FORMS[form], positions].extend(
                rows.lines[which].tolist(),
                when,
                steps=all_.steps[which],
                drafted=all_.drafted[which],
                accepted=all_.accepted[which],
                survival=all_.rates[which, :positions],
            )
        told = run.start + np.flatnonzero(~np.isnan(generation[run] + all_.speed[run]))
        told = told[all_.form[told] == FORMS.index(CURRENT_FORM)]
        self._cover.add(
            *(c[told] for c in (all_.speed, generation, all_.steps, all_.accepted, all_.drafted))
        )

    def _setting(self, text: str) -> None:
        if "synthetic" in text and ("rejection_sample" in text or "accept" in text):
            self.notes.add(SYNTHETIC)
        if found := _CONFIG.search(text):
            self._configured.add(int(found.group(1)))
        if "speculative_token_tree" in text and "speculative_token_tree=None" not in text:
            self._tree = self._tree or text.count("(", text.find("speculative_token_tree")) > 1

    def _counts(self, form: str, accepted: int, drafted: int, text: str, at: Place) -> None:
        """An interval that tells accepted and drafted only: steps follow from a known γ."""
        if accepted > drafted:
            self.notes.add("more tokens accepted than drafted: line left out", at)
            return
        tally = self._groups[form, None]
        tally.add(steps=0, drafted=drafted, accepted=accepted, line=at.line, when=timestamp(text))

    def _v1(self, text: str, at: Place) -> None:
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
        rates = self._rates(found["rates"], at)
        length = float(found["length"] or "nan")
        if rates is None or math.isnan(length):
            self._without_rates(text, accepted, drafted, length, at)
            return
        form = self._form(length, rates, found["speed"] is not None, at)
        steps = float(steps_of(accepted, drafted, sum(rates), len(rates)))
        tally = self._groups[form, len(rates)]
        tally.add(
            steps=steps,
            drafted=drafted,
            accepted=accepted,
            survival=rates,
            line=at.line,
            when=timestamp(text),
        )
        if found["speed"] and generation is not None and form == CURRENT_FORM:
            self._cover.add(float(found["speed"]), generation, steps, accepted, drafted)

    def _rates(self, text: str | None, at: Place) -> tuple[float, ...] | None:
        if text is None:
            return None
        try:
            return parse_rates(text)
        except LogError as error:
            self.notes.add(f"per-position rates not used: {error}", at)
            return None

    def _form(self, length: float, rates: tuple[float, ...], throughput: bool, at: Place) -> str:
        """Era by the identity that holds: length = Σ rates (no bonus) or 1 + Σ rates."""
        total, tolerance = sum(rates), float(length_tolerance(len(rates)))
        if abs(length - total) <= tolerance:
            return PLAIN_FORM
        if abs(length - 1.0 - total) > tolerance:
            self.notes.add(
                f"mean acceptance length {length:g} is neither the sum of the per-position rates "
                f"nor one more ({total:.3f}): the rates and counts were used",
                at,
            )
        return CURRENT_FORM if throughput else MIDDLE_FORM

    def _without_rates(
        self, text: str, accepted: int, drafted: int, mean: float, at: Place
    ) -> None:
        if not mean > 1.0 or accepted == 0:
            self._counts(RATE_FORM, accepted, drafted, text, at)
            return
        # Two readings are kept side by side; finish() tells which of them can be.
        bonus = self._groups[UNRESOLVED_FORM, None]
        for tally, per_step in ((bonus, mean - 1.0), (self._plain, mean)):
            tally.add(
                steps=accepted / per_step,
                drafted=drafted,
                accepted=accepted,
                line=at.line,
                when=timestamp(text),
            )

    def readings(self) -> list[Reading]:
        found: list[Reading] = []
        known = self.gamma or (min(self._configured) if len(self._configured) == 1 else None)
        for (form, gamma), tally in self._groups.items():
            if form == UNRESOLVED_FORM:
                found += self._resolve(tally, known)
            elif tally.drafted:
                found.append(self._reading(form, tally, gamma or known))
        return found

    def _reading(self, form: str, tally: Tally, gamma: int | None) -> Reading:
        warnings = []
        steps: float | None = tally.steps
        if not tally.steps:
            steps = tally.drafted / gamma if gamma else None
        elif gamma and tally.drafted < 0.98 * gamma * tally.steps:
            warnings.append(
                f"drafts vary in length ({tally.drafted / tally.steps:.2f} tokens a step of at "
                f"most {gamma}): steps follow from the per-position rates, and a draft that "
                "stopped early lowers the rates at later positions"
            )
        passes = None
        if form == CURRENT_FORM and steps:
            ratio, notes = self._cover.passes_per_step()
            passes = steps * ratio if ratio else None
            warnings += notes
        return make_reading(
            "vllm",
            form,
            steps=steps,
            drafted=tally.drafted,
            accepted=tally.accepted,
            survival=tally.survival,
            gamma=gamma,
            passes=passes,
            tree=self._tree,
            windows=tally.series.windows(),
            warnings=warnings,
        )

    def _resolve(self, bonus: Tally, gamma: int | None) -> list[Reading]:
        """A length without per-position rates: the reading whose D/N is a whole γ, or both."""
        found = []
        for tally, says in ((bonus, "with"), (self._plain, "without")):
            length = tally.drafted / tally.steps
            fits = abs(length - round(length)) < 0.03 and round(length) >= 1
            if fits and (gamma is None or round(length) == gamma):
                form = f"v1 log (mean length {says} the bonus token)"
                found.append(self._reading(form, tally, round(length)))
        if len(found) == 1:
            return found
        if not found:
            forms = [f"v1 log (mean length {says} the bonus token)" for says in ("with", "without")]
            tallies = (bonus, self._plain)
            found = [self._reading(f, t, gamma) for f, t in zip(forms, tallies, strict=True)]
        text = "whether the mean length counts the bonus token cannot be told: two readings"
        main = make_reading(
            "vllm", UNRESOLVED_FORM, drafted=bonus.drafted, accepted=bonus.accepted, gamma=gamma
        )
        return [replace(main, alternatives=tuple(found)).warned(text)]

    def without(self) -> str | None:
        return "found " + " and ".join(sorted(self._other)) if self._other else None


ENGINE = Engine(
    "vllm",
    (
        b"SpecDecoding metrics: ",
        b"Avg generation throughput: ",
        b"DiffusionDecoding metrics",
        b"num_spec",
        b"synthetic",
        b"speculative_token_tree",
    ),
    VllmLog,
    (COMMON, _COMMON_GENERATION),
)
