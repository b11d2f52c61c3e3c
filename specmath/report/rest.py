"""What every report says of how far to trust it."""

from __future__ import annotations

from specmath.predict import Prediction
from specmath.published.kept import kept
from specmath.published.summary import summarise
from specmath.words.notes import assumed
from specmath.words.published import headline
from specmath.words.verdict import ground_words

__all__ = ["assumed_words", "how_accurate"]


def assumed_words(p: Prediction) -> list[str]:
    """What the range is over, and what nobody gave."""
    named = assumed(p)
    listed = f"Assumed until you give them: {'; '.join(named)}." if named else ""
    return [text for text in (ground_words(p), listed) if text]


def how_accurate() -> str:
    """How far off the public record the same prediction is."""
    return headline(summarise(kept()))
