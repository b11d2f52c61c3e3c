"""Exact speculative sampling beside plain decoding: the ground truth that predictions meet.

Leviathan et al. 2023 (arXiv 2211.17192), Algorithm 1: a drafted token x is accepted with
probability min(1, p(x)/q(x)); the first that is not is replaced by a draw from the residual
max(p − q, 0), normalised; after γ accepted tokens one more is drawn from p. The output follows p
whatever the draft. Plain decoding is the same loop with γ = 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray, InputError, whole
from specmath.measure.drafts import Draft, Proposal
from specmath.measure.engine import FloatLogits, LanguageModel
from specmath.measure.sampling import Sampling, draw

__all__ = ["Generation", "generate"]


@dataclass(frozen=True)
class Generation:
    """One generated text: `emitted`, `drafted` and `ends` hold one entry a target step.

    `ends` are seconds since the prompt was read; `prefill_seconds` is what that took.
    """

    tokens: list[int]
    emitted: list[int]
    drafted: list[int]
    ends: list[float]
    prefill_seconds: float

    @property
    def steps(self) -> int:
        return len(self.emitted)

    @property
    def seconds(self) -> float:
        return self.ends[-1]

    @property
    def token_gaps(self) -> FloatArray:
        """Seconds between tokens: a step's tokens arrive together, 0 apart (`itl_token`)."""
        return np.diff(np.repeat(self.ends, self.emitted))

    @property
    def chunk_gaps(self) -> FloatArray:
        """Seconds between the chunks a client receives, one a step (`itl_chunk`)."""
        return np.diff(self.ends)


def generate(
    target: LanguageModel,
    draft: Draft | None,
    prompt: Sequence[int],
    *,
    gamma: int,
    limit: int,
    sampling: Sampling,
    rng: np.random.Generator,
    stop_ids: Sequence[int] = (),
    now: Callable[[], float] = time.perf_counter,
) -> Generation:
    """Generate up to `limit` tokens after `prompt`, or until one of `stop_ids` was emitted.

    γ = 0 or no draft is plain decoding. A step never drafts more than the text has left. `now`
    is the clock in seconds. Raises InputError for an empty prompt and for one that leaves no room
    for `limit` tokens.
    """
    check_prompt(target, prompt, limit)
    gamma = int(whole("gamma", gamma, 0))
    tokens = [int(token) for token in prompt]
    cache = target.new_cache()
    begun = now()
    if len(tokens) > 1:
        target.read(np.array([tokens[:-1]]), cache)
    session = draft.session() if draft is not None and gamma else None
    ready = now()
    emitted, drafted, ends = [], [], []
    left = limit
    while left > 0:
        proposal = Proposal([])
        if session is not None:
            proposal = session.propose(tokens, min(gamma, left - 1), sampling, rng)
        logits = target.forward(np.array([[tokens[-1], *proposal.tokens]]), cache)[0]
        new = _until_stop(verify(logits, proposal, sampling, rng), stop_ids)
        tokens += new
        cache.truncate(len(tokens) - 1)
        left -= len(new)
        emitted.append(len(new))
        drafted.append(len(proposal.tokens))
        ends.append(now() - ready)
        if new[-1] in stop_ids:
            break
    return Generation(tokens[len(prompt) :], emitted, drafted, ends, ready - begun)


def check_prompt(target: LanguageModel, prompt: Sequence[int], limit: int) -> None:
    """InputError where the prompt is empty or does not leave room for `limit` tokens."""
    whole("limit", limit, 1)
    if not len(prompt):
        raise InputError("a prompt must have at least one token, got none")
    if len(prompt) + limit > target.context_limit:
        raise InputError(
            f"prompt and output must fit the context of {target.context_limit} tokens, got "
            f"{len(prompt)} + {limit}; shorten one of them"
        )


def verify(
    logits: FloatLogits, proposal: Proposal, sampling: Sampling, rng: np.random.Generator
) -> list[int]:
    """The tokens that a step emits: accepted ones and one more. logits (drafted+1, vocabulary)."""
    new: list[int] = []
    for position, token in enumerate(proposal.tokens):
        if sampling.greedy:
            best = int(np.argmax(logits[position]))
            new.append(best)
            if best != token:
                return new
            continue
        p = sampling.probabilities(logits[position])
        q = None if proposal.distributions is None else proposal.distributions[position]
        if rng.random() * (1.0 if q is None else q[token]) < p[token]:
            new.append(token)
            continue
        return [*new, draw(residual(p, q, token), rng)]
    last = logits[len(proposal.tokens)]
    if sampling.greedy:
        return [*new, int(np.argmax(last))]
    return [*new, draw(sampling.probabilities(last), rng)]


def residual(p: FloatArray, q: FloatArray | None, token: int) -> FloatArray:
    """max(p − q, 0), not normalised; q = None is certain of `token`. Equation of Algorithm 1."""
    if q is None:
        left = p.copy()
        left[token] = 0.0
    else:
        left = np.maximum(p - q, 0.0)
    # p = q up to rounding leaves nothing, and a rejection there has probability ~0.
    return left if left.any() else p


def _until_stop(new: list[int], stop_ids: Sequence[int]) -> list[int]:
    for count, token in enumerate(new, start=1):
        if token in stop_ids:
            return new[:count]
    return new
