"""The bill in whole replicas: it falls only when a replica leaves."""

from __future__ import annotations

from dataclasses import dataclass

from specmath.estimate import Estimate
from specmath.money import (
    price_of_a_millisecond,
    replicas_needed,
    usd_per_month,
)
from specmath.predict import Prediction, usd_at
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint

__all__ = ["Bill", "Fleet", "bill", "millisecond_price", "output_share"]


@dataclass(frozen=True)
class Fleet:
    """Replicas that carry the demand.

    Attributes
    ----------
    tpot
        Seconds a token.
    tokens_per_second
        Output tokens a second of one replica.
    needed, replicas
        How many carry the demand, before rounding up and after.
    usd_per_month
        Of all of them.
    usd_per_million, usd_per_million_total
        USD per million output tokens, and per million tokens with those of the prompts; the second
        is None while their length is not known.
    tokens_per_dollar
        Output tokens; None where the price is 0.
    """

    tpot: Estimate
    tokens_per_second: Estimate
    needed: Estimate
    replicas: Estimate
    usd_per_month: Estimate
    usd_per_million: Estimate
    usd_per_million_total: Estimate | None
    tokens_per_dollar: Estimate | None


@dataclass(frozen=True)
class Bill:
    """The fleet with plain decoding and with speculation, at the same batch.

    Both are estimates of one endpoint: the error of the plain step cancels in what they are
    combined to point by point.
    """

    plain: Fleet
    speculative: Fleet


def bill(prediction: Prediction) -> Bill | None:
    """Both fleets, or None while the demand, the price or the target's time is unknown.

    Every replica is taken as fully busy: no headroom for bursts.

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> priced = Scenario(alpha=0.8, c=0.1, gamma=4, target_ms=40, batch=8,
    ...                   demand_tokens_per_second=2000)
    >>> found = bill(predict(priced))
    >>> found.plain.replicas.value, found.speculative.replicas.value
    (10.0, 5.0)
    """
    s, plain, tpot = prediction.scenario, prediction.tpot_plain, prediction.tpot
    if None in (s.demand_tokens_per_second, s.usd_per_hour) or plain is None or tpot is None:
        return None
    with_draft = s.tensor_parallel + (s.draft_gpus if prediction.gamma else 0)
    endpoint, gamma = prediction.endpoint, prediction.gamma
    return Bill(
        _fleet(endpoint, plain, 0, s.tensor_parallel), _fleet(endpoint, tpot, gamma, with_draft)
    )


def _fleet(endpoint: Endpoint, tpot: Estimate, gamma: int, gpus: int) -> Fleet:
    s = endpoint.scenario
    throughput = tpot.map(lambda seconds: endpoint.throughput(seconds, gamma))
    demand, price = s.demand_tokens_per_second or 0.0, s.usd_per_hour or 0.0
    replicas = throughput.map(lambda each: replicas_needed(demand, each))
    usd = tpot.map(lambda seconds: usd_at(endpoint, seconds, gamma))
    share = output_share(s)
    return Fleet(
        tpot=tpot,
        tokens_per_second=throughput,
        needed=throughput.map(lambda each: demand / each),
        replicas=replicas,
        usd_per_month=replicas.map(lambda n: usd_per_month(n, gpus=gpus, usd_per_hour=price)),
        usd_per_million=usd,
        usd_per_million_total=None if share is None else usd.map(lambda each: each * share),
        tokens_per_dollar=usd.map(lambda each: 1e6 / each) if price else None,
    )


def output_share(s: Scenario) -> float | None:
    """Share of a request's tokens that are output; None while the prompt's length is not known."""
    if s.prompt_tokens is None:
        return None
    return s.output_tokens / (s.output_tokens + s.prompt_tokens)


def millisecond_price(prediction: Prediction) -> float | None:
    """Extra USD per million tokens for each ms of TPOT saved; None: no such price, or unknown."""
    p = prediction
    if p.usd is None or p.usd_plain is None or p.tpot is None or p.tpot_plain is None:
        return None
    return price_of_a_millisecond(p.usd_plain.value, p.usd.value, p.tpot_plain.value, p.tpot.value)
