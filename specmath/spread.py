"""How far a quantity spreads over requests: its mean and quantiles, with the ends of each.

Of requests of several kinds the quantiles are of all together; of answers that differ in length,
with n over the mean n̄ of tokens after the first, something that takes n times as long has n times
the mean and √n times the deviation about it, because what happens to each token is its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specmath.checks import FloatArray, InputError, real
from specmath.estimate import Estimate, ends

__all__ = ["Spread", "mixed", "over_lengths"]

HALVINGS = 40
"""Of the bracket in which a quantile of several kinds is sought."""

FINE = np.array([0.002, *np.linspace(0.005, 0.985, 50), 0.99, 0.993, 0.996, 0.998, 0.9995])
"""Quantiles of one group of lengths that stand for those about them."""


@dataclass(frozen=True, eq=False)
class Spread:
    """A quantity's mean and quantiles, each with its ends.

    `values` (levels,), and `points` (corners, draws, levels) in the endpoint's order; None where
    nothing is open.
    """

    mean: Estimate
    levels: tuple[float, ...]
    values: FloatArray
    points: FloatArray | None

    def at(self, level: float) -> Estimate:
        """The quantile of a level that was asked for; InputError of another."""
        if level not in self.levels:
            raise InputError(f"level must be one of {self.levels}, got {level!r}")
        i = self.levels.index(level)
        points = None if self.points is None else self.points[:, :, i]
        return Estimate(float(self.values[i]), points, self.mean.basis)

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The low and the high end of each quantile."""
        if self.points is None:
            return self.values, self.values
        low, high = ends(self.points)
        return np.minimum(low, self.values), np.maximum(high, self.values)

    def map(self, convert: Callable[[Any], Any]) -> Spread:
        """The same of a quantity that rises with this one; `convert` works on arrays."""
        points = None if self.points is None else np.asarray(convert(self.points))
        return Spread(self.mean.map(convert), self.levels, convert(self.values), points)


def mixed(spreads: Sequence[Spread], shares: Sequence[float], level: float) -> Estimate:
    """A quantile of requests of several kinds, each of which has its own spread: the x at which

        Σ share_i P_i(≤ x) = level

    Parameters
    ----------
    spreads
        Of each kind, over the same levels of one endpoint, at least one; between two of them a
        chance lies on a line.
    shares
        Of the requests, > 0; they are normalised.
    level
        In [the least level, the largest].

    Raises
    ------
    InputError
        A level beyond those that the spreads have.
    """
    levels = np.array(spreads[0].levels)
    real("level", level, float(levels.min()), float(levels.max()))
    weights = np.array(shares, dtype=float) / math.fsum(shares)

    def at(values: list[FloatArray]) -> FloatArray:
        """Of values [..., levels] of each kind."""
        low = np.min([each[..., 0] for each in values], axis=0)
        high = np.max([each[..., -1] for each in values], axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            reached = sum(
                weight * _chance(each, levels, middle)
                for weight, each in zip(weights, values, strict=True)
            )
            low, high = (np.where(reached < level, middle, low),
                         np.where(reached < level, high, middle))  # fmt: skip
        return np.asarray(high)

    points = None
    if any(each.points is not None for each in spreads):
        every = [each.values if each.points is None else each.points for each in spreads]
        shape = np.broadcast_shapes(*(each.shape for each in every))
        points = at([np.broadcast_to(each, shape) for each in every])
    return Estimate(float(at([each.values for each in spreads])), points, spreads[0].mean.basis)


def _chance(values: FloatArray, levels: FloatArray, x: FloatArray) -> FloatArray:
    """P(≤ x) of quantiles [..., levels] at x [...]: 0 below the first of them and 1 above the
    last."""
    after = np.clip((values <= x[..., None]).sum(axis=-1), 1, len(levels) - 1)
    low, high = (np.take_along_axis(values, at[..., None], -1)[..., 0] for at in (after - 1, after))
    share = np.clip((x - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    inside = levels[after - 1] + share * (levels[after] - levels[after - 1])
    return np.where(x < values[..., 0], 0.0, np.where(x > values[..., -1], 1.0, inside))


def over_lengths(
    of: Spread, lengths: FloatArray, shares: FloatArray, levels: Sequence[float], *, per_token: bool
) -> Spread:
    """The spread over answers of different lengths, from that of the mean length.

    Parameters
    ----------
    of
        Of the mean length, over ascending levels.
    lengths, shares
        Tokens after the first over their mean, > 0, of each group, and its share of the requests.
    levels
        Which quantiles, each in [0, 1].
    per_token
        Of a mean over the tokens, whose deviation falls with √n, not of their sum.

    Raises
    ------
    InputError
        A length of nothing.
    """
    real("lengths", lengths, 0, low_open=True)
    root = np.sqrt(lengths)
    sizes, deviations = (np.ones(len(lengths)), 1.0 / root) if per_token else (lengths, root)
    edges = np.concatenate([[0.0], (FINE[1:] + FINE[:-1]) / 2.0, [1.0]])
    weights = np.outer(shares / shares.sum(), np.diff(edges)).ravel()

    def quantiles(values: FloatArray, mean: FloatArray) -> FloatArray:
        off = np.apply_along_axis(
            lambda each: np.interp(FINE, of.levels, each), -1, values - mean[..., None]
        )
        every = mean[..., None, None] * sizes[:, None] + deviations[:, None] * off[..., None, :]
        flat = every.reshape(*values.shape[:-1], -1)
        order = np.argsort(flat, axis=-1)
        met = weights[order]
        reached = np.cumsum(met, axis=-1) - met / 2.0
        flat = np.take_along_axis(flat, order, -1)
        found = np.empty((*values.shape[:-1], len(levels)))
        for at in np.ndindex(values.shape[:-1]):
            found[at] = np.interp(levels, reached[at], flat[at])
        return found

    points = None
    if of.points is not None and of.mean.points is not None:
        mean = np.broadcast_to(of.mean.points, of.points.shape[:-1])
        points = quantiles(of.points, mean)
    values = quantiles(of.values, np.array(of.mean.value))
    return replace(of, levels=tuple(levels), values=values, points=points)
