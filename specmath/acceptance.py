"""Acceptance: how many drafted tokens survive verification. Knows nothing of time or money.

Every model answers the same three questions for a draft of γ tokens:

    survival(γ)         s_0 … s_γ,  s_i = P(at least the first i drafted tokens are accepted)
    tokens_per_step(γ)  τ(γ) = Σ_{i=0}^{γ} s_i, the bonus or correction token included
    step_pmf(γ)         P(L = n) = s_{n−1} − s_n for n ≤ γ,  P(L = γ+1) = s_γ

and says in `notes(γ)` where its answer leaves what was measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, InputError, real, whole
from specmath.theorems import expected_tokens

__all__ = ["Acceptance", "IidAcceptance", "MixtureAcceptance", "PerPositionAcceptance"]

LARGEST_GAMMA = 1_000_000
"""Survival is an array of γ+1 numbers; beyond this no draft is meant and memory ends."""


def _drafted(gamma: int) -> int:
    return int(whole("gamma", gamma, 0, LARGEST_GAMMA))


class Acceptance(ABC):
    """What every acceptance model answers; subclasses supply the survival."""

    @abstractmethod
    def survival(self, gamma: int) -> FloatArray:
        """s_0 … s_γ, shape (γ+1,), s_0 = 1 and non-increasing. γ a whole number ≥ 0."""

    def notes(self, gamma: int) -> tuple[str, ...]:
        """Where the answer at γ is not what was measured, in words; empty if nowhere."""
        return ()

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        """τ(γ) = Σ_{i=0}^{γ} s_i, tokens emitted a step, between 1 and γ+1.

        γ: whole number ≥ 0, scalar or array; the result has its shape. ValueError otherwise.
        """
        gammas = whole("gamma", gamma, 0)
        sums = np.cumsum(self.survival(int(gammas.max(initial=0))))
        return _like(gammas, sums[gammas])

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

    Leviathan et al. 2023 (arXiv 2211.17192), Definition 3.1 and Eq. 1. α in [0, 1].
    Real text accepts later positions less often than this says.
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

    Each rate lies in [0, 1] and none exceeds the one before it; ValueError otherwise.
    γ < K truncates: exact when every request is alike, otherwise biased low (the step weights of
    a mixture move with γ). γ > K extends with the last conditional rate s_K / s_{K−1}.
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

    def notes(self, gamma: int) -> tuple[str, ...]:
        measured = len(self.rates)
        if gamma > measured:
            return (
                f"Extrapolated: γ={gamma} lies beyond the {measured} measured positions; each "
                f"further token is taken to be accepted at the last measured conditional rate, "
                f"{self.conditional[-1]:.3g}.",
            )
        if 0 < gamma < measured:
            return (
                f"Rates measured at γ={measured}, cut to γ={gamma}: exact if all requests are "
                "alike; a mixture of easy and hard requests does somewhat better than shown.",
            )
        return ()


@dataclass(frozen=True)
class MixtureAcceptance(Acceptance):
    """Requests of several kinds; `weights` are shares of the *output tokens* of each kind.

    A step belongs to part i with probability ∝ w_i / τ_i(γ) (harder requests take more steps),
    so the survival a server would print depends on γ, and τ = Σ w_i / Σ (w_i / τ_i(γ)).
    Weights: finite, ≥ 0, not all 0; they are normalised. ValueError otherwise.
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

    def notes(self, gamma: int) -> tuple[str, ...]:
        found = (note for part in self.parts for note in part.notes(gamma))
        return tuple(dict.fromkeys(found))
