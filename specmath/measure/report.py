"""The report of a measurement: one versioned record, validated where it is built."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "SCHEMA_VERSION",
    "AcceptanceRow",
    "Check",
    "Comparison",
    "Costs",
    "Interval",
    "Machine",
    "PairInfo",
    "Report",
    "RequestRow",
    "RunRow",
    "Settings",
    "TimingRow",
]

SCHEMA_VERSION = "1"

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Interval(_Record):
    """A number with the ends of its 95% interval."""

    value: Number
    low: Number
    high: Number

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(
                f"low <= value <= high must hold, got {self.low}, {self.value}, {self.high}"
            )
        return self


class Machine(_Record):
    """Where it ran."""

    processor: str
    accelerator: str = ""
    threads: Count
    software: str


class PairInfo(_Record):
    """What was measured."""

    target: str
    draft: str
    draft_kind: str
    target_parameters: Count
    draft_parameters: Count
    vocabulary: Count
    dtype: str
    notes: tuple[str, ...] = ()


class Settings(_Record):
    """How it was measured; `clock` "thread" is the processor time of the one thread in use."""

    temperatures: tuple[Number, ...]
    top_p: Number
    gammas: tuple[Count, ...]
    run_gammas: tuple[Count, ...]
    output_tokens: Count
    prompts: Count
    samples: Count
    own_prompts: bool
    seed: int
    clock: Literal["wall", "thread"] = "wall"


class TimingRow(_Record):
    """Seconds of one shape of forward with its draws, over rounds."""

    model: Literal["target", "draft"]
    batch: Count
    tokens: Count
    context: Count
    seconds: Interval
    rounds: Count


class Costs(_Record):
    """c and v at batch 1 and the first context; ĉ from shapes, None where they are not modelled."""

    target_seconds: Interval
    draft_seconds: Interval
    c: Interval
    c_hat: Number | None
    verify: dict[int, Interval]


class RequestRow(_Record):
    """One text: its α and the exact mean and deviation of its target steps for each γ."""

    segment: str
    tokens: Count
    alpha: Share
    steps: tuple[Number, ...]
    steps_deviation: tuple[Number, ...]


class AcceptanceRow(_Record):
    """Acceptance of one segment at one temperature, for every γ of the settings.

    `coverage` is the share of the steps run that had a draft; None where nothing was run.
    """

    segment: str
    temperature: Number
    alpha: Interval
    basis: str
    coverage: Share | None
    tokens: Count
    texts: Count
    tokens_per_step: tuple[Number, ...]
    survival: tuple[tuple[Share, ...], ...]
    requests: tuple[RequestRow, ...] = ()


class Comparison(_Record):
    """Predicted beside measured, one segment, temperature and γ.

    `tokens_per_step` measured; `replay_*` from texts of plain decoding; `iid_*` from α alone.
    `speedup` against plain decoding on the same prompts, interleaved. `verify_cost` and
    `draft_cost` are v(γ) and d(γ) of the loop itself in plain steps, timed on other steps. Speedups
    predicted: `theorem` τ_iid/(1+γc), `replay` τ/(1+γc), `replay_v` τ/(v+d). `z` compares the
    run's steps with the replay of its own texts, in standard deviations (0 where both are certain
    and agree).
    """

    segment: str
    temperature: Number
    gamma: Count
    tokens: Count
    steps: Count
    tokens_per_step: Positive
    replay_tokens_per_step: Positive
    iid_tokens_per_step: Positive
    z: Number
    speedup: Positive
    verify_cost: Positive
    draft_cost: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    theorem_speedup: Positive
    replay_speedup: Positive
    replay_v_speedup: Positive
    gap_p50_ms: Number
    gap_p99_ms: Number
    plain_gap_p50_ms: Number
    plain_gap_p99_ms: Number
    identical: bool | None = None

    def error(self, name: str) -> float:
        """Relative error of a predicted speedup: predicted / measured − 1."""
        return float(getattr(self, f"{name}_speedup") / self.speedup - 1.0)


class RunRow(_Record):
    """What was seen in the steps of one segment, temperature and γ (0: plain decoding).

    `speedup` against plain decoding of the same prompts, prompts taken as independent; None for
    fewer than 3. `survival`: share of full steps with at least i = 1…γ accepted. Gaps between
    chunks (`itl_chunk`) are counted in bins, those longer than the last edge in `gaps_beyond`.
    """

    segment: str
    temperature: Number
    gamma: Count
    speedup: Interval | None = None
    survival: tuple[Interval, ...] = ()
    gap_edges_ms: tuple[Number, ...] = ()
    gap_counts: tuple[Count, ...] = ()
    gaps_beyond: Count = 0

    @model_validator(mode="after")
    def _bins(self) -> Self:
        if len(self.gap_counts) != max(0, len(self.gap_edges_ms) - 1):
            raise ValueError(
                f"gap_counts must have one entry less than gap_edges_ms "
                f"({len(self.gap_edges_ms)}), got {len(self.gap_counts)}"
            )
        if any(low >= high for low, high in pairwise(self.gap_edges_ms)):
            raise ValueError(f"gap_edges_ms must increase, got {self.gap_edges_ms}")
        return self


class Check(_Record):
    """What the report says about itself; level "bad" means: do not use these numbers."""

    level: Literal["good", "note", "bad"]
    message: str


class Report(_Record):
    """One measurement. `status` is "partial" where it was stopped half-way, with the reason."""

    schema_version: Literal["1"] = "1"
    created: str
    status: Literal["complete", "partial"] = "complete"
    reason: str = ""
    machine: Machine
    pair: PairInfo
    settings: Settings
    costs: Costs | None = None
    timings: tuple[TimingRow, ...] = ()
    acceptance: tuple[AcceptanceRow, ...] = ()
    comparison: tuple[Comparison, ...] = ()
    runs: tuple[RunRow, ...] = ()
    checks: tuple[Check, ...] = ()
    seconds: Number = 0.0

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        count = len(self.settings.gammas)
        for row in self.acceptance:
            if len(row.tokens_per_step) != count or len(row.survival) != count:
                raise ValueError(
                    f"acceptance of {row.segment} must have one entry a gamma ({count}), got "
                    f"{len(row.tokens_per_step)} and {len(row.survival)}"
                )
            for gamma, survival in zip(self.settings.gammas, row.survival, strict=True):
                if len(survival) != gamma + 1:
                    raise ValueError(
                        f"survival of {row.segment} at gamma {gamma} must have {gamma + 1} "
                        f"entries, got {len(survival)}"
                    )
        if self.costs is not None:
            needed = {gamma for gamma in self.settings.gammas if gamma > 0}
            if missing := sorted(needed - self.costs.verify.keys()):
                raise ValueError(f"verify must have every gamma of the settings, lacks {missing}")
        return self
