"""The step cost that a plain run beside a log implies, and how it splits.

    s = tokens a pass / observed speedup

s is split into what verification and drafting should cost by the scenario, and what is left over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specmath.checks import InputError
from specmath.estimate import ends
from specmath.logs.reading import Reading
from specmath.review.into_scenario import coverage_of
from specmath.review.observed import Speed, tokens_per_pass
from specmath.scenario.endpoint import Endpoint
from specmath.speculation import speedup
from specmath.stepcost import Observed

__all__ = ["Overhead", "overhead_of"]


@dataclass(frozen=True)
class Overhead:
    """The implied cost of a decode pass, in plain steps, beside the expected one.

    `rest` is implied − expected, `rest_low` and `rest_high` over what the scenario leaves unknown.
    `drafting_measured` is the engine's own drafting time, where it prints one. `best_gamma`,
    `best_speedup`: the fastest γ ≥ 1 at the costs that the run showed. `ceiling`: the speedup at
    the γ that ran if every drafted token were accepted.
    """

    speed: Speed
    tokens: float
    implied: float
    verification: float
    drafting: float
    rest: float
    rest_low: float
    rest_high: float
    drafting_measured: float | None
    best_gamma: int
    best_speedup: float
    ceiling: float


def overhead_of(reading: Reading, endpoint: Endpoint, speed: Speed) -> Overhead:
    """`endpoint` is that of the log without the observed cost. Raises InputError where the reading
    does not tell its tokens per pass or its γ."""
    tokens, gamma = tokens_per_pass(reading), reading.gamma
    if tokens is None or gamma is None:
        raise InputError("reading must tell tokens per step and γ for a step cost, it does not")
    cost, implied = endpoint.speculation.cost, tokens / speed.speedup
    verification = float(cost.verify(gamma))
    drafting = float(cost.draft(gamma) + cost.extra(gamma))
    each = np.array([c.cost.points([gamma], endpoint.excess) for c in endpoint.corners])
    low, high = ends(each)
    measured = None
    if reading.draft_seconds is not None and speed.plain_tpot is not None:
        share = endpoint.speculation.coverage
        measured = share * reading.draft_seconds / speed.plain_tpot
    seen = endpoint.speculation.with_cost(Observed(cost, gamma, implied))
    speeds = seen.speedup(endpoint.gammas)[1:]
    share = coverage_of(reading) or 1.0
    return Overhead(
        speed=speed, tokens=tokens, implied=implied, verification=verification, drafting=drafting,
        rest=implied - verification - drafting, rest_low=implied - float(high[0]),
        rest_high=implied - float(low[0]), drafting_measured=measured,
        best_gamma=1 + int(np.argmax(speeds)), best_speedup=float(speeds.max()),
        ceiling=float(speedup(share * (gamma + 1.0) + 1.0 - share, implied)),
    )  # fmt: skip
