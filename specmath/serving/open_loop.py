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
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from specmath.checks import FloatArray, IntArray

__all__ = ["MOST_BUSY", "Filled", "filled", "largest_rate", "open_loop", "queue_seconds"]

ROUNDS = 40
"""Of a search at most: it settles in about eight."""

SETTLED = 1e-12
"""Share by which the last round moves what is sought at most."""

FILLS = np.concatenate([[0.0], np.geomspace(1e-5, 1.0, 24)])
"""Shares of B_max − 1 between which the batch of a rate is sought: the first pair that has it."""

MOST_BUSY = 0.95
"""The share of the time for prompts beyond which a queue of them has no mean to speak of."""

NEWTON, AGAIN = 6, 2
"""Steps to the root of a smooth equation, and from one that is near to it."""


Step = Callable[[FloatArray], FloatArray]
"""Seconds of a step at a batch B₁."""

Prompt = Callable[[FloatArray, FloatArray], FloatArray]
"""P beside so many others, at so many prompts a step in the mean."""


@dataclass(frozen=True, eq=False)
class Filled:
    """An open loop over B₁, all of one shape; seconds.

    batch: B₁. rate: λ, requests a second. step: of one. prompt, busy: P and λP. tpot: of a request.
    """

    batch: FloatArray
    rate: FloatArray
    step: FloatArray
    prompt: FloatArray
    busy: FloatArray
    tpot: FloatArray

    def carried(self) -> np.ndarray:
        """Of batches that ascend on the first axis, whether the loop stays there: a fuller server
        serves more, and prompts take no more than `MOST_BUSY` of the time."""
        most = np.maximum.accumulate(self.rate, axis=0)
        first = np.ones((1, *self.rate.shape[1:]), bool)
        rises = np.concatenate([first, self.rate[1:] > most[:-1]])
        return rises & (self.busy <= MOST_BUSY)


def filled(
    decoded: float, batch: FloatArray, tokens: FloatArray, step: Step, prompt: Prompt,
    settled: float = SETTLED,
) -> Filled:  # fmt: skip
    """The open loop in which B₁ sequences are in a step: `open_loop` the other way round.

    Parameters
    ----------
    decoded
        N − 1.
    batch
        B₁ ≥ 1; all else broadcasts to its shape.
    tokens, step, prompt
        As of `open_loop`.
    settled
        Share of u by which the last round moves it at most.
    """
    seconds = step(batch)
    decode = decoded * seconds / tokens
    each, u = prompt(batch - 1.0, np.zeros(batch.shape)), np.ones(batch.shape)
    for turn in range(ROUNDS):
        some = each > 0.0
        beside = np.where(some, decode / np.where(some, each, 1.0), 0.0)
        start = u if turn else np.minimum(
            np.sqrt(batch), 1.0 + (batch - 1.0) / np.maximum(beside, 1e-300)
        )  # fmt: skip
        before, u = (
            u,
            np.where(some, _stretch(batch, beside, start, AGAIN if turn else NEWTON), 1.0),
        )
        met = np.where(some, (u - 1.0) * seconds / np.where(some, each, 1.0), 0.0)
        each = prompt(np.maximum(batch - u**2, 0.0), met)
        if np.all(np.abs(u - before) <= settled * u):
            break
    busy = 1.0 - 1.0 / u
    alone = (batch - 1.0) / decode
    return Filled(
        batch=batch,
        rate=np.where(some, busy / np.where(some, each, 1.0), alone),
        step=seconds,
        prompt=each,
        busy=busy,
        tpot=seconds / tokens * u + (u**2 - 1.0) * each / (2.0 * decoded),
    )


def _stretch(batch: FloatArray, beside: FloatArray, u: FloatArray, steps: int) -> FloatArray:
    """u of B₁ = u² + beside (u − 1) + (u − 1)² (u + 1)/(2u) by Newton's steps: the right side is
    convex, so that after the first they come down to it. From what its first or its second term
    alone makes of it they do from the start."""
    for _ in range(steps):
        left = u**2 + beside * (u - 1.0) + (u - 1.0) ** 2 * (u + 1.0) / (2.0 * u) - batch
        u = u - left / (2.0 * u + beside + (2.0 * u - 1.0 - 1.0 / u**2) / 2.0)
    return np.asarray(u)


def open_loop(
    decoded: float, rate: FloatArray, tokens: FloatArray, most: ArrayLike, step: Step,
    prompt: Prompt, settled: float = SETTLED,
) -> Filled:  # fmt: skip
    """The open loop at any rates: the least batch at which they come.

    Parameters
    ----------
    decoded
        N − 1, tokens of a request that come from decode steps.
    rate
        λ ≥ 0, requests a second, with a first axis that nothing else has.
    tokens, most
        τ; B_max. They broadcast to the shape of `rate`.
    step, prompt
        Of what serves.
    settled
        Share of the rate by which the one of the batch that is found may differ.

    Returns
    -------
    Filled
        Of a rate at which no batch up to B_max stays, the server that is full and does not wait.
    """
    held = np.broadcast_to(np.maximum(np.asarray(most, dtype=float), 1.0), rate.shape)
    fills = FILLS.reshape(-1, *(1,) * (rate.ndim - 1))
    table = filled(decoded, 1.0 + fills * (held[:1] - 1.0), tokens, step, prompt, 1e-6)
    reached = (table.rate[:, None] >= rate[None]) & (held > 1.0)
    able, after = np.asarray(reached.any(axis=0)), np.maximum(reached.argmax(axis=0), 1)

    def ends(at: IntArray) -> Ends:
        return np.take_along_axis(table.batch, at, 0), np.take_along_axis(table.rate, at, 0)

    def rate_of(batch: FloatArray) -> FloatArray:
        return filled(decoded, batch, tokens, step, prompt, settled).rate

    batch = _crossing(rate_of, rate, ends(after - 1), ends(after), able, settled)
    found = filled(decoded, batch, tokens, step, prompt, settled)
    if able.all():
        return found
    full = _full(decoded, rate, tokens, held, step, prompt)
    return Filled(*(
        np.where(able, getattr(found, each.name), getattr(full, each.name))
        for each in fields(Filled)
    ))  # fmt: skip


Ends = tuple[FloatArray, FloatArray]
"""A batch, and the rate that fills it so far."""


def _crossing(
    rate_of: Callable[[FloatArray], FloatArray], rate: FloatArray, low: Ends, high: Ends,
    able: np.ndarray, settled: float,
) -> FloatArray:  # fmt: skip
    """The batch between two at which that rate comes, by false position (Illinois); `high` where
    none does. Rows that are settled are left alone."""
    (a, below), (b, above) = low, high
    below, above = below - rate, above - rate
    batch, rows = b.copy(), np.flatnonzero(able.reshape(len(able), -1).any(axis=1))
    for _ in range(ROUNDS):
        if not rows.size:
            break
        left, right, under, over = a[rows], b[rows], below[rows], above[rows]
        width = np.where(over > under, over - under, 1.0)
        here = right - over * (right - left) / width
        here = np.where(able[rows], np.clip(here, left, right), right)
        off = rate_of(here) - rate[rows]
        up = off < 0.0
        # An end that stays is weighed half, or it would stay for ever.
        again = up == (batch[rows] == left)
        a[rows], b[rows] = np.where(up, here, left), np.where(up, right, here)
        below[rows] = np.where(up, off, np.where(again, under / 2.0, under))
        above[rows] = np.where(up, np.where(again, over / 2.0, over), off)
        batch[rows] = here
        open_ = able[rows] & (np.abs(off) > settled * rate[rows])
        open_ &= b[rows] - a[rows] > settled * here
        rows = rows[open_.reshape(len(rows), -1).any(axis=1)]
    return batch


def _full(
    decoded: float, rate: FloatArray, tokens: FloatArray, held: FloatArray, step: Step,
    prompt: Prompt,
) -> Filled:  # fmt: skip
    """The server that is full, with as many prompts as come."""
    seconds, u = step(held), np.ones(rate.shape)
    for _ in range(ROUNDS):
        each = prompt(np.maximum(held - u**2, 0.0), rate * seconds * u)
        before, u = u, 1.0 / (1.0 - np.minimum(rate * each, MOST_BUSY))
        if np.all(np.abs(u - before) <= SETTLED * u):
            break
    tpot = seconds / tokens * u + (u**2 - 1.0) * each / (2.0 * decoded)
    return Filled(held, rate, seconds, each, 1.0 - 1.0 / u, tpot)


def queue_seconds(of: Filled, room: ArrayLike, unequal: ArrayLike = 1.0) -> FloatArray:
    """What a prompt waits for others, beyond half a step of those who decode, seconds: 0 at λ = 0.

    Parameters
    ----------
    of
        The loop.
    room
        r, prompts that a step has room for, > 0, of a shape that broadcasts.
    unequal
        E P² / (E P)² of prompts that differ, ≥ 1.
    """
    many, prompt, differ = np.asarray(room, dtype=float), of.prompt, np.asarray(unequal)
    busy = np.minimum(of.busy, MOST_BUSY)
    decodes = np.minimum(of.batch - 1.0, 1.0) * of.step
    found = decodes / (1.0 - busy) + differ * prompt * busy / (1.0 - busy**2)
    together = (0.5 + busy) * found - 0.5 * decodes
    each = prompt + decodes / many
    used = np.minimum(busy * each / np.where(prompt > 0.0, prompt, 1.0), MOST_BUSY)
    in_turn = differ * used * each / (2.0 * (1.0 - used))
    share = np.clip(many - 1.0, 0.0, 1.0)
    return np.asarray(share * together + (1.0 - share) * in_turn)


def largest_rate(
    decoded: float, held: ArrayLike, step: ArrayLike, tokens: ArrayLike, prompt: ArrayLike
) -> FloatArray:
    """λ_max = 1 / (P + (N−1) step(B_max) / (τ B_max)), requests a second; `held` is B_max, `step`
    and `prompt` the seconds there. All broadcast."""
    decode = np.asarray(step, dtype=float) / np.asarray(tokens, dtype=float)
    return np.asarray(1.0 / (np.asarray(prompt) + decoded * decode / np.asarray(held)))
