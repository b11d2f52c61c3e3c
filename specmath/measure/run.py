"""A whole measurement: time, generate, replay, run, compare. Stopped, it keeps what it has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from specmath.checks import InputError
from specmath.measure import compare
from specmath.measure.checkpoint import Checkpoint, Key
from specmath.measure.compare import Part, Text
from specmath.measure.language_model import Sampling
from specmath.measure.machine import Clock, busy, describe, steady
from specmath.measure.memory import out_of_memory, room
from specmath.measure.pairs import Pair
from specmath.measure.plan import Plan
from specmath.measure.report import ALL, PairInfo, Report, SelfCheck, Settings
from specmath.measure.score import check_written_by, replay_of
from specmath.measure.speculate import Generation, check_prompt, generate
from specmath.measure.timing import Cancelled, LoopTimes, Progress, StepTimes, time_loop, time_steps
from specmath.replay import ReplayAcceptance

__all__ = ["Hurried", "measure"]

TIMED_TEXTS = 3
"""Texts of a segment on which the loop's own costs are timed."""


class Hurried(KeyboardInterrupt):
    """An interrupt by somebody who will soon end the process: acceptance is kept, and nothing is
    scored or timed any more to compare it with."""


class _Stopped(Exception):
    """The user asked to stop."""


def measure(
    pair: Pair, plan: Plan, progress: Progress | None = None, cancelled: Cancelled | None = None,
    checkpoint: Checkpoint | None = None,
) -> Report:  # fmt: skip
    """Measure a pair by a plan.

    progress(share, what): called after each part with the share of the work done, 0 to 1.
    cancelled(): asked between parts; once it is true the report so far comes back, marked partial.
    A KeyboardInterrupt and running out of memory end in the same way, `Hurried` sooner.
    `checkpoint` keeps each run,
    and what it holds already is not run again. InputError for prompts that do not fit the context
    or the vocabulary, before anything is run.
    """
    begun = time.perf_counter()
    encoded = [pair.tokenizer.encode(prompt.text) for prompt in plan.prompts]
    for number, tokens in enumerate(encoded, start=1):
        try:
            check_prompt(pair.target, tokens, plan.output_tokens + max(plan.gammas))
        except InputError as error:
            raise InputError(f"prompt {number}: {error}") from error
        if (most := max(tokens)) >= pair.target.vocabulary:
            raise InputError(
                f"prompt {number}: the tokenizer gives id {most}, and the models' heads have "
                f"{pair.target.vocabulary} rows: this tokenizer is not theirs"
            )
    with steady(pair.target) as clock:
        tell = progress or (lambda share, what: None)
        work = _Work(pair, plan, encoded, clock, tell, cancelled, checkpoint)
        return work.report(_reason_to_stop(work), time.perf_counter() - begun)


def _reason_to_stop(work: _Work) -> str:
    """Do all the work; what stopped it half-way, "" where nothing did."""
    try:
        work.all()
    except _Stopped:
        return "stopped half-way at the user's request"
    except KeyboardInterrupt:
        return "interrupted half-way"
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return f"ran out of memory half-way; {room(work.pair.target)}, or fewer output tokens"
    return ""


class _Work:
    def __init__(
        self, pair: Pair, plan: Plan, encoded: list[list[int]], clock: Clock, progress: Progress,
        cancelled: Cancelled | None, checkpoint: Checkpoint | None,
    ) -> None:  # fmt: skip
        self.pair, self.plan, self.encoded, self.clock = pair, plan, encoded, clock
        self.progress, self.cancelled, self.checkpoint = progress, cancelled, checkpoint
        self.times: StepTimes | None = None
        self.parts: list[Part] = []
        self.busy = busy(clock)
        self.timing = max(1, plan.units // 20)
        self.count, self.total = 0.0, self.timing + 2 * plan.units

    def all(self) -> None:
        kept = self.checkpoint and self.checkpoint.times
        self.times = kept or self._time_steps()
        self._advance(self.timing, "timed target and draft")
        for temperature in self.plan.temperatures:
            self._temperature(Sampling(temperature, self.plan.top_p))

    def _time_steps(self) -> StepTimes:
        plan = self.plan
        times = time_steps(
            self.pair.target, self.pair.draft_model, gammas=plan.gammas, batches=plan.batches,
            contexts=plan.contexts, rounds=plan.timing_rounds, now=self.clock.now,
            cancelled=self.cancelled,
        )  # fmt: skip
        if self.checkpoint and not (self.cancelled and self.cancelled()):
            self.checkpoint.keep_times(times)
        return times

    def _advance(self, units: float, what: str) -> None:
        self._tell(units, what)
        if self.cancelled and self.cancelled():
            raise _Stopped

    def _tell(self, units: float, what: str) -> None:
        self.count += units
        self.progress(min(1.0, self.count / self.total), what)

    def _temperature(self, sampling: Sampling) -> None:
        """Texts, then their replay; what was finished before a stop is replayed as well."""
        texts: list[Text] = []
        hurried = False
        try:
            for number in range(len(self.plan.prompts)):
                for sample in range(self.plan.samples_at(sampling.temperature)):
                    texts.append(self._text(sampling, number, sample))
        except Hurried:
            hurried = True
            raise
        finally:
            if self.checkpoint:
                self.checkpoint.write()
            if texts:
                self._replay(sampling, texts, () if hurried else self.plan.run_gammas)

    def _text(self, sampling: Sampling, number: int, sample: int) -> Text:
        """Plain and every γ one after the other, so that a slow spell of the machine hits all."""
        pair, plan, encoded, runs = self.pair, self.plan, self.encoded[number], {}
        for gamma in (0, *plan.run_gammas):
            key = (sampling.temperature, number, sample, gamma)
            runs[gamma] = self._kept(key) or self._run(sampling, key)
            self._advance(1, f"{sampling}: prompt {number + 1} of {len(plan.prompts)}")
        prompt, output = plan.prompts[number], runs[0].tokens
        if prompt.response is not None:  # as far as the context reaches
            left = pair.target.context_limit - len(encoded)
            output = pair.tokenizer.encode(prompt.response)[:left]
        return Text(prompt.segment, number, encoded, output, runs)

    def _kept(self, key: Key) -> Generation | None:
        return self.checkpoint.run(key) if self.checkpoint else None

    def _run(self, sampling: Sampling, key: Key) -> Generation:
        pair, (_, number, sample, gamma) = self.pair, key
        found = generate(
            pair.target, pair.draft, self.encoded[number], gamma=gamma,
            limit=self.plan.output_tokens, sampling=sampling,
            rng=np.random.default_rng([self.plan.seed, number, sample, gamma]),
            stop_ids=pair.tokenizer.stop_ids, now=self.clock.now,
        )  # fmt: skip
        if self.checkpoint:
            self.checkpoint.keep(key, found)
        return found

    def _replay(self, sampling: Sampling, texts: list[Text], compared: Sequence[int]) -> None:
        pair, most = self.pair, max(1, *self.plan.gammas)
        given = [(text.prompt, text.output) for text in texts]
        if any(prompt.response for prompt in self.plan.prompts):
            check_written_by(pair.target, given, sampling)

        def replayed(outputs: list[tuple[list[int], list[int]]]) -> ReplayAcceptance:
            found = replay_of(pair.target, pair.draft, outputs, sampling, most)
            # Scoring and timing the steps took about as long as generating, on the built-in pair.
            self._tell(len(texts) / 4, f"{sampling}: scoring what was generated")
            return found

        own = {
            gamma: replayed([(text.prompt, text.runs[gamma].tokens) for text in texts])
            for gamma in compared
        }
        parts = Part(ALL, sampling, texts, replayed(given), own).split()
        self.parts += parts
        if own:  # last: an interruption here keeps the acceptance
            self._time_loops(*parts)

    def _time_loops(self, whole: Part, *segments: Part) -> None:
        """The loop's own costs in each segment, on its first texts; "all" holds every place."""
        pair, timed = self.pair, segments or (whole,)
        share = 0.75 * (1 + len(whole.own)) * len(whole.texts) / len(timed)

        def tell(part: float) -> None:
            self._tell(share * part, f"{whole.sampling}: timing the steps")

        for part in timed:
            part.loop = time_loop(
                pair.target, pair.draft,
                [(text.prompt, text.runs[0].tokens) for text in part.texts[:TIMED_TEXTS]],
                gammas=list(part.own), sampling=part.sampling, places=self.plan.timing_rounds,
                now=self.clock.now, progress=tell,
            )  # fmt: skip
        whole.loop = LoopTimes(tuple(w for part in timed if part.loop for w in part.loop.walks))

    def report(self, reason: str, seconds: float) -> Report:
        plan, pair, parts, model = self.plan, self.pair, self.parts, self.pair.draft_model
        found = []
        if self.times is not None and self.times.stretches:
            found = compare.costs_of(self.times, pair.target, model, plan.gammas)
        costs = found[0] if found else None
        acceptance = [compare.acceptance_row(part, plan.gammas) for part in parts]
        comparison = [
            row for part in parts if costs for row in compare.comparison_rows(part, costs.c.value)
        ]
        runs = [row for part in parts for row in compare.run_rows(part, plan.output_tokens)]
        shared = {
            name: value for name, value in vars(plan).items() if name in Settings.model_fields
        }
        return Report(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            status="partial" if reason else "complete", reason=reason,
            machine=describe(pair.target),
            pair=PairInfo(
                target=pair.target.name, draft=pair.draft.name, draft_kind=pair.draft.kind,
                target_parameters=pair.target.parameters,
                draft_parameters=0 if model is None else model.parameters,
                vocabulary=pair.target.vocabulary,
                dtype=str(getattr(pair.target, "dtype", "float32")),
            ),
            settings=Settings(**shared | {"prompts": len(plan.prompts), "clock": self.clock.kind}),
            costs=costs, more_costs=found[1:], timings=compare.timing_rows(self.times),
            acceptance=acceptance, comparison=comparison, runs=runs,
            checks=[
                *compare.self_check(
                    acceptance, comparison, runs, costs, drafts_by_model=model is not None
                ),
                *self._remarks(),
            ],
            seconds=seconds,
        )  # fmt: skip

    def _remarks(self) -> list[SelfCheck]:
        """What belongs to this measurement whatever it found."""
        found = [*self.pair.notes]
        if self.busy is not None:
            found.append(compare.check("note", "busy", load=self.busy[0], cores=self.busy[1]))
        if self.checkpoint and self.checkpoint.resumed:
            found.append(compare.check("note", "resumed", runs=self.checkpoint.resumed))
        for batch, context in self.times.left_out if self.times else ():
            found.append(compare.check("note", "left out", batch=batch, context=context))
        if describe(self.pair.target).engine == "transformers":
            found.append(compare.check("note", "eager"))
        return found
