"""Tables of a reading: what was read, survival by position, windows over time, each γ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specmath.logs.estimate import Ends, survival_ends, window_ends
from specmath.logs.reading import Reading
from specmath.review.before_after import Review
from specmath.review.drift_causes import Comparison
from specmath.review.gammas import From, gamma_rows
from specmath.review.into_scenario import Shape
from specmath.scenario.endpoint import Endpoint
from specmath.tables.columns import of_rows
from specmath.tables.table import Cell, Column, Table
from specmath.words.drift import measure_words
from specmath.words.review import basis_of

__all__ = [
    "drift_table",
    "facts_table",
    "gammas_table",
    "reading_table",
    "review_table",
    "survival_table",
    "windows_table",
]


_READ = {
    "Steps with a draft": "steps",
    "Tokens drafted": "drafted",
    "Tokens accepted": "accepted",
    "Accepted ÷ drafted": "accepted_share",
    "Tokens per step, bonus included": "tokens_per_step",
    "Tokens per pass, drafted or not": "tokens_per_pass",
    "γ": "gamma",
    "α": "alpha",
    "α, low end": "low",
    "α, high end": "high",
    "Coverage: share of steps with a draft": "coverage",
    "Windows": "windows",
    "Requests": "requests",
    "Requests, tokens per step: 10% below": "p10",
    "Requests, tokens per step: 10% above": "p90",
    "Drafting, ms a step": "draft_ms",
    "c": "c",
}
"""What a reading tells, and where it stands."""


def reading_table(reading: Reading) -> Table | None:
    """The counts and rates, one a row, without what the log does not tell; None of a plain run."""
    low, high = reading.alpha_interval or (None, None)
    requests, seconds = reading.requests, reading.draft_seconds
    spread = requests if requests and requests.measure == "tokens_per_step" else None
    printed = reading.fact("accepted_share")
    share = printed if isinstance(printed, float) else None
    derived: dict[str, float | None] = {
        "accepted_share": share if reading.accepted_share is None else reading.accepted_share,
        "low": low,
        "high": high,
        "windows": len(reading.windows) or None,
        "requests": requests.count if requests else None,
        "p10": spread.p10 if spread else None,
        "p90": spread.p90 if spread else None,
        "draft_ms": None if seconds is None else seconds * 1e3,
    }
    told = {
        what: value
        for what, of in _READ.items()
        if (value := derived[of] if of in derived else getattr(reading, of)) is not None
    }
    from_counts = "α, its ends and shares: computed from the counts"
    says = "As read or counted"
    return _named("What was read", "log_read", says, told, from_counts) if told else None


def facts_table(reading: Reading) -> Table | None:
    """What else the log prints, under its own names; None where it prints nothing more."""
    facts = {name: value for name, value in reading.facts if name != "date"}
    return _named("What else is printed", "log_facts", "As printed", facts) if facts else None


def _named(
    title: str, name: str, says: str, values: Mapping[str, float | str], source: str = ""
) -> Table:
    what = Column("what", title, "", "Name of the number", tuple(values))
    each = tuple(values.values())
    number = Column("value", "Value", "", says, each, basis="measured", source=source)
    return Table(title, name, (what, number))


def survival_table(reading: Reading) -> Table | None:
    """Position, survival with its interval, conditional rate; None where there are no positions."""
    if not reading.survival:
        return None
    positions = tuple(range(1, len(reading.survival) + 1))
    rates = (*(reading.conditional or ()), *(None,) * len(positions))[: len(positions)]
    columns = (
        _measured("position", "Position", "Of the drafted token, first is 1", positions, "0"),
        _measured("survival", "Survival", "P(at least this many drafted tokens accepted)",
                  reading.survival),
        *_ends("survival", *survival_ends(reading), len(positions)),
        Column("conditional", "Conditional rate", "", "P(accepted | all before it were)", rates,
               format="0.000", source="From the survival"),
    )  # fmt: skip
    return Table("Survival by position", "log_survival", columns)


_WINDOWS = {
    "line": ("Line", "", "Where it stands in the log", "0"),
    "time": ("Time", "", "As printed", "", "when"),
    "steps": ("Steps", "", "Verify steps with a draft", "#,##0"),
    "tokens_per_step": ("Tokens per step", "", "Bonus or correction token included", "0.000"),
}


def windows_table(reading: Reading) -> Table | None:
    """One row a window that tells its tokens per step; None where there are not two of them."""
    rows = [w for w in reading.windows if w.tokens_per_step is not None]
    if len(rows) < 2:
        return None
    ends = _ends("tokens_per_step", *window_ends(reading), len(rows))
    columns = (*of_rows(rows, _WINDOWS, "measured"), *ends)
    return Table("Windows over time", "log_windows", columns)


def _ends(name: str, ends: Ends, basis: str, rows: int) -> list[Column]:
    low, high = ends or ((None,) * rows,) * 2
    return [
        _measured(f"{name}_low", "Low", basis, low),
        _measured(f"{name}_high", "High", basis, high),
    ]


def _measured(
    name: str, label: str, says: str, values: Iterable[Cell], format: str = "0.000"
) -> Column:
    return Column(name, label, "", says, tuple(values), format=format, basis="measured")


FROM: dict[From, str] = {
    "plain": "plain decoding",
    "measured": "measured",
    "printed": "the file's own row",
    "cut": "rates cut",
    "extrapolated": "extrapolated",
    "iid": "as if i.i.d.",
}


def gammas_table(reading: Reading, endpoint: Endpoint, stated: Shape | None = None) -> Table:
    """Over γ: where each row comes from, tokens and cost of a pass, speedup with its ends."""
    rows = gamma_rows(reading, endpoint, stated)
    a_pass = "pass" if endpoint.speculation.coverage < 1 else "step"
    numbers = {
        "tokens_per_step": (f"Tokens per {a_pass}", "", "tokens_per_pass"),
        "step_cost": (f"{a_pass.capitalize()} cost", "plain steps", "step_cost"),
        "walltime_improvement": ("Speedup", "×", "speedup"),
        "walltime_improvement_low": ("Speedup, low", "×", "low"),
        "walltime_improvement_high": ("Speedup, high", "×", "high"),
    }
    shown = {name: (says, unit, says, "0.00", of) for name, (says, unit, of) in numbers.items()}
    source = tuple(FROM[row.source] for row in rows)
    columns = (
        *of_rows(rows, {"gamma": ("γ", "", "Drafted tokens a step", "0")}),
        Column("basis", "From", "", "Where the row comes from", source),
        *of_rows(rows, shown),
    )
    return Table("What this log says of each γ", "log_gamma", columns)


_REVIEW = {
    "value": ("Value", "", "AFTER against BEFORE", "0.00"),
    "low": ("Low", "", "Low end", "0.00"),
    "high": ("High", "", "High end", "0.00"),
}


def review_table(found: Review) -> Table | None:
    """Predicted, observed and observed against predicted, with their intervals; None of neither."""
    percent = found.difference and found.difference.map(lambda share: share * 100.0)
    request = None if found.request is found.observed else found.request
    rows = [
        (what, number, unit)
        for what, number, unit in (
            ("Predicted speedup", found.predicted, "×"),
            ("Observed speedup", found.observed, "×"),
            ("Observed speedup of one request", request, "×"),
            ("Modelled from tokens per step", found.modelled, "×"),
            ("Observed against predicted", percent, "%"),
        )
        if number is not None
    ]
    if not rows:
        return None
    what, numbers, units = zip(*rows, strict=True)
    value, low, high = of_rows(numbers, _REVIEW)
    says, spans = "Where it comes from and what the interval spans", map(basis_of, numbers)
    columns = (
        Column("what", "", "", "What is compared", what),
        value,
        Column("unit", "Unit", "", "Of value, low and high", units),
        low,
        high,
        Column("basis", "From", "", says, tuple(spans)),
    )
    return Table("Predicted beside observed", "review", columns)


def drift_table(pair: Comparison) -> Table:
    """Before and since the fall: the measure, time and cost of a token where they are known."""
    found, cost = pair.found, pair.cost
    name = measure_words(found)
    rows = [(f"{name[0].upper()}{name[1:]}", found.before, found.after)]
    if cost is not None and cost.seconds_before is not None and cost.seconds_after is not None:
        rows.append(("Time per token, ms", cost.seconds_before * 1e3, cost.seconds_after * 1e3))
    if cost is not None and cost.usd_before is not None and cost.usd_after is not None:
        rows.append(("Cost per million tokens, USD", cost.usd_before, cost.usd_after))
    what, before, after = zip(*rows, strict=True)
    then = "Since the fall" if found.later is None else "During the fall"
    return Table(
        "Before and since",
        "drift",
        (
            Column("what", "", "", "What is compared", what),
            Column("before", "Before", "", "Mean of the baseline", before),
            Column("after", then, "", "Mean over the fall", after),
            Column("change_percent", "Change", "%", "100 × (after ÷ before − 1)",
                   tuple(100.0 * (new / old - 1.0) if old else None for _, old, new in rows),
                   ("100*({after}/{before}-1)",) * len(rows), format="0.0"),
        ),
    )  # fmt: skip
