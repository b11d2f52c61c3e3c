"""Load on a server: a fixed number of streamed requests, a fixed number at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from specmath.checks import FloatArray, InputError, real, whole
from specmath.server.client import ServerError, get_text, open_client
from specmath.server.stream import Streamed, stream_one

if TYPE_CHECKING:
    import httpx

__all__ = ["Load", "LoadPlan", "identify", "run_load"]

MOST_REQUESTS, MOST_AT_ONCE = 10_000, 512
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"

# Several servers say with each chunk how many tokens there were so far; others refuse the question.
EXTRAS: dict[str, dict[str, Any]] = {
    "vllm": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "sglang": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "llama.cpp": {"stream_options": {"include_usage": True}, "timings_per_token": True},
}
PLAIN_EXTRAS: dict[str, Any] = {"stream_options": {"include_usage": True}}


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
        said: dict[str, Any] = (
            {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        )
        return said | {
            "model": model,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed + number,
            "stream": True,
            **extras,
            **self.extra,
        }


@dataclass(frozen=True)
class Load:
    """What came back. `metrics` are the scrapes before and after, None where there is no page."""

    engine: str
    model: str
    plan: LoadPlan
    streams: tuple[Streamed, ...]
    failed: tuple[str, ...]
    seconds: float
    metrics: tuple[str | None, str | None]

    def values(self, name: str) -> FloatArray:
        """`ttft`, `tpot`, `itl_chunk` or `itl_token` in seconds, over requests or gaps."""
        found = [getattr(stream, name) for stream in self.streams]
        parts = [np.atleast_1d(value) for value in found if value is not None]
        return np.concatenate(parts) if parts else np.array([])

    @property
    def exact_tokens(self) -> bool:
        """Whether the tokens of every chunk are known."""
        return all(stream.exact for stream in self.streams)

    def summary(self) -> dict[str, Any]:
        """One result in the fields of `vllm bench serve --save-result`; times in ms.

        `itl` is the gap between chunks there, as that client prints it; `itl_token` is between
        tokens, 0 within a chunk, and left out where the server does not tell them.
        """
        tokens = sum(stream.total for stream in self.streams)
        row: dict[str, Any] = {
            "backend": self.engine,
            "model_id": self.model,
            "seed": self.plan.seed,
            "max_concurrency": self.plan.concurrency,
            "request_rate": "inf",
            "temperature": self.plan.temperature,
            "duration": self.seconds,
            "completed": len(self.streams),
            "failed": len(self.failed),
            "total_output_tokens": tokens,
            "output_throughput": tokens / self.seconds,
        }
        for name, key in (("ttft", "ttft"), ("tpot", "tpot"), ("itl_chunk", "itl"),
                          ("itl_token", "itl_token")):  # fmt: skip
            if name == "itl_token" and not self.exact_tokens:
                continue
            row |= _quantiles(key, self.values(name))
        return row


def _quantiles(key: str, seconds: FloatArray) -> dict[str, float]:
    if not seconds.size:
        return {}
    ms = 1e3 * seconds
    found = {f"mean_{key}_ms": float(ms.mean()), f"std_{key}_ms": float(ms.std())}
    for name, q in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
        found[f"{name}_{key}_ms"] = float(np.quantile(ms, q))
    return found


async def identify(client: httpx.AsyncClient, model: str | None = None) -> tuple[str, str]:
    """(engine, model) of the server, from /v1/models; engine "unknown" where it does not say."""
    text = await get_text(client, "/v1/models")
    if text is None:
        if model is None:
            raise ServerError("the server lists no models at /v1/models: name one with --model")
        return "unknown", model
    try:
        listed = json.loads(text)["data"]
        owner, first = str(listed[0].get("owned_by", "")), str(listed[0]["id"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ServerError("/v1/models answered in a form that is not understood") from error
    engine = {"llamacpp": "llama.cpp"}.get(owner, owner if owner in EXTRAS else "unknown")
    return engine, model or first


async def run_load(
    url: str, plan: LoadPlan, *, tell: Callable[[int, int], None] | None = None
) -> Load:
    """Warm up with one request, scrape, send all, scrape again. `url` as `check_url` gives it.

    Requests that fail are counted; ServerError where all of them do. `tell(done, all)` hears of
    progress.
    """
    async with open_client(url, connections=plan.concurrency + 1) as client:
        engine, model = await identify(client, plan.model)
        path = CHAT if plan.chat else COMPLETION
        extras = await _warmed_up(client, path, plan, engine, model)
        before = await get_text(client, "/metrics")
        begun = time.perf_counter()
        streams, failed = await _send(client, path, plan, model, extras, tell)
        seconds = time.perf_counter() - begun
        after = await get_text(client, "/metrics")
    if not streams:
        first = failed[0] if failed else "none was sent"
        raise ServerError(f"all {len(failed)} requests failed: {first}")
    return Load(engine, model, plan, tuple(streams), tuple(failed), seconds, (before, after))


async def _warmed_up(
    client: httpx.AsyncClient, path: str, plan: LoadPlan, engine: str, model: str
) -> Mapping[str, Any]:
    """One short request; the extras that the server takes."""
    tries = [EXTRAS[engine]] if engine in EXTRAS else [EXTRAS["vllm"]]
    for extras in (*tries, PLAIN_EXTRAS, {}):
        body = plan.body(0, model, extras) | {"max_tokens": min(plan.max_tokens, 8)}
        try:
            await stream_one(client, path, body)
        except ServerError as error:
            if " answered 4" not in str(error) or not extras:
                raise
        else:
            return extras
    return {}


async def _send(
    client: httpx.AsyncClient, path: str, plan: LoadPlan, model: str, extras: Mapping[str, Any],
    tell: Callable[[int, int], None] | None,
) -> tuple[list[Streamed], list[str]]:  # fmt: skip
    streams: list[Streamed] = []
    failed: list[str] = []
    waiting = iter(range(plan.requests))
    until = time.monotonic() + plan.seconds

    async def worker() -> None:
        for number in waiting:
            if time.monotonic() > until:
                return
            try:
                found = await stream_one(client, path, plan.body(number, model, extras))
            except ServerError as error:
                failed.append(str(error))
            else:
                if found is None:
                    failed.append("a request brought no token")
                else:
                    streams.append(found)
            if tell is not None:
                tell(len(streams) + len(failed), plan.requests)

    await asyncio.gather(*(worker() for _ in range(min(plan.concurrency, plan.requests))))
    return streams, failed
