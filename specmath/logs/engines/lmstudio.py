"""LM Studio: prediction statistics of the SDK and of the REST API.

Its documentation prints accepted / predicted, the share of the *output* that was drafted. Accepted
over verified drafts is another number. Ignored drafts were never verified.
"""

from __future__ import annotations

from specmath.logs.engine import Engine, Node, Parser, count_in
from specmath.logs.notes import Notes, Place
from specmath.logs.record import Reading
from specmath.logs.tally import Spread, Tally, make_reading

__all__ = ["ENGINE"]

_TOTAL = ("totalDraftTokensCount", "total_draft_tokens_count")
_ACCEPTED = ("acceptedDraftTokensCount", "accepted_draft_tokens_count")
_REJECTED = ("rejectedDraftTokensCount", "rejected_draft_tokens_count")
_IGNORED = ("ignoredDraftTokensCount", "ignored_draft_tokens_count")
_PREDICTED = ("predictedTokensCount", "predicted_tokens_count")


class LmStudio(Parser):
    """Responses with and without the number of predicted tokens are added up apart."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._sums = {"SDK statistics": _Sum(), "REST statistics": _Sum()}
        self._plain = 0

    def document(self, node: Node, at: Place) -> bool:
        stats = node.get("stats")
        if not isinstance(stats, dict):
            return False
        if not any(key in stats for key in (*_TOTAL, *_ACCEPTED)):
            plain = "tokens_per_second" in stats or "tokensPerSecond" in stats
            self._plain += plain
            return plain
        usage = node.get("usage")
        predicted = count_in(stats, *_PREDICTED)
        if predicted is None and isinstance(usage, dict):
            predicted = count_in(usage, "completion_tokens")
        accepted, rejected = count_in(stats, *_ACCEPTED), count_in(stats, *_REJECTED)
        total, ignored = count_in(stats, *_TOTAL), count_in(stats, *_IGNORED) or 0
        if accepted is None or (rejected is None and total is None):
            self.notes.add("statistics without accepted and rejected counts were left out", at)
            return True
        verified = accepted + rejected if rejected is not None else (total or 0) - ignored
        if verified < accepted or (predicted is not None and accepted > predicted):
            self.notes.add("statistics that contradict each other were left out", at)
            return True
        if total is not None and total != verified + ignored:
            self.notes.add("total drafts are not accepted + rejected + ignored", at)
        if verified == 0:
            self._plain += 1
            return True
        form = "SDK statistics" if any(key in stats for key in _TOTAL[:1] + _ACCEPTED[:1]) else None
        self._sums[form or "REST statistics"].add(accepted, verified, ignored, predicted, at)
        return True

    def readings(self) -> list[Reading]:
        readings = (one.reading(form, self.gamma) for form, one in self._sums.items())
        return [reading for reading in readings if reading is not None]

    def without(self) -> str | None:
        return f"{self._plain} LM Studio responses that drafted nothing" if self._plain else None


class _Sum:
    """Responses of one interface."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.spread = Spread("accepted_share")
        self.ignored = 0
        self.predicted: int | None = 0

    def add(
        self, accepted: int, verified: int, ignored: int, predicted: int | None, at: Place
    ) -> None:
        """One response."""
        self.tally.add(steps=0, drafted=verified, accepted=accepted, line=at.line)
        self.spread.add(accepted / verified)
        self.ignored += ignored
        whole = predicted is not None and self.predicted is not None
        self.predicted = (self.predicted or 0) + (predicted or 0) if whole else None

    def reading(self, form: str, gamma: int | None) -> Reading | None:
        """The sum, or None where nothing was drafted."""
        drafted, accepted = self.tally.drafted, self.tally.accepted
        if not drafted:
            return None
        warnings = [
            "verify steps are not printed: tokens per pass covers passes without a draft too"
        ]
        if self.ignored:
            warnings.append(
                f"{self.ignored} ignored drafts were never verified: not counted as drafted"
            )
        facts: dict[str, float | str | None] = {"ignored": float(self.ignored)}
        passes = None
        if self.predicted:
            facts["accepted_share_of_output"] = accepted / self.predicted
            passes = self.predicted - accepted
            warnings.append(
                f"LM Studio's own figure is accepted / predicted, {accepted / self.predicted:.1%} "
                f"of the output; accepted / verified drafts is {accepted / drafted:.1%}"
            )
        return make_reading(
            "lm-studio",
            form,
            drafted=drafted,
            accepted=accepted,
            gamma=gamma,
            generated=self.predicted,
            passes=passes or None,
            requests=self.spread.requests(),
            facts=facts,
            warnings=warnings,
        )


ENGINE = Engine("lm-studio", (b"raftTokensCount", b"draft_tokens_count"), LmStudio)
