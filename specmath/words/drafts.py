"""Which draft: candidates by α and c, drafters on the scenario's hardware, a tree or a chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specmath.drafts import USUAL, DrafterRow, Outcome, drafter_rows, ranked
from specmath.numbers import count, faster, ratio, significant
from specmath.predict import Prediction
from specmath.serving.tree import TreeChoice
from specmath.speculation import NEAR_BEST, ROUNDING
from specmath.stepcost import StepCost
from specmath.words.notes import known_biases, notes

__all__ = [
    "drafters_notes",
    "drafters_sentence",
    "evidence_words",
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
        f"{faster(first.best_speedup)} at γ={first.best_gamma}."
    )


# ── drafters on the hardware ─────────────────────────────────────────────────────────────────


def drafters_sentence(prediction: Prediction) -> str:
    """Which drafter is fastest on the scenario's hardware, each at its own acceptance, and the α
    each needs: the scenario's where it was given, else what others measured of its kind."""
    rows = ranked(drafter_rows(prediction.endpoint))
    known = [row for row in rows if row.known]
    need = ", ".join(f"{row.label} {_alpha(row.least_alpha)}" for row in rows)
    end = f"To pay at all (at some γ to {USUAL}) each needs an α above: {need}."
    if unknown := ", ".join(row.label for row in rows if not row.known):
        end = f"Not known, for nobody measured its acceptance: {unknown}. {end}"
    paying = [row for row in known if row.speedup > 1.0 + ROUNDING]
    if not paying:
        return (
            "At your batch and context, each with its own acceptance, no drafter whose acceptance "
            f"is known beats plain decoding. {end}"
        )
    first, *others = paying
    told = "".join(
        f", then {row.label} {_reached(row)}"
        for place, row in enumerate(others)
        if place < 2 or row.yours
    )
    return (
        f"On your hardware, each with its own acceptance, {first.label} would be fastest: "
        f"{_reached(first)}{told}. {end} Drafters differ in α more than in cost: measure it on "
        "your text."
    )


def evidence_words(row: DrafterRow) -> str:
    """Where the acceptance of a drafter is from."""
    found = row.endpoint.band
    if found is None:
        return "you" if row.known else "nobody"
    own = f" on {found.target}" if found.target else ""
    return f"{count(found.pairs, 'pair')}{own}, {count(len(found.sources), 'source')}"


def drafters_notes(prediction: Prediction) -> tuple[str, ...]:
    """The notes of the prediction, after the known biases of every drafter in the table."""
    rows = drafter_rows(prediction.endpoint)
    biases = [note for row in rows for note in known_biases(row.pair)]
    return tuple(dict.fromkeys((*biases, *notes(prediction))))


def _alpha(value: float | None) -> str:
    return "no α is enough" if value is None else significant(value, 2)


def _reached(row: DrafterRow) -> str:
    """With the interval, where there is one: two that overlap are not ranked by their middles."""
    low, high = row.ends
    span = "" if low == high else f" ({ratio(low)} to {ratio(high)})"
    return f"{ratio(row.speedup)} at γ={row.recommended_gamma}{span}"


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
