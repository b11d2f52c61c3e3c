"""The report of a measurement: one versioned record, validated where it is built, and its file."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specmath.checks import InputError, short
from specmath.estimate import Estimate
from specmath.foreign import faults, json_of

__all__ = [
    "ALL", "AcceptanceRow", "Comparison", "Costs", "Interval", "Machine", "PairInfo", "Report",
    "ReportPart", "RequestRow", "RunRow", "SelfCheck", "Settings", "TimingRow", "read_report",
    "write_report",
]  # fmt: skip

SCHEMA_VERSION = "1"
LARGEST_FILE = 50_000_000
ALL = "all"
"""The segment that holds every text."""

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Number = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]


class ReportPart(NamedTuple):
    """Which part of a report: texts of one segment at one temperature."""

    segment: str
    temperature: float


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class _Row(_Record):
    segment: str
    temperature: Number

    @property
    def part(self) -> ReportPart:
        """What the row is about."""
        return ReportPart(self.segment, self.temperature)

    @property
    def overall(self) -> bool:
        """Whether it is about all texts."""
        return self.segment == ALL


class Interval(_Record):
    """A number with the ends of its 95% interval, as the file holds it."""

    value: Number
    low: Number
    high: Number

    @classmethod
    def of(cls, found: Estimate) -> Interval:
        """An estimate with its ends; the value itself where nothing is open."""
        low = found.value if found.low is None else found.low
        return cls(value=found.value, low=low, high=max(found.value, found.high or low))

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
    engine: Literal["", "numpy", "transformers"] = ""
    """What ran the models; "" in reports of before."""


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
    seed: Annotated[int, Field(ge=-(2**63), le=2**64)]
    clock: Literal["wall", "thread"] = "wall"
    batches: tuple[Count, ...] = (1,)
    contexts: tuple[Count, ...] = ()


class TimingRow(_Record):
    """Seconds of one shape of forward, over rounds; in reports of before with its draws."""

    model: Literal["target", "draft"]
    batch: Count
    tokens: Count
    context: Count
    seconds: Interval
    rounds: Count


class Costs(_Record):
    """c and v of forwards alone at one batch and context (0: a report of before did not say it);
    ĉ from shapes, None where they are not modelled."""

    batch: Count = 1
    context: Count = 0
    target_seconds: Interval
    draft_seconds: Interval
    c: Interval
    c_hat: Number | None
    verify: dict[int, Interval]


class RequestRow(_Record):
    """One text: its α and the exact mean and deviation of its target steps for each γ.

    `prompt` is the number of its prompt, None in reports of before.
    """

    segment: str
    prompt: Count | None = None
    tokens: Count
    alpha: Share
    steps: tuple[Positive, ...]
    steps_deviation: tuple[Number, ...]


class AcceptanceRow(_Row):
    """Acceptance of one segment at one temperature, for every γ of the settings.

    `coverage` is the share of the steps run that had a draft; None where nothing was run.
    `tokens_per_step_between` are the 95% intervals over prompts, none where these are too few.
    """

    alpha: Interval
    basis: str
    coverage: Share | None
    tokens: Count
    texts: Count
    tokens_per_step: tuple[Positive, ...]
    tokens_per_step_between: tuple[Interval, ...] = ()
    survival: tuple[tuple[Share, ...], ...]
    requests: tuple[RequestRow, ...] = ()


class Comparison(_Row):
    """Predicted beside measured, one segment, temperature and γ.

    `tokens_per_step` measured; `replay_*` from texts of plain decoding; `iid_*` from α alone.
    `speedup` against plain decoding on the same prompts, interleaved. `verify_cost` and
    `draft_cost` are v(γ) and d(γ): forwards of the loop itself over a plain forward, timed on other
    steps; `overhead` is what a whole step costs beyond them, in whole plain steps, so it is what
    draws and look-ups add (below 0 where they make up more of a plain step). Speedups predicted:
    `theorem` τ_iid/(1+γc), `replay` τ/(1+γc), `replay_v` τ/(v+d+overhead) with its 95% interval,
    over prompts and over stretches of the timing. `z` compares the run's steps with the replay of
    its own texts, in standard deviations (0 where both are certain and agree).
    """

    gamma: Count
    tokens: Count
    steps: Count
    tokens_per_step: Positive
    replay_tokens_per_step: Positive
    iid_tokens_per_step: Positive
    z: Number
    speedup: Positive
    verify_cost: Positive
    draft_cost: Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
    overhead: Number = 0.0
    theorem_speedup: Positive
    replay_speedup: Positive
    replay_v_speedup: Positive
    replay_v_low: Positive | None = None
    replay_v_high: Positive | None = None
    gap_p50_ms: Number
    gap_p99_ms: Number
    plain_gap_p50_ms: Number
    plain_gap_p99_ms: Number
    identical: bool | None = None

    def predicted(self, name: str) -> float:
        """The speedup predicted by "theorem", "replay" or "replay_v"."""
        return float(getattr(self, f"{name}_speedup"))

    def error(self, name: str) -> float:
        """Relative error of a predicted speedup: predicted / measured − 1."""
        return self.predicted(name) / self.speedup - 1.0


class RunRow(_Row):
    """What was seen in the steps of one segment, temperature and γ (0: plain decoding).

    `speedup` against plain decoding of the same prompts, prompts taken as independent; None for
    fewer than 3. `survival`: share of full steps with at least i = 1…γ accepted. Gaps between
    chunks (`itl_chunk`) are counted in bins, those longer than the last edge in `gaps_beyond`.
    """

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


CHECKS = {
    "broken draft": {"alpha"}, "empty look-up": {"alpha"}, "greedy same": set(),
    "greedy differs": set(), "steps agree": {"z"}, "steps differ": {"temperature", "gamma", "z"},
    "fastest": {"speedup", "temperature", "gamma"}, "busy": {"load", "cores"},
    "none faster": {"speedup", "temperature", "gamma"}, "padded heads": {"target", "draft"},
    "larger draft": {"target", "draft"}, "dear draft": {"c"}, "speed agrees": set(),
    "speed differs": {"speedup", "predicted", "temperature", "gamma"}, "eager": set(),
    "speed untold": {"speedup", "predicted", "width", "temperature", "gamma"},
    "unread tensors": {"count"}, "left out": {"batch", "context"}, "resumed": {"runs"},
}  # fmt: skip
"""What a report may say about itself, and the numbers that belong to it."""


class SelfCheck(_Record):
    """What the report says about itself; level "bad" means: do not use these numbers.

    `code` is one of `CHECKS`, with its `values`, and the γ it is about where those are several.
    Reports of before hold a `message` instead.
    """

    level: Literal["good", "note", "bad"]
    message: str = ""
    code: str = ""
    values: dict[str, Number] = {}
    gammas: tuple[Count, ...] = ()

    @model_validator(mode="after")
    def _known(self) -> Self:
        if not self.message and CHECKS.get(self.code) != set(self.values):
            raise ValueError(f"a check must be known, with its values, got {short(self.code)!r}")
        return self


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
    more_costs: tuple[Costs, ...] = ()
    """Those of the other batches and contexts."""
    timings: tuple[TimingRow, ...] = ()
    acceptance: tuple[AcceptanceRow, ...] = ()
    comparison: tuple[Comparison, ...] = ()
    runs: tuple[RunRow, ...] = ()
    checks: tuple[SelfCheck, ...] = ()
    seconds: Number = 0.0

    @property
    def parts(self) -> list[ReportPart]:
        """The parts that there is acceptance for, in the order of the file."""
        return list(dict.fromkeys(row.part for row in self.acceptance))

    def acceptance_of(self, part: ReportPart) -> AcceptanceRow:
        """The acceptance of one of `parts`."""
        return next(row for row in self.acceptance if row.part == part)

    def comparison_of(self, part: ReportPart) -> list[Comparison]:
        """Predicted beside measured for each γ ≥ 1 that was run there, by γ."""
        found = (row for row in self.comparison if row.part == part and row.gamma > 0)
        return sorted(found, key=lambda row: row.gamma)

    def run_of(self, part: ReportPart, gamma: int) -> RunRow | None:
        """What was seen in the steps run there at γ; None where none were."""
        return next((r for r in self.runs if (r.part, r.gamma) == (part, gamma)), None)

    def best_of(self, part: ReportPart) -> Comparison | None:
        """The row of the γ that replay with measured costs calls best; None where none was run."""
        rows = self.comparison_of(part)
        return max(rows, key=lambda row: row.replay_v_speedup, default=None)

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        wanted = [gamma + 1 for gamma in self.settings.gammas]
        for row in self.acceptance:
            lengths = [len(survival) for survival in row.survival]
            if lengths != wanted or len(row.tokens_per_step) != len(wanted):
                raise ValueError(
                    f"acceptance of {row.segment} must have one entry a gamma, with gamma + 1 "
                    f"survivals ({wanted}), got {len(row.tokens_per_step)} and {lengths}"
                )
            if any(len(text.steps) != len(wanted) for text in row.requests):
                raise ValueError(f"each text of {row.segment} must have its steps for every gamma")
            if len(row.tokens_per_step_between) not in (0, len(wanted)):
                raise ValueError(
                    f"tokens_per_step_between of {row.segment} must have one entry a gamma, got "
                    f"{len(row.tokens_per_step_between)}"
                )
        for costs in (self.costs, *self.more_costs) if self.costs is not None else ():
            needed = {gamma for gamma in self.settings.gammas if gamma > 0}
            if missing := sorted(needed - costs.verify.keys()):
                raise ValueError(f"verify must have every gamma of the settings, lacks {missing}")
        return self


def write_report(report: Report) -> str:
    """JSON text of a report; `read_report` gives an equal one back."""
    return report.model_dump_json(indent=1) + "\n"


def read_report(text: str) -> Report:
    """A report from JSON text; InputError says what is wrong and where, another version by name."""
    if len(text) > LARGEST_FILE:
        raise InputError(
            f"a report must have at most {LARGEST_FILE:,} characters, got {len(text):,}"
        )
    data = json_of("report", text)
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError("not a measurement report: it has no schema_version")
    if data["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"schema_version must be {SCHEMA_VERSION!r}, got {short(data['schema_version'], 20)!r}:"
            " the report comes from another version of specmath; measure again"
        )
    try:
        return Report.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise InputError(f"damaged report: {'; '.join(faults(error))}") from error
