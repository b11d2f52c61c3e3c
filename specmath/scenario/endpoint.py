"""A scenario resolved once: its halves, what is open about them, the plain step, who serves it.

Everything after takes the endpoint: nothing looks at a scenario's fields for a number again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specmath.acceptance import Acceptance
from specmath.acceptance_record import Band
from specmath.checks import FloatArray, InputError, IntArray
from specmath.estimate import LEVEL, Basis, Estimate, Unknown, draws, ends
from specmath.evidence import besides
from specmath.money import tokens_per_second
from specmath.scenario.forms import ACCEPTANCE, COST, VERIFY, Hardware, Recorded, Slope
from specmath.scenario.parts import Accepted, Part, accepted_by, falls, of_kind
from specmath.scenario.record import Scenario
from specmath.scenario.server import (
    ANCHORS,
    Anchor,
    check_roof,
    diluted,
    error_of,
    pair_of,
    past,
    prompt_lengths,
    reading_of,
    requests_of,
    state_of,
)  # fmt: skip
from specmath.serving.loop import Steady, own_prompt
from specmath.serving.pair import ServedPair
from specmath.speculation import (
    USUAL_GAMMA,
    Decision,
    Speculation,
    decide,
    decide_tree,
    to_run,
)  # fmt: skip
from specmath.stepcost import Observed, StepCost

__all__ = ["BEYOND_WHAT_RAN", "Endpoint", "check_caps", "for_part", "resolve", "said_as"]


def _exact() -> FloatArray:
    """Factors where nothing was computed."""
    return np.ones(1)


BEYOND_WHAT_RAN = 2
"""How many tokens past the γ that ran, or that a head was trained for, one may be advised."""


@dataclass(frozen=True, eq=False)
class Endpoint:
    """A scenario with everything that follows from it before any γ is chosen.

    `speculation`: acceptance and cost, of an unknown the middle of its range. `corners`: the same
    at every combination of the ends of ranges that were typed, and `axes` how many ends each open
    thing has there, the last varying fastest. `excess`, `prompts` [draws]: what a
    step costs beyond a plain one, and what other requests' prompts take, true over computed, in
    the same order. `unknown`: what is open. `plain`: seconds of a plain step, None while
    unknown. `pair`: what serves it, None where the
    costs were given. `load`: the state of the server, None where nothing is known of its requests.
    `parts`: the kinds of request that it serves together, none where all are alike.
    """

    scenario: Scenario
    speculation: Speculation
    corners: tuple[Speculation, ...]
    axes: Mapping[str, int]
    unknown: tuple[Unknown, ...] = ()
    plain: Estimate | None = None
    pair: ServedPair | None = None
    excess: FloatArray = field(default_factory=_exact)
    prompts: FloatArray = field(default_factory=_exact)
    load: Steady | None = None
    parts: tuple[Part, ...] = ()

    @property
    def open(self) -> bool:
        """Whether a ratio to plain decoding has an interval."""
        return len(self.corners) > 1 or self.excess.size > 1

    @property
    def basis(self) -> Basis:
        """Why a ratio to plain decoding has its interval, or that nobody measured α."""
        said = self._said
        nobodys = any(each.accepts.nobodys(each) for each in said)
        return Basis("assumed" if nobodys else "computed", over=self.unknown)

    @property
    def _said(self) -> tuple[Scenario, ...]:
        """Whoever says what is accepted."""
        return tuple(part.scenario for part in self.parts) or (self.scenario,)

    @property
    def band(self) -> Band | None:
        """What others measured, where the acceptance stands on that."""
        return self.scenario.accepts.band(self.scenario)

    @cached_property
    def gammas(self) -> IntArray:
        """γ = 0 … the largest considered."""
        s = self.scenario
        return np.arange(min(max(s.max_gamma, s.gamma or 0), self.speculation.reach) + 1)

    @cached_property
    def points(self) -> FloatArray:
        """Speedup over `gammas` at every joint point: shape (corners, draws, γ)."""
        return np.stack([c.points(self.gammas, self.excess, self.prompts) for c in self.corners])

    @cached_property
    def tpot_plain(self) -> Estimate | None:
        """Seconds a token of plain decoding: its step, and what other requests' prompts take."""
        plain, waiting = self.plain, self.speculation.plain_waiting
        if plain is None or not waiting or (self.pair and self.scenario.target_ms is not None):
            return plain
        step = np.array([[plain.value]]) if plain.points is None else plain.points
        each = [1.0 + corner.plain_waiting * self.prompts for corner in self.corners]
        points = step * np.stack(each) if self.open else None
        over = tuple(dict.fromkeys((*plain.basis.over, *self.unknown)))
        basis = Basis(plain.basis.kind, plain.basis.source, over)
        return Estimate(plain.value * (1.0 + waiting), points, basis)

    @cached_property
    def curves(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Speedup over `gammas`: centre, low and high end."""
        centre = self.speculation.speedup(self.gammas)
        if not self.open:
            return centre, centre, centre
        low, high = ends(self.points)
        return centre, np.minimum(low, centre), np.maximum(high, centre)

    @cached_property
    def whole(self) -> FloatArray:
        """A whole request without speculation over one with, over `gammas`, in a closed loop whose
        prompts are known: where steps cannot read prompts for so many, tokens come faster and
        requests do not. inf where the first token is not known."""
        load, unknown = self.load, np.full(len(self.gammas), np.inf)
        if load is None or load.requests.loop != "closed" or self.scenario.prompt_tokens is None:
            return unknown
        # One token of no prompt takes no time in either arm.
        with_draft = load.e2e[self.gammas]
        return np.asarray(np.divide(load.e2e[0], with_draft, out=unknown, where=with_draft > 0))

    @property
    def cap(self) -> int:
        """The largest γ that may be recommended: a little beyond what ran or what the head was
        made for, else what is usual; never beyond what is considered."""
        s = self.scenario
        ran = [of.measured_gamma if of.accepts.measured else len(of.rates) or None
               for of in self._said]  # fmt: skip
        trained = None if self.pair is None else self.pair.trained_depth
        known = [k + BEYOND_WHAT_RAN for k in (*ran, trained) if k is not None]
        return min(s.max_gamma, len(self.gammas) - 1, *(known or [USUAL_GAMMA]))

    @property
    def advisable(self) -> IntArray:
        """The γ that may be recommended: 1 to the cap, or the nodes of the tree."""
        if self.scenario.tree is None:
            return np.arange(1, self.cap + 1)
        return np.array([self.scenario.gamma])

    @cached_property
    def decision(self) -> Decision:
        """On or off, and the γ: the only place where one is chosen; a tree is on or off."""
        return self._decided(self.scenario.gamma)

    def _decided(self, gamma: int | None) -> Decision:
        centre, low, high = self.curves
        low = np.minimum(low, self.whole)
        if self.scenario.tree is None:
            return decide(centre, low, high, gamma, self.cap)
        return decide_tree(centre, low, high, self.scenario.gamma or 1)

    @property
    def recommended(self) -> int:
        """The γ to run, whatever γ was given; 0 where none pays in the middle of its interval."""
        return to_run(self._decided(None), self.curves[0])

    @property
    def gamma(self) -> int:
        """The γ in use: the one given, else the one recommended."""
        return self.decision.gamma if self.scenario.gamma is None else self.scenario.gamma

    @property
    def batch_held(self) -> bool:
        """Whether the batch is given: else throughput does not follow from the time per token
        alone, because the load decides how many decode together."""
        return self.load is None or self.load.requests.batch is not None

    def throughput(self, tpot: ArrayLike, gamma: int) -> FloatArray:
        """Output tokens a second of one replica at a TPOT, seconds, and a γ."""
        if self.load is None:
            return tokens_per_second(tpot, self.scenario.batch)
        return self.load.throughput(tpot, gamma)

    def estimate(self, of: FloatArray, centre: float) -> Estimate:
        """A number of this endpoint from its values at the joint points (corners, draws)."""
        return Estimate(centre, of if self.open else None, self.basis)

    def speedup_at(self, gamma: int) -> Estimate:
        """τ/s at a γ of `gammas`."""
        return self.estimate(self.points[:, :, gamma], float(self.curves[0][gamma]))

    def gain(self, gamma: int, was: int) -> Estimate:
        """Speedup at γ over that at another γ, point by point: what both cost alike cancels."""
        centre = self.curves[0]
        of = self.points[:, :, gamma] / self.points[:, :, was]
        return self.estimate(of, float(centre[gamma] / centre[was]))

    def operations_at(self, gamma: int) -> Estimate:
        """Arithmetic per token at γ; ĉ and α may be open, the step's seconds do not count."""
        values = [float(corner.operations(gamma)) for corner in self.corners]
        centre = float(self.speculation.operations(gamma))
        if min(values) == max(values):
            return Estimate(centre, basis=self.basis)
        over = tuple(u for u in self.unknown if u.level is None)
        return Estimate(centre, np.array(values)[:, None], Basis(self.basis.kind, over=over))


def resolve(s: Scenario, *, step_seen: bool = False, parts: tuple[Part, ...] = ()) -> Endpoint:
    """The endpoint of a scenario: its halves, what is open about them, and the plain step.

    `parts`: the kinds of request of a scenario that is `specmath.scenario.parts.blended`: what is
    accepted is theirs.

    Where nothing is said of verification and overhead, the step at γ ≥ 1 is open upwards from
    1 + γc (`specmath.evidence.besides`); not where a run shows what a step takes, in the scenario
    or (`step_seen`) beside it.

    Raises
    ------
    InputError
        Its hardware cannot be computed or held, or its γ is beyond what the cost is known for;
        several kinds of request where the costs are given.

    Examples
    --------
    >>> endpoint = resolve(Scenario(alpha_low=0.6, alpha_high=0.7, c=0.1))
    >>> [(open.field, open.low, open.high) for open in endpoint.unknown]
    [('alpha', 0.6, 0.7), ('besides', 0.0, 0.51)]
    >>> at_three = endpoint.speedup_at(3)
    >>> round(at_three.low, 2), round(at_three.value, 2), round(at_three.high, 2)
    (1.2, 1.81, 1.95)
    """
    return _with_run(_without_run(s, step_seen or s.run_ms is not None, parts))


def _without_run(s: Scenario, step_seen: bool, parts: tuple[Part, ...]) -> Endpoint:
    if s.costs.computed:
        return _served(s, parts)
    if parts:
        raise InputError(
            "segments need gpu, model and draft (draft_form=hardware), "
            f"got draft_form={s.draft_form}"
        )
    acceptance, each = s.accepts.acceptance(s), s.accepts.corners(s)
    unknown = _open_alpha(s)
    coverage = 1.0 if s.coverage is None else s.coverage
    share = s.prefill_share or 0.0
    waiting = (share / (1.0 - share),) if share else None
    extra = () if step_seen or not _besides_unsaid(s) else besides()
    middle, given = _given_middle(s), _given_ends(s, extra)
    costs = [_given_corner(s, *ends) for ends in product(*given.values())]
    middle.verify(s.gamma or 0)  # refuses a γ beyond what the cost is known for
    unknown += _open_costs(s, extra)
    plain = None if s.target_ms is None else Estimate(s.target_ms / 1e3, basis=Basis("measured"))
    return Endpoint(
        scenario=s,
        speculation=Speculation.covered(acceptance, middle, coverage, waiting),
        corners=tuple(
            Speculation.covered(a, c, coverage, waiting) for a, c in product(each, costs)
        ),
        axes={"acceptance": len(each), **{name: len(ends) for name, ends in given.items()}},
        unknown=tuple(unknown),
        plain=plain,
    )


def _open_alpha(s: Scenario) -> list[Unknown]:
    if not isinstance(s.accepts, Recorded):
        return []
    low, _, high = s.accepts.ends(s)
    found = s.accepts.band(s)
    return [Unknown("alpha", low, high, source="" if found is None else found.cited)]


# ── costs as given ───────────────────────────────────────────────────────────────────────────

Ends = tuple[()] | tuple[float, float]
"""The ends of what is open, or none."""


def _given_middle(s: Scenario) -> StepCost:
    c = sum(s.costs.cs(s)) / 2
    return s.verifies.cost(s, c, c / 2 if s.c_hat is None else s.c_hat, 0.5)


def _given_ends(s: Scenario, extra: Ends) -> dict[str, tuple[float, ...]]:
    """The ends of c, and where they are not known those of ĉ as a share of c, of σ, and of what a
    step costs besides drafting."""
    return {
        "c": tuple(dict.fromkeys(s.costs.cs(s))),
        "c_hat": (0.0, 1.0) if s.c_hat is None else (0.0,),
        "sigma": (0.0, 1.0) if s.sigma is None else (0.0,),
        "besides": extra or (s.overhead,),
    }


def _given_corner(s: Scenario, c: float, share: float, sigma: float, overhead: float) -> StepCost:
    one = s if overhead == s.overhead else s.model_copy(update={"overhead": overhead})
    return s.verifies.cost(one, c, share * c if s.c_hat is None else s.c_hat, sigma)


def _besides_unsaid(s: Scenario) -> bool:
    """Whether verification and overhead are at their defaults, 0."""
    return s.verify_form == Slope.name and s.sigma == 0 and s.overhead == 0


def _open_costs(s: Scenario, extra: Ends) -> list[Unknown]:
    low, high = s.costs.cs(s)
    found = [Unknown("c", low, high)] if s.costs.cited else []
    if s.c_hat is None:
        found.append(Unknown("c_hat", 0.0, high))
    if s.sigma is None:
        found.append(Unknown("sigma", 0.0, 1.0))
    if extra:
        found.append(Unknown("besides", *extra))
    return found


# ── costs from hardware ──────────────────────────────────────────────────────────────────────


def _open_acceptance(s: Scenario, pair: ServedPair, accepted: Accepted) -> list[Unknown]:
    fallen = past(s, pair)
    unknown = _open_alpha(s)
    if fallen is not None and any(map(falls, accepted[1])):
        unknown.append(Unknown(fallen.field, *fallen.ends))
    return unknown


def _served(s: Scenario, parts: tuple[Part, ...]) -> Endpoint:
    pair = pair_of(s)
    if any(part.most is not None for part in parts):
        check_caps(s)
    tax = max((part.tax for part in parts), default=0.0)
    accepted = acceptance, each = accepted_by(s, pair, parts)
    unknown = [
        open
        for said in ([part.scenario for part in parts] or [s])
        for open in _open_acceptance(said, pair, accepted)
    ]
    unknown = list(dict.fromkeys(unknown))
    top = _reach(s, pair)
    lengths, positions = prompt_lengths(s, s.in_flight > 1), tuple(dict.fromkeys(pair.positions))
    if len(lengths) > 1:
        unknown.append(Unknown("prompt_tokens", *map(float, lengths)))
    if len(positions) > 1:
        unknown.append(Unknown("position", *positions))
    error = error_of(pair)
    excess, plain, prompts = draws(error.excess, error.plain, error.prompts)
    unknown.append(Unknown("excess", *error.excess, level=LEVEL))
    if max(lengths):
        unknown.append(Unknown("prompts", *error.prompts, level=LEVEL))
    else:
        prompts = _exact()
    asked = requests_of(s)
    load = state_of(pair, asked[0], acceptance, top, tax)
    anchor = _anchor(s, pair, load)
    readings = ANCHORS if anchor else ANCHORS[-1:]

    def half(a: Acceptance, state: Steady, position: float, reading: Anchor) -> Speculation:
        return diluted(pair, a, state, position, reading_of(pair, state, anchor, reading))

    states = [
        (a, load if (a, r) == (acceptance, asked[0]) else state_of(pair, r, a, top, tax))
        for a, r in product(each, asked[-len(lengths) :])
    ]
    seconds = float(load.step[0])
    open_step = (Unknown("plain_step", *error.plain, level=LEVEL),)
    step = Estimate(seconds, seconds * plain[None, :], Basis("computed", over=open_step))
    return Endpoint(
        scenario=s,
        speculation=half(acceptance, load, sum(pair.positions) / 2, readings[0]),
        corners=tuple(
            half(a, state, position, reading)
            for (a, state), position, reading in product(states, positions, readings)
        ),
        axes={
            "acceptance": len(each),
            "prompt_tokens": len(lengths),
            "position": len(positions),
            "reading": len(readings),
        },
        unknown=tuple(unknown),
        plain=anchor or step,
        pair=pair,
        excess=excess,
        prompts=prompts,
        load=load,
        parts=parts,
    )


def check_caps(s: Scenario) -> None:
    """InputError where requests cannot be told to draft different numbers."""
    if s.tree is not None:
        raise InputError("a γ for each request needs chains, got a tree: its γ counts its nodes")
    if s.run_ms is not None:
        raise InputError(
            f"a γ for each request needs steps that are computed, got run_ms = {s.run_ms:g}: it "
            "was measured with one γ for all"
        )


def for_part(endpoint: Endpoint, index: int) -> Endpoint:
    """What requests of one of the endpoint's parts meet: the steps and prompts of all, with their
    own tokens a step and their own lengths.

        time per token = that of all × τ(γ) / τ_i(γ)

    Raises
    ------
    InputError
        An endpoint without parts.
    """
    part, pair, load = endpoint.parts[index], endpoint.pair, endpoint.load
    assert pair is not None
    assert load is not None
    gammas = np.arange(len(load.step))

    def own(half: Speculation) -> Speculation:
        mine = replace(half, acceptance=of_kind(half.acceptance, index))
        waiting = half.waits(gammas) * half.tokens(gammas) / mine.tokens(gammas)
        return replace(mine, waiting=tuple(waiting.tolist()) if half.waiting else None)

    middle = own(endpoint.speculation)
    longer = endpoint.speculation.tokens(gammas) / middle.tokens(gammas)
    state = endpoint.scenario.model_dump(include={"request_rate", "concurrency", "batch"})
    scenario = part.scenario.model_copy(update=state | {"gamma": endpoint.gamma})
    (requests, *_) = requests_of(scenario)
    mine = own_prompt(pair, requests, load)
    return replace(
        endpoint,
        scenario=scenario,
        speculation=middle,
        corners=tuple(map(own, endpoint.corners)),
        load=replace(
            load,
            requests=requests,
            waiting=load.waiting * longer,
            tpot=load.tpot * longer,
            ttft=load.ttft + mine - own_prompt(pair, load.requests, load),
        ),
        parts=(),
    )


def _reach(s: Scenario, pair: ServedPair) -> int:
    """The largest γ that is computed; InputError where one that was given is beyond the drafter."""
    asked = {"gamma": s.gamma or 0, "run_gamma": s.run_gamma or 0}
    top = int(min(max(s.max_gamma, *asked.values()), pair.reach))
    for name, gamma in asked.items():
        if gamma > top:
            raise InputError(
                f"{name} must be <= {top}, what {pair.drafter.label} can draft, got {gamma}"
            )
    return top


def _anchor(s: Scenario, pair: ServedPair, load: Steady) -> Estimate | None:
    """The plain time per token that was measured; InputError where it cannot be."""
    if s.target_ms is None:
        return None
    # An assumed context is no reason to refuse a number.
    known = s.context_tokens is not None or s.prompt_tokens is not None
    read = replace(pair, batch=int(load.batch[0]), context_tokens=s.context if known else 1)
    check_roof(read, s.target_ms / 1e3)
    return Estimate(s.target_ms / 1e3, basis=Basis("measured"))


# ── a run that was measured ──────────────────────────────────────────────────────────────────

CONTRADICTION = 3.0
"""How many times a measured run may be off what τ/s says before it is taken for a slip."""


def _with_run(endpoint: Endpoint) -> Endpoint:
    """The endpoint whose step cost at the γ of a measured run is what that run showed."""
    s, plain = endpoint.scenario, endpoint.tpot_plain
    if s.run_gamma is None or s.run_ms is None or plain is None:
        return endpoint
    ran, ms, tokens = s.run_gamma, s.run_ms, s.run_tokens_per_step

    def at_the_run(half: Speculation) -> float:
        return float(half.implied_cost(ran, plain.value * 1e3 / ms, tokens))

    seen = at_the_run(endpoint.speculation)
    expected = float(endpoint.speculation.cost.total(ran))
    if not 1.0 / CONTRADICTION < seen / expected < CONTRADICTION:
        raise InputError(
            f"run_ms = {ms:g} contradicts the rest: a step of γ={ran} would take {seen:.3g} plain "
            f"steps, where {expected:.3g} are expected. Are its γ, tokens per step and load those "
            "of this scenario?"
        )

    def observed(half: Speculation, seconds: FloatArray) -> Speculation:
        """`seconds` a token of plain decoding at the joint points: what is open of them is open of
        the run's cost in plain steps, not of its time."""
        least = float(half.cost.total(ran)) / CONTRADICTION
        drawn = half.implied_cost(ran, seconds * 1e3 / ms, tokens, endpoint.prompts)
        cost = Observed(half.cost, ran, max(at_the_run(half), least), np.maximum(drawn, least))
        return half.with_cost(cost)

    open_at = np.atleast_2d(plain.value if plain.points is None else plain.points)
    each = np.broadcast_to(open_at, (len(endpoint.corners), open_at.shape[1]))
    return replace(
        endpoint,
        speculation=endpoint.speculation.with_cost(Observed(endpoint.speculation.cost, ran, seen)),
        corners=tuple(map(observed, endpoint.corners, each)),
        unknown=tuple(dict.fromkeys((*endpoint.unknown, *plain.basis.over))),
    )


# ── the same in another form ─────────────────────────────────────────────────────────────────


def said_as(s: Scenario, half: str, form: str) -> dict[str, Any]:
    """The fields that say in `form` of a half what the scenario says, rounded for a
    widget; `half` is "acceptance_form", "draft_form" or "verify_form"."""
    gamma = max(1, s.gamma or s.measured_gamma or 1)
    if half == "acceptance_form":
        return ACCEPTANCE[form].said(s.accepts.acceptance(s), gamma)
    if half == "draft_form" and form == Hardware.name:
        return COST[form].said(s, 0.0)
    endpoint = resolve(s)
    if half == "draft_form":
        return COST[form].said(s, endpoint.speculation.cost.c)
    cost = endpoint.speculation.cost
    return VERIFY[form].said(s, cost, gamma)
