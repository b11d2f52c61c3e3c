"""A whole measurement: time, generate, replay, run, compare. Stopped, it keeps what it has."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import numpy as np

from specmath.checks import InputError
from specmath.measure.clock import WALL, Clock, steady
from specmath.measure.compare import (
    ALL,
    acceptance_rows,
    comparison_rows,
    costs_of,
    segments_of,
    timing_rows,
)
from specmath.measure.details import run_rows
from specmath.measure.drafts import NgramDraft
from specmath.measure.looptime import LoopTimes, merged, time_loop
from specmath.measure.machine import busy, describe
from specmath.measure.memory import out_of_memory, room
from specmath.measure.pairs import Pair
from specmath.measure.plan import Plan
from specmath.measure.prompts import Prompt
from specmath.measure.report import PairInfo, Report, Settings
from specmath.measure.sampling import Sampling
from specmath.measure.score import check_written_by, replay_of
from specmath.measure.selfcheck import self_check
from specmath.measure.speculate import Generation, check_prompt, generate
from specmath.measure.texts import Done, Texts
from specmath.measure.timing import StepTimes, time_steps
from specmath.replay import ReplayAcceptance

__all__ = ["measure"]

Progress = Callable[[float, str], None]
Cancelled = Callable[[], bool]

TIMED_TEXTS = 3
"""Texts of a segment on which the loop's own costs are timed."""


class _Stopped(Exception):
    """The user asked to stop."""


def measure(
    pair: Pair,
    plan: Plan,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Report:
    """Measure a pair by a plan.

    progress(share, what): called after each part with the share of the work done, 0 to 1.
    cancelled(): asked between parts; once it is true the report so far comes back, marked partial.
    A KeyboardInterrupt and running out of memory end in the same way. InputError for prompts that
    do not fit the context, before anything is run.
    """
    begun = time.perf_counter()
    encoded = [pair.tokenizer.encode(prompt.text) for prompt in plan.prompts]
    for number, tokens in enumerate(encoded, start=1):
        try:
            check_prompt(pair.target, tokens, plan.output_tokens + max(plan.gammas))
        except InputError as error:
            raise InputError(f"prompt {number}: {error}") from error
    with steady(pair.target) as clock:
        work = _Work(pair, plan, encoded, clock, progress or (lambda share, what: None), cancelled)
        return work.report(_reason_to_stop(work), time.perf_counter() - begun)


def _reason_to_stop(work: _Work) -> str:
    """Do all the work; what stopped it half-way, "" where nothing did."""
    reason = ""
    try:
        work.all()
    except _Stopped:
        reason = "stopped half-way at the user's request"
    except KeyboardInterrupt:
        reason = "interrupted half-way"
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        reason = f"ran out of memory half-way; {room(work.pair.target)}, or fewer output tokens"
    return reason


class _Work:
    def __init__(
        self, pair: Pair, plan: Plan, encoded: list[list[int]], clock: Clock, progress: Progress,
        cancelled: Cancelled | None,
    ) -> None:  # fmt: skip
        self.pair, self.plan, self.encoded, self.clock = pair, plan, encoded, clock
        self.progress, self.cancelled = progress, cancelled
        self.times: StepTimes | None = None
        self.done: list[Done] = []
        self.busy = busy(clock)
        self.timing = max(1, plan.units // 20)
        self.count, self.total = 0.0, self.timing + 2 * plan.units

    def all(self) -> None:
        gammas = sorted({g for g in self.plan.gammas if g > 0})
        sampling = Sampling(self.plan.temperatures[-1], self.plan.top_p)
        self.times = time_steps(
            self.pair.target, self.pair.draft_model, gammas=gammas, batches=self.plan.batches,
            contexts=self.plan.contexts, rounds=self.plan.timing_rounds, sampling=sampling,
            now=None if self.clock is WALL else self.clock.now, cancelled=self.cancelled,
        )  # fmt: skip
        self._advance(self.timing, "timed target and draft")
        for temperature in self.plan.temperatures:
            self._temperature(Sampling(temperature, self.plan.top_p))

    def _advance(self, units: float, what: str) -> None:
        self._tell(units, what)
        if self.cancelled and self.cancelled():
            raise _Stopped

    def _tell(self, units: float, what: str) -> None:
        self.count += units
        self.progress(min(1.0, self.count / self.total), what)

    def _part(self, units: float, what: str, share: float) -> None:
        self._tell(units * share, what)

    def _temperature(self, sampling: Sampling) -> None:
        """Texts, then their replay; what was finished before a stop is replayed as well."""
        texts = Texts(sampling, runs={gamma: [] for gamma in self.plan.run_gammas})
        try:
            for number, prompt in enumerate(self.plan.prompts):
                for sample in range(self.plan.samples_at(sampling.temperature)):
                    self._prompt(texts, number, sample, prompt)
        finally:
            if texts.outputs:
                self._replay(texts)

    def _prompt(self, texts: Texts, number: int, sample: int, prompt: Prompt) -> None:
        """Plain and every γ one after the other, so that a slow spell of the machine hits all."""
        made = [
            self._generate(texts, number, sample, gamma) for gamma in (0, *self.plan.run_gammas)
        ]
        output = made[0].tokens
        if prompt.response is not None:
            output = self._response(number, prompt.response)
        texts.segments.append(prompt.segment)
        texts.groups.append(number)
        texts.prompts.append(self.encoded[number])
        texts.plain.append(made[0])
        texts.outputs.append(output)
        for gamma, run in zip(self.plan.run_gammas, made[1:], strict=True):
            texts.runs[gamma].append(run)

    def _generate(self, texts: Texts, number: int, sample: int, gamma: int) -> Generation:
        made = generate(
            self.pair.target, self.pair.draft, self.encoded[number], gamma=gamma,
            limit=self.plan.output_tokens, sampling=texts.sampling,
            rng=np.random.default_rng([self.plan.seed, number, sample, gamma]),
            stop_ids=self.pair.tokenizer.stop_ids, now=self.clock.now,
        )  # fmt: skip
        self._advance(1, f"{texts.sampling}: prompt {number + 1} of {len(self.plan.prompts)}")
        return made

    def _response(self, number: int, response: str) -> list[int]:
        """The user's own response, as far as the context reaches."""
        room = self.pair.target.context_limit - len(self.encoded[number])
        return self.pair.tokenizer.encode(response)[:room]

    def _replay(self, texts: Texts) -> None:
        most = max(1, *self.plan.gammas)
        # Scoring and timing the steps took about as long as generating, on the built-in pair.
        each = len(texts.outputs) / 4
        if any(prompt.response for prompt in self.plan.prompts):
            check_written_by(self.pair.target, texts.pairs(), texts.sampling)

        def of(gamma: int | None) -> ReplayAcceptance:
            pairs = texts.pairs(gamma)
            found = replay_of(self.pair.target, self.pair.draft, pairs, texts.sampling, most)
            self._tell(each, f"{texts.sampling}: scoring what was generated")
            return found

        own = {gamma: of(gamma) for gamma in texts.runs}
        loops: dict[str, LoopTimes] = {}
        self.done.append(Done(texts, of(None), own, loops))
        self._time_loops(texts, loops)  # last: an interruption here keeps the acceptance

    def _time_loops(self, texts: Texts, found: dict[str, LoopTimes]) -> None:
        """The loop's own costs in each segment, on its first texts; "all" holds every place."""
        parts = segments_of(texts.segments)
        names = [name for name in parts if name != ALL] or [ALL]
        for name in names if texts.runs else []:
            members = parts[name][:TIMED_TEXTS]
            share = 0.75 * (1 + len(texts.runs)) * len(texts.outputs) / len(names)
            tell = partial(self._part, share, f"{texts.sampling}: timing the steps")
            walked = [(texts.prompts[n], texts.plain[n].tokens) for n in members]
            timed = time_loop(
                self.pair.target, self.pair.draft, walked, gammas=list(texts.runs),
                sampling=texts.sampling, places=self.plan.timing_rounds,
                now=self.clock.now, progress=tell,
            )  # fmt: skip
            if timed is not None:
                found[name] = timed
        if found:
            found[ALL] = merged(list(found.values()))

    def report(self, reason: str, seconds: float) -> Report:
        plan, pair, times = self.plan, self.pair, self.times
        costs = None
        if times is not None and times.forwards:
            lookup = isinstance(pair.draft, NgramDraft)
            costs = costs_of(times, pair.target, pair.draft_model, plan.gammas, lookup=lookup)
        acceptance = [
            row for d in self.done for row in acceptance_rows(d.texts, d.replay, plan.gammas)
        ]
        comparison = [
            row
            for d in self.done
            for row in comparison_rows(d.texts, d.replay, d.own, costs, d.loops)
        ]
        model = pair.draft_model
        return Report(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            status="partial" if reason else "complete",
            reason=reason,
            machine=describe(pair.target),
            pair=PairInfo(
                target=pair.target.name,
                draft=pair.draft.name,
                draft_kind=pair.draft.kind,
                target_parameters=pair.target.parameters,
                draft_parameters=0 if model is None else model.parameters,
                vocabulary=pair.target.vocabulary,
                dtype=str(getattr(pair.target, "dtype", "float32")),
                notes=pair.notes,
            ),
            settings=Settings(
                temperatures=plan.temperatures, top_p=plan.top_p, gammas=plan.gammas,
                run_gammas=plan.run_gammas, output_tokens=plan.output_tokens,
                prompts=len(plan.prompts), samples=plan.samples, own_prompts=plan.own_prompts,
                seed=plan.seed, clock=self.clock.kind,
            ),
            costs=costs,
            timings=timing_rows(times),
            acceptance=tuple(acceptance),
            comparison=tuple(comparison),
            runs=tuple(row for d in self.done for row in run_rows(d.texts, plan.output_tokens)),
            checks=self_check(acceptance, comparison, costs, pair, self.busy),
            seconds=seconds,
        )  # fmt: skip
