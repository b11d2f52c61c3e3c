"""What a measurement generates at one temperature, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from specmath.measure.looptime import LoopTimes
from specmath.measure.sampling import Sampling
from specmath.measure.speculate import Generation
from specmath.replay import ReplayAcceptance

__all__ = ["Done", "Texts"]


@dataclass
class Texts:
    """All generations of one temperature, aligned by prompt and sample."""

    sampling: Sampling
    segments: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    prompts: list[list[int]] = field(default_factory=list)
    plain: list[Generation] = field(default_factory=list)
    outputs: list[list[int]] = field(default_factory=list)
    runs: dict[int, list[Generation]] = field(default_factory=dict)

    def pairs(self, gamma: int | None = None) -> list[tuple[list[int], list[int]]]:
        """(prompt, output): the texts given or of plain decoding, or those of the run at γ."""
        texts = self.outputs if gamma is None else [run.tokens for run in self.runs[gamma]]
        return list(zip(self.prompts, texts, strict=True))


@dataclass(frozen=True)
class Done:
    """One temperature: its texts, their replay, that of each run's own texts, loop times."""

    texts: Texts
    replay: ReplayAcceptance
    own: dict[int, ReplayAcceptance]
    loops: dict[str, LoopTimes]
