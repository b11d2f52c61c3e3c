"""The one ratio: an acceptance over a step cost, speedup(γ) = τ(γ) / s(γ), and the choice of γ.

Everything that this package says follows from these two functions: `Speculation.speedup` is the
only place that divides τ by s, and `decide` the only one that judges a γ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance, CoveredAcceptance, IidAcceptance
from specmath.checks import FloatArray, real, whole
from specmath.gamma import crossover_gamma, optimal_gamma
from specmath.stepcost import SEARCH_LIMIT, Covered, LinearStepCost, StepCost
from specmath.theorems import alpha_from_tokens_per_step
from specmath.trees import TreeAcceptance

__all__ = [
    "NEAR_BEST",
    "ROUNDING",
    "USUAL_GAMMA",
    "Action",
    "Budget",
    "Decision",
    "Speculation",
    "breakeven_alpha_of",
    "decide",
    "decide_tree",
    "near_best",
    "speedup",
    "to_run",
]

ROUNDING = 1e-12
"""Two ratios nearer than this are equal: where α = c a speedup is 1 but for rounding."""


def speedup(
    tokens: ArrayLike, cost: ArrayLike, waiting: ArrayLike = 0.0, plain_waiting: ArrayLike = 0.0
) -> FloatArray:
    """Time per token of plain decoding over that of speculation; shapes broadcast.

        (1 + w₀) / (s/τ + w)

    Parameters
    ----------
    tokens, cost
        τ a step, and s, what that step costs in plain steps.
    waiting, plain_waiting
        w and w₀: what other requests' prompts take of each token in either arm, ≥ 0, plain steps.
        Without them it is τ/s.

    Examples
    --------
    >>> float(speedup(3.2, 1.6))
    2.0
    >>> float(speedup(3.0, 1.5, 0.5, 0.5))
    1.5
    """
    tau, s = np.asarray(tokens, dtype=float), np.asarray(cost, dtype=float)
    return np.asarray(tau * (1.0 + np.asarray(plain_waiting)) / (s + tau * np.asarray(waiting)))


NEAR_BEST = 1.02
"""The smallest γ within 2% of the best is recommended: it costs the least arithmetic."""

USUAL_GAMMA = 8
"""The largest γ advised where nothing says that the draft was run or trained for more."""


@dataclass(frozen=True)
class Budget:
    """Largest γ within a budget, and what it does to arithmetic, cost and speed (× plain).

    `beyond`: the budget allows more, but the step cost is not known there.
    """

    gamma: int
    operations: float
    cost: float
    speedup: float
    beyond: bool


@dataclass(frozen=True)
class Speculation:
    """One acceptance with one step cost, both counted over all steps, with and without a draft.

    Attributes
    ----------
    acceptance
        τ(γ) and the survival behind it.
    cost
        s(γ), plain steps.
    waiting
        w(γ) of γ = 0 … where the cost ends: what other requests' prompts take of each token, plain
        steps, in the plain arm (γ=0) and with speculation. None: nothing.

    Examples
    --------
    >>> both = Speculation(IidAcceptance(0.8), LinearStepCost(c=0.1))
    >>> both.speedup([0, 4, 6])
    array([1.        , 2.401..., 2.469...])
    >>> both.optimal(), both.recommended(16), both.crossover()
    (6, 5, 10)
    """

    acceptance: Acceptance
    cost: StepCost
    waiting: tuple[float, ...] | None = None

    @classmethod
    def covered(
        cls,
        drafted: Acceptance,
        cost: StepCost,
        coverage: float,
        waiting: tuple[float, ...] | None = None,
    ) -> Speculation:
        """Of the halves of a step that has a draft, where only a share κ of the steps has one.

        For one sequence: (κτ + 1−κ) / (κs + 1−κ).

        Examples
        --------
        >>> half = Speculation.covered(IidAcceptance(0.8), LinearStepCost(c=0.1), 0.5)
        >>> float(half.speedup(4))
        1.81733...
        """
        if coverage == 1:
            return cls(drafted, cost, waiting)
        return cls(CoveredAcceptance(drafted, coverage), Covered(cost, coverage), waiting)

    @property
    def coverage(self) -> float:
        """κ: the share of the steps that have a draft."""
        return self.acceptance.coverage if isinstance(self.acceptance, CoveredAcceptance) else 1.0

    @property
    def drafted(self) -> Acceptance:
        """Acceptance of the steps that have a draft."""
        if isinstance(self.acceptance, CoveredAcceptance):
            return self.acceptance.part
        return self.acceptance

    @property
    def reach(self) -> int:
        """The largest γ for which the cost is known."""
        return self.cost.reach

    def with_cost(self, cost: StepCost) -> Speculation:
        """The same acceptance at another cost."""
        return replace(self, cost=cost)

    def with_drafted(self, drafted: Acceptance) -> Speculation:
        """The same cost and coverage with another acceptance of the steps that have a draft."""
        covered = isinstance(self.acceptance, CoveredAcceptance)
        return replace(
            self, acceptance=CoveredAcceptance(drafted, self.coverage) if covered else drafted
        )

    def tokens(self, gammas: ArrayLike) -> FloatArray:
        """τ(γ), shape of `gammas`."""
        return np.asarray(self.acceptance.tokens_per_step(gammas))

    def speedup(self, gammas: ArrayLike) -> FloatArray:
        """τ(γ) / s(γ), diluted by what waits; shape of `gammas`, 1 at γ=0."""
        waits = self.waits(gammas)
        return speedup(self.tokens(gammas), self.cost.total(gammas), waits, self.plain_waiting)

    def points(self, gammas: ArrayLike, excess: FloatArray, prompts: FloatArray) -> FloatArray:
        """The speedup [draws, γ] where what a step costs beyond a plain one, and what other prompts
        take, are off by these factors [draws]."""
        spent = self.cost.points(gammas, excess)
        waits = np.outer(prompts, self.waits(gammas))
        return speedup(self.tokens(gammas), spent, waits, prompts[:, None] * self.plain_waiting)

    @property
    def plain_waiting(self) -> float:
        """w₀: plain steps a token that other requests' prompts take without speculation."""
        return self.waiting[0] if self.waiting else 0.0

    def waits(self, gammas: ArrayLike) -> FloatArray:
        """w(γ), plain steps a token; shape of `gammas`."""
        drafted = whole("gammas", gammas, 0)
        if not self.waiting:
            return np.zeros(drafted.shape)
        # Beyond the last it stays: what is typed is one share for every γ.
        return np.array(self.waiting)[np.minimum(drafted, len(self.waiting) - 1)]

    def prefill_share(self, gamma: int) -> float:
        """The share of the time per token at γ that other requests' prompts take."""
        waits = float(self.waits(gamma))
        return waits / (waits + float(self.cost.total(gamma)) / float(self.tokens(gamma)))

    def implied_cost(
        self, gamma: int, speedup: ArrayLike, tokens: float | None = None, prompts: ArrayLike = 1.0
    ) -> FloatArray:
        """The s(γ) at which speculation is so much faster: τ ((1 + w₀) / speedup − w), with the τ
        of the acceptance unless it is given, where other prompts take so many times what is
        computed; `speedup` and `prompts` broadcast."""
        factor = np.asarray(prompts)
        left = (1.0 + factor * self.plain_waiting) / np.asarray(speedup)
        emitted = float(self.tokens(gamma)) if tokens is None else tokens
        return np.asarray(emitted * (left - factor * self.waits(gamma)))

    def operations(self, gammas: ArrayLike) -> FloatArray:
        """Arithmetic per token against plain decoding, (κγĉ + κγ + 1) / τ (Theorem 3.11)."""
        asked = self.acceptance.drafted(gammas)
        work = self.coverage * asked * (self.cost.c_hat + 1.0) + 1.0
        return np.asarray(work / self.tokens(gammas))

    def alpha_at(self, gamma: int) -> float:
        """The i.i.d. α of the drafted steps with as many tokens at γ (at γ=0: at γ=1); of a tree,
        that of its chain, at its depth."""
        drafted, at = self.drafted, max(gamma, 1)
        if isinstance(drafted, TreeAcceptance):
            at, drafted = drafted.depth, drafted.chain
        if isinstance(drafted, IidAcceptance):
            return drafted.alpha
        return float(alpha_from_tokens_per_step(float(drafted.tokens_per_step(at)), at))

    # ── searches over γ ──────────────────────────────────────────────────────────────────────

    @property
    def _theorem(self) -> tuple[float, LinearStepCost] | None:
        """(α, cost) where τ/s is Theorem 3.8, whose closed forms then hold."""
        cost, acceptance = self.cost, self.acceptance
        plain = isinstance(cost, LinearStepCost) and cost.sigma == cost.overhead == 0
        if (
            plain
            and not self.waiting
            and isinstance(cost, LinearStepCost)
            and isinstance(acceptance, IidAcceptance)
        ):
            return acceptance.alpha, cost
        return None

    def optimal(self) -> int:
        """argmax of τ/s over γ up to 10,000 or where the cost ends, smallest on ties."""
        if (theorem := self._theorem) is not None:
            alpha, cost = theorem
            # No finite optimum: every further token helps, if ever less.
            endless = (cost.c == 0 < alpha) or (alpha == 1 > cost.c)
            return SEARCH_LIMIT if endless else int(optimal_gamma(alpha, cost.c))
        return self.best(self.reach)

    def best(self, top: int) -> int:
        """argmax of τ/s over γ = 0 … top, the smallest on ties but for rounding."""
        speedups = self.speedup(np.arange(min(top, self.reach) + 1))
        return int(np.argmax(speedups >= speedups.max() * (1.0 - ROUNDING)))

    def recommended(self, top: int) -> int:
        """The γ to run where nothing is open, up to `top` and what is usual; 0 where none pays."""
        cap = min(top, USUAL_GAMMA, self.reach)
        speedups = self.speedup(np.arange(cap + 1))
        return decide(speedups, speedups, speedups, None, cap).gamma

    def crossover(self) -> int:
        """First γ ≥ 1 whose operations increase is ≥ its walltime improvement; 0 if none is."""
        if (theorem := self._theorem) is not None:
            alpha, cost = theorem
            return int(crossover_gamma(alpha, cost.c, cost.c_hat))
        gammas = np.arange(1, self.reach + 1)
        crossed = np.flatnonzero(self.operations(gammas) >= self.speedup(gammas))
        return int(gammas[crossed[0]]) if crossed.size else 0

    def breakeven(self, gamma: int) -> tuple[float | None, float | None, float]:
        """At γ ≥ 1: least i.i.d. α (None if none reaches 1×), largest c (None if none), least τ.

        τ ≥ s(γ) / (1 + w₀ − w) is the condition itself; α, of the steps with a draft, inverts it by
        Eq. 1, c solves it for c.
        """
        # What the draft's own prompts take of every token must be earned first.
        left = 1.0 + self.plain_waiting - float(self.waits(gamma))
        needed = float(self.cost.total(gamma)) / left if left > 0 else np.inf
        alpha = float(_alpha_for(needed, gamma, self.coverage))
        c = self.cost.largest_c(gamma, (float(self.tokens(gamma)) - needed) * left)
        return None if np.isnan(alpha) else alpha, c if c is None or c >= 0 else None, needed

    def within(
        self,
        *,
        extra_operations: float | None = None,
        extra_cost: float | None = None,
        gpu_ratio: float = 1.0,
    ) -> Budget:
        """The largest γ ≤ 10,000, and for which the cost is known, that keeps within every budget.

        A smaller γ need not: with an overhead, or on a measured curve of v, few tokens may cost
        more.

        Parameters
        ----------
        extra_operations
            ≥ 0, a fraction (0.5: half as much again) of the arithmetic per token (Theorem 3.11);
            None is no budget.
        extra_cost
            ≥ 0, a fraction of the cost per token gpu_ratio·s/τ at the same price and batch; None
            likewise.
        gpu_ratio
            ≥ 1: GPUs with the draft's over those without.

        Returns
        -------
        Budget
            That γ and what it does to arithmetic, cost and speed.

        Raises
        ------
        InputError
            A value outside its range.

        Examples
        --------
        >>> both = Speculation(IidAcceptance(0.8), LinearStepCost(c=0.1))
        >>> both.within(extra_operations=0.5).gamma
        4
        """
        gammas = np.arange(self.reach + 1)
        operations, slowdown = self.operations(gammas), 1.0 / self.speedup(gammas)
        cost = np.where(gammas > 0, real("gpu_ratio", gpu_ratio, 1), 1.0) * slowdown
        allowed = np.ones(gammas.shape, dtype=bool)
        for name, budget, spent in (
            ("extra_operations", extra_operations, operations),
            ("extra_cost", extra_cost, cost),
        ):
            if budget is not None:
                allowed &= spent <= (1.0 + float(real(name, budget, 0))) * (1.0 + ROUNDING)
        largest = int(np.flatnonzero(allowed)[-1])
        work, price = float(operations[largest]), float(cost[largest])
        gain = 1.0 / float(slowdown[largest])
        return Budget(largest, work, price, gain, beyond=bool(largest == gammas[-1]))


def breakeven_alpha_of(cost: StepCost, gammas: ArrayLike, coverage: float = 1.0) -> FloatArray:
    """The α at which τ(α, γ) = s(γ), for any step cost: below it, γ slows decoding down.

    With a draft in a share κ of the steps, κτ + 1−κ = s.

    Parameters
    ----------
    cost
        s(γ).
    gammas
        Whole, ≥ 0; array_like.
    coverage
        κ in [0, 1].

    Returns
    -------
    FloatArray
        Shape of `gammas`. 0 at γ=0 and where s ≤ 1; nan where no α is enough (τ cannot exceed γ+1,
        and is 1 at κ = 0).

    Raises
    ------
    InputError
        A value outside its range.

    Examples
    --------
    >>> breakeven_alpha_of(LinearStepCost(c=0.1), [1, 4])
    array([0.1       , 0.287...])
    """
    drafted = whole("gammas", gammas, 0)
    return _alpha_for(cost.total(drafted), drafted, float(real("coverage", coverage, 0, 1)))


def _alpha_for(tokens: ArrayLike, drafted: ArrayLike, share: float) -> FloatArray:
    """The α of the steps with a draft at which all steps emit `tokens` at γ = `drafted`."""
    more = np.maximum(0.0, np.asarray(tokens) - 1.0)
    drafted = np.asarray(drafted)
    needed = 1.0 + (more / share if share else np.where(more > 0, np.inf, 0.0))
    possible = (needed <= drafted + 1.0) & (drafted > 0)
    found = alpha_from_tokens_per_step(np.where(possible, needed, 1.0), np.maximum(drafted, 1))
    return np.where(drafted == 0, 0.0, np.where(possible, found, np.nan))


# ── the choice of γ ──────────────────────────────────────────────────────────────────────────

Action = Literal["use", "lower", "raise", "skip", "measure"]


@dataclass(frozen=True)
class Decision:
    """What to do, and the γ to run: 0 where the answer is plain decoding, the γ given (or the one
    that risks least) where it is to measure first."""

    action: Action
    gamma: int

    @property
    def on(self) -> bool:
        """Whether speculation is to be on."""
        return self.action in ("use", "lower", "raise")


def near_best(speedups: FloatArray, paying: np.ndarray | None = None) -> int:
    """The smallest γ within 2% of the best of those that pay (all above 1×, unless given); 0 if
    none does. `speedups` over γ = 0, 1, …

    Examples
    --------
    >>> near_best(np.array([1.0, 1.5, 1.9, 1.92]))
    2
    """
    pays = speedups > 1.0 + ROUNDING if paying is None else paying
    if not pays.any():
        return 0
    best = float(speedups[pays].max())
    return int(np.argmax(pays & (speedups >= best / NEAR_BEST)))


def to_run(decision: Decision, centre: FloatArray) -> int:
    """The γ to run by a decision: where it is to be measured first, only if it pays in the middle
    of its interval; else 0."""
    return decision.gamma if centre[decision.gamma] > 1.0 + ROUNDING else 0


def decide(
    centre: FloatArray, low: FloatArray, high: FloatArray, gamma: int | None, cap: int
) -> Decision:
    """The rule: whether to turn it on, and then which γ.

    On if some γ from 1 to `cap` pays at its low end; off if none does even at its high end; else
    measure first. The γ: the smallest within 2% of the best centre of those whose low end pays.
    "use" where that is the γ given, or none was given; else "raise" or "lower" to it. To measure
    first: the γ given, or the one with the highest low end.

    Parameters
    ----------
    centre, low, high
        τ/s over γ = 0, 1, … ≥ cap, and its ends.
    gamma
        The γ given, None where none was.
    cap
        The largest γ that may be recommended.

    Returns
    -------
    Decision
        What to do, and the γ to run.

    Examples
    --------
    >>> speedups = np.array([1.0, 1.5, 1.9, 1.92])
    >>> decide(speedups, speedups, speedups, 1, 3)
    Decision(action='raise', gamma=2)
    >>> decide(speedups, speedups - 1, speedups, None, 3).action
    'measure'
    """
    over = slice(0, cap + 1)
    pays = low[over] > 1.0 + ROUNDING
    pays[0] = False
    if not pays.any():
        if np.all(high[1 : cap + 1] <= 1.0 + ROUNDING):
            return Decision("skip", 0)
        return Decision("measure", 1 + int(np.argmax(low[1 : cap + 1])) if gamma is None else gamma)
    target = near_best(centre[over], pays)
    if gamma is None or gamma == target:
        return Decision("use", target)
    return Decision("raise" if target > gamma else "lower", target)


def decide_tree(centre: FloatArray, low: FloatArray, high: FloatArray, nodes: int) -> Decision:
    """The rule of a token tree of so many nodes, which is on or off and no other γ."""
    at = [0, nodes]
    found = decide(centre[at], low[at], high[at], 1, 1)
    return Decision(found.action, nodes if found.gamma else 0)
