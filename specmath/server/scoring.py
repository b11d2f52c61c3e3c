"""Log-probabilities that a server gives to the tokens of a text that is already written.

Three ways to ask, by what the server understands:
    echo            /v1/completions with echo and logprobs (vLLM, SGLang): OpenAI's old form
    prompt_logprobs /v1/completions with prompt_logprobs (vLLM)
    one by one      llama.cpp: one request a token, its prefix cached, the most probable N listed
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from specmath.checks import FloatArray
from specmath.server.client import ServerError, post

if TYPE_CHECKING:
    import httpx

__all__ = ["Scored", "generate", "score"]

COMPLETIONS = "/v1/completions"
LISTED = 4000
"""Tokens that llama.cpp lists for a position; of an actual token below them nothing is known."""


@dataclass(frozen=True)
class Scored:
    """One text's tokens as this server cuts them, from the first after `prompt_tokens`.

    logprob[t] of the actual token (nan where the server gave none), whether it was the most
    probable one, and the token as text or id, to compare two servers' cuts.
    """

    tokens: tuple[str, ...]
    logprob: FloatArray
    top: np.ndarray


async def score(
    client: httpx.AsyncClient, engine: str, model: str, prompt: str, response: str,
    *, only_top: bool = False,
) -> Scored:  # fmt: skip
    """Score `response` after `prompt`, temperature 1. ServerError where the server cannot.

    `only_top` asks no more than whether each token is the most probable, where that is cheaper.
    """
    if engine == "llama.cpp":
        return await _one_by_one(client, prompt, response, 1 if only_top else LISTED)
    body = {"model": model, "prompt": prompt + response, "max_tokens": 1, "temperature": 1.0}
    try:
        answer = await post(client, COMPLETIONS, body | {"echo": True, "logprobs": 1})
        choice = _choice(answer)
        if isinstance(choice.get("logprobs"), Mapping):
            return _from_echo(choice["logprobs"], len(prompt), len(prompt) + len(response))
    except ServerError as error:
        if " answered 4" not in str(error):
            raise
    asked = body | {"prompt_logprobs": 1}
    whole = _prompt_logprobs(await post(client, COMPLETIONS, asked))
    if whole is None:
        raise ServerError(
            f"{client.base_url} scores no text: neither echo with logprobs nor prompt_logprobs "
            "was answered"
        )
    alone: list[Row] | None = []
    if prompt:
        alone = _prompt_logprobs(await post(client, COMPLETIONS, asked | {"prompt": prompt}))
    return _after(whole, alone or [])


async def generate(
    client: httpx.AsyncClient, engine: str, model: str, prompt: str, *, temperature: float,
    max_tokens: int, seed: int,
) -> str:  # fmt: skip
    """Let the server write after `prompt`, from its whole distribution (no top-p, no top-k)."""
    body: dict[str, Any] = {
        "model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": temperature,
        "seed": seed, "top_p": 1.0,
    }  # fmt: skip
    if engine == "llama.cpp":
        body |= {"top_k": 0, "min_p": 0.0}
    return str(_choice(await post(client, COMPLETIONS, body)).get("text") or "")


def _choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise ServerError(f"{COMPLETIONS} answered without choices")
    return choices[0]


def _from_echo(logs: Mapping[str, Any], start: int, end: int) -> Scored:
    """OpenAI's lists: tokens, token_logprobs, top_logprobs (by token), text_offset."""
    try:
        tokens, values = logs["tokens"], logs["token_logprobs"]
        best, offsets = logs["top_logprobs"], logs["text_offset"]
        rows = list(zip(tokens, values, best, offsets, strict=True))
    except (LookupError, TypeError, ValueError) as error:
        raise ServerError("the echoed log-probabilities are not in OpenAI's form") from error
    kept = [row for row in rows if start <= row[3] < end]
    if not kept:
        raise ServerError("the echoed log-probabilities hold no token of the response")
    top = [bool(b) and v is not None and v >= max(b.values()) - 1e-6 for _, v, b, _ in kept]
    return _scored([str(row[0]) for row in kept], [row[1] for row in kept], top)


Row = tuple[str, float | None, bool]


def _prompt_logprobs(answer: Mapping[str, Any]) -> list[Row] | None:
    """vLLM's list: for each token a map id → {logprob, rank}, the actual token first; the first
    token of all is null."""
    listed = _choice(answer).get("prompt_logprobs")
    if not isinstance(listed, list):
        return None
    rows: list[Row] = []
    for entry in listed:
        if entry is None:
            rows.append(("", None, False))
            continue
        try:
            identity, actual = next(iter(entry.items()))
            rows.append((str(identity), float(actual["logprob"]), actual.get("rank") == 1))
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
            raise ServerError("prompt_logprobs are not in vLLM's form") from error
    return rows


def _after(whole: list[Row], alone: list[Row]) -> Scored:
    """The tokens after those that the prompt alone is cut into."""
    pairs = zip(whole, alone, strict=False)
    start = next((i for i, (a, b) in enumerate(pairs) if a[0] != b[0]), len(alone))
    kept = whole[start:]
    if not kept:
        raise ServerError("the scored text holds no token beyond the prompt's")
    return _scored([row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept])


async def _one_by_one(
    client: httpx.AsyncClient, prompt: str, response: str, listed_tokens: int
) -> Scored:
    before = await _tokenize(client, prompt)
    ids = await _tokenize(client, prompt + response)
    start = next(
        (i for i, (a, b) in enumerate(zip(before, ids, strict=False)) if a != b), len(before)
    )
    tokens: list[str] = []
    values: list[float | None] = []
    top: list[bool] = []
    for at in range(max(start, 1), len(ids)):
        answer = await post(client, "/completion", {
            "prompt": ids[:at], "n_predict": 1, "n_probs": listed_tokens, "temperature": 1.0,
            "cache_prompt": True,
        })  # fmt: skip
        try:
            listed = answer["completion_probabilities"][0]["top_logprobs"]
            found = {int(row["id"]): float(row["logprob"]) for row in listed}
        except (LookupError, TypeError, ValueError) as error:
            raise ServerError("/completion answered without completion_probabilities") from error
        tokens.append(str(ids[at]))
        values.append(found.get(ids[at]))
        top.append(bool(found) and max(found, key=lambda i: found[i]) == ids[at])
    if not tokens:
        raise ServerError("the response holds no token beyond the prompt's")
    return _scored(tokens, values, top)


async def _tokenize(client: httpx.AsyncClient, text: str) -> list[int]:
    answer = await post(client, "/tokenize", {"content": text, "add_special": True})
    ids = answer.get("tokens")
    if not isinstance(ids, list) or not all(isinstance(i, int) for i in ids):
        raise ServerError("/tokenize answered without token ids")
    return ids


def _scored(tokens: list[str], values: list[float | None], top: list[bool]) -> Scored:
    logs = np.array([math.nan if value is None else value for value in values], dtype=float)
    if np.any(logs > 1e-3):
        raise ServerError("log-probabilities must be <= 0, got one above")
    return Scored(tuple(tokens), np.minimum(logs, 0.0), np.array(top))
