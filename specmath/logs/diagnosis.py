"""Is the drafter broken, or the text hard? Thresholds, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specmath.logs.estimate import wilson
from specmath.logs.record import Reading
from specmath.logs.taken import shape_of
from specmath.wording import count, significant

__all__ = ["Diagnosis", "diagnose"]

Finding = Literal["sound", "broken", "later positions", "hard text", "weak", "too little"]

FEWEST_DRAFTED = 200
BROKEN = 0.05
WEAK, WEAK_LOOKUP = 0.4, 0.15
SOUND = 0.5
COLLAPSE = 0.6
SPREAD = 0.25
SHARE = "accepted ÷ drafted"
LONGEST_USUAL = 8
"""γ of the longest drafts in common use: α is at most γ times the accepted share."""

REASONS: dict[Finding, str] = {
    "broken": (
        f"below {BROKEN}: 0–2% is what was reported where the draft did not fit its target "
        "(another tokenizer or chat template, wrong or quantised head weights, hidden states of "
        "the wrong layer), or where greedy drafts meet sampling (vLLM 41789 and 58080, omlx 3370, "
        "llama.cpp 26750). Hard text does not do that: even a draft of 10M parameters reached 0.23"
    ),
    "later positions": (
        f"the conditional rate falls below {COLLAPSE} of the first position's: a head trained for "
        "one token and applied again on its own output does that; each position of a sound draft "
        "loses a little"
    ),
    "weak": (
        f"below {WEAK}: the lowest α that Leviathan et al. 2023 (Table 2) measured for a small "
        "separate draft model is 0.53, and a 2-layer draft of 10M parameters had 0.23. A lookup "
        f"is counted as weak below {WEAK_LOOKUP} (n-gram drafts measured 0.15 to 0.70)"
    ),
    "hard text": (
        f"the same drafter does {SOUND} or better on part of this traffic: it works, and the rest "
        "of the text is hard for it"
    ),
    "sound": f"at least {WEAK} of the tried tokens are accepted: nothing points to a fault",
    "too little": (
        "the interval, steps taken as independent, reaches over a bound between findings (broken "
        f"below {BROKEN}, weak below {WEAK}, for a lookup {WEAK_LOOKUP}): give a longer log"
    ),
}


@dataclass(frozen=True)
class Diagnosis:
    """The finding, the number it rests on and why that threshold."""

    finding: Finding
    seen: str
    reason: str


def diagnose(reading: Reading) -> Diagnosis | None:
    """Sound, broken, weak, bad at later positions, or a sound drafter on hard text.

    Judged on the first position's rate where the log has it (no later position has been tried
    without it), else on α, else on the accepted share, which is no more than α. None where the
    log tells none of them.
    """
    value, name = _level(reading)
    if value is None:
        return None
    bounds = name == SHARE and BROKEN / LONGEST_USUAL < value < WEAK
    if bounds:  # α lies between the share and γ times it, and γ is not known
        return None
    seen = f"{name} {significant(value)}"
    lookup = "ngram" in reading.format.lower().replace("-", "")
    broken = BROKEN / LONGEST_USUAL if name == SHARE else BROKEN
    weak = WEAK_LOOKUP if lookup else WEAK
    few = reading.drafted is not None and reading.drafted < FEWEST_DRAFTED
    if few and reading.drafted is not None:
        low, high = wilson(value, float(reading.steps or reading.drafted))
        if any(low < bound <= high for bound in (broken, weak)):
            within = f"95% from {significant(low)} to {significant(high)}"
            tokens = count(reading.drafted, "drafted token")
            return _found("too little", f"{tokens}, {seen} ({within})")
    if value < broken:
        return _found("broken", seen)
    rates = reading.conditional or ()
    if value < weak:
        part = _best_part(reading)
        if part is not None:
            return _found("hard text", f"{seen}, but {part}")
        return _found("weak", seen)
    fixed = shape_of(reading) == "chain"  # an early stop lowers later rates by itself
    if fixed and not few and len(rates) > 1 and min(rates[1:]) < COLLAPSE * rates[0]:
        position = 2 + int(np.argmin(rates[1:]))
        worst = significant(min(rates[1:]))
        at = f"position {position} given the one before {worst}"
        return _found("later positions", f"{seen}, {at}")
    return _found("sound", seen)


def _found(finding: Finding, seen: str) -> Diagnosis:
    return Diagnosis(finding, seen, REASONS[finding])


def _level(reading: Reading) -> tuple[float | None, str]:
    if reading.survival:
        return reading.survival[0], "first position accepted"
    if reading.alpha is not None:
        return reading.alpha, "α"
    if reading.accepted_share is not None:
        return reading.accepted_share, SHARE
    return None, ""


def _best_part(reading: Reading) -> str | None:
    """A part of the traffic on which the drafter does well: its best windows or requests."""
    lists = [w.survival[0] for w in reading.windows if w.survival and (w.steps or 0) >= 50]
    if lists and max(lists) >= SOUND and max(lists) - min(lists) >= SPREAD:
        return f"{significant(max(lists))} in its best window"
    requests = reading.requests
    if requests is None:
        return None
    good = requests.p90 if requests.measure == "accepted_share" else requests.p90 - 1.0
    if good >= SOUND:
        measure = requests.measure.replace("_", " ")
        return f"a tenth of the requests have {measure} ≥ {significant(requests.p90)}"
    return None
