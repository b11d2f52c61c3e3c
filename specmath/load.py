"""Over batch and context: where speculation stops paying, by which operator, within memory; and one
γ for every load, or a schedule of a few (`specmath.schedule`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

import numpy as np

from specmath.acceptance import Acceptance
from specmath.checks import FloatArray, InputError, IntArray, whole
from specmath.estimate import Basis, draws, ends
from specmath.scenario.endpoint import Endpoint
from specmath.scenario.server import ANCHORS, drafted, error_of, reading_of, requests_of
from specmath.schedule import Choice, Loads, Schedule, choose, loads_up_to
from specmath.serving.loop import Loop, Requests, waiting_seconds
from specmath.serving.memory import DraftTax, Memory, draft_tax
from specmath.serving.pair import ServedPair
from specmath.speculation import decide, decide_tree, speedup, to_run
from specmath.stepcost import Observed, moved

__all__ = ["LoadStudy", "best_choice", "load_study"]

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS = (1024, 8192, 32768)
MOST_GAMMA = 16
LARGEST_LOAD = 256
"""That one γ is chosen for: vLLM's default `max_num_seqs`; less where memory holds fewer."""


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
        length = min(length, self.at.shape[1] - 1)  # a run alone has nobody's prompt to wait for
        where = (slice(None), length, position, host, slice(None), None, None, None)
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


@dataclass(frozen=True)
class _Over:
    """Speedup over (batch, context, γ) in the middle, and (corners, draws) before at the joint
    points; the step cost behind the middle, seconds of a plain step, and what waits, as `Grid`."""

    centre: FloatArray
    points: FloatArray
    cost: FloatArray
    plain_step: FloatArray
    waiting: FloatArray


def _over(served: _Served, batches: IntArray, contexts: IntArray, top: int) -> _Over:
    """As `Endpoint` draws one batch that is held, for many at once: same draws, same order."""
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
    plain = parts[0][..., :1] + served.host[0][0]
    middle, central = seconds[0] / plain, pair.accepts(served.acceptance).tokens_per_step(gammas)
    waiting = np.where(gammas, middle[..., 1:], middle[..., :1])
    cost = served.costs(parts, sum(pair.positions) / 2, served.host[0])
    cost = cost if run is None else run.moves(cost)
    centre = speedup(central, cost, waiting, middle[..., :1])
    step = served.faster * plain[..., 0]
    return _Over(centre, np.concatenate(each), cost, step, middle)


def _grid(served: _Served, batches: IntArray, contexts: IntArray, top: int, cap: int) -> Grid:
    """With the γ that the verdict's rule recommends at each batch and context."""
    pair, over = served.pair, _over(served, batches, contexts, top)
    low, high = ends(over.points)
    low, high = np.minimum(low, over.centre), np.maximum(high, over.centre)
    best = np.zeros(over.centre.shape[:2], dtype=np.int64)
    for at in np.ndindex(best.shape):
        curves = over.centre[at], low[at], high[at]
        found = decide_tree(*curves, pair.tree.nodes) if pair.tree else decide(*curves, None, cap)
        best[at] = to_run(found, over.centre[at])
    return Grid(over.centre, low, high, over.cost, best, over.plain_step, over.waiting)


def best_choice(
    pair: ServedPair,
    acceptance: Acceptance,
    *,
    requests: Sequence[Requests] = (),
    corners: Sequence[Acceptance] = (),
    max_batch: int = 256,
    max_gamma: int = 8,
) -> Choice:
    """One γ for the loads up to `max_batch`, and the best schedule beside it
    (`specmath.schedule.choose`).

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

    Examples
    --------
    >>> from specmath import IidAcceptance, drafters, models, steptime
    >>> place = steptime.Placement(models.find("Llama-3.1-8B"), "h100")
    >>> pair = ServedPair(place, drafters.named("Llama-3.2-1B"), batch=1, context_tokens=1024)
    >>> found = best_choice(pair, IidAcceptance(0.8), max_batch=64)
    >>> found.gamma, found.schedule.as_list(), found.advised
    (4, [[1, 64, 4]], False)
    """
    asked = tuple(requests) or (Requests(0, 1, batch=1),)
    served = _Served(pair, asked, acceptance, tuple(corners) or (acceptance,))
    most = int(whole("max_batch", max_batch, 1))
    return _choice(served, most, int(whole("max_gamma", max_gamma, 1)), Basis())


def _choice(served: _Served, max_batch: int, cap: int, basis: Basis) -> Choice:
    pair, batches = served.pair, loads_up_to(max_batch)
    gammas = np.arange(cap + 1) if pair.tree is None else np.array([0, pair.tree.nodes])
    over = _over(served, batches, np.array([pair.context_tokens]), int(gammas[-1]))
    loads = Loads(batches, gammas, over.centre[:, 0, gammas], over.points[..., 0, gammas])
    return choose(loads, basis)


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
    takes of the memory; None, and `does_not_fit` in words, where not one sequence fits. choice: one
    γ for the loads to 256 or the largest batch that fits, and the schedule beside it.
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
    choice: Choice

    @property
    def schedule(self) -> Schedule:
        """The best γ by batch in a few ranges, advised or not."""
        return self.choice.schedule

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
    return _study(_Served.of(endpoint, pair), gamma, top, cap, endpoint.basis)


@lru_cache(maxsize=32)
def _study(served: _Served, gamma: int, top: int, cap: int, basis: Basis) -> LoadStudy:
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
    most = min(LARGEST_LOAD, max(1, own_limit))
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
        choice=_choice(served, most, cap, basis),
    )


def _stack(breakdowns: list[dict[str, FloatArray]]) -> dict[str, FloatArray]:
    return {name: np.array([float(b[name]) for b in breakdowns]) for name in breakdowns[0]}


def _tax(pair: ServedPair, acceptance: Acceptance, gamma: int) -> tuple[DraftTax | None, str]:
    """What the draft takes of the memory; in words where not one sequence fits."""
    try:
        return draft_tax(pair, acceptance, max(1, gamma)), ""
    except InputError as error:
        return None, str(error)
