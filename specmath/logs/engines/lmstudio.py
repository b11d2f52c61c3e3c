"""LM Studio: prediction statistics of the SDK and of the REST API.

Its documentation prints accepted / predicted, the share of the *output* that was drafted. Accepted
over verified drafts is another number. Ignored drafts were never verified. The app's own line under
an answer prints the same share: `Accepted 227/412 draft tokens (55.1%)`, 412 tokens in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from specmath.logs.counts import RequestSum, make_reading
from specmath.logs.engines.base import Node, Parser, count_in, object_in
from specmath.logs.reading import Channel, Counts, Extras, Reading
from specmath.logs.stream import LogLine, Notes

_TOTAL = ("totalDraftTokensCount", "total_draft_tokens_count")
_ACCEPTED = ("acceptedDraftTokensCount", "accepted_draft_tokens_count")
_REJECTED = ("rejectedDraftTokensCount", "rejected_draft_tokens_count")
_IGNORED = ("ignoredDraftTokensCount", "ignored_draft_tokens_count")
_PREDICTED = ("predictedTokensCount", "predicted_tokens_count")
_SPEED = re.compile(r"(?<![\w.])(\d{1,6}(?:\.\d{1,4})?) tok/sec\b")
_TOKENS = re.compile(r"(?<![\w./])(\d{1,9}) tokens\b")
_TOOK = re.compile(r"Accepted (\d{1,9})/(\d{1,9}) draft tokens(?: \((\d{1,3}(?:\.\d{1,2})?)%\))?")
_WITHOUT = re.compile(r"(?i)\b(?:without|no|plain|baseline)\b")


class LmStudio(Parser):
    """Responses of either interface are added up apart."""

    name = "lm-studio"
    marks = (b"raftTokensCount", b"draft_tokens_count", b" tok/sec", b" draft tokens (")
    empty = "{} LM Studio responses that drafted nothing"

    def begin(self) -> None:
        self._ignored = {Channel(self.name, f"{form} statistics"): 0 for form in ("SDK", "REST")}
        self._app = _App()

    def line(self, text: str, at: LogLine) -> None:
        self._app.line(text, at, self.notes)

    def document(self, node: Node, at: LogLine) -> bool:
        stats = object_in(node, "stats")
        if stats is None:
            return False
        if not any(key in stats for key in (*_TOTAL, *_ACCEPTED)):
            plain = "tokens_per_second" in stats or "tokensPerSecond" in stats
            self.undrafted += plain
            return plain
        predicted = count_in(stats, *_PREDICTED)
        if predicted is None:
            predicted = count_in(object_in(node, "usage"), "completion_tokens")
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
            self.undrafted += 1
            return True
        form = "SDK" if _TOTAL[0] in stats or _ACCEPTED[0] in stats else "REST"
        channel = Channel(self.name, f"{form} statistics")
        self._ignored[channel] += ignored
        self.total(channel).add(at, drafted=verified, accepted=accepted, generated=predicted)
        return True

    def readings(self) -> Iterator[Reading]:
        for channel, ignored in self._ignored.items():
            if self.total(channel).tally.drafted:
                yield self._reading(channel, self.total(channel), ignored)
        yield from self._app.readings(self.gamma)

    def plain(self) -> Iterator[Reading]:
        yield from self._app.plain()

    def _reading(self, channel: Channel, total: RequestSum, ignored: int) -> Reading:
        drafted, accepted = total.tally.drafted, total.tally.accepted
        warnings = [
            "verify steps are not printed: tokens per pass covers passes without a draft too"
        ]
        if ignored:
            warnings.append(f"{ignored} ignored drafts were never verified: not counted as drafted")
        share = passes = None
        if predicted := total.told["generated"]:
            share, passes = accepted / predicted, predicted - accepted
            warnings.append(
                f"LM Studio's own figure is accepted / predicted, {share:.1%} "
                f"of the output; accepted / verified drafts is {accepted / drafted:.1%}"
            )
        counts = total.tally.counts(gamma=self.gamma, generated=predicted, passes=passes or None)
        facts = {"ignored": float(ignored), "accepted_share_of_output": share}
        extras = Extras(requests=total.share.requests(), facts=facts)
        return make_reading(channel, counts, extras, warnings)


class _App:
    """Lines of the app under its answers: tokens, speed, and the share of the answer that was
    drafted; an answer without a draft is a plain run beside them."""

    def __init__(self) -> None:
        self.accepted = self.drafted = self.generated = self.answers = 0
        self.share_of_output = True
        self._at: LogLine | None = None
        self._last: tuple[int | None, float | None] = (None, None)
        self._spec = [0.0, 0.0]
        self._without = [0.0, 0.0]

    def line(self, text: str, at: LogLine, notes: Notes) -> None:
        """One line; its speed may stand on the line before the accepted tokens."""
        speed, count, took = (one.search(text) for one in (_SPEED, _TOKENS, _TOOK))
        tokens = int(count[1]) if count else None
        per_second = float(speed[1]) if speed and float(speed[1]) > 0 else None
        if took is None:
            if per_second is not None:
                self._settle()
                self._last = (tokens, per_second)
                if _WITHOUT.search(text):
                    self._settle()
            return
        if speed is None:
            tokens, per_second = self._last
        else:
            self._settle()
        self._last = (None, None)
        accepted, over = int(took[1]), int(took[2])
        printed = float(took[3]) / 100.0 if took[3] else None
        if accepted > over or not over:
            notes.add("an answer whose draft tokens contradict each other was left out", at)
            return
        if printed is not None and abs(printed - accepted / over) > 0.0006:
            notes.add("the printed share is not accepted over its tokens: the counts were used", at)
        self._at = self._at or at
        self.accepted, self.answers = self.accepted + accepted, self.answers + 1
        of_output = tokens is None or tokens == over
        self.share_of_output &= of_output
        self.generated += over if of_output else tokens or 0
        self.drafted += 0 if of_output else over
        if per_second is not None:
            self._spec[0] += tokens or over
            self._spec[1] += (tokens or over) / per_second

    def _settle(self) -> None:
        """An answer after whose speed no draft tokens came: a plain one."""
        tokens, per_second = self._last
        if per_second is not None:
            self._without[0] += tokens or 1
            self._without[1] += (tokens or 1) / per_second
        self._last = (None, None)

    def _speeds(self) -> tuple[float | None, float | None]:
        self._settle()
        with_draft, without = (n / s if s else None for n, s in (self._spec, self._without))
        return with_draft, without

    def readings(self, gamma: int | None) -> Iterator[Reading]:
        """All answers that had a draft as one reading."""
        if not self.answers or self._at is None or self.generated <= self.accepted:
            return
        speed, without = self._speeds()
        facts = {
            "requests": float(self.answers), "tokens_per_second": speed,
            "plain_tokens_per_second": without,
            "speedup": speed / without if speed and without else None,
            "accepted_share_of_output": self.accepted / self.generated,
        }  # fmt: skip
        warnings = ["verify steps are not printed: tokens per pass covers passes without a draft"]
        if self.share_of_output:
            warnings.append(
                f"the printed {self.accepted / self.generated:.1%} is a share of the answer, not "
                "of the drafts, whose number is not printed: no α follows from it"
            )
        counts = Counts(
            drafted=None if self.share_of_output else self.drafted, accepted=self.accepted,
            gamma=gamma, generated=self.generated, passes=self.generated - self.accepted,
        )  # fmt: skip
        channel = Channel("lm-studio", "app, under an answer")
        yield make_reading(channel, counts, Extras(facts=facts), warnings)

    def plain(self) -> Iterator[Reading]:
        """The speed of answers without a draft."""
        _, without = self._speeds()
        if without and not self.answers:
            channel = Channel("lm-studio", "app, under an answer, no speculation")
            extras = Extras(facts={"tokens_per_second": without})
            yield make_reading(channel, Counts(), extras)
