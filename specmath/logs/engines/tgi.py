"""Text Generation Inference: the `tgi_request_skipped_tokens` histogram or summary.

Described as one record a request; it is one a request *and decode step* (accepted speculated ids
of that step), and one of 0 for prefill. So N = count − requests, A = sum.
"""

from __future__ import annotations

from specmath.logs.engine import Engine, Parser
from specmath.logs.notes import Notes, Place
from specmath.logs.prometheus import Change, Scrapes
from specmath.logs.record import Reading
from specmath.logs.requests import survival_of
from specmath.logs.tally import make_reading

__all__ = ["ENGINE"]

_SKIPPED = "tgi_request_skipped_tokens"
_REQUESTS = "tgi_request_count"


class Tgi(Parser):
    """Reads the sum and count always, and the buckets where an operator configured them."""

    def __init__(self, gamma: int | None, notes: Notes) -> None:
        super().__init__(gamma, notes)
        self._scrapes = Scrapes(notes, gauges=(_SKIPPED,))
        self._zero = False

    def line(self, text: str, at: Place) -> None:
        if text.startswith("tgi_"):
            self._scrapes.add(text, at)

    def readings(self) -> list[Reading]:
        found = []
        for total, steps in self._scrapes.changes().values():
            if (reading := self._reading(total, bool(steps))) is not None:
                found.append(reading)
        return found

    def _reading(self, total: Change, between: bool) -> Reading | None:
        records, accepted = total.count(f"{_SKIPPED}_count"), total.count(f"{_SKIPPED}_sum")
        requests = total.count(_REQUESTS)
        steps = (records or 0) - (requests or 0)
        if not accepted or steps <= 0:
            self._zero = True
            return None
        warnings = [
            "TGI accepts a drafted token if it equals the sampled one: at a temperature above 0 "
            "this acceptance is not the paper's α",
            "decode steps without speculation (Medusa above 128 tokens a forward) count as steps "
            "that accepted nothing",
        ]
        if requests is None:
            warnings.append(
                f"{_REQUESTS} is missing: the record of each prefill is counted as a step"
            )
        survival = _survival(total.by_position(f"{_SKIPPED}_bucket"), requests or 0, accepted)
        most = total.gauges.get(f"{_SKIPPED}|1")
        gamma = self.gamma or (len(survival) if survival else None) or (round(most or 0) or None)
        if self.gamma is None and gamma is not None:
            warnings.append(
                f"gamma {gamma} is the most accepted in one step: the draft may be longer"
            )
        return make_reading(
            "tgi",
            "Prometheus, change between scrapes" if between else "Prometheus, since start",
            steps=steps,
            accepted=accepted,
            survival=survival,
            from_histogram=True,
            gamma=gamma,
            generated=accepted + (records or 0),
            warnings=warnings,
        )

    def without(self) -> str | None:
        return "TGI metrics in which nothing was accepted" if self._zero else None


def _survival(below: list[float], requests: int, accepted: int) -> tuple[float, ...] | None:
    """From cumulative buckets le = 0, 1, 2, …; the zeros of prefill are taken out of the first."""
    counts = [later - earlier for earlier, later in zip([0.0, *below], below, strict=False)]
    if len(counts) < 2 or any(count < 0 for count in counts) or counts[0] < requests:
        return None
    counts[0] -= requests
    if abs(sum(i * count for i, count in enumerate(counts)) - accepted) > 0.01 * accepted:
        return None
    return survival_of(counts) if sum(counts) > 0 else None


ENGINE = Engine("tgi", (b"tgi_request_skipped_tokens", b"tgi_request_count"), Tgi)
