"""Counts that add up while a log streams by, and the Reading they make: bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from specmath.checks import FloatArray
from specmath.logs.estimate import Alpha, conditional, estimate_alpha
from specmath.logs.record import Reading, Requests, Window
from specmath.logs.series import Series, window_rows

__all__ = ["Spread", "Tally", "make_reading"]

MOST_REQUESTS = 4096
LONGEST_DRAFT = 1024


class Spread:
    """One value a request, thinned evenly (every 2nd, 4th, …) above MOST_REQUESTS."""

    def __init__(self, measure: str) -> None:
        self.measure = measure
        self.count = 0
        self._stride = 1
        self._values: list[float] = []

    def add(self, value: float) -> None:
        """Add the value of one more request."""
        if self.count % self._stride == 0:
            self._values.append(value)
        self.count += 1
        if len(self._values) > MOST_REQUESTS:
            self._values = self._values[::2]
            self._stride *= 2

    def requests(self) -> Requests | None:
        """The distribution, or None below two requests."""
        if self.count < 2:
            return None
        low, middle, high = (float(q) for q in np.quantile(self._values, (0.1, 0.5, 0.9)))
        return Requests(self.count, self.measure, tuple(self._values), low, middle, high)


class Tally:
    """Sums of one kind of reading: steps, drafted, accepted, accepted at each position."""

    def __init__(self) -> None:
        self._whole_steps, self._parts_of_steps = 0, 0.0
        self.drafted = 0
        self.accepted = 0
        self.at_position: list[float] = []
        self.series = Series()

    def add(
        self,
        *,
        steps: float,
        drafted: int,
        accepted: int,
        survival: Sequence[float] = (),
        line: int = 0,
        when: str | None = None,
    ) -> None:
        """Add one window; `survival` holds rates over its `steps`."""
        self._add_steps(steps)
        self.drafted += drafted
        self.accepted += accepted
        missing = len(survival) - len(self.at_position)
        self.at_position += [0.0] * max(missing, 0)
        for position, rate in enumerate(survival):
            self.at_position[position] += rate * steps
        tokens = 1.0 + accepted / steps if steps > 0 else math.nan
        row = (steps, round(steps), drafted, accepted, tokens, len(survival), *survival)
        self.series.put(line, when, row)

    def extend(
        self,
        lines: Sequence[int],
        when: Callable[[int], str | None],
        *,
        steps: FloatArray,
        drafted: FloatArray,
        accepted: FloatArray,
        survival: FloatArray | None = None,
    ) -> None:
        """Add windows, all with steps > 0, as columns of one length [n]; `survival` [n, γ].

        Whole numbers are to add up to less than 2^53: their sums are then exact.
        """
        self._add_steps(float(steps.sum()))
        self.drafted += int(drafted.sum())
        self.accepted += int(accepted.sum())
        if survival is not None:
            missing = survival.shape[1] - len(self.at_position)
            self.at_position += [0.0] * max(missing, 0)
            for position, count in enumerate(steps @ survival):
                self.at_position[position] += float(count)
        rows = window_rows(
            steps, steps=np.rint(steps), drafted=drafted, accepted=accepted,
            tokens_per_step=1.0 + accepted / steps, survival=survival,
        )  # fmt: skip
        self.series.extend(rows, lines, when)

    def _add_steps(self, steps: float) -> None:
        # Whole steps add up as whole numbers: the same in any order, however many.
        whole = int(steps)
        self._whole_steps += whole
        self._parts_of_steps += steps - whole

    @property
    def steps(self) -> float:
        """Steps of all windows."""
        return self._whole_steps + self._parts_of_steps

    @property
    def survival(self) -> tuple[float, ...] | None:
        """Accepted at position i over all steps, or None where no position was counted."""
        if not self.at_position or self.steps <= 0:
            return None
        return tuple(min(count / self.steps, 1.0) for count in self.at_position)


def make_reading(
    engine: str,
    form: str,
    *,
    steps: float | None = None,
    drafted: int | None = None,
    accepted: int | None = None,
    tokens_per_step: float | None = None,
    survival: Sequence[float] | None = None,
    from_histogram: bool = False,
    gamma: int | None = None,
    generated: int | None = None,
    passes: float | None = None,
    tree: bool = False,
    alpha: Alpha | None = None,
    windows: Sequence[Window] = (),
    requests: Requests | None = None,
    draft_seconds: float | None = None,
    draft_share: float | None = None,
    facts: Mapping[str, float | str | None] | None = None,
    warnings: Sequence[str] = (),
) -> Reading:
    """The Reading that these counts make; what they imply is derived here, for every engine.

    `passes` counts all decode passes of all sequences, with and without a draft: it gives
    coverage = steps / passes and tokens per pass, 1 + accepted / passes.
    """
    notes = list(warnings)
    if drafted is not None and (accepted or 0) > drafted:
        notes.append(f"{accepted} tokens accepted of {drafted} drafted cannot be: drafted not used")
        drafted = None
    if steps and accepted is not None:
        tokens_per_step = 1.0 + accepted / steps
    if survival and gamma is None:
        gamma = len(survival)
    if tokens_per_step is not None and tokens_per_step < 1.0:
        notes.append(f"{tokens_per_step:g} tokens per step cannot be (at least 1): not used")
        tokens_per_step = None
    gamma = _possible(gamma, tokens_per_step, notes)
    passes = _passes(steps, passes, notes)
    coverage = min(steps / passes, 1.0) if steps is not None and passes else None
    per_pass = 1.0 + accepted / passes if accepted is not None and passes else None
    alpha = alpha or estimate_alpha(
        steps=steps,
        drafted=drafted,
        accepted=accepted,
        survival=survival,
        gamma=gamma,
        tokens_per_step=tokens_per_step,
        from_histogram=from_histogram,
        windows=windows,
    )
    if tree:
        alpha = Alpha()
        notes.append(
            "a token tree: accepted / drafted is a share of tree nodes, and no α follows from it; "
            "use tokens per step or the histogram"
        )
    elif alpha.value is None and drafted and accepted is not None and gamma is None:
        notes.append(
            f"the draft length is not printed here: α is at least the accepted share "
            f"{accepted / drafted:.3f}; give gamma to get α"
        )
    elif steps is None and drafted and (alpha.basis or "").startswith("inverted share"):
        notes.append(f"steps are not printed: α takes every draft as {gamma} tokens long")
    c = None
    if draft_share is not None and gamma and 0.0 <= draft_share < 1.0:
        c = draft_share / (1.0 - draft_share) / gamma
        notes.append(
            "c is drafting time over the rest of the step, per drafted token: it takes the rest "
            "(verification, sampling, host) as one target forward"
        )
    return Reading(
        engine=engine,
        format=form,
        steps=None if steps is None else round(steps),
        drafted=drafted,
        accepted=accepted,
        tokens_per_step=tokens_per_step,
        tokens_per_pass=per_pass,
        survival=tuple(survival) if survival else None,
        conditional=conditional(survival) if survival else None,
        alpha=alpha.value,
        alpha_basis=alpha.basis,
        alpha_interval=alpha.interval,
        interval_basis=alpha.interval_basis,
        gamma=gamma,
        drafted_per_step=drafted / steps if drafted is not None and steps else None,
        tree=tree,
        coverage=coverage,
        generated=generated,
        windows=tuple(windows),
        requests=requests,
        draft_seconds=draft_seconds,
        draft_share=draft_share,
        c=c,
        facts=tuple((name, value) for name, value in (facts or {}).items() if value is not None),
        warnings=tuple(dict.fromkeys(notes)),
    )


def _possible(gamma: int | None, tokens_per_step: float | None, notes: list[str]) -> int | None:
    """`gamma`, unless no draft is that long or a step emits more than gamma + 1 tokens."""
    if gamma is None or gamma < 1:
        return None
    if gamma > LONGEST_DRAFT:
        notes.append(f"a draft length of {gamma} is not one (at most {LONGEST_DRAFT}): not used")
        return None
    if tokens_per_step is not None and tokens_per_step > gamma + 1.005:
        notes.append(
            f"{tokens_per_step:.3f} tokens per step are more than gamma + 1 with gamma {gamma}: "
            "that draft length is not used"
        )
        return None
    return gamma


def _passes(steps: float | None, passes: float | None, notes: list[str]) -> float | None:
    """`passes`, unless there are fewer than steps: a little is rounding, more is another time."""
    if passes is None or passes <= 0 or (steps is not None and steps > 1.05 * passes):
        if passes is not None:
            notes.append(
                "the tokens generated do not cover the accepted tokens and their steps: they are "
                "not of the same time, so coverage is left out"
            )
        return None
    return passes
