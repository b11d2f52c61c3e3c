"""Acceptance that others measured (data/acceptance.csv), and the bands that it gives.

A band is the spread of α between pairs of one kind of drafter on one kind of work. Each (source,
drafter, target) weighs once: the mean of its chains of γ = 1 … 8. α is as the source has it, else
what makes τ(γ) of independent tokens the measured one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, lru_cache
from importlib import resources
from itertools import combinations
from typing import Any, Literal

import numpy as np

from specmath.acceptance import FallingAcceptance
from specmath.checks import InputError
from specmath.models.names import key, readings

__all__ = [
    "COLUMNS", "FEW_PAIRS", "FEW_SOURCES", "KINDS", "WORKS", "Band", "Basis", "Chain", "Fall",
    "Pair", "Row", "apart", "band", "bands", "beyond", "chains", "fall_of", "made_for",
    "offered", "pairs", "rows",
]  # fmt: skip

KINDS = ("eagle3", "mtp", "block", "draft_model", "ngram", "suffix", "eagle", "medusa")
"""Kinds of drafters whose bands may be asked for; the file also has others."""

WORKS = (
    "chat", "code", "math", "qa", "reasoning", "summarisation", "translation", "creative",
    "agentic", "rag", "json", "copy", "mixed",
)  # fmt: skip
"""Kinds of work, as the record has them; mixed is a set of several."""

NOT_FOR_RANGES = "NOT-FOR-RANGES"
"""In the note of a row of a broken engine, lossy, teacher-forced, or past what a head was made for.
"""

ALL_STEPS = "(all steps)"
"""In the name of a drafter, as its rows are told from those over matched steps."""

GAMMAS = range(1, 9)
FEW_SOURCES, FEW_PAIRS = 2, 2
BY_NAME, BY_TARGET = ("draft_model",), ("mtp",)
"""Kinds whose drafter is known by its name, and by its target, which it comes with. Of another head
on the same target a band of that target alone held one pair in four of another source."""

SHARE = 0.80
"""Of the pairs a band is to hold."""

FEW_CHAINS = 3
HALVINGS = 16

_HF = re.compile(r"HF (?:card |dataset )?(\S+)")
_WHICH_ROW = re.compile(r"\s*\[.*")


@dataclass(frozen=True)
class Row:
    """One measurement; an empty cell is None, or "" where it is text.

    `tokens_per_step` as its note defines it, `per_position` survival separated by blanks,
    `confidence` A read in the source, B secondary or approximate, C derived.
    """

    id: str
    drafter_kind: str
    drafter: str
    target: str
    work: str
    dataset: str
    language: str
    temperature: float | None
    gamma: int | None
    tree: str
    tokens_per_step: float | None
    accepted_share: float | None
    per_position: str
    alpha: float | None
    context_tokens: int | None
    engine: str
    n: str
    date: str
    source: str
    definition_note: str
    confidence: str

    @property
    def for_ranges(self) -> bool:
        return NOT_FOR_RANGES not in self.definition_note

    @property
    def reported(self) -> str:
        """The source without the row of another file that it came through."""
        return _WHICH_ROW.sub("", self.source)

    @property
    def reporter(self) -> str:
        """Who measured: the repository, model card or paper."""
        on_hub = _HF.match(self.source)
        return on_hub[1] if on_hub else self.source.split()[0]

    @property
    def chain(self) -> bool:
        """Whether it has the α of a chain."""
        return self.tree == "no" and self.alpha is not None and self.gamma in GAMMAS


COLUMNS = tuple(field.name for field in fields(Row))
_NUMBERS: dict[str, type] = {
    "temperature": float, "gamma": int, "tokens_per_step": float, "accepted_share": float,
    "alpha": float, "context_tokens": int,
}  # fmt: skip


@cache
def rows() -> tuple[Row, ...]:
    """The whole record, in the order of the file, rows that are not for ranges among them."""
    text = resources.files("specmath").joinpath("data/acceptance.csv").read_text("utf-8")
    return tuple(_row(cells) for cells in csv.DictReader(text.splitlines()))


def _row(cells: dict[str, str]) -> Row:
    read: dict[str, Any] = dict(cells)
    for name, number in _NUMBERS.items():
        read[name] = number(cells[name]) if cells[name] else None
    return Row(**read)


# ── pairs, each weighed once ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Pair:
    """A drafter on a target at one kind of work, by one source: the mean α of its chains."""

    kind: str
    work: str
    source: str
    reporter: str
    drafter: str
    target: str
    alpha: float
    gammas: tuple[int, ...]
    dates: tuple[str, ...]

    @property
    def all_steps(self) -> bool:
        """Whether steps in which a look-up found nothing count: that is acceptance and coverage in
        one, and no band's."""
        return ALL_STEPS in self.drafter

    @property
    def spread(self) -> int:
        """How many chains its mean is of."""
        return len(self.gammas)


@cache
def pairs() -> tuple[Pair, ...]:
    """Every pair of the record that has an α, in its order."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows():
        if row.chain and row.for_ranges:
            one = (row.drafter_kind, row.work, row.reported, row.drafter, row.target)
            found.setdefault(one, []).append(row)
    return tuple(_pair(each) for each in found.values())


def _pair(found: Sequence[Row]) -> Pair:
    first = found[0]
    return Pair(
        first.drafter_kind,
        first.work,
        first.reported,
        first.reporter,
        first.drafter,
        first.target,
        float(np.mean([row.alpha for row in found])),
        tuple(row.gamma for row in found if row.gamma is not None),
        tuple(row.date for row in found if row.date),
    )


@cache
def offered() -> tuple[Pair, ...]:
    """Those that bands are made of."""
    return tuple(p for p in pairs() if not p.all_steps)


@lru_cache(maxsize=4096)
def _bare(name: str) -> str:
    """A checkpoint's name without tuning, date and format, as one key."""
    *_, (barest, _) = readings(name)
    return key(barest)


@cache
def apart() -> float:
    """How far apart in α two pairs of one kind and work are, at most, in 80% of the cases.

    Over all couples of such pairs in the record, those of a kind and work sharing a weight by its
    pairs.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for p in offered():
        groups.setdefault((p.kind, p.work), []).append(p.alpha)
    couples = [
        (abs(a - b), 1.0 / (len(each) - 1))
        for each in groups.values()
        for a, b in combinations(each, 2)
    ]
    far, weight = np.array(sorted(couples)).T
    return float(far[np.searchsorted(np.cumsum(weight) / weight.sum(), SHARE)])


@cache
def beyond() -> float:
    """How far past the least and the largest of the other sources a pair of the same drafter and
    target is found, at most, in 80% of the cases."""
    far = []
    for p in offered():
        name = p.drafter if p.kind in BY_NAME else None
        others = [
            q.alpha
            for q in offered()
            if (q.kind, q.work) == (p.kind, p.work)
            and q.reporter != p.reporter
            and _is_own(q, name, p.target)
        ]
        if others:
            far.append(max(min(others) - p.alpha, p.alpha - max(others), 0.0))
    return float(np.quantile(far, SHARE))


# ── bands ────────────────────────────────────────────────────────────────────────────────────

Basis = Literal["10-90%", "min-max", "widened"]
"""Ends at the 10 and 90% quantiles of the pairs; at the least and the largest, where two sources or
fewer; and these wider: by `apart` where two pairs or fewer, by `beyond` of one's own pair."""


@dataclass(frozen=True)
class Band:
    """α of a kind of drafter on a kind of work, as others measured it.

    Attributes
    ----------
    kind, work
        "" where every kind is pooled; several kinds of work joined by "+".
    drafter, target
        The scenario's own, where the band is of these alone, else "".
    low, high
        Its ends in [0, 1], as `basis` says.
    median
        Of the pairs; never to be offered alone.
    inner, outer
        The 10 and 90% quantiles, and the least and the largest.
    found
        The pairs, in the order of the record.
    basis
        What the ends are.
    """

    kind: str
    work: str
    low: float
    high: float
    median: float
    inner: tuple[float, float]
    outer: tuple[float, float]
    found: tuple[Pair, ...]
    basis: Basis
    drafter: str = ""
    target: str = ""

    @property
    def pairs(self) -> int:
        """Distinct (source, drafter, target); where works are pooled one may stand for several."""
        return len({(p.source, p.drafter, p.target) for p in self.found})

    @property
    def rows(self) -> int:
        """Measured chains behind it."""
        return sum(p.spread for p in self.found)

    @property
    def sources(self) -> tuple[str, ...]:
        """Who measured, each once."""
        return tuple(sorted({p.reporter for p in self.found}, key=str.lower))

    @property
    def cited(self) -> str:
        """Drafter × work, n and sources, in one line."""
        own = f" of {self.target}" if self.target else ""
        what = f"{self.kind or 'every draft'} × {self.work or 'every work'}{own}"
        sources = f"{len(self.sources)} source{'s' * (len(self.sources) > 1)}"
        return f"published record: {what}, n {self.pairs}, {sources}"

    @cached_property
    def gamma(self) -> int:
        """The middle of the γ at which it was measured, each pair weighing once."""
        return round(float(np.median([np.mean(p.gammas) for p in self.found])))

    @property
    def gammas(self) -> tuple[int, int]:
        """The least and the largest of them."""
        every = [gamma for p in self.found for gamma in p.gammas]
        return min(every), max(every)

    @property
    def dates(self) -> tuple[str, str]:
        """The first and the last, as published; "" where none is known."""
        every = sorted(date for p in self.found for date in p.dates) or [""]
        return every[0], every[-1]


@lru_cache(maxsize=1024)
def band(
    kind: str | None,
    work: str | tuple[str, ...] | None,
    *,
    drafter: str | None = None,
    target: str | None = None,
) -> Band | None:
    """The band of a kind of drafter on a kind of work; None where nothing was measured.

    Parameters
    ----------
    kind
        One of KINDS; None: all of them pooled.
    work
        One of WORKS, or several; None: all of them pooled, a pair then weighing once a work.
    drafter, target
        Names of checkpoints. Where that pair is in the record, a draft model with its target or a
        target with its own module, the band is of it alone.

    Raises
    ------
    InputError
        A kind or work that the record does not know.

    Examples
    --------
    >>> found = band("eagle3", "code")
    >>> round(found.low, 2), round(found.high, 2), found.pairs, len(found.sources)
    (0.59, 0.86, 33, 8)
    >>> band("layer_skip", "code") is None
    True
    """
    works = WORKS if work is None else (work,) if isinstance(work, str) else work
    for one in works:
        if one not in WORKS:
            raise InputError(f"work must be one of {', '.join(WORKS)}, got {one!r}")
    wanted = KINDS if kind is None else (kind,)
    found = tuple(p for p in offered() if p.kind in wanted and p.work in works)
    of = (kind or "", "" if work is None else "+".join(works))
    named = drafter if kind in BY_NAME else None
    if target and (named or kind in BY_TARGET):
        own = tuple(p for p in found if _is_own(p, named, target))
        if own:
            return _of(*of, own, named or "", target)
    return _of(*of, found) if found else None


def _is_own(p: Pair, drafter: str | None, target: str) -> bool:
    own = drafter is None or _bare(p.drafter) == _bare(drafter)
    return own and _bare(p.target) == _bare(target)


@lru_cache(maxsize=1024)
def made_for(kind: str, target: str) -> tuple[Row, ...]:
    """Rows of that kind on that target, however it is tuned or stored: such drafters exist.

    Examples
    --------
    >>> {row.reporter for row in made_for("eagle3", "Llama-3.3-70B")}
    {'sgl-project/SpecForge'}
    >>> made_for("block", "Llama-3.3-70B")
    ()
    """
    bare = _bare(target)
    return tuple(r for r in rows() if r.drafter_kind == kind and _bare(r.target) == bare)


def _of(kind: str, work: str, found: tuple[Pair, ...], drafter: str = "", target: str = "") -> Band:
    alphas = np.array([p.alpha for p in found])
    inner = float(np.quantile(alphas, (1 - SHARE) / 2)), float(np.quantile(alphas, (1 + SHARE) / 2))
    outer = float(alphas.min()), float(alphas.max())
    basis: Basis = "10-90%"
    low, high = inner
    if len({p.reporter for p in found}) <= FEW_SOURCES:
        basis, (low, high) = "min-max", outer
    if target or len({(p.source, p.drafter, p.target) for p in found}) <= FEW_PAIRS:
        more, measured = beyond() if target else apart(), [p.alpha for p in offered()]
        basis = "widened"
        low = max(outer[0] - more, min(measured))
        high = min(outer[1] + more, max(measured))
    median = float(np.median(alphas))
    return Band(kind, work, low, high, median, inner, outer, found, basis, drafter, target)


def bands(kind: str | None = None, work: str | None = None) -> tuple[Band, ...]:
    """Every band of the record, by kind and then work; of one kind or work where given."""
    found = (band(k, w) for k in KINDS for w in WORKS if kind in (None, k) and work in (None, w))
    return tuple(b for b in found if b is not None)


# ── the fall with position ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Chain:
    """The same drafter, target and text at the shortest and the longest γ at which it ran."""

    kind: str
    alpha: float
    short: int
    long: int
    tokens: float

    @property
    def fall(self) -> float:
        """f ≥ 0 of `FallingAcceptance` past `short` that makes τ(long) the measured one; 0 where
        acceptance does not fall."""
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            more = self.expected(middle) > self.tokens
            low, high = (middle, high) if more else (low, middle)
        return low

    def expected(self, fall: float) -> float:
        """τ(long) from α(short) with that fall."""
        return float(FallingAcceptance(self.alpha, self.short, fall).tokens_per_step(self.long))


@dataclass(frozen=True)
class Fall:
    """By which share the chance of a position falls, for each position past those measured."""

    value: float
    low: float
    high: float
    chains: int


@cache
def chains() -> tuple[Chain, ...]:
    """Every drafter, target and text of the record that ran at more than one γ."""
    found: dict[tuple[object, ...], dict[int, list[Row]]] = {}
    for row in rows():
        if row.chain and row.for_ranges and row.gamma is not None:
            note = re.sub(r"gamma \d+", "", row.definition_note)
            same = (
                row.drafter_kind, row.reported, row.drafter, row.target, row.work, row.dataset,
                row.language, row.temperature, row.context_tokens, row.engine, row.n, row.date,
                note,
            )  # fmt: skip
            found.setdefault(same, {}).setdefault(row.gamma, []).append(row)
    return tuple(c for by_gamma in found.values() for c in _chain(by_gamma))


def _chain(by_gamma: dict[int, list[Row]]) -> Iterable[Chain]:
    """Of the γ at which it ran once: where it ran twice the settings differ unsaid."""
    once = {gamma: each[0] for gamma, each in by_gamma.items() if len(each) == 1}
    if len(once) < 2:
        return
    short, long = once[min(once)], once[max(once)]
    if short.alpha is not None and long.tokens_per_step is not None:
        yield Chain(short.drafter_kind, short.alpha, min(once), max(once), long.tokens_per_step)


@cache
def fall_of(kind: str) -> Fall | None:
    """The fall of a kind, the median of its chains, with their 10 and 90% quantiles; None where
    fewer than three were measured."""
    each = [c.fall for c in chains() if c.kind == kind]
    if len(each) < FEW_CHAINS:
        return None
    low, middle, high = np.quantile(each, [(1 - SHARE) / 2, 0.5, (1 + SHARE) / 2])
    return Fall(float(middle), float(low), float(high), len(each))
