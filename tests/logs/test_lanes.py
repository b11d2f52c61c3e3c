"""Several servers in one log: told apart, pooled only where they agree."""

from __future__ import annotations

import pytest

from specmath.logs import read, read_run
from specmath.logs.lanes import Lanes, agree, whole_side
from specmath.logs.reading import Lane, Reading

INTERVAL = (
    "(APIServer pid={pid}) INFO 08-14 09:{minute:02d}:20 [metrics.py:101] SpecDecoding metrics: "
    "Mean acceptance length: {length:.2f}, Accepted throughput: 10.00 tokens/s, Drafted "
    "throughput: 30.00 tokens/s, Accepted: {accepted} tokens, Drafted: 3000 tokens, Per-position "
    "acceptance rate: {rates}, Avg Draft acceptance rate: {rate:.1f}%"
)
LOAD = (
    "(APIServer pid={pid}) INFO 08-14 09:{minute:02d}:20 [loggers.py:271] Engine {engine}: Avg "
    "prompt throughput: 0.0 tokens/s, Avg generation throughput: 100.0 tokens/s, Running: 2 reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: 9.7%, Prefix cache hit rate: 0.0%"
)


def lines(pid: int, engine: str, minute: int, rates: tuple[float, ...]) -> list[str]:
    total = sum(rates)
    interval = INTERVAL.format(
        pid=pid, minute=minute, length=1 + total, accepted=round(1000 * total),
        rates=", ".join(f"{rate:.3f}" for rate in rates), rate=100 * total / 3,
    )  # fmt: skip
    return [LOAD.format(pid=pid, minute=minute, engine=engine), interval]


GOOD, BROKEN = (0.8, 0.6, 0.4), (0.02, 0.0, 0.0)


def test_engines_that_agree_come_one_by_one_and_pooled_last() -> None:
    text = [line for minute in range(20) for pid, engine in ((1, "000"), (2, "001"))
            for line in lines(pid, engine, minute, GOOD)]  # fmt: skip
    first, second, pooled = read("\n".join(text))
    assert [r.lane for r in (first, second)] == [Lane("000", "1"), Lane("001", "2")]
    assert (first.steps, second.steps, pooled.steps) == (20_000, 20_000, 40_000)
    assert pooled.lane is None
    assert pooled.service.generated_per_second == 200.0
    assert first.service.generated_per_second == 100.0
    assert whole_side([first, second, pooled]) == ([pooled], [])


def test_a_broken_engine_is_never_pooled() -> None:
    both = ((1, "000", GOOD), (2, "001", BROKEN))
    text = [line for n in range(20) for pid, e, rates in both for line in lines(pid, e, n, rates)]
    readings = read("\n".join(text))
    assert [r.lane for r in readings] == [Lane("000", "1"), Lane("001", "2")]
    assert [round(r.tokens_per_step or 0, 2) for r in readings] == [2.8, 1.02]
    assert whole_side(readings) == (readings, readings)


def test_one_server_is_one_reading_with_what_its_lines_name() -> None:
    (found,) = read("\n".join(lines(7, "000", 3, GOOD)))
    assert found.lane == Lane("000", "7")
    plain = [line for line in lines(7, "000", 3, GOOD) if "Engine" in line]
    (run,) = read_run("\n".join(plain))
    assert run.lane == Lane("000", "7")


def test_a_restart_is_no_second_server() -> None:
    """Process 8 prints after 7 has stopped: rates are averaged, not added up."""
    text = [*lines(7, "000", 1, GOOD), *lines(7, "000", 2, GOOD), *lines(8, "000", 3, GOOD)]
    *_, pooled = read("\n".join(text))
    assert pooled.service.generated_per_second == 100.0
    assert any("restarted" in warning for warning in pooled.warnings)


def test_a_line_that_names_less_belongs_where_only_one_fits() -> None:
    lanes = Lanes(list)
    for lane in (Lane(pid="1"), Lane(engine="000", pid="1"), Lane(), Lane(engine="000")):
        for state in lanes.of(lane):
            state.append(lane)
    assert [lane for lane, _ in lanes.each()] == [Lane(engine="000", pid="1")]
    assert len(lanes.whole) == 4
    lanes.of(Lane(engine="001", pid="1"))
    assert lanes.of(Lane(pid="1")) == (lanes.whole,)  # either could have printed it


def test_containers_are_hosts() -> None:
    text = "\n".join(
        f"{name}  | {line}"
        for minute in range(10)
        for name in ("vllm-a", "vllm-b")
        for line in lines(1, "000", minute, GOOD)
    )
    assert [r.lane and r.lane.host for r in read(text)] == ["vllm-a", "vllm-b", None]


def test_other_models_are_never_pooled() -> None:
    one, other = (
        Reading("vllm", "log", steps=1000, tokens_per_step=2.0, lane=Lane(model=name))
        for name in ("a", "b")
    )
    assert not agree([one, other])


@pytest.mark.parametrize(("shares", "alike"), [((0.5, 0.52), True), ((0.5, 0.65), False)])
def test_agreement_is_by_size_and_chance(shares: tuple[float, float], alike: bool) -> None:
    """15% of the accepted tokens is the least that is a difference, 4 standard errors the next."""
    many, few = (
        [
            Reading("vllm", "log", steps=n, tokens_per_step=1 + s, survival=(s,), gamma=1)
            for s in shares
        ]
        for n in (10_000, 20)
    )
    assert agree(many) is alike
    assert agree(few)
