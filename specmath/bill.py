"""The bill in whole replicas: it falls only when a replica leaves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from specmath.cost import (
    price_of_a_millisecond,
    replicas_needed,
    tokens_per_second,
    usd_per_month,
)
from specmath.predict import Prediction

__all__ = ["Bill", "Fleet", "bill", "bill_ends", "millisecond_price"]


@dataclass(frozen=True)
class Fleet:
    """Replicas that carry the demand: throughput of one (tokens/s), how many, USD a month."""

    tokens_per_second: float
    replicas: int
    usd_per_month: float


@dataclass(frozen=True)
class Bill:
    """The fleet with plain decoding and with speculation, at the same batch."""

    plain: Fleet
    speculative: Fleet


def bill(prediction: Prediction) -> Bill | None:
    """Both fleets, or None while the demand, the price or the target's time is unknown.

    Every replica is taken as fully busy: no headroom for bursts.
    """
    s = prediction.scenario
    if s.demand_tokens_per_second is None or s.usd_per_hour is None:
        return None
    if prediction.tpot is None or prediction.tpot_plain is None:
        return None
    return _bill(prediction, prediction.tpot_plain, prediction.tpot.value)


def bill_ends(prediction: Prediction) -> tuple[Bill, ...]:
    """The bill at each end of the plain step, if it was computed, with each of the speedup.

    Each entry's two fleets have the same plain step, whose error cancels in the change from one to
    the other. Empty where nothing is open, and where `bill` is None.
    """
    if bill(prediction) is None or prediction.tpot_plain is None:
        return ()
    plain, speedup = prediction.of_plain(prediction.tpot_plain), prediction.speedup
    steps = {plain.low or plain.value, plain.high or plain.value}
    speedups = {speedup.low or speedup.value, speedup.high or speedup.value}
    if len(steps) == len(speedups) == 1:
        return ()
    each = product(sorted(steps), sorted(speedups))
    return tuple(_bill(prediction, step, step / faster) for step, faster in each)


def _bill(prediction: Prediction, plain: float, speculative: float) -> Bill:
    """From the time per token of each, in seconds."""
    s = prediction.scenario
    with_draft = s.tensor_parallel + (s.draft_gpus if s.gamma else 0)
    return Bill(
        _fleet(prediction, plain, s.tensor_parallel), _fleet(prediction, speculative, with_draft)
    )


def _fleet(prediction: Prediction, tpot: float, gpus: int) -> Fleet:
    s = prediction.scenario
    throughput = float(tokens_per_second(tpot, s.batch))
    replicas = int(replicas_needed(s.demand_tokens_per_second or 0.0, throughput))
    price = s.usd_per_hour or 0.0
    return Fleet(
        throughput, replicas, float(usd_per_month(replicas, gpus=gpus, usd_per_hour=price))
    )


def millisecond_price(prediction: Prediction) -> float | None:
    """Extra USD per million tokens for each ms of TPOT saved; None: no such price, or unknown."""
    p = prediction
    if p.usd is None or p.usd_plain is None or p.tpot is None or p.tpot_plain is None:
        return None
    return price_of_a_millisecond(p.usd_plain, p.usd.value, p.tpot_plain, p.tpot.value)
