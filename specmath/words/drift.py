"""Has acceptance fallen, in words: the answer, why it cannot be told, causes, notes."""

from __future__ import annotations

from specmath.numbers import change, count, ms, significant, usd
from specmath.review.blocks import FEWEST_EVENTS, UNSEEN
from specmath.review.comparable import Difference
from specmath.review.drift import FEWEST_BLOCKS, SHORT, Drift, Why
from specmath.review.drift_causes import (
    Cause,
    Comparison,
    DriftCost,
    Sign,
    Suspect,
)
from specmath.words.said import Said, State

__all__ = [
    "CHECK_FIRST", "alarm_sentence", "cause_line", "cause_words", "drift_said", "drift_sentence",
    "measure_words", "scrape_command", "why_words",
]  # fmt: skip

CHECK_FIRST = "Check, likeliest first:"
SCRAPE = "while sleep 10; do curl -s http://127.0.0.1:8000/metrics >> current.txt; done"
IN_ONE_FILE = "Metrics pages one after another in one file are read as a series, for instance from:"
OTHER = {
    "model": "Another model is served{0}: what is compared is two models, not one over time.",
    "engine version": "Another version of the engine{0}: it may sample, verify or count otherwise.",
    "restarts": "The server was restarted: what changed may be how it was started.",
}
OVERLAP = (
    "All of CURRENT's counters are above BASELINE's: if the server was not restarted between them, "
    "CURRENT's totals hold BASELINE's too, and the change is larger than it looks. Both pages, the "
    "older first, as CURRENT give the change between them."
)


# ── the answer ───────────────────────────────────────────────────────────────────────────────


def drift_said(pair: Comparison) -> Said:
    """The answer with its cost; how it was tested and what to know of it. Info: it has ended."""
    found = pair.found
    state: State = "good" if found.fallen is False else "unknown"
    if found.fallen:
        state = "bad" if found.later is None else "info"
    return Said("Has acceptance fallen?", state, drift_sentence(found, pair.cost), _notes(pair))


def drift_sentence(found: Drift, cost: DriftCost | None = None) -> str:
    """Whether it has fallen, from what to what, since when and how surely; what it costs."""
    moved = f"{significant(found.before)} → {significant(found.after)} {measure_words(found)}"
    if found.fallen is None:
        return f"Cannot tell whether acceptance has fallen ({moved}): {why_words(found)}."
    p = _chance(found)
    if not found.fallen:
        least = "" if found.smallest is None else (
            f" A lasting fall of {significant(found.smallest)} would have been seen about half "
            "the time."
        )  # fmt: skip
        return f"No fall beyond chance: {moved}, {p}.{least}"
    fell = f"{moved} ({change(found.after, found.before)}) {_when(found)}, {p}."
    said = f"Acceptance has fallen: {fell}"
    if found.later is not None:
        ended = f"It has ended: {significant(found.later)} since."
        said = f"Acceptance fell for a while: {fell} {ended}"
    return said if cost is None else f"{said} {_paid(cost, found.later is not None)}"


def measure_words(found: Drift) -> str:
    """What was averaged on both sides."""
    if found.measure == "accepted_share":
        return "accepted ÷ drafted"
    up_to = "" if found.cut_gamma is None else f" up to γ={found.cut_gamma}"
    return f"tokens per step{up_to}"


def alarm_sentence(found: Drift) -> str:
    """Where the alarm would first have been raised; empty where there was none."""
    if found.detected_line is None:
        return ""
    at = found.detected or f"line {found.detected_line}"
    earlier = found.detected_line < (found.since_line or 0)
    too = ": acceptance had fallen before that, too" if earlier else ""
    return f"The alarm would first have been raised at {at}{too}."


def _when(found: Drift) -> str:
    if found.design_effect is not None:
        return "from one total to the other"
    since = found.since or f"line {found.since_line}"
    if found.later is None:
        return f"since {since}"
    return f"from {since} to {found.until or f'line {found.until_line}'}"


def _paid(cost: DriftCost, ended: bool) -> str:
    said = "Meanwhile each token took" if ended else "Each token takes"
    said += f" {change(1.0 + cost.time_change, 1.0)} time"
    if cost.seconds_before is not None:
        said += f", {ms(cost.seconds_before)} → {ms(cost.seconds_after)}"
    if cost.usd_before is not None:
        said += f", {usd(cost.usd_before)} → {usd(cost.usd_after)} per million tokens"
    if cost.gamma_before != cost.gamma_after:
        said += f", each at its own draft length (γ={cost.gamma_before}, then {cost.gamma_after})"
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


# ── why it cannot be told ────────────────────────────────────────────────────────────────────

_BASELINE_SHORT = (
    "the baseline is too short: its {baseline_windows} windows hold {baseline_blocks} independent "
    "blocks of about {block_windows} windows (%s); about {needed_windows} windows are needed"
)
_CURRENT_SHORT = (
    "the current log is too short: %s; about {needed_windows} windows are needed, it has "
    "{current_windows}"
)
_NO_WINDOWS = (
    "a mean without windows does not show how much it varies by itself: give log lines, or "
    f"metrics scraped at least {FEWEST_BLOCKS * UNSEEN + 1} times, better {SHORT} or more"
)
_WHY: dict[Why, str] = {
    "flat baseline": "the baseline does not vary at all: too few digits, or the same line again",
    "short baseline": _BASELINE_SHORT % "neighbours are alike over {correlation_windows} windows",
    "scarce baseline": _BASELINE_SHORT
    % f"{{scarce}} drafts are rare in it, and a block needs {FEWEST_EVENTS}",
    "short current": _CURRENT_SHORT % "windows in a block of the baseline: {block_windows}",
    "quiet current": _CURRENT_SHORT
    % "its windows are {quieter} times quieter than the baseline's, and rejections or acceptances "
    "are too rare in them",
    "blind": "the logs are too short: even if no draft were accepted any more they could not show "
    f"it; give {SHORT} windows or more of each",
    "no windows": _NO_WINDOWS,
    "fall without windows": f"{_NO_WINDOWS}. This fall is beyond chance only if the design effect "
    "(variance over that of independent steps) is below {tipping}, and totals do not show it",
}


def why_words(found: Drift) -> str:
    """Why the logs cannot tell and what would be needed; empty where they can."""
    if found.why is None:
        return ""
    numbers = vars(found).items()
    shown = {name: significant(n, 2) if isinstance(n, float) else n for name, n in numbers}
    return _WHY[found.why].format(**shown)


# ── notes ────────────────────────────────────────────────────────────────────────────────────


def _notes(pair: Comparison) -> tuple[str, ...]:
    """How it was tested, what to know of it, what would be needed where it could not be."""
    notes = [alarm_sentence(pair.found), _tested_how(pair.found)]
    if pair.before.engine != pair.after.engine:
        engines = f"{pair.before.engine}, then {pair.after.engine}"
        notes.append(f"Another engine: {engines}. What differs may be the way it counts.")
    notes += map(_other, pair.others)
    notes += [OVERLAP if pair.overlap else "", IN_ONE_FILE if scrape_command(pair) else ""]
    return tuple(note for note in notes if note)


def _other(other: Difference) -> str:
    told = other.before is not None
    return OTHER[other.what].format(f", {other.before}, then {other.after}" if told else "")


def _tested_how(found: Drift) -> str:
    """The blocks, and what the stated rate is worth: see the tables of docs/logs.md."""
    if not found.current_blocks:
        return ""
    return (
        f"{found.baseline_blocks} baseline blocks of {count(found.block_windows, 'window')}, "
        f"{found.current_blocks} current ones; false alarms: at most {found.rate:g} a call, where "
        "the baseline is long enough to show how long its windows stay alike."
    )


def scrape_command(pair: Comparison) -> str:
    """What gives windows where there are none, below the notes; else empty."""
    return SCRAPE if pair.found.why in ("no windows", "fall without windows") else ""


# ── causes ───────────────────────────────────────────────────────────────────────────────────

_SUSPECTS: dict[Suspect, tuple[str, str]] = {
    "model": ("Another model is served", "was that meant?"),
    "gamma": ("The draft length was changed", "was that meant?"),
    "traffic": (
        "The traffic moved",
        "replay a fixed set of prompts: if its acceptance is as before, the text changed; compare "
        "languages, lengths and temperature",
    ),
    "target": (
        "The target was fine-tuned or replaced, and the draft was not",
        "compare the served revision with the one the draft was trained for",
    ),
    "draft": (
        "The draft was quantised, pruned or replaced",
        "run the old draft on the same prompts",
    ),
    "template": (
        "Tokenizer or chat template changed on one side",
        "tokenise one prompt with both and compare the ids",
    ),
    "engine": (
        "The engine was upgraded: another sampler, verification or way to count",
        "compare versions in the start-up lines",
    ),
}
_SIGNS: dict[Sign, str] = {
    "changed": "{0} → {1}",
    "gradual": "a gradual fall",
    "fewer drafts": "coverage {0:.0%} → {1:.0%}",
    "at once": "it fell at once",
    "every position": "it fell at once, at every position",
    "first position": "a collapse at the first position, {0:.0%} → {1:.0%}",
    "format": "another format of log: {0}, then {1}",
}


def cause_words(cause: Cause) -> dict[str, str]:
    """`what` to check, how to `check` it, and what was `seen` that speaks for it, or ""."""
    what, check = _SUSPECTS[cause.suspect]
    seen = "" if cause.sign is None else _SIGNS[cause.sign].format(cause.before, cause.after)
    symbol = "γ " if cause.suspect == "gamma" else ""
    return {"what": what, "check": check, "seen": symbol + seen}


def cause_line(cause: Cause) -> str:
    """All of it in one line."""
    what, check, seen = cause_words(cause).values()
    return f"{what} ({seen}): {check}" if seen else f"{what}: {check}"
