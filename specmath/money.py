"""Money: cost per token is price × time; the bill falls only when a replica leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, real, whole

__all__ = [
    "HOURS_PER_MONTH",
    "price_of_a_millisecond",
    "replicas_needed",
    "tokens_per_second",
    "usd_per_million_served",
    "usd_per_million_tokens",
    "usd_per_month",
    "wh_per_million_tokens",
]

HOURS_PER_MONTH = 730.0
"""8760 hours a year over 12 months."""


def tokens_per_second(seconds_per_token: ArrayLike, batch: ArrayLike) -> FloatArray:
    """Output tokens a second of one replica = batch / seconds per token of one sequence.

    seconds_per_token > 0 (the mean TPOT), batch ≥ 1; ValueError otherwise. Shapes broadcast.
    """
    seconds = real("seconds_per_token", seconds_per_token, 0, low_open=True)
    return np.asarray(whole("batch", batch, 1) / seconds)


def usd_per_million_tokens(
    seconds_per_token: ArrayLike, *, batch: ArrayLike, gpus: ArrayLike, usd_per_hour: ArrayLike
) -> FloatArray:
    """USD per million output tokens = gpus × usd_per_hour / 3600 × seconds_per_token / batch × 10⁶.

    Assumes the replica is busy with this batch.

    Parameters
    ----------
    seconds_per_token
        The mean TPOT, > 0; array_like.
    batch
        Sequences that a replica decodes together, ≥ 1.
    gpus
        Of a replica, ≥ 1.
    usd_per_hour
        Of one GPU, ≥ 0. The four broadcast.

    Returns
    -------
    FloatArray
        USD.

    Raises
    ------
    InputError
        A value outside its range.

    Examples
    --------
    >>> float(usd_per_million_tokens(0.018, batch=8, gpus=1, usd_per_hour=3.2))
    2.0
    """
    dollars_per_second = whole("gpus", gpus, 1) * real("usd_per_hour", usd_per_hour, 0) / 3600.0
    return np.asarray(1e6 * dollars_per_second / tokens_per_second(seconds_per_token, batch))


def replicas_needed(
    demand_tokens_per_second: ArrayLike, replica_tokens_per_second: ArrayLike
) -> FloatArray:
    """Whole replicas that carry the demand: ⌈demand / throughput of one⌉, at least 1.

    Both in output tokens a second, demand ≥ 0, throughput > 0; InputError otherwise. Full use of
    that throughput: take headroom for bursts off it first.

    Examples
    --------
    >>> float(replicas_needed(2000, 480))
    5.0
    """
    demand = real("demand_tokens_per_second", demand_tokens_per_second, 0)
    each = real("replica_tokens_per_second", replica_tokens_per_second, 0, low_open=True)
    # A demand that is an exact multiple must not gain a replica from rounding in the division.
    return np.maximum(1.0, np.ceil(demand / each * (1 - 1e-12)))


def usd_per_month(replicas: ArrayLike, *, gpus: ArrayLike, usd_per_hour: ArrayLike) -> FloatArray:
    """Monthly bill of whole replicas = replicas × gpus × usd_per_hour × 730 h."""
    count = whole("replicas", replicas, 0) * whole("gpus", gpus, 1)
    return np.asarray(count * real("usd_per_hour", usd_per_hour, 0) * HOURS_PER_MONTH)


def usd_per_million_served(usd_per_month: ArrayLike, tokens_per_second: ArrayLike) -> FloatArray:
    """USD per million tokens of a bill = bill / (tokens a second × 730 h × 3600 s) × 10⁶.

    usd_per_month ≥ 0, tokens_per_second > 0 (what is served, not what could be); the two broadcast;
    InputError otherwise.

    Examples
    --------
    >>> round(float(usd_per_million_served(7300, 2500)), 3)
    1.111
    """
    served = real("tokens_per_second", tokens_per_second, 0, low_open=True)
    month = real("usd_per_month", usd_per_month, 0)
    return np.asarray(month / (served * HOURS_PER_MONTH * 3600.0) * 1e6)


def wh_per_million_tokens(tokens_per_second: ArrayLike, watts: ArrayLike) -> FloatArray:
    """Watt-hours per million tokens = watts / tokens a second / 3600 × 10⁶.

    tokens_per_second > 0, watts ≥ 0, of the same machines; the two broadcast; InputError otherwise.

    Examples
    --------
    >>> round(float(wh_per_million_tokens(2000, 700)), 1)
    97.2
    """
    rate = real("tokens_per_second", tokens_per_second, 0, low_open=True)
    return np.asarray(real("watts", watts, 0) / rate / 3600.0 * 1e6)


def price_of_a_millisecond(
    usd_plain: float, usd_speculative: float, tpot_plain: float, tpot_speculative: float
) -> float | None:
    """Extra USD per million tokens paid for each millisecond of TPOT saved.

    usd in USD per million tokens, tpot in seconds. None where there is no such price: the cost
    does not rise, or no time is saved.
    """
    extra, saved_ms = usd_speculative - usd_plain, (tpot_plain - tpot_speculative) * 1e3
    return extra / saved_ms if extra > 0 and saved_ms > 0 else None
