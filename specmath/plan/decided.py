"""What to do with each endpoint of a plan, and what it costs: off, on with γ, by load, or measure.

Times are told of as many replicas as serve the demand without speculation, in both arms; GPUs and
the bill are of as many as each arm needs within what is promised.

Segments share every step, and one γ unless the endpoint's engine has one for each request. What a
segment would gain by its own is told of the same steps (were all to draft as many); what it costs
to have it by itself is dedicated replicas; what one γ for each request does is `by_request`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from specmath.capacity import Arm, Capacity, capacity, pools_of, promised, server_of
from specmath.carried import Carried
from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.money import replicas_needed, usd_per_month
from specmath.plan.by_request import ByRequest, Way, by_request, predicted, way_of
from specmath.plan.day import Day, day_of
from specmath.plan.record import Plan, PlannedEndpoint
from specmath.predict import Prediction, of_endpoint, predict
from specmath.prefill_pool import PrefillPool
from specmath.scenario.endpoint import for_part
from specmath.scenario.parts import Part, blended
from specmath.spread import Spread, mixed
from specmath.tails import Tails, tails

__all__ = ["QUANTILES", "Do", "EndpointAnswer", "PlanAnswer", "SegmentAnswer", "Split", "decided"]

Do = Literal["off", "on", "by load", "measure", "unmet"]
"""What to do; "unmet": nothing serves it within what is promised."""

QUANTILES = (0.5, 0.99)
"""Of a request's time per token that a plan tells."""

FULL = 0.98
"""Of λ_max, beyond which times have no mean to speak of."""


@dataclass(frozen=True)
class Split:
    """A segment on replicas of its own: its γ and that of the others, replicas and GPUs of both,
    and USD a month more than together with one γ (less than 0: it is cheaper), whoever reads the
    prompts included; None while no price is given."""

    gamma: int
    others: int
    replicas: int
    gpus: int
    more_per_month: float | None


@dataclass(frozen=True)
class SegmentAnswer:
    """One kind of request of an endpoint.

    Attributes
    ----------
    name, share
        Of the endpoint's requests.
    gamma
        That its requests have: the endpoint's, or its own where the engine has one for each.
    prediction
        Its requests in the endpoint's steps, at that γ.
    tails
        Of its requests; None of one token, and where γ does not carry the load.
    own_gamma
        The γ that is fastest for it, of those that may be advised; 0 where none pays.
    lost
        Its speedup at that γ over that at the one for all: what one γ for all costs it.
    split
        By itself; None where it is alone, or its γ is the endpoint's.
    with_one, with_each
        Its mean time per token with one γ for all, and with one for each request; None where that
        is not told.
    """

    name: str
    share: float
    gamma: int
    prediction: Prediction
    tails: Tails | None
    own_gamma: int
    lost: Estimate
    split: Split | None
    with_one: Estimate | None = None
    with_each: Estimate | None = None


@dataclass(frozen=True)
class EndpointAnswer:
    """One endpoint.

    Attributes
    ----------
    endpoint
        As planned.
    do, gamma
        What to do; γ, 0 where it is off; the most of its requests where each has its own.
    replicas, rate
        Those that serve the demand without speculation (or are given), and requests a second of
        each; of γ where nothing serves it without.
    prediction
        At that rate, all requests in the mean.
    capacity
        What a replica carries within what is promised, and the fleets.
    segments
        At least one.
    tpot
        Quantiles of a request's time per token, over all requests: without speculation and at γ;
        None where it is not known, or not carried.
    lost
        What one γ for all costs of the mean time per token, as a share; 0 for one segment.
    day
        Over the hours, where they differ.
    by_request
        What a γ for each request does; None where all are alike, γ = 0 was given, of a tree, and
        where a run was measured.
    ways
        Its fleet with one γ for all, with one for each request, and with dedicated replicas; () for
        one segment.
    """

    endpoint: PlannedEndpoint
    do: Do
    gamma: int
    replicas: int
    rate: float
    prediction: Prediction
    capacity: Capacity
    segments: tuple[SegmentAnswer, ...]
    tpot: Mapping[float, tuple[Estimate | None, Estimate | None]]
    lost: float
    day: Day | None
    by_request: ByRequest | None = None
    ways: tuple[Way, ...] = ()

    @property
    def each(self) -> bool:
        """Whether it is planned with a γ for each request."""
        return self.by_request is not None and self.prediction is self.by_request.prediction

    @property
    def looked(self) -> tuple[int, Estimate] | None:
        """Where γ = 0 was given: the γ that would be looked at, and its speedup; else None."""
        if self.endpoint.scenario.gamma != 0:
            return None
        gamma = _looked(self.prediction)
        return gamma, self.prediction.endpoint.gain(gamma, 0)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What its kinds of request are called, in the order of its parts."""
        return tuple(segment.name for segment in self.segments)

    @property
    def more_gpus(self) -> bool:
        """Whether it is to be measured because its fleet grows, though a token is faster."""
        return self.do == "measure" and self.prediction.decision.action != "measure"

    @property
    def arm(self) -> Arm:
        """What the plan buys: until it is measured, without speculation."""
        found = self.capacity
        if self.do == "on":
            return found.speculative
        if self.do == "by load":
            return found.switched or found.speculative
        return found.plain if found.plain.within.value else found.speculative


@dataclass(frozen=True)
class PlanAnswer:
    """All endpoints of a plan."""

    plan: Plan
    endpoints: tuple[EndpointAnswer, ...]

    @cached_property
    def gpus(self) -> tuple[Estimate | None, Estimate | None]:
        """Of all endpoints: without speculation, and as planned; None where one is not known."""
        plain = [answer.capacity.plain.all_gpus for answer in self.endpoints]
        return _sum(plain), _sum([answer.arm.all_gpus for answer in self.endpoints])

    @cached_property
    def usd_per_month(self) -> tuple[Estimate | None, Estimate | None]:
        """The same of the bill."""
        plain = [answer.capacity.plain.usd_per_month for answer in self.endpoints]
        return _sum(plain), _sum([answer.arm.usd_per_month for answer in self.endpoints])


def _sum(each: list[Estimate | None]) -> Estimate | None:
    """Of numbers of several endpoints, whose errors may be one: ends add up."""
    known = [one for one in each if one is not None]
    if len(known) < len(each):
        return None
    low, high = (
        math.fsum(one.value if (end := getattr(one, name)) is None else end for one in known)
        for name in ("low", "high")
    )
    return Estimate.between(math.fsum(one.value for one in known), low, high)


def decided(plan: Plan) -> PlanAnswer:
    """What to do with each endpoint of a plan.

    Parameters
    ----------
    plan
        Endpoints with their demand.

    Returns
    -------
    PlanAnswer
        One answer an endpoint, in the plan's order.

    Raises
    ------
    InputError
        Replicas that were given and do not carry the demand, with the largest rate that they carry
        and what limits it; what an endpoint's scenario cannot be computed for. The endpoint's name
        stands before it.

    Examples
    --------
    >>> from specmath.plan.record import plan_of
    >>> chat = {"name": "chat", "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3",
    ...         "prompt_tokens": 1024, "alpha": 0.8, "demand_requests_per_second": 20}
    >>> (answer,) = decided(plan_of([chat])).endpoints
    >>> answer.do, answer.gamma > 0
    ('on', True)
    """
    return PlanAnswer(plan, tuple(map(_answered, plan.endpoints)))


@lru_cache(maxsize=128)
def _answered(endpoint: PlannedEndpoint) -> EndpointAnswer:
    """One endpoint's answer is kept: a plan is edited one at a time."""
    try:
        return _endpoint(endpoint)
    except InputError as error:
        raise InputError(f"{endpoint.name}: {error}") from error


def _endpoint(endpoint: PlannedEndpoint) -> EndpointAnswer:
    s, parts = endpoint.scenario, endpoint.parts
    bare = predict(s, parts)
    server, promises = server_of(bare), promised(bare)
    within, limits = server.within(promises)
    replicas, rate = _load(endpoint, server, within, limits, bare)
    loaded = s.model_copy(update={"request_rate": rate})
    prediction = predict(loaded, parts)
    decision = prediction.decision
    # Off: what stands beside plain decoding is still the γ that would cost least.
    if s.gamma is None and decision.gamma == 0:
        prediction = predict(loaded.model_copy(update={"gamma": _looked(prediction)}), parts)
    found = capacity(prediction)
    segments = _segments(endpoint, prediction, found)
    lost, each = _lost(segments, prediction), _by_request(endpoint, prediction, rate)
    if each is not None:
        segments = _told_apart(segments, each, planned=endpoint.gamma_by == "request")
    ways = _ways(endpoint, rate, prediction, found, segments, each)
    action = "skip" if s.gamma == 0 else decision.action
    if each is not None and endpoint.gamma_by == "request":
        action = each.prediction.decision.action if any(each.gammas) else "skip"
        if any(each.gammas):
            prediction, found = each.prediction, each.capacity
    gamma, do = prediction.gamma, _do(endpoint, action, found, rate)
    day = None
    if endpoint.day and (found.plain.within.value or found.speculative.within.value):
        day = day_of(server_of(prediction), found, endpoint.day, replicas)
    return EndpointAnswer(
        endpoint=endpoint,
        do=do,
        gamma=0 if do == "off" else gamma,
        replicas=replicas,
        rate=rate,
        prediction=prediction,
        capacity=found,
        segments=segments,
        tpot={level: _quantile(segments, level) for level in QUANTILES},
        lost=lost,
        day=day,
        by_request=each,
        ways=ways,
    )


def _looked(prediction: Prediction) -> int:
    """The γ that costs least, or gains most, of those that may be advised."""
    may = prediction.endpoint.advisable
    return int(may[np.argmax(prediction.endpoint.curves[0][may])])


def _load(
    endpoint: PlannedEndpoint, server: Carried, within: np.ndarray, limits: tuple[str, ...],
    bare: Prediction,
) -> tuple[int, float]:  # fmt: skip
    """Replicas, and requests a second of each."""
    s, demand = endpoint.scenario, endpoint.demand
    usual = bare.gamma or 1
    most = max(float(server.most[0]), float(server.most[usual]))
    if endpoint.replicas is not None:
        rate = demand / endpoint.replicas
        if rate >= most:
            held = int(server.held[0])
            by = f"memory holds {held:,} sequences" if limits[0] == "memory" else (
                "steps and prompts take as long for more of them")  # fmt: skip
            raise InputError(
                f"replicas must carry {demand:g} requests/s, got {endpoint.replicas}: one carries "
                f"at most {most:.3g} requests/s ({by})"
            )
        return endpoint.replicas, min(rate, FULL * float(server.most[0]))
    carried = float(within[0]) or float(within[usual])
    if carried <= 0.0:
        # Nothing is within what is promised: times are told of one request at a time.
        return 1, 1e-3 * float(server.most[0])
    replicas = int(replicas_needed(demand, (1.0 - s.headroom) * carried))
    return max(1, replicas), min(demand / max(1, replicas), FULL * float(server.most[0]))


def _do(endpoint: PlannedEndpoint, action: str, found: Capacity, rate: float) -> Do:
    plain, ours = found.plain.within.value, found.speculative.within.value
    if not plain and not ours:
        return "unmet"
    if not ours:  # plain decoding alone keeps what is promised
        return "off"
    if action == "measure" or (action != "skip" and more_gpus(found)):
        return "measure"
    crossover = found.crossover
    rates = [rate * share for share in endpoint.day if share] or [rate]
    if crossover is not None and min(rates) < crossover < max(rates):
        return "by load"
    return "off" if action == "skip" else "on"


def more_gpus(found: Capacity) -> bool:
    """Whether speculation needs more GPUs in the middle of the ranges to keep what is promised,
    where both fleets are known. Where nothing is, fleets are of full load, where nobody waits for
    a token."""
    plain, ours = found.plain.all_gpus, found.speculative.all_gpus
    if plain is None or ours is None or not (found.slo or found.apart):
        return False
    return ours.value > plain.value


# ── segments ─────────────────────────────────────────────────────────────────────────────────


def _segments(
    endpoint: PlannedEndpoint, prediction: Prediction, found: Capacity
) -> tuple[SegmentAnswer, ...]:
    whole, several = prediction.endpoint, len(endpoint.segments) > 1
    answers = []
    for i, segment in enumerate(endpoint.segments):
        own = of_endpoint(for_part(whole, i)) if several else prediction
        at = own.endpoint
        best = int(np.argmax(at.curves[0][[0, *at.advisable]]))
        best = int([0, *at.advisable][best])
        answers.append(
            SegmentAnswer(
                name=segment.name,
                share=segment.share,
                gamma=prediction.gamma,
                prediction=own,
                tails=_tails(own),
                own_gamma=best,
                lost=at.gain(best, prediction.gamma),
                split=_split(endpoint, i, best, found) if several else None,
            )
        )
    return tuple(answers)


def _tails(own: Prediction) -> Tails | None:
    load = own.endpoint.load
    if own.scenario.output_tokens < 2 or (load is not None and not load.carries(own.gamma)):
        return None
    return tails(own)


def _quantile(
    segments: tuple[SegmentAnswer, ...], level: float
) -> tuple[Estimate | None, Estimate | None]:
    """Over all requests that have a time per token: one of one token has none."""
    told = [(each.share, each.tails.gaps["tpot"]) for each in segments if each.tails is not None]
    if not told:
        return None, None
    shares = [share for share, _ in told]
    arms: list[list[Spread]] = [[arms.plain for _, arms in told],
                                [arms.speculative for _, arms in told]]  # fmt: skip
    plain, ours = (mixed(spreads, shares, level) for spreads in arms)
    return plain, ours


def _lost(segments: tuple[SegmentAnswer, ...], prediction: Prediction) -> float:
    """The share of the mean time per token that one γ for all costs: token by token."""
    weights = [part.share * part.decoded for part in prediction.endpoint.parts]
    if not weights:
        return 0.0
    times = [float(e.prediction.tpot.value) if e.prediction.tpot else math.nan for e in segments]
    at_best = [t / e.lost.value for t, e in zip(times, segments, strict=True)]
    now, then = (
        math.fsum(w * t for w, t in zip(weights, each, strict=True)) for each in (times, at_best)
    )
    return max(0.0, 1.0 - then / now)


# ── a γ for each request ─────────────────────────────────────────────────────────────────────


def _by_request(endpoint: PlannedEndpoint, prediction: Prediction, rate: float) -> ByRequest | None:
    """None where requests are alike, γ = 0 was given, or they cannot be told to draft different
    numbers: InputError then if the endpoint is planned so."""
    s, asked = endpoint.scenario, endpoint.gamma_by == "request"
    if len(endpoint.segments) == 1 or s.gamma == 0:
        return None
    if not asked and not (s.tree is None and s.run_ms is None):
        return None
    return by_request(prediction, s.gamma, rate, (endpoint.per_request_tax or 0.0) / 100.0)


def _told_apart(
    segments: tuple[SegmentAnswer, ...], each: ByRequest, *, planned: bool
) -> tuple[SegmentAnswer, ...]:
    """The segments with what a γ for each request does to them; as `planned`, with that γ."""
    told = []
    for i, (segment, gamma) in enumerate(zip(segments, each.gammas, strict=True)):
        own = of_endpoint(for_part(each.prediction.endpoint, i))
        one = replace(segment, with_one=segment.prediction.tpot, with_each=own.tpot)
        if planned and any(each.gammas):
            one = replace(one, gamma=gamma, prediction=own, tails=_tails(own))
        told.append(one)
    return tuple(told)


def _ways(
    endpoint: PlannedEndpoint, rate: float, planned: Prediction, found: Capacity,
    segments: tuple[SegmentAnswer, ...], each: ByRequest | None,
) -> tuple[Way, ...]:  # fmt: skip
    """How it can be treated, one γ for all first."""
    if len(segments) == 1:
        return ()
    count = len(segments)
    ways = [way_of("one", (planned.gamma,) * count, planned, found)]
    if each is not None:
        if each.one not in (0, planned.gamma):
            best = predicted(planned, (each.one,) * count, endpoint.scenario.gamma, rate)
            ways.append(way_of("best one", (each.one,) * count, best, capacity(best)))
        ways.append(way_of("request", each.gammas, each.prediction, each.capacity))
    splits = [(i, one.split) for i, one in enumerate(segments) if one.split is not None]
    if splits:
        at, least = min(splits, key=lambda of: of[1].gpus)
        gammas = tuple(least.gamma if i == at else least.others for i in range(count))
        now = found.speculative.usd_per_month
        month = None
        if least.more_per_month is not None and now is not None:
            month = Estimate(now.value + least.more_per_month)
        ways.append(Way("dedicated", gammas, None, None, Estimate(float(least.replicas)),
                        Estimate(float(least.gpus)), month))  # fmt: skip
    return tuple(ways)


def _split(endpoint: PlannedEndpoint, index: int, gamma: int, found: Capacity) -> Split | None:
    """The segment on replicas of its own, the others together on theirs."""
    if gamma == found.gamma:
        return None
    s, own = endpoint.scenario, endpoint.segments[index]
    rest = [each for i, each in enumerate(endpoint.segments) if i != index]
    parts = [Part(each.share, each.scenario) for each in rest]
    together = blended(s, parts) if len(parts) > 1 else rest[0].scenario
    mine = _pool(predict(own.scenario), gamma)
    others = _pool(predict(together, tuple(parts) if len(parts) > 1 else ()), None)
    if not mine[1] or not others[1]:
        return None
    free, demand = 1.0 - s.headroom, endpoint.demand
    counts, gpus = [], []
    for share, (gamma, rate, pool) in ((own.share, mine), (1.0 - own.share, others)):
        counts.append(max(1, int(replicas_needed(demand * share, free * rate))))
        gpus.append(counts[-1] * (s.tensor_parallel + (s.draft_gpus if gamma else 0)))
        if pool is not None:
            read = replicas_needed(demand * share, free * pool.within.value)
            gpus.append(int(read) * pool.gpus)
    price, together_now = s.usd_per_hour, found.speculative.usd_per_month
    more = None
    if price is not None and together_now is not None:
        bill = float(usd_per_month(1, gpus=sum(gpus), usd_per_hour=price))
        more = bill - together_now.value
    return Split(mine[0], others[0], sum(counts), sum(gpus), more)


def _pool(prediction: Prediction, gamma: int | None) -> tuple[int, float, PrefillPool | None]:
    """γ and the largest rate within what is promised, in the middle: at that γ, else at the one of
    those that may be advised that carries most; and who reads its prompts."""
    server, pools = server_of(prediction), pools_of(prediction)
    able = [gamma] if gamma is not None else [0, *prediction.endpoint.advisable.tolist()]
    within, _ = server.only(*able).within(promised(prediction))
    best = int(np.argmax(within))
    return able[best], float(within[best]), pools and pools[min(able[best], 1)]
