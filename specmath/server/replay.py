"""Replay through two scoring endpoints: what speculation would give on text already written.

    sampled   a_t = min(1, q(x_t)/p(x_t))             text of T=1, draft sampled
    argmax    a_t = 1 if x_t is the draft's argmax    text of T=1, draft greedy (llama.cpp)
    greedy    a_t = 1 if x_t is the draft's argmax    text of T=0

x_t are the tokens that the *target* wrote, at T=1 without top-p or at T=0; on text of another model
the result means nothing. Both servers must cut the text into the same tokens. Scoring runs at the
scale of whatever serves the models; nothing is switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath.checks import FloatArray, InputError
from specmath.measure.interval import AlphaEstimate, estimate_alpha
from specmath.replay import ReplayAcceptance
from specmath.server.client import ServerError, open_client
from specmath.server.load import identify
from specmath.server.scoring import Scored, generate, score

__all__ = ["Replayed", "accepted_probabilities", "replay_servers"]

Mode = Literal["greedy", "sampled", "argmax"]


@dataclass(frozen=True)
class Replayed:
    """α with its interval, and the acceptance over γ; `own_share` is the share of tokens that are
    the target's own argmax: near 1 for text it wrote greedily. `unknown` counts the tokens of
    which a server gave no probability: taken as not accepted."""

    mode: Mode
    alpha: AlphaEstimate
    acceptance: ReplayAcceptance
    own_share: float
    unknown: int
    skipped: tuple[str, ...]

    def warnings(self) -> tuple[str, ...]:
        """What speaks against taking these numbers for the target's own text."""
        found = list(self.skipped)
        if self.unknown:
            found.append(
                f"{self.unknown} tokens have no probability from one of the servers (not among "
                "those it lists): they count as not accepted, so α is a lower bound"
            )
        if self.mode == "greedy" and self.own_share < 0.98:
            found.append(
                f"only {self.own_share:.1%} of the tokens are the target's own most probable one: "
                "this text was not written by it at temperature 0, so greedy replay does not hold"
            )
        if self.mode != "greedy" and self.own_share > 0.98:
            found.append(
                f"{self.own_share:.1%} of the tokens are the target's most probable one: this text "
                "looks greedy; this replay is for text sampled at temperature 1 without top-p"
            )
        return tuple(found)


def accepted_probabilities(target: Scored, draft: Scored, mode: Mode) -> FloatArray:
    """a_t of one text. ServerError where the two servers cut it differently.

    Tokens of which a server gave no probability (the first of a text without a prompt) count as
    not accepted.
    """
    if target.tokens != draft.tokens:
        at = next((i for i, pair in enumerate(zip(target.tokens, draft.tokens, strict=False))
                   if pair[0] != pair[1]), min(len(target.tokens), len(draft.tokens)))  # fmt: skip
        raise ServerError(
            f"target and draft cut the text into different tokens (from token {at + 1} on): "
            "with different tokenizers neither can draft for the other this way"
        )
    if mode != "sampled":
        return draft.top.astype(float)
    with np.errstate(invalid="ignore"):
        ratio = np.exp(np.minimum(draft.logprob - target.logprob, 0.0))
    return np.nan_to_num(ratio, nan=0.0)


async def replay_servers(
    target_url: str,
    draft_url: str,
    texts: Sequence[tuple[str, str | None]],
    mode: Mode,
    *,
    target_model: str | None = None,
    draft_model: str | None = None,
    max_tokens: int = 128,
    seed: int = 0,
    tell: Callable[[int, int], None] | None = None,
) -> Replayed:
    """Score (prompt, response) pairs with both servers and replay them for every γ.

    A response of None is written by the target first, at the temperature of the mode,
    `max_tokens` long at most. Texts that the servers cut differently are left out and
    named; InputError without texts, ServerError where none can be used.
    """
    if not texts:
        raise InputError("texts must hold at least one prompt with its response, got none")
    probabilities: list[FloatArray] = []
    own: list[np.ndarray] = []
    skipped: list[str] = []
    unknown = 0
    async with open_client(target_url) as target, open_client(draft_url) as draft:
        first = await identify(target, target_model)
        second = await identify(draft, draft_model)
        for number, (prompt, response) in enumerate(texts, start=1):
            try:
                if response is None:
                    response = await generate(
                        target, *first, prompt, temperature=float(mode != "greedy"),
                        max_tokens=max_tokens, seed=seed + number,
                    )  # fmt: skip
                top = mode != "sampled"
                scored = await score(target, *first, prompt, response, only_top=top)
                drafted = await score(draft, *second, prompt, response, only_top=top)
                probabilities.append(accepted_probabilities(scored, drafted, mode))
                own.append(scored.top)
                if not top:
                    unknown += int(np.isnan(scored.logprob + drafted.logprob).sum())
            except ServerError as error:
                if "cannot reach" in str(error):
                    raise
                skipped.append(f"text {number} left out: {error}")
            if tell is not None:
                tell(number, len(texts))
    if not probabilities:
        raise ServerError(f"no text could be replayed: {skipped[0]}")
    return Replayed(
        mode,
        estimate_alpha(probabilities),
        ReplayAcceptance(probabilities),
        float(np.concatenate(own).mean()),
        unknown,
        tuple(skipped),
    )
