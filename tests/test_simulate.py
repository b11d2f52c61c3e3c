"""The simulation: on a server of round numbers by hand, and against the loop that takes one step
after the other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specmath import IidAcceptance, MixtureAcceptance, PerPositionAcceptance
from specmath.acceptance import Acceptance
from specmath.checks import InputError
from specmath.serving.replica import Replica, parts_of
from specmath.simulate import Simulated, simulate
from specmath.traffic import Traffic, closed, poisson
from tests.helpers.stepwise import Stepwise, stepwise

FLAT, EACH, TOKEN = 8e-3, 1e-4, 1e-8
"""Seconds of a step, of each sequence in it, of each token in the cache."""
READ, FREE = 4e-5, 100
"""Seconds of each token of a forward beyond so many that the weights hide."""
USUAL = IidAcceptance(0.7)


def server(
    gamma: Any = 0, acceptance: Acceptance = USUAL, *, most: int = 64,
    kv: int = 100_000, chunk: int = 2048, **changes: Any,
) -> Replica:  # fmt: skip
    """step = 8 ms + 0.1 ms B + 10 ns a cached token, a quarter more with a draft."""
    batches = np.arange(most + 1)
    gammas = np.broadcast_to(gamma, batches.shape)
    slower = np.where((gammas > 0) & (batches > 0), 1.25, 1.0)
    parts = parts_of(acceptance)
    replica = Replica(
        gammas=gammas,
        steps=(FLAT + EACH * batches) * slower,
        reads=np.full(most + 1, TOKEN),
        forward=READ * np.maximum(np.arange(chunk + most + 1) - FREE, 0),
        attention=1e-10 * 256 * np.arange(200),
        pmfs={int(g): tuple(a.step_pmf(int(g)) for _, a in parts) for g in np.unique(gammas)},
        shares=np.array([share for share, _ in parts]),
        kv_tokens=kv,
        chunk_tokens=chunk,
    )
    return replace(replica, **changes)


def apart(count: int, output: int) -> Traffic:
    """Requests that never meet."""
    return Traffic(np.arange(count) * 10.0, np.full(count, 50), np.full(count, output))


def both(replica: Replica, traffic: Traffic) -> tuple[Simulated, Stepwise]:
    return simulate(replica, traffic, warm_up=0), stepwise(replica, traffic)


def assert_same(found: Simulated, slow: Stepwise) -> None:
    np.testing.assert_allclose(found.ttft, slow.times("ttft"), atol=1e-9)
    np.testing.assert_allclose(found.e2e, slow.times("e2e"), atol=1e-9)
    assert found.preemptions == slow.preemptions
    assert found.steps == len(slow.seconds)


LONG = np.array([3000, 100, 5000, 40, 900, 7000, 1, 350])


def mixed(count: int = 120, rate: float = 9.0) -> Traffic:
    """Prompts of one token to several chunks, outputs of 1 to 90."""
    steady = poisson(rate, 1, 1, requests=count, seed=5)
    draw = np.random.default_rng(8)
    return Traffic(steady.seconds, draw.choice(LONG, count), draw.integers(1, 90, count))


# ── against the loop of single steps: plain decoding exactly ─────────────────────────────────


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    "traffic",
    [poisson(4.0, 400, 60, requests=120, seed=1), poisson(60.0, 400, 60, requests=200, seed=2),
     mixed(), closed(12, 700, 40, requests=90), closed(1, 700, 40, requests=5)],
    ids=["calm", "busy", "mixed", "closed", "alone"],
)  # fmt: skip
def test_plain_decoding_is_the_loop_of_steps(traffic: Traffic, ahead: bool) -> None:
    assert_same(*both(server(plans_ahead=ahead), traffic))


@pytest.mark.parametrize("kv", [1600, 3008, 7200])
def test_so_it_is_where_the_cache_is_short(kv: int) -> None:
    """Sequences lose their cache, the one let in last first, and are read again."""
    found, slow = both(server(kv=kv), poisson(60.0, 300, 200, requests=80, seed=3))
    assert_same(found, slow)
    assert found.preemptions > 0
    assert max(slow.held) <= kv
    assert 0.8 < found.most_held <= 1


@pytest.mark.parametrize(("kv", "chunk"), [(1056, 64), (1440, 128), (1536, 700), (752, 128)])
def test_so_it_is_where_one_is_let_in_again_at_once(kv: int, chunk: int) -> None:
    """What is left of it then may end in the step in which it would have ended anyway."""
    draw, counted = np.random.default_rng(12), 0
    for seed in range(12):
        steady = poisson(60.0, 1, 1, requests=80, seed=seed)
        lengths = draw.integers(1, 600, 80), draw.integers(1, 120, 80)
        found, slow = both(server(kv=kv, chunk=chunk), Traffic(steady.seconds, *lengths))
        assert_same(found, slow)
        counted += found.preemptions
    assert counted > 0


def test_so_it_is_with_prefixes_and_few_sequences() -> None:
    arrivals = mixed()
    prefix = np.minimum(arrivals.prompt_tokens, 512)
    assert_same(*both(server(most=3), replace(arrivals, prefix_tokens=prefix)))
    assert_same(*both(server(prefix_hit=0.5, chunk=256), arrivals))


def test_long_prompts_that_compete_for_the_cache_go_on() -> None:
    found, slow = both(server(kv=6000, chunk=600), poisson(30.0, 3000, 30, requests=30, seed=4))
    assert_same(found, slow)
    assert np.isfinite(found.e2e).all()


# ── with speculation in distribution, and by hand ────────────────────────────────────────────


@pytest.mark.parametrize(
    ("gamma", "acceptance"),
    [(4, IidAcceptance(0.7)), (3, PerPositionAcceptance((0.9, 0.4, 0.3))),
     (3, MixtureAcceptance((0.5, 0.5), (IidAcceptance(0.95), IidAcceptance(0.2))))],
    ids=["iid", "positions", "mixture"],
)  # fmt: skip
def test_speculation_is_the_loop_of_steps_in_distribution(
    gamma: int, acceptance: Acceptance
) -> None:
    replica, traffic = server(gamma, acceptance), poisson(20.0, 300, 80, requests=250, seed=6)
    found, slow = both(replica, traffic)
    # Which requests are of which part is drawn: 125 ± 8 of 250.
    spread = 0.06 if len(replica.shares) == 1 else 0.15
    for q in (0.1, 0.5, 0.9):
        seen = np.quantile(slow.times("e2e"), q)
        assert found.quantile("e2e", q) == pytest.approx(seen, rel=spread)
    assert found.mean("ttft") == pytest.approx(slow.times("ttft").mean(), rel=0.05)
    assert found.mean("tpot") == pytest.approx(
        np.mean((slow.times("e2e") - slow.times("ttft")) / 79), rel=spread / 2
    )


def test_one_request_takes_the_steps_of_the_renewal_law() -> None:
    """α = 0.5, γ = 1, three tokens after the first, alone in a server of level steps: both steps of
    two with 0.25 + 0.5·… by hand: P(2 steps) = 1 − 0.5² = 0.75, P(3 steps) = 0.25."""
    level = server(1, IidAcceptance(0.5), reads=np.zeros(65))
    found = simulate(level, apart(4000, 4), warm_up=0)
    step = (FLAT + EACH) * 1.25
    steps = np.rint((found.e2e - found.ttft) / step)
    assert set(steps) == {2, 3}
    assert np.mean(steps == 3) == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 4000))


@pytest.mark.parametrize(("alpha", "steps"), [(0.0, 60), (1.0, 12)])
def test_certain_drafts_by_hand(alpha: float, steps: int) -> None:
    """60 tokens after the first: α = 0 takes 60 steps of a draft for nothing, α = 1 with γ = 4
    takes 12."""
    level = server(4, IidAcceptance(alpha), reads=np.zeros(65))
    found = simulate(level, apart(20, 61), warm_up=0)
    np.testing.assert_allclose(found.e2e - found.ttft, steps * (FLAT + EACH) * 1.25)


def test_no_draft_is_plain_decoding() -> None:
    """γ = 0 throughout is the plain arm, in a schedule too, where a step at γ = 0 costs no more."""
    traffic = poisson(30.0, 300, 60, requests=150, seed=7)
    plain = simulate(server(), traffic)
    schedule = np.where(np.arange(65) < 60, 0, 1)
    slow = simulate(server(schedule, steps=server().steps), traffic)
    np.testing.assert_allclose(slow.e2e, plain.e2e, atol=1e-9)
    np.testing.assert_allclose(slow.ttft, plain.ttft, atol=1e-9)


def test_a_schedule_drafts_where_it_says() -> None:
    """γ = 4 alone and none in company: alone as fast as γ = 4, in company as plain decoding."""
    schedule = np.where(np.arange(65) == 1, 4, 0)
    calm, busy = apart(20, 61), poisson(60.0, 50, 61, requests=120, seed=0)
    sure = IidAcceptance(1.0)
    alone, always = (simulate(server(g, sure), calm) for g in (schedule, 4))
    np.testing.assert_allclose(alone.e2e, always.e2e)
    found, plain = (simulate(server(g, sure), busy).mean("e2e") for g in (schedule, 0))
    assert found == pytest.approx(plain, rel=0.02)


def test_parts_of_a_mixture_are_requests_of_their_own() -> None:
    """Half of the requests accept everything, half nothing: 12 or 60 steps, nothing between."""
    kinds = MixtureAcceptance((0.5, 0.5), (IidAcceptance(1.0), IidAcceptance(0.0)))
    level = server(4, kinds, reads=np.zeros(65))
    found = simulate(level, apart(400, 61), warm_up=0)
    steps = np.rint((found.e2e - found.ttft) / ((FLAT + EACH) * 1.25))
    assert set(steps) == {12, 60}
    assert np.mean(steps == 12) == pytest.approx(0.5, abs=0.1)


# ── queues and conservation ──────────────────────────────────────────────────────────────────


def test_alone_a_request_takes_what_the_formula_says() -> None:
    """Two chunks of 2,048 and 952 tokens, each in a step of its own, then 50 steps whose cache
    grows from 3,000 tokens: worked out in closed form."""
    found = simulate(server(), Traffic(np.zeros(1), np.array([3000]), np.array([51])), warm_up=0)
    attention = 1e-10 * (2048 * 1024 + 952 * (2048 + 476))
    chunks = READ * ((2049 - FREE) + (953 - FREE))
    ttft = 2 * FLAT + chunks + attention
    decode = 50 * (FLAT + EACH) + TOKEN * sum(3000 + j for j in range(50))
    assert found.ttft[0] == pytest.approx(ttft, rel=1e-9)
    assert found.e2e[0] == pytest.approx(ttft + decode, rel=1e-9)


@pytest.mark.parametrize("gamma", [0, 3])
def test_littles_law(gamma: int) -> None:
    """Requests that are there = rate × time; sequences that decode = rate × time after the first
    token. Both means are taken over time, not over requests."""
    found = simulate(server(gamma), poisson(25.0, 300, 100, requests=4000, seed=9))
    rate = found.request_rate
    assert found.in_flight == pytest.approx(rate * found.mean("e2e"), rel=0.03)
    decoding = rate * float(np.mean(found.e2e - found.ttft))
    assert found.batch == pytest.approx(decoding, rel=0.03)


def test_prompts_alone_are_a_queue_of_one_server() -> None:
    """Outputs of one token and steps of one prompt: M/D/1, whose wait is ρ D / (2 (1 − ρ))."""
    size = 2048
    only = server(forward=np.full(size + 65, 0.0), attention=np.zeros(200), chunk=size)
    rate = 0.7 / FLAT
    found = simulate(only, poisson(rate, size, 1, requests=15_000, seed=10))
    wait = 0.7 * FLAT / (2 * 0.3)
    assert found.mean("ttft") == pytest.approx(FLAT + wait, rel=0.08)
    assert found.busy == pytest.approx(0.7, rel=0.04)
    assert math.isnan(found.mean("tpot"))


def test_a_closed_loop_of_one_follows_itself() -> None:
    """No wait: ten requests take ten times one, and one is in flight."""
    one = simulate(server(), closed(1, 500, 40, requests=1), warm_up=0)
    ten = simulate(server(), closed(1, 500, 40, requests=10), warm_up=0)
    np.testing.assert_allclose(ten.e2e, one.e2e[0])
    assert ten.seconds == pytest.approx(10 * one.seconds)
    assert ten.in_flight == pytest.approx(1)
    assert ten.throughput <= 40 / one.e2e[0] * (1 + 1e-9)


@pytest.mark.parametrize("gamma", [0, 4])
def test_no_token_is_lost_or_made(gamma: int) -> None:
    """Tokens read and emitted by the loop of steps are those asked for, preempted or not."""
    traffic = poisson(40.0, 300, 150, requests=60, seed=11)
    calm = stepwise(server(gamma), traffic)
    assert calm.read == traffic.prompt_tokens.sum()
    for slow in (calm, stepwise(server(gamma, kv=3200), traffic)):
        assert [r.emitted for r in slow.requests] == traffic.output_tokens.tolist()
    found = simulate(server(gamma, kv=3200), traffic, warm_up=0)
    assert (found.ttft > 0).all()
    assert (found.e2e >= found.ttft).all()


@pytest.mark.parametrize("gamma", [0, 3])
@pytest.mark.parametrize("kv", [4000, 100_000])
def test_throughput_stays_below_the_roof(gamma: int, kv: int) -> None:
    """A closed loop of more than the server holds: never more than its largest rate."""
    replica = server(gamma, kv=kv)
    found = simulate(replica, closed(200, 300, 100, requests=1500))
    limit = replica.limit(300, 100)
    assert 0.85 * limit.rate < found.request_rate < 1.01 * limit.rate
    assert limit.by == ("memory" if kv == 4000 else "max sequences")
    assert found.most_held <= 1


def test_more_sequences_do_not_help_where_arithmetic_ends_it() -> None:
    """Prompts of 5,000 tokens for two tokens of answer."""
    assert server(kv=10**7).limit(5000, 2).by == "compute"


def test_the_same_seed_gives_the_same_answer() -> None:
    def run(seed: int) -> list[float]:
        traffic = poisson(20.0, 300, 50, requests=200, seed=seed)
        return simulate(server(3), traffic, seed=seed).e2e.tolist()

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_progress_is_told_and_the_warm_up_left_out() -> None:
    seen: list[tuple[int, int]] = []
    traffic = poisson(30.0, 50, 5, requests=3000, seed=0)
    found = simulate(server(), traffic, warm_up=0.2, told=lambda *a: seen.append(a))
    assert [done // 1000 for done, _ in seen] == [1, 2, 3]
    assert len(found.e2e) == 2400
    assert found.arrival[0] == traffic.seconds[600]


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(InputError, match=r"a request of 5,000 \+ 200 tokens does not fit"):
        simulate(server(kv=4096), Traffic(np.zeros(1), np.array([5000]), np.array([200])))
    with pytest.raises(InputError, match="warm_up"):
        simulate(server(), poisson(1.0, 5, 5, requests=3), warm_up=1.5)
