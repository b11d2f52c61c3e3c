"""llama.cpp beside its log: `timings` of responses, metrics page, llama-speculative's summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specmath.logs.counts import Tally, make_reading
from specmath.logs.engines.base import Node, counts_in, number_in, object_in, text_in
from specmath.logs.engines.llamacpp.log import GREEDY, Request, Requests, timed
from specmath.logs.engines.page import DraftCounters, Page, scraped
from specmath.logs.engines.prometheus import Change
from specmath.logs.engines.served import ServedNames
from specmath.logs.reading import Channel, Extras, Lane, Reading
from specmath.logs.service import Latency, Service
from specmath.logs.stream import LogLine

_COUNTERS = DraftCounters("llamacpp:spec_decode_")
_GENERATED, _SECONDS = "llamacpp:tokens_predicted", "llamacpp:tokens_predicted_seconds"
_NAMES = ServedNames(
    running=("llamacpp:requests_processing",),
    waiting=("llamacpp:requests_deferred",),
    kv_use=("llamacpp:kv_cache_usage_ratio",),
)
_SUMMARY = re.compile(r"^(n_draft|n_predict|n_drafted|n_accept)\s{0,6}=\s{0,6}(\d{1,15})$")
_DECODED = re.compile(
    r"^decoded\s{1,8}(\d{1,12}) tokens in\s{1,8}(\d{1,9}\.\d{1,6}) seconds, speed:"
)
MOST_OPEN = 64
NO_STEPS = (
    "verify steps are not printed here: tokens per pass covers passes with and without a draft"
)


class LlamaApi(Page):
    """Responses are added up; so are the summaries of llama-speculative runs."""

    name = "llama.cpp"
    prefix = "llamacpp:"
    marks = (
        b"llamacpp:", b'timings"', b"draft_n",
        b"n_draft ", b"n_predict ", b"n_drafted ", b"n_accept ",
        b" seconds, speed: ",
    )  # fmt: skip
    empty = "llama.cpp metrics in which nothing was drafted"
    names = _NAMES

    def begin(self) -> None:
        self._responses = _Responses()
        self._summary: dict[str, int] = {}
        self._runs = Tally()
        self._predicted = 0
        self._run_gammas: set[int] = set()
        self._decoded = [0, 0.0]

    def line(self, text: str, at: LogLine) -> None:
        super().line(text, at)
        if found := _DECODED.match(text):
            self._decoded[0] += int(found[1])
            self._decoded[1] += float(found[2])
        if found := _SUMMARY.match(text):
            name, value = found.group(1), int(found.group(2))
            if name in self._summary:
                self._end_run(at)
            self._summary[name] = value
            if name == "n_accept":
                self._end_run(at)

    def _end_run(self, at: LogLine) -> None:
        run, self._summary = self._summary, {}
        if not {"n_drafted", "n_accept"} <= run.keys():
            return
        drafted, accepted, predicted = run["n_drafted"], run["n_accept"], run.get("n_predict", 0)
        if accepted > drafted or (predicted and accepted > predicted):
            self.notes.add("a llama-speculative summary contradicts itself: left out", at)
            return
        self._runs.add(at.line, steps=0, drafted=drafted, accepted=accepted)
        self._predicted += predicted
        if "n_draft" in run and len(self._run_gammas) < 64:
            self._run_gammas.add(run["n_draft"])

    def document(self, node: Node, at: LogLine) -> bool:
        timings = object_in(node, "timings") or (node if "draft_n" in node else None)
        tokens, *told = counts_in(timings, "predicted_n", "draft_n", "draft_n_accepted")
        if timings is None or "draft_rounds" in timings or tokens is None:
            return False
        if node.get("stop") is False:
            return True  # one chunk of a stream; its last one repeats the totals
        drafted, accepted = (count or 0 for count in told)
        if accepted > min(drafted, tokens):
            self.notes.add("a response whose counts contradict each other was left out", at)
            return True
        milliseconds = number_in(timings, "predicted_ms") or 0.0
        request = Request(at, tokens, milliseconds, accepted, drafted)
        greedy = number_in(object_in(node, "generation_settings"), "temperature") == 0.0
        self._responses.add(text_in(node, "id", 1000), request, greedy)
        return True

    def readings(self) -> Iterator[Reading]:
        yield from super().readings()
        yield from self._responses.readings(self.gamma)
        if self._runs.drafted:
            yield self._speculative()

    def served(self, total: Change, steps: Sequence[Change]) -> Service:
        tokens, seconds = (total.total(name) or 0.0 for name in (_GENERATED, _SECONDS))
        found = super().served(total, steps)
        return replace(found, tpot=Latency(seconds / tokens)) if tokens and seconds else found

    def plain(self) -> Iterator[Reading]:
        yield from super().plain()
        all_ = self._responses
        yield from timed("response timings", all_.timed_tokens, all_.seconds, all_.timed)

    def page(self, lane: Lane, total: Change, steps: Sequence[Change]) -> Reading | None:
        warnings = [GREEDY]
        counts = _COUNTERS.counts(total, warnings)
        if not counts.drafted:
            return None
        generated, accepted, passes = total.count(_GENERATED), counts.accepted, None
        if generated is not None and accepted is not None and generated > accepted:
            passes = generated - accepted
            warnings.append(
                "coverage is a lower bound: each request's first token comes from its prompt, and "
                "the page does not count requests"
            )
        gamma = counts.gamma or self.gamma
        counts = replace(counts, gamma=gamma, generated=generated, passes=passes)
        facts = {"decode_seconds": total.total(_SECONDS)}
        extras = Extras(_COUNTERS.windows(steps), facts=facts)
        return make_reading(scraped("llama.cpp", steps), counts, extras, warnings)

    def _speculative(self) -> Reading:
        runs, gammas = self._runs, self._run_gammas
        passes = self._predicted - runs.accepted if self._predicted else None
        counts = runs.counts(
            gamma=self.gamma or (min(gammas) if len(gammas) == 1 else None),
            generated=self._predicted or None, passes=passes or None,
        )  # fmt: skip
        channel = Channel("llama.cpp", "llama-speculative summary")
        tokens, seconds = self._decoded
        speed = tokens / seconds if seconds else None
        warnings = [GREEDY, NO_STEPS]
        if speed:
            warnings.append(f"{speed:.3f} tokens per second is the speed of these runs")
        facts = {"decode_seconds": seconds or None, "tokens_per_second": speed}
        facts["passes"] = None if passes is None else float(passes)
        return make_reading(channel, counts, Extras(facts=facts), warnings)

    def without(self) -> str | None:
        if self._responses.plain:
            return f"{self._responses.plain} llama.cpp responses without draft_n: none drafted"
        return super().without()


class _Responses(Requests):
    """`timings` of responses; of a stream's chunks with one id only the last counts."""

    def __init__(self) -> None:
        super().__init__("response timings", "accepted_share")
        self.timed = self.timed_tokens = 0
        self.all_greedy = True
        self._open: dict[str, Request] = {}

    def add(self, identity: str | None, request: Request, greedy: bool) -> None:
        """One response or chunk."""
        self.all_greedy = self.all_greedy and greedy
        if identity is None:
            self._end(request)
            return
        self._open[identity] = request
        if len(self._open) > MOST_OPEN:
            self._end(self._open.pop(next(iter(self._open))))

    def _end(self, request: Request) -> None:
        if request.tokens and request.milliseconds > 0:
            self.timed += 1
            self.timed_tokens += request.tokens
        else:
            request.milliseconds = 0.0
        drafted, accepted = self.decoded(request)
        if drafted:
            self.spread.add(accepted / drafted)
            self.tally.add(request.at.line, steps=0, drafted=drafted, accepted=accepted)

    def readings(self, gamma: int | None) -> Iterator[Reading]:
        """All responses as one reading, or none where none drafted."""
        while self._open:
            self._end(self._open.pop(next(iter(self._open))))
        if not self.tally.drafted:
            return
        warnings = [NO_STEPS] if self.all_greedy else [GREEDY, NO_STEPS]
        if gamma is None and self.passes:
            fewest = 1.0 + self.tally.accepted / self.passes
            warnings.append(f"tokens per step is at least {fewest:.2f} (every pass had a draft)")
        yield self.made(self.tally.counts(gamma=gamma), Extras(), warnings)
