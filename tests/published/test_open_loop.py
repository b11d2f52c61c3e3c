"""Stages of a real server at a fixed rate: read as their columns mean, and predicted both ways."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from specmath.published.case import Case, newer, shipped
from specmath.published.kept import kept
from specmath.published.scenario import from_served
from specmath.published.score import Method, Scored, score
from specmath.published.summary import others
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import build


@cache
def stages() -> tuple[Case, ...]:
    return tuple(case for case in shipped() if case.kind == "open loop")


@cache
def scored() -> tuple[Scored, ...]:
    return tuple(s for s in kept() if s.case.kind == "open loop")


def mean_error(quantity: str, method: Method) -> float:
    own = [s.error for s in scored() if (s.quantity, s.method) == (quantity, method)]
    return float(np.mean(np.abs([e for e in own if e is not None])))


@pytest.mark.parametrize(
    ("quantity", "most", "found"),
    [("itl_mean_ms", 0.08, 0.065), ("e2e_mean_ms", 0.08, 0.066), ("e2e_p99_ms", 0.12, 0.090),
     ("ttft_mean_ms", 0.25, 0.180)],
)  # fmt: skip
def test_stages_by_simulation_are_as_near_as_is_said(
    quantity: str, most: float, found: float
) -> None:
    """docs/simulate.md; untuned."""
    error = mean_error(quantity, "simulation")
    assert error < most
    assert error == pytest.approx(found, abs=0.002)


def test_nearer_than_the_other_tools_but_for_one_first_token() -> None:
    """Known miss: BLIS's TTFT is 15.6% off on these eight stages, and ours 18.0%."""
    lost = {
        (o.tool, o.quantity)
        for o in others(scored())
        if o.method == "simulation" and o.ours >= o.theirs
    }
    assert lost == {("blis-evolved", "ttft_mean_ms")}


def test_requests_that_ended_early_would_spread() -> None:
    """Why 247 tokens are taken where 194 gaps were counted: the 90% quantile of a request's time is
    7% above its mean, as where all are alike, and not one in a hundred took as long as 246 gaps of
    the ITL column would."""
    first = stages()[0]
    cells = first.cells
    assert cells["output_tokens"] == 247
    assert cells["output_tokens_measured"] == 194
    assert cells["e2e_p90_ms"] / cells["e2e_mean_ms"] < 1.08
    longest = cells["ttft_mean_ms"] + 246 * cells["itl_mean_ms"]
    assert cells["e2e_p99_ms"] < 0.96 * longest
    assert first.output_tokens == 247


def test_the_gap_between_tokens_is_that_of_the_counted_ones() -> None:
    """ITL as predicted × (counted − 1) is E2E − TTFT, in both methods."""
    for method in ("simulation", "fixed point"):
        own = {s.quantity: s.predicted for s in scored()[:8] if s.method == method}
        counted = stages()[0].cells["output_tokens_measured"]
        itl, e2e, ttft = (own[q] for q in ("itl_mean_ms", "e2e_mean_ms", "ttft_mean_ms"))
        assert itl is not None
        assert e2e is not None
        assert ttft is not None
        assert itl * (counted - 1) == pytest.approx(e2e - ttft, rel=1e-6)


def test_a_version_says_whether_the_host_works_beside_the_forward() -> None:
    assert newer("vllm", (0, 13)) is None
    assert newer("vllm", (0, 14)) == "vllm-async"
    assert newer("vllm", (1, 0)) == "vllm-async"
    assert newer("sglang", (1, 0)) is None
    case = stages()[0]
    found = [from_served(replace(case, engine=e))["engine"] for e in ("vLLM 0.13.0", "vLLM 0.15.1")]
    assert found == ["vllm", "vllm-async"]
    older, later = (
        resolve(build(from_served(case) | {"engine": name})).pair for name in ("vllm", "vllm-async")
    )
    assert older is not None
    assert later is not None
    host = older.engine.host + older.engine.sequence * older.batch
    assert older.plain_seconds - later.plain_seconds == pytest.approx(host)


def test_a_stage_takes_about_a_second_and_says_what_is_kept() -> None:
    begun, stage = time.process_time(), stages()[0]
    found = {(s.quantity, s.method): s.predicted for s in score([stage])}
    assert time.process_time() - begun < 3
    for s in scored():
        if s.case.id == stage.id and s.predicted is not None:
            assert found[s.quantity, s.method] == pytest.approx(s.predicted, rel=1e-6)
