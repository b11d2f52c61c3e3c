"""What one replica carries: the open loop of the server law, solved for its rate.

Over the rate λ, from one request alone to λ_max, at which memory is full, times rise; the largest
rate within a time is where that time is met, and λ_max where none is. Everything is over γ, and
again at the joint points of what is not known, which move the state: a slower server than computed
is fuller as well.

Where an endpoint has several kinds of request, all of them fill the same steps, and each has its
own times of them: that of a token is τ/τ_i times the mean one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import CappedAcceptance, MixtureAcceptance
from specmath.checks import FloatArray, IntArray
from specmath.estimate import Basis, Estimate
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.scenario.parts import Part, of_kind
from specmath.scenario.server import requests_of
from specmath.serving.loop import (
    Grid,
    Requests,
    chunks_of,
    first_token,
    prompt_seconds,
    room_for,
)
from specmath.serving.open_loop import Filled, filled, largest_rate, open_loop, queue_seconds
from specmath.serving.pair import ServedPair
from specmath.serving.uneven import columns, uneven

__all__ = ["JUDGED", "SLOS", "Before", "Carried", "Limit", "Points", "Promise", "Slo", "carried"]

Slo = Literal["tpot", "ttft", "e2e"]
SLOS: tuple[Slo, ...] = ("tpot", "ttft", "e2e")
"""What may be promised: time per token, first token, whole request."""

Limit = Literal["tpot", "ttft", "e2e", "memory", "time"]
"""What keeps a replica from a larger rate: a time that is promised, the sequences that memory
holds, or that steps and prompts take as long for more of them."""

USES = (0.0, 0.1, 0.25, 0.4, 0.55, 0.68, 0.78, 0.86, 0.92, 0.96, 0.985, 0.998)
"""Of λ_max, between which the joint points are interpolated."""

SETTLED = 1e-4
"""Of the fixed point at a joint point: within a range that is far wider than what is left."""

EXACT = 1e-12
"""Of what is promised: the same of one γ as of all of them."""

TINY = 1e-12
"""Seconds: of no prompt there is no first token to wait for."""

NEAR = 1.0 - 1e-9
"""As near to the largest rate as a state is asked for."""

JUDGED = 0.96
"""Of λ_max, up to which arms are laid beside each other."""

TWICE = 1.1
"""How many times the rate twice the memory must carry for memory to be what limits it."""

SWEEP, SWEEPS = 33, 3
"""Rates among which a crossing is bracketed, and how often again within the bracket."""


@dataclass(frozen=True)
class Promise:
    """A mean time that is promised, seconds > 0: of all requests, or of one kind (`part`)."""

    name: Slo
    seconds: float
    part: int | None = None

    @property
    def most(self) -> float:
        """With what rounding may add to a time that is just as long: who waits elsewhere is given
        all that is left of it."""
        return self.seconds * (1.0 + 1e-9)


@dataclass(frozen=True, eq=False)
class Before:
    """What a request takes elsewhere before it decodes, over γ, seconds: until its first token, in
    the middle and at the joint points [γ, corners, draws], and for its cache to move here."""

    first: FloatArray
    points: FloatArray
    moved: FloatArray

    def only(self, gammas: list[int]) -> Before:
        """The same with those γ alone."""
        return Before(self.first[gammas], self.points[gammas], self.moved[gammas])


@dataclass(frozen=True, eq=False)
class _Kind:
    """A kind of request, or all of them in the mean, over γ: `tokens` a step, `chunks` that read
    its prompt, of which a step has `room` for so many; `beyond`: seconds that its prompt takes
    beyond the mean one, over the grid's batches [batches, γ]; `decoded`: N − 1; `before`: None
    where its prompt is read here, or nobody says where."""

    tokens: FloatArray
    chunks: FloatArray
    room: FloatArray
    beyond: FloatArray
    decoded: int
    before: Before | None = None

    def only(self, gammas: list[int]) -> _Kind:
        """The same with those γ alone."""
        before = None if self.before is None else self.before.only(gammas)
        return replace(self, tokens=self.tokens[gammas], chunks=self.chunks[gammas],
                       room=self.room[gammas], beyond=self.beyond[:, gammas],
                       before=before)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Full:
    """Servers that are so full: requests a second, whether it stays so, and the times of the
    mean request, all [batches, γ]."""

    rate: FloatArray
    carried: np.ndarray
    times: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Carried:
    """What serves: seconds over batches in the middle, τ over γ = 0 … K, and what is open.

    `factors`: measured over computed times over γ; `alone`: seconds of a plain step of one
    sequence; `kinds`: all requests in the mean, then each part.
    """

    base: Endpoint
    requests: Requests
    grid: Grid
    factors: FloatArray
    alone: float
    kinds: tuple[_Kind, ...]

    @property
    def tokens(self) -> FloatArray:
        """τ over γ."""
        return self.kinds[0].tokens

    @cached_property
    def held(self) -> FloatArray:
        """B_max over γ."""
        return self.grid.most.astype(float)

    @cached_property
    def most(self) -> FloatArray:
        """λ_max over γ."""
        step, prompt = self._seconds(self.held)
        return largest_rate(self.requests.decoded_tokens, self.held, step, self.tokens, prompt)

    def _seconds(self, batch: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of a step and a prompt at that batch of each γ."""
        return (self.grid.step(batch) * self.factors,
                self.grid.at(self.grid.prompts, batch) * self.factors)  # fmt: skip

    def states(self, rates: FloatArray, part: int | None = None) -> dict[str, FloatArray]:
        """Batch and times of a kind of request, at rates [rates, γ], or [rates, 1] for all γ."""
        return self._times(part, self._loop(rates))

    def _loop(self, rates: FloatArray) -> Filled:
        each = np.broadcast_to(rates, (len(rates), len(self.tokens)))
        return open_loop(
            self.requests.decoded_tokens, each, self.tokens, self.held, self._step, self._prompt
        )

    def filled(self, batch: FloatArray) -> Full:
        """The same of servers so full [batches, γ], ascending, and the rates that fill them."""
        found = self._filled(batch, settled=SETTLED)
        return Full(found.rate, found.carried(), self._times(None, found))

    def _filled(self, batch: FloatArray, *, settled: float) -> Filled:
        n = self.requests.decoded_tokens
        return filled(n, batch, self.tokens, self._step, self._prompt, settled)

    def _step(self, batch: FloatArray) -> FloatArray:
        return self.grid.step(batch) * self.factors

    def _prompt(self, others: FloatArray, each_step: FloatArray) -> FloatArray:
        return self.grid.prompt(others, each_step) * self.factors

    def _times(self, part: int | None, of: Filled) -> dict[str, FloatArray]:
        kind = self._kind(part)
        beside = np.maximum(of.batch - 1.0, 1.0)
        own = of.prompt + self.grid.at(kind.beyond, beside) * self.factors
        alone = self.alone * self.factors
        first = first_token(kind.chunks, self.grid.ahead, of.step, alone, of.batch, own)
        first = first + queue_seconds(of, self.kinds[0].room, self.grid.unequal_at(of.batch))
        told = None if kind.before is None else kind.before.first
        return _times(kind, self.tokens, of.batch, of.tpot, first, told)

    def after(self, each: Sequence[Before]) -> Carried:
        """The same, of requests that were elsewhere before: those of the mean one, and of each
        part."""
        kinds = zip(self.kinds, each, strict=True)
        return replace(self, kinds=tuple(replace(kind, before=one) for kind, one in kinds))

    def _kind(self, part: int | None) -> _Kind:
        return self.kinds[0 if part is None else 1 + part]

    def over(self, rates: FloatArray, part: int | None = None) -> dict[str, FloatArray]:
        """The states at those rates [rates, γ]; beyond λ_max that at λ_max."""
        return self.states(np.minimum(rates[:, None], self.most * NEAR), part)

    def only(self, *gammas: int) -> Carried:
        """The same with those γ alone."""
        g, chosen = self.grid, list(gammas)
        grid = replace(
            g, verify=g.verify[:, chosen], draft=g.draft[:, chosen], extra=g.extra[:, chosen],
            prompts=g.prompts[:, chosen], most=g.most[chosen],
            sharing=None if g.sharing is None else g.sharing[:, chosen],
            unequal=None if g.unequal is None else g.unequal[:, chosen],
        )  # fmt: skip
        kinds = tuple(kind.only(chosen) for kind in self.kinds)
        return replace(self, grid=grid, factors=self.factors[chosen], kinds=kinds)

    def ways(self, ways: Sequence[tuple[int, ...]], tax: ArrayLike = 0.0) -> Carried:
        """The same with a column for each way to draft, γ of each kind of request, in place of one
        γ for all; `tax`: a share of its steps that draft, one or of each way."""
        base, longest = self.base, [max(way) for way in ways]
        assert base.pair is not None
        kinds = [of_kind(base.speculation.acceptance, i) for i in range(len(base.parts))]
        weights = [part.share * part.decoded for part in base.parts]
        mixed = [
            MixtureAcceptance(weights, list(map(CappedAcceptance, kinds, way))) for way in ways
        ]
        asked = [each.asked(most) for each, most in zip(mixed, longest, strict=True)]
        tokens = [[each.tokens_per_step(most) for each, most in zip(mixed, longest, strict=True)]]
        tokens += [
            kind.tokens[[way[i] for way in ways]].tolist() for i, kind in enumerate(self.kinds[1:])
        ]
        return replace(
            self,
            grid=columns(self.grid, base.pair, asked, tax),
            factors=self.factors[longest],
            kinds=tuple(
                replace(kind.only(longest), tokens=np.array(each, dtype=float))
                for kind, each in zip(self.kinds, tokens, strict=True)
            ),
        )

    def within(self, promises: Sequence[Promise]) -> tuple[FloatArray, tuple[Limit, ...]]:
        """The largest rate within what is promised over γ, and what limits it.

        Sought over the batch, of which times and rate follow at once; of a server that is full
        within it, over the rates at which it is.
        """
        limits = self._full()
        if not promises:
            return self.most.copy(), tuple(limits)

        def fuller(log: FloatArray) -> tuple[FloatArray, FloatArray]:
            found = self._filled(np.exp(log), settled=EXACT)
            stays = np.minimum.accumulate(found.carried(), axis=0)
            return found.rate, np.where(stays, self._used(found, promises), np.inf)

        def faster(rate: FloatArray) -> tuple[FloatArray, FloatArray]:
            return rate, self._used(self._loop(rate), promises)

        held = np.maximum(self.held, 1.0 + TINY)
        rate, least, used = _met(fuller, np.zeros(len(held)), np.log(held))
        if (used <= 1.0).any():
            beyond, _, full = _met(faster, np.minimum(rate, self.most * NEAR), self.most * NEAR)
            kept = used.max(axis=0) <= 1.0
            rate = np.where(kept, np.where(full.max(axis=0) <= 1.0, self.most, beyond), rate)
            used = np.where(kept, full, used)
        none = least.max(axis=0) > 1.0
        binding = np.where(none, least.argmax(axis=0), used.argmax(axis=0))
        told = tuple(
            promises[int(which)].name if r < m else limit
            for which, r, m, limit in zip(binding, rate, self.most, limits, strict=True)
        )
        return np.where(none, 0.0, rate), told

    def _used(self, found: Filled, promises: Sequence[Promise]) -> FloatArray:
        """Each time that is promised over what is promised, [promises, rates, γ]: they rise with
        the rate."""
        times = {part: self._times(part, found) for part in {each.part for each in promises}}
        return np.stack([times[each.part][each.name] / each.most for each in promises])

    def _full(self) -> list[Limit]:
        """What limits λ_max over γ: memory where twice the sequences, each as dear as the last
        ones, would carry clearly more."""
        held = self.held
        before = np.maximum(held * 0.9, 1.0)
        step, prompt = self._seconds(held)
        slope = np.where(held > before, (step - self._seconds(before)[0]), 0.0)
        slope = slope / np.maximum(held - before, 1e-9)
        twice = largest_rate(
            self.requests.decoded_tokens, 2.0 * held, step + slope * held, self.tokens, prompt
        )
        return [
            "memory" if t > TWICE * m else "time" for t, m in zip(twice, self.most, strict=True)
        ]

    def fastest(self, rates: Sequence[float], tpot: FloatArray) -> tuple[int, ...]:
        """The γ with the least time per token [rates, γ] at each rate, in the middle, of those that
        carry it and may be advised."""
        allowed = np.isin(np.arange(len(self.tokens)), [0, *self.base.advisable])
        able = (np.array(rates)[:, None] < self.most) & allowed
        return tuple(int(g) for g in np.argmin(np.where(able, tpot, np.inf), axis=1))

    def crossover(self, gamma: int) -> float | None:
        """The first rate from which on speculation is slower; None where it is not up to `JUDGED`
        of what both carry."""
        if gamma == 0:
            return None
        both = self.only(0, gamma)
        # Beyond, a server is full and the law says nothing of who is the faster.
        rates = np.linspace(0.0, JUDGED * float(both.most.min()), SWEEP)
        for _ in range(SWEEPS):
            tpot = both.over(rates)["tpot"]
            slower = np.flatnonzero(tpot[:, 1] >= tpot[:, 0])
            if not slower.size:
                return None
            if slower[0] == 0:
                return float(rates[0])
            low, high = float(rates[slower[0] - 1]), float(rates[slower[0]])
            rates = np.linspace(low, high, SWEEP)
        return 0.5 * (low + high)

    def estimate(self, value: float, points: FloatArray) -> Estimate:
        """A number of this server from its values at the joint points."""
        plain = self.base.plain
        assert plain is not None
        over = tuple(dict.fromkeys((*plain.basis.over, *self.base.basis.over)))
        return Estimate(value, points, Basis(self.base.basis.kind, over=over))

    def points(self, gamma: int) -> Points:
        """One arm at every joint point: [corners, draws] over rates."""
        base, g, one = self.base, self.grid, self.only(gamma)
        assert base.plain is not None
        slow = np.ones((1, 1))
        if base.plain.points is not None:
            slow = np.asarray(base.plain.points / base.plain.value)
        tokens = np.array([corner.tokens(gamma) for corner in base.corners], dtype=float)[:, None]
        drafted = np.array([float(corner.acceptance.drafted(gamma)) for corner in base.corners])
        more, slow = _positions(base) * drafted, slow * one.factors[0]
        plains, ours, alone = g.steps[:, 0], one.grid.steps[:, 0], one.grid.prompts[:, 0]

        def step(batch: FloatArray) -> FloatArray:
            plain = np.interp(batch, g.batches, plains)
            if gamma == 0:
                return np.asarray(plain * slow)
            # The grid has the middle of what a verified position costs.
            each = np.interp(batch, g.batches, ours) + (more - more.mean())[:, None] * plain
            return np.asarray((plain + base.excess * (each - plain)) * slow)

        def prompt(others: FloatArray, each_step: FloatArray) -> FloatArray:
            each = np.interp(others, g.batches, alone)
            if one.grid.sharing is not None:
                m = np.maximum(each_step, 1e-9)
                beyond = np.interp(others, g.batches, one.grid.sharing[:, 0])
                each = each + beyond * (1.0 + np.expm1(-m) / m)
            return np.asarray(each * base.prompts * slow)

        held = one.held[0]
        shape = (len(base.corners), max(slow.size, base.excess.size))
        last = np.full((1, 1), held)
        each = np.interp(last, g.batches, alone) * base.prompts * slow
        most = np.broadcast_to(
            largest_rate(self.requests.decoded_tokens, held, step(last), tokens, each), shape
        )
        rate = np.array(USES)[:, None, None] * most
        of = open_loop(self.requests.decoded_tokens, rate, tokens, held, step, prompt, SETTLED)
        unequal = one.grid.unequal
        differ = 1.0 if unequal is None else np.interp(of.batch - 1.0, g.batches, unequal[:, 0])
        queue = queue_seconds(of, one.kinds[0].room, differ)

        def times(part: int | None) -> Mapping[str, FloatArray]:
            kind = one._kind(part)
            mine = tokens if part is None else np.array(
                [of_kind(corner.acceptance, part).tokens_per_step(gamma)
                 for corner in base.corners], dtype=float)[:, None]  # fmt: skip
            beyond = np.interp(np.maximum(of.batch - 1.0, 1.0), g.batches, kind.beyond[:, 0])
            own = of.prompt + beyond * base.prompts * slow
            first = queue + first_token(
                kind.chunks, g.ahead, of.step, self.alone * slow, of.batch, own
            )
            told = None if kind.before is None else kind.before.points[0]
            return _times(replace(kind, tokens=mine), tokens, of.batch, of.tpot, first, told)

        return Points(rate, most, times)


def _times(
    kind: _Kind, tokens: FloatArray, batch: FloatArray, tpot: FloatArray, here: FloatArray,
    elsewhere: FloatArray | None,
) -> dict[str, FloatArray]:  # fmt: skip
    """Of a kind, from the mean time per token where `tokens` come a step in the mean; until its
    first token `here`, or where that is read elsewhere, until it decodes."""
    mine = tpot * (tokens / kind.tokens)
    rest = kind.decoded * mine
    if kind.before is None or elsewhere is None:
        return {"batch": batch, "tpot": mine, "ttft": here, "e2e": here + rest}
    first = np.broadcast_to(elsewhere, mine.shape)
    e2e = first + kind.before.moved + here + rest
    return {"batch": batch, "tpot": mine, "ttft": first, "e2e": e2e}


@dataclass(frozen=True, eq=False)
class Points:
    """Rates [uses, corners, draws] of an arm, ascending, λ_max of each point, and the times of a
    kind of request at those rates."""

    rate: FloatArray
    most: FloatArray
    times: Callable[[int | None], Mapping[str, FloatArray]]

    def at(self, rates: FloatArray, part: int | None = None) -> dict[Slo, list[FloatArray]]:
        """Times at those rates, each [corners, draws]; inf beyond λ_max."""
        times, found = self.times(part), {name: list[FloatArray]() for name in SLOS}
        for rate in rates:
            after, share = _between(self.rate, rate)
            for name in SLOS:
                told = np.where(rate < self.most, _mixed_times(times[name], after, share), np.inf)
                found[name].append(told)
        return found

    def within(self, promises: Sequence[Promise]) -> FloatArray:
        """The largest rate within what is promised [corners, draws]."""
        best = self.most
        for promise in promises:
            times = self.times(promise.part)[promise.name]
            after, share = _between(-1.0 / np.maximum(times, TINY), -1.0 / promise.most)
            met = _mixed(self.rate, after, share)
            rate = np.where(times[-1] <= promise.most, self.most, met)
            best = np.minimum(best, np.where(times[0] <= promise.most, rate, 0.0))
        return best


def _met(
    at: Callable[[FloatArray], tuple[FloatArray, FloatArray]], low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The largest rate at which all of what is used is ≤ 1, over γ, between two ends; what is used
    at the low end, and where it first is more than 1 (at the high end where it never is). `at`:
    the rates at places [places, γ], and what is used of each promise [promises, places, γ]."""
    first: FloatArray | None = None
    for _ in range(SWEEPS):
        rate, used = at(low + (high - low) * np.linspace(0.0, 1.0, SWEEP)[:, None])
        if first is None:
            first = used[:, 0]
        after, share = _between(used.max(axis=0), 1.0)
        width = (high - low) / (SWEEP - 1)
        high = np.where(after[0] == SWEEP - 1, high, low + width * after[0])
        low = low + width * (after[0] - 1)
    assert first is not None
    before, then = (np.take_along_axis(rate, each, 0)[0] for each in (after - 1, after))
    return before + share * (then - before), first, np.take_along_axis(used, after[None], 1)[:, 0]


def _between(rising: FloatArray, value: float) -> tuple[IntArray, FloatArray]:
    """Where `value` lies on the first axis: the place after it, and how far on the way there."""
    after = np.clip((rising <= value).sum(axis=0), 1, len(rising) - 1)[None]
    low, high = (np.take_along_axis(rising, at, 0)[0] for at in (after - 1, after))
    width = np.where(high > low, high - low, 1.0)
    return after, np.clip((value - low) / width, 0.0, 1.0)


def _mixed(values: FloatArray, after: IntArray, share: FloatArray) -> FloatArray:
    low, high = (np.take_along_axis(values, at, 0)[0] for at in (after - 1, after))
    return np.asarray(low + share * (high - low))


def _mixed_times(times: FloatArray, after: IntArray, share: FloatArray) -> FloatArray:
    """Times rise much as 1/(1 − λ/λ_max) does: their reciprocals lie nearly on a line."""
    low, high = (
        1.0 / np.maximum(np.take_along_axis(times, at, 0)[0], TINY) for at in (after - 1, after)
    )
    return np.asarray(1.0 / (low + share * (high - low)))


def _positions(base: Endpoint) -> FloatArray:
    """Plain steps that a verified position costs besides, at each corner."""
    assert base.pair is not None
    ends = np.array(tuple(dict.fromkeys(base.pair.positions))) * base.pair.share
    shape = tuple(base.axes.values())
    each = np.unravel_index(np.arange(len(base.corners)), shape)
    return np.asarray(ends[each[list(base.axes).index("position")]])


@lru_cache(maxsize=64)
def _grid(pair: ServedPair, requests: Requests, top: int) -> Grid:
    return Grid.of(pair, requests, top)


@lru_cache(maxsize=32)
def carried(s: Scenario, factors: tuple[float, float], parts: tuple[Part, ...] = ()) -> Carried:
    """The server of a scenario whose load, money and promises are at their defaults.

    Parameters
    ----------
    s
        In the hardware form, with the prompts' length; of parts `parts.blended`.
    factors
        Measured over computed times, without speculation and with it.
    parts
        The kinds of request that it serves together.

    Raises
    ------
    InputError
        As `resolve`.
    """
    base = resolve(s, parts=parts)
    pair, load = base.pair, base.load
    assert pair is not None
    assert load is not None
    (held, *_) = requests_of(s)
    asked = replace(held, batch=None, request_rate=1.0)
    top = len(load.step) - 1
    gammas = np.arange(top + 1)
    grid = _grid(pair, asked, top)
    # A verified position costs so many plain steps besides, at any batch.
    more = sum(pair.positions) / 2 * pair.share * gammas
    grid = replace(grid, verify=grid.verify + grid.steps[:, :1] * more)
    tax = max((part.tax for part in parts), default=0.0)
    grid = uneven(grid, pair, base.speculation.acceptance, tax)
    return Carried(
        base=base,
        requests=asked,
        grid=grid,
        factors=np.where(gammas == 0, *factors),
        alone=float(grid.steps[0, 0]),
        kinds=(_mean_kind(base, asked, grid), *_kinds(base, asked, grid, parts)),
    )


def _mean_kind(base: Endpoint, asked: Requests, grid: Grid) -> _Kind:
    gammas = np.arange(grid.prompts.shape[1])
    tokens = np.asarray(base.speculation.tokens(gammas), dtype=float)
    count = len(gammas)
    return _Kind(tokens, chunks_of(asked, count), room_for(asked, count),
                 np.zeros(grid.prompts.shape), asked.output_tokens - 1)  # fmt: skip


def _kinds(base: Endpoint, asked: Requests, grid: Grid, parts: tuple[Part, ...]) -> list[_Kind]:
    found, gammas = [], np.arange(grid.prompts.shape[1])
    assert base.pair is not None
    for i, part in enumerate(parts):
        (of, *_) = requests_of(part.scenario)
        mine = replace(of, batch=None, concurrency=None, request_rate=1.0, one_wave=False)
        tokens = of_kind(base.speculation.acceptance, i).tokens_per_step(gammas)
        prompts = prompt_seconds(base.pair, mine, grid.batches[:, None], gammas)
        found.append(
            _Kind(np.asarray(tokens, dtype=float), chunks_of(mine, len(gammas)),
                  room_for(mine, len(gammas)), prompts - grid.prompts, mine.output_tokens - 1)
        )  # fmt: skip
    return found
