"""How many GPUs: the open loop solved for its rate, against the loop itself and by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from specmath.capacity import SLOS, At, Capacity, capacity, server_of
from specmath.checks import InputError
from specmath.cli import main
from specmath.numbers import significant
from specmath.predict import Prediction, predict
from specmath.scenario import Scenario
from specmath.scenario.files import build, from_toml, revised, to_link, to_toml
from specmath.scenario.server import pair_of, requests_of
from specmath.serving.loop import Grid, Requests, Steady, first_token, steady
from specmath.serving.open_loop import Filled, filled, largest_rate, open_loop, queue_seconds
from specmath.tables import capacity_rates_table, capacity_table, gamma_capacity_table
from specmath.words.capacity import capacity_sentence, crossover_sentence, limits_sentence

SERVED: dict[str, Any] = {
    "alpha": 0.7, "gamma": 3, "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3",
    "prompt_tokens": 1024,
}  # fmt: skip
LOOKED_UP = SERVED | {"draft": "ngram", "alpha": 0.6, "gamma": 6}
LONG = SERVED | {"prompt_tokens": 30_000, "output_tokens": 500}


def of(given: dict[str, Any] | None = None, **more: Any) -> Capacity:
    return capacity(predict(build((given or SERVED) | more)))


def at_rate(given: dict[str, Any], rate: float) -> Prediction:
    return predict(build(given | {"request_rate": rate}))


@cache
def _loop(given: tuple[tuple[str, Any], ...]) -> tuple[Grid, Requests, np.ndarray]:
    """Seconds over batches and τ over γ, made without the capacity."""
    s = build(dict(given))
    endpoint = predict(s).endpoint
    assert endpoint.load is not None
    (asked, *_) = requests_of(s)
    gammas = np.arange(len(endpoint.load.step))
    pair = pair_of(s)
    grid = Grid.of(pair, asked, len(gammas) - 1)
    besides = np.outer(grid.steps[:, 0], sum(pair.positions) / 2 * pair.share * gammas)
    grid = replace(grid, verify=grid.verify + besides)
    return grid, asked, np.asarray(endpoint.speculation.tokens(gammas), dtype=float)


def loop_at(given: dict[str, Any], rate: float) -> Steady:
    """The fixed point of the loop, where nothing is solved for the rate."""
    grid, asked, tokens = _loop(tuple((given | {"request_rate": 0.001}).items()))
    return steady(grid, replace(asked, request_rate=rate), tokens)


def by_halving(low: float, high: float, holds: Callable[[float], bool], rounds: int = 26) -> float:
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# ── by hand ──────────────────────────────────────────────────────────────────────────────────


def test_a_step_that_takes_as_long_for_any_batch_by_hand() -> None:
    """100 tokens of 10 ms for 2, prompts of 20 ms, 10 requests/s: prompts fill a fifth of the time,
    κ = 1/0.64 − 1 others begin with one, and a token takes 5 ms / 0.8 + κ 20 ms / 200."""
    rate, step, prompt, tokens = (np.array([each]) for each in (10.0, 0.01, 0.02, 2.0))
    steps, prompts = (lambda held: step + 0 * held), (lambda o, _: 0 * o + prompt)
    found = open_loop(100, rate, tokens, 40.0, steps, prompts)
    batch, busy, tpot = found.batch, found.busy, found.tpot
    assert busy == pytest.approx(0.2)
    assert tpot == pytest.approx(0.00625 + 0.5625 * 0.02 / 200, rel=1e-9)
    assert batch == pytest.approx(1 + 10 * 100 * 0.00630625 + 0.5625, rel=1e-9)
    # Who comes finds a step of 10 ms / 0.8 + 20 ms × 0.2/0.96, waits for half of it and for a
    # fifth of it in other prompts.
    queue = queue_seconds(found, room=8.0)
    assert queue == pytest.approx(0.7 * (0.0125 + 0.004 / 0.96) - 0.005)
    # One's own prompt in a step of its own, and half of the one under way.
    first = first_token(np.array([1.0]), 0.0, step, 0.01, batch, prompt)
    assert first == pytest.approx(0.02 + 0.015)
    # 40 fill the memory: 1 / (0.02 + 0.5/40).
    most = largest_rate(100, 40.0, 0.01, 2.0, 0.02)
    assert float(most) == pytest.approx(1 / 0.0325, rel=1e-12)
    # The other way round: that batch is what 10 requests/s fill.
    back = filled(100, batch, tokens, steps, prompts)
    assert back.rate == pytest.approx(10.0, rel=1e-9)
    assert back.tpot == pytest.approx(tpot, rel=1e-9)
    assert back.busy == pytest.approx(busy, rel=1e-9)


@pytest.mark.parametrize("prompt", [0, 200, 2000, 20_000])
@pytest.mark.parametrize("output", [2, 50, 1000])
def test_a_rate_and_the_batch_that_it_fills_are_the_same_loop(prompt: int, output: int) -> None:
    """Each found from the other, and from B₁ = 1 + λ (N−1) TPOT + κ as it is written, up to the
    batch from which on more of it serve no more."""
    server = server_of(predict(Scenario(**SERVED | {"prompt_tokens": prompt,
                                                    "output_tokens": output})))  # fmt: skip
    batch = np.geomspace(1.001, server.held, 40)
    full = filled(output - 1, batch, server.tokens, server._step, server._prompt)
    kept = np.minimum.accumulate(full.carried(), axis=0) & (full.rate < 0.95 * server.most)
    assert kept.sum() > kept.shape[1] * 8
    rate = np.where(kept, full.rate, full.rate[0])
    back = open_loop(output - 1, rate, server.tokens, server.held, server._step, server._prompt)
    assert back.batch[kept] == pytest.approx(batch[kept], rel=1e-8)
    others = rate * (output - 1) * back.tpot
    assert (1.0 + others + 1.0 / (1.0 - back.busy) ** 2 - 1.0)[kept] == pytest.approx(
        batch[kept], rel=1e-8
    )
    assert back.busy == pytest.approx(rate * back.prompt, rel=1e-8, abs=1e-15)


def test_a_server_of_one_sequence_is_full_at_any_rate() -> None:
    """One sequence, tokens of 10 ms, no prompts: who comes decodes alone."""
    ones = np.ones((3, 1))
    found = open_loop(9, np.array([[0.1], [1.0], [9.0]]), np.ones(1), 1.0, lambda b: 0.01 * b,
                      lambda o, _: 0.0 * o)  # fmt: skip
    assert found.batch == pytest.approx(ones)
    assert found.tpot == pytest.approx(0.01 * ones)


def _read_in_steps(step: float, prompts: list[float], rate: float, most: int) -> float:
    """Mean wait beyond half a step, the step that reads one's prompt and the prompt itself: steps
    one after another, each of `step` and of the prompts it reads, first come first served."""
    draw = np.random.default_rng(7)
    arrivals = np.cumsum(draw.exponential(1.0 / rate, 100_000))
    takes = draw.choice(prompts, len(arrivals))
    waits, now, first = [], 0.0, 0
    while first < len(arrivals):
        now += max(0.0, np.ceil((arrivals[first] - now) / step)) * step
        came = int(np.searchsorted(arrivals, now, side="right"))
        read = min(came - first, most)
        end = now + step + float(takes[first : first + read].sum())
        waits += [end - arrivals[i] - takes[i] - 1.5 * step for i in range(first, first + read)]
        first, now = first + read, end
    return float(np.mean(waits))


def _met(prompt: float, busy: float) -> Filled:
    """Nine sequences in steps of 10 ms."""
    return Filled(*map(np.array, (9.0, busy / prompt, 0.01, prompt, busy, 0.01)))


@pytest.mark.parametrize("busy", [0.1, 0.4, 0.7])
@pytest.mark.parametrize(("prompt", "room"), [(0.004, 99), (0.05, 99), (0.05, 1)])
def test_waiting_for_a_first_token_by_simulation(busy: float, prompt: float, room: int) -> None:
    """Steps of 10 ms, and prompts of 4 or 50 ms that share one or are read in turn: within 2%, and
    5% of what is nearly a queue without end (0.7 of the time for prompts, a step for each)."""
    rate = busy / prompt
    told = queue_seconds(_met(prompt, busy), room)
    seen = _read_in_steps(0.01, [prompt], rate, room)
    assert float(told) == pytest.approx(seen, rel=0.05 if room == 1 else 0.02)


def test_waiting_beside_prompts_that_differ_by_simulation() -> None:
    """Of 5 and 95 ms as often: E P²/(E P)² = 1.81."""
    unequal = (0.005**2 + 0.095**2) / 2 / 0.05**2
    told = queue_seconds(_met(0.05, 0.4), 99, unequal)
    assert float(told) == pytest.approx(_read_in_steps(0.01, [0.005, 0.095], 8.0, 99), rel=0.02)


def test_replicas_gpus_and_dollars_by_hand() -> None:
    found = of(slo_tpot_ms=9, demand_requests_per_second=77, headroom=0.25, tensor_parallel=2,
               usd_per_hour=3)  # fmt: skip
    for arm in (found.plain, found.speculative):
        needed = 77 / (0.75 * arm.within.value)
        assert arm.needed is not None
        assert arm.replicas is not None
        assert arm.all_gpus is not None
        assert arm.usd_per_month is not None
        assert arm.needed.value == pytest.approx(needed)
        assert arm.replicas.value == math.ceil(needed)
        assert arm.all_gpus.value == 2 * math.ceil(needed)
        assert arm.usd_per_month.value == pytest.approx(math.ceil(needed) * 2 * 3 * 730)


def test_a_demand_said_in_any_way_is_the_same() -> None:
    asked = of(slo_tpot_ms=9, demand_requests_per_second=50)
    tokens = of(slo_tpot_ms=9, demand_tokens_per_second=50 * 256)
    assert asked.plain.replicas == tokens.plain.replicas
    # What eight replicas carry without speculation, eight carry.
    run = of(slo_tpot_ms=9, replicas=8)
    assert run.plain.replicas is not None
    assert (run.plain.replicas.value, run.plain.replicas.low, run.plain.replicas.high) == (8, 8, 8)


# ── against the loop itself ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", [SERVED, LOOKED_UP, LONG | {"output_tokens": 60}])
def test_at_each_rate_it_is_the_prediction_there(given: dict[str, Any]) -> None:
    found = of(given)
    for arm, which in ((found.plain, 0), (found.speculative, 1)):
        for at in arm.at[::4]:
            if at.rate >= found.plain.most.value:
                continue
            p = at_rate(given, at.rate)
            assert p.first_token is not None
            assert p.whole_request is not None
            tpot = p.tpot if which else p.tpot_plain
            assert tpot is not None
            assert at.tpot.value == pytest.approx(tpot.value, rel=1e-7)
            assert at.ttft.value == pytest.approx(p.first_token[which].value, rel=1e-6)
            assert at.e2e.value == pytest.approx(p.whole_request[which].value, rel=1e-6)


@pytest.mark.parametrize("given", [SERVED, LOOKED_UP, LONG])
def test_littles_law_the_roof_and_the_memory(given: dict[str, Any]) -> None:
    found = of(given)
    n = build(given).output_tokens
    for arm in (found.plain, found.speculative):
        for at in arm.at:
            assert 0.0 < at.use < 1.0
            assert at.batch <= arm.held + 1e-9
            decoding = at.rate * (n - 1) * at.tpot.value
            # Besides those who decode, those whose prompts came in the same burst.
            assert at.batch >= min(1.0 + decoding, arm.held) * (1 - 1e-3) or at.use > 0.95
            assert at.rate <= arm.most.value


def test_littles_law_where_others_read_the_prompts() -> None:
    for at in of(decode_only="yes").speculative.at[:-3]:
        decoding = at.rate * 255 * at.tpot.value
        assert at.batch == pytest.approx(1.0 + decoding, rel=1e-4)


def test_the_largest_rate_is_that_of_the_loop() -> None:
    for given in (SERVED, LOOKED_UP, LONG):
        found, load = of(given), loop_at(given, 1e-4)
        assert found.by_gamma[0] == pytest.approx(load.most_requests, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "slo"),
    [(SERVED, {"slo_tpot_ms": 9}), (LOOKED_UP, {"slo_ttft_ms": 60}), (SERVED, {"slo_e2e_ms": 2500}),
     (LOOKED_UP, {"slo_tpot_ms": 12, "slo_ttft_ms": 45, "slo_e2e_ms": 2200})],
)  # fmt: skip
def test_the_largest_rate_within_a_promise_by_halving_the_loop(
    given: dict[str, Any], slo: dict[str, float]
) -> None:
    found = of(given, **slo)
    for arm, gamma in ((found.plain, 0), (found.speculative, found.gamma)):

        def kept(rate: float, gamma: int = gamma) -> bool:
            load = loop_at(given, rate)
            times = {"tpot": load.tpot, "ttft": load.ttft, "e2e": load.e2e}
            return all(times[name][gamma] <= seconds for name, seconds in found.slo.items())

        top = min(found.plain.most.value, arm.most.value) * (1 - 1e-9)
        expected = by_halving(1e-5, top, kept)
        assert arm.within.value == pytest.approx(expected, rel=1e-5)
        assert arm.full is not None
        if arm.limit in SLOS:
            assert getattr(arm.full, arm.limit).value == pytest.approx(
                found.slo[arm.limit], rel=1e-7
            )


def test_a_scan_over_rates_finds_the_same() -> None:
    found = of(LOOKED_UP, slo_tpot_ms=10)
    rates = np.linspace(0.01, 0.999, 70) * found.plain.most.value
    tpot = np.array([loop_at(LOOKED_UP, float(rate)).tpot for rate in rates])
    for gamma in (0, 3, found.gamma):
        kept = rates[tpot[:, gamma] <= 0.010]
        assert kept.max() <= found.by_gamma[1, gamma] <= kept.max() + rates[1] - rates[0]


def test_a_looser_promise_carries_more_up_to_what_there_is() -> None:
    each = [of(slo_tpot_ms=ms) for ms in (8, 10, 15, 25, 250)]
    for tight, loose in pairwise(each):
        assert tight.plain.within.value <= loose.plain.within.value
        assert (tight.by_gamma[1] <= loose.by_gamma[1]).all()
    last = each[-1].speculative
    assert last.within.value == last.most.value
    assert last.limit in ("memory", "time")


def test_the_crossover_is_where_the_loop_gains_nothing() -> None:
    found = of(LOOKED_UP)
    assert found.crossover is not None
    load = loop_at(LOOKED_UP, found.crossover)
    assert load.tpot[0] == pytest.approx(load.tpot[found.gamma], rel=1e-3)
    before, after = (at_rate(LOOKED_UP, found.crossover * x) for x in (0.97, 1.02))
    assert before.walltime_improvement > 1.0 > after.walltime_improvement
    assert found.surely < found.crossover
    assert found.switched is not None
    assert found.switched.most.value == max(found.plain.most.value, found.speculative.most.value)
    assert "slower above" in crossover_sentence(found)


def test_fastest_is_the_fastest_of_a_scan() -> None:
    found = of(LOOKED_UP, gamma=None)
    for rate, gamma in list(zip(found.rates, found.fastest, strict=True))[::5]:
        load = loop_at(LOOKED_UP | {"gamma": None}, rate)
        assert load.tpot[gamma] <= load.tpot[:9].min() * (1 + 1e-9)


# ── what is open ─────────────────────────────────────────────────────────────────────────────


def test_a_joint_point_by_its_own_fixed_point() -> None:
    """At one draw of the errors: every step and prompt is off by them, and the batch follows."""
    given = SERVED | {"slo_tpot_ms": 10}
    found, endpoint = of(given), at_rate(SERVED, 5.0).endpoint
    assert endpoint.load is not None
    assert endpoint.plain is not None
    assert endpoint.plain.points is not None
    at = next(a for a in found.speculative.at if a.use > 0.4)
    slow = endpoint.plain.points[0] / endpoint.plain.value
    tokens = float(endpoint.speculation.tokens(3))
    grid, _, _ = _loop(tuple((SERVED | {"request_rate": 0.001}).items()))
    assert grid.sharing is not None

    def at_batch(values: np.ndarray, batch: float) -> float:
        return float(np.interp(batch, grid.batches, values))

    for draw in (17, 200):
        e, f, p = endpoint.excess[draw], slow[draw], endpoint.prompts[draw]
        tpot, busy, seconds = at.tpot.value, 0.0, 0.01
        for _ in range(200):
            others = at.rate * 255 * tpot
            m = at.rate * seconds / (1 - busy)
            read = at_batch(grid.prompts[:, 3], others)
            read += at_batch(grid.sharing[:, 3], others) * (1 - (1 - math.exp(-m)) / m)
            busy = at.rate * f * p * read
            burst = 1 / (1 - busy) ** 2 - 1
            plain = at_batch(grid.steps[:, 0], 1 + others + burst)
            seconds = f * (plain + e * (at_batch(grid.steps[:, 3], 1 + others + burst) - plain))
            new = seconds / tokens / (1 - busy) + burst * f * p * read / (2 * 255)
            tpot = 0.7 * tpot + 0.3 * new
        assert at.tpot.points is not None
        assert at.tpot.points[0, draw] == pytest.approx(tpot, rel=1e-2)


def test_ranges_hold_the_middle_and_widen_towards_the_largest_rate() -> None:
    found = of(acceptance_form="range", alpha=None, slo_tpot_ms=10, demand_requests_per_second=100)
    for arm in (found.plain, found.speculative):
        for number in (arm.most, arm.within, arm.replicas):
            assert number is not None
            assert number.low is not None
            assert number.high is not None
            assert number.low <= number.value <= number.high
        widths = [a.tpot.high / a.tpot.low for a in arm.at if a.tpot.high and a.tpot.low]
        assert all(w <= v * (1 + 1e-9) for w, v in pairwise(widths))
    # What both arms share cancels: the low end of one does not meet the high end of the other.
    said = crossover_sentence(found)
    assert said.startswith("In the middle of its range γ=3 is faster ")
    assert f"at the low end of its range too, up to {significant(found.surely)} requests/s." in said


def test_where_no_rate_is_within_it_at_worst_replicas_have_no_end() -> None:
    found = of(slo_tpot_ms=7.2, demand_requests_per_second=50)
    assert found.plain.within.low == 0.0
    assert found.plain.within.value > 0.0
    assert found.plain.replicas is not None
    assert found.plain.replicas.high == math.inf
    assert "or more" in capacity_sentence(found)
    row = capacity_table(found).rows()[0]
    assert row["replicas_high"] is None
    assert row["replicas"] == found.plain.replicas.value


# ── what is promised and cannot be kept ──────────────────────────────────────────────────────


def test_what_nothing_can_keep_says_the_best_there_is() -> None:
    found = of(slo_tpot_ms=1, demand_requests_per_second=10)
    assert found.plain.within.value == found.speculative.within.value == 0.0
    assert found.plain.replicas is None
    assert found.plain.full is None
    alone = at_rate(SERVED, 1e-5)
    assert alone.tpot is not None
    assert found.speculative.alone.tpot.value == pytest.approx(alone.tpot.value, rel=1e-4)
    said = capacity_sentence(found)
    assert said.startswith("No rate is low enough within 1.00 ms a token: a request alone takes")


def test_what_only_speculation_can_keep() -> None:
    found = of(slo_tpot_ms=6, demand_requests_per_second=10)
    assert found.plain.within.value == 0.0 < found.speculative.within.value
    assert found.plain.replicas is None
    assert found.speculative.replicas is not None
    assert "Without speculation no rate is low enough" in capacity_sentence(found)


def test_what_is_kept_only_at_the_best_end_is_to_be_measured() -> None:
    """7.07 ms alone in the middle, 5.9 to 8.4: 6.5 is met at the best end only."""
    found = of(slo_tpot_ms=6.5, demand_requests_per_second=10)
    assert found.plain.within.value == 0.0
    assert found.plain.within.high
    assert "measure what a request alone takes first" in capacity_sentence(found)


def test_where_the_ends_disagree_it_says_measure_first() -> None:
    found = of(acceptance_form="range", alpha=None, slo_tpot_ms=10, demand_requests_per_second=8)
    assert capacity_sentence(found).startswith("Measure first, it is open whether a replica leaves")
    more = of(alpha=0.05, demand_requests_per_second=100)
    assert capacity_sentence(more).startswith("More replicas are needed")
    assert crossover_sentence(more) == "γ=3 is slower at every rate."


def test_memory_limits_long_contexts_and_time_short_ones() -> None:
    long, short = of(LONG | {"prompt_tokens": 3000, "output_tokens": 20_000}), of()
    assert long.plain.limit == "memory"
    assert short.plain.limit == "time"
    assert "fill it" in limits_sentence(long)


def test_without_speculation_both_arms_are_one() -> None:
    found = of(gamma=0, slo_tpot_ms=10, demand_requests_per_second=10)
    assert found.speculative.within == found.plain.within
    assert found.crossover is None
    assert found.switched is None
    assert "without speculation" in capacity_sentence(found)
    assert len(capacity_table(found)) == 1


def test_a_measured_time_moves_every_rate() -> None:
    """Twice as slow at its own load: half the largest rate, in that arm."""
    own = at_rate(SERVED, 5.0)
    assert own.tpot_plain is not None
    twice = 2e3 * own.tpot_plain.value
    slow = of(SERVED | {"request_rate": 5.0, "target_ms": twice})
    assert slow.plain.most.value == pytest.approx(of().plain.most.value / 2, rel=1e-6)


# ── the fields, the tables, the command ──────────────────────────────────────────────────────


def test_what_is_promised_is_a_field_like_others() -> None:
    s = build(SERVED | {"slo_tpot_ms": 9, "slo_ttft_ms": 80, "slo_e2e_ms": 4000})
    assert from_toml(to_toml(s)) == s
    assert to_link(s)["slo_e2e_ms"] == "4000.0"
    assert "slo_tpot_ms" not in to_link(build(SERVED))
    with pytest.raises(InputError, match=r"slo_tpot_ms must be a finite number >= 0\.001"):
        revised(s, {"slo_tpot_ms": 0})
    # What is promised moves no prediction.
    assert predict(s).to_dict() == predict(build(SERVED)).to_dict()


def test_what_it_needs() -> None:
    with pytest.raises(InputError, match="capacity needs gpu, model and draft"):
        capacity(predict(Scenario(alpha=0.8, c=0.1, gamma=4)))
    with pytest.raises(InputError, match="capacity needs prompt_tokens"):
        of({k: v for k, v in SERVED.items() if k != "prompt_tokens"})


def test_a_rate_that_is_not_carried_says_the_largest_and_what_limits_it() -> None:
    with pytest.raises(InputError, match=r"must be < 24\.2 requests/s.*391 sequences"):
        at_rate(SERVED, 50.0)


def test_the_tables_hold_both_arms() -> None:
    found = of(LOOKED_UP, slo_tpot_ms=10, demand_requests_per_second=100)
    arms = capacity_table(found).rows()
    assert [row["arm"] for row in arms][:2] == ["Plain decoding", "γ=6"]
    assert str(arms[2]["arm"]).startswith("γ=6, off above")
    rates = capacity_rates_table(found).rows()
    carried: list[At] = list(found.speculative.at)
    assert [r["tpot_ms"] for r in rates if r["tpot_ms"] is not None] == pytest.approx(
        [1e3 * at.tpot.value for at in carried]
    )
    gammas = gamma_capacity_table(found).rows()
    assert gammas[6]["largest_rate"] == pytest.approx(found.speculative.within.value)


@pytest.mark.parametrize("by", ["arm", "rate", "gamma"])
def test_the_command_says_the_same(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = SERVED | {"slo_tpot_ms": 9, "demand_requests_per_second": 40}
    words = [w for k, v in given.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    main(["capacity", *words, "--by", by, "--format", "json"])
    rows = json.loads(capsys.readouterr().out)
    found = of(given)
    table = {"arm": capacity_table, "rate": capacity_rates_table, "gamma": gamma_capacity_table}
    assert rows == json.loads(json.dumps(table[by](found).rows()))
    main(["capacity", *words, "--by", by])
    assert capacity_sentence(found) in " ".join(capsys.readouterr().out.split())
