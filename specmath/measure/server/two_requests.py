"""c and v of a running server from two requests each.

The prefix of a prompt is in the server's cache; what is fresh is read in one pass. So the time of
γ+1 fresh tokens less that of one is what verification costs beyond a plain step:

    v(γ) = 1 + [T(γ+1) − T(1)] / t₀ / (1−f)      c = t₀ of the draft's server / t₀ of the target's

with t₀ the plain step, timed in the same round. A prompt's pass takes one row through the output
head, a verification γ+1: with f the head's share of the parameters, a further token costs 1/(1−f)
of what the prompt shows where products cost by their operations, and next to nothing either way
where they cost by their bytes. What both requests share (connection, scheduling, the draw of one
token) cancels. The medians over rounds carry distribution-free intervals.

Differs from a real verification in that an engine may run a prompt in another kernel or graph than
its decode steps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from specmath.checks import InputError, real, whole
from specmath.estimate import Estimate
from specmath.logs import LogError, read
from specmath.measure.server.client import ServerError, get_text, open_client
from specmath.measure.server.endpoints import (
    Endpoint,
    PromptRead,
    endpoint_of,
    head_share,
    token_ids,
)
from specmath.measure.server.load import Tell
from specmath.measure.server.metrics import grown
from specmath.measure.timing import median_interval

__all__ = ["ReadPlan", "ServerSteps", "time_server"]

SMALLEST_PREFIX = 16
FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class ReadPlan:
    """What to time. `context` tokens are cached before the fresh ones; `steps` plain ones a round.

    γ 1…64, context ≥ 16, rounds ≥ 3, steps ≥ 2.
    """

    gammas: tuple[int, ...] = tuple(range(1, 9))
    context: int = 512
    rounds: int = 15
    steps: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        whole("gamma", list(self.gammas), 1, 64)
        whole("context", self.context, SMALLEST_PREFIX, 1_000_000)
        whole("rounds", self.rounds, FEWEST_ROUNDS, 10_000)
        whole("steps", self.steps, 2, 10_000)


@dataclass(frozen=True)
class ServerSteps:
    """Seconds, one entry a round: plain steps, reads of n fresh tokens, the draft's plain steps.

    `head_share` is f, None where it is unknown: then 0. `context` is the prefix as it was cached;
    `cached` is False where no answer and no metric of the server says that it was.
    """

    engine: str
    model: str
    context: int
    own_clock: bool
    cached: bool
    plain: tuple[float, ...]
    reads: dict[int, tuple[float, ...]]
    draft: tuple[float, ...] = ()
    draft_model: str = ""
    head_share: float | None = None

    @property
    def plain_seconds(self) -> Estimate:
        """t₀."""
        return median_interval(np.array(self.plain))

    @property
    def c(self) -> Estimate | None:
        """One step of the draft over one of the target; None without a draft's server."""
        if not self.draft:
            return None
        return median_interval(np.array(self.draft) / np.array(self.plain))

    @property
    def gammas(self) -> list[int]:
        return [size - 1 for size in sorted(self.reads) if size > 1]

    def verify_cost(self, gamma: int) -> Estimate:
        """v(γ)."""
        more = np.array(self.reads[gamma + 1]) - np.array(self.reads[1])
        rest = 1.0 - (self.head_share or 0.0)
        return median_interval(1.0 + more / np.array(self.plain) / rest)


async def time_server(
    url: str, plan: ReadPlan, texts: Sequence[str], *, draft_url: str | None = None,
    model: str | None = None, draft_model: str | None = None, tell: Tell | None = None,
    head: float | None = None, clock: Callable[[], float] = time.perf_counter,
) -> ServerSteps:  # fmt: skip
    """Time a server without speculation, and the draft's where it is served by itself.

    Rounds go over all sizes in an order of their own, so that a server that slows down slows all.
    ServerError where it drafts, or where its prefix cache does not hold the prefix. Should it fail
    midway, what three rounds or more have timed comes back. `head` is f in [0, 1), None: as the
    server tells its sizes. `clock` is ours, in seconds.
    """
    if not texts:
        raise InputError("texts must hold at least one text, got none")
    if head is not None:
        real("head_share", head, 0, 0.99)
    rng = np.random.default_rng(plan.seed)
    async with open_client(url) as client, open_client(draft_url or url) as other:
        target = await endpoint_of(client, model, clock)
        draft = await endpoint_of(other, draft_model, clock) if draft_url else None
        prefix = await _prefix(target, texts, plan.context)
        known = _Cached(target, len(prefix))
        await known.begin()
        timed = _Timed(target, draft, prefix, plan, rng)
        await timed.warm_up()
        for done in range(1, plan.rounds + 1):
            try:
                await timed.round(known)
            except (ServerError, asyncio.CancelledError) as error:
                gone = not isinstance(error, ServerError) or error.unreachable
                if done <= FEWEST_ROUNDS or not gone:
                    raise
                break
            if tell is not None:
                tell(done, plan.rounds)
        cached = await known.end(timed.requests)
        head = await head_share(client) if head is None else head
    return ServerSteps(
        target.engine, target.model, len(prefix), target.own_clock, cached, tuple(timed.plain),
        {size: tuple(seconds) for size, seconds in timed.reads.items()}, tuple(timed.draft_steps),
        draft.model if draft else "", head,
    )  # fmt: skip


class _Timed:
    """Whole rounds: what a round that breaks off had timed is left out."""

    def __init__(
        self, target: Endpoint, draft: Endpoint | None, prefix: list[int], plan: ReadPlan,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.target, self.draft, self.prefix, self.plan = target, draft, prefix, plan
        self.rng = rng
        self.unseen = rng.permutation(sorted(set(prefix))).tolist()
        self.sizes = [1, *(gamma + 1 for gamma in sorted(set(plan.gammas)))]
        self.plain: list[float] = []
        self.draft_steps: list[float] = []
        self.reads: dict[int, list[float]] = {size: [] for size in self.sizes}
        self.requests = 0

    def _fresh(self, size: int) -> list[int]:
        """The prefix and tokens of it in another order, the first of which never followed it: a
        radix cache keeps every prompt that it has read."""
        low, high = min(self.prefix), max(self.prefix)
        first = self.unseen.pop() if self.unseen else int(self.rng.integers(low, high + 1))
        return [*self.prefix, first, *self.rng.choice(self.prefix, size - 1).tolist()]

    async def warm_up(self) -> None:
        for endpoint in filter(None, (self.target, self.draft)):
            await endpoint.read(self.prefix)
            await endpoint.step_seconds(self._fresh(1), 2)
        for size in (self.sizes[-1], 1):
            await self.target.read(self._fresh(size))

    async def round(self, known: _Cached) -> None:
        reads = {}
        for size in self.rng.permutation(self.sizes).tolist():
            found = await self.target.read(self._fresh(size))
            known.check(found, size)
            reads[size] = found.seconds
        plain = await self.target.step_seconds(self._fresh(1), self.plan.steps)
        if self.draft is not None:
            self.draft_steps.append(await self.draft.step_seconds(self._fresh(1), self.plan.steps))
        self.plain.append(plain)
        for size, seconds in reads.items():
            self.reads[size].append(seconds)
        self.requests += len(reads)


class _Cached:
    """Whether the prefix came from the cache: from the answers, else from the metrics."""

    def __init__(self, endpoint: Endpoint, prefix: int) -> None:
        self.endpoint, self.prefix = endpoint, prefix
        self.told = False
        self._before: str | None = None

    async def begin(self) -> None:
        self._before = await get_text(self.endpoint.client, "/metrics")

    def check(self, found: PromptRead, fresh: int) -> None:
        """ServerError where another number of tokens than `fresh` was read."""
        if found.cached is None:
            return
        self.told = True
        if found.cached != self.prefix:
            read = self.prefix + fresh - found.cached
            raise ServerError(
                f"{self.endpoint.client.base_url} read {read} tokens where {fresh} were fresh: its "
                f"cache held {found.cached} of the {self.prefix} before them. Is prefix caching "
                "on, and is nobody else using the server?"
            )

    async def end(self, requests: int) -> bool:
        """Whether the cache is known to have held the prefix. ServerError where the metrics say
        that the server drafted, or that the cache did not hold it."""
        after = None
        with suppress(ServerError):  # a server that is gone has answered before
            after = await get_text(self.endpoint.client, "/metrics")
        if self._before is None or after is None:
            return self.told
        try:
            readings = read([self._before, after])
        except LogError:
            readings = []
        if drafted := sum(reading.drafted or 0 for reading in readings):
            raise ServerError(
                f"{self.endpoint.client.base_url} drafted {drafted} tokens meanwhile, as its "
                "metrics say: plain steps are needed, so give the same model served without "
                "speculation"
            )
        if self.told:
            return True
        hits = grown([self._before, after], "prefix_cache_hits_total")
        if hits is None:
            return False
        share = hits / (requests * self.prefix)
        if share < 0.9:
            raise ServerError(
                f"the prefix cache of {self.endpoint.client.base_url} held {share:.0%} of what was "
                "sent twice, as its metrics say: start it with prefix caching on"
            )
        return True


async def _prefix(endpoint: Endpoint, texts: Sequence[str], context: int) -> list[int]:
    """`context` ids of the texts, one after the other and again; whole blocks of the cache."""
    size = max(endpoint.block, context - context % endpoint.block)
    ids: list[int] = []
    for text in texts:
        more = await token_ids(
            endpoint.client, endpoint.engine, endpoint.model, text, special=not ids
        )
        ids += more
        if len(ids) >= size:
            break
    if len(set(ids)) < 2:
        raise ServerError("the texts hold less than two different tokens")
    return (ids * (-(-size // len(ids))))[:size]
