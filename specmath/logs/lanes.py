"""Several servers in one log: read lane by lane, pooled only where they agree.

A pooled rate of three engines of which one is broken is no engine's, and hides the broken one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple
from typing import Generic, TypeVar

from specmath.estimate import step_variance
from specmath.logs.reading import Lane, Reading

__all__ = ["Lanes", "agree", "shared", "whole_side", "with_pooled"]

MOST_LANES = 64
NEAR = 0.15
"""Lanes within this share of the others' accepted tokens a step are alike whatever the noise."""
DEVIATIONS = 4.0
"""Beyond it, and beyond so many standard errors, they are not."""

State = TypeVar("State")


class Lanes(Generic[State]):
    """A parser's state for all lines, and one a lane from the line on where a second one prints.

    A lane is known by what its lines name; a line that names less, or more, of a lane belongs to
    it as long as only one fits.
    """

    def __init__(self, make: Callable[[], State], whole: State | None = None) -> None:
        self.whole = make() if whole is None else whole
        self._make = make
        self._each: dict[Lane, State] = {}

    def of(self, lane: Lane) -> tuple[State, ...]:
        """The states that take what this lane printed; above MOST_LANES only the whole one."""
        fits = [known for known in self._each if _fits(known, lane)]
        if not fits:
            if len(self._each) == 1:
                (first,) = self._each
                self._each[first] = copy.deepcopy(self.whole)
            if len(self._each) < MOST_LANES:
                self._each[lane] = self._make()
            fits = [lane]
        if len(fits) > 1 or fits[0] not in self._each:
            return (self.whole,)
        if (more := _united(fits[0], lane)) != fits[0]:
            self._each = {more if k == fits[0] else k: state for k, state in self._each.items()}
        return (self.whole, self._each[more]) if self.several else (self.whole,)

    @property
    def several(self) -> bool:
        """Whether more than one lane has printed."""
        return len(self._each) > 1

    def each(self) -> Iterator[tuple[Lane | None, State]]:
        """Every lane with its state, in order of their first lines; of one lane the whole."""
        if self.several:
            yield from self._each.items()
        else:
            yield next(iter(self._each), None), self.whole


def _fits(one: Lane, other: Lane) -> bool:
    pairs = zip(astuple(one), astuple(other), strict=True)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _united(one: Lane, other: Lane) -> Lane:
    pairs = zip(astuple(one), astuple(other), strict=True)
    return Lane(*(first if first is not None else second for first, second in pairs))


def with_pooled(each: Sequence[Reading], pooled: Sequence[Reading]) -> Iterator[Reading]:
    """The readings of lanes, then of `pooled` those whose lanes agree."""
    yield from each
    for one in pooled:
        same = [r for r in each if r.format == one.format]
        if len(same) > 1 and agree(same):
            yield one


def whole_side(readings: Sequence[Reading]) -> tuple[list[Reading], list[Reading]]:
    """(what stands for all of these readings, the lanes that disagree): of lanes that agree their
    pooled reading; where some disagree they stand in the first list one by one as well."""
    whole: list[Reading] = []
    apart: list[Reading] = []
    for key in dict.fromkeys((r.engine, r.format) for r in readings):
        same = [r for r in readings if (r.engine, r.format) == key]
        lanes = [r for r in same if r.lane is not None]
        pooled = [r for r in same if r.lane is None]
        whole += pooled or lanes
        apart += lanes if len(lanes) > 1 and not pooled else []
    return whole, apart


def shared(lanes: Sequence[Lane]) -> Lane:
    """What these lanes have in common."""
    names = [asdict(lane) for lane in lanes]
    return Lane(**{k: v for k, v in names[0].items() if all(n[k] == v for n in names)})


def agree(readings: Sequence[Reading]) -> bool:
    """Whether lanes may be pooled: one model, and each accepts as many tokens a step as the others.

    A lane differs where its mean lies off the mean of the others by more than NEAR of it and more
    than DEVIATIONS standard errors (steps taken as independent; where they are not told, by the
    share alone).
    """
    if len({r.lane.model for r in readings if r.lane and r.lane.model}) > 1:
        return False
    told = [r for r in readings if r.tokens_per_step is not None]
    return not any(_apart(one, [r for r in told if r is not one]) for one in told)


def _apart(one: Reading, others: Sequence[Reading]) -> bool:
    if not others:
        return False
    weights = [float(r.steps or 1) for r in others]
    rest = sum(w * _accepted(r) for w, r in zip(weights, others, strict=True)) / sum(weights)
    off = abs(_accepted(one) - rest)
    if off <= NEAR * rest:
        return False
    steps = one.steps, sum(r.steps or 0 for r in others)
    if None in steps or 0 in steps:
        return True
    spread = max(map(_variance, (one, *others)))
    error = math.sqrt(spread * sum(1.0 / n for n in steps if n))
    return off > DEVIATIONS * error


def _accepted(reading: Reading) -> float:
    return (reading.tokens_per_step or 1.0) - 1.0


def _variance(reading: Reading) -> float:
    """Of the accepted tokens of one step: from the rates, else the most that the mean allows."""
    if reading.survival:
        return step_variance(reading.survival)
    mean, most = _accepted(reading), float(reading.gamma or 8)
    return max(mean * (most - mean), 0.25)
