"""Two plans side by side: their endpoints matched by name, and what each costs."""

from __future__ import annotations

from specmath.checks import short
from specmath.estimate import Estimate
from specmath.plan.decided import EndpointAnswer, PlanAnswer
from specmath.tables.columns import ends_of
from specmath.tables.plan_parts import ALL
from specmath.tables.table import Cell, Column, Table
from specmath.words.plan import DO

__all__ = ["compared_plans_table", "plans_called"]

_LONGEST = 24
"""Characters of a plan's name in a heading."""

Pair = tuple[EndpointAnswer | None, EndpointAnswer | None]


def compared_plans_table(a: PlanAnswer, b: PlanAnswer) -> Table:
    """One row an endpoint of either plan, in the order of the first: what to do, γ, p99 of the time
    per token, GPUs and dollars a month of both, each as planned, and the dollars of the second less
    those of the first, in the middle. The last row is all endpoints. What a plan does not have, or
    does not know, is empty."""
    pairs = _pairs(a, b)
    names = [answer.endpoint.name for pair in pairs for answer in [pair[0] or pair[1]] if answer]
    found = [Column("endpoint", "Endpoint", "", "As named in the plans", (*names, ALL))]
    whose = plans_called(a, b)
    firsts = _columns([pair[0] for pair in pairs], a, "a", whose[0])
    seconds = _columns([pair[1] for pair in pairs], b, "b", whose[1])
    for first, second in zip(firsts, seconds, strict=True):
        found += [*first, *second]
    bills = [(_bill(first), _bill(second)) for first, second in pairs]
    bills.append((a.usd_per_month[1], b.usd_per_month[1]))
    found.append(
        Column("usd_per_month_more", "Difference", "USD a month", "Of the second plan less the "
               "first, in the middle", tuple(_more(*each) for each in bills), format="#,##0")
    )  # fmt: skip
    return Table("Two plans side by side", "plans", tuple(found))


def _pairs(a: PlanAnswer, b: PlanAnswer) -> list[Pair]:
    first, second = ({e.endpoint.name: e for e in each.endpoints} for each in (a, b))
    return [(first.get(name), second.get(name)) for name in dict.fromkeys((*first, *second))]


def plans_called(a: PlanAnswer, b: PlanAnswer) -> tuple[str, str]:
    """Both plans by name, where they have two."""
    names = short(a.plan.name, _LONGEST), short(b.plan.name, _LONGEST)
    return names if all(names) and names[0] != names[1] else ("first", "second")


def _columns(
    answers: list[EndpointAnswer | None], plan: PlanAnswer, suffix: str, whose: str
) -> list[list[Column]]:
    """What one plan says of each row, a list a quantity; the last row is all its endpoints."""
    do: list[Cell] = [None if e is None else DO[e.do] for e in answers]
    gamma: list[Cell] = [None if e is None else e.arm.gamma for e in answers]
    p99 = [None if e is None else _planned_p99(e) for e in answers]
    gpus = [None if e is None else e.arm.all_gpus for e in answers]
    bills = [_bill(e) for e in answers]
    return [
        [Column(f"do_{suffix}", f"Speculation, {whose}", "", "Off, on, by load (off above a rate), "
                "or measure first", (*do, None))],
        [Column(f"gamma_{suffix}", f"γ, {whose}", "", "Drafted tokens a step, as planned; the "
                "most, where each request has its own", (*gamma, None), format="0")],
        ends_of((f"tpot_p99_ms_{suffix}", f"Token p99, {whose}", "ms", "99% of the requests have "
                 "less, as planned", "0.0"), [*p99, None]),
        ends_of((f"gpus_{suffix}", f"GPUs, {whose}", "", "Of all replicas, as planned", "#,##0"),
                [*gpus, plan.gpus[1]]),
        ends_of((f"usd_per_month_{suffix}", f"A month, {whose}", "USD", "Of all replicas, 730 h, "
                 "as planned", "#,##0"), [*bills, plan.usd_per_month[1]]),
    ]  # fmt: skip


def _planned_p99(answer: EndpointAnswer) -> Estimate | None:
    """Of the arm that the plan buys."""
    plain = answer.arm is answer.capacity.plain
    found = answer.tpot[0.99][0 if plain else 1]
    return found and found.map(lambda seconds: 1e3 * seconds)


def _bill(answer: EndpointAnswer | None) -> Estimate | None:
    return None if answer is None else answer.arm.usd_per_month


def _more(first: Estimate | None, second: Estimate | None) -> float | None:
    return None if first is None or second is None else second.value - first.value
