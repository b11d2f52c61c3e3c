"""llama.cpp beside its log: `timings` of responses, metrics page, llama-speculative's summary."""

from __future__ import annotations

import re

from specmath.logs.engine import Engine, Node, Parser, count_in, number_in
from specmath.logs.engines.llamacpp import GREEDY
from specmath.logs.notes import Notes, Place
from specmath.logs.prometheus import Change, Scrapes
from specmath.logs.record import Reading, Window
from specmath.logs.tally import Spread, Tally, make_reading

__all__ = ["ENGINE"]

_SPEC = "llamacpp:spec_decode_"
_DRAFTS, _DRAFTED = _SPEC + "num_drafts", _SPEC + "num_draft_tokens"
_ACCEPTED, _AT_POSITION = _SPEC + "num_accepted_tokens", _SPEC + "num_accepted_tokens_per_pos"
_GENERATED, _SECONDS = "llamacpp:tokens_predicted", "llamacpp:tokens_predicted_seconds"
_SUMMARY = re.compile(r"^(n_draft|n_predict|n_drafted|n_accept)\s{0,6}=\s{0,6}(\d{1,15})$")
NO_STEPS = (
    "verify steps are not printed here: tokens per pass covers passes with and without a draft"
)


class LlamaApi(Parser):
    """Responses are added up; so are the summaries of llama-speculative runs."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._scrapes = Scrapes(notes)
        self._responses = _Responses()
        self._summary: dict[str, int] = {}
        self._runs = Tally()
        self._predicted = 0
        self._run_gammas: set[int] = set()
        self._zero = False

    def line(self, text: str, at: Place) -> None:
        if text.startswith("llamacpp:"):
            self._scrapes.add(text, at)
        elif found := _SUMMARY.match(text):
            name, value = found.group(1), int(found.group(2))
            if name in self._summary:
                self._end_run(at)
            self._summary[name] = value
            if name == "n_accept":
                self._end_run(at)

    def _end_run(self, at: Place) -> None:
        run, self._summary = self._summary, {}
        if not {"n_drafted", "n_accept"} <= run.keys():
            return
        drafted, accepted, predicted = run["n_drafted"], run["n_accept"], run.get("n_predict", 0)
        if accepted > drafted or (predicted and accepted > predicted):
            self.notes.add("a llama-speculative summary contradicts itself: left out", at)
            return
        self._runs.add(steps=0, drafted=drafted, accepted=accepted, line=at.line)
        self._predicted += predicted
        if "n_draft" in run and len(self._run_gammas) < 64:
            self._run_gammas.add(run["n_draft"])

    def document(self, node: Node, at: Place) -> bool:
        timings = node.get("timings")
        if not isinstance(timings, dict) or "draft_rounds" in timings:
            return False
        tokens = count_in(timings, "predicted_n")
        if tokens is None or "prompt_n" not in timings:
            return False
        if node.get("stop") is False:
            return True  # one chunk of a stream; its last one repeats the totals
        identity = node.get("id")
        settings = node.get("generation_settings")
        greedy = isinstance(settings, dict) and number_in(settings, "temperature") == 0.0
        drafted, accepted = count_in(timings, "draft_n"), count_in(timings, "draft_n_accepted")
        if (accepted or 0) > (drafted or 0) or (accepted or 0) > tokens:
            self.notes.add("a response whose counts contradict each other was left out", at)
            return True
        self._responses.add(
            identity if isinstance(identity, str) else None,
            (tokens, drafted or 0, accepted or 0, number_in(timings, "predicted_ms") or 0.0),
            greedy,
            at,
        )
        return True

    def readings(self) -> list[Reading]:
        found = []
        for total, steps in self._scrapes.changes().values():
            if total.count(_DRAFTED):
                found.append(self._metrics(total, steps))
            else:
                self._zero = True
        if (responses := self._responses.reading(self.gamma)) is not None:
            found.append(responses)
        if self._runs.drafted:
            found.append(self._speculative())
        return found

    def _metrics(self, total: Change, steps: list[Change]) -> Reading:
        drafts, drafted = total.count(_DRAFTS) or None, total.count(_DRAFTED) or 0
        accepted, counts = total.count(_ACCEPTED), total.by_position(_AT_POSITION)
        warnings, survival = [GREEDY], None
        if drafts and accepted is not None and counts:
            chain = [float(drafts), *counts]
            falling = all(chain[i] >= chain[i + 1] for i in range(len(counts)))
            if falling and abs(sum(counts) - accepted) <= 0.01 * max(accepted, 1):
                survival = tuple(count / drafts for count in counts)
            else:
                warnings.append("per-position counts do not match the totals: not used")
        generated = total.count(_GENERATED)
        passes: float | None = None
        if generated is not None and accepted is not None and generated > accepted:
            passes = generated - accepted
            warnings.append(
                "coverage is a lower bound: each request's first token comes from its prompt, and "
                "the page does not count requests"
            )
        return make_reading(
            "llama.cpp",
            "Prometheus, change between scrapes" if steps else "Prometheus, since start",
            steps=drafts,
            drafted=drafted,
            accepted=accepted,
            survival=survival,
            gamma=len(counts) or self.gamma,
            generated=generated,
            passes=passes,
            windows=_windows(steps) if len(steps) > 1 else (),
            facts={"decode_seconds": total.total.get(_SECONDS)},
            warnings=warnings,
        )

    def _speculative(self) -> Reading:
        runs = self._runs
        gammas = self._run_gammas
        gamma = self.gamma or (next(iter(gammas)) if len(gammas) == 1 else None)
        passes = self._predicted - runs.accepted if self._predicted else None
        return make_reading(
            "llama.cpp",
            "llama-speculative summary",
            drafted=runs.drafted,
            accepted=runs.accepted,
            gamma=gamma,
            generated=self._predicted or None,
            passes=passes or None,
            warnings=[GREEDY, NO_STEPS],
        )

    def without(self) -> str | None:
        if self._responses.count:
            return f"{self._responses.count} llama.cpp responses without draft_n: none drafted"
        return "llama.cpp metrics in which nothing was drafted" if self._zero else None


def _windows(steps: list[Change]) -> tuple[Window, ...]:
    tally = Tally()
    for change in steps:
        drafts, drafted = change.count(_DRAFTS), change.count(_DRAFTED)
        accepted = change.count(_ACCEPTED)
        if drafts and drafted is not None and accepted is not None:
            rates = tuple(count / drafts for count in change.by_position(_AT_POSITION))
            line = change.at.line if change.at else 0
            tally.add(steps=drafts, drafted=drafted, accepted=accepted, survival=rates, line=line)
    return tally.series.windows()


class _Responses:
    """`timings` of responses; of a stream's chunks with one id only the last counts."""

    def __init__(self) -> None:
        self.count = self.drafting = 0
        self.tally = Tally()
        self.tokens = 0
        self.passes = 0.0
        self.seconds = 0.0
        self.all_greedy = True
        self.spread = Spread("accepted_share")
        self._last: tuple[str | None, tuple[int, int, int, float], int] | None = None

    def add(
        self, identity: str | None, counts: tuple[int, int, int, float], greedy: bool, at: Place
    ) -> None:
        """One response or chunk: (tokens, drafted, accepted, milliseconds)."""
        if self._last is not None and (identity is None or self._last[0] != identity):
            self._end()
        self._last = (identity, counts, at.line)
        self.all_greedy = self.all_greedy and greedy

    def _end(self) -> None:
        if self._last is None:
            return
        (tokens, drafted, accepted, milliseconds), line = self._last[1], self._last[2]
        self._last = None
        self.count += 1
        self.tokens += tokens
        self.seconds += milliseconds / 1000.0
        self.passes += max(tokens - accepted - 1, 0)
        if drafted:
            self.drafting += 1
            self.spread.add(accepted / drafted)
            self.tally.add(steps=0, drafted=drafted, accepted=accepted, line=line)

    def reading(self, gamma: int | None) -> Reading | None:
        """All responses as one reading, or None where none drafted."""
        self._end()
        if not self.tally.drafted:
            return None
        warnings = [NO_STEPS] if self.all_greedy else [GREEDY, NO_STEPS]
        if gamma is None and self.passes:
            fewest = 1.0 + self.tally.accepted / self.passes
            warnings.append(f"tokens per step is at least {fewest:.2f} (every pass had a draft)")
        return make_reading(
            "llama.cpp",
            "response timings",
            drafted=self.tally.drafted,
            accepted=self.tally.accepted,
            gamma=gamma,
            generated=self.tokens,
            passes=self.passes or None,
            requests=self.spread.requests(),
            facts={
                "requests": float(self.count),
                "requests_without_draft": float(self.count - self.drafting),
                "decode_seconds": self.seconds or None,
            },
            warnings=warnings,
        )


ENGINE = Engine(
    "llama.cpp",
    (
        b"llamacpp:spec_",
        b"llamacpp:tokens_predicted_total",
        b"llamacpp:tokens_predicted_seconds_total",
        b'"timings"',
        b"n_draft ",
        b"n_predict ",
        b"n_drafted ",
        b"n_accept ",
    ),
    LlamaApi,
)
