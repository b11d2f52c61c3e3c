"""Drawing tokens: what a draft proposes, what a step emits; on the device where the logits lie.

Leviathan et al. 2023 (arXiv 2211.17192), Algorithm 1: a drafted token x is accepted with
probability min(1, p(x)/q(x)); the first that is not is replaced by a draw from the residual
max(p − q, 0), normalised; after γ accepted tokens one more is drawn from p. The output follows p
whatever the draft. Random numbers come from the host, so that a seed gives the same text wherever
the logits lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specmath.checks import FloatArray
from specmath.measure.language_model import FloatLogits, Sampling, draw
from specmath.measure.tokenizer import agreement

__all__ = ["Draws", "HostDraws", "Proposal", "residual"]


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens and what each was drawn from; None where each was certain."""

    tokens: list[int]
    distributions: Sequence[Any] | None = None


class Draws(Protocol):
    """How tokens are drawn from the rows that a model's `compute` gives, (tokens, vocabulary)."""

    def best(self, rows: Any) -> list[int]:
        """The most likely token of each row."""

    def propose(self, row: Any, sampling: Sampling, rng: np.random.Generator) -> tuple[int, Any]:
        """A token drawn from one row, and the probabilities it was drawn from."""

    def verify(
        self, rows: Any, proposal: Proposal, sampling: Sampling, rng: np.random.Generator
    ) -> list[int]:
        """The tokens that a step emits: accepted ones and one more. rows (drafted+1, …)."""


class HostDraws:
    """Draws in numpy, for logits that lie on the host."""

    def best(self, rows: FloatLogits) -> list[int]:
        found: list[int] = rows.argmax(axis=-1).tolist()
        return found

    def propose(
        self, row: FloatLogits, sampling: Sampling, rng: np.random.Generator
    ) -> tuple[int, FloatArray]:
        chances = sampling.probabilities(row)
        return draw(chances, rng), chances

    def verify(
        self, rows: FloatLogits, proposal: Proposal, sampling: Sampling, rng: np.random.Generator
    ) -> list[int]:
        drafted = proposal.tokens
        if sampling.greedy:
            best = self.best(rows)
            return best[: agreement(drafted, best) + 1]
        for position, (token, chance) in enumerate(
            zip(drafted, rng.random(len(drafted)), strict=True)
        ):
            p = sampling.probabilities(rows[position])
            q = None if proposal.distributions is None else proposal.distributions[position]
            if chance * (1.0 if q is None else q[token]) >= p[token]:
                return [*drafted[:position], draw(residual(p, q, token), rng)]
        return [*drafted, draw(sampling.probabilities(rows[len(drafted)]), rng)]


def residual(p: FloatArray, q: FloatArray | None, token: int) -> FloatArray:
    """max(p − q, 0), not normalised; q = None is certain of `token`. Equation of Algorithm 1."""
    if q is None:
        left = p.copy()
        left[token] = 0.0
    else:
        left = np.maximum(p - q, 0.0)
    # p = q up to rounding leaves nothing, and a rejection there has probability ~0.
    return left if left.any() else p
