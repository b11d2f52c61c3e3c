"""Causes in words: what explains a loss, and the evidence for it."""

from __future__ import annotations

from collections.abc import Callable

from specmath.logs.reading import Lane, Reading
from specmath.numbers import significant
from specmath.review.causes import Cause, Name

__all__ = ["cause_words", "lane_words", "lanes_words"]


def lane_words(lane: Lane | None) -> str:
    """A server by what its lines name: "engine 002 (pid 4103)"."""
    if lane is None:
        return "one server"
    named = [("engine", lane.engine), ("rank", lane.rank), ("slot", lane.slot),
             ("host", lane.host), ("model", lane.model), ("pid", lane.pid)]  # fmt: skip
    told = [f"{what} {name}" for what, name in named if name is not None]
    if not told:
        return "one server"
    return told[0] if len(told) == 1 else f"{told[0]} ({', '.join(told[1:])})"


def cause_words(cause: Cause) -> str:
    """A cause with its evidence, in a sentence without its full stop."""
    return _WORDS[cause.name](cause)


def _number(cause: Cause, name: str) -> str:
    return significant(cause.number(name))


def _many(cause: Cause, name: str) -> str:
    """Requests: a count or a mean of counts."""
    return f"{cause.number(name) or 0.0:.3g}"


def _broken(cause: Cause) -> str:
    whose = f"of {lane_words(cause.lane.lane)} " if cause.lane is not None else ""
    (level, value), *_ = cause.evidence
    return (
        f"Broken drafter: the drafter {whose}has {_LEVELS[level]} {significant(value)}. Its "
        "weights, tokenizer or template do not fit the target"
    )


_LEVELS = {
    "first position": "a first position accepted in",
    "alpha": "α =",
    "share": "accepted ÷ drafted",
}


def _hard(cause: Cause) -> str:
    (level, value), *_ = cause.evidence
    return f"Hard text or a weak drafter: {_LEVELS[level]} {significant(value)}"


def _later(cause: Cause) -> str:
    return (
        f"Later positions: position {_number(cause, 'position')} is accepted in "
        f"{_number(cause, 'rate')} of the cases in which the one before was: draft fewer"
    )


def _coverage(cause: Cause) -> str:
    share = cause.number("coverage") or 0.0
    return f"Coverage: only {share:.0%} of the steps had a draft"


def _admission(cause: Cause) -> str:
    full = cause.number("kv_use") or 0.0
    return (
        f"Admission (KV memory), not the cost of a pass: {_many(cause, 'running')} requests run "
        f"instead of {_many(cause, 'running_before')}, the KV cache is {full:.0%} full and "
        f"{_many(cause, 'waiting')} wait"
    )


def _preemption(cause: Cause) -> str:
    return (
        f"Preemption: {_many(cause, 'after')} requests were thrown out and computed again, "
        f"{_many(cause, 'before')} before"
    )


def _prefix(cause: Cause) -> str:
    before, after = ((cause.number(name) or 0.0) for name in ("before", "after"))
    waits = cause.number("ttft_before"), cause.number("ttft")
    late = ""
    if None not in waits:
        late = f", TTFT {_ms(waits[0])} then {_ms(waits[1])}"
    return f"Prefix cache: {before:.0%} of prompt tokens hit before, {after:.0%} now{late}"


def _ms(seconds: float | None) -> str:
    return f"{significant((seconds or 0.0) * 1e3)} ms"


def _prefill(cause: Cause) -> str:
    return (
        f"Prefill: {_number(cause, 'prompt_tokens_per_output')} prompt tokens are computed for "
        "each output token, which drafting does not speed up"
    )


def _cost(part: str) -> Callable[[Cause], str]:
    def say(cause: Cause) -> str:
        text = (
            f"{part}: a pass costs {_number(cause, 'step_cost')} plain steps and emits "
            f"{_number(cause, 'tokens')} tokens"
        )
        share, running = cause.number("draft_share"), cause.number("running")
        if share is not None:
            text += f"; drafting is {share:.0%} of it"
        if running is not None:
            text += f"; {running:.3g} requests running"
        return text

    return say


_WORDS: dict[Name, Callable[[Cause], str]] = {
    "broken drafter": _broken,
    "hard text": _hard,
    "later positions": _later,
    "coverage": _coverage,
    "admission": _admission,
    "preemption": _preemption,
    "prefix cache": _prefix,
    "prefill": _prefill,
    "draft cost": _cost("Draft cost"),
    "verification": _cost("Verification"),
    "cost of a pass": _cost("Cost of a pass (draft, verification and host together)"),
}


def lanes_words(lanes: tuple[Reading, ...]) -> str:
    """That servers of one log disagree, and which is how fast at drafting."""
    each = ", ".join(
        f"{lane_words(r.lane)} {significant(r.tokens_per_step)}" for r in lanes if r.tokens_per_step
    )
    return f"{len(lanes)} servers disagree, so no pooled rate is any one's. Tokens a step: {each}"
