"""Replay: what speculation would have done on texts already written, for every γ from one pass.

A text of N tokens that the target produced is given, with the probability a_t that its token t
would have been accepted had it been drafted. Under exact speculative sampling these events are
independent given the text, so the number of target steps that any γ needs is a Markov chain on the
position at which a step begins. With A[t, i] = Π_{j<i} a_{t+j} (survival of a step that begins at
t) a step emits n tokens with probability

    A[t, n−1] − A[t, n]  for n ≤ γ,      A[t, γ]  for n = γ+1,

and the last token of the text ends its step whatever becomes of it. Nothing is sampled: means,
variances and distributions below are exact (Leviathan et al. 2023, arXiv 2211.17192, Section 2 for
the acceptance rule; the chain is a renewal process whose rewards depend on position).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from specmath.acceptance import LARGEST_GAMMA, Acceptance
from specmath.checks import FloatArray, InputError, IntArray, real, whole

__all__ = ["ReplayAcceptance", "StepCounts"]

_BLOCK_ELEMENTS = 4_000_000
"""Texts × γ × offsets held at once: 32 MB a temporary array."""


@dataclass(frozen=True)
class StepCounts:
    """Target steps that each text needs, shapes (texts, γs): `mean` and `variance`, exact.

    `starts` holds the expected number of steps that begin with at least i accepted drafts to
    come, summed over a text's positions: shape (texts, γs, offsets), so starts[..., 0] = mean.
    """

    gammas: IntArray
    mean: FloatArray
    variance: FloatArray
    starts: FloatArray


class ReplayAcceptance(Acceptance):
    """Acceptance replayed on one text or several.

    The texts must come from this target at these sampling settings: nothing here can check that.
    For proposals that depend on where their step began (n-gram spans, draft heads) use
    `from_starts`.

    Survival depends on γ, because the positions at which steps begin do; a step's emission is cut
    at the end of its text. So τ(γ) = tokens / expected steps = Σ_i s_i(γ) exactly.

    Parameters
    ----------
    probabilities
        One text's a_t (a list of numbers in [0, 1], one a token, at least one), or several texts'
        (a list of such lists, or an array whose rows are texts). InputError otherwise.
    ends
        False takes the texts as pieces of a stream: a step that reaches the end of its text is left
        out, so that τ does not depend on where texts were cut (with γ as long as a text whole steps
        fit in by chance: τ is a sawtooth). γ must then be smaller than the longest text.

    Examples
    --------
    >>> replay = ReplayAcceptance([0.9, 0.2, 0.8, 0.8, 0.9])
    >>> replay.tokens_per_step([0, 2, 4])
    array([1.        , 2.03..., 2.17...])
    >>> ReplayAcceptance([[1.0] * 10], ends=False).tokens_per_step([2, 3, 4])
    array([3., 4., 5.])
    """

    def __init__(self, probabilities: Sequence[Any] | np.ndarray, *, ends: bool = True) -> None:
        texts = _texts(probabilities)
        self.ends = ends
        self.lengths: IntArray = np.array([text.size for text in texts])
        self.alphas: tuple[FloatArray, ...] = tuple(texts)  # a_t of each, as given
        self._widest: int | None = None
        longest = int(self.lengths.max())
        tokens = np.zeros((len(texts), 2 * longest))
        for row, text in zip(tokens, texts, strict=True):
            row[: text.size - 1] = text[:-1]  # the last token ends its step either way
        # a[text, start, offset]: here a view, for the offset does not matter.
        self._offered = sliding_window_view(tokens, longest, axis=1)[:, :longest]

    @classmethod
    def from_starts(cls, probabilities: Sequence[ArrayLike]) -> ReplayAcceptance:
        """From `a[start][offset]` of each text: a list of arrays of shape (tokens, offsets).

        Entry `[s, o]` is the probability that token s+o is accepted as the (o+1)-th drafted token
        of a step that begins at s; 0 where nothing is drafted. Offsets past the end of the text are
        ignored. γ beyond the number of offsets is refused, as nothing is known there. α, the mean
        over tokens, is not defined by such a matrix alone: its first column is used, the token
        that a step beginning there drafts first.
        """
        if not len(probabilities):
            raise InputError("probabilities must hold at least one text, got none")
        texts = [
            real(f"acceptance probability in text {number}", text, 0, 1)
            for number, text in enumerate(probabilities, start=1)
        ]
        widths = {text.shape[1] if text.ndim == 2 else -1 for text in texts}
        if len(widths) != 1 or min(widths) < 1 or any(text.shape[0] < 1 for text in texts):
            raise InputError(
                "probabilities must be arrays of shape (tokens, offsets) with the same number of "
                f"offsets, at least 1, got shapes {[text.shape for text in texts]}"
            )
        made = cls([text[:, 0] for text in texts])
        made._widest = widths.pop()
        made._offered = np.zeros((*made._offered.shape[:2], made._widest))
        for row, text in zip(made._offered, texts, strict=True):
            size = text.shape[0]
            start, offset = np.ogrid[:size, : made._widest]
            row[:size] = np.where(start + offset < size - 1, text, 0.0)
        return made

    def of(self, texts: Sequence[int]) -> ReplayAcceptance:
        """The replay of some of the texts, by their numbers from 0; at least one."""
        chosen = whole("text", list(texts), 0, self.texts - 1)
        if chosen.size == 0:
            raise InputError("texts must hold at least one number, got none")
        made = type(self)([self.alphas[n] for n in chosen], ends=self.ends)
        if self._widest is not None:
            made._widest = self._widest
            made._offered = self._offered[chosen, : made._offered.shape[1]]
        return made

    # ── what the texts say by themselves ────────────────────────────────────────────────────

    @property
    def texts(self) -> int:
        return len(self.lengths)

    @property
    def alpha(self) -> float:
        """α: the mean acceptance probability over all tokens of all texts."""
        return float(np.concatenate(self.alphas).mean())

    # ── every γ at once ─────────────────────────────────────────────────────────────────────

    def steps(self, gamma: ArrayLike) -> StepCounts:
        """Mean and variance of the target steps for each text and each γ of an array.

        γ: whole numbers ≥ 0. γ = 0 takes one step a token. InputError where γ exceeds what
        `from_starts` was given.
        """
        gammas = np.atleast_1d(self._checked(gamma)).ravel()
        # Tokens beyond the text's end are never drafted: a larger γ changes nothing.
        useful, where = np.unique(np.minimum(gammas, self._cap), return_inverse=True)
        block = max(1, _BLOCK_ELEMENTS // (self.texts * (int(useful.max(initial=0)) + 1)))
        parts = [
            self._chain(useful[start : start + block], int(useful.max(initial=0)))
            for start in range(0, useful.size, block)
        ]
        mean, variance, starts = (
            np.concatenate(arrays, axis=1)[:, where] for arrays in zip(*parts, strict=True)
        )
        return StepCounts(gammas, mean, variance, starts)

    def survival(self, gamma: int) -> FloatArray:
        """s_0 … s_γ as a server with this γ would print it over these texts, shape (γ+1,)."""
        gamma = int(self._checked(gamma, scalar=True))
        if not self.ends:
            starts = self.whole_steps(gamma).sum(axis=0)
            return np.asarray(starts / starts[0])
        starts = self.steps(gamma).starts[:, 0].sum(axis=0)
        survival = np.zeros(gamma + 1)
        survival[: starts.size] = (starts / starts[0])[: gamma + 1]
        return survival

    def tokens_per_step(self, gamma: ArrayLike) -> float | FloatArray:
        """τ(γ) = tokens / expected steps over all texts; has the shape of γ."""
        gammas = self._checked(gamma)
        if not self.ends:
            each = [self.survival(int(g)).sum() for g in gammas.ravel()]
            return float(each[0]) if gammas.ndim == 0 else np.array(each).reshape(gammas.shape)
        rates = self.lengths.sum() / self.steps(gammas).mean.sum(axis=0)
        return float(rates[0]) if gammas.ndim == 0 else np.asarray(rates.reshape(gammas.shape))

    def whole_steps(self, gamma: int) -> FloatArray:
        """Expected steps with at least i accepted drafts, over those whose γ+1 tokens lie within
        their text, shape (texts, γ+1): whether a step counts depends on where it begins alone.

        InputError where no text is longer than γ.
        """
        gamma = int(self._checked(gamma, scalar=True))
        longest = int(self.lengths.max())
        if gamma >= longest:
            raise InputError(f"gamma must be less than the {longest} tokens of the longest text")
        begins = np.zeros((self.texts, longest + gamma + 1))
        begins[:, 0] = 1.0
        found = np.zeros((self.texts, gamma + 1))
        for start in range(longest - gamma):
            survival = self._survival_at(start, gamma)
            inside = np.where(start + gamma < self.lengths, begins[:, start], 0.0)
            found += inside[:, None] * survival
            emits = _emission(survival, np.array([gamma]))[:, 0]
            begins[:, start + 1 : start + gamma + 2] += inside[:, None] * emits
        return found

    def steps_pmf(self, gamma: int, text: int = 0) -> FloatArray:
        """P(text `text` takes m target steps) at index m, shape (tokens+1,); sums to 1."""
        gamma = min(int(self._checked(gamma, scalar=True)), self._cap)
        length = int(self.lengths[int(whole("text", text, 0, self.texts - 1))])
        left = np.zeros((length + gamma + 1, length + 1))
        left[length:, 0] = 1.0
        for start in range(length - 1, -1, -1):
            emits = _emission(self._survival_at(start, gamma)[[text]], np.array([gamma]))[0, 0]
            left[start, 1:] = emits @ left[start + 1 : start + gamma + 2, :-1]
        return np.asarray(left[0])

    @property
    def shortest(self) -> int:
        """Tokens of the shortest text: a larger γ reaches past its end."""
        return int(self.lengths.min())

    # ── the chain ───────────────────────────────────────────────────────────────────────────

    @property
    def _cap(self) -> int:
        """A step that begins at 0 can use no more drafted tokens than the longest text has."""
        return int(self._offered.shape[2])

    def _checked(self, gamma: ArrayLike, *, scalar: bool = False) -> IntArray:
        most = LARGEST_GAMMA if self._widest is None else self._widest
        gammas = whole("gamma", gamma, 0, most)
        if scalar and gammas.ndim:
            raise InputError(f"gamma must be one whole number, got {gamma!r}")
        return gammas

    def _survival_at(self, start: int, width: int) -> FloatArray:
        """A[start, 0…width] of every text, shape (texts, width+1)."""
        rates = np.ones((self.texts, width + 1))
        rates[:, 1:] = self._offered[:, start, :width]
        return np.asarray(np.cumprod(rates, axis=1))

    def _chain(self, gammas: IntArray, width: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Backwards for mean and variance of the steps left, forwards for where steps begin."""
        longest = int(self.lengths.max())
        shape = (self.texts, gammas.size)
        left = np.zeros((longest + width + 1, *shape))
        spread = np.zeros_like(left)
        for start in range(longest - 1, -1, -1):
            emits = _emission(self._survival_at(start, width), gammas)
            after = np.moveaxis(left[start + 1 : start + width + 2], 0, -1)
            later = np.moveaxis(spread[start + 1 : start + width + 2], 0, -1)
            inside = (start < self.lengths)[:, None]
            mean = 1.0 + np.sum(emits * after, axis=-1)
            away = (1.0 + after - mean[..., None]) ** 2
            left[start] = np.where(inside, mean, 0.0)
            spread[start] = np.where(inside, np.sum(emits * (later + away), axis=-1), 0.0)
        begins = np.zeros_like(left)
        begins[0] = 1.0
        starts = np.zeros((*shape, width + 1))
        within = np.arange(width + 1) <= gammas[:, None]
        for start in range(longest):
            survival = self._survival_at(start, width)
            begun = np.where((start < self.lengths)[:, None], begins[start], 0.0)
            starts += begun[..., None] * survival[:, None, :] * within
            moved = begun[..., None] * _emission(survival, gammas)
            begins[start + 1 : start + width + 2] += np.moveaxis(moved, -1, 0)
        return left[0], spread[0], starts


def _emission(survival: FloatArray, gammas: IntArray) -> FloatArray:
    """P(a step emits n tokens) at index n−1: (texts, width+1) and (γs,) → (texts, γs, width+1)."""
    offsets = np.arange(survival.shape[1])
    stops = survival.copy()
    stops[:, :-1] -= survival[:, 1:]
    below, full = offsets < gammas[:, None], offsets == gammas[:, None]
    return np.asarray(stops[:, None] * below + survival[:, None] * full)


def _texts(probabilities: Sequence[Any] | np.ndarray) -> list[FloatArray]:
    """One array a text; a flat list of numbers is one text."""
    if not isinstance(probabilities, (Sequence, np.ndarray)) or isinstance(probabilities, str):
        raise InputError(f"probabilities must be a list of numbers, got {probabilities!r}")
    if np.ndim(probabilities) == 0 if isinstance(probabilities, np.ndarray) else not probabilities:
        raise InputError("probabilities must hold at least one text, got none")
    nested = any(np.ndim(part) > 0 for part in probabilities)
    texts = []
    for number, part in enumerate(probabilities if nested else [probabilities], start=1):
        text = real(f"acceptance probability in text {number}", part, 0, 1)
        if text.ndim != 1 or text.size == 0:
            raise InputError(
                f"text {number} must be a list of at least one probability, got shape {text.shape}"
            )
        texts.append(text)
    return texts
