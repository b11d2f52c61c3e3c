"""The recommended γ of each batch size, as a schedule an engine takes; break-even α of a cost.

vLLM's `num_speculative_tokens_per_batch_size` (pull request 32374) sets γ by the current batch
size in inclusive ranges; a batch size in no range inherits the γ of the range before it, so the
ranges made here leave no gap.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray, InputError, real, whole
from specmath.predict import near_best
from specmath.serving import ServedStepCost
from specmath.stepcost import StepCost
from specmath.theorems import alpha_from_tokens_per_step

__all__ = [
    "SWITCHING_NOTES",
    "GammaRange",
    "Schedule",
    "breakeven_alpha_of",
    "merge_ranges",
    "recommended_schedule",
]

SWITCHING_NOTES = (
    "A schedule costs something by itself: vLLM then falls back from full to piecewise CUDA "
    "graphs, about 14% of single-stream speed on one server (vLLM issue 49548).",
    "Crossing a threshold has stalled: with a schedule of 2 then 0, eight requests fell from 232 "
    "to between 24 and 157 tokens/s where a fixed γ did not (vLLM issue 49548). Test at the "
    "thresholds.",
    "γ = 0 is not free: the drafter still runs to keep its cache, 0 to 11% of the step by drafter "
    "(vLLM issue 49986). If no batch pays, leave speculation off instead.",
)
"""What to know before using a schedule."""


@dataclass(frozen=True)
class GammaRange:
    """γ for batch sizes from `low` to `high`, both included."""

    low: int
    high: int
    gamma: int


@dataclass(frozen=True)
class Schedule:
    """Contiguous ranges from batch size 1 up."""

    ranges: tuple[GammaRange, ...]

    def __post_init__(self) -> None:
        expected = 1
        for part in self.ranges:
            if part.low != expected or part.high < part.low:
                raise InputError(
                    f"ranges must follow each other without a gap from batch 1, got "
                    f"{part.low}-{part.high} where {expected} should start"
                )
            whole("gamma", part.gamma, 0)
            expected = part.high + 1
        if not self.ranges:
            raise InputError("ranges must hold at least one range, got none")

    @property
    def max_gamma(self) -> int:
        """What `num_speculative_tokens` must be: the largest γ of the schedule."""
        return max(part.gamma for part in self.ranges)

    @property
    def pays(self) -> bool:
        """Whether any batch size speculates."""
        return self.max_gamma > 0

    def as_map(self) -> dict[str, int]:
        """{"1-16": 3, ...}, the spelling of the pull request."""
        return {f"{part.low}-{part.high}": part.gamma for part in self.ranges}

    def as_list(self) -> list[list[int]]:
        """[[1, 16, 3], ...], the other spelling in use (vLLM issues 48627 and 49548)."""
        return [[part.low, part.high, part.gamma] for part in self.ranges]

    def vllm_config(self, *, as_list: bool = False, **others: object) -> str:
        """JSON for vLLM's `--speculative-config`; `others` (method, model) come first.

        Raises InputError where no batch size pays: vLLM wants at least one drafted token.
        """
        if not self.pays:
            raise InputError("no batch size pays: leave speculation off instead of a schedule")
        table = self.as_list() if as_list else self.as_map()
        return json.dumps(
            {
                **others,
                "num_speculative_tokens": self.max_gamma,
                "num_speculative_tokens_per_batch_size": table,
            }
        )


def merge_ranges(batches: ArrayLike, gammas: ArrayLike) -> Schedule:
    """One γ a batch size → the fewest contiguous ranges.

    `batches` increasing, first ≥ 1; a γ holds from its batch size up to the next one given, and
    the first from 1 on. `gammas` of the same length, ≥ 0.
    """
    sizes = np.atleast_1d(whole("batches", batches, 1))
    drafted = np.atleast_1d(whole("gammas", gammas, 0))
    if sizes.shape != drafted.shape or np.any(np.diff(sizes) <= 0):
        raise InputError("batches must increase and have one gamma each")
    starts = [0, *(np.flatnonzero(np.diff(drafted)) + 1).tolist()]
    lows = [1, *(int(sizes[start]) for start in starts[1:])]
    highs = [*(low - 1 for low in lows[1:]), int(sizes[-1])]
    return Schedule(
        tuple(
            GammaRange(low, high, int(drafted[start]))
            for low, high, start in zip(lows, highs, starts, strict=True)
        )
    )


def recommended_schedule(
    served: ServedStepCost, acceptance: Acceptance, *, max_batch: int = 256, max_gamma: int = 8
) -> Schedule:
    """The smallest γ within 2% of the best for each batch 1 … max_batch; 0 where none pays.

    All else as in `served`, whose own batch is not used. `acceptance` of the steps with a draft.
    """
    batches = np.arange(1, int(whole("max_batch", max_batch, 1)) + 1)
    gammas = np.arange(int(whole("max_gamma", max_gamma, 1)) + 1)
    speedups = served.speedup_grid(acceptance, batches, [served.context_tokens], gammas)[:, 0, :]
    return merge_ranges(batches, [near_best(row) for row in speedups])


def breakeven_alpha_of(cost: StepCost, gammas: ArrayLike, coverage: float = 1.0) -> FloatArray:
    """The α at which τ(α, γ) = s(γ), for any step cost: below it, γ slows decoding down.

    With a draft in a share κ of the steps, κτ + 1−κ = s. 0 at γ=0 and where s ≤ 1; nan where no α
    is enough (τ cannot exceed γ+1, and is 1 at κ = 0). Shape of `gammas` (whole, ≥ 0); coverage in
    [0, 1].
    """
    drafted = whole("gammas", gammas, 0)
    share = float(real("coverage", coverage, 0, 1))
    more = np.maximum(0.0, cost.total(drafted) - 1.0)
    needed = 1.0 + (more / share if share else np.where(more > 0, np.inf, 0.0))
    possible = (needed <= drafted + 1.0) & (drafted > 0)
    tokens = np.where(possible, needed, 1.0)
    found = alpha_from_tokens_per_step(tokens, np.maximum(drafted, 1))
    return np.where(drafted == 0, 0.0, np.where(possible, found, np.nan))
