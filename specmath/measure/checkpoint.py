"""What is done of a measurement, kept in a file while it goes on, so that the same one goes on from
there: the runs and the timed forwards. What is computed from them is computed anew."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from specmath.checks import InputError, short
from specmath.foreign import json_of, of_type
from specmath.measure.machine import describe
from specmath.measure.pairs import Pair
from specmath.measure.plan import Plan
from specmath.measure.speculate import Generation
from specmath.measure.timing import StepTimes, Stretch
from specmath.outfile import write_file

__all__ = ["Checkpoint", "Key"]

EVERY_SECONDS = 5.0
"""Between two writings of the file: what a power cut may cost."""

LARGEST_FILE = 500_000_000

Key = tuple[float, int, int, int]
"""Temperature, prompt, sample and γ of a run."""

_Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_Token = Annotated[int, Field(ge=0, le=10**9)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Run(_Record):
    key: tuple[float, int, int, int]
    tokens: list[_Token]
    emitted: list[_Token]
    drafted: list[_Token]
    ends: list[_Seconds]
    forwards: list[tuple[_Seconds, _Seconds]]


class _Stretch(_Record):
    batch: int
    context: int
    gamma: int
    plain: list[_Seconds]
    draft: list[_Seconds]
    verify: list[_Seconds]


class _File(_Record):
    specmath_checkpoint: Literal["1"]
    of: dict[str, str]
    stretches: list[_Stretch] | None
    left_out: list[tuple[int, int]]
    runs: list[_Run]


_FILE = TypeAdapter(_File)


class Checkpoint:
    """The file of one measurement. `resumed` runs were found in it; `fault` says why it could not
    be written, which does not end the measurement."""

    def __init__(self, path: str | os.PathLike[str], pair: Pair, plan: Plan) -> None:
        """InputError where the file holds another measurement, or cannot be read."""
        self.path, self.fault, self._of = Path(path), "", _identity(pair, plan)
        self._runs: dict[Key, Generation] = {}
        self.times: StepTimes | None = None
        if self.path.exists():
            self._read()
        self.resumed, self._written = len(self._runs), time.monotonic()

    def _read(self) -> None:
        name = str(self.path)
        try:
            if self.path.stat().st_size > LARGEST_FILE:
                raise InputError(f"{name} must have at most {LARGEST_FILE:,} bytes")
            data = json_of(name, self.path.read_bytes())
        except OSError as error:
            raise InputError(f"cannot read {name}: {error.strerror}") from error
        found = of_type(_FILE, name, data)
        for what in self._of:
            before, now = found.of.get(what, ""), self._of[what]
            if before != now:
                raise InputError(
                    f"{name} holds what is done of another measurement ({what} was "
                    f"{short(before)}, now {short(now)}): give the options it began with, or "
                    "delete it"
                )
        if found.stretches is not None:
            made = [
                Stretch(s.batch, s.context, s.gamma, *map(np.array, (s.plain, s.draft, s.verify)))
                for s in found.stretches
            ]
            self.times = StepTimes(tuple(made), tuple(found.left_out))
        for run in found.runs:
            self._runs[run.key] = Generation(
                run.tokens, run.emitted, run.drafted, run.ends, run.forwards
            )

    def run(self, key: Key) -> Generation | None:
        """What was generated there, if it was."""
        return self._runs.get(key)

    def keep(self, key: Key, run: Generation) -> None:
        """A run more; the file follows within seconds."""
        self._runs[key] = run
        if time.monotonic() - self._written > EVERY_SECONDS:
            self.write()

    def keep_times(self, times: StepTimes) -> None:
        """The timed forwards, whole."""
        self.times = times
        self.write()

    def write(self) -> None:
        """Put all of it into the file now."""
        times = self.times
        made = _File(
            specmath_checkpoint="1", of=self._of,
            stretches=None if times is None else [
                _Stretch(batch=s.batch, context=s.context, gamma=s.gamma, plain=s.plain.tolist(),
                         draft=s.draft.tolist(), verify=s.verify.tolist())
                for s in times.stretches
            ],
            left_out=[] if times is None else list(times.left_out),
            runs=[_Run(key=key, **vars(run)) for key, run in self._runs.items()],
        )  # fmt: skip
        try:
            write_file(self.path, made.model_dump_json().encode())
        except OSError as error:
            self.fault = f"cannot write {self.path}: {error.strerror}"
        self._written = time.monotonic()

    def remove(self) -> None:
        """The measurement is whole and written elsewhere."""
        self.path.unlink(missing_ok=True)


def _identity(pair: Pair, plan: Plan) -> dict[str, str]:
    """What must be the same for runs of two times to be of one measurement."""
    machine = describe(pair.target)
    texts = hashlib.sha256(repr(plan.prompts).encode("utf-8", "backslashreplace")).hexdigest()
    draft = pair.draft_model
    return {
        "target": f"{pair.target.name}, {pair.target.parameters}",
        "draft": f"{pair.draft.name}, {0 if draft is None else draft.parameters}",
        "dtype": str(getattr(pair.target, "dtype", "float32")),
        "machine": f"{machine.accelerator} {machine.processor}".strip(),
        "prompts": texts[:16],
        **{name: str(value) for name, value in vars(plan).items() if name != "prompts"},
    }
