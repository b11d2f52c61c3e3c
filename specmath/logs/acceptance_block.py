"""The per-request acceptance record that vLLM's responses and AIPerf share."""

from __future__ import annotations

from specmath.logs.engine import Node, count_in, number_in, numbers_in
from specmath.logs.notes import Notes, Place
from specmath.logs.requests import RequestSum

__all__ = ["add_block"]

LONGEST_RECORD = 1_000_000
LARGEST_POSITION = 255


def add_block(total: RequestSum, block: Node, generated: int | None, at: Place) -> None:
    """Add one record: counts, histogram (list or sparse object) and, where kept, every step."""
    drafted = count_in(block, "num_draft_tokens")
    accepted = count_in(block, "num_accepted_draft_tokens", "num_accepted_tokens")
    steps = count_in(block, "num_spec_steps", "num_drafts")
    if drafted is None or accepted is None:
        total.notes.add("a speculative record without its token counts was left out", at)
        return
    length = number_in(block, "mean_acceptance_length")
    if length is not None and steps:
        _check_length(length, 1.0 + accepted / steps, total.notes, at)
    total.add(
        at,
        steps=steps or None,
        drafted=drafted,
        accepted=accepted,
        histogram=_histogram(block.get("acceptance_histogram")),
        rejections=_rejections(block, accepted, drafted),
        gamma=count_in(block, "num_spec_tokens") or None,
        generated=generated,
    )


def _check_length(printed: float, counted: float, notes: Notes, at: Place) -> None:
    if abs(printed - counted) <= 0.006:
        return
    if abs(printed + 1.0 - counted) <= 0.006:
        notes.add("the printed mean length leaves out the bonus token: one was added", at)
    else:
        notes.add("the printed mean length is not 1 + accepted / steps: the counts were used", at)


def _histogram(value: object) -> list[float] | None:
    if isinstance(value, dict):
        places = {key: value[key] for key in value if isinstance(key, str) and len(key) <= 3}
        if len(places) != len(value) or not all(k.isascii() and k.isdigit() for k in places):
            return None
        last = max((int(key) for key in places), default=-1)
        if last > LARGEST_POSITION:
            return None
        named = {int(key): item for key, item in places.items()}
        value = [named.get(index, 0) for index in range(last + 1)]
    return numbers_in(value)


def _rejections(block: Node, accepted: int, drafted: int) -> int | None:
    """Steps that accepted fewer tokens than they drafted, where every step was kept."""
    took = numbers_in(block.get("per_step_accepted"), LONGEST_RECORD)
    gave = numbers_in(block.get("per_step_drafted"), LONGEST_RECORD)
    if took is None or gave is None or len(took) != len(gave):
        return None
    if sum(took) != accepted or sum(gave) != drafted:
        return None
    return sum(a < d for a, d in zip(took, gave, strict=True))
