"""What was seen in the steps that were run: survival per position, gaps between chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from specmath.checks import FloatArray
from specmath.measure.compare import segments_of
from specmath.measure.interval import estimate_alpha
from specmath.measure.report import Interval, RunRow
from specmath.measure.speculate import Generation

if TYPE_CHECKING:
    from specmath.measure.run import Texts

__all__ = ["run_rows"]

BINS = 40
SHOWN = 0.95
"""Gaps up to this quantile lie in the bins; the rest are counted as beyond."""


def run_rows(texts: Texts, limit: int) -> list[RunRow]:
    """A row for each segment and γ that was run, and for plain decoding (γ = 0).

    `limit` is the most tokens of a text: a step near it drafts less than γ, so it says nothing of
    survival. All rows of a segment share their bins.
    """
    rows = []
    for segment, members in segments_of(texts.segments).items():
        made = {0: texts.plain, **texts.runs}
        runs = {gamma: [made[gamma][n] for n in members] for gamma in made}
        gaps = {gamma: _gaps_ms(each) for gamma, each in runs.items()}
        edges = _edges(np.concatenate(list(gaps.values())))
        groups = [texts.groups[n] for n in members]
        for gamma, each in runs.items():
            counts = np.histogram(gaps[gamma], edges)[0] if edges.size else np.zeros(0, np.int64)
            rows.append(
                RunRow(
                    segment=segment,
                    temperature=texts.sampling.temperature,
                    gamma=gamma,
                    survival=_survival(each, groups, gamma, limit),
                    gap_edges_ms=tuple(edges.tolist()),
                    gap_counts=tuple(int(count) for count in counts),
                    gaps_beyond=int(gaps[gamma].size - counts.sum()),
                )
            )
    return rows


def _gaps_ms(runs: Sequence[Generation]) -> FloatArray:
    return np.concatenate([run.chunk_gaps for run in runs]) * 1000.0


def _edges(gaps_ms: FloatArray) -> FloatArray:
    """Equal bins from 0 to the quantile shown; none where no gap was seen."""
    top = float(np.quantile(gaps_ms, SHOWN)) if gaps_ms.size else 0.0
    return np.linspace(0.0, top, BINS + 1) if top > 0 else np.zeros(0)


def _survival(
    runs: Sequence[Generation], groups: Sequence[int], gamma: int, limit: int
) -> tuple[Interval, ...]:
    """Share of full steps with at least i accepted, i = 1…γ; prompts taken as independent."""
    accepted, of = [], []
    for run, group in zip(runs, groups, strict=True):
        emitted = np.array(run.emitted)
        room = limit - (np.cumsum(emitted) - emitted) > gamma
        if room.any():
            accepted.append(emitted[room] - 1)
            of.append(group)
    if not accepted:
        return ()
    found = []
    for position in range(1, gamma + 1):
        seen = estimate_alpha([(each >= position).astype(float) for each in accepted], of)
        found.append(Interval(value=seen.value, low=seen.low, high=seen.high))
    return tuple(found)
