"""Throughput against latency over load: the same server at each load, in both arms.

    tok/s per user = 1 / TPOT            tok/s per GPU = tokens a second of the replica / its GPUs

The load is what the scenario's loop is said by: the concurrency of a closed loop, the batch that is
held, the request rate of an open one. Each point is the prediction at that load.

A plain time or a run that was measured holds at its own load. Elsewhere the times are the computed
ones times what measured over computed is there, in either arm; their intervals stay those of
computed times.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from specmath.checks import FloatArray, InputError
from specmath.estimate import Estimate
from specmath.money import usd_per_million_tokens
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint
from specmath.serving.loop import Loop
from specmath.serving.memory import Memory
from specmath.speculation import ROUNDING

__all__ = [
    "NOT_MEASURED", "Frontier", "LoadPoint", "frontier", "measured_over_computed", "per_gpu",
    "per_user", "with_ends",
]  # fmt: skip

LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the largest request rate that plain decoding carries; beyond, the law is low."""

Arms = tuple[Estimate, Estimate]
"""A number without speculation and with it."""


def per_user(p: Prediction) -> Arms | None:
    """Output tokens a second that one request sees, 1 / TPOT; None while a time is not known."""
    if p.tpot is None or p.tpot_plain is None:
        return None
    before, after = (each.map(lambda seconds: 1.0 / seconds) for each in (p.tpot_plain, p.tpot))
    return before, after


def per_gpu(p: Prediction) -> Arms | None:
    """Output tokens a second that one GPU gives; None where the load is not known from hardware."""
    if p.tpot is None or p.tpot_plain is None or p.endpoint.pair is None:
        return None
    plain, ours = p.scenario.tensor_parallel, p.gpus
    before = p.tpot_plain.map(lambda seconds: p.endpoint.throughput(seconds, 0) / plain)
    after = p.tpot.map(lambda seconds: p.endpoint.throughput(seconds, p.gamma) / ours)
    return before, after


@dataclass(frozen=True)
class LoadPoint:
    """One load.

    Attributes
    ----------
    load
        Concurrency, batch or requests a second.
    speedup
        At the γ of the frontier.
    user, gpu
        Output tokens a second of one request, and of one GPU, in both arms.
    fits
        Whether memory holds that many sequences with the draft; beyond, some wait.
    carried
        Whether speculation keeps up with an open loop.
    own
        Whether it is the load of the scenario.
    """

    load: float
    speedup: Estimate
    user: Arms
    gpu: Arms
    fits: bool
    carried: bool
    own: bool

    def usd(self, usd_per_hour: float) -> Arms:
        """USD per million output tokens in both arms, at the price of one GPU hour."""

        def cost(rate: FloatArray) -> FloatArray:
            return usd_per_million_tokens(1.0 / rate, batch=1, gpus=1, usd_per_hour=usd_per_hour)

        before, after = self.gpu
        return before.map(cost), after.map(cost)


@dataclass(frozen=True)
class Frontier:
    """The loads at one γ, ascending.

    `measured`: which arms were measured at the scenario's own load, plain and at this γ.
    """

    loop: Loop
    gamma: int
    points: tuple[LoadPoint, ...]
    measured: tuple[bool, bool]

    @property
    def judged(self) -> tuple[LoadPoint, ...]:
        """The loads that the replica can take."""
        return tuple(p for p in self.points if p.fits and p.carried)

    def pays(self, *, surely: bool) -> list[tuple[float, float]]:
        """Runs of loads that the replica can take at which speculation is faster, first and last of
        each; `surely`: at the low end of the interval, else in the middle."""
        gains = [(_low(p.speedup) if surely else p.speedup.value) > 1.0 + ROUNDING
                 for p in self.judged]  # fmt: skip
        edges = np.flatnonzero(np.diff(gains, prepend=False, append=False))
        loads = [p.load for p in self.judged]
        return [(loads[a], loads[b - 1]) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _low(number: Estimate) -> float:
    return number.value if number.low is None else number.low


def frontier(endpoint: Endpoint) -> Frontier:
    """Both arms over load at the γ in use; InputError where the costs were given."""
    if endpoint.pair is None:
        raise InputError(
            "load needs gpu, model and draft (draft_form=hardware), "
            f"got draft_form={endpoint.scenario.draft_form}"
        )
    return _frontier(endpoint.scenario, endpoint.gamma)


@lru_cache(maxsize=32)
def _frontier(s: Scenario, gamma: int) -> Frontier:
    own = predict(s.model_copy(update={"gamma": gamma}))
    load, pair = own.endpoint.load, own.endpoint.pair
    assert load is not None
    assert pair is not None
    field = _said_by(s)
    most = Memory.of(pair).largest_batch(pair.context_tokens, gamma)
    here = float(getattr(s, field))
    if field == "request_rate":
        largest = float(load.most_requests[0])
        loads = sorted({*(float(f"{share * largest:.3g}") for share in SHARES), here})
    else:
        ending = {most} if 0 < most < LOADS[-1] else set()
        loads = sorted({*map(float, (*LOADS, *ending)), here})
    factors = measured_over_computed(own)
    points = []
    for each in loads:
        # The only fault of a load is a rate that the plain arm does not carry.
        with suppress(InputError):
            points.append(_point(own, field, each, factors, most))
    ran = s.target_ms is not None, s.run_ms is not None and s.run_gamma == gamma
    return Frontier(load.requests.loop, gamma, tuple(points), ran)


def _said_by(s: Scenario) -> str:
    if s.request_rate is not None:
        return "request_rate"
    return "batch" if s.concurrency is None else "concurrency"


NOT_MEASURED = {"target_ms": None, "run_gamma": None, "run_ms": None, "run_tokens_per_step": None}
"""A scenario from hardware without what was timed on it."""


def measured_over_computed(own: Prediction) -> tuple[float, float]:
    """Of the time per token in either arm at the scenario's own load; 1 where nothing ran."""
    s = own.scenario
    if s.target_ms is None and s.run_ms is None:
        return 1.0, 1.0
    bare = s.model_copy(update=NOT_MEASURED | {"gamma": own.gamma})
    computed = predict(bare, own.endpoint.parts)
    both, before = per_user(own), per_user(computed)
    assert both is not None
    assert before is not None
    plain, ours = (b.value / a.value for a, b in zip(both, before, strict=True))
    return plain, ours


def _point(
    own: Prediction, field: str, load: float, factors: tuple[float, float], most: int
) -> LoadPoint:
    s, gamma = own.scenario, own.gamma
    here = load == float(getattr(s, field))
    told: dict[str, Any] = {field: load if field == "request_rate" else int(load)}
    p = own if here else predict(s.model_copy(update=NOT_MEASURED | told))
    plain, ours = (1.0, 1.0) if here else factors
    speedup = p.speedup.map(lambda ratio: ratio * plain / ours)
    user, gpu = per_user(p), per_gpu(p)
    assert user is not None
    assert gpu is not None
    state = p.endpoint.load
    carried = state is None or state.carries(gamma)
    fits = field == "request_rate" or load <= most
    return LoadPoint(load, speedup, _over(user, plain, ours), _over(gpu, plain, ours),
                     fits, carried, here)  # fmt: skip


def _over(arms: Arms, plain: float, ours: float) -> Arms:
    """Rates where a token takes so many times as long."""
    return arms[0].map(lambda rate: rate / plain), arms[1].map(lambda rate: rate / ours)


def with_ends(numbers: Iterable[Estimate]) -> FloatArray:
    """Values, low and high ends: three rows."""
    each = list(numbers)
    high = [e.value if e.high is None else e.high for e in each]
    return np.array([[e.value for e in each], [_low(e) for e in each], high])
