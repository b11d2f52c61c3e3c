"""guidellm's printed table: recognised so that the message can say what it lacks."""

from __future__ import annotations

from specmath.logs.engine import Engine, Parser
from specmath.logs.notes import Notes, Place

__all__ = ["ENGINE"]


class Guidellm(Parser):
    """Holds no speculative field: only TPOT, ITL and concurrency."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._seen = False

    def line(self, text: str, at: Place) -> None:
        self._seen = self._seen or text.startswith(("Benchmarks Stats:", "Benchmark|"))

    def without(self) -> str | None:
        if not self._seen:
            return None
        return "a guidellm table, which prints TPOT, ITL and concurrency but nothing of speculation"


ENGINE = Engine("guidellm", (b"Benchmarks Stats:",), Guidellm)
