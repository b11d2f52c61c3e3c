"""A day's requests on a fleet that is fixed at its busiest hour, and on one that follows them.

    never, always    one arm in all hours            by load    the faster arm in each hour

A fleet that follows has in each hour the replicas that its requests need, at least one, and where
others read the prompts as many of those as they need; by load it is of the arm that needs fewer
GPUs. A fixed fleet is that of the busiest hour; on it the time per token of each hour is that of
the open loop at the hour's rate. Where the engine turns speculation off by itself (K=0 in a
schedule) such a step takes a share more (`evidence.switching`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.capacity import Capacity
from specmath.carried import Carried
from specmath.checks import FloatArray
from specmath.estimate import Estimate
from specmath.evidence import switching
from specmath.money import replicas_needed

__all__ = ["DAYS", "POLICIES", "Day", "Policy", "PolicyDay", "day_of"]

Policy = Literal["never", "always", "by load"]
POLICIES: tuple[Policy, ...] = ("never", "always", "by load")

DAYS = 730.0 / 24.0
"""Of a month, as the bill has it."""


@dataclass(frozen=True)
class PolicyDay:
    """One policy over a day.

    Attributes
    ----------
    gpus
        Of the fleet that follows, in the middle, of each hour; () where no rate is within what is
        promised.
    gpu_hours, usd_per_month
        Of the fleet that follows, a day and a month; None where it is not known.
    fixed_gpu_hours
        Of the fleet of the busiest hour, a day.
    tpot
        Seconds a token of each hour on the fixed fleet without speculation; nan where it does not
        carry the hour.
    mean_tpot
        The same in the mean over requests.
    on
        Whether it drafts, of each hour.
    """

    policy: Policy
    gpus: tuple[float, ...]
    gpu_hours: Estimate | None
    usd_per_month: Estimate | None
    fixed_gpu_hours: Estimate | None
    tpot: tuple[float, ...]
    mean_tpot: float
    on: tuple[bool, ...]


@dataclass(frozen=True)
class Day:
    """Requests a second of each hour, what reaches one replica of the fixed fleet, and policies."""

    demand: tuple[float, ...]
    rates: tuple[float, ...]
    policies: tuple[PolicyDay, ...]


def day_of(server: Carried, found: Capacity, shape: Sequence[float], replicas: int) -> Day:
    """The policies over a day.

    Parameters
    ----------
    server, found
        What serves, and what it carries within what is promised, with a demand.
    shape
        Requests of each hour over those of the busiest one.
    replicas
        Of the fixed fleet.
    """
    assert found.demand is not None
    demand = np.array(shape) * found.demand.value
    rates, gamma = demand / replicas, found.gamma
    state = server.only(0, gamma).states(np.minimum(rates, _most(server, gamma))[:, None])
    tpot = np.where(rates[:, None] < server.most[[0, gamma]], state["tpot"], np.nan)
    off = 1.0 + switching().share(np.rint(state["batch"][:, 0]))
    drafts = ~(tpot[:, 0] * off < tpot[:, 1]) & np.isfinite(tpot[:, 1])
    by_load = np.where(drafts, tpot[:, 1], tpot[:, 0] * off)
    never, always = np.zeros(len(rates), bool), np.ones(len(rates), bool)
    times = {"never": (tpot[:, 0], never), "always": (tpot[:, 1], always),
             "by load": (by_load, drafts)}  # fmt: skip
    return Day(
        tuple(demand.tolist()),
        tuple(rates.tolist()),
        tuple(_policy(found, each, demand, *times[each]) for each in POLICIES),
    )


def _most(server: Carried, gamma: int) -> float:
    return float(max(server.most[0], server.most[gamma])) * (1.0 - 1e-9)


def _policy(
    found: Capacity, policy: Policy, demand: FloatArray, tpot: FloatArray, on: np.ndarray
) -> PolicyDay:
    s = found.scenario
    arms = {"never": [found.plain], "always": [found.speculative],
            "by load": [found.plain, found.speculative]}[policy]  # fmt: skip
    able = [arm for arm in arms if arm.within.value > 0.0]
    requests = demand / demand.sum()
    mean = float(np.nansum(requests * tpot)) if np.isfinite(tpot[demand > 0]).all() else np.nan
    told = tuple(float(each) for each in tpot), mean, tuple(bool(each) for each in on)
    if not able:
        return PolicyDay(policy, (), None, None, None, *told)
    free = 1.0 - s.headroom
    # By load, a replica has the draft's GPUs at all hours, and the draft reads every prompt.
    gpus = max(arm.gpus for arm in able)
    prefill = able[-1].prefill

    def needed(rate: ArrayLike, gpus: int) -> FloatArray:
        """GPUs of each hour, on a new first axis."""
        each = np.asarray(rate, dtype=float)
        some = np.where(each > 0.0, each, 1.0)
        hours = demand.reshape(-1, *(1,) * each.ndim)
        whole = np.maximum(replicas_needed(hours, free * some), 1.0)
        return np.where(each > 0.0, whole * gpus, np.inf)

    def fleet(rate: ArrayLike, reads: ArrayLike) -> FloatArray:
        own = needed(rate, gpus)
        return own if prefill is None else own + needed(reads, prefill.pool.gpus)

    best = able[0].within
    for arm in able[1:]:
        best = best.with_(arm.within, np.maximum)
    reads = best if prefill is None else prefill.pool.within
    hours = best.with_(reads, lambda *rates: fleet(*rates).sum(axis=0))
    fixed = best.with_(reads, lambda *rates: fleet(*rates).max(axis=0) * len(demand))
    price = s.usd_per_hour
    month = None if price is None else hours.map(lambda each: each * price * DAYS)
    counts = tuple(float(each) for each in fleet(best.value, reads.value))
    return PolicyDay(policy, counts, hours, month, fixed, *told)
