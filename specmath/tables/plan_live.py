"""A plan as a spreadsheet follows it: change what a segment accepts, and the month's cost follows.

Of each endpoint first its segments, then what each promise leaves of the largest rate of a replica,
then all its requests together with the fleets and their bill; last the sum of all endpoints. What
to do and γ are decided for the values of the file, and stay. The largest rate within a promise has
no closed form: it is `plan.peak`, lines between values of the server law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from specmath.capacity import Arm, promised, server_of
from specmath.carried import Carried
from specmath.estimate import Estimate
from specmath.plan.decided import EndpointAnswer, PlanAnswer, SegmentAnswer
from specmath.plan.peak import Bound, Line, Peak, peak
from specmath.plan.record import Plan
from specmath.tables.files import scenario_text
from specmath.tables.inputs import given, least
from specmath.tables.plan_tokens import Accepted, accepted
from specmath.tables.table import Basis, Cell, Column, Table
from specmath.words.capacity import PROMISED
from specmath.words.plan import DO

__all__ = ["live_plan_table", "plan_text"]

FAR = 0.01
"""A miss of the lines beyond which acceptance is not for typing."""

LONGEST_TEXT = 30_000
"""Characters of the plan in words: a cell holds 32,767."""

HOURS = 730
"""Of a month."""


class _Cell(NamedTuple):
    value: Cell
    formula: str | None = None
    typed: bool = False
    format: str = ""


_Row = dict[str, _Cell]


class _Said(NamedTuple):
    label: str
    unit: str
    definition: str
    format: str = ""
    basis: Basis = "computed"


_HELD = "fixed in the file: with other values specmath may decide otherwise"
_COLUMNS: Mapping[str, _Said] = {
    "endpoint": _Said("Endpoint", "", "As named in the plan"),
    "line": _Said("Segment, promise or sum", "", "Segments of the endpoint; what each promise "
        "leaves of the largest rate; all requests of the endpoint; all endpoints"),
    "do": _Said("Speculation", "", f"What the plan does; {_HELD}"),
    "gamma": _Said("γ", "", f"Drafted tokens a step where it speculates; {_HELD}", "0"),
    "share": _Said("Share", "%", "Of the endpoint's requests, over the sum of its shares; for "
        "typing where its segments are alike in lengths and prefix cache: other mixes of lengths "
        "have other steps", "0.0", "assumed"),
    "alpha": _Said("Acceptance α", "", "P(drafted token accepted | all before it were), the one "
        "rate that emits as many tokens at this γ; empty: not one rate, type τ", "0.0000",
        "assumed"),
    "tokens_per_step": _Said("Tokens per step", "tokens", "τ at this γ, over all steps; of all "
        "requests Σ w / Σ (w / τ), w = share × (output tokens − 1)", "0.000"),
    "demand": _Said("Demand", "requests/s", "Of the busiest hour", "#,##0.00", "assumed"),
    "headroom": _Said("Headroom", "", "Share of the largest rate that is left free", "0.00",
        "assumed"),
    "usd_per_hour": _Said("GPU price", "USD/h", "Of one GPU", "0.00", "assumed"),
    "rate_plain": _Said("Largest rate, plain", "requests/s", "Of one replica without "
        "speculation, within what is promised; no acceptance moves it", "0.000"),
    "rate": _Said("Largest rate", "requests/s", "Of one replica with speculation, within what is "
        "promised down to this line", "0.000"),
    "replicas_plain": _Said("Replicas, plain", "", "demand / ((1 − headroom) × largest rate), "
        "rounded up", "#,##0"),
    "replicas": _Said("Replicas", "", "With speculation: demand / ((1 − headroom) × largest "
        "rate), rounded up; an error: no rate is within what is promised", "#,##0"),
    "gpus_plain": _Said("GPUs, plain", "", "Of all replicas without speculation", "#,##0"),
    "gpus_speculative": _Said("GPUs, speculative", "", "Of all replicas with speculation", "#,##0"),
    "gpus": _Said("GPUs, planned", "", "Of the arm that the plan takes", "#,##0"),
    "usd_per_month_plain": _Said("A month, plain", "USD", "GPUs × price × 730 h", "#,##0"),
    "usd_per_month_speculative": _Said("A month, speculative", "USD", "GPUs × price × 730 h",
        "#,##0"),
    "usd_per_month": _Said("A month, planned", "USD", "GPUs × price × 730 h of the arm that the "
        "plan takes", "#,##0"),
    "basis": _Said("Basis", "", "Of the acceptance of a segment; of the price of an endpoint"),
    "source": _Said("Source", "", "Where that is from, and what is fixed in this file and why"),
    "weight": _Said("Tokens", "", "share × (output tokens − 1)", "0.0"),
    "weights": _Said("Tokens so far", "", "Down to this segment", "0.0"),
    "steps": _Said("Steps so far", "", "tokens / τ down to this segment", "0.0"),
    "most": _Said("Largest rate of all", "requests/s", "λ_max = 1 / (P + D/τ): whatever is "
        "promised", "0.000"),
    "slack": _Said("Slack", "", "Of a segment's promise: 0 where one request alone just meets it, "
        "1 where the largest rate of all does", "0.000"),
    "promise_rate": _Said("Largest rate within it", "requests/s", "Share of λ_max that the "
        "promise leaves, interpolated between values of the server law: the law's own at the "
        "acceptance of this file, within 0.5% elsewhere while it leaves 2% of λ_max or more",
        "0.000"),
    "needed_plain": _Said("Replicas, plain, before rounding", "", "demand / ((1 − headroom) × "
        "largest rate)", "#,##0.00"),
    "needed": _Said("Replicas before rounding", "", "demand / ((1 − headroom) × largest rate)",
        "#,##0.00"),
}  # fmt: skip

_SLICE = _Said("Share at τ", "", "Share of λ_max that the promise leaves at one τ of all "
               "requests, over the slack", "0.0000")  # fmt: skip

_SUMS = ("gpus_plain", "gpus_speculative", "gpus", "usd_per_month_plain",
         "usd_per_month_speculative", "usd_per_month")  # fmt: skip


def live_plan_table(found: PlanAnswer) -> Table:
    """The plan with live formulas: α (or τ) of each segment, shares, demand, headroom and prices
    are for typing; GPUs and the bill follow.

    Parameters
    ----------
    found
        What was decided.

    Returns
    -------
    Table
        Rows of each endpoint, and their sum.
    """
    rows: list[_Row] = []
    ends: list[int] = []
    for answer in found.endpoints:
        rows += _Block(answer).rows()
        ends.append(len(rows) - 1)
    rows.append(_sum(rows, ends))
    slices = max((int(n.split("_")[1]) for row in rows for n in row if n.startswith("slice_")),
                 default=0)  # fmt: skip
    said = dict(_COLUMNS) | {
        f"slice_{i}": _SLICE._replace(label=f"{_SLICE.label}, {i}") for i in range(1, slices + 1)
    }
    columns = [_column(name, each, rows) for name, each in said.items()]
    used = [c for c in columns if any(value is not None for value in c.values)]
    return Table("The plan, to be changed", "plan_live", tuple(used))


def _column(name: str, said: _Said, rows: Sequence[_Row]) -> Column:
    cells = [row.get(name, _Cell(None)) for row in rows]
    formulas = tuple(cell.formula for cell in cells)
    return Column(
        name, said.label, said.unit, said.definition, tuple(cell.value for cell in cells),
        formulas if any(formulas) else (), said.format, said.basis,
        editable=tuple(cell.typed for cell in cells),
    )  # fmt: skip


def _sum(rows: Sequence[_Row], ends: Sequence[int]) -> _Row:
    """All endpoints; unknown where one is."""
    row: _Row = {"line": _Cell("All endpoints")}
    for name in _SUMS:
        each = [rows[i].get(name, _Cell(None)).value for i in ends]
        numbers = [value for value in each if isinstance(value, int | float)]
        if len(numbers) == len(each):
            text = "+".join(f"{{{name}^{len(rows) - i}}}" for i in ends)
            row[name] = _Cell(math.fsum(numbers), text)
    return row


# ── one endpoint ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Block:
    """The rows of one endpoint."""

    answer: EndpointAnswer

    def rows(self) -> list[_Row]:
        """Segments, promises, and all requests together."""
        a = self.answer
        server, gamma = server_of(a.prediction), a.capacity.gamma
        measured = not np.allclose(server.factors, 1.0)
        why = ""
        law: Peak | None = None
        if measured:
            why = "times were measured, at the load of this file"
        elif gamma == 0:
            why = "nothing is drafted"
        elif not a.capacity.speculative.within.value:
            why = "no rate is within what is promised"
        else:
            law = peak(server, gamma, promised(a.prediction))
            if law.miss > FAR:
                law, why = None, "the largest rate bends too much to be interpolated"
        segments = self._segments(gamma, why)
        together = self._together(segments, server, gamma, law)
        row = self._fleets(measured) | together
        if law is None:
            row["rate"] = _Cell(a.capacity.speculative.within.value or None)
            return [*segments, self._named(row, why)]
        promises = [
            self._promise(bound, i, segments, law, server, gamma)
            for i, bound in enumerate(law.bounds)
        ]
        rate = "{rate^}" if promises else "{most}"
        row["rate"] = _Cell(a.capacity.speculative.within.value, rate)
        # Cells of the last segment are further up by the promises between.
        return [*segments, *promises, self._named(row | self._mean(len(promises) + 1), why)]

    def _named(self, row: _Row, why: str) -> _Row:
        a, s = self.answer, self.answer.endpoint.scenario
        basis, source = given(s, "usd_per_hour")
        said = [] if s.usd_per_hour is None else [f"GPU price: {source}"]
        said += [f"Acceptance is fixed: {why}"] if why else []
        return {
            "endpoint": _Cell(a.endpoint.name),
            "line": _Cell("All requests"),
            "do": _Cell(DO[a.do]),
            "gamma": _Cell(a.capacity.gamma),
            "basis": _Cell(None if s.usd_per_hour is None else basis),
            "source": _Cell(". ".join(said) or None),
        } | row

    # ── segments ─────────────────────────────────────────────────────────────────────────────

    def _segments(self, gamma: int, why: str) -> list[_Row]:
        a = self.answer
        alike = len({_lengths(each) for each in a.segments}) == 1
        rows: list[_Row] = []
        for segment, planned in zip(a.segments, a.endpoint.segments, strict=True):
            told = accepted(segment, planned.scenario, max(gamma, 1))
            row = self._segment(segment, told, alike, bool(why))
            if not why:
                row |= _running(row, rows[-1] if rows else None)
            rows.append(row)
        return rows

    def _segment(
        self, segment: SegmentAnswer, told: Accepted, alike: bool, fixed: bool
    ) -> _Row:  # fmt: skip
        decoded = max(1, segment.prediction.scenario.output_tokens - 1)
        share, several = 100.0 * segment.share, len(self.answer.segments) > 1
        source = [told.source]
        if several and not alike:
            source.append("Share is fixed: segments differ in lengths or prefix cache")
        row: _Row = {
            "endpoint": _Cell(self.answer.endpoint.name),
            "line": _Cell(segment.name),
            "gamma": _Cell(self.answer.capacity.gamma),
            "share": _Cell(share, typed=several and alike),
            "basis": _Cell(told.basis),
            "source": _Cell(". ".join(source)),
            "alpha": _Cell(told.alpha, typed=told.alpha is not None),
            "tokens_per_step": _Cell(told.tokens, told.formula, typed=told.formula is None),
        }
        if fixed:
            row["tokens_per_step"] = _Cell(told.tokens if self.answer.capacity.gamma else 1.0)
            row["alpha"] = _Cell(told.alpha)
        else:
            row["weight"] = _Cell(
                share * decoded, f"{{share}}*{decoded}" if several and alike else None
            )
        return row

    def _together(
        self, segments: list[_Row], server: Carried, gamma: int, law: Peak | None
    ) -> _Row:
        """τ of all requests, and λ_max there."""
        row: _Row = {"tokens_per_step": _Cell(float(server.tokens[gamma]))}
        if law is not None:
            row["most"] = _most(law, server, gamma)
        return row

    def _mean(self, up: int) -> _Row:
        """τ of all requests as a formula, so many rows under the last segment."""
        server, gamma = server_of(self.answer.prediction), self.answer.capacity.gamma
        text = f"{{weights^{up}}}/{{steps^{up}}}"
        return {"tokens_per_step": _Cell(float(server.tokens[gamma]), text)}

    # ── promises ─────────────────────────────────────────────────────────────────────────────

    def _promise(
        self, bound: Bound, number: int, segments: list[_Row], law: Peak, server: Carried,
        gamma: int,
    ) -> _Row:  # fmt: skip
        """What one promise leaves, and the least of those down to it."""
        promise = bound.promise
        one = server.only(gamma)
        least_now = float(one.within([b.promise for b in law.bounds[: number + 1]])[0][0])
        now = float(one.within([promise])[0][0])
        place = promise.part or 0
        name = segments[place]["line"].value
        said = f"{name}: {1e3 * promise.seconds:g} ms {PROMISED[promise.name]}"
        row: _Row = {
            "endpoint": _Cell(self.answer.endpoint.name),
            "line": _Cell(said),
            "source": _Cell(f"Interpolated between {bound.knots} values of the server law"),
            "most": _most(law, server, gamma),
            **self._mean(number + 1),
        }
        tokens = float(one.tokens[0])
        if bound.share is not None:
            row["promise_rate"] = _Cell(now, f"{{most}}*({_drawn(bound.share, 'tokens_per_step')})")
        else:
            assert bound.end is not None
            own, up = segments[place]["tokens_per_step"].value, number + len(segments) - place
            assert isinstance(own, float)
            slack = (bound.start - 1.0 / own) / (bound.start - bound.end(tokens))
            end = _drawn(bound.end, "tokens_per_step")
            start = _number(bound.start)
            row["slack"] = _Cell(slack, f"({start}-1/{{tokens_per_step^{up}}})/({start}-({end}))")
            at = tuple(each for each, _ in bound.slices)
            terms = []
            for i, (_, line) in enumerate(bound.slices, start=1):
                row[f"slice_{i}"] = _Cell(line(slack), _drawn(line, "slack"))
                near = Line(at, tuple(float(j == i - 1) for j in range(len(at))))
                terms.append(f"{{slice_{i}}}*({_drawn(near, 'tokens_per_step')})")
            row["promise_rate"] = _Cell(now, f"{{most}}*({'+'.join(terms)})")
        text = least("{promise_rate}", "{rate^}") if number else "{promise_rate}"
        row["rate"] = _Cell(least_now, text)
        return row

    # ── fleets ───────────────────────────────────────────────────────────────────────────────

    def _fleets(self, measured: bool) -> _Row:
        """Demand, replicas, GPUs and the bill of both arms and as planned. Where times were
        measured the demand is fixed: they hold at its load."""
        a, s = self.answer, self.answer.endpoint.scenario
        plain, ours = a.capacity.plain, a.capacity.speculative
        row: _Row = {
            "demand": _Cell(a.endpoint.demand, typed=not measured),
            "headroom": _Cell(s.headroom, typed=not measured),
            "usd_per_hour": _Cell(s.usd_per_hour, typed=s.usd_per_hour is not None),
            "rate_plain": _Cell(plain.within.value or None),
        }
        for end, arm in (("_plain", plain), ("", ours)):
            row |= _arm(arm, end, measured)
        row["gpus"] = _Cell(_value(a.arm.all_gpus), self._planned())
        for end in ("_plain", "_speculative", ""):
            bill = {"_plain": plain, "_speculative": ours, "": a.arm}[end].usd_per_month
            row[f"usd_per_month{end}"] = _Cell(
                _value(bill), f"{{gpus{end}}}*{{usd_per_hour}}*{HOURS}"
            )
        return row

    def _planned(self) -> str:
        found = self.answer.capacity
        arm = self.answer.arm
        if arm is found.plain:
            return "{gpus_plain}"
        if arm is found.speculative:
            return "{gpus_speculative}"
        # Switched by load a replica carries what the better arm does.
        arms = {"{replicas_plain}": found.plain, "{replicas}": found.speculative}
        able = [name for name, each in arms.items() if each.within.value]
        return f"{least(*able) if len(able) == 2 else able[0]}*{arm.gpus}"


def _lengths(segment: SegmentAnswer) -> tuple[object, ...]:
    s = segment.prediction.scenario
    return s.prompt_tokens, s.output_tokens, s.prefix_hit, s.prefix_hit_speculative


def _running(row: _Row, above: _Row | None) -> _Row:
    """Sums over the segments down to this one."""
    weight, tokens = (row[name].value for name in ("weight", "tokens_per_step"))
    assert isinstance(weight, float)
    assert isinstance(tokens, float)
    found: _Row = {}
    each = {
        "weights": (weight, "{weight}"),
        "steps": (weight / tokens, "{weight}/{tokens_per_step}"),
    }
    for name, (value, text) in each.items():
        before = None if above is None else above[name].value
        if isinstance(before, float):
            found[name] = _Cell(before + value, f"{{{name}^}}+{text}")
        else:
            found[name] = _Cell(value, text)
    return found


def _most(law: Peak, server: Carried, gamma: int) -> _Cell:
    text = f"1/({_number(law.read)}+{_number(law.decode)}/{{tokens_per_step}})"
    return _Cell(float(server.most[gamma]), text)


def _arm(arm: Arm, end: str, measured: bool) -> _Row:
    """Replicas and GPUs of one arm; unknown where no rate is within what is promised."""
    over = f"{{demand}}/((1-{{headroom}})*{{rate{end}}})"
    gpus = "gpus_plain" if end else "gpus_speculative"
    return {
        f"needed{end}": _Cell(_value(arm.needed), None if measured else over),
        f"replicas{end}": _Cell(_value(arm.replicas), f"⌈{{needed{end}}}⌉"),
        gpus: _Cell(_value(arm.all_gpus), f"{{replicas{end}}}*{arm.gpus}"),
    }


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value


# ── lines as formulas ────────────────────────────────────────────────────────────────────────


def _number(value: float) -> str:
    """A number ≥ 0 in a template, which knows no sign."""
    return f"{value:.15g}" if value >= 0.0 else f"(0-{-value:.15g})"


def _drawn(line: Line, name: str) -> str:
    """The line over the cell of that name: its first value, and how it bends at each knot."""
    x, y = np.array([float(f"{each:.15g}") for each in line.x]), np.array(line.y)
    slopes = np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]])
    text = _number(float(y[0]))
    for knot, bend in zip(x, np.diff(slopes), strict=True):
        if bend:
            sign, at = "+" if bend > 0.0 else "-", _number(float(knot))
            text += f"{sign}{abs(bend):.15g}*({{{name}}}-{at})*({{{name}}}>{at})"
    return text


def plan_text(plan: Plan) -> str:
    """The plan in one cell: its name, and each endpoint's as the pairs of its link."""
    each = [f"{one.name}: {scenario_text(one.scenario)}" for one in plan.endpoints]
    return "; ".join([*([plan.name] if plan.name else []), *each])[:LONGEST_TEXT]
