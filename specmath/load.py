"""Over batch and context: where speculation stops paying, by which operator, within memory; and the
γ of each batch size, as a schedule an engine takes.

vLLM's `num_speculative_tokens_per_batch_size` (pull request 32374) sets γ by the current batch
size in inclusive ranges; a batch size in no range inherits the γ of the range before it, so the
ranges made here leave no gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray, InputError, IntArray, whole
from specmath.estimate import draws, ends
from specmath.money import usd_per_million_tokens
from specmath.scenario import Scenario
from specmath.scenario.endpoint import Endpoint
from specmath.scenario.server import ANCHORS, drafted, error_of, reading_of, requests_of
from specmath.serving.loop import Loop, Requests, waiting_seconds
from specmath.serving.memory import DraftTax, Memory, draft_tax
from specmath.serving.pair import ServedPair
from specmath.speculation import ROUNDING, decide, decide_tree, speedup, to_run
from specmath.stepcost import Observed, moved

__all__ = [
    "GammaRange",
    "LoadStudy",
    "Schedule",
    "load_study",
    "merge_ranges",
    "recommended_schedule",
]

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS = (1024, 8192, 32768)
MOST_GAMMA = 16
LONGEST_SCHEDULE = 256
"""vLLM's default `max_num_seqs`; shorter where memory holds fewer sequences."""


# ── schedules ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class GammaRange:
    """γ for batch sizes from `low` to `high`, both included."""

    low: int
    high: int
    gamma: int


@dataclass(frozen=True)
class Schedule:
    """Contiguous ranges from batch size 1 up."""

    ranges: tuple[GammaRange, ...]

    def __post_init__(self) -> None:
        expected = 1
        for part in self.ranges:
            if part.low != expected or part.high < part.low:
                raise InputError(
                    f"ranges must follow each other without a gap from batch 1, got "
                    f"{part.low}-{part.high} where {expected} should start"
                )
            whole("gamma", part.gamma, 0)
            expected = part.high + 1
        if not self.ranges:
            raise InputError("ranges must hold at least one range, got none")

    @property
    def max_gamma(self) -> int:
        """What `num_speculative_tokens` must be: the largest γ of the schedule."""
        return max(part.gamma for part in self.ranges)

    @property
    def pays(self) -> bool:
        """Whether any batch size speculates."""
        return self.max_gamma > 0

    def as_list(self) -> list[list[int]]:
        """[[1, 16, 3], ...]: first batch, last batch, γ."""
        return [[part.low, part.high, part.gamma] for part in self.ranges]


def merge_ranges(batches: ArrayLike, gammas: ArrayLike) -> Schedule:
    """One γ a batch size → the fewest contiguous ranges.

    `batches` increasing, first ≥ 1; a γ holds from its batch size up to the next one given, and
    the first from 1 on. `gammas` of the same length, ≥ 0.

    Examples
    --------
    >>> merge_ranges([1, 8, 16], [3, 2, 2]).as_list()
    [[1, 7, 3], [8, 16, 2]]
    """
    sizes = np.atleast_1d(whole("batches", batches, 1))
    drafted = np.atleast_1d(whole("gammas", gammas, 0))
    if sizes.shape != drafted.shape or np.any(np.diff(sizes) <= 0):
        raise InputError("batches must increase and have one gamma each")
    changed = np.diff(drafted, prepend=-1) != 0
    lows = [1, *sizes[changed][1:].tolist()]
    highs = [*(low - 1 for low in lows[1:]), int(sizes[-1])]
    return Schedule(tuple(map(GammaRange, lows, highs, drafted[changed].tolist())))


# ── speedups and the γ of each batch ─────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Grid:
    """Speedup over (batch, context, γ): centre, low and high, and the step cost behind the centre;
    the γ recommended at each, seconds of a plain step there, and what other requests' prompts take
    of a token in plain steps, without and with speculation (B, L, 2)."""

    speedup: FloatArray
    low: FloatArray
    high: FloatArray
    cost: FloatArray
    recommended_gamma: IntArray
    plain_step: FloatArray
    waiting: FloatArray

    @property
    def tpot_plain(self) -> FloatArray:
        """Seconds a token of plain decoding, (B, L)."""
        return np.asarray(self.plain_step * (1.0 + self.waiting[..., 0]))


Parts = tuple[FloatArray, FloatArray, FloatArray]
"""Seconds of verification, drafting and overhead over (batch, context, γ)."""


@dataclass(frozen=True)
class _Run:
    """A step that was measured at the endpoint's own load, in plain steps: what it was expected to
    cost and what it cost, in the middle and (`at`, `seen`) by acceptance, prompt length, position
    and reading at the joint points. `said`: what of the scenario says it."""

    said: tuple[float | None, ...]
    middle: tuple[float, float]
    at: FloatArray = field(compare=False, repr=False)
    seen: FloatArray = field(compare=False, repr=False)

    @classmethod
    def of(cls, endpoint: Endpoint) -> _Run | None:
        """Of an endpoint; None where nothing ran."""
        s, half = endpoint.scenario, endpoint.speculation.cost
        if not isinstance(half, Observed):
            return None
        costs = [corner.cost for corner in endpoint.corners]
        pairs = [
            (cost.expected.points([cost.ran], endpoint.excess)[..., 0], cost.drawn)
            for cost in costs
            if isinstance(cost, Observed)
        ]
        at, seen = (np.array([np.broadcast_to(x, len(endpoint.excess)) for x in each])
                    for each in zip(*pairs, strict=True))  # fmt: skip
        shape = (*endpoint.axes.values(), len(endpoint.excess))
        said = (s.run_gamma, s.run_ms, s.run_tokens_per_step, s.target_ms)
        middle = float(half.expected.total(half.ran)), half.seen
        return cls(said, middle, at.reshape(shape), seen.reshape(shape))

    def moves(self, cost: FloatArray) -> FloatArray:
        """The middle of a cost over (batch, context, γ)."""
        at, seen = map(np.asarray, self.middle)
        return moved(cost, at, seen, np.arange(cost.shape[-1]))

    def moves_points(self, spent: FloatArray, length: int, position: int, host: int) -> FloatArray:
        """Costs at the joint points, (draws, batch, context, γ), by acceptance."""
        known = min(length, self.at.shape[1] - 1)  # a request alone waits for no prompts
        where = (slice(None), known, position, host, slice(None), None, None, None)
        return moved(spent, self.at[where], self.seen[where], np.arange(spent.shape[-1]))


@dataclass(frozen=True)
class _Served:
    """What holds of an endpoint at every batch and context.

    requests: what is asked; where that is open, the middle and then the ends. corners: the ends of
    the acceptance. host: seconds more in every step and in every pass of the drafter, as a measured
    plain time may be read, the centre's reading first; `faster`: that time over the computed one
    where it is less. run: a measured step, which every batch is moved by, in plain steps.
    """

    pair: ServedPair
    requests: tuple[Requests, ...]
    acceptance: Acceptance
    corners: tuple[Acceptance, ...]
    host: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    faster: float = 1.0
    run: _Run | None = None

    @classmethod
    def of(cls, endpoint: Endpoint, pair: ServedPair) -> _Served:
        """Of an endpoint; what a plain time was measured at its own load holds at every other."""
        s, state, anchor = endpoint.scenario, endpoint.load, endpoint.plain
        centre, *_ = drafted(s, pair, (s.accepts.acceptance(s),))
        corners = drafted(s, pair, s.accepts.corners(s), ends=True)
        asked, run = requests_of(s, at_any_batch=True), _Run.of(endpoint)
        if s.target_ms is None or state is None or anchor is None:
            return cls(pair, asked, centre, corners, run=run)
        host = tuple(reading_of(pair, state, anchor, reading) for reading in ANCHORS)
        faster = min(1.0, anchor.value / float(state.tpot[0]))
        return cls(pair, asked, centre, corners, host, faster, run)

    def costs(self, parts: Parts, position: float, more: tuple[float, float]) -> FloatArray:
        """s over (batch, context, γ) from seconds of its parts, as `scenario.server.diluted`."""
        verify, draft, extra = parts
        gammas = np.arange(verify.shape[-1])
        passes = self.pair.drafter.passes(gammas)
        step = verify + draft + extra + more[0] + passes * more[1]
        return step / step[..., :1] + position * self.pair.share * gammas


def _grid(served: _Served, batches: IntArray, contexts: IntArray, top: int, cap: int) -> Grid:
    """As `Endpoint` judges one batch that is held, for many at once: same draws, same rule."""
    pair, gammas = served.pair, np.arange(top + 1)
    parts = pair.parts_grid(batches, contexts, gammas)
    seconds = np.stack([waiting_seconds(pair, r, batches, contexts) for r in served.requests])
    error = error_of(pair)
    over = draws(error.excess, error.plain, error.prompts)[:, :, None, None, None]
    tokens = np.stack(
        [np.asarray(pair.accepts(a).tokens_per_step(gammas)) for a in served.corners]
    )[:, None, None, None, :]
    each = []
    positions, run = dict.fromkeys(pair.positions), served.run
    for (i, position), (j, more) in product(enumerate(positions), enumerate(served.host)):
        spent = 1.0 + over[0] * (served.costs(parts, position, more) - 1.0)
        for length, waits in enumerate(seconds[-2:] / (parts[0][..., :1] + more[0])):
            cost = spent if run is None else run.moves_points(spent, length, i, j)
            wait = over[2] * waits
            with_draft = np.where(gammas, wait[..., 1:], wait[..., :1])
            each.append(speedup(tokens, cost, with_draft, wait[..., :1]))
    low, high = ends(np.concatenate(each))
    plain = parts[0][..., :1] + served.host[0][0]
    middle, central = seconds[0] / plain, pair.accepts(served.acceptance).tokens_per_step(gammas)
    waiting = np.where(gammas, middle[..., 1:], middle[..., :1])
    cost = served.costs(parts, sum(pair.positions) / 2, served.host[0])
    cost = cost if run is None else run.moves(cost)
    centre = speedup(central, cost, waiting, middle[..., :1])
    low, high = np.minimum(low, centre), np.maximum(high, centre)
    best = np.zeros(centre.shape[:2], dtype=np.int64)
    for at in np.ndindex(best.shape):
        curves = centre[at], low[at], high[at]
        found = decide_tree(*curves, pair.tree.nodes) if pair.tree else decide(*curves, None, cap)
        best[at] = to_run(found, centre[at])
    return Grid(centre, low, high, cost, best, served.faster * plain[..., 0], middle)


def recommended_schedule(
    pair: ServedPair,
    acceptance: Acceptance,
    *,
    requests: Sequence[Requests] = (),
    corners: Sequence[Acceptance] = (),
    max_batch: int = 256,
    max_gamma: int = 8,
) -> Schedule:
    """The γ recommended for each batch 1 … max_batch (`specmath.speculation.decide`); 0 where none
    pays in the middle of its interval.

    Parameters
    ----------
    pair
        All else; its own batch is not used.
    acceptance
        Of the steps with a draft.
    requests
        What the server is asked to do; where that is open, the middle and then the ends. None:
        nothing waits for prompts.
    corners
        The ends of it where it is a range.
    max_batch, max_gamma
        Whole, ≥ 1.

    Returns
    -------
    Schedule
        Contiguous ranges from batch size 1 up.

    Examples
    --------
    >>> from specmath import IidAcceptance, drafters, models, steptime
    >>> place = steptime.Placement(models.find("Llama-3.1-8B"), "h100")
    >>> pair = ServedPair(place, drafters.named("Llama-3.2-1B"), batch=1, context_tokens=1024)
    >>> recommended_schedule(pair, IidAcceptance(0.8), max_batch=64).as_list()
    [[1, 64, 3]]
    """
    asked = tuple(requests) or (Requests(0, 1, batch=1),)
    served = _Served(pair, asked, acceptance, tuple(corners) or (acceptance,))
    most = int(whole("max_batch", max_batch, 1))
    return _schedule(served, most, int(whole("max_gamma", max_gamma, 1)))


def _schedule(served: _Served, max_batch: int, max_gamma: int) -> Schedule:
    batches, context = np.arange(1, max_batch + 1), np.array([served.pair.context_tokens])
    top = max(max_gamma, served.pair.tree.nodes if served.pair.tree else 0)
    found = _grid(served, batches, context, top, max_gamma)
    return merge_ranges(batches, found.recommended_gamma[:, 0])


# ── the study ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LoadStudy(Grid):
    """One served pair over batch (B) × context (L) × γ.

    The scenario's own context is one of the contexts; its batch, and the largest that memory holds
    at that context, are among the batches.

    speedup, low, high, cost: shape (B, L, γ = 0 … top). recommended_gamma: the γ of the verdict at
    each, 0 where none pays, shape (B, L).
    loop: that of the scenario, while every batch of the study is held.
    operators: seconds of a plain and of a speculative step by operator, each (B,). fits: whether
    memory holds that many sequences of that context with the draft, (B, L). tax: what the draft
    takes of the memory; None, and `does_not_fit` in words, where not one sequence fits. The
    schedule ends at 256 or the largest batch that fits.
    """

    served: ServedPair
    loop: Loop
    gamma: int
    batches: IntArray
    contexts: IntArray
    plain_operators: dict[str, FloatArray]
    speculative_operators: dict[str, FloatArray]
    fits: np.ndarray
    tax: DraftTax | None
    does_not_fit: str
    schedule: Schedule

    @property
    def own(self) -> int:
        """Index of the scenario's context."""
        return int(np.flatnonzero(self.contexts == self.served.context_tokens)[0])

    @property
    def plain_seconds(self) -> FloatArray:
        """A plain step at the own context, (B,)."""
        return np.asarray(self.plain_step[:, self.own])

    @property
    def at_gamma(self) -> FloatArray:
        """Speedup at the scenario's γ, shape (B, L)."""
        return np.asarray(self.speedup[:, :, min(self.gamma, self.speedup.shape[2] - 1)])

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The low and the high end of it, each of shape (B, L)."""
        at = min(self.gamma, self.speedup.shape[2] - 1)
        return self.low[:, :, at], self.high[:, :, at]

    @property
    def cost_at_gamma(self) -> FloatArray:
        """Step cost at the scenario's γ and own context, plain steps, (B,)."""
        return np.asarray(self.cost[:, self.own, min(self.gamma, self.cost.shape[2] - 1)])

    @property
    def held(self) -> int:
        """How many of the batches, the first ones, memory holds at the own context."""
        return int(self.fits[:, self.own].sum())

    def pays(self) -> list[tuple[int, int]]:
        """Runs of batches that the γ speeds up at the own context and that memory holds, first and
        last of each."""
        gains = self.at_gamma[: self.held, self.own] > 1.0 + ROUNDING
        edges = np.flatnonzero(np.diff(gains, prepend=False, append=False))
        runs = zip(self.batches[edges[::2]], self.batches[edges[1::2] - 1], strict=True)
        return [(int(first), int(last)) for first, last in runs]

    def usd_per_million(self, scenario: Scenario, gammas: IntArray) -> FloatArray:
        """USD per million output tokens over batch with those γ (one a batch), own context."""
        rows = np.arange(len(self.batches))
        tpot = self.tpot_plain[:, self.own] / self.speedup[rows, self.own, gammas]
        gpus = scenario.tensor_parallel + scenario.draft_gpus * (gammas > 0)
        price = scenario.usd_per_hour or 0.0
        return usd_per_million_tokens(tpot, batch=self.batches, gpus=gpus, usd_per_hour=price)


def load_study(endpoint: Endpoint) -> LoadStudy:
    """The study of an endpoint in the hardware form; InputError where its costs were given."""
    pair, s = endpoint.pair, endpoint.scenario
    if pair is None:
        raise InputError(
            "step times need gpu, model and draft (draft_form=hardware), "
            f"got draft_form={s.draft_form}"
        )
    top = int(min(max(endpoint.gamma, min(s.max_gamma, MOST_GAMMA)), pair.reach))
    gamma, cap = min(endpoint.gamma, top), min(endpoint.cap, top)
    return _study(_Served.of(endpoint, pair), gamma, top, cap)


@lru_cache(maxsize=32)
def _study(served: _Served, gamma: int, top: int, cap: int) -> LoadStudy:
    pair = served.pair
    contexts = np.array(sorted({*CONTEXTS, pair.context_tokens}))
    limits = [Memory.of(pair).largest_batch(int(n), gamma) for n in contexts]
    own_limit = limits[contexts.tolist().index(pair.context_tokens)]
    # Where memory ends the load is highest: it belongs to the judgement.
    ending = {own_limit} if 0 < own_limit < BATCHES[-1] else set()
    batches = np.array(sorted({*BATCHES, pair.batch, *ending}))
    tax, fault = _tax(pair, served.acceptance, gamma)
    each = [replace(pair, batch=int(b)) for b in batches]
    grid = _grid(served, batches, contexts, top, cap)
    most = min(LONGEST_SCHEDULE, max(1, own_limit))
    return LoadStudy(
        **vars(grid),
        served=pair,
        loop=served.requests[0].loop,
        gamma=gamma,
        batches=batches,
        contexts=contexts,
        plain_operators=_stack([one.breakdown(0) for one in each]),
        speculative_operators=_stack([one.breakdown(gamma) for one in each]),
        fits=batches[:, None] <= limits,
        tax=tax,
        does_not_fit=fault,
        schedule=_schedule(served, most, cap),
    )


def _stack(breakdowns: list[dict[str, FloatArray]]) -> dict[str, FloatArray]:
    return {name: np.array([float(b[name]) for b in breakdowns]) for name in breakdowns[0]}


def _tax(pair: ServedPair, acceptance: Acceptance, gamma: int) -> tuple[DraftTax | None, str]:
    """What the draft takes of the memory; in words where not one sequence fits."""
    try:
        return draft_tax(pair, acceptance, max(1, gamma)), ""
    except InputError as error:
        return None, str(error)
