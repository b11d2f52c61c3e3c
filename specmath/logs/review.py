"""Did it work? Two runs, before and after a change: predicted, observed, and what to do.

What was observed, and its interval, is in specmath.logs.observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath.checks import InputError
from specmath.logs.alike import unlike
from specmath.logs.curve import log_curve
from specmath.logs.observed import UNSEEN, Span, at_load_of, observed_speedup
from specmath.logs.record import Reading
from specmath.logs.speed import Speed
from specmath.logs.taken import Shape, drafts_of, scenario_from, shape_of
from specmath.predict import NEAR_BEST, Prediction, predict
from specmath.scenario import Scenario
from specmath.scenario.files import revised
from specmath.verdict import WORTH_CHANGING
from specmath.wording import change, faster, ratio

__all__ = ["Review", "cost_unknown", "review"]

Decision = Literal["keep", "change", "roll back", "run longer"]

TOKENS = "tokens per step"


@dataclass(frozen=True)
class Review:
    """What was predicted, what was seen, and the decision. Speedups of AFTER against BEFORE."""

    decision: Decision
    gamma: int | None
    headline: str
    because: tuple[str, ...]
    measure: str
    predicted: Span | None
    observed: Span | None
    difference: Span | None
    tokens_before: float | None
    tokens_after: float | None
    warnings: tuple[str, ...]


def review(
    before: Sequence[Reading],
    after: Sequence[Reading],
    base: Scenario,
    *,
    planned: bool = False,
    shape: Shape | None = None,
) -> Review:
    """Judge a change by its two sides, each one or several runs.

    `base` holds the costs; with `planned` its acceptance is what was predicted before the change,
    else the prediction takes the acceptance that the logs show (BEFORE's where it speculated: the
    rates cut or extended to the new γ). Raises InputError where neither side has anything to
    compare: latency, throughput or tokens per step.
    """
    if not before or not after:
        raise InputError("each side must hold at least one reading, got none")
    before, mixed = at_load_of("BEFORE", before, after)
    after, also = at_load_of("AFTER", after, before)
    loads = mixed or also
    first, last = _main(before), _main(after)
    observed, measure = observed_speedup(before, after) or (None, TOKENS)
    if observed is None and not (first.tokens_per_step or last.tokens_per_step):
        raise InputError(
            "BEFORE and AFTER must both tell a time per token, a throughput or tokens per step, "
            f"got {first.engine} {first.format} and {last.engine} {last.format}"
        )
    prediction = _prediction(first, last, base, planned, shape)
    predicted = _predicted(first, prediction, _basis(base, planned), shape)
    observed = observed or _by_tokens(first, last, base)
    better = _other_gamma(last, base, None if _speculates(first) else observed, shape)
    decision, gamma, headline = _decide(first, last, observed, better)
    because = []
    if predicted and observed and measure != TOKENS:
        because.append(_against(predicted, observed))
    if base.draft_form == "range" and not planned and predicted is not None:
        because.append(
            "The draft cost is not known: the prediction spans the usual c, "
            f"{base.c_low:g} to {base.c_high:g}"
        )
    if measure == TOKENS:
        because.append("No latency in both runs: judged by tokens per step and the costs given")
    return Review(
        decision=decision,
        gamma=gamma,
        headline=headline,
        because=tuple(because),
        measure=measure,
        predicted=predicted,
        observed=observed,
        difference=_difference(predicted, observed),
        tokens_before=first.tokens_per_step,
        tokens_after=last.tokens_per_step,
        warnings=tuple(
            dict.fromkeys((*loads, *unlike(before, after), *_other_plan(last, base, planned)))
        ),
    )


def cost_unknown(base: Scenario) -> Scenario:
    """`base` with the cited range for c, where nobody gave the costs."""
    return revised(base, {"draft_form": "range"})


def _main(readings: Sequence[Reading]) -> Reading:
    """The reading of a side that tells most: speculative with positions, then with anything."""
    return max(readings, key=lambda r: (r.tokens_per_step is not None, bool(r.survival)))


# ── predicted ────────────────────────────────────────────────────────────────────────────────


def _speculates(reading: Reading) -> bool:
    return reading.tokens_per_step is not None or reading.drafted is not None


def _prediction(
    first: Reading, last: Reading, base: Scenario, planned: bool, shape: Shape | None
) -> Prediction | None:
    """Of AFTER's γ: as planned, or with the acceptance that the logs show."""
    if planned:
        return predict(base)
    source = first if _speculates(first) else last
    gamma = last.gamma if _speculates(last) else 0
    try:
        taken = scenario_from(source, base, shape)
        if source is not last and gamma is not None:
            taken = taken.model_copy(update={"gamma": gamma})
        return predict(taken)
    except InputError:
        return None


def _basis(base: Scenario, planned: bool) -> str:
    if planned:
        return "as planned"
    costs = "draft cost unknown" if base.draft_form == "range" else "costs of the scenario"
    return f"acceptance of the log, {costs}"


def _predicted(
    first: Reading, p: Prediction | None, where: str, shape: Shape | None
) -> Span | None:
    """Speedup of AFTER against BEFORE: both against plain, at every end of what is unknown."""
    gamma = (first.gamma or 0) if _speculates(first) else 0
    if p is None or gamma >= len(p.curve.gamma) or (gamma and shape_of(first, shape) != "chain"):
        return None
    return _gain(p, p.scenario.gamma, p, gamma, where)


def _gain(after: Prediction, gamma: int, before: Prediction, was: int, where: str) -> Span:
    """after(γ) / before(γ'); an unknown cost stands in both, so its ends move together."""
    curves = (after.curve, before.curve)
    value = float(curves[0].walltime_improvement[gamma] / curves[1].walltime_improvement[was])
    ends = [
        float(now[gamma] / then[was])
        for now, then in zip(*((c.low, c.high) for c in curves), strict=True)
        if now is not None and then is not None
    ]
    if not ends or max(*ends, value) - min(*ends, value) < 1e-9:
        return Span(value, None, None, where)
    basis = f"{where}; {after.speedup.basis}"
    return Span(value, min(*ends, value), max(*ends, value), basis)


def _by_tokens(first: Reading, last: Reading, base: Scenario) -> Span | None:
    """Where no latency was printed: what both acceptances give at the costs of the scenario."""
    try:
        now, then = (predict(scenario_from(r, base)) for r in (last, first))
    except InputError:
        return None
    where = "tokens per step seen, costs of the scenario"
    return _gain(now, now.scenario.gamma, then, then.scenario.gamma, where)


def _difference(predicted: Span | None, observed: Span | None) -> Span | None:
    """Observed / predicted − 1, with the intervals of both."""
    if predicted is None or observed is None:
        return None
    value, basis = observed.value / predicted.value - 1.0, observed.basis
    if observed.low is None and predicted.low is None:
        return Span(value, None, None, basis)
    if predicted.low is not None:
        basis += "; over what the prediction leaves open"
    low = (observed.low or observed.value) / (predicted.high or predicted.value) - 1.0
    high = (observed.high or observed.value) / (predicted.low or predicted.value) - 1.0
    return Span(value, low, high, basis)


# ── the decision ─────────────────────────────────────────────────────────────────────────────


def _decide(
    first: Reading, last: Reading, observed: Span | None, better: tuple[int, float] | None
) -> tuple[Decision, int | None, str]:
    """Keep what is faster, undo what is slower, unless another γ mends it."""
    if observed is None:
        return "run longer", None, "Cannot tell: neither run tells its speed."
    value = observed.value
    low, high = _ends(observed)
    if low <= 1 <= high:
        seen = f"{ratio(low)} to {ratio(high)}"
        return "run longer", None, f"Run longer: {seen} is no difference that can be seen."
    if better is not None and better[1] > WORTH_CHANGING and better[1] * value > 1:
        return "change", better[0], (
            f"Change γ to {better[0]}: γ={last.gamma} is {faster(value)} than before, "
            f"γ={better[0]} should be {faster(better[1] * value)}."
        )  # fmt: skip
    if value < 1:
        back = f"γ={first.gamma}" if _speculates(first) else "plain decoding"
        return "roll back", None, f"Roll back to {back}: this is {faster(value)}."
    return "keep", last.gamma, f"Keep it: {faster(value)}."


def _against(predicted: Span, observed: Span) -> str:
    bottom, top = _ends(observed)
    low, high = predicted.low or predicted.value, predicted.high or predicted.value
    if bottom <= high and low <= top:
        return "Prediction and observation agree within what is known of both"
    away = change(observed.value, predicted.value)
    return f"Observed is {away} from predicted: acceptance, draft cost or overhead is not as taken"


def _ends(span: Span) -> tuple[float, float]:
    """Its interval, or ±5% where there is none."""
    if span.low is None or span.high is None:
        return span.value * (1 - UNSEEN), span.value * (1 + UNSEEN)
    return span.low, span.high


def _other_gamma(
    last: Reading, base: Scenario, against_plain: Span | None, shape: Shape | None
) -> tuple[int, float] | None:
    """(γ, its speedup over the γ that ran) with AFTER's acceptance.

    Where BEFORE is a plain run the costs are those that it shows (`log_curve`). Only a shorter γ
    or one token longer, and only for a chain with rates for each position.
    """
    ran = last.gamma
    if not ran or not last.survival or shape_of(last, shape) != "chain":
        return None
    speed = None if against_plain is None else Speed(against_plain.value, None, "observed")
    curve = log_curve(last, drafts_of(last, base, shape), speed)
    top = min(ran + 1, len(curve.speedup) - 1)
    speeds = curve.speedup[1 : top + 1]
    best = 1 + int(np.argmax(speeds >= speeds.max() / NEAR_BEST))
    # At the least favourable end of what is not known.
    gain = min(float(end[best] / end[ran]) for end in curve.ends)
    return None if best == ran else (best, gain)


def _other_plan(last: Reading, base: Scenario, planned: bool) -> list[str]:
    if not planned or last.gamma in (None, base.gamma):
        return []
    return [f"Planned at γ={base.gamma}, but AFTER ran γ={last.gamma}"]
