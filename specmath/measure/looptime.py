"""Seconds of drafting and of verifying as the generation loop really does them, for every γ.

A text is walked token by token. At each place every γ drafts and verifies once, then is put back,
and one plain step is taken: so all γ meet the same text, and a slow spell of the machine hits all.
What a step spends beyond its forwards (draws, look-ups, rejection) is in here; a cold draft cache
after a fully accepted draft, one token longer to read, is not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
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
    """Seconds at each place of the walk: `plain` (places,), `drafting` and `verifying` by γ."""

    plain: FloatArray
    drafting: dict[int, FloatArray]
    verifying: dict[int, FloatArray]

    def verify_cost(self, gamma: int) -> float:
        """v(γ) in plain steps: means without the slowest tenth, as γ's text differs by place."""
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
    """Mean without the slowest tenth: those are other programs' time slices."""
    kept = np.sort(seconds)[: max(1, int(np.ceil(0.9 * seconds.size)))]
    return float(kept.mean())


def time_loop(
    target: LanguageModel,
    draft: Draft,
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    gammas: Sequence[int],
    sampling: Sampling,
    places: int,
) -> LoopTimes:
    """Walk (prompt, output) texts until `places` places were timed or the texts end.

    Places are shared among the texts. InputError without texts or γ ≥ 1.
    """
    gammas = sorted({int(g) for g in whole("gamma", list(gammas), 1)})
    if not texts or not gammas:
        raise InputError("timing the loop needs at least one text and one gamma")
    plain: list[float] = []
    drafting: dict[int, list[float]] = {gamma: [] for gamma in gammas}
    verifying: dict[int, list[float]] = {gamma: [] for gamma in gammas}
    each = -(-int(whole("places", places, 1)) // len(texts))
    for prompt, output in texts:
        walk = _Walk(target, draft, prompt, sampling, gammas)
        for token in output[: each + 1]:  # the first place warms caches up
            for gamma in gammas:
                spent = walk.step(gamma)
                if len(walk.tokens) > len(prompt):
                    drafting[gamma].append(spent[0])
                    verifying[gamma].append(spent[1])
            spent = walk.step(0)
            if len(walk.tokens) > len(prompt):
                plain.append(spent[1])
            walk.move(token)
    if not plain:
        raise InputError("the texts are too short to time: each needs at least two tokens")
    return LoopTimes(
        np.array(plain),
        {gamma: np.array(found) for gamma, found in drafting.items()},
        {gamma: np.array(found) for gamma, found in verifying.items()},
    )


class _Walk:
    def __init__(
        self, target: LanguageModel, draft: Draft, prompt: Sequence[int], sampling: Sampling,
        gammas: Sequence[int],
    ) -> None:  # fmt: skip
        self.target, self.sampling = target, sampling
        self.tokens = list(prompt)
        self.cache = target.new_cache()
        if len(prompt) > 1:
            target.read(np.array([list(prompt[:-1])]), self.cache)
        self.sessions = {gamma: draft.session() for gamma in gammas}
        self.rng = np.random.default_rng(0)

    def step(self, gamma: int) -> tuple[float, float]:
        """Seconds of drafting and of verifying; the cache is as before afterwards."""
        begun = time.perf_counter()
        proposal = Proposal([])
        if gamma:
            proposal = self.sessions[gamma].propose(self.tokens, gamma, self.sampling, self.rng)
        drafted = time.perf_counter()
        fed = np.array([[self.tokens[-1], *proposal.tokens]])
        new = verify(self.target.forward(fed, self.cache)[0], proposal, self.sampling, self.rng)
        self.cache.truncate(min(self.cache.length, len(self.tokens) - 1 + len(new)))
        done = time.perf_counter()
        self.cache.truncate(len(self.tokens) - 1)
        return drafted - begun, done - drafted

    def move(self, token: int) -> None:
        """On to the next place, with the plain step's reading of the last token."""
        self.target.read(np.array([self.tokens[-1:]]), self.cache)
        self.tokens.append(int(token))
