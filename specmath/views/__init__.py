"""The tables that pages, command line and files show: each number with its live formula."""

from __future__ import annotations

from collections.abc import Callable

from specmath.predict import Prediction
from specmath.sheets.tables import Table
from specmath.views.choosing import alpha_gamma_table, crossover_table, draft_cost_table
from specmath.views.drafters import drafters_notes, drafters_sentence, drafters_table
from specmath.views.drafts import drafts_table
from specmath.views.over_batch import batch_table
from specmath.views.over_gamma import gamma_table
from specmath.views.regimes import regime_costs, regime_table

__all__ = [
    "TABLES",
    "alpha_gamma_table",
    "batch_table",
    "crossover_table",
    "draft_cost_table",
    "drafters_notes",
    "drafters_sentence",
    "drafters_table",
    "drafts_table",
    "gamma_table",
    "regime_costs",
    "regime_table",
]

TABLES: dict[str, Callable[[Prediction], Table]] = {
    "gamma": gamma_table,
    "batch": batch_table,
    "drafters": drafters_table,
    "regimes": regime_table,
    "alpha_gamma": alpha_gamma_table,
    "crossover": crossover_table,
    "draft_cost": draft_cost_table,
}
"""Tables made from one prediction, by name."""
