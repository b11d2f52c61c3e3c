"""What a fall in acceptance costs, what may have caused it, and a rule that watches for it."""

from __future__ import annotations

from dataclasses import dataclass

from specmath.checks import InputError, real
from specmath.logs.drift import Drift
from specmath.logs.record import Reading
from specmath.predict import Prediction, usd_at
from specmath.wording import change, ms, significant, usd

__all__ = ["RULES", "Cause", "DriftCost", "alert_rule", "causes", "cost_of", "sentence"]


@dataclass(frozen=True)
class DriftCost:
    """Per output token and per million of them; seconds and USD, None where not known.

    `time_change` is relative, at the same cost of a step: τ before / τ after − 1.
    """

    time_change: float
    seconds_before: float | None
    seconds_after: float | None
    usd_before: float | None
    usd_after: float | None


def cost_of(found: Drift, prediction: Prediction, gamma: int | None) -> DriftCost | None:
    """Time and money of the fall, the step costing what it did: TPOT = plain × s(γ)/τ.

    `prediction` gives the plain step, s(γ), batch and price; `gamma` turns accepted ÷ drafted
    into tokens per step. None where that is not known.
    """
    if found.measure == "accepted ÷ drafted":
        if gamma is None:
            return None
        before, after = 1.0 + gamma * found.before, 1.0 + gamma * found.after
    else:
        before, after = found.before, found.after
    p = prediction
    if p.tpot_plain is None:
        return DriftCost(before / after - 1.0, None, None, None, None)
    each = [p.tpot_plain * p.step_cost / tokens for tokens in (before, after)]
    money: list[float | None] = [None, None]
    if p.scenario.usd_per_hour is not None:
        money = [usd_at(p.scenario, seconds, speculative=True) for seconds in each]
    return DriftCost(before / after - 1.0, each[0], each[1], money[0], money[1])


def sentence(found: Drift, cost: DriftCost | None) -> str:
    """The answer in words."""
    name = found.measure
    moved = f"{significant(found.before)} → {significant(found.after)} {name}"
    if found.fallen is None:
        return f"Cannot tell whether acceptance has fallen ({moved}): {found.why}."
    p = _chance(found)
    if not found.fallen:
        least = "" if found.smallest is None else (
            f" A lasting fall of {significant(found.smallest)} would have been seen half the time."
        )  # fmt: skip
        return f"No fall beyond chance: {moved}, {p}.{least}"
    since = f"since {found.since or f'line {found.since_line}'}"
    if found.design_effect is not None:
        since = "from one total to the other"
    fell = change(found.after, found.before)
    said = f"Acceptance has fallen: {moved} ({fell}) {since}, {p}."
    if cost is None:
        return said
    said += f" Each token takes {change(1.0 + cost.time_change, 1.0)} time"
    if cost.seconds_before is not None and cost.seconds_after is not None:
        said += f", {ms(cost.seconds_before)} → {ms(cost.seconds_after)}"
    if cost.usd_before is not None and cost.usd_after is not None:
        said += f", {usd(cost.usd_before)} → {usd(cost.usd_after)} per million tokens"
    return f"{said}."


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
