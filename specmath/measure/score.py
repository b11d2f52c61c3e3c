"""One scoring pass of each model over texts that the target wrote: a_t for the replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from specmath.checks import FloatArray, InputError, whole
from specmath.measure.drafts import Draft, ModelDraft, NgramDraft
from specmath.measure.engine import FloatLogits, LanguageModel
from specmath.measure.sampling import Sampling
from specmath.replay import ReplayAcceptance

__all__ = ["Rule", "acceptance", "check_written_by", "ngram_matches", "replay_of", "score"]

Rule = Literal["p/q", "argmax", "exact match"]

_ROWS = 64
"""Positions whose distributions are held at once: 64 × 128k tokens × 8 bytes = 66 MB."""


def score(model: LanguageModel, prompt: Sequence[int], text: Sequence[int]) -> FloatLogits:
    """Logits from which each token of `text` was drawn, shape (tokens, vocabulary)."""
    if not len(prompt) or not len(text):
        raise InputError("a text needs a prompt and an output of at least one token each")
    if len(prompt) + len(text) > model.context_limit + 1:
        raise InputError(
            f"prompt and output must fit the context of {model.context_limit} tokens, got "
            f"{len(prompt)} + {len(text)}; shorten one of them"
        )
    cache = model.new_cache()
    if len(prompt) > 1:
        model.read(np.array([prompt[:-1]]), cache)
    logits: FloatLogits = model.forward(np.array([[prompt[-1], *text[:-1]]]), cache)[0]
    return logits


def acceptance(
    target: FloatLogits,
    draft: FloatLogits,
    text: Sequence[int],
    sampling: Sampling,
    rule: Rule = "p/q",
) -> FloatArray:
    """a_t = P(token t accepted | drafted there, and the text given), shape (tokens,).

    p and q after temperature and top-p. "p/q": min(1, q(x)/p(x)), Leviathan et al. 2023,
    Algorithm 1. "argmax": 1 where the draft's most likely token is x, a certain proposal at any
    temperature. "exact match": q(x), a sampled draft that must hit the target's own draw. At
    temperature 0 the three agree.
    """
    found = np.empty(len(text))
    tokens = np.asarray(text, np.int64)
    for start in range(0, len(text), _ROWS):
        rows = slice(start, start + _ROWS)
        x = tokens[rows, None]
        if rule == "argmax" or sampling.greedy:
            found[rows] = draft[rows].argmax(axis=-1) == x[:, 0]
            continue
        q = np.take_along_axis(sampling.probabilities(draft[rows]), x, axis=-1)[:, 0]
        if rule == "exact match":
            found[rows] = q
            continue
        p = np.take_along_axis(sampling.probabilities(target[rows]), x, axis=-1)[:, 0]
        if np.any(p == 0):
            at = start + int(np.flatnonzero(p == 0)[0])
            raise InputError(
                f"token {at + 1} has probability 0 under the target at {sampling}: this text was "
                "not produced by this target at these settings, so replay says nothing about it"
            )
        found[rows] = np.minimum(1.0, q / p)
    return found


FAR = 5.0
"""A text of the target itself lies further off by chance about once in 2 million."""


def check_written_by(
    target: LanguageModel,
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    sampling: Sampling,
) -> None:
    """InputError unless the texts look like this target's at these settings.

    At temperature 0 each token must be the most likely one. Otherwise the surprise −ln p(x) of
    each token is compared with its expectation, the entropy of p: over all tokens the difference
    is 0 with the summed variance of −ln p if x was drawn from p (a martingale).
    """
    away, variance = 0.0, 0.0
    for prompt, text in texts:
        logits = score(target, prompt, text)
        if sampling.greedy:
            check_greedy(logits, text)
            continue
        p = sampling.probabilities(logits)
        chosen = np.take_along_axis(p, np.asarray(text)[:, None], axis=-1)[:, 0]
        if np.any(chosen == 0):
            away = np.inf
            break
        surprise = -np.log(np.where(p > 0, p, 1.0))
        entropy = (p * surprise).sum(axis=-1)
        away += float((-np.log(chosen) - entropy).sum())
        variance += float(((p * surprise**2).sum(axis=-1) - entropy**2).sum())
    z = away / np.sqrt(variance) if variance > 0 else away
    if abs(z) > FAR:
        raise InputError(
            f"the responses were not produced by this target at {sampling} (their surprise lies "
            f"{z:.1f} standard deviations from what it would be), so replay says nothing about "
            "them; leave the responses out, or give the settings they were produced with"
        )


def check_greedy(target: FloatLogits, text: Sequence[int]) -> None:
    """InputError unless `text` is the target's own greedy text (one near-tie in 100 allowed)."""
    wrong = int(np.sum(target.argmax(axis=-1) != np.asarray(text)))
    if wrong > max(1, len(text) // 100):
        raise InputError(
            f"{wrong} of {len(text)} tokens are not the target's most likely ones: this text was "
            "not produced by this target at T=0, so replay says nothing about it"
        )


def ngram_matches(
    draft: NgramDraft, prompt: Sequence[int], text: Sequence[int], gamma: int
) -> FloatArray:
    """a[start][offset] of prompt look-up: 1 up to the first token that differs, then 0."""
    gamma = int(whole("gamma", gamma, 1))
    session = draft.session()
    tokens = [*prompt, *text]
    found = np.zeros((len(text), gamma))
    for start in range(len(text)):
        here = len(prompt) + start
        drafted = session.propose(
            tokens[:here], gamma, Sampling(0), np.random.default_rng(0)
        ).tokens
        for offset, token in enumerate(drafted):
            if here + offset >= len(tokens) or tokens[here + offset] != token:
                break
            found[start, offset] = 1.0
    return found


def replay_of(
    target: LanguageModel,
    draft: Draft,
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    sampling: Sampling,
    gamma: int,
) -> ReplayAcceptance:
    """The replay of (prompt, output) pairs under this draft, for every γ up to `gamma` and beyond.

    For look-up drafts γ beyond `gamma` is refused later, as their proposals depend on where a step
    began.
    """
    if not texts:
        raise InputError("texts must hold at least one prompt and output, got none")
    if isinstance(draft, NgramDraft):
        return ReplayAcceptance.from_starts(
            [ngram_matches(draft, prompt, text, gamma) for prompt, text in texts]
        )
    if not isinstance(draft, ModelDraft):
        raise InputError(f"no replay for a draft of kind {draft.kind!r}")
    rule: Rule = "argmax" if draft.argmax else "p/q"
    rows = []
    for prompt, text in texts:
        own = score(target, prompt, text)
        if sampling.greedy:
            check_greedy(own, text)
        rows.append(acceptance(own, score(draft.model, prompt, text), text, sampling, rule))
    return ReplayAcceptance(rows)
