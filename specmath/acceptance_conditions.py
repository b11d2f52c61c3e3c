"""What temperature and context do to an acceptance that others measured.

Most of the record is greedy and short. Of the same drafter, target and text at temperature 0 and a
warmer one, α falls by a share for each unit of temperature: of a kind the median in the middle, the
most at the low end, and of all kinds where fewer than three pairs were measured. A head that was
trained on short texts accepts less beyond them: one was measured from 2,000 to 20,000 tokens of
context, others do not fall, and nobody says how long a head's texts were: only the low end is taken
to be such a head's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from specmath.acceptance_record import Row, rows
from specmath.checks import real, whole
from specmath.theorems import alpha_from_tokens_per_step

__all__ = ["HEADS", "UNCHANGED", "Share", "at_context", "at_temperature", "short_head"]

HEADS = ("eagle", "eagle3", "block")
"""Kinds that are trained apart from their target, often on short texts."""

SHORT_HEAD = ("vllm-project/speculators PR 684", "speculators Eagle3 full attention")
"""Source and name of the head that was measured over context."""

SHORT_GAMMA = 3
"""γ at which its tokens a step are read as α: its own was not said."""


FEW = 3
"""Pairs of a kind below which the most of all kinds stands at the low end."""


@dataclass(frozen=True)
class Share:
    """Of α as it was measured: at the low end, and in the middle; and of how many measurements."""

    low: float = 1.0
    middle: float = 1.0
    measured: int = 0


UNCHANGED = Share()


def at_temperature(kind: str, temperature: float | None) -> Share:
    """α at a temperature over that at 0; as at 1 beyond it.

    Parameters
    ----------
    kind
        Of drafter, as the record has it.
    temperature
        ≥ 0; None: not known, as measured.

    Examples
    --------
    >>> hot = at_temperature("draft_model", 1.0)
    >>> hot.low < hot.middle < 1.0, at_temperature("draft_model", 0.0) == UNCHANGED
    (True, True)
    """
    if not temperature:
        return UNCHANGED
    warm = min(float(real("temperature", temperature, 0)), 1.0)
    own, every = _falls().get(kind, []), [each for falls in _falls().values() for each in falls]
    most = max(own if len(own) >= FEW else every)
    return Share(1.0 - most * warm, 1.0 - float(np.median(own or every)) * warm, len(own))


@cache
def _falls() -> dict[str, list[float]]:
    """The share of α that is lost for each unit of temperature, of the same drafter, target, text,
    γ and source, by kind; at least 0."""
    each: dict[tuple[object, ...], dict[float, list[float]]] = defaultdict(dict)
    for row in rows():
        alpha = _alpha(row)
        if row.for_ranges and alpha and row.temperature is not None:
            same = (
                row.drafter_kind, row.drafter, row.target, row.dataset, row.work, row.gamma,
                row.tree, row.engine, row.reporter, row.context_tokens,
            )  # fmt: skip
            each[same].setdefault(row.temperature, []).append(alpha)
    found: dict[str, list[float]] = defaultdict(list)
    for (kind, *_), by_temperature in each.items():
        for warm in by_temperature.keys() - {0.0} if 0.0 in by_temperature else ():
            cold, hot = (float(np.mean(by_temperature[t])) for t in (0.0, warm))
            found[str(kind)].append(max(0.0, (1.0 - hot / cold) / warm))
    return dict(found)


def _alpha(row: Row) -> float | None:
    """α of the row; where its γ was not said, that of an endless draft: 1 − 1/τ."""
    if row.alpha is not None or row.tokens_per_step is None:
        return row.alpha
    return 1.0 - 1.0 / row.tokens_per_step


@lru_cache(maxsize=1024)
def at_context(kind: str, context: int) -> Share:
    """α at a context over that of a short one: of `HEADS` the low end is that of a head that was
    trained short, level beyond what was measured; others stay.

    Examples
    --------
    >>> at_context("eagle3", 1000) == UNCHANGED, at_context("mtp", 50_000) == UNCHANGED
    (True, True)
    >>> 0.3 < at_context("eagle3", 10_000).low < 0.6
    True
    """
    if kind not in HEADS:
        return UNCHANGED
    at = np.array([float(row.context_tokens or 0) for row in short_head()])
    alphas = np.array([
        float(alpha_from_tokens_per_step(row.tokens_per_step or 1.0, SHORT_GAMMA))
        for row in short_head()
    ])  # fmt: skip
    asked = max(float(whole("context", context, 1)), at[0])
    share = float(np.interp(np.log(asked), np.log(at), alphas / alphas[0]))
    return UNCHANGED if share >= 1.0 else Share(share, 1.0, len(at))


@cache
def short_head() -> tuple[Row, ...]:
    """The rows of the head that was measured over context, the shortest first."""
    source, drafter = SHORT_HEAD
    found = [row for row in rows() if row.source.startswith(source) and row.drafter == drafter]
    return tuple(sorted(found, key=lambda row: row.context_tokens or 0))
