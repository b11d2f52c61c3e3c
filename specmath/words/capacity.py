"""How many GPUs in sentences: the answer, what limits a replica, where to turn it off."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from specmath.capacity import Arm, Capacity, Limit, Slo
from specmath.carried import JUDGED
from specmath.estimate import Estimate
from specmath.numbers import count, significant, usd
from specmath.scenario import SPECS
from specmath.words.bill import falls
from specmath.words.pools import (
    all_gpus_words,
    fewer,
    pool_notes,
    pool_remarks,
    pools_words,
    prefill_sentence,
    span,
)

__all__ = [
    "LIMITS", "NEEDS_PROMPTS", "PROMISED", "arm_name", "by_gamma_sentence", "capacity_notes",
    "capacity_sentence", "crossover_sentence", "fleets_sentence", "fleets_words", "gamma_words",
    "limits_sentence", "open_words", "promise", "table_remarks",
]  # fmt: skip

LIMITS: dict[Limit, str] = {
    "tpot": "time per token",
    "ttft": "time to the first token",
    "e2e": "time of a whole request",
    "memory": "memory",
    "time": "time of steps and prompts",
}
"""What keeps a replica from a larger rate, in a cell."""

PROMISED: dict[Slo, str] = {"tpot": "a token", "ttft": "to the first token", "e2e": "a request"}
"""What a promise is about, after its milliseconds."""

NO_END = (
    "A number without a range beside others that have one: its range has no end, because at worst "
    "no rate is within what is promised."
)


NEEDS_PROMPTS = (
    "How many GPUs is unknown until the prompts' length is given: each request brings one that the "
    "replica reads."
)


def promise(found: Capacity) -> str:
    """What is promised: " within 30 ms a token"; "" where nothing is."""
    if found.apart:
        return " within what each segment is promised"
    said = [f"{significant(1e3 * s)} ms {PROMISED[name]}" for name, s in found.slo.items()]
    return f" within {' and '.join(said)}" if said else ""


def gamma_words(arm: Arm) -> str:
    """γ of an arm that speculates."""
    each = {*arm.gammas} or {arm.gamma}
    return f"γ={max(each)}" if len(each) == 1 else f"γ≤{max(each)} by request"


def arm_name(found: Capacity, arm: Arm) -> str:
    """What an arm is called."""
    if arm is found.switched:
        return f"{gamma_words(arm)}, off above {significant(found.crossover)} requests/s"
    return gamma_words(arm) if arm.gamma else "Plain decoding"


# ── the answer ───────────────────────────────────────────────────────────────────────────────


def capacity_sentence(found: Capacity, kinds: Sequence[str] = (), *, advise: bool = True) -> str:
    """GPUs with and without speculation, or the largest rate of a replica where no demand is
    given; where nothing meets what is promised, the best there is. `kinds`: what its kinds of
    request are called."""
    plain, ours = found.plain, found.speculative
    if not ours.within.value and not plain.within.value:
        helps = [_at_best(ours) or _at_best(plain), _moving(ours)]
        told = " ".join(filter(None, helps)) or _SHORTER
        return f"No rate is low enough{promise(found)}: {_best(found, kinds)} {told}"
    if found.demand is None:
        return (
            f"{_carries(found)} Say what you serve, and the number of GPUs follows."
            if found.slo
            else f"{_carries(found)} Promise a time, or say what you serve: the number of GPUs "
            "follows."
        )
    served = f"to serve {significant(found.demand.value)} requests/s{promise(found)}"
    if found.gamma == 0:
        return f"{_gpus(plain)} {served}, without speculation{_month(plain)}."
    if not plain.within.value:
        with_draft = f"{_gpus(ours)} with {gamma_words(ours)}"
        return f"{with_draft} {served}{_month(ours)}. {_alone(plain, found, kinds)}"
    if not ours.within.value:
        without = f"{_gpus(plain)} without speculation"
        return f"{without} {served}{_month(plain)}. {_alone(ours, found, kinds)}"
    return fleets_sentence(found, served, advise=advise)


def fleets_sentence(found: Capacity, served: str, *, advise: bool = True) -> str:
    """`fleets_words`, and that it is open where it is, which arm needs fewer."""
    ours, plain = found.speculative, found.plain
    assert ours.replicas is not None
    assert plain.replicas is not None
    told = falls(ours.replicas.with_(plain.replicas, fewer))
    if ours.all_gpus and plain.all_gpus and ours.prefill is not None:
        told = falls(ours.all_gpus.with_(plain.all_gpus, fewer), "GPU")
    return f"{_first(told) if advise else told}{fleets_words(found, served)}."


def fleets_words(found: Capacity, served: str) -> str:
    """The replicas of both arms and their bill, where both have a rate within what is promised."""
    ours, plain = found.speculative, found.plain
    return (
        f"{_gpus(ours)} with {gamma_words(ours)} instead of {_gpus(plain)} {served}"
        f"{_bills(ours, plain)}"
    )


_SHORTER = "A shorter step would help: more GPUs a replica (TP), a faster one, fewer bits a weight."


def _first(said: str) -> str:
    """What is open is to be measured."""
    is_open = said.startswith("It is open")
    return f"Measure first, {said[0].lower()}{said[1:]}" if is_open else said


def _at_best(arm: Arm) -> str:
    """What an arm without a rate in the middle carries at the best end of its range."""
    if not arm.within.high:
        return ""
    how = f"with {gamma_words(arm)}" if arm.gamma else "without speculation"
    return (
        f"At the best end of its range a replica carries {significant(arm.within.high)} requests/s "
        f"{how}: measure what a request alone takes first."
    )


def _carries(found: Capacity) -> str:
    """The largest rate of one replica in both arms."""
    plain, ours = found.plain, found.speculative
    before = f"{span(plain.within, significant)} requests/s"
    if found.gamma == 0:
        return f"One replica carries {before}{promise(found)}, without speculation."
    if not plain.within.value:
        before = "none"
    return (
        f"{open_words(ours, plain)}One replica carries {span(ours.within, significant)} requests/s"
        f"{promise(found)} with {gamma_words(found.speculative)}, {before} without."
    )


def open_words(ours: Arm, plain: Arm) -> str:
    """That it is open which arm carries more."""
    change = ours.within.with_(plain.within, lambda now, before: now - before)
    if change.low is None or change.high is None or not change.low < 0.0 < change.high:
        return ""
    return "Measure first, it is open whether speculation carries more. "


def _best(found: Capacity, kinds: Sequence[str]) -> str:
    """What a request alone takes, of what is missed."""
    ours, plain = found.speculative, found.plain
    of, before = _whose(ours, kinds), _whose(plain, kinds)
    if found.gamma == 0:
        return f"a request{before} alone takes {_time(plain, found)}."
    with_draft = f"{_time(ours, found)} with {gamma_words(ours)}"
    other = f"one{before} " if before != of else ""
    return f"a request{of} alone takes {with_draft} and {other}{_time(plain, found)} without."


def _alone(arm: Arm, found: Capacity, kinds: Sequence[str] = ()) -> str:
    """That one arm has no rate within what is promised."""
    how = f"With {gamma_words(arm)}" if arm.gamma else "Without speculation"
    of = _whose(arm, kinds)
    said = f"{how} no rate is low enough: a request{of} alone takes {_time(arm, found)}."
    return " ".join(filter(None, (said, _at_best(arm))))


def _whose(arm: Arm, kinds: Sequence[str]) -> str:
    """Of which kind the request is that misses what is promised: " of code"; "" where all are
    alike."""
    if arm.missed is None:
        return ""
    at = arm.missed.part
    return f" of {kinds[at]}" if kinds else f" of kind {at + 1}"


def _time(arm: Arm, found: Capacity) -> str:
    """What limits a request alone, of the kind that misses what is promised."""
    if arm.missed is not None:
        name, seconds = arm.missed.name, arm.missed.alone
        asked = f" (promised: {significant(1e3 * arm.missed.promised)})" if found.apart else ""
        return f"{_in_ms(seconds)} ms {PROMISED[name]}{asked}"
    assert arm.limit != "memory"
    assert arm.limit != "time"
    return f"{_in_ms(getattr(arm.alone, arm.limit))} ms {PROMISED[arm.limit]}"


def _in_ms(seconds: Estimate) -> str:
    return span(seconds.map(lambda s: 1e3 * s), significant)


def _moving(arm: Arm) -> str:
    """That most of a whole request that takes too long is its cache's way between the pools; ""
    where it is not."""
    missed, pool = arm.missed, arm.prefill.pool if arm.prefill else None
    if pool is None or pool.moved is None or (missed.name if missed else arm.limit) != "e2e":
        return ""
    whole = missed.alone if missed else arm.alone.e2e
    moved = float(pool.moved[missed.part]) if missed else pool.moving
    if moved is None or moved < MOST * whole.value:
        return ""
    return (
        f"{significant(moved)} s of it are the transfer of its cache between the pools: a faster "
        "link would help."
    )


MOST = 0.5
"""Share of a time from which one part of it is the larger."""


def _gpus(arm: Arm) -> str:
    """Replicas and their GPUs, the middle and the range; of two pools the GPUs of each."""
    assert arm.replicas is not None
    if arm.prefill is not None:
        return f"{all_gpus_words(arm)} ({pools_words(arm)})"
    if arm.gpus == 1:
        return f"{span(arm.replicas, _whole)} GPU{'' if _one(arm.replicas) else 's'}"
    assert arm.all_gpus is not None
    many = "replica" if _one(arm.replicas) else "replicas"
    return f"{span(arm.replicas, _whole)} {many} ({_whole(arm.all_gpus.value)} GPUs)"


def _one(number: Estimate) -> bool:
    return number.value == 1 and number.high in (None, 1)


def _month(arm: Arm) -> str:
    return "" if arm.usd_per_month is None else f": {usd(arm.usd_per_month.value)} a month"


def _bills(ours: Arm, plain: Arm) -> str:
    now, before = ours.usd_per_month, plain.usd_per_month
    if now is None or before is None:
        return ", dollars unknown until the price of a GPU hour is given"
    if now.value == before.value:
        return f": {usd(now.value)} a month either way"
    saved = before.with_(now, fewer)
    return f": {usd(now.value)} a month instead of {usd(before.value)}{_saved(saved)}"


def _saved(dollars: Estimate) -> str:
    """The range of what a month costs less, with what both arms share left out."""
    low, high = dollars.low, dollars.high
    if low is None or high is None or low == high:
        return ""
    if math.isinf(low) or math.isinf(high):
        least = low if low > 0.0 else -high
        return f", at least {usd(least)} {'less' if low > 0.0 else 'more'}" if least > 0.0 else ""
    if low >= 0.0:
        return f", {usd(low)} to {usd(high)} less"
    if high <= 0.0:
        return f", {usd(-high)} to {usd(-low)} more"
    return f", from {usd(-low)} more to {usd(high)} less"


def _whole(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"


# ── beside it ────────────────────────────────────────────────────────────────────────────────


def limits_sentence(found: Capacity, kinds: Sequence[str] = ()) -> str:
    """What limits a replica, in each arm; `kinds` as of `capacity_sentence`."""
    arms = [found.plain] if found.gamma == 0 else [found.speculative, found.plain]
    told = [_limited(found, arm, kinds) for arm in arms]
    return " ".join([*told, *(prefill_sentence(arm) for arm in arms[:1] if arm.prefill)])


def _limited(found: Capacity, arm: Arm, kinds: Sequence[str]) -> str:
    how = f"With {gamma_words(arm)}" if arm.gamma else "Without speculation"
    if not arm.within.value:
        return _alone(arm, found, kinds)
    rate = f"{significant(arm.within.value)} requests/s"
    held = count(arm.held, "sequence")
    if arm.limit == "memory":
        return f"{how} memory limits a replica at {rate}: {held} fill it."
    if arm.limit == "time":
        return (
            f"{how} time limits a replica at {rate}: more than the {held} that memory holds would "
            "hardly carry more."
        )
    assert arm.full is not None
    used = f"{arm.full.use:.0%} of the {significant(arm.most.value)} that it carries at all"
    return f"{how} the {LIMITS[arm.limit]} limits a replica at {rate}, {used}."


def crossover_sentence(found: Capacity) -> str:
    """From which rate on speculation is slower, and what a schedule gains."""
    if found.gamma == 0:
        return "Choose a γ to see what speculation does."
    drafts = gamma_words(found.speculative)
    if found.crossover == 0.0:
        return f"{drafts} is slower at every rate."
    surely = (
        f"It surely is faster, at the low end of its range too, up to {significant(found.surely)} "
        "requests/s." if found.surely
        else "At the low end of its range it is faster at no rate."
    )  # fmt: skip
    middle = f"In the middle of its range {drafts} is faster"
    if found.crossover is None:
        return f"{middle} at every rate up to {JUDGED:.0%} of what both arms carry. {surely}"
    at = f"{significant(found.crossover)} requests/s of one replica"
    said = f"{middle} below {at}, and slower above. {surely}"
    switched = found.switched
    assert switched is not None
    if not switched.within.value:
        return said
    return (
        f"{said} Turned off there, a replica carries {significant(switched.within.value)} "
        f"requests/s{promise(found)}, and is faster while load is low."
    )


def table_remarks(found: Capacity) -> tuple[str, ...]:
    """What must be known of the numbers of the table."""
    arms = (found.plain, found.speculative, found.switched)
    open_ended = any(
        arm is not None and arm.replicas is not None and math.isinf(arm.replicas.high or 0.0)
        for arm in arms
    )
    return (*((NO_END,) if open_ended else ()), *pool_remarks(found))


def by_gamma_sentence(found: Capacity) -> str:
    """The γ that carries most, in the middle of the range."""
    most, within = found.by_gamma
    best = int(np.argmax(within))
    if not within[best]:
        return f"At no γ is a rate low enough{promise(found)}."
    limit = LIMITS[found.limits[best]]
    return (
        f"In the middle of the range γ={best} carries most: {significant(float(within[best]))} "
        f"requests/s{promise(found)}, limited by {limit}; at full load "
        f"γ={int(np.argmax(most))} does. 0 is plain decoding."
    )


LONG_PROMPTS = (
    "A prompt of that length takes many steps, and who comes waits for a place in memory too, "
    "which is not in it: against the simulation the first token of 16,000 tokens is 9% short at "
    "half of the largest rate, 22% at three quarters and 58% at nine tenths (docs/simulate.md)."
)


def capacity_notes(found: Capacity) -> tuple[str, ...]:
    """What the capacity rests on, and what is not in it."""
    notes = [
        "Means: requests come at random, prompts and outputs are of one length unless it is said "
        "how they spread. Bursts make queues that are not in it, so that near the largest rate "
        "times are too low: headroom is for them. One request in a hundred takes longer still: "
        "Slow requests (p99).",
        "A server that is slower than computed is fuller as well: ranges widen with the rate.",
        "Sequences are limited by memory alone: an engine's own limit (max_num_seqs) may be lower.",
    ]
    s = found.scenario
    if s.target_ms is not None or s.run_ms is not None:
        notes.append(
            "A measured time stands for its load: at every rate all times are off by the same "
            "factor as there."
        )
    notes += pool_notes(found)
    for name in ("prefill_tensor_parallel", "transfer_gb_per_second"):
        if s.decode_only != "yes" and getattr(s, name) is not None:
            notes.append(f"{SPECS[name].label} is of decode-only workers, and is not used here.")
    fresh = (s.prompt_tokens or 0) * (1.0 - s.prefix_hit)
    if s.decode_only != "yes" and fresh > s.chunk_tokens / 2:
        notes.append(LONG_PROMPTS)
    if found.demand is not None:
        assumed = s.headroom == type(s).model_fields["headroom"].default
        notes.append(
            f"{s.headroom:.0%} of the largest rate of each replica is kept free"
            f"{' (assumed)' if assumed else ''}; requests are spread evenly over replicas."
        )
    if found.switched is not None:
        notes.append(
            "Off is taken to cost nothing: an engine whose drafter stays loaded loses some of it, "
            "and its memory holds the draft."
        )
    if not found.slo:
        names = ", ".join(SPECS[f"slo_{name}_ms"].label.lower() for name in PROMISED)
        notes.append(f"Nothing is promised ({names}): the largest rates are those at full load.")
    return tuple(notes)
