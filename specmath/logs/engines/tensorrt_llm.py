"""TensorRT-LLM: iteration statistics, metrics page and per-request metrics.

iteration   specDecodingStats: D, A and the requests that had a draft (its steps);
            acceptanceLength = (A + requests) / requests; draftOverhead = drafting / iteration
metrics     totals, gauges of the last iteration, and counters by token_position
request     D and A; avg_decoded_tokens_per_iter gives γ where (τ − 1) D / A is whole
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specmath.logs.counts import Tally, both, falling_rates, make_reading
from specmath.logs.engines.base import Node, count_in, counts_in, number_in, object_in, text_in
from specmath.logs.engines.page import Page, scraped
from specmath.logs.engines.prometheus import Change
from specmath.logs.engines.served import ServedNames
from specmath.logs.reading import Channel, Counts, Extras, Lane, Reading
from specmath.logs.service import Meter
from specmath.logs.stream import LogLine

_PREFIX = "trtllm_spec_decode_"
_DRAFTED, _ACCEPTED = _PREFIX + "num_draft_tokens", _PREFIX + "num_accepted_tokens"
_LENGTH, _OVERHEAD = _PREFIX + "acceptance_length", _PREFIX + "draft_overhead"
_DRAFTED_AT, _ACCEPTED_AT = _PREFIX + "drafted_tokens", _PREFIX + "accepted_tokens"
_NAMES = ServedNames(
    ttft=("trtllm_time_to_first_token_seconds",),
    tpot=("trtllm_time_per_output_token_seconds",),
    e2e=("trtllm_e2e_request_latency_seconds",),
    queue=("trtllm_request_queue_time_seconds",),
    running=("trtllm_num_requests_running", "trtllm_num_active_requests"),
    waiting=("trtllm_num_requests_waiting", "trtllm_num_queued_requests",
             "trtllm_server_queue_length"),
    kv_use=("trtllm_kv_cache_utilization",),
    hit_share=("trtllm_kv_cache_hit_rate",),
    requests=("trtllm_request_success",),
    prompt_tokens=("trtllm_prompt_tokens",),
    generated=("trtllm_generation_tokens",),
)  # fmt: skip


class TensorRt(Page):
    """Iterations are windows; requests are added up."""

    name = "tensorrt-llm"
    prefix = "trtllm_"
    marks = (b"trtllm_", b"specDecodingStats", b"iterLatencyMS")
    empty = "TensorRT-LLM statistics in which nothing was drafted"
    gauges = (_DRAFTED, _ACCEPTED, _LENGTH, _OVERHEAD)
    names = _NAMES

    def begin(self) -> None:
        self._tally = Tally()
        self._passes: int | None = 0
        self._draft_ms = self._step_ms = 0.0
        self._timed = self._lengths = 0
        self._iteration: int | None = None
        self._meter = Meter()

    def document(self, node: Node, at: LogLine) -> bool:
        timed = self._load(node)
        if (block := object_in(node, "specDecodingStats")) is not None:
            self._step(node, block, at)
        elif (metrics := object_in(node, "request_perf_metrics")) is not None:
            self._request(node, object_in(metrics, "speculative_decoding"), at)
        else:
            return timed
        return True

    def _load(self, node: Node) -> bool:
        """What ran in one iteration, and how fast; whether `node` is one."""
        step, load = number_in(node, "iterLatencyMS"), object_in(node, "inflightBatchingStats")
        if step is None or step <= 0 or load is None:
            return False
        cache = object_in(node, "kvCacheStats")
        running, each, prompts = (
            _or_nan(load, key)
            for key in ("numGenRequests", "avgNumDecodedTokensPerIter", "numCtxTokens")
        )
        used, blocks = _or_nan(cache, "usedNumBlocks"), _or_nan(cache, "maxNumBlocks")
        self._meter.add(
            running, _or_nan(node, "numQueuedRequests"), used / (blocks or math.nan),
            _or_nan(cache, "cacheHitRate"), 1e3 * running * each / step, 1e3 * prompts / step,
            weight=step,
        )  # fmt: skip
        return True

    def _step(self, node: Node, block: Node, at: LogLine) -> None:
        iteration, last = count_in(node, "iter"), self._iteration
        if iteration is not None and last is not None and iteration > last + 1:
            self.notes.add("iterations are missing here (the queue keeps 1000 between reads)", at)
        self._iteration = iteration
        drafted, accepted, steps = counts_in(
            block, "numDraftTokens", "numAcceptedTokens", "numRequestsWithDraftTokens"
        )
        running = count_in(object_in(node, "inflightBatchingStats"), "numGenRequests")
        self._passes = both(self._passes, running)
        if not drafted or not steps or accepted is None:
            self.undrafted += 1
            return
        if accepted > drafted or steps > drafted:
            self.notes.add("an iteration whose counts contradict each other was left out", at)
            return
        length = number_in(block, "acceptanceLength")
        if length is not None and abs(length - 1.0 - accepted / steps) > 0.006:
            self.notes.add("acceptanceLength is not 1 + accepted / requests: counts used", at)
        self._lengths = max(self._lengths, -(-drafted // steps))
        when = text_in(node, "timestamp")
        self._tally.add(at.line, when, steps=steps, drafted=drafted, accepted=accepted)
        draft, step = number_in(block, "iterLatencyMS"), number_in(node, "iterLatencyMS")
        if draft is not None and step is not None and 0 <= draft < step:
            self._draft_ms, self._step_ms = self._draft_ms + draft, self._step_ms + step
            self._timed += 1

    def _request(self, node: Node, block: Node | None, at: LogLine) -> None:
        keys = ("total_draft_tokens", "total_accepted_draft_tokens")
        drafted, accepted = counts_in(block, *keys)
        length = number_in(node, "avg_decoded_tokens_per_iter")
        if not drafted or accepted is None:
            self.undrafted += 1
            if block is not None and length is not None and length > 1.0:
                self.notes.add(
                    f"the counts are zero although {length:.3g} tokens came an iteration: the "
                    "PyTorch path did not fill them before PR 17082",
                    at,
                )
            return
        steps = _whole_steps(drafted, accepted, length)
        gamma = drafted // steps if steps else None
        total = self.total(Channel("tensorrt-llm", "request metrics"))
        total.add(at, steps=steps, drafted=drafted, accepted=accepted, gamma=gamma)

    def readings(self) -> Iterator[Reading]:
        if self._tally.drafted:
            yield replace(self._iterations(), service=self._meter.service())
        yield from super().readings()

    def plain(self) -> Iterator[Reading]:
        yield from super().plain()
        service = self._meter.service()
        if service.speed_told:
            channel = Channel("tensorrt-llm", "iteration statistics, no speculation")
            yield make_reading(channel, Counts(), Extras(service=service))

    def _iterations(self) -> Reading:
        counts = self._tally.counts(gamma=self.gamma or self._lengths, passes=self._passes)
        channel = Channel("tensorrt-llm", "iteration statistics")
        extras = Extras(self._tally.windows())
        if not self._timed:
            return make_reading(channel, counts, extras)
        seconds, share = self._draft_ms / self._timed / 1000.0, self._draft_ms / self._step_ms
        extras = replace(extras, draft_seconds=seconds, draft_share=share)
        text = "draft time is taken as part of the iteration latency it is printed in"
        return make_reading(channel, counts, extras, [text])

    def page(self, lane: Lane, total: Change, steps: Sequence[Change]) -> Reading | None:
        reached, given = total.by_position(_ACCEPTED_AT), total.by_position(_DRAFTED_AT)
        drafted, accepted = total.count(_DRAFTED), total.count(_ACCEPTED)
        warnings = []
        if not drafted and _DRAFTED in total.gauges:
            drafted = round(total.gauges[_DRAFTED])
            accepted = round(total.gauges.get(_ACCEPTED, 0.0))
            warnings.append("draft and accepted tokens are gauges here: the last iteration only")
        begun = survival = None
        if given and given[0] > 0 and len(reached) == len(given):
            survival = falling_rates(given[0], reached)
            if survival is None:
                warnings.append("accepted tokens rise with the position: positions not used")
            else:
                begun, drafted, accepted = given[0], round(sum(given)), round(sum(reached))
        length, overhead = total.gauges.get(_LENGTH), total.gauges.get(_OVERHEAD)
        if not drafted and (length is None or length < 1.0):
            return None
        if drafted and (accepted or 0) > drafted:
            self.notes.add("more tokens accepted than drafted: counts not used", total.at)
            drafted = accepted = None
        if begun is None and length is not None:
            warnings.append("acceptance_length is a gauge: it tells the last iteration only")
        counts = Counts(
            begun, drafted, accepted, survival, self.gamma,
            length if length is not None and length >= 1.0 else None,
        )  # fmt: skip
        share = overhead if overhead is not None and overhead < 1.0 else None
        channel = scraped("tensorrt-llm", steps)
        return make_reading(channel, counts, Extras(draft_share=share), warnings)


def _or_nan(node: Node | None, key: str) -> float:
    value = number_in(node, key)
    return math.nan if value is None else value


def _whole_steps(drafted: int, accepted: int, length: float | None) -> int | None:
    """N = D/γ where γ = (τ − 1) D / A comes out whole (within 1%) and divides D."""
    if length is None or length <= 1.0 or accepted == 0:
        return None
    gamma = (length - 1.0) * drafted / accepted
    nearest = round(gamma)
    if nearest < 1 or abs(gamma - nearest) > 0.01 * nearest or drafted % nearest:
        return None
    return drafted // nearest
