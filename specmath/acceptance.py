"""Acceptance: how many drafted tokens survive verification. Knows nothing of time or money.

Every model answers the same three questions for a draft of γ tokens:

    survival(γ)         s_0 … s_γ,  s_i = P(at least the first i drafted tokens are accepted)
    tokens_per_step(γ)  τ(γ) = Σ_{i=0}^{γ} s_i, the bonus or correction token included
    step_pmf(γ)         P(L = n) = s_{n−1} − s_n for n ≤ γ,  P(L = γ+1) = s_γ
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole
from specmath.theorems import expected_tokens

__all__ = [
    "BOUNDS",
    "Acceptance",
    "CappedAcceptance",
    "CoveredAcceptance",
    "FallingAcceptance",
    "IidAcceptance",
    "MixtureAcceptance",
    "PerPositionAcceptance",
    "StoppedAcceptance",
]

BISECTIONS = 52
"""Halvings of [0, 1] down to the spacing of its numbers."""

LARGEST_GAMMA = 1_000_000
"""Survival is an array of γ+1 numbers; beyond this no draft is meant and memory ends."""


def _drafted(gamma: int) -> int:
    return int(whole("gamma", gamma, 0, LARGEST_GAMMA))


class Acceptance(ABC):
    """What every acceptance model answers; subclasses supply the survival."""

    @abstractmethod
    def survival(self, gamma: int) -> FloatArray:
        """s_0 … s_γ, shape (γ+1,), s_0 = 1 and non-increasing. γ a whole number ≥ 0."""

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        """τ(γ) = Σ_{i=0}^{γ} s_i, tokens emitted a step, between 1 and γ+1.

        γ: whole number ≥ 0, scalar or array; the result has its shape. ValueError otherwise.
        """
        gammas = whole("gamma", gamma, 0)
        sums = np.cumsum(self.survival(int(gammas.max(initial=0))))
        return _like(gammas, sums[gammas])

    @property
    def even(self) -> bool:
        """Whether every request is drafted for alike."""
        return True

    def asked(self, gamma: int) -> FloatArray:
        """Share of the steps with a draft in which at least 0 … γ tokens are asked for, shape
        (γ+1,): 1, unless some requests are asked for fewer than γ."""
        return np.ones(_drafted(gamma) + 1)

    def drafted(self, gamma: ArrayLike) -> FloatArray:
        """Tokens that a draft is asked for in the mean; shape of `gamma`."""
        gammas = whole("gamma", gamma, 0)
        if self.even:
            return np.asarray(gammas, dtype=float)
        each = [float(self.asked(int(g))[1:].sum()) for g in gammas.ravel()]
        return np.array(each).reshape(gammas.shape)

    def step_pmf(self, gamma: int) -> FloatArray:
        """Distribution of L, the tokens a step emits: entry j is P(L = j+1), shape (γ+1,)."""
        survival = self.survival(gamma)
        return np.asarray(survival - np.append(survival[1:], 0.0))

    def step_variance(self, gamma: int) -> float:
        """Var(L) = Σ (2i+1) s_i − τ², tokens², because P(L > i) = s_i."""
        survival = self.survival(gamma)
        second_moment = float(np.sum((2 * np.arange(survival.size) + 1) * survival))
        return max(0.0, second_moment - float(np.sum(survival)) ** 2)


def _like(shape_of: np.ndarray, values: FloatArray) -> float | FloatArray:
    return float(values) if shape_of.ndim == 0 else values


@dataclass(frozen=True)
class IidAcceptance(Acceptance):
    """Each drafted token is accepted with probability α, independently: s_i = α^i.

    Real text accepts later positions less often than this says.

    Attributes
    ----------
    alpha
        In [0, 1]; InputError otherwise.

    References
    ----------
    Leviathan et al. 2023, arXiv 2211.17192, Definition 3.1 and Eq. 1.

    Examples
    --------
    >>> IidAcceptance(0.8).survival(3)
    array([1.   , 0.8  , 0.64 , 0.512])
    """

    alpha: float

    def __post_init__(self) -> None:
        alpha = real("alpha", self.alpha, 0, 1)
        if alpha.ndim:
            raise InputError(f"alpha must be one number >= 0 and <= 1, got {self.alpha!r}")
        object.__setattr__(self, "alpha", float(alpha))

    def survival(self, gamma: int) -> FloatArray:
        positions = np.arange(_drafted(gamma) + 1, dtype=np.float64)
        return np.asarray(np.power(self.alpha, positions))

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        return expected_tokens(self.alpha, gamma)


def _each(name: str, rates: Sequence[float]) -> tuple[float, ...]:
    """The rates of positions 1, 2, …, each one number in [0, 1], at least one; else InputError."""
    if np.ndim(rates) != 1 or len(rates) == 0:
        raise InputError(f"{name} must be a list of at least one position, got {rates!r}")
    return tuple(
        float(real(f"{name} at position {position}", rate, 0, 1))
        for position, rate in enumerate(rates, start=1)
    )


@dataclass(frozen=True)
class PerPositionAcceptance(Acceptance):
    """Measured survival s_1 … s_K of each draft position (vLLM's "per-position acceptance rate").

    γ < K truncates: exact when every request is alike, otherwise biased low (the step weights of
    a mixture move with γ). γ > K extends with the last conditional rate s_K / s_{K−1}.

    Attributes
    ----------
    rates
        Each in [0, 1], none above the one before it; InputError otherwise.

    Examples
    --------
    >>> float(PerPositionAcceptance((0.8, 0.6, 0.45)).tokens_per_step(3))
    2.85
    """

    rates: tuple[float, ...]

    def __init__(self, rates: Sequence[float]) -> None:
        object.__setattr__(self, "rates", _each("survival", rates))
        previous = 1.0
        for position, rate in enumerate(self.rates, start=1):
            if rate > previous:
                raise InputError(
                    f"survival must not increase: position {position} is {rate:g}, "
                    f"position {position - 1} is {previous:g}; are these conditional rates?"
                )
            previous = rate

    @classmethod
    def from_conditional(cls, rates: Sequence[float]) -> PerPositionAcceptance:
        """From conditional rates a_i = P(token i accepted | all before it were): s_i = Π a_j."""
        return cls(np.cumprod(_each("conditional rate", rates)).tolist())

    @cached_property
    def conditional(self) -> tuple[float, ...]:
        """a_i = s_i / s_{i−1}; 0 after a position that nothing reaches."""
        before = (1.0, *self.rates[:-1])
        return tuple(
            now / then if then > 0 else 0.0 for now, then in zip(self.rates, before, strict=True)
        )

    def survival(self, gamma: int) -> FloatArray:
        gamma = _drafted(gamma)
        measured = np.concatenate(([1.0], self.rates[:gamma]))
        beyond = np.arange(1, gamma - len(self.rates) + 1)
        return np.concatenate((measured, measured[-1] * self.conditional[-1] ** beyond))


@dataclass(frozen=True)
class MixtureAcceptance(Acceptance):
    """Requests of several kinds.

    A step belongs to part i with probability ∝ w_i / τ_i(γ) (harder requests take more steps),
    so the survival a server would print depends on γ, and τ = Σ w_i / Σ (w_i / τ_i(γ)).

    Attributes
    ----------
    weights
        Shares of the *output tokens* of each kind: finite, ≥ 0, not all 0; they are normalised.
        InputError otherwise.
    parts
        The acceptance of each kind.

    Examples
    --------
    >>> mixed = MixtureAcceptance((0.5, 0.5), (IidAcceptance(0.9), IidAcceptance(0.4)))
    >>> mixed.step_shares(4)
    array([0.287..., 0.712...])
    """

    weights: tuple[float, ...]
    parts: tuple[Acceptance, ...]

    def __init__(self, weights: Sequence[float], parts: Sequence[Acceptance]) -> None:
        if len(weights) != len(parts) or not parts:
            raise InputError(
                f"a mixture needs as many weights as parts and at least one, "
                f"got {len(weights)} weights and {len(parts)} parts"
            )
        for part in parts:
            if not isinstance(part, Acceptance):
                raise InputError(f"parts must be acceptance models, got {part!r}")
        shares = real("weights", list(weights), 0)
        if shares.max() == 0:
            raise InputError("weights must be >= 0 and not all 0, got only 0")
        shares = shares / shares.max()  # so that the sum of huge weights stays finite
        object.__setattr__(self, "weights", tuple((shares / shares.sum()).tolist()))
        object.__setattr__(self, "parts", tuple(parts))

    def step_shares(self, gamma: int) -> FloatArray:
        """Share of the speculative steps that each part takes at γ, shape (parts,)."""
        steps = np.array(
            [
                w / float(p.tokens_per_step(gamma))
                for w, p in zip(self.weights, self.parts, strict=True)
            ]
        )
        return np.asarray(steps / steps.sum())

    @property
    def even(self) -> bool:
        return all(part.even for part in self.parts)

    def asked(self, gamma: int) -> FloatArray:
        rows = np.stack([part.asked(gamma) for part in self.parts])
        # Rounded shares do not sum to 1 exactly: neither all nor nobody may be off.
        share = 1.0 - self.step_shares(gamma) @ (1.0 - rows)
        return np.where(rows.any(axis=0), share, 0.0)

    def survival(self, gamma: int) -> FloatArray:
        rows = np.stack([part.survival(gamma) for part in self.parts])
        survival = np.asarray(self.step_shares(gamma) @ rows)
        survival[0] = 1.0  # rounded shares do not sum to 1 exactly
        return survival

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        gammas = whole("gamma", gamma, 0)
        steps = sum(
            w / np.asarray(part.tokens_per_step(gammas))
            for w, part in zip(self.weights, self.parts, strict=True)
        )
        # Rounding must not move plain decoding, γ=0, off 1.
        return _like(gammas, np.clip(1.0 / steps, 1.0, gammas + 1.0))


@dataclass(frozen=True)
class CoveredAcceptance(Acceptance):
    """Acceptance of all steps where only a share κ of them had a draft: s_i = κ s'_i for i ≥ 1.

    Attributes
    ----------
    part
        What a server prints: the acceptance over the steps with a draft, τ'.
    coverage
        κ in [0, 1]; τ = κτ' + 1−κ.

    Examples
    --------
    >>> float(CoveredAcceptance(IidAcceptance(0.8), 0.5).tokens_per_step(4))
    2.1808
    """

    part: Acceptance
    coverage: float

    def __post_init__(self) -> None:
        real("coverage", self.coverage, 0, 1)

    @cached_property
    def _kinds(self) -> MixtureAcceptance | None:
        """A mixture, each kind of which has a draft in that share of its steps: steps without one
        count as well in how many steps are of a kind."""
        if not isinstance(self.part, MixtureAcceptance):
            return None
        each = [CoveredAcceptance(part, self.coverage) for part in self.part.parts]
        return MixtureAcceptance(self.part.weights, each)

    @property
    def even(self) -> bool:
        return self.part.even

    def asked(self, gamma: int) -> FloatArray:
        return self.part.asked(gamma) if self._kinds is None else self._kinds.asked(gamma)

    def survival(self, gamma: int) -> FloatArray:
        if self._kinds is not None:
            return self._kinds.survival(gamma)
        found = self.part.survival(gamma) * self.coverage
        found[0] = 1.0
        return found

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        if self._kinds is not None:
            return self._kinds.tokens_per_step(gamma)
        return super().tokens_per_step(gamma)


@dataclass(frozen=True)
class FallingAcceptance(Acceptance):
    """One rate up to the depth that a head was trained for, and less with each position past it.

        a_i = α (1 − f)^{max(0, i − depth)}          s_i = Π a_j

    Attributes
    ----------
    alpha
        α in [0, 1].
    depth
        Positions that the head was trained for, ≥ 0.
    fall
        f in [0, 1]; InputError otherwise.

    Examples
    --------
    >>> FallingAcceptance(0.8, depth=1, fall=0.05).survival(3)
    array([1.      , 0.8     , 0.608   , 0.438976])
    """

    alpha: float
    depth: int
    fall: float

    def __post_init__(self) -> None:
        real("alpha", self.alpha, 0, 1)
        whole("depth", self.depth, 0)
        real("fall", self.fall, 0, 1)

    @classmethod
    def of_tokens(
        cls, tokens: float, gamma: int, depth: int, fall: float
    ) -> FallingAcceptance | None:
        """The one that emits so many tokens a step at γ ≥ 1; None where even α = 1 emits fewer."""

        if float(cls(1.0, depth, fall).tokens_per_step(gamma)) < tokens:
            return None
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            fewer = float(cls(middle, depth, fall).tokens_per_step(gamma)) < tokens
            low, high = (middle, high) if fewer else (low, middle)
        return cls(low, depth, fall)

    def survival(self, gamma: int) -> FloatArray:
        past = np.maximum(0, np.arange(1, _drafted(gamma) + 1) - self.depth)
        return np.concatenate(([1.0], np.cumprod(self.alpha * (1.0 - self.fall) ** past)))


@dataclass(frozen=True)
class CappedAcceptance(Acceptance):
    """Requests for which at most so many tokens are drafted, whatever γ others have:
    τ(γ) = τ'(min(γ, most)).

    Attributes
    ----------
    part
        Their acceptance.
    most
        Whole, ≥ 0; InputError otherwise.

    Examples
    --------
    >>> CappedAcceptance(IidAcceptance(0.5), most=2).survival(4)
    array([1.  , 0.5 , 0.25, 0.  , 0.  ])
    """

    part: Acceptance
    most: int

    def __post_init__(self) -> None:
        whole("most", self.most, 0, LARGEST_GAMMA)

    @property
    def even(self) -> bool:
        return False

    def asked(self, gamma: int) -> FloatArray:
        return np.asarray(np.arange(_drafted(gamma) + 1) <= self.most, dtype=float)

    def survival(self, gamma: int) -> FloatArray:
        return np.asarray(self.part.survival(gamma) * self.asked(gamma))

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        return self.part.tokens_per_step(np.minimum(whole("gamma", gamma, 0), self.most))


Bound = Literal["apart", "low", "high"]
BOUNDS: tuple[Bound, ...] = ("apart", "low", "high")


@dataclass(frozen=True)
class StoppedAcceptance(Acceptance):
    """Acceptance where drafts stop early: position i is drafted with chance q^i.

        apart   s'_i = q^i s_i                 a stop says nothing of what would be accepted
        low     s'_i = max(0, q^i + s_i − 1)   and high  s'_i = min(q^i, s_i)

    low and high bound every dependence between the two (Fréchet): at best a draft stops exactly
    where a token would have been rejected.

    Attributes
    ----------
    part
        s, the acceptance of full drafts.
    continues
        q in [0, 1]; InputError otherwise. The mean drafted at γ is Σ q^i.
    bound
        Which of the three.

    Examples
    --------
    >>> full = IidAcceptance(0.8)
    >>> [round(float(StoppedAcceptance(full, 0.7, b).tokens_per_step(4)), 3)
    ...  for b in ("low", "apart", "high")]
    [1.63, 2.148, 2.773]
    """

    part: Acceptance
    continues: float
    bound: Bound = "apart"

    def __post_init__(self) -> None:
        real("continues", self.continues, 0, 1)

    def survival(self, gamma: int) -> FloatArray:
        full = self.part.survival(gamma)
        drafted = np.asarray(self.continues, dtype=float) ** np.arange(full.size)
        if self.bound == "low":
            return np.asarray(np.maximum(0.0, drafted + full - 1.0))
        return np.asarray(np.minimum(drafted, full) if self.bound == "high" else drafted * full)
