"""Slow requests in sentences: the answer at p99, why it is not the mean's, what is not in it."""

from __future__ import annotations

from specmath.estimate import Estimate
from specmath.numbers import count, faster, interval, ratio, significant
from specmath.speculation import ROUNDING
from specmath.tails import Gap, Tails

__all__ = [
    "ABOVE", "GAP_LABELS", "GAP_TOOLS", "SLOWEST", "curve_words", "gaps_words", "maths_lines",
    "tail_notes", "tail_sentence",
]  # fmt: skip

SLOWEST = 0.99
"""The quantile of the answer: one request in a hundred takes longer."""

ABOVE, ABOVE_ROWS = (0.02, 0.13), 27
"""How far p99 over p50 of the time per token was above what is said here, without and with
speculation, in the median of the rows of SemiAnalysis InferenceX (docs/tails.md)."""

ALIKE = 0.01
"""Speedups nearer than this are said to be the same."""

LEAST = "Every request is taken to accept alike; where they differ, the slowest take longer."

GAP_LABELS: dict[Gap, str] = {
    "itl_token": "Gap before a token",
    "itl_chunk": "Gap before a chunk",
    "itl_smeared": "Gap of a chunk, shared by its tokens",
    "tpot": "Mean gap of a request (TPOT)",
}
"""What is measured, where people say inter-token latency."""

GAP_TOOLS: dict[Gap, str] = {
    "itl_token": "A client that notes the time of every token (itl_token of specmath measure "
    "server): most gaps are 0, because the tokens of one step arrive together.",
    "itl_chunk": "vLLM's bench serve (ITL) and its inter_token_latency_seconds; AIPerf's inter "
    "chunk latency; LMDeploy's histogram; itl of specmath measure server.",
    "itl_smeared": "SGLang's bench_serving of its own backend (ITL) and its "
    "inter_token_latency_seconds.",
    "tpot": "TPOT of vLLM's and SGLang's benchmarks; AIPerf's and guidellm's ITL; TensorRT-LLM's "
    "and TGI's time per token.",
}
"""Which tool means which by inter-token latency."""


# ── the answer ───────────────────────────────────────────────────────────────────────────────


def tail_sentence(found: Tails) -> str:
    """What a request takes at p99 in both arms, and how that gain compares with the mean's."""
    arms = found.whole
    mean = " in the mean" if found.lengths[1] else ""
    what = f"a request of {found.tokens:,} tokens{mean} takes"
    if found.request is None:
        what = f"the {found.tokens - 1:,} tokens{mean} after the first take"
    plain, ours = (_time(arm.at(SLOWEST), found) for arm in (arms.plain, arms.speculative))
    if found.gamma == 0:
        return (
            f"Without speculation, at p99 {what} {plain}. Choose a γ to see what it does to that."
        )
    return (
        f"At p99 {what} {ours} with γ={found.gamma} instead of {plain}: "
        f"{_gained(arms.gain(SLOWEST))}, against {ratio(arms.gain().value)} in the mean. "
        f"{_why(found)}"
    )


def _gained(gain: Estimate) -> str:
    """As firm as its range."""
    ends = interval(gain, ratio)
    if gain.low is None or gain.high is None or " to " not in ends:
        return faster(gain.value)
    if gain.low <= 1.0 + ROUNDING < gain.high:
        return f"it is open whether the slowest gain ({ends})"
    return f"{faster(gain.value)} ({ends})"


def _why(found: Tails) -> str:
    """Why the slowest gain less than the mean, or as much, and that it is a least."""
    arms = found.whole
    share = arms.gain(SLOWEST).value / arms.gain().value
    middle, slow = (int(found.steps[1].quantile(level)) for level in (0.5, SLOWEST))
    spread = (
        f"a request takes {count(middle, 'step')} at p50 and {slow:,} at p99, by what is accepted"
    )
    if share > 1.0 + ALIKE:
        said = "The slowest gain more than the mean: prompts of others slow plain requests most."
    elif share > 1.0 - ALIKE:
        said = "The slowest gain as much as the mean."
    elif found.alike:
        said = f"The slowest gain less than the mean: {spread}."
    else:
        said = f"The slowest gain less than the mean, because kinds of request differ: {spread}."
    return f"{said} {LEAST}" if found.alike else said


def _time(number: Estimate, found: Tails) -> str:
    """A time with its range."""
    return f"{interval(number, significant)} {'s' if found.timed else 'plain steps'}"


# ── beside it ────────────────────────────────────────────────────────────────────────────────


def curve_words(found: Tails) -> str:
    """How many steps a request takes, and how the curve is read."""
    _, steps = found.steps
    deviation = steps.variance**0.5
    of = f" of {found.tokens:,} tokens" if found.lengths[1] else ""
    told = (
        "To the right the slow requests: 1 in 10 takes longer than at 90%, 1 in 100 than at 99%. "
        f"With γ={found.gamma} a request{of} takes {significant(steps.mean)} steps in the mean, "
        f"standard deviation {significant(deviation)}; without speculation "
        f"{found.steps[0].steps[0]:,}."
    )
    if found.met[1]:
        before, after = (significant(met, 2) for met in found.met)
        told += f" It meets {before} prompts of others without speculation and {after} with it."
    return told


def gaps_words(found: Tails) -> str:
    """What speculation does to each of what is called inter-token latency."""
    said = "Four numbers are called inter-token latency (ITL): compare like with like."
    if found.gamma == 0:
        return said
    wider = 1.0 / found.gaps["itl_chunk"].gain().value
    apart = f"{ratio(wider)} as far apart" if wider > 1.0 + ALIKE else "no further apart"
    held = (found.tokens - 1) / found.steps[1].mean
    return (
        f"{said} With γ={found.gamma} chunks come {apart} than tokens without speculation, and "
        f"each holds {significant(held)} tokens in the mean."
    ).replace("as far apart than", "as far apart as")


def maths_lines(found: Tails) -> tuple[str, ...]:
    """What the times are made of, with the numbers of the middle."""
    unit, by = ("ms", 1e3) if found.timed else ("plain steps", 1.0)
    before, after = found.steps
    step, prompt = (
        " and ".join(f"{significant(each.value * by)} {unit}" for each in both)
        for both in (found.step, found.prompt)
    )
    lines = [
        f"The {found.tokens - 1:,} tokens after the first take K steps: P(K > k) = P(L₁ + … + Lₖ < "
        f"{found.tokens - 1:,}), where a step emits n tokens with P(L = n) = s₍ₙ₋₁₎ − sₙ, and γ+1 "
        "with s of the whole draft.",
        f"K is {before.steps[0]:,} without speculation; with γ={found.gamma} its mean is "
        f"{significant(after.mean)} and its standard deviation {significant(after.variance**0.5)}.",
        f"decode = K t + n P, TPOT = decode / {found.tokens - 1:,}, whole = first token + decode.",
        f"t, a step: {step} without speculation and with it.",
    ]
    if found.met[1]:
        met = " and ".join(significant(each, 2) for each in found.met)
        lines.append(f"P, a prompt of another request: {prompt}; n is {met} of them in the mean.")
    return tuple(lines)


_FALL = {
    "none": "No other request's prompt is in the way.",
    "poisson": "Prompts of other requests are taken to come independently of each other (Poisson's "
    "law around the mean of the server law; at a request rate more come while one is read).",
    "wave": "All requests are sent at once: whoever waits for many prompts before the first token "
    "waits for few after it.",
    "even": "Of other requests' prompts only their share of the time is known: each step has its "
    "share, and the tail is a least.",
}
"""How other requests' prompts fall."""


def tail_notes(found: Tails) -> tuple[str, ...]:
    """What the tail rests on: the law of prompts, who is alike, and what is not in it."""
    notes = [_FALL[found.prompts]]
    if found.alike and found.gamma:
        notes.append(
            "Every request is taken to accept alike: where they differ, the tail is longer. "
            "A range of acceptance is one between sources and moves all requests together. How "
            "your requests differ, a log with a line a request tells: give it as a mixture of "
            f"request kinds. In {ABOVE_ROWS} public runs p99 of the time per token was "
            f"{ABOVE[1]:.0%} above what is said here in the median, without speculation "
            f"{ABOVE[0]:.0%}."
        )
    if found.request is not None:
        notes.append("The first token is taken at its mean: how it varies depends on arrivals.")
    else:
        notes.append("The time to the first token is not known, and not in it.")
    if found.prompts == "poisson":
        notes.append(
            "Where all outputs are equally long, as in many benchmarks, prompts come together: a "
            "gap at p99 is then a step full of prompts."
        )
    notes.append(_lengths_note(found))
    notes.append(
        "Not in it: bursts of arrivals, steps that take longer by themselves, the network."
    )
    return tuple(notes)


def _lengths_note(found: Tails) -> str:
    prompt, output = found.lengths
    if not prompt and not output:
        return (
            "All prompts and all outputs are taken to be of one length: give how far they spread "
            "(spread of output lengths, of prompt lengths) and slow requests are longer ones too."
        )
    told = [
        f"{name} spread by {significant(each, 2)} of their mean"
        for name, each in (("outputs", output), ("prompts", prompt))
        if each
    ]
    short = LONG_ONES if prompt else ""
    return f"Lengths are lognormal: {' and '.join(told)}. Real engines cut the longest.{short}"


LONG_ONES = (
    " A few very long prompts of others are taken for more that are less long: where outputs "
    "hardly spread, p99 is 9% short at prompts of 1,000 tokens in the mean, 20% at 3,000 and 30 to "
    "45% at 8,000 (spread 1). Goodput, on How many GPUs?, serves them one by one."
)
"""What prompts that spread leave out of the tail."""
