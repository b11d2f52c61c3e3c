"""Ollama's MLX runner: `speculative decode stats`, one line a request.

`iterations` counts plain rounds too, and `avg_accepted` leaves out the bonus token. Builds that
print `mismatches` and `all_accepted` tell the rounds that had a draft: every one ends in either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from specmath.logs.counts import Spread, Tally, make_reading
from specmath.logs.engines.base import Node, Parser, count_in, counts_in, text_in, timestamp
from specmath.logs.estimate import binomial_alpha
from specmath.logs.reading import Channel, Extras, Reading
from specmath.logs.stream import LogLine

_TITLE = "speculative decode stats"
_FIELD = re.compile(
    r"\b(drafted|accepted|iterations|mismatches|all_accepted|max_draft)=(\d{1,15})(?![\d.])"
)


class Ollama(Parser):
    """Requests are added up; those without `mismatches` make a reading without steps."""

    name = "ollama"
    marks = (_TITLE.encode(),)
    empty = "{} Ollama requests that drafted nothing"

    def begin(self) -> None:
        self._tally = Tally()
        self._spread = Spread("accepted_share")
        self._passes = self._rejected = self._longest = 0
        self._told = True

    def line(self, text: str, at: LogLine) -> None:
        if _TITLE in text:
            fields: dict[str, object] = {k: int(v) for k, v in _FIELD.findall(text)}
            if fields:
                self._add(fields, text, at)

    def document(self, node: Node, at: LogLine) -> bool:
        if node.get("msg") != _TITLE:
            return False
        self._add(node, text_in(node, "time", 200) or "", at)
        return True

    def _add(self, fields: Node, text: str, at: LogLine) -> None:
        drafted, accepted, passes, rejected, whole = counts_in(
            fields, "drafted", "accepted", "iterations", "mismatches", "all_accepted"
        )
        if drafted is None or accepted is None or passes is None:
            self.notes.add("a 'speculative decode stats' line is cut off: left out", at)
            return
        steps = None if rejected is None or whole is None else rejected + whole
        bad = accepted > drafted or passes > 10**9
        if steps is not None:
            bad = bad or steps > passes or accepted + (rejected or 0) > drafted
        if bad:
            self.notes.add("a 'speculative decode stats' line contradicts itself: left out", at)
            return
        self._passes += passes
        if not drafted:
            self.undrafted += 1
            return
        self._told = self._told and steps is not None
        self._rejected += rejected or 0
        self._longest = max(self._longest, count_in(fields, "max_draft") or 0)
        self._spread.add(accepted / drafted)
        self._tally.add(
            at.line, timestamp(text), steps=steps or 0, drafted=drafted, accepted=accepted
        )

    def readings(self) -> Iterator[Reading]:
        tally = self._tally
        if not tally.drafted:
            return
        told = self._told and tally.steps > 0
        warnings = ["avg_accepted leaves out the bonus token and averages over plain rounds too"]
        alpha = None
        if told:
            trials, text = tally.accepted + self._rejected, "accepted and rejected tokens counted"
            alpha = binomial_alpha(tally.accepted, trials, "rejections counted", text)
        else:
            warnings.append("rounds with a draft are not told apart from plain rounds")
        counts = tally.counts(
            steps=told, gamma=self.gamma or self._longest or None,
            generated=self._passes + tally.accepted, passes=self._passes or None,
        )  # fmt: skip
        extras = Extras(tally.windows(2), self._spread.requests())
        yield make_reading(Channel("ollama", "MLX runner log"), counts, extras, warnings, alpha)
