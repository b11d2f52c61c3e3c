"""mlx-lm's token stream (`from_draft` of each token) and mlx-vlm's response timings.

mlx-lm drafts from the first token on: a step is a run of drafted tokens and the one that ends it.
"""

from __future__ import annotations

from collections.abc import Iterator

from specmath.logs.counts import make_reading, survival_of
from specmath.logs.engines.base import (
    Node,
    Parser,
    count_in,
    counts_in,
    drafter,
    object_in,
    text_in,
)
from specmath.logs.reading import Channel, Counts, Reading
from specmath.logs.stream import LogLine

LONGEST_RUN = 255


class Mlx(Parser):
    """Runs of drafted tokens make a histogram; mlx-vlm's rounds are added up by draft kind."""

    name = "mlx-lm"
    marks = (b"from_draft", b"draft_rounds")
    empty = "{} mlx-vlm responses that drafted nothing"

    def begin(self) -> None:
        self._runs: dict[int, int] = {}
        self._run = self._tokens = 0
        self._number: int | None = None

    def document(self, node: Node, at: LogLine) -> bool:
        if isinstance(node.get("from_draft"), bool):
            self._token(node, bool(node["from_draft"]), at)
            return True
        timings = object_in(node, "timings")
        if timings and "draft_rounds" in timings:
            self._rounds(timings, at)
            return True
        return False

    def _token(self, node: Node, drafted: bool, at: LogLine) -> None:
        number = count_in(node, "generation_tokens")
        if number is not None and self._number is not None and number <= self._number:
            self._end_stream(at)
        self._number = number
        self._tokens += 1
        if drafted:
            self._run += 1
        else:
            run = min(self._run, LONGEST_RUN)
            self._runs[run] = self._runs.get(run, 0) + 1
            self._run = 0
        if isinstance(node.get("finish_reason"), str):
            self._end_stream(at)

    def _end_stream(self, at: LogLine) -> None:
        """A stream that ends inside a run leaves that step out: its end was not seen."""
        if self._run:
            self.notes.add("a stream ends inside a step: that step was left out", at)
        self._run, self._number = 0, None

    def _rounds(self, timings: Node, at: LogLine) -> None:
        keys = ("draft_rounds", "draft_n", "draft_n_accepted")
        rounds, drafted, accepted = counts_in(timings, *keys)
        if not rounds or not drafted or accepted is None:
            self.undrafted += 1
            return
        name = text_in(timings, "draft_kind")
        name = "unnamed" if name is None else name
        self.total(drafter("mlx-vlm", "response timings", name), name).add(
            at, steps=rounds, drafted=drafted, accepted=accepted,
            gamma=drafted // rounds if drafted % rounds == 0 else None,
            generated=count_in(timings, "predicted_n"),
        )  # fmt: skip

    def readings(self) -> Iterator[Reading]:
        if any(self._runs):
            yield self._stream()
        yield from super().readings()

    def _stream(self) -> Reading:
        longest = max(self._runs)
        length = self.gamma if self.gamma and self.gamma >= longest else longest
        histogram = [float(self._runs.get(run, 0)) for run in range(length + 1)]
        steps = sum(self._runs.values())
        accepted = sum(run * count for run, count in self._runs.items())
        warnings = []
        if self.gamma is None:
            warnings.append(
                f"the draft length is not printed: gamma {longest} is the longest run; were drafts "
                f"longer, α would be {accepted / (accepted + steps):.3f}"
            )
        elif self.gamma < longest:
            warnings.append(f"a run of {longest} drafted tokens is longer than gamma {self.gamma}")
        if self._run:
            warnings.append("the stream ends inside a step: that step was left out")
        warnings.append(
            "mlx-lm builds without speculative sampling accept a draft only if the target samples "
            "the same token: at a temperature above 0 that is not the paper's α"
        )
        counts = Counts(
            steps, steps * length if self.gamma else None, accepted, survival_of(histogram),
            generated=self._tokens, passes=steps, histogram=True,
        )  # fmt: skip
        return make_reading(Channel("mlx-lm", "token stream"), counts, warnings=warnings)

    def without(self) -> str | None:
        if self._tokens:
            return f"an mlx-lm stream of {self._tokens} tokens, none from a draft"
        return super().without()
