"""One-sentence answers beside the verdict: which draft, how many tokens a step, what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.candidates import Outcome
from specmath.predict import Prediction
from specmath.wording import change, changed, interval, ratio, significant, usd

__all__ = ["cost_sentence", "rank_drafts", "step_sentence"]


def rank_drafts(outcomes: Sequence[Outcome]) -> str:
    """Which candidate the theorem ranks first, and whether the measurements agree."""
    first = max(outcomes, key=lambda o: o.best_speedup)
    if first.best_speedup <= 1:
        return "None of these drafts beats plain decoding (Theorem 3.8)."
    said = (
        f"{first.candidate.draft} is fastest by the theorem: {ratio(first.best_speedup)} at "
        f"γ={first.best_gamma}."
    )
    measured = [o for o in outcomes if o.miss is not None]
    if len(measured) < 2:
        return said
    fastest = max(measured, key=lambda o: o.candidate.measured_speedup or 0.0)
    predicted = max(measured, key=lambda o: o.predicted)
    if fastest is predicted:
        return f"{said} The measured speedups rank it first too." if fastest is first else said
    return (
        f"{said} But measured, {fastest.candidate.draft} was fastest "
        f"({ratio(fastest.candidate.measured_speedup)}): trust a measurement over the theorem."
    )


def step_sentence(prediction: Prediction) -> str:
    """Mean and spread of the tokens a step emits, and how often the whole draft survives."""
    p, gamma = prediction, prediction.scenario.gamma
    acceptance = p.halves.acceptance
    chances, spread = acceptance.step_pmf(gamma), acceptance.step_variance(gamma) ** 0.5
    return (
        f"{significant(p.tokens_per_step)} tokens a step in the mean, standard deviation "
        f"{significant(spread)}. {float(chances[-1]):.0%} of the steps keep the whole draft, "
        f"{float(chances[0]):.0%} none of it (the one token is then the correction)."
    )


def cost_sentence(prediction: Prediction) -> str:
    """What a million tokens costs at this γ, and in a compute-bound server."""
    p = prediction
    work = change(p.operations.value, 1.0)
    compute = f"Compute-bound, the same γ={p.scenario.gamma} costs {work} a token."
    if p.usd is None:
        return f"Dollars are unknown until the target's time and the GPU price are given. {compute}"
    plain = p.of_plain(p.usd_plain or 0.0)
    return (
        f"At γ={p.scenario.gamma} a million tokens costs {interval(p.usd, usd)} instead of "
        f"{interval(plain, usd)} ({changed(p.usd.value, p.usd_plain, p.speedup)}). {compute}"
    )
