"""One definition of every output column: its label, unit, meaning, number format and basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from specmath.scenario import SPECS
from specmath.sheets.tables import Basis, Column, Input

__all__ = ["COLUMNS", "SPEEDUP", "Meaning", "column", "field_input", "mixed_draft"]


SPEEDUP = "{tokens_per_step}/{step_cost}"
"""The one ratio, as a live formula."""


class Meaning(NamedTuple):
    """What a column says, wherever it stands."""

    label: str
    unit: str
    definition: str
    format: str = "0.000"
    basis: Basis = "computed"


def _of_field(name: str, format: str, basis: Basis = "assumed") -> Meaning:
    spec = SPECS[name]
    return Meaning(spec.symbol or spec.label, spec.unit, spec.help, format, basis)


COLUMNS: dict[str, Meaning] = {
    "alpha": _of_field("alpha", "0.00"),
    "gamma": _of_field("gamma", "0"),
    "c": _of_field("c", "0.0000"),
    "sigma": _of_field("sigma", "0.00"),
    "survival": Meaning(
        "Survival", "", "P(at least the first γ drafted tokens of a step are accepted)"
    ),
    "conditional": Meaning(
        "Conditional rate", "", "P(token accepted | all before it were)", basis="measured"
    ),
    "tokens_per_step": Meaning(
        "Tokens per step", "", "Emitted a step, bonus or correction token included: Σ survival"
    ),
    "verify_cost": Meaning(
        "Verification v", "plain steps", "Scoring γ+1 tokens against 1: 1 + sigma × gamma"
    ),
    "draft_cost": Meaning(
        "Drafting and overhead",
        "plain steps",
        "gamma × ((1 − sigma) × c + sigma × c_hat), and the overhead where gamma ≥ 1",
    ),
    "step_cost": Meaning(
        "Step cost", "plain steps", "Verification, drafting and overhead of one speculative step"
    ),
    "walltime_improvement": Meaning(
        "Speedup", "×", "tokens_per_step / step_cost; below 1 is slower than plain decoding"
    ),
    "walltime_improvement_low": Meaning(
        "Speedup, low", "×", "At the worst end of what is unknown; not live"
    ),
    "walltime_improvement_high": Meaning(
        "Speedup, high", "×", "At the best end of what is unknown; not live"
    ),
    "operations_increase": Meaning(
        "Arithmetic per token",
        "×",
        "Arithmetic operations per output token against plain decoding (Theorem 3.11)",
    ),
    "tpot_ms": Meaning(
        "Time per token", "ms", "Mean time per output token: target / speedup", "0.00"
    ),
    "usd_per_million_tokens": Meaning(
        "Cost per million tokens",
        "USD",
        "GPUs × price of an hour / 3600 s × time per token / batch × a million",
        "0.000",
    ),
    "regime": Meaning("Regime", "", "How verification is billed", ""),
    "cost_change_percent": Meaning(
        "Change of cost",
        "%",
        "100 × (GPUs with speculation / GPUs without / speedup − 1)",
        "0",
    ),
    "crossover_gamma": Meaning(
        "Crossover γ",
        "tokens",
        "First γ ≥ 1 with operations increase ≥ walltime improvement, memory-bound; empty: none to "
        "10,000",
        "0",
    ),
    "speedup_before": Meaning("Speedup just before", "×", "Theorem 3.8, one γ below the crossover"),
    "operations_before": Meaning(
        "Arithmetic just before", "×", "Theorem 3.11, one γ below the crossover"
    ),
    "best_gamma": Meaning("Best γ", "tokens", "Fastest γ up to the largest considered", "0"),
    "best_speedup": Meaning("Speedup at best γ", "×", "tokens_per_step / step_cost there"),
    "recommended_gamma": Meaning(
        "Recommended γ",
        "tokens",
        "Smallest γ within 2% of the fastest; 0 where none is faster than plain decoding",
        "0",
    ),
    "recommended_speedup": Meaning(
        "Speedup at recommended γ", "×", "tokens_per_step / step_cost there"
    ),
    "speedup_at_gamma": Meaning("Speedup at this γ", "×", "At the γ of the scenario"),
    "breakeven_alpha": Meaning(
        "Break-even α", "", "Least i.i.d. α that is no slower at the γ in use; empty: none exists"
    ),
    "coverage": _of_field("coverage", "0.00"),
    "least_alpha": Meaning(
        "Least α at any γ to 8", "", "The smallest break-even α over γ = 1 … 8; empty: none"
    ),
    "least_alpha_gamma": Meaning("at γ", "tokens", "Where that is", "0"),
    "batch": Meaning("Batch", "", "Sequences decoded together by one replica", "0", "assumed"),
    "fits_memory": Meaning(
        "Fits memory",
        "",
        "Whether memory holds so many sequences of the context beside both models; no: not a batch "
        "that this replica can run",
        "",
    ),
    "plain_step_ms": Meaning(
        "Plain step", "ms", "One token a sequence: forward, sampling and host; step-time model"
    ),
    "speculative_step_ms": Meaning(
        "Speculative step", "ms", "Verification, drafting and overhead; step-time model"
    ),
    "tokens_per_second": Meaning("Tokens/s", "tokens/s", "Output tokens of one replica", "#,##0"),
    "usd_per_million_tokens_plain": Meaning(
        "Plain cost per million tokens", "USD", "GPUs × price × plain step / batch", "0.000"
    ),
    "draft": Meaning("Draft", "", "Name of the candidate", "", "assumed"),
    "measured_speedup": Meaning("Measured", "×", "Speedup that was measured", "0.00", "published"),
    "miss_percent": Meaning("Miss", "%", "100 × (predicted / measured − 1)", "0"),
    "implied_c": Meaning(
        "Implied c",
        "",
        "(tokens_per_step / measured − 1) / gamma; negative: no c ≥ 0 explains it",
        "0.000",
    ),
}


def column(
    name: str,
    values: Sequence[Any] | np.ndarray,
    formulas: Sequence[str | None] | str = (),
    *,
    suffix: str = "",
    **changes: Any,
) -> Column:
    """The column of that meaning; one formula given as a string stands in every row.

    `suffix` tells several columns of one meaning apart; `changes` replace parts of the meaning.
    """
    meaning = COLUMNS[name]._replace(**changes)
    rows = tuple(values.tolist() if isinstance(values, np.ndarray) else values)
    each = (formulas,) * len(rows) if isinstance(formulas, str) else tuple(formulas)
    return Column(
        name + suffix,
        meaning.label,
        meaning.unit,
        meaning.definition,
        rows,
        each,
        meaning.format,
        meaning.basis,
    )


def mixed_draft(c: str) -> str:
    """Cost of one drafted token, live: from c to ĉ along σ, at the nearer end outside [0, 1]."""
    share = "({sigma}*({sigma}>0)*({sigma}<1)+({sigma}>=1))"
    return f"((1-{share})*{c}+{share}*{{c_hat}})"


def field_input(name: str, value: Any, basis: Basis, format: str = "") -> Input:
    """An input cell, named and explained by its field."""
    spec = SPECS[name]
    return Input(name, spec.label, spec.unit, spec.help, value, format, basis)
