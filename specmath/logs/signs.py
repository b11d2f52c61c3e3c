"""What counts by position show at once: a broken draft, a collapse, positions never accepted."""

from __future__ import annotations

from specmath.logs.reading import Counts

__all__ = ["signs_of"]

ENOUGH_STEPS = 100
BROKEN = 0.05
"""Accepted tokens a step below which a draft is none: chance and common words give that much."""

SOUND = 0.4
FALLEN = 0.5
"""A second position accepted less than half as often as the first is a collapse."""

LONG_TAIL = 3


def signs_of(counts: Counts) -> list[str]:
    """Words for each sign that at least ENOUGH_STEPS steps show."""
    steps, accepted, rates = counts.steps, counts.accepted, counts.survival or ()
    if not steps or accepted is None or steps < ENOUGH_STEPS:
        return []
    if accepted / steps < BROKEN:
        return [
            f"the draft looks broken: {accepted} tokens accepted in {steps:.0f} steps (a wrong or "
            "missing head, another tokenizer, or hidden states that do not fit)"
        ]
    found = []
    if len(rates) > 1 and rates[0] >= SOUND and rates[1] / rates[0] < FALLEN * rates[0]:
        found.append(
            f"a sound first position ({rates[0]:.2f}) and a collapse after it: the second is "
            f"accepted {rates[1] / rates[0]:.2f} of the times it is tried"
        )
    last = max((i for i, rate in enumerate(rates, 1) if rate > 0), default=0)
    if last and len(rates) - last >= LONG_TAIL:
        found.append(f"nothing was accepted from position {last + 1} on")
    return found
