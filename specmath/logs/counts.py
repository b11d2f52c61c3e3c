"""Counts that add up while a log streams by, and the Reading they make: bounded memory.

Windows wait as rows of columns, so that a log of millions of lines makes no object a line; above
4096 of them neighbours are merged, all at once. Sums of whole numbers are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from specmath.checks import FloatArray, IntArray
from specmath.estimate import conditional
from specmath.logs.bounds import stopping_alpha
from specmath.logs.estimate import Alpha, binomial_alpha, estimate_alpha
from specmath.logs.reading import Channel, Counts, Extras, Facts, Reading, Requests, Window
from specmath.logs.service import of_facts
from specmath.logs.signs import signs_of
from specmath.logs.stream import LogLine, Notes

__all__ = [
    "C_FROM_SHARE",
    "RequestSum",
    "Spread",
    "Tally",
    "both",
    "falling_rates",
    "make_reading",
    "survival_of",
]

MOST_REQUESTS = 4096
MOST_WINDOWS = 4096
MOST_POSITIONS = 256
LONGEST_DRAFT = 1024
WAITING = 512
EXACT = 2.0**53
NO_EXTRAS = Extras()
C_FROM_SHARE = (
    "c is drafting time over the rest of the step, per drafted token: it takes the rest "
    "(verification, sampling, host) as one target forward"
)
Row = tuple[float, ...]
WEIGHT, STEPS, DRAFTED, ACCEPTED, TOKENS, POSITIONS, SURVIVAL = range(7)


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

    def extend(self, values: list[float]) -> None:
        """Add the values of several more."""
        picked = values[-self.count % self._stride :: self._stride]
        if len(self._values) + len(picked) > MOST_REQUESTS:
            for value in values:
                self.add(value)
            return
        self._values += picked
        self.count += len(values)

    def requests(self) -> Requests | None:
        """The distribution, or None below two requests."""
        if self.count < 2:
            return None
        low, middle, high = (float(q) for q in np.quantile(self._values, (0.1, 0.5, 0.9)))
        return Requests(self.count, self.measure, tuple(self._values), low, middle, high)


class Tally:
    """Windows of one kind of reading in order, and the sums over them.

    A row a window, nan where the log does not tell: weight, steps, …, γ and γ rates. Where steps
    are told they are the weight. The last row may still be filling up.
    """

    def __init__(self) -> None:
        self._rows: FloatArray = np.empty((0, SURVIVAL))
        self._lines: list[int] = []
        self._when: list[str | None] = []
        self._span = 1  # how many windows as printed make one row
        self._filled = 0  # how many of them the last row holds; 0: it is complete
        self._waiting: list[tuple[int, str | None, Row]] = []
        self._whole = [0, 0, 0]
        self._parts = 0.0
        self._tokens = 0.0
        self._at_position = np.zeros(0)

    def add(
        self, line: int, when: str | None = None, *,
        steps: float, drafted: int, accepted: int, survival: Sequence[float] = (),
    ) -> None:  # fmt: skip
        """Add one window; `survival` holds rates over its `steps`, which are 0 where not told."""
        tokens = 1.0 + accepted / steps if steps > 0 else math.nan
        row = (steps, round(steps), drafted, accepted, tokens, len(survival), *survival)
        self._put(line, when, row)

    def add_mean(self, line: int, when: str | None, tokens: float, weight: float) -> None:
        """Add a window of which only its tokens per step are told."""
        self._put(line, when, (weight, math.nan, math.nan, math.nan, tokens, 0))

    def _put(self, line: int, when: str | None, row: Row) -> None:
        self._waiting.append((line, when, row))
        if len(self._waiting) >= WAITING:
            self._take()

    def extend(
        self, lines: Sequence[int] | IntArray, when: Callable[[int], str | None],
        weight: FloatArray, *, tokens: FloatArray | None = None, drafted: FloatArray | None = None,
        accepted: FloatArray | None = None, survival: FloatArray | None = None,
    ) -> None:  # fmt: skip
        """Add windows as columns of one length [n]: steps (`weight`, 0 where not told) and the
        counts, with `survival` [n, γ]; or the mean `tokens` per step alone. `when(i)` is asked for
        few.
        """
        self._take()
        gamma = 0 if survival is None else survival.shape[1]
        rows = np.full((len(lines), SURVIVAL + gamma), np.nan)
        rows[:, WEIGHT], rows[:, POSITIONS] = weight, gamma
        if tokens is not None:
            rows[:, TOKENS] = tokens
        if drafted is not None and accepted is not None:
            rows[:, STEPS], rows[:, DRAFTED], rows[:, ACCEPTED] = np.rint(weight), drafted, accepted
            share = np.divide(accepted, weight, out=np.full(len(rows), np.nan), where=weight > 0)
            rows[:, TOKENS] = 1.0 + share
        if survival is not None:
            rows[:, SURVIVAL:] = survival
        self._sum(rows)
        self._append(rows, lines, when)

    def absorb(self, other: Tally) -> None:
        """Add the windows of `other`, after these."""
        other._take()
        self._take()
        self._sum(other._rows)
        self._append(other._rows, other._lines, other._when.__getitem__)

    def _take(self) -> None:
        """Rows of the windows that were added one by one."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            width = max(len(row) for _, _, row in waiting)
            rows = np.array([row + (math.nan,) * (width - len(row)) for _, _, row in waiting])
            self._sum(rows)
            self._append(rows, [line for line, _, _ in waiting], lambda i: waiting[i][1])

    def _append(
        self, rows: FloatArray, lines: Sequence[int] | IntArray,
        when: Callable[[int], str | None],
    ) -> None:  # fmt: skip
        width = max(rows.shape[1], self._rows.shape[1])
        rows, kept = _widened(rows, width), _widened(self._rows, width)
        count, span = len(rows), self._span
        first = min(span - self._filled, count) if self._filled else 0
        if first:
            kept[-1:] = _merged(kept[-1:], _folded(rows[:first]))
            self._filled = (self._filled + first) % span
        cut = first + (count - first) // span * span
        parts = [kept, _halved(rows[first:cut], span)]
        if cut < count:
            parts.append(_folded(rows[cut:]))
            self._filled = count - cut
        self._rows = np.concatenate(parts)
        self._lines += [int(lines[i]) for i in range(first, count, span)]
        self._when += [when(i) for i in range(first, count, span)]
        while len(self._rows) > MOST_WINDOWS:
            self._thin()

    def _sum(self, rows: FloatArray) -> None:
        """Count rows that may lack a number, or hold ones that int64 or float64 cannot add up."""
        weight, told = rows[:, WEIGHT], np.where(np.isnan(rows), 0.0, rows)
        known = told[:, (WEIGHT, DRAFTED, ACCEPTED)]
        whole = np.where(known < EXACT, np.floor(known), 0.0)
        self._parts += float((weight - whole[:, 0]).sum())
        # Column by column in one order: what did not rise in any window does not rise in the sum.
        reached = (weight[:, None] * told[:, SURVIVAL:]).sum(axis=0)
        self._tokens += float(weight @ told[:, TOKENS])
        new = whole.astype(np.int64).sum(axis=0).tolist()
        self._whole = [sum(pair) for pair in zip(self._whole, new, strict=True)]
        missing = reached.size - self._at_position.size
        self._at_position = np.pad(self._at_position, (0, max(missing, 0)))
        self._at_position[: reached.size] += reached

    def _thin(self) -> None:
        """Merge neighbours two by two; an odd one out is half full."""
        held, odd = self._filled or self._span, len(self._rows) % 2
        pairs = len(self._rows) - odd
        self._rows = np.concatenate((_halved(self._rows[:pairs], 2), self._rows[pairs:]))
        self._lines, self._when = self._lines[::2], self._when[::2]
        self._filled = (held if odd else self._span + held) % (2 * self._span)
        self._span *= 2

    @property
    def steps(self) -> float:
        """Steps (or weights) of all windows."""
        self._take()
        return self._whole[0] + self._parts

    @property
    def drafted(self) -> int:
        """Tokens drafted in all windows."""
        self._take()
        return self._whole[1]

    @property
    def accepted(self) -> int:
        """Drafted tokens accepted in all windows."""
        self._take()
        return self._whole[2]

    @property
    def tokens_per_step(self) -> float:
        """The weighted mean over windows."""
        return self._tokens / self.steps

    @property
    def survival(self) -> tuple[float, ...] | None:
        """Accepted at position i over all steps, or None where no position was counted."""
        steps = self.steps
        if not self._at_position.size or steps <= 0:
            return None
        return tuple(np.minimum(self._at_position / steps, 1.0).tolist())

    def counts(
        self, *, steps: bool = True, gamma: int | None = None, generated: int | None = None,
        passes: float | None = None,
    ) -> Counts:  # fmt: skip
        """The sums; without steps and rates where not all windows told them."""
        told, survival = (self.steps, self.survival) if steps and self.steps else (None, None)
        return Counts(
            told, self.drafted, self.accepted, survival, gamma,
            generated=generated, passes=passes,
        )  # fmt: skip

    def windows(self, fewest: int = 1) -> tuple[Window, ...]:
        """All windows, the unfinished one included; none where there are not `fewest`."""
        self._take()
        rows = zip(self._lines, self._when, self._rows.tolist(), strict=True)
        found = tuple(_window(line, when, row) for line, when, row in rows)
        return found if len(found) >= fewest else ()


def _window(line: int, when: str | None, row: list[float]) -> Window:
    steps, drafted, accepted = (
        None if math.isnan(row[i]) else round(row[i]) for i in (STEPS, DRAFTED, ACCEPTED)
    )
    gamma = 0 if math.isnan(row[POSITIONS]) else int(row[POSITIONS])
    tokens = None if math.isnan(row[TOKENS]) else row[TOKENS]
    survival = tuple(row[SURVIVAL : SURVIVAL + gamma]) or None
    return Window(line, when, steps, drafted, accepted, tokens, survival, row[WEIGHT])


# ── merging: counts add, rates average by weight, and what one does not tell neither does both ──


def _merged(first: FloatArray, second: FloatArray) -> FloatArray:
    """Rows of windows that were neighbours, pair by pair."""
    rows = first + second
    weight = rows[:, WEIGHT]
    share = np.divide(first[:, WEIGHT], weight, out=np.full(weight.size, 0.5), where=weight > 0)
    mean = first + (1.0 - share)[:, None] * (second - first)
    mean[first[:, POSITIONS] != second[:, POSITIONS], POSITIONS:] = np.nan
    rows[:, TOKENS:] = mean[:, TOKENS:]
    return rows


def _halved(rows: FloatArray, span: int) -> FloatArray:
    """Every `span` rows, a power of two, as one."""
    while span > 1:
        rows, span = _merged(rows[::2], rows[1::2]), span // 2
    return rows


def _folded(rows: FloatArray) -> FloatArray:
    """All rows as one."""
    while len(rows) > 1:
        pairs = len(rows) // 2 * 2
        rows = np.concatenate((_merged(rows[:pairs:2], rows[1:pairs:2]), rows[pairs:]))
    return rows


def _widened(rows: FloatArray, width: int) -> FloatArray:
    """`rows` with nan at the positions that it lacks; always a copy or of that width already."""
    missing = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=np.nan) if missing else rows


# ── requests: each is one window, and one value of the distribution ──────────────────────────


def survival_of(histogram: Sequence[float]) -> tuple[float, ...]:
    """s_i = Σ_{j≥i} h[j] / Σ h, for i = 1…g, from h[j] = steps that accepted j tokens."""
    reached = np.cumsum(np.asarray(histogram)[::-1])[::-1]
    return tuple((reached[1:] / max(reached[0], 1e-300)).tolist())


def falling_rates(steps: float | None, reached: Sequence[float]) -> tuple[float, ...] | None:
    """`reached` (steps that accepted the first i tokens) over `steps`; None where they rise."""
    chain = [steps or 0.0, *reached]
    if not steps or not reached or any(a < b for a, b in zip(chain, reached, strict=False)):
        return None
    return tuple(count / steps for count in reached)


class RequestSum:
    """Requests of one engine and shape: sums, distribution, and the reading they make.

    Where one of the requests lacks its step count, the sum has none; the same for histograms.
    """

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.tally = Tally()
        self.gammas: set[int] = set()
        self.told: dict[str, int | None] = dict.fromkeys(
            ("steps", "rejections", "generated", "passes"), 0
        )
        self.share = Spread("accepted_share")
        self._per_step = Spread("tokens_per_step")
        self._histograms = True

    def add(
        self, at: LogLine, *, drafted: int, accepted: int, steps: int | None = None,
        histogram: Sequence[float] | None = None, rejections: int | None = None,
        gamma: int | None = None, generated: int | None = None, passes: int | None = None,
    ) -> None:  # fmt: skip
        """One request; counts that contradict each other are noted and left out."""
        if accepted > drafted or (steps and drafted and not 0 < steps <= drafted):
            self.notes.add("a request whose counts contradict each other was left out", at)
            return
        if histogram is not None and not _fits(histogram, steps, accepted):
            self.notes.add("a histogram that does not match its counts was not used", at)
            histogram = None
        if drafted == 0:
            return
        if gamma is not None and len(self.gammas) < 64:
            self.gammas.add(gamma)
        self._histograms &= histogram is not None
        more = {"steps": steps, "rejections": rejections, "generated": generated, "passes": passes}
        self.told = {name: both(self.told[name], count) for name, count in more.items()}
        rates = survival_of(histogram) if histogram is not None else ()
        self.tally.add(
            at.line, steps=steps or 0, drafted=drafted, accepted=accepted, survival=rates
        )
        self.share.add(accepted / drafted)
        if steps:
            self._per_step.add(1.0 + accepted / steps)

    def readings(self, channel: Channel, gamma: int | None, facts: Facts) -> Iterator[Reading]:
        """The reading, or none where no request drafted."""
        tally, told, warnings, alpha = self.tally, self.told, [], None
        if not tally.drafted:
            return
        if gamma is None and len(self.gammas) > 1:
            warnings.append(f"requests differ in draft length: {sorted(self.gammas)}")
        if (rejections := told["rejections"]) is not None:
            trials, text = tally.accepted + rejections, "per-step record"
            alpha = binomial_alpha(tally.accepted, trials, "rejections counted", text)
        counts = tally.counts(
            steps=told["steps"] is not None,
            gamma=gamma if gamma is not None else max(self.gammas, default=None),
            generated=told["generated"], passes=told["passes"],
        )  # fmt: skip
        survival = counts.survival if self._histograms else None
        counts = replace(counts, survival=survival, histogram=True)
        spread = self._per_step if counts.steps else self.share
        extras = Extras(tally.windows(2), spread.requests(), facts=facts)
        yield make_reading(channel, counts, extras, warnings, alpha)


def both(total: int | None, more: int | None) -> int | None:
    """The sum of a count that every part has to tell; None where one did not."""
    return None if total is None or more is None else total + more


def _fits(histogram: Sequence[float], steps: int | None, accepted: int) -> bool:
    """Σ h = N and Σ j·h[j] = A."""
    if not 1 < len(histogram) <= MOST_POSITIONS:
        return False
    total = sum(index * count for index, count in enumerate(histogram))
    return total == accepted and (steps is None or sum(histogram) == steps)


# ── the reading ──────────────────────────────────────────────────────────────────────────────


def make_reading(
    channel: Channel,
    counts: Counts,
    extras: Extras = NO_EXTRAS,
    warnings: Sequence[str] = (),
    alpha: Alpha | None = None,
) -> Reading:
    """The Reading that these counts make; what they imply is derived here, for every engine.

    Passes give coverage = steps / passes and tokens per pass, 1 + accepted / passes. `alpha` is
    given where the engine counts single tokens.
    """
    notes = list(warnings)
    counts = _possible(counts, notes)
    steps, drafted, accepted = counts.steps, counts.drafted, counts.accepted
    gamma, passes = counts.gamma, counts.passes
    alpha = alpha or stopping_alpha(counts, channel.shape) or estimate_alpha(counts, extras.windows)
    if channel.shape == "tree":
        alpha = Alpha()
        notes.append(
            "a token tree: accepted / drafted is a share of tree nodes, and no α follows from it; "
            "use tokens per step or the histogram"
        )
    elif alpha.value is None and alpha.interval is not None:
        low, high = alpha.interval
        notes.append(f"α is unknown between {low:.2f} and {high:.2f}: drafts stop early")
    elif alpha.value is None and drafted and accepted is not None and gamma is None:
        notes.append(
            f"the draft length is not printed here: α is at least the accepted share "
            f"{accepted / drafted:.3f}; give gamma to get α"
        )
    elif steps is None and drafted and alpha.route in ("share", "share of mean draft"):
        notes.append(f"steps are not printed: α takes every draft as {gamma} tokens long")
    notes += signs_of(counts)
    bounded = channel.shape == "chain" and alpha.value is None and alpha.interval is not None
    c = None
    if extras.draft_share is not None and gamma and 0.0 <= extras.draft_share < 1.0:
        c = extras.draft_share / (1.0 - extras.draft_share) / gamma
        notes.append(C_FROM_SHARE)
    facts = extras.facts or {}
    told = {
        field.name: getattr(part, field.name)
        for part in (channel, counts, extras)
        for field in fields(part)
        if field.name not in ("passes", "histogram")
    }
    derived = {
        "shape": "stops" if bounded else channel.shape_beside(counts),
        "steps": None if steps is None else round(steps),
        "tokens_per_pass": 1.0 + accepted / passes if accepted is not None and passes else None,
        "survival": tuple(counts.survival) if counts.survival else None,
        "conditional": conditional(counts.survival) if counts.survival else None,
        "drafted_per_step": drafted / steps if drafted is not None and steps else None,
        "coverage": min(steps / passes, 1.0) if steps is not None and passes else None,
        "windows": tuple(extras.windows),
        "service": extras.service if extras.service.told else of_facts(facts, counts.generated),
        "facts": tuple((k, v) for k, v in facts.items() if v is not None),
    }
    return Reading(
        **told | derived,
        alpha=alpha.value,
        alpha_route=alpha.route,
        alpha_basis=alpha.basis,
        alpha_interval=alpha.interval,
        interval_basis=alpha.interval_basis,
        c=c,
        warnings=tuple(dict.fromkeys(notes)),
    )


def _possible(counts: Counts, notes: list[str]) -> Counts:
    """The counts with what they imply, and without what cannot be beside the rest."""
    steps, drafted, accepted = counts.steps, counts.drafted, counts.accepted
    tokens, gamma, passes = counts.tokens_per_step, counts.gamma, counts.passes
    if drafted is not None and (accepted or 0) > drafted:
        notes.append(f"{accepted} tokens accepted of {drafted} drafted cannot be: drafted not used")
        drafted = None
    if steps and accepted is not None:
        tokens = 1.0 + accepted / steps
    if counts.survival and gamma is None:
        gamma = len(counts.survival)
    if tokens is not None and tokens < 1.0:
        notes.append(f"{tokens:g} tokens per step cannot be (at least 1): not used")
        tokens = None
    if gamma is not None and gamma > LONGEST_DRAFT:
        notes.append(f"a draft length of {gamma} is not one (at most {LONGEST_DRAFT}): not used")
        gamma = None
    elif gamma is not None and tokens is not None and tokens > gamma + 1.005 and gamma > 0:
        notes.append(
            f"{tokens:.3f} tokens per step are more than gamma + 1 with gamma {gamma}: "
            "that draft length is not used"
        )
        gamma = None
    # A little more steps than passes is rounding, more is another time.
    if passes is not None and (passes <= 0 or (steps is not None and steps > 1.05 * passes)):
        notes.append(
            "the tokens generated do not cover the accepted tokens and their steps: they are "
            "not of the same time, so coverage is left out"
        )
        passes = None
    return replace(
        counts, drafted=drafted, tokens_per_step=tokens, passes=passes,
        gamma=gamma if gamma and gamma > 0 else None,
    )  # fmt: skip
