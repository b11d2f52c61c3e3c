"""Seconds of target and draft forwards, and from them c and v with intervals; and seconds of
drafting and verifying as the generation loop really does them, for every γ.

Forwards are timed in the order in which the loop runs them: a stretch of plain steps, then one of
speculative steps, γ drafts before each verification. So a forward finds in the caches of the
processor what it finds there in the loop. Stretches of all γ take turns, so that a machine that
slows down slows all of them, and c and v are medians of ratios of neighbours. No draw is in them.

The loop is timed along a text already written, which is walked with each γ in turn: draft, verify,
then move on by the drafted tokens that the text confirms and one more, as the replay does. Plain
decoding walks it before each γ, so that a slow spell of the machine hits both, and so that what all
costs are divided by is known best. v and d are forwards over a plain forward; what a step spends
beyond them (draws, look-ups, rejection) is in the whole step alone. Each γ has a stretch of its
own: a plain step right after a wide one is slower than among its like.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import bdtr

from specmath import models
from specmath.checks import FloatArray, InputError, real, whole
from specmath.estimate import Basis, Estimate
from specmath.measure.drafts import Draft
from specmath.measure.language_model import LanguageModel, Sampling
from specmath.measure.memory import out_of_memory
from specmath.measure.speculate import generate

__all__ = [
    "LoopTimes", "StepTimes", "Stretch", "TimedForward", "Walk", "arithmetic_ratio", "draft_cost",
    "median_interval", "time_loop", "time_steps", "verify_cost",
]  # fmt: skip

Role = Literal["target", "draft"]
Progress = Callable[[float, str], None]
Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class TimedForward:
    """One shape of a model's forward; `seconds` holds one entry a round."""

    model: Role
    batch: int
    tokens: int
    context: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> Estimate:
        """Of the rounds, with its interval."""
        return median_interval(np.array(self.seconds))


@dataclass(frozen=True)
class Stretch:
    """Seconds of forwards that stood next to each other, one entry a step: a plain one, and of a
    speculative step at γ each draft (the mean of its γ; empty without a draft model) and the
    verification."""

    batch: int
    context: int
    gamma: int
    plain: FloatArray
    draft: FloatArray
    verify: FloatArray


@dataclass(frozen=True)
class StepTimes:
    """All timed shapes; `left_out` are the (batch, context) that ran out of memory."""

    stretches: tuple[Stretch, ...]
    left_out: tuple[tuple[int, int], ...] = ()

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(batch, context) in the order in which they were timed."""
        return list(dict.fromkeys((each.batch, each.context) for each in self.stretches))

    @property
    def forwards(self) -> list[TimedForward]:
        """Each shape of forward once, with all its seconds."""
        found: list[TimedForward] = []
        for batch, context in self.shapes:
            at = [s for s in self.stretches if (s.batch, s.context) == (batch, context)]
            parts: list[tuple[Role, int, list[FloatArray]]] = [
                ("target", 1, [s.plain for s in at]),
                *(("target", s.gamma + 1, [s.verify]) for s in at),
                ("draft", 1, [s.draft for s in at]),
            ]
            for role, tokens, seconds in parts:
                if all_of := tuple(np.concatenate(seconds).tolist()):
                    found.append(TimedForward(role, batch, tokens, context, all_of))
        return found

    def find(self, model: str, tokens: int, batch: int, context: int) -> TimedForward:
        """One shape; InputError where it was not timed."""
        shape = (model, tokens, batch, context)
        for timed in self.forwards:
            if (timed.model, timed.tokens, timed.batch, timed.context) == shape:
                return timed
        at = f"batch {batch}, context {context}"
        raise InputError(f"{model} forward of {tokens} tokens at {at} was not timed")


def median_interval(values: FloatArray, level: float = 0.95) -> Estimate:
    """Median with the distribution-free interval from order statistics (binomial, p = 1/2)."""
    ordered = np.sort(real("values", values, -np.inf))
    if ordered.size == 0:
        raise InputError("values must hold at least one number, got none")
    # The k-th smallest and k-th largest enclose the median with probability 1 − 2 P(X < k). Fewer
    # than 6 values reach no 95%: their whole range is given.
    below = bdtr(np.arange(ordered.size + 1), ordered.size, 0.5)
    k = max(1, int(np.searchsorted(below, (1 - level) / 2)))
    ends = float(ordered[k - 1]), float(ordered[-k])
    return Estimate.between(float(np.median(ordered)), *ends, Basis("measured"))


IN_A_ROW = 5
"""Steps of a stretch that count; one before them warms up."""


def time_steps(
    target: LanguageModel, draft: LanguageModel | None, *, gammas: Sequence[int],
    batches: Sequence[int] = (1,), contexts: Sequence[int] = (128,), rounds: int = 30,
    now: Callable[[], float] = time.perf_counter, progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> StepTimes:  # fmt: skip
    """Time `rounds` steps of each γ ≥ 1 (1 where there is none), over batch and context.

    `now` is the clock in seconds. InputError where a context does not fit the model. Running out
    of memory ends that shape, and once `cancelled` the shapes so far come back, the one begun with
    the rounds so far.
    """
    sizes = sorted({int(g) for g in whole("gamma", list(gammas), 0) if g}) or [1]
    rounds = int(whole("rounds", rounds, 1))
    for context in whole("context", list(contexts), 1):
        for model in (target, draft) if draft is not None else (target,):
            if context + sizes[-1] + 1 > model.context_limit:
                raise InputError(
                    f"context must leave room for {sizes[-1] + 1} tokens within the "
                    f"{model.context_limit} of {model.name}, got {context}"
                )
    stretches: list[Stretch] = []
    left_out: list[tuple[int, int]] = []
    shapes = [(int(b), int(c)) for b in whole("batch", list(batches), 1) for c in contexts]
    for done, (batch, context) in enumerate(shapes, start=1):
        try:
            stretches += _one_shape(target, draft, batch, context, sizes, rounds, now, cancelled)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            left_out.append((batch, context))
        if progress:
            progress(done / len(shapes), f"timed batch {batch}, context {context}")
        if cancelled and cancelled():
            break
    return StepTimes(tuple(stretches), tuple(left_out))


def _one_shape(
    target: LanguageModel, draft: LanguageModel | None, batch: int, context: int,
    gammas: Sequence[int], rounds: int, now: Callable[[], float], cancelled: Cancelled | None,
) -> list[Stretch]:  # fmt: skip
    plain = _forward(target, batch, context, now)
    drafting = _forward(draft, batch, context, now) if draft is not None else None
    spent: dict[int, list[list[FloatArray]]] = {gamma: [] for gamma in gammas}
    left = rounds
    while left > 0:
        count = min(IN_A_ROW, left)
        for gamma in gammas:
            stretch = [np.array([plain(1) for _ in range(count + 1)])[1:]]
            drafts, verified = [], []
            for _ in range(count + 1):
                drafts.append([drafting(1) for _ in range(gamma)] if drafting else [])
                verified.append(plain(gamma + 1))
            each = np.mean(drafts[1:], axis=1) if drafting else np.zeros(0)
            spent[gamma].append([*stretch, each, np.array(verified[1:])])
        left -= count
        if cancelled and cancelled():
            break
    return [
        Stretch(batch, context, gamma, *(np.concatenate(part) for part in zip(*own, strict=True)))
        for gamma, own in spent.items()
    ]


def _forward(
    model: LanguageModel, batch: int, context: int, now: Callable[[], float]
) -> Callable[[int], float]:
    """Seconds of a forward of so many tokens after `context`; one cache serves every number."""
    cache = model.filled_cache(batch, context)
    rng = np.random.default_rng(0)

    def seconds(tokens: int) -> float:
        ids = rng.integers(0, model.vocabulary, (batch, tokens))
        model.finish()
        begun = now()
        model.compute(ids, cache)
        model.finish()
        spent = now() - begun
        cache.truncate(context)
        return spent

    return seconds


def verify_cost(
    times: StepTimes, gamma: int, batch: int = 1, context: int | None = None
) -> Estimate:
    """v(γ, B): a target forward of γ+1 tokens over one of 1, medians of ratios of neighbours."""
    for each in _at(times, batch, context):
        if each.gamma == int(gamma):
            return median_interval(each.verify / each.plain)
    raise InputError(f"gamma {gamma} was not timed")


def draft_cost(times: StepTimes, batch: int = 1, context: int | None = None) -> Estimate:
    """c(B): a draft forward of 1 token over a target forward of 1; 0 without a draft model."""
    ratios = [each.draft / each.plain for each in _at(times, batch, context) if each.draft.size]
    return median_interval(np.concatenate(ratios)) if ratios else Estimate.between(0.0, 0.0, 0.0)


def _at(times: StepTimes, batch: int, context: int | None) -> list[Stretch]:
    if not times.stretches:
        raise InputError("nothing was timed")
    at = (int(batch), times.stretches[0].context if context is None else int(context))
    found = [each for each in times.stretches if (each.batch, each.context) == at]
    if not found:
        raise InputError(f"batch {at[0]}, context {at[1]} was not timed")
    return found


def arithmetic_ratio(target: LanguageModel, draft: LanguageModel | None) -> float | None:
    """ĉ from the shapes: FLOPs a token of the draft over the target's; None if not modelled."""
    if draft is None:
        return 0.0
    try:
        shapes = [models.from_config(dict(model.config)) for model in (draft, target)]
    except InputError:
        return None
    return shapes[0].flops_per_token / shapes[1].flops_per_token


# ── the loop itself ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Walk:
    """Seconds [steps, (whole step, forwards of the draft, forward of the target)] of plain decoding
    along a text, and of speculation at γ right after it."""

    gamma: int
    plain: FloatArray
    speculative: FloatArray


WHOLE, DRAFT, VERIFY = range(3)
PARTS = 3
"""Parts of a walk that are taken as independent of each other."""


@dataclass(frozen=True)
class LoopTimes:
    """Walks along texts, with each γ several."""

    walks: tuple[Walk, ...]

    def _mean(self, gamma: int, what: int) -> float:
        own = [w for w in self.walks if gamma in (0, w.gamma)]
        steps = np.concatenate([w.speculative if gamma else w.plain for w in own])
        return _typical(steps[:, what])

    def verify_cost(self, gamma: int) -> float:
        """v(γ): the forward of a verification over that of a plain step, means over the steps."""
        return self._mean(gamma, VERIFY) / self._mean(0, VERIFY)

    def draft_cost(self, gamma: int) -> float:
        """d(γ): all forwards of the draft in a step over the forward of a plain one."""
        return self._mean(gamma, DRAFT) / self._mean(0, VERIFY)

    def step_cost(self, gamma: int) -> float:
        """s(γ): a whole step, draws and look-ups in it, over a whole plain step."""
        return self._mean(gamma, WHOLE) / self._mean(0, WHOLE)

    def step_deviation(self, gamma: int) -> tuple[float, int]:
        """Standard error of ln s(γ), and the parts of walks, each against the plain steps beside
        it, that it was seen in; infinite for fewer than two."""
        logs = [
            np.log(_typical(ours[:, WHOLE]) / _typical(plain[:, WHOLE]))
            for walk in self.walks if walk.gamma == gamma
            for ours, plain in zip(np.array_split(walk.speculative, PARTS),
                                   np.array_split(walk.plain, PARTS), strict=True)
            if len(ours) and len(plain)
        ]  # fmt: skip
        if len(logs) < 2:
            return np.inf, len(logs)
        return float(np.std(logs, ddof=1) / len(logs) ** 0.5), len(logs)


def _typical(seconds: FloatArray) -> float:
    """Mean, with anything beyond four medians cut to that: other programs' time slices."""
    return float(np.minimum(seconds, 4.0 * np.median(seconds)).mean())


def time_loop(
    target: LanguageModel, draft: Draft, texts: Sequence[tuple[Sequence[int], Sequence[int]]], *,
    gammas: Sequence[int], sampling: Sampling, places: int,
    now: Callable[[], float] = time.perf_counter, progress: Callable[[float], None] | None = None,
) -> LoopTimes | None:  # fmt: skip
    """Walk (prompt, output) texts until about `places` steps of each γ were timed.

    Steps are shared among the texts, the first of each walk warms up and is left out. `now` is
    the clock in seconds; `progress` hears the share of the work that each part was. None where the
    texts are too short for two steps of each γ. InputError without texts or without γ ≥ 1.
    """
    gammas = sorted({int(g) for g in whole("gamma", list(gammas), 1)})
    if not texts or not gammas:
        raise InputError("timing the loop needs at least one text and one gamma")
    each = -(-int(whole("places", places, 1)) // len(texts))

    def walk(gamma: int, prompt: Sequence[int], output: Sequence[int]) -> FloatArray:
        return generate(
            target, draft, prompt, gamma=gamma, limit=len(output), sampling=sampling, parted=True,
            rng=np.random.default_rng(0), now=now, along=output, steps=each + 1,
        ).spans[1:]  # fmt: skip

    walks: list[Walk] = []
    for text in texts:
        for gamma in gammas:
            made = Walk(gamma, walk(0, *text), walk(gamma, *text))
            walks += [made] if len(made.plain) and len(made.speculative) else []
            if progress:
                progress(1 / len(texts) / len(gammas))
    return LoopTimes(tuple(walks)) if {w.gamma for w in walks} == set(gammas) else None
