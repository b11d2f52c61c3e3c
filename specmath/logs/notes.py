"""Warnings gathered while a log streams by: each kind once, with its first line and how many."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Notes", "Place"]

MOST_KINDS = 60


class Place(NamedTuple):
    """Where a line stands: its source ("" for pasted text), the source's order, line number."""

    source: str
    order: int
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.source else f"line {self.line}"


class Notes:
    """Bounded: a log with a million bad lines leaves one note that counts them."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[Place | None, int]] = {}

    def add(self, text: str, at: Place | None = None) -> None:
        """Note `text`; repeats are counted, and only the first place is kept."""
        first, count = self._kinds.get(text, (at, 0))
        if count or len(self._kinds) < MOST_KINDS:
            self._kinds[text] = (first, count + 1)

    def texts(self) -> tuple[str, ...]:
        """The notes by their first places; before them those of no place."""
        kinds = sorted(self._kinds.items(), key=lambda kind: kind[1][0][1:] if kind[1][0] else ())
        return tuple(self._one(text, *kind) for text, kind in kinds)

    @staticmethod
    def _one(text: str, first: Place | None, count: int) -> str:
        where = f"{first}: " if first is not None else ""
        more = f" (and {count - 1} more like it)" if count > 1 and first is not None else ""
        return f"{where}{text}{more}"
