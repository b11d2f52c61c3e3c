"""Counters of a metrics page, where the question is one number and not a reading of it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["DRAFT_COUNTERS", "counter", "grown"]

DRAFT_COUNTERS = ("spec_decode_num_draft_tokens_total", "spec_verify_calls_total")
"""Ends of the names under which engines count drafts: a server that has one would count them."""


def counter(page: str, *ends: str) -> float | None:
    """The sum, over labels, of the counters whose names end so; None where there is none."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        found = [
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name.endswith(ends)
        ]
    except ValueError:
        return None
    return sum(found) if found else None


def grown(pages: Sequence[str | None], *ends: str) -> float | None:
    """By how much they grew from the first page to the last; None where one lacks them."""
    first, last = (None if page is None else counter(page, *ends) for page in (pages[0], pages[-1]))
    return None if first is None or last is None else last - first
