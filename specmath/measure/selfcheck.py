"""What a measurement says about itself: is the draft broken, is the run exact, does it pay?"""

from __future__ import annotations

from collections.abc import Sequence

from specmath.measure.pairs import Pair
from specmath.measure.report import AcceptanceRow, Check, Comparison, Costs

__all__ = ["self_check"]

BROKEN_ALPHA = 0.05
FAR = 4.5
"""|z| beyond this happens by chance in one comparison of 150,000."""


def self_check(
    acceptance: Sequence[AcceptanceRow],
    comparison: Sequence[Comparison],
    costs: Costs | None,
    pair: Pair,
    busy: str = "",
) -> tuple[Check, ...]:
    """The checks in the order in which they matter; `busy` says what else the machine did."""
    found = [*_broken(acceptance, pair), *_exact(comparison), *_mismatch(comparison)]
    found += _pays(comparison)
    found += [_note(note) for note in (busy, *pair.notes) if note]
    if costs is not None and costs.c.value > 1:
        found.append(_note(f"One draft forward takes {costs.c.value:.2f} target forwards."))
    return tuple(found)


def _note(message: str) -> Check:
    return Check(level="note", message=message)


def _broken(acceptance: Sequence[AcceptanceRow], pair: Pair) -> list[Check]:
    """α near 0 at every temperature is no weak draft: something is wrong."""
    rows = [row for row in acceptance if row.segment == "all"]
    if not rows:
        return []
    best = max(row.alpha.value for row in rows)
    if best < BROKEN_ALPHA and pair.draft_model is not None:
        return [
            Check(
                level="bad",
                message=f"The draft looks broken: α is {best:.3f} at best. Wrong tokenizer, wrong "
                "weights or a head of another model give such numbers; a weak draft does not.",
            )
        ]
    if best < BROKEN_ALPHA:
        return [_note(f"Look-up finds next to nothing in this text: α is {best:.3f} at best.")]
    return []


def _exact(comparison: Sequence[Comparison]) -> list[Check]:
    greedy = [row for row in comparison if row.identical is not None and row.segment == "all"]
    if not greedy:
        return []
    if all(row.identical for row in greedy):
        return [Check(level="good", message="Greedy speculative output is identical to plain.")]
    gammas = ", ".join(str(row.gamma) for row in greedy if not row.identical)
    return [
        _note(
            f"Greedy output differs from plain decoding at γ = {gammas}: a pass over several "
            "tokens rounds differently, which flips near-ties in low precision."
        )
    ]


def _mismatch(comparison: Sequence[Comparison]) -> list[Check]:
    rows = [row for row in comparison if row.segment == "all"]
    if not rows:
        return []
    worst = max(rows, key=lambda row: abs(row.z))
    if abs(worst.z) <= FAR:
        message = f"Steps agree with the replay of the same texts: largest |z| {abs(worst.z):.1f}."
        return [Check(level="good", message=message)]
    where = f"T={worst.temperature:g}, γ={worst.gamma}"
    return [
        Check(
            level="bad" if worst.temperature > 0 else "note",
            message=f"Steps do not agree with the replay of the same texts ({where}: z = "
            f"{worst.z:.1f}). Draft and target may sample at different temperatures, or near-ties "
            "were rounded differently in the scoring pass.",
        )
    ]


def _pays(comparison: Sequence[Comparison]) -> list[Check]:
    rows = [row for row in comparison if row.segment == "all" and row.gamma > 0]
    if not rows:
        return []
    best = max(rows, key=lambda row: row.speedup)
    where = f"at T={best.temperature:g}, γ={best.gamma}"
    if best.speedup < 1:
        return [
            _note(f"No γ that was run is faster than plain decoding; {best.speedup:.2f}× {where}.")
        ]
    return [_note(f"Fastest over all text: {best.speedup:.2f}× {where}.")]
