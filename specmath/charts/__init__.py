"""Figures: each builder takes results and returns a plotly figure; it computes nothing itself."""

from specmath.charts.calculator import (
    alpha_gamma_heat,
    cost_over_gamma,
    draft_cost_effect,
    drafts_plane,
    speedup_over_gamma,
    tokens_distribution,
)
from specmath.charts.load import (
    cost_over_batch,
    gamma_heat,
    operators_over_batch,
    speedup_over_batch,
)

__all__ = [
    "alpha_gamma_heat",
    "cost_over_batch",
    "cost_over_gamma",
    "draft_cost_effect",
    "drafts_plane",
    "gamma_heat",
    "operators_over_batch",
    "speedup_over_batch",
    "speedup_over_gamma",
    "tokens_distribution",
]
