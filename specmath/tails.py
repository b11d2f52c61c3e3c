"""Slow requests: the distribution of what a request takes, in both arms, and of its gaps.

    decode = K t + n P            TPOT = decode / (N − 1)            request = TTFT + decode

K steps bring the N − 1 tokens after the first (`specmath.renewal`), each takes t, and n prompts of
other requests are read meanwhile, each of which adds P to the steps that it shares. The server law
says how many they are in the mean, A; a step meets as many as any other, and around the mean they
fall by Poisson's law: nearly so where requests of mixed lengths follow each other in a closed loop.
In an open one more come while one is read, which makes it that of a delay cycle. In one wave those
in front are followed by the rest: as likely any number of them, and all for a whole request.

In an open loop the batch comes and goes as well, which moves the steps that a request meets
(`serving.loop.step_spread`).

Answers of different lengths (`lengths`) spread a request by their own, prompts of different lengths
by how long those are that it meets.

Not in it: the spread of the first token's time, the network. Requests accept differently only where
the acceptance is a mixture: elsewhere what is accepted spreads them least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtri

from specmath.checks import FloatArray, InputError, real
from specmath.estimate import Basis, Estimate
from specmath.lengths import in_groups
from specmath.predict import Prediction
from specmath.renewal import Kind, StepCount, kinds_of, steps_to_emit
from specmath.scenario.endpoint import Endpoint
from specmath.scenario.server import requests_of, spread_of
from specmath.serving.loop import Requests
from specmath.spread import Spread, over_lengths

__all__ = ["GAPS", "LEVELS", "Arms", "Gap", "Prompts", "Tails", "Taken", "tails"]

LEVELS = (0.01, 0.02, 0.05, *(round(0.1 * i, 1) for i in range(1, 9)), 0.85, 0.9, 0.925, 0.95,
          0.97, 0.98, 0.99, 0.995, 0.999)  # fmt: skip
"""Quantiles that are computed unless others are asked for."""

Gap = Literal["itl_token", "itl_chunk", "itl_smeared", "tpot"]
GAPS: tuple[Gap, ...] = ("itl_token", "itl_chunk", "itl_smeared", "tpot")
"""What people mean by inter-token latency: the gap before each token, 0 within a burst; the gap
before each chunk that a client receives; that gap shared by the tokens of the chunk; one number a
request, (whole − first token) / (N − 1)."""

Prompts = Literal["none", "poisson", "wave", "even"]
"""How other requests' prompts fall: none, by chance, in one wave, or only their mean is known and
each step has its share."""

NODES = 9
"""Ratios of a prompt to a step at which a quantile is computed; it is nearly a line between."""

MOST_AGAIN = 0.95
"""Prompts that come while one is read, at most; as `serving.loop` has it."""

UNSEEN = 1e-11
"""Chance below which a pair of steps and prompts is left out."""


# ── what something takes, counted ────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Taken:
    """Steps and prompts that something takes, in every way that it can come: one entry a way.

    `mean`: of steps, and of prompts.
    """

    steps: FloatArray
    prompts: FloatArray
    chances: FloatArray
    mean: tuple[float, float]

    def quantiles(self, levels: Sequence[float], prompt: ArrayLike) -> FloatArray:
        """Quantiles of steps + prompt × prompts, in steps, with `prompt` what one adds in steps
        [draws]: shape (draws, levels)."""
        asked = np.atleast_1d(np.asarray(prompt, dtype=float))
        low, high = float(asked.min()), float(asked.max())
        if low == high or not self.prompts.any():
            return np.tile(self._at(levels, low), (len(asked), 1))
        nodes = np.linspace(low, high, NODES)
        known = np.array([self._at(levels, node) for node in nodes])
        return np.stack([np.interp(asked, nodes, column) for column in known.T], axis=1)

    def variation(self, prompt: float) -> float:
        """Standard deviation over mean, with `prompt` what one adds in steps."""
        values, chances = self.steps + prompt * self.prompts, self.chances / self.chances.sum()
        mean = float(values @ chances)
        return math.sqrt(float((values - mean) ** 2 @ chances)) / mean

    def _at(self, levels: Sequence[float], prompt: float) -> FloatArray:
        values = self.steps + prompt * self.prompts
        order = np.argsort(values)
        reached = np.cumsum(self.chances[order])
        at = np.searchsorted(reached, np.asarray(levels) * reached[-1] - UNSEEN)
        return np.asarray(values[order][np.minimum(at, len(order) - 1)])


def _counts(mean: FloatArray, counts: FloatArray, again: float = 0.0) -> FloatArray:
    """P(n = counts) of prompts around each mean > 0, each of which lets `again` more come while it
    is read, in [0, 1): shape (means, counts). Poisson's law at 0, else that of a delay cycle:

        θ (θ + nη)^{n−1} e^{−θ−nη} / n!        η = again, θ = mean (1 − η)

    (Borel and Tanner; Consul and Jain 1973).
    """
    first = mean[:, None] * (1.0 - again)
    rest = first + counts * again
    logs = np.log(first) + (counts - 1.0) * np.log(rest) - rest - gammaln(counts + 1.0)
    return np.asarray(np.exp(logs))


def _decoding(half: _Half) -> Taken:
    """A request's decode."""
    steps, chances = half.count.steps.astype(float), half.count.chances
    mean = half.count.mean, half.rate * half.count.mean
    if half.rate == 0.0:
        return Taken(steps, np.zeros(len(steps)), chances, mean)
    if half.prompts == "wave":
        met = np.linspace(0.0, 2.0 * mean[1], round(2.0 * mean[1]) + 1)
        return _pairs(steps, met, np.outer(chances, np.full(len(met), 1.0 / len(met))), mean)
    # Of prompts that differ fewer and longer ones have the same mean and the same deviation:
    # (λ/u) (u P)² = λ E P², with u = E P²/(E P)².
    means = half.rate / half.unequal * steps
    reach = (7.0 * math.sqrt(means[-1]) + 12.0) / (1.0 - half.again) ** 1.5
    met = np.arange(max(0, int(means[0] - reach)), int(means[-1] + reach) + 1.0)
    chances = chances[:, None] * _counts(means, met, half.again)
    return _pairs(steps, half.unequal * met, chances, mean)


def _all_of_a_wave(half: _Half) -> Taken:
    """A request from its first prompt to its end, but for what it waits before its first token:
    with that, all the wave's prompts."""
    count, met = half.count, half.rate * half.count.mean
    steps = count.steps.astype(float)
    return Taken(steps, np.full(len(steps), met), count.chances, (count.mean, met))


def _pairs(
    steps: FloatArray, prompts: FloatArray, chances: FloatArray, mean: tuple[float, float]
) -> Taken:
    i, j = np.nonzero(chances > UNSEEN)
    return Taken(steps[i], prompts[j], chances[i, j], mean)


@dataclass(frozen=True)
class _Read:
    """How steps read other requests' prompts: how many of the pieces that a prompt is read in one
    step may hold at most, how many pieces a prompt has, and how many prompts' worth of tokens fill
    a step."""

    most: int
    pieces: int
    fullest: float

    @classmethod
    def of(cls, r: Requests, *, speculative: bool) -> _Read:
        """By the tokens of a step at most, and the requests that there are."""
        fresh = max(1.0, r.fresh_tokens(speculative=speculative))
        pieces = math.ceil(fresh / r.chunk_tokens)
        held = r.batch if r.batch is not None else r.concurrency
        others = math.inf if held is None else float(max(1, held - 1))
        fullest = min(r.chunk_tokens / fresh, others)
        return cls(max(1, int(fullest)), pieces, fullest)

    def chunk(self, rate: float) -> tuple[FloatArray, FloatArray]:
        """Prompts that a step reads, in prompts, and the chance of each number."""
        if rate == 0.0:
            return np.zeros(1), np.ones(1)
        if self.pieces > 1 or self.most == 1:
            busy = min(1.0, rate * self.pieces)
            return np.array([0.0, 1.0 / self.pieces]), np.array([1.0 - busy, busy])
        read = np.arange(min(self.most, int(rate + 8.0 * math.sqrt(rate) + 8.0)) + 1.0)
        chances = _counts(np.array([rate]), read)[0]
        chances[-1] += 1.0 - chances.sum()  # what is more waits for a later step
        return read, chances


def _gap(name: Gap, half: _Half) -> Taken:
    """The gaps between tokens by one of the definitions that count gaps."""
    prompts, chances = half.read.chunk(half.rate)
    one, rate = np.ones(len(prompts)), half.rate
    if name == "itl_chunk":
        return Taken(one, prompts, chances, (1.0, rate))
    chunks = sum(kind.share / kind.tokens for kind in half.kinds)  # of a token
    if name == "itl_token":
        every = np.append(chunks * chances, 1.0 - chunks)
        return Taken(np.append(one, 0.0), np.append(prompts, 0.0), every, (chunks, chunks * rate))
    sizes = np.arange(1, max(len(kind.law) for kind in half.kinds) + 1)
    within = np.zeros(len(sizes))  # chance that a token comes in a chunk of so many
    for kind in half.kinds:
        within[: len(kind.law)] += kind.share / kind.tokens * np.array(kind.law)
    steps, read = np.repeat(1.0 / sizes, len(prompts)), np.outer(1.0 / sizes, prompts).ravel()
    return Taken(steps, read, np.outer(within * sizes, chances).ravel(), (chunks, chunks * rate))


# ── in time, at every joint point ────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Arms:
    """A quantity without and with speculation."""

    plain: Spread
    speculative: Spread

    def gain(self, level: float | None = None) -> Estimate:
        """How many times as long plain decoding takes at that quantile, or in the mean."""
        before, after = (
            each.mean if level is None else each.at(level)
            for each in (self.plain, self.speculative)
        )
        return before.with_(after, _over)

    def map(self, convert: Callable[[Any], Any]) -> Arms:
        """As `Spread.map`, both."""
        return Arms(self.plain.map(convert), self.speculative.map(convert))


def _over(before: FloatArray, after: FloatArray) -> FloatArray:
    return np.divide(before, after, out=np.ones(np.shape(before)), where=np.asarray(after) > 0)


@dataclass(frozen=True)
class Tails:
    """Slow requests at the γ in use. Seconds, or plain steps where the plain step is not known.

    Attributes
    ----------
    gamma, tokens
        γ; N, output tokens of every request.
    timed
        Whether times are seconds.
    decode
        The N − 1 tokens after the first.
    request
        With the first token's mean time; None while that is not known.
    gaps
        Inter-token latency by each definition (`GAPS`).
    steps
        Steps of a request in either arm.
    step, prompt
        What a step takes, and what a prompt of another request adds to those that it shares, in
        either arm.
    prompts, met
        How other requests' prompts fall; how many a request meets in the mean, in either arm.
    fullest
        A step that reads as many tokens of prompts as it may, in either arm; None where nobody's
        are read, or their number is not known.
    alike
        Whether every request is taken to accept alike: then the tail is a least.
    variation
        Standard deviation over mean of a request's TPOT in either arm, in the middle.
    lengths
        The same of the lengths of prompts, and of answers; 0: all are alike.
    """

    gamma: int
    tokens: int
    timed: bool
    decode: Arms
    request: Arms | None
    gaps: Mapping[Gap, Arms]
    steps: tuple[StepCount, StepCount]
    step: tuple[Estimate, Estimate]
    prompt: tuple[Estimate, Estimate]
    prompts: Prompts
    met: tuple[float, float]
    fullest: tuple[Estimate, Estimate] | None
    alike: bool
    variation: tuple[float, float]
    lengths: tuple[float, float] = (0.0, 0.0)

    @property
    def whole(self) -> Arms:
        """The longest part of a request of which the time is known: all of it, or its decode."""
        return self.decode if self.request is None else self.request


@dataclass(frozen=True, eq=False)
class _Half:
    """One arm at one corner, or in the middle: seconds of a step and of a prompt [draws], how
    prompts fall, how many a step meets, how many come while one is read, how a step reads them, and
    E P²/(E P)² of those that differ."""

    kinds: tuple[Kind, ...]
    count: StepCount
    step: FloatArray
    prompt: FloatArray
    prompts: Prompts
    rate: float
    again: float
    read: _Read
    unequal: float


@dataclass(frozen=True, eq=False)
class _Arm:
    """An arm in the middle and at the corners; `basis` of its times, and whether they are open."""

    middle: _Half
    corners: tuple[_Half, ...]
    basis: Basis
    open: bool

    def estimate(self, of: Callable[[_Half], FloatArray]) -> Estimate:
        """A number from its values at the draws of each corner."""
        points = np.stack([of(half) for half in self.corners]) if self.open else None
        return Estimate(float(of(self.middle)[0]), points, self.basis)

    def spread(self, of: Callable[[_Half], Taken], levels: tuple[float, ...]) -> Spread:
        """A quantity from what it takes at each corner."""
        taken = {id(half): of(half) for half in (self.middle, *self.corners)}

        def quantiles(half: _Half) -> FloatArray:
            found = taken[id(half)].quantiles(levels, half.prompt / half.step)
            return np.asarray(found * half.step[:, None])

        def mean(half: _Half) -> FloatArray:
            steps, prompts = taken[id(half)].mean
            return steps * half.step + prompts * half.prompt

        points = np.stack([quantiles(half) for half in self.corners]) if self.open else None
        return Spread(self.estimate(mean), levels, quantiles(self.middle)[0], points)


def tails(prediction: Prediction, levels: Sequence[float] = LEVELS) -> Tails:
    """Quantiles of a request's time and of its gaps, plain and at the γ in use.

    Parameters
    ----------
    prediction
        Of one scenario; every request has its `output_tokens`.
    levels
        Which quantiles, each in [0, 1].

    Returns
    -------
    Tails
        Each number an `Estimate` over the endpoint's joint points.

    Raises
    ------
    InputError
        A request of one token, which has no tail; a request rate that is not carried at γ, where
        the queue has no end; an acceptance without one law of a step.

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> found = tails(predict(Scenario(alpha=0.8, c=0.1, gamma=4, target_ms=40, overhead=0.1)))
    >>> p99 = found.decode.plain.at(0.99), found.decode.speculative.at(0.99)
    >>> [round(each.value, 2) for each in p99]
    [10.2, 5.22]
    """
    endpoint, gamma = prediction.endpoint, prediction.gamma
    tokens = prediction.scenario.output_tokens
    _check(endpoint, gamma, tokens)
    asked = tuple(dict.fromkeys(float(q) for q in real("levels", list(levels), 0, 1)))
    lengths = _lengths(prediction)
    # Of answers that differ, each quantile rests on others of the mean one.
    known = asked if lengths is None else tuple(sorted({*LEVELS, *asked}))
    arms = _arm(endpoint, 0), _arm(endpoint, gamma)
    before, after = (arm.middle for arm in arms)
    spreads = [_batch_spread(endpoint, g) for g in (0, gamma)]
    alike = _each_widened(_both(arms, _decoding, known), spreads)
    decode = _differing(alike, lengths, asked)
    per_token = alike.map(lambda seconds: seconds / (tokens - 1))
    gaps = {name: _both(arms, partial(_gap, name), asked) for name in GAPS[:-1]}
    return Tails(
        gamma=gamma,
        tokens=tokens,
        timed=endpoint.tpot_plain is not None,
        decode=decode,
        request=_request(prediction, arms, decode),
        gaps={**gaps, "tpot": _differing(per_token, lengths, asked, per_token=True)},
        steps=(before.count, after.count),
        step=(arms[0].estimate(_step), arms[1].estimate(_step)),
        prompt=(arms[0].estimate(_prompt), arms[1].estimate(_prompt)),
        prompts=after.prompts,
        met=(before.rate * before.count.mean, after.rate * after.count.mean),
        fullest=_fullest(arms),
        alike=len(after.kinds) == 1,
        variation=(_variation(before, lengths), _variation(after, lengths)),
        lengths=(
            prediction.scenario.prompt_spread,
            prediction.scenario.output_spread if lengths else 0.0,
        ),
    )


Lengths = tuple[FloatArray, FloatArray]
"""Tokens after the first over their mean, of each group of answers, and the groups' shares."""


def _lengths(prediction: Prediction) -> Lengths | None:
    """None where all are one, and in one wave, in which who is long meets no more prompts."""
    s, load = prediction.scenario, prediction.endpoint.load
    if not s.output_spread or (load is not None and load.requests.loop == "wave"):
        return None
    lengths, shares = in_groups(s.output_spread)
    after = np.maximum(lengths * s.output_tokens - 1.0, 1.0) / (s.output_tokens - 1)
    return after, shares


def _differing(
    arms: Arms, lengths: Lengths | None, levels: tuple[float, ...], *, per_token: bool = False
) -> Arms:
    if lengths is None:
        return arms
    return Arms(*(
        over_lengths(each, *lengths, levels, per_token=per_token)
        for each in (arms.plain, arms.speculative)
    ))  # fmt: skip


def _check(endpoint: Endpoint, gamma: int, tokens: int) -> None:
    if tokens < 2:
        raise InputError(f"output_tokens must be >= 2 for a tail, got {tokens}")
    load = endpoint.load
    if load is not None and not load.carries(gamma):
        raise InputError(
            f"request_rate must be < {float(load.most_requests[gamma]):.3g} requests/s, what one "
            f"replica carries at gamma={gamma}, got {load.requests.request_rate:g}: beyond, the "
            "queue grows without end"
        )


def _batch_spread(endpoint: Endpoint, gamma: int) -> float:
    """Of a request's mean step in an open loop, whose batch comes and goes; 0 elsewhere."""
    return 0.0 if endpoint.load is None else spread_of(endpoint.load, gamma)


def _each_widened(arms: Arms, spreads: Sequence[float]) -> Arms:
    return Arms(_widened(arms.plain, spreads[0]), _widened(arms.speculative, spreads[1]))


def _widened(of: Spread, spread: float) -> Spread:
    """With a normal spread over the mean besides its own: deviations add up as squares."""
    if spread == 0.0:
        return of
    normal = spread * ndtri(np.clip(np.array(of.levels), UNSEEN, 1.0 - UNSEEN))

    def wider(values: FloatArray, mean: FloatArray) -> FloatArray:
        own, besides = values - mean, normal * mean
        squares = own * np.abs(own) + besides * np.abs(besides)
        return np.asarray(mean + np.sign(squares) * np.sqrt(np.abs(squares)))

    points = None
    if of.points is not None and of.mean.points is not None:
        points = wider(of.points, of.mean.points[:, :, None])
    return replace(of, values=wider(of.values, np.array(of.mean.value)), points=points)


def _both(arms: tuple[_Arm, _Arm], of: Callable[[_Half], Taken], levels: tuple[float, ...]) -> Arms:
    return Arms(*(arm.spread(of, levels) for arm in arms))


def _request(prediction: Prediction, arms: tuple[_Arm, _Arm], decode: Arms) -> Arms | None:
    """The whole request: whoever waits longer for the first token of a wave, waits less after."""
    first = prediction.first_token
    if first is None:
        return None
    if arms[1].middle.prompts == "wave":
        decode = _both(arms, _all_of_a_wave, decode.plain.levels)
    begun, ours = (each.value for each in first)
    return Arms(
        decode.plain.map(lambda seconds: seconds + begun),
        decode.speculative.map(lambda seconds: seconds + ours),
    )


def _step(half: _Half) -> FloatArray:
    return half.step


def _prompt(half: _Half) -> FloatArray:
    return half.prompt


def _variation(half: _Half, lengths: Lengths | None) -> float:
    """Of a shorter answer the mean over its tokens varies more: by 1/√n."""
    found = _decoding(half).variation(float(half.prompt[0] / half.step[0]))
    return found * (1.0 if lengths is None else math.sqrt(float(lengths[1] @ (1.0 / lengths[0]))))


def _fullest(arms: tuple[_Arm, _Arm]) -> tuple[Estimate, Estimate] | None:
    """A step that reads as many tokens of prompts as it may, where it is known how many it may."""

    def seconds(half: _Half) -> FloatArray:
        return half.step + half.prompt * half.read.fullest

    if not arms[1].middle.rate or math.isnan(arms[1].middle.read.fullest):
        return None
    return arms[0].estimate(seconds), arms[1].estimate(seconds)


def _arm(endpoint: Endpoint, gamma: int) -> _Arm:
    """One arm of an endpoint: what its steps and prompts take at every joint point."""
    plain = endpoint.tpot_plain
    halves, reads = (endpoint.speculation, *endpoint.corners), _reads(endpoint, gamma)
    how, met = _prompts(endpoint, gamma)
    opened = endpoint.open or (plain is not None and plain.points is not None)
    one, tokens = np.ones(1), endpoint.scenario.output_tokens - 1
    arrivals = endpoint.scenario.request_rate or 0.0
    unequal = _unequal(endpoint, gamma)
    every: list[_Half] = []
    for i, (of, tpot, read) in enumerate(zip(halves, _plain_times(endpoint), reads, strict=True)):
        excess, factor = (endpoint.excess, endpoint.prompts) if i else (one, one)
        # Those of the middle are the centre's own, not the middle of what is drawn.
        cost = of.cost.points([gamma], excess)[:, 0] if i else of.cost.total([gamma])
        step = tpot / (1.0 + factor * of.plain_waiting)
        waiting, emitted = step * factor * float(of.waits(gamma)), float(of.tokens(gamma))
        step = step * cost + (emitted * waiting if how == "even" else 0.0)
        prompt = waiting * tokens / met if met else 0.0 * waiting
        (count,) = steps_to_emit(of.acceptance, tokens, gamma)
        step, prompt = np.broadcast_arrays(step, prompt)
        # In an open loop more prompts come while one is read; elsewhere others end no sooner.
        again = min(arrivals * (float(prompt[0]) if i == 0 else every[0].prompt[0]), MOST_AGAIN)
        every.append(_Half(kinds_of(of.acceptance, gamma), count, step, prompt, how,
                           met * emitted / tokens, again, read, unequal))  # fmt: skip
    over = () if plain is None else plain.basis.over
    kind = (endpoint if plain is None else plain).basis.kind
    basis = Basis(kind, over=tuple(dict.fromkeys((*over, *endpoint.basis.over))))
    return _Arm(every[0], tuple(every[1:]), basis, opened)


def _unequal(endpoint: Endpoint, gamma: int) -> float:
    """E P²/(E P)² of the prompts that a request meets."""
    load = endpoint.load
    if load is None or load.grid.unequal is None:
        return 1.0
    return float(np.broadcast_to(load.grid.unequal_at(load.batch), load.batch.shape)[gamma])


def _prompts(endpoint: Endpoint, gamma: int) -> tuple[Prompts, float]:
    """How other requests' prompts fall, and how many of them a decode meets in the mean. Where
    their share of the time was given, one of each other request in flight."""
    load, halves = endpoint.load, (endpoint.speculation, *endpoint.corners)
    if not any(float(each.waits(gamma)) for each in halves):
        return "none", 0.0
    if load is None:
        others = endpoint.scenario.in_flight - 1
        return ("poisson", float(others)) if others else ("even", 0.0)
    return "wave" if load.requests.loop == "wave" else "poisson", load.prompts_met(gamma)


def _plain_times(endpoint: Endpoint) -> list[FloatArray]:
    """TPOT of plain decoding in the middle and at each corner [draws]: seconds, or plain steps."""
    plain, halves = endpoint.tpot_plain, endpoint.corners
    if plain is None:  # a step is 1
        middle = np.array([1.0 + endpoint.speculation.plain_waiting])
        return [middle, *(1.0 + each.plain_waiting * endpoint.prompts for each in halves)]
    middle = np.array([plain.value])
    if plain.points is None:
        return [middle] * (1 + len(halves))
    return [middle, *np.broadcast_to(plain.points, (len(halves), plain.points.shape[1]))]


def _reads(endpoint: Endpoint, gamma: int) -> list[_Read]:
    """How steps read prompts: of the middle of their length, and of that of each corner; where
    the costs were given, any number of them."""
    if endpoint.load is None:
        return [_Read(endpoint.scenario.batch, 1, math.nan)] * (1 + len(endpoint.corners))
    middle, *edges = (_Read.of(r, speculative=gamma > 0) for r in requests_of(endpoint.scenario))
    shape, lengths = tuple(endpoint.axes.values()), list(endpoint.axes).index("prompt_tokens")
    each = np.unravel_index(np.arange(len(endpoint.corners)), shape)[lengths]
    return [middle, *((edges or [middle])[int(i)] for i in each)]
