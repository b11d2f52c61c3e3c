"""The open loop: requests that come by themselves, λ a second, whatever the server does.

    B₁ = 1 + B + κ      B = λ (N−1) TPOT      κ = 1/(1 − λP)² − 1
    TPOT = step(B₁)/τ / (1 − λP) + κ P / (2 (N−1)), stable iff λ < λ_max
    λ_max = 1 / (P + (N−1) step(B_max) / (τ B_max))

While a prompt is read nobody decodes, so that those who come meanwhile begin together with it: an
open loop is one of bursts, the busy periods of M/D/1 with a share λP of the time. A request finds κ
others in its own (E X² / E X − 1 of Borel's distribution), who stay as long as it does; the prompts
of half of them come after its own. Short prompts share steps, m = λ times a step's seconds in the
mean, and the weights hide less of the second: P grows by D (1 − (1 − e^−m)/m), D what two add in
one step beyond twice one.

The same over B₁ in place of λ needs no search of the batch: with u = 1/(1 − λP)

    B₁ = u² + (N−1) step(B₁)/(τ P) (u − 1) + (u − 1)² (u + 1)/(2u)

has one root u ≥ 1, since all of its right side rises, and λ = (1 − 1/u)/P.

A prompt is read in the step after the one under way, with all that come meanwhile: S′ = D + P n(S)
of a step of S seconds, n of Poisson's law, D the step without prompts. One that comes finds a step
of E S²/E S = R, half of it left, and λR other prompts come in it, which end with it:

    waiting = (½ + λP) R        R = D / (1 − λP) + P λP / (1 − λ²P²)

(gated service: Takagi, Queueing Analysis, vol. 1, 1991). Where a step has room for one prompt or
less, r ≤ 1, they are read in turn, as in M/D/1, each in T = P + D/r; between one and two, between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray

__all__ = ["MOST_BUSY", "Filled", "filled", "largest_rate", "open_loop", "queue_seconds"]

ROUNDS = 60
"""Of an open loop's fixed point at most: beside λ_max it takes forty, elsewhere about ten."""

SETTLED = 1e-12
"""Of the sequences in a step, by which a round moves nothing that counts."""

STEEPEST = 0.99
"""Slope of an open loop's fixed point that a step towards it is taken along: 1 is where it has
none, and a slope over two pieces of a broken line may be anything."""

MOST_BUSY = 0.95
"""The share of the time for prompts beyond which a queue of them has no mean to speak of."""

NEWTON = 6
"""Steps to the root of a smooth equation, from its convex side."""


def open_loop(
    decoded: float,
    rate: FloatArray,
    tokens: FloatArray,
    most: ArrayLike,
    step: Callable[[FloatArray], FloatArray],
    prompt: Callable[[FloatArray, FloatArray], FloatArray],
    settled: float = SETTLED,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """The open loop's fixed point at any rates; all broadcast to the shape of `rate`.

    Sought from an empty server, along the slope between the last two rounds: the first fixed point,
    where more than one may be.

    Parameters
    ----------
    decoded
        N − 1, tokens of a request that come from decode steps.
    rate, tokens, most
        λ, requests a second; τ; B_max. `rate` has a first axis that the others do not have: what
        is settled of it is left alone.
    step, prompt
        Seconds of a step at a batch B₁; P beside so many others, at so many prompts a step.
    settled
        Share of B₁ by which the last round moves it at most.

    Returns
    -------
    tuple
        B₁; seconds of a step; P; λP; TPOT.
    """
    n, held = decoded, np.asarray(most, dtype=float)
    first = step(np.ones(rate.shape))
    state = np.stack([np.ones(rate.shape), first, *np.zeros((3, *rate.shape))])
    # Of each round, and what it was led to; the slope between the last two.
    others, last, led, slope = np.zeros((4, *rate.shape))
    rows = np.arange(len(rate))
    for turn in range(ROUNDS):
        here, (_, seconds, _, busy, _) = others[rows], state[:, rows]
        each = prompt(here, rate[rows] * seconds / (1.0 - busy))
        busy = np.minimum(rate[rows] * each, MOST_BUSY)
        burst = 1.0 / (1.0 - busy) ** 2 - 1.0
        batch = np.minimum(1.0 + here + burst, np.maximum(held, 1.0))
        seconds = step(batch)
        tpot = seconds / tokens / (1.0 - busy) + burst * each / (2.0 * n)
        found = np.minimum(rate[rows] * n * tpot, held - 1.0)
        for into, value in zip(state, (batch, seconds, each, busy, tpot), strict=True):
            into[rows] = value
        if turn:
            along = _slope(here - last[rows], found - led[rows], slope[rows])
            slope[rows] = along
        else:
            along = slope[rows]
        last[rows], led[rows] = here, found
        others[rows] = np.clip(here + (found - here) / (1.0 - along), 0.0, held - 1.0)
        if turn:
            off = np.abs(found - here) > settled * batch
            rows = rows[off.reshape(len(rows), -1).any(axis=1)]
            if not rows.size:
                break
    batch, seconds, each, busy, tpot = state
    return batch, seconds, each, busy, tpot


def queue_seconds(
    batch: FloatArray, step: FloatArray, prompt: FloatArray, busy: FloatArray, room: ArrayLike,
    unequal: float = 1.0,
) -> FloatArray:  # fmt: skip
    """What a prompt waits for others, beyond half a step of those who decode, seconds: 0 at λ = 0.

    Parameters
    ----------
    batch, step, prompt, busy
        B₁, seconds of a step, P and λP, of one shape.
    room
        r, prompts that a step has room for, > 0, of a shape that broadcasts.
    unequal
        E P² / (E P)² of prompts that differ, ≥ 1.
    """
    many = np.asarray(room, dtype=float)
    decodes = np.minimum(batch - 1.0, 1.0) * step
    found = decodes / (1.0 - busy) + unequal * prompt * busy / (1.0 - busy**2)
    together = (0.5 + busy) * found - 0.5 * decodes
    each = prompt + decodes / many
    used = np.minimum(busy * each / np.where(prompt > 0.0, prompt, 1.0), MOST_BUSY)
    in_turn = unequal * used * each / (2.0 * (1.0 - used))
    share = np.clip(many - 1.0, 0.0, 1.0)
    return np.asarray(share * together + (1.0 - share) * in_turn)


def _slope(moved: FloatArray, followed: FloatArray, before: FloatArray) -> FloatArray:
    """Of a fixed point's two last rounds; that of before where nothing moved."""
    still = np.abs(moved) <= 1e-12
    each = np.where(still, before, followed / np.where(still, 1.0, moved))
    return np.minimum(np.maximum(each, -1.0), STEEPEST)


@dataclass(frozen=True, eq=False)
class Filled:
    """An open loop over B₁, all of one shape; seconds.

    rate: λ, requests a second. step: of one. prompt, busy: P and λP. tpot: of a request. carried:
    whether the loop stays there; where it does not, a fuller server serves no more, or prompts take
    more than `MOST_BUSY` of the time.
    """

    rate: FloatArray
    step: FloatArray
    prompt: FloatArray
    busy: FloatArray
    tpot: FloatArray
    carried: np.ndarray


def filled(
    decoded: float,
    batch: FloatArray,
    tokens: FloatArray,
    step: Callable[[FloatArray], FloatArray],
    prompt: Callable[[FloatArray, FloatArray], FloatArray],
    settled: float = SETTLED,
) -> Filled:
    """The open loop in which B₁ sequences are in a step: `open_loop` the other way round.

    Parameters
    ----------
    decoded
        N − 1.
    batch
        B₁ > 1, ascending on the first axis.
    tokens, step, prompt
        As of `open_loop`.
    settled
        Share of u by which the last round moves it at most.
    """
    seconds = step(batch)
    decode = decoded * seconds / tokens
    each, u = prompt(batch - 1.0, np.zeros(batch.shape)), np.ones(batch.shape)
    for _ in range(ROUNDS):
        some = each > 0.0
        beside = np.where(some, decode / np.where(some, each, 1.0), 0.0)
        before, u = u, np.where(some, _stretch(batch, beside), 1.0)
        busy = 1.0 - 1.0 / u
        met = np.where(some, busy * u * seconds / np.where(some, each, 1.0), 0.0)
        each = prompt(np.maximum(batch - u**2, 0.0), met)
        if np.all(np.abs(u - before) <= settled * u):
            break
    alone = (batch - 1.0) / decode
    rate = np.where(some, busy / np.where(some, each, 1.0), alone)
    most = np.maximum.accumulate(rate, axis=0)
    rises = np.concatenate([np.ones((1, *rate.shape[1:]), bool), rate[1:] > most[:-1]])
    return Filled(
        rate=rate,
        step=seconds,
        prompt=each,
        busy=busy,
        tpot=decode / decoded * u + (u**2 - 1.0) * each / (2.0 * decoded),
        carried=rises & (busy <= MOST_BUSY),
    )


def _stretch(batch: FloatArray, beside: FloatArray) -> FloatArray:
    """u of B₁ = u² + beside (u − 1) + (u − 1)² (u + 1)/(2u): what the first or the second term
    alone makes of it is too much, and from there Newton's steps come down to it."""
    u = np.minimum(np.sqrt(batch), 1.0 + (batch - 1.0) / np.maximum(beside, 1e-300))
    for _ in range(NEWTON):
        left = u**2 + beside * (u - 1.0) + (u - 1.0) ** 2 * (u + 1.0) / (2.0 * u) - batch
        u = u - left / (2.0 * u + beside + (2.0 * u - 1.0 - 1.0 / u**2) / 2.0)
    return np.asarray(u)


def largest_rate(
    decoded: float, held: ArrayLike, step: ArrayLike, tokens: ArrayLike, prompt: ArrayLike
) -> FloatArray:
    """λ_max = 1 / (P + (N−1) step(B_max) / (τ B_max)), requests a second; `held` is B_max, `step`
    and `prompt` the seconds there. All broadcast."""
    decode = np.asarray(step, dtype=float) / np.asarray(tokens, dtype=float)
    return np.asarray(1.0 / (np.asarray(prompt) + decoded * decode / np.asarray(held)))
