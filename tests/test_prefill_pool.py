"""Workers that read prompts where others decode: by hand, against a queue simulated request by
request, and against replicas that read their own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from helpers.command_line import Capture, fault, run

from specmath.capacity import Capacity, aggregated, capacity, pools_of
from specmath.checks import InputError
from specmath.plan.record import plan_of
from specmath.predict import predict
from specmath.prefill_pool import (
    QUEUE_SHARE,
    PrefillPool,
    reading_pair,
    wait_in_turn,
    wait_together,
)
from specmath.scenario import Scenario
from specmath.scenario.files import build, from_toml, to_link, to_toml
from specmath.scenario.server import pair_of
from specmath.steptime.prefill import attention_seconds, shared_seconds
from specmath.tables import capacity_table, pools_table
from specmath.words.capacity import capacity_notes, capacity_sentence, limits_sentence
from specmath.words.pools import moved_words, pool_remarks, together_sentence

SERVED: dict[str, Any] = {
    "alpha": 0.7, "gamma": 3, "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3",
    "prompt_tokens": 1024, "decode_only": "yes",
}  # fmt: skip
LARGE = SERVED | {"model": "Llama-3.3-70B", "tensor_parallel": 4, "prompt_tokens": 3000}
ASKED = SERVED | {"demand_requests_per_second": 100, "slo_tpot_ms": 10}


def of(given: dict[str, Any] | None = None, **more: Any) -> Capacity:
    return capacity(predict(build((given or SERVED) | more)))


def pool_of(found: Capacity, *, plain: bool = False) -> PrefillPool:
    prefill = (found.plain if plain else found.speculative).prefill
    assert prefill is not None
    return prefill.pool


# ── the queue, simulated request by request ──────────────────────────────────────────────────


def waits(rate: float, services: np.ndarray, seed: int) -> float:
    """Mean wait of requests that one worker reads in turn (Lindley's recurrence)."""
    chosen = np.random.default_rng(seed)
    gaps = chosen.exponential(1.0 / rate, len(services))
    wait, total = 0.0, 0.0
    for gap, service in zip(gaps[1:], services[:-1], strict=True):
        wait = max(0.0, wait + service - gap)
        total += wait
    return total / len(services)


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
def test_a_queue_in_turn_is_as_simulated(busy: float) -> None:
    seconds = 0.0222
    told = float(wait_in_turn(busy / seconds, seconds, seconds**2))
    assert told == pytest.approx(busy * seconds / (2 * (1 - busy)))
    seen = [waits(busy / seconds, np.full(60_000, seconds), seed) for seed in range(6)]
    assert told == pytest.approx(np.mean(seen), rel=0.04)
    assert float(wait_in_turn(1.0 / seconds, seconds, seconds**2)) == math.inf


def test_a_queue_of_two_kinds_is_as_simulated() -> None:
    """One in four takes ten times as long: the second moment, not the mean, makes the queue."""
    short, long, share = 0.02, 0.2, 0.25
    mean = (1 - share) * short + share * long
    square = (1 - share) * short**2 + share * long**2
    rate = 0.7 / mean
    chosen = np.random.default_rng(5)
    services = np.where(chosen.random(400_000) < share, long, short)
    told = float(wait_in_turn(rate, mean, square))
    assert told == pytest.approx(waits(rate, services, 1), rel=0.05)
    assert told > 1.5 * float(wait_in_turn(rate, mean, mean**2))


def gated(rate: float, once: float, services: np.ndarray, seed: int) -> float:
    """Mean time from coming to the end of the step that reads all that came in the one before."""
    came = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, len(services)))
    now, head, total = 0.0, 0, 0.0
    while head < len(came):
        now = max(now, came[head])
        stop = int(np.searchsorted(came, now, side="right"))
        now += once + float(services[head:stop].sum())
        total += (stop - head) * now - float(came[head:stop].sum())
        head = stop
    return total / len(services)


@pytest.mark.parametrize("used", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(
    ("once", "kinds"), [(0.0, (1.0, 1.0)), (0.5, (1.0, 1.0)), (4.0, (1.0, 1.0)), (0.5, (0.4, 2.8))]
)
def test_a_queue_together_is_as_simulated(
    once: float, kinds: tuple[float, float], used: float
) -> None:
    """One in four of the second kind; a step takes `once` besides."""
    chosen = np.random.default_rng(3)
    services = np.where(chosen.random(200_000) < 0.25, kinds[1], kinds[0])
    mean, square = (0.75 * kinds[0] ** k + 0.25 * kinds[1] ** k for k in (1, 2))
    rate = used / mean
    told = float(wait_together(rate, once, mean, square)) + once + mean
    assert told == pytest.approx(gated(rate, once, services, 7), rel=0.03)


def test_queues_by_hand() -> None:
    # One by one nothing waits; half used, ½ · 1 · 0.1/(1 − ¼) where all are read together.
    assert float(wait_together(0.0, 0.2, 0.1, 0.01)) == 0.0
    assert float(wait_together(5.0, 0.0, 0.1, 0.01)) == pytest.approx(0.05 / 0.75)
    assert float(wait_together(10.0, 0.0, 0.1, 0.01)) == math.inf
    assert float(wait_in_turn(5.0, 0.1, 0.01)) == pytest.approx(0.05)


def shared_ttft(
    rate: float, lengths: np.ndarray, seconds: Callable[[list[tuple[int, int]]], float], seed: int
) -> float:
    """Mean time to the first token on an engine that fills each step with what has come, prompts in
    turn and in pieces, up to 8192 tokens; a step's seconds are of (prompt, tokens) of each."""
    came = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, len(lengths)))
    now, head, left, done = 0.0, 0, int(lengths[0]), np.zeros(len(came))
    while head < len(came):
        now = max(now, came[head])
        room, at, reads = 8192, head, []
        while at < len(came) and came[at] <= now and room:
            whole = left if at == head else int(lengths[at])
            take = min(room, whole)
            reads.append((at, take, take == whole))
            room, at = room - take, at + 1
        now += seconds([(int(lengths[each]), take) for each, take, _ in reads])
        for each, take, last in reads:
            if last:
                done[each], head = now, each + 1
                left = int(lengths[head]) if head < len(came) else 0
            else:
                left -= take
    return float((done - came).mean())


def engine(s: Scenario, lengths: Sequence[int]) -> Callable[[list[tuple[int, int]]], float]:
    """Seconds of a step of that engine, from the same forwards; of prompts of those lengths."""
    pair = reading_pair(pair_of(s), s)
    forward = shared_seconds(pair.place, np.arange(1.0, 8193.0))
    over = pair.plain_seconds - forward[0]
    each = np.unique(lengths)
    cost = attention_seconds(pair.place, each.astype(float), each / 2.0) / each
    attention = dict(zip(each.tolist(), cost.tolist(), strict=True))

    def seconds(reads: list[tuple[int, int]]) -> float:
        tokens = sum(take for _, take in reads)
        return float(over + forward[tokens - 1] + sum(attention[n] * take for n, take in reads))

    return seconds


@pytest.mark.parametrize(
    ("length", "used", "low", "high"),
    [(128, 0.6, 1.1, 1.35), (256, 0.8, 1.0, 1.2), (512, 0.8, 0.95, 1.05), (1024, 0.9, 0.95, 1.08),
     (3000, 0.6, 0.95, 1.05), (3000, 0.8, 0.93, 1.07), (6000, 0.6, 0.9, 1.05),
     (12_000, 0.6, 0.86, 1.0)],
)  # fmt: skip
def test_the_first_token_of_an_engine_step_by_step(
    length: int, used: float, low: float, high: float
) -> None:
    """That told over that seen, `used` of the largest rate: within 10% from 512 to 12,000 tokens,
    high for shorter ones, of which forwards bend more than the line from one to a full step."""
    s = build(SERVED | {"prompt_tokens": length, "headroom": 1.0 - used})
    pool = pool_of(capacity(predict(s)), plain=True)
    seconds, rate = engine(s, [length]), used * pool.most.value
    seen = [shared_ttft(rate, np.full(8000, length), seconds, seed) for seed in range(3)]
    assert low < pool.first.value / float(np.mean(seen)) < high


def test_the_first_token_of_two_kinds_step_by_step() -> None:
    kinds = [{"name": "short", "share": 0.7, "prompt_tokens": 600},
             {"name": "long", "share": 0.3, "prompt_tokens": 4000}]  # fmt: skip
    given = {n: v for n, v in SERVED.items() if n != "prompt_tokens"}
    (endpoint,) = plan_of([{**given, "name": "x", "demand_requests_per_second": 10,
                            "headroom": 0.4, "segments": kinds}]).endpoints  # fmt: skip
    pool = pool_of(capacity(predict(endpoint.scenario, endpoint.parts)), plain=True)
    lengths = np.where(np.random.default_rng(4).random(12_000) < 0.3, 4000, 600)
    seconds = engine(build(SERVED), [600, 4000])
    seen = [shared_ttft(0.6 * pool.most.value, lengths, seconds, seed) for seed in range(3)]
    assert pool.first.value == pytest.approx(float(np.mean(seen)), rel=0.06)


@pytest.mark.parametrize(("mean", "low", "high"), [(1024, 0.95, 1.1), (6000, 0.93, 1.05)])
def test_lengths_that_spread_step_by_step(mean: int, low: float, high: float) -> None:
    """Lognormal, as far from their mean as it is long."""
    sigma = math.sqrt(math.log(2.0))
    lengths = np.random.default_rng(8).lognormal(math.log(mean) - sigma**2 / 2, sigma, 20_000)
    lengths = np.maximum(np.rint(lengths), 1).astype(int)
    found = of(prompt_tokens=mean, prompt_spread=1.0, headroom=0.5)
    pool, alike = pool_of(found, plain=True), pool_of(of(prompt_tokens=mean), plain=True)
    assert pool.prompt.value > alike.prompt.value, "attention grows with the square"
    seconds = engine(build(SERVED), lengths.tolist())
    seen = [shared_ttft(0.5 * pool.most.value, lengths, seconds, seed) for seed in range(3)]
    assert low < pool.first.value / float(np.mean(seen)) < high


# ── one prompt ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", [SERVED, LARGE, SERVED | {"prompt_tokens": 200}])
def test_a_prompt_takes_what_one_alone_takes_on_a_replica_that_decodes(
    given: dict[str, Any],
) -> None:
    """Of the open loop at a rate towards 0, which adds it to a step of one: the time, its range."""
    found = pool_of(of(given), plain=True)
    alone = predict(build(given | {"decode_only": "no", "request_rate": 1e-5})).endpoint
    together = of(given | {"decode_only": "no"}).plain.alone.ttft
    assert alone.load is not None
    assert found.prompt.value == pytest.approx(float(alone.load.ttft[0]), rel=5e-3)
    assert found.prompt.low == pytest.approx(together.low, rel=0.02)
    assert found.prompt.high == pytest.approx(together.high, rel=0.02)


def test_the_first_token_of_a_queue_towards_nothing_is_the_prompt() -> None:
    """A promise just above the prompt's time leaves next to no queue, and next to no rate."""
    for tokens in (1024, 12_000):
        prompt = pool_of(of(prompt_tokens=tokens), plain=True).prompt.value
        given = {"prompt_tokens": tokens, "slo_ttft_ms": 1e3 * prompt * 1.001}
        tight = pool_of(of(**given), plain=True)
        assert tight.first.value == pytest.approx(prompt, rel=1.1e-3)
        # Of the few that wait the mean waits for half of a prompt.
        assert tight.within.value == pytest.approx(0.002 / prompt, rel=0.01)


def test_the_drafter_reads_it_too_and_lookups_do_not() -> None:
    found = of()
    plain, ours = pool_of(found, plain=True), pool_of(found)
    assert plain.prompt.value < ours.prompt.value < 1.2 * plain.prompt.value
    looked_up = of(draft="ngram", alpha=0.5)
    assert pool_of(looked_up).prompt.value == pool_of(looked_up, plain=True).prompt.value
    model = of(draft="Llama-3.2-1B")
    assert pool_of(model).prompt.value > ours.prompt.value


def test_without_speculation_the_workers_do_not_depend_on_the_draft() -> None:
    changes = ({}, {"gamma": 1}, {"gamma": 7}, {"draft": "Llama-3.2-1B"}, {"alpha": 0.3})
    each = [pool_of(of(ASKED, **more), plain=True) for more in changes]
    assert len({pool.within.value for pool in each}) == 1
    assert len({pool.mean_bytes for pool in each}) == 1


def test_hits_of_the_prefix_cache_are_not_read_again() -> None:
    half = of(prompt_tokens=6000, prefix_hit=0.5, prefix_hit_speculative=0.0)
    plain, ours = pool_of(half, plain=True), pool_of(half)
    whole = pool_of(of(prompt_tokens=6000), plain=True)
    assert 0.5 * whole.prompt.value < plain.prompt.value < 0.75 * whole.prompt.value
    assert ours.prompt.value == pytest.approx(pool_of(of(prompt_tokens=6000)).prompt.value)
    # A prompt that the cache holds whole takes the step of its first token.
    held = pool_of(of(prefix_hit=1.0), plain=True)
    step = predict(build(SERVED | {"batch": 1, "context_tokens": 1})).tpot_plain
    assert step is not None
    assert held.prompt.value == pytest.approx(step.value, rel=0.01)


def test_a_measured_time_moves_the_prompts_too() -> None:
    own = predict(build(SERVED | {"request_rate": 5.0})).tpot_plain
    assert own is not None
    slow = of(request_rate=5.0, target_ms=2e3 * own.value)
    ratio = pool_of(slow, plain=True).prompt.value / pool_of(of(), plain=True).prompt.value
    assert ratio == pytest.approx(2.0, rel=1e-6)


# ── both pools ───────────────────────────────────────────────────────────────────────────────


def test_gpus_of_both_pools_by_hand() -> None:
    """Prompts that no step holds two of, read in turn."""
    found = of(LARGE, demand_requests_per_second=40, slo_ttft_ms=3000, slo_tpot_ms=40,
               prompt_tokens=12_000, prefill_tensor_parallel=8, headroom=0.25,
               usd_per_hour=3)  # fmt: skip
    for arm in (found.plain, found.speculative):
        prefill = arm.prefill
        assert prefill is not None
        assert prefill.replicas is not None
        assert arm.replicas is not None
        assert arm.all_gpus is not None
        assert arm.usd_per_month is not None
        prompt = prefill.pool.prompt.value
        assert prefill.pool.limit == "ttft"
        wait = 3.0 - prompt
        most = 2 * wait / (prompt**2 + 2 * wait * prompt)
        assert prefill.pool.within.value == pytest.approx(most, rel=1e-9)
        workers = math.ceil(40 / (0.75 * most))
        assert prefill.replicas.value == workers
        decoding = math.ceil(40 / (0.75 * arm.within.value))
        assert arm.replicas.value == decoding
        assert arm.all_gpus.value == 4 * decoding + 8 * workers
        assert arm.usd_per_month.value == pytest.approx((4 * decoding + 8 * workers) * 3 * 730)
        # As planned, a quarter of the rate is free.
        assert arm.planned is not None
        used = 0.75 * most * prompt
        assert arm.planned.ttft.value == pytest.approx(
            prompt + used * prompt / (2 * (1 - used)), rel=1e-9
        )
        assert arm.full is not None
        assert arm.full.ttft.value == pytest.approx(3.0)


def test_where_nothing_is_promised_of_prompts_they_fill_the_time() -> None:
    found = of(ASKED)
    pool = pool_of(found)
    assert pool.limit == "time"
    # Eight prompts fill a step, of which each but the first takes less than one alone.
    assert 1.0 < pool.within.value * pool.prompt.value < 1.2
    long = pool_of(of(ASKED, prompt_tokens=9000))
    assert long.within.value == pytest.approx(1.0 / long.prompt.value)
    # Four fifths used: the queue is twice as long as a prompt.
    assert long.first.value == pytest.approx(3.0 * long.prompt.value)


def test_no_prompts_is_what_replicas_that_read_their_own_do() -> None:
    apart = of(prompt_tokens=0, slo_tpot_ms=9)
    own = of(prompt_tokens=0, slo_tpot_ms=9, decode_only="no")
    for arm, one in ((apart.plain, own.plain), (apart.speculative, own.speculative)):
        assert arm.within.value == pytest.approx(one.within.value, rel=1e-9)
        assert arm.most.value == pytest.approx(one.most.value, rel=1e-9)
        for at, alike in zip(arm.at, one.at, strict=True):
            assert at.tpot.value == pytest.approx(alike.tpot.value, rel=1e-9)


def test_the_whole_request_is_split_between_the_pools() -> None:
    promised = {"slo_e2e_ms": 2500, "transfer_gb_per_second": 2.0}
    found = of(SERVED, **promised)
    for arm in (found.plain, found.speculative):
        prefill, full = arm.prefill, arm.full
        assert prefill is not None
        assert full is not None
        pool = prefill.pool
        assert pool.moving == pytest.approx(pool.mean_bytes / 2e9)
        left = 2.5 - pool.prompt.value - pool.moving
        wait = min(pool.prompt.value, QUEUE_SHARE * left)
        assert pool.longest.value == pytest.approx(wait)
        assert pool.wait_at(pool.within).value == pytest.approx(wait)
        assert arm.limit == "e2e"
        assert full.e2e.value == pytest.approx(2.5, rel=1e-6)
        # What passes before the second token beside the first and the transfer is half a step.
        rest = full.e2e.value - full.ttft.value - pool.moving - 255 * full.tpot.value
        assert 0.0 <= rest < 3.0 * full.tpot.value * 4
    slower, none = of(SERVED, **promised | {"transfer_gb_per_second": 0.2}), of(slo_e2e_ms=2500)
    assert slower.plain.within.value < found.plain.within.value < none.plain.within.value


def test_long_prompts_leave_a_quarter_of_the_rest_to_the_queue() -> None:
    found = of(prompt_tokens=60_000, slo_e2e_ms=8000)
    pool = pool_of(found, plain=True)
    assert pool.longest.value == pytest.approx(QUEUE_SHARE * (8.0 - pool.prompt.value))
    assert pool.longest.value < pool.prompt.value


def test_a_transfer_that_is_most_of_a_request_is_named() -> None:
    """138 MB at 0.01 GB/s are 13.8 s; at 10 GB/s they are none to speak of."""
    served = {"alpha": 0.7, "gamma": 4, "slo_tpot_ms": None}
    slow = of(ASKED, slo_e2e_ms=3000, transfer_gb_per_second=0.01, **served)
    moving = pool_of(slow).moving
    assert moving == pytest.approx(pool_of(slow).mean_bytes / 1e7)
    said = capacity_sentence(slow)
    assert f"{moving:.1f} s of it are the transfer of its cache between the pools" in said
    assert "shorter step" not in said
    quick = of(ASKED, slo_e2e_ms=300, transfer_gb_per_second=10, **served)
    assert quick.speculative.within.value == 0.0
    assert "transfer" not in capacity_sentence(quick)


def test_what_no_worker_can_keep_says_the_best_there_is() -> None:
    found = of(ASKED, slo_ttft_ms=15)
    assert found.plain.within.value == found.speculative.within.value == 0.0
    assert found.plain.limit == "ttft"
    assert found.plain.all_gpus is None
    said = capacity_sentence(found)
    best = f"{1e3 * pool_of(found).prompt.value:.1f}"
    assert said.startswith("No rate is low enough within 10.0 ms a token and 15.0 ms to the first")
    assert f"a request alone takes {best}" in said
    assert len(capacity_table(found)) == 2


def test_the_bytes_that_move_by_hand() -> None:
    """32 layers of 8 heads of 128, keys and values in 2 bytes: 128 KiB a token; eagle3 has one
    layer of the same more."""
    found = of()
    assert pool_of(found, plain=True).mean_bytes == 1024 * 131072
    assert pool_of(found).mean_bytes == 1024 * (131072 + 4096)
    # On more GPUs as many bytes move.
    wide = of(prefill_tensor_parallel=2, tensor_parallel=4)
    assert pool_of(wide).mean_bytes == pool_of(found).mean_bytes
    assert "138 MB with the draft's, 134 MB without" in moved_words(found)
    assert "in no number until you say how fast" in pool_remarks(found)[0]
    timed = of(transfer_gb_per_second=10)
    assert "in 13.8 ms at 10.0 GB/s" in pool_remarks(timed)[0]
    assert timed.plain.alone.e2e.value == pytest.approx(
        found.plain.alone.e2e.value + 1024 * 131072 / 1e10, rel=1e-9
    )


def test_draft_gpus_are_those_of_a_worker_too() -> None:
    found = of(draft="Llama-3.2-1B", draft_gpus=1)
    assert (pool_of(found, plain=True).gpus, pool_of(found).gpus) == (1, 2)


def test_switched_by_load_the_draft_reads_every_prompt() -> None:
    found = of(draft="ngram", alpha=0.6, gamma=6, demand_requests_per_second=100)
    assert found.switched is not None
    assert found.switched.prefill is not None
    assert found.switched.prefill.pool is pool_of(found)


# ── beside one pool ──────────────────────────────────────────────────────────────────────────


def test_one_pool_beside_it_is_the_same_scenario_told_so() -> None:
    p = predict(build(ASKED))
    found = capacity(p)
    beside, alone = aggregated(p, found), of(ASKED, gamma=found.gamma, decode_only="no")
    for one, arm in ((beside.plain, alone.plain), (beside.speculative, alone.speculative)):
        assert one.within == arm.within
        assert one.all_gpus == arm.all_gpus
        assert one.prefill is None
    rows = pools_table(found, beside).rows()
    assert [row["pools"] for row in rows] == ["Two pools", "One pool"] * 2
    for row, arm in zip(rows, (found.plain, beside.plain, found.speculative, beside.speculative),
                        strict=True):  # fmt: skip
        assert arm.all_gpus is not None
        assert arm.planned is not None
        assert row["gpus"] == arm.all_gpus.value
        assert row["ttft_ms"] == pytest.approx(1e3 * arm.planned.ttft.value)
    said = together_sentence(found, beside)
    assert f"With γ={found.gamma} two pools take {rows[2]['gpus']:.0f} GPUs" in said
    assert f"fewer than the {rows[3]['gpus']:.0f} of replicas that read their own" in said


def test_the_demand_of_so_many_replicas_is_that_of_both() -> None:
    p = predict(build(SERVED | {"replicas": 8, "slo_tpot_ms": 9}))
    found = capacity(p)
    assert found.plain.replicas is not None
    assert found.plain.replicas.value == 8
    assert aggregated(p, found).demand == found.demand


# ── the fields, the words, the command ───────────────────────────────────────────────────────


def test_fields_of_the_workers_are_like_others() -> None:
    s = build(SERVED | {"prefill_tensor_parallel": 2, "transfer_gb_per_second": 25.0})
    assert from_toml(to_toml(s)) == s
    assert to_link(s)["prefill_tensor_parallel"] == "2"
    with pytest.raises(InputError, match="prefill_tensor_parallel must be a whole number >= 1"):
        build(SERVED | {"prefill_tensor_parallel": 0})
    assert pools_of(predict(build(SERVED | {"decode_only": "no"}))) is None


def test_workers_that_cannot_be_are_refused_by_their_own_name() -> None:
    with pytest.raises(InputError, match=r"^prefill_tensor_parallel"):
        of(prefill_tensor_parallel=3)
    with pytest.raises(
        InputError, match=r"does not fit on 1 x .*; prefill_tensor_parallel \d fits"
    ):
        of(LARGE, prefill_tensor_parallel=1)
    with pytest.raises(InputError, match="draft_tensor_parallel must be <= prefill_tensor_paral"):
        of(LARGE, draft="Llama-3.2-1B", draft_tensor_parallel=4, prefill_tensor_parallel=2)


def test_notes_say_what_is_counted_and_what_is_not() -> None:
    found = of(ASKED)
    told = " ".join(capacity_notes(found))
    assert "assumed: as many as decode" in told
    assert "not counted" not in told
    assert "assumed: as many" not in " ".join(capacity_notes(of(ASKED, prefill_tensor_parallel=1)))
    assert "decode, 3 read prompts" in capacity_sentence(found)
    assert "with 20% of that kept free the first token comes after" in limits_sentence(found)


def test_the_command_says_both_pools(capsys: Capture) -> None:
    words = [w for k, v in ASKED.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    p = predict(build(ASKED))
    found = capacity(p)
    rows = json.loads(run(capsys, "capacity", *words, "--by", "pools", "--format", "json"))
    assert rows == json.loads(json.dumps(pools_table(found, aggregated(p, found)).rows()))
    told = " ".join(run(capsys, "capacity", *words).split())
    assert together_sentence(found, aggregated(p, found)) in told
    assert moved_words(found) in told
    own = [each if each != "yes" else "no" for each in words]
    assert "rows by pools need decode_only=yes" in fault(capsys, "capacity", *own, "--by", "pools")


def test_any_first_token_beyond_the_least_is_kept() -> None:
    """The queue is given all that the prompt leaves: rounding must not break the promise."""
    for promised in range(120, 4000, 53):
        found = capacity(predict(build({**ASKED_TTFT, "slo_ttft_ms": promised})))
        assert found.plain.within.value > 0.0, promised
        assert found.speculative.within.value > 0.0, promised


ASKED_TTFT = {
    "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3", "gamma": 4, "alpha": 0.7,
    "prompt_tokens": 1024, "demand_requests_per_second": 100, "decode_only": "yes",
}  # fmt: skip
