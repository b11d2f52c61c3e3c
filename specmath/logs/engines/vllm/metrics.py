"""vLLM's Prometheus counters: v1 (`num_drafts`, per-position counts) and v0's gauges.

v0's counters were raised by running totals at every interval, so they are sums of sums: only its
two gauges are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specmath.logs.counts import make_reading
from specmath.logs.engines.page import DraftCounters, Page, scraped
from specmath.logs.engines.prometheus import Change
from specmath.logs.engines.served import ServedNames
from specmath.logs.estimate import Alpha
from specmath.logs.reading import FULL_DRAFT, Channel, Counts, Extras, Lane, Reading

_SPEC = "vllm:spec_decode_"
_COUNTERS = DraftCounters(_SPEC)
_DRAFTS = f"{_SPEC}num_drafts"
_GENERATED = "vllm:generation_tokens"
_REQUESTS = "vllm:request_success"
_NAMES = ServedNames(
    ttft=("vllm:time_to_first_token_seconds",),
    tpot=("vllm:request_time_per_output_token_seconds",),
    # One observation a chunk, under either name (the older one is a misnomer).
    gap=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    e2e=("vllm:e2e_request_latency_seconds",),
    queue=("vllm:request_queue_time_seconds",),
    running=("vllm:num_requests_running",),
    waiting=("vllm:num_requests_waiting",),
    kv_use=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    hits=("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    queries=("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    preemptions=("vllm:num_preemptions",),
    requests=(_REQUESTS,),
    prompt_tokens=("vllm:prompt_tokens",),
    generated=(_GENERATED,),
)
_V0_RATE = f"{_SPEC}draft_acceptance_rate"
_V0_EFFICIENCY = f"{_SPEC}efficiency"


class VllmMetrics(Page):
    """One dump gives totals since the start; two or more give the change between them."""

    name = "vllm"
    prefix = "vllm:"
    marks = (b"vllm:",)
    empty = "vLLM metrics in which nothing was drafted"
    gauges = (_V0_RATE, _V0_EFFICIENCY)
    names = _NAMES

    def page(self, lane: Lane, total: Change, steps: Sequence[Change]) -> Reading | None:
        gauges = {_V0_RATE, _V0_EFFICIENCY} & total.gauges.keys()
        v0 = gauges or total.total(f"{_SPEC}num_emitted_tokens") is not None
        if v0 and total.total(_DRAFTS) is None:
            return self._v0(total)
        warnings: list[str] = []
        counts = _COUNTERS.counts(total, warnings)
        if not counts.drafted:
            return None
        drafts, accepted = counts.steps, counts.accepted
        if drafts is None:
            warnings.insert(0, f"{_DRAFTS} is missing: without it the steps are unknown")
        given = total.by_position(f"{_SPEC}num_draft_tokens_per_pos")
        generated, passes = total.count(_GENERATED), None
        if generated is not None and accepted is not None:
            requests = total.count(_REQUESTS)
            passes = generated - accepted - (requests or 0)
            if requests is None and drafts and passes > drafts:
                warnings.append(
                    "coverage is a lower bound: the first token of a request comes from prefill "
                    f"and {_REQUESTS} is not in the dump"
                )
        if drafts and passes is not None and passes < drafts:
            warnings.append(
                "accepted tokens are counted before a stop or the length limit trims the output: "
                "up to gamma - 1 a request never reached the client"
            )
        full = FULL_DRAFT * (drafts or 0)
        if given and len(given) == counts.gamma and min(given) < full:
            warnings.append("drafts vary in length: not every step drafted every position")
        gamma = counts.gamma or self.gamma
        extras = Extras(_COUNTERS.windows(steps), facts={"model": lane.model})
        counts = replace(counts, gamma=gamma, generated=generated, passes=passes)
        return make_reading(scraped("vllm", steps, "v1 Prometheus"), counts, extras, warnings)

    def _v0(self, total: Change) -> Reading:
        rate, efficiency = total.gauges.get(_V0_RATE), total.gauges.get(_V0_EFFICIENCY)
        warnings = ["v0's counters are sums of running totals: ignored, its gauges were used"]
        length = None
        if efficiency is not None and self.gamma and efficiency <= 1.0:
            length = efficiency * (self.gamma + 1)
        elif efficiency is not None:
            warnings.append(
                f"tokens per step is system efficiency {efficiency:.4g} x (gamma + 1): give gamma"
            )
        good = rate is not None and rate <= 1.0
        return make_reading(
            Channel("vllm", "v0 Prometheus (gauges)"),
            Counts(gamma=self.gamma, tokens_per_step=length),
            Extras(facts={"system_efficiency": efficiency}),
            warnings,
            Alpha(rate, "per token", "per-token rate") if good else Alpha(),
        )
