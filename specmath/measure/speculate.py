"""Exact speculative sampling beside plain decoding: the ground truth that predictions meet.

Plain decoding is the same loop with γ = 0. Target and draft have read the prompt, and the device
is at rest, before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from specmath.checks import FloatArray, InputError, whole
from specmath.measure.drafts import Draft
from specmath.measure.draws import Proposal
from specmath.measure.language_model import Forwards, LanguageModel, Sampling, read_prompt
from specmath.measure.tokenizer import agreement

__all__ = ["Generation", "generate"]


@dataclass(frozen=True)
class Generation:
    """One generated text: all but `tokens` hold one entry a target step.

    `ends` are seconds since the prompt was read; `forwards` the seconds of (drafting, verifying)
    that forwards alone took, 0 where they were not parted.
    """

    tokens: list[int]
    emitted: list[int]
    drafted: list[int]
    ends: list[float]
    forwards: list[tuple[float, float]] = field(default_factory=list)

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

    @property
    def spans(self) -> FloatArray:
        """Seconds [steps, (whole step, forwards of the draft, forward of the target)]."""
        return np.column_stack([np.diff(self.ends, prepend=0.0), np.array(self.forwards)])


def generate(
    target: LanguageModel, draft: Draft | None, prompt: Sequence[int], *, gamma: int, limit: int,
    sampling: Sampling, rng: np.random.Generator, stop_ids: Sequence[int] = (),
    now: Callable[[], float] = time.perf_counter, along: Sequence[int] | None = None,
    steps: int | None = None, parted: bool = False,
) -> Generation:  # fmt: skip
    """Generate up to `limit` tokens after `prompt`, or until one of `stop_ids` was emitted.

    γ = 0 or no draft is plain decoding. A step never drafts more than the text has left. `now`
    is the clock in seconds. `along` a text already written a step moves on by the drafted tokens
    that the text confirms and one more, whatever it drew. `steps` is the most of them. `parted`
    waits for each forward, to time it apart from the draws. Raises InputError for an empty prompt
    and for one that leaves no room for `limit` tokens.
    """
    check_prompt(target, prompt, limit)
    gamma = int(whole("gamma", gamma, 0))
    tokens = [int(token) for token in prompt]
    cache = read_prompt(target, tokens)
    session = draft.session(tokens) if draft is not None and gamma else None
    forward = Forwards(now, parted)
    for model in (target, getattr(draft, "model", target)):
        model.finish()
    ready = now()
    emitted, drafted = [], []
    ends: list[float] = []
    forwards: list[tuple[float, float]] = []
    left = limit
    while left > 0 and len(ends) != steps:
        proposal = Proposal([])
        if session is not None:
            proposal = session.propose(tokens, min(gamma, left - 1), sampling, rng, forward)
        drafting = forward.taken()
        logits = forward(target, np.array([[tokens[-1], *proposal.tokens]]), cache)[0]
        new = target.draws.verify(logits, proposal, sampling, rng)
        if along is not None:
            text = along[len(along) - left :]
            new = list(text[: agreement(proposal.tokens, text) + 1])
        stop = next((n for n, token in enumerate(new, start=1) if token in stop_ids), len(new))
        tokens += new[:stop]
        cache.truncate(len(tokens) - 1)
        left -= stop
        emitted.append(stop)
        drafted.append(len(proposal.tokens))
        ends.append(now() - ready)
        forwards.append((drafting, forward.taken()))
        if tokens[-1] in stop_ids:
            break
    return Generation(tokens[len(prompt) :], emitted, drafted, ends, forwards)


def check_prompt(target: LanguageModel, prompt: Sequence[int], limit: int, unread: int = 0) -> None:
    """InputError where the prompt is empty or does not leave room for `limit` tokens, of which the
    model need not read the last `unread`."""
    whole("limit", limit, 1)
    if not len(prompt):
        raise InputError("a prompt must have at least one token, got none")
    if len(prompt) + limit > target.context_limit + unread:
        raise InputError(
            f"prompt and output must fit the context of {target.context_limit} tokens, got "
            f"{len(prompt)} + {limit}; shorten one of them"
        )
