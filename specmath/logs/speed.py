"""What a plain run beside the log says: the speedup seen, the step cost it implies, the rest.

    speedup = plain TPOT / TPOT             s = τ / speedup, per decode pass of a sequence

s is split into what verification and drafting should cost by the scenario, and what is left over.
With coverage κ a pass costs κ s(γ) + 1−κ (design: one sequence; a batch shares one step).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specmath.checks import InputError, real
from specmath.halves import ends
from specmath.logs.record import Reading
from specmath.predict import Prediction

__all__ = ["Overhead", "Speed", "overhead_of", "speed_of", "tokens_per_pass"]


@dataclass(frozen=True)
class Speed:
    """Speculation against plain decoding, as observed. `plain_tpot` in seconds where known."""

    speedup: float
    plain_tpot: float | None
    basis: str


@dataclass(frozen=True)
class Overhead:
    """The implied cost of a decode pass, in plain steps, beside the expected one.

    `rest` is implied − expected, `rest_low` and `rest_high` over the ends of what the scenario
    leaves unknown. `drafting_measured` is the engine's own drafting time, where it prints one.
    `best_gamma`, `best_speedup`: the fastest γ ≥ 1 if the rest comes with every draft.
    `ceiling`: the speedup at the γ that ran if every drafted token were accepted.
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


def _number(reading: Reading | None, *names: str) -> float | None:
    for name in names:
        value = None if reading is None else reading.fact(name)
        if isinstance(value, float) and value > 0:
            return value
    return None


def _tpot(reading: Reading | None) -> float | None:
    """Mean time per output token of a run, seconds, as its client or server printed it."""
    if (found := _number(reading, "mean_tpot_ms")) is not None:
        return found / 1e3
    rate = None if reading is None or reading.engine != "llama.cpp" else reading
    per_second = _number(rate, "tokens_per_second")
    return None if per_second is None else 1.0 / per_second


def speed_of(
    reading: Reading,
    *,
    plain: Reading | None = None,
    plain_ms: float | None = None,
    plain_tokens_per_second: float | None = None,
    ms: float | None = None,
    tokens_per_second: float | None = None,
) -> Speed | None:
    """Speculation against plain decoding, from whichever pair of like numbers is there.

    `plain_ms`, `ms`: time per output token (for plain decoding ITL and TPOT are the same).
    `tokens_per_second`: of one sequence or of the server, the same for both. A plain run's own
    reading gives them too. None where no pair is complete; InputError for a number not > 0.
    """
    given = {"plain_ms": plain_ms, "plain_tokens_per_second": plain_tokens_per_second,
             "ms": ms, "tokens_per_second": tokens_per_second}  # fmt: skip
    for name, value in given.items():
        if value is not None:
            real(name, value, 0, low_open=True)
    before = plain_ms / 1e3 if plain_ms is not None else _tpot(plain)
    after = ms / 1e3 if ms is not None else _tpot(reading)
    if before is not None and after is not None:
        return Speed(before / after, before, "plain TPOT over TPOT")
    slow = plain_tokens_per_second or _number(plain, "output_throughput", "tokens_per_second")
    fast = tokens_per_second or _number(reading, "output_throughput", "tokens_per_second")
    if slow is not None and fast is not None:
        return Speed(fast / slow, before, "tokens per second over plain tokens per second")
    return None


def tokens_per_pass(reading: Reading) -> tuple[float | None, float]:
    """(tokens a decode pass of a sequence emits, κ); κ = 1 where the log does not tell."""
    share = 1.0 if reading.coverage is None else reading.coverage
    if reading.tokens_per_pass is not None:
        return reading.tokens_per_pass, share
    if reading.tokens_per_step is None:
        return None, share
    return share * reading.tokens_per_step + 1.0 - share, share


def overhead_of(reading: Reading, prediction: Prediction, speed: Speed) -> Overhead:
    """The step cost that τ and the observed speedup imply, and how it splits.

    `prediction` is of the scenario that took this reading. Raises InputError where the reading
    does not tell its tokens per step or its γ.
    """
    tokens, share = tokens_per_pass(reading)
    gamma, scenario = reading.gamma, prediction.scenario
    if tokens is None or gamma is None:
        raise InputError("reading must tell tokens per step and gamma for a step cost, it does not")
    served = scenario.draft_form == "hardware"
    kappa = 1.0 if served else share  # a served pair's cost is already that of all steps
    cost = prediction.halves.cost
    verification = kappa * float(cost.verify(gamma)) + 1.0 - kappa
    drafting = kappa * float(cost.draft(gamma) + cost.extra(gamma))
    implied = tokens / speed.speedup
    each = [kappa * float(h.cost.total(gamma)) + 1.0 - kappa for h in ends(scenario)]
    rest = implied - verification - drafting
    measured = None
    if reading.draft_seconds is not None and speed.plain_tpot is not None:
        measured = kappa * reading.draft_seconds / speed.plain_tpot
    best_gamma, best_speedup = _best(prediction, kappa, rest)
    return Overhead(
        speed=speed,
        tokens=tokens,
        implied=implied,
        verification=verification,
        drafting=drafting,
        rest=rest,
        rest_low=implied - max(each),
        rest_high=implied - min(each),
        drafting_measured=measured,
        best_gamma=best_gamma,
        best_speedup=best_speedup,
        ceiling=(share * (gamma + 1.0) + 1.0 - share) / implied,
    )


def _best(prediction: Prediction, kappa: float, rest: float) -> tuple[int, float]:
    """The fastest γ ≥ 1 if each pass also costs `rest`, with the acceptance of the log."""
    curve = prediction.curve
    top = min(prediction.scenario.max_gamma, len(curve.gamma) - 1)
    tokens = kappa * curve.tokens_per_step[1 : top + 1] + 1.0 - kappa
    costs = kappa * curve.step_cost[1 : top + 1] + 1.0 - kappa + rest
    speeds = tokens / np.maximum(costs, 1e-9)
    best = int(np.argmax(speeds))
    return best + 1, float(speeds[best])
