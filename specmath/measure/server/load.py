"""Load on a server: a fixed number of streamed requests, a fixed number at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter

from specmath.checks import FloatArray, InputError, plain_text, real, whole
from specmath.foreign import json_of, of_type
from specmath.measure.server.client import ServerError, get_text, open_client, without_key
from specmath.measure.server.stream import Streamed, stream_one

if TYPE_CHECKING:
    import httpx

Tell = Callable[[int, int], None]
"""Hears of progress: how many are done, of how many."""

__all__ = ["Kept", "Load", "LoadPlan", "identify", "run_load"]

MOST_REQUESTS, MOST_AT_ONCE = 10_000, 512
GONE = 8
"""Requests in a row that reach nobody, after which the server is taken for gone."""
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"

# Several servers say with each chunk how many tokens there were so far; others refuse the question.
COUNTED = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
EXTRAS: dict[str, dict[str, Any]] = {
    "vllm": COUNTED, "sglang": COUNTED,
    "llama.cpp": {"stream_options": {"include_usage": True}, "timings_per_token": True},
}  # fmt: skip
TIMES = {"ttft": "ttft", "tpot": "tpot", "itl_chunk": "itl", "itl_token": "itl_token"}
"""Fields of a stream, as `vllm bench serve` calls them."""
PLAIN_EXTRAS: dict[str, Any] = {"stream_options": {"include_usage": True}}


class _Served(BaseModel):
    id: str
    owned_by: str | None = None


class _Listed(BaseModel):
    """What /v1/models answers."""

    data: list[_Served] = Field(min_length=1)


_LISTED = TypeAdapter(_Listed)


@dataclass(frozen=True)
class LoadPlan:
    """What to send. `prompts` are taken in turn; `extra` is merged into each request's body.

    requests [1, 10,000], concurrency [1, 512], max_tokens ≥ 1, temperature ≥ 0, seconds > 0: no
    request starts after that time.
    """

    prompts: Sequence[str]
    requests: int = 16
    concurrency: int = 1
    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0
    model: str | None = None
    chat: bool = True
    seconds: float = 600.0
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.prompts:
            raise InputError("prompts must hold at least one, got none")
        whole("requests", self.requests, 1, MOST_REQUESTS)
        whole("concurrency", self.concurrency, 1, MOST_AT_ONCE)
        whole("max_tokens", self.max_tokens, 1, 1_000_000)
        real("temperature", self.temperature, 0, 10)
        real("seconds", self.seconds, 0, low_open=True)

    def body(self, number: int, model: str, extras: Mapping[str, Any]) -> dict[str, Any]:
        """The body of request `number`."""
        prompt = self.prompts[number % len(self.prompts)]
        said = {"messages": [{"role": "user", "content": prompt}]}
        return (said if self.chat else {"prompt": prompt}) | {
            "model": model, "max_tokens": self.max_tokens, "temperature": self.temperature,
            "seed": self.seed + number, "stream": True, **extras, **self.extra,
        }  # fmt: skip


@dataclass(frozen=True)
class Load:
    """What came back. `metrics` are the scrapes before and after, None where there is no page.

    `taken`: requests that came from a checkpoint, which the metrics do not hold. `stopped`: the run
    ended early, by a signal.
    """

    engine: str
    model: str
    plan: LoadPlan
    streams: tuple[Streamed, ...]
    failed: tuple[str, ...]
    seconds: float
    metrics: tuple[str | None, str | None]
    taken: int = 0
    stopped: bool = False

    def values(self, name: str) -> FloatArray:
        """One of `TIMES` in seconds, over requests or gaps."""
        found = [getattr(stream, name) for stream in self.streams]
        parts = [np.atleast_1d(value) for value in found if value is not None]
        return np.concatenate(parts) if parts else np.array([])

    @property
    def exact_tokens(self) -> bool:
        """Whether the tokens of every chunk are known."""
        return all(stream.exact for stream in self.streams)

    @property
    def counted(self) -> bool:
        """Whether the tokens of every request are known."""
        return all(stream.counted for stream in self.streams)

    def summary(self) -> dict[str, Any]:
        """One result in the fields of `vllm bench serve --save-result`; times in ms.

        `itl` is the gap between chunks there, as that client prints it; `itl_token` is between
        tokens, 0 within a chunk, and left out where the server does not tell them.
        """
        tokens = sum(stream.total for stream in self.streams)
        timed = sum(stream.total for stream in self.streams[self.taken :])
        row: dict[str, Any] = {
            "backend": self.engine, "model_id": self.model, "seed": self.plan.seed,
            "max_concurrency": self.plan.concurrency, "request_rate": "inf",
            "temperature": self.plan.temperature, "duration": self.seconds,
            "completed": len(self.streams), "failed": len(self.failed),
        }  # fmt: skip
        if self.counted:
            row |= {"total_output_tokens": tokens, "output_throughput": timed / self.seconds}
        for name, key in TIMES.items():
            if name != "itl_token" or self.exact_tokens:
                row |= _quantiles(key, self.values(name))
        return row


def _quantiles(key: str, seconds: FloatArray) -> dict[str, float]:
    if not seconds.size:
        return {}
    ms = 1e3 * seconds
    median, p90, p99 = np.quantile(ms, [0.5, 0.9, 0.99])
    found = {"mean": ms.mean(), "std": ms.std(), "median": median, "p90": p90, "p99": p99}
    return {f"{name}_{key}_ms": float(value) for name, value in found.items()}


async def identify(client: httpx.AsyncClient, model: str | None = None) -> tuple[str, str]:
    """(engine, model) of the server, from /v1/models; engine "unknown" where it does not say."""
    text = await get_text(client, "/v1/models")
    if text is None:
        if model is None:
            raise ServerError(
                "the server lists no models at /v1/models: name its model, with --served-model (of "
                "a replay --served-target and --served-draft)"
            )
        return "unknown", model
    listed = of_type(_LISTED, "/v1/models", json_of("/v1/models", text, ServerError), ServerError)
    owner, first = listed.data[0].owned_by or "", plain_text(without_key(listed.data[0].id))
    engine = {"llamacpp": "llama.cpp"}.get(owner, owner if owner in EXTRAS else "unknown")
    return engine, model or first


async def run_load(
    url: str, plan: LoadPlan, *, tell: Tell | None = None, kept: Kept | None = None
) -> Load:  # fmt: skip
    """Warm up with one request, scrape, send all, scrape again. `url` as `check_url` gives it.

    Requests that fail are counted; ServerError where all of them do. `tell(done, all)` hears of
    progress. `kept` holds requests that are finished already, and takes those that finish. When
    the task is cancelled, what has finished comes back.
    """
    kept = kept or Kept()
    async with open_client(url, connections=plan.concurrency + 1) as client:
        engine, model = await identify(client, plan.model)
        path = CHAT if plan.chat else COMPLETION
        extras = await _warmed_up(client, path, plan, engine, model)
        before = await get_text(client, "/metrics")
        begun = time.perf_counter()
        sent = _Sending(client, path, plan, model, extras, kept, tell)
        stopped = await sent.all()
        seconds = time.perf_counter() - begun
        after = await _page(client)
    streams = (*kept.streams, *sent.streams)
    if not streams:
        first = sent.failed[0] if sent.failed else "none was sent"
        raise ServerError(f"all {len(sent.failed)} requests failed: {first}")
    return Load(engine, model, plan, streams, tuple(sent.failed), seconds, (before, after),
                len(kept.streams), stopped)  # fmt: skip


async def _page(client: httpx.AsyncClient) -> str | None:
    """The metrics, None of a server that is gone: what it answered before is kept."""
    with suppress(ServerError):
        return await get_text(client, "/metrics")
    return None


async def _warmed_up(
    client: httpx.AsyncClient, path: str, plan: LoadPlan, engine: str, model: str
) -> Mapping[str, Any]:
    """One short request; the extras that the server takes."""
    for extras in (EXTRAS.get(engine, COUNTED), PLAIN_EXTRAS, {}):
        body = plan.body(0, model, extras) | {"max_tokens": min(plan.max_tokens, 8)}
        try:
            await stream_one(client, path, body)
            break
        except ServerError as error:
            if not error.declined or not extras:
                raise
    return extras


class Kept:
    """Requests that finished in an earlier run of the same plan; `add` hears of those that do now.

    `numbers` are theirs, `streams` what came back.
    """

    def __init__(
        self, found: Mapping[int, Streamed] | None = None,
        add: Callable[[int, Streamed], None] = lambda number, stream: None,
    ) -> None:  # fmt: skip
        self.numbers = frozenset(found or ())
        self.streams = tuple((found or {}).values())
        self.add = add


class _Sending:
    """The requests of a plan that are not kept, so many at a time."""

    def __init__(
        self, client: httpx.AsyncClient, path: str, plan: LoadPlan, model: str,
        extras: Mapping[str, Any], kept: Kept, tell: Tell | None,
    ) -> None:  # fmt: skip
        self.client, self.path, self.plan, self.model = client, path, plan, model
        self.extras, self.kept, self.tell = extras, kept, tell
        self.streams: list[Streamed] = []
        self.failed: list[str] = []
        self.gone = 0
        self.waiting = iter([n for n in range(plan.requests) if n not in kept.numbers])
        self.until = time.monotonic() + plan.seconds

    async def all(self) -> bool:
        """Send them; whether the task was cancelled meanwhile."""
        count = min(self.plan.concurrency, self.plan.requests)
        try:
            await asyncio.gather(*(self._worker() for _ in range(count)))
        except asyncio.CancelledError:
            if not (self.streams or self.kept.streams):
                raise
            return True
        return False

    async def _worker(self) -> None:
        for number in self.waiting:
            if time.monotonic() > self.until or self.gone >= GONE:
                return
            body = self.plan.body(number, self.model, self.extras)
            try:
                found = await stream_one(self.client, self.path, body)
                if found is None:
                    raise ServerError("a request brought no token")
                self.streams.append(found)
                self.kept.add(number, found)
                self.gone = 0
            except ServerError as error:
                self.failed.append(str(error))
                self.gone += error.unreachable
            if self.tell is not None:
                done = len(self.streams) + len(self.failed) + len(self.kept.streams)
                self.tell(done, self.plan.requests)
