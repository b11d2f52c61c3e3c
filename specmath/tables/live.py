"""The ratio as a spreadsheet follows it: both halves over γ as columns, or at one γ as cells.

Where the costs were given, every number follows from the cells of the scenario, and so do the ends
of its interval, on either side of it whatever is typed. With hardware, s is a number of the
library; α is for typing where no other acceptance would have loaded the server otherwise, and the
interval keeps its width where it would have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from specmath.checks import FloatArray
from specmath.predict import Prediction
from specmath.stepcost import Observed
from specmath.tables.columns import COLUMNS, DILUTED, SPEEDUP, column, columns_of
from specmath.tables.inputs import derived, fixed, greatest, least, waiting_cells
from specmath.tables.live_acceptance import Parts, Tokens, tokens_of
from specmath.tables.live_cost import Cost
from specmath.tables.table import Column, Input

__all__ = ["Halves"]


@dataclass(frozen=True)
class Halves:
    """τ, s and the speedup of a prediction, as columns over γ and as cells at the γ in use."""

    p: Prediction

    @cached_property
    def tokens(self) -> Tokens:
        """τ."""
        return tokens_of(self.p, follows=self._any_acceptance)

    @cached_property
    def cost(self) -> Cost:
        """s."""
        return Cost(self.p, self.tokens)

    @property
    def _any_acceptance(self) -> bool:
        """Whether the step costs are right at another acceptance too."""
        p, load = self.p, self.p.endpoint.load
        if p.endpoint.pair is None:
            return True
        held = load is not None and load.requests.batch is not None
        ran = isinstance(p.speculation.cost, Observed)
        waits = any(corner.waiting for corner in p.endpoint.corners)
        return held and not ran and not waits and p.scenario.target_ms is None

    @property
    def width_kept(self) -> bool:
        """Whether the ends are a fixed share of the speedup: no formula makes them."""
        return self.p.endpoint.pair is not None and not self.tokens.live

    # ── columns ──────────────────────────────────────────────────────────────────────────────

    def waiting(self, gammas: np.ndarray) -> tuple[str, dict[str, FloatArray], dict[str, str]]:
        """The ratio as a formula, the column it looks at where prompts take time, and its own."""
        ours = self.p.speculation
        if not ours.waiting:
            return SPEEDUP, {}, {}
        live = {"waiting": "{plain_waiting}"} if self.p.endpoint.pair is None else {}
        return DILUTED, {"waiting": ours.waits(gammas)}, live

    def columns(self) -> Parts:
        """Everything over γ up to the speedup, its ends and the arithmetic."""
        curve = self.p.curve
        emitted, emitted_cells = self.tokens.columns(curve.gamma)
        costs, cost_cells = self.cost.columns(curve.gamma)
        ratio, waits, waits_live = self.waiting(curve.gamma)
        share = "{coverage}*" if self.tokens.coverage is not None else ""
        live: dict[str, Any] = {
            **waits_live,
            "walltime_improvement": ratio,
            "operations_increase": f"({share}{{gamma}}*({{c_hat}}+1)+1)/{{tokens_per_step}}",
        }
        outcome: dict[str, Any] = {**waits, "walltime_improvement": curve.walltime_improvement}
        if curve.low is not None and curve.high is not None:
            each = {"_low": curve.low, "_high": curve.high}
            for end, values in each.items():
                outcome[f"walltime_improvement{end}"] = values
                live[f"walltime_improvement{end}"] = self._ends_over_gamma(end, values)
        outcome["operations_increase"] = curve.operations_increase
        columns: list[Column] = [*emitted, *costs, *columns_of(outcome, live), *self._corners()]
        return columns, [*emitted_cells, *cost_cells, *waiting_cells(self.p)]

    def _ends_over_gamma(self, end: str, values: FloatArray) -> Any:
        if self.width_kept:
            shares = (values / self.p.curve.walltime_improvement).tolist()
            return tuple(f"{{walltime_improvement}}*{share!r}" for share in shares)
        return self._beyond("{walltime_improvement}", end, "", "{waiting}")

    def _corners(self) -> list[Column]:
        """Where a measured run is combined with what is open: the speedup at each corner."""
        gammas, found = self.p.curve.gamma, []
        for number, (tokens, cost) in enumerate(self.cost.corners, start=1):
            tau, s = f"{{tokens_per_step{tokens}}}", self.cost.corner_cost(tokens, cost)
            values = self.cost.corner_speedup(tokens, cost, gammas)
            text = self._ratio(tau, s, "{waiting}")
            found.append(column("corner", values, text, suffix=f"_{number}"))
        return found

    def _beyond(self, centre: str, end: str, at_gamma: str, waiting: str) -> str:
        """The end of the speedup: never on the wrong side of its centre."""
        bound = least if end == "_low" else greatest
        if not self.cost.observed:
            tau, s = self.cost.ratio(end, at_gamma)
            return bound(f"({self._ratio(tau, s, waiting)})", centre)
        for number in range(1, len(self.cost.corners) + 1):
            centre = bound(f"{{corner{at_gamma}_{number}}}", centre)
        return centre

    def _ratio(self, tau: str, s: str, waiting: str) -> str:
        if not self.p.speculation.waiting:
            return f"{tau}/{s}"
        return f"(1+{{plain_waiting}})*{tau}/({s}+{tau}*{waiting})"

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    def tokens_cells(self) -> list[Input]:
        """γ in use and τ there, with what it follows from."""
        gamma = self.p.gamma
        label = "Tokens per step"
        said = "That of this file: for another γ, export anew"
        cell = fixed("gamma", gamma, said, label="Drafted γ", format="0")
        return [cell, *self.tokens.cells("tokens_per_step_at_gamma", label, gamma)]

    def cells(self) -> list[Input]:
        """τ, s and the speedup at the γ in use, with their ends and all they follow from."""
        p, gamma, ours = self.p, self.p.gamma, self.p.speculation
        found = [*waiting_cells(p), *self.tokens_cells(), *self.cost.cells(gamma)]
        waiting = "{plain_waiting}"
        if ours.waiting and p.endpoint.pair is not None:
            found.append(fixed("waiting_at_gamma", float(ours.waits(gamma))))
            waiting = "{waiting_at_gamma}"
        text = self._ratio("{tokens_per_step_at_gamma}", "{step_cost_at_gamma}", waiting)
        said = f"tokens_per_step / step_cost at γ={gamma}"
        centre = derived("speedup_at_gamma", "Speedup", "×", said, p.speedup.value, text)
        found.append(centre)
        for number, (tokens, cost) in enumerate(self.cost.corners, start=1):
            tau = f"{{tokens_per_step_at_gamma{tokens}}}"
            text = self._ratio(tau, self.cost.corner_cost(tokens, cost, "_at_gamma"), waiting)
            value = float(self.cost.corner_speedup(tokens, cost, np.array([gamma]))[0])
            found.append(derived(f"corner_at_gamma_{number}", f"Speedup, corner {number}", "×",
                                 COLUMNS["corner"].definition, value, text))  # fmt: skip
        for end, bound in (("_low", p.speedup.low), ("_high", p.speedup.high)):
            if bound is not None:
                said = f"At the {'worst' if end == '_low' else 'best'} end of what is unknown"
                label = f"Speedup, {end[1:]}"
                text = self._end_at_gamma(end, bound, waiting)
                found.append(derived(f"speedup_at_gamma{end}", label, "×", said, bound, text))
        return found

    def _end_at_gamma(self, end: str, value: float, waiting: str) -> str:
        if self.width_kept:
            return f"{{speedup_at_gamma}}*{value / self.p.speedup.value!r}"
        return self._beyond("{speedup_at_gamma}", end, "_at_gamma", waiting)
