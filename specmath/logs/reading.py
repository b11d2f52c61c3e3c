"""What a log says, in the words of the design: one record that means the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Literal

from specmath.logs.service import NO_SERVICE, Service

__all__ = [
    "FULL_DRAFT", "Channel", "Counts", "Extras", "Facts", "Lane", "Reading", "Requests", "Route",
    "Shape", "Window",
]  # fmt: skip

Shape = Literal["chain", "tree", "parallel", "stops"]
"""How a server drafts: one token after another and always γ of them; a token tree; all positions
in one pass; or as many as it is sure of or finds."""

Facts = Mapping[str, float | str | None]
"""What else was printed, by name; None where it was not."""

FULL_DRAFT = 0.98
"""D/N of at least this share of γ counts as drafts of one length; requests end inside a draft."""

Route = Literal[
    "per position", "histogram", "lower bound", "share", "share of mean draft", "tokens per step",
    "per token", "rejections counted",
]  # fmt: skip
"""How α was obtained: from the rates (a lower bound where drafts vary in length), by inverting a
mean, or where tokens were tried one by one."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Which of the servers that print into one log: what its lines or labels name, as printed.

    `engine` and `rank` of a data-parallel deployment, `pid` of a process, `host` a pod, container
    or machine. All None where nothing is named.
    """

    engine: str | None = None
    pid: str | None = None
    rank: str | None = None
    model: str | None = None
    slot: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of time: a printed interval, the change between two scrapes, one iteration.

    `weight` is what a mean over windows weighs this one by: its verify steps where the engine
    counts them, else what stands for them (running requests).
    """

    line: int
    when: str | None
    steps: int | None
    drafted: int | None
    accepted: int | None
    tokens_per_step: float | None
    survival: tuple[float, ...] | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Requests:
    """How requests differ: `values` is `measure` of each (thinned evenly above 4096 requests).

    `measure` is "tokens_per_step" where the engine tells the steps of a request, else
    "accepted_share" (accepted / drafted).
    """

    count: int
    measure: str
    values: tuple[float, ...]
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Channel:
    """Where counts come from. `lookup`: the draft is found in the text (n-gram), by no model;
    `since_start`: they are totals since the server started, so two of them may overlap."""

    engine: str
    format: str
    shape: Shape = "chain"
    lookup: bool = False
    since_start: bool = False

    def shape_beside(self, counts: Counts) -> Shape:
        """As the engine says; a chain that drafts fewer tokens than it may stops when unsure."""
        if self.shape != "chain":
            return self.shape
        steps, drafted, gamma = counts.steps, counts.drafted, counts.gamma
        short = steps and drafted is not None and gamma and drafted / steps < FULL_DRAFT * gamma
        return "stops" if short or self.lookup else "chain"


@dataclass(frozen=True, slots=True)
class Counts:
    """What an engine counted or printed, by the names of a Reading; None where it does not tell.

    `passes`: decode passes of all sequences, with and without a draft; `histogram`: survival comes
    from a histogram of the accepted tokens of every step.
    """

    steps: float | None = None
    drafted: int | None = None
    accepted: int | None = None
    survival: Sequence[float] | None = None
    gamma: int | None = None
    tokens_per_step: float | None = None
    generated: int | None = None
    passes: float | None = None
    histogram: bool = False


@dataclass(frozen=True, slots=True)
class Extras:
    """What stands beside the counts; seconds, shares of a step's time, facts by name."""

    windows: Sequence[Window] = ()
    requests: Requests | None = None
    draft_seconds: float | None = None
    draft_share: float | None = None
    facts: Facts | None = None
    lane: Lane | None = None
    service: Service = NO_SERVICE


@dataclass(frozen=True, slots=True)
class Reading:
    """Acceptance read from one channel of one engine.

    engine            "vllm", "sglang", "llama.cpp", …
    format            channel and era, as detected
    shape             how it drafts; of a tree no α, and no shorter γ, follows from the counts
    lookup            the draft is found in the text (n-gram), by no model
    since_start       totals since the server started
    steps             verify steps that carried a draft, summed over sequences (N)
    drafted           tokens drafted in those steps (D)
    accepted          drafted tokens accepted, contiguous from the first (A)
    tokens_per_step   1 + A/N: the bonus or correction token is always included
    tokens_per_pass   the same over all decode passes, with and without a draft
    survival          s_1…s_γ, P(at least the first i drafted tokens accepted); non-increasing
    conditional       s_i / s_{i−1}
    alpha             i.i.d. acceptance; `alpha_route` and `alpha_basis` say how it was obtained
    alpha_interval    bounds of alpha; `interval_basis` says what they cover
    gamma             most tokens drafted in a step (the configured draft length)
    drafted_per_step  D/N; below gamma where drafts stop early
    coverage          share of sequence-steps that had a draft (κ)
    generated         output tokens over the same time
    windows           time series, at most 4096 (neighbours are merged above that)
    requests          distribution over requests
    draft_seconds     drafting time of one step
    draft_share       drafting time / whole step time
    c                 one draft forward / one target forward, where the engine's own times tell
    facts             what else was printed and a review needs (model, traffic, settings, …)
    lane              whose it is, where the log names it; None of several pooled
    service           latency, load and throughput over the same time
    alternatives      where the text is ambiguous: the complete readings it allows
    warnings          what to know before using the numbers, with line numbers

    A field is None where the engine does not tell and nothing implies it.
    """

    engine: str
    format: str
    shape: Shape = "chain"
    lookup: bool = False
    since_start: bool = False
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    tokens_per_step: float | None = None
    tokens_per_pass: float | None = None
    survival: tuple[float, ...] | None = None
    conditional: tuple[float, ...] | None = None
    alpha: float | None = None
    alpha_route: Route | None = None
    alpha_basis: str | None = None
    alpha_interval: tuple[float, float] | None = None
    interval_basis: str | None = None
    gamma: int | None = None
    drafted_per_step: float | None = None
    coverage: float | None = None
    generated: int | None = None
    windows: tuple[Window, ...] = ()
    requests: Requests | None = None
    draft_seconds: float | None = None
    draft_share: float | None = None
    c: float | None = None
    facts: tuple[tuple[str, float | str], ...] = ()
    lane: Lane | None = None
    service: Service = NO_SERVICE
    alternatives: tuple[Reading, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def accepted_share(self) -> float | None:
        """Accepted over drafted tokens; None where either is unknown or nothing was drafted."""
        if not self.drafted or self.accepted is None:
            return None
        return self.accepted / self.drafted

    @property
    def tree(self) -> bool:
        """Whether the draft is a token tree."""
        return self.shape == "tree"

    def fact(self, name: str) -> float | str | None:
        """The printed value called `name`, or None."""
        return dict(self.facts).get(name)

    def warned(self, *texts: str) -> Reading:
        """The same reading with `texts` added to its warnings, none twice."""
        new = tuple(text for text in texts if text not in self.warnings)
        return replace(self, warnings=self.warnings + new) if new else self

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types, every field by its own name; `facts` as an object."""
        return _plain_fields(self) | {"facts": dict(self.facts), "tree": self.tree}

    @property
    def speculates(self) -> bool:
        """Whether the run drafted at all."""
        return self.tokens_per_step is not None or self.drafted is not None


def _plain_fields(record: object) -> dict[str, object]:
    return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}  # type: ignore[arg-type]


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Reading):
        return value.to_dict()
    return _plain_fields(value) if is_dataclass(value) else value
