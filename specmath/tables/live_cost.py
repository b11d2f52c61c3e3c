"""The step cost as a spreadsheet follows it: cells for c, ĉ, σ, h and a measured curve or run.

With hardware no formula of a cell makes a step time: v, d and s are numbers of specmath then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from specmath.checks import FloatArray
from specmath.estimate import ends
from specmath.predict import Prediction
from specmath.scenario.endpoint import CONTRADICTION
from specmath.speculation import Speculation, speedup
from specmath.stepcost import Covered, LinearStepCost, Observed, StepCost, moved
from specmath.tables.columns import column, columns_of, mixed_draft
from specmath.tables.inputs import derived, field_cell, fixed, given, greatest, least, plain_cells
from specmath.tables.live_acceptance import Parts, Tokens, over_all_steps
from specmath.tables.table import Column, Input

__all__ = ["Cost"]

_ENDS = ("_low", "_high")
_SAID = {"": "", "_low": ", low", "_high": ", high"}
NOT_LIVE = "From the step-time model at the batch, context and GPU of the scenario; fixed in a file"


def _covered(text: str, share: bool) -> str:
    return f"{{coverage}}*({text})+1-{{coverage}}" if share else text


@dataclass(frozen=True)
class Cost:
    """s of a prediction in the middle and, where something of it is open, at either end."""

    p: Prediction
    tokens: Tokens

    @cached_property
    def _whole(self) -> StepCost:
        """The cost before a run was seen."""
        cost = self.p.speculation.cost
        return cost.expected if isinstance(cost, Observed) else cost

    @cached_property
    def _own(self) -> StepCost:
        """Of the steps that have a draft."""
        return self._whole.part if isinstance(self._whole, Covered) else self._whole

    @property
    def covered(self) -> bool:
        """Whether only a share of the steps has a draft, each sequence for itself."""
        return isinstance(self._whole, Covered)

    @property
    def observed(self) -> bool:
        """Whether a measured run says what a step takes."""
        return isinstance(self.p.speculation.cost, Observed)

    @property
    def follows(self) -> bool:
        """Whether it follows from cells: not where it comes from hardware."""
        return self.p.endpoint.pair is None

    @property
    def _linear(self) -> bool:
        return isinstance(self._own, LinearStepCost)

    # ── what is open ─────────────────────────────────────────────────────────────────────────

    @property
    def _besides(self) -> float | None:
        """The high end of what a step costs besides drafting, where nobody said."""
        over = self.p.endpoint.unknown
        return next((u.high for u in over if u.field == "besides"), None)

    @property
    def open(self) -> bool:
        """Whether s has ends of its own."""
        s = self.p.scenario
        if not self.follows:
            return self.p.endpoint.open
        unsaid = s.c_hat is None or s.sigma is None or self._besides is not None
        return bool(s.costs.cited) or unsaid

    def end(self, end: str) -> str:
        """What is at the end in the name of s there."""
        return end if self.open else ""

    # ── cells ────────────────────────────────────────────────────────────────────────────────

    def inputs(self, top: int) -> list[Input]:
        """The cells that s follows from, up to that γ."""
        if not self.follows:
            return [fixed("c_hat", self._own.c_hat, format="0.0000")]
        s = self.p.scenario
        found = [*self._c_cells()]
        if s.c_hat is None:
            said = "Unknown: from 0 to c; here half of c"
            found.append(derived("c_hat", "Draft arithmetic", "", said, self._own.c_hat, "{c}/2"))
        else:
            found.append(field_cell(s, "c_hat", format="0.0000"))
        if self._linear:
            found.append(self._sigma_cell())
        found.append(field_cell(s, "overhead", format="0.0000"))
        if self._besides is not None:
            source = (
                "90% quantile over published speedups of τ / speedup − (1 + γc); counted while "
                "neither verification nor overhead is given"
            )
            found.append(
                Input("besides", "Besides drafting, at most", "plain steps", "What a step may cost "
                      "beyond 1 + γc", self._besides, "0.00", "published", source, editable=False)
            )  # fmt: skip
        if not self._linear:
            basis, source = given(s, "verify_costs")
            found += [
                Input(f"verify_cost_{i}", f"Verification at γ={i}", "plain steps",
                      "A pass over γ+1 tokens over one plain step", v, "0.000", basis, source)
                for i, v in enumerate(s.verify_costs[:top], start=1)
            ]  # fmt: skip
        return [*found, *self._run_cells()]

    def _sigma_cell(self) -> Input:
        s = self.p.scenario
        if s.sigma is not None:
            return field_cell(s, "sigma", format="0.000")
        cell = fixed("sigma", 0.5, "Unknown: from 0 to 1; here the middle")
        return replace(cell, basis="assumed", format="0.00")

    def _c_cells(self) -> list[Input]:
        s, c = self.p.scenario, self._own.c
        label, meant = "Draft cost c", "One draft forward over one target forward, in walltime"
        if s.draft_ms is not None:
            cells = [field_cell(s, name, format="0.00") for name in ("target_ms", "draft_ms")]
            return [*cells, derived("c", label, "", meant, c, "{draft_ms}/{target_ms}")]
        if s.costs.cited:
            cells = [field_cell(s, name, format="0.0000") for name in ("c_low", "c_high")]
            mean = derived("c", label, "", "In the middle of the range", c, "({c_low}+{c_high})/2")
            return [*cells, mean]
        return [field_cell(s, "c", format="0.0000")]

    # ── formulas at one γ ────────────────────────────────────────────────────────────────────

    def verify(self, gamma: int) -> str:
        """v of a step with a draft."""
        if self._linear:
            return "1+{sigma}*{gamma}"
        return f"{{verify_cost_{gamma}}}" if gamma else "1"

    def draft(self) -> str:
        """d + h of a step with a draft."""
        each = mixed_draft("{c}") if self._linear else "{c}"
        return f"{{gamma}}*{each}+{{overhead}}*({{gamma}}>0)"

    def _end_of(self, gamma: int, end: str) -> str:
        """The expected s where what is open is at its cheapest ("_low") or dearest."""
        s, low = self.p.scenario, end == "_low"
        c = f"{{c{end}}}" if s.costs.cited else "{c}"
        c_hat = "{c_hat}" if s.c_hat is not None else "0" if low else c
        if not self._linear:
            text = f"{self.verify(gamma)}+{{gamma}}*{c}"
        elif s.sigma is None:
            bound = least if low else greatest
            text = f"1+{{gamma}}*{bound(c, f'(1+{c_hat})')}"
        else:
            text = f"{self.verify(gamma)}+{{gamma}}*{mixed_draft(c, c_hat)}"
        h = "{overhead}"
        if self._besides is not None and not low:
            h = "({overhead}+{besides}*({sigma}=0)*({overhead}=0))"
        return _covered(f"{text}+{h}*({{gamma}}>0)", self.covered)

    def _middle(self, gamma: int) -> str:
        return _covered(f"{self.verify(gamma)}+{self.draft()}", self.covered)

    # ── a measured run ───────────────────────────────────────────────────────────────────────

    def _run_cells(self) -> list[Input]:
        """What the run showed: the step cost that was expected at its γ, and the one seen."""
        cost, s = self.p.speculation.cost, self.p.scenario
        if not isinstance(cost, Observed) or not self.follows:
            return []
        found = [*plain_cells(self.p), field_cell(s, "run_ms", format="0.00")]
        ran = str(cost.ran)
        tokens = {"": "run_tokens_per_step"}
        if s.run_tokens_per_step is not None:
            found.append(field_cell(s, "run_tokens_per_step", format="0.000"))
        else:
            found += self.tokens.cells("tokens_at_run", "Tokens per step of the run", cost.ran)
            tokens = {end: f"tokens_at_run{end}" for end in self.tokens.each}
        for end in self.ends:
            text = self._end_of(cost.ran, end) if end else self._middle(cost.ran)
            text = text.replace("{gamma}", ran)
            value = self._at_run(end)
            said = "What the run's step was expected to cost"
            found.append(derived(f"expected_at_run{end}", f"Expected at the run{_SAID[end]}",
                                 "plain steps", said, value, text))  # fmt: skip
        waits = "{plain_waiting}" if self.p.speculation.waiting else "0"
        factor = f"((1+{waits})*{{run_ms}}/{{plain_ms}}-{waits})"
        ours = self.p.speculation
        for end, name in tokens.items():
            emitted = next(float(i.value or 0) for i in found if i.name == name)
            value = float(ours.implied_cost(cost.ran, self._run_speedup, emitted))
            said = "What its step cost: its time per token × its tokens per step"
            label, text = f"Seen in the run{_SAID[end]}", f"{{{name}}}*{factor}"
            found.append(derived(f"seen{end}", label, "plain steps", said, value, text))
        return found

    @property
    def _run_speedup(self) -> float:
        plain, s = self.p.tpot_plain, self.p.scenario
        return 1.0 if plain is None or s.run_ms is None else plain.value * 1e3 / s.run_ms

    @property
    def ends(self) -> tuple[str, ...]:
        """The middle, and the ends where s has some."""
        return ("", "_low", "_high") if self.open else ("",)

    def _given_values(self, gammas: Any, end: str) -> FloatArray:
        """The expected s at an end: what the corners of the endpoint cost at least or at most."""
        if not end:
            return np.asarray(self._whole.total(gammas))
        costs = [_expected(corner).total(gammas) for corner in self.p.endpoint.corners]
        bound = np.min if end == "_low" else np.max
        return np.asarray(bound(costs, axis=0))

    def _at_run(self, end: str) -> float:
        cost = self.p.speculation.cost
        assert isinstance(cost, Observed)
        return float(self._given_values(cost.ran, end))

    def _seen(self, end_cost: str, end_tokens: str, at_gamma: str, *, corner: bool = True) -> str:
        """s, moved as the run's step is (`specmath.stepcost.moved`)."""
        if at_gamma and not self.p.gamma:
            return "1"
        own = f"{{expected_cost{at_gamma}{end_cost}}}"
        at, seen = f"{{expected_at_run{end_cost}}}", f"{{seen{end_tokens}}}"
        if corner:
            seen = greatest(seen, f"({at}/{CONTRADICTION:g})")
        dearer = f"({seen}>={at})*({own}+{seen}-{at})"
        scaled = f"({seen}>=1)*(1+({own}-1)*({seen}-1)/({at}-1+({at}<=1)))+({seen}<1)*{seen}"
        return f"({{gamma}}=0)+({{gamma}}>0)*({dearer}+({seen}<{at})*({scaled}))"

    # ── columns ──────────────────────────────────────────────────────────────────────────────

    def columns(self, gammas: np.ndarray) -> Parts:
        """v, d + h and s over γ, and the ends of s."""
        if not self.follows:
            return self._constants(gammas), self.inputs(int(gammas[-1]))
        own, total = self._own, "expected_cost" if self.observed else "step_cost"
        values = {
            "verify_cost": own.verify(gammas),
            "draft_cost": own.draft(gammas) + own.extra(gammas),
            total: own.total(gammas),
        }
        live: dict[str, Any] = {
            "verify_cost": tuple(self.verify(int(g)) for g in gammas),
            "draft_cost": self.draft(),
            total: "{verify_cost}+{draft_cost}",
        }
        said = {} if self._linear else {"draft_cost": "gamma × c, and the overhead at gamma ≥ 1"}
        found = [*columns_of(values, live, said)]
        if self.covered:
            found = over_all_steps(total, self._whole.total(gammas), found)
        for end in self.ends[1:]:
            each = tuple(self._end_of(int(g), end) for g in gammas)
            values_there = self._given_values(gammas, end)
            found.append(column(total, values_there, each, suffix=end))
        if self.observed:
            s = self.p.speculation.cost.total(gammas)
            found.append(column("step_cost", s, self._seen("", "", "", corner=False)))
        return found, self.inputs(int(gammas[-1]))

    def _constants(self, gammas: np.ndarray) -> list[Column]:
        cost = self.p.speculation.cost
        values = {
            "verify_cost": cost.verify(gammas),
            "draft_cost": cost.draft(gammas) + cost.extra(gammas),
            "step_cost": cost.total(gammas),
        }
        said = dict.fromkeys(("verify_cost", "draft_cost"), NOT_LIVE)
        found = [*columns_of(values, {"step_cost": "{verify_cost}+{draft_cost}"}, said)]
        if self.tokens.live and self.open:
            low, high = self.over_draws(gammas)
            said_of = "At the joint draws of what was computed; fixed in a file"
            found += [
                column("step_cost", each, suffix=end, definition=said_of)
                for end, each in (("_low", low), ("_high", high))
            ]
        return found

    def over_draws(self, gammas: np.ndarray) -> tuple[FloatArray, FloatArray]:
        """The ends of s, where the speedup at its ends is τ at its ends over them."""
        endpoint = self.p.endpoint
        low, high = (each[gammas] for each in ends(endpoint.points))
        every = [corner.tokens(gammas) for corner in endpoint.corners]
        return np.max(every, axis=0) / high, np.min(every, axis=0) / low

    # ── the ratio ────────────────────────────────────────────────────────────────────────────

    def ratio(self, end: str, at_gamma: str = "") -> tuple[str, str]:
        """(τ, s) as templates whose ratio is an end of the speedup, where no run was seen."""
        other = "_high" if end == "_low" else "_low"
        tau = f"{{tokens_per_step{at_gamma}{self.tokens.end(end)}}}"
        return tau, f"{{step_cost{at_gamma}{self.end(other)}}}"

    @cached_property
    def corners(self) -> list[tuple[str, str]]:
        """The ends of τ and of s that are combined where a run was seen: its step cost follows
        from its tokens too, so that an end of the speedup may be at any of them."""
        if not (self.follows and self.observed and (self.open or self.tokens.open)):
            return []
        return list(product(("_low", "_high") if self.tokens.open else ("",),
                            ("_low", "_high") if self.open else ("",)))  # fmt: skip

    def corner_cost(self, tokens: str, cost: str, at_gamma: str = "") -> str:
        """s at that corner of what is open."""
        own_run = self.p.scenario.run_tokens_per_step is None
        return f"({self._seen(cost, tokens if own_run else '', at_gamma)})"

    def corner_speedup(self, tokens: str, cost: str, gammas: np.ndarray) -> FloatArray:
        """What the formulas of that corner give."""
        seen_cost, ours, s = self.p.speculation.cost, self.p.speculation, self.p.scenario
        assert isinstance(seen_cost, Observed)
        at, ran = self._at_run(cost), seen_cost.ran
        there = self.tokens.whole(tokens)
        emitted = s.run_tokens_per_step or float(there.tokens_per_step(ran))
        seen = max(float(ours.implied_cost(ran, self._run_speedup, emitted)), at / CONTRADICTION)
        drafted = np.asarray(gammas)
        total = moved(self._given_values(drafted, cost), np.asarray(at), np.asarray(seen), drafted)
        tau = np.asarray(there.tokens_per_step(drafted))
        return speedup(tau, total, ours.waits(drafted), ours.plain_waiting)

    def slope(self, gamma: int) -> str | None:
        """σ of the scenario, live."""
        if not self.follows:
            return None
        if self._linear and not self.covered and (gamma or not self.observed):
            return "{sigma}"
        return "({verify_cost_at_gamma}-1)/{gamma}" if gamma else None

    def regimes(self) -> tuple[str | None, str, str | None]:
        """s memory-bound, as the scenario has it, and compute-bound."""
        if not self.follows or not self.p.gamma:
            return None, "{step_cost_at_gamma}", None
        memory, compute = "1+{gamma}*{c}", "1+{gamma}+{gamma}*{c_hat}"
        both = (_covered(text, self.covered) for text in (memory, compute))
        return next(both), "{step_cost_at_gamma}", next(both)

    def cells(self, gamma: int) -> list[Input]:
        """v and s at the γ in use, and the ends of s, with all that they follow from."""
        cost, unit = self.p.speculation.cost, "plain steps"
        found = self.inputs(gamma)
        total = "expected_cost_at_gamma" if self.observed else "step_cost_at_gamma"
        label = "Step cost, expected" if self.observed else "Step cost"
        said = f"Verification, drafting and overhead at γ={gamma}"
        if self.follows:
            text = _covered(self.verify(gamma), self.covered)
            found.append(derived("verify_cost_at_gamma", "Verification v", unit, "A pass over γ+1 "
                                 "tokens", float(self._whole.verify(gamma)), text))  # fmt: skip
            for end in self.ends:
                text = self._end_of(gamma, end) if end else self._middle(gamma)
                text = text if gamma else "1"
                value = float(self._given_values(gamma, end))
                named = label + _SAID[end]
                found.append(derived(f"{total}{end}", named, unit, said, value, text))
            if self.observed:
                here = gamma == self.p.scenario.run_gamma  # nothing is expected of what was seen
                text = "{seen}" if here else self._seen("", "", "_at_gamma", corner=False)
                found.append(derived("step_cost_at_gamma", "Step cost", unit, said,
                                     float(cost.total(gamma)), text))  # fmt: skip
            return found
        found.append(fixed("verify_cost_at_gamma", float(cost.verify(gamma)), NOT_LIVE))
        found.append(fixed("step_cost_at_gamma", float(cost.total(gamma)), NOT_LIVE))
        if self.tokens.live and self.open:
            for end, each in zip(_ENDS, self.over_draws(np.array([gamma])), strict=True):
                named = f"{label}, {end[1:]}"
                cell = fixed("step_cost_at_gamma", float(each[0]), NOT_LIVE, label=named)
                found.append(replace(cell, name=f"step_cost_at_gamma{end}"))
        return found


def _expected(corner: Speculation) -> StepCost:
    return corner.cost.expected if isinstance(corner.cost, Observed) else corner.cost
