"""v, c, h and s of servers whose step times are known by construction."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fake_engines import Engine, running

from specmath.checks import InputError
from specmath.cli import cli
from specmath.estimate import Estimate
from specmath.measure.server.client import ServerError
from specmath.measure.server.costs import ServerCosts
from specmath.measure.server.load import Load, LoadPlan
from specmath.measure.server.runs import SpeculativeRun, given_run, run_of
from specmath.measure.server.stream import Streamed
from specmath.measure.server.two_requests import ReadPlan, ServerSteps, time_server
from specmath.scenario.endpoint import resolve
from specmath.scenario.files import from_toml

WORDS = " ".join(f"w{n}" for n in range(300))
PLAN = ReadPlan(gammas=(1, 4), context=256, rounds=6, steps=4)


def timed(engine: Engine, plan: ReadPlan = PLAN, draft: Engine | None = None) -> ServerSteps:
    with running(engine):
        if draft is None:
            clock = lambda: engine.now  # noqa: E731
            return asyncio.run(time_server(engine.address, plan, [WORDS], clock=clock))
        with running(draft):
            at = draft.address
            return asyncio.run(time_server(engine.address, plan, [WORDS], draft_url=at))


# ── two requests ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["llama.cpp", "sglang"])
def test_two_requests_by_the_servers_own_clock(name: str) -> None:
    """v(n) = 1 + 0.1 (n − 1) as the server was built: its time for n tokens and its base cancel."""
    found = timed(Engine(name), draft=Engine(name, step=0.008))
    assert found.own_clock
    assert found.cached
    assert found.plain_seconds.value == pytest.approx(0.040)
    assert found.verify_cost(1).value == pytest.approx(1.1)
    assert found.verify_cost(4).value == pytest.approx(1.4)
    assert found.c is not None
    assert found.c.value == pytest.approx(0.2)
    assert found.c.low == pytest.approx(0.2)


def test_two_requests_by_our_clock() -> None:
    """vLLM tells no times: what the two share cancels."""
    found = timed(Engine("vllm", base=0.5, verify=lambda n: 1.0 + 0.5 * (n - 1)))
    assert not found.own_clock
    assert found.plain_seconds.value == pytest.approx(0.040)
    assert found.verify_cost(4).value == pytest.approx(3.0)


def test_every_read_holds_as_many_fresh_tokens_as_asked() -> None:
    """A radix cache keeps every prompt: the first fresh token is one that never came there."""
    plan = ReadPlan(gammas=(1, 2, 3), context=128, rounds=20, steps=2)
    found = timed(Engine("sglang", step=0.001, base=0.0), plan)
    assert len(found.plain) == 20
    assert found.context == 128


def test_without_a_prefix_cache_nothing_is_said() -> None:
    with pytest.raises(ServerError, match=r"read 2\d\d tokens where \d were fresh"):
        timed(Engine("llama.cpp", caches=False))
    fast = Engine("vllm", step=0.001, details=False, caches=False)
    with pytest.raises(ServerError, match="held 0% of what was"):
        timed(fast)


def test_vllm_tells_its_cache_by_its_metrics() -> None:
    assert timed(Engine("vllm", step=0.002, details=False)).cached


@pytest.mark.parametrize("name", ["llama.cpp", "sglang", "vllm"])
def test_a_plain_server_that_drafts_is_refused_with_the_evidence(name: str) -> None:
    evidence = {"llama.cpp": "draft_n is 3", "sglang": "spec_verify_ct is 3", "vllm": "drafted"}
    with pytest.raises(ServerError, match=evidence[name]):
        timed(Engine(name, drafts=3, step=0.001))


def test_a_server_that_dies_midway_keeps_what_was_timed() -> None:
    """Requests: 1 of ids, 5 to warm up, then 4 a round; it dies in the sixth round."""
    found = timed(Engine("llama.cpp", dies=6 + 4 * 5 + 2), ReadPlan((1, 4), 256, rounds=50))
    assert len(found.plain) == 5
    assert found.verify_cost(4).value == pytest.approx(1.4)
    late = Engine("sglang", step=0.001)
    late.forgets = 30
    with pytest.raises(ServerError, match="were fresh"):  # it is not gone, it answers otherwise
        timed(late, ReadPlan((1, 4), 256, rounds=50, steps=2))
    with pytest.raises(ServerError, match="cannot reach"):
        timed(Engine("llama.cpp", dies=6 + 4))


@pytest.mark.parametrize("wrong", [{"gammas": (0,)}, {"context": 8}, {"rounds": 2}, {"steps": 1}])
def test_plans_out_of_bounds(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        ReadPlan(**wrong)  # type: ignore[arg-type]


# ── runs ─────────────────────────────────────────────────────────────────────────────────────


def load(tpot: float, accepted: int | None = None, drafted: int = 0, requests: int = 6) -> Load:
    """Requests of 101 tokens at a spread of ±1% around the time per token."""
    streams = []
    for number in range(requests):
        spread = tpot * (1 + 0.01 * (-1) ** number)
        timings = {"predicted_n": 101.0, "predicted_ms": 1e5 * spread}
        if accepted is not None:
            timings |= {"draft_n": float(drafted), "draft_n_accepted": float(accepted)}
        times = np.linspace(0.0, 100 * spread, 101)
        streams.append(Streamed(times, np.ones(101, int), 101, True, timings))
    plan = LoadPlan(["x"], requests)
    return Load("llama.cpp", "m", plan, tuple(streams), (), 1.0, (None, None))


def test_s_is_tau_over_speedup() -> None:
    """100 tokens in 40 passes of 50 ms against 40 ms a token: s = 1.25, by hand."""
    run = run_of(4, load(0.040), load(0.020, accepted=60, drafted=160))
    assert run.tokens_per_step == pytest.approx(2.5)
    assert run.step_cost.value == pytest.approx(1.25)
    assert run.step_cost.low is not None
    # 1% of spread over 6 requests in both arms: t(5) = 2.571, 2.571 · 1.095%/√6 · √2 = 1.6%.
    assert run.step_cost.value - run.step_cost.low == pytest.approx(1.25 * 0.0163, rel=0.02)
    assert (run.tau_from, run.forced) == ("counted", False)


def test_forced_acceptance_is_known_without_counts() -> None:
    plain, fast = load(0.040), load(0.020)
    silent = Load("sglang", "m", fast.plan, tuple(
        Streamed(s.times, s.tokens, s.total, True, {}) for s in fast.streams
    ), (), 1.0, (None, None))  # fmt: skip
    run = run_of(4, plain, silent, forced=2.5)
    assert run.step_cost.value == pytest.approx(1.25)
    assert (run.tau_from, run.forced) == ("forced", True)
    with pytest.raises(ServerError, match="does not say what it drafted"):
        run_of(4, plain, silent)


def test_claims_are_checked_against_the_counts() -> None:
    drafting, still = load(0.020, accepted=60, drafted=160), load(0.040)
    with pytest.raises(ServerError, match="the plain run drafted 960 tokens"):
        run_of(4, drafting, drafting)
    with pytest.raises(ServerError, match="drafted nothing"):
        run_of(4, still, still)
    with pytest.raises(ServerError, match=r"must be the forced 4 .* got 2\.5"):
        run_of(4, still, drafting, forced=4.0)
    assert run_of(4, still, drafting, forced=2.4).forced
    with pytest.raises(InputError, match="at least 3 requests"):
        run_of(4, load(0.04, requests=2), load(0.02, 60, 160, requests=2))


def test_a_run_that_somebody_timed() -> None:
    run = given_run(4, 21.0, 2.9, 40.0)
    assert run.step_cost.value == pytest.approx(21 * 2.9 / 40)
    with pytest.raises(InputError, match="tokens per step at gamma=4"):
        given_run(4, 21.0, 6.0, 40.0)


# ── together ─────────────────────────────────────────────────────────────────────────────────


def steps(**more: object) -> ServerSteps:
    reads = {1: (0.043,) * 6, 3: (0.051,) * 6, 5: (0.059,) * 6}  # v = 1.2 and 1.4
    known = {"engine": "llama.cpp", "model": "m", "context": 256, "own_clock": True, "cached": True}
    return ServerSteps(**known, plain=(0.040,) * 6, reads=reads, **more)  # type: ignore[arg-type]


def run(gamma: int, s: float, **more: object) -> SpeculativeRun:
    between = Estimate.between(s, 0.99 * s, 1.01 * s)
    plain = Estimate.between(40.0, 39.0, 41.0)
    return SpeculativeRun(gamma, between, 2.0, "counted", 20.0 * s, plain, **more)  # type: ignore[arg-type]


def test_h_is_what_is_left_of_s() -> None:
    """s = v + γc + h with v = 1.4, c = 0.1, h = 0.15 at γ = 4."""
    costs = ServerCosts(steps(draft=(0.004,) * 6), (run(4, 1.95),))
    h = costs.overhead(4)
    assert h is not None
    assert h.value == pytest.approx(0.15)
    fields = costs.fields()
    assert fields["overhead"] == pytest.approx(0.15)
    assert fields["draft_ms"] == pytest.approx(4.0)
    assert fields["verify_costs"] == pytest.approx((1.1, 1.2, 1.3, 1.4))


def test_c_from_the_slope_of_two_runs_and_from_the_servers_own_times() -> None:
    """s − v is γc + h: 0.35 at γ = 2 and 0.55 at γ = 4 is c = 0.1, h = 0.15."""
    slope = ServerCosts(steps(), (run(2, 1.55), run(4, 1.95))).draft
    assert slope is not None
    assert slope.c.value == pytest.approx(0.1)
    assert slope.found == "slope of the runs"
    told = ServerCosts(steps(), (run(4, 1.95, draft_seconds=0.016),)).draft
    assert told is not None
    assert told.c.value == pytest.approx(0.1)
    assert told.found == "its own times"


def test_one_run_alone_becomes_the_measured_run_of_a_scenario() -> None:
    fields = ServerCosts(None, (run(4, 1.95),)).fields()
    assert fields["run_gamma"] == 4
    assert fields["run_tokens_per_step"] == 2.0


def test_v_of_several_requests_where_there_are_no_two() -> None:
    loads = {1: Estimate.between(0.04, 0.04, 0.04), 3: Estimate.between(0.05, 0.05, 0.05)}
    costs = ServerCosts(None, (), loads)
    v = costs.verify_cost(2)
    assert v is not None
    assert v.value == pytest.approx(1.25)
    with pytest.raises(InputError, match="nothing was measured"):
        ServerCosts(None, ())


# ── the command ──────────────────────────────────────────────────────────────────────────────


def command(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["measure", "server", "costs", *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_command_hands_a_scenario_over(tmp_path: Path) -> None:
    """The scenario file predicts what the server's own numbers say: τ/s by hand."""
    saved = tmp_path / "costs.toml"
    with running(Engine()) as target, running(Engine(step=0.004)) as draft:
        text = command(
            target.address, "--draft-url", draft.address, "--gammas", "1-4", "--context", "256",
            "--rounds", "6", "--save", str(saved), "--format", "json",
        )  # fmt: skip
    found = json.loads(text)
    assert (found["engine"], found["clock"], found["context_tokens"]) == (
        "llama.cpp",
        "server",
        256,
    )
    assert found["plain_ms"] == pytest.approx(40.0)
    assert found["c_from"] == "its own server"
    assert [row["verify_cost"] for row in found["gammas"]] == pytest.approx([1.1, 1.2, 1.3, 1.4])
    scenario = from_toml(saved.read_text("utf-8"))
    assert scenario.verify_costs == pytest.approx((1.1, 1.2, 1.3, 1.4))
    assert float(resolve(scenario).speculation.cost.total(4)) == pytest.approx(1.4 + 4 * 0.1)


def test_command_with_numbers_alone(tmp_path: Path) -> None:
    """Three runs that somebody timed: no server is asked."""
    text = command("--tpot", "0", "40", "1", "--tpot", "2", "22", "2.2", "--tpot", "4", "21", "2.9",
                   "--format", "json")  # fmt: skip
    scenario = json.loads(text)["scenario"]
    assert (scenario["tokens_per_step"], scenario["measured_gamma"]) == (2.9, 4)
    costs = [float(v) for v in scenario["verify_costs"].split(",")]
    assert costs == pytest.approx([1.05375, 1.21, 1.36625, 1.5225])


@pytest.mark.parametrize(
    "arguments",
    [[], ["--tpot", "4", "21", "2.9"], ["--speculative", "4", "http://127.0.0.1:9"],
     ["http://127.0.0.1:9", "--forced", "4", "2"], ["http://10.0.0.1"],
     ["--tpot", "0", "40", "1", "--tpot", "2", "9", "1", "--tpot", "2", "9", "1"]],
)  # fmt: skip
def test_command_refuses(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["measure", "server", "costs", *arguments])
    assert isinstance(result.exception, InputError)
    assert result.stdout == ""


def test_command_keeps_what_was_timed_where_a_run_fails(tmp_path: Path) -> None:
    saved = tmp_path / "costs.toml"
    arguments = ["--gammas", "1-2", "--rounds", "3", "--save", str(saved), "--format", "json"]
    with running(Engine()) as target:
        dead = [*arguments, "--speculative", "4", "http://127.0.0.1:9"]
        result = CliRunner().invoke(cli, ["measure", "server", "costs", target.address, *dead])
    assert isinstance(result.exception, ServerError)
    assert json.loads(result.stdout)["gammas"][1]["verify_cost"] == pytest.approx(1.2)
    assert from_toml(saved.read_text("utf-8")).target_ms == pytest.approx(40.0)


@pytest.mark.parametrize("known", [True, False])
def test_a_scenario_of_hardware_takes_times_and_with_c_the_curve(known: bool) -> None:
    hardware = ["--gpu", "h100", "--model", "Llama-3.1-8B", "--draft", "Llama-3.2-1B"]
    with running(Engine()) as target, running(Engine(step=0.004)) as draft:
        more = ["--draft-url", draft.address] if known else []
        text = command(target.address, "--gammas", "1-2", "--rounds", "3", "--format", "json",
                       *more, *hardware)  # fmt: skip
    scenario = json.loads(text)["scenario"]
    assert scenario["target_ms"] == pytest.approx(40.0)
    assert ("verify_costs" in scenario) == known
    assert ("gpu" in scenario) != known


def test_command_in_words() -> None:
    with running(Engine("sglang")) as target:
        text = command(target.address, "--gammas", "2", "--rounds", "3")
    assert "Plain step" in text
    assert "outside the graphs" in text
