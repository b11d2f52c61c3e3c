"""Two pools in sentences: who decodes and who reads prompts, and the same on one pool."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from specmath.capacity import Arm, Capacity
from specmath.checks import FloatArray
from specmath.estimate import Estimate
from specmath.numbers import count, significant, usd
from specmath.prefill_pool import QUEUE_SHARE, PrefillPool

__all__ = ["APART", "TOGETHER", "all_gpus_words", "fewer", "moved_words", "pool_notes",
           "pool_remarks", "pools_words", "prefill_sentence", "span",
           "together_sentence"]  # fmt: skip

APART, TOGETHER = "Two pools", "One pool"
"""Who reads the prompts, in a cell."""


def span(number: Estimate, show: Callable[[float | None], str]) -> str:
    """The middle with its range in brackets."""
    middle, low, high = show(number.value), number.low, number.high
    if low is None or high is None:
        return middle
    if math.isinf(high):
        return f"{middle} ({show(low)} or more)"
    ends = dict.fromkeys((show(low), show(high)))
    return middle if list(ends) == [middle] else f"{middle} ({' to '.join(ends)})"


def _whole(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"


def _ms(seconds: float | None) -> str:
    return significant(None if seconds is None else 1e3 * seconds)


def fewer(now: FloatArray, before: FloatArray) -> FloatArray:
    """How many more now than before; none where either is without end."""
    same = np.equal(now, before)
    return np.where(same, 0.0, np.where(same, 0.0, now) - np.where(same, 0.0, before))


def all_gpus_words(arm: Arm) -> str:
    """GPUs of both pools: "12 (10 to 15) GPUs"."""
    assert arm.all_gpus is not None
    return f"{span(arm.all_gpus, _whole)} GPUs"


def pools_words(arm: Arm) -> str:
    """GPUs of each pool: "8 decode, 4 read prompts"."""
    assert arm.decoding_gpus is not None
    assert arm.prefill is not None
    assert arm.prefill.all_gpus is not None
    decode, read = arm.decoding_gpus.value, arm.prefill.all_gpus.value
    return f"{_whole(decode)} decode, {_whole(read)} read prompts"


def prefill_sentence(arm: Arm) -> str:
    """What a worker that reads an arm's prompts carries, what limits it, and the first token."""
    assert arm.prefill is not None
    pool = arm.prefill.pool
    reads = f"{span(pool.prompt, _ms)} ms a prompt"
    if not pool.within.value:
        return f"A worker that reads prompts takes {reads}: no rate of it is low enough."
    rate = f"{span(pool.within, significant)} requests/s"
    by = {
        "ttft": ", within the time to the first token",
        "e2e": ", within its share of a whole request",
    }.get(pool.limit, ", busy all the time")
    free = 1.0 - pool.planned.value / pool.within.value
    first = f"with {free:.0%} of that kept free the first token comes after"
    return (
        f"A worker that reads prompts takes {reads} and carries {rate}{by}; {first} "
        f"{span(pool.first, _ms)} ms."
    )


def pool_remarks(found: Capacity) -> tuple[str, ...]:
    """What must be known of the numbers of two pools."""
    if found.speculative.prefill is None:
        return ()
    return (moved_words(found),)


def moved_words(found: Capacity) -> str:
    """What moves between the pools, and whether its time is counted."""
    plain, ours = found.plain.prefill, found.speculative.prefill
    assert plain is not None
    assert ours is not None
    size = _bytes(ours.pool)
    if found.gamma and _bytes(plain.pool) != size:
        size = f"{size} with the draft's, {_bytes(plain.pool)} without"
    moving, link = ours.pool.moving, found.scenario.transfer_gb_per_second
    if moving is None:
        return (
            f"Each request's cache, {size}, moves between the pools. Its time is in no number "
            "until you say how fast (Cache transfer)."
        )
    return (
        f"Each request's cache, {size}, moves between the pools in {_ms(moving)} ms at "
        f"{significant(link)} GB/s, before its second token: in the time of a whole request."
    )


def _bytes(pool: PrefillPool) -> str:
    return f"{significant(pool.mean_bytes / 1e6)} MB"


def pool_notes(found: Capacity) -> tuple[str, ...]:
    """What two pools rest on."""
    prefill, s = found.speculative.prefill, found.scenario
    if prefill is None:
        return ()
    gpus = count(prefill.pool.gpus, "GPU")
    assumed = "" if s.prefill_tensor_parallel else " (assumed: as many as decode)"
    queue = (
        "requests come at random and are spread evenly; a step reads all that came in the one "
        "before it, which end together, where it has room for several, else one after another"
    )
    told = [
        f"Prompts are read by workers of {gpus}{assumed}, of the kind that decode: {queue}. They "
        "emit the first token; with speculation the draft reads the prompt as well.",
        "First tokens and whole requests over the rate of a replica that decodes are with the "
        "other workers at their largest rate within what is promised; those of the tables of GPUs "
        "have the same share of it kept free as of replicas, before whole workers are counted.",
        "Not in it: a router that knows which worker is idle (waits would be shorter), a cache of "
        "prefixes that one worker has and another has not, a transfer that overlaps with reading "
        "or slows a step, links that requests share, how much cache a worker holds until it has "
        "moved. One pool beside two drafts the same γ.",
    ]
    if "e2e" in found.slo or prefill.pool.limit == "e2e":
        told.append(
            "Of a whole request as promised, prompts may wait as long as the mean prompt takes, "
            f"and no longer than {QUEUE_SHARE:.0%} of what reading and moving it leave; decoding "
            "has the rest."
        )
    return tuple(told)


def together_sentence(found: Capacity, together: Capacity) -> str:
    """The same demand on replicas that read their own prompts, in both arms; "" where no demand is
    given."""
    if found.demand is None:
        return ""
    pairs = [(found.plain, together.plain)]
    if found.gamma:
        pairs.insert(0, (found.speculative, together.speculative))
    return " ".join(_beside(apart, one) for apart, one in pairs)


def _beside(apart: Arm, one: Arm) -> str:
    how = f"With γ={apart.gamma}" if apart.gamma else "Without speculation"
    if apart.all_gpus is None or one.all_gpus is None:
        if one.all_gpus is None and apart.all_gpus is None:
            return f"{how} neither two pools nor one keep what is promised."
        keeps, none = ("one pool", "two pools") if apart.all_gpus is None else (
            "two pools", "one pool")  # fmt: skip
        return f"{how} {keeps} alone can keep what is promised; {none} cannot at any rate."
    more = one.all_gpus.with_(apart.all_gpus, lambda before, now: fewer(now, before))
    own, count = "replicas that read their own prompts", _whole(apart.all_gpus.value)
    said = f"{how} two pools take {count} GPUs, as many as {own}"
    if more.value:
        which = "more" if more.value > 0 else "fewer"
        said = (
            f"{how} two pools take {count} GPUs, {_whole(abs(more.value))} {which} than the "
            f"{_whole(one.all_gpus.value)} of {own}"
        )
    said += _bills(apart, one)
    is_open = more.low is not None and more.high is not None and more.low < 0 < more.high
    return f"{said}; which takes fewer is open." if is_open else f"{said}."


def _bills(apart: Arm, one: Arm) -> str:
    now, before = apart.usd_per_month, one.usd_per_month
    if now is None or before is None:
        return ""
    if now.value == before.value:
        return f" ({usd(now.value)} a month)"
    return f" ({usd(now.value)} a month against {usd(before.value)})"
