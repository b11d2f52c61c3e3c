"""Text Generation Inference: the `tgi_request_skipped_tokens` histogram or summary.

Described as one record a request; it is one a request *and decode step* (accepted speculated ids
of that step), and one of 0 for prefill. So N = count − requests, A = sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from specmath.logs.counts import make_reading, survival_of
from specmath.logs.engines.page import Page, scraped
from specmath.logs.engines.prometheus import Change
from specmath.logs.engines.served import ServedNames
from specmath.logs.reading import Counts, Lane, Reading

_SKIPPED = "tgi_request_skipped_tokens"
_REQUESTS = "tgi_request_count"
_NAMES = ServedNames(
    tpot=("tgi_request_mean_time_per_token_duration",),
    e2e=("tgi_request_duration",),
    queue=("tgi_request_queue_duration",),
    running=("tgi_batch_current_size",),
    waiting=("tgi_queue_size",),
    requests=(_REQUESTS,),
    prompt_tokens=("tgi_request_input_length_sum",),
    generated=("tgi_request_generated_tokens_sum",),
)


class Tgi(Page):
    """Reads the sum and count always, and the buckets where an operator configured them."""

    name = "tgi"
    prefix = "tgi_"
    marks = (b"tgi_",)
    empty = "TGI metrics in which nothing was accepted"
    gauges = (_SKIPPED,)
    names = _NAMES

    def page(self, lane: Lane, total: Change, steps: Sequence[Change]) -> Reading | None:
        records, accepted = total.count(f"{_SKIPPED}_count"), total.count(f"{_SKIPPED}_sum")
        requests = total.count(_REQUESTS)
        decoded = (records or 0) - (requests or 0)
        if not accepted or decoded <= 0:
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
        counts = Counts(
            decoded, None, accepted, survival, gamma,
            generated=accepted + (records or 0), histogram=True,
        )  # fmt: skip
        return make_reading(scraped("tgi", steps), counts, warnings=warnings)


def _survival(below: list[float], requests: int, accepted: int) -> tuple[float, ...] | None:
    """From cumulative buckets le = 0, 1, 2, …; the zeros of prefill are taken out of the first."""
    counts = [later - earlier for earlier, later in zip([0.0, *below], below, strict=False)]
    if len(counts) < 2 or any(count < 0 for count in counts) or counts[0] < requests:
        return None
    counts[0] -= requests
    if abs(sum(i * count for i, count in enumerate(counts)) - accepted) > 0.01 * accepted:
        return None
    return survival_of(counts) if sum(counts) > 0 else None
