"""mlx-lm's token stream (`from_draft` of each token) and mlx-vlm's response timings.

mlx-lm drafts from the first token on: a step is a run of drafted tokens and the one that ends it.
"""

from __future__ import annotations

from specmath.logs.engine import Engine, Node, Parser, count_in
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.requests import RequestSum, survival_of
from specmath.logs.tally import make_reading

__all__ = ["ENGINE"]

LONGEST_RUN = 255


class Mlx(Parser):
    """Runs of drafted tokens make a histogram; mlx-vlm's rounds are added up by draft kind."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._runs: dict[int, int] = {}
        self._run = self._tokens = 0
        self._number: int | None = None
        self._kinds: dict[str, RequestSum] = {}
        self._plain = 0

    def document(self, node: Node, at: Place) -> bool:
        if isinstance(node.get("from_draft"), bool):
            self._token(node, bool(node["from_draft"]), at)
            return True
        timings = node.get("timings")
        if isinstance(timings, dict) and "draft_rounds" in timings:
            self._rounds(timings, at)
            return True
        return False

    def _token(self, node: Node, drafted: bool, at: Place) -> None:
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

    def _end_stream(self, at: Place) -> None:
        """A stream that ends inside a run leaves that step out: its end was not seen."""
        if self._run:
            self.notes.add("a stream ends inside a step: that step was left out", at)
        self._run, self._number = 0, None

    def _rounds(self, timings: Node, at: Place) -> None:
        rounds, drafted = count_in(timings, "draft_rounds"), count_in(timings, "draft_n")
        accepted = count_in(timings, "draft_n_accepted")
        if not rounds or not drafted or accepted is None:
            self._plain += 1
            return
        kind = timings.get("draft_kind")
        name = kind[:40] if isinstance(kind, str) else "unnamed"
        if name not in self._kinds and len(self._kinds) >= 64:
            return
        gamma = drafted // rounds if drafted % rounds == 0 else None
        self._kinds.setdefault(name, RequestSum(self.notes)).add(
            at,
            steps=rounds,
            drafted=drafted,
            accepted=accepted,
            gamma=gamma,
            generated=count_in(timings, "predicted_n"),
        )

    def readings(self) -> list[Reading]:
        found = [self._stream()] if any(self._runs) else []
        for kind, requests in self._kinds.items():
            reading = requests.reading(
                "mlx-vlm", "response timings", gamma=self.gamma, facts={"draft_kind": kind}
            )
            found += [reading] if reading is not None else []
        return found

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
        return make_reading(
            "mlx-lm",
            "token stream",
            steps=steps,
            drafted=steps * length if self.gamma else None,
            accepted=accepted,
            survival=survival_of(histogram),
            from_histogram=True,
            generated=self._tokens,
            passes=steps,
            warnings=warnings,
        )

    def without(self) -> str | None:
        if self._tokens:
            return f"an mlx-lm stream of {self._tokens} tokens, none from a draft"
        return f"{self._plain} mlx-vlm responses that drafted nothing" if self._plain else None


ENGINE = Engine("mlx-lm", (b"from_draft", b"draft_rounds"), Mlx)
