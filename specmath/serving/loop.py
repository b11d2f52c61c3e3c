"""The server law: what a token takes where other requests' prompts are read meanwhile.

    TPOT = step(B₁) s/τ + A (P + P_draft) / (N − 1)

P is the increment that one uncached prompt adds to the steps it shares, P_draft the drafter's own,
0 in the plain arm; N the output tokens of a request.

    batch held at B     A = B−1          B₁ = B
    closed loop of C    A (D + R) = (C−1) D         B₁ = 1 + A
                        TTFT = P + R (step(B₁) + A P / D)
    one wave of C       A = (C−1)/2      B₁ = C                TTFT = (C+1)/2 P
    open loop at λ      specmath.serving.open_loop

The closed loop is counted in steps, which all requests share however long they are: one decodes
for D = (N−1)/τ of them, and before that R go by: half a step that is under way, one more where an
engine plans ahead, those that read its ⌈k⌉ chunks, and k u / (2 (1−u)) of a queue as in M/D/1,
where prompts of k chunks fill a share u = A k / D < 1 of what steps can read. Alone there is only
the step of each chunk. A decode-only worker has P = 0. B_max is what memory holds.

All of it is a mean field: no spread of lengths. docs/simulate.md lays it beside the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, IntArray, real, whole
from specmath.lengths import in_groups
from specmath.serving.memory import Memory
from specmath.serving.open_loop import MOST_BUSY, largest_rate, open_loop, queue_seconds
from specmath.serving.pair import ServedPair
from specmath.steptime import Placement
from specmath.steptime.prefill import CHUNK_TOKENS, prefill_seconds, shared_seconds

__all__ = [
    "Grid", "Loop", "Requests", "Steady", "chunks_of", "first_token", "own_prompt",
    "prompt_seconds", "room_for", "steady", "step_spread", "waiting_seconds",
]  # fmt: skip

Loop = Literal["held", "closed", "wave", "open"]

HALVINGS = 50
"""Of the bracket in which the requests are sought that decode in a closed loop."""

NUDGE = 0.1
"""Of the batch, to either side, between which the slope of a step is taken."""

UNENDING = 1e3
"""How many times a token and a first token are taken to last at a γ that cannot carry an open loop,
where the queue grows without end: beyond any that can, and still a number."""

GRID = 14
"""Batches, spread geometrically, between which a step is interpolated."""


@dataclass(frozen=True)
class Requests:
    """What a server is asked to do.

    Attributes
    ----------
    prompt_tokens, output_tokens
        Means of a request, ≥ 0 and ≥ 1.
    batch
        B, sequences that decode in every step: the server is kept there.
    concurrency
        C, requests in flight, each replaced when it ends: a closed loop.
    request_rate
        λ, requests a second of one replica: an open loop. Exactly one of the three is given.
    one_wave
        All C are sent at once, and no more come: a benchmark with as many prompts as concurrency.
    prefix_hit, prefix_hit_speculative
        Share of the prompt tokens that the prefix cache holds, in the plain arm and with
        speculation, in [0, 1].
    chunk_tokens
        Tokens of one step at most.
    decode_only
        Prompts are read by other workers.
    prompt_spread
        Standard deviation over mean of the tokens of prompts, ≥ 0: lognormal.
    """

    prompt_tokens: int
    output_tokens: int
    batch: int | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    one_wave: bool = False
    prefix_hit: float = 0.0
    prefix_hit_speculative: float = 0.0
    chunk_tokens: int = CHUNK_TOKENS
    decode_only: bool = False
    prompt_spread: float = 0.0

    def __post_init__(self) -> None:
        whole("prompt_tokens", self.prompt_tokens, 0)
        whole("output_tokens", self.output_tokens, 1)
        whole("chunk_tokens", self.chunk_tokens, 1)
        for name in ("prefix_hit", "prefix_hit_speculative"):
            real(name, getattr(self, name), 0, 1)
        real("prompt_spread", self.prompt_spread, 0)
        loads = (self.batch, self.concurrency, self.request_rate)
        if sum(load is not None for load in loads) != 1:
            raise InputError(
                f"exactly one of batch, concurrency and request_rate must be given, got {loads}"
            )
        for name in ("batch", "concurrency"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        if self.request_rate is not None:
            real("request_rate", self.request_rate, 0, low_open=True)

    @property
    def loop(self) -> Loop:
        """Which loop it is."""
        if self.request_rate is not None:
            return "open"
        if self.batch is not None:
            return "held"
        return "wave" if self.one_wave else "closed"

    @property
    def decoded_tokens(self) -> int:
        """N − 1: output tokens that come from decode steps, all but the first."""
        return max(1, self.output_tokens - 1)

    def fresh_tokens(self, *, speculative: bool) -> float:
        """Tokens of a prompt that this server reads: those that the cache does not hold."""
        hit = self.prefix_hit_speculative if speculative else self.prefix_hit
        return 0.0 if self.decode_only else self.prompt_tokens * (1.0 - hit)


@dataclass(frozen=True, eq=False)
class Steady:
    """What the law gives over γ = 0 … K; γ=0 is the plain arm. Arrays of one shape, seconds.

    batch: B₁, sequences in a step. plain: a step of as many without a draft. verify, draft, extra:
    what that step takes. prompt: P, with what the draft reads of it. waiting: S, what other prompts
    take of each token. tpot, ttft: of a request; `UNENDING` times as long at a γ that cannot carry
    an open loop. most_requests: λ_max, requests a second. grid: seconds over batches.
    """

    requests: Requests
    batch: FloatArray
    plain: FloatArray
    verify: FloatArray
    draft: FloatArray
    extra: FloatArray
    prompt: FloatArray
    waiting: FloatArray
    tpot: FloatArray
    ttft: FloatArray
    most_requests: FloatArray
    grid: Grid

    def carries(self, gamma: int) -> bool:
        """Whether γ keeps up with an open loop; the other loops wait for it."""
        return (self.requests.request_rate or 0.0) < float(self.most_requests[gamma])

    def prompts_met(self, gamma: int) -> float:
        """A: prompts of other requests that are read while a request decodes, in the mean."""
        r, others = self.requests, float(self.batch[gamma]) - 1.0
        if not self.waiting[gamma]:
            return 0.0
        if r.request_rate is not None:  # fewer than B₁ − 1 where bursts fill the batch
            return float(self.waiting[gamma]) * r.decoded_tokens / float(self.prompt[gamma])
        return others / 2.0 if r.one_wave and r.concurrency is not None else others

    @property
    def step(self) -> FloatArray:
        """Seconds of one step."""
        return self.verify + self.draft + self.extra

    @property
    def e2e(self) -> FloatArray:
        """Seconds of a whole request: the first token, and steps for the others."""
        return self.ttft + (self.requests.output_tokens - 1) * self.tpot

    def throughput(self, tpot: ArrayLike, gamma: int) -> FloatArray:
        """Output tokens a second of one replica at that TPOT: B / TPOT where a batch is held,
        C N / (TTFT + (N−1) TPOT) in a closed loop, λ N in an open one, whatever it takes."""
        r, seconds = self.requests, np.asarray(tpot, dtype=float)
        if r.request_rate is not None:
            return np.full(seconds.shape, r.request_rate * r.output_tokens)
        if r.batch is not None:
            return np.asarray(r.batch / seconds)
        whole_request = self.ttft[gamma] + r.decoded_tokens * seconds
        return np.asarray((r.concurrency or 1) * r.output_tokens / whole_request)


@dataclass(frozen=True, eq=False)
class Grid:
    """Seconds of a step and of a prompt over batches, for γ = 0 … K, where the law interpolates.

    verify, draft, extra, prompts: shape (batches, γ); a prompt's seconds are what it adds to the
    steps that it shares. most: B_max of each γ, at least 1. groups: of GPUs, each of which takes a
    step's tokens of its own. ahead: steps that are planned before the one under way ends. sharing:
    what two prompts add in one step beyond twice one, as `prompts`; None: nothing. unequal: E P² /
    (E P)² of prompts that differ, as `prompts`; None: 1.
    """

    batches: FloatArray
    verify: FloatArray
    draft: FloatArray
    extra: FloatArray
    prompts: FloatArray
    most: IntArray
    groups: int = 1
    ahead: float = 0.0
    sharing: FloatArray | None = None
    unequal: FloatArray | None = None

    @classmethod
    def of(cls, pair: ServedPair, requests: Requests, top: int) -> Grid:
        """The grid of a pair up to γ = top, at its context."""
        gammas = np.arange(top + 1)
        if requests.batch is not None:  # nothing to solve for
            most = np.full(top + 1, requests.batch)
            batches = np.array([requests.batch])
            others = np.maximum(batches - 1.0, 1.0)
        else:
            most = _held_by_memory(pair, top)
            largest = max(2, requests.concurrency or int(most.max()))
            batches = np.unique(np.rint(np.geomspace(1, largest, GRID)).astype(int))
            others = batches.astype(float)
        parts = pair.parts_grid(batches, [pair.context_tokens], gammas)
        verify, draft, extra = (part[:, 0] for part in parts)
        prompts, squares = _moments(pair, requests, others[:, None], gammas)
        groups, ahead = pair.place.attention_dp, float(pair.engine.hides_host)
        sharing = None if requests.request_rate is None else _sharing(pair, requests, others, top)
        b = batches.astype(float)
        unequal = None
        if requests.prompt_spread:
            some = prompts > 0.0
            unequal = np.where(some, squares / np.where(some, prompts, 1.0) ** 2, 1.0)
        return cls(b, verify, draft, extra, prompts, most, groups, ahead, sharing, unequal)

    def at(self, values: FloatArray, batch: FloatArray) -> FloatArray:
        """`values` (batches, γ) at a real-valued batch of each γ, linear between the grid's."""
        if len(self.batches) == 1:
            return np.asarray(values[0])
        # Of a few γ only, sixty times a state: np.clip costs more than all the rest of it.
        high = np.searchsorted(self.batches, batch)
        high = np.minimum(np.maximum(high, 1), len(self.batches) - 1)
        low = high - 1
        width = self.batches[high] - self.batches[low]
        share = np.minimum(np.maximum((batch - self.batches[low]) / width, 0.0), 1.0)
        column = np.arange(values.shape[1])
        return np.asarray(values[low, column] * (1 - share) + values[high, column] * share)

    @cached_property
    def steps(self) -> FloatArray:
        """Seconds of one step at the grid's batches, of each γ."""
        return self.verify + self.draft + self.extra

    def step(self, batch: FloatArray) -> FloatArray:
        """Seconds of one step of each γ."""
        return self.at(self.steps, batch)

    def prompt(self, others: FloatArray, each_step: FloatArray | float = 0.0) -> FloatArray:
        """P of each γ beside so many, `each_step` prompts a step in the mean."""
        beside = np.maximum(others, 1.0)
        alone = self.at(self.prompts, beside)
        if self.sharing is None:
            return alone
        m = np.maximum(each_step, 1e-9)
        return np.asarray(alone + self.at(self.sharing, beside) * (1.0 + np.expm1(-m) / m))

    def unequal_at(self, batch: FloatArray) -> FloatArray | float:
        """E P²/(E P)² of each γ."""
        return 1.0 if self.unequal is None else self.at(self.unequal, np.maximum(batch - 1.0, 1.0))

    def shared(self, step: FloatArray, company: FloatArray) -> FloatArray:
        """Seconds of a step that reads a prompt, less what the prompt adds: that of whoever
        decodes beside it (a share `company` of the time), else a plain one, for nobody drafts."""
        return np.asarray(company * step + (1.0 - company) * self.steps[0, 0])


def _held_by_memory(pair: ServedPair, top: int) -> IntArray:
    """B_max of γ = 0 … top; at least 1, though by this estimate not one may fit."""
    both, alone = Memory.of(pair), Memory(pair.place)
    context = pair.context_tokens
    with_draft = [both.largest_batch(context, gamma) for gamma in range(1, top + 1)]
    return np.asarray(np.maximum([alone.largest_batch(context), *with_draft], 1))


def waiting_seconds(
    pair: ServedPair, requests: Requests, batches: IntArray, contexts: IntArray
) -> FloatArray:
    """S of each batch that is held and each context, in either arm: (batches, contexts, 2), seconds
    a token. The prompt keeps its share of the context."""
    b = np.asarray(batches, dtype=float)[:, None]
    length = np.round(requests.prompt_tokens / pair.context_tokens * np.asarray(contexts))[None]
    others = np.maximum(b - 1.0, 1.0)
    each = np.stack(_prompts(pair, requests, length, others), axis=-1)
    return np.asarray((b - 1.0)[..., None] * each / requests.decoded_tokens)


def _prompts(
    pair: ServedPair, r: Requests, length: ArrayLike, batch: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """P of prompts of that length beside a batch: in the plain arm, and with P_draft."""
    nothing = np.zeros(np.broadcast_shapes(np.shape(length), batch.shape))
    if r.decode_only or not np.any(length):
        return nothing, nothing

    def reading(place: Placement, hit: float) -> FloatArray:
        cached = np.floor(hit * np.asarray(length))
        return prefill_seconds(
            place, length, batch, chunk_tokens=r.chunk_tokens, cached_tokens=cached
        )

    plain = reading(pair.place, r.prefix_hit)
    same = r.prefix_hit_speculative == r.prefix_hit
    drafting = plain if same else reading(pair.place, r.prefix_hit_speculative)
    own = pair.drafter.prefill_place(pair.place)
    if own is not None:
        drafting = drafting + reading(own, r.prefix_hit_speculative)
    return plain, drafting


def _sharing(pair: ServedPair, r: Requests, batch: FloatArray, top: int) -> FloatArray:
    """What two prompts add in one step beyond twice one, (batches, γ); 0 where a step does not hold
    two. Their attention is the same."""

    def bends(places: Sequence[Placement], hit: float) -> FloatArray:
        fresh = np.ceil(r.prompt_tokens * (1.0 - hit))
        if r.decode_only or not 0 < 2 * fresh <= r.chunk_tokens * pair.place.attention_dp:
            return np.zeros(batch.shape)
        tokens = np.stack([batch, batch + fresh, batch + 2 * fresh])
        none, one, two = np.sum([shared_seconds(place, tokens) for place in places], axis=0)
        return np.asarray(np.maximum(two - 2.0 * one + none, 0.0))

    own = pair.drafter.prefill_place(pair.place)
    both = [pair.place] if own is None else [pair.place, own]
    plain, drafting = bends([pair.place], r.prefix_hit), bends(both, r.prefix_hit_speculative)
    return np.where(np.arange(top + 1) == 0, plain[:, None], drafting[:, None])


def steady(grid: Grid, requests: Requests, tokens: FloatArray) -> Steady:
    """The law's fixed point over γ = 0 … K.

    Parameters
    ----------
    grid
        Seconds over batches.
    requests
        What is asked of the server.
    tokens
        τ over γ = 0 … K, over all steps, shape (K+1,); 1 at γ=0.

    Returns
    -------
    Steady
        The state in which the server stays.

    Raises
    ------
    InputError
        A request rate that plain decoding cannot carry.
    """
    held = grid.most.astype(float)
    prompt = grid.at(grid.prompts, held)
    most_requests = largest_rate(requests.decoded_tokens, held, grid.step(held), tokens, prompt)
    batch, waiting, ttft = _SOLVERS[requests.loop](grid, requests, tokens, most_requests)
    parts = (grid.verify, grid.draft, grid.extra)
    verify, draft, extra = (grid.at(part, batch) for part in parts)
    plain = grid.at(np.broadcast_to(grid.steps[:, :1], grid.steps.shape), batch)
    prompt = grid.at(grid.prompts, np.maximum(batch - 1.0, 1.0))
    tpot = (verify + draft + extra) / tokens + waiting
    return Steady(requests, batch, plain, verify, draft, extra, prompt, waiting, tpot, ttft,
                  most_requests, grid)  # fmt: skip


def _fresh(r: Requests, count: int) -> FloatArray:
    """Tokens of a prompt that a server reads, over γ; none where others read them."""
    plain, ours = (r.fresh_tokens(speculative=arm) for arm in (False, True))
    return np.where(np.arange(count) == 0, plain, ours)


State = tuple[FloatArray, FloatArray, FloatArray]
"""B₁, S and TTFT over γ."""


def _first_token(grid: Grid, r: Requests, batch: FloatArray, prompt: FloatArray) -> FloatArray:
    """Seconds until one's own prompt is read, nobody in front: its chunks, each in a step; of
    company half of the step that is under way on arrival, and what is planned."""
    step = grid.step(batch)
    return first_token(chunks_of(r, len(batch)), grid.ahead, step, grid.steps[0, 0], batch, prompt)


def first_token(
    chunks: FloatArray, ahead: float, step: FloatArray, alone: ArrayLike, batch: FloatArray,
    prompt: FloatArray,
) -> FloatArray:  # fmt: skip
    """The same of a prompt of so many chunks; `alone`: a plain step of nobody else. All broadcast,
    seconds."""
    company = np.minimum(batch - 1.0, 1.0)
    own = chunks * (company * step + (1.0 - company) * np.asarray(alone))
    return np.asarray(prompt + own + (0.5 + ahead) * company * step)


def own_prompt(pair: ServedPair, r: Requests, load: Steady) -> FloatArray:
    """Seconds over γ that one's own prompt takes in the state of a server, whoever waits in front:
    what it adds to its steps, and those steps."""
    others = np.maximum(load.batch - 1.0, 1.0)
    prompt = prompt_seconds(pair, r, others, np.arange(len(others)))
    chunks, alone = chunks_of(r, len(others)), float(pair.plain_seconds)
    return first_token(chunks, 0.0, load.step, alone, load.batch, prompt)


def prompt_seconds(
    pair: ServedPair, r: Requests, others: FloatArray, gammas: IntArray
) -> FloatArray:
    """P beside so many others, at those γ: both broadcast. Of lengths that spread, the mean."""
    return _moments(pair, r, others, gammas)[0]


def _moments(
    pair: ServedPair, r: Requests, others: FloatArray, gammas: IntArray
) -> tuple[FloatArray, FloatArray]:
    """E P and E P² of the same."""
    lengths, shares = in_groups(r.prompt_spread)
    each = _prompts(pair, r, np.rint(r.prompt_tokens * lengths), np.asarray(others)[..., None])
    mean, square = (
        np.where(gammas == 0, *(seconds**power @ shares for seconds in each)) for power in (1, 2)
    )
    return mean, square


def chunks_of(r: Requests, count: int) -> FloatArray:
    """Steps that read one prompt, over so many γ from 0 on; none where others read it."""
    return np.ceil(_fresh(r, count) / r.chunk_tokens)


def room_for(r: Requests, count: int) -> FloatArray:
    """Prompts that the tokens of a step have room for, over so many γ from 0 on."""
    return np.asarray(r.chunk_tokens / np.maximum(_fresh(r, count), 1.0))


def _held(grid: Grid, r: Requests, tokens: FloatArray, _: FloatArray) -> State:
    """B decode in every step, and each lost one is replaced at once."""
    batch = np.full(tokens.shape, float(r.batch or 1))
    prompt = grid.at(grid.prompts, np.maximum(batch - 1.0, 1.0))
    waiting = (batch - 1.0) * prompt / r.decoded_tokens
    return batch, waiting, _first_token(grid, r, batch, prompt)


def _closed(grid: Grid, r: Requests, tokens: FloatArray, _: FloatArray) -> State:
    """C in flight, each replaced when it ends; those that memory does not hold wait outside."""
    n, inside = r.decoded_tokens, np.minimum(float(r.concurrency or 1), grid.most.astype(float))
    decodes, fresh = n / tokens, _fresh(r, len(tokens))
    chunks = chunks_of(r, len(tokens))
    reads = np.maximum(chunks, 1.0) + 0.5 + grid.ahead
    each = np.maximum(fresh, 1.0) / (r.chunk_tokens * grid.groups)
    low, high = np.zeros(tokens.shape), np.minimum(inside - 1.0, decodes / each)
    for _round in range(HALVINGS):
        others = 0.5 * (low + high)
        used = others * each / decodes
        before = reads + each * used / (2.0 * (1.0 - used))
        fewer = others * (decodes + before) < (inside - 1.0) * decodes
        low, high = np.where(fewer, others, low), np.where(fewer, high, others)
    batch = 1.0 + others
    step, prompt = grid.step(batch), grid.at(grid.prompts, np.maximum(others, 1.0))
    waiting = others * prompt / n
    company = np.minimum(inside - 1.0, 1.0)
    ttft = prompt + chunks * grid.shared(step, company)
    ttft = ttft + company * ((before - chunks) * step + before * prompt * others / decodes)
    # By Little's law a request takes C / (requests a second) in all.
    outside = (float(r.concurrency or 1) / inside - 1.0) * (ttft + n * (step / tokens + waiting))
    return batch, waiting, ttft + outside


def _wave(grid: Grid, r: Requests, tokens: FloatArray, _: FloatArray) -> State:
    """All C sent at once: the mean request waits for half of the prompts, before and after its
    first token alike."""
    inside = np.minimum(float(r.concurrency or 1), grid.most.astype(float))
    prompt = grid.at(grid.prompts, inside)
    waiting = (inside - 1.0) / 2.0 * prompt / r.decoded_tokens
    return inside, waiting, (inside + 1.0) / 2.0 * prompt


def _open(grid: Grid, r: Requests, tokens: FloatArray, most_requests: FloatArray) -> State:
    """λ requests a second, whatever the server does."""
    rate = float(r.request_rate or 0.0)
    if rate >= most_requests[0]:
        raise InputError(
            f"request_rate must be < {most_requests[0]:.3g} requests/s, what one replica carries "
            f"with plain decoding ({grid.most[0]:,} sequences fill its memory), got {rate:g}"
        )
    found = open_loop(
        r.decoded_tokens, np.full((1, *tokens.shape), rate), tokens, grid.most, grid.step,
        grid.prompt,
    )  # fmt: skip
    batch, step, prompt = found.batch[0], found.step[0], found.prompt[0]
    queue = queue_seconds(found, room_for(r, len(tokens)), grid.unequal_at(found.batch))[0]
    ttft = _first_token(grid, r, batch, prompt) + queue
    longer = np.where(rate < most_requests, 1.0, UNENDING)
    tpot = found.tpot[0]
    return batch, longer * tpot - step / tokens, longer * ttft


def step_spread(grid: Grid, load: Steady, rate: float) -> FloatArray:
    """How far requests of an open loop differ in the steps they meet, because the batch comes and
    goes: standard deviation over mean of a request's mean step, over γ.

        Var B = (B₁ − 1) / ((1 − ε) (1 − λP)²)        ε = B step′(B) / step(B)
        spread = ε / B₁ √(Var B f(1 − ε))              f(x) = 2 (x − 1 + e^−x) / x²

    Requests come by Poisson's law, in bursts as of `open_loop`; each goes the later the longer
    steps are, so that a number off its mean comes back 1/(1 − ε) times as slowly as a request
    takes (an Ornstein–Uhlenbeck process), and f is what a mean over one request leaves of it.

    Parameters
    ----------
    grid, load
        Seconds over batches, and the state of the loop.
    rate
        λ, requests a second, > 0.

    Returns
    -------
    FloatArray
        ≥ 0, shape of `load.batch`; at a γ that does not carry the loop it means nothing.
    """
    up, down, here = (grid.step(load.batch * by) for by in (1.0 + NUDGE, 1.0 - NUDGE, 1.0))
    slope = np.clip((up - down) / (2.0 * NUDGE * here), 0.0, MOST_BUSY)
    busy = np.minimum(rate * load.prompt, MOST_BUSY)
    left = 1.0 - slope
    kept = 2.0 * (left - 1.0 + np.exp(-left)) / left**2
    many = np.maximum(load.batch - 1.0, 0.0) / (left * (1.0 - busy) ** 2)
    return np.asarray(slope / load.batch * np.sqrt(many * kept))


_SOLVERS = {"held": _held, "closed": _closed, "wave": _wave, "open": _open}
