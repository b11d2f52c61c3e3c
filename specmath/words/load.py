"""The load study in sentences."""

from __future__ import annotations

import numpy as np

from specmath.load import LoadStudy
from specmath.numbers import count, faster, ms, ratio, significant
from specmath.predict import Prediction

__all__ = [
    "SWITCHING_NOTES",
    "cheapest_sentence",
    "context_sentence",
    "held_sentence",
    "load_sentence",
    "memory_sentence",
    "roof_sentence",
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


def load_sentence(study: LoadStudy) -> str:
    """Up to which batch that memory holds the γ pays, and how the recommended γ falls."""
    held, own = study.held, study.own
    speeds, batches = study.at_gamma[:held, own], study.batches[:held]
    context, pays = f"context {study.served.context_tokens:,}", study.pays()
    if study.gamma == 0:
        return "γ=0 is plain decoding: choose a γ to see what load does to it."
    if not held:
        return study.does_not_fit or "No batch of the study fits the memory."
    best = study.recommended_gamma[:held, own]
    fits = ""
    if study.tax and held < len(study.batches):
        fits = f" Memory holds batches up to {study.tax.speculative_batch:,} with the draft."
    if not pays:
        return (
            f"At {context}, γ={study.gamma} does not pay at any batch.{_other_gamma(study)}{fits}"
        )
    top = int(np.argmax(speeds))
    points = [0, *([top] if speeds[top] > 1.03 * max(speeds[0], speeds[-1]) else []), -1]
    told = [f"{faster(float(speeds[i]))} at batch {batches[i]:,}" for i in points]
    ends = f"from {' to '.join(told)}"
    falls = f"The recommended γ goes from {best[0]} to {best[-1]}."
    if pays == [(batches[0], batches[-1])]:
        return f"At {context}, γ={study.gamma} goes {ends}: load does not kill it. {falls}{fits}"
    where = f"up to batch {pays[0][1]:,}"
    if len(pays) > 1 or pays[0][0] > batches[0]:
        runs = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in pays]
        where = f"at batch {' and '.join(runs)} only"
    return f"At {context}, γ={study.gamma} pays {where}: {ends}. {falls}{fits}"


def _other_gamma(study: LoadStudy) -> str:
    """The γ that does pay at some batch that fits, where the γ in use pays at none."""
    speeds = study.speedup[: study.held, study.own]
    row = int(np.argmax(speeds.max(axis=1)))
    gamma = int(study.recommended_gamma[row, study.own])
    gain = float(speeds[row, gamma])
    if gain <= 1.0:
        return " No other γ does."
    return f" γ={gamma} does: {faster(gain)} at batch {study.batches[row]:,}."


def held_sentence(p: Prediction) -> str:
    """What the batch of a study is, beside the loop of the scenario, and which prompts it reads."""
    load, s = p.endpoint.load, p.scenario
    if load is None:
        return ""
    told = "At each point that many sequences decode in every step: one that ends is replaced."
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


def cheapest_sentence(study: LoadStudy, usd: np.ndarray) -> str:
    """The cheapest and the fastest point over batch; usd of the recommended γ at each batch."""
    best = study.recommended_gamma[:, study.own]
    rows = np.arange(len(best))
    tpot = study.tpot_plain[:, study.own] / study.speedup[rows, study.own, best]
    fits = study.fits[:, study.own]
    if not fits.any():
        return study.does_not_fit or "No batch of the study fits the memory."
    cheap = int(np.argmin(np.where(fits, usd, np.inf)))
    quick = int(np.argmin(np.where(fits, tpot, np.inf)))

    def point(at: int) -> str:
        return (
            f"batch {study.batches[at]:,} with γ={best[at]}, {ms(float(tpot[at]))} a token at "
            f"${significant(float(usd[at]))} per million"
        )

    return f"Cheapest that fits: {point(cheap)}. Fastest: {point(quick)}."
