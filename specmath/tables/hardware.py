"""Tables over batch, of drafters on the hardware, and of candidate drafts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from specmath.drafts import Outcome, evaluate, published_t5
from specmath.frontier import frontier
from specmath.load import load_study
from specmath.options import Options, options
from specmath.predict import Prediction
from specmath.serving.memory import GIB
from specmath.tables.columns import COLUMNS, DILUTED, column, columns_of, ends_of
from specmath.tables.inputs import fixed, money_cells, reachable
from specmath.tables.table import Chart, Column, Table, shown
from specmath.words.load import LOADS
from specmath.words.options import evidence_words, named_words, target_words

__all__ = [
    "batch_table",
    "drafters_table",
    "drafts_table",
    "essential",
    "example_table",
    "in_words",
    "load_table",
    "options_table",
]


_PLAIN_MS = "{plain_step_ms}*(1+{plain_waiting})"
_LIVE_BATCH = {
    "step_cost": "{speculative_step_ms}/{plain_step_ms}",
    "walltime_improvement": DILUTED,
    "tokens_per_second": f"{{batch}}*{{walltime_improvement}}*1000/({_PLAIN_MS})",
    "usd_per_million_tokens_plain": f"{{tensor_parallel}}*{{usd_per_hour}}/3600*1000*{_PLAIN_MS}"
    "/{batch}",
    "usd_per_million_tokens": "({tensor_parallel}+{draft_gpus})*{usd_per_hour}/3600*1000"
    f"*{_PLAIN_MS}/{{walltime_improvement}}/{{batch}}",
}


def batch_table(prediction: Prediction) -> Table:
    """One row a batch at the scenario's context and γ; step times and what follows from them are
    fixed in the file, the price is live."""
    study, s = load_study(prediction.endpoint), prediction.scenario
    plain, cost = study.plain_seconds, study.cost_at_gamma
    tokens = float(prediction.speculation.acceptance.tokens_per_step(study.gamma))
    best = study.recommended_gamma[:, study.own]
    tpot_plain, speedup = study.tpot_plain[:, study.own], study.at_gamma[:, study.own]
    low, high = (end[:, study.own] for end in study.ends)
    values: dict[str, Any] = {
        "batch": study.batches,
        "plain_step_ms": plain * 1e3,
        "speculative_step_ms": cost * plain * 1e3,
        "step_cost": cost,
        "plain_waiting": study.waiting[:, study.own, 0],
        "waiting": study.waiting[:, study.own, min(study.gamma, 1)],
        "walltime_improvement": speedup,
        "walltime_improvement_low": low,
        "walltime_improvement_high": high,
        "recommended_gamma": best,
        "recommended_speedup": study.speedup[np.arange(len(best)), study.own, best],
        "tokens_per_second": study.batches * speedup / tpot_plain,
    }
    inputs = [fixed("tokens_per_step", tokens)]
    if s.usd_per_hour is not None:
        each_hour = s.usd_per_hour / 3600 * 1e6
        gpus = s.tensor_parallel + s.draft_gpus * (study.gamma > 0)
        values |= {
            "usd_per_million_tokens_plain": s.tensor_parallel
            * each_hour
            * tpot_plain
            / study.batches,
            "usd_per_million_tokens": gpus * each_hour * tpot_plain / speedup / study.batches,
        }
        inputs += money_cells(prediction, ("tensor_parallel", "draft_gpus", "usd_per_hour"))
    values["fits_memory"] = np.where(study.fits[:, study.own], "yes", "no")
    chart = Chart("batch", ("walltime_improvement",), "× plain decoding")
    columns = columns_of(values, _LIVE_BATCH)
    inputs_used = reachable(columns, inputs)
    return Table("Speculation over batch", "batch", columns, inputs_used, chart)


_LOAD_HELP = "Concurrency, batch or requests a second, as the scenario says its load"
_BOTH_ARMS = (
    ("tokens_per_second_user", "Tok/s per user", "tokens/s", "1 / time per token", "0.0"),
    ("tokens_per_second_gpu", "Tok/s per GPU", "tokens/s", "Output of a replica over its GPUs",
     "#,##0.0"),
    ("usd_per_million_tokens", "Cost per 1M output tokens", "USD", "GPUs × price over their output",
     "0.000"),
)  # fmt: skip
"""Of both arms at each load, plain first: name, label, unit, meaning, format."""


def load_table(prediction: Prediction) -> Table:
    """One row a load at the γ in use: throughput, latency and cost in both arms, with their ends;
    computed, not live."""
    found, price = frontier(prediction.endpoint), prediction.scenario.usd_per_hour
    points, name = found.points, LOADS[found.loop]
    loads = [p.load if found.loop == "open" else int(p.load) for p in points]
    columns = [Column("load", name.capitalize(), "", _LOAD_HELP, tuple(loads), basis="assumed")]
    speedup = ("walltime_improvement", "Speedup", "×", f"At γ={found.gamma}", "0.000")
    columns += ends_of(speedup, [p.speedup if p.carried else None for p in points])
    arms = {"user": [p.user for p in points], "gpu": [p.gpu for p in points]}
    if price is not None:
        arms["usd"] = [p.usd(price) for p in points]
    for said, each in zip(_BOTH_ARMS, arms.values(), strict=False):
        label, definition = said[1], said[3]
        plain = (f"{said[0]}_plain", f"{label}, plain", said[2], definition, said[4])
        columns += ends_of(plain, [both[0] for both in each])
        ours = [both[1] if p.carried else None for p, both in zip(points, each, strict=True)]
        columns += ends_of(said, ours)
    fits = COLUMNS["fits_memory"]
    held = tuple("yes" if p.fits else "no" for p in points)
    columns.append(Column("fits_memory", fits.label, "", fits.definition, held))
    return Table("Throughput and latency in both arms", "load", tuple(columns))


# ── drafts on the hardware ───────────────────────────────────────────────────────────────────


_OPTIONS = {
    "best_speedup": "speedup.value", "best_gamma": "best_gamma",
    "best_step_cost": "best_step_cost", "memory_gib": "memory", "c": "pair.c",
    "coverage": "pair.share", "gamma": "gamma", "breakeven_alpha": "breakeven_alpha",
}  # fmt: skip
"""Columns, and where an option holds each."""

_OF_AN_OPTION = {
    "draft": "Name of the draft, or of its kind",
    "breakeven_alpha": "Least i.i.d. α that is no slower at this γ",
    "alpha": "Yours as given; of every other the middle of what others measured of its kind at "
    "this work; empty: nobody did",
    "alpha_low": "Low end of that",
    "alpha_high": "High end of that",
    "best_gamma": "The γ recommended: smallest within 2% of the best that pays",
    "best_speedup": "There, at its own acceptance; empty where nobody measured one",
    "usd_per_million_tokens": "There: GPUs × price of an hour / tokens of an hour",
}

ESSENTIAL = (
    "draft", "best_speedup", "best_gamma", "alpha", "usd_per_million_tokens", "memory_gib",
    "best_step_cost", "for_target",
)  # fmt: skip
"""What a page and a terminal are wide enough for, the most telling first."""


_SHORT = {
    "best_speedup": ("Speedup", "×", "0.00"),
    "best_speedup_low": ("Speedup, low", "×", "0.00"),
    "best_speedup_high": ("Speedup, high", "×", "0.00"),
    "best_gamma": ("at γ", "", "0"),
    "usd_per_million_tokens": ("Per M tokens", "USD", "0.00"),
    "usd_per_million_tokens_low": ("Per M tokens, low", "USD", "0.00"),
    "usd_per_million_tokens_high": ("Per M tokens, high", "USD", "0.00"),
    "best_step_cost": ("Step cost", "steps", "0.00"),
}
"""Heads as narrow as their columns."""


def _narrow(c: Column) -> Column:
    label, unit, format = _SHORT.get(c.name, (c.label, c.unit, c.format))
    return replace(c, label=label, unit=unit, format=format)


def drafters_table(prediction: Prediction) -> Table:
    """One row a draft that the target can have; computed, not live."""
    return options_table(options(prediction.endpoint))


def options_table(found: Options) -> Table:
    """One row a draft at the scenario's load, the best first; computed, not live."""
    rows = found.rows
    values: dict[str, Any] = {
        name: [attrgetter(of)(row) for row in rows] for name, of in _OPTIONS.items()
    }
    for name in ("best_speedup", "best_gamma", "best_step_cost"):
        values[name] = [
            value if row.known else None for value, row in zip(values[name], rows, strict=True)
        ]
    values["draft"] = list(map(named_words, rows))
    values["memory_gib"] = [row.memory / GIB for row in rows]
    low, middle, high = _ends([row.alphas if row.known else None for row in rows])
    values |= {"alpha": middle, "alpha_low": low, "alpha_high": high}
    speeds = [(row.ends[0], None, row.ends[1]) if row.known else None for row in rows]
    values["best_speedup_low"], _, values["best_speedup_high"] = _ends(speeds)
    least = [row.least or (None, None) for row in rows]
    values["least_alpha"], values["least_alpha_gamma"] = map(list, zip(*least, strict=True))
    values["evidence"] = list(map(evidence_words, rows))
    values["for_target"] = list(map(target_words, rows))
    money = [row.usd if row.known else None for row in rows]
    ends = [None if usd is None else (usd.low, usd.value, usd.high) for usd in money]
    columns = [
        *columns_of(values, {}, _OF_AN_OPTION),
        *(
            column("usd_per_million_tokens", each, suffix=suffix,
                   definition=_OF_AN_OPTION["usd_per_million_tokens"])
            for suffix, each in zip(("_low", "", "_high"), _ends(ends), strict=True)
        ),
    ]  # fmt: skip
    order = {name: place for place, name in enumerate(ESSENTIAL)}
    columns = [_narrow(c) for c in columns]
    columns.sort(key=lambda c: order.get(re.sub("_(low|high)$", "", c.name), len(order)))
    return Table("Drafts for this target on this hardware", "drafters", tuple(columns))


def _ends(each: Sequence[tuple[Any, Any, Any] | None]) -> tuple[list[Any], list[Any], list[Any]]:
    """Low ends, middles and high ends; None where unknown."""
    low, middle, high = zip(*(ends or (None,) * 3 for ends in each), strict=True)
    return list(low), list(middle), list(high)


def essential(table: Table) -> Table:
    """The columns of `ESSENTIAL`, with their ends."""
    kept = {f"{name}{end}" for name in ESSENTIAL for end in ("", "_low", "_high")}
    return Table(table.title, table.name, tuple(c for c in table.columns if c.name in kept))


def in_words(table: Table) -> list[dict[str, str]]:
    """The rows as a terminal shows them: a value with its ends in one cell."""
    columns = {c.name: c for c in table.columns}
    kept = [c for c in table.columns if not c.name.endswith(("_low", "_high"))]

    def cell(c: Column, row: int) -> str:
        ends = [columns.get(f"{c.name}{end}") for end in ("_low", "_high")]
        if c.values[row] is None:
            return "not known"
        value, *span = (shown(e.values[row], e.format) for e in (c, *ends) if e is not None)
        return f"{value} ({' to '.join(span)})" if any(span) and {*span} != {value} else value

    heads = {f"{c.label} ({c.unit})" if c.unit else c.label: c for c in kept}
    return [{head: cell(c, row) for head, c in heads.items()} for row in range(len(table))]


# ── candidate drafts ──────────────────────────────────────────────────────────────────────────────


LONGEST_SUM = 200
"""Terms of τ that fit one cell, with room for long references."""

_CANDIDATES = {
    "draft": "candidate.draft", "alpha": "candidate.alpha", "c": "candidate.c",
    "gamma": "candidate.gamma", "tokens_per_step": "predicted",
    "walltime_improvement": "predicted", "measured_speedup": "candidate.measured_speedup",
    "miss_percent": "miss", "implied_c": "implied_c", "best_gamma": "best_gamma",
    "best_speedup": "best_speedup",
}  # fmt: skip
"""The columns, and what of an outcome makes each."""

_LIVE = {
    "walltime_improvement": "{tokens_per_step}/({gamma}*{c}+1)",
    "miss_percent": "100*({walltime_improvement}/{measured_speedup}-1)",
    "implied_c": "({tokens_per_step}/{measured_speedup}-1)/{gamma}",
}


def drafts_table(outcomes: Sequence[Outcome], cost_words: str = "") -> Table:
    """One row a draft; live in α, c and γ up to the largest γ of the table.

    The speedup at the γ given is Theorem 3.8; `cost_words` tells the step cost at which the best γ
    was searched where that is another.

    τ is written as the sum 1 + Σ α^i (γ ≥ i): at α=0 no term is 0⁰, and γ may be changed too.
    A table with a γ above 200 gives τ as values only: a cell holds 8,192 characters of formula.
    """
    values: dict[str, Any] = {
        name: [attrgetter(of)(outcome) for outcome in outcomes] for name, of in _CANDIDATES.items()
    }
    values["tokens_per_step"] = [
        o.predicted * (1 + o.candidate.gamma * o.candidate.c) for o in outcomes
    ]
    values["miss_percent"] = [None if o.miss is None else 100 * o.miss for o in outcomes]
    # To 16 at least, so that γ can be raised in the file.
    most = max(16, *values["gamma"])
    terms = "".join(f"+{{alpha}}^{i}*({{gamma}}>={i})" for i in range(1, most + 1))
    live = _LIVE if most > LONGEST_SUM else _LIVE | {"tokens_per_step": f"1{terms}"}
    where = f"At your verification cost: {cost_words}" if cost_words else "Memory-bound"
    definitions = {
        "walltime_improvement": "Theorem 3.8 at this γ: memory-bound",
        "best_gamma": f"Fastest γ up to the largest considered. {where}; not live",
        "best_speedup": f"tokens_per_step / step_cost at the best γ. {where}; not live",
    }
    columns = tuple(
        replace(
            c,
            editable=c.name in ("alpha", "c", "gamma", "measured_speedup"),
            basis="measured" if c.name == "measured_speedup" else c.basis,
        )
        for c in columns_of(values, live, definitions)
    )
    return Table("Candidate drafts: predicted beside measured", "drafts", columns)


def example_table() -> Table:
    """The published T5 drafts: one row each, as `drafts_table` has them, memory-bound."""
    shown = drafts_table(evaluate(published_t5()))
    columns = tuple(
        replace(c, basis="published") if c.name == "measured_speedup" else c for c in shown.columns
    )
    return Table("Published T5 drafts: predicted beside measured", "t5", columns)
