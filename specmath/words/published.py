"""The public record in words: why a row is not scored, what the figures say, the nearest case."""

from __future__ import annotations

from collections.abc import Sequence

from specmath.numbers import count, ratio, significant
from specmath.published.case import Case, Reason
from specmath.published.claims import Found, Miss
from specmath.published.nearest import Coverage, Near
from specmath.published.score import Scored
from specmath.published.summary import Group, Summary

__all__ = [
    "CLAIM_WORDS",
    "METHOD_WORDS",
    "QUANTITY_WORDS",
    "case_words",
    "claim_verdict",
    "code_words",
    "coverage_words",
    "group_words",
    "headline",
    "miss_words",
    "nearest_sentence",
    "reason_words",
    "row_words",
    "set_aside_words",
]

_REASONS = {
    "inferred": "an input was inferred by whoever read the source (presumed, believed, ?)",
    "lossy": "not lossless: tokens were accepted that exact sampling would have refused",
    "not measured": "no speedup and no time was measured that a prediction could be laid beside",
    "no acceptance": "tokens per step, or α, are not stated",
    "no gamma": "the number of drafted tokens is not stated",
    "tree": "a tree of drafts, whose shape is not stated in full",
    "load": "the load is not a number of requests in flight",
    "drafter": "no drafter of this product drafts that way",
    "draft model": "the draft model is not in the catalogue",
    "no gpu": "the GPU is not stated",
    "gpu": "the GPU is not in the catalogue",
    "split": "the weights are split by layer or offloaded, which is not computed",
    "no model": "the model is not stated",
    "model": "the model is not in the catalogue",
    "sparse draft cache": "the draft reads a sparse cache, which no field says",
    "cached prompts": "prompts were read faster than the GPU's peak: cached, or not at that load",
    "config": "its config.json cannot be read beside the file",
    "refused": "this product refuses its inputs",
    "not predicted": "this product does not predict that quantity",
    "theirs": "no prediction was given for it",
}

METHOD_WORDS = {
    "theorem": "by Theorem 3.8",
    "step timings": "from the step as timed",
    "hardware": "from hardware alone",
    "anchored": "from hardware and the plain speed",
    "fixed point": "by the fixed point of the load",
    "simulation": "by simulation of its requests",
    "theirs": "by the predictions given",
}


def code_words(code: str) -> str:
    """Why rows of that code are not scored."""
    return _REASONS[code]


def reason_words(reason: Reason | None) -> str | None:
    """Why one row is not scored, with what it is about; None where it is."""
    if reason is None:
        return None
    return f"{_REASONS[reason.code]}: {reason.detail}" if reason.detail else _REASONS[reason.code]


def row_words(scored: Scored) -> str:
    """One number of one row: what is said of it, or why nothing is."""
    what = QUANTITY_WORDS[scored.quantity].capitalize()
    unit = "×" if scored.quantity == "speedup" else " ms"
    seen = "not measured" if scored.measured is None else f"{scored.measured:.3g}{unit} measured"
    if scored.predicted is None:
        return f"{what}: {seen}, not predicted: {reason_words(scored.reason)}"
    return f"{what}: {seen}, {scored.predicted:.3g}{unit} {METHOD_WORDS[scored.method]}"


def headline(found: Summary) -> str:
    """How many rows were scored, and how far off hardware alone is, a sentence a quantity."""
    rest = found.cases - found.scored
    said = [f"{found.scored:,} of {found.cases:,} published rows are predicted by some method"]
    said[0] += f"; the other {rest:,} say why not." if rest else "."
    for group in found.by("method"):
        if group.method == "hardware" and group.quantity in HEADED:
            name = QUANTITY_WORDS[group.quantity].capitalize()
            said.append(f"{name}: half the rows within {group_words(group)}.")
    return " ".join(said)


HEADED = ("speedup", "tpot_ms")
"""What is looked for first; the rest stands in the tables."""

QUANTITY_WORDS = {
    "speedup": "speedup", "tpot_ms": "time per output token", "ttft_mean_ms": "time to first token",
    "itl_mean_ms": "inter-token latency", "e2e_mean_ms": "mean time of a request",
    "e2e_p99_ms": "99th percentile of a request's time",
}  # fmt: skip


UNBIASED = 0.005
"""A bias that rounds to 0%."""


def group_words(group: Group) -> str:
    """One method's figures: "2% from τ over the step as timed (82 rows, 2% too high)"."""
    side = f"{abs(group.bias):.0%} too {'high' if group.bias > 0 else 'low'}"
    if abs(group.bias) < UNBIASED:
        side = "neither high nor low"
    held = "" if group.coverage is None else f", its interval holds {group.coverage:.0%}"
    return f"{group.median:.0%} {METHOD_WORDS[group.method]} ({group.n:,} rows, {side}{held})"


def set_aside_words(found: Summary) -> str:
    """What the figures leave out; "" where nothing."""
    if not found.set_aside:
        return ""
    return (
        f"{found.set_aside:,} predictions are shown and not counted in the figures: their rows set "
        "a number of this product, or repeat another row."
    )


# ── the nearest case, and what is covered ────────────────────────────────────────────────────


def nearest_sentence(near: Sequence[Near]) -> str:
    """The closest measured case, with what is said of it; "" where nothing is near."""
    if not near:
        return ""
    scored = near[0].scored
    method = f" ({METHOD_WORDS[scored.method]})" if scored.method != "hardware" else ""
    return (
        f"Closest measured case: {case_words(scored.case)}: {ratio(scored.measured)} measured, "
        f"{ratio(scored.predicted)} said{method}."
    )


def case_words(case: Case) -> str:
    """A row in a line: model, drafter, γ, hardware, load, source."""
    gamma = f", γ={case.gamma}" if case.gamma is not None else ""
    drafter = f" with {case.drafter}{gamma}" if case.drafter else ""
    load = f", {case.concurrency:,} in flight" if case.concurrency else ""
    return f"{case.model}{drafter} on {case.hardware or 'a GPU not stated'}{load} ({case.source})"


_STATES = {
    "covered": "Covered: {rows:,} published rows are alike in drafter, engine, GPU and load.",
    "extrapolated": "Extrapolated: {kin:,} published rows have this kind of drafter, {rest}, and "
    "{rows} all of it together.",
    "refused": "Not measured by anyone in the record: no row with this kind of drafter could be "
    "scored. Measure before you rely on a prediction.",
}
_ALIKE = {"engine": "on this engine", "gpu": "on this GPU", "load": "at this load"}


def coverage_words(found: Coverage | None) -> str:
    """Covered, extrapolated or not measured; what that rests on."""
    if found is None:
        return "These costs are your own: the prediction rests on them, not on the record."
    rest = ", ".join(f"{rows or 'none'} of them {_ALIKE[name]}" for name, rows in found.alike)
    return _STATES[found.state].format(rows=found.rows or "none", kin=found.drafter, rest=rest)


# ── claims in circulation ────────────────────────────────────────────────────────────────────

CLAIM_WORDS = {
    "single stream": "A single stream gains 1.8–2.5×",
    "near saturation": "Near saturation nothing is gained (about 1.0×)",
    "copied text": "Copied text with an n-gram draft gains 2–4×",
    "best gamma": "3 to 5 drafted tokens are best",
}
FEW = 10
"""Rows below which the record does not settle a claim."""


def claim_verdict(found: Found) -> str:
    """What the record says of a claim, and this product of the same rows."""
    if found.measured is None or found.inside is None:
        return "The record has no row that speaks to it."
    gammas = found.claim.name == "best gamma"
    unit, noun = ("", "sweep") if gammas else ("×", "row")
    low, middle, high = found.measured
    ends = " to ".join(f"{significant(end, 2)}{unit}" for end in (low, high))
    said = ""
    if found.predicted is not None:
        said = f" This product says {significant(found.predicted[1], 2)}{unit} in the middle."
    settled = "Too few to settle it" if found.n < FEW else (
        "Holds for most" if found.inside >= 0.5 else "Does not hold for most"
    )  # fmt: skip
    return (
        f"{settled}: {found.inside:.0%} of {count(found.n, noun)} from "
        f"{count(found.sources, 'source')} lie in it; four fifths measured {ends}, "
        f"{significant(middle, 2)}{unit} in the middle.{said}"
    )


# ── misses ───────────────────────────────────────────────────────────────────────────────────

_CAUSES = {
    "printed inputs": "the printed α, τ or times do not make the printed speedup: means over "
    "different texts, or rounding",
    "verification": "the theorem takes verification and host work for free, and they were not",
    "prompts": "a loaded server reads the prompts of others between its steps, and speculating "
    "costs more a sequence",
    "prompts cheaper": "prompts were read at less cost than computed: a prefix cache, or requests "
    "spread over several replicas",
    "sequences": "an engine's host time for each of many sequences, or more of them than memory "
    "holds, is not computed",
    "drafter overhead": "this drafter's host time and kernels cost more than computed",
    "experts": "the kernels of mixtures of experts differ by engine and format more than computed",
    "host": "host time, or an efficiency of this engine, that is not computed",
    "kernels": "faster kernels, or a smaller cache format, than assumed",
    "positions": "engines spend from nothing to a whole plain step on each verified position, and "
    "the middle of what is known of this one is taken",
    "saturated": "first tokens took over a hundred steps: requests stood in line, as in no steady "
    "state",
    "unexplained": "not explained",
}


def miss_words(miss: Miss) -> str:
    """What explains a miss."""
    return _CAUSES[miss.cause]
