"""Measure c, v and α on a model pair, replay every γ, run the real thing, compare.

The built-in pair needs numpy alone; other pairs need torch and transformers, which are imported
when one is loaded (`pip install -r requirements-measure.txt`).
"""

from specmath.measure.files import read_report, report_csv, write_report
from specmath.measure.interval import AlphaEstimate, estimate_alpha
from specmath.measure.pairs import Pair, builtin_pair, builtin_prompts, load_pair
from specmath.measure.plan import Plan
from specmath.measure.prompts import Prompt, read_prompts, spread
from specmath.measure.report import Report
from specmath.measure.run import measure
from specmath.measure.to_scenario import best_gamma, step_cost, to_scenario

__all__ = [
    "AlphaEstimate",
    "Pair",
    "Plan",
    "Prompt",
    "Report",
    "best_gamma",
    "builtin_pair",
    "builtin_prompts",
    "estimate_alpha",
    "load_pair",
    "measure",
    "read_prompts",
    "read_report",
    "report_csv",
    "spread",
    "step_cost",
    "to_scenario",
    "write_report",
]
