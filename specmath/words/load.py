"""The load study in sentences."""

from __future__ import annotations

import numpy as np

from specmath.estimate import Estimate
from specmath.evidence import switching
from specmath.frontier import Frontier, LoadPoint
from specmath.load import LoadStudy
from specmath.numbers import count, faster, interval, ratio, significant, usd
from specmath.predict import Prediction
from specmath.schedule import Choice

__all__ = [
    "BOTH_AXES",
    "LOADS",
    "SWITCHING_NOTES",
    "cheapest_sentence",
    "context_sentence",
    "held_sentence",
    "load_sentence",
    "loads_sentence",
    "memory_sentence",
    "roof_sentence",
    "schedule_sentence",
    "single_sentence",
    "switching_sentence",
]

SWITCHING_NOTES = (
    "A schedule costs something by itself: on its first model runner (the default before 0.29) "
    "vLLM falls back from full to piecewise CUDA graphs, about 14% of single-stream speed on one "
    "server (vLLM issue 49548).",
    "Crossing a threshold has stalled: with a schedule of 2 then 0, eight requests fell from 232 "
    "to between 24 and 157 tokens/s where a fixed γ did not (vLLM issue 49548). Test at the "
    "thresholds.",
    "γ = 0 is not free: the drafter still runs to keep its cache, 0 to 11% of the step by drafter "
    "(vLLM issue 49986). If no batch pays, leave speculation off instead.",
)
"""What to know before using a schedule."""

PARTS = {
    "weights": "reading weights",
    "kv": "reading the KV cache",
    "arithmetic": "arithmetic",
    "elementwise": "norms and activations",
    "launch": "kernel launches",
    "communication": "all-reduces",
    "sampling": "sampling",
    "host": "host work",
    "drafting": "drafting",
    "overhead": "the overhead of speculation",
}


LOADS = {"held": "batch", "closed": "concurrency", "wave": "concurrency", "open": "requests/s"}
"""What the load of each loop is called."""


def load_sentence(found: Frontier, study: LoadStudy) -> str:
    """Up to which load the γ pays, surely and in the middle, and what it comes to at the ends."""
    judged, name = found.judged, LOADS[found.loop]
    if found.gamma == 0:
        return "γ=0 is plain decoding: choose a γ to see what load does to it."
    if not judged:
        return study.does_not_fit or "No load of the study fits the memory."
    sure, middle = (found.pays(surely=surely) for surely in (True, False))
    whole = [(judged[0].load, judged[-1].load)]
    if sure == whole:
        said = f"Load does not kill it: γ={found.gamma} is faster at every {name}"
    elif not middle:
        said = f"γ={found.gamma} is no faster in the middle of its range at any {name}"
    else:
        surely = f"surely {_where(sure, whole, name)}, and " if sure else "nowhere surely, and "
        said = f"γ={found.gamma} is faster {surely}in the middle of its range "
        said += _where(middle, whole, name)
    speeds = [p.speedup.value for p in judged]
    top = int(np.argmax(speeds))
    best = speeds[top] > 1.03 * max(speeds[0], speeds[-1])
    shown = dict.fromkeys((0, top, len(judged) - 1) if best else (0, len(judged) - 1))
    told = [_at(judged[i], name) for i in shown]
    falls = ""
    if study.held:
        gammas = study.recommended_gamma[: study.held, study.own]
        falls = f" The recommended γ goes from {gammas[0]} to {gammas[-1]}."
    fits = ""
    if study.tax and study.held < len(study.batches):
        fits = f" Memory holds batches up to {study.tax.speculative_batch:,} with the draft."
    return f"{said}: from {' to '.join(told)}.{falls}{fits}"


BOTH_AXES = (
    "No engine whose options were read takes γ by batch and context together (vLLM request 48627 "
    "is open)."
)
"""Of a schedule in two axes."""


def loads_sentence(found: Frontier) -> str:
    """What varies from point to point, and what a measurement holds for."""
    told = {
        "held": "At each point that many decode in every step: one that ends is replaced.",
        "closed": "At each point that many requests are in flight: one that ends is replaced.",
        "wave": "At each point that many requests are sent at once.",
        "open": "At each point that many requests a second reach the replica, up to 90% of what "
        "plain decoding carries.",
    }[found.loop]
    if any(found.measured):
        told += (
            " What you measured holds at your load; at others computed times are scaled by what it "
            "was over the computed one there, with their own range."
        )
    return told


def _where(runs: list[tuple[float, float]], whole: list[tuple[float, float]], name: str) -> str:
    """Loads in words: "up to concurrency 32", "at concurrency 4 to 32 only"."""
    if runs == whole:
        return f"at every {name}"
    if len(runs) == 1 and runs[0][0] == whole[0][0]:
        return f"up to {name} {runs[0][1]:,g}"
    each = [f"{a:,g}" if a == b else f"{a:,g} to {b:,g}" for a, b in runs]
    return f"at {name} {' and '.join(each)} only"


def _at(point: LoadPoint, name: str) -> str:
    """The speedup at a load with its ends."""
    speedup = point.speedup
    ends = ""
    if speedup.low is not None and speedup.high is not None:
        ends = f" ({ratio(speedup.low)} to {ratio(speedup.high)})"
    return f"{faster(speedup.value)}{ends} at {name} {point.load:,g}"


# ── one γ, or a schedule ─────────────────────────────────────────────────────────────────────


def single_sentence(choice: Choice) -> str:
    """The best single γ over the loads, and what it loses where it loses most."""
    best = f"γ={choice.gamma}" if choice.gamma else "γ=0, speculation off"
    said = f"One γ for every batch from 1 to {choice.batches[-1]:,}: {best}."
    loss = choice.loss
    if max(loss.value, loss.high or 0.0) < LOST:
        return f"{said} It is the best at each of them."
    ends = "" if loss.low is None else f" ({_percent(loss.low)} to {_percent(loss.high or 0.0)})"
    return (
        f"{said} Where it loses most, at batch {choice.worst_at:,}, a token takes "
        f"{_percent(loss.value)}{ends} longer than with the best γ of that batch: no schedule "
        "gains more anywhere."
    )


def schedule_sentence(choice: Choice) -> str:
    """Whether γ by batch size pays more than switching costs."""
    ranges = choice.schedule.ranges
    if len(ranges) == 1:
        return "A schedule gains nothing over one γ."
    verdict = "use it" if choice.advised else "stay with one γ"
    return (
        f"The best schedule of at most four ranges has {len(ranges)}. In the mean of these batches "
        f"it is {_gained(choice.gain)} than one γ if switching costs nothing while it drafts, and "
        f"{_gained(choice.least_gain)} at what switching cost where it was measured: {verdict}."
    )


def switching_sentence(choice: Choice) -> str:
    """What switching costs, who measured it, and what of it is assumed."""
    low, high = map(_percent, choice.switching)
    found = switching()
    return (
        f"Being able to switch is taken to cost {low} of a token's time at batch 1 and {high} at "
        f"batch {choice.batches[-1]:,}. Measured once, {found.measured}: {found.source}. Assumed: "
        f"{found.assumed}."
    )


LOST = 5e-4
"""A loss below that is none."""


def _percent(share: float) -> str:
    return f"{significant(share * 100, 2)}%"


def _gained(gain: Estimate) -> str:
    ends = [ratio(1.0 + end) for end in (gain.low, gain.high) if end is not None]
    told = f" ({' to '.join(ends)})" if len({*ends}) > 1 else ""
    return f"{faster(1.0 + gain.value)}{told}"


# ── over batch and context ───────────────────────────────────────────────────────────────────


def held_sentence(p: Prediction) -> str:
    """What the batch of a study is, beside the loop of the scenario, and which prompts it reads."""
    load, s = p.endpoint.load, p.scenario
    if load is None:
        return ""
    told = "At each point that many decode in every step: one that ends is replaced."
    before, after = (significant(float(load.batch[gamma])) for gamma in (0, p.gamma))
    if load.requests.loop != "held":
        told += f" Your loop holds {before} in the mean without speculation and {after} with it."
    if load.requests.decode_only:
        return told + " Prompts are read by other workers."
    if s.prompt_tokens is None:
        return f"{told} Prompts may be from nothing to all of the context: half of it is drawn."
    share = f"{s.prompt_tokens / s.context:.0%}"
    return f"{told} Prompts are {share} of each context, as yours."


def context_sentence(study: LoadStudy) -> str:
    """What a longer context does to the speedup at the largest batch that fits both, and why."""
    held = study.fits.sum(axis=0)
    ends = (0, int(np.flatnonzero(held)[-1])) if held[0] else (0, 0)
    if ends[0] == ends[1]:
        return "No longer context fits the memory."
    row = int(held[ends[1]]) - 1
    short, long = (float(study.at_gamma[row, i]) for i in ends)
    first, last = (f"{int(study.contexts[i]):,} tokens" for i in ends)
    told = (
        f"At batch {study.batches[row]:,}, context {first}: {ratio(short)}; {last}: {ratio(long)}."
    )
    if long > short:
        told += (
            " The cache is read once a sequence a step, whatever γ: long contexts stay bound by "
            "memory."
        )
    elif study.served.drafter.cache_model(study.served.target) is not None:
        told += " The draft reads its own cache in each of its passes: long contexts cost it more."
    return told


def roof_sentence(study: LoadStudy) -> str:
    """The batch from which arithmetic outweighs the reading of weights in a speculative step."""
    # Of the batches that fit; of all where none does.
    last = (study.held or len(study.batches)) - 1
    parts = {name: each[: last + 1] for name, each in study.speculative_operators.items()}
    read = parts["weights"]
    over, cached = (np.flatnonzero(parts[name] > read) for name in ("arithmetic", "kv"))
    top = max(parts, key=lambda name: parts[name][-1])
    arithmetic = "Reading weights outweighs what arithmetic adds at every batch that fits."
    if over.size:
        first = study.batches[over[0]]
        arithmetic = f"What arithmetic adds outweighs the reading of weights from batch {first:,}."
    kv = f" The KV cache does from batch {study.batches[cached[0]]:,}." if cached.size else ""
    return f"{arithmetic}{kv} At batch {study.batches[last]:,} the largest part is {PARTS[top]}."


def memory_sentence(study: LoadStudy) -> str:
    """The draft's tax: sequences that no longer fit, and throughput at the largest batch."""
    tax = study.tax
    if tax is None:
        return study.does_not_fit
    lost, share = count(tax.sequences, "sequence"), tax.throughput_ratio
    more = "more" if share >= 1 else "fewer"
    return (
        f"Plain decoding fits a batch of {tax.plain_batch:,}, speculation "
        f"{tax.speculative_batch:,}: the draft costs {lost}. At its own largest batch speculation "
        f"gives {significant(abs(share - 1) * 100, 2)}% {more} tokens a second "
        f"({tax.speculative_tokens_per_second:,.0f} against {tax.plain_tokens_per_second:,.0f})."
    )


def cheapest_sentence(found: Frontier, price: float) -> str:
    """The cheapest and the fastest load that the replica takes, with and without speculation."""
    if not found.judged:
        return "No load of the study fits the memory."
    each = [
        (arm, p, f" with γ={found.gamma}" if arm else " without speculation")
        for p in found.judged
        for arm in (0, 1)
    ]
    cheap = min(each, key=lambda at: at[1].usd(price)[at[0]].value)
    quick = max(each, key=lambda at: at[1].user[at[0]].value)

    def point(at: tuple[int, LoadPoint, str]) -> str:
        arm, p, how = at
        return (
            f"{LOADS[found.loop]} {p.load:,g}{how}, {interval(p.user[arm], significant)} tok/s per "
            f"user at {interval(p.usd(price)[arm], usd)} a million"
        )

    return f"Cheapest: {point(cheap)}. Fastest: {point(quick)}."
