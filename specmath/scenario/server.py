"""Who serves a scenario, what is asked of it, and the halves of the ratio in the state it is in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from specmath import engines, hardware, models
from specmath.acceptance import (
    BOUNDS,
    Acceptance,
    FallingAcceptance,
    IidAcceptance,
    StoppedAcceptance,
)
from specmath.acceptance_record import fall_of
from specmath.checks import InputError
from specmath.drafters import Drafter, named
from specmath.drafters.host import fall_past_depth, falls_seen
from specmath.estimate import Estimate
from specmath.evidence import Errors, errors_of
from specmath.scenario.record import Scenario
from specmath.serving.loop import Grid, Requests, Steady, steady, step_spread
from specmath.serving.memory import Memory
from specmath.serving.pair import ServedPair
from specmath.serving.uneven import uneven
from specmath.speculation import Speculation
from specmath.stepcost import TabulatedStepCost
from specmath.steptime import Placement
from specmath.theorems import alpha_from_tokens_per_step
from specmath.trees import read_shape

__all__ = [
    "ANCHORS", "Anchor", "Past", "check_roof", "diluted", "drafted", "error_of", "pair_of", "past",
    "prompt_lengths", "reading_of", "requests_of", "spread_of", "state_of", "tabulated",
]  # fmt: skip


@lru_cache(maxsize=256)
def _pair(place: Placement, drafter: Drafter, batch: int, context: int, engine: str,
          coverage: float | None, continues: float, tree: str | None) -> ServedPair:  # fmt: skip
    """One record for what is equal: it keeps what it once computed."""
    pair = ServedPair(
        place, drafter, batch, context, engines.named(engine), coverage, continues,
        None if tree is None else read_shape(tree),
    )  # fmt: skip
    Memory.of(pair).require_weights()
    return pair


def pair_of(s: Scenario) -> ServedPair:
    """The served pair of a scenario in the hardware form.

    Raises InputError for an unknown model or drafter, a tensor_parallel that does not divide, a
    draft on more GPUs than the replica has, weights that the memory cannot hold.
    """
    if not s.costs.computed:
        raise InputError(
            "step times need gpu, model and draft (draft_form=hardware), "
            f"got draft_form={s.draft_form}"
        )
    drafter = named(
        str(s.draft),
        s.draft_tensor_parallel,
        weight_dtype=None if s.draft_weight_dtype == "native" else s.draft_weight_dtype,
        layers=s.draft_layers,
        draft_vocab=s.draft_vocab,
    )
    gpus = s.tensor_parallel + s.draft_gpus
    if drafter.needs_model and s.draft_tensor_parallel > gpus:
        raise InputError(
            f"draft_tensor_parallel must be <= tensor_parallel + draft_gpus = {gpus}, "
            f"got {s.draft_tensor_parallel}"
        )
    model = models.named(str(s.model))
    place = Placement(
        model=model,
        gpu=hardware.find(str(s.gpu)),
        tensor_parallel=s.tensor_parallel,
        weight_dtype=None if s.weight_dtype == "native" else s.weight_dtype,
        kv_dtype=model.kv_dtype if s.kv_dtype == "native" else s.kv_dtype,
        expert_parallel=s.expert_parallel,
        attention_dp=s.attention_dp,
    )
    continues = _continues(s)
    return _pair(place, drafter, s.in_flight, s.context, s.engine, s.coverage, continues, s.tree)


def _continues(s: Scenario) -> float:
    """The chance that a draft goes on after a token, from the mean drafted at the γ it was of."""
    if s.drafted_per_step is None:
        return 1.0
    of = (s.measured_gamma if s.accepts.measured else s.gamma) or s.gamma or 1
    return float(alpha_from_tokens_per_step(1.0 + s.drafted_per_step, of))


@dataclass(frozen=True)
class Past:
    """Past `depth` each position is accepted less often than the one before, by the share `middle`,
    or by one of `ends`: past the depth that a head was trained for ("past_depth"), else past the γ
    at which acceptance was measured ("past_measured"). `measured` is that γ, None where none is
    known."""

    field: Literal["past_depth", "past_measured"]
    depth: int
    measured: int | None
    middle: float
    ends: tuple[float, float]
    rows: int


def past(s: Scenario, pair: ServedPair) -> Past | None:
    """How acceptance falls with the position for this drafter; None where it does not, or nobody
    knows."""
    found = s.accepts.band(s)
    at = s.measured_gamma if s.accepts.measured else None if found is None else found.gamma
    if (depth := pair.trained_depth) is not None:
        return Past("past_depth", depth, at, fall_past_depth(), falls_seen(), 0)
    fall = None if at is None else fall_of(pair.drafter.recorded)
    if at is None or fall is None or fall.value == 0.0:
        return None
    return Past("past_measured", at, at, fall.value, (fall.low, fall.high), fall.chains)


def drafted(
    s: Scenario, pair: ServedPair, each: tuple[Acceptance, ...], *, ends: bool = False
) -> tuple[Acceptance, ...]:
    """What is known of the drafter besides one rate: it falls with the position (`past`; `ends`: by
    either end of what was measured), and drafts that stop early are shorter. An acceptance that was
    counted with the stops has them; otherwise its bounds follow, the middle first."""
    if (fallen := past(s, pair)) is not None:
        falls = fallen.ends if ends else (fallen.middle,)
        each = tuple(
            dict.fromkeys(
                _falling(a, fallen.depth, fallen.measured, fall) for fall in falls for a in each
            )
        )
    if pair.continues == 1.0 or s.accepts.measured or s.acceptance_form == "survival":
        return each
    return tuple(StoppedAcceptance(a, pair.continues, bound) for bound in BOUNDS for a in each)


def _falling(acceptance: Acceptance, depth: int, measured: int | None, fall: float) -> Acceptance:
    """With the fall past that depth, and as many tokens at the γ it was measured at."""
    if not isinstance(acceptance, IidAcceptance):
        return acceptance
    if measured is None or measured <= depth:
        return FallingAcceptance(acceptance.alpha, depth, fall)
    tokens = float(acceptance.tokens_per_step(measured))
    return FallingAcceptance.of_tokens(tokens, measured, depth, fall) or acceptance


@lru_cache(maxsize=256)
def tabulated(pair: ServedPair, top: int) -> TabulatedStepCost:
    """Its step cost up to γ = top ≥ 1 (less where the drafter has fewer heads)."""
    gammas = np.arange(1, int(min(top, pair.reach)) + 1)
    return TabulatedStepCost(
        tuple(pair.verify(gammas).tolist()),
        tuple(pair.draft(gammas).tolist()),
        tuple(pair.extra(gammas).tolist()),
        pair.c,
        pair.c_hat,
    )


def error_of(pair: ServedPair) -> Errors:
    """What is taken for the computed steps of this pair."""
    return errors_of(
        engine=pair.engine.seen_as,
        drafter=pair.drafter.kind,
        calibrated=pair.place.calibration.calibrated,
        mixture=pair.target.is_moe,
    )


def requests_of(s: Scenario, *, at_any_batch: bool = False) -> tuple[Requests, ...]:
    """What is asked of the server; where the prompts' length is open, in the middle and then at
    both of its ends. `at_any_batch`: also where this scenario's own request is alone."""
    lengths = prompt_lengths(s, s.in_flight > 1 or at_any_batch)
    each = (sum(lengths) // 2, *lengths) if len(lengths) > 1 else lengths
    return tuple(_requests(s, length) for length in each)


def _requests(s: Scenario, prompt_tokens: int) -> Requests:
    """What is asked of the server, with prompts of that length."""
    given = s.concurrency is not None or s.request_rate is not None
    hit = s.prefix_hit if s.prefix_hit_speculative is None else s.prefix_hit_speculative
    return Requests(
        prompt_tokens=prompt_tokens,
        output_tokens=s.output_tokens,
        batch=None if given else s.batch,
        concurrency=s.concurrency,
        request_rate=s.request_rate,
        one_wave=s.arrivals == "one_wave",
        prefix_hit=s.prefix_hit,
        prefix_hit_speculative=hit,
        chunk_tokens=s.chunk_tokens,
        decode_only=s.decode_only == "yes",
        prompt_spread=s.prompt_spread,
    )


def prompt_lengths(s: Scenario, others: bool) -> tuple[int, ...]:
    """The prompt's length; where it is not known and others decode, from none to the context."""
    if s.prompt_tokens is not None or not others or s.decode_only == "yes":
        return (s.prompt_tokens or 0,)
    return 0, s.context


# ── the state it is in ───────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=256)
def _seconds(pair: ServedPair, requests: Requests, top: int) -> Grid:
    return Grid.of(pair, requests, top)


@lru_cache(maxsize=512)
def state_of(
    pair: ServedPair, requests: Requests, acceptance: Acceptance, top: int, tax: float = 0.0
) -> Steady:
    """The state of a server that those requests keep busy, over γ = 0 … top; `tax`: a share of a
    step that drafts."""
    accepted = pair.accepts(acceptance)
    tokens = accepted.tokens_per_step(np.arange(top + 1))
    grid = uneven(_seconds(pair, requests, top), pair, accepted, tax)
    return steady(grid, requests, np.asarray(tokens, dtype=float))


def spread_of(load: Steady, gamma: int) -> float:
    """`step_spread` at γ; 0 where requests do not come by themselves."""
    rate = load.requests.request_rate
    if rate is None or not load.carries(gamma):
        return 0.0
    return float(step_spread(load.grid, load, rate)[gamma])


@lru_cache(maxsize=512)
def diluted(
    pair: ServedPair,
    acceptance: Acceptance,
    load: Steady,
    position: float,
    more: tuple[float, float],
) -> Speculation:
    """The two halves in that state, in plain steps of the plain arm. `position`: what a verified
    position costs besides; `more`: seconds in every step, and in every pass of the drafter."""
    gammas, accepted = np.arange(1, len(load.verify)), pair.accepts(acceptance)
    plain = load.step[0] + more[0]
    besides = position * pair.share * accepted.drafted(gammas)
    verify = (load.verify[1:] + more[0]) / plain + besides
    draft = (load.draft[1:] + pair.drafter.passes(gammas) * more[1]) / plain
    cost = TabulatedStepCost(
        tuple(verify.tolist()),
        tuple(draft.tolist()),
        tuple((load.extra[1:] / plain).tolist()),
        pair.c,
        pair.c_hat,
        tuple(((load.plain[1:] + more[0]) / plain).tolist()),
    )
    waiting = tuple((load.waiting / plain).tolist()) if load.waiting.any() else None
    return Speculation(accepted, cost, waiting)


# ── a plain time that was measured ───────────────────────────────────────────────────────────

Anchor = Literal["once a step", "once a layer", "forward slower"]
ANCHORS: tuple[Anchor, ...] = ("once a step", "once a layer", "forward slower")
"""What is left between a measured plain time and the computed one may be spent once a step (host),
once a layer (the draft's passes pay for theirs), or by slower forwards, draft and prompts alike."""


def reading_of(
    pair: ServedPair, load: Steady, anchor: Estimate | None, reading: Anchor
) -> tuple[float, float]:
    """(seconds more in every step, seconds more in every pass of the drafter) of a reading."""
    if anchor is None or reading == "forward slower":
        return 0.0, 0.0
    # Only what is missing can be host time: a faster server has faster forwards.
    more = max(0.0, anchor.value - float(load.waiting[0]) - float(load.step[0]))
    own = pair.drafter.cache_model(pair.target)
    if own is None or reading == "once a step":
        return more, 0.0
    return more, more * own.layer_count / pair.target.layer_count


def check_roof(pair: ServedPair, tpot: float) -> None:
    """InputError where a plain time is shorter than reading weights and cache takes."""
    bytes_read = pair.place.step(pair.batch, 1, pair.context_tokens)
    roof = pair.place.memory_efficiency * float(bytes_read.weights + bytes_read.kv)
    if tpot < roof:
        raise InputError(
            f"target_ms must be >= {roof * 1e3:.3g}, what {pair.place.device.name} takes to read "
            f"the weights and the cache once, got {tpot * 1e3:g}: is it the time of one token of "
            "one request?"
        )
