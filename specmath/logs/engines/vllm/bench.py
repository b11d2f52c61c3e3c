"""`vllm bench serve` (saved JSON and printed table) and per-request response metrics.

The saved acceptance rate is in percent, the per-position rates are fractions; printed, both are in
percent. Until PR 41916 (2026-05) the client added `_created` times to the counters it summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from specmath.checks import InputError
from specmath.logs.counts import make_reading
from specmath.logs.engines.base import Node, count_in, counts_in, number_in, numbers_in, object_in
from specmath.logs.engines.bench import RATES, UNTOLD, Bench, add_record, facts_of
from specmath.logs.reading import Channel, Counts, Extras, Facts, Reading
from specmath.logs.stream import LogLine
from specmath.rates import check_survival

UNIX_TIME = 10**9
ONE_TOKEN = 0.1
"""Mean ITL within this share of mean TPOT: a chunk holds one token."""


class VllmBench(Bench):
    """Benchmark results; responses are added up."""

    name = "vllm"
    marks = (
        b"Serving Benchmark Result", b":        ", b"speculative_decoding",
        b"spec_decode_acceptance", b"mean_tpot_ms",
    )  # fmt: skip
    sglang = False
    forms = ("bench serve JSON", "bench serve stdout")

    def document(self, node: Node, at: LogLine) -> bool:
        block = object_in(object_in(node, "metrics") or {}, "speculative_decoding")
        if block is None:
            return super().document(node, at)
        tokens = count_in(object_in(node, "usage"), "completion_tokens")
        add_record(self.total(Channel("vllm", "per-request response")), block, tokens, at)
        return True

    def result(self, node: Node, form: str, at: LogLine) -> Reading:
        keys = ("num_drafts", "draft_tokens", "accepted_tokens")
        told = counts_in(node, *(f"spec_decode_{key}" for key in keys))
        length, percent = (
            number_in(node, f"spec_decode_acceptance_{name}") for name in ("length", "rate")
        )
        extras, warnings = Extras(facts=_with_chunks(facts_of(node))), list[str]()
        if any(count is not None and count >= UNIX_TIME for count in told):
            warnings.append(
                f"{at}: the counts are as large as a Unix time: this client (before PR 41916, "
                "2026-05) added _created times to the counters, so none of them can be used"
            )
            return make_reading(Channel("vllm", form), Counts(), extras, warnings)
        if length is None and percent is None and not told[1]:
            return _untold(form, extras, at)
        if told[2] is not None and told[1] and told[2] > told[1]:
            warnings.append(f"{at}: more tokens accepted than drafted: counts not used")
            told = [None] * 3
        steps, drafted, accepted = told
        warnings += _check(told, length, percent, at)
        length = length if length is not None and length >= 1.0 else None
        survival = _checked(numbers_in(node.get(RATES)), at, warnings)
        counts = Counts(steps or None, drafted, accepted, survival, self.gamma, length)
        return make_reading(Channel("vllm", form), counts, extras, warnings)


def _untold(form: str, extras: Extras, at: LogLine) -> Reading:
    """A result without fields of speculation: plain only if its chunks hold one token each."""
    chunk = (extras.facts or {}).get("tokens_per_chunk")
    if isinstance(chunk, float) and abs(chunk - 1.0) <= ONE_TOKEN:
        text = f"{at}: no speculative fields, and {chunk:.2f} tokens a chunk: a plain run"
        return make_reading(Channel("vllm", f"{form}, no speculation"), Counts(), extras, [text])
    warnings = [f"{at}: {UNTOLD}"]
    if isinstance(chunk, float) and chunk > 1.0:
        warnings.append(f"{at}: {chunk:.2f} tokens a chunk (mean ITL / mean TPOT): as if it ran")
    extras = replace(extras, facts={**(extras.facts or {}), "speculation": "unknown"})
    return make_reading(Channel("vllm", f"{form}, speculation unknown"), Counts(), extras, warnings)


def _with_chunks(facts: Facts) -> Facts:
    """This client counts one gap a chunk, so mean ITL / mean TPOT is about tokens a chunk."""
    gap, token = facts.get("mean_itl_ms"), facts.get("mean_tpot_ms")
    if isinstance(gap, float) and isinstance(token, float) and token > 0:
        return {**facts, "tokens_per_chunk": gap / token}
    return facts


def _checked(
    rates: list[float] | None, at: LogLine, warnings: list[str]
) -> tuple[float, ...] | None:
    if rates is None:
        return None
    try:
        return check_survival(tuple(rates))
    except InputError as error:
        warnings.append(f"{at}: per-position rates not used: {error}")
        return None


def _check(
    told: list[int | None], length: float | None, percent: float | None, at: LogLine
) -> Iterator[str]:
    """The identities 1 + A/N = length and A/D = rate; a miss is said, and the counts win."""
    steps, drafted, accepted = (count or 0 for count in told)
    for name, printed, counted, slack, identity in (
        ("length", length, 1.0 + accepted / (steps or math.nan), 0.006, "1 + accepted / drafts"),
        ("rate", percent, 100.0 * accepted / (drafted or math.nan), 0.06,
         "accepted / drafted in percent"),
    ):  # fmt: skip
        if told[2] is not None and printed is not None and abs(printed - counted) > slack:
            yield (
                f"{at}: acceptance {name} {printed:.4g} is not {identity} "
                f"({counted:.4g}): the counts were used"
            )
