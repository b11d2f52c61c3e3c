"""Measure c, v and α on a model pair, replay every γ, run the real thing, compare.

The built-in pair needs numpy alone; other pairs need torch and transformers, which are imported
when one is loaded (`pip install -r requirements-measure.txt`).
"""

from specmath.measure.into_scenario import best_gamma, step_cost, to_scenario
from specmath.measure.merge import merged
from specmath.measure.pairs import Pair, builtin_pair, builtin_prompts, load_pair
from specmath.measure.plan import Plan, Prompt, read_prompts, spread
from specmath.measure.report import Report, read_report, write_report
from specmath.measure.run import measure
from specmath.measure.score import estimate_alpha

__all__ = [
    "Pair", "Plan", "Prompt", "Report", "best_gamma", "builtin_pair", "builtin_prompts",
    "estimate_alpha", "load_pair", "measure", "merged", "read_prompts", "read_report", "spread",
    "step_cost", "to_scenario", "write_report",
]  # fmt: skip
