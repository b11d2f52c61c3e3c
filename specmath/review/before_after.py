"""Did it work? Two runs, before and after a change: predicted, observed, and what to do.

Whether they can be compared comes first (specmath.review.comparable), then what was observed and
its interval (specmath.review.observed), then the decision and what explains it
(specmath.review.causes). What is computed from acceptance is never called observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from specmath.checks import InputError
from specmath.estimate import Basis, Estimate
from specmath.logs.lanes import whole_side
from specmath.logs.reading import Reading
from specmath.review.causes import Cause, causes_of
from specmath.review.comparable import Difference, OtherLoad, at_load_of, unlike
from specmath.review.into_scenario import Shape, endpoint_of, scenario_from, shape_of
from specmath.review.observed import UNSEEN, Speed, at_levels, compared, observed_speedup
from specmath.review.planned import against_plan
from specmath.rollout import Rollout
from specmath.scenario import Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import revised

__all__ = ["Decision", "Review", "cost_unknown", "ends_of", "review"]

Decision = Literal["keep", "change", "roll back", "cannot tell", "not comparable"]

LESS = 0.99
"""Tokens per step that are at most this share of those before are fewer."""

WORTH_CHANGING = 1.03
"""A γ is changed for more than 3%: less is not seen between two runs."""


@dataclass(frozen=True)
class Review:
    """What was predicted, what was seen, and the decision. Speedups of AFTER against BEFORE.

    `gamma` is the γ to run where one follows; `gain` its speedup over the γ that ran, at its least
    favourable end. `measure` says what `observed` compares, None where the runs tell no like
    numbers; `modelled` is then what the acceptance of both gives at the costs of the scenario.
    `request` is the speedup of one request, which is what is predicted: where a queue stood in both
    runs `observed` is the server's.
    `matched`: the numbers of running requests at which the loads meet, where they differ else.
    `lanes`: servers of one side that disagree, so that nothing stands for the side. `planned`: the
    prediction is what the scenario planned; `base` is that scenario. `plan`: the rollout that
    stands for BEFORE, where nobody ran it: what it expects of plain decoding is `before`.
    """

    decision: Decision
    gamma: int | None
    gain: float | None
    measure: str | None
    predicted: Estimate | None
    observed: Estimate | None
    request: Estimate | None
    difference: Estimate | None
    modelled: Estimate | None
    before: Reading
    after: Reading
    base: Scenario
    planned: bool
    loads: tuple[OtherLoad, ...]
    differences: tuple[Difference, ...]
    matched: tuple[int, int] | None
    causes: tuple[Cause, ...]
    lanes: tuple[Reading, ...]
    plan: Rollout | None = None

    @property
    def fallen(self) -> tuple[float, float] | None:
        """Tokens per step before and after where both drafted γ tokens, and fewer are accepted."""
        then, now = self.before.tokens_per_step, self.after.tokens_per_step
        same = self.before.gamma is not None and self.before.gamma == self.after.gamma
        if not same or then is None or now is None or now >= LESS * then:
            return None
        return then, now

    @property
    def agrees(self) -> bool | None:
        """Whether prediction and observation overlap; None where either is missing."""
        if self.predicted is None or self.request is None:
            return None
        (bottom, top), (low, high) = ends_of(self.request), ends_of(self.predicted, 0.0)
        return bottom <= high and low <= top


def review(
    before: Sequence[Reading], after: Sequence[Reading], base: Scenario, *, planned: bool = False,
    shape: Shape | None = None, plan: Rollout | None = None,
) -> Review:  # fmt: skip
    """Judge a change by its two sides, each one or several runs.

    Parameters
    ----------
    before, after
        The readings of each side; of servers that agree their pooled one counts.
    base
        The costs; with `planned` its acceptance is what was predicted before the change, else the
        prediction takes the acceptance that the logs show (BEFORE's where it speculated: the rates
        cut or extended to the new γ).
    planned
        Whether `base` is what was planned.
    shape
        How the drafts are made, where the log does not tell.
    plan
        The rollout of which `before` is what it expects (`specmath.review.planned`).

    Returns
    -------
    Review
        Predicted, observed, their difference, what explains it, and the decision.

    Raises
    ------
    InputError
        Neither side has anything to compare: latency, throughput or tokens per step.

    Examples
    --------
    >>> from specmath.logs.service import Latency, Service
    >>> plain = Reading("vllm", "bench", service=Service(tpot=Latency(0.025)))
    >>> fast = Reading("vllm", "bench", tokens_per_step=2.85, survival=(0.8, 0.6, 0.45),
    ...                gamma=3, service=Service(tpot=Latency(0.014)))
    >>> found = review([plain], [fast], Scenario(alpha=0.5, c=0.2))
    >>> found.decision, round(found.observed.value, 2)
    ('keep', 1.79)
    """
    if not before or not after:
        raise InputError("each side must hold at least one reading, got none")
    (before, mixed), (after, split) = (whole_side(side) for side in (before, after))
    before, chosen = at_load_of("BEFORE", before, after)
    after, also = at_load_of("AFTER", after, before)
    first, last = _main(before), _main(after)
    differences, observed, measure, matched = _seen(before, after)
    if plan is not None:
        differences, observed = against_plan(plan, differences, observed)
    if observed is None and not (first.tokens_per_step or last.tokens_per_step):
        raise InputError(
            "BEFORE and AFTER must both tell a time per token, a throughput or tokens per step, "
            f"got {first.engine} {first.format} and {last.engine} {last.format}"
        )
    predicted = _planned(plan) if plan else _predicted(first, last, base, planned, shape)
    request = observed
    if measure == "throughput" and plan is None:
        request = compared(before, after, "time per token") or observed
    plain_seen = None if first.speculates else request
    better = _other_gamma(last, base, plain_seen, shape)
    decision, gamma = _decide(last, observed, better)
    if mixed or split:
        decision, gamma = "cannot tell", None
    elif any(each.bars for each in differences):
        decision, gamma = "not comparable", None
    return Review(
        decision=decision, gamma=gamma, gain=better[1] if better and decision == "change" else None,
        measure=measure, predicted=predicted, observed=observed, request=request,
        difference=_difference(predicted, request), before=first, after=last, base=base,
        modelled=_by_tokens(first, last, base) if observed is None else None, planned=planned,
        loads=tuple(load for load in (chosen or also,) if load), differences=tuple(differences),
        matched=matched, lanes=tuple(mixed or split), causes=causes_of(
            first, last, observed, predicted, [*mixed, *split]
        ), plan=plan,
    )  # fmt: skip


def _seen(
    before: Sequence[Reading], after: Sequence[Reading]
) -> tuple[list[Difference], Estimate | None, str | None, tuple[int, int] | None]:
    """(what differs besides the change, the speedup, what measures it, where the loads meet).

    Where only the load differs and both logs print many loads, at those that they share.
    """
    differences = unlike(before, after)
    observed, measure = observed_speedup(before, after) or (None, None)
    barred = [each.what for each in differences if each.bars]
    if barred != ["requests running"] or len(before) != 1 or len(after) != 1:
        return differences, observed, measure, None
    found = at_levels(before[0].service, after[0].service)
    if found is None:
        return differences, observed, measure, None
    value, span, lines = found
    basis = Basis("measured", f"at the same numbers of running requests, {lines} lines of each")
    noted = [replace(each, bars=False) for each in differences]
    return noted, Estimate(value, None, basis), "time per token", span


def cost_unknown(base: Scenario) -> Scenario:
    """`base` with the cited range for c, where nobody gave the costs."""
    return revised(base, {"draft_form": "range"})


def _main(readings: Sequence[Reading]) -> Reading:
    """The reading of a side that tells most: speculative with positions, then with anything."""
    return max(readings, key=lambda r: (r.tokens_per_step is not None, bool(r.survival)))


# ── predicted ────────────────────────────────────────────────────────────────────────────────


def _predicted(
    first: Reading, last: Reading, base: Scenario, planned: bool, shape: Shape | None
) -> Estimate | None:
    """Speedup of AFTER against BEFORE: of AFTER's γ, as planned or with the acceptance that the
    logs show, over BEFORE's; what is unknown stands in both."""
    was = (first.gamma or 0) if first.speculates else 0
    if was and shape_of(first, shape) != "chain":
        return None
    try:
        taken = base if planned else scenario_from(first if first.speculates else last, base, shape)
        gamma = last.gamma if last.speculates else 0
        if first.speculates and gamma is not None and not planned:
            taken = taken.model_copy(update={"gamma": gamma})
        endpoint = resolve(taken)
        found = endpoint.gain(endpoint.gamma, was)
    except (InputError, IndexError):  # no acceptance follows, or none at the γ before
        return None
    costs = "draft cost unknown" if base.costs.cited else "costs of the scenario"
    source = "as planned" if planned else f"acceptance of the log, {costs}"
    return _settled(found, source)


def _planned(plan: Rollout) -> Estimate:
    """As it was expected, whatever is predicted today."""
    return replace(plan.speedup, basis=Basis("computed", "as planned", plan.speedup.basis.over))


def _settled(found: Estimate, source: str) -> Estimate:
    """With its source; without an interval where what is open cancels."""
    if found.points is None or float(np.ptp(found.points)) < 1e-9:
        return Estimate(found.value, None, Basis("computed", source))
    return replace(found, basis=Basis("computed", source, found.basis.over))


def _by_tokens(first: Reading, last: Reading, base: Scenario) -> Estimate | None:
    """What both acceptances give at the costs of the scenario: modelled, not seen."""
    try:
        now, then = (resolve(scenario_from(r, base)) for r in (last, first))
    except InputError:
        return None
    found = now.speedup_at(now.gamma).with_(then.speedup_at(then.gamma), lambda a, b: a / b)
    return _settled(found, "modelled: tokens per step of both runs, costs of the scenario")


def _difference(predicted: Estimate | None, observed: Estimate | None) -> Estimate | None:
    """Observed / predicted − 1, with the intervals of both, which know nothing of each other."""
    if predicted is None or observed is None:
        return None
    value = observed.value / predicted.value - 1.0
    if observed.low is None and predicted.low is None:
        return Estimate(value, None, observed.basis)
    (bottom, top), (low, high) = ends_of(observed, 0.0), ends_of(predicted, 0.0)
    over = predicted.basis.over if predicted.low is not None else ()
    basis = Basis("measured", observed.basis.source, over)
    return Estimate.between(value, bottom / high - 1.0, top / low - 1.0, basis)


# ── the decision ─────────────────────────────────────────────────────────────────────────────


def _decide(
    last: Reading, observed: Estimate | None, better: tuple[int, float] | None
) -> tuple[Decision, int | None]:
    """Keep what is faster, undo what is slower, unless another γ mends it."""
    if observed is None:
        return "cannot tell", None
    low, high = ends_of(observed)
    if low <= 1 <= high:
        return "cannot tell", None
    if better is not None and better[1] > WORTH_CHANGING and better[1] * observed.value > 1:
        return "change", better[0]
    return ("roll back", None) if observed.value < 1 else ("keep", last.gamma)


def ends_of(number: Estimate, unseen: float = UNSEEN) -> tuple[float, float]:
    """Its interval, or ±5% (`unseen`) where there is none."""
    if number.low is None or number.high is None:
        return number.value * (1 - unseen), number.value * (1 + unseen)
    return number.low, number.high


def _other_gamma(
    last: Reading, base: Scenario, against_plain: Estimate | None, shape: Shape | None
) -> tuple[int, float] | None:
    """(γ, its least speedup over the γ that ran) with AFTER's acceptance: the γ of the decision.

    Where BEFORE is a plain run the costs are those that it shows. Only for a chain with rates for
    each position.
    """
    ran = last.gamma
    if not ran or not last.survival or shape_of(last, shape) != "chain":
        return None
    speed = None if against_plain is None else Speed(against_plain.value, None, "observed")
    try:
        endpoint = endpoint_of(last, base, speed, shape)
    except InputError:  # the costs given do not reach the γ that ran
        return None
    best = endpoint.recommended
    if best in (0, ran):
        return None
    return best, ends_of(endpoint.gain(best, ran), 0.0)[0]
