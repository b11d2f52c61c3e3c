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
from functools import cached_property
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
from specmath.tables.lines import drawn, number
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
    "prefill_rate_plain": _Said("Largest rate, prefill, plain", "requests/s", "Of one worker that "
        "reads prompts for replicas that decode, within what is promised; neither acceptance nor "
        "demand moves it", "0.000"),
    "prefill_rate": _Said("Largest rate, prefill", "requests/s", "The same with speculation, where "
        "the draft reads them too", "0.000"),
    "prefill_replicas_plain": _Said("Prefill workers, plain", "", "demand / ((1 − headroom) × "
        "largest rate of prefill), rounded up", "#,##0"),
    "prefill_replicas": _Said("Prefill workers", "", "With speculation: demand / ((1 − headroom) × "
        "largest rate of prefill), rounded up", "#,##0"),
    "gpus_plain": _Said("GPUs, plain", "", "Of all replicas without speculation, and of the "
        "workers that read their prompts", "#,##0"),
    "gpus_speculative": _Said("GPUs, speculative", "", "The same with speculation", "#,##0"),
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

    @cached_property
    def gamma(self) -> int:
        """γ of the arm with speculation."""
        return self.answer.capacity.gamma

    @cached_property
    def server(self) -> Carried:
        """What serves."""
        return server_of(self.answer.prediction)

    @property
    def measured(self) -> bool:
        """Whether times were measured: they hold at the load of this file."""
        return not np.allclose(self.server.factors, 1.0)

    @cached_property
    def law(self) -> Peak | str:
        """The largest rate over what is accepted; where none is followed, why."""
        if self.answer.each:
            return "each request has a γ of its own, and what is accepted moves the steps of all"
        if self.measured:
            return "times were measured, at the load of this file"
        if self.gamma == 0:
            return "nothing is drafted"
        if not self.answer.capacity.speculative.within.value:
            return "no rate is within what is promised"
        if not math.isclose(self._blended, self.server.tokens[self.gamma], rel_tol=1e-9):
            return "a tree's tokens per step are no blend of those of its segments"
        found = peak(self.server, self.gamma, promised(self.answer.prediction))
        return found if found.miss <= FAR else "the largest rate bends too much to be interpolated"

    @property
    def _blended(self) -> float:
        """τ of all requests from that of each segment, as formulas have it."""
        each = [
            (one.share * _decoded(one), float(one.prediction.speculation.tokens(self.gamma)))
            for one in self.answer.segments
        ]
        return math.fsum(w for w, _ in each) / math.fsum(w / tokens for w, tokens in each)

    def rows(self) -> list[_Row]:
        """Segments, promises, and all requests together."""
        law, segments = self.law, self._segments()
        rate = self.answer.capacity.speculative.within.value
        together = self._told() | self._fleets()
        if isinstance(law, str):
            together["tokens_per_step"] = _Cell(float(self.server.tokens[self.gamma]))
            together["rate"] = _Cell(rate or None)
            return [*segments, together]
        promises = [self._promise(i, segments, law) for i in range(len(law.bounds))]
        together |= self._mean(len(promises) + 1, law)
        together["rate"] = _Cell(rate, "{rate^}" if promises else "{most}")
        return [*segments, *promises, together]

    def _told(self) -> _Row:
        """What the plan does, and where the price is from."""
        a, s = self.answer, self.answer.endpoint.scenario
        basis, source = given(s, "usd_per_hour")
        said = [] if s.usd_per_hour is None else [f"GPU price: {source}"]
        if isinstance(self.law, str):
            said.append(f"Acceptance is fixed: {self.law}")
        return {
            "endpoint": _Cell(a.endpoint.name),
            "line": _Cell("All requests"),
            "do": _Cell(DO[a.do]),
            "gamma": _Cell(self.gamma),
            "basis": _Cell(None if s.usd_per_hour is None else basis),
            "source": _Cell(". ".join(said) or None),
        }

    # ── segments ─────────────────────────────────────────────────────────────────────────────

    def _segments(self) -> list[_Row]:
        rows: list[_Row] = []
        for segment, said in zip(self.answer.segments, self.answer.endpoint.segments, strict=True):
            row = self._segment(segment, accepted(segment, said.scenario, max(segment.gamma, 1)))
            if not isinstance(self.law, str):
                row |= _running(row, rows[-1] if rows else None)
            rows.append(row)
        return rows

    @cached_property
    def _alike(self) -> bool:
        return len({_lengths(each) for each in self.answer.segments}) == 1

    def _segment(self, segment: SegmentAnswer, told: Accepted) -> _Row:
        share, mixed = 100.0 * segment.share, len(self.answer.segments) > 1
        source = [told.source]
        if mixed and not self._alike:
            source.append("Share is fixed: segments differ in lengths or prefix cache")
        row: _Row = {
            "endpoint": _Cell(self.answer.endpoint.name),
            "line": _Cell(segment.name),
            "gamma": _Cell(segment.gamma),
            "share": _Cell(share, typed=mixed and self._alike),
            "basis": _Cell(told.basis),
            "source": _Cell(". ".join(source)),
        }
        if isinstance(self.law, str):
            tokens = told.tokens if segment.gamma else 1.0
            return row | {"alpha": _Cell(told.alpha), "tokens_per_step": _Cell(tokens)}
        decoded = _decoded(segment)
        weight = f"{{share}}*{decoded}" if mixed and self._alike else None
        return row | {
            "alpha": _Cell(told.alpha, typed=told.alpha is not None),
            "tokens_per_step": _Cell(told.tokens, told.formula, typed=told.formula is None),
            "weight": _Cell(share * decoded, weight),
        }

    def _mean(self, up: int, law: Peak) -> _Row:
        """τ of all requests, so many rows under the last segment, and λ_max there."""
        tokens = f"{{weights^{up}}}/{{steps^{up}}}"
        most = f"1/({number(law.read)}+{number(law.decode)}/{{tokens_per_step}})"
        return {
            "tokens_per_step": _Cell(float(self.server.tokens[self.gamma]), tokens),
            "most": _Cell(float(self.server.most[self.gamma]), most),
        }

    # ── promises ─────────────────────────────────────────────────────────────────────────────

    def _promise(self, index: int, segments: list[_Row], law: Peak) -> _Row:
        """What one promise leaves, and the least of those down to it."""
        bound, one = law.bounds[index], self.server.only(self.gamma)
        promise = bound.promise
        least_now, now = (
            float(one.within(promises)[0][0])
            for promises in ([each.promise for each in law.bounds[: index + 1]], [promise])
        )
        place = promise.part or 0
        name = segments[place]["line"].value
        share, cells = self._share(bound, segments[place], index + len(segments) - place)
        return {
            "endpoint": _Cell(self.answer.endpoint.name),
            "line": _Cell(f"{name}: {1e3 * promise.seconds:g} ms {PROMISED[promise.name]}"),
            "source": _Cell(f"Interpolated between {bound.knots} values of the server law"),
            **self._mean(index + 1, law),
            **cells,
            "promise_rate": _Cell(now, f"{{most}}*({share})"),
            "rate": _Cell(
                least_now, least("{promise_rate}", "{rate^}") if index else "{promise_rate}"
            ),
        }

    def _share(self, bound: Bound, segment: _Row, up: int) -> tuple[str, _Row]:
        """The share of λ_max as a formula, and the cells that it looks at; the segment's row is so
        many further up."""
        if bound.share is not None:
            return drawn(bound.share, "tokens_per_step"), {}
        assert bound.end is not None
        own, tokens = segment["tokens_per_step"].value, float(self.server.tokens[self.gamma])
        assert isinstance(own, float)
        slack = (bound.start - 1.0 / own) / (bound.start - bound.end(tokens))
        start, end = number(bound.start), drawn(bound.end, "tokens_per_step")
        cells = {"slack": _Cell(slack, f"({start}-1/{{tokens_per_step^{up}}})/({start}-({end}))")}
        at, terms = tuple(each for each, _ in bound.slices), []
        for i, (_, line) in enumerate(bound.slices):
            cells[f"slice_{i + 1}"] = _Cell(line(slack), drawn(line, "slack"))
            near = Line(at, tuple(float(j == i) for j in range(len(at))))
            terms.append(f"{{slice_{i + 1}}}*({drawn(near, 'tokens_per_step')})")
        return "+".join(terms), cells

    # ── fleets ───────────────────────────────────────────────────────────────────────────────

    def _fleets(self) -> _Row:
        """Demand, replicas, GPUs and the bill of both arms and as planned. Where times were
        measured the demand is fixed: they hold at its load."""
        a, s, measured = self.answer, self.answer.endpoint.scenario, self.measured
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
        read = "" if arm.prefill is None else f"+{{prefill_replicas}}*{arm.prefill.pool.gpus}"
        return f"{least(*able) if len(able) == 2 else able[0]}*{arm.gpus}{read}"


def _decoded(segment: SegmentAnswer) -> int:
    """Tokens of a request that come from decode steps."""
    return max(1, segment.prediction.scenario.output_tokens - 1)


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


def _arm(arm: Arm, end: str, measured: bool) -> _Row:
    """Replicas and GPUs of one arm; unknown where no rate is within what is promised."""
    over = f"{{demand}}/((1-{{headroom}})*{{rate{end}}})"
    gpus = "gpus_plain" if end else "gpus_speculative"
    row = {
        f"needed{end}": _Cell(_value(arm.needed), None if measured else over),
        f"replicas{end}": _Cell(_value(arm.replicas), f"⌈{{needed{end}}}⌉"),
    }
    both = f"{{replicas{end}}}*{arm.gpus}"
    if (prefill := arm.prefill) is not None:
        rate, read = f"prefill_rate{end}", f"prefill_replicas{end}"
        row[rate] = _Cell(prefill.pool.within.value or None)
        row[read] = _Cell(_value(prefill.replicas), f"⌈{{demand}}/((1-{{headroom}})*{{{rate}}})⌉")
        both += f"+{{{read}}}*{prefill.pool.gpus}"
    return row | {gpus: _Cell(_value(arm.all_gpus), both)}


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value


def plan_text(plan: Plan) -> str:
    """The plan in one cell: its name, and each endpoint's as the pairs of its link."""
    each = [f"{one.name}: {scenario_text(one.scenario)}" for one in plan.endpoints]
    return "; ".join([*([plan.name] if plan.name else []), *each])[:LONGEST_TEXT]
