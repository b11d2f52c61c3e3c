"""The largest rate of a replica at one γ as a function of what is accepted, for files that follow.

Without a promise it is λ_max = 1 / (P + D/τ), τ that of all requests: P and D do not depend on it.
A promise leaves a share of λ_max. That share follows from τ alone where all requests are alike, and
for a first token. A segment's time per token and whole request follow from its own τ_i as well: at
a rate λ they just hold where

    1/τ_i = w(λ, τ),    w = S / u  (a token within S),    w = (S − TTFT) / ((N − 1) u)  (a request)

with u the mean time per token times τ. w falls with λ, from w₀, which no τ moves, to w₁(τ) at
λ_max, so that the share is a function of the slack (w₀ − 1/τ_i) / (w₀ − w₁(τ)), on which τ bears
little.

All functions are straight lines between knots that the server law computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike

from specmath.carried import NEAR, Carried, Promise
from specmath.checks import FloatArray

__all__ = ["Bound", "Line", "Peak", "peak"]

CLOSE = 1e-3
"""How near to the law a line is wanted between its knots, as a share of the value."""

NARROW = 1e-4
"""Of all τ, the least between two knots: the law has steps, where memory is full."""

SMALL = 0.02
"""Shares of λ_max below which the miss is counted as if they were this large."""

WITHIN = (0.25, 0.5, 0.75)
"""Where a line is looked at between two knots."""

KNOTS, SLICES = 60, 12
"""At most, of a line, which fits one cell of a file; and of τ at which there is one over the slack.
"""

AMONG = np.linspace(0.0, 1.0, 12)
"""Of the slack, at which slices are compared."""

USES = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 320), np.linspace(0.3, 1.0, 140)]))
"""Of λ_max, between which the slack is turned round."""


@dataclass(frozen=True)
class Line:
    """Straight between knots, constant beyond them; x ascends."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __call__(self, at: float) -> float:
        """The value there."""
        return float(np.interp(at, self.x, self.y))


@dataclass(frozen=True)
class Bound:
    """What one promise leaves of λ_max.

    Attributes
    ----------
    promise
        What is promised, and of which segment.
    share
        Over τ, where nothing else moves it; else None.
    start, end
        w₀, and w₁ over τ.
    slices
        The share over the slack at each of several τ, ascending.
    miss
        The largest found between knots, as a share of the value.
    """

    promise: Promise
    share: Line | None
    start: float = 0.0
    end: Line | None = None
    slices: tuple[tuple[float, Line], ...] = ()
    miss: float = 0.0

    @property
    def knots(self) -> int:
        """Values of the law between which it is interpolated."""
        lines = [self.share] if self.share is not None else [line for _, line in self.slices]
        return sum(len(line.x) for line in lines)


@dataclass(frozen=True)
class Peak:
    """λ_max = 1 / (read + decode/τ), and what promises leave of it.

    Attributes
    ----------
    read, decode
        P, and (N − 1) step(B_max) / B_max, seconds.
    bounds
        One a promise, in the order given.
    """

    read: float
    decode: float
    bounds: tuple[Bound, ...]

    @property
    def miss(self) -> float:
        """The largest of all bounds."""
        return max((each.miss for each in self.bounds), default=0.0)


@lru_cache(maxsize=64)
def peak(server: Carried, gamma: int, promises: tuple[Promise, ...]) -> Peak:
    """The largest rate of one replica at γ over what its requests accept.

    Parameters
    ----------
    server
        What serves; its own acceptance is a knot of every line, so that there the functions are
        the law itself.
    gamma
        γ ≥ 1.
    promises
        What is promised.

    Returns
    -------
    Peak
        For τ in [1, γ+1].
    """
    one = server.only(gamma)
    slow, fast = (1.0 / float(_at(one, [tokens]).most[0]) for tokens in (1.0, 2.0))
    decode = 2.0 * (slow - fast)
    bounds = tuple(_bound(one, gamma, each) for each in promises)
    return Peak(slow - decode, decode, bounds)


def _at(one: Carried, tokens: ArrayLike, part: int | None = None, own: float = 1.0) -> Carried:
    """The server of one γ at each of those τ; a part's own τ_i then is `own`."""
    each = np.asarray(tokens, dtype=float)
    many = one.only(*[0] * len(each))
    kinds = [replace(many.kinds[0], tokens=each), *many.kinds[1:]]
    if part is not None:
        kinds[1 + part] = replace(kinds[1 + part], tokens=np.full(len(each), own))
    return replace(many, kinds=tuple(kinds))


def _bound(one: Carried, gamma: int, promise: Promise) -> Bound:
    part = promise.part
    kind = one.kinds[0 if part is None else 1 + part]
    now, top = float(one.tokens[0]), float(max(gamma + 1.0, one.tokens[0]))
    moved = promise.name == "tpot" or (promise.name == "e2e" and kind.decoded > 0)
    if part is not None and moved:
        return _of_own_tokens(one, promise, top)

    def share(tokens: FloatArray) -> FloatArray:
        many = _at(one, tokens)
        return (many.within([promise])[0] / many.most)[:, None]

    # Where one request alone just meets it the share leaves 0.
    alone = float(_reciprocals(one, np.array([now]), promise)[0, 0]) if moved else 0.0
    kept = [now, *([1.0 / alone] if alone > 0.0 and 1.0 < 1.0 / alone < top else [])]
    x, miss = _knots(share, 1.0, top, kept, KNOTS)
    return Bound(promise, _line(x, share(x)[:, 0]), miss=miss)


def _reciprocals(one: Carried, tokens: FloatArray, promise: Promise) -> FloatArray:
    """w over USES of λ_max and τ [uses, τ]."""
    many = _at(one, tokens, promise.part)
    state = many.states(USES[:, None] * many.most * NEAR, promise.part)
    kind = many.kinds[0 if promise.part is None else 1 + promise.part]
    mean = state["tpot"] * (kind.tokens if promise.part is None else 1.0)
    if promise.name == "tpot":
        return np.asarray(promise.seconds / mean)
    return np.asarray((promise.seconds - state["ttft"]) / (kind.decoded * mean))


def _of_own_tokens(one: Carried, promise: Promise, top: float) -> Bound:
    assert promise.part is not None
    now, own = float(one.tokens[0]), float(one.kinds[1 + promise.part].tokens[0])

    def slacks(tokens: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The slack over USES [uses, τ], and w₁."""
        w = _reciprocals(one, tokens, promise)
        return np.maximum.accumulate((w[0] - w) / (w[0] - w[-1]), axis=0), w[-1]

    few = np.unique([*np.linspace(1.0, top, 5), now])
    start = float(_reciprocals(one, few[:1], promise)[0, 0])
    _, ends = slacks(few)
    low, high = (
        float(np.clip(pick((start - 1.0 / tokens) / (start - ends)), 0.0, 1.0))
        for pick, tokens in ((np.min, 1.0), (np.max, top))
    )
    if low >= 1.0 or high <= 0.0:  # whatever is accepted
        return Bound(promise, Line((1.0,), (float(low >= 1.0),)))
    among = low + (high - low) * AMONG

    def across(tokens: FloatArray) -> FloatArray:
        each, end = slacks(tokens)
        shares = [np.interp(among, column, USES) for column in each.T]
        return np.column_stack([np.array(shares), start - end])

    x, miss = _knots(across, 1.0, top, [now], SLICES)
    each, end = slacks(x)
    slices, missed = [], []
    for tokens, column, last in zip(x, each.T, end, strict=True):
        here = float(np.clip((start - 1.0 / own) / (start - last), low, high))
        kept = [here] if tokens == now else []
        z, off = _knots(partial(_turned, column), low, high, kept, KNOTS)
        y = np.interp(z, column, USES)
        if kept:
            y[z == here] = one.within([promise])[0][0] / one.most[0]
        slices.append((float(tokens), _line(z, y)))
        missed.append(off)
    return Bound(promise, None, start, _line(x, end), tuple(slices), miss + max(missed))


def _turned(slack: FloatArray, at: FloatArray) -> FloatArray:
    """The share [at, 1] of λ_max at which the slack is so large; `slack` over USES."""
    return np.asarray(np.interp(at, slack, USES))[:, None]


def _line(x: FloatArray, y: FloatArray) -> Line:
    return Line(tuple(x.tolist()), tuple(y.tolist()))


def _knots(
    f: Callable[[FloatArray], FloatArray], low: float, high: float, kept: Sequence[float], most: int
) -> tuple[FloatArray, float]:
    """Where to know f [x, values], so that straight lines between are near it; and the miss."""
    x = np.unique([low, high, *kept])
    y, misses = f(x), np.full(len(x) - 1, np.nan)
    middles = np.zeros((len(x) - 1, y.shape[1]))
    while True:
        new = np.flatnonzero(np.isnan(misses))
        shares = np.array(WITHIN)[:, None]
        truth = f((x[new] + shares * (x[new + 1] - x[new])).ravel())
        truth = truth.reshape(len(shares), len(new), -1)
        lines = y[new] + shares[..., None] * (y[new + 1] - y[new])
        misses[new] = (np.abs(lines - truth) / np.maximum(np.abs(truth), SMALL)).max(axis=(0, 2))
        middles[new] = truth[1]
        worst = np.argsort(misses)[::-1][: most - len(x)]
        wide = np.diff(x)[worst] > NARROW * (high - low)
        worst = np.sort(worst[(misses[worst] > CLOSE) & wide])
        if not worst.size:
            return x, float(misses.max())
        x = np.insert(x, worst + 1, 0.5 * (x[worst] + x[worst + 1]))
        y = np.insert(y, worst + 1, middles[worst], axis=0)
        # Either half is looked at anew.
        misses[worst] = np.nan
        misses, middles = (np.insert(a, worst + 1, np.nan, axis=0) for a in (misses, middles))
