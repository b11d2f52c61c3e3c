"""A γ for each kind of request: limits by hand, identities, brute force, and a simulation."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmath.acceptance import (
    CappedAcceptance,
    CoveredAcceptance,
    IidAcceptance,
    MixtureAcceptance,
)
from specmath.capacity import capacity, server_of
from specmath.checks import InputError
from specmath.cli import main
from specmath.plan import by_request as module
from specmath.plan.by_request import best_way, by_request
from specmath.plan.decided import EndpointAnswer, decided
from specmath.plan.files import from_toml, to_toml
from specmath.plan.grid import grid_of, plan_from
from specmath.plan.record import plan_of
from specmath.predict import Prediction, of_endpoint, predict
from specmath.renewal import kinds_of
from specmath.report.plan import report_bytes
from specmath.scenario import Scenario
from specmath.scenario.endpoint import for_part
from specmath.scenario.faults import ScenarioError
from specmath.scenario.files import revised
from specmath.scenario.parts import Part, blended
from specmath.scenario.server import pair_of
from specmath.serving.loop import Grid, Requests
from specmath.serving.pair import ServedPair
from specmath.serving.uneven import columns
from specmath.tables.plan import endpoints_table, segments_table
from specmath.tables.plan_live import live_plan_table
from specmath.tables.plan_ways import WAYS, ways_table
from specmath.words.plan import do_words, ways_sentence

BASE = Scenario(
    gpu="h100", model="Llama-3.3-70B", tensor_parallel=4, draft="eagle3", alpha=0.7, gamma=4,
    prompt_tokens=512, output_tokens=256, request_rate=3.0,
)  # fmt: skip
EASY, HARD = {"alpha": 0.9}, {"alpha": 0.4}


def of(*kinds: tuple[float, dict, int | None], gamma: int = 4, base: Scenario = BASE) -> Prediction:
    """Kinds by share, fields and the most that is drafted for each."""
    asked = base.model_copy(update={"gamma": gamma})
    parts = tuple(Part(share, revised(asked, fields), most) for share, fields, most in kinds)
    return predict(blended(asked, parts), parts)


def same(a: Prediction, b: Prediction, *, within: bool = True) -> None:
    """Times with their ranges, and what a replica carries, to rounding."""
    for name in ("value", "low", "high"):
        assert getattr(a.tpot, name) == pytest.approx(getattr(b.tpot, name), rel=1e-9)
    assert a.first_token[1].value == pytest.approx(b.first_token[1].value, rel=1e-9)
    if within:
        ours, theirs = capacity(a).speculative.within, capacity(b).speculative.within
        for name in ("value", "low", "high"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9)


# ── acceptance ───────────────────────────────────────────────────────────────────────────────


def test_a_capped_draft_is_the_shorter_one() -> None:
    """α=½, at most 2: 1 + ½ + ¼ tokens a step at any γ ≥ 2, and two tokens with chance ½ − ¼."""
    capped = CappedAcceptance(IidAcceptance(0.5), 2)
    assert np.asarray(capped.tokens_per_step([0, 1, 2, 5])) == pytest.approx([1, 1.5, 1.75, 1.75])
    assert capped.step_pmf(5) == pytest.approx([0.5, 0.25, 0.25, 0, 0, 0])
    assert capped.drafted([0, 1, 2, 5]) == pytest.approx([0, 1, 2, 2])
    with pytest.raises(InputError, match="most must be"):
        CappedAcceptance(IidAcceptance(0.5), -1)


def test_who_is_asked_for_how_many_follows_from_steps() -> None:
    """α 1 and 0, half of the tokens each, asked for 3 and 1: 4 and 1 tokens a step, so that a fifth
    of the steps are the first kind's; that fifth goes on to tokens 2 and 3."""
    both = MixtureAcceptance(
        (0.5, 0.5),
        (CappedAcceptance(IidAcceptance(1.0), 3), CappedAcceptance(IidAcceptance(0.0), 1)),
    )
    assert both.asked(4) == pytest.approx([1, 1, 0.2, 0.2, 0])
    assert float(both.drafted(4)) == pytest.approx(1.4)
    assert float(both.tokens_per_step(4)) == pytest.approx(1 / (0.5 / 4 + 0.5))
    # A draft in half of the steps: 2.5 and 1 tokens, so that 2/7 of the steps are the first's.
    assert CoveredAcceptance(both, 0.5).asked(3) == pytest.approx([1, 1, 2 / 7, 2 / 7])
    laws = [kind.law for kind in kinds_of(both, 4)]
    assert laws[0] == pytest.approx((0, 0, 0, 1, 0))
    assert laws[1] == pytest.approx((1, 0, 0, 0, 0))


# ── a step ───────────────────────────────────────────────────────────────────────────────────


def grid_of_base() -> tuple[ServedPair, Grid]:
    pair = pair_of(BASE)
    return pair, Grid.of(pair, Requests(512, 256, request_rate=1.0), 4)


def test_a_large_step_by_hand() -> None:
    """Half of B is asked for 4 tokens and the rest for 1. Verification is that of 3.5 positions a
    sequence, between γ=2 and 3; the first pass drafts for all, the other three for half of them."""
    pair, grid = grid_of_base()
    at = int(np.searchsorted(grid.batches, 32))
    batch = int(grid.batches[at])
    mixed = columns(grid, pair, [np.array([1.0, 1.0, 0.5, 0.5, 0.5])])
    verify, draft, extra = (
        part[:, 0] for part in pair.parts_grid([batch // 2, batch], [pair.context_tokens], range(5))
    )
    assert mixed.verify[at, 0] == pytest.approx(verify[1, 2:4].mean(), rel=1e-9)
    assert mixed.draft[at, 0] == pytest.approx(draft[1, 1] + draft[0, 4] - draft[0, 1], rel=0.02)
    assert mixed.extra[at, 0] == pytest.approx(extra[1, 4], rel=1e-9)
    assert mixed.most[0] == grid.most[4]


def test_a_step_of_one_is_one_kind_at_a_time() -> None:
    """Alone in its steps a request drafts its own: a quarter of the steps 4 tokens, the rest 1."""
    pair, grid = grid_of_base()
    mixed = columns(grid, pair, [np.array([1.0, 1.0, 0.25, 0.25, 0.25])])
    assert mixed.draft[0, 0] == pytest.approx(0.25 * grid.draft[0, 4] + 0.75 * grid.draft[0, 1])


def test_a_tax_is_a_share_of_steps_that_draft() -> None:
    pair, grid = grid_of_base()
    asked = [np.array([1.0]), np.array([1.0, 1.0, 0.5])]
    free, taxed = (columns(grid, pair, asked, tax) for tax in (0.0, 0.1))
    assert taxed.steps[:, 0] == pytest.approx(free.steps[:, 0], rel=1e-12)
    assert taxed.steps[:, 1] == pytest.approx(1.1 * free.steps[:, 1], rel=1e-12)
    assert taxed.prompts == pytest.approx(free.prompts)


# ── identities ───────────────────────────────────────────────────────────────────────────────

LOOKUP = BASE.model_copy(update={"draft": "ngram", "coverage": 0.4})
STOPPED = BASE.model_copy(update={"drafted_per_step": 3.0})


@pytest.mark.parametrize("base", [BASE, LOOKUP, BASE.model_copy(update={"target_ms": 30.0})])
@pytest.mark.parametrize("gamma", [1, 4])
def test_all_alike_is_one_gamma_for_all(base: Scenario, gamma: int) -> None:
    """Also where the server would draft more, were it asked to."""
    one = of((0.3, EASY, None), (0.7, HARD, None), gamma=gamma, base=base)
    for asked in (gamma, gamma + 2):
        each = of((0.3, EASY, gamma), (0.7, HARD, gamma), gamma=asked, base=base)
        same(each, one)


def test_drafts_that_stop_early_are_capped_too() -> None:
    """γ is then the most, and the mean drafted that of the γ given."""
    one = of((0.3, EASY, None), (0.7, HARD, None), base=STOPPED)
    same(of((0.3, EASY, 4), (0.7, HARD, 6), base=STOPPED), one)
    fewer = of((0.3, EASY, 4), (0.7, HARD, 1), base=STOPPED)
    assert fewer.operations.value < one.operations.value
    assert fewer.tokens_per_step < one.tokens_per_step


def test_nothing_drafted_for_anybody_is_plain_decoding() -> None:
    none = of((0.3, EASY, 0), (0.7, HARD, 0))
    assert none.tpot.value == pytest.approx(none.tpot_plain.value, rel=1e-9)
    assert none.speedup.low == pytest.approx(1.0, rel=1e-9)
    found = capacity(none)
    assert found.speculative.within.value == pytest.approx(found.plain.within.value, rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.floats(0.1, 0.9))
def test_a_kind_told_twice_changes_nothing(a: int, b: int, part: float) -> None:
    twice = of((0.4 * part, EASY, a), (0.6, HARD, b), (0.4 * (1 - part), EASY, a), gamma=6)
    once = of((0.4, EASY, a), (0.6, HARD, b), gamma=6)
    same(twice, once, within=False)
    assert twice.operations.value == pytest.approx(once.operations.value, rel=1e-9)


def test_times_of_kinds_blend_to_the_mean() -> None:
    """By the tokens that decode makes; the ratio of two kinds is that of their tokens a step."""
    p = of((0.5, EASY, 6), (0.5, HARD, 1), gamma=6)
    easy, hard = (of_endpoint(for_part(p.endpoint, i)).tpot.value for i in (0, 1))
    assert (easy + hard) / 2 == pytest.approx(p.tpot.value, rel=1e-9)
    assert hard / easy == pytest.approx((1 - 0.9**7) / 0.1 / 1.4, rel=1e-9)


def test_refusals() -> None:
    tree = {"gamma": 10, "tree": "3:2:10"}
    with pytest.raises(InputError, match="a γ for each request needs chains, got a tree"):
        of((0.5, EASY, 10), (0.5, HARD, 0), base=BASE.model_copy(update=tree), gamma=10)
    ran = {"run_ms": 12.0, "run_gamma": 3, "target_ms": 25.0}
    with pytest.raises(InputError, match="needs steps that are computed, got run_ms = 12"):
        of((0.5, EASY, 4), (0.5, HARD, 1), base=BASE.model_copy(update=ran))
    with pytest.raises(InputError, match="tax must be"):
        Part(0.5, BASE, 3, -0.1)


# ── the search ───────────────────────────────────────────────────────────────────────────────


def planned(*kinds: tuple[float, dict], base: Scenario = BASE) -> Prediction:
    parts = tuple(Part(share, revised(base, fields)) for share, fields in kinds)
    return predict(blended(base, parts), parts)


@pytest.mark.parametrize(
    ("draft", "promise", "rate"),
    [("eagle3", {}, 5.0), ("dflash", {}, 6.0), ("eagle3", {"slo_tpot_ms": 30.0}, 3.0),
     ("dflash", {"slo_e2e_ms": 6000.0}, 3.0), ("ngram", {"slo_ttft_ms": 400.0}, 4.0)],
)  # fmt: skip
def test_the_best_of_all_ways_and_never_worse_than_one_gamma(
    draft: str, promise: dict, rate: float
) -> None:
    """Every way priced by predictions of its own, one at a time."""
    update = {"draft": draft, "gamma": None, "max_gamma": 4, "request_rate": rate, **promise}
    p = planned((0.5, EASY), (0.5, HARD), base=BASE.model_copy(update=update))
    found = by_request(p, None, rate, 0.0)
    told = {}
    for way in product(range(int(p.endpoint.cap) + 1), repeat=2):
        kinds = zip((EASY, HARD), way, strict=True)
        asked = BASE.model_copy(update=update)
        own = of(*((0.5, {**fields, **promise}, most) for fields, most in kinds),
                 gamma=max(max(way), 1), base=asked)  # fmt: skip
        told[way] = own.tpot.value, capacity(own).speculative.within.value
    now = min(told[0, 0][0], told[p.gamma, p.gamma][0])
    no_slower = {way: rate for way, (tpot, rate) in told.items() if tpot <= now * (1 + 1e-9)}
    if promise:
        assert found.aim == "rate"
        assert no_slower[found.gammas] == pytest.approx(max(no_slower.values()), rel=1e-6)
        best_one = max(rate for way, rate in no_slower.items() if way[0] == way[1])
        assert found.gain == pytest.approx(no_slower[found.gammas] / best_one, rel=1e-6)
    else:
        assert found.aim == "time"
        assert told[found.gammas][0] == pytest.approx(min(t for t, _ in told.values()), rel=1e-6)
    assert found.gain >= 1.0
    assert found.prediction.tpot.value == pytest.approx(told[found.gammas][0], rel=1e-9)
    assert found.capacity.speculative.within.value == pytest.approx(told[found.gammas][1], rel=1e-9)
    assert found.prediction.tpot.value <= now * (1 + 1e-9)


def test_the_rule_of_many_kinds_against_all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three kinds drawn at random, 5 γ each: one kind at a time finds within 0.5% of the best of
    all 125 ways, and most often the best."""
    rng = np.random.default_rng(4)
    exact = 0
    for _ in range(12):
        kinds = [(float(share), {"alpha": float(alpha)})
                 for share, alpha in zip(rng.uniform(0.1, 1, 3), rng.uniform(0.1, 0.95, 3),
                                         strict=True)]  # fmt: skip
        rate = float(rng.uniform(1.0, 7.0))
        base = BASE.model_copy(update={"draft": str(rng.choice(["eagle3", "dflash"])),
                                       "request_rate": rate})  # fmt: skip
        server = server_of(planned(*kinds, base=base))
        tokens = [kind.tokens[:5] for kind in server.kinds[1:]]

        def speeds(ways: list[tuple[int, ...]], server=server, rate=rate) -> np.ndarray:
            return module._speeds(server.ways(ways), rate)

        best = best_way(speeds, range(5), tokens)
        monkeypatch.setattr(module, "EXHAUSTIVE", 0)
        near = best_way(speeds, range(5), tokens)
        monkeypatch.undo()
        values = speeds([best, near])
        assert values[1] >= values[0] * 0.995
        exact += best == near
    assert exact >= 9


def test_the_break_even_tax_makes_one_gamma_as_good() -> None:
    """At a tax just below it, a γ for each request carries more than one for all, just above less;
    the same of the mean time per token, where nothing is promised."""
    for promise, rate in (({"slo_tpot_ms": 30.0}, 3.0), ({}, 6.0)):
        base = BASE.model_copy(update={"draft": "dflash", "gamma": None, **promise})
        p = planned((0.5, {**EASY, **promise}), (0.5, {**HARD, **promise}), base=base)
        free = by_request(p, None, rate, 0.0)
        assert free.gain > 1.01
        one = predict(p.scenario.model_copy(update={"gamma": free.one, "request_rate": rate}),
                      p.endpoint.parts)  # fmt: skip
        for tax, better in ((free.break_even - 1e-3, True), (free.break_even + 1e-3, False)):
            taxed = by_request(p, None, rate, tax)
            assert taxed.gammas == free.gammas
            if promise:
                carried = taxed.capacity.speculative.within.value
                assert (carried > capacity(one).speculative.within.value) == better
            else:
                assert (taxed.prediction.tpot.value < one.tpot.value) == better


def test_where_nobody_should_draft_nothing_is_gained() -> None:
    """A dear drafter of a large batch: plain decoding for all, which pays no tax."""
    base = BASE.model_copy(update={"draft": "Llama-3.2-1B", "model": "Llama-3.1-8B",
                                   "tensor_parallel": 1, "gamma": None})  # fmt: skip
    rate = 0.6 * float(server_of(planned((0.5, EASY), (0.5, HARD), base=base)).most[0])
    p = planned((0.5, EASY), (0.5, HARD), base=base.model_copy(update={"request_rate": rate}))
    found = by_request(p, None, rate, 0.2)
    assert (found.gammas, found.one, found.break_even) == ((0, 0), 0, 0.0)
    assert found.gain == pytest.approx(1.0)
    assert found.prediction.tpot.value == pytest.approx(p.tpot_plain.value, rel=1e-9)


# ── a simulation of the same requests ────────────────────────────────────────────────────────


@dataclass
class Sequence:
    """A request that decodes: its kind, when it began, and the tokens that are left."""

    kind: int
    began: float
    left: int


def simulated(
    p: Prediction, rate: float, gammas: tuple[int, int], alphas: tuple[float, float], requests: int
) -> tuple[float, list[float], float]:
    """Poisson arrivals, half of each kind, in steps that take what their own sequences ask for: the
    mean time per token, that of each kind, and the sequences that one meets in a step."""
    pair, rng, tokens = p.endpoint.pair, np.random.default_rng(11), p.scenario.output_tokens - 1
    batches = np.arange(1, 161)
    top = max(gammas)
    verify, draft, extra = (
        part[:, 0] for part in pair.parts_grid(batches, [pair.context_tokens], range(top + 1))
    )
    position = sum(pair.positions) / 2 * pair.share
    prompt = np.asarray(p.endpoint.load.grid.at(p.endpoint.load.grid.prompts, p.endpoint.load.batch)
                        )[top]  # fmt: skip
    at_once = p.endpoint.load.requests.chunk_tokens // p.scenario.prompt_tokens
    arrivals = np.cumsum(rng.exponential(1.0 / rate, requests))
    kinds = rng.integers(0, 2, requests)
    now, came, active = 0.0, 0, list[Sequence]()
    ended: list[tuple[int, float]] = []
    met, steps = 0.0, 0.0

    def step(active: list[Sequence]) -> float:
        n, asked = len(active), [gammas[each.kind] for each in active]
        mean = sum(asked) / n
        spent = float(np.interp(mean, range(top + 1), verify[n - 1]))
        spent += position * mean * verify[n - 1, 0] + extra[n - 1, top]
        for j in range(1, top + 1):
            together = sum(each >= j for each in asked)
            if together:
                spent += draft[together - 1, j] - draft[together - 1, j - 1]
        return spent

    while len(ended) < requests:
        if not active and arrivals[came] > now:
            now = arrivals[came]
        read = 0
        while came + read < requests and read < at_once and arrivals[came + read] <= now:
            read += 1
        now += read * prompt + (step(active) if active else verify[0, 0])
        met, steps = met + len(active) ** 2, steps + len(active)
        for each in active:
            accepted = 0
            while accepted < gammas[each.kind] and rng.random() < alphas[each.kind]:
                accepted += 1
            each.left -= accepted + 1
        ended += [(each.kind, (now - each.began) / tokens) for each in active if each.left <= 0]
        active = [each for each in active if each.left > 0]
        active += [Sequence(int(kinds[i]), now, tokens) for i in range(came, came + read)]
        came += read
    settled = ended[requests // 10 :]
    own = [float(np.mean([t for kind, t in settled if kind == one])) for one in (0, 1)]
    return float(np.mean([t for _, t in settled])), own, met / steps


@pytest.mark.parametrize(("draft", "use"), [("eagle3", 0.2), ("eagle3", 0.5), ("dflash", 0.5)])
def test_a_simulation_takes_as_long(draft: str, use: float) -> None:
    """Kinds with α 0.9 and 0.4 that are asked for 6 and 1 tokens: what a token takes in the mean
    and of each kind, and the batch, within 5% of the law up to half of the largest rate."""
    base = BASE.model_copy(update={"draft": draft, "engine": "none"})
    alone = of((0.5, EASY, 6), (0.5, HARD, 1), gamma=6, base=base)
    rate = use * capacity(alone).speculative.most.value
    p = of((0.5, EASY, 6), (0.5, HARD, 1), gamma=6,
           base=base.model_copy(update={"request_rate": rate}))  # fmt: skip
    mean, kinds, batch = simulated(p, rate, (6, 1), (0.9, 0.4), 1500)
    assert p.tpot.value == pytest.approx(mean, rel=0.05)
    law = [of_endpoint(for_part(p.endpoint, i)).tpot.value for i in (0, 1)]
    assert law == pytest.approx(kinds, rel=0.05)
    assert p.endpoint.load.batch[6] == pytest.approx(batch, rel=0.05)


# ── a plan ───────────────────────────────────────────────────────────────────────────────────

SERVED = {
    "gpu": "h100", "model": "Llama-3.3-70B", "tensor_parallel": 4, "draft": "dflash",
    "prompt_tokens": 1024, "output_tokens": 600, "demand_requests_per_second": 40,
    "usd_per_hour": 2.5,
    "segments": [{"name": "easy", "share": 0.5, "alpha": 0.9},
                 {"name": "hard", "share": 0.5, "alpha": 0.4}],
}  # fmt: skip
DAY = [4, 3, 2, 2, 2, 3, 5, 8, 12, 16, 18, 19, 20, 19, 19, 18, 17, 16, 15, 14, 12, 10, 8, 6]


def one(**more: object) -> EndpointAnswer:
    (answer,) = decided(plan_of([{"name": "chat", **SERVED, **more}])).endpoints
    return answer


def test_a_bimodal_endpoint_gains_visibly() -> None:
    """α of 0.9 and 0.4 with a block drafter under load: one γ wastes positions on the hard kind or
    tokens on the easy one. Of fewer GPUs as well, here."""
    shared, apart = one(), one(gamma_by="request")
    assert shared.by_request.gammas[0] > shared.gamma > shared.by_request.gammas[1]
    assert shared.by_request.gain > 1.2
    assert 0.05 < shared.by_request.break_even < 0.2
    assert (shared.each, apart.each) == (False, True)
    assert apart.prediction.tpot.value < shared.prediction.tpot.value / 1.2
    assert apart.arm.all_gpus.value < shared.arm.all_gpus.value
    assert apart.arm.gammas == shared.by_request.gammas


def test_what_is_bought_is_what_is_told_beside_one_gamma() -> None:
    """The same three ways whichever is planned; the planned one is the endpoint's own fleet."""
    shared, apart = one(slo_tpot_ms=40), one(slo_tpot_ms=40, gamma_by="request")
    for a, b in zip(shared.ways, apart.ways, strict=True):
        assert (a.name, a.gammas, a.replicas, a.tpot) == (b.name, b.gammas, b.replicas, b.tpot)
    ways = {way.name: way for way in apart.ways}
    assert {"one", "request", "dedicated"} <= {*ways}
    assert ways["one"].gpus == shared.capacity.speculative.all_gpus
    assert ways["one"].tpot == shared.prediction.tpot
    assert ways["request"].gpus == apart.capacity.speculative.all_gpus
    assert ways["request"].usd_per_month == apart.capacity.speculative.usd_per_month
    assert ways["request"].rate == apart.capacity.speculative.within
    split = min((s.split for s in shared.segments if s.split), key=lambda each: each.gpus)
    assert ways["dedicated"].gpus.value == split.gpus
    assert ways["dedicated"].usd_per_month.value == pytest.approx(split.gpus * 2.5 * 730)


def test_segments_have_their_own_gamma_and_times() -> None:
    shared, apart = one(), one(gamma_by="request")
    assert [s.gamma for s in apart.segments] == [*apart.by_request.gammas]
    assert [s.gamma for s in shared.segments] == [shared.gamma] * 2
    for before, after in zip(shared.segments, apart.segments, strict=True):
        assert before.with_each == after.prediction.tpot == after.with_each
        assert after.with_one == before.prediction.tpot
        assert (before.own_gamma, before.lost, before.split) == (
            after.own_gamma, after.lost, after.split)  # fmt: skip
    mean = np.mean([s.prediction.tpot.value for s in apart.segments])
    assert mean == pytest.approx(apart.prediction.tpot.value, rel=1e-9)
    # p50 and p99 are those of both kinds: half of the requests are the easy kind's.
    assert apart.tpot[0.99][1].value > apart.segments[1].prediction.tpot.value


def test_a_day_is_that_of_the_planned_way() -> None:
    """At the busiest hour the fixed fleet's token takes what the plan says."""
    for by in ("one", "request"):
        answer = one(day=DAY, gamma_by=by)
        always = answer.day.policies[1]
        busiest = DAY.index(20)
        assert always.tpot[busiest] == pytest.approx(answer.prediction.tpot.value, rel=1e-6)
        assert max(always.gpus) == answer.arm.all_gpus.value


def test_a_tax_of_an_engine_with_one_gamma_is_in_its_row_alone() -> None:
    """The endpoint's fleet and times are those without it; its gain is told where choosing costs
    nothing, and whom it slows down at the tax."""
    free, taxed = (one(per_request_tax=tax) for tax in (None, 15))
    assert taxed.prediction.tpot.value == free.prediction.tpot.value
    assert taxed.capacity.speculative.within == free.capacity.speculative.within
    rows = [{way.name: way for way in each.ways} for each in (free, taxed)]
    assert rows[1]["one"].tpot.value == rows[0]["one"].tpot.value
    assert rows[1]["request"].tpot.value > 1.15 * rows[0]["request"].tpot.value
    said = ways_sentence(taxed)
    assert "is in the row of a γ for each request alone: the plan has one γ for all." in said
    assert "fleet" not in said
    gain, slower = f"{100 * (free.by_request.gain - 1):.1f}%", said.split(" With it ")[1]
    assert gain in said.split("where choosing costs nothing")[0]
    more = {s.name: s.with_each.value / s.with_one.value - 1 for s in taxed.segments}
    assert max(more.values()) > 0.01
    for name, longer in more.items():
        told = f"{name} takes {100 * longer:.0f}% longer a token" in slower
        assert told == (longer > 0.01)


def test_a_tax_that_was_measured() -> None:
    """It is in the fleet and in the times, and the gain and the break-even stay those without."""
    free, taxed = (one(gamma_by="request", per_request_tax=tax) for tax in (None, 15))
    assert taxed.by_request.gain == free.by_request.gain
    assert taxed.by_request.break_even == free.by_request.break_even < 0.15
    assert taxed.prediction.tpot.value > 1.15 * free.prediction.tpot.value
    carried = [each.capacity.speculative.within.value for each in (taxed, free)]
    assert carried[0] < carried[1]
    said = ways_sentence(taxed)
    assert "The 15% of a step that was given, more than that, is in fleet and times." in said
    assert "0% is taken; having γ by batch size on took 7% to 22%" in ways_sentence(free)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"gamma_by": "batch"}, 'gamma_by must be "one" or "request", got "batch"'),
        ({"gamma_by": "request", "segments": []}, "needs at least 2 segments, got 1"),
        ({"per_request_tax": -1}, "per_request_tax must be percent >= 0 and <= 100, got -1"),
        ({"per_request_tax": 101}, "per_request_tax must be percent >= 0 and <= 100, got 101"),
        ({"per_request_tax": "much"}, "per_request_tax must be percent"),
        ({"gamma_by": "request", "gamma": 10, "tree": "3:2:10", "draft": "eagle3"},
         "chat: a γ for each request needs chains, got a tree"),
        ({"gamma_by": "request", "target_ms": 25, "run_gamma": 3, "run_ms": 12},
         "chat: a γ for each request needs steps that are computed"),
    ],
)  # fmt: skip
def test_what_is_refused(more: dict, told: str) -> None:
    values = {"alpha": 0.8, **more} if more.get("segments") == [] else more
    with pytest.raises(InputError, match=told):
        one(**values)


def test_what_cannot_draft_by_request_is_planned_with_one_gamma() -> None:
    """A tree, and a measured run: the other two ways are still told."""
    for more in ({"gamma": 10, "tree": "3:2:10", "draft": "eagle3"},
                 {"target_ms": 25, "run_gamma": 3, "run_ms": 12}):  # fmt: skip
        answer = one(**more)
        assert answer.by_request is None
        assert "request" not in [way.name for way in answer.ways]
        assert ways_sentence(answer) == ""


def test_a_gamma_that_is_given_is_the_most() -> None:
    answer = one(gamma=3, gamma_by="request")
    assert max(answer.by_request.gammas) <= 3
    assert answer.ways[0].gammas == (3, 3)


def test_drafts_that_stop_early_in_a_plan() -> None:
    """`drafted_per_step` of an endpoint holds for all its segments, γ being the most; of a segment
    it is refused, since a step's drafts are one engine's. One kind told twice is that kind."""
    given = {"draft": "eagle3", "gamma": 5, "drafted_per_step": 3.0}
    twice = one(**given, segments=[{"name": n, "share": 0.5, "alpha": 0.7} for n in "ab"])
    alone = one(**given, segments=[], alpha=0.7)
    assert twice.prediction.tpot.value == pytest.approx(alone.prediction.tpot.value, rel=1e-9)
    assert twice.arm.within.value == pytest.approx(alone.arm.within.value, rel=1e-9)
    full = one(**{**given, "drafted_per_step": None}, segments=[], alpha=0.7)
    assert alone.prediction.tokens_per_step < full.prediction.tokens_per_step
    apart = one(**given, gamma_by="request")
    assert max(apart.by_request.gammas) <= 5
    assert apart.prediction.endpoint.pair.continues == twice.prediction.endpoint.pair.continues
    with pytest.raises(ScenarioError, match="a: drafted_per_step must be one of a segment's"):
        one(segments=[{"name": "a", "share": 0.5, "drafted_per_step": 2}, {"share": 0.5}])


def test_it_comes_back_from_its_file_and_from_its_tables() -> None:
    plan = plan_of([{"name": "chat", **SERVED, "gamma_by": "request", "per_request_tax": 2.5}])
    assert plan.endpoints[0].gamma_by == "request"
    assert from_toml(to_toml(plan)) == plan == plan_from(grid_of(plan))
    assert grid_of(plan).endpoints[0]["gamma_by"] == "request"


# ── what is shown ────────────────────────────────────────────────────────────────────────────


def test_tables_and_words_say_the_same_numbers() -> None:
    found = decided(plan_of([
        {"name": "a", **SERVED}, {"name": "b", **SERVED, "gamma_by": "request"},
        {"name": "c", **SERVED, "segments": [], "alpha": 0.8},
    ]))  # fmt: skip
    a, b, _ = found.endpoints
    shown = ways_table(found)
    rows = list(zip(shown.column("endpoint").values, shown.column("way").values, strict=True))
    assert [name for name, _ in rows] == ["a"] * len(a.ways) + ["b"] * len(b.ways)
    at = rows.index(("b", "A γ for each request"))
    assert shown.column("gammas").values[at] == ", ".join(map(str, b.by_request.gammas))
    assert shown.column("gpus").values[at] == b.arm.all_gpus.value
    assert shown.column("gain_percent").values[at] == pytest.approx(100 * (b.by_request.gain - 1))
    assert f"{100 * (b.by_request.gain - 1):.1f}%" in ways_sentence(b)
    assert f"{100 * b.by_request.break_even:.1f}% of a step" in ways_sentence(b)
    most = max(b.by_request.gammas)
    assert do_words(b) == f"On, γ≤{most} by request"
    assert endpoints_table(found).column("gpus").values[1] == b.arm.all_gpus.value
    segments = segments_table(found)
    assert segments.column("gamma").values[2:4] == b.by_request.gammas
    assert segments.column("tpot_by_request_ms").values[:2] == pytest.approx(
        segments.column("tpot_ms").values[2:4]
    )
    # The total has what is planned of each.
    assert found.gpus[1].value == sum(e.arm.all_gpus.value for e in found.endpoints)


def test_a_table_of_ways_needs_a_mixed_endpoint() -> None:
    with pytest.raises(InputError, match="needs an endpoint of at least 2 segments, got none"):
        ways_table(decided(plan_of([{"name": "c", **SERVED, "segments": [], "alpha": 0.8}])))


def test_the_command_and_the_report_tell_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of([{"name": "chat", **SERVED, "gamma_by": "request"}])
    file = tmp_path / "plan.toml"
    file.write_text(to_toml(plan), encoding="utf-8")
    answer = decided(plan)
    main(["plan", str(file), "--by", "way", "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["way"] for row in rows] == [WAYS[way.name] for way in answer.endpoints[0].ways]
    assert float(rows[-1]["gpus"]) == answer.endpoints[0].ways[-1].gpus.value
    main(["plan", str(file)])
    said = ways_sentence(answer.endpoints[0])
    shown = capsys.readouterr().out
    assert said in shown
    assert "pool" not in shown, "pools are those of prefill and decode"
    assert said.split(":")[0] in report_bytes(answer).decode()


def test_the_workbook_has_values_and_says_why() -> None:
    """Each kind's γ moves the steps of all with what is accepted: nothing accepted is for typing,
    and the fleet is still the plan's; demand and price are."""
    found = decided(plan_of([{"name": "chat", **SERVED, "gamma_by": "request"}]))
    (answer,) = found.endpoints
    book = live_plan_table(found)
    column = {c.name: c for c in book.columns}
    lines = column["line"].values
    at = lines.index("All requests")
    for name in ("alpha", "tokens_per_step"):
        assert not any(column[name].editable)
        assert not any(column[name].formulas)
    assert column["gamma"].values[:2] == answer.by_request.gammas
    assert column["tokens_per_step"].values[:2] == pytest.approx(
        [s.prediction.tokens_per_step for s in answer.segments]
    )
    assert column["rate"].values[at] == answer.capacity.speculative.within.value
    assert column["gpus"].values[at] == answer.arm.all_gpus.value
    assert column["demand"].editable[at]
    assert column["usd_per_month"].formulas[at]
    assert "each request has a γ of its own" in column["source"].values[at]
