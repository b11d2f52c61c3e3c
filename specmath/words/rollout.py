"""How to try it, in sentences: what will show the change, when to stop, what the count rests on."""

from __future__ import annotations

from typing import Literal, NamedTuple

from specmath.estimate import Estimate
from specmath.logs.reading import Reading
from specmath.numbers import count, faster, interval, ms, ratio, significant
from specmath.rollout import QUANTITIES, Name, Rollout
from specmath.rollout.samples import quantile_requests
from specmath.rollout.trial import FLOOR
from specmath.scenario import Scenario

__all__ = [
    "CHANGES", "TELLS", "Change", "StopRule", "engine_of", "expected_words", "rollout_notes",
    "rollout_sentence", "stop_rules", "stopped_words",
]  # fmt: skip

Change = Literal["expected", "smallest"]
CHANGES: dict[Change, str] = {
    "expected": "The expected change",
    "smallest": "The smallest change in its range",
}

TELLS: dict[str, str] = {
    **{name: said.label for name, said in QUANTITIES.items()},
    "running": "Requests running",
    "waiting": "Requests waiting",
}
"""What a metric tells."""

SMALL = 1.05
"""Two runs of one server easily differ by that much (`specmath.review.observed`)."""

RUNS = 3
"""Runs of each arm from which the spread between runs is seen at all."""

_ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt": "tensorrt-llm", "llamacpp": "llama.cpp"}


def engine_of(s: Scenario) -> str | None:
    """The engine of the scenario by the name of its metrics page; None where it has none here, or
    the scenario is not of hardware, where nobody chose one."""
    if not s.costs.computed:
        return None
    return next((name for start, name in _ENGINES.items() if s.engine.startswith(start)), None)


# ── the answer ───────────────────────────────────────────────────────────────────────────────


def rollout_sentence(found: Rollout) -> str:
    """How many requests show the predicted change, and the smallest that may come."""
    predicted = faster(found.speedup.value)
    span = interval(found.speedup, ratio)
    ranged = f" ({span})" if " to " in span else ""
    if found.requests is None:
        return f"γ={found.gamma} is predicted to change nothing{ranged}: there is nothing to show."
    chance = f"with a chance of {found.power:.0%}"
    least = "" if found.measured else "at least "
    return (
        f"γ={found.gamma} is predicted to be {predicted}{ranged}: {least}"
        f"{count(found.requests, 'request')} in each arm show that {chance}. {_smallest(found)}"
    )


def _smallest(found: Rollout) -> str:
    if found.smallest is None:
        return "The range includes 1×, no change at all: no number of requests is sure to show one."
    if found.speedup.low is None or found.requests_smallest is None:
        return "Nothing is open in that speedup; where your server does less, more are needed."
    least = "" if found.measured else "at least "
    return (
        f"The smallest change in its range, {ratio(found.smallest)}, needs {least}"
        f"{found.requests_smallest:,}."
    )


# ── when to stop ─────────────────────────────────────────────────────────────────────────────


class StopRule(NamedTuple):
    """A number that is watched, the side of the limit at which the rule holds, and what to do;
    `requests` that tell the expected number from the limit, where known."""

    name: Name
    side: str
    limit: Estimate
    then: str
    requests: int | None


def stop_rules(found: Rollout) -> tuple[StopRule, ...]:
    """Roll back where tokens per step do not pay, or a token takes longer than before; look closer
    where neither is so and the range is missed."""
    rules = [
        StopRule("tokens_per_step", "below", found.breakeven, "roll back: it slows decoding down",
                 found.stop_requests),
    ]  # fmt: skip
    tpot = found.expected.get("tpot")
    if tpot is not None:
        rules.append(
            StopRule("tpot", "above", tpot.plain, "roll back: slower than before (best against "
                     "the plain time that you measure)", found.requests)
        )  # fmt: skip
        worst = tpot.speculative.high
        if worst is not None and worst < tpot.plain.value:
            rules.append(
                StopRule("tpot", "above", Estimate(worst), "look closer: slower than the range "
                         "allows (specmath review says why)", None)
            )  # fmt: skip
    return tuple(rules)


def stopped_words(plan: Rollout, after: Reading) -> str:
    """Whether tokens per step are below where speculation stops paying; "" where they are not."""
    tokens, least = after.tokens_per_step, plan.breakeven
    if tokens is None or tokens >= (least.value if least.high is None else least.high):
        return ""
    ends = interval(least, significant)
    surely = tokens < (least.value if least.low is None else least.low)
    does = "does not pay" if surely else "may not pay"
    return f"Tokens per step are {significant(tokens)}: below {ends} speculation {does}"


def expected_words(plan: Rollout) -> str:
    """That plain decoding was not run."""
    tpot = plan.expected.get("tpot")
    if tpot is None:
        return "The rollout has no time per token: its plain time was not known"
    return (
        f"Plain decoding was expected to take {interval(tpot.plain, ms)} a token and not run: a "
        "plain run as BEFORE decides better"
    )


# ── beside it ────────────────────────────────────────────────────────────────────────────────


def rollout_notes(found: Rollout) -> tuple[str, ...]:
    """What the number of requests rests on, and how to run the trial."""
    before, after = (f"{100 * each:.1f}%" for each in found.variation)
    if found.measured:
        spread = (
            f"The spread of a request's time per token is the one given, {before} without "
            f"speculation; with it {after}, because what is accepted adds to it."
        )
    else:
        spread = (
            f"The spread of a request's time per token ({before} without speculation, {after} with "
            "it) is what acceptance and prompts alone give: the least that it can be, and so are "
            "the requests. Measure it on plain decoding (standard deviation over mean, over "
            "requests) and give it (--cv on the command line)."
        )
    notes = [
        spread,
        "Requests are taken as independent. Two runs of one server easily differ by 5% whatever "
        f"they serve: run each arm {RUNS} times or more, in turns, and give review both.",
        "The same in both arms: traffic or prompts in the same order, load, lengths, sampling, "
        "seed, engine version. Change nothing but speculation.",
        f"At least {FLOOR} requests in each arm, however large the change: fewer do not show their "
        "own spread, and a mean of skewed times is near normal from about there.",
        f"p99 has an interval with an upper end from "
        f"{quantile_requests(0.99, found.significance):,} requests in each arm.",
    ]
    smallest = found.smallest
    if smallest is not None and 1 / SMALL < smallest < SMALL:
        notes.append("The smallest change is within what two runs differ by: only runs show it.")
    if found.alike:
        notes.append(
            "Every request is taken to accept alike: where yours differ (give them as a mixture), "
            "more are needed."
        )
    if found.breakeven.value > found.gamma + 1:
        notes.append("No tokens per step are enough to pay: the stop rule always holds.")
    return tuple(notes)
