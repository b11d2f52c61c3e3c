"""One streamed request: when its first token came, the gaps between chunks and between tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from specmath.checks import FloatArray
from specmath.server.client import stream_post

if TYPE_CHECKING:
    import httpx

__all__ = ["Streamed", "stream_one", "tokens_so_far"]


@dataclass(frozen=True)
class Streamed:
    """Seconds from sending. `tokens[i]` came with the chunk at `times[i]`.

    `exact` tells whether the server said how many tokens each chunk held; else each chunk counts
    as one and only `total`, from the usage at the end, is exact. `timings` is llama.cpp's own.
    """

    times: FloatArray
    tokens: np.ndarray
    total: int
    exact: bool
    timings: Mapping[str, float]

    @property
    def ttft(self) -> float:
        """Time to the first chunk with a token."""
        return float(self.times[0])

    @property
    def e2e(self) -> float:
        """Time to the last one."""
        return float(self.times[-1])

    @property
    def tpot(self) -> float | None:
        """(e2e − time of the first token) / (tokens − 1); None with one token.

        The first chunk may hold several tokens: they came together, with the first.
        """
        return (self.e2e - self.ttft) / (self.total - 1) if self.total > 1 else None

    @property
    def itl_chunk(self) -> FloatArray:
        """Gaps between the chunks."""
        return np.diff(self.times)

    @property
    def itl_token(self) -> FloatArray | None:
        """Gaps between tokens: a chunk's gap, then 0 for each further token of it; None if the
        server does not say how many tokens a chunk holds."""
        if not self.exact:
            return None
        gaps = [np.zeros(int(self.tokens[0]) - 1)]
        for gap, count in zip(self.itl_chunk, self.tokens[1:], strict=True):
            gaps.append(np.append(gap, np.zeros(int(count) - 1)))
        return np.concatenate(gaps)


def tokens_so_far(event: Mapping[str, Any]) -> int | None:
    """Tokens generated up to this chunk, where the server says (usage or llama.cpp's timings)."""
    usage, timings = event.get("usage"), event.get("timings")
    if isinstance(usage, Mapping) and isinstance(usage.get("completion_tokens"), int):
        return int(usage["completion_tokens"])
    if isinstance(timings, Mapping) and isinstance(timings.get("predicted_n"), int):
        return int(timings["predicted_n"])
    return None


def _in_chunk(event: Mapping[str, Any]) -> tuple[bool, int | None]:
    """(whether the chunk carries output, how many tokens by its ids or log-probabilities)."""
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return False, None
    choice = choices[0]
    delta = choice.get("delta")
    delta = delta if isinstance(delta, Mapping) else {}
    text = choice.get("text") or delta.get("content") or delta.get("reasoning_content")
    ids, logs = choice.get("token_ids"), choice.get("logprobs")
    count = len(ids) if isinstance(ids, list) else None
    if count is None and isinstance(logs, Mapping):
        listed = logs.get("content", logs.get("tokens"))
        count = len(listed) if isinstance(listed, list) else None
    return bool(text) or bool(count), count


async def stream_one(
    client: httpx.AsyncClient,
    path: str,
    body: dict[str, Any],
    clock: Callable[[], float] = time.perf_counter,
) -> Streamed | None:
    """Send one request and read its stream; None where it brought no token."""
    begun = clock()
    times: list[float] = []
    tokens: list[int] = []
    total, exact, stopped, timings = 0, True, False, {}
    async for event in stream_post(client, path, body):
        now = clock() - begun
        output, count = _in_chunk(event)
        so_far = tokens_so_far(event)
        if isinstance(event.get("timings"), dict):
            timings = event["timings"]
        stopped = stopped or _finish(event) == "stop"
        if output:
            if so_far is not None:
                count = so_far - total
            exact = exact and count is not None
            times.append(now)
            tokens.append(max(count or 1, 1))
            total += tokens[-1]
        if so_far is not None:
            total = max(total, so_far)
    if not times:
        return None
    exact, total = _settled(tokens, total, exact, stopped)
    numbers = {k: float(v) for k, v in timings.items() if isinstance(v, (int, float))}
    return Streamed(np.array(times), np.array(tokens), total, exact, numbers)


def _settled(tokens: list[int], total: int, exact: bool, stopped: bool) -> tuple[bool, int]:
    """(whether the tokens of each chunk are known, all tokens).

    A stop token is counted by the server but has no text: one more than was shown is right then.
    Chunks of which nothing is said hold one token each if the usage counts as many.
    """
    spare = total - sum(tokens)
    return exact or spare == 0 or (stopped and spare == 1), total


def _finish(event: Mapping[str, Any]) -> str | None:
    choices = event.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        return choices[0].get("finish_reason")
    return None
