"""A γ for each kind of request: for engines that choose it request by request.

All kinds still share every step, and wait for the longest draft in it (`serving.uneven`). The γ of
each are those that carry most within what is promised, of all that are no slower in the mean at the
endpoint's load than one γ for all, or plain decoding; where nothing is promised, or neither keeps
it, those with the least mean time per token. The engine is taken to know each request's kind at
once, at no cost: the gain is an upper end. What it may cost is told instead: the tax, a share of a
step, at which one γ for all is as good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.capacity import Capacity, capacity, promised, server_of
from specmath.carried import Carried
from specmath.checks import FloatArray
from specmath.estimate import Estimate
from specmath.predict import Prediction, predict
from specmath.scenario.endpoint import check_caps

__all__ = ["Aim", "ByRequest", "Way", "WayName", "best_way", "by_request", "predicted", "way_of"]

Aim = Literal["rate", "time"]
"""What the γ are chosen for: the largest rate within what is promised, or the mean time per token.
"""

WayName = Literal["one", "best one", "request", "dedicated"]
"""How an endpoint of several kinds is treated: one γ for all as planned, the one γ that is best by
the same rule, a γ for each request, or dedicated replicas:
a segment has its own, the others theirs."""

EXHAUSTIVE = 400
"""Ways to draft up to which all are tried."""

PRICES = np.geomspace(1e-3, 2.0, 40)
"""Of a drafted position, in steps: what one kind's γ costs the others, where too many ways are."""

NEAR = 1.0 - 1e-9
"""Times and rates nearer than this are equal."""

Ways = Sequence[tuple[int, ...]]
"""γ of each kind, of each way to draft."""

ROUNDS = 30
"""In which one kind's γ at a time is moved to its neighbour."""

MOST_TAX, TAXES, SWEEPS = 4.0, 33, 2
"""Shares of a step among which the break-even tax is bracketed, and how often."""


@dataclass(frozen=True)
class Way:
    """One way to treat an endpoint of several kinds.

    Attributes
    ----------
    name, gammas
        Which, and γ of each segment.
    tpot
        Seconds a token in the mean, at the endpoint's rate a replica; None where it does not carry
        that, and of dedicated replicas, which have rates of their own.
    rate
        The largest of one replica within what is promised; None of dedicated ones.
    replicas, gpus, usd_per_month
        Of the fleet; None where no rate is within what is promised, or no price is given.
    """

    name: WayName
    gammas: tuple[int, ...]
    tpot: Estimate | None
    rate: Estimate | None
    replicas: Estimate | None
    gpus: Estimate | None
    usd_per_month: Estimate | None


@dataclass(frozen=True)
class ByRequest:
    """A γ for each kind of request.

    Attributes
    ----------
    gammas
        Of each segment.
    aim
        What they are best for.
    one
        The γ that is best for all by the same rule, 0: plain decoding.
    gain
        What they carry over what that one does, or its mean time per token over theirs; ≥ 1, at no
        tax, in the middle.
    break_even
        The tax at which one γ for all is as good; a share of a step.
    tax
        That was given, 0 where none was: a share of a step.
    prediction, capacity
        At the endpoint's load, and over the rates, with that tax.
    """

    gammas: tuple[int, ...]
    aim: Aim
    one: int
    gain: float
    break_even: float
    tax: float
    prediction: Prediction
    capacity: Capacity


def by_request(planned: Prediction, given: int | None, rate: float, tax: float) -> ByRequest:
    """The γ of each kind, and what they do.

    Parameters
    ----------
    planned
        The endpoint with one γ for all, of at least two kinds.
    given
        The γ that was given, of which no kind has more; None: those that may be advised.
    rate
        Requests a second of one replica, at which times are told.
    tax
        A share of a step, ≥ 0.

    Raises
    ------
    InputError
        Of a tree, and where a run was measured: it had one γ for all.
    """
    check_caps(planned.scenario)
    server, promises = server_of(planned), promised(planned)
    allowed, kinds = _allowed(planned, given), len(planned.endpoint.parts)

    def speed(ways: Ways, tax: ArrayLike = 0.0) -> FloatArray:
        return _speeds(server.ways(ways, tax), rate)

    def carries(ways: Ways, tax: ArrayLike = 0.0) -> FloatArray:
        return server.ways(ways, tax).within(promises)[0]

    speeds, rates = _remembered(speed), _remembered(carries)
    alike = [(gamma,) * kinds for gamma in allowed]
    # No slower than what one γ for all gives, where that keeps what is promised.
    now = [(0,) * kinds, (planned.gamma,) * kinds]
    able = np.zeros(2, dtype=bool)
    if promises:
        able = rates([*now, *alike])[:2] > 0.0
    aim: Aim = "rate" if able.any() else "time"
    least = float(np.max(speeds(now), where=able, initial=0.0)) * NEAR
    worth = rates if aim == "rate" else speeds

    def value(ways: Ways) -> FloatArray:
        return np.where(speeds(ways) >= least, worth(ways), 0.0)

    gammas = best_way(value, allowed, [kind.tokens[allowed] for kind in server.kinds[1:]])
    same = value([*alike, gammas])
    one = int(np.argmax(same[:-1]))
    found = predicted(planned, gammas, given, rate, tax)
    return ByRequest(
        gammas=gammas,
        aim=aim,
        one=allowed[one],
        gain=max(1.0, float(same[-1] / same[one])),
        break_even=_break_even(carries if aim == "rate" else speed, gammas, float(same[one])),
        tax=tax,
        prediction=found,
        capacity=capacity(found),
    )


def _remembered(of: Callable[[Ways], FloatArray]) -> Callable[[Ways], FloatArray]:
    """The same, of each way computed once."""
    known: dict[tuple[int, ...], float] = {}

    def told(ways: Ways) -> FloatArray:
        new = [way for way in dict.fromkeys(ways) if way not in known]
        if new:
            known.update(zip(new, of(new).tolist(), strict=True))
        return np.array([known[way] for way in ways])

    return told


def predicted(
    planned: Prediction, way: tuple[int, ...], given: int | None, rate: float, tax: float = 0.0
) -> Prediction:
    """The endpoint with a γ for each kind, at that rate; `given` as of `by_request`: drafts that
    stop early were counted there."""
    parts = tuple(
        replace(part, most=gamma, tax=tax)
        for part, gamma in zip(planned.endpoint.parts, way, strict=True)
    )
    most = max(way) if given is None else given
    load = {"gamma": most, "request_rate": rate}
    return predict(planned.scenario.model_copy(update=load), parts)


def _allowed(planned: Prediction, given: int | None) -> list[int]:
    """The γ that a kind may have: 0 and those that may be advised, up to the one that was given."""
    advised = planned.endpoint.advisable.tolist()
    if given is None:
        return [0, *advised]
    return sorted({0, given, *(gamma for gamma in advised if gamma <= given)})


def _speeds(ways: Carried, rate: float) -> FloatArray:
    """Tokens a second of a request in the mean, of each way; 0 of one that does not carry it."""
    tpot = ways.over(np.array([rate]))["tpot"][0]
    return np.where(rate < ways.most, 1.0 / tpot, 0.0)


def best_way(
    value: Callable[[Ways], FloatArray],
    allowed: Sequence[int],
    tokens: Sequence[FloatArray],
) -> tuple[int, ...]:
    """The γ of each kind with the largest value.

    All ways are tried where they are few. Else the best of one γ for all and of a family, in which
    each kind takes the γ with most tokens a step over 1 + price × γ, is moved one kind at a time to
    the neighbouring γ as long as that is better: it may end where only two moves at once would be.

    Parameters
    ----------
    value
        Of ways to draft, ≥ 0.
    allowed
        γ of a kind, ascending.
    tokens
        τ of each kind at those.
    """
    kinds = len(tokens)
    if len(allowed) ** kinds <= EXHAUSTIVE:
        ways = list(product(allowed, repeat=kinds))
        return ways[int(np.argmax(value(ways)))]
    drafted = np.array(allowed, dtype=float)
    family = [
        tuple(int(np.argmax(each / (1.0 + price * drafted))) for each in tokens) for price in PRICES
    ]
    places = list(dict.fromkeys([*((i,) * kinds for i in range(len(allowed))), *family]))

    def best(among: list[tuple[int, ...]]) -> tuple[tuple[int, ...], float]:
        values = value([tuple(allowed[i] for i in place) for place in among])
        at = int(np.argmax(values))
        return among[at], float(values[at])

    place, now = best(places)
    for _ in range(ROUNDS):
        moved = [
            (*place[:kind], place[kind] + step, *place[kind + 1 :])
            for kind in range(kinds)
            for step in (-1, 1)
            if 0 <= place[kind] + step < len(allowed)
        ]
        nearest, then = best(moved)
        if then <= now:
            break
        place, now = nearest, then
    return tuple(allowed[i] for i in place)


def _break_even(
    value: Callable[[Ways, ArrayLike], FloatArray],
    way: tuple[int, ...],
    one: float,
) -> float:
    """The tax at which a way is worth no more than `one`; `MOST_TAX` where it is at any."""
    low, high = 0.0, MOST_TAX
    for _ in range(SWEEPS):
        taxes = np.linspace(low, high, TAXES)
        values = value([way] * TAXES, taxes)
        worse = np.flatnonzero(values <= one / NEAR)
        if not worse.size:
            return high
        if worse[0] == 0:
            return low
        at = [worse[0] - 1, worse[0]]
        low, high = taxes[at].tolist()
    more, fewer = values[at]
    return float(low + (high - low) * (more - one) / (more - fewer))


def way_of(name: WayName, gammas: tuple[int, ...], prediction: Prediction, found: Capacity) -> Way:
    """A way in which all replicas are alike."""
    arm, load = found.speculative, prediction.endpoint.load
    carried = load is None or load.carries(prediction.gamma)
    return Way(name, gammas, prediction.tpot if carried else None, arm.within, arm.replicas,
               arm.all_gpus, arm.usd_per_month)  # fmt: skip
