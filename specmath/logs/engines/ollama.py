"""Ollama's MLX runner: `speculative decode stats`, one line a request.

`iterations` counts plain rounds too, and `avg_accepted` leaves out the bonus token. Builds that
print `mismatches` and `all_accepted` tell the rounds that had a draft: every one ends in either.
"""

from __future__ import annotations

import re

from specmath.logs.engine import Engine, Node, Parser, count_in, timestamp
from specmath.logs.estimate import binomial_alpha
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.tally import Spread, Tally, make_reading

__all__ = ["ENGINE"]

_TITLE = "speculative decode stats"
_FIELD = re.compile(
    r"\b(drafted|accepted|iterations|mismatches|all_accepted|max_draft)=(\d{1,15})(?![\d.])"
)


class Ollama(Parser):
    """Requests are added up; those without `mismatches` make a reading without steps."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._tally = Tally()
        self._spread = Spread("accepted_share")
        self._passes = self._rejected = self._longest = self._plain = 0
        self._told = True

    def line(self, text: str, at: Place) -> None:
        if _TITLE in text:
            fields: dict[str, object] = {k: int(v) for k, v in _FIELD.findall(text)}
            if fields:
                self._add(fields, text, at)

    def document(self, node: Node, at: Place) -> bool:
        if node.get("msg") != _TITLE:
            return False
        when = node.get("time")
        self._add(node, when if isinstance(when, str) else "", at)
        return True

    def _add(self, fields: Node, text: str, at: Place) -> None:
        drafted, accepted = count_in(fields, "drafted"), count_in(fields, "accepted")
        passes = count_in(fields, "iterations")
        if drafted is None or accepted is None or passes is None:
            self.notes.add("a 'speculative decode stats' line is cut off: left out", at)
            return
        rejected, whole = count_in(fields, "mismatches"), count_in(fields, "all_accepted")
        steps = None if rejected is None or whole is None else rejected + whole
        bad = accepted > drafted or passes > 10**9
        if steps is not None:
            bad = bad or steps > passes or accepted + (rejected or 0) > drafted
        if bad:
            self.notes.add("a 'speculative decode stats' line contradicts itself: left out", at)
            return
        self._passes += passes
        if not drafted:
            self._plain += 1
            return
        self._told = self._told and steps is not None
        self._rejected += rejected or 0
        self._longest = max(self._longest, count_in(fields, "max_draft") or 0)
        self._spread.add(accepted / drafted)
        self._tally.add(
            steps=steps or 0,
            drafted=drafted,
            accepted=accepted,
            line=at.line,
            when=timestamp(text),
        )

    def readings(self) -> list[Reading]:
        tally = self._tally
        if not tally.drafted:
            return []
        told = self._told and tally.steps > 0
        warnings = ["avg_accepted leaves out the bonus token and averages over plain rounds too"]
        alpha = None
        if told:
            trials = tally.accepted + self._rejected
            alpha = binomial_alpha(tally.accepted, trials, "accepted and rejected tokens counted")
        else:
            warnings.append("rounds with a draft are not told apart from plain rounds")
        return [
            make_reading(
                "ollama",
                "MLX runner log",
                steps=tally.steps if told else None,
                drafted=tally.drafted,
                accepted=tally.accepted,
                gamma=self.gamma or self._longest or None,
                generated=self._passes + tally.accepted,
                passes=self._passes or None,
                alpha=alpha,
                windows=tally.series.windows() if self._spread.count > 1 else (),
                requests=self._spread.requests(),
                warnings=warnings,
            )
        ]

    def without(self) -> str | None:
        return f"{self._plain} Ollama requests that drafted nothing" if self._plain else None


ENGINE = Engine("ollama", (b"speculative decode stats",), Ollama)
