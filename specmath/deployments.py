"""The search over deployments: every GPU, number of them, drafter, γ and load of a replica at once.

Each server's state is that of `specmath.carried`, over all its γ and many loads in one pass: as the
batch fills, which gives the rate without a search for it. Of a million deployments the middle of
each number is kept, and the ranges of those that nothing beats:

    $/M = GPUs × price / 3600 / (λ N) × 10⁶        against the time per token at λ
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from specmath import hardware
from specmath.capacity import bare_server, promised
from specmath.carried import Carried, Points, Promise, carried
from specmath.checks import FloatArray, InputError, IntArray
from specmath.estimate import Estimate
from specmath.money import replicas_needed, usd_per_month
from specmath.options import options
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario

__all__ = ["LOADS", "Deployment", "Search", "deployments", "gpus_for"]

LOADS = 256
"""Loads of a replica, from nearly none to as many sequences as memory holds."""

EMPTY = 1.01
"""Sequences of a step at the least load: whoever is there is alone."""

NEAR = 1.06
"""How many times the time per token two neighbours of a front differ by at least."""

MOST_LISTED = 12
"""Of the cheapest."""

PARALLEL = (1, 2, 4, 8)


@dataclass(frozen=True)
class Deployment:
    """One way to serve: a GPU, how many a replica has, a draft, γ (0: plain decoding), a load.

    Attributes
    ----------
    scenario
        With that GPU, and its price; of γ=0 its draft says nothing.
    draft, gamma, gpus
        The draft's name, "" at γ=0; γ; GPUs of a replica.
    rate
        Requests a second of one replica.
    tpot, ttft
        Seconds at that rate, means.
    usd_per_million
        USD per million output tokens of a replica at that rate.
    replicas, usd_per_month
        To serve the demand at that rate; None where none is given.
    """

    scenario: Scenario
    draft: str
    gamma: int
    gpus: int
    rate: float
    tpot: Estimate
    ttft: Estimate
    usd_per_million: Estimate
    replicas: float | None
    usd_per_month: float | None


@dataclass(frozen=True)
class Search:
    """What was looked at, and what nothing beats.

    Attributes
    ----------
    looked_at, servers
        Deployments, each a load that a server carries, and servers (a GPU, a number of them, a
        draft).
    left_out
        Servers that cannot be: the models do not fit, or do not split.
    front
        Those within what is promised to which no other is both faster a token and cheaper a
        million tokens, the fastest first.
    plain_front
        The same of plain decoding alone.
    cheapest
        One of each GPU and number of them, with its best draft and γ, at the largest load within
        what is promised less headroom, as `capacity` has it, the cheapest first: by the bill of the
        demand, else by a million tokens.
    """

    looked_at: int
    servers: int
    left_out: int
    front: tuple[Deployment, ...]
    plain_front: tuple[Deployment, ...]
    cheapest: tuple[Deployment, ...]


@dataclass(frozen=True, eq=False)
class _Server:
    """One server and its states: requests a second and seconds over [loads, γ], ascending; `able`:
    carried within what is promised; `within`: the largest rate that is, over γ; `carried`: loads,
    over all γ."""

    scenario: Scenario
    draft: str
    server: Carried
    gammas: IntArray
    rate: FloatArray
    tpot: FloatArray
    able: np.ndarray
    within: FloatArray
    carried: int

    points: dict[int, Points] = field(default_factory=dict)

    def points_at(self, gamma: int) -> Points:
        """Its joint points, solved once a γ."""
        if gamma not in self.points:
            self.points[gamma] = self.server.points(gamma)
        return self.points[gamma]

    def gpus(self, gamma: int) -> int:
        s = self.scenario
        return s.tensor_parallel + (s.draft_gpus if gamma else 0)

    def usd(self, rate: FloatArray) -> FloatArray:
        """Per million output tokens, at rates [..., γ]."""
        s = self.scenario
        many = np.array([self.gpus(int(g)) for g in self.gammas])
        price = many * (s.usd_per_hour or 0.0) / 3600.0
        return np.asarray(price / (rate * s.output_tokens) * 1e6)


def gpus_for(s: Scenario) -> tuple[str, ...]:
    """GPUs of the catalogue that have a price, and serve with the scenario's engine."""
    return tuple(
        gpu.name
        for gpu in hardware.catalogue().values()
        if gpu.usd_per_hour is not None and (not gpu.engines or s.engine in gpu.engines)
    )


def deployments(
    s: Scenario,
    *,
    gpus: Sequence[str] = (),
    parallel: Sequence[int] = PARALLEL,
    told: Callable[[int, int], None] | None = None,
) -> Search:
    """Every deployment of a target with the drafts that it can have.

    Parameters
    ----------
    s
        In the hardware form with the prompts' length: its model, engine, lengths, acceptance of
        its own draft, promises, demand and headroom. Times that were measured are left out: they
        are of one GPU.
    gpus
        Names; none: `gpus_for`. A scenario's own price holds for its own GPU, every other has the
        catalogue's, and one without a price is refused.
    parallel
        GPUs of a replica (TP).
    told
        Called with servers done and servers in all.

    Returns
    -------
    Search
        Of γ those that may be advised of each draft.

    Raises
    ------
    InputError
        As `predict` and `capacity`; a GPU that is unknown or has no price; no server at all.
    """
    if not s.costs.computed:
        raise InputError(
            "a search needs gpu, model and draft (draft_form=hardware), "
            f"got draft_form={s.draft_form}"
        )
    prediction = _first_that_fits(s, parallel)
    bare = bare_server(prediction)
    names = tuple(gpus) or gpus_for(s)
    drafts = [(prediction.endpoint.pair.drafter.label if prediction.endpoint.pair else "", s)]
    drafts += [
        (row.label, row.endpoint.scenario)
        for row in options(prediction.endpoint, yours=True).rows
        if row.runs and row.known and row.exists and not row.yours
    ]
    every = [(gpu, n, label, of) for gpu in names for n in parallel for label, of in drafts]
    found: list[_Server] = []
    plain_of: set[tuple[str, int]] = set()
    for done, (gpu, n, label, of) in enumerate(every):
        if told is not None:
            told(done, len(every))
        placed = _placed(bare, of, gpu, n, s)
        try:
            one = _server(placed, label, promised(prediction), alone=(gpu, n) not in plain_of)
        except InputError:
            continue
        plain_of.add((gpu, n))
        found.append(one)
    if not found:
        raise InputError(
            f"no GPU of {', '.join(names)} holds {s.model} on {', '.join(map(str, parallel))}"
        )
    if told is not None:
        told(len(every), len(every))
    return Search(
        looked_at=sum(one.carried for one in found),
        servers=len(found),
        left_out=len(every) - len(found),
        front=_front(found, prediction),
        plain_front=_front([_plain(one) for one in found if 0 in one.gammas], prediction),
        cheapest=_cheapest(found, prediction),
    )


def _first_that_fits(s: Scenario, parallel: Sequence[int]) -> Prediction:
    """Of the scenario's own GPU, as many as hold its models: from it the drafts are known."""
    for n in (s.tensor_parallel, *sorted(parallel)):
        with suppress(InputError):
            return predict(s.model_copy(update={"tensor_parallel": n}))
    return predict(s)


def _placed(bare: Scenario, of: Scenario, gpu: str, n: int, own: Scenario) -> Scenario:
    """The scenario of one server: a draft's own acceptance and fields, another place."""
    found = hardware.find(gpu)
    mine = hardware.find(str(own.gpu)).name == found.name
    price = own.usd_per_hour if mine else found.usd_per_hour
    if price is None:
        raise InputError(f"usd_per_hour must be known of every GPU that is searched, got {gpu}")
    load = {name: getattr(bare, name) for name in _LOAD}
    place = {"gpu": found.name, "tensor_parallel": n, "gamma": None, "usd_per_hour": price}
    return of.model_copy(update=load | place)


_LOAD = ("batch", "concurrency", "request_rate", "arrivals", "target_ms", "run_gamma", "run_ms",
         "run_tokens_per_step")  # fmt: skip


def _server(s: Scenario, draft: str, promises: Sequence[Promise], *, alone: bool) -> _Server:
    """Its states; `alone`: with those of plain decoding, which have no draft."""
    price, s = s.usd_per_hour, s.model_copy(update={"usd_per_hour": 2.5})
    server = carried(s, (1.0, 1.0))
    gammas = np.array([*([0] if alone else []), *server.base.advisable.tolist()])
    one = server.only(*gammas.tolist())
    state = one.filled(np.geomspace(EMPTY, np.maximum(one.held, 2.0 * EMPTY), LOADS))
    times = state.times
    able, within = state.carried, one.most
    for promise in promises:
        kept = times[promise.name] <= promise.seconds
        within = np.minimum(within, _met(state.rate, times[promise.name], promise.seconds))
        able = able & kept
    named = s.model_copy(update={"usd_per_hour": price})
    return _Server(named, draft, server, gammas, state.rate, times["tpot"], able, within,
                   int(state.carried.sum()))  # fmt: skip


def _met(rate: FloatArray, times: FloatArray, seconds: float) -> FloatArray:
    """The rate of each γ at which a time is met, between two loads; inf where all of them meet it,
    0 where none does."""
    longer = times > seconds
    after = np.maximum(longer.argmax(axis=0), 1)[None]
    (low, high), (fast, slow) = (
        (np.take_along_axis(each, after - 1, 0)[0], np.take_along_axis(each, after, 0)[0])
        for each in (rate, times)
    )
    share = (seconds - fast) / np.where(slow > fast, slow - fast, 1.0)
    met = low + np.clip(share, 0.0, 1.0) * (high - low)
    return np.where(longer[0], 0.0, np.where(longer.any(axis=0), met, np.inf))


def _plain(one: _Server) -> _Server:
    at = one.gammas == 0
    return replace(one, gammas=one.gammas[at], rate=one.rate[:, at], tpot=one.tpot[:, at],
                   able=one.able[:, at], within=one.within[at])  # fmt: skip


def _front(found: Sequence[_Server], prediction: Prediction) -> tuple[Deployment, ...]:
    """Those that no other beats, of neighbours that hardly differ the first."""
    if not found:
        return ()
    which = np.concatenate([np.full(one.rate.size, i) for i, one in enumerate(found)])
    place = np.concatenate([np.arange(one.rate.size) for one in found])
    tpot = np.concatenate([one.tpot.ravel() for one in found])
    usd = np.concatenate([one.usd(one.rate).ravel() for one in found])
    able = np.concatenate([one.able.ravel() for one in found])
    which, place, tpot, usd = which[able], place[able], tpot[able], usd[able]
    # Ties apart, the order of times is enough, and of a million it is half of the work.
    order = np.argsort(tpot)
    first = np.minimum.accumulate(usd[order])
    order = order[usd[order] <= first]
    order = order[np.lexsort((usd[order], tpot[order]))]
    least = np.minimum.accumulate(usd[order])
    best = np.ones(len(order), dtype=bool)
    best[1:] = least[1:] < least[:-1]
    kept, last = [], 0.0
    for i in order[best]:
        if tpot[i] > last * NEAR or usd[i] == usd.min():
            kept.append(int(i))
            last = float(tpot[i])
    listed = [(found[which[i]], *np.unravel_index(place[i], found[which[i]].rate.shape))
              for i in kept]  # fmt: skip
    return tuple(
        _told(one, int(column), float(one.rate[row, column]), prediction)
        for one, row, column in listed
    )


def _cheapest(found: Sequence[_Server], prediction: Prediction) -> tuple[Deployment, ...]:
    """Of each GPU and number of them the draft and γ with the least bill."""
    s, rows = prediction.scenario, []
    for one in found:
        rates = (1.0 - s.headroom) * one.within
        usd = one.usd(np.where(rates > 0.0, rates, 1.0))
        for column in map(int, np.flatnonzero(rates > 0.0)):
            rate = float(rates[column])
            bill = _bill(s, one, rate, int(one.gammas[column]))
            tpot = float(np.interp(rate, one.rate[:, column], one.tpot[:, column]))
            first = float(usd[column]) if bill is None else bill[1]
            rows.append((first, float(usd[column]), tpot, one, column, rate))
    rows.sort(key=lambda each: each[:3])
    kept: dict[tuple[str | None, int], tuple[_Server, int, float]] = {}
    for *_, one, at, rate in rows:
        kept.setdefault((one.scenario.gpu, one.scenario.tensor_parallel), (one, at, rate))
    return tuple(_told(*each, prediction) for each in list(kept.values())[:MOST_LISTED])


def _bill(s: Scenario, one: _Server, rate: float, gamma: int) -> tuple[float, float] | None:
    """Replicas that serve the demand at a rate, and USD a month."""
    demand = s.demand_requests_per_second
    if demand is None and s.demand_tokens_per_second is not None:
        demand = s.demand_tokens_per_second / s.output_tokens
    if demand is None:
        return None
    whole = float(replicas_needed(demand, rate))
    month = usd_per_month(whole, gpus=one.gpus(gamma),
                          usd_per_hour=one.scenario.usd_per_hour or 0.0)  # fmt: skip
    return whole, float(month)


def _told(one: _Server, column: int, rate: float, prediction: Prediction) -> Deployment:
    """One of them at that rate, with its ranges."""
    gamma, server = int(one.gammas[column]), one.server
    state = server.only(gamma).states(np.array([[rate]]))
    joint = one.points_at(gamma)
    points = joint.at(np.array([rate]))
    tpot, ttft = (
        server.estimate(float(state[name][0, 0]), points[name][0]) for name in ("tpot", "ttft")
    )
    bill = _bill(prediction.scenario, one, rate, gamma)
    usd = float(one.usd(np.array(rate))[column])
    # At a rate a replica makes as many tokens whatever it does; what is open is whether it can.
    most = server.estimate(float(server.most[gamma]), joint.most)
    return Deployment(
        scenario=one.scenario.model_copy(update={"gamma": gamma}),
        draft=one.draft if gamma else "",
        gamma=gamma,
        gpus=one.gpus(gamma),
        rate=rate,
        tpot=tpot,
        ttft=ttft,
        usd_per_million=most.map(lambda full: usd * float(most.value) / np.asarray(full)),
        replicas=None if bill is None else bill[0],
        usd_per_month=None if bill is None else bill[1],
    )
