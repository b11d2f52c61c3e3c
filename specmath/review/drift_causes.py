"""Two logs beside each other: has acceptance fallen, what does it cost, what may have caused it.

And a rule that watches for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Literal

from specmath.checks import InputError, real
from specmath.logs.lanes import whole_side
from specmath.logs.reading import Reading
from specmath.predict import Prediction, predict, usd_at
from specmath.review.comparable import Difference, unlike
from specmath.review.drift import Drift, drift
from specmath.review.into_scenario import scenario_from
from specmath.scenario import Scenario

__all__ = [
    "RULES", "Cause", "Comparison", "DriftCost", "Sign", "Suspect",
    "alert_rule", "causes", "compare", "cost_of", "others_of",
]  # fmt: skip


@dataclass(frozen=True)
class DriftCost:
    """Per output token and per million of them; seconds and USD, None where not known.

    Each side at the γ that it ran. `time_change` is relative: (s₁/τ₁) / (s₀/τ₀) − 1.
    """

    time_change: float
    gamma_before: int
    gamma_after: int
    seconds_before: float | None = None
    seconds_after: float | None = None
    usd_before: float | None = None
    usd_after: float | None = None


Suspect = Literal["model", "gamma", "traffic", "target", "draft", "template", "engine"]
Sign = Literal[
    "changed", "gradual", "fewer drafts", "at once", "every position", "first position", "format"
]  # fmt: skip
"""What in the logs speaks for a suspect. Fewer drafts: the coverage fell; at once: not gradual, and
perhaps at every position given those before it; first position: its rate fell by half or more."""


@dataclass(frozen=True)
class Cause:
    """One thing to check; what in the logs speaks for it, before → after where it has values."""

    suspect: Suspect
    sign: Sign | None = None
    before: float | str | None = None
    after: float | str | None = None


@dataclass(frozen=True)
class Comparison:
    """The pair of readings that was compared, what was found, its cost and its likely causes.

    `overlap`: both hold totals since a start, and the second may hold the first's. `others`:
    another model or engine version, or a restart.
    """

    before: Reading
    after: Reading
    found: Drift
    cost: DriftCost | None
    causes: tuple[Cause, ...]
    overlap: bool
    others: tuple[Difference, ...] = ()


def compare(
    before: Sequence[Reading], after: Sequence[Reading], base: Scenario, rate: float = 0.01,
    design_effect: float | None = None,
) -> Comparison:  # fmt: skip
    """Compare two logs, each read into one reading or several; `base` holds the costs.

    Of several the same channel of both is taken. Raises InputError where they share no measure.
    """
    first, last = pair = _pair(before, after)
    found = drift(first, last, rate, design_effect)
    likely = causes(found, first, last) if found.fallen else ()
    cost, others = _cost(found, *pair, base), others_of(*pair)
    overlap = _overlap(*pair) and not any(other.what == "restarts" for other in others)
    return Comparison(*pair, found, cost, likely, overlap, others)


def _pair(before: Sequence[Reading], after: Sequence[Reading]) -> tuple[Reading, Reading]:
    """The same channel of both logs where there is one; of several, that with most windows, and of
    servers that disagree the one that fell furthest."""
    first, last = (whole_side(side)[0] for side in (before, after))
    pairs = [(a, b) for a in first for b in last if (a.engine, a.format) == (b.engine, b.format)]
    pairs = [(a, b) for a, b in pairs if a.lane == b.lane] or pairs
    if pairs:
        return max(pairs, key=lambda pair: (min(len(one.windows) for one in pair), _fall(*pair)))
    longest = [max(side, key=lambda reading: len(reading.windows)) for side in (first, last)]
    return longest[0], longest[1]


def _fall(before: Reading, after: Reading) -> float:
    return (before.tokens_per_step or 0.0) - (after.tokens_per_step or 0.0)


def others_of(before: Reading, after: Reading) -> tuple[Difference, ...]:
    """Another model or engine version, as both name it; a restart, named or by fallen totals."""
    differs = unlike([before], [after])
    found = [one for one in differs if one.what in ("model", "engine version", "restarts")]
    pairs = ((before.steps, after.steps), (before.drafted, after.drafted))
    fell = any(a is not None and b is not None and b < a for a, b in pairs)
    if before.since_start and after.since_start and fell:
        found = [one for one in found if one.what != "restarts"] + [Difference("restarts")]
    return tuple(found)


def _overlap(before: Reading, after: Reading) -> bool:
    """Totals since the start that only grew: of one start of one server, they overlap."""
    if not (before.since_start and after.since_start):
        return False
    pairs = ((before.steps, after.steps), (before.accepted, after.accepted))
    return all(a is not None and b is not None and b > a for a, b in pairs)


# ── what it costs ────────────────────────────────────────────────────────────────────────────


def _cost(found: Drift, before: Reading, after: Reading, base: Scenario) -> DriftCost | None:
    try:
        first = predict(scenario_from(before, base))
        same = before.gamma == after.gamma
        return cost_of(found, first, first if same else predict(scenario_from(after, base)))
    except InputError:
        return None


def cost_of(found: Drift, before: Prediction, after: Prediction) -> DriftCost | None:
    """Time and money of the fall: TPOT = plain × s(γ)/τ, each side at its own γ.

    The predictions give the plain step, s(γ), batch and price; at one γ both are the same, since
    the step costs what it did. None where tokens per step do not follow from the logs.
    """
    if not found.tokens_before or not found.tokens_after:
        return None
    steps = before.step_cost / found.tokens_before, after.step_cost / found.tokens_after
    ends = before.gamma, after.gamma
    if before.tpot_plain is None or after.tpot_plain is None:
        return DriftCost(steps[1] / steps[0] - 1.0, *ends)
    seconds = before.tpot_plain.value * steps[0], after.tpot_plain.value * steps[1]
    money: list[float | None] = [None, None]
    if before.scenario.usd_per_hour is not None:
        money = [float(usd_at(before.endpoint, value, before.gamma)) for value in seconds]
    return DriftCost(seconds[1] / seconds[0] - 1.0, *ends, *seconds, *money)


# ── likely causes ────────────────────────────────────────────────────────────────────────────


def causes(found: Drift, before: Reading, after: Reading) -> tuple[Cause, ...]:
    """Likely causes, those that the logs speak for first."""
    others = others_of(before, after)
    every = [Cause("model", "changed", o.before, o.after) for o in others if o.what == "model"]
    if before.gamma != after.gamma:
        every.append(Cause("gamma", "changed", before.gamma, after.gamma))
    fell = _at_once(before, after) if found.abrupt else None
    then, now = before.coverage, after.coverage
    first, last = (before.survival or (0.0,))[0], (after.survival or (1.0,))[0]
    traffic = Cause("traffic")
    if found.abrupt is False:
        traffic = Cause("traffic", "gradual")
    elif then is not None and now is not None and now < 0.9 * then:
        traffic = Cause("traffic", "fewer drafts", then, now)
    collapse = Cause("template", "first position", first, last)
    release = next((o for o in others if o.what == "engine version"), None)
    upgraded = Cause("engine")
    if release is not None:
        upgraded = Cause("engine", "changed", release.before, release.after)
    elif before.format != after.format:
        upgraded = Cause("engine", "format", before.format, after.format)
    every += [
        traffic,
        Cause("target", fell),
        Cause("draft", fell),
        collapse if last < 0.5 * first else Cause("template"),
        upgraded,
    ]
    return tuple(sorted(every, key=lambda cause: cause.sign is None))


def _at_once(before: Reading, after: Reading) -> Sign:
    """Whether each position lost given the ones before it."""
    pairs = list(zip(before.conditional or (), after.conditional or (), strict=False))
    every = bool(pairs) and all(now < then for then, now in pairs)
    return "every position" if every else "at once"


# ── a Prometheus rule ────────────────────────────────────────────────────────────────────────

_COUNTED = "1 + sum by ({0}) (rate({1}[{{w}}]))\n/ sum by ({0}) (rate({2}[{{w}}]))"
RULES = {
    "vllm": _COUNTED.format(
        "model_name", "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_drafts_total",
    ),
    "sglang": "avg by (model_name) (avg_over_time(sglang:spec_accept_length[{w}]))",
    "llama.cpp": _COUNTED.format(
        "instance", "llamacpp:spec_decode_num_accepted_tokens_total",
        "llamacpp:spec_decode_num_drafts_total",
    ),
    "tgi": _COUNTED.format(
        "instance", "tgi_request_skipped_tokens_sum", "tgi_request_skipped_tokens_count",
    ),
}  # fmt: skip
"""Tokens per step, bonus included, by engine, over a window {w}."""


def alert_rule(engine: str, *, below: float | None = None, window: str = "30m") -> str:
    """A rule file for Prometheus: tokens per step recorded, and an alert where they fall.

    `below`: tokens per step, > 1; None compares with the same metric over the last 7 days and
    alerts at 10% less.
    """
    if engine not in RULES:
        raise InputError(f"engine must be one of {', '.join(RULES)}, got {engine!r}")
    if below is not None:
        real("below", below, 1, low_open=True)
    record = "specmath:tokens_per_step"
    if below is None:
        limit = f"0.9 * avg_over_time({record}[7d])"
        summary = "Tokens per speculative step are 10% below their mean of the last 7 days"
    else:
        limit = f"{below:.4g}"
        summary = f"Tokens per speculative step are below {below:.4g}"
    expression = indent(RULES[engine].format(w=window), " " * 10)
    return f"""groups:
  - name: specmath
    rules:
      - record: {record}
        expr: |
{expression}
      - alert: SpeculativeAcceptanceFell
        expr: {record} < {limit}
        for: {window}
        labels:
          severity: warning
        annotations:
          summary: "{summary}"
          description: "Now {{{{ $value | printf \\"%.2f\\" }}}} (bonus token included). Check: \
traffic moved, draft or target replaced, tokenizer or template changed, engine upgraded."
"""
