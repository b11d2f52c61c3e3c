"""What to measure."""

from __future__ import annotations

from dataclasses import dataclass

from specmath.checks import InputError, real, whole
from specmath.measure.prompts import Prompt
from specmath.measure.sampling import Sampling

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """What to measure. `run_gammas` are really run; every γ of `gammas` is replayed.

    `samples` texts a prompt (at temperature 0 one, as all would be alike). `own_prompts` says that
    the prompts are the user's traffic.
    """

    prompts: tuple[Prompt, ...]
    temperatures: tuple[float, ...] = (0.0, 0.7, 1.0)
    top_p: float = 1.0
    gammas: tuple[int, ...] = tuple(range(9))
    run_gammas: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    output_tokens: int = 96
    samples: int = 1
    seed: int = 0
    timing_rounds: int = 30
    batches: tuple[int, ...] = (1,)
    contexts: tuple[int, ...] = (128,)
    own_prompts: bool = False

    def __post_init__(self) -> None:
        if not self.prompts:
            raise InputError("prompts must hold at least one prompt, got none")
        if not self.temperatures or not self.gammas:
            raise InputError("temperatures and gammas must each hold at least one value, got none")
        for temperature in self.temperatures:
            Sampling(temperature, self.top_p)
        whole("gamma", list(self.gammas), 0, 256)
        if unknown := sorted(set(self.run_gammas) - set(self.gammas)):
            raise InputError(f"run_gammas must be among gammas {self.gammas}, got {unknown}")
        for name, value in (
            ("output_tokens", self.output_tokens),
            ("samples", self.samples),
            ("timing_rounds", self.timing_rounds),
        ):
            whole(name, value, 1)
        real("seed", self.seed, 0)

    def samples_at(self, temperature: float) -> int:
        return 1 if temperature == 0 else self.samples

    @property
    def units(self) -> int:
        """Generations to do, for the progress."""
        each = 1 + len(self.run_gammas)
        return sum(each * len(self.prompts) * self.samples_at(t) for t in self.temperatures)
