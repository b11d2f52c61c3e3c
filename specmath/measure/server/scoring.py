"""Log-probabilities that a server gives to tokens that are already written, and writing them.

A text is asked for by its ids wherever the engine takes them, so that no BOS, no stripped space and
no rendering of a token shifts anything:

    vLLM        /v1/completions with prompt_logprobs: a map id → {logprob, rank} a token
    SGLang      /generate with logprob_start_len: [logprob, id, text] a token
    llama.cpp   /completion, one request a token, its prefix cached, the most probable N listed
    other       as vLLM; else the echo of a text with logprobs, OpenAI's old form

All are of the model itself, before temperature and filters. What a server writes is drawn from the
whole distribution: its own defaults (top-k, top-p, min-p, penalties) are switched off.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter

from specmath.checks import FloatArray
from specmath.foreign import of_type
from specmath.measure.server.client import ServerError, post
from specmath.measure.server.endpoints import Id
from specmath.measure.server.stream import first_choice

if TYPE_CHECKING:
    import httpx

__all__ = ["Scored", "echo", "generate", "score"]

COMPLETIONS = "/v1/completions"
LISTED = 4000
"""Tokens that llama.cpp lists for a position; of an actual token below them nothing is known."""

Row = tuple[str, float | None, bool]
"""A token, its log-probability where the server gave one, whether it is the most probable."""


class _Echo(BaseModel):
    """OpenAI's lists, one entry a token."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]


class _Ranked(BaseModel):
    logprob: float
    rank: int | None = None


class _Listed(BaseModel):
    id: Id
    logprob: float


class _Position(BaseModel):
    top_logprobs: list[_Listed]


class _Completion(BaseModel):
    completion_probabilities: list[_Position] = Field(min_length=1)


class _MetaInfo(BaseModel):
    """SGLang's: the first entry of both lists has no probability."""

    input_token_logprobs: list[tuple[float | None, Id, str | None]]
    input_top_logprobs: list[list[tuple[float | None, Id, str | None]] | None]


class _Scores(BaseModel):
    meta_info: _MetaInfo


class _Written(BaseModel):
    """Ids that were written, under the names of the three engines."""

    tokens: list[Id] | None = None
    output_ids: list[Id] | None = None
    token_ids: list[Id] | None = None


_ECHO, _COMPLETION, _SCORES = TypeAdapter(_Echo), TypeAdapter(_Completion), TypeAdapter(_Scores)
_WRITTEN = TypeAdapter(_Written)
_PROMPT: TypeAdapter[list[dict[str, _Ranked] | None]] = TypeAdapter(list[dict[str, _Ranked] | None])


@dataclass(frozen=True)
class Scored:
    """The tokens of a text, from the first that counts: logprob[t] of the actual token (nan where
    the server gave none), whether it was the most probable one."""

    tokens: tuple[str, ...]
    logprob: FloatArray
    top: np.ndarray


async def score(
    client: httpx.AsyncClient, engine: str, model: str, ids: Sequence[int], start: int,
    *, only_top: bool = False,
) -> Scored:  # fmt: skip
    """Score the ids from number `start` on, at least 1. ServerError where the server cannot.

    `only_top` asks no more than whether each is the most probable, where that is cheaper.
    """
    if not 1 <= start < len(ids):
        raise ServerError("the scored text holds no token beyond the prompt's")
    ask = _SCORERS.get(engine, _prompt_logprobs)
    return _scored(await ask(client, model, list(ids), start, only_top))


async def _prompt_logprobs(
    client: httpx.AsyncClient, model: str, ids: list[int], start: int, _: bool
) -> list[Row]:
    body = {
        "model": model, "prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 1,
    }  # fmt: skip
    listed = _choice(await post(client, COMPLETIONS, body)).get("prompt_logprobs")
    if listed is None:
        raise ServerError(f"{client.base_url} scores no text: it answered no prompt_logprobs")
    entries = of_type(_PROMPT, "prompt_logprobs", listed, ServerError)
    if len(entries) != len(ids):
        raise ServerError(f"prompt_logprobs must be of {len(ids)} tokens, got {len(entries)}")
    rows: list[Row] = []
    for token, entry in zip(ids[start:], entries[start:], strict=True):
        found = (entry or {}).get(str(token))
        if found is None:
            raise ServerError(f"prompt_logprobs must hold token {token} where it stands")
        rows.append((str(token), found.logprob, found.rank == 1))
    return rows


async def _native(
    client: httpx.AsyncClient, _model: str, ids: list[int], start: int, _: bool
) -> list[Row]:
    """SGLang: what it returns begins with the token before, of which it gives nothing."""
    answer = await post(client, "/generate", {
        "input_ids": ids, "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        "return_logprob": True, "logprob_start_len": start - 1, "top_logprobs_num": 1,
    })  # fmt: skip
    found = of_type(_SCORES, "/generate", answer, ServerError).meta_info
    own, best = found.input_token_logprobs, found.input_top_logprobs
    count = len(ids) - start
    scored, top = own[-count:], best[-count:]
    if [token for _, token, _ in scored] != ids[start:] or len(top) != count:
        raise ServerError("input_token_logprobs must end with the tokens that were sent")
    return [
        (str(token), value, first is not None and [row[1] for row in first[:1]] == [token])
        for (value, token, _), first in zip(scored, top, strict=True)
    ]


async def _one_by_one(
    client: httpx.AsyncClient, _model: str, ids: list[int], start: int, only_top: bool
) -> list[Row]:
    rows: list[Row] = []
    for at in range(start, len(ids)):
        answer = await post(client, "/completion", {
            "prompt": ids[:at], "n_predict": 1, "n_probs": 1 if only_top else LISTED,
            "temperature": 1.0, "cache_prompt": True,
        })  # fmt: skip
        completion = of_type(_COMPLETION, "/completion", answer, ServerError)
        listed = completion.completion_probabilities[0].top_logprobs
        found = {row.id: row.logprob for row in listed}
        best = max(found, key=lambda i: found[i], default=None)
        rows.append((str(ids[at]), found.get(ids[at]), best == ids[at]))
    return rows


_Scorer = Callable[["httpx.AsyncClient", str, list[int], int, bool], Awaitable[list[Row]]]
_SCORERS: Mapping[str, _Scorer] = {
    "vllm": _prompt_logprobs, "sglang": _native, "llama.cpp": _one_by_one,
}  # fmt: skip


async def echo(client: httpx.AsyncClient, model: str, prompt: str, response: str) -> Scored:
    """Score `response` after `prompt` by their text, on a server that takes no ids.

    What it echoes must read as the text, but for what a tokenizer puts before it (BOS).
    """
    body = {
        "model": model, "prompt": prompt + response, "max_tokens": 1, "temperature": 0.0,
        "echo": True, "logprobs": 1,
    }  # fmt: skip
    logs = _choice(await post(client, COMPLETIONS, body)).get("logprobs")
    if not isinstance(logs, Mapping):
        raise ServerError(f"{client.base_url} scores no text: it echoes no log-probabilities")
    found = of_type(_ECHO, "logprobs", logs, ServerError)
    lists = (found.tokens, found.token_logprobs, found.top_logprobs)
    if len({len(each) for each in lists}) != 1:
        raise ServerError("the echoed log-probabilities are not in OpenAI's form")
    before = "".join(found.tokens).find(prompt + response)
    if before < 0:
        raise ServerError("the echoed tokens do not read as the text that was sent")
    start, end = before + len(prompt), before + len(prompt) + len(response)
    rows: list[Row] = []
    at = 0
    for token, value, best in zip(*lists, strict=True):
        if start <= at < end:
            most = max((best or {}).values(), default=math.inf)
            rows.append((token, value, value is not None and value >= most - 1e-6))
        at += len(token)
    return _scored(rows)


# ── writing ──────────────────────────────────────────────────────────────────────────────────

_OPENAI_WHOLE = {
    "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}  # fmt: skip
_LLAMA_WHOLE = {
    "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "dry_multiplier": 0.0,
    "xtc_probability": 0.0, "mirostat": 0, "dynatemp_range": 0.0,
}  # fmt: skip


async def generate(
    client: httpx.AsyncClient, engine: str, model: str, ids: Sequence[int], *, temperature: float,
    max_tokens: int, seed: int,
) -> list[int]:  # fmt: skip
    """The ids that the server writes after these, from its whole distribution."""
    if engine == "llama.cpp":
        path, body = "/completion", {
            "prompt": list(ids), "n_predict": max_tokens, "temperature": temperature, "seed": seed,
            "return_tokens": True, **_LLAMA_WHOLE,
        }  # fmt: skip
    elif engine == "sglang":
        sampling = _OPENAI_WHOLE | {"max_new_tokens": max_tokens, "temperature": temperature}
        path, body = "/generate", {"input_ids": list(ids), "sampling_params": sampling}
    else:
        path, body = COMPLETIONS, {
            "model": model, "prompt": list(ids), "max_tokens": max_tokens, "seed": seed,
            "temperature": temperature, "return_token_ids": True, **_OPENAI_WHOLE,
        }  # fmt: skip
    answer = await post(client, path, body)
    said = of_type(_WRITTEN, path, _choice(answer) if path == COMPLETIONS else answer, ServerError)
    found = said.tokens or said.output_ids or said.token_ids
    if not found:
        raise ServerError(
            f"{path} does not say which tokens it wrote: give the responses (--texts), or a newer "
            "version of the server"
        )
    return found


def _choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if choice := first_choice(answer):
        return choice
    raise ServerError(f"{COMPLETIONS} answered without choices")


def _scored(rows: list[Row]) -> Scored:
    if not rows:
        raise ServerError("the scored text holds no token beyond the prompt's")
    tokens, values, top = zip(*rows, strict=True)
    logs = np.array([math.nan if value is None else value for value in values], dtype=float)
    if np.any(logs > 1e-3):
        raise ServerError("log-probabilities must be <= 0, got one above")
    return Scored(tokens, np.minimum(logs, 0.0), np.array(top))
