"""What a metrics page tells of latency and load: one table of names an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specmath.logs.engines.prometheus import Change
from specmath.logs.service import NO_SERVICE, Latency, Service, of_buckets

__all__ = ["ServedNames", "served"]

Names = tuple[str, ...]
"""The names that versions gave one quantity; the first that the page holds is read."""


@dataclass(frozen=True)
class ServedNames:
    """An engine's names: histograms in seconds, gauges, counters without `_total`.

    `gap` is the histogram of gaps between chunks. Where `gap_per_token` a gap that brought k
    tokens was observed k times, its k-th part each: its mean is a time per token.
    `hits` and `queries` count tokens of the prefix cache; `hit_share` is a gauge of their ratio.
    """

    ttft: Names = ()
    tpot: Names = ()
    gap: Names = ()
    e2e: Names = ()
    queue: Names = ()
    running: Names = ()
    waiting: Names = ()
    kv_use: Names = ()
    generated_per_second: Names = ()
    hit_share: Names = ()
    hits: Names = ()
    queries: Names = ()
    preemptions: Names = ()
    requests: Names = ()
    prompt_tokens: Names = ()
    generated: Names = ()
    gap_per_token: bool = False

    @property
    def gauges(self) -> Names:
        """What stands at a value instead of counting up."""
        return (*self.running, *self.waiting, *self.kv_use, *self.generated_per_second,
                *self.hit_share)  # fmt: skip


def served(total: Change, names: ServedNames, scrapes: int = 1) -> Service:
    """What a page tells, as change over its scrapes or as totals since the start."""
    gap = _histogram(total, names.gap)
    tpot = _histogram(total, names.tpot)
    requests, generated = (_first(total, of) for of in (names.requests, names.generated))
    if tpot is None and gap is not None:
        tpot = gap if names.gap_per_token else _by_tokens(gap, requests, generated)
    prompts = _first(total, names.prompt_tokens)
    hits, queries = _first(total, names.hits), _first(total, names.queries)
    preempted = _first(total, names.preemptions)
    found = Service(
        ttft=_histogram(total, names.ttft),
        tpot=tpot,
        itl=None if names.gap_per_token else gap,
        e2e=_histogram(total, names.e2e),
        queue=_histogram(total, names.queue),
        running=_level(total, names.running),
        waiting=_level(total, names.waiting),
        kv_use=_level(total, names.kv_use),
        generated_per_second=_level(total, names.generated_per_second),
        prefix_hits=hits / queries
        if hits is not None and queries
        else _level(total, names.hit_share),
        preemptions=None if preempted is None else round(preempted),
        requests=None if not requests else round(requests),
        prompt_tokens=prompts / requests if prompts and requests else None,
        output_tokens=generated / requests if generated and requests else None,
    )
    return replace(found, samples=scrapes) if found != NO_SERVICE else found


def _by_tokens(gap: Latency, requests: float | None, generated: float | None) -> Latency | None:
    """Time per token from the gaps between chunks: their sum over the tokens after the first."""
    if not requests or not generated or generated <= requests or gap.mean is None or not gap.count:
        return None
    return Latency(gap.mean * gap.count / (generated - requests), count=gap.count)


def _first(total: Change, names: Sequence[str]) -> float | None:
    return next((value for name in names if (value := total.total(name)) is not None), None)


def _level(total: Change, names: Sequence[str]) -> float | None:
    return next((value for name in names if (value := total.level(name)) is not None), None)


def _histogram(total: Change, names: Sequence[str]) -> Latency | None:
    for name in names:
        below = total.at_places(f"{name}_bucket")
        found = of_buckets(total.total(f"{name}_sum"), total.total(f"{name}_count"), below)
        if found is not None:
            return found
    return None
