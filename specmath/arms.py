"""The same traffic served twice: by an endpoint's plain arm, and by the one that speculates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import InputError
from specmath.lengths import spread_of_lengths
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint, resolve
from specmath.serving.replica import MOST_SEQUENCES, By, Limit, Replica
from specmath.simulate import WARM_UP, Simulated, simulate
from specmath.traffic import Traffic

__all__ = ["Arm", "Server", "endpoint_for", "replica_of", "served"]


@dataclass(frozen=True)
class Server:
    """What of a server no scenario says.

    Attributes
    ----------
    most_sequences
        Of one step (`max_num_seqs`), ≥ 1.
    kv_tokens
        Tokens that the cache holds; None: what memory leaves.
    """

    most_sequences: int = MOST_SEQUENCES
    kv_tokens: int | None = None


@dataclass(frozen=True, eq=False)
class Arm:
    """One arm under that traffic: its γ, the largest rate it carries, and what requests met."""

    gamma: int
    limit: Limit
    found: Simulated

    @property
    def utilisation(self) -> float:
        """Requests that ended a second, over the most that it carries."""
        return self.found.request_rate / self.limit.rate


def endpoint_for(scenario: Scenario, traffic: Traffic, server: Server = Server()) -> Endpoint:
    """The endpoint under the mean of that traffic: its rate or concurrency, and its lengths.

    Raises InputError where its costs were given, since steps of a batch follow from hardware
    alone; and for traffic beyond what an arm carries.
    """
    means = {
        "prompt_tokens": round(float(traffic.prompt_tokens.mean())),
        "output_tokens": max(1, round(float(traffic.output_tokens.mean()))),
        "prompt_spread": spread_of_lengths(traffic.prompt_tokens),
        "output_spread": spread_of_lengths(traffic.output_tokens),
    }
    closed = traffic.concurrency or 1
    alike = {"concurrency": closed, "request_rate": None, "batch": 1, "arrivals": "sustained"}
    found = resolve(scenario.model_copy(update=alike | means))
    if found.pair is None:
        raise InputError(
            "a simulation needs gpu, model and draft (draft_form=hardware), "
            f"got draft_form={scenario.draft_form}"
        )
    if traffic.concurrency is not None or _is_burst(traffic):
        return found
    gammas = _gammas(found.gamma)
    _refuse_overload(
        traffic, gammas, [_limit(replica_of(found, g, traffic, server), traffic) for g in gammas]
    )
    load = {"concurrency": None, "request_rate": traffic.rate}
    return resolve(found.scenario.model_copy(update=load))


def _is_burst(traffic: Traffic) -> bool:
    """Whether so few come at once that no rate says anything of them."""
    return not np.isfinite(traffic.rate) or len(traffic) < FEW


FEW = 16
"""Requests below which an open loop has no rate to speak of."""


def replica_of(
    endpoint: Endpoint, gamma: int | ArrayLike, traffic: Traffic, server: Server = Server()
) -> Replica:
    """The tables of an endpoint's arm at γ (or a γ for each batch), as long as the traffic needs.

    A step that was measured at the endpoint's own load moves every step by as many times.
    """
    pair, load = endpoint.pair, endpoint.load
    if pair is None or load is None:
        raise InputError("a replica needs an endpoint whose costs are computed")
    whole = traffic.prompt_tokens + traffic.output_tokens
    return Replica.of(
        pair, load.requests, endpoint.speculation.acceptance, gamma,
        lengths=(
            int(traffic.prompt_tokens.min()), int(traffic.prompt_tokens.max()), int(whole.max())
        ),
        most_sequences=server.most_sequences, kv_tokens=server.kv_tokens,
        slower=_measured_over_computed(endpoint, int(np.max(gamma))),
    )  # fmt: skip


def _measured_over_computed(endpoint: Endpoint, gamma: int) -> float:
    """Of a step at γ at the endpoint's own load: 1 where nothing was measured."""
    load, plain = endpoint.load, endpoint.plain
    assert load is not None
    times = 1.0
    if endpoint.scenario.target_ms is not None and plain is not None:
        times = plain.value / float(load.tpot[0])
    if gamma == 0:
        return times
    cost = float(endpoint.speculation.cost.total(gamma))
    return times * cost / float(load.step[gamma] / load.step[0])


def _gammas(gamma: int) -> tuple[int, ...]:
    return (0, gamma) if gamma else (0,)


def _limit(replica: Replica, traffic: Traffic) -> Limit:
    prefix = None if traffic.prefix_tokens is None else float(traffic.prefix_tokens.mean())
    prompt, output = traffic.prompt_tokens.mean(), traffic.output_tokens.mean()
    return replica.limit(float(prompt), float(output), prefix)


def served(
    endpoint: Endpoint,
    traffic: Traffic,
    *,
    server: Server = Server(),
    seed: int = 0,
    warm_up: float = WARM_UP,
    told: Callable[[int, int], None] | None = None,
) -> tuple[Arm, ...]:
    """The plain arm, and where the endpoint's γ is ≥ 1 the one that speculates.

    Parameters
    ----------
    endpoint
        With a pair: of `endpoint_for`.
    traffic
        What both serve.
    server
        Sequences of a step, and the cache.
    seed, warm_up, told
        As of `simulate`.

    Returns
    -------
    tuple[Arm, ...]
        One or two, the plain one first.

    Raises
    ------
    InputError
        Traffic beyond what an arm carries, with the largest rate of each and what ends it.
    """
    arms = [(g, replica_of(endpoint, g, traffic, server)) for g in _gammas(endpoint.gamma)]
    most = [_limit(replica, traffic) for _, replica in arms]
    if traffic.concurrency is None and not _is_burst(traffic):
        _refuse_overload(traffic, [g for g, _ in arms], most)
    return tuple(
        Arm(gamma, limit, simulate(replica, traffic, seed=seed, warm_up=warm_up, told=told))
        for (gamma, replica), limit in zip(arms, most, strict=True)
    )


_ENDS: dict[By, str] = {
    "memory": "the memory for the cache ends it, at {} sequences",
    "max sequences": "the most sequences of a step end it, {}",
    "compute": "arithmetic ends it, at {} sequences",
}


def _refuse_overload(traffic: Traffic, gammas: Sequence[int], most: Sequence[Limit]) -> None:
    """InputError where requests come faster than an arm carries."""
    if traffic.rate < min(limit.rate for limit in most):
        return
    each = "; ".join(
        f"{limit.rate:.3g} requests/s {f'with γ={g}' if g else 'with plain decoding'} "
        f"({_ENDS[limit.by].format(limit.batch)})"
        for g, limit in zip(gammas, most, strict=True)
    )
    raise InputError(
        f"traffic must come more slowly than one replica carries, got {traffic.rate:.3g} "
        f"requests/s: it carries at most {each}"
    )
