"""A rollout as the BEFORE of a review: what plain decoding was expected to do, and what came of it.

Nobody ran that side: its time per token has the range of the rollout, and the speedup that is
observed against it has it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specmath.estimate import Basis, Estimate
from specmath.logs.reading import Reading
from specmath.logs.service import Latency, Service
from specmath.review.comparable import Difference
from specmath.review.observed import throughput_of, tpot_of
from specmath.rollout import Name, Rollout
from specmath.scenario import Scenario

__all__ = ["Held", "against_plan", "held", "reading_of"]

NEAR = 0.05
"""A number without a range agrees with one within 5%: two runs of one server differ by that."""


def reading_of(plan: Rollout) -> Reading:
    """What plain decoding was expected to tell, as if it had been run."""
    s = plan.scenario
    value = {name: each.plain.value for name, each in plan.expected.items()}
    latency = {
        name: Latency(value.get(name), p99=value.get("e2e_p99") if name == "e2e" else None)
        for name in ("tpot", "ttft", "e2e") if name in value
    }  # fmt: skip
    given = s.output_tokens != Scenario.model_fields["output_tokens"].default
    load = _load(s)
    in_flight = dict(load).get("max_concurrency")
    service = Service(
        running=in_flight,
        tpot=latency.get("tpot"), ttft=latency.get("ttft"), e2e=latency.get("e2e"),
        generated_per_second=value.get("tokens_per_second"),
        prompt_tokens=None if s.prompt_tokens is None else float(s.prompt_tokens),
        output_tokens=float(s.output_tokens) if given else None,
    )  # fmt: skip
    return Reading("unknown", "rollout", facts=load, service=service)


def _load(s: Scenario) -> tuple[tuple[str, float], ...]:
    """The load that was planned, by the names of a benchmark's client."""
    if s.request_rate is not None:
        return (("request_rate", float(s.request_rate)),)
    if s.concurrency is not None or s.costs.computed or s.batch > 1:
        return (("max_concurrency", float(s.in_flight)),)
    return ()


def against_plan(
    plan: Rollout, differences: Sequence[Difference], observed: Estimate | None
) -> tuple[list[Difference], Estimate | None]:
    """What differs but for what only a run can tell, and the speedup with the range of what was
    expected of plain decoding."""
    told = [each for each in differences if each.what != "seed"]
    plain = plan.expected.get("tpot")
    if observed is None or plain is None:
        return told, observed
    source = f"plain decoding as it was expected, not run; {observed.basis.source}"
    basis = Basis("measured", source, plain.plain.basis.over)
    low, high = plain.plain.low, plain.plain.high
    if low is None or high is None:
        return told, Estimate(observed.value, observed.points, basis)
    least = observed.value if observed.low is None else observed.low
    most = observed.value if observed.high is None else observed.high
    ends = least * low / plain.plain.value, most * high / plain.plain.value
    return told, Estimate.between(observed.value, *ends, basis)


# ── each number beside what was expected of it ───────────────────────────────────────────────


@dataclass(frozen=True)
class Held:
    """A quantity as expected with speculation and as seen, SI units; `within` the range, or within
    5% where there is none; None where it was not seen."""

    name: Name
    plain: Estimate
    expected: Estimate
    seen: float | None

    @property
    def within(self) -> bool | None:
        """Whether what was seen is what was expected."""
        if self.seen is None:
            return None
        value, low, high = self.expected.value, self.expected.low, self.expected.high
        if low is None or high is None:
            low = high = value
        return low * (1.0 - NEAR) <= self.seen <= high * (1.0 + NEAR)


_UNTOLD = Latency()
_SEEN: Mapping[Name, Callable[[Reading], float | None]] = {
    "tpot": tpot_of,
    "tokens_per_step": lambda reading: reading.tokens_per_step,
    "tokens_per_second": throughput_of,
    "ttft": lambda reading: (reading.service.ttft or _UNTOLD).mean,
    "e2e": lambda reading: (reading.service.e2e or _UNTOLD).mean,
    "e2e_p99": lambda reading: (reading.service.e2e or _UNTOLD).p99,
}


def held(plan: Rollout, after: Reading) -> tuple[Held, ...]:
    """Each quantity of the rollout beside what AFTER tells of it."""
    return tuple(
        Held(name, each.plain, each.speculative, _SEEN[name](after))
        for name, each in plan.expected.items()
    )
