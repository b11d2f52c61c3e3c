"""TensorRT-LLM: iteration statistics, metrics page and per-request metrics.

iteration   specDecodingStats: D, A and the requests that had a draft (its steps);
            acceptanceLength = (A + requests) / requests; draftOverhead = drafting / iteration
metrics     totals, gauges of the last iteration, and counters by token_position
request     D and A; avg_decoded_tokens_per_iter gives γ where (τ − 1) D / A is whole
"""

from __future__ import annotations

from specmath.logs.engine import Engine, Node, Parser, count_in, number_in
from specmath.logs.notes import Notes, Place
from specmath.logs.prometheus import Change, Scrapes
from specmath.logs.record import Reading
from specmath.logs.requests import RequestSum
from specmath.logs.tally import Tally, make_reading

__all__ = ["ENGINE"]

_PREFIX = "trtllm_spec_decode_"
_DRAFTED, _ACCEPTED = _PREFIX + "num_draft_tokens", _PREFIX + "num_accepted_tokens"
_LENGTH, _OVERHEAD = _PREFIX + "acceptance_length", _PREFIX + "draft_overhead"
_DRAFTED_AT, _ACCEPTED_AT = _PREFIX + "drafted_tokens", _PREFIX + "accepted_tokens"


class TensorRt(Parser):
    """Iterations are windows; requests are added up."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._scrapes = Scrapes(notes, gauges=(_DRAFTED, _ACCEPTED, _LENGTH, _OVERHEAD))
        self._tally = Tally()
        self._passes: int | None = 0
        self._draft_ms = self._step_ms = 0.0
        self._timed = self._lengths = 0
        self._iteration: int | None = None
        self._requests = RequestSum(notes)
        self._zero = False

    def line(self, text: str, at: Place) -> None:
        if text.startswith(_PREFIX):
            self._scrapes.add(text, at)

    def document(self, node: Node, at: Place) -> bool:
        if isinstance(node.get("specDecodingStats"), dict):
            self._step(node, node["specDecodingStats"], at)  # type: ignore[arg-type]
        elif isinstance(node.get("request_perf_metrics"), dict):
            self._request(node, node["request_perf_metrics"], at)  # type: ignore[arg-type]
        else:
            return False
        return True

    def _step(self, node: Node, block: Node, at: Place) -> None:
        iteration = count_in(node, "iter")
        if (
            iteration is not None
            and self._iteration is not None
            and iteration > self._iteration + 1
        ):
            self.notes.add("iterations are missing here (the queue keeps 1000 between reads)", at)
        self._iteration = iteration
        drafted, accepted = count_in(block, "numDraftTokens"), count_in(block, "numAcceptedTokens")
        steps = count_in(block, "numRequestsWithDraftTokens")
        self._count_passes(node)
        if not drafted or not steps or accepted is None:
            self._zero = True
            return
        if accepted > drafted or steps > drafted:
            self.notes.add("an iteration whose counts contradict each other was left out", at)
            return
        length = number_in(block, "acceptanceLength")
        if length is not None and abs(length - 1.0 - accepted / steps) > 0.006:
            self.notes.add("acceptanceLength is not 1 + accepted / requests: counts used", at)
        self._lengths = max(self._lengths, -(-drafted // steps))
        when = node.get("timestamp")
        self._tally.add(
            steps=steps,
            drafted=drafted,
            accepted=accepted,
            line=at.line,
            when=when[:40] if isinstance(when, str) else None,
        )
        draft, step = number_in(block, "iterLatencyMS"), number_in(node, "iterLatencyMS")
        if draft is not None and step is not None and 0 <= draft < step:
            self._draft_ms, self._step_ms = self._draft_ms + draft, self._step_ms + step
            self._timed += 1

    def _count_passes(self, node: Node) -> None:
        batch = node.get("inflightBatchingStats")
        running = count_in(batch, "numGenRequests") if isinstance(batch, dict) else None
        whole = running is not None and self._passes is not None
        self._passes = (self._passes or 0) + (running or 0) if whole else None

    def _request(self, node: Node, metrics: Node, at: Place) -> None:
        block = metrics.get("speculative_decoding")
        if not isinstance(block, dict):
            self._zero = True
            return
        drafted = count_in(block, "total_draft_tokens")
        accepted = count_in(block, "total_accepted_draft_tokens")
        length = number_in(node, "avg_decoded_tokens_per_iter")
        if not drafted or accepted is None:
            self._zero = True
            if length is not None and length > 1.0:
                self.notes.add(
                    f"the counts are zero although {length:.3g} tokens came an iteration: the "
                    "PyTorch path did not fill them before PR 17082",
                    at,
                )
            return
        steps = _whole_steps(drafted, accepted, length)
        gamma = drafted // steps if steps else None
        self._requests.add(at, steps=steps, drafted=drafted, accepted=accepted, gamma=gamma)

    def readings(self) -> list[Reading]:
        found = []
        if self._tally.drafted:
            found.append(self._iterations())
        for total, steps in self._scrapes.changes().values():
            if (reading := self._metrics(total, bool(steps))) is not None:
                found.append(reading)
        request = self._requests.reading("tensorrt-llm", "request metrics", gamma=self.gamma)
        return found + ([request] if request is not None else [])

    def _iterations(self) -> Reading:
        timed = self._timed > 0
        warnings = []
        if timed:
            warnings.append("draft time is taken as part of the iteration latency it is printed in")
        return make_reading(
            "tensorrt-llm",
            "iteration statistics",
            steps=self._tally.steps,
            drafted=self._tally.drafted,
            accepted=self._tally.accepted,
            gamma=self.gamma or self._lengths,
            passes=self._passes,
            windows=self._tally.series.windows(),
            draft_seconds=self._draft_ms / self._timed / 1000.0 if timed else None,
            draft_share=self._draft_ms / self._step_ms if timed else None,
            warnings=warnings,
        )

    def _metrics(self, total: Change, between: bool) -> Reading | None:
        at_position, given = total.by_position(_ACCEPTED_AT), total.by_position(_DRAFTED_AT)
        drafted, accepted = total.count(_DRAFTED), total.count(_ACCEPTED)
        warnings = []
        if not drafted and _DRAFTED in total.gauges:
            drafted = round(total.gauges[_DRAFTED])
            accepted = round(total.gauges.get(_ACCEPTED, 0.0))
            warnings.append("draft and accepted tokens are gauges here: the last iteration only")
        steps = survival = None
        if given and given[0] > 0 and len(at_position) == len(given):
            chain = [given[0], *at_position]
            if all(chain[i] >= chain[i + 1] for i in range(len(at_position))):
                steps, drafted, accepted = given[0], round(sum(given)), round(sum(at_position))
                survival = [count / steps for count in at_position]
            else:
                warnings.append("accepted tokens rise with the position: positions not used")
        length, overhead = total.gauges.get(_LENGTH), total.gauges.get(_OVERHEAD)
        if not drafted and (length is None or length < 1.0):
            self._zero = True
            return None
        if drafted and (accepted or 0) > drafted:
            self.notes.add("more tokens accepted than drafted: counts not used", total.at)
            drafted = accepted = None
        if steps is None and length is not None:
            warnings.append("acceptance_length is a gauge: it tells the last iteration only")
        return make_reading(
            "tensorrt-llm",
            "Prometheus, change between scrapes" if between else "Prometheus, since start",
            steps=steps,
            drafted=drafted,
            accepted=accepted,
            tokens_per_step=length if length is not None and length >= 1.0 else None,
            survival=survival,
            gamma=self.gamma,
            draft_share=overhead if overhead is not None and overhead < 1.0 else None,
            warnings=warnings,
        )

    def without(self) -> str | None:
        return "TensorRT-LLM statistics in which nothing was drafted" if self._zero else None


def _whole_steps(drafted: int, accepted: int, length: float | None) -> int | None:
    """N = D/γ where γ = (τ − 1) D / A comes out whole (within 1%) and divides D."""
    if length is None or length <= 1.0 or accepted == 0:
        return None
    gamma = (length - 1.0) * drafted / accepted
    nearest = round(gamma)
    if nearest < 1 or abs(gamma - nearest) > 0.01 * nearest or drafted % nearest:
        return None
    return drafted // nearest


ENGINE = Engine(
    "tensorrt-llm",
    (b"trtllm_spec_decode_", b"specDecodingStats"),
    TensorRt,
)
