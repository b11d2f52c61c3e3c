"""What was timed on a server, as the costs of a step: v, c, h and s with intervals.

    s(γ) = v(γ) + γ·c + h

v from two requests, else from the plain step with γ+1 requests in flight, each with a cache of its
own; c from the draft's own server, from the drafting times of the server's log, or from the slope
of s − v over several γ; h what a run shows beyond v and drafting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from specmath.checks import InputError
from specmath.estimate import Basis, Estimate
from specmath.measure.server.runs import SpeculativeRun, half_width, quotient
from specmath.measure.server.two_requests import ServerSteps

__all__ = ["DraftCost", "ServerCosts"]

CFrom = Literal["its own server", "its own times", "slope of the runs"]


@dataclass(frozen=True)
class DraftCost:
    """c with its interval, and how it was found."""

    c: Estimate
    found: CFrom


@dataclass(frozen=True)
class ServerCosts:
    """Costs of one server. `loads`: seconds of a plain step by concurrency. InputError where
    nothing was measured."""

    steps: ServerSteps | None
    runs: tuple[SpeculativeRun, ...] = ()
    loads: Mapping[int, Estimate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.steps is None and not self.runs and 1 not in self.loads:
            raise InputError(
                "nothing was measured: give rounds, runs at some gamma, or concurrencies with 1"
            )

    @property
    def plain_ms(self) -> Estimate:
        """The plain step; of runs alone, their time per token without speculation."""
        if self.steps is not None:
            return self.steps.plain_seconds.map(lambda seconds: 1e3 * seconds)
        if 1 in self.loads:
            return self.loads[1].map(lambda seconds: 1e3 * seconds)
        return self.runs[0].plain_ms

    @property
    def gammas(self) -> list[int]:
        """Every γ about which something is known."""
        timed = [n - 1 for n in self.loads] if self.steps is None else self.steps.gammas
        return sorted({*timed, *(run.gamma for run in self.runs)} - {0})

    def verify_cost(self, gamma: int) -> Estimate | None:
        """v(γ) from two requests; without them from the plain step of γ+1 requests."""
        if self.steps is not None:
            return self.steps.verify_cost(gamma) if gamma + 1 in self.steps.reads else None
        if 1 in self.loads and gamma + 1 in self.loads:
            return quotient(self.loads[gamma + 1], self.loads[1])
        return None

    def run_at(self, gamma: int) -> SpeculativeRun | None:
        """The run at γ."""
        return next((run for run in self.runs if run.gamma == gamma), None)

    @property
    def draft(self) -> DraftCost | None:
        """c, by the first of the three ways that was possible."""
        if self.steps is not None and (c := self.steps.c) is not None:
            return DraftCost(c, "its own server")
        told = [(run, run.draft_seconds) for run in self.runs if run.draft_seconds is not None]
        if told:
            each = [1e3 * seconds / run.gamma / self.plain_ms.value for run, seconds in told]
            middle = float(np.median(each))
            if len(each) == 1:  # a total, of which nobody knows the spread
                return DraftCost(Estimate(middle, None, Basis("measured")), "its own times")
            return DraftCost(_ends(middle, min(each), max(each)), "its own times")
        return self._slope

    @property
    def _slope(self) -> DraftCost | None:
        """Of s − v over γ, with the widest and flattest line through the ends of two γ."""
        beyond = [(run.gamma, found) for run in self.runs if (found := self._beyond(run))]
        if len(beyond) < 2:
            return None
        (first, low), (last, high) = beyond[0], beyond[-1]
        width = last - first
        slope = float(np.polyfit([g for g, _ in beyond], [e.value for _, e in beyond], 1)[0])
        half = float(np.hypot(half_width(low), half_width(high))) / width
        if slope < 0:
            return None
        return DraftCost(_ends(slope, max(0.0, slope - half), slope + half), "slope of the runs")

    def _beyond(self, run: SpeculativeRun) -> Estimate | None:
        """s − v of a run."""
        v = self.verify_cost(run.gamma)
        return None if v is None else _difference(run.step_cost, v)

    def overhead(self, gamma: int) -> Estimate | None:
        """h = s − v − γ·c; None where one of them is not known there."""
        run, draft = self.run_at(gamma), self.draft
        beyond = None if run is None else self._beyond(run)
        if beyond is None or draft is None:
            return None
        return _difference(beyond, draft.c.map(lambda c: gamma * c))

    def fields(self) -> dict[str, Any]:
        """The fields of a scenario that this fills in, as `build` and `revised` take them."""
        found: dict[str, Any] = {"target_ms": max(0.001, self.plain_ms.value)}
        c = 0.0 if self.draft is None else self.draft.c.value
        known = {g: v.value for g in self.gammas if (v := self.verify_cost(g)) is not None}
        if known:
            spent = [h.value for g in self.gammas if (h := self.overhead(g)) is not None]
            found["overhead"] = max(0.0, float(np.median(spent))) if spent else 0.0
            return found | self._drafting() | {"verify_costs": _curve({0: 1.0} | known)}
        if len(self.runs) == 1:
            (run,) = self.runs
            ran = {
                "run_gamma": run.gamma,
                "run_ms": run.run_ms * found["target_ms"] / run.plain_ms.value,
            }
            return found | ran | self._drafting() | {"run_tokens_per_step": run.tokens_per_step}
        costs = {run.gamma: run.step_cost.value - run.gamma * c for run in self.runs}
        drafting = self._drafting() or {"draft_ms": 0.0}  # then it is inside of v
        return found | drafting | {"verify_costs": _curve(costs)}

    def acceptance(self) -> dict[str, Any]:
        """The fields that say the acceptance of the last run that was not forced; else none."""
        real = [run for run in self.runs if not run.forced]
        if not real:
            return {}
        ran = real[-1]
        said = {"tokens_per_step": ran.tokens_per_step, "measured_gamma": ran.gamma}
        return said | ({"coverage": ran.coverage} if ran.coverage < 1.0 else {})

    def _drafting(self) -> dict[str, float]:
        """c as a time, as a range where it is not known to a tenth; nothing where it is unknown."""
        if self.draft is None:
            return {}
        c = self.draft.c
        if c.low is not None and c.high is not None and c.high - c.low > 0.2 * c.value:
            return {"c_low": max(0.0, c.low), "c_high": c.high}
        return {"draft_ms": c.value * max(0.001, self.plain_ms.value)}


def _curve(known: dict[int, float]) -> tuple[float, ...]:
    """v of γ = 1, 2 … to the largest known, on lines between; the first line reaches back to 1."""
    at = sorted(known)
    values = [known[gamma] for gamma in at]
    reach = np.arange(1, at[-1] + 1)
    curve = np.interp(reach, at, values)
    if len(at) > 1:
        slope = (values[1] - values[0]) / (at[1] - at[0])
        curve = np.where(reach < at[0], values[0] + slope * (reach - at[0]), curve)
    return tuple(np.maximum(curve, 0.01).tolist())


def _ends(value: float, low: float, high: float) -> Estimate:
    return Estimate.between(value, low, high, Basis("measured"))


def _difference(first: Estimate, second: Estimate) -> Estimate:
    """Of two independent numbers, half-widths in quadrature."""
    value, half = first.value - second.value, float(np.hypot(half_width(first), half_width(second)))
    return _ends(value, value - half, value + half)
