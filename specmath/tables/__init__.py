"""The tables that pages, command line and files show: each number with its live formula."""

from __future__ import annotations

from collections.abc import Callable

from specmath.bill import bill
from specmath.capacity import capacity as capacity_of
from specmath.predict import Prediction
from specmath.tables.beside import bill_sheet, bill_table, card_table, numbers_table
from specmath.tables.capacity import (
    capacity_part,
    capacity_rates_table,
    capacity_table,
    gamma_capacity_table,
    pools_table,
)
from specmath.tables.compared import compared_table
from specmath.tables.hardware import (
    batch_table,
    drafters_table,
    drafts_table,
    essential,
    example_table,
    in_words,
    load_table,
    options_table,
)
from specmath.tables.prediction import (
    alpha_gamma_table,
    crossover_table,
    draft_cost_table,
    gamma_table,
    regime_costs,
    regime_table,
)
from specmath.tables.table import Table
from specmath.tables.tails import gap_tools_table, quantiles_table, tails_part, tails_table
from specmath.tails import tails as tails_of

__all__ = [
    "TABLES",
    "alpha_gamma_table",
    "batch_table",
    "beside",
    "bill_sheet",
    "bill_table",
    "capacity_part",
    "capacity_rates_table",
    "capacity_table",
    "card_table",
    "compared_table",
    "crossover_table",
    "draft_cost_table",
    "drafters_table",
    "drafts_table",
    "essential",
    "example_table",
    "gamma_capacity_table",
    "gamma_table",
    "gap_tools_table",
    "in_words",
    "load_table",
    "numbers_table",
    "options_table",
    "pools_table",
    "quantiles_table",
    "regime_costs",
    "regime_table",
    "tails_part",
    "tails_table",
]

TABLES: dict[str, Callable[[Prediction], Table]] = {
    "gamma": gamma_table,
    "batch": batch_table,
    "load": load_table,
    "drafters": drafters_table,
    "regimes": regime_table,
    "alpha_gamma": alpha_gamma_table,
    "crossover": crossover_table,
    "draft_cost": draft_cost_table,
    "bill": bill_sheet,
    "tails": lambda prediction: tails_table(tails_of(prediction)),
    "capacity": lambda prediction: capacity_table(capacity_of(prediction)),
    "capacity_rates": lambda prediction: capacity_rates_table(capacity_of(prediction)),
    "capacity_gamma": lambda prediction: gamma_capacity_table(capacity_of(prediction)),
}
"""Tables made from one prediction, by name."""


def beside(name: str, prediction: Prediction) -> tuple[Table, ...]:
    """The tables that share a workbook with the one of that name: the regimes and the bill are the
    cost workbook, where the bill is known."""
    if name == "bill":
        return (regime_table(prediction),)
    return (bill_sheet(prediction),) if name == "regimes" and bill(prediction) else ()
