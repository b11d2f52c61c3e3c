"""Scenario → Prediction: the two halves brought together, speedup(γ) = τ(γ) / s(γ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from specmath.acceptance import Acceptance, IidAcceptance
from specmath.checks import FloatArray
from specmath.cost import usd_per_million_tokens
from specmath.gamma import crossover_gamma, optimal_gamma
from specmath.halves import (
    Halves,
    acceptance_of,
    ends,
    plain_error_of,
    plain_seconds_of,
    spread_of,
    step_cost_of,
)
from specmath.prediction import NO_ERROR_BAR, PLANNED, Curve, Estimate, Prediction
from specmath.scenario import Scenario
from specmath.scenario.forms import MEASURED_AT
from specmath.serving.of_scenario import off_by, served_notes, served_of
from specmath.stepcost import SEARCH_LIMIT, LinearStepCost, StepCost
from specmath.theorems import alpha_from_tokens_per_step

__all__ = ["NEAR_BEST", "Curve", "Estimate", "Prediction", "near_best", "predict"]

ROUNDING = 1e-12
"""Where α = c a speedup is 1 but for rounding, and that is not faster."""

BEYOND_COMPUTE_BOUND = 1.5
"""A pass of n tokens that costs more than this times n plain steps is not a cost in plain steps."""

NEAR_BEST = 1.02
"""The smallest γ within 2% of the best is recommended: it costs the least arithmetic."""


def predict(scenario: Scenario) -> Prediction:
    """Speedup, arithmetic, time and money of a scenario, over γ and at its γ.

    speedup(γ) = τ(γ) / s(γ); TPOT = plain step × s/τ; USD per million tokens = price × TPOT.
    The interval spans all combinations of the ends of what is unknown; that of TPOT and USD from
    hardware also the error of the plain step. Raises ValueError where
    σ makes the verification cost fall to 0 within the γ considered.
    """
    halves = Halves(acceptance_of(scenario), step_cost_of(scenario))
    curve = _curve(scenario, halves)
    gamma, speedups = scenario.gamma, curve.walltime_improvement
    considered = speedups[: scenario.max_gamma + 1]
    best = int(np.argmax(considered))
    speedup = _estimate(scenario, speedups, curve.low, curve.high)
    work = np.array([h.operations(np.array(gamma)) for h in ends(scenario)])
    operations = Estimate(float(curve.operations_increase[gamma]))
    if work.min() < work.max():
        operations = Estimate(
            operations.value, float(work.min()), float(work.max()), "unknown ĉ or α"
        )
    tokens = float(curve.tokens_per_step[gamma])
    return Prediction(
        scenario=scenario,
        halves=halves,
        alpha=effective_alpha(halves.drafted, gamma),
        speedup=speedup,
        operations=operations,
        tokens_per_step=tokens,
        step_cost=float(curve.step_cost[gamma]),
        curve=curve,
        best_gamma=best,
        recommended_gamma=near_best(considered),
        optimal_gamma=_optimal(halves),
        crossover_gamma=_crossover(halves),
        **_time_and_money(scenario, speedup),
        notes=_notes(scenario, halves),
    )


def near_best(speedups: FloatArray) -> int:
    """The smallest γ that is within 2% of the best and itself faster than 1×; 0 if none is."""
    best = float(np.max(speedups))
    good = (speedups >= best / NEAR_BEST) & (speedups > 1.0 + ROUNDING)
    return int(np.argmax(good))


def _curve(scenario: Scenario, halves: Halves) -> Curve:
    halves.cost.verify(scenario.gamma)  # refuses a γ beyond what the cost is known for
    top = min(max(scenario.max_gamma, scenario.gamma), halves.cost.reach)
    gammas = np.arange(top + 1)
    low = high = None
    if spread_of(scenario):
        spread = np.stack([h.speedup(gammas) for h in ends(scenario)])
        low, high = spread.min(axis=0), spread.max(axis=0)
    cost = halves.cost
    return Curve(
        gamma=gammas,
        tokens_per_step=np.asarray(halves.acceptance.tokens_per_step(gammas)),
        verify_cost=cost.verify(gammas),
        draft_cost=cost.draft(gammas) + cost.extra(gammas),
        step_cost=cost.total(gammas),
        walltime_improvement=halves.speedup(gammas),
        operations_increase=halves.operations(gammas),
        low=low,
        high=high,
    )


def _estimate(
    s: Scenario, values: FloatArray, low: FloatArray | None, high: FloatArray | None
) -> Estimate:
    value = float(values[s.gamma])
    if low is None or high is None:
        return Estimate(value, basis=PLANNED if s.acceptance_form == "workload" else NO_ERROR_BAR)
    return Estimate(value, float(low[s.gamma]), float(high[s.gamma]), ", ".join(spread_of(s)))


def effective_alpha(acceptance: Acceptance, gamma: int) -> float:
    """The i.i.d. α with the same tokens per step at γ (at γ=0: at γ=1, the first position's)."""
    if isinstance(acceptance, IidAcceptance):
        return acceptance.alpha
    at = max(gamma, 1)
    return float(alpha_from_tokens_per_step(float(acceptance.tokens_per_step(at)), at))


def _optimal(halves: Halves) -> int:
    """argmax of τ/s over γ up to 10,000 or where the cost ends, smallest on ties."""
    acceptance, cost = halves.acceptance, halves.cost
    if _is_theorem(cost) and isinstance(acceptance, IidAcceptance):
        alpha = acceptance.alpha
        # No finite optimum: every further token helps, if ever less.
        endless = (cost.c == 0 < alpha) or (alpha == 1 > cost.c)
        return SEARCH_LIMIT if endless else int(optimal_gamma(alpha, cost.c))
    return int(np.argmax(halves.speedup(np.arange(cost.reach + 1))))


def _is_theorem(cost: StepCost) -> bool:
    """Whether τ/s is Theorem 3.8, whose closed forms then hold."""
    return isinstance(cost, LinearStepCost) and cost.sigma == cost.overhead == 0


def _crossover(halves: Halves) -> int:
    """First γ ≥ 1 with operations increase ≥ walltime improvement; 0 if none up to the reach."""
    acceptance, cost = halves.acceptance, halves.cost
    if _is_theorem(cost) and isinstance(acceptance, IidAcceptance):
        return int(crossover_gamma(acceptance.alpha, cost.c, cost.c_hat))
    gammas = np.arange(1, cost.reach + 1)
    crossed = np.flatnonzero(halves.operations(gammas) >= halves.speedup(gammas))
    return int(gammas[crossed[0]]) if crossed.size else 0


def _time_and_money(s: Scenario, speedup: Estimate) -> dict[str, Any]:
    plain, error = plain_seconds_of(s), plain_error_of(s)
    found: dict[str, Any] = {"plain_error": error, "tpot_plain": plain}
    if plain is None:
        return found | {"tpot": None, "usd_plain": None, "usd": None}
    tpot = _scaled(speedup, lambda ratio: plain / ratio)
    if error and tpot.low is not None and tpot.high is not None:
        low, high = off_by(tpot.low, tpot.high, error)
        tpot = Estimate(tpot.value, low, high, f"{tpot.basis}, plain step ±{error:.0%}")
    found["tpot"] = tpot
    if s.usd_per_hour is None:
        return found | {"usd_plain": None, "usd": None}
    return found | {
        "usd_plain": usd_at(s, plain, speculative=False),
        "usd": _scaled(tpot, lambda seconds: usd_at(s, seconds, speculative=s.gamma > 0)),
    }


def usd_at(scenario: Scenario, tpot: float, *, speculative: bool) -> float:
    """USD per million output tokens at a TPOT in seconds; the draft's GPUs are billed with it."""
    gpus = scenario.tensor_parallel + (scenario.draft_gpus if speculative else 0)
    price = scenario.usd_per_hour or 0.0
    return float(usd_per_million_tokens(tpot, batch=scenario.batch, gpus=gpus, usd_per_hour=price))


def _scaled(estimate: Estimate, convert: Callable[[float], float]) -> Estimate:
    """Carry an estimate through a monotone conversion, keeping low below high."""
    if estimate.low is None or estimate.high is None:
        return Estimate(convert(estimate.value))
    ends_ = sorted((convert(estimate.low), convert(estimate.high)))
    return Estimate(convert(estimate.value), ends_[0], ends_[1], estimate.basis)


def _notes(s: Scenario, halves: Halves) -> tuple[str, ...]:
    notes = list(halves.acceptance.notes(s.gamma))
    if s.acceptance_form in MEASURED_AT and s.gamma not in (0, s.measured_gamma):
        notes.append(
            f"Acceptance was measured at γ={s.measured_gamma}; at γ={s.gamma} it assumes that "
            "every position is accepted alike (i.i.d.). Real drafts lose acceptance with position: "
            "give per-position rates if your server prints them."
        )
    if s.verify_form == "curve" and halves.cost.reach < s.max_gamma:
        notes.append(
            f"Verification was measured up to γ={halves.cost.reach}: no larger γ is considered."
        )
    beyond = [n for n, v in enumerate(s.verify_costs, 2) if v > n * BEYOND_COMPUTE_BOUND]
    if beyond:
        n = beyond[0]
        notes.append(
            f"Verifying {n} tokens is given as {s.verify_costs[n - 2]:g} plain steps, more than "
            f"{n} steps of one token each: give each time divided by that of a plain step."
        )
    if s.draft_form == "hardware":
        notes += served_notes(served_of(s), s.gamma)
    return tuple(notes)
