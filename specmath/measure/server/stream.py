"""One streamed request: when its first token came, the gaps between chunks and between tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, model_validator

from specmath.checks import FloatArray
from specmath.foreign import of_type
from specmath.measure.server.client import stream_post

if TYPE_CHECKING:
    import httpx

__all__ = ["Streamed", "first_choice", "stream_one"]

MOST_TOKENS = 1_000_000
"""Of one request; a count beyond it is none."""


@dataclass(frozen=True)
class Streamed:
    """Seconds from sending. `tokens[i]` came with the chunk at `times[i]`.

    `exact` tells whether the server said how many tokens each chunk held; else each chunk counts
    as one and only `total`, from the usage at the end, is exact. Not `counted`: no usage came
    either, and `total` is the number of chunks. `timings` is llama.cpp's own.
    """

    times: FloatArray
    tokens: np.ndarray
    total: int
    exact: bool
    timings: Mapping[str, float]
    counted: bool = True

    def record(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return {
            "times": self.times.tolist(), "tokens": self.tokens.tolist(), "total": self.total,
            "exact": self.exact, "timings": dict(self.timings), "counted": self.counted,
        }  # fmt: skip

    @classmethod
    def of(cls, record: Any) -> Streamed:
        """From a checkpoint; InputError where it is none."""
        found = of_type(_RECORD, "a request of the checkpoint", record)
        return cls(
            np.array(found.times),
            np.array(found.tokens),
            found.total,
            found.exact,
            found.timings,
            found.counted,
        )

    @property
    def ttft(self) -> float:
        """Time to the first chunk with a token."""
        return float(self.times[0])

    @property
    def tpot(self) -> float | None:
        """(time of the last token − that of the first) / (tokens − 1); None with one token, and
        where nobody says how many there were.

        The first chunk may hold several tokens: they came together, with the first.
        """
        if not self.counted or self.total < 2:
            return None
        return float(self.times[-1] - self.times[0]) / (self.total - 1)

    @property
    def itl_chunk(self) -> FloatArray:
        """Gaps between the chunks."""
        return np.diff(self.times)

    @property
    def itl_token(self) -> FloatArray | None:
        """Gaps between tokens: a chunk's gap, then 0 for each further token of it; None if the
        server does not say how many tokens a chunk holds."""
        return np.diff(np.repeat(self.times, self.tokens)) if self.exact else None


_Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=MOST_TOKENS)]


class _Record(BaseModel):
    times: list[_Seconds] = Field(min_length=1)
    tokens: list[_Count]
    total: _Count
    exact: bool
    timings: dict[str, float]
    counted: bool

    @model_validator(mode="after")
    def _alike(self) -> Self:
        if len(self.times) != len(self.tokens):
            raise ValueError(f"times and tokens must be as many, got {len(self.times)}")
        return self


_RECORD = TypeAdapter(_Record)


def _tokens_so_far(event: Mapping[str, Any]) -> int | None:
    """Tokens generated up to this chunk, where the server says (usage or llama.cpp's timings)."""
    for block, key in (("usage", "completion_tokens"), ("timings", "predicted_n")):
        count = _object(event.get(block)).get(key)
        if type(count) is int and 0 <= count <= MOST_TOKENS:
            return count
    return None


def first_choice(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice of a chunk or of an answer; empty where it has none."""
    choices = event.get("choices")
    return _object(choices[0]) if isinstance(choices, list) and choices else {}


def _object(found: Any) -> Mapping[str, Any]:
    """Itself where it is an object; else an empty one."""
    return found if isinstance(found, Mapping) else {}


def _in_chunk(event: Mapping[str, Any]) -> tuple[bool, int | None]:
    """(whether the chunk carries output, how many tokens by its ids or log-probabilities)."""
    choice = first_choice(event)
    delta, logs = _object(choice.get("delta")), _object(choice.get("logprobs"))
    text = choice.get("text") or delta.get("content") or delta.get("reasoning_content")
    lists = (choice.get("token_ids"), logs.get("content", logs.get("tokens")))
    count = next((len(listed) for listed in lists if isinstance(listed, list)), None)
    return bool(text) or bool(count), count


async def stream_one(
    client: httpx.AsyncClient, path: str, body: dict[str, Any],
    clock: Callable[[], float] = time.perf_counter,
) -> Streamed | None:  # fmt: skip
    """Send one request and read its stream; None where it brought no token."""
    begun = clock()
    times: list[float] = []
    tokens: list[int] = []
    total, exact, stopped, told, timings = 0, True, False, False, {}
    async for event in stream_post(client, path, body):
        now = clock() - begun
        output, count = _in_chunk(event)
        so_far = _tokens_so_far(event)
        told = told or so_far is not None
        if isinstance(event.get("timings"), dict):
            timings = event["timings"]
        stopped = stopped or first_choice(event).get("finish_reason") == "stop"
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
    # A stop token is counted by the server but has no text: one more than was shown is right then.
    # Chunks of which nothing is said hold one token each if the usage counts as many.
    exact = exact or (told and total - sum(tokens) in ((0, 1) if stopped else (0,)))
    numbers = {k: float(v) for k, v in timings.items() if type(v) in (int, float) and abs(v) < 1e15}
    return Streamed(np.array(times), np.array(tokens), total, exact, numbers, exact or told)
