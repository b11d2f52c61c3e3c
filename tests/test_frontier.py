"""Throughput against latency: each load is a prediction of its own; what was measured, where."""

from __future__ import annotations

from typing import Any

import pytest

from specmath.checks import InputError
from specmath.frontier import Frontier, frontier
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.endpoint import resolve
from specmath.scenario.forms import EXAMPLE_PAIR
from specmath.serving.memory import Memory
from specmath.tables import load_table

SERVED: dict[str, Any] = {
    "alpha": 0.8, "gamma": 4, **EXAMPLE_PAIR, "prompt_tokens": 900, "output_tokens": 200,
}  # fmt: skip
BY = {"closed": "concurrency", "held": "batch", "open": "request_rate"}
LOADS: dict[str, dict[str, Any]] = {
    "closed": {"concurrency": 24}, "held": {"batch": 24}, "open": {"request_rate": 3.0},
}  # fmt: skip


def frontier_of(**more: Any) -> Frontier:
    return frontier(resolve(Scenario(**SERVED | more)))


@pytest.mark.parametrize("loop", LOADS)
def test_each_point_is_the_prediction_at_that_load(loop: str) -> None:
    found = frontier_of(**LOADS[loop], tensor_parallel=2, draft_gpus=1)
    assert found.loop == loop
    (own,) = (p for p in found.points if p.own)
    assert own.load == LOADS[loop][BY[loop]]
    for point in (found.points[0], own, found.points[-2]):
        load = {BY[loop]: point.load if loop == "open" else int(point.load)}
        p = predict(Scenario(**SERVED, tensor_parallel=2, draft_gpus=1, **load))
        assert p.tpot is not None
        assert p.tpot_plain is not None
        assert point.speedup.value == pytest.approx(p.speedup.value)
        assert (point.speedup.low, point.speedup.high) == pytest.approx(
            (p.speedup.low, p.speedup.high)
        )
        assert point.user[0].value == pytest.approx(1 / p.tpot_plain.value)
        assert point.user[1].value == pytest.approx(1 / p.tpot.value)
        # 1 / TPOT turns its ends around.
        assert point.user[1].low == pytest.approx(1 / p.tpot.high)
        for arm, (gpus, tpot) in enumerate(((2, p.tpot_plain), (3, p.tpot))):
            total = float(p.endpoint.throughput(tpot.value, arm * 4))
            assert point.gpu[arm].value == pytest.approx(total / gpus)


def test_throughput_by_hand() -> None:
    """A batch held at 24: 24 / TPOT a second; in a closed loop C N / (TTFT + (N − 1) TPOT)."""
    (held,) = (p for p in frontier_of(batch=24).points if p.own)
    assert held.gpu[1].value == pytest.approx(24 * held.user[1].value)
    (closed,) = (p for p in frontier_of(concurrency=24).points if p.own)
    load = resolve(Scenario(**SERVED, concurrency=24)).load
    assert load
    seconds = float(load.ttft[4]) + 199 / closed.user[1].value
    assert closed.gpu[1].value == pytest.approx(24 * 200 / seconds)


def test_dollars_by_hand() -> None:
    """$3.6 a GPU hour is $0.001 a second; over the tokens a second of one GPU."""
    for point in frontier_of(concurrency=8).points:
        for dollars, rate in zip(point.usd(3.6), point.gpu, strict=True):
            assert dollars.value == pytest.approx(1e6 * 0.001 / rate.value)
            assert dollars.low == pytest.approx(1e6 * 0.001 / (rate.high or 0))


def test_what_was_measured_holds_at_its_load_and_scales_the_others() -> None:
    free = frontier_of(concurrency=16)
    (before,) = (p for p in free.points if p.own)
    plain_ms = 1.25e3 / before.user[0].value
    run_ms = 1.1e3 / before.user[1].value
    ran = frontier_of(concurrency=16, target_ms=plain_ms, run_gamma=4, run_ms=run_ms)
    assert (free.measured, ran.measured) == ((False, False), (True, True))
    for one, other in zip(free.points, ran.points, strict=True):
        assert other.user[0].value == pytest.approx(one.user[0].value / 1.25)
        assert other.user[1].value == pytest.approx(one.user[1].value / 1.1)
        assert other.speedup.value == pytest.approx(one.speedup.value * 1.25 / 1.1)
    (own,) = (p for p in ran.points if p.own)
    assert own.user[0].low is None, "what was measured has no range of what is computed"


def test_a_run_at_another_gamma_is_no_measured_point() -> None:
    ran = frontier_of(concurrency=16, target_ms=12.0, run_gamma=3, run_ms=8.0)
    assert ran.measured == (True, False)


def test_memory_ends_the_loads_that_are_judged() -> None:
    found = frontier_of(batch=24)
    pair = resolve(Scenario(**SERVED, batch=24)).pair
    assert pair
    most = Memory.of(pair).largest_batch(pair.context_tokens, 4)
    assert max(p.load for p in found.judged) == most
    assert [p.fits for p in found.points] == [p.load <= most for p in found.points]


def test_an_open_loop_ends_where_an_arm_carries_no_more() -> None:
    """A bad draft carries less than plain decoding: its last loads are not its own."""
    found = frontier_of(request_rate=3.0, alpha=0.05)
    load = resolve(Scenario(**SERVED | {"alpha": 0.05}, request_rate=3.0)).load
    assert load
    assert load.most_requests[4] < load.most_requests[0]
    for point in found.points:
        assert point.carried == (point.load < load.most_requests[4])
        assert point.load < load.most_requests[0]
    assert not found.points[-1].carried


def test_where_it_pays_surely_and_in_the_middle() -> None:
    found = frontier_of(concurrency=16)
    for surely in (True, False):
        inside = [
            p.load
            for p in found.judged
            if ((p.speedup.low if surely else p.speedup.value) or 0) > 1
        ]
        runs = found.pays(surely=surely)
        assert [p.load for p in found.judged if any(a <= p.load <= b for a, b in runs)] == inside


def test_the_table_holds_the_points() -> None:
    s = Scenario(**SERVED, concurrency=16)
    found = frontier(resolve(s))
    rows = load_table(predict(s)).rows()
    assert len(rows) == len(found.points)
    for row, point in zip(rows, found.points, strict=True):
        assert row["load"] == point.load
        assert row["tokens_per_second_user_plain"] == point.user[0].value
        assert row["tokens_per_second_gpu_high"] == point.gpu[1].high
        assert row["walltime_improvement_low"] == point.speedup.low
        assert row["usd_per_million_tokens"] == point.usd(s.usd_per_hour or 0)[1].value
        assert row["fits_memory"] == ("yes" if point.fits else "no")


def test_no_hardware_no_load() -> None:
    with pytest.raises(InputError, match="need"):
        frontier(resolve(EXAMPLE))
