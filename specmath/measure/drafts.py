"""Drafts: another model, the target with layers left out, or a look-up in the text so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specmath.checks import InputError, whole
from specmath.measure.draws import Proposal
from specmath.measure.language_model import Cache, Forwards, LanguageModel, Sampling, read_prompt

__all__ = ["Draft", "ModelDraft", "NgramDraft", "layer_skip"]


@dataclass(frozen=True)
class ModelDraft:
    """A model that drafts token by token; it samples as the target does, or takes its argmax.

    `argmax`: many servers draft greedily at any temperature. The proposal is then certain, and a
    drafted token d is accepted with probability p(d).
    """

    model: LanguageModel
    argmax: bool = False
    kind: str = "model"

    @property
    def name(self) -> str:
        return f"{self.model.name}, argmax" if self.argmax else self.model.name

    def session(self, prompt: Sequence[int] = ()) -> _ModelSession:
        """Drafting for one text; the prompt is read, all but its last token."""
        return _ModelSession(self, read_prompt(self.model, prompt), list(prompt[:-1]))


@dataclass
class _ModelSession:
    draft: ModelDraft
    cache: Cache
    read: list[int] = field(default_factory=list)

    def propose(
        self, tokens: Sequence[int], gamma: int, sampling: Sampling, rng: np.random.Generator,
        forward: Forwards,
    ) -> Proposal:  # fmt: skip
        """Up to `gamma` tokens that may follow `tokens` (prompt and all emitted so far)."""
        self._forget_rejected(tokens)
        draws = self.draft.model.draws
        certain = self.draft.argmax or sampling.greedy
        drafted: list[int] = []
        distributions: list[Any] = []
        unread = list(tokens[len(self.read) :])
        for _ in range(gamma):
            logits = forward(self.draft.model, np.array([unread]), self.cache, last=True)[0]
            self.read += unread
            if certain:
                drafted += draws.best(logits)
            else:
                token, chances = draws.propose(logits[-1], sampling, rng)
                drafted.append(token)
                distributions.append(chances)
            unread = drafted[-1:]
        return Proposal(drafted, None if certain else distributions)

    def _forget_rejected(self, tokens: Sequence[int]) -> None:
        """Keep what was read and still stands; the last token is always read anew."""
        keep = min(len(self.read), len(tokens) - 1)
        while keep and self.read[keep - 1] != tokens[keep - 1]:
            keep -= 1
        del self.read[keep:]
        self.cache.truncate(keep)


@dataclass(frozen=True)
class NgramDraft:
    """Prompt look-up: what followed the last time the latest n tokens occurred, longest n first.

    Saxena 2023, "Prompt Lookup Decoding". Proposals end with the text known so far, and there is
    none where even the last `shortest` tokens are new.
    """

    longest: int = 3
    shortest: int = 1
    kind: str = "n-gram"

    def __post_init__(self) -> None:
        whole("longest", self.longest, 1, 100)
        whole("shortest", self.shortest, 1, self.longest)

    @property
    def name(self) -> str:
        return f"n-gram, {self.shortest} to {self.longest} tokens"

    def session(self, prompt: Sequence[int] = ()) -> _NgramSession:
        """Drafting for one text; the n-grams of the prompt are known."""
        made = _NgramSession(self.longest, self.shortest)
        made.learn(prompt)
        return made


@dataclass
class _NgramSession:
    longest: int
    shortest: int
    seen: dict[tuple[int, ...], int] = field(default_factory=dict)
    indexed: int = 0

    def propose(
        self, tokens: Sequence[int], gamma: int, sampling: Sampling, rng: np.random.Generator,
        forward: Forwards,
    ) -> Proposal:  # fmt: skip
        """As that of a model; nothing is drawn."""
        return Proposal(self.lookup(tokens, gamma))

    def learn(self, tokens: Sequence[int]) -> None:
        # The n-gram at the very end is looked up, so it is not indexed before the next token.
        for stop in range(self.indexed + 1, len(tokens)):
            for size in range(self.shortest, min(self.longest, stop) + 1):
                self.seen[tuple(tokens[stop - size : stop])] = stop
        self.indexed = max(self.indexed, len(tokens) - 1)

    def lookup(self, tokens: Sequence[int], gamma: int) -> list[int]:
        self.learn(tokens)
        for size in range(min(self.longest, len(tokens)), self.shortest - 1, -1):
            found = self.seen.get(tuple(tokens[len(tokens) - size :]))
            if found is not None:
                return list(tokens[found : found + gamma])
        return []


Draft = ModelDraft | NgramDraft


def layer_skip(target: LanguageModel, skipped: Sequence[int], argmax: bool = False) -> ModelDraft:
    """The target without these layers (numbered from 0) as its own draft; at least one stays."""
    layers = tuple(sorted({int(n) for n in whole("skipped layer", list(skipped), 0)}))
    if not layers or layers[-1] >= target.layers or len(layers) >= target.layers:
        raise InputError(
            f"skipped layers must be 1 to {target.layers - 1} of the target's layers 0 to "
            f"{target.layers - 1}, got {list(skipped)}"
        )
    return ModelDraft(target.skipping(layers), argmax, kind="layer-skip")
