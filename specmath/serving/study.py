"""Over batch and context: where speculation stops paying, by which operator, within memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray, InputError, IntArray
from specmath.cost import usd_per_million_tokens
from specmath.predict import ROUNDING, near_best
from specmath.scenario import Scenario
from specmath.scenario.acceptances import given_acceptance
from specmath.serving import ServedStepCost
from specmath.serving.memory import DraftTax, Memory, draft_tax
from specmath.serving.of_scenario import served_of
from specmath.serving.schedule import Schedule, recommended_schedule

__all__ = ["LoadStudy", "load_study"]

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS = (1024, 8192, 32768)
MOST_GAMMA = 16
LONGEST_SCHEDULE = 256
"""vLLM's default `max_num_seqs`; shorter where memory holds fewer sequences."""


@dataclass(frozen=True)
class LoadStudy:
    """One served pair over batch (B) × context (L) × γ.

    The scenario's own context is one of the contexts; its batch, and the largest that memory holds
    at that context, are among the batches.

    speedup: shape (B, L, γ = 0 … top). plain_seconds: (B,), a plain step at the own context.
    operators: seconds of a plain and of a speculative step by operator, each (B,). fits: whether
    memory holds that many sequences of that context with the draft, (B, L). tax: what the draft
    takes of the memory; None, and `does_not_fit` in words, where not one sequence fits. The
    schedule ends at 256 or the largest batch that fits.
    """

    served: ServedStepCost
    gamma: int
    batches: IntArray
    contexts: IntArray
    speedup: FloatArray
    plain_seconds: FloatArray
    plain_operators: dict[str, FloatArray]
    speculative_operators: dict[str, FloatArray]
    fits: np.ndarray
    tax: DraftTax | None
    does_not_fit: str
    schedule: Schedule

    @property
    def own(self) -> int:
        """Index of the scenario's context."""
        return int(np.flatnonzero(self.contexts == self.served.context_tokens)[0])

    @property
    def at_gamma(self) -> FloatArray:
        """Speedup at the scenario's γ, shape (B, L)."""
        return np.asarray(self.speedup[:, :, min(self.gamma, self.speedup.shape[2] - 1)])

    @property
    def recommended_gamma(self) -> IntArray:
        """The smallest γ within 2% of the best, 0 where none pays; shape (B, L)."""
        return np.array([[near_best(row) for row in by_context] for by_context in self.speedup])

    @property
    def held(self) -> int:
        """How many of the batches, the first ones, memory holds at the own context."""
        return int(self.fits[:, self.own].sum())

    def pays(self) -> list[tuple[int, int]]:
        """Runs of batches that the γ speeds up at the own context and that memory holds, first and
        last of each."""
        found: list[tuple[int, int]] = []
        before = False
        rows = slice(self.held)
        speeds = self.at_gamma[rows, self.own]
        for batch, speedup in zip(self.batches[rows].tolist(), speeds, strict=True):
            now = bool(speedup > 1.0 + ROUNDING)
            if now:
                found = [*found[:-1], (found[-1][0], batch)] if before else [*found, (batch, batch)]
            before = now
        return found

    def usd_per_million(self, scenario: Scenario, gammas: IntArray) -> FloatArray:
        """USD per million output tokens over batch with those γ (one a batch), own context."""
        rows = np.arange(len(self.batches))
        tpot = self.plain_seconds / self.speedup[rows, self.own, gammas]
        gpus = scenario.tensor_parallel + scenario.draft_gpus * (gammas > 0)
        price = scenario.usd_per_hour or 0.0
        return usd_per_million_tokens(tpot, batch=self.batches, gpus=gpus, usd_per_hour=price)


def load_study(scenario: Scenario) -> LoadStudy:
    """The study of a scenario in the hardware form; InputError as `served_of` raises it."""
    served = served_of(scenario)
    return _study(served, given_acceptance(scenario), scenario.gamma, scenario.max_gamma)


@lru_cache(maxsize=32)
def _study(served: ServedStepCost, acceptance: Acceptance, gamma: int, max_gamma: int) -> LoadStudy:
    contexts = np.array(sorted({*CONTEXTS, served.context_tokens}))
    heads = getattr(served.drafter, "heads", MOST_GAMMA)
    top = min(max(gamma, min(max_gamma, MOST_GAMMA)), heads)
    gammas = np.arange(top + 1)
    drafted = min(gamma, top)
    limits = [_largest(served, int(n), drafted) for n in contexts]
    own_limit = limits[contexts.tolist().index(served.context_tokens)]
    # Where memory ends the load is highest: it belongs to the judgement.
    ending = {own_limit} if 0 < own_limit < BATCHES[-1] else set()
    batches = np.array(sorted({*BATCHES, served.batch, *ending}))
    tax, fault = _tax(served, acceptance, drafted)
    each = [replace(served, batch=int(b)) for b in batches]
    plain = [one.breakdown(0) for one in each]
    speculative = [one.breakdown(drafted) for one in each]
    return LoadStudy(
        served=served,
        gamma=drafted,
        batches=batches,
        contexts=contexts,
        speedup=served.speedup_grid(acceptance, batches, contexts, gammas),
        plain_seconds=np.array([one.plain_seconds for one in each]),
        plain_operators=_stack(plain),
        speculative_operators=_stack(speculative),
        fits=batches[:, None] <= limits,
        tax=tax,
        does_not_fit=fault,
        schedule=recommended_schedule(
            served,
            acceptance,
            max_batch=min(LONGEST_SCHEDULE, max(1, own_limit)),
            max_gamma=top,
        ),
    )


def _stack(breakdowns: list[dict[str, FloatArray]]) -> dict[str, FloatArray]:
    return {name: np.array([float(b[name]) for b in breakdowns]) for name in breakdowns[0]}


def _largest(served: ServedStepCost, context: int, gamma: int) -> int:
    """Sequences of that context that fit; 0 where not one does."""
    try:
        return Memory.of(served).largest_batch(context, gamma)
    except InputError:
        return 0


def _tax(served: ServedStepCost, acceptance: Acceptance, gamma: int) -> tuple[DraftTax | None, str]:
    """What the draft takes of the memory; in words where the pair does not fit at all."""
    try:
        return draft_tax(served, acceptance, max(1, gamma)), ""
    except InputError as error:
        return None, str(error)
