"""Goodput: against queues whose answer is known, a grid of rates, and a server twice as slow."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmath.arms import Server, replica_of
from specmath.attainment import Trial, least_requests
from specmath.capacity import bare_server
from specmath.checks import InputError
from specmath.goodput import Goodput, goodput
from specmath.predict import predict
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import build
from specmath.simulate import simulate
from specmath.tables.goodput import attainment_table, goodput_table, quantile_table
from specmath.traffic import Traffic, poisson, shipped_trace
from specmath.words.goodput import chance_sentence, goodput_sentence, misses_sentence
from tests.helpers.command_line import Capture, fault, run

BASE: dict[str, Any] = {
    "alpha": 0.7, "gamma": 3, "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3",
    "prompt_tokens": 1024, "output_tokens": 64,
}  # fmt: skip
PLAIN = BASE | {"gamma": 0}
QUICK = Trial(attainment=0.9, requests=3000)


def of(trial: Trial = QUICK, base: dict[str, Any] = BASE, **more: Any) -> Goodput:
    return goodput(predict(build(base | more)), trial)


# ── one prompt at a time: the M/D/1 queue ────────────────────────────────────────────────────

ONE = PLAIN | {"prompt_tokens": 2048, "chunk_tokens": 2048, "output_tokens": 1}
"""A step reads one prompt, whose first token is its last."""


def waits(rate: float, service: float, longest: float) -> float:
    """P(W ≤ t) of the M/D/1 queue (Crommelin 1932):

    (1 − ρ) Σ_{k ≤ t/D} (λ (k D − t))^k / k! exp(−λ (k D − t))
    """
    terms = [
        (rate * (k * service - longest)) ** k
        / math.factorial(k)
        * math.exp(-rate * (k * service - longest))
        for k in range(int(longest / service) + 1)
    ]
    return (1.0 - rate * service) * math.fsum(terms)


def crommelin(share: float, service: float, promise: float) -> float:
    """The rate at which that share waits no longer than the promise leaves."""
    low, high = 0.0, 1.0 / service
    for _ in range(60):
        middle = (low + high) / 2
        met = waits(middle, service, promise - service) >= share
        low, high = (middle, high) if met else (low, middle)
    return low


def lindley(rate: float, service: float, count: int, seed: int) -> np.ndarray:
    """Waits and service of requests that are read one after the other."""
    apart = np.random.default_rng(seed).exponential(1.0 / rate, count)
    wait, found = 0.0, np.empty(count)
    for i in range(count):
        wait = max(0.0, wait - apart[i])
        found[i] = wait + service
        wait += service
    return found


@pytest.mark.parametrize(
    ("share", "times"),
    [
        (0.5, 1.5),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((0.9, 3.0), (0.99, 4.5))),
    ],
)
def test_prompts_alone_are_the_queue_of_one_server(share: float, times: float) -> None:
    alone = of(base=ONE, slo_ttft_ms=1e6).plain.alone.quantiles["ttft"]
    service = alone[0]
    assert alone == pytest.approx([service] * 4)
    promise = times * service
    found = of(Trial(share, requests=40_000), ONE, slo_ttft_ms=1e3 * promise).plain
    assert found.most == pytest.approx(1.0 / service, rel=1e-3)
    assert found.rate.value == pytest.approx(crommelin(share, service, promise), rel=0.03)
    low, high = found.by_chance
    assert low <= crommelin(share, service, promise) <= high * 1.03
    again = lindley(found.rate.value, service, 300_000, seed=7)
    assert (again <= promise).mean() == pytest.approx(share, abs=0.02 * (1.1 - share) * 5)


@pytest.mark.slow
def test_chance_moves_the_rate_as_far_as_is_said() -> None:
    """Ten other draws of the same arrivals: their spread against the interval of each, in which
    requests that miss come together."""
    found = [of(Trial(0.95, requests=4000, seed=seed), ONE, slo_ttft_ms=90).plain
             for seed in range(10)]  # fmt: skip
    rates = [each.rate.value for each in found]
    middle = float(np.mean(rates))
    assert sum(a.by_chance[0] <= middle <= a.by_chance[1] * 1.03 for a in found) >= 8
    width = float(np.mean([high - low for low, high in (each.by_chance for each in found)]))
    assert width / 4 == pytest.approx(float(np.std(rates, ddof=1)), rel=0.8)


# ── against a grid of rates, run here ────────────────────────────────────────────────────────


def shares(scenario: dict[str, Any], gamma: int, rates: list[float], slo: dict[str, float],
           trial: Trial) -> list[float]:  # fmt: skip
    """Of the same requests at each rate, counted by hand."""
    asked = predict(build(scenario))
    base = resolve(bare_server(asked).model_copy(update={"gamma": gamma}))
    n = asked.scenario.output_tokens
    unit = poisson(1.0, asked.scenario.prompt_tokens, n, requests=trial.requests, seed=trial.seed)
    replica, found = replica_of(base, gamma, unit, trial.server), []
    for rate in rates:
        seconds = unit.seconds * (len(unit) - 1) / unit.seconds[-1] / rate
        seconds = seconds * (unit.seconds[-1] / (unit.seconds[-1] - unit.seconds[0]))
        run_ = simulate(replica, replace(unit, seconds=seconds), seed=trial.seed)
        tpot = (run_.e2e - run_.ttft) / (n - 1)
        met = [t <= slo["tpot"] and f <= slo["ttft"]
               for t, f in zip(tpot, run_.ttft, strict=True)]  # fmt: skip
        found.append(sum(met) / len(met))
    return found


@pytest.mark.parametrize("gamma", [0, 3])
def test_a_grid_of_rates_brackets_it(gamma: int) -> None:
    slo = {"tpot": 0.015, "ttft": 0.15}
    found = of(gamma=gamma, slo_tpot_ms=15, slo_ttft_ms=150)
    arm = found.arms[-1]
    grid = [float(r) for r in np.linspace(0.3, 0.99, 24) * arm.most]
    met = [share >= 0.9 for share in shares(BASE, gamma, grid, slo, QUICK)]
    last = met.index(False)
    assert all(met[:last])
    assert not any(met[last:])
    assert grid[last - 1] <= arm.rate.value * 1.01
    assert arm.rate.value <= grid[last]
    assert arm.at is not None
    assert arm.at.share == shares(BASE, gamma, [arm.rate.value], slo, QUICK)[0] >= 0.9
    above = shares(BASE, gamma, [arm.rate.value * 1.0101], slo, QUICK)[0]
    assert above < 0.9


# ── what must hold between answers ───────────────────────────────────────────────────────────


def test_a_server_twice_as_slow_serves_half_within_twice() -> None:
    """All times of the plain arm were measured twice as long, and twice as long is promised."""
    own = predict(build(PLAIN))
    assert own.tpot_plain is not None
    twice = {"target_ms": 2e3 * own.tpot_plain.value}
    fast = of(base=PLAIN, slo_tpot_ms=12, slo_ttft_ms=200).plain
    slow = of(base=PLAIN | twice, slo_tpot_ms=24, slo_ttft_ms=400).plain
    assert slow.most == pytest.approx(fast.most / 2, rel=1e-6)
    assert slow.rate.value == pytest.approx(fast.rate.value / 2, rel=1e-6)


def test_the_range_is_the_answer_of_a_slower_and_a_faster_server() -> None:
    """A plain time that was measured at an end of its range gives the end of the rate's range."""
    found = of(base=PLAIN, slo_tpot_ms=12, slo_ttft_ms=200).plain
    times, ends = found.mean.alone.tpot, []
    for end in (times.high, times.low):
        assert end is not None
        measured = {"target_ms": 1e3 * end}
        ends.append(of(base=PLAIN | measured, slo_tpot_ms=12, slo_ttft_ms=200).plain.rate.value)
    assert found.rate.low == pytest.approx(ends[0], rel=0.04)
    assert found.rate.high == pytest.approx(ends[1], rel=0.04)


@pytest.mark.parametrize("promise", [{"slo_tpot_ms": 12}, {"slo_ttft_ms": 120},
                                     {"slo_e2e_ms": 900}])  # fmt: skip
def test_a_share_costs_more_than_the_mean(promise: dict[str, float]) -> None:
    found = of(Trial(0.99, requests=4000), **promise)
    for arm in found.arms:
        assert 0 < arm.rate.value <= arm.mean.within.value
        assert arm.limit == next(iter(promise)).split("_")[1]


@pytest.mark.slow
def test_more_is_never_promised_to_more_requests() -> None:
    values = [of(Trial(share, requests=3000), PLAIN, slo_tpot_ms=12).plain.rate.value
              for share in (0.5, 0.9, 0.99)]  # fmt: skip
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.95 * values[0]
    stricter = [of(base=PLAIN, slo_tpot_ms=ms).plain.rate.value for ms in (9, 11, 13, 16)]
    assert stricter == sorted(stricter)
    assert stricter[0] < stricter[-1]


@pytest.mark.slow
def test_all_promises_together_are_no_easier_than_each() -> None:
    both = of(slo_tpot_ms=12, slo_ttft_ms=120)
    alone = of(slo_tpot_ms=12), of(slo_ttft_ms=120)
    for i, arm in enumerate(both.arms):
        assert arm.rate.value <= min(each.arms[i].rate.value for each in alone) * 1.01
        assert arm.at is not None
        shares_missed = list(arm.at.missed.values())
        assert max(shares_missed) <= 1.0 - arm.at.share <= sum(shares_missed) + 1e-12


def test_where_nearly_nothing_is_promised_full_load_limits() -> None:
    for arm in of(slo_e2e_ms=1e7).arms:
        assert arm.rate.value == arm.most
        assert 0.85 * arm.mean.most.value < arm.most < 1.01 * arm.mean.most.value
        assert arm.limit in ("memory", "max sequences", "compute")
    small = Trial(0.9, requests=3000, server=Server(kv_tokens=12_000))
    for arm in of(small, slo_e2e_ms=1e7).arms:
        assert arm.limit == "memory"
    few = Trial(0.9, requests=3000, server=Server(most_sequences=4))
    assert {arm.limit for arm in of(few, slo_e2e_ms=1e7).arms} == {"max sequences"}


def test_the_same_seed_gives_the_same_answer() -> None:
    first, again, other = (
        of(Trial(0.9, requests=3000, seed=seed), slo_tpot_ms=12) for seed in (4, 4, 5)
    )
    for table in (goodput_table, quantile_table, attainment_table):
        assert table(first).rows() == table(again).rows()
    assert goodput_table(other).rows() != goodput_table(first).rows()
    assert other.plain.rate.value == pytest.approx(first.plain.rate.value, rel=0.1)


def test_replicas_are_those_of_the_rate() -> None:
    found = of(slo_tpot_ms=12, demand_requests_per_second=300, headroom=0.1, usd_per_hour=2.0)
    for arm in found.arms:
        assert arm.fleet.replicas is not None
        assert arm.fleet.usd_per_month is not None
        whole = math.ceil(300 / (0.9 * arm.rate.value))
        assert arm.fleet.replicas.value == whole
        assert arm.fleet.usd_per_month.value == pytest.approx(whole * 2.0 * 730)
        assert arm.mean.replicas is not None
        assert whole >= arm.mean.replicas.value


# ── what no server keeps ─────────────────────────────────────────────────────────────────────


def test_a_promise_that_nothing_meets_says_what_is_best() -> None:
    found = of(slo_tpot_ms=50, slo_ttft_ms=3, demand_requests_per_second=20)
    for arm in found.arms:
        assert (arm.rate.value, arm.by_chance, arm.at, arm.limit) == (0.0, (0.0, 0.0), None, "ttft")
        assert arm.fleet.replicas is None
        assert arm.best is arm.alone
    alone = found.plain.alone.quantiles["ttft"][-1] * 1e3
    said = goodput_sentence(found)
    assert said.startswith("At no rate do 90% of requests take at most 50.0 ms a token and 3.00 ms")
    assert f"alone take up to {alone:.1f} ms to the first token" in said
    assert misses_sentence(found) == chance_sentence(found) == ""
    assert quantile_table(found).column("rate").values[0] == 0.0


@pytest.mark.slow
def test_one_arm_may_keep_what_the_other_cannot() -> None:
    found = of(base=BASE | {"output_tokens": 256}, slo_tpot_ms=6, demand_requests_per_second=20)
    assert found.plain.rate.value == 0.0
    assert found.speculative is not None
    assert found.speculative.rate.value > 0.0
    said = goodput_sentence(found)
    assert "requests/s of one replica with γ=3; by the mean" in said
    assert "Without speculation 90% of requests that are alone take up to 7.0" in said


# ── traces ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_trace_of_poissons_arrivals_is_the_same_as_by_chance() -> None:
    """And how fast it was recorded is nothing: only its shape is taken."""
    asked = predict(build(BASE | {"slo_tpot_ms": 12}))
    chance = goodput(asked, QUICK)
    own = poisson(1.0, 1024, 64, requests=3000, seed=0)
    for times in (1.0, 7.0):
        mine = replace(own, seconds=own.seconds * times)
        traced = goodput(asked, replace(QUICK, trace="mine"), traffic=mine)
        for a, b in zip(chance.arms, traced.arms, strict=True):
            assert b.rate.value == pytest.approx(a.rate.value, rel=1e-6)
            assert b.mean.within.value == a.mean.within.value


def test_bursts_cost_rate() -> None:
    asked = predict(build(PLAIN | {"slo_ttft_ms": 150}))
    count = 3000
    pairs = np.repeat(np.cumsum(np.random.default_rng(1).exponential(8.0, count // 8)), 8)
    bursts = Traffic(pairs, np.full(count, 1024), np.full(count, 64))
    together = goodput(asked, replace(QUICK, trace="eights"), traffic=bursts).plain
    assert together.rate.value < 0.8 * goodput(asked, QUICK).plain.rate.value


def test_a_shipped_trace_brings_its_own_lengths() -> None:
    asked = predict(build(BASE | {"slo_tpot_ms": 40, "slo_ttft_ms": 1000, "prompt_tokens": None}))
    found = goodput(asked, Trial(0.9, requests=3000, trace="azure-conv"))
    first = shipped_trace("azure-conv")
    assert found.by_mean.scenario.prompt_tokens == round(first.prompt_tokens[:3000].mean())
    assert found.by_mean.scenario.output_tokens == round(first.output_tokens[:3000].mean())
    for arm in found.arms:
        assert 0 < arm.rate.value < arm.mean.within.value
    hits = goodput(asked, Trial(0.9, requests=2000, trace="mooncake"))
    seen = shipped_trace("mooncake")
    share = seen.prefix_tokens[:2000].sum() / seen.prompt_tokens[:2000].sum()
    assert hits.by_mean.scenario.prefix_hit == pytest.approx(share)


DOCUMENT = Path(__file__).parents[1] / "docs" / "simulate.md"


@pytest.mark.slow
def test_what_a_share_costs_is_as_documented() -> None:
    """The table of docs/simulate.md, its four columns at 50 to 99%."""
    text = DOCUMENT.read_text(encoding="utf-8").split("| share of requests |")[1].split("\n\n")[0]
    said = {line.split("|")[1].strip(): [float(cell) for cell in line.split("|")[2:-1]]
            for line in text.splitlines()[2:]}  # fmt: skip
    asked = predict(build(BASE | {"output_tokens": 256, "slo_tpot_ms": 20, "slo_ttft_ms": 300}))
    for share in (50, 90, 95, 99):
        found = [goodput(asked, Trial(share / 100, trace=trace)) for trace in ("", "azure-conv")]
        rates = [arm.rate.value for each in found for arm in each.arms]
        assert said[f"{share}%"] == pytest.approx(rates, abs=0.051)
    means = [arm.mean.within.value for each in found for arm in each.arms]
    assert said["by mean (the law)"] == pytest.approx(means, abs=0.051)


@pytest.mark.slow
def test_lengths_that_spread_cost_rate_and_are_the_traffics_own() -> None:
    spread = {"prompt_spread": 1.0, "output_spread": 0.8}
    alike, apart = of(slo_ttft_ms=120), of(slo_ttft_ms=120, **spread)
    for one, other in zip(alike.arms, apart.arms, strict=True):
        assert other.rate.value < 0.9 * one.rate.value
    asked = predict(build(BASE | spread | {"slo_ttft_ms": 120}))
    mine = poisson(1.0, 1024, 64, requests=3000, seed=0, spreads=(1.0, 0.8))
    traced = goodput(asked, replace(QUICK, trace="mine"), traffic=mine)
    for one, other in zip(apart.arms, traced.arms, strict=True):
        assert other.rate.value == pytest.approx(one.rate.value, rel=1e-6)
    assert traced.by_mean.scenario.output_spread == pytest.approx(0.8, rel=0.1)


# ── bad inputs ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "said"),
    [({"attainment": 0.4}, "attainment must be"), ({"attainment": 1.0}, "attainment must be"),
     ({"attainment": math.nan}, "attainment must be"),
     ({"requests": 100}, r"requests must be >= 1,112 at an attainment of 0\.99"),
     ({"requests": 0}, "requests must be a whole number >= 1"),
     ({"requests": 300_000}, "requests must be"), ({"requests": 2000.5}, "requests must be"),
     ({"seed": -1}, "seed must be")],
)  # fmt: skip
def test_a_trial_that_means_nothing_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Trial(**given)


def test_of_how_many_requests_ten_may_miss() -> None:
    assert [least_requests(share) for share in (0.5, 0.9, 0.99, 0.999)] == [23, 112, 1112, 11112]


@pytest.mark.parametrize(
    ("given", "trial", "said"),
    [({}, QUICK, "at least one of slo_tpot_ms, slo_ttft_ms, slo_e2e_ms"),
     ({"slo_ttft_ms": 100, "slo_e2e_ms": 900, "slo_tpot_ms": 20, "decode_only": "yes"}, QUICK,
      "slo_ttft_ms, slo_e2e_ms is about prompts, which decode_only=yes reads elsewhere"),
     ({"slo_tpot_ms": 20, "prompt_tokens": None}, QUICK, "prompt_tokens"),
     ({"slo_tpot_ms": 20}, replace(QUICK, trace="azure"), "one of azure-conv"),
     ({"slo_tpot_ms": 20}, replace(QUICK, server=Server(0)), "most_sequences must be"),
     ({"slo_tpot_ms": 20}, replace(QUICK, server=Server(kv_tokens=64)), "does not fit")],
)  # fmt: skip
def test_what_cannot_be_served_is_refused(given: dict[str, Any], trial: Trial, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of(trial, **given)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(np.arange(50.0), "a trace must hold at least 112 requests at an attainment of 0.9, got 50"),
     (np.zeros(300), "a trace must take some time, got all of mine at once")],
)  # fmt: skip
def test_a_trace_that_says_nothing_is_refused(seconds: np.ndarray, said: str) -> None:
    many = len(seconds)
    mine = Traffic(seconds, np.full(many, 100), np.full(many, 20))
    with pytest.raises(InputError, match=said):
        goodput(predict(build(BASE | {"slo_tpot_ms": 20})), replace(QUICK, trace="mine"),
                traffic=mine)  # fmt: skip


def test_costs_that_were_given_have_no_server() -> None:
    with pytest.raises(InputError, match="needs gpu, model and draft"):
        goodput(predict(build({"alpha": 0.8, "c": 0.1, "slo_tpot_ms": 20, "target_ms": 30})))


def test_workers_that_decode_alone_have_a_time_per_token_only() -> None:
    """And GPUs count those that read the prompts, as by the mean."""
    demand = {"slo_tpot_ms": 12, "demand_requests_per_second": 300}
    found, whole = of(decode_only="yes", **demand), of(**demand)
    for arm in found.arms:
        assert arm.fleet.all_gpus is not None
        assert arm.fleet.replicas is not None
        assert arm.mean.prefill is not None
        assert arm.mean.prefill.all_gpus is not None
        reading = arm.mean.prefill.all_gpus.value
        assert reading > 0
        assert arm.fleet.all_gpus.value == arm.fleet.replicas.value * arm.gpus + reading
    for alone, both in zip(found.arms, whole.arms, strict=True):
        assert alone.at is not None
        assert set(alone.at.quantiles) == {"tpot"}
        assert alone.rate.value > both.rate.value
    assert set(quantile_table(found).column("time").values) == {"Time per token"}


# ── the command line, and progress ───────────────────────────────────────────────────────────

WORDS = [f"--{name.replace('_', '-')}={value}" for name, value in BASE.items()]


def test_the_command_line_prints_the_tables(capsys: Capture) -> None:
    asked = ["goodput", *WORDS, "--slo-tpot-ms=12", "--attainment=90", "--requests=1000"]
    found = of(Trial(0.9, requests=1000), slo_tpot_ms=12)
    for by, table in (("arm", goodput_table), ("time", quantile_table), ("rate", attainment_table)):
        rows = json.loads(run(capsys, *asked, "--by", by, "--format", "json"))
        assert rows == json.loads(json.dumps(table(found).rows()))
    said = run(capsys, *asked)
    assert said.startswith(goodput_sentence(found))
    assert chance_sentence(found) in said
    assert "Missed by" in said


def test_its_faults_are_one_line(capsys: Capture) -> None:
    for given, said in (
        ([], "slo_tpot_ms"), (["--slo-tpot-ms=12", "--attainment=99.95"], "50 to 99.9 percent"),
        (["--slo-tpot-ms=12", "--attainment=nan"], "50 to 99.9 percent"),
        (["--slo-tpot-ms=12", "--trace=nowhere.csv"], "no file nowhere.csv"),
        (["--slo-tpot-ms=12", "--requests=5"], "requests must be >= 1,112"),
    ):  # fmt: skip
        err = fault(capsys, "goodput", *WORDS, *given)
        assert said in err
        assert err.count("\n") == 1


def test_progress_only_goes_on() -> None:
    told: list[tuple[int, int]] = []
    goodput(predict(build(BASE | {"slo_tpot_ms": 12})), QUICK,
            told=lambda done, of: told.append((done, of)))  # fmt: skip
    done = [each for each, _ in told]
    assert done == sorted(done)
    assert {every for _, every in told} == {done[-1]}
