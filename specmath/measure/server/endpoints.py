"""How each engine is asked: a text as ids, a prompt that is read, plain steps that are written.

    llama.cpp   /tokenize, /completion      its own clock: timings.prompt_ms, predicted_ms
    SGLang      /tokenize, /generate        its own clock: meta_info.e2e_latency, of the request
    vLLM, other /tokenize, /v1/completions  our clock, on the way there and back

Each answer says how many tokens of the prompt came from the prefix cache, where the engine tells.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, Field, TypeAdapter

from specmath.checks import InputError
from specmath.foreign import json_of, of_type
from specmath.measure.server.client import ServerError, get_text, post
from specmath.measure.server.load import identify

if TYPE_CHECKING:
    import httpx

__all__ = [
    "ENGINES", "Endpoint", "Id", "PromptRead", "endpoint_of", "head_share", "prompt_ids",
    "token_ids",
]  # fmt: skip

Id = Annotated[int, Field(strict=True, ge=0, le=2**31)]
Ids = Sequence[int]
_Count = Annotated[int, Field(ge=0, le=10**9)]
_Milliseconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class _Tokens(BaseModel):
    tokens: list[Id] = Field(max_length=10_000_000)


class _Templated(BaseModel):
    prompt: str


class _LlamaTimings(BaseModel):
    prompt_n: _Count
    prompt_ms: _Milliseconds
    predicted_n: _Count = 0
    predicted_ms: _Milliseconds = 0.0
    draft_n: _Count = 0


class _LlamaAnswer(BaseModel):
    timings: _LlamaTimings


class _Meta(BaseModel):
    n_vocab: int = Field(ge=1, le=10**9)
    n_embd: int = Field(ge=1, le=10**9)
    n_params: int = Field(ge=1, le=10**15)


class _Sized(BaseModel):
    meta: _Meta


class _Sizes(BaseModel):
    data: list[_Sized] = Field(min_length=1)


class _Details(BaseModel):
    cached_tokens: _Count | None = None


class _Usage(BaseModel):
    prompt_tokens: _Count
    completion_tokens: _Count = 0
    prompt_tokens_details: _Details | None = None


class _OpenAiAnswer(BaseModel):
    usage: _Usage


class _MetaInfo(BaseModel):
    prompt_tokens: _Count
    completion_tokens: _Count
    cached_tokens: _Count | None = None
    e2e_latency: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    spec_verify_ct: _Count = 0


class _SglangAnswer(BaseModel):
    meta_info: _MetaInfo


_TOKENS, _LLAMA = TypeAdapter(_Tokens), TypeAdapter(_LlamaAnswer)
_TEMPLATED, _SIZES = TypeAdapter(_Templated), TypeAdapter(_Sizes)
_OPENAI, _SGLANG = TypeAdapter(_OpenAiAnswer), TypeAdapter(_SglangAnswer)


@dataclass(frozen=True)
class PromptRead:
    """A prompt read and `written` tokens after it: seconds, tokens of the prompt that came from the
    cache (None: not told), and what says that the server drafted meanwhile ("": nothing)."""

    seconds: float
    cached: int | None
    written: int
    drafted: str = ""


@dataclass(frozen=True)
class Endpoint(ABC):
    """One served model. `own_clock`: times are the server's; else ours, over the connection.

    `block`: the prefix cache keeps whole blocks whose size divides this number of tokens.
    """

    client: httpx.AsyncClient
    engine: str
    model: str
    clock: Callable[[], float] = time.perf_counter
    own_clock: ClassVar[bool] = False
    block: ClassVar[int] = 1

    @abstractmethod
    async def write(self, ids: Ids, tokens: int) -> PromptRead:
        """Read the prompt and write so many tokens, greedily and past any end of text."""

    async def read(self, ids: Ids) -> PromptRead:
        """Read the prompt, up to its first token."""
        return await self.write(ids, 1)

    async def step_seconds(self, ids: Ids, tokens: int) -> float:
        """Mean seconds of the plain steps that write `tokens` tokens, the first not counted.

        All but the prompt's last token must be in the cache. ServerError where the server drafts
        meanwhile and its answer says so.
        """
        first = await self.read(ids)
        found = self._plain(await self.write(ids, tokens))
        return _over_steps(found.seconds - first.seconds, found.written)

    def _plain(self, found: PromptRead) -> PromptRead:
        if found.drafted:
            raise ServerError(
                f"{self.client.base_url} drafts ({found.drafted}): plain steps are needed, so give "
                "the same model served without speculation"
            )
        return found


class LlamaCpp(Endpoint):
    """llama.cpp's server, by /completion: `seconds` are those of the prompt."""

    own_clock: ClassVar[bool] = True

    async def write(self, ids: Ids, tokens: int) -> PromptRead:
        return self._read_of(await self._timings(ids, tokens), len(ids))

    async def step_seconds(self, ids: Ids, tokens: int) -> float:
        timings = await self._timings(ids, tokens)
        self._plain(self._read_of(timings, len(ids)))
        # Some versions print the time over all tokens; the first came with the prompt.
        return _over_steps(timings.predicted_ms / 1e3, timings.predicted_n)

    def _read_of(self, timings: _LlamaTimings, size: int) -> PromptRead:
        drafted = f"timings.draft_n is {timings.draft_n}" if timings.draft_n else ""
        seconds, cached = timings.prompt_ms / 1e3, size - timings.prompt_n
        return PromptRead(seconds, cached, timings.predicted_n, drafted)

    async def _timings(self, ids: Ids, tokens: int) -> _LlamaTimings:
        body = {
            "prompt": list(ids), "n_predict": tokens, "temperature": 0.0, "ignore_eos": True,
            "cache_prompt": True, "id_slot": 0,
        }  # fmt: skip
        answer = await post(self.client, "/completion", body)
        return of_type(_LLAMA, "/completion", answer, ServerError).timings


class Sglang(Endpoint):
    """SGLang, by its native /generate."""

    own_clock: ClassVar[bool] = True
    block: ClassVar[int] = 64

    async def write(self, ids: Ids, tokens: int) -> PromptRead:
        sampling = {"max_new_tokens": tokens, "temperature": 0.0, "ignore_eos": True}
        body = {"input_ids": list(ids), "sampling_params": sampling}
        begun = self.clock()
        answer = await post(self.client, "/generate", body)
        spent = self.clock() - begun
        info = of_type(_SGLANG, "/generate", answer, ServerError).meta_info
        calls = info.spec_verify_ct
        drafted = f"meta_info.spec_verify_ct is {calls}" if calls else ""
        seconds = spent if info.e2e_latency is None else info.e2e_latency
        return PromptRead(seconds, info.cached_tokens, info.completion_tokens, drafted)


class Vllm(Endpoint):
    """vLLM, and whatever else takes ids at /v1/completions."""

    block: ClassVar[int] = 256

    async def write(self, ids: Ids, tokens: int) -> PromptRead:
        body = {
            "model": self.model, "prompt": list(ids), "max_tokens": tokens, "temperature": 0.0,
            "ignore_eos": True,
        }  # fmt: skip
        begun = self.clock()
        answer = await post(self.client, "/v1/completions", body)
        spent = self.clock() - begun
        usage = of_type(_OPENAI, "/v1/completions", answer, ServerError).usage
        details = usage.prompt_tokens_details
        cached = None if details is None else details.cached_tokens
        return PromptRead(spent, cached, usage.completion_tokens)


ENGINES: Mapping[str, type[Endpoint]] = {
    "llama.cpp": LlamaCpp, "sglang": Sglang, "vllm": Vllm,
}  # fmt: skip


async def endpoint_of(
    client: httpx.AsyncClient, model: str | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Endpoint:  # fmt: skip
    """The server behind the client, asked as its engine documents it; as vLLM where unknown."""
    engine, name = await identify(client, model)
    return ENGINES.get(engine, Vllm)(client, engine, name, clock)


async def head_share(client: httpx.AsyncClient) -> float | None:
    """The output head's part of the parameters, as llama.cpp's list of models tells its sizes."""
    with suppress(InputError):
        text = await get_text(client, "/v1/models")
        meta = of_type(_SIZES, "/v1/models", json_of("/v1/models", text or "")).data[0].meta
        share = meta.n_vocab * meta.n_embd / meta.n_params
        return share if share < 1 else None
    return None


async def token_ids(
    client: httpx.AsyncClient, engine: str, model: str, text: str, *, special: bool = True
) -> list[int]:
    """The text as ids; `special` puts BOS before it where the tokenizer does so."""
    body: dict[str, Any] = {"model": model, "prompt": text, "add_special_tokens": special}
    if engine == "llama.cpp":
        body = {"content": text, "add_special": special}
    answer = await post(client, "/tokenize", body)
    return of_type(_TOKENS, "/tokenize", answer, ServerError).tokens


async def prompt_ids(
    client: httpx.AsyncClient, engine: str, model: str, prompt: str, *, chat: bool = False
) -> list[int]:
    """The prompt as ids; `chat` wraps it as a user's message in the model's own template."""
    if not chat:
        return await token_ids(client, engine, model, prompt)
    messages = [{"role": "user", "content": prompt}]
    if engine == "llama.cpp":
        answer = await post(client, "/apply-template", {"messages": messages})
        wrapped = of_type(_TEMPLATED, "/apply-template", answer, ServerError).prompt
        return await token_ids(client, engine, model, wrapped)
    body = {"model": model, "messages": messages, "add_generation_prompt": True}
    answer = await post(client, "/tokenize", body)
    return of_type(_TOKENS, "/tokenize", answer, ServerError).tokens


def _over_steps(seconds: float, tokens: int) -> float:
    if tokens < 2 or seconds <= 0:
        raise ServerError(f"no plain step could be timed: {tokens} tokens in {seconds:g} s")
    return seconds / (tokens - 1)
