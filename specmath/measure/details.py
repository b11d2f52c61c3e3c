"""What was seen in the steps that were run: survival per position, gaps between chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from specmath.checks import FloatArray
from specmath.measure.compare import segments_of
from specmath.measure.interval import estimate_alpha
from specmath.measure.report import Interval, RunRow
from specmath.measure.speculate import Generation

if TYPE_CHECKING:
    from specmath.measure.texts import Texts

__all__ = ["run_rows"]

BINS = 40
SHOWN = 0.95
"""Gaps up to this quantile lie in the bins; the rest are counted as beyond."""
FEWEST_PROMPTS = 3
"""Below it the spread between prompts says next to nothing."""


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
                    speedup=_speedup(each, runs[0], groups) if gamma else None,
                    survival=_survival(each, groups, gamma, limit),
                    gap_edges_ms=tuple(edges.tolist()),
                    gap_counts=tuple(int(count) for count in counts),
                    gaps_beyond=int(gaps[gamma].size - counts.sum()),
                )
            )
    return rows


def _speedup(
    runs: Sequence[Generation], plain: Sequence[Generation], groups: Sequence[int]
) -> Interval | None:
    """Tokens a second against plain, 95% by the jackknife over prompts on the logarithm."""
    names = sorted(set(groups))
    if len(names) < FEWEST_PROMPTS:
        return None
    parts = np.array(
        [_tokens_and_seconds(made, groups, name) for name in names for made in (runs, plain)]
    )
    parts = parts.reshape(len(names), 2, 2)
    logs = _log_speedup(parts.sum(axis=0) - parts)
    value = float(_log_speedup(parts.sum(axis=0)))
    variance = (len(names) - 1) / len(names) * float(((logs - logs.mean()) ** 2).sum())
    half = float(student.ppf(0.975, len(names) - 1)) * variance**0.5
    low, middle, high = np.exp([value - half, value, value + half]).tolist()
    return Interval(value=middle, low=low, high=high)


def _tokens_and_seconds(
    made: Sequence[Generation], groups: Sequence[int], name: int
) -> tuple[float, float]:
    own = [each for each, group in zip(made, groups, strict=True) if group == name]
    return float(sum(len(each.tokens) for each in own)), sum(each.seconds for each in own)


def _log_speedup(sums: FloatArray) -> FloatArray:
    """Of sums [..., (run, plain), (tokens, seconds)]."""
    rate = np.log(sums[..., 0] / sums[..., 1])
    return np.asarray(rate[..., 0] - rate[..., 1])


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
