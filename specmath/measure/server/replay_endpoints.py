"""Replay through two scoring endpoints: what speculation would give on text already written.

    sampled   a_t = min(1, q(x_t)/p(x_t))             text of T=1, draft sampled
    argmax    a_t = 1 if x_t is the draft's argmax    text of T=1, draft greedy (llama.cpp)
    greedy    a_t = 1 if x_t is the draft's argmax    text of T=0

x_t are the tokens that the *target* wrote, at T=1 without top-p or at T=0; on text of another model
the result means nothing. Both servers must cut the text into the same tokens. Scoring runs at the
scale of whatever serves the models; nothing is switched on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, model_validator

from specmath.checks import FloatArray, InputError
from specmath.estimate import Estimate
from specmath.foreign import of_type
from specmath.measure.score import estimate_alpha
from specmath.measure.server.client import ServerError, open_client
from specmath.measure.server.endpoints import prompt_ids, token_ids
from specmath.measure.server.load import Tell, identify
from specmath.measure.server.scoring import Scored, echo, generate, score
from specmath.measure.tokenizer import agreement
from specmath.replay import ReplayAcceptance

if TYPE_CHECKING:
    import httpx

__all__ = ["Mode", "Replayed", "accepted_probabilities", "replay_servers"]

Mode = Literal["greedy", "sampled", "argmax"]
Texts = Sequence[tuple[str, str | None]]
Share = Annotated[float, Field(ge=0, le=1)]


class _Record(BaseModel):
    """One text as a checkpoint keeps it."""

    accepted: list[Share] = Field(min_length=1)
    own: list[bool]
    unknown: int = Field(ge=0)

    @model_validator(mode="after")
    def _alike(self) -> Self:
        if len(self.accepted) != len(self.own):
            raise ValueError(f"accepted and own must be as many, got {len(self.own)}")
        return self


_RECORD = TypeAdapter(_Record)


@dataclass(frozen=True)
class Replayed:
    """α with its interval, and the acceptance over γ; `own_share` is the share of tokens that are
    the target's own argmax: near 1 for text it wrote greedily. `unknown` counts the tokens of
    which a server gave no probability: taken as not accepted. `ended`: why the rest of the texts
    was not scored ("": all were)."""

    mode: Mode
    alpha: Estimate
    acceptance: ReplayAcceptance
    own_share: float
    unknown: int
    skipped: tuple[str, ...]
    ended: str = ""


def accepted_probabilities(target: Scored, draft: Scored, mode: Mode) -> FloatArray:
    """a_t of one text. ServerError where the two servers cut it differently.

    Tokens of which a server gave no probability (the first of a text without a prompt) count as
    not accepted.
    """
    _same_cut(target.tokens, draft.tokens)
    if mode != "sampled":
        return draft.top.astype(float)
    with np.errstate(invalid="ignore"):
        ratio = np.exp(np.minimum(draft.logprob - target.logprob, 0.0))
    return np.nan_to_num(ratio, nan=0.0)


def _same_cut(target: Sequence[object], draft: Sequence[object]) -> None:
    if list(target) != list(draft):
        at = agreement(target, draft) + 1
        raise ServerError(
            f"target and draft cut the text into different tokens (from token {at} on): "
            "with different tokenizers neither can draft for the other this way"
        )


@dataclass(frozen=True)
class _Side:
    client: httpx.AsyncClient
    engine: str
    model: str

    @property
    def known(self) -> tuple[httpx.AsyncClient, str, str]:
        return self.client, self.engine, self.model

    async def ids(self, text: str, *, special: bool = False) -> list[int]:
        return await token_ids(*self.known, text, special=special)


async def replay_servers(
    target_url: str, draft_url: str, texts: Texts, mode: Mode,
    *, target_model: str | None = None, draft_model: str | None = None, max_tokens: int = 128,
    seed: int = 0, chat: bool = False, tell: Tell | None = None,
    kept: Mapping[int, Any] | None = None, keep: Callable[[int, Any], None] = lambda n, a: None,
) -> Replayed:  # fmt: skip
    """Score (prompt, response) pairs with both servers and replay them for every γ.

    A response of None is written by the target first, at the temperature of the mode,
    `max_tokens` long at most. `chat` puts each prompt into the target's chat template. Texts that
    the servers cut differently are left out and named; InputError without texts, ServerError where
    none can be used. `kept` holds texts of an earlier run by number, `keep` takes those of this
    one. A server that goes away, or a cancelled task, ends it with what is scored.
    """
    if not texts:
        raise InputError("texts must hold at least one prompt with its response, got none")
    found = {n: of_type(_RECORD, f"text {n} of the checkpoint", r) for n, r in (kept or {}).items()}
    skipped: list[str] = []
    ended = ""
    async with open_client(target_url) as first, open_client(draft_url) as second:
        target = _Side(first, *await identify(first, target_model))
        draft = _Side(second, *await identify(second, draft_model))
        pair = _Pair(target, draft, mode, max_tokens, seed, chat)
        for number, (prompt, response) in enumerate(texts, start=1):
            if number in found:
                continue
            try:
                found[number] = await pair.text(number, prompt, response)
                keep(number, found[number].model_dump())
            except (ServerError, asyncio.CancelledError) as error:
                if isinstance(error, ServerError) and not error.unreachable:
                    skipped.append(f"text {number} left out: {error}")
                elif not found:
                    raise
                else:
                    ended = str(error) or "stopped"
                    break
            if tell is not None:
                tell(number, len(texts))
    if not found:
        raise ServerError(f"no text could be replayed: {skipped[0]}")
    records = [record for _, record in sorted(found.items())]
    accepted = [np.array(record.accepted) for record in records]
    share = float(np.concatenate([record.own for record in records]).mean())
    unknown = sum(record.unknown for record in records)
    alpha, replay = estimate_alpha(accepted), ReplayAcceptance(accepted, ends=False)
    return Replayed(mode, alpha, replay, share, unknown, tuple(skipped), ended)


@dataclass(frozen=True)
class _Pair:
    target: _Side
    draft: _Side
    mode: Mode
    max_tokens: int
    seed: int
    chat: bool

    async def text(self, number: int, prompt: str, response: str | None) -> _Record:
        """One text, by its ids; by its words on servers that know no ids."""
        top = self.mode != "sampled"
        try:
            ids, start = await self._ids(number, prompt, response)
        except ServerError as error:
            unknown = "unknown" in (self.target.engine, self.draft.engine)
            if not (unknown and error.declined) or response is None or self.chat:
                raise
            target, draft = [
                await echo(side.client, side.model, prompt, response)
                for side in (self.target, self.draft)
            ]
        else:
            target, draft = [
                await score(*side.known, ids, start, only_top=top)
                for side in (self.target, self.draft)
            ]
        accepted = accepted_probabilities(target, draft, self.mode)
        lost = 0 if top else int(np.isnan(target.logprob + draft.logprob).sum())
        return _Record(accepted=accepted.tolist(), own=target.top.tolist(), unknown=lost)

    async def _ids(self, number: int, prompt: str, response: str | None) -> tuple[list[int], int]:
        """(prompt and response, number of the response's first)."""
        before = await prompt_ids(*self.target.known, prompt, chat=self.chat)
        if response is None:
            await self._check_alike(prompt)
            written = await generate(
                *self.target.known, before, temperature=float(self.mode != "greedy"),
                max_tokens=self.max_tokens, seed=self.seed + number,
            )  # fmt: skip
            return [*before, *written], len(before)
        await self._check_alike(prompt + response)
        if self.chat:
            return [*before, *await self.target.ids(response)], len(before)
        whole = await self.target.ids(prompt + response, special=True)
        return whole, max(agreement(before, whole), 1)

    async def _check_alike(self, text: str) -> None:
        """ServerError where the two cut a text differently; BOS apart, which only one may add."""
        _same_cut(await self.target.ids(text), await self.draft.ids(text))
