"""One definition of every output column: its label, unit, meaning, number format and basis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from specmath.estimate import Estimate
from specmath.scenario import SPECS
from specmath.tables.table import Basis, Column

__all__ = [
    "COLUMNS", "DILUTED", "SPEEDUP", "Meaning", "column", "columns_of", "ends_of",
    "mixed_draft", "of_rows",
]  # fmt: skip


SPEEDUP = "{tokens_per_step}/{step_cost}"
"""The one ratio, as a live formula."""

DILUTED = "(1+{plain_waiting})*{tokens_per_step}/({step_cost}+{tokens_per_step}*{waiting})"
"""The same where other requests' prompts take their share of every token."""


Values = Sequence[Any] | np.ndarray
Formulas = Sequence[str | None] | str


class Meaning(NamedTuple):
    """What a column says, wherever it stands."""

    label: str
    unit: str
    definition: str
    format: str
    basis: Basis


_FIELDS = {
    "alpha": "0.00",
    "alpha_low": "0.00",
    "alpha_high": "0.00",
    "gamma": "0",
    "c": "0.0000",
    "sigma": "0.00",
    "coverage": "0.00",
}
"""Number formats of the columns that are fields of the scenario."""

_OTHERS = {
    "survival": ("Survival", "",
        "P(at least the first γ drafted tokens of a step are accepted)", "0.000"),
    "conditional": ("Conditional rate", "", "P(token accepted | all before it were)", "0.000"),
    "tokens_per_step": ("Tokens per step", "",
        "Emitted a step, bonus or correction token included: Σ survival", "0.000"),
    "verify_cost": ("Verification v", "plain steps",
        "Scoring γ+1 tokens against 1: 1 + sigma × gamma", "0.000"),
    "draft_cost": ("Drafting and overhead", "plain steps",
        "gamma × ((1 − sigma) × c + sigma × c_hat), and the overhead where gamma ≥ 1", "0.000"),
    "step_cost": ("Step cost", "plain steps",
        "Verification, drafting and overhead of one speculative step", "0.000"),
    "plain_waiting": ("Prompts, plain", "plain steps",
        "What other requests' prompts take of each token without speculation", "0.000"),
    "waiting": ("Prompts", "plain steps",
        "What other requests' prompts take of each token with speculation", "0.000"),
    "walltime_improvement": ("Speedup", "×",
        "tokens_per_step / step_cost; below 1 is slower than plain decoding", "0.000"),
    "walltime_improvement_low": ("Speedup, low", "×",
        "At the worst end of what is unknown", "0.000"),
    "walltime_improvement_high": ("Speedup, high", "×",
        "At the best end of what is unknown", "0.000"),
    "corner": ("Speedup, corner", "×",
        "At one combination of the ends of what is unknown", "0.000"),
    "operations_increase": ("Arithmetic per token", "×",
        "Arithmetic operations per output token against plain decoding (Theorem 3.11)", "0.000"),
    "expected_cost": ("Step cost, expected", "plain steps",
        "Before the measured run says what a step takes", "0.000"),
    "tpot_ms": ("Time per token", "ms", "Mean time per output token: target / speedup", "0.00"),
    "usd_per_million_tokens": ("Cost per million tokens", "USD",
        "GPUs × price of an hour / 3600 s / output tokens a second of a replica × a million",
        "0.000"),
    "slope": ("σ", "", "(v − 1) / γ of that regime: 0 memory-bound, 1 compute-bound", "0.00"),
    "regime": ("Regime", "", "How verification is billed", ""),
    "cost_change_percent": ("Change of cost", "%",
        "100 × (GPUs with speculation / GPUs without / speedup − 1)", "0"),
    "crossover_gamma": ("Crossover γ", "tokens",
        "First γ ≥ 1 with operations increase ≥ walltime improvement, memory-bound; empty: none "
        "to 10,000", "0"),
    "speedup_before": ("Speedup just before", "×",
        "Theorem 3.8, one γ below the crossover", "0.000"),
    "operations_before": ("Arithmetic just before", "×",
        "Theorem 3.11, one γ below the crossover", "0.000"),
    "best_gamma": ("Best γ", "tokens", "Fastest γ up to the largest considered", "0"),
    "best_speedup": ("Speedup at best γ", "×", "tokens_per_step / step_cost there", "0.000"),
    "best_speedup_low": ("Speedup at best γ, low", "×",
        "At the worst end of what is unknown", "0.000"),
    "best_speedup_high": ("Speedup at best γ, high", "×",
        "At the best end of what is unknown", "0.000"),
    "best_step_cost": ("Step cost", "plain steps",
        "Verification, drafting and overhead of one step at the best γ", "0.00"),
    "memory_gib": ("Memory", "GiB",
        "What the draft adds on its fullest GPU: weights, and cache for the batch", "0.0"),
    "for_target": ("For your model", "",
        "Whether there is one for this target, and what the engine makes of it", ""),
    "evidence": ("Acceptance from", "", "Given, measured by so many others, or by nobody", ""),
    "recommended_gamma": ("Recommended γ", "tokens",
        "Smallest γ within 2% of the fastest; 0 where none is faster than plain decoding", "0"),
    "recommended_speedup": ("Speedup at recommended γ", "×",
        "tokens_per_step / step_cost there", "0.000"),
    "speedup_at_gamma": ("Speedup at this γ", "×", "At the γ of the scenario", "0.000"),
    "breakeven_alpha": ("Break-even α", "",
        "Least i.i.d. α that is no slower at the γ in use; empty: none exists", "0.000"),
    "least_alpha": ("Least α at any γ to 8", "",
        "The smallest break-even α over γ = 1 … 8; empty: none", "0.000"),
    "least_alpha_gamma": ("at γ", "tokens", "Where that is", "0"),
    "batch": ("Batch", "", "Sequences decoded together by one replica", "0"),
    "fits_memory": ("Fits memory", "",
        "Whether memory holds so many sequences of the context beside both models; no: not a "
        "batch that this replica can run", ""),
    "plain_step_ms": ("Plain step", "ms",
        "One token a sequence: forward, sampling and host; step-time model", "0.000"),
    "speculative_step_ms": ("Speculative step", "ms",
        "Verification, drafting and overhead; step-time model", "0.000"),
    "tokens_per_second": ("Tokens/s", "tokens/s", "Output tokens of one replica", "#,##0"),
    "usd_per_million_tokens_plain": ("Plain cost per million tokens", "USD",
        "GPUs × price × plain step / batch", "0.000"),
    "draft": ("Draft", "", "Name of the candidate", ""),
    "measured_speedup": ("Measured", "×", "Speedup that was measured", "0.00"),
    "miss_percent": ("Miss", "%", "100 × (predicted / measured − 1)", "0"),
    "implied_c": ("Implied c", "",
        "(tokens_per_step / measured − 1) / gamma; negative: no c ≥ 0 explains it", "0.000"),
}  # fmt: skip
"""Label, unit, definition and number format of the columns that are no fields."""

_FOUND: dict[str, Basis] = {
    "batch": "assumed", "draft": "assumed",
    "measured_speedup": "published",
}  # fmt: skip
"""Which of those are not computed."""

COLUMNS: dict[str, Meaning] = {
    name: Meaning(spec.symbol or spec.label, spec.unit, spec.help, _FIELDS[name], "assumed")
    for name, spec in SPECS.items()
    if name in _FIELDS
} | {name: Meaning(*said, _FOUND.get(name, "computed")) for name, said in _OTHERS.items()}


def column(
    name: str, values: Values, formulas: Formulas = (), *,
    suffix: str = "", definition: str = "",
) -> Column:  # fmt: skip
    """The column of that meaning; one formula given as a string stands in every row.

    `suffix` tells several columns of one meaning apart; `definition` replaces its own.
    """
    label, unit, meant, format, basis = COLUMNS[name]
    rows = tuple(values.tolist() if isinstance(values, np.ndarray) else values)
    each = (formulas,) * len(rows) if isinstance(formulas, str) else tuple(formulas)
    said = definition or meant
    return Column(name + suffix, label + _end_of(suffix), unit, said, rows, each, format, basis)


def _end_of(suffix: str) -> str:
    """What tells it apart on screen."""
    return {"": "", "_low": ", low", "_high": ", high"}.get(suffix, suffix.replace("_", " "))


def columns_of(
    values: Mapping[str, Values],
    formulas: Mapping[str, Formulas] = MappingProxyType({}),
    definitions: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Column, ...]:
    """A column of each name, live where there is a formula of it."""
    return tuple(
        column(name, each, formulas.get(name, ()), definition=definitions.get(name, ""))
        for name, each in values.items()
    )


def of_rows(
    rows: Sequence[Any], said: Mapping[str, Sequence[str]], basis: Basis = "computed"
) -> tuple[Column, ...]:
    """A column for each name of `said`: its label, unit, definition and number format; then the
    attribute of the rows that holds its values, where that has another name."""
    found = []
    for name, (label, unit, definition, format, *of) in said.items():
        values = [attrgetter(of[0] if of else name)(row) for row in rows]
        found.append(Column(name, label, unit, definition, tuple(values), (), format, basis))
    return tuple(found)


def ends_of(
    said: tuple[str, str, str, str, str], numbers: Sequence[Estimate | None]
) -> list[Column]:
    """Three columns of a number and its ends, which a page shows as one: `said` is its name, label,
    unit, definition and number format. An end that is infinite is left out."""
    name, label, unit, definition, form = said
    return [
        Column(f"{name}{suffix}", f"{label}{words}", unit, f"{definition}{words}",
               tuple(_told(getattr(n, end, None)) for n in numbers), format=form)
        for end, suffix, words in (("value", "", ""), ("low", "_low", ", low"),
                                   ("high", "_high", ", high"))
    ]  # fmt: skip


def _told(end: float | None) -> float | None:
    return None if end is None or math.isinf(end) else end


def mixed_draft(c: str, c_hat: str = "{c_hat}") -> str:
    """Cost of one drafted token, live: from c to ĉ along σ, at the nearer end outside [0, 1]."""
    share = "({sigma}*({sigma}>0)*({sigma}<1)+({sigma}>=1))"
    return f"((1-{share})*{c}+{share}*{c_hat})"
