"""Steps in which sequences draft different numbers of tokens, from those of even drafts.

Of a batch B, of whose sequences a share a_j is asked for j tokens or more (a_0 = 1),

    verification    that of even drafts with as many positions, Σ_j a_j in the mean
    drafting        Σ_j P_j [draft(B a_j / P_j, j) − draft(B a_j / P_j, j − 1)]
                    P_j = 1 − (1 − a_j)^B

P_j is the chance that somebody is asked for a j-th token, and B a_j / P_j how many then are. The
host's time, prompts and memory are those of the longest draft: an engine keeps room for it. Equal
drafts give the even step again. A mean field: of how the numbers fall in a step only the mean
counts, but for whether anybody drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray
from specmath.serving.loop import GRID, Grid
from specmath.serving.pair import ServedPair

__all__ = ["columns", "uneven"]


def uneven(grid: Grid, pair: ServedPair, acceptance: Acceptance, tax: float = 0.0) -> Grid:
    """A grid over γ = 0 … K where requests are asked for at most γ tokens, some for fewer.

    Parameters
    ----------
    grid
        Of even drafts up to K.
    pair
        What it is of.
    acceptance
        Says who is asked for how many, over all steps.
    tax
        A share of each step that drafts, ≥ 0.

    Returns
    -------
    Grid
        The same grid where all draft alike and there is no tax.
    """
    if acceptance.even and tax == 0.0:
        return grid
    return columns(grid, pair, [acceptance.asked(g) for g in range(grid.verify.shape[1])], tax)


def columns(
    grid: Grid, pair: ServedPair, asked: Sequence[FloatArray], tax: ArrayLike = 0.0
) -> Grid:
    """A grid with one column for each way to draft; `asked`: of each way, a_0, a_1, … up to the
    grid's largest γ at most."""
    count = grid.verify.shape[1]
    shares = np.zeros((len(asked), count))
    for row, each in zip(shares, asked, strict=True):
        row[: len(each)] = each
    longest = np.array([int(np.flatnonzero(row)[-1]) for row in shares])
    verify = _at_positions(grid.verify, pair.verified(np.arange(count)), shares)
    draft, extra = _drafting(grid, pair, shares), grid.extra[:, longest]
    extra = extra + np.where(longest > 0, tax, 0.0) * (verify + draft + extra)
    return replace(
        grid, verify=verify, draft=draft, extra=extra, prompts=grid.prompts[:, longest],
        most=grid.most[longest],
        sharing=None if grid.sharing is None else grid.sharing[:, longest],
        unequal=None if grid.unequal is None else grid.unequal[:, longest],
    )  # fmt: skip


def _at_positions(verify: FloatArray, positions: FloatArray, shares: FloatArray) -> FloatArray:
    """Verification (batches, ways) of as many positions as are asked for in the mean, linear
    between even drafts."""
    if len(positions) == 1:
        return verify[:, np.zeros(len(shares), dtype=int)]
    mean = shares[:, 1:] @ np.diff(positions)
    low = np.clip(np.searchsorted(positions, mean, side="right") - 1, 0, len(positions) - 2)
    width = positions[low + 1] - positions[low]
    part = np.where(width > 0.0, (mean - positions[low]) / np.where(width > 0.0, width, 1.0), 0.0)
    return np.asarray(verify[:, low] * (1.0 - part) + verify[:, low + 1] * part)


def _drafting(grid: Grid, pair: ServedPair, shares: FloatArray) -> FloatArray:
    """Seconds of drafting (batches, ways)."""
    batches, draft = grid.batches, grid.draft
    if len(batches) == 1 and batches[0] > 1:  # fewer draft together than the one batch there is
        fewer = np.unique(np.rint(np.geomspace(1, batches[0], GRID)).astype(int))
        gammas = np.arange(draft.shape[1])
        draft = pair.parts_grid(fewer, [pair.context_tokens], gammas)[1][:, 0]
        batches = fewer.astype(float)
    found = np.zeros((len(grid.batches), len(shares)))
    for j in range(1, draft.shape[1]):
        share = shares[:, j]
        somebody = 1.0 - (1.0 - share) ** grid.batches[:, None]
        together = grid.batches[:, None] * share / np.where(somebody > 0.0, somebody, 1.0)
        each = np.interp(together, batches, draft[:, j] - draft[:, j - 1])
        found += somebody * each
    return found
