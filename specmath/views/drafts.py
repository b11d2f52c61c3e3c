"""The table of candidate drafts: predicted beside measured."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.candidates import Outcome
from specmath.sheets.columns import column
from specmath.sheets.tables import Table

__all__ = ["drafts_table"]

LONGEST_SUM = 200
"""Terms of τ that fit one cell, with room for long references."""


def drafts_table(outcomes: Sequence[Outcome], cost_words: str = "") -> Table:
    """One row a draft; live in α, c and γ up to the largest γ of the table.

    The speedup at the γ given is Theorem 3.8; `cost_words` tells the step cost at which the best γ
    was searched where that is another.

    τ is written as the sum 1 + Σ α^i (γ ≥ i): at α=0 no term is 0⁰, and γ may be changed too.
    A table with a γ above 200 gives τ as values only: a cell holds 8,192 characters of formula.
    """
    rows = [outcome.candidate for outcome in outcomes]
    # To 16 at least, so that γ can be raised in the file.
    most = max(16, *(row.gamma for row in rows))
    terms = "".join(f"+{{alpha}}^{i}*({{gamma}}>={i})" for i in range(1, most + 1))
    measured = [row.measured_speedup for row in rows]
    predicted = [o.predicted for o in outcomes]
    costs = [1 + row.gamma * row.c for row in rows]
    where = f"At your verification cost: {cost_words}" if cost_words else "Memory-bound"
    return Table(
        "Candidate drafts: predicted beside measured",
        "drafts",
        (
            column("draft", [row.draft for row in rows]),
            column("alpha", [row.alpha for row in rows]),
            column("c", [row.c for row in rows]),
            column("gamma", [row.gamma for row in rows]),
            column(
                "tokens_per_step",
                [p * cost for p, cost in zip(predicted, costs, strict=True)],
                f"1{terms}" if most <= LONGEST_SUM else (),
            ),
            column(
                "walltime_improvement",
                predicted,
                "{tokens_per_step}/({gamma}*{c}+1)",
                definition="Theorem 3.8 at this γ: memory-bound",
            ),
            column("measured_speedup", measured),
            column(
                "miss_percent",
                [None if o.miss is None else 100 * o.miss for o in outcomes],
                "100*({walltime_improvement}/{measured_speedup}-1)",
            ),
            column(
                "implied_c",
                [o.implied_c for o in outcomes],
                "({tokens_per_step}/{measured_speedup}-1)/{gamma}",
            ),
            column(
                "best_gamma",
                [o.best_gamma for o in outcomes],
                definition=f"Fastest γ up to the largest considered. {where}; not live",
            ),
            column(
                "best_speedup",
                [o.best_speedup for o in outcomes],
                definition=f"tokens_per_step / step_cost at the best γ. {where}; not live",
            ),
        ),
    )
