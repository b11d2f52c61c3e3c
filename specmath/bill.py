"""The bill in whole replicas: it falls only when a replica leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specmath.estimate import Estimate
from specmath.frontier import NOT_MEASURED, measured_over_computed
from specmath.money import (
    price_of_a_millisecond,
    replicas_needed,
    usd_per_million_served,
    usd_per_million_tokens,
    usd_per_month,
    wh_per_million_tokens,
)
from specmath.predict import Prediction, predict
from specmath.scenario import SPECS, Scenario
from specmath.serving.memory import Memory

__all__ = ["Bill", "Fleet", "bill", "demand_of", "millisecond_price", "output_share"]


@dataclass(frozen=True)
class Fleet:
    """One arm: what a replica gives and costs, and the replicas that carry what is to be served.

    Attributes
    ----------
    gpus
        Of one replica.
    tokens_per_second
        Output of one replica kept busy: at the scenario's batch or concurrency, in an open loop at
        the largest rate that it carries.
    usd_per_million, usd_per_million_total
        USD per million output tokens, and per million of prompt and output together, of a replica
        kept so busy; None while the price, or the prompt's length, is not known.
    tokens_per_dollar
        Output tokens for a dollar.
    wh_per_million
        Watt-hours per million output tokens, of the GPUs at the power that they may draw at most;
        None where that is not known.
    needed, replicas
        How many carry what is to be served with headroom, before rounding up and after; None while
        nothing is.
    usd_per_month
        Of all of them, 730 h.
    billed_per_million, billed_per_million_total
        USD of the bill per million tokens served: more than those of a busy replica, because
        replicas are whole and have headroom.
    use
        Share of what the replicas could give that is served.
    """

    gpus: int
    tokens_per_second: Estimate
    usd_per_million: Estimate | None = None
    usd_per_million_total: Estimate | None = None
    tokens_per_dollar: Estimate | None = None
    wh_per_million: Estimate | None = None
    needed: Estimate | None = None
    replicas: Estimate | None = None
    usd_per_month: Estimate | None = None
    billed_per_million: Estimate | None = None
    billed_per_million_total: Estimate | None = None
    use: Estimate | None = None

    @property
    def all_gpus(self) -> Estimate | None:
        """GPUs of all replicas."""
        return self.replicas and self.replicas.map(lambda count: count * self.gpus)


@dataclass(frozen=True)
class Bill:
    """The fleet with plain decoding and with speculation.

    Both are estimates of one endpoint: the error of the plain step cancels in what they are
    combined to point by point. `demand`: output tokens a second to serve; None while not known.
    """

    plain: Fleet
    speculative: Fleet
    demand: Estimate | None
    headroom: float


def bill(prediction: Prediction) -> Bill | None:
    """Both fleets, or None while the target's time is unknown; of them what the price, the demand
    and the GPU's power allow.

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> priced = Scenario(alpha=0.8, c=0.1, gamma=4, target_ms=40, batch=8,
    ...                   demand_tokens_per_second=2000, headroom=0)
    >>> found = bill(predict(priced))
    >>> found.plain.replicas.value, found.speculative.replicas.value
    (10.0, 5.0)
    """
    s, p = prediction.scenario, prediction
    if p.tpot_plain is None or p.tpot is None:
        return None
    before = _busy(p, p.tpot_plain, 0)
    after = _busy(p, p.tpot, p.gamma)
    demand = demand_of(s, before)
    plain, ours = (
        _fleet(p, each, demand, gpus)
        for each, gpus in ((before, s.tensor_parallel), (after, p.gpus))
    )
    return Bill(plain, ours, demand, s.headroom)


def demand_of(s: Scenario, plain: Estimate) -> Estimate | None:
    """Output tokens a second of the whole service, however it was said; `plain`: of one replica
    without speculation."""
    if s.demand_requests_per_second is not None:
        return Estimate(s.demand_requests_per_second * s.output_tokens)
    if s.replicas is not None:
        carried = s.replicas * (1.0 - s.headroom)
        return plain.map(lambda each: each * carried)
    return None if s.demand_tokens_per_second is None else Estimate(s.demand_tokens_per_second)


def _busy(p: Prediction, tpot: Estimate, gamma: int) -> Estimate:
    """Output tokens a second of one replica at its load; of an open loop λ_max N, with the interval
    of the time per token at the batch that memory holds, where it is reached."""
    endpoint, s = p.endpoint, p.scenario
    load, pair = endpoint.load, endpoint.pair
    if load is None or pair is None or load.requests.request_rate is None:
        return tpot.map(lambda seconds: endpoint.throughput(seconds, gamma))
    most = float(load.most_requests[gamma]) * s.output_tokens
    memory = Memory.of(pair) if gamma else Memory(pair.place)
    batch = min(
        max(1, memory.largest_batch(pair.context_tokens, gamma)), int(SPECS["batch"].high or 1)
    )
    held = {"request_rate": None, "batch": batch, "gamma": p.gamma}
    full = predict(s.model_copy(update=NOT_MEASURED | held))
    seconds = full.tpot if gamma else full.tpot_plain
    most /= measured_over_computed(p)[1 if gamma else 0]
    if seconds is None:
        return Estimate(most)
    return seconds.map(lambda each: most * seconds.value / each)


def _fleet(p: Prediction, each: Estimate, demand: Estimate | None, gpus: int) -> Fleet:
    price = p.scenario.usd_per_hour
    usd = None
    if price is not None:
        usd = each.map(
            lambda rate: usd_per_million_tokens(1.0 / rate, batch=1, gpus=gpus, usd_per_hour=price)
        )
    one = Fleet(
        gpus, each, usd, _of_all(p.scenario, usd),
        tokens_per_dollar=usd.map(lambda dollars: 1e6 / dollars) if usd and usd.value else None,
        wh_per_million=_energy(p, each, gpus),
    )  # fmt: skip
    return one if demand is None else _whole(p.scenario, one, demand)


def _whole(s: Scenario, one: Fleet, demand: Estimate) -> Fleet:
    """The replicas that carry a demand."""
    each, price, month, billed = one.tokens_per_second, s.usd_per_hour, None, None
    free = 1.0 - s.headroom
    replicas = demand.with_(each, lambda asked, rate: replicas_needed(asked, free * rate))
    if price is not None:
        month = replicas.map(lambda n: usd_per_month(n, gpus=one.gpus, usd_per_hour=price))
        if demand.value:
            billed = month.with_(demand, usd_per_million_served)
    needed = demand.with_(each, lambda asked, rate: asked / (free * rate))
    able = replicas.with_(each, lambda count, rate: count * rate)
    return replace(
        one, needed=needed, replicas=replicas, usd_per_month=month, billed_per_million=billed,
        billed_per_million_total=_of_all(s, billed), use=demand.with_(able, lambda a, b: a / b),
    )  # fmt: skip


def output_share(s: Scenario) -> float | None:
    """Share of a request's tokens that are output; None while the prompt's length is not known."""
    if s.prompt_tokens is None:
        return None
    return s.output_tokens / (s.output_tokens + s.prompt_tokens)


def _of_all(s: Scenario, usd: Estimate | None) -> Estimate | None:
    """USD per million of prompt and output together, from that of the output alone."""
    share = output_share(s)
    return None if usd is None or share is None else usd.map(lambda dollars: dollars * share)


def _energy(p: Prediction, each: Estimate, gpus: int) -> Estimate | None:
    """At the power that the GPUs may draw at most (TDP)."""
    pair = p.endpoint.pair
    if pair is None or pair.place.device.tdp is None:
        return None
    watts = pair.place.device.tdp * gpus
    return each.map(lambda rate: wh_per_million_tokens(rate, watts))


def millisecond_price(prediction: Prediction) -> float | None:
    """Extra USD per million tokens for each ms of TPOT saved; None: no such price, or unknown."""
    p = prediction
    if p.usd is None or p.usd_plain is None or p.tpot is None or p.tpot_plain is None:
        return None
    return price_of_a_millisecond(p.usd_plain.value, p.usd.value, p.tpot_plain.value, p.tpot.value)
