"""One answer in words: the only shape of prose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Said", "State"]

State = Literal["good", "bad", "unknown", "info"]


@dataclass(frozen=True)
class Said:
    """A question, its answer in a sentence, and the reasons."""

    question: str
    state: State
    headline: str
    because: tuple[str, ...] = ()
