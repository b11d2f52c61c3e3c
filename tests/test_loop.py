"""The server law: each loop by hand on a server of round numbers, fixed points put back into their
equations, and a simulation, step by step, of a real pair."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers.server_simulation import Simulation

from specmath import drafters, models
from specmath.checks import FloatArray, InputError
from specmath.serving.loop import Grid, Requests, Steady, steady, waiting_seconds
from specmath.serving.pair import ServedPair
from specmath.steptime import Placement

# ── a server of round numbers: step = 8 ms + 0.05 ms a sequence, 1.25 times that with a draft ──

FLAT, SLOPE, SPECULATIVE = 8e-3, 5e-5, 1.25
TAU = np.array([1.0, 2.5])
PROMPT = 0.04


def step_of(batch: Any) -> FloatArray:
    """Seconds of a plain step and of a speculative one."""
    return np.asarray(
        (FLAT + SLOPE * np.asarray(batch, dtype=float)) * np.array([1.0, SPECULATIVE])
    )


def grid(prompts: tuple[float, float] = (PROMPT, PROMPT), most: int = 1000) -> Grid:
    batches = np.array([1.0, 1000.0])
    verify = np.array([step_of(b) for b in batches])
    verify[:, 1] -= 1e-3  # of which 1 ms is drafting
    draft = np.array([[0.0, 1e-3]] * 2)
    return Grid(
        batches, verify, draft, np.zeros((2, 2)), np.array([prompts] * 2), np.array([most, most])
    )


def requests(**changes: Any) -> Requests:
    return Requests(**{"prompt_tokens": 1000, "output_tokens": 201, **changes})


def state(
    prompts: tuple[float, float] = (PROMPT, PROMPT), most: int = 1000, **asked: Any
) -> Steady:
    return steady(grid(prompts, most), requests(**asked), TAU)


def gain(found: Steady) -> float:
    return float(found.tpot[0] / found.tpot[1])


RATIO = TAU[1] / SPECULATIVE
"""τ/s of it: 2 at every batch."""


@pytest.mark.parametrize("load", [{"batch": 1}, {"concurrency": 1}])
def test_one_request_waits_for_nobody(load: dict[str, int]) -> None:
    found = state(**load)
    assert found.waiting.tolist() == [0, 0]
    np.testing.assert_allclose(found.tpot, step_of(1) / TAU)
    # Whoever reads a prompt alone takes a step all the same, and drafts nothing in it.
    np.testing.assert_allclose(found.ttft, PROMPT + step_of(1)[0])
    assert gain(found) == pytest.approx(RATIO)


@pytest.mark.parametrize("load", [{"batch": 32}, {"concurrency": 32}, {"request_rate": 9.0}])
def test_without_prompts_to_read_the_gain_is_tokens_over_cost(load: dict[str, Any]) -> None:
    """Decode-only workers: no S, and at an equal batch τ/s; an open loop adds its smaller batch."""
    found = state((0.0, 0.0), **load)
    assert found.waiting.tolist() == [0, 0]
    np.testing.assert_allclose(found.tpot, step_of(found.batch[0])[0] / [1, RATIO], rtol=0.05)
    if "request_rate" not in load:
        assert gain(found) == pytest.approx(RATIO, rel=3e-3)
    else:
        assert gain(found) > RATIO


def test_a_held_batch_by_hand() -> None:
    """B = 33, n = 200: S = 32 · 40 ms / 200 = 6.4 ms beside a plain step of 9.65 ms."""
    found = state(batch=33)
    np.testing.assert_allclose(found.waiting, 32 * 0.04 / 200)
    np.testing.assert_allclose(found.tpot, [9.65e-3 + 6.4e-3, 9.65e-3 / 2 + 6.4e-3])
    assert gain(found) == pytest.approx(16.05 / 11.225)
    assert found.batch.tolist() == [33, 33]
    assert found.throughput(found.tpot[0], 0) == pytest.approx(33 / 16.05e-3)


def test_the_drafters_own_prompt_is_of_the_speculative_arm_alone() -> None:
    """P_draft = 10 ms: 32 · 50 ms / 200 = 8 ms with speculation, 6.4 ms without."""
    found = state((PROMPT, PROMPT + 0.01), batch=33)
    np.testing.assert_allclose(found.waiting, [6.4e-3, 8e-3])


LENGTHS = (51, 201, 2001, 20_001, 1_000_001)


@pytest.mark.parametrize("load", [{"batch": 64}, {"concurrency": 64}])
def test_long_outputs_dilute_less_and_less(load: dict[str, int]) -> None:
    gains = [gain(state(output_tokens=n, **load)) for n in LENGTHS]
    assert gains == sorted(gains)
    assert 1 < gains[0] < 1.9
    assert gains[-1] == pytest.approx(RATIO, rel=2e-3)


def test_where_prompts_fill_the_time_tokens_gain_and_requests_do_not() -> None:
    """A thousand in flight: of outputs of 51 tokens steps of 8,192 read prompts for 410 sequences
    without speculation and 164 with it. Fewer share a step; a whole request takes its C prompts."""
    found = [state(output_tokens=n, concurrency=1000) for n in LENGTHS]
    np.testing.assert_allclose(found[0].batch - 1, [409.6, 163.8], rtol=0.05)
    assert gain(found[0]) > RATIO
    whole = [float(s.e2e[0] / s.e2e[1]) for s in found]
    assert whole == sorted(whole)
    assert whole[0] == pytest.approx(1, abs=0.03)
    assert whole[-1] == pytest.approx(RATIO, rel=2e-3)


@pytest.mark.parametrize("concurrency", [2, 8, 64, 500])
@pytest.mark.parametrize(("tokens", "seconds"), [(1000, 0.04), (50_000, 4.0), (200_000, 60.0)])
def test_the_closed_loop_satisfies_its_equations(
    concurrency: int, tokens: int, seconds: float
) -> None:
    """Put back: A of D + R steps, R from what the steps' tokens are used for, S and TPOT. In one
    life of a request each other one is read once: it lasts C prompts and its own steps. Little's
    law counts the same sequences by their rate and the time that each decodes."""
    asked, n = {"concurrency": concurrency, "prompt_tokens": tokens}, 200
    found = state((seconds, seconds), **asked)
    chunks, decodes, others = tokens / 8192, n / TAU, found.batch - 1
    used = others * chunks / decodes
    assert (used < 1).all()
    reads = 0.5 + np.ceil(chunks) + chunks * used / (2 * (1 - used))
    np.testing.assert_allclose(others * (decodes + reads), (concurrency - 1) * decodes, rtol=1e-6)
    np.testing.assert_allclose(found.waiting, others * seconds / n, rtol=1e-6)
    steps = np.diag(step_of(found.batch[:, None]))
    np.testing.assert_allclose(found.tpot, steps / TAU + found.waiting, rtol=1e-6)
    life = found.ttft + n * found.tpot
    np.testing.assert_allclose(life, concurrency * seconds + (decodes + reads) * steps, rtol=1e-6)
    for gamma in (0, 1):
        rate = float(found.throughput(found.tpot[gamma], gamma)) / 201
        assert rate * life[gamma] == pytest.approx(concurrency)
        # A server cannot read more prompts than its time holds.
        assert rate * seconds < 1
        assert rate < found.most_requests[gamma]
    np.testing.assert_allclose(found.e2e, life)


def test_a_closed_loop_dilutes_more_at_more_requests_and_longer_prompts() -> None:
    by_concurrency = [state(concurrency=c) for c in (1, 2, 4, 16, 64, 256)]
    by_prompt = [state((p, p), concurrency=64) for p in (0.0, 0.01, 0.03, 0.1, 0.3)]
    for found in (by_concurrency, by_prompt):
        assert np.all(np.diff([s.tpot for s in found], axis=0) > 0)
        assert np.all(np.diff([s.ttft for s in found], axis=0) > 0)
        assert np.all(np.diff([gain(s) for s in found]) < 0)
        assert all(1 < gain(s) < RATIO * 1.005 for s in found)
    throughput = [float(s.throughput(s.tpot[1], 1)) for s in by_concurrency]
    assert throughput == sorted(throughput)


def test_requests_that_memory_does_not_hold_wait_outside() -> None:
    """64 in flight, 16 inside: TPOT and batch are those of 16, and the 48 others stand in front of
    the first token: 4 lives of a request in all."""
    all_of, held = state(concurrency=16), state(concurrency=64, most=16)
    np.testing.assert_allclose(held.tpot, all_of.tpot)
    np.testing.assert_allclose(held.batch, all_of.batch)
    np.testing.assert_allclose(held.e2e, 4 * all_of.e2e)
    for gamma in (0, 1):
        rates = [float(s.throughput(s.tpot[gamma], gamma)) for s in (all_of, held)]
        assert rates[0] == pytest.approx(rates[1])


def test_one_wave_by_hand() -> None:
    """C = 64, P = 40 ms, n = 200: S = 63/2 · 40/200 = 6.3 ms, TTFT = 65/2 · 40 ms = 1.3 s."""
    found = state(concurrency=64, one_wave=True)
    np.testing.assert_allclose(found.batch, 64)
    np.testing.assert_allclose(found.waiting, 6.3e-3)
    np.testing.assert_allclose(found.ttft, 1.3)
    np.testing.assert_allclose(found.tpot, [11.2e-3 + 6.3e-3, 5.6e-3 * 1.25 / 1.25 + 6.3e-3])
    # Worked as a schedule: request k of 64 has its first token after k prompts, all end together.
    firsts = PROMPT * np.arange(1, 65)
    end = firsts[-1] + 200 * 11.2e-3
    assert found.ttft[0] == pytest.approx(firsts.mean())
    assert found.tpot[0] == pytest.approx(((end - firsts) / 200).mean())


def test_the_open_loop_by_hand() -> None:
    """λP = 0.2: κ = 1/0.8² − 1 = 0.5625 others begin in the same burst. The step is linear in the
    batch, so that TPOT (τ (1 − λP) − b λ n) = a + b (1 + κ) + τ (1 − λP) κ P / 2n in closed form,
    with κ P / 2n = 0.05625 ms."""
    rate, n, burst = 5.0, 200, 0.5625
    found = state(request_rate=rate)
    cost = np.array([1.0, SPECULATIVE])
    alone = (FLAT + SLOPE * (1 + burst)) * cost + TAU * 0.8 * 5.625e-5
    by_hand = alone / (TAU * 0.8 - SLOPE * cost * rate * n)
    np.testing.assert_allclose(found.tpot, by_hand, rtol=1e-9)
    np.testing.assert_allclose(found.batch, 1 + burst + rate * n * by_hand, rtol=1e-9)
    # S is the share λP of the time, in both arms, and half of the burst.
    share = (found.waiting - 0.8 * 5.625e-5) / found.tpot
    np.testing.assert_allclose(share, rate * PROMPT, rtol=1e-2)
    steps = np.diag(step_of(found.batch[:, None]))
    np.testing.assert_allclose(found.waiting, found.tpot - steps / TAU)
    # The smaller batch that speculation leaves adds to the gain.
    assert found.batch[1] < found.batch[0]
    assert gain(found) > RATIO
    # By Little's law B₁ − 1 − κ requests decode: throughput is what arrives.
    assert found.throughput(found.tpot[1], 1) == pytest.approx(rate * 201)


def test_in_an_open_loop_prompts_cancel_where_the_batch_costs_nothing() -> None:
    """Steps that cost the same at every batch: τ/s whatever the prompts take, but for what half of
    a burst takes in both arms alike."""
    level = grid()
    flat = Grid(
        level.batches, np.array([[0.01, 0.012]] * 2), np.zeros((2, 2)), np.zeros((2, 2)),
        level.prompts, level.most,
    )  # fmt: skip
    for rate in (0.1, 5.0, 15.0):
        found, free = steady(flat, requests(request_rate=rate), TAU), 1 - rate * PROMPT
        rest = found.tpot - (1 / free**2 - 1) * PROMPT / 400
        assert rest[0] / rest[1] == pytest.approx(2.5 / 1.2)
        assert rest[0] == pytest.approx(0.01 / free)


def test_longer_prompts_leave_an_open_loop_at_a_low_rate_as_it_is() -> None:
    gains = [gain(state((p, p), request_rate=0.05)) for p in (0.0, 0.05, 0.2)]
    np.testing.assert_allclose(gains, RATIO, rtol=3e-3)
    closed = [gain(state((p, p), concurrency=32)) for p in (0.0, 0.05, 0.2)]
    assert closed[0] - closed[2] > 0.5


def test_prompts_that_share_a_step_by_hand() -> None:
    """Steps that cost the same at every batch, 10 ms; two prompts add 10 ms beyond twice 40. With m
    prompts a step P = 40 ms + 10 ms (1 − (1 − e^−m)/m), m = λ 10 ms / (1 − λP)."""
    level = grid()
    ten = np.full((2, 2), 0.01)
    flat = replace(level, verify=ten, draft=0 * ten, extra=0 * ten, sharing=ten)
    rate = 10.0
    found = steady(flat, requests(request_rate=rate), TAU)
    prompt = 0.04
    for _ in range(100):
        m = rate * 0.01 / (1 - rate * prompt)
        prompt = 0.04 + 0.01 * (1 - (1 - np.exp(-m)) / m)
    assert 0.0405 < prompt < 0.042
    free = 1 - rate * prompt
    burst = (1 / free**2 - 1) * prompt / 400
    np.testing.assert_allclose(found.tpot, 0.01 / TAU / free + burst, rtol=1e-6)


def test_what_two_prompts_add_in_one_step_is_what_the_weights_no_longer_hide() -> None:
    """Nothing where they fill a step already; never less than none, and most of a short prompt that
    the weights hide alone."""
    short, long = (Grid.of(pair_of(), Requests(p, 256, request_rate=1.0), 2) for p in (128, 5000))
    assert short.sharing is not None
    assert long.sharing is not None
    assert not long.sharing.any()
    assert (short.sharing >= 0).all()
    assert short.sharing[0, 0] > 0.2 * short.prompts[0, 0]
    assert Grid.of(pair_of(), Requests(128, 256, concurrency=8), 2).sharing is None


def test_the_largest_rate_by_hand_and_beyond_it_a_refusal() -> None:
    """B_max = 100: plain 1/(0.04 + 200 · 13 ms/100) = 15.15 requests/s; with a draft
    1/(0.04 + 200 · 16.25 ms/(2.5 · 100)) = 18.87."""
    found = state(most=100, request_rate=1.0)
    np.testing.assert_allclose(found.most_requests, [1 / 0.066, 1 / 0.053])
    near = state(most=100, request_rate=15.1)
    assert np.isfinite(near.tpot).all()
    with pytest.raises(InputError, match=r"request_rate must be < 15\.2 requests/s.*got 15\.2"):
        state(most=100, request_rate=15.2)
    # What plain decoding carries and speculation does not is no answer of speculation's.
    slow = steady(grid(most=100), requests(request_rate=15.0), np.array([1.0, 1.1]))
    assert [slow.carries(gamma) for gamma in (0, 1)] == [True, False]
    assert np.isfinite(slow.tpot).all()
    assert gain(slow) < 0.01
    assert slow.ttft[1] > 100 * slow.ttft[0]


def test_a_load_is_said_in_one_way() -> None:
    for load in ({}, {"batch": 2, "concurrency": 2}, {"concurrency": 2, "request_rate": 1.0}):
        with pytest.raises(InputError, match="exactly one of batch, concurrency and request_rate"):
            requests(**load)
    for bad in (
        {"concurrency": 0}, {"batch": 0}, {"request_rate": 0.0}, {"batch": 1, "prefix_hit": 1.1},
        {"batch": 1, "output_tokens": 0}, {"batch": 1, "chunk_tokens": 0},
    ):  # fmt: skip
        with pytest.raises(InputError):
            requests(**bad)


# ── a real pair ──────────────────────────────────────────────────────────────────────────────


@cache
def pair_of(draft: str = "eagle3", context: int = 1024) -> ServedPair:
    place = Placement(models.find("Llama-3.1-8B"), "h100")
    return ServedPair(place, drafters.named(draft), 1, context)


def test_a_prompt_half_of_which_is_cached_takes_half() -> None:
    """By products alone; its queries also look back on the cached half, a few percent here."""
    pair, cold = pair_of(), Requests(4096, 256, batch=16)
    warm = Requests(4096, 256, batch=16, prefix_hit=0.5, prefix_hit_speculative=0.5)
    batches, contexts = np.array([16]), np.array([1024])
    full, half = (waiting_seconds(pair, r, batches, contexts)[0, 0] for r in (cold, warm))
    np.testing.assert_allclose(half / full, 0.5, atol=0.06)
    lost = Requests(4096, 256, batch=16, prefix_hit=0.5)
    ratio = waiting_seconds(pair, lost, batches, contexts)[0, 0] / full
    assert ratio[0] == pytest.approx(half[0] / full[0])
    assert ratio[1] == pytest.approx(1)


def test_the_draft_models_own_prompt_beside_the_targets() -> None:
    """A 1B draft reads each prompt too: its P over that of the 8B near the ratio of parameters; a
    lookup has none."""
    batches, contexts = np.array([16]), np.array([1024])
    own, none = (
        waiting_seconds(pair_of(d), Requests(4096, 256, batch=16), batches, contexts)[0, 0]
        for d in ("Llama-3.2-1B", "ngram")
    )
    assert none[0] == pytest.approx(none[1])
    assert own[0] == pytest.approx(none[0])
    assert 0.08 < own[1] / own[0] - 1 < 0.25


def test_a_grid_of_batches_agrees_with_steps_in_between() -> None:
    pair = pair_of()
    asked = Requests(1000, 256, concurrency=200)
    table = Grid.of(pair, asked, 4)
    for batch in (1, 3, 11, 50, 77, 130, 200):
        exact = pair.seconds_grid([batch], [1024], np.arange(5))[0, 0]
        np.testing.assert_allclose(table.step(np.full(5, float(batch))), exact, rtol=0.03)


# ── step by step ─────────────────────────────────────────────────────────────────────────────


ALPHA, OUTPUT = 0.7, 256
TOKENS = np.cumsum(ALPHA ** np.arange(5))
"""τ of γ = 0 … 4, Eq. 1 summed."""


@cache
def simulated(prompt: int, chunk: int, gamma: int) -> Simulation:
    return Simulation(pair_of(), prompt, chunk, gamma, 440)


def by_law(prompt: int, gamma: int, **load: Any) -> tuple[float, float, float]:
    """(TPOT, TTFT, largest rate). The simulation prices prompts that share a step one by one."""
    asked = Requests(prompt, OUTPUT, **load)
    found = steady(replace(Grid.of(pair_of(), asked, 4), sharing=None), asked, TOKENS)
    most = found.most_requests[[0, gamma]].min()
    return float(found.tpot[gamma]), float(found.ttft[gamma]), float(most)


@pytest.mark.parametrize("gamma", [0, 3])
@pytest.mark.parametrize(
    ("prompt", "concurrency"),
    [(512, 4), (512, 32), (512, 128), (2048, 4), (2048, 32), (2048, 128), (8000, 4), (8000, 32)],
)
def test_a_closed_loop_by_simulation(prompt: int, concurrency: int, gamma: int) -> None:
    """TPOT within 2.5%; TTFT up to 45% long: here a request never arrives in the middle of a step,
    and prompts of requests that end in one step do not queue as if they came by chance."""
    tpot, ttft, _ = by_law(prompt, gamma, concurrency=concurrency)
    seen = simulated(prompt, 8192, gamma).run(
        OUTPUT, ALPHA, concurrency=concurrency, ended=300 + 12 * concurrency
    )
    assert tpot / seen[0] == pytest.approx(1, abs=0.025)
    assert 0.98 < ttft / seen[1] < 1.5


@pytest.mark.parametrize("gamma", [0, 3])
@pytest.mark.parametrize(
    ("prompt", "chunk", "concurrency"),
    [(8000, 8192, 128), (8000, 2048, 128), (20_000, 8192, 16), (50_000, 8192, 4)],
)
def test_prompts_that_fill_the_time_by_simulation(
    prompt: int, chunk: int, concurrency: int, gamma: int
) -> None:
    """Where prompts take 80 to 98% of a token's time, and where steps cannot read prompts for as
    many sequences as there are (25 to 100 of 128 decode): TPOT within 5%, TTFT up to 35% long."""
    tpot, ttft, _ = by_law(prompt, gamma, concurrency=concurrency, chunk_tokens=chunk)
    seen = simulated(prompt, chunk, gamma).run(
        OUTPUT, ALPHA, concurrency=concurrency, ended=300 + 12 * concurrency
    )
    assert tpot / seen[0] == pytest.approx(1, abs=0.05)
    assert 0.95 < ttft / seen[1] < 1.35


def open_loop(prompt: int, gamma: int, share: float, ended: int, seeds: int) -> tuple[float, float]:
    """Law over simulation of TPOT and TTFT at a share of the largest rate."""
    rate = share * by_law(prompt, gamma, request_rate=1e-3)[2]
    law = by_law(prompt, gamma, request_rate=rate)
    server = simulated(prompt, 8192, gamma)
    runs = [server.run(OUTPUT, ALPHA, rate=rate, ended=ended, seed=k) for k in range(seeds)]
    tpot, ttft = np.mean(runs, axis=0)
    return law[0] / float(tpot), law[1] / float(ttft)


@pytest.mark.parametrize(
    ("prompt", "gamma", "share", "low"),
    [
        (512, 0, 0.25, 0.0), (512, 3, 0.25, 0.01), (8000, 3, 0.5, 0.0),
        pytest.param(512, 0, 0.75, 0.0, marks=pytest.mark.slow),
        pytest.param(512, 3, 0.75, 0.02, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_an_open_loop_by_simulation(prompt: int, gamma: int, share: float, low: float) -> None:
    """Within 2% but for the simulation's own spread, which is 3% at three quarters of the largest
    rate and of long prompts."""
    # One run of eight spreads by 1.6%, near the largest rate by 4%: there four are averaged.
    tpot, ttft = open_loop(prompt, gamma, share, 2500, 4 if share == 0.75 else 1)
    spread = 0.025 if share < 0.75 and prompt < 8000 else 0.05
    assert tpot == pytest.approx(1 - low, abs=spread)
    assert ttft == pytest.approx(1.0, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "high"), [(0, 0.12), (3, 0.18)])
def test_an_open_loop_of_long_prompts_by_simulation(gamma: int, high: float) -> None:
    """Prompts of 0.18 s, which is 25 to 45 steps: without its bursts the law was low by 3, 9, 14
    and 18% at 25, 50, 75 and 90% of the largest rate, by 5, 11, 21 and 28% with speculation. Now it
    is 12 and 18% high at 90%: here lengths spread, and those who begin together do not end so."""
    for share, miss in ((0.5, 0.0), (0.9, high)):
        tpot, _ = open_loop(8000, gamma, share, 6000, 3)
        assert tpot == pytest.approx(1 + miss, abs=0.03 if share < 0.75 else 0.12), share


@pytest.mark.slow
@pytest.mark.parametrize(("prompt", "gamma"), [(2048, 0), (512, 3)])
def test_an_open_loop_of_short_prompts_by_simulation(prompt: int, gamma: int) -> None:
    """Within 3% at half the largest rate; at 90% eight runs differ by 10% about a mean that is
    right within 1%: of two no more can be told than 16%."""
    for share, most in ((0.5, 0.04), (0.9, 0.16)):
        tpot, _ = open_loop(prompt, gamma, share, 6000, 2)
        assert 1 - most < tpot < 1 + max(0.04, most if share == 0.9 else 0.0), share


@pytest.mark.slow
def test_what_the_loops_say_of_speculation_by_simulation() -> None:
    """The gain itself, TPOT without over TPOT with: in a closed loop within 4%; in an open one at
    half the largest rate within 6%."""
    for prompt in (512, 8000):
        for load in (4, 32):
            law = by_law(prompt, 0, concurrency=load)[0] / by_law(prompt, 3, concurrency=load)[0]
            runs = [
                simulated(prompt, 8192, gamma).run(OUTPUT, ALPHA, concurrency=load, ended=1500)[0]
                for gamma in (0, 3)
            ]
            assert law == pytest.approx(runs[0] / runs[1], rel=0.04)
        rate = 0.5 * by_law(prompt, 0, request_rate=1e-3)[2]
        law = by_law(prompt, 0, request_rate=rate)[0] / by_law(prompt, 3, request_rate=rate)[0]
        runs = [
            simulated(prompt, 8192, gamma).run(OUTPUT, ALPHA, rate=rate, ended=4000)[0]
            for gamma in (0, 3)
        ]
        assert law == pytest.approx(runs[0] / runs[1], rel=0.06)
