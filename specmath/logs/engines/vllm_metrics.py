"""vLLM's Prometheus counters: v1 (`num_drafts`, per-position counts) and v0's gauges.

v0's counters were raised by running totals at every interval, so they are sums of sums: only its
two gauges are used.
"""

from __future__ import annotations

from itertools import pairwise

from specmath.logs.engine import Engine, Parser
from specmath.logs.estimate import Alpha
from specmath.logs.notes import Notes, Place
from specmath.logs.prometheus import Change, Scrapes
from specmath.logs.record import Reading
from specmath.logs.tally import Tally, make_reading

__all__ = ["ENGINE"]

_SPEC = "vllm:spec_decode_"
_DRAFTS, _DRAFTED = _SPEC + "num_drafts", _SPEC + "num_draft_tokens"
_ACCEPTED = _SPEC + "num_accepted_tokens"
_AT_POSITION = _SPEC + "num_accepted_tokens_per_pos"
_DRAFTED_AT = _SPEC + "num_draft_tokens_per_pos"
_GENERATED = "vllm:generation_tokens"
_REQUESTS = "vllm:request_success"
_V0_RATE = _SPEC + "draft_acceptance_rate"
_V0_EFFICIENCY = _SPEC + "efficiency"


class VllmMetrics(Parser):
    """One dump gives totals since the start; two or more give the change between them."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._scrapes = Scrapes(notes, gauges=(_V0_RATE, _V0_EFFICIENCY))
        self._zero = False

    def line(self, text: str, at: Place) -> None:
        if text.startswith("vllm:"):
            self._scrapes.add(text, at)

    def readings(self) -> list[Reading]:
        found = []
        for group, (total, steps) in self._scrapes.changes().items():
            if _DRAFTS not in total.total and _is_v0(total):
                found.append(self._v0(total))
            elif total.total.get(_DRAFTED):
                found.append(self._v1(group, total, steps))
            else:
                self._zero = True
        return found

    def _v1(self, group: str, total: Change, steps: list[Change]) -> Reading:
        drafts = total.count(_DRAFTS) or None
        drafted, accepted = total.count(_DRAFTED) or 0, total.count(_ACCEPTED)
        warnings, counts = [], total.by_position(_AT_POSITION)
        if drafts is None:
            warnings.append(f"{_DRAFTS} is missing: without it the steps are unknown")
        survival = _survival(counts, drafts, accepted, warnings)
        given = total.by_position(_DRAFTED_AT)
        generated = total.count(_GENERATED)
        passes: float | None = None
        if generated is not None and accepted is not None:
            requests = total.count(_REQUESTS)
            passes = generated - accepted - (requests or 0)
            if requests is None and drafts and passes > drafts:
                warnings.append(
                    "coverage is a lower bound: the first token of a request comes from prefill "
                    f"and {_REQUESTS} is not in the dump"
                )
        if drafts and passes is not None and passes < drafts:
            warnings.append(
                "accepted tokens are counted before a stop or the length limit trims the output: "
                "up to gamma - 1 a request never reached the client"
            )
        if drafts and len(given) == len(counts) and min(given, default=drafts) < 0.98 * drafts:
            warnings.append("drafts vary in length: not every step drafted every position")
        tally = Tally()
        for change in steps:
            _window(tally, change)
        return make_reading(
            "vllm",
            "v1 Prometheus, change between scrapes" if steps else "v1 Prometheus, since start",
            steps=drafts,
            drafted=drafted,
            accepted=accepted,
            survival=survival,
            gamma=len(counts) or self.gamma,
            generated=generated,
            passes=passes,
            windows=tally.series.windows() if len(steps) > 1 else (),
            facts={"model": group or None},
            warnings=warnings,
        )

    def _v0(self, total: Change) -> Reading:
        rate, efficiency = total.gauges.get(_V0_RATE), total.gauges.get(_V0_EFFICIENCY)
        warnings = ["v0's counters are sums of running totals: ignored, its gauges were used"]
        length = None
        if efficiency is not None and self.gamma and efficiency <= 1.0:
            length = efficiency * (self.gamma + 1)
        elif efficiency is not None:
            warnings.append(
                f"tokens per step is system efficiency {efficiency:.4g} x (gamma + 1): give gamma"
            )
        good = rate is not None and rate <= 1.0
        return make_reading(
            "vllm",
            "v0 Prometheus (gauges)",
            tokens_per_step=length,
            gamma=self.gamma,
            alpha=Alpha(rate, "per-token rate") if good else Alpha(),
            facts={"system_efficiency": efficiency},
            warnings=warnings,
        )

    def without(self) -> str | None:
        return "vLLM metrics in which nothing was drafted" if self._zero else None


def _is_v0(total: Change) -> bool:
    gauges = _V0_RATE in total.gauges or _V0_EFFICIENCY in total.gauges
    return gauges or _SPEC + "num_emitted_tokens" in total.total


def _survival(
    counts: list[float], drafts: int | None, accepted: int | None, warnings: list[str]
) -> tuple[float, ...] | None:
    """Accepted at each position over steps, if the counts can be what they claim to be."""
    if not counts or not drafts or accepted is None:
        return None
    chain = [float(drafts), *counts]
    if any(later > earlier for earlier, later in pairwise(chain)):
        warnings.append("per-position counts rise or exceed the steps: not used")
        return None
    if abs(sum(counts) - accepted) > 0.01 * max(accepted, 1):
        warnings.append("per-position counts do not add up to the accepted tokens: not used")
        return None
    return tuple(count / drafts for count in counts)


def _window(tally: Tally, change: Change) -> None:
    steps, drafted = change.count(_DRAFTS), change.count(_DRAFTED)
    accepted = change.count(_ACCEPTED)
    if not steps or drafted is None or accepted is None:
        return
    rates = tuple(count / steps for count in change.by_position(_AT_POSITION))
    line = change.at.line if change.at else 0
    tally.add(steps=steps, drafted=drafted, accepted=accepted, survival=rates, line=line)


ENGINE = Engine(
    "vllm",
    (b"vllm:spec_decode_", b"vllm:generation_tokens_total", b"vllm:request_success_total"),
    VllmMetrics,
)
