"""One prediction: what a log says of each γ is what the calculator says of the scenario it gives.

Every sample is read through the command line as a user reads it, with and without a γ given, at
costs of every form; what it hands over goes back in as options.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.readings import make_reading

from specmath.checks import InputError
from specmath.cli import cli
from specmath.logs import LogError, Reading, read
from specmath.logs.estimate import Alpha
from specmath.predict import predict
from specmath.review.gammas import GammaRow, gamma_rows
from specmath.review.into_scenario import endpoint_of, scenario_from, shape_of
from specmath.review.observed import Speed, tokens_per_pass
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import build
from specmath.stepcost import LinearStepCost, Observed
from specmath.words.logs import answer_all

FOLDER = Path(__file__).parents[1] / "data" / "log_samples"
FILES = sorted(FOLDER.rglob("*.*"))
COSTS = {
    "example": ("--target-ms", "40", "--draft-ms", "8"),
    "unknown": (),
    "served": ("--gpu", "H100 SXM", "--model", "Llama-3.1-8B", "--draft", "Llama-3.2-1B"),
    "given": ("--c", "0.1"),
    "open": ("--c", "0.1", "--sigma", "unknown", "--c-hat", "unknown"),
}
BASES = {
    "example": EXAMPLE,
    "unknown": Scenario(acceptance_form="range", gamma=0, draft_form="range"),
    "served": Scenario(
        acceptance_form="range", gamma=0, gpu="H100 SXM", model="Llama-3.1-8B",
        draft="Llama-3.2-1B",
    ),
    "given": Scenario(acceptance_form="range", gamma=0, c=0.1),
}  # fmt: skip
PLAIN_RUNS = {
    "guidellm_table.txt", "README.md", "log_none.txt", "metrics_none.txt", "resp_none.json",
}  # fmt: skip
"""What holds no speculation at all."""

OBSERVED = tuple(Speed(ratio, None, "observed") for ratio in (0.6, 1.02, 1.7))


def logs(path: Path, *options: str) -> list[dict[str, Any]]:
    """The readings of `logs FILE --format json`."""
    result = CliRunner().invoke(cli, ["logs", str(path), *options, "--format", "json"])
    assert result.exit_code == 0, (path.name, result.output, result.exception)
    found = json.loads(result.stdout)
    return found if isinstance(found, list) else [found]


@cache
def samples() -> tuple[Reading, ...]:
    """Every reading of every sample, without a γ given and with one."""
    found = []
    for path in FILES:
        for gamma in (None, 4):
            try:
                found += read(path, gamma=gamma)
            except LogError:
                assert path.name in PLAIN_RUNS
    return tuple(found)


def chain(**more: Any) -> Reading:
    return make_reading(
        "vllm", "made", steps=10_000, drafted=30_000, accepted=18_000, survival=(0.8, 0.6, 0.4),
        **more,
    )  # fmt: skip


def rows(reading: Reading, base: Scenario, speed: Speed | None = None) -> dict[int, GammaRow]:
    return {r.gamma: r for r in gamma_rows(reading, endpoint_of(reading, base, speed))}


# ── the calculator repeats the log ───────────────────────────────────────────────────────────


ALSO = {"given", "open"}
"""Costs that take the way of another: run with the slow tests."""
EACH_COST = [
    pytest.param(options, marks=pytest.mark.slow if name in ALSO else (), id=name)
    for name, options in COSTS.items()
]


@pytest.mark.parametrize("options", EACH_COST)
def test_the_calculator_repeats_every_row_of_every_log(options: tuple[str, ...]) -> None:
    compared, covered, forms, refused = 0, set(), set(), 0
    for path in FILES:
        if path.name in PLAIN_RUNS:
            continue
        for found in (*logs(path, *options), *logs(path, "--gamma", "4", *options)):
            handed = found["scenario"]
            if handed is None:
                refused += 1
                assert found["gammas"] == []
                assert "γ must be given" in found["warnings"][-1]
                continue
            scenario = build(handed)
            curve = predict(scenario).curve.walltime_improvement
            for row in found["gammas"]:
                assert curve[row["gamma"]] == pytest.approx(row["speedup"], rel=1e-9), path.name
                compared += 1
            assert handed.get("gamma") == found["gamma"]
            covered.add(handed["coverage"] < 1)
            forms.add(scenario.acceptance_form)
    assert compared > 400
    assert refused > 0
    assert covered == {True, False}
    assert forms == {"survival", "tokens_per_step", "accepted_share", "alpha"}


@pytest.mark.parametrize("options", COSTS.values(), ids=list(COSTS))
@pytest.mark.parametrize(
    "name",
    ["vllm_v1_log_current.txt", "llamacpp_server_log_2026-08.txt", "llama_speculative_stdout.txt",
     "captured_llamacpp/resp_ngsimple.json"],
)  # fmt: skip
def test_what_is_handed_over_can_be_typed(name: str, options: tuple[str, ...]) -> None:
    found, *_ = logs(FOLDER / name, "--gamma", "4", *options)
    typed = {f"--{name.replace('_', '-')}": str(v) for name, v in found["scenario"].items()}
    for row in found["gammas"]:
        given = [part for pair in (typed | {"--gamma": str(row["gamma"])}).items() for part in pair]
        result = CliRunner().invoke(cli, ["predict", *given, "--format", "json"])
        assert result.exit_code == 0, (given, result.output, result.exception)
        answer = json.loads(result.stdout)
        assert answer["walltime_improvement"] == pytest.approx(row["speedup"], rel=1e-9)
        assert answer["tokens_per_step"] == pytest.approx(row["tokens_per_pass"], rel=1e-9)


def test_a_log_that_knows_tokens_per_pass_only_has_one_answer() -> None:
    """48 drafted in 12 drafts of 4, 32 accepted, 126 passes: κ = 12/126, τ' = 1 + 32/12.

    A pass emits 1 + 32/126 and costs 1 + κ·4·0.1 = 1.038 plain steps: 1.21×, and no γ can give
    more than all of its passes would at a free draft of endless acceptance.
    """
    path = FOLDER / "captured_llamacpp" / "resp_ngsimple.json"
    (found,) = logs(path, "--gamma", "4", "--c", "0.1")
    speedup = {row["gamma"]: row["speedup"] for row in found["gammas"]}
    assert found["scenario"]["coverage"] == pytest.approx(12 / 126)
    assert speedup[4] == pytest.approx((1 + 32 / 126) / (1 + 12 / 126 * 0.4), rel=1e-5)
    assert max(speedup.values()) < 1.3
    predicted = predict(build(found["scenario"]))
    assert predicted.speedup.value == pytest.approx(speedup[4], rel=1e-9)


def test_a_plain_run_that_a_scenario_cannot_hold_is_said() -> None:
    """c = 0.1 at γ=3 gives 2.63/1.3 = 2.02×; 25 → 14 ms is 1.79×, 25 → 12.36 ms the same 2.02×."""
    path = FOLDER / "vllm_v1_log_current.txt"
    for ms, said in (("14", True), ("12.36", False)):
        (found,) = logs(path, "--c", "0.1", "--baseline-itl-ms", "25", "--tpot-ms", ms)
        predicted = predict(build(found["scenario"])).speedup.value
        assert (abs(found["gammas"][3]["speedup"] / predicted - 1) > 0.005) is said
        assert any("observed was" in warning for warning in found["warnings"]) is said


@pytest.mark.parametrize("base", BASES.values(), ids=list(BASES))
def test_the_row_of_the_gamma_that_ran_is_the_log_s_own(base: Scenario) -> None:
    """Tokens as counted (rates are printed to three decimals) and the speedup observed: no end of
    an unknown moves either."""
    counted = 0
    for reading in samples():
        tokens = tokens_per_pass(reading)
        if reading.gamma is None or tokens is None:
            continue
        rounded = 5e-4 * reading.gamma if reading.survival else 2e-6 * tokens
        shown = rows(reading, base)[reading.gamma].tokens_per_pass
        assert shown == pytest.approx(tokens, abs=rounded), reading.format
        for speed in OBSERVED:
            row = rows(reading, base, speed)[reading.gamma]
            assert [row.low, row.speedup, row.high] == pytest.approx([speed.speedup] * 3)
            assert row.step_cost == pytest.approx(row.tokens_per_pass / speed.speedup)
        counted += 1
    assert counted > 60


# ── by hand ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["llamacpp_prometheus.txt", "llamacpp_server_log_2026-08.txt"])
def test_coverage_by_hand(name: str) -> None:
    """(κτ + 1−κ) / (κ(1+4c+h) + 1−κ) at c = 0.25 with h = 0.51, and c = 0.02 with none, by hand
    from the counts."""
    reading = read(FOLDER / name)[0]
    kappa, tau = reading.coverage, 1 + 206 / 120
    assert kappa is not None
    low, high = (
        (kappa * tau + 1 - kappa) / (kappa * (1 + 4 * c + h) + 1 - kappa)
        for c, h in ((0.25, 0.51), (0.02, 0.0))
    )
    row = rows(reading, BASES["unknown"])[4]
    assert (row.low, row.high) == pytest.approx((low, high), rel=1e-5)


@pytest.mark.parametrize(
    ("seen", "costs"),
    [
        (2.0, [1.0, 1.8, 1.9, 2.0]),  # 0.7 more than expected: an overhead of every draft
        (1.15, [1.0, 1.05, 1.1, 1.15]),  # half of the expected excess over a plain step
        (0.9, [1.0, 0.9, 0.9, 0.9]),  # cheaper than a plain step: the same at every γ
    ],
)
def test_the_observed_cost_by_hand(seen: float, costs: list[float]) -> None:
    """Expected 1.0, 1.1, 1.2, 1.3 at γ = 0 … 3; γ=3 ran."""
    found = Observed(LinearStepCost(0.1), 3, seen)
    assert found.total([0, 1, 2, 3]) == pytest.approx(costs)


def test_the_rows_take_the_cost_that_the_plain_run_shows() -> None:
    """τ=2.8 at 1.4× is a pass of 2.0; s = 1.3, so 0.7 is left over at every γ.

    γ=1: 1.8/1.8 = 1.00; γ=2: 2.4/1.9 = 1.263; γ=3: 1.40; γ=4: (2.8 + 0.4·2/3)/2.1 = 1.460.
    """
    found = rows(chain(), BASES["given"], Speed(1.4, None, "observed"))
    truth = {0: 1.0, 1: 1.8 / 1.8, 2: 2.4 / 1.9, 3: 1.4, 4: (2.8 + 0.8 / 3) / 2.1}
    assert {gamma: found[gamma].speedup for gamma in truth} == pytest.approx(truth)
    # Without it the scenario's 2.8/1.3.
    assert rows(chain(), BASES["given"])[3].speedup == pytest.approx(2.8 / 1.3)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("vllm_v0_log.txt", 1 + 3252 / 1902),
        ("trtllm_iteration_stats.json", 3.025),
        ("trtllm_request_perf_metrics.json", 2.725),
    ],
)
def test_handed_on_is_the_estimate(name: str, tokens: float) -> None:
    taken = scenario_from(read(FOLDER / name)[0], EXAMPLE)
    assert predict(taken).tokens_per_step == pytest.approx(tokens, abs=1e-5)
    assert taken.acceptance_form == "tokens_per_step"


def test_alpha_of_llama_speculative_is_the_inverted_share() -> None:
    (reading,) = read(FOLDER / "llama_speculative_stdout.txt")
    share = reading.accepted / reading.drafted
    taken = scenario_from(reading, EXAMPLE)
    assert taken.accepted_share == pytest.approx(share, abs=1e-6)
    alpha = predict(taken).alpha
    powers = [alpha**i for i in range(1, reading.gamma + 1)]
    assert sum(powers) / reading.gamma == pytest.approx(share, abs=1e-5)


def test_a_label_passes_to_the_next_log() -> None:
    stops = read(FOLDER / "llamacpp_server_log_2026-08.txt")[0]
    first = scenario_from(stops, EXAMPLE)
    assert first.label == "llama.cpp log, only γ=4 known"
    assert first.coverage == pytest.approx(stops.coverage)
    assert scenario_from(chain(), first).label == "vllm log"


# ── what is advised ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("base", BASES.values(), ids=list(BASES))
def test_advice_pays_at_its_low_end_and_stays_near_what_ran(base: Scenario) -> None:
    judged = set()
    for reading in samples():
        if reading.gamma is None or shape_of(reading) != "chain":
            continue
        for speed in (None, *OBSERVED):
            endpoint = endpoint_of(reading, base, speed)
            action, gamma = endpoint.decision.action, endpoint.decision.gamma
            judged.add(action)
            assert gamma <= reading.gamma + 2, (reading.format, gamma)
            if action in ("use", "raise", "lower"):
                assert endpoint.curves[1][gamma] > 1, (reading.format, action, gamma)
            if speed is not None and speed.speedup > 1:
                assert action not in ("skip", "measure")
    assert judged > {"raise", "lower", "use"}


def test_a_long_draft_that_pays_is_not_left_off() -> None:
    """γ=20 observed at 1.1×, nothing else known to pay: 15.7 tokens cost 14.3 plain steps."""
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=20_000, accepted=14_700,
        survival=[0.97**i for i in range(1, 21)],
    )  # fmt: skip
    endpoint = endpoint_of(reading, BASES["given"], Speed(1.1, None, "observed"))
    assert endpoint.curves[0][16] < 1
    assert endpoint.decision.on
    assert endpoint.decision.gamma in range(18, 23)


@pytest.mark.parametrize("known", ["alpha", "tokens_per_step", "accepted_share", "survival"])
def test_no_form_of_one_rate_advises_more_than_two_beyond(known: str) -> None:
    """α = 0.99 measured at γ=1 and a draft for nothing: longer is better, but nobody ran it."""
    fields: dict[str, Any] = {
        "alpha": {"alpha": Alpha(0.99, "per token", "per-token rate")},
        "tokens_per_step": {"tokens_per_step": 1.99},
        "accepted_share": {"drafted": 1000, "accepted": 990},
        "survival": {"survival": (0.99,)},
    }[known]
    reading = make_reading("vllm", "made", gamma=1, **fields)
    endpoint = endpoint_of(reading, Scenario(acceptance_form="range", c=0.0, gamma=0))
    assert endpoint.decision.action == "raise"
    assert endpoint.decision.gamma == 3


# ── sentences ────────────────────────────────────────────────────────────────────────────────

TOO_EXACT = re.compile(r"[1-9]\d*\.\d{4,}|0\.0*[1-9]\d{3,}")
"""More than four significant digits."""


@pytest.mark.slow
def test_sentences_hold_no_long_numbers_and_no_names_of_fields() -> None:
    bad, said = set(), 0
    for reading in samples():
        for base in (BASES["example"], BASES["unknown"]):
            for speed in (None, *OBSERVED):
                for answer in answer_all(reading, base, speed):
                    for text in (answer.headline, *answer.because):
                        said += 1
                        if TOO_EXACT.search(text) or re.search(r"[a-z]_[a-z]|α≈|None|nan", text):
                            bad.add(text)
    assert bad == set()
    assert said > 1000


def test_nobody_is_told_that_only_all_of_the_steps_had_a_draft() -> None:
    for steps, said in ((10_000, None), (9_999, None), (9_970, "99.7%"), (40, "0.400%")):
        reading = make_reading(
            "vllm", "made", steps=steps, drafted=3 * steps, accepted=round(1.8 * steps),
            survival=(0.8, 0.6, 0.4), passes=10_000,
        )  # fmt: skip
        reasons = [r for a in answer_all(reading, BASES["given"]) for r in a.because]
        found = [r.split(" of the steps")[0] for r in reasons if "of the steps had a draft" in r]
        assert found == ([] if said is None else [said])


def test_what_cannot_be_handed_over_says_why() -> None:
    with pytest.raises(InputError, match="token tree"):
        scenario_from(chain(shape="tree"), EXAMPLE)
    with pytest.raises(InputError, match="γ must be given"):
        scenario_from(make_reading("sglang", "made", tokens_per_step=2.5), EXAMPLE)
    with pytest.raises(InputError, match="without speculation"):
        scenario_from(make_reading("sglang", "made", generated=10), EXAMPLE)
