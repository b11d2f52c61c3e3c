"""Plain decoding beside speculation and the change: what γ does, and the bill in whole replicas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import sub, truediv

from specmath.bill import Bill, Fleet, bill, output_share
from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.frontier import per_gpu, per_user
from specmath.predict import Prediction
from specmath.tables.inputs import greatest, least, money_cells, plain_cells, reachable
from specmath.tables.live import Halves
from specmath.tables.table import Column, Input, Table

__all__ = ["bill_sheet", "bill_table", "card_table", "numbers_table"]


@dataclass(frozen=True)
class _Quantity:
    """One row, in its unit; None while unknown. `write` makes a count whole."""

    label: str
    unit: str
    plain: Estimate | None
    speculative: Estimate | None
    change: Estimate | None
    write: Callable[[float], float] = float


def numbers_table(p: Prediction) -> Table:
    """Speed, times, throughput, cost and arithmetic at the γ in use, as far as they are known."""
    one = Estimate(1.0)
    work = _Quantity("Arithmetic per token", "×", one, p.operations, _percent(p.operations, one))
    return _beside(
        f"What γ={p.gamma} does", "numbers", [*_answered(p), work], "change_percent", "%"
    )


def card_table(p: Prediction) -> Table:
    """What the answer shows large: the rows of `numbers_table` that are known, but arithmetic."""
    rows = [row for row in _answered(p) if row.speculative is not None]
    return _beside(f"The answer at γ={p.gamma}", "card", rows, "change_percent", "%")


def _answered(p: Prediction) -> list[_Quantity]:
    """Speedup first, then what a user and the bill see of it; a request's times where known."""
    one = Estimate(1.0)
    plain_ms, ms = (t and t.map(lambda seconds: seconds * 1e3) for t in (p.tpot_plain, p.tpot))
    rows = [
        _Quantity("Speed", "×", one, p.speedup, _percent(p.speedup, one)),
        _Quantity("Time per token", "ms", plain_ms, ms, _percent(p.tpot, p.tpot_plain)),
        *_throughputs(p),
        _Quantity("Cost per 1M tokens", "USD", p.usd_plain, p.usd, _percent(p.usd, p.usd_plain)),
        *_per_dollar(p),
    ]
    least = "" if p.scenario.ttft_ms is not None else ", at least"
    times = {f"Time to first token{least}": p.first_token, "Whole request": p.whole_request}
    for label, both in times.items():
        if both is not None:
            before, after = (t.map(lambda seconds: seconds * 1e3) for t in both)
            rows.append(_Quantity(label, "ms", before, after, _percent(after, before)))
    return rows


def _throughputs(p: Prediction) -> list[_Quantity]:
    """Output tokens a second that one user sees, and that one GPU gives; the second where the load
    is known from hardware."""
    rates = {"Tokens/s per user": per_user(p), "Tokens/s per GPU": per_gpu(p)}
    return [
        _Quantity(label, "tokens/s", *both, _percent(both[1], both[0]))
        for label, both in rates.items()
        if both is not None
    ]


def _per_dollar(p: Prediction) -> list[_Quantity]:
    """Output tokens that a dollar buys; none while the price is not known, or nothing."""
    if p.usd is None or p.usd_plain is None or not p.usd.value or not p.usd_plain.value:
        return []
    before, after = (each.map(lambda usd: 1e6 / usd) for each in (p.usd_plain, p.usd))
    return [_Quantity("Tokens per $1", "tokens", before, after, _percent(after, before))]


def _percent(now: Estimate | None, before: Estimate | None) -> Estimate | None:
    """Relative change, point by point: the error of the plain step cancels."""
    if now is None or before is None or before.value == 0:
        return None
    return now.with_(before, lambda a, b: (a / b - 1.0) * 100.0)


def _hundredfold(share: float) -> float:
    return 100.0 * share


_BILL = (
    ("Replicas", "", round, "replicas"),
    ("GPUs", "", round, "all_gpus"),
    ("Bill a month (730 h)", "USD", float, "usd_per_month"),
    ("Of the bill, per 1M output tokens", "USD", float, "billed_per_million"),
    ("Of the bill, per 1M tokens in all", "USD", float, "billed_per_million_total"),
    ("Use of the replicas, %", "", _hundredfold, "use"),
    ("One replica kept busy", "tokens/s", float, "tokens_per_second"),
    ("Kept busy, per 1M output tokens", "USD", float, "usd_per_million"),
    ("Kept busy, per 1M tokens in all", "USD", float, "usd_per_million_total"),
    ("Kept busy, output tokens for $1", "tokens", float, "tokens_per_dollar"),
    ("Kept busy, energy per 1M output tokens, at most", "Wh", float, "wh_per_million"),
)
"""Rows of the bill: label, unit, how it is written, and what of a fleet it is."""
_WHOLE = {
    "replicas",
    "all_gpus",
    "usd_per_month",
    "billed_per_million",
    "billed_per_million_total",
    "use",
}
"""Those that only a demand gives."""


def bill_table(found: Bill) -> Table:
    """Replicas, USD a month and what a token costs in both fleets; change in their units. What is
    not known stays empty; without a demand there are no rows of whole replicas."""
    rows = []
    for label, unit, write, name in _BILL:
        if found.demand is None and name in _WHOLE:
            continue
        before, after = (getattr(fleet, name) for fleet in (found.plain, found.speculative))
        change = None if before is None or after is None else after.with_(before, sub)
        rows.append(_Quantity(label, unit, before, after, change, write))
    return _beside("The bill, in whole replicas", "bill", rows, "change", "")


def _beside(title: str, name: str, rows: Sequence[_Quantity], change: str, unit: str) -> Table:
    """Of each number three columns, itself and its ends, which a page shows as one."""
    parts = (("plain", "plain", ""), ("speculative", "speculative", ""), ("change", change, unit))
    columns = [
        Column("quantity", "", "", "What is compared", tuple(r.label for r in rows)),
        Column("unit", "Unit", "", "Of the numbers of the row", tuple(r.unit for r in rows)),
    ]
    for (part, shown, of), (end, suffix, words) in product(parts, _ENDS):
        label = f"{part.capitalize()}{words}"
        numbers = ((row, getattr(getattr(row, part), end, None)) for row in rows)
        values = tuple(number if number is None else row.write(number) for row, number in numbers)
        columns.append(Column(f"{shown}{suffix}", label, of, label, values))
    return Table(title, name, tuple(columns))


_ENDS = (("value", "", ""), ("low", "_low", ", low"), ("high", "_high", ", high"))
_OTHER = {"": "", "_low": "_high", "_high": "_low"}
"""The end of what is divided by at which a quotient has this end."""


# ── the bill ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Line:
    """A row of the bill: the field of a fleet, and its formula from the rows above, in which ARM is
    the column's own cell there, and OTHER that of the other end."""

    field: str
    label: str
    unit: str
    format: str
    formula: str
    scale: float = 1.0
    write: Callable[[float], float] = float


_LINES = (
    _Line("tpot", "Time per token", "ms", "0.00", "", 1e3),
    _Line("tokens_per_second", "One replica kept busy", "tokens/s", "#,##0.0",
          "{batch}*1000/{OTHER@tpot}"),
    _Line("needed", "Replicas, before rounding up", "", "#,##0.00", ""),  # _needed
    _Line("replicas", "Replicas", "", "#,##0", "⌈{ARM@needed}⌉", write=round),
    _Line("usd_per_month", "Bill a month (730 h)", "USD", "#,##0",
          "{ARM@replicas}*GPUS*{usd_per_hour}*730"),
    _Line("usd_per_million", "Kept busy, per 1M output tokens", "USD", "0.000",
          "GPUS*{usd_per_hour}/3600*1000000/{OTHER@tokens_per_second}"),
    _Line("tokens_per_dollar", "Kept busy, output tokens for $1", "", "#,##0",
          "1000000/{OTHER@usd_per_million}"),
    _Line("usd_per_million_total", "Kept busy, per 1M tokens in all", "USD", "0.000",
          "{ARM@usd_per_million}*{output_share}"),
)  # fmt: skip
"""In a formula `{ARM@line}` is the column's own cell of that line, `{OTHER@line}` that of the other
end, GPUS what a replica has."""


def _numbers(
    p: Prediction, found: Bill, fleet: Fleet, tpot: Estimate | None
) -> dict[str, Estimate | None]:
    """The lines of one arm. A busy replica of an open loop is at its largest rate, where the time
    per token is another than at the rate given: there is no line of it."""
    carried = fleet.tokens_per_second.map(lambda rate: rate * (1.0 - found.headroom))
    needed = None if found.demand is None else found.demand.with_(carried, truediv)
    own = {line.field: getattr(fleet, line.field, None) for line in _LINES}
    return own | {"tpot": tpot if p.endpoint.batch_held else None, "needed": needed}


def bill_sheet(p: Prediction) -> Table:
    """The bill as a workbook has it, live, in the order in which it follows: `bill_table` has the
    same numbers. Plain and with speculation, and the change, each in its unit.

    Live in the file: price, demand and headroom, and all that the throughput follows from. The
    change has ends where plain decoding has none: else both are open together, which no cell tells.

    Raises
    ------
    InputError
        The target's time is unknown.

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> priced = Scenario(alpha=0.8, c=0.1, gamma=4, target_ms=40, batch=8,
    ...                   demand_tokens_per_second=2000, headroom=0)
    >>> bill_sheet(predict(priced)).column("speculative").values[3]
    5
    """
    found = bill(p)
    if found is None:
        raise InputError("the bill needs target_ms, got nothing for it")
    fleets = [_numbers(p, found, fleet, tpot) for fleet, tpot in
              ((found.plain, p.tpot_plain), (found.speculative, p.tpot))]  # fmt: skip
    lines = [line for line in _LINES if fleets[0][line.field] is not None]
    halves = Halves(p)
    columns = [
        Column(
            "quantity",
            f"At γ={p.gamma}",
            "",
            "What is compared",
            tuple(line.label for line in lines),
        ),
        Column("unit", "Unit", "", "Of the numbers of the row", tuple(line.unit for line in lines)),
    ]
    both = [[_scaled(fleet, line) for line in lines] for fleet in fleets]
    for arm, numbers in zip(("plain", "speculative"), both, strict=True):
        columns += [_arm_column(halves, arm, numbers, lines, end) for end in _ENDS]
    joint = p.endpoint.pair is not None
    columns += [_change_column(both[0], both[1], lines, end, joint=joint) for end in _ENDS]
    inputs = [*halves.cells(), *plain_cells(p), *money_cells(p, _MONEY)]
    if (share := output_share(p.scenario)) is not None:
        said = "Output tokens over all tokens of a request"
        inputs.append(
            Input("output_share", "Share of output", "", said, share, "0.000", "computed",
                  "From the prompt and output tokens of the scenario", editable=False)
        )  # fmt: skip
    # Where nothing is open there are no ends.
    columns = [c for c in columns if any(value is not None for value in c.values)]
    title = f"The bill, in whole replicas, at γ={p.gamma}"
    return Table(title, "bill", tuple(columns), reachable(columns, inputs))


_DEMANDS = {
    "demand_requests_per_second": "{demand_requests_per_second}*{output_tokens}",
    "demand_tokens_per_second": "{demand_tokens_per_second}",
}
"""Output tokens a second to serve, by what was given; of replicas that run it is no constant."""
_MONEY = (
    "batch", "tensor_parallel", "draft_gpus", "usd_per_hour", *_DEMANDS, "output_tokens",
    "replicas", "headroom",
)  # fmt: skip


def _scaled(numbers: Mapping[str, Estimate | None], line: _Line) -> Estimate:
    number = numbers[line.field]
    assert number is not None
    return number.map(lambda each: each * line.scale)


def _arm_column(
    halves: Halves, arm: str, numbers: Sequence[Estimate], lines: Sequence[_Line],
    end: tuple[str, str, str],
) -> Column:  # fmt: skip
    of, suffix, words = end
    values: list[float | None] = []
    live: list[str | None] = []
    for row, (number, line) in enumerate(zip(numbers, lines, strict=True)):
        value = getattr(number, of)
        values.append(value if value is None else line.write(value))
        if value is None:
            live.append(None)
        elif line.field == "tpot":
            live.append(_tpot_formula(halves, arm, suffix))
        else:
            fields = [each.field for each in lines]
            live.append(_line_formula(halves.p, arm, suffix, fields, row, value))
    label = f"{arm.capitalize()}{words}"
    formats = tuple(line.format for line in lines)
    return Column(f"{arm}{suffix}", label, "", label, tuple(values), tuple(live), formats=formats)


def _line_formula(
    p: Prediction, arm: str, suffix: str, fields: Sequence[str], row: int, number: float
) -> str | None:
    """The line's formula in the cells of this column and of its other end; None for a constant."""
    line = next(each for each in _LINES if each.field == fields[row])
    if line.field == "tokens_per_second" and not p.endpoint.batch_held:
        return None
    text = _needed(p, arm, suffix, number) if line.field == "needed" else line.formula
    drafts = arm == "speculative" and p.gamma
    gpus = "({tensor_parallel}+{draft_gpus})" if drafts else "{tensor_parallel}"
    cells = {"ARM": f"{arm}{suffix}", "OTHER": f"{arm}{_OTHER[suffix]}"}

    def cell(found: re.Match[str]) -> str:
        up = row - fields.index(found[2])
        return f"{{{cells.get(found[1], found[1])}^{up if up > 1 else ''}}}"

    return re.sub(r"\{(\w+)@(\w+)\}", cell, text.replace("GPUS", gpus))


def _needed(p: Prediction, arm: str, suffix: str, number: float) -> str:
    """Replicas that carry what is to be served, of which `number` is the value. As many as run it
    now say it by what they carry without speculation: both arms are then open together, and with
    hardware an end keeps its share of their number."""
    s, line = p.scenario, "DEMAND/((1-{headroom})*{OTHER@tokens_per_second})"
    if s.replicas is None:
        given = [form for name, form in _DEMANDS.items() if getattr(s, name) is not None]
        return line.replace("DEMAND", given[0])
    if arm == "plain":
        return "{replicas}"
    ratio = "{replicas}*{plain@tokens_per_second}/"
    if not suffix or p.endpoint.pair is None:
        return f"{ratio}{{OTHER@tokens_per_second}}"
    bound = least if suffix == "_low" else greatest
    return bound(
        f"({{replicas}}*{number / s.replicas!r})", f"({ratio}{{speculative@tokens_per_second}})"
    )


def _tpot_formula(halves: Halves, arm: str, suffix: str) -> str | None:
    """The time per token; with hardware its ends are constants, or what τ makes of them."""
    p = halves.p
    if arm == "plain":
        return "{plain_ms}" if not suffix or p.endpoint.pair is None else None
    centre = "{plain_ms}/{speedup_at_gamma}"
    if not suffix:
        return centre
    if p.endpoint.pair is None:
        return f"{{plain_ms}}/{{speedup_at_gamma{_OTHER[suffix]}}}"
    number = None if p.tpot is None else (p.tpot.low if suffix == "_low" else p.tpot.high)
    if not halves.tokens.live or number is None:
        return None
    end = halves.tokens.end(_OTHER[suffix])
    tokens = float(halves.tokens.whole(end).tokens_per_step(p.gamma))
    bound = least if suffix == "_low" else greatest
    return bound(f"({number * 1e3 * tokens!r}/{{tokens_per_step_at_gamma{end}}})", f"({centre})")


def _change_column(
    plain: Sequence[Estimate], ours: Sequence[Estimate], lines: Sequence[_Line],
    end: tuple[str, str, str], *, joint: bool,
) -> Column:  # fmt: skip
    """After less before; `joint`: both are open together."""
    of, suffix, words = end
    values = []
    for before, after, line in zip(plain, ours, lines, strict=True):
        change = after.with_(before, sub)
        known = not suffix or before.points is None or not joint
        value = getattr(change, of) if known else None
        values.append(value if value is None else line.write(value))
    label, text = f"Change{words}", f"{{speculative{suffix}}}-{{plain}}"
    formats = tuple(line.format for line in lines)
    formulas = tuple(None if value is None else text for value in values)
    return Column(f"change{suffix}", label, "", label, tuple(values), formulas, formats=formats)
