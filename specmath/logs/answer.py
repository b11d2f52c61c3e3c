"""One answered question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Answer", "State"]

State = Literal["good", "bad", "unknown", "info"]


@dataclass(frozen=True)
class Answer:
    """One question, its answer in a sentence, and the reasons."""

    question: str
    state: State
    headline: str
    because: tuple[str, ...] = ()
