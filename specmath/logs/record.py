"""What a log says, in the words of the design: one record that means the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

__all__ = ["Reading", "Requests", "Window"]


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
class Reading:
    """Acceptance read from one channel of one engine.

    engine            "vllm", "sglang", "llama.cpp", …
    format            channel and era, as detected
    steps             verify steps that carried a draft, summed over sequences (N)
    drafted           tokens drafted in those steps (D)
    accepted          drafted tokens accepted, contiguous from the first (A)
    tokens_per_step   1 + A/N: the bonus or correction token is always included
    tokens_per_pass   the same over all decode passes, with and without a draft
    survival          s_1…s_γ, P(at least the first i drafted tokens accepted); non-increasing
    conditional       s_i / s_{i−1}
    alpha             i.i.d. acceptance; `alpha_basis` says how it was obtained
    alpha_interval    bounds of alpha; `interval_basis` says what they cover
    gamma             most tokens drafted in a step (the configured draft length)
    drafted_per_step  D/N; below gamma where drafts stop early
    tree              the draft is a token tree: no α, and no shorter γ, follows from the counts
    coverage          share of sequence-steps that had a draft (κ)
    generated         output tokens over the same time
    windows           time series, at most 4096 (neighbours are merged above that)
    requests          distribution over requests
    draft_seconds     drafting time of one step
    draft_share       drafting time / whole step time
    c                 one draft forward / one target forward, where the engine's own times tell
    facts             what else was printed and a review needs (latency, throughput, model, …)
    alternatives      where the text is ambiguous: the complete readings it allows
    warnings          what to know before using the numbers, with line numbers

    A field is None where the engine does not tell and nothing implies it.
    """

    engine: str
    format: str
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    tokens_per_step: float | None = None
    tokens_per_pass: float | None = None
    survival: tuple[float, ...] | None = None
    conditional: tuple[float, ...] | None = None
    alpha: float | None = None
    alpha_basis: str | None = None
    alpha_interval: tuple[float, float] | None = None
    interval_basis: str | None = None
    gamma: int | None = None
    drafted_per_step: float | None = None
    tree: bool = False
    coverage: float | None = None
    generated: int | None = None
    windows: tuple[Window, ...] = ()
    requests: Requests | None = None
    draft_seconds: float | None = None
    draft_share: float | None = None
    c: float | None = None
    facts: tuple[tuple[str, float | str], ...] = ()
    alternatives: tuple[Reading, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def accepted_share(self) -> float | None:
        """Accepted over drafted tokens; None where either is unknown or nothing was drafted."""
        if not self.drafted or self.accepted is None:
            return None
        return self.accepted / self.drafted

    def fact(self, name: str) -> float | str | None:
        """The printed value called `name`, or None."""
        return dict(self.facts).get(name)

    def warned(self, *texts: str) -> Reading:
        """The same reading with `texts` added to its warnings, none twice."""
        new = tuple(text for text in texts if text not in self.warnings)
        return replace(self, warnings=self.warnings + new) if new else self

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types, every field by its own name; `facts` as an object."""
        return {field.name: _plain(field.name, getattr(self, field.name)) for field in fields(self)}


def _plain(name: str, value: object) -> object:
    if name == "facts" and isinstance(value, tuple):
        return dict(value)
    if isinstance(value, Reading):
        return value.to_dict()
    if isinstance(value, (Window, Requests)):
        return {part.name: _plain(part.name, getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, tuple):
        return [_plain("", item) for item in value]
    return value
