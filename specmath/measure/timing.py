"""Seconds of target and draft forwards, and from them c and v with intervals.

A timed call is one forward with the draw of a token from each of its rows, on the host: a plain
step as the generation loop runs it. Rounds go over all shapes in turn, so that a machine that
slows down slows all of them, and c and v are medians of ratios within a round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from specmath import models
from specmath.checks import FloatArray, InputError, real, whole
from specmath.measure.engine import LanguageModel
from specmath.measure.memory import out_of_memory, room
from specmath.measure.sampling import Sampling, draw

__all__ = [
    "Ratio",
    "StepTimes",
    "TimedForward",
    "arithmetic_ratio",
    "calibration_rows",
    "draft_cost",
    "median_interval",
    "time_steps",
    "verify_cost",
]

Progress = Callable[[float, str], None]
Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class Ratio:
    """A median with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TimedForward:
    """One shape: `model` is "target" or "draft"; `seconds` holds one entry a round."""

    model: str
    batch: int
    tokens: int
    context: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> Ratio:
        return median_interval(np.array(self.seconds))


@dataclass(frozen=True)
class StepTimes:
    """All timed shapes; `complete` is False where timing was cancelled or ran out of memory."""

    forwards: tuple[TimedForward, ...]
    complete: bool = True
    notes: tuple[str, ...] = ()

    def find(self, model: str, batch: int, tokens: int, context: int) -> TimedForward:
        for timed in self.forwards:
            if (timed.model, timed.batch, timed.tokens, timed.context) == (
                model, batch, tokens, context,
            ):  # fmt: skip
                return timed
        raise InputError(
            f"{model} forward of {tokens} tokens at batch {batch}, context {context} was not timed"
        )


def median_interval(values: FloatArray, level: float = 0.95) -> Ratio:
    """Median with the distribution-free interval from order statistics (binomial, p = 1/2)."""
    ordered = np.sort(real("values", values, -np.inf))
    if ordered.size == 0:
        raise InputError("values must hold at least one number, got none")
    # The k-th smallest and k-th largest enclose the median with probability 1 − 2 P(X < k). Fewer
    # than 6 values reach no 95%: their whole range is given.
    k = max(1, int(binom.ppf((1 - level) / 2, ordered.size, 0.5)))
    return Ratio(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[-k]))


def time_steps(
    target: LanguageModel,
    draft: LanguageModel | None,
    *,
    gammas: Sequence[int],
    batches: Sequence[int] = (1,),
    contexts: Sequence[int] = (128,),
    rounds: int = 30,
    warmup: int = 3,
    sampling: Sampling | None = None,
    now: Callable[[], float] | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> StepTimes:
    """Time the target for 1 and for γ+1 tokens and the draft for 1, over batch and context.

    `sampling` adds the draw of a token from each row (None: the forward alone). `now` is the clock
    in seconds (None: the model's own way). InputError where a context does not fit the model.
    Running out of memory ends that shape and is noted.
    """
    sizes = sorted({1, *(int(g) + 1 for g in whole("gamma", list(gammas), 0))})
    rounds = int(whole("rounds", rounds, 1))
    for context in (int(n) for n in whole("context", list(contexts), 1)):
        for model in (m for m in (target, draft) if m is not None):
            if context + sizes[-1] > model.context_limit:
                raise InputError(
                    f"context must leave room for {sizes[-1]} tokens within the "
                    f"{model.context_limit} of {model.name}, got {context}"
                )
    forwards: list[TimedForward] = []
    notes: list[str] = []
    shapes = [(int(b), int(c)) for b in whole("batch", list(batches), 1) for c in contexts]
    for done, (batch, context) in enumerate(shapes):
        try:
            forwards += _one_shape(
                target, draft, batch, context, sizes, rounds, warmup, sampling, now, cancelled
            )
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            notes.append(
                f"batch {batch}, context {context} ran out of memory and was left out; "
                f"{room(target)}"
            )
        if progress:
            progress((done + 1) / len(shapes), f"timed batch {batch}, context {context}")
        if cancelled and cancelled():
            return StepTimes(tuple(forwards), False, (*notes, "Timing was stopped half-way."))
    return StepTimes(tuple(forwards), not notes, tuple(notes))


def _one_shape(
    target: LanguageModel, draft: LanguageModel | None, batch: int, context: int,
    sizes: Sequence[int], rounds: int, warmup: int, sampling: Sampling | None,
    now: Callable[[], float] | None, cancelled: Cancelled | None,
) -> list[TimedForward]:  # fmt: skip
    calls = [("target", size, _call(target, batch, size, context, sampling, now)) for size in sizes]
    if draft is not None:
        calls.append(("draft", 1, _call(draft, batch, 1, context, sampling, now)))
    seconds: list[list[float]] = [[] for _ in calls]
    for number in range(warmup + rounds):
        for own, (_, _, call) in zip(seconds, calls, strict=True):
            spent = call()
            if number >= warmup:
                own.append(spent)
        if cancelled and number > warmup and cancelled():
            break
    return [
        TimedForward(model, batch, size, context, tuple(own))
        for own, (model, size, _) in zip(seconds, calls, strict=True)
    ]


def _call(
    model: LanguageModel,
    batch: int,
    size: int,
    context: int,
    sampling: Sampling | None,
    now: Callable[[], float] | None,
) -> Callable[[], float]:
    cache = model.filled_cache(batch, context)
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, model.vocabulary, (batch, size))

    def work() -> None:
        if sampling is None:
            model.compute(tokens, cache)
            return
        logits = model.forward(tokens, cache)
        for row in logits.reshape(-1, logits.shape[-1]):
            if sampling.greedy:
                row.argmax()
            else:
                draw(sampling.probabilities(row), rng)

    def call() -> float:
        if now is None:
            spent = model.seconds(work)
        else:
            begun = now()
            work()
            spent = now() - begun
        cache.truncate(context)
        return spent

    return call


def verify_cost(times: StepTimes, gamma: int, batch: int = 1, context: int | None = None) -> Ratio:
    """v(γ, B): a target forward of γ+1 tokens over one of 1, medians of ratios within rounds."""
    context = _context(times, context)
    one = times.find("target", batch, 1, context)
    return _ratio(times.find("target", batch, int(gamma) + 1, context), one)


def draft_cost(times: StepTimes, batch: int = 1, context: int | None = None) -> Ratio:
    """c(B): a draft forward of 1 token over a target forward of 1."""
    context = _context(times, context)
    one = times.find("target", batch, 1, context)
    return _ratio(times.find("draft", batch, 1, context), one)


def _context(times: StepTimes, context: int | None) -> int:
    if not times.forwards:
        raise InputError("nothing was timed")
    return times.forwards[0].context if context is None else int(context)


def _ratio(over: TimedForward, under: TimedForward) -> Ratio:
    return median_interval(np.array(over.seconds) / np.array(under.seconds))


def arithmetic_ratio(target: LanguageModel, draft: LanguageModel | None) -> float | None:
    """ĉ from the shapes: FLOPs a token of the draft over the target's; None if not modelled."""
    if draft is None:
        return 0.0
    try:
        shapes = [models.from_config(dict(model.config)) for model in (draft, target)]
    except InputError:
        return None
    return shapes[0].flops_per_token / shapes[1].flops_per_token


def calibration_rows(
    times: StepTimes, target: LanguageModel, gpu: str, dtype: str = "bf16"
) -> list[dict[str, Any]]:
    """Rows for `specmath.steptime.calibration.calibrate`: the target's medians on this GPU."""
    model = models.from_config(dict(target.config), name=target.name)
    return [
        {
            "model": model,
            "gpu": gpu,
            "batch": timed.batch,
            "tokens_per_seq": timed.tokens,
            "context": timed.context,
            "seconds": timed.median.value,
            "dtype": dtype,
        }
        for timed in times.forwards
        if timed.model == "target"
    ]
