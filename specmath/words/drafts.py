"""Candidates by α and c, and a tree or a chain, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specmath.drafts import Outcome
from specmath.numbers import count, faster, ratio, significant
from specmath.serving.tree import TreeChoice
from specmath.speculation import NEAR_BEST, ROUNDING
from specmath.stepcost import StepCost

__all__ = [
    "own_cost_words",
    "rank_at_own_cost",
    "rank_drafts",
    "tree_sentence",
]


# ── candidates ───────────────────────────────────────────────────────────────────────────────


def rank_drafts(outcomes: Sequence[Outcome]) -> str:
    """Which candidate the theorem ranks first, and whether the measurements agree."""
    first = max(outcomes, key=lambda o: o.best_speedup)
    if first.best_speedup <= 1:
        return "None of these drafts beats plain decoding (Theorem 3.8)."
    said = (
        f"{first.candidate.draft} is fastest by the theorem: {ratio(first.best_speedup)} at "
        f"{_gamma(first)}."
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


def _gamma(found: Outcome) -> str:
    """The fastest γ, and the one to run where it is another."""
    to_run = found.recommended_gamma
    also = "" if to_run == found.best_gamma else f"; γ={to_run} does as well"
    return f"γ={found.best_gamma}{also}"


def own_cost_words(cost: StepCost, gamma: int) -> str:
    """What a step costs a candidate besides its c; empty where the theorem's cost holds."""
    at = min(max(1, gamma), cost.reach)
    verify, overhead = float(cost.verify(at)), float(cost.extra(at))
    if verify == 1 and overhead == 0:
        return ""
    more = f", overhead {significant(overhead)}" if overhead else ""
    return f"a pass over {at + 1} tokens costs {significant(verify)} plain steps{more}"


def rank_at_own_cost(outcomes: Iterable[Outcome], words: str) -> str:
    """Which candidate is fastest at the scenario's own step cost, which `words` tells."""
    first = max(outcomes, key=lambda o: o.best_speedup)
    if first.best_speedup <= 1 + ROUNDING:
        return f"At your verification cost ({words}) none of these beats plain decoding."
    return (
        f"At your verification cost ({words}) {first.candidate.draft} is fastest: "
        f"{faster(first.best_speedup)} at {_gamma(first)}."
    )


# ── a tree instead of a chain ────────────────────────────────────────────────────────────────


def tree_sentence(found: TreeChoice) -> str:
    """Whether the best token tree beats the best chain of the same drafter."""
    if max(found.tree, found.chain) <= 1.0:
        return "Neither a tree nor a chain pays."
    if found.tree <= NEAR_BEST * found.chain:
        return f"A chain does as well: {faster(found.chain)}, the best tree {ratio(found.tree)}."
    return (
        f"The best tree has {count(found.nodes, 'node')} in {count(found.depth, 'level')}, "
        f"emits {significant(found.tokens)} tokens a step and is {faster(found.tree)}; the best "
        f"chain reaches {ratio(found.chain)}."
    )
