"""What a fall in acceptance costs, what may have caused it, and a rule that watches for it."""

from __future__ import annotations

from dataclasses import dataclass

from specmath.checks import InputError, real
from specmath.logs.drift import Drift
from specmath.logs.record import Reading
from specmath.predict import Prediction, usd_at
from specmath.wording import change, ms, significant, usd

__all__ = [
    "RULES", "Cause", "DriftCost", "alarm_sentence", "alert_rule", "causes", "cost_of", "sentence",
]  # fmt: skip


@dataclass(frozen=True)
class DriftCost:
    """Per output token and per million of them; seconds and USD, None where not known.

    Each side at the γ that it ran. `time_change` is relative: (s₁/τ₁) / (s₀/τ₀) − 1.
    """

    time_change: float
    gamma_before: int
    gamma_after: int
    seconds_before: float | None
    seconds_after: float | None
    usd_before: float | None
    usd_after: float | None


def cost_of(found: Drift, before: Prediction, after: Prediction) -> DriftCost | None:
    """Time and money of the fall: TPOT = plain × s(γ)/τ, each side at its own γ.

    The predictions give the plain step, s(γ), batch and price; at one γ both are the same, since
    the step costs what it did. None where tokens per step do not follow from the logs.
    """
    tokens = found.tokens_before, found.tokens_after
    if tokens[0] is None or tokens[1] is None:
        return None
    each = [p.step_cost / t for p, t in zip((before, after), tokens, strict=True) if t]
    ends = before.scenario.gamma, after.scenario.gamma
    if before.tpot_plain is None or after.tpot_plain is None:
        return DriftCost(each[1] / each[0] - 1.0, *ends, None, None, None, None)
    seconds = [before.tpot_plain * each[0], after.tpot_plain * each[1]]
    money: list[float | None] = [None, None]
    if before.scenario.usd_per_hour is not None:
        money = [usd_at(before.scenario, value, speculative=True) for value in seconds]
    return DriftCost(seconds[1] / seconds[0] - 1.0, *ends, *seconds, *money)


def sentence(found: Drift, cost: DriftCost | None) -> str:
    """The answer in words."""
    name = found.measure
    moved = f"{significant(found.before)} → {significant(found.after)} {name}"
    if found.fallen is None:
        return f"Cannot tell whether acceptance has fallen ({moved}): {found.why}."
    p = _chance(found)
    if not found.fallen:
        least = "" if found.smallest is None else (
            f" A lasting fall of {significant(found.smallest)} would have been seen about half "
            "the time or more."
        )  # fmt: skip
        return f"No fall beyond chance: {moved}, {p}.{least}"
    fell = f"{moved} ({change(found.after, found.before)})"
    if found.later is not None:
        said = f"Acceptance fell for a while: {fell} {_when(found)}, {p}. "
        said += f"It has ended: {significant(found.later)} since."
    else:
        said = f"Acceptance has fallen: {fell} {_when(found)}, {p}."
    return said if cost is None else f"{said} {_paid(cost, found.later is not None)}"


def _when(found: Drift) -> str:
    if found.design_effect is not None:
        return "from one total to the other"
    since = _place(found.since, found.since_line)
    if found.later is None:
        return f"since {since}"
    return f"from {since} to {_place(found.until, found.until_line)}"


def _place(when: str | None, line: int | None) -> str:
    return when or f"line {line}"


def _paid(cost: DriftCost, ended: bool) -> str:
    said = "Meanwhile each token took" if ended else "Each token takes"
    said += f" {change(1.0 + cost.time_change, 1.0)} time"
    if cost.seconds_before is not None and cost.seconds_after is not None:
        said += f", {ms(cost.seconds_before)} → {ms(cost.seconds_after)}"
    if cost.usd_before is not None and cost.usd_after is not None:
        said += f", {usd(cost.usd_before)} → {usd(cost.usd_after)} per million tokens"
    if cost.gamma_before != cost.gamma_after:
        said += f", each at its own draft length (γ={cost.gamma_before}, then {cost.gamma_after})"
    return f"{said}."


def alarm_sentence(found: Drift) -> str:
    """Where the alarm would first have been raised; empty where there was none."""
    if found.detected_line is None:
        return ""
    at = _place(found.detected, found.detected_line)
    earlier = found.detected_line < (found.since_line or 0)
    too = ": acceptance had fallen before that, too" if earlier else ""
    return f"The alarm would first have been raised at {at}{too}."


def _chance(found: Drift) -> str:
    """The p-value, and under which assumption where one was made."""
    if found.p_value is None:
        return ""
    p = "p < 0.0001" if found.p_value < 1e-4 else f"p = {found.p_value:.2g}"
    if found.independent:
        return f"{p} even if all steps were independent"
    if found.design_effect is None:
        return p
    return f"{p} with a design effect of {significant(found.design_effect)}, which is assumed"


# ── causes ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Cause:
    """One thing to check, how, and what in the logs speaks for or against it."""

    what: str
    check: str
    seen: str = ""


def causes(found: Drift, before: Reading, after: Reading) -> tuple[Cause, ...]:
    """Likely causes, those that the logs speak for first."""
    all_causes = [
        *_changed_settings(before, after),
        Cause(
            "The traffic moved",
            "replay a fixed set of prompts: if its acceptance is as before, the text changed; "
            "compare languages, lengths and temperature",
            "a gradual fall" if found.abrupt is False else _fewer_drafts(before, after),
        ),
        Cause(
            "The target was fine-tuned or replaced, and the draft was not",
            "compare the served revision with the one the draft was trained for",
            _all_positions(found, before, after),
        ),
        Cause(
            "The draft was quantised, pruned or replaced",
            "run the old draft on the same prompts",
            _all_positions(found, before, after),
        ),
        Cause(
            "Tokenizer or chat template changed on one side",
            "tokenise one prompt with both and compare the ids",
            "a collapse at the first position" if _collapsed(before, after) else "",
        ),
        Cause(
            "The engine was upgraded: another sampler, verification or way to count",
            "compare versions in the start-up lines",
            "another format of log" if before.format != after.format else "",
        ),
    ]
    return tuple(sorted(all_causes, key=lambda cause: not cause.seen))


def _changed_settings(before: Reading, after: Reading) -> list[Cause]:
    found = []
    for name in ("model", "model_id", "draft_model"):
        pair = before.fact(name), after.fact(name)
        if None not in pair and pair[0] != pair[1]:
            text = f"{pair[0]} → {pair[1]}"
            found.append(Cause("Another model is served", "was that meant?", text))
    if before.gamma != after.gamma:
        text = f"γ {before.gamma} → {after.gamma}"
        found.append(Cause("The draft length was changed", "was that meant?", text))
    return found


def _all_positions(found: Drift, before: Reading, after: Reading) -> str:
    """Whether it fell at once, and each position lost given the ones before it."""
    pairs = list(zip(before.conditional or (), after.conditional or (), strict=False))
    if not found.abrupt:
        return ""
    every = bool(pairs) and all(now < then for then, now in pairs)
    return "it fell at once, at every position" if every else "it fell at once"


def _collapsed(before: Reading, after: Reading) -> bool:
    first = before.survival, after.survival
    return bool(first[0] and first[1] and first[1][0] < 0.5 * first[0][0])


def _fewer_drafts(before: Reading, after: Reading) -> str:
    if before.coverage is None or after.coverage is None:
        return ""
    fewer = after.coverage < 0.9 * before.coverage
    return f"coverage {before.coverage:.0%} → {after.coverage:.0%}" if fewer else ""


# ── a Prometheus rule ────────────────────────────────────────────────────────────────────────

RULES = {
    "vllm": (
        "1 + sum by (model_name) (rate(vllm:spec_decode_num_accepted_tokens_total[{w}]))\n"
        "/ sum by (model_name) (rate(vllm:spec_decode_num_drafts_total[{w}]))"
    ),
    "sglang": "avg by (model_name) (avg_over_time(sglang:spec_accept_length[{w}]))",
    "llama.cpp": (
        "1 + sum by (instance) (rate(llamacpp:spec_decode_num_accepted_tokens_total[{w}]))\n"
        "/ sum by (instance) (rate(llamacpp:spec_decode_num_drafts_total[{w}]))"
    ),
    "tgi": (
        "1 + sum by (instance) (rate(tgi_request_skipped_tokens_sum[{w}]))\n"
        "/ sum by (instance) (rate(tgi_request_skipped_tokens_count[{w}]))"
    ),
}
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
    lines = RULES[engine].format(w=window).split("\n")
    expression = "\n".join(f"          {line}" for line in lines)
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
