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

and between one and two it is between. Means are over the kinds of request and the lengths of each.
At most λ = 1/E(b + a/K) with the K that a step has room for.

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
from specmath.lengths import in_groups
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


@dataclass(frozen=True, eq=False)
class Read:
    """Prompts of one kind of request in one arm, over their lengths: `shares` of each; seconds of
    its `steps` with one token in each, and what the other tokens add (`more`), the drafter's
    reading included; of both the share that several in one step take `once`; `tokens` to be read.
    `bytes`: of the cache of a mean one."""

    shares: FloatArray
    steps: FloatArray
    more: FloatArray
    once: FloatArray
    tokens: FloatArray
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
    """Prompts of those requests on a pair (of `reading_pair`), without speculation and with it.

    The first token takes a step even where nothing is left to read. Lengths that spread are taken
    as lognormal.
    """
    return _read(pair, asked, speculative=False), _read(pair, asked, speculative=True)


def _read(pair: ServedPair, asked: Requests, *, speculative: bool) -> Read:
    r, place = replace(asked, decode_only=False), pair.place
    lengths, shares = in_groups(r.prompt_spread)
    lengths = np.rint(r.prompt_tokens * lengths)
    hit = r.prefix_hit_speculative if speculative else r.prefix_hit
    # Of a prompt that the cache holds whole, the last token is read again.
    cached = np.minimum(np.floor(hit * lengths), np.maximum(lengths - 1.0, 0.0))
    fresh, chunk = lengths - cached, r.chunk_tokens
    own = pair.drafter.prefill_place(place) if speculative else None
    places = [place, *([own] if own is not None else [])]
    chunks, together = np.ceil(fresh / chunk), _in_a_step(fresh, chunk)
    first = float(shared_seconds(place, np.array([1.0]))[0])
    whole = np.sum(
        [prefill_seconds(each, lengths, 0, chunk_tokens=chunk, cached_tokens=cached)
         for each in places], axis=0,
    )  # fmt: skip
    alone, full = (
        np.sum([shared_seconds(each, n) for each in places], axis=0)
        for n in (fresh, together * fresh)
    )
    steps = np.maximum(chunks, 1.0) * pair.plain_seconds
    more = np.maximum(whole - chunks * first, 0.0)
    # What a step that is full of them takes beyond one of them, each.
    each = (full - alone) / np.maximum(together - 1.0, 1.0) + whole - alone
    once = np.where(together < 2.0, 0.0, np.maximum(1.0 - each / (steps + more), 0.0))
    holder = Memory(place, pair.drafter if speculative else None)
    size = holder.request_bytes(r.prompt_tokens)
    return Read(shares, steps, more, once, fresh, size)


def _in_a_step(fresh: FloatArray, chunk: int) -> FloatArray:
    """Whole prompts of so many tokens that a step has room for, at least 1; 1 of none."""
    return np.where(fresh > 0.0, np.maximum(chunk // np.maximum(fresh, 1.0), 1.0), 1.0)


# ── a pool ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class PrefillPool:
    """The workers that read the prompts of one arm.

    Attributes
    ----------
    gpus
        Of one worker.
    shares, seconds
        Of each kind in the requests, and its mean P.
    once, own, own_square, square
        E a, E b, E b² and E P² of all of them.
    most
        The largest rate of one worker, whatever a request waits.
    room
        Mean prompts that a step has room for.
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
    once: Estimate
    own: Estimate
    own_square: Estimate
    square: Estimate
    most: Estimate
    room: float
    wait: Estimate | None
    limit: Limit
    headroom: float
    bytes: FloatArray
    moved: FloatArray | None

    @cached_property
    def prompt(self) -> Estimate:
        """E P, seconds."""
        return _of(
            lambda *each: sum(w * one for w, one in zip(self.shares, each, strict=True)),
            *self.seconds,
        )

    def wait_at(self, rate: Estimate) -> Estimate:
        """Mean wait at that rate."""
        return _of(self._wait, rate, *self._moments)

    @property
    def _moments(self) -> tuple[Estimate, ...]:
        return self.once, self.own, self.own_square, self.prompt, self.square

    def _wait(
        self, rate: FloatArray, once: FloatArray, own: FloatArray, own_square: FloatArray,
        prompt: FloatArray, square: FloatArray,
    ) -> FloatArray:  # fmt: skip
        share = min(max(self.room - 1.0, 0.0), 1.0)
        together = wait_together(rate, once, own, own_square) if share > 0.0 else 0.0
        in_turn = wait_in_turn(rate, prompt, square) if share < 1.0 else 0.0
        return np.asarray(share * together + (1.0 - share) * in_turn)

    @cached_property
    def within(self) -> Estimate:
        """The largest rate within what is promised."""
        if self.wait is None:
            return self.most
        return _of(self._rate_of, self.wait, self.most, *self._moments)

    def _rate_of(self, wait: FloatArray, most: FloatArray, *moments: FloatArray) -> FloatArray:
        """The rate of a mean wait: waits rise with it; 0 below none."""
        low, high = np.zeros(np.shape(wait)), np.broadcast_to(most, np.shape(wait))
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            kept = self._wait(middle, *moments) <= wait
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
        return self.wait_at(self.planned)

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


def _of(combine: Callable[..., ArrayLike], *each: Estimate) -> Estimate:
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
    shares = shares / shares.sum()
    return (
        _pool(server, shares, [each[0] for each in read], promises, headroom, 0),
        _pool(server, shares, [each[1] for each in read], promises, headroom, 1),
    )


def _pool(
    server: Carried, shares: FloatArray, read: Sequence[Read], promises: Sequence[Promise],
    headroom: float, arm: int,
) -> PrefillPool:  # fmt: skip
    s, factor = server.base.scenario, float(server.factors[min(arm, len(server.factors) - 1)])
    size = np.array([each.bytes for each in read])
    link = s.transfer_gb_per_second
    all_shares = np.concatenate([w * each.shares for w, each in zip(shares, read, strict=True)])
    steps, more, once, tokens = (
        np.concatenate([getattr(each, name) for each in read])
        for name in ("steps", "more", "once", "tokens")
    )

    def mean(weights: FloatArray, power: int = 1) -> Estimate:
        """Σ w P^power over all lengths of all kinds."""
        return _taken(server, steps, more, weights, factor, power)

    kinds = np.repeat(np.arange(len(read)), [len(each.steps) for each in read])
    full = mean(all_shares * (1.0 - once * (1.0 - 1.0 / _in_a_step(tokens, s.chunk_tokens))))
    pool = PrefillPool(
        gpus=(s.prefill_tensor_parallel or s.tensor_parallel) + (s.draft_gpus if arm else 0),
        shares=shares,
        seconds=tuple(mean((kinds == i) * all_shares / w) for i, w in enumerate(shares)),
        once=mean(all_shares * once),
        own=mean(all_shares * (1.0 - once)),
        own_square=mean(all_shares * (1.0 - once) ** 2, 2),
        square=mean(all_shares, 2),
        most=full.map(lambda seconds: 1.0 / seconds),
        room=s.chunk_tokens / max(float(all_shares @ tokens), 1.0),
        wait=None,
        limit="time",
        headroom=headroom,
        bytes=size,
        moved=None if link is None else size / (1e9 * link),
    )
    waits = [_left(pool, each) for each in promises if each.name != "tpot"]
    if not waits:
        return pool
    least = min(range(len(waits)), key=lambda i: waits[i][0].value)
    wait = _of(lambda *each: np.min(np.broadcast_arrays(*each), axis=0), *(w for w, _ in waits))
    return replace(pool, wait=wait, limit=waits[least][1])


def _taken(
    server: Carried, steps: FloatArray, more: FloatArray, weights: FloatArray, factor: float,
    power: int,
) -> Estimate:  # fmt: skip
    """Σ w P^power: P is off by what steps are, and what prompts add by the error of prompts
    besides."""
    plain, error = server.base.plain, server.base.prompts
    assert plain is not None
    slow = np.ones((1, 1)) if plain.points is None else np.asarray(plain.points / plain.value)
    each = (steps[:, None] + more[:, None] * error) ** power
    points = (weights @ each) * (factor * slow) ** power
    value = float(weights @ ((steps + more) * factor) ** power)
    return server.estimate(value, np.atleast_2d(points))


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
