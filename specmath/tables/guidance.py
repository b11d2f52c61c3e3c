"""The checklist, the rules of thumb and the planning ranges, as tables."""

from __future__ import annotations

from specmath.predict import Prediction
from specmath.tables.columns import of_rows
from specmath.tables.table import Table
from specmath.words.guidance import checklist, planning_ranges, rules

__all__ = ["checklist_table", "ranges_table", "rules_table"]

_CHECKLIST = {
    "state": ("", "", "good, bad or unknown", ""),
    "question": ("Question", "", "What decides how far to trust the prediction", ""),
    "answer": ("Answer", "", "From the scenario", ""),
}
_RULES = {
    "state": ("", "", "Whether the rule holds here: good, bad or unknown", ""),
    "advice": ("Advice", "", "use or skip", ""),
    "when": ("When", "", "The rule", ""),
    "because": ("Because", "", "Its reason", ""),
    "here": ("Here", "", "What the scenario says", ""),
}
_FORMULA = ("Formula", "×", "Theorem 3.8, or 3.11 where compute-bound", "0.00")
_RANGES = {
    "case": ("Case", "", "Where the range is used", ""),
    "claim": ("Range", "", "As passed on, without a published source", ""),
    "formula": (*_FORMULA, "formula_low"),
    "formula_low": _FORMULA,
    "formula_high": _FORMULA,
    "inputs": ("With", "", "The inputs of the formula", ""),
    "agreement": ("Agreement", "", "The range against the formula", ""),
}


def checklist_table(prediction: Prediction) -> Table:
    """The six questions to answer before believing a prediction, and their answers here."""
    return Table("Checklist", "checklist", of_rows(checklist(prediction), _CHECKLIST))


def rules_table(prediction: Prediction) -> Table:
    """Use and skip rules, with their reasons and whether they hold here."""
    columns = of_rows(rules(prediction), _RULES)
    return Table("When to use it and when to skip it", "rules", columns)


def ranges_table(prediction: Prediction) -> Table:
    """Ranges in circulation beside what the formula gives; contradictions said."""
    columns = of_rows(planning_ranges(prediction), _RANGES)
    return Table("Planning ranges in circulation, beside the formula", "planning_ranges", columns)
