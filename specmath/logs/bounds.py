"""Bounds of α where drafts stop early and only their longest length is known.

A drafted tokens were accepted of D, in at most M drafts (M decode passes, or the drafts
themselves), none longer than γ. How the lengths were spread is not told, so α is not a point.
"""

from __future__ import annotations

from specmath.logs.estimate import Alpha, invert_accepted
from specmath.logs.reading import FULL_DRAFT, Counts, Shape

__all__ = ["bounds_of", "stopping_alpha"]

USUAL_LONGEST = 16
"""Taken where the longest draft is not told: the maximum that llama.cpp had until 2026."""


def bounds_of(accepted: float, drafted: float, drafts: float, gamma: int) -> tuple[float, float]:
    """(lowest, highest) α of D drafted tokens in at most `drafts` drafts of at most γ tokens.

    Lowest: α = A/(A + R) with as many rejections R as there can be, one a lost token and one a
    draft: R = min(D − A, M). Highest: D/γ drafts, every one γ tokens long, whose i.i.d. mean
    Σ_{i≤γ} α^i is solved for. Needs 0 ≤ A ≤ D, D > 0, M > 0.
    """
    rejected = min(drafted - accepted, drafts)
    low = accepted / (accepted + rejected) if accepted + rejected > 0 else 1.0
    return low, max(low, invert_accepted(accepted / drafted * gamma, float(gamma)))


def stopping_alpha(counts: Counts, shape: Shape) -> Alpha | None:
    """No α but its bounds, where drafts vary in length; None where they do not or none follows.

    Steps that are not counted are at most the passes. Drafts of full length are no case of this,
    nor rates by position, nor drafts of which all or none was accepted.
    """
    steps, drafted, accepted = counts.steps, counts.drafted, counts.accepted
    drafts = steps if steps else counts.passes
    if counts.survival or shape == "tree" or not drafted or not accepted or not drafts:
        return None
    if accepted >= drafted:
        return None
    mean, gamma = drafted / drafts, counts.gamma
    if gamma is not None and mean >= FULL_DRAFT * gamma:
        return None
    longest = gamma or max(USUAL_LONGEST, -int(-mean // 1))
    low, high = bounds_of(accepted, drafted, drafts, longest)
    counted = "drafts" if steps else "passes, each with a draft at most"
    told = f"{longest}" if gamma else f"{longest}, which is assumed: the log does not tell it"
    basis = (
        f"bounds, no confidence interval: drafts stop early, {drafted / drafts:.2f} tokens a draft "
        f"on average if there were {drafts:.0f} ({counted}) to {drafted / longest:.0f} drafts of "
        f"the longest length, {told}"
    )
    return Alpha(None, None, None, (low, high), basis)
