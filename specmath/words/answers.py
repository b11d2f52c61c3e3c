"""One-sentence answers beside the verdict: how many tokens a step, what it costs."""

from __future__ import annotations

from specmath.numbers import change, changed, interval, significant, usd
from specmath.predict import Prediction, own_gammas

__all__ = ["cost_sentence", "kinds_sentence", "step_sentence"]

SMALL = 0.01
"""A share of a token's time that is not worth a γ of one's own."""


def step_sentence(prediction: Prediction) -> str:
    """Mean and spread of the tokens a step emits, and how often the whole draft survives."""
    p, gamma = prediction, prediction.gamma
    acceptance = p.speculation.acceptance
    chances, spread = acceptance.step_pmf(gamma), acceptance.step_variance(gamma) ** 0.5
    return (
        f"{significant(p.tokens_per_step)} tokens a step in the mean, standard deviation "
        f"{significant(spread)}. {float(chances[-1]):.0%} of the steps keep the whole draft, "
        f"{float(chances[0]):.0%} none of it (the one token is then the correction)."
    )


def kinds_sentence(prediction: Prediction) -> str:
    """What one γ for all costs each kind of a mixture; "" where nobody loses."""
    kinds, gamma = own_gammas(prediction), prediction.gamma
    if all(kind.less <= SMALL for kind in kinds):
        return ""
    each = "; ".join(
        f"{_kind(i, kind.share)} would take {f'γ={kind.gamma}' if kind.gamma else 'no draft'}, "
        f"{kind.less:.0%} less a token"
        for i, kind in enumerate(kinds, start=1)
        if kind.less > SMALL
    )
    return (
        f"One γ={gamma} for all is not everybody's: by itself {each}. What a γ for each request, "
        "or a pool of its own, would do: Which endpoints?, with a segment for each kind."
    )


def _kind(number: int, share: float) -> str:
    return f"kind {number} ({share:.0%} of the tokens)"


def cost_sentence(prediction: Prediction) -> str:
    """What a million tokens costs at this γ, and in a compute-bound server."""
    p = prediction
    work = change(p.operations.value, 1.0)
    compute = f"Compute-bound, the same γ={p.gamma} costs {work} a token."
    if p.usd is None or p.usd_plain is None:
        return f"Dollars are unknown until the target's time and the GPU price are given. {compute}"
    return (
        f"At γ={p.gamma} a million tokens costs {interval(p.usd, usd)} instead of "
        f"{interval(p.usd_plain, usd)} ({changed(p.usd, p.usd_plain)}). {compute}"
    )
