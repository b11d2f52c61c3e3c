"""What a plain run beside the log says: the speedup seen, the step cost it implies, the rest.

    speedup = plain TPOT / TPOT             s = τ / speedup, per decode pass of a sequence

s is split into what verification and drafting should cost by the scenario, and what is left over.
With coverage κ a pass costs κ s(γ) + 1−κ (design: one sequence; a batch shares one step).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specmath.checks import FloatArray, InputError, real
from specmath.halves import ends
from specmath.logs.record import Reading
from specmath.predict import Prediction

__all__ = [
    "Overhead",
    "Speed",
    "number_of",
    "overhead_of",
    "pass_costs",
    "speed_of",
    "tokens_per_pass",
    "tpot_of",
]

ONE_SEQUENCE = ("llama.cpp", "ollama")
"""Engines whose tokens per second are those of a sequence while it decodes."""


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
    `best_gamma`, `best_speedup`: the fastest γ ≥ 1 at `pass_costs`.
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


def number_of(reading: Reading | None, *names: str) -> float | None:
    """The first of these facts that is a number above 0.

    Tokens per second follow from the tokens and their decoding time where they are not printed.
    """
    for name in names:
        value = None if reading is None else reading.fact(name)
        if isinstance(value, float) and value > 0:
            return value
    if reading is None or "tokens_per_second" not in names:
        return None
    seconds = number_of(reading, "decode_seconds")
    return reading.generated / seconds if reading.generated and seconds else None


def tpot_of(reading: Reading | None) -> float | None:
    """Mean time per output token of a run, seconds, as its client or server printed it."""
    if (found := number_of(reading, "mean_tpot_ms")) is not None:
        return found / 1e3
    rate = reading if reading is not None and reading.engine in ONE_SEQUENCE else None
    per_second = number_of(rate, "tokens_per_second")
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
    before = plain_ms / 1e3 if plain_ms is not None else tpot_of(plain)
    after = ms / 1e3 if ms is not None else tpot_of(reading)
    if before is not None and after is not None:
        return Speed(before / after, before, "plain TPOT over TPOT")
    slow = plain_tokens_per_second or number_of(plain, "output_throughput", "tokens_per_second")
    fast = tokens_per_second or number_of(reading, "output_throughput", "tokens_per_second")
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

    `prediction` is of the scenario of this reading's drafts (`drafts_of`). Raises InputError where
    the reading does not tell its tokens per step or its γ.
    """
    tokens, share = tokens_per_pass(reading)
    gamma, scenario = reading.gamma, prediction.scenario
    if tokens is None or gamma is None:
        raise InputError("reading must tell tokens per step and γ for a step cost, it does not")
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
    best_gamma, best_speedup = _best(prediction, kappa, implied)
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


def pass_costs(expected: FloatArray, gamma: int, implied: float) -> FloatArray:
    """Cost of a decode pass over γ, plain steps, once the one at `gamma` ≥ 1 is known.

    `expected` [top+1] is the scenario's, 1 at γ=0. What `implied` exceeds it by comes with every
    draft. What it falls short of it by cannot: then the excess of each pass over a plain step is
    taken in the same proportion, and a pass below a plain step costs the same at every γ.
    """
    if implied >= expected[gamma]:
        costs = expected + (implied - expected[gamma])
    elif implied >= 1.0 and expected[gamma] > 1.0:
        costs = 1.0 + (expected - 1.0) * (implied - 1.0) / (expected[gamma] - 1.0)
    else:
        costs = np.full_like(expected, implied)
    costs[0] = 1.0
    return np.asarray(costs)


def _best(prediction: Prediction, kappa: float, implied: float) -> tuple[int, float]:
    """The fastest γ ≥ 1 at the cost that the run showed, with the acceptance of the log."""
    curve, ran = prediction.curve, prediction.scenario.gamma
    top = min(max(prediction.scenario.max_gamma, ran), len(curve.gamma) - 1)
    tokens = kappa * curve.tokens_per_step[: top + 1] + 1.0 - kappa
    costs = pass_costs(kappa * curve.step_cost[: top + 1] + 1.0 - kappa, ran, implied)
    speeds = (tokens / costs)[1:]
    best = int(np.argmax(speeds))
    return best + 1, float(speeds[best])
