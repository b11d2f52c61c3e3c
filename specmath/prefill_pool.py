"""The workers that read prompts where others decode: a prompt's seconds, its queue, the rate.

Disaggregated prefill: nobody decodes on a worker that reads prompts. Its last step of a prompt
emits the first token; then the cache moves to a worker that decodes. A prompt of k chunks takes

    P = k step(1) + Σ (T(n) − T(1)) + attention,      and P_draft where a drafter reads it too

step(1): a plain step of one sequence; T(n): the forward of a chunk. Requests come by Poisson's law,
λ a second, and wait W, so that TTFT = P + W. A step with room for several prompts reads all that
came in the one before it, which end together: n of them take S = a + Σ b, with a + b = P (a is 0
where a step has no room for two). As of `serving.open_loop`, but a worker with nothing to read
stands still, with the chance p₀ after each step (gated service):

    E S = (a + p₀ E b)/(1 − λ E b),   p₀ = e^(−λ E S),    n̄ = λ E S + p₀
    E S² = (a² + 2 a E b n̄ + E b² n̄)/(1 − (λ E b)²)
    W = β (½ + λ E b) E S²/E S,       β = λ E S/(λ E S + p₀)

A step with room for one prompt or less reads them in turn, a queue M/G/1 (of one kind M/D/1),

    W = λ E P²/(2 (1 − λ E P))

and between one and two it is between. At most λ = 1/E(b + a/K) with the K that a step has room for.

A promised first token leaves the queue S − P. A promised whole request leaves it, of what is left
of S once the prompt is read and the cache has moved, a `QUEUE_SHARE`, and no longer than the mean
prompt takes; decoding has the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from specmath.carried import Before, Carried, Limit, Promise
from specmath.checks import FloatArray, InputError, real
from specmath.estimate import Estimate
from specmath.scenario import Scenario
from specmath.scenario.server import requests_of
from specmath.serving.loop import Requests
from specmath.serving.memory import Memory
from specmath.serving.pair import ServedPair
from specmath.steptime.prefill import prefill_seconds, shared_seconds

__all__ = [
    "PrefillPool", "Read", "disaggregated", "prefill_pools", "read_by", "reading_pair",
    "wait_in_turn", "wait_together",
]  # fmt: skip

NEWTON = 6
"""Steps to the mean step of a queue: a smooth equation, from beside its root."""

HALVINGS = 40
"""Of the rates among which that of a wait is sought."""

QUEUE_SHARE = 0.25
"""Of a promised whole request, less its prompt and its transfer, that prompts may wait."""

BUSIEST = 0.98
"""The use beyond which a queue has no mean to speak of."""


# ── formulas ─────────────────────────────────────────────────────────────────────────────────


def wait_in_turn(rate: ArrayLike, mean: ArrayLike, square: ArrayLike) -> FloatArray:
    """Mean wait before service, λ E P²/(2 (1 − λ E P)), of a queue M/G/1.

    Parameters
    ----------
    rate
        λ ≥ 0, a second; array_like, all broadcast.
    mean, square
        E P > 0 seconds, and E P² ≥ (E P)².

    Returns
    -------
    FloatArray
        Seconds; inf from λ E P = 1 on.

    References
    ----------
    Pollaczek 1930, Khinchine 1932; Kleinrock, Queueing Systems I, eq. 5.70.

    Examples
    --------
    >>> float(wait_in_turn(5.0, 0.1, 0.01))  # half used: half as long as a prompt
    0.05
    """
    arrivals = real("rate", rate, 0)
    used = arrivals * real("mean", mean, 0, low_open=True)
    kept = used < 1.0
    free = np.where(kept, 1.0 - used, 1.0)
    return np.where(kept, arrivals * real("square", square, 0) / (2.0 * free), math.inf)


def wait_together(
    rate: ArrayLike, once: ArrayLike, mean: ArrayLike, square: ArrayLike
) -> FloatArray:
    """Mean wait, beyond a prompt of one's own, where a step reads all that came in the one before.

    Parameters
    ----------
    rate
        λ ≥ 0, a second; array_like, all broadcast.
    once
        a ≥ 0, seconds of a step beside its prompts.
    mean, square
        E b > 0 seconds of each prompt in it, and E b² ≥ (E b)².

    Returns
    -------
    FloatArray
        Seconds; inf from λ E b = 1 on. Exact but for p₀, which is of the mean step.

    References
    ----------
    Gated service: Takagi, Queueing Analysis, vol. 1, 1991.

    Examples
    --------
    >>> float(wait_together(5.0, 0.0, 0.1, 0.01))  # half used: ½ · 1 · 0.1/(1 − ¼)
    0.0666...
    """
    arrivals, a = real("rate", rate, 0), real("once", once, 0)
    b, second = real("mean", mean, 0, low_open=True), real("square", square, 0)
    used = arrivals * b
    kept = used < 1.0
    used = np.where(kept, used, 0.0)
    step = a + b
    for _ in range(NEWTON):
        idle = b * np.exp(-arrivals * step) / (1.0 - used)
        step = step - (step - a / (1.0 - used) - idle) / (1.0 + arrivals * idle)
    none = np.exp(-arrivals * step)
    each = arrivals * step + none
    squares = (a**2 + 2.0 * a * b * each + second * each) / (1.0 - used**2)
    wait = arrivals * step / each * (0.5 + used) * squares / step
    return np.where(kept, wait, math.inf)


# ── one prompt ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Read:
    """One prompt in one arm: seconds of its `steps` with one token in each, and what the other
    tokens add (`more`), the drafter's reading included; of both the share that several prompts in
    one step take `once`; its `tokens` to be read, and `bytes` of its cache."""

    steps: float
    more: float
    once: float
    tokens: int
    bytes: float


def reading_pair(pair: ServedPair, s: Scenario) -> ServedPair:
    """The pair on the GPUs of a worker that reads prompts.

    Raises
    ------
    InputError
        A number of GPUs that does not divide, or that does not hold the models.
    """
    gpus = s.prefill_tensor_parallel or s.tensor_parallel
    place = replace(pair.place, tensor_parallel=gpus)
    if pair.drafter.needs_model and s.draft_tensor_parallel > gpus + s.draft_gpus:
        raise InputError(
            "draft_tensor_parallel must be <= prefill_tensor_parallel + draft_gpus = "
            f"{gpus + s.draft_gpus}, got {s.draft_tensor_parallel}"
        )
    found = replace(pair, place=place, batch=1, context_tokens=1)
    try:
        Memory.of(found).require_weights()
    except InputError as error:
        if s.prefill_tensor_parallel is None:
            raise
        said = re.sub(r"\btensor_parallel\b", "prefill_tensor_parallel", str(error))
        raise InputError(said) from error
    return found


def read_by(pair: ServedPair, asked: Requests) -> tuple[Read, Read]:
    """One prompt of those requests on a pair (of `reading_pair`), without speculation and with it.

    The first token takes a step even where nothing is left to read.
    """
    return _read(pair, asked, speculative=False), _read(pair, asked, speculative=True)


def _read(pair: ServedPair, asked: Requests, *, speculative: bool) -> Read:
    r, place = replace(asked, decode_only=False), pair.place
    length = r.prompt_tokens
    hit = r.prefix_hit_speculative if speculative else r.prefix_hit
    # Of a prompt that the cache holds whole, the last token is read again.
    cached = min(math.floor(hit * length), max(length - 1, 0))
    fresh = length - cached
    own = pair.drafter.prefill_place(place) if speculative else None
    places = [place, *([own] if own is not None else [])]
    chunk = r.chunk_tokens
    chunks, together = math.ceil(fresh / chunk), max(1, chunk // fresh if fresh else 1)
    first = float(shared_seconds(place, np.array([1.0]))[0])
    whole = sum(
        float(prefill_seconds(each, length, 0, chunk_tokens=chunk, cached_tokens=cached))
        for each in places
    )
    alone, full = (
        sum(float(shared_seconds(each, np.array([float(n)]))[0]) for each in places)
        for n in (fresh, together * fresh)
    )
    steps = max(chunks, 1) * pair.plain_seconds
    more = max(0.0, whole - chunks * first)
    # What a step that is full of them takes beyond one of them, each.
    each = steps + more if together < 2 else (full - alone) / (together - 1) + whole - alone
    once = max(0.0, 1.0 - each / (steps + more))
    holder = Memory(place, pair.drafter if speculative else None)
    return Read(steps, more, once, fresh, holder.request_bytes(length))


# ── a pool ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class PrefillPool:
    """The workers that read the prompts of one arm.

    Attributes
    ----------
    gpus
        Of one worker.
    shares, seconds
        Of the requests, and P of each kind of them.
    once, room
        Of each P the share that several prompts in one step take once, and how many a step has
        room for; and how many mean ones.
    wait
        The mean wait that what is promised leaves; None where that says nothing of prompts. Below
        0 where one alone takes too long.
    limit
        What keeps a worker from a larger rate.
    headroom
        Share of that rate that is kept free.
    bytes, moved
        Of a kind's cache, which moves; and seconds, None where nobody says how fast.
    """

    gpus: int
    shares: FloatArray
    seconds: tuple[Estimate, ...]
    once: FloatArray
    room: FloatArray
    mean_room: float
    wait: Estimate | None
    limit: Limit
    headroom: float
    bytes: FloatArray
    moved: FloatArray | None

    @cached_property
    def prompt(self) -> Estimate:
        """E P, seconds."""
        return _of(lambda *each: self._mixed(each), *self.seconds)

    def _mixed(self, each: Sequence[FloatArray]) -> FloatArray:
        return np.asarray(sum(w * one for w, one in zip(self.shares, each, strict=True)))

    def wait_at(self, rate: FloatArray, *seconds: FloatArray) -> FloatArray:
        """Mean wait at that rate, where prompts of each kind take so long."""
        together = min(max(self.mean_room - 1.0, 0.0), 1.0)
        wait = np.zeros(np.broadcast_shapes(np.shape(rate), np.shape(seconds[0])))
        if together > 0.0:
            once = self._mixed([o * each for o, each in zip(self.once, seconds, strict=True)])
            own = [(1.0 - o) * each for o, each in zip(self.once, seconds, strict=True)]
            squares = self._mixed([each**2 for each in own])
            wait = wait + together * wait_together(rate, once, self._mixed(own), squares)
        if together < 1.0:
            squares = self._mixed([each**2 for each in seconds])
            wait = wait + (1.0 - together) * wait_in_turn(rate, self._mixed(seconds), squares)
        return wait

    @cached_property
    def most(self) -> Estimate:
        """The largest rate of one worker, whatever a request waits."""
        full = self.shares * (1.0 - self.once * (1.0 - 1.0 / self.room))

        def rate(*seconds: FloatArray) -> FloatArray:
            return np.asarray(1.0 / sum(w * each for w, each in zip(full, seconds, strict=True)))

        return _of(rate, *self.seconds)

    @cached_property
    def within(self) -> Estimate:
        """The largest rate within what is promised."""
        if self.wait is None:
            return self.most
        return _of(self._rate_of, self.wait, self.most, *self.seconds)

    def _rate_of(self, wait: FloatArray, most: FloatArray, *seconds: FloatArray) -> FloatArray:
        """The rate of a mean wait: waits rise with it; 0 below none."""
        low, high = np.zeros(np.shape(wait)), np.broadcast_to(most, np.shape(wait))
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            kept = self.wait_at(middle, *seconds) <= wait
            low, high = np.where(kept, middle, low), np.where(kept, high, middle)
        return np.where(np.asarray(wait) > 0.0, low, 0.0)

    @property
    def planned(self) -> Estimate:
        """The rate that headroom leaves of it; where nothing is promised no more than `BUSIEST`."""
        free = 1.0 - self.headroom
        if self.wait is None:
            return self.most.map(lambda rate: min(free, BUSIEST) * rate)
        return self.within.map(lambda rate: free * rate)

    @cached_property
    def queue(self) -> Estimate:
        """Mean wait at the planned rate."""
        return _of(self.wait_at, self.planned, *self.seconds)

    @cached_property
    def longest(self) -> Estimate:
        """Mean wait at the largest rate within what is promised; where nothing is, as planned."""
        return self.queue if self.wait is None else self.wait.map(lambda w: np.maximum(w, 0.0))

    @property
    def first(self) -> Estimate:
        """Seconds to the first token at the planned rate, mean over the kinds."""
        return self.prompt.with_(self.queue, lambda read, queue: read + queue)

    @property
    def mean_bytes(self) -> float:
        """Of the cache of a request, mean over the kinds."""
        return float(self.shares @ self.bytes)

    @property
    def moving(self) -> float | None:
        """Seconds in which it moves."""
        return None if self.moved is None else float(self.shares @ self.moved)


def _of(combine: Callable[..., FloatArray], *each: Estimate) -> Estimate:
    """A function of several numbers of one endpoint, point by point."""
    value = float(np.asarray(combine(*(one.value for one in each))))
    points = None
    if any(one.points is not None for one in each):
        points = np.asarray(combine(*(one.value if one.points is None else one.points
                                      for one in each)))  # fmt: skip
    return Estimate(value, points, each[-1].basis)


Pools = tuple[PrefillPool, PrefillPool]
"""Without speculation, and with it."""


@lru_cache(maxsize=64)
def prefill_pools(
    server: Carried, promises: tuple[Promise, ...], headroom: float
) -> tuple[PrefillPool, PrefillPool]:
    """The workers that read the prompts of a server that only decodes, in both arms.

    Parameters
    ----------
    server
        What decodes; of its scenario the prompts, the prefix cache, and what reads them.
    promises
        What is promised.
    headroom
        Share of a worker's largest rate that is kept free, in [0, 1).

    Returns
    -------
    tuple
        Without speculation, and with it.

    Raises
    ------
    InputError
        As `reading_pair`.
    """
    base = server.base
    s = base.scenario
    assert base.pair is not None
    pair = reading_pair(base.pair, s)
    kinds = [part.scenario for part in base.parts] or [s]
    shares = np.array([part.share for part in base.parts] or [1.0])
    read = [read_by(pair, requests_of(each)[0]) for each in kinds]
    return (
        _pool(server, shares / shares.sum(), [each[0] for each in read], promises, headroom, 0),
        _pool(server, shares / shares.sum(), [each[1] for each in read], promises, headroom, 1),
    )


def _pool(
    server: Carried, shares: FloatArray, read: Sequence[Read], promises: Sequence[Promise],
    headroom: float, arm: int,
) -> PrefillPool:  # fmt: skip
    s = server.base.scenario
    seconds = tuple(_seconds(server, each, arm) for each in read)
    size = np.array([each.bytes for each in read])
    link = s.transfer_gb_per_second
    gpus = (s.prefill_tensor_parallel or s.tensor_parallel) + (s.draft_gpus if arm else 0)
    tokens = np.maximum([each.tokens for each in read], 1.0)
    pool = PrefillPool(
        gpus, shares, seconds, np.array([each.once for each in read]),
        np.maximum(s.chunk_tokens // tokens, 1.0), s.chunk_tokens / float(shares @ tokens), None,
        "time", headroom, size, None if link is None else size / (1e9 * link),
    )  # fmt: skip
    waits = [_left(pool, each) for each in promises if each.name != "tpot"]
    if not waits:
        return pool
    least = min(range(len(waits)), key=lambda i: waits[i][0].value)
    wait = _of(lambda *each: np.min(np.broadcast_arrays(*each), axis=0), *(w for w, _ in waits))
    return replace(pool, wait=wait, limit=waits[least][1])


def _seconds(server: Carried, read: Read, arm: int) -> Estimate:
    """P, off by what steps are, and what prompts add by the error of prompts besides."""
    base = server.base
    plain, factor = base.plain, float(server.factors[min(arm, len(server.factors) - 1)])
    assert plain is not None
    slow = np.ones((1, 1)) if plain.points is None else np.asarray(plain.points / plain.value)
    points = (read.steps + read.more * base.prompts) * slow * factor
    return server.estimate((read.steps + read.more) * factor, np.atleast_2d(points))


def _left(pool: PrefillPool, promise: Promise) -> tuple[Estimate, Limit]:
    """What one promise leaves the queue, and its name."""
    part = promise.part or 0
    own = pool.seconds[part]
    if promise.name == "ttft":
        return own.map(lambda read: promise.seconds - read), "ttft"
    moved = 0.0 if pool.moved is None else float(pool.moved[part])

    def left(read: FloatArray, mean: FloatArray) -> FloatArray:
        return np.minimum(QUEUE_SHARE * (promise.seconds - read - moved), mean)

    return _of(left, own, pool.prompt), "e2e"


@lru_cache(maxsize=64)
def disaggregated(server: Carried, pools: Pools) -> Carried:
    """The server with what each kind of request takes before it decodes."""
    gammas = np.arange(len(server.tokens))

    def before(kind: int | None) -> Before:
        each = []
        for pool in pools:
            own = pool.prompt if kind is None else pool.seconds[kind]
            first = own.with_(pool.longest, lambda read, wait: read + wait)
            moved = pool.moving if kind is None else (
                None if pool.moved is None else float(pool.moved[kind]))  # fmt: skip
            each.append((first, moved or 0.0))
        (plain, moves), (ours, ours_moves) = each
        points = np.stack(np.broadcast_arrays(
            *(first.value if first.points is None else first.points for first in (plain, ours))
        ))  # fmt: skip
        return Before(
            np.where(gammas == 0, plain.value, ours.value),
            points[np.minimum(gammas, 1)],
            np.where(gammas == 0, moves, ours_moves),
        )

    parts = range(len(server.base.parts))
    return server.after([before(None), *(before(i) for i in parts)])
