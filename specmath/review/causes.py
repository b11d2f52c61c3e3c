"""Why is it slower, or not as fast as it should be? Causes by name, each with its evidence.

Only what both logs show is a cause; what a log does not tell is no evidence against it. The order
is that of what to mend first: a broken part, then the server, then the cost of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from specmath.estimate import Estimate
from specmath.logs.reading import Reading
from specmath.review.diagnosis import diagnose
from specmath.review.observed import queued, throughput_of, tokens_per_pass, tpot_of

__all__ = ["Cause", "Name", "broken_lanes", "causes_of"]

Name = Literal[
    "broken drafter", "hard text", "later positions", "coverage", "admission", "preemption",
    "prefix cache", "prefill", "draft cost", "verification", "cost of a pass",
]  # fmt: skip

KV_FULL = 0.85
"""Share of the KV cache in use from which a queue waits for it (vLLM admits up to about 0.9)."""
FEWER = 0.9
"""Running requests, after over before, below which fewer fit."""
FEW_STEPS = 0.5
"""Coverage below which most steps had no draft."""
HITS_LOST = 0.05
PROMPTS_MANY = 2.0
"""Prompt tokens computed for each output token from which prefill is much of a server's work."""
DRAFT_SHARE = 0.3
WIDE = 16.0
"""Running requests from which γ+1 positions each are no longer hidden behind the weights."""
SLOWER = 0.97
"""A ratio below this is slower than it should be."""


@dataclass(frozen=True)
class Cause:
    """A cause and the numbers that show it, by name; `lane` where it is one server's."""

    name: Name
    evidence: tuple[tuple[str, float], ...]
    lane: Reading | None = None

    def number(self, name: str) -> float | None:
        """The number of the evidence called `name`."""
        return dict(self.evidence).get(name)


def causes_of(
    before: Reading, after: Reading, observed: Estimate | None, predicted: Estimate | None,
    lanes: Sequence[Reading] = (),
) -> tuple[Cause, ...]:  # fmt: skip
    """What explains that AFTER is slower than BEFORE, in total or a request, or than predicted;
    none where it is as fast as it should be. Of `lanes` that disagree the broken ones."""
    broken = [*broken_lanes(lanes), *_broken(after)]
    slow = observed is not None and observed.value < 1.0
    under = (
        observed is not None
        and predicted is not None
        and observed.value < SLOWER * (predicted.value if predicted.low is None else predicted.low)
    )
    total = _ratio(after, before, throughput_of)
    if not (slow or under or (total is not None and total < SLOWER)):
        return tuple(broken)
    found = [*broken, *_acceptance(after), *_server(before, after), *_pass(before, after)]
    return tuple(dict.fromkeys(found))


def _ratio(
    after: Reading, before: Reading, number: Callable[[Reading], float | None]
) -> float | None:
    now, then = number(after), number(before)
    return now / then if now and then else None


def broken_lanes(lanes: Sequence[Reading]) -> Iterator[Cause]:
    """Those of several servers whose drafter is broken."""
    for each in lanes:
        judged = diagnose(each)
        if judged is not None and judged.finding == "broken":
            yield Cause("broken drafter", ((judged.level, judged.value),), each)


def _broken(after: Reading) -> Iterator[Cause]:
    judged = diagnose(after)
    if judged is not None and judged.finding == "broken":
        yield Cause("broken drafter", ((judged.level, judged.value),))


def _acceptance(after: Reading) -> Iterator[Cause]:
    judged = diagnose(after)
    if judged is not None:
        evidence = ((judged.level, judged.value),)
        if judged.finding in ("hard text", "weak"):
            yield Cause("hard text", evidence)
        elif judged.finding == "later positions" and judged.rate is not None:
            place = float(judged.position or 0)
            yield Cause("later positions", (*evidence, ("position", place), ("rate", judged.rate)))
    if after.coverage is not None and after.coverage < FEW_STEPS:
        yield Cause("coverage", (("coverage", after.coverage),))


def _server(before: Reading, after: Reading) -> Iterator[Cause]:
    """What the server does besides a pass: whom it lets in, whom it throws out, prompts."""
    was, now = before.service, after.service
    full = now.kv_use is not None and now.kv_use >= KV_FULL
    fit = was.running, now.running
    if full and queued(after) and fit[0] and fit[1] and fit[1] < FEWER * fit[0]:
        yield Cause("admission", _told(kv_use=now.kv_use, waiting=now.waiting,
                                       running_before=fit[0], running=fit[1]))  # fmt: skip
    thrown = now.preemptions or 0
    if thrown > (was.preemptions or 0) and was.preemptions is not None:
        yield Cause("preemption", _told(before=float(was.preemptions), after=float(thrown)))
    hits = was.prefix_hits, now.prefix_hits
    if hits[0] is not None and hits[1] is not None and hits[1] < hits[0] - HITS_LOST:
        waits = [each.ttft.mean if each.ttft else None for each in (was, now)]
        yield Cause("prefix cache", _told(before=hits[0], after=hits[1],
                                          ttft_before=waits[0], ttft=waits[1]))  # fmt: skip
    prompts, made = now.prompt_per_second, now.generated_per_second
    each = prompts / made if prompts and made else None
    if each is None and now.prompt_tokens and now.output_tokens:
        each = now.prompt_tokens * (1.0 - (now.prefix_hits or 0.0)) / now.output_tokens
    if each is not None and each >= PROMPTS_MANY:
        yield Cause("prefill", _told(prompt_tokens_per_output=each))


def _pass(before: Reading, after: Reading) -> Iterator[Cause]:
    """A pass that costs more plain steps than it emits tokens: s = τ / speedup of a request."""
    tokens, ratio = tokens_per_pass(after), _ratio(before, after, tpot_of)
    if before.speculates or tokens is None or ratio is None or ratio >= 1.0:
        return
    evidence = _told(step_cost=tokens / ratio, tokens=tokens, draft_share=after.draft_share,
                     running=after.service.running)  # fmt: skip
    drafting = after.draft_share
    if drafting is not None and drafting >= DRAFT_SHARE:
        yield Cause("draft cost", evidence)
    elif drafting is not None and (after.service.running or 0.0) >= WIDE:
        yield Cause("verification", evidence)
    else:
        yield Cause("cost of a pass", evidence)


def _told(**numbers: float | None) -> tuple[tuple[str, float], ...]:
    return tuple((name, value) for name, value in numbers.items() if value is not None)
