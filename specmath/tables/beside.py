"""Plain decoding beside speculation and the change: what γ does, and the bill in whole replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import sub

from specmath.bill import Bill, Fleet, bill, output_share
from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.predict import Prediction
from specmath.tables.inputs import greatest, least, money_cells, plain_cells, reachable
from specmath.tables.live import Halves
from specmath.tables.table import Column, Input, Table

__all__ = ["bill_table", "numbers_table"]


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
    """Time per token, cost, speed and arithmetic at the γ in use; a request's times where known."""
    one = Estimate(1.0)
    plain_ms, ms = (t and t.map(lambda seconds: seconds * 1e3) for t in (p.tpot_plain, p.tpot))
    rows = [
        _Quantity("Time per token", "ms", plain_ms, ms, _percent(p.tpot, p.tpot_plain)),
        *_throughputs(p),
        _Quantity("Cost per 1M tokens", "USD", p.usd_plain, p.usd, _percent(p.usd, p.usd_plain)),
        *_per_dollar(p),
        _Quantity("Speed", "×", one, p.speedup, _percent(p.speedup, one)),
        _Quantity("Arithmetic per token", "×", one, p.operations, _percent(p.operations, one)),
    ]
    least = "" if p.scenario.ttft_ms is not None else ", at least"
    times = {f"Time to first token{least}": p.first_token, "Whole request": p.whole_request}
    for label, both in times.items():
        if both is not None:
            before, after = (t.map(lambda seconds: seconds * 1e3) for t in both)
            rows.append(_Quantity(label, "ms", before, after, _percent(after, before)))
    return _beside(f"What γ={p.gamma} does", "numbers", rows, "change_percent", "%")


def _throughputs(p: Prediction) -> list[_Quantity]:
    """Output tokens a second that one user sees, 1/TPOT, and that one GPU gives; the second where
    the load is known from hardware."""
    if p.tpot is None or p.tpot_plain is None:
        return []
    plain, ours = (each.map(lambda seconds: 1.0 / seconds) for each in (p.tpot_plain, p.tpot))
    found = [_Quantity("Tokens/s per user", "tokens/s", plain, ours, _percent(ours, plain))]
    if p.endpoint.pair is not None:
        s, at = p.scenario, p.endpoint.throughput
        gpus = s.tensor_parallel + (s.draft_gpus if p.gamma else 0)
        before = p.tpot_plain.map(lambda seconds: at(seconds, 0) / s.tensor_parallel)
        after = p.tpot.map(lambda seconds: at(seconds, p.gamma) / gpus)
        found.append(
            _Quantity("Tokens/s per GPU", "tokens/s", before, after, _percent(after, before))
        )
    return found


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
    _Line("tokens_per_second", "One replica", "tokens/s", "#,##0.0", "{batch}*1000/{OTHER^}"),
    _Line("needed", "Replicas, before rounding up", "", "#,##0.00",
          "{demand_tokens_per_second}/{OTHER^}"),
    _Line("replicas", "Replicas", "", "#,##0", "⌈{ARM^}⌉", write=round),
    _Line("usd_per_month", "Bill a month (730 h)", "USD", "#,##0",
          "{ARM^}*GPUS*{usd_per_hour}*730"),
    _Line("usd_per_million", "Cost per 1M output tokens", "USD", "0.000",
          "GPUS*{usd_per_hour}/3600*1000000/{OTHER^4}"),
    _Line("tokens_per_dollar", "Output tokens per $1", "", "#,##0", "1000000/{OTHER^}"),
    _Line("usd_per_million_total", "Cost per 1M tokens, prompts too", "USD", "0.000",
          "{ARM^2}*{output_share}"),
)  # fmt: skip


def bill_table(p: Prediction) -> Table:
    """The bill in whole replicas, plain and with speculation, and the change, each in its unit.

    Live in the file: price and demand, and all that the throughput follows from. The change has
    ends where plain decoding has none: else both are open together, which no cell tells.

    Raises
    ------
    InputError
        The demand, the price or the target's time is unknown.

    Examples
    --------
    >>> from specmath import Scenario, predict
    >>> priced = Scenario(alpha=0.8, c=0.1, gamma=4, target_ms=40, batch=8,
    ...                   demand_tokens_per_second=2000)
    >>> bill_table(predict(priced)).column("speculative").values[3]
    5
    """
    found = bill(p)
    if found is None:
        asked = "demand_tokens_per_second, usd_per_hour and target_ms"
        raise InputError(f"the bill needs {asked}, got nothing for one of them")
    lines = [line for line in _LINES if getattr(found.plain, line.field) is not None]
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
    for arm, fleet in (("plain", found.plain), ("speculative", found.speculative)):
        numbers = [_scaled(fleet, line) for line in lines]
        columns += [_arm_column(halves, arm, numbers, lines, end) for end in _ENDS]
    joint = p.endpoint.pair is not None
    columns += [_change_column(found, lines, end, joint=joint) for end in _ENDS]
    inputs = [
        *halves.cells(),
        *plain_cells(p),
        *money_cells(p, _MONEY),
    ]
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


_MONEY = ("batch", "tensor_parallel", "draft_gpus", "usd_per_hour", "demand_tokens_per_second")


def _scaled(fleet: Fleet, line: _Line) -> Estimate:
    number: Estimate = getattr(fleet, line.field)
    return number.map(lambda each: each * line.scale)


def _arm_column(
    halves: Halves, arm: str, numbers: Sequence[Estimate], lines: Sequence[_Line],
    end: tuple[str, str, str],
) -> Column:  # fmt: skip
    of, suffix, words = end
    p = halves.p
    held = p.endpoint.load is None or p.endpoint.load.requests.batch is not None
    values: list[float | None] = []
    live: list[str | None] = []
    for number, line in zip(numbers, lines, strict=True):
        value = getattr(number, of)
        values.append(value if value is None else line.write(value))
        if value is None:
            live.append(None)
        elif line.field == "tpot":
            live.append(_tpot_formula(halves, arm, suffix))
        elif line.field == "tokens_per_second" and not held:
            live.append(None)
        else:
            own, other = f"{arm}{suffix}", f"{arm}{_OTHER[suffix]}"
            drafts = arm == "speculative" and p.gamma
            gpus = "({tensor_parallel}+{draft_gpus})" if drafts else "{tensor_parallel}"
            text = line.formula.replace("GPUS", gpus)
            live.append(text.replace("{ARM", f"{{{own}").replace("{OTHER", f"{{{other}"))
    label = f"{arm.capitalize()}{words}"
    formats = tuple(line.format for line in lines)
    return Column(f"{arm}{suffix}", label, "", label, tuple(values), tuple(live), formats=formats)


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
    found: Bill, lines: Sequence[_Line], end: tuple[str, str, str], *, joint: bool
) -> Column:
    """After less before; `joint`: both are open together."""
    of, suffix, words = end
    values = []
    for line in lines:
        before, after = _scaled(found.plain, line), _scaled(found.speculative, line)
        change = after.with_(before, sub)
        known = not suffix or before.points is None or not joint
        value = getattr(change, of) if known else None
        values.append(value if value is None else line.write(value))
    label, text = f"Change{words}", f"{{speculative{suffix}}}-{{plain}}"
    formats = tuple(line.format for line in lines)
    formulas = tuple(None if value is None else text for value in values)
    return Column(f"change{suffix}", label, "", label, tuple(values), formulas, formats=formats)
