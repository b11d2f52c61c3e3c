"""A plan from its tables and its file to what to do with each endpoint."""

from __future__ import annotations

import csv
import io
import json
import math
from importlib import resources

import numpy as np
import pytest

from specmath.capacity import capacity
from specmath.checks import InputError
from specmath.cli import main
from specmath.cli.plan import read_plan
from specmath.plan.day import DAYS
from specmath.plan.decided import EndpointAnswer, decided
from specmath.plan.files import from_toml, to_toml
from specmath.plan.grid import (
    SEGMENT_COLUMNS,
    Grid,
    acceptance_cell,
    endpoint_row,
    grid_of,
    plan_from,
    read_acceptance,
    read_rows,
)
from specmath.plan.record import plan_of
from specmath.predict import predict
from specmath.prefill_pool import PrefillPool
from specmath.scenario.faults import ScenarioError
from specmath.scenario.files import build, from_link, to_link
from specmath.tables.plan import days_table, endpoints_table, segments_table
from specmath.tables.plan_live import live_plan_table
from specmath.traffic import shipped_trace
from specmath.words.plan import (
    DO,
    day_sentence,
    endpoint_said,
    plan_notes,
    plan_sentence,
    segments_sentence,
    ways_sentence,
)

EXAMPLE = resources.files("specmath.data").joinpath("plan_example.toml").read_text("utf-8")
SERVED = {
    "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3", "prompt_tokens": 1024,
    "alpha": 0.8, "demand_requests_per_second": 40,
}  # fmt: skip


def one(**more: object) -> EndpointAnswer:
    (answer,) = decided(plan_of([{"name": "chat", **SERVED, **more}])).endpoints
    return answer


# ── files and tables ─────────────────────────────────────────────────────────────────────────


def test_a_plan_comes_back_from_its_file_and_from_its_tables() -> None:
    plan = from_toml(EXAMPLE)
    assert from_toml(to_toml(plan)) == plan
    assert plan_from(grid_of(plan)) == plan


@pytest.mark.parametrize(
    ("cell", "fields"),
    [
        ("0.8", {"alpha": 0.8}),
        ("80%", {"alpha": 0.8}),
        ("α = 0,8", {"alpha": 0.8}),
        ("0.6 to 0.8", {"alpha_low": 0.6, "alpha_high": 0.8}),
        ("0.6–0.8", {"alpha_low": 0.6, "alpha_high": 0.8}),
        ("0.8, 0.6, 0.45", {"rates": (0.8, 0.6, 0.45)}),
        ("80%; 60%", {"rates": (0.8, 0.6)}),
        ("2.8 @ 4", {"tokens_per_step": 2.8, "measured_gamma": 4}),
        ("61% @ γ=4", {"accepted_share": 0.61, "measured_gamma": 4}),
        ("0.5:0.9, 0.5:0.4", {"mixture": ((0.5, 0.9), (0.5, 0.4))}),
        ("", {}),
    ],
)
def test_an_acceptance_in_one_cell(cell: str, fields: dict) -> None:
    said = read_acceptance(cell)
    found = build({"c": 0.1, "acceptance_form": "range", **said})
    assert {name: getattr(found, name) for name in fields} == fields
    again = build({"c": 0.1, "acceptance_form": "range", **read_acceptance(acceptance_cell(said))})
    assert again == found


def test_what_is_no_acceptance_is_told_with_the_ways_there_are() -> None:
    with pytest.raises(InputError, match=r"acceptance must be written as 0\.8.*got good"):
        read_acceptance("good")


def test_a_table_pasted_from_a_spreadsheet() -> None:
    """Percent, thousands and currency, labels for names, columns in any order."""
    rows = read_rows(
        "Segment\tShare\tPrompt tokens a request\tOutput tokens a request\tAcceptance\n"
        "code\t60%\t2,500\t500\t82%\n"
        "talk\t40%\t800\t250\t0.6 to 0.8\n",
        SEGMENT_COLUMNS,
    )
    endpoint = {"endpoint": "chat", "gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3",
                "demand_requests_per_second": "1,200", "usd_per_hour": "$2.50"}  # fmt: skip
    (found,) = plan_from(Grid([endpoint], rows)).endpoints
    assert [(s.name, s.share) for s in found.segments] == [("code", 0.6), ("talk", 0.4)]
    assert [s.scenario.prompt_tokens for s in found.segments] == [2500, 800]
    assert found.segments[0].scenario.alpha == pytest.approx(0.82)
    assert (found.demand, found.scenario.usd_per_hour) == (1200.0, 2.5)


def test_a_scenario_becomes_an_endpoint() -> None:
    s = build({**SERVED, "kv_dtype": "fp8", "slo_ttft_ms": 500, "concurrency": 8, "gamma": 3})
    (found,) = plan_from(endpoint_row(s, "mine")).endpoints
    same = ("model", "draft", "kv_dtype", "slo_ttft_ms", "gamma", "alpha", "prompt_tokens")
    assert [getattr(found.scenario, n) for n in same] == [getattr(s, n) for n in same]


def test_a_trace_stands_for_its_means(tmp_path) -> None:
    """Of one that is shipped, and of a file beside the plan; a length that is given stays."""
    traffic = shipped_trace("azure-code")
    named = {n: v for n, v in SERVED.items() if n != "prompt_tokens"}
    (found,) = plan_of(
        [{"name": "a", **named, "segments": [{"trace": "azure-code", "output_tokens": 99}]}]
    ).endpoints
    assert found.scenario.prompt_tokens == round(float(traffic.prompt_tokens.mean()))
    assert found.scenario.output_tokens == 99
    (tmp_path / "mine.csv").write_text("seconds,prompt_tokens,output_tokens\n0,100,10\n1,300,30\n")
    plan = tmp_path / "plan.toml"
    lines = [f"{n} = {json.dumps(v)}" for n, v in named.items()]
    plan.write_text("\n".join(
        ["[[endpoints]]", 'name = "a"', *lines, "[[endpoints.segments]]", 'trace = "mine.csv"']
    ))  # fmt: skip
    (found,) = read_plan(str(plan)).endpoints
    assert (found.scenario.prompt_tokens, found.scenario.output_tokens) == (200, 20)
    plan.write_text(plan.read_text().replace("mine.csv", "none.csv"))
    with pytest.raises(Exception, match=r"none\.csv"):
        read_plan(str(plan))


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("more", "segments", "told"),
    [
        ({}, [{"share": 0.5}, {"share": 0.4}], r"shares of the segments must sum to 1, got 0\.9"),
        ({"demand_requests_per_second": 0}, None,
         "demand_requests_per_second must be a finite number > 0, got 0"),
        ({"demand_requests_per_second": None}, None, "demand_requests_per_second must be given"),
        ({"prompt_tokens": None}, None, "prompt_tokens must be given"),
        ({}, [{"share": 0.5}, {"demand_requests_per_second": 5}], "got some of both"),
        ({}, [{"demand_requests_per_second": 5}, {"demand_requests_per_second": 6}],
         "must sum to the endpoint's 40, got 11"),
        ({}, [{"share": 1.0, "batch": 3}], "batch must be one of a segment's fields"),
        ({"concurrency": 3}, None, "concurrency must be left out of a plan"),
        ({}, [{"share": 1 / 200}] * 200, "at most 32 segments, got 200"),
        ({}, [{"share": 0.5, "name": "a", "alpha": 2}, {"share": 0.5}],
         "chat: a: alpha must be a finite number >= 0 and <= 1, got 2"),
        ({"trace": "azure-code"}, None,
         r"chat: trace must be a segment's: it is a field of \[\[endpoints\.segments\]\]"),
        ({"day": [1, 2]}, None, "day must have 24 numbers, one an hour, got 2"),
        ({"day": [0] * 24}, None, "day must have an hour with requests"),
        ({"gpu": None, "model": None, "draft": None, "c": 0.1}, None,
         "draft_form=ratio does not use prompt_tokens"),
        ({}, [{"share": 0.5, "name": "a"}, {"share": 0.5, "name": "a"}], "a name of its own"),
    ],
)  # fmt: skip
def test_bad_plans(more: dict, segments: list | None, told: str) -> None:
    values = {n: v for n, v in {**SERVED, **more}.items() if v is not None}
    if segments is not None:
        values["segments"] = segments
    with pytest.raises(ScenarioError, match=told):
        plan_of([{"name": "chat", **values}])


def test_every_fault_is_told_with_its_place() -> None:
    with pytest.raises(ScenarioError) as caught:
        plan_of(
            [{"name": "a", **SERVED, "tensor_parallel": 0}, {"name": "b", **SERVED, "alpha": 7}]
        )
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["a", "b"]


def test_overload_is_told_with_what_is_carried() -> None:
    with pytest.raises(InputError, match=r"chat: replicas must carry 4000 requests/s, got 2: one "
                       r"carries at most \d+(\.\d+)? requests/s"):  # fmt: skip
        one(demand_requests_per_second=4000, replicas=2)


def test_a_promise_that_nothing_meets() -> None:
    answer = one(slo_tpot_ms=0.5)
    assert answer.do == "unmet"
    assert "No rate is low enough" in plan_sentence(decided(plan_of([
        {"name": "chat", **SERVED, "slo_tpot_ms": 0.5}])))  # fmt: skip


@pytest.mark.parametrize("text", ["", "endpoints = 3", "[[endpoints]]\n[other]", "x = ["])
def test_files_that_are_no_plan(text: str) -> None:
    with pytest.raises(InputError):
        from_toml(text)


# ── what to do ───────────────────────────────────────────────────────────────────────────────


def test_what_no_segment_can_keep_is_told_of_the_one_that_misses() -> None:
    """Its requests alone take what they take on an endpoint of their own: the mean of all requests,
    most of them short, would keep the promise."""
    parts = [{"name": "short", "share": 0.9, "prompt_tokens": 500},
             {"name": "long", "share": 0.1, "prompt_tokens": 30_000}]  # fmt: skip
    found = one(slo_ttft_ms=500, gamma=4, segments=parts)
    arm = found.capacity.speculative
    assert arm.alone.ttft.value < 0.5 < arm.missed.alone.value
    long = {"prompt_tokens": 30_000, "gamma": 4, "request_rate": 1e-6}
    served = {n: v for n, v in SERVED.items() if n != "demand_requests_per_second"}
    _, alone = predict(build(served | long)).first_token
    assert arm.missed.alone.value == pytest.approx(alone.value, rel=1e-2)
    said = plan_sentence(decided(plan_of([{"name": "chat", **SERVED, "slo_ttft_ms": 500,
                                           "gamma": 4, "segments": parts}])))  # fmt: skip
    assert f"a request of long alone takes {1e3 * arm.missed.alone.value:,.0f} (" in said


def test_each_arm_names_the_segment_that_it_misses() -> None:
    """Plain decoding takes all as long, 7.07 ms: the segment with the shorter promise misses it."""
    parts = [{"name": n, "share": 0.5, "slo_tpot_ms": ms} for n, ms in (("calm", 40), ("fast", 5))]
    found = one(alpha=0.7, gamma=4, demand_requests_per_second=100, segments=parts)
    assert found.capacity.speculative.missed is None
    missed = found.capacity.plain.missed
    assert (missed.part, missed.name, missed.promised) == (1, "tpot", 0.005)
    (because,) = [said for said in endpoint_said(found).because if "no rate is low" in said]
    assert "a request of fast alone takes 7.07 (" in because
    assert because.endswith("ms a token (promised: 5.00).")


def test_the_fleet_is_the_capacity_of_the_same_scenario() -> None:
    """An endpoint of one kind is what `capacity` says, and its times those of a replica at its
    share of the demand."""
    answer = one(slo_tpot_ms=12)
    alone = capacity(predict(build(
        {**SERVED, "slo_tpot_ms": 12, "gamma": answer.gamma, "request_rate": answer.rate})
    ))  # fmt: skip
    assert answer.arm.replicas.value == alone.speculative.replicas.value
    assert answer.capacity.plain.replicas.value == answer.replicas == alone.plain.replicas.value
    assert answer.rate == pytest.approx(40 / answer.replicas)
    assert answer.replicas == math.ceil(40 / (0.8 * alone.plain.within.value))


def test_off_as_given_is_told_so_with_what_would_be_looked_at() -> None:
    """γ = 0 given: the times are plain decoding's, and the γ is the best at that load of a plan
    that leaves γ open."""
    parts = [{"name": n, "share": 0.5, "alpha": a} for n, a in (("x", 0.9), ("y", 0.3))]
    found = one(gamma=0, segments=parts)
    assert (found.do, found.ways[0].gammas, found.by_request) == ("off", (0, 0), None)
    gamma, gain = found.looked
    curve = predict(
        found.endpoint.scenario.model_copy(update={"gamma": None, "request_rate": found.rate}),
        found.endpoint.parts,
    )
    speeds = curve.endpoint.curves[0]
    assert gamma == max(curve.endpoint.advisable, key=lambda each: speeds[each])
    assert gain.value == pytest.approx(speeds[gamma])
    said = endpoint_said(found)
    assert said.headline == "Off, as given"
    assert f"were it not, γ={gamma} would be looked at" in said.because[0]
    told = " ".join([*said.because, segments_sentence(found), ways_sentence(found)])
    assert "γ=0 is" not in told
    assert "One γ=0" not in told
    assert ways_sentence(found) == ""
    assert one(gamma=4).looked is None


def test_the_replicas_are_told_as_what_they_are() -> None:
    """As many as serve it without speculation; with γ where none do without; those given."""
    usual, only, given = (one(gamma=4, **more) for more in (
        {}, {"slo_tpot_ms": 5, "alpha": 0.8}, {"replicas": 9}))  # fmt: skip
    assert usual.capacity.plain.within.value > 0.0 == only.capacity.plain.within.value
    assert "replicas, as many as serve it without speculation:" in endpoint_said(usual).because[0]
    assert "as many as serve it with γ=4 (none do without):" in endpoint_said(only).because[0]
    assert only.replicas == only.capacity.speculative.replicas.value
    assert "on each of 9 replicas, as many as were given:" in endpoint_said(given).because[0]


@pytest.mark.parametrize(
    "more", [{"alpha": 0.0}, {"alpha": 0.8}, {"alpha": None, "work": "chat"}, {"gamma": 0}]
)
def test_the_gamma_in_the_table_is_that_of_its_times(more: dict) -> None:
    """Off, on, or to be measured: the time per token of the row is that of its γ, and of the
    workbook's."""
    plan = plan_of(
        [{"name": "chat", **{n: v for n, v in (SERVED | more).items() if v is not None}}]
    )
    found = decided(plan)
    (answer,) = found.endpoints
    (gamma,) = endpoints_table(found).column("gamma").values
    again = answer.prediction.scenario.model_copy(update={"gamma": gamma})
    assert predict(again).tpot.value == answer.prediction.tpot.value
    book = live_plan_table(found)
    assert book.column("gamma").values[0] == gamma
    if answer.do == "off" and more != {"gamma": 0}:
        assert gamma > 0


def test_a_draft_that_breaks_the_promise_is_off() -> None:
    """Faster than plain decoding at a low load, but not within what is promised."""
    answer = one(draft="Llama-3.2-1B", gamma=16, alpha=0.7, slo_tpot_ms=10)
    assert answer.capacity.speculative.within.value == 0.0
    assert answer.capacity.plain.within.value > 0.0
    assert (answer.do, answer.arm.gamma) == ("off", 0)


def test_a_draft_that_never_pays_is_off() -> None:
    answer = one(alpha=0.05)
    assert (answer.do, answer.gamma) == ("off", 0)
    assert answer.arm is answer.capacity.plain


def test_what_nobody_measured_is_to_be_measured() -> None:
    values = {n: v for n, v in SERVED.items() if n != "alpha"}
    (answer,) = decided(
        plan_of([{"name": "x", **values, "draft": "suffix", "work": "json"}])
    ).endpoints
    assert answer.do == "measure"
    assert answer.arm is answer.capacity.plain


def test_tuning_to_the_mean_is_wrong_for_part_of_a_bimodal_endpoint() -> None:
    """α of 0.9 and 0.4: the first would draft more, the second fewer, than one γ for both."""
    answer = one(segments=[
        {"name": "easy", "share": 0.5, "alpha": 0.9}, {"name": "hard", "share": 0.5, "alpha": 0.4}
    ])  # fmt: skip
    easy, hard = answer.segments
    assert easy.own_gamma > answer.gamma > hard.own_gamma
    assert easy.lost.value > 1.0
    assert hard.lost.value > 1.0
    assert 0.0 < answer.lost < 0.2
    assert easy.split is not None
    told = segments_sentence(answer)
    assert "for all costs" in told
    assert "beside each segment at its own γ on dedicated replicas" in told
    # The blended α of an i.i.d. draft with as many tokens a step recommends another γ than each.
    assert easy.prediction.speedup.value > answer.prediction.speedup.value
    assert hard.prediction.speedup.value < answer.prediction.speedup.value


def test_a_pool_of_its_own_by_hand() -> None:
    """Two pools: replicas of each kind alone for its share of the requests."""
    answer = one(usd_per_hour=2.0, headroom=0.0, gamma=2, segments=[
        {"name": "easy", "share": 0.5, "alpha": 0.9}, {"name": "hard", "share": 0.5, "alpha": 0.4}
    ])  # fmt: skip
    split = answer.segments[0].split
    assert split is not None
    counts = []
    for gamma, alpha in ((split.gamma, 0.9), (split.others, 0.4)):
        found = capacity(predict(build({**SERVED, "alpha": alpha, "gamma": gamma, "headroom": 0,
                                        "demand_requests_per_second": 20})))  # fmt: skip
        counts.append((found.speculative if gamma else found.plain).replicas.value)
    assert split.replicas == sum(counts)
    now = answer.capacity.speculative.usd_per_month.value
    assert split.more_per_month == pytest.approx(sum(counts) * 2.0 * 730 - now)


def test_a_day_says_which_fleet_each_number_is_of() -> None:
    """Times of all three policies are of the fixed fleet, GPU hours of the one that follows."""
    whole = decided(plan_of([{"name": "chat", **SERVED, "gamma": 4, "day": [1, *[12] * 23]}]))
    (found,) = whole.endpoints
    said, policies = day_sentence(found), found.day.policies
    fixed, follows = said.split(" On replicas that follow the hours instead: ")
    assert f"on {found.replicas} replica" in fixed
    words_of = ("never drafting", "always drafting", "by load")
    for policy, words in zip(policies, words_of, strict=True):
        hours = np.array(found.day.demand)
        by_hand = float(hours @ np.array(policy.tpot) / hours.sum())
        assert f"{1e3 * by_hand:.3g}" in fixed.split(f" ms {words}")[0].split()[-1]
    assert "GPU hours a day" in follows
    for label in (column.label for column in days_table(whole).columns):
        assert ("fixed fleet" in label) == label.startswith("Token, ")
        assert ("following" in label) == label.startswith("GPUs, ")


def test_by_load_where_the_day_crosses() -> None:
    """A draft that pays at night and not at noon is on below the crossover, off above."""
    day = [0.02] * 12 + [1.0] * 12
    found = one(alpha=0.62, day=day, headroom=0.0, gamma=5)
    crossing = found.capacity.crossover
    assert crossing is not None
    assert found.rate * 0.02 < crossing < found.rate
    assert found.do == "by load"
    on = found.day.policies[-1].on
    assert all(on[:12])
    assert not any(on[12:])


def test_a_day_by_hand() -> None:
    """Hours at the peak rate cost what the fleet of the peak does; half of them at nothing cost one
    replica each."""
    answer = one(day=[0.0] * 12 + [1.0] * 12, headroom=0.0)
    never, always, by_load = answer.day.policies
    peak = answer.capacity.plain.replicas.value
    assert never.gpu_hours.value == 12 * 1 + 12 * peak
    assert never.fixed_gpu_hours.value == 24 * peak
    price = answer.endpoint.scenario.usd_per_hour
    assert never.usd_per_month.value == pytest.approx(never.gpu_hours.value * price * DAYS)
    assert by_load.gpu_hours.value == min(never.gpu_hours.value, always.gpu_hours.value)
    # At the peak, on as many replicas, the hour takes what the endpoint's prediction does.
    assert always.tpot[-1] == pytest.approx(answer.prediction.tpot.value, rel=1e-3)
    assert never.tpot[-1] == pytest.approx(answer.prediction.tpot_plain.value, rel=1e-3)
    assert never.mean_tpot == pytest.approx(never.tpot[-1])


def test_all_is_the_sum() -> None:
    found = decided(from_toml(EXAMPLE))
    plain, planned = found.usd_per_month
    assert plain.value == sum(a.capacity.plain.usd_per_month.value for a in found.endpoints)
    assert planned.low == sum(a.arm.usd_per_month.low for a in found.endpoints)
    assert found.gpus[1].value == sum(a.arm.all_gpus.value for a in found.endpoints)


def test_quantiles_lie_about_the_mean() -> None:
    answer = one()
    (p50, _), (p99, ours) = answer.tpot[0.5], answer.tpot[0.99]
    assert p50.value < p99.value
    assert ours.value > answer.prediction.tpot.value


# ── prompts that others read ─────────────────────────────────────────────────────────────────

APART = {"decode_only": "yes", "slo_tpot_ms": 12, "slo_ttft_ms": 200}
KINDS = [{"name": "short", "share": 0.75, "alpha": 0.7, "prompt_tokens": 500},
         {"name": "long", "share": 0.25, "alpha": 0.7, "prompt_tokens": 8000,
          "slo_ttft_ms": 900}]  # fmt: skip


def pools(**changes: object) -> tuple[PrefillPool, PrefillPool]:
    found = one(**APART, **changes).capacity
    assert found.plain.prefill is not None
    assert found.speculative.prefill is not None
    return found.plain.prefill.pool, found.speculative.prefill.pool


def test_workers_of_one_kind_are_those_of_the_same_scenario() -> None:
    answer = one(**APART)
    alone = capacity(predict(build({**SERVED, **APART, "gamma": answer.gamma})))
    assert answer.do == "on"
    mine, same = answer.arm, alone.speculative
    assert (mine.prefill.replicas.value, mine.prefill.replicas.high) == (
        same.prefill.replicas.value, same.prefill.replicas.high)  # fmt: skip
    assert mine.all_gpus.value == same.replicas.value + same.prefill.replicas.value
    found = decided(plan_of([{"name": "chat", **SERVED, **APART}]))
    assert found.gpus[1].value == mine.all_gpus.value
    row = endpoints_table(found).rows()[0]
    assert (row["gpus"], row["prefill_gpus"]) == (
        mine.all_gpus.value, mine.prefill.replicas.value)  # fmt: skip
    assert f"{mine.prefill.replicas.value:.0f} read prompts" in plan_sentence(found)
    assert any("moves between the pools" in note for note in plan_notes(found))


def test_workers_of_several_kinds_queue_by_the_second_moment() -> None:
    """Each kind's prompt takes what it takes alone; no step holds two of them, one in four is three
    times as long. The short ones are promised 2 s, the long ones 3 s: what leaves less to wait."""
    kinds = [KINDS[0] | {"prompt_tokens": 9000, "slo_ttft_ms": 2000},
             KINDS[1] | {"prompt_tokens": 27_000, "slo_ttft_ms": 3000}]  # fmt: skip
    short, long = (pools(prompt_tokens=n)[0].prompt.value for n in (9000, 27_000))
    plain, ours = pools(segments=kinds)
    mean, square = 0.75 * short + 0.25 * long, 0.75 * short**2 + 0.25 * long**2
    assert plain.prompt.value == pytest.approx(mean)
    wait = min(2.0 - short, 3.0 - long)
    assert plain.within.value == pytest.approx(2 * wait / (square + 2 * wait * mean), rel=1e-9)
    assert ours.prompt.value > mean
    told_twice = pools(segments=[{**KINDS[0], "name": n, "share": 0.5} for n in "ab"])[0]
    alone = pools(prompt_tokens=500)[0]
    assert told_twice.within.value == pytest.approx(alone.within.value)


def test_a_day_has_workers_at_every_hour_by_hand() -> None:
    answer = one(**APART, day=[0.0] * 12 + [1.0] * 12, headroom=0.0)
    never, always, _ = answer.day.policies
    for policy, arm in ((never, answer.capacity.plain), (always, answer.capacity.speculative)):
        peak = arm.replicas.value + arm.prefill.replicas.value
        assert policy.gpu_hours.value == 12 * 2 + 12 * peak
        assert policy.fixed_gpu_hours.value == 24 * peak
        assert (policy.gpus[0], policy.gpus[-1]) == (2, peak)


def test_a_segment_by_itself_has_workers_of_its_own_by_hand() -> None:
    kinds = [
        {"name": "easy", "share": 0.5, "alpha": 0.9}, {"name": "hard", "share": 0.5, "alpha": 0.4}
    ]  # fmt: skip
    answer = one(usd_per_hour=2.0, headroom=0.0, gamma=2, decode_only="yes", segments=kinds)
    split = answer.segments[0].split
    assert split is not None
    gpus = 0.0
    for gamma, alpha in ((split.gamma, 0.9), (split.others, 0.4)):
        found = capacity(predict(build({
            **SERVED, "alpha": alpha, "gamma": gamma, "headroom": 0, "decode_only": "yes",
            "demand_requests_per_second": 20})))  # fmt: skip
        gpus += (found.speculative if gamma else found.plain).all_gpus.value
    now = answer.capacity.speculative.usd_per_month.value
    assert split.more_per_month == pytest.approx(gpus * 2.0 * 730 - now)


# ── as rows, and on the command line ─────────────────────────────────────────────────────────


def test_rows_are_the_answers() -> None:
    found = decided(from_toml(EXAMPLE))
    rows = endpoints_table(found).rows()
    assert [row["endpoint"] for row in rows] == ["Chat", "Summaries", "Agents"]
    for row, answer in zip(rows, found.endpoints, strict=True):
        assert row["do"].startswith(DO[answer.do])
        assert row["gpus"] == answer.arm.all_gpus.value
        assert row["tpot_p99_ms"] == pytest.approx(1e3 * answer.tpot[0.99][1].value)
        assert row["usd_per_month_plain"] == answer.capacity.plain.usd_per_month.value
    segments = segments_table(found).rows()
    assert sum(row["share"] for row in segments if row["endpoint"] == "Chat") == pytest.approx(100)
    hours = days_table(found).rows()
    assert len(hours) == 24
    assert np.max([row["requests_per_second"] for row in hours]) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("by", "table"),
    [("endpoint", endpoints_table), ("segment", segments_table), ("hour", days_table)],
)
def test_the_command_line_says_the_same(by, table, tmp_path, capsys) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(EXAMPLE)
    main(["plan", str(path), "--by", by, "--format", "json"])
    rows = table(decided(from_toml(EXAMPLE))).rows()
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(rows))
    main(["plan", str(path), "--by", by, "--format", "csv"])
    written = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(written) == len(rows)


def test_a_plan_that_is_none_is_one_line(tmp_path, capsys) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('[[endpoints]]\nname = "a"\ngpu = "h100"\n')
    with pytest.raises(SystemExit) as stopped:
        main(["plan", str(path)])
    said = capsys.readouterr()
    assert (stopped.value.code, said.out) == (2, "")
    assert len(said.err.strip().splitlines()) == 1


def test_scenarios_of_a_plan_are_whole() -> None:
    """A blended scenario opens in the calculator: it is valid by itself."""
    for endpoint in from_toml(EXAMPLE).endpoints:
        assert from_link(to_link(endpoint.scenario)) == (endpoint.scenario, [])
