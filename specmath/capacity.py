"""How many GPUs? What a replica carries of requests that come by themselves, and within what time.

The open loop over its rate λ (`specmath.carried`), in both arms, and the replicas for a demand:

    replicas = ⌈demand / ((1 − headroom) λ)⌉

Where replicas only decode, as many workers read the prompts (`specmath.prefill_pool`) as their own
rate asks for, and GPUs and the bill are of both pools.

What is not known moves the state: a slower server than computed is fuller as well, so that ranges
widen towards λ_max.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from specmath.bill import demand_of
from specmath.carried import SLOS, Carried, Limit, Points, Promise, Slo, carried
from specmath.checks import FloatArray, InputError
from specmath.estimate import Estimate
from specmath.frontier import NOT_MEASURED, measured_over_computed
from specmath.money import replicas_needed, usd_per_month
from specmath.predict import Prediction
from specmath.prefill_pool import PrefillPool, disaggregated, prefill_pools
from specmath.scenario import Scenario
from specmath.scenario.parts import Part
from specmath.speculation import ROUNDING

__all__ = ["SLOS", "Arm", "At", "Capacity", "Limit", "Missed", "Prefill", "Slo", "aggregated",
           "bare_server", "capacity", "fleet_at", "pools_of", "promised", "server_of"]  # fmt: skip

SHARES = (0.01, *(each / 20 for each in range(1, 20)))
"""Of the largest rate of either arm, at which both are told."""


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
class Prefill:
    """The workers that read an arm's prompts for replicas that decode.

    Attributes
    ----------
    pool
        One worker: its GPUs, a prompt's seconds, its largest rates and what limits it.
    needed, replicas
        Workers that the demand needs with headroom, before rounding up and after; None while no
        demand is given, or where no rate is within what is promised.
    """

    pool: PrefillPool
    needed: Estimate | None = None
    replicas: Estimate | None = None

    @property
    def all_gpus(self) -> Estimate | None:
        """GPUs of all workers."""
        return self.replicas and self.replicas.map(lambda count: count * self.pool.gpus)


@dataclass(frozen=True)
class Missed:
    """A promise to one kind of request (`part`) that it does not keep even alone: what is promised,
    and what it takes then, seconds."""

    part: int
    name: Slo
    promised: float
    alone: Estimate


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
    full, planned
        The state at the largest rate within what is promised, and at what headroom leaves of it;
        None where there is none.
    needed, replicas, usd_per_month
        To serve the demand with headroom, before rounding up and after, and the bill, that of the
        workers that read prompts included; None while no demand, or no price, is given, or where no
        rate is within what is promised. inf at the joint points where none is.
    prefill
        Who reads the prompts; None: the replicas themselves.
    gammas
        Of each kind of request where the engine has a γ for each: `gamma` is then the most. ()
        where there is one for all.
    missed
        Where no rate is within what is promised to kinds of request: the promise that is missed by
        most, in the middle.
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
    planned: At | None = None
    needed: Estimate | None = None
    replicas: Estimate | None = None
    usd_per_month: Estimate | None = None
    prefill: Prefill | None = None
    gammas: tuple[int, ...] = ()
    missed: Missed | None = None

    @property
    def decoding_gpus(self) -> Estimate | None:
        """GPUs of all replicas."""
        return self.replicas and self.replicas.map(lambda count: count * self.gpus)

    @property
    def all_gpus(self) -> Estimate | None:
        """GPUs of all replicas, and of the workers that read their prompts."""
        own, read = self.decoding_gpus, self.prefill and self.prefill.all_gpus
        return own.with_(read, np.add) if own and read else own


@dataclass(frozen=True, eq=False)
class Capacity:
    """Both arms over the request rates of one replica.

    Attributes
    ----------
    gamma
        The γ in use.
    slo
        What is promised, seconds: of several kinds of request, what all of them are promised alike.
    apart
        Whether kinds of request are promised different things.
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
    apart: bool = False

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
    return _told(
        prediction.scenario, server_of(prediction), prediction.gamma, promised(prediction),
        pools_of(prediction),
    )  # fmt: skip


def aggregated(prediction: Prediction, found: Capacity) -> Capacity:
    """The same demand on replicas that read their own prompts, beside two pools.

    Parameters
    ----------
    prediction, found
        Of a scenario whose replicas only decode, and what they carry.

    Raises
    ------
    InputError
        As `capacity`.
    """
    together = {"decode_only": "no"}
    s = prediction.scenario.model_copy(update=together)
    parts = tuple(
        Part(part.share, part.scenario.model_copy(update=together))
        for part in prediction.endpoint.parts
    )
    server = _carried(prediction, s, parts)
    return _told(s, server, prediction.gamma, promised(prediction), None, found.demand)


def server_of(prediction: Prediction) -> Carried:
    """What serves the requests of a prediction, at any rate; InputError as `capacity`."""
    server = _carried(prediction, prediction.scenario, prediction.endpoint.parts)
    pools = _pools(prediction, server)
    return server if pools is None else disaggregated(server, pools)


def pools_of(prediction: Prediction) -> tuple[PrefillPool, PrefillPool] | None:
    """The workers that read the prompts for replicas that only decode, without speculation and
    with it; None where replicas read their own. InputError as `capacity`."""
    server = _carried(prediction, prediction.scenario, prediction.endpoint.parts)
    return _pools(prediction, server)


def _pools(prediction: Prediction, server: Carried) -> tuple[PrefillPool, PrefillPool] | None:
    s = prediction.scenario
    if s.decode_only != "yes":
        return None
    return prefill_pools(server, promised(prediction), s.headroom)


def _carried(prediction: Prediction, s: Scenario, parts: tuple[Part, ...]) -> Carried:
    """What serves a scenario that is the prediction's but for who reads the prompts."""
    if not s.costs.computed:
        raise InputError(
            "capacity needs gpu, model and draft (draft_form=hardware), "
            f"got draft_form={s.draft_form}"
        )
    if s.prompt_tokens is None:
        raise InputError("capacity needs prompt_tokens, which take time from every token; got none")
    alone = _bare(s).model_copy(update={"gamma": prediction.gamma})
    return carried(alone, measured_over_computed(prediction), parts)


def bare_server(prediction: Prediction) -> Scenario:
    """The scenario without what is measured of it, its load, its money and what is promised."""
    return _bare(prediction.scenario)


def _bare(s: Scenario) -> Scenario:
    bare = {name: Scenario.model_fields[name].default for name in _NOT_THE_SERVER}
    return s.model_copy(update=bare)


def promised(prediction: Prediction) -> tuple[Promise, ...]:
    """What the scenario promises; of several kinds of request, what each one's does. A request of
    one token has no time per token."""
    parts = prediction.endpoint.parts
    said: list[tuple[int | None, Scenario]] = [(i, part.scenario) for i, part in enumerate(parts)]
    said = said or [(None, prediction.scenario)]
    return tuple(
        Promise(name, each / 1e3, i)
        for i, s in said
        for name in SLOS
        if (each := getattr(s, f"slo_{name}_ms")) is not None
        and (name != "tpot" or s.output_tokens > 1)
    )


_NOT_THE_SERVER = (
    *NOT_MEASURED, "batch", "concurrency", "request_rate", "arrivals", "label", "usd_per_hour",
    "demand_requests_per_second", "demand_tokens_per_second", "replicas", "headroom",
    "slo_tpot_ms", "slo_ttft_ms", "slo_e2e_ms",
)  # fmt: skip
"""Fields that change nothing of a server at a rate: with its other fields it is kept."""


def _told(
    s: Scenario, server: Carried, gamma: int, promises: Sequence[Promise],
    pools: tuple[PrefillPool, PrefillPool] | None, demand: Estimate | None = None,
) -> Capacity:  # fmt: skip
    within, limits = server.within(promises)
    most = max(float(server.most[0]), float(server.most[gamma]))
    rates = {float(f"{share * most:.3g}") for share in SHARES}
    rates |= {r for r in (s.request_rate,) if r is not None and r < most}
    listed = tuple(sorted(rates))
    both = within[[0, gamma]]
    asked = np.array([0.0, *both, *((1.0 - s.headroom) * both), *listed])
    middle = server.over(asked)
    arms = [
        _arm(server, g, gpus, promises, asked, middle, limits[g])
        for g, gpus in ((0, s.tensor_parallel), (gamma, s.tensor_parallel + s.draft_gpus))
    ]
    if pools is not None:
        arms = [_with_prefill(arm, pool) for arm, pool in zip(arms, pools, strict=True)]
    if gamma == 0:
        arms[1] = arms[0]
    demand = _demand(s, arms[0].within) if demand is None else demand
    plain, ours = (_fleet(s, arm, demand) for arm in arms)
    crossover = server.crossover(gamma)
    switched = None
    if crossover is not None and crossover > 0.0:
        switched = _fleet(s, _switched(arms[0], arms[1]), demand)
    told = server.fastest(listed, middle["tpot"][_LISTED:])
    alike, apart = _alike(promises)
    return Capacity(s, gamma, alike, listed, plain, ours, switched, told, crossover,
                    np.stack([server.most, within]), limits, demand, apart)  # fmt: skip


_LISTED = 5
"""Rates that are asked before those that are listed: towards 0, and each arm's largest and planned
one."""


def _alike(promises: Sequence[Promise]) -> tuple[dict[Slo, float], bool]:
    """What every kind of request is promised alike, and whether anything is not."""
    parts = {each.part for each in promises}
    kinds = max((part or 0 for part in parts), default=0) + 1
    same: dict[Slo, float] = {}
    for name in SLOS:
        told = [each.seconds for each in promises if each.name == name]
        if told and len(told) == kinds and len({*told}) == 1:
            same[name] = told[0]
    return same, len(same) * kinds < len(promises)


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
        gammas=ours.gammas,
        gpus=ours.gpus,
        most=ours.most.with_(plain.most, np.maximum),
        within=ours.within.with_(plain.within, np.maximum),
        at=(),
        prefill=ours.prefill,
    )


def _arm(
    server: Carried, gamma: int, gpus: int, promises: Sequence[Promise], rates: FloatArray,
    middle: Mapping[str, FloatArray], limit: Limit,
) -> Arm:  # fmt: skip
    """One arm; of `rates` the first are towards 0, the largest within what is promised of both
    arms, and their planned ones."""
    points, most = server.points(gamma), float(server.most[gamma])
    own = 2 if gamma else 1
    within = float(rates[own])
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
    mosts = [part.most for part in server.base.parts if part.most is not None]
    return Arm(
        gamma=gamma,
        gpus=gpus,
        most=server.estimate(most, points.most),
        within=server.estimate(within, points.within(promises)),
        limit=limit,
        held=int(server.grid.most[gamma]),
        alone=states[0],
        at=tuple(at for at in states[_LISTED:] if at.rate < most),
        full=states[own] if within else None,
        planned=states[own + 2] if within else None,
        gammas=tuple(min(most, gamma) for most in mosts) if gamma else (),
        missed=None if within else _missed(server, gamma, points, promises),
    )


def _missed(
    server: Carried, gamma: int, points: Points, promises: Sequence[Promise]
) -> Missed | None:
    """The promise to one kind of request that is missed by most at a rate towards 0; None where
    there is none."""
    found, most, towards = None, 1.0, np.array([0.0])
    for each in promises:
        if each.part is None:
            continue
        alone = float(server.over(towards, each.part)[each.name][0, gamma])
        if alone > most * each.seconds:
            most = alone / each.seconds
            (spread,) = points.at(towards, each.part)[each.name]
            found = Missed(each.part, each.name, each.seconds, server.estimate(alone, spread))
    return found


def _with_prefill(arm: Arm, pool: PrefillPool) -> Arm:
    """The arm with the workers that read its prompts, as planned at the rate that headroom leaves
    them."""
    if arm.planned is None:
        return replace(arm, prefill=Prefill(pool))
    sooner = pool.queue.with_(pool.longest, np.subtract)
    whole = arm.planned.e2e.with_(sooner, np.add)
    planned = replace(arm.planned, ttft=pool.first, e2e=whole)
    return replace(arm, planned=planned, prefill=Prefill(pool))


def _fleet(s: Scenario, arm: Arm, demand: Estimate | None) -> Arm:
    """The replicas that serve the demand."""
    if demand is None or arm.within.value <= 0.0:
        return arm
    free = 1.0 - s.headroom
    needed, whole = _needed(demand, arm.within, free)
    arm = replace(arm, needed=needed, replicas=whole)
    if arm.prefill is not None:
        needed, whole = _needed(demand, arm.prefill.pool.within, free)
        arm = replace(arm, prefill=replace(arm.prefill, needed=needed, replicas=whole))
    if s.usd_per_hour is None or arm.all_gpus is None:
        return arm
    price = s.usd_per_hour
    return replace(arm, usd_per_month=arm.all_gpus.map(lambda count: _month(count, price)))


def _needed(demand: Estimate, within: Estimate, free: float) -> tuple[Estimate, Estimate]:
    """Replicas before rounding up and after."""
    return (
        demand.with_(within, lambda asked, rate: _over(asked, free * rate)),
        demand.with_(within, lambda asked, rate: _replicas(asked, free * rate)),
    )


def fleet_at(found: Capacity, arm: Arm, within: Estimate) -> Arm:
    """An arm with another largest rate, and the replicas that serve the demand then."""
    bare = replace(arm, within=within, full=None, planned=None, needed=None, replicas=None,
                   usd_per_month=None)  # fmt: skip
    return _fleet(found.scenario, bare, found.demand)


def _over(asked: ArrayLike, each: ArrayLike) -> FloatArray:
    some = np.asarray(each) > 0.0
    return np.where(some, np.asarray(asked) / np.where(some, each, 1.0), np.inf)


def _replicas(asked: ArrayLike, each: ArrayLike) -> FloatArray:
    some = np.asarray(each) > 0.0
    return np.where(some, replicas_needed(asked, np.where(some, each, 1.0)), np.inf)


def _month(gpus: ArrayLike, price: float) -> FloatArray:
    finite = np.isfinite(gpus)
    month = usd_per_month(np.where(finite, gpus, 0.0), gpus=1, usd_per_hour=price)
    return np.where(finite, month, np.inf)
