"""SGLang's metrics, request records, server info and benchmark results.

A request's printed length is completion_tokens / verify_ct, which counts the token that prefill
gave: τ here is (completion_tokens − 1) / verify_ct, or 1 + A/N where the counts are printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from specmath.logs.counts import Spread, make_reading
from specmath.logs.engines.base import Node, counts_in, number_in, numbers_in, text_in
from specmath.logs.engines.bench import UNTOLD, Bench, facts_of
from specmath.logs.engines.page import Page, scraped
from specmath.logs.engines.prometheus import Change
from specmath.logs.engines.served import ServedNames
from specmath.logs.reading import Channel, Counts, Extras, Lane, Reading, Shape
from specmath.logs.stream import LogLine

_VERIFY, _GENERATED = "sglang:spec_verify_calls", "sglang:generation_tokens"
_REQUESTS = "sglang:num_requests"
_LENGTH, _RATE = "sglang:spec_accept_length", "sglang:spec_accept_rate"
_STEPS, _TOKENS = "sglang:spec_num_steps", "sglang:spec_num_draft_tokens"
_NAMES = ServedNames(
    ttft=("sglang:time_to_first_token_seconds",),
    # A gap that brought k tokens is observed k times, its k-th part each.
    gap=("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
    gap_per_token=True,
    e2e=("sglang:e2e_request_latency_seconds",),
    queue=("sglang:queue_time_seconds",),
    running=("sglang:num_running_reqs",),
    waiting=("sglang:num_queue_reqs",),
    kv_use=("sglang:token_usage",),
    generated_per_second=("sglang:gen_throughput",),
    hit_share=("sglang:cache_hit_rate",),
    preemptions=("sglang:num_retracted_requests", "sglang:num_retracted_reqs"),
    requests=(_REQUESTS,),
    prompt_tokens=("sglang:prompt_tokens",),
    generated=(_GENERATED,),
)
# Newest names first; the old ones are kept as aliases of the same counts.
_ERAS = (
    ("newest, 2026", "spec_num_correct_drafts", "spec_num_proposed_drafts"),
    ("2026", "spec_accepted_drafts", "spec_proposed_drafts"),
    ("2025-10", "spec_accept_token_num", "spec_draft_token_num"),
)


def _shape(topk: float | None, tokens: float | None, depth: float | None) -> Shape:
    """A tree where a step holds more draft tokens than its depth and root."""
    return "tree" if (topk or 1) > 1 or (tokens and depth and tokens > depth + 1) else "chain"


class SglangApi(Bench, Page):
    """Requests are added up by era; every benchmark result is a reading of its own."""

    name = "sglang"
    prefix = "sglang:"
    marks = (
        b"sglang:",
        b"spec_verify_ct", b"avg_spec_accept_length", b"accept_length",
        b"Serving Benchmark Result", b":        ",
    )  # fmt: skip
    empty = "SGLang records without a verify step"
    gauges = (_LENGTH, _RATE, _STEPS, _TOKENS)
    names = _NAMES
    sglang = True
    forms = ("bench_serving JSONL", "bench_serving stdout")

    def begin(self) -> None:
        super().begin()
        self._steps = self._generated = 0
        self._per_step = Spread("tokens_per_step")

    def document(self, node: Node, at: LogLine) -> bool:
        if "spec_verify_ct" in node:
            self._request(node, at)
        elif isinstance(states := node.get("internal_states"), list):
            self._server(node, states)
        else:
            return super().document(node, at)
        return True

    def _request(self, node: Node, at: LogLine) -> None:
        steps, generated = counts_in(node, "spec_verify_ct", "completion_tokens")
        if not steps:
            self.undrafted += 1
            return
        for era, *keys in _ERAS:
            accepted, drafted = counts_in(node, *keys)
            if accepted is None or drafted is None:
                continue
            gamma = drafted // steps if drafted % steps == 0 else None
            counts = node.get("spec_correct_drafts_histogram", node.get("spec_accept_histogram"))
            self.total(Channel("sglang", f"meta_info ({era})")).add(
                at, steps=steps, drafted=drafted, accepted=accepted, gamma=gamma,
                histogram=numbers_in(counts), generated=generated, passes=steps,
            )  # fmt: skip
            return
        if generated is not None and generated > steps:
            self._steps += steps
            self._generated += generated
            self._per_step.add((generated - 1) / steps)  # prefill gave the first token
        else:
            self.notes.add("a request with more verify steps than tokens was left out", at)

    def _server(self, node: Node, states: list[object]) -> None:
        lengths = [number_in(s, "avg_spec_accept_length") for s in states if isinstance(s, dict)]
        good = [length for length in lengths if length is not None and length >= 1.0]
        if not good:
            self.undrafted += 1
            return
        keys = ("num_draft_tokens", "num_steps", "eagle_topk")
        tokens, steps, topk = counts_in(node, *(f"speculative_{key}" for key in keys))
        warnings = ["the length is a mean since the server started"]
        if len(good) > 1:
            warnings.append(f"plain mean over {len(good)} schedulers: their steps are not told")
        gamma = self.gamma or steps or ((tokens or 1) - 1 or None)
        extras = Extras(facts={"algorithm": text_in(node, "speculative_algorithm", 1000)})
        shape = _shape(topk, tokens, steps)
        channel = Channel("sglang", "server info (since start)", shape, since_start=True)
        counts = Counts(gamma=gamma, tokens_per_step=sum(good) / len(good))
        self.keep(make_reading(channel, counts, extras, warnings))

    def result(self, node: Node, form: str, at: LogLine) -> Reading:
        length, extras = number_in(node, "accept_length"), Extras(facts=facts_of(node))
        if length is not None and length >= 1.0:
            counts = Counts(gamma=self.gamma, tokens_per_step=length)
            return make_reading(Channel("sglang", form), counts, extras)
        if "accept_length" not in node:
            untold = replace(extras, facts={**(extras.facts or {}), "speculation": "unknown"})
            channel = Channel("sglang", f"{form}, speculation unknown")
            return make_reading(channel, Counts(), untold, [f"{at}: {UNTOLD}"])
        channel = Channel("sglang", f"{form}, no speculation")
        text = f"{at}: accept_length is empty: the run did not speculate"
        return make_reading(channel, Counts(), extras, [text])

    def readings(self) -> Iterator[Reading]:
        yield from super().readings()
        if self._steps:
            yield self._bare()

    def _bare(self) -> Reading:
        """Requests of 2025-01: verify steps and completion tokens only."""
        steps, generated, spread = self._steps, self._generated, self._per_step
        accepted = max(generated - spread.count - steps, 0)
        drafted = steps * self.gamma if self.gamma else None
        return make_reading(
            Channel("sglang", "meta_info (2025-01)"),
            Counts(steps, drafted, accepted, gamma=self.gamma, generated=generated),
            Extras(requests=spread.requests()),
            ["drafted tokens are not printed in this era"],
        )

    def page(self, lane: Lane, total: Change, steps: Sequence[Change]) -> Reading | None:
        verify, generated = total.count(_VERIFY), total.count(_GENERATED)
        requests = total.count(_REQUESTS)
        tokens, depth = total.gauges.get(_TOKENS), total.gauges.get(_STEPS)
        gamma = self.gamma or (round(depth) if depth else None)
        gamma = gamma or (round(tokens) - 1 if tokens and tokens >= 2 else None)
        shape = _shape(None, tokens, depth)
        if verify and generated is not None and generated >= verify:
            warnings = []
            if requests is None:
                warnings.append(
                    f"{_REQUESTS}_total is missing: the token that prefill gives each request is "
                    "counted as if a verify step had given it"
                )
            accepted = max(generated - (requests or 0) - verify, 0)
            drafted = verify * gamma if gamma and shape == "chain" else None
            counts = Counts(verify, drafted, accepted, gamma=gamma, generated=generated)
            return make_reading(scraped("sglang", steps, shape=shape), counts, warnings=warnings)
        length = total.gauges.get(_LENGTH)
        if length is None or length < 1.0:
            return None
        return make_reading(
            Channel("sglang", "Prometheus gauges (last log interval only)", shape),
            Counts(gamma=gamma, tokens_per_step=length),
            warnings=[
                f"gauges tell the last log interval only: scrape {_VERIFY}_total and "
                f"{_GENERATED}_total twice for a mean over time"
            ],
        )
