"""specmath: what speculative decoding will do to your latency and your bill."""

from specmath.acceptance import (
    Acceptance,
    IidAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
)
from specmath.checks import InputError
from specmath.gamma import breakeven_alpha, crossover_gamma, optimal_gamma
from specmath.predict import Prediction, predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.stepcost import LinearStepCost
from specmath.theorems import (
    alpha_from_accepted_share,
    alpha_from_tokens_per_step,
    expected_tokens,
    implied_draft_cost,
    operations_increase,
    walltime_improvement,
)
from specmath.verdict import Verdict, verdict

__version__ = "0.1.0"

__all__ = [
    "EXAMPLE",
    "Acceptance",
    "IidAcceptance",
    "InputError",
    "LinearStepCost",
    "MixtureAcceptance",
    "PerPositionAcceptance",
    "Prediction",
    "Scenario",
    "Verdict",
    "alpha_from_accepted_share",
    "alpha_from_tokens_per_step",
    "breakeven_alpha",
    "crossover_gamma",
    "expected_tokens",
    "implied_draft_cost",
    "operations_increase",
    "optimal_gamma",
    "predict",
    "verdict",
    "walltime_improvement",
]
