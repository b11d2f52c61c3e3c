"""Seconds of drafting and of verifying as the generation loop really does them, for every γ.

A text already written is walked with each γ in turn: draft, verify, then move on by the drafted
tokens that the text confirms and one more, as the replay does. Plain decoding walks it
before each γ, so that a slow spell of the machine hits both, and so that what all costs are divided
by is known best. What a step spends beyond its forwards (draws, look-ups, rejection, a draft cache
that lags behind) is in these seconds. Each γ has a stretch of its own:
a plain step right after a wide one is slower than among its like.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray, InputError, whole
from specmath.measure.drafts import Draft, Proposal
from specmath.measure.engine import LanguageModel
from specmath.measure.sampling import Sampling
from specmath.measure.speculate import verify

__all__ = ["LoopTimes", "merged", "time_loop"]


@dataclass(frozen=True)
class LoopTimes:
    """Seconds of each step of the walks: `plain`, and `drafting` and `verifying` by γ."""

    plain: FloatArray
    drafting: dict[int, FloatArray]
    verifying: dict[int, FloatArray]

    def verify_cost(self, gamma: int) -> float:
        """v(γ) in plain steps, means over the steps."""
        return _typical(self.verifying[gamma]) / _typical(self.plain)

    def draft_cost(self, gamma: int) -> float:
        """d(γ) in plain steps, everything before verification."""
        return _typical(self.drafting[gamma]) / _typical(self.plain)


def merged(parts: Sequence[LoopTimes]) -> LoopTimes:
    """All places of several walks over the same γs, at least one walk."""
    return LoopTimes(
        np.concatenate([part.plain for part in parts]),
        {g: np.concatenate([part.drafting[g] for part in parts]) for g in parts[0].drafting},
        {g: np.concatenate([part.verifying[g] for part in parts]) for g in parts[0].verifying},
    )


def _typical(seconds: FloatArray) -> float:
    """Mean, with anything beyond four medians cut to that: other programs' time slices."""
    return float(np.minimum(seconds, 4.0 * np.median(seconds)).mean())


def time_loop(
    target: LanguageModel,
    draft: Draft,
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    gammas: Sequence[int],
    sampling: Sampling,
    places: int,
    now: Callable[[], float] = time.perf_counter,
    progress: Callable[[float], None] | None = None,
) -> LoopTimes | None:
    """Walk (prompt, output) texts until about `places` steps of each γ were timed.

    Steps are shared among the texts, the first of each walk warms up and is left out. `now` is
    the clock in seconds; `progress` hears the share of the work that each part was. None where the
    texts are too short for two steps of each γ. InputError without texts or without γ ≥ 1.
    """
    gammas = sorted({int(g) for g in whole("gamma", list(gammas), 1)})
    if not texts or not gammas:
        raise InputError("timing the loop needs at least one text and one gamma")
    each = -(-int(whole("places", places, 1)) // len(texts))
    spent: dict[int, list[tuple[float, float]]] = {gamma: [] for gamma in (0, *gammas)}
    for prompt, output in texts:
        for gamma in gammas:
            for own in (0, gamma):
                walked = _walk(target, draft, prompt, output, own, sampling, each + 1, now)
                spent[own] += walked[1:]
            if progress:
                progress(1 / len(texts) / len(gammas))
    if not all(spent.values()):
        return None
    seconds = {gamma: np.array(found) for gamma, found in spent.items()}
    return LoopTimes(
        seconds[0].sum(axis=1),
        {gamma: seconds[gamma][:, 0] for gamma in gammas},
        {gamma: seconds[gamma][:, 1] for gamma in gammas},
    )


def _walk(
    target: LanguageModel, draft: Draft, prompt: Sequence[int], output: Sequence[int], gamma: int,
    sampling: Sampling, steps: int, now: Callable[[], float],
) -> list[tuple[float, float]]:  # fmt: skip
    """(drafting, verifying) seconds of up to `steps` steps along the text."""
    cache, session = target.new_cache(), draft.session()
    rng = np.random.default_rng(0)
    tokens, whole_text = list(prompt), [*prompt, *output]
    if len(prompt) > 1:
        target.read(np.array([tokens[:-1]]), cache)
    spent: list[tuple[float, float]] = []
    while len(tokens) < len(whole_text) and len(spent) < steps:
        begun = now()
        proposal = Proposal([])
        if gamma:
            room = min(gamma, len(whole_text) - len(tokens) - 1)
            proposal = session.propose(tokens, room, sampling, rng)
        drafted = now()
        fed = np.array([[tokens[-1], *proposal.tokens]])
        verify(target.forward(fed, cache)[0], proposal, sampling, rng)
        moved = _confirmed(proposal.tokens, whole_text[len(tokens) :]) + 1
        tokens = whole_text[: len(tokens) + moved]
        cache.truncate(len(tokens) - 1)
        spent.append((drafted - begun, now() - drafted))
    return spent


def _confirmed(drafted: Sequence[int], text: Sequence[int]) -> int:
    """How many drafted tokens the text has too, from its start."""
    for count, (token, own) in enumerate(zip(drafted, text, strict=False)):
        if token != own:
            return count
    return min(len(drafted), len(text) - 1)
