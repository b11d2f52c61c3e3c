"""How many GPUs? What a replica carries of requests that come by themselves, and within what time.

The open loop of the server law (`specmath.serving.loop`) over its rate λ, from one request alone to
λ_max, at which memory is full. Times rise along it, so that the largest rate within a time is where
that time is met, and λ_max where none is. What is not known moves the state: a slower server than
computed is fuller as well, so that ranges widen towards λ_max.

    replicas = ⌈demand / ((1 − headroom) λ)⌉
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specmath.bill import demand_of
from specmath.checks import FloatArray, InputError, IntArray
from specmath.estimate import Basis, Estimate
from specmath.frontier import NOT_MEASURED, measured_over_computed
from specmath.money import replicas_needed, usd_per_month
from specmath.predict import Prediction
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.scenario.server import requests_of
from specmath.serving.loop import Grid, Requests, first_token, largest_rate, open_loop
from specmath.serving.pair import ServedPair
from specmath.speculation import ROUNDING

__all__ = ["SLOS", "Arm", "At", "Capacity", "Limit", "Slo", "capacity"]

Slo = Literal["tpot", "ttft", "e2e"]
SLOS: tuple[Slo, ...] = ("tpot", "ttft", "e2e")
"""What may be promised: time per token, first token, whole request."""

Limit = Literal["tpot", "ttft", "e2e", "memory", "time"]
"""What keeps a replica from a larger rate: a time that is promised, the sequences that memory
holds, or that steps and prompts take as long for more of them."""

SHARES = (0.01, *(each / 20 for each in range(1, 20)), 0.98)
"""Of the largest rate of either arm, at which both are told."""

USES = (0.0, 0.1, 0.25, 0.4, 0.55, 0.68, 0.78, 0.86, 0.92, 0.96, 0.985, 0.998)
"""Of λ_max, between which the joint points are interpolated."""

ROUNDS = 30
"""Of the fixed point at a joint point: within a range that is far wider than what is left."""

TINY = 1e-12
"""Seconds: of no prompt there is no first token to wait for."""

NEAR = 1.0 - 1e-9
"""As near to the largest rate as a state is asked for."""

TWICE = 1.1
"""How many times the rate twice the memory must carry for memory to be what limits it."""

SWEEP, SWEEPS = 33, 3
"""Rates among which a crossing is bracketed, and how often again within the bracket."""

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class At:
    """One arm at one rate; seconds. `use`: λ/λ_max. `batch`: sequences of a step in the mean.

    Beyond the largest rate at a joint point its times are inf.
    """

    rate: float
    use: float
    batch: float
    tpot: Estimate
    ttft: Estimate
    e2e: Estimate


@dataclass(frozen=True)
class Arm:
    """One arm of a replica, and the replicas that serve the demand.

    Attributes
    ----------
    gamma, gpus
        γ, and GPUs of a replica.
    most
        λ_max, requests a second.
    within
        The largest rate within what is promised; 0 where no rate is, λ_max where nothing is.
    limit
        What keeps it from more, in the middle.
    held
        B_max: sequences that memory holds.
    alone
        Times of a request at a rate towards 0.
    at
        Over the rates that it carries.
    full
        The state at the largest rate within what is promised; None where there is none.
    needed, replicas, usd_per_month
        To serve the demand with headroom, before rounding up and after, and their bill; None while
        no demand, or no price, is given, or where no rate is within what is promised. inf at the
        joint points where none is.
    """

    gamma: int
    gpus: int
    most: Estimate
    within: Estimate
    limit: Limit
    held: int
    alone: At
    at: tuple[At, ...]
    full: At | None = None
    needed: Estimate | None = None
    replicas: Estimate | None = None
    usd_per_month: Estimate | None = None

    @property
    def all_gpus(self) -> Estimate | None:
        """GPUs of all replicas."""
        return self.replicas and self.replicas.map(lambda count: count * self.gpus)


@dataclass(frozen=True, eq=False)
class Capacity:
    """Both arms over the request rates of one replica.

    Attributes
    ----------
    gamma
        The γ in use.
    slo
        What is promised, seconds.
    rates
        At which the arms are told, ascending.
    plain, speculative
        The arms.
    switched
        Speculation on below the crossover and off above: the better of both at each rate. None
        where nothing crosses.
    fastest
        The fastest γ at each rate, in the middle; 0 is plain decoding.
    crossover
        The rate from which on speculation is slower, in the middle; None: none up to the largest
        rate that both carry; 0: it never is faster.
    by_gamma
        λ_max and the largest rate within what is promised over γ = 0 …, in the middle: two rows.
    limits
        What keeps each γ from more.
    demand
        Requests a second of the whole service; None while not given.
    """

    scenario: Scenario
    gamma: int
    slo: Mapping[Slo, float]
    rates: tuple[float, ...]
    plain: Arm
    speculative: Arm
    switched: Arm | None
    fastest: tuple[int, ...]
    crossover: float | None
    by_gamma: FloatArray
    limits: tuple[Limit, ...]
    demand: Estimate | None

    @property
    def surely(self) -> float:
        """The largest of the rates up to which the time per token is shorter with speculation at
        the low end of its range; 0 where it is at none."""
        last = 0.0
        for before, after in zip(self.plain.at, self.speculative.at, strict=False):
            gain = before.tpot.with_(after.tpot, _gain)
            if (gain.value if gain.low is None else gain.low) <= 1.0 + ROUNDING:
                break
            last = before.rate
        return last


def _gain(before: FloatArray, after: FloatArray) -> FloatArray:
    """Plain over speculative; a point at which speculation carries no more has no gain."""
    able = np.isfinite(after)
    return np.where(able, np.asarray(before) / np.where(able, after, 1.0), 0.0)


def capacity(prediction: Prediction) -> Capacity:
    """What one replica carries in both arms, over the rates and within what is promised.

    Parameters
    ----------
    prediction
        Of a scenario in the hardware form with the prompts' length; at whatever load. Times that
        were measured hold at their own load: all are off by the same factor in either arm.

    Returns
    -------
    Capacity
        Each number an `Estimate` over the endpoint's joint points.

    Raises
    ------
    InputError
        Costs that were given; prompts of unknown length.

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> asked = Scenario(alpha=0.7, gamma=3, gpu="h100", model="Llama-3.1-8B", draft="eagle3",
    ...                  prompt_tokens=1024, slo_tpot_ms=10, demand_requests_per_second=100)
    >>> found = capacity(predict(asked))
    >>> found.plain.limit, found.plain.replicas.value > found.speculative.replicas.value
    ('tpot', True)
    """
    s = prediction.scenario
    if not s.costs.computed:
        raise InputError(
            "capacity needs gpu, model and draft (draft_form=hardware), "
            f"got draft_form={s.draft_form}"
        )
    if s.prompt_tokens is None:
        raise InputError("capacity needs prompt_tokens, which take time from every token; got none")
    factors = measured_over_computed(prediction)
    bare = {name: Scenario.model_fields[name].default for name in _NOT_THE_SERVER}
    server = _server(s.model_copy(update=bare | {"gamma": prediction.gamma}), factors)
    return _told(s, server, prediction.gamma)


_NOT_THE_SERVER = (
    *NOT_MEASURED, "batch", "concurrency", "request_rate", "arrivals", "label", "usd_per_hour",
    "demand_requests_per_second", "demand_tokens_per_second", "replicas", "headroom",
    "slo_tpot_ms", "slo_ttft_ms", "slo_e2e_ms",
)  # fmt: skip
"""Fields that change nothing of a server at a rate: with its other fields it is kept."""


def _told(s: Scenario, server: _Server, gamma: int) -> Capacity:
    slo = {name: getattr(s, f"slo_{name}_ms") / 1e3 for name in SLOS
           if getattr(s, f"slo_{name}_ms") is not None}  # fmt: skip
    within, limits = server.within(slo)
    most = max(float(server.most[0]), float(server.most[gamma]))
    rates = {float(f"{share * most:.3g}") for share in SHARES}
    rates |= {r for r in (s.request_rate,) if r is not None and r < most}
    listed = tuple(sorted(rates))
    asked = np.array([0.0, within[0], within[gamma], *listed])
    middle = server.over(asked)
    arms = [
        _arm(server, g, gpus, slo, asked, middle, float(within[g]), limits[g])
        for g, gpus in ((0, s.tensor_parallel), (gamma, s.tensor_parallel + s.draft_gpus))
    ]
    if gamma == 0:
        arms[1] = arms[0]
    demand = _demand(s, arms[0].within)
    plain, ours = (_fleet(s, arm, demand) for arm in arms)
    crossover = server.crossover(gamma)
    switched = None
    if crossover is not None and crossover > 0.0:
        switched = _fleet(s, _switched(arms[0], arms[1]), demand)
    told = server.fastest(listed, middle["tpot"][3:])
    return Capacity(s, gamma, slo, listed, plain, ours, switched, told, crossover,
                    np.stack([server.most, within]), limits, demand)  # fmt: skip


def _demand(s: Scenario, plain: Estimate) -> Estimate | None:
    """Requests a second of the whole service, however it was said."""
    n = s.output_tokens
    tokens = demand_of(s, plain.map(lambda rate: rate * n))
    return tokens and tokens.map(lambda each: each / n)


def _switched(plain: Arm, ours: Arm) -> Arm:
    """A replica that drafts where that is faster: it needs the draft's GPUs, and carries what the
    better arm carries."""
    better = ours if ours.within.value >= plain.within.value else plain
    return replace(
        better,
        gamma=ours.gamma,
        gpus=ours.gpus,
        most=ours.most.with_(plain.most, np.maximum),
        within=ours.within.with_(plain.within, np.maximum),
        at=(),
    )


def _arm(
    server: _Server, gamma: int, gpus: int, slo: Mapping[Slo, float], rates: FloatArray,
    middle: Mapping[str, FloatArray], within: float, limit: Limit,
) -> Arm:  # fmt: skip
    """One arm; of `rates` the first is towards 0, and one is the largest within `slo`."""
    points, most = server.points(gamma), float(server.most[gamma])
    spread = points.at(rates)
    states = [
        At(
            float(rate),
            float(rate) / most,
            float(middle["batch"][i, gamma]),
            *(server.estimate(float(middle[name][i, gamma]), spread[name][i]) for name in SLOS),
        )
        for i, rate in enumerate(rates)
    ]
    full = next(at for at in states if at.rate == within)
    return Arm(
        gamma=gamma,
        gpus=gpus,
        most=server.estimate(most, points.most),
        within=server.estimate(within, points.within(slo)),
        limit=limit,
        held=int(server.grid.most[gamma]),
        alone=states[0],
        at=tuple(at for at in states[3:] if at.rate < most),
        full=full if within else None,
    )


def _fleet(s: Scenario, arm: Arm, demand: Estimate | None) -> Arm:
    """The replicas that serve the demand."""
    if demand is None or arm.within.value <= 0.0:
        return arm
    free = 1.0 - s.headroom
    whole = demand.with_(arm.within, lambda asked, rate: _replicas(asked, free * rate))
    month = None
    if s.usd_per_hour is not None:
        month = whole.map(lambda count: _month(count, arm.gpus, s.usd_per_hour or 0.0))
    needed = demand.with_(arm.within, lambda asked, rate: _over(asked, free * rate))
    return replace(arm, needed=needed, replicas=whole, usd_per_month=month)


def _over(asked: ArrayLike, each: ArrayLike) -> FloatArray:
    some = np.asarray(each) > 0.0
    return np.where(some, np.asarray(asked) / np.where(some, each, 1.0), np.inf)


def _replicas(asked: ArrayLike, each: ArrayLike) -> FloatArray:
    some = np.asarray(each) > 0.0
    return np.where(some, replicas_needed(asked, np.where(some, each, 1.0)), np.inf)


def _month(count: ArrayLike, gpus: int, price: float) -> FloatArray:
    finite = np.isfinite(count)
    month = usd_per_month(np.where(finite, count, 0.0), gpus=gpus, usd_per_hour=price)
    return np.where(finite, month, np.inf)


# ── the law, solved for the rate ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _Server:
    """What serves: seconds over batches in the middle, τ over γ = 0 … K, and what is open.

    `factors`: measured over computed times over γ; `chunks`: steps that read one prompt; `alone`:
    seconds of a plain step of one sequence.
    """

    base: Endpoint
    requests: Requests
    grid: Grid
    tokens: FloatArray
    factors: FloatArray
    chunks: FloatArray
    alone: float

    @cached_property
    def held(self) -> FloatArray:
        """B_max over γ."""
        return self.grid.most.astype(float)

    @cached_property
    def most(self) -> FloatArray:
        """λ_max over γ."""
        step, prompt = self._seconds(self.held)
        return largest_rate(self.requests, self.held, step, self.tokens, prompt)

    def _seconds(self, batch: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of a step and a prompt at that batch of each γ."""
        return (self.grid.step(batch) * self.factors,
                self.grid.at(self.grid.prompts, batch) * self.factors)  # fmt: skip

    def states(self, rates: FloatArray) -> dict[str, FloatArray]:
        """Batch and times at rates of each γ on the last axis."""
        batch, step, prompt, _, tpot, queue = open_loop(
            self.requests, rates, self.tokens, self.held,
            lambda held: self.grid.step(held) * self.factors,
            lambda others, each: self.grid.prompt(others, each) * self.factors,
        )  # fmt: skip
        alone = self.alone * self.factors
        ttft = first_token(self.chunks, self.grid.ahead, step, alone, batch, prompt) + queue
        e2e = ttft + (self.requests.output_tokens - 1) * tpot
        return {"batch": batch, "tpot": tpot, "ttft": ttft, "e2e": e2e}

    def over(self, rates: FloatArray) -> dict[str, FloatArray]:
        """The states at those rates [rates, γ]; beyond λ_max that at λ_max."""
        return self.states(np.minimum(rates[:, None], self.most * NEAR))

    def only(self, *gammas: int) -> _Server:
        """The same with those γ alone."""
        g, chosen = self.grid, list(gammas)
        grid = replace(
            g, verify=g.verify[:, chosen], draft=g.draft[:, chosen], extra=g.extra[:, chosen],
            prompts=g.prompts[:, chosen], most=g.most[chosen],
            sharing=None if g.sharing is None else g.sharing[:, chosen],
        )  # fmt: skip
        return replace(self, grid=grid, tokens=self.tokens[chosen], factors=self.factors[chosen],
                       chunks=self.chunks[chosen])  # fmt: skip

    def within(self, slo: Mapping[Slo, float]) -> tuple[FloatArray, tuple[Limit, ...]]:
        """The largest rate within what is promised over γ, and what limits it."""
        best, limits = self.most.copy(), self._full()
        for name, seconds in slo.items():
            rate = self._met(name, seconds)
            limits = [name if r < b else was for r, b, was in zip(rate, best, limits, strict=True)]
            best = np.minimum(best, rate)
        return best, tuple(limits)

    def _met(self, name: Slo, seconds: float) -> FloatArray:
        """The rate of each γ at which a time is met: 0 where none is, λ_max where each is."""
        low, high = np.zeros(len(self.tokens)), self.most * NEAR
        first: FloatArray | None = None
        for _ in range(SWEEPS):
            rates = low + (high - low) * np.linspace(0.0, 1.0, SWEEP)[:, None]
            times = self.states(rates)[name]
            after, share = _between(times, seconds)
            if first is None:
                first = times
            before = np.take_along_axis(rates, after - 1, 0)[0]
            low, high = before, np.take_along_axis(rates, after, 0)[0]
        rate = low + share * (high - low)
        assert first is not None
        met = np.where(first[-1] <= seconds, self.most, rate)
        return np.where(first[0] > seconds, 0.0, met)

    def _full(self) -> list[Limit]:
        """What limits λ_max over γ: memory where twice the sequences, each as dear as the last
        ones, would carry clearly more."""
        held = self.held
        before = np.maximum(held * 0.9, 1.0)
        step, prompt = self._seconds(held)
        slope = np.where(held > before, (step - self._seconds(before)[0]), 0.0)
        slope = slope / np.maximum(held - before, 1e-9)
        twice = largest_rate(self.requests, 2.0 * held, step + slope * held, self.tokens, prompt)
        return [
            "memory" if t > TWICE * m else "time" for t, m in zip(twice, self.most, strict=True)
        ]

    def fastest(self, rates: tuple[float, ...], tpot: FloatArray) -> tuple[int, ...]:
        """The γ with the least time per token [rates, γ] at each rate, in the middle, of those that
        carry it and may be advised."""
        allowed = np.isin(np.arange(len(self.tokens)), [0, *self.base.advisable])
        able = (np.array(rates)[:, None] < self.most) & allowed
        return tuple(int(g) for g in np.argmin(np.where(able, tpot, np.inf), axis=1))

    def crossover(self, gamma: int) -> float | None:
        """The first rate from which on speculation is slower; None up to what both carry."""
        if gamma == 0:
            return None
        both = self.only(0, gamma)
        low, high = 0.0, float(both.most.min()) * (1.0 - 1e-9)
        for _ in range(SWEEPS):
            rates = np.linspace(low, high, SWEEP)
            tpot = both.over(rates)["tpot"]
            slower = np.flatnonzero(tpot[:, 1] >= tpot[:, 0])
            if not slower.size:
                return None
            if slower[0] == 0:
                return float(rates[0])
            low, high = float(rates[slower[0] - 1]), float(rates[slower[0]])
        return 0.5 * (low + high)

    def estimate(self, value: float, points: FloatArray) -> Estimate:
        """A number of this server from its values at the joint points."""
        plain = self.base.plain
        assert plain is not None
        over = tuple(dict.fromkeys((*plain.basis.over, *self.base.basis.over)))
        return Estimate(value, points, Basis(self.base.basis.kind, over=over))

    def points(self, gamma: int) -> _Points:
        """One arm at every joint point: [corners, draws] over rates."""
        base, g, one = self.base, self.grid, self.only(gamma)
        assert base.plain is not None
        slow = np.ones((1, 1))
        if base.plain.points is not None:
            slow = np.asarray(base.plain.points / base.plain.value)
        tokens = np.array([corner.tokens(gamma) for corner in base.corners], dtype=float)[:, None]
        more, slow = _positions(base) * gamma, slow * one.factors[0]
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
        most = np.broadcast_to(largest_rate(self.requests, held, step(last), tokens, each), shape)
        rate = np.array(USES)[:, None, None] * most
        batch, seconds, read, _, tpot, queue = open_loop(
            self.requests, rate, tokens, held, step, prompt, ROUNDS
        )
        ttft = queue + first_token(one.chunks, g.ahead, seconds, self.alone * slow, batch, read)
        e2e = ttft + (self.requests.output_tokens - 1) * tpot
        return _Points(rate, {"tpot": tpot, "ttft": ttft, "e2e": e2e}, most)


@dataclass(frozen=True, eq=False)
class _Points:
    """Rates and times [uses, corners, draws] of an arm, ascending, and λ_max of each point."""

    rate: FloatArray
    times: Mapping[Slo, FloatArray]
    most: FloatArray

    def at(self, rates: FloatArray) -> dict[str, list[FloatArray]]:
        """Times at those rates, each [corners, draws]; inf beyond λ_max."""
        found: dict[str, list[FloatArray]] = {name: [] for name in self.times}
        for rate in rates:
            after, share = _between(self.rate, rate)
            for name, times in self.times.items():
                told = np.where(rate < self.most, _mixed_times(times, after, share), np.inf)
                found[name].append(told)
        return found

    def within(self, slo: Mapping[Slo, float]) -> FloatArray:
        """The largest rate within what is promised [corners, draws]."""
        best = self.most
        for name, seconds in slo.items():
            times = self.times[name]
            after, share = _between(-1.0 / np.maximum(times, TINY), -1.0 / seconds)
            rate = np.where(times[-1] <= seconds, self.most, _mixed(self.rate, after, share))
            best = np.minimum(best, np.where(times[0] <= seconds, rate, 0.0))
        return best


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


@lru_cache(maxsize=16)
def _server(s: Scenario, factors: tuple[float, float]) -> _Server:
    """The server of a scenario without its load, its money and what is promised."""
    base = resolve(s)
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
    tokens = np.asarray(base.speculation.tokens(gammas), dtype=float)
    each = np.where(gammas == 0, *factors)
    plain, ours = (asked.fresh_tokens(speculative=arm) for arm in (False, True))
    chunks = np.ceil(np.where(gammas == 0, plain, ours) / asked.chunk_tokens)
    return _Server(base, asked, grid, tokens, each, chunks, float(grid.steps[0, 0]))
