"""What a log answers, checked against constructions whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.readings import make_reading

from specmath.acceptance import IidAcceptance, MixtureAcceptance
from specmath.checks import InputError
from specmath.logs import LogError, Reading, read
from specmath.logs.counts import Spread
from specmath.logs.estimate import independent_interval
from specmath.predict import predict
from specmath.review.diagnosis import Best, diagnose
from specmath.review.gammas import gamma_rows, mixing
from specmath.review.into_scenario import coverage_of, endpoint_of, scenario_from, shape_of
from specmath.review.observed import Speed, speed_of, tokens_per_pass
from specmath.review.overhead import overhead_of
from specmath.scenario import EXAMPLE, Scenario
from specmath.words.logs import answer_all, handed_on, printed_rate

COSTS = Scenario(acceptance_form="range", gamma=0, c=0.1, sigma=0.0)
UNKNOWN = Scenario(acceptance_form="range", gamma=0, draft_form="range")


def chain(alpha: float = 0.8, gamma: int = 5, steps: int = 10_000, **more: object) -> Reading:
    """What a server prints of i.i.d. drafts: counts exactly at their expectation."""
    survival = [alpha**i for i in range(1, gamma + 1)]
    accepted = round(steps * sum(survival))
    return make_reading(
        "vllm", "made", steps=steps, drafted=gamma * steps, accepted=accepted,
        survival=survival, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def answer(reading: Reading, start: str, **more: object):
    found = answer_all(reading, COSTS, **more)  # type: ignore[arg-type]
    return next(a for a in found if a.question.startswith(start))


def test_a_printed_eighty_percent_is_an_alpha_of_093() -> None:
    """Trap 1 of the design: at γ=5 accepted/drafted = 0.8 is α ≈ 0.927."""
    reading = make_reading("vllm", "made", steps=1000, drafted=5000, accepted=4000, gamma=5)
    said = printed_rate(reading)
    assert said.headline == "No: 80.0% is accepted ÷ drafted. α is 0.927."
    # Survival of that very α gives the same 4 accepted a step.
    assert sum(reading.alpha**i for i in range(1, 6)) == pytest.approx(4.0, abs=1e-9)


def test_both_inversions_are_said_where_they_differ() -> None:
    survival = (0.8, 0.5, 0.2)
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=3000, accepted=1500, survival=survival
    )
    said = printed_rate(reading)
    # Accepted ÷ (accepted + rejected) = 1500 / (1500 + 800); x + x² + x³ = 1.5 at 0.7416.
    assert "α is 0.652" in said.headline
    x = np.roots([1, 1, 1, -1.5])
    root = float(x[np.abs(x.imag) < 1e-9].real[0])
    assert any(f"α = {root:.3f} at γ=3" in reason for reason in said.because)


def test_at_one_drafted_token_the_rate_is_alpha() -> None:
    assert printed_rate(chain(0.7, 1)).headline.startswith("Here yes")


def test_unknown_gamma_is_asked_for() -> None:
    reading = make_reading("vllm", "made", drafted=1000, accepted=300)
    assert "once γ is given" in printed_rate(reading).headline
    assert answer(reading, "Raise").headline == "Not from this log."
    # α lies anywhere between 0.3 and 1: no judgement of the drafter.
    assert diagnose(reading) is None


# ── γ ────────────────────────────────────────────────────────────────────────────────────────


def test_gamma_advice_is_the_smallest_near_the_best_of_tau_over_s() -> None:
    """α=0.5, c=0.1, s = 1 + 0.1γ: 1.364, 1.458, 1.442 at γ = 1, 2, 3; 1.313 at γ=5."""
    endpoint = endpoint_of(chain(0.5), COSTS)
    assert (endpoint.decision.action, endpoint.decision.gamma) == ("lower", 2)
    truth = [(2 - 0.5**g) / (1 + 0.1 * g) for g in range(6)]
    assert endpoint.curves[0][:6] == pytest.approx(truth, rel=1e-4)
    said = answer(chain(0.5), "Raise")
    assert said.state == "info"
    assert said.headline == "Lower γ to 2: 1.46× faster instead of 1.31× faster at γ=5."


def test_gains_that_two_runs_do_not_tell_apart_are_no_order() -> None:
    """α=0.5, c=0.1: γ=3 at 1.442 where γ=2 has 1.458 at less arithmetic."""
    found = chain(0.5, 3)
    assert endpoint_of(found, COSTS).decision.gamma == 2
    assert answer(found, "Raise").headline == (
        "Keep γ=3 or run γ=2: 1.44× faster, and 1.46× faster, which two runs do not tell apart."
    )


def test_rows_say_where_they_come_from() -> None:
    def sources(reading: Reading) -> list[str]:
        return [row.source for row in gamma_rows(reading, endpoint_of(reading, COSTS))]

    assert sources(chain(0.95, 2)) == ["plain", "cut", "measured", *["extrapolated"] * 4]
    share = make_reading("vllm", "made", drafted=2000, accepted=1200, gamma=2)
    assert sources(share) == ["plain", "iid", "measured", *["iid"] * 4]
    stops = make_reading("llama.cpp", "made", steps=100, drafted=310, accepted=200, gamma=4)
    assert sources(stops) == ["measured"]


def test_larger_gamma_is_marked_extrapolated_and_at_most_two_beyond() -> None:
    said = answer(chain(0.95, 2), "Raise")
    assert said.headline.startswith("Raise γ to 4:")
    assert any(reason.startswith("Extrapolated") for reason in said.because)


def test_a_draft_that_was_slower_is_not_said_to_be_faster(sample) -> None:
    """The captured self-draft: 8.39 tokens/s against 25.3 plain is 0.33×, whatever c may be."""
    (reading,) = read(sample("captured/log_draftself.txt"))
    speed = speed_of(reading, plain_tokens_per_second=25.3)
    assert speed is not None
    for base in (EXAMPLE, UNKNOWN):
        said = next(a for a in answer_all(reading, base, speed) if a.question.startswith("Raise"))
        assert said.state == "bad"
        assert "67% slower, as observed" in said.headline
        (row,) = gamma_rows(reading, endpoint_of(reading, base, speed))
        seen = reading.fact("tokens_per_second") / 25.3
        assert (row.low, row.speedup, row.high) == pytest.approx((seen,) * 3)


def test_a_gamma_that_is_not_printed_is_unknown_not_zero(sample) -> None:
    (reading,) = read(sample("vllm_v0_prometheus.txt"))
    for base in (UNKNOWN, EXAMPLE):
        said = next(a for a in answer_all(reading, base) if a.question.startswith("Raise"))
        assert said.state == "unknown"
        assert said.headline.startswith("The γ that ran is not printed: give it.")
        sources = {row.source for row in gamma_rows(reading, endpoint_of(reading, base))}
        assert sources == {"plain", "iid"}
    assert handed_on(reading, EXAMPLE) != ()


@pytest.mark.parametrize("shape", ["tree", "parallel", "stops"])
def test_other_gammas_are_refused_for_other_drafts(shape: str) -> None:
    said = answer(chain(0.5), "Raise", shape=shape)
    assert said.state == "unknown"
    assert "Lower" not in said.headline
    if shape != "tree":
        assert said.because[0].startswith("Refused for")


def test_shapes_are_seen_in_the_log() -> None:
    assert shape_of(chain()) == "chain"
    assert shape_of(chain(shape="tree")) == "tree"
    early = make_reading("llama.cpp", "made", steps=100, drafted=310, accepted=200, gamma=4)
    assert shape_of(early) == "stops"
    assert shape_of(chain(lookup=True)) == "stops"


def test_mixed_requests_are_flagged_with_the_size_of_the_bias() -> None:
    """The design's mixture: α 0.9 and 0.4 at γ=7 give 2.03 at γ'=3 where 2.21 is true, +9%."""
    gamma = 7
    mixture = MixtureAcceptance([0.5, 0.5], [IidAcceptance(0.9), IidAcceptance(0.4)])
    assert np.cumsum(mixture.survival(gamma))[3] == pytest.approx(2.03, abs=0.005)
    assert mixture.tokens_per_step(3) == pytest.approx(2.21, abs=0.005)
    spread = Spread("tokens_per_step")
    for _ in range(500):
        for alpha in (0.9, 0.4):
            spread.add(float(IidAcceptance(alpha).tokens_per_step(gamma)))
    steps = 10_000
    survival = mixture.survival(gamma)[1:]
    reading = make_reading(
        "vllm", "made", steps=steps, drafted=gamma * steps, accepted=round(steps * survival.sum()),
        survival=survival.tolist(), requests=spread.requests(),
    )  # fmt: skip
    truth = max(
        mixture.tokens_per_step(g) / np.cumsum(mixture.survival(gamma))[g] for g in range(1, gamma)
    )
    found = mixing(reading)
    assert found is not None
    assert found.gain == pytest.approx(truth - 1, rel=1e-9)
    assert (found.p10, found.p90) == (reading.requests.p10, reading.requests.p90)
    # The rates alone show it too: given the ones before, later tokens are accepted more often.
    rising = mixing(replace(reading, requests=None))
    assert rising is not None
    assert rising.gain is None
    assert mixing(chain(0.8)) is None


def test_coverage_counts_in_the_estimate() -> None:
    """κ=0.5, τ=2.5, s=1.2 a drafted step: (1.25+0.5)/(0.6+0.5) = 1.59 over all steps."""
    reading = make_reading(
        "llama.cpp", "made", steps=100, drafted=200, accepted=150, survival=(0.8, 0.7), passes=200
    )
    assert coverage_of(reading) == 0.5
    found = {row.gamma: row for row in gamma_rows(reading, endpoint_of(reading, COSTS))}[2]
    assert (found.tokens_per_pass, found.step_cost) == pytest.approx((1.75, 1.1))
    assert found.speedup == pytest.approx(1.75 / 1.1)
    said = answer(reading, "Raise")
    assert any("50.0% of the steps had a draft" in reason for reason in said.because)


def test_coverage_follows_from_tokens_per_pass_at_full_drafts() -> None:
    """48 drafted, 32 accepted, 200 passes, γ=4: 12 of 200 passes had a draft."""
    reading = make_reading("llama.cpp", "made", drafted=48, accepted=32, passes=200, gamma=4)
    assert reading.coverage is None
    assert coverage_of(reading) == pytest.approx(12 / 200)
    assert coverage_of(replace(reading, gamma=None)) is None
    assert coverage_of(replace(reading, tokens_per_pass=None)) is None
    assert coverage_of(replace(reading, tokens_per_pass=9.0)) == 1.0
    assert coverage_of(replace(reading, coverage=0.3)) == 0.3


# ── overhead ─────────────────────────────────────────────────────────────────────────────────


def test_implied_step_cost_splits_exactly() -> None:
    """τ=3 at 25 → 20 ms: s = 3/1.25 = 2.4; v=1, d=3×0.1: 1.1 plain steps nobody explains."""
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=3000, accepted=2000, survival=(0.8, 0.7, 0.5)
    )
    speed = speed_of(reading, plain_ms=25, ms=20)
    assert speed is not None
    assert speed.speedup == 1.25
    found = overhead_of(reading, endpoint_of(reading, COSTS), speed)
    assert found.implied == pytest.approx(2.4)
    assert (found.verification, found.drafting) == pytest.approx((1.0, 0.3))
    assert found.rest == pytest.approx(1.1)
    assert found.ceiling == pytest.approx(4 / 2.4)
    # With 1.1 in every step: 1.8/2.2, 2.5/2.3, 3/2.4 = 1.25, then the last rate repeats.
    tokens = [1.8, 2.5, 3.0] + [
        3.0 + 0.5 * sum((5 / 7) ** i for i in range(1, n)) for n in range(2, 15)
    ]
    speeds = [t / (1 + 0.1 * g + 1.1) for g, t in enumerate(tokens, start=1)]
    assert found.best_speedup == pytest.approx(max(speeds))
    assert found.best_gamma == 1 + int(np.argmax(speeds))


@pytest.mark.parametrize(
    ("speedup", "survival", "state", "reach"),
    [
        (1.3, (0.6, 0.3, 0.1), "good", "It pays."),
        # vLLM 47277's question: τ=2 but 0.4× means a step of 5 plain steps: γ+1 = 4 is less.
        (0.4, (0.6, 0.3, 0.1), "bad", "Break-even is out of reach at γ=3"),
        (0.6, (0.6, 0.3, 0.1), "bad", "No γ breaks even with this overhead"),
        (0.97, (0.8, 0.1, 0.05), "bad", "Break-even may be reachable: γ=1"),
    ],
)
def test_whether_it_can_pay(speedup: float, survival, state: str, reach: str) -> None:
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=3000, accepted=round(1000 * sum(survival)),
        survival=survival,
    )  # fmt: skip
    costs = COSTS if speedup != 0.97 else Scenario(acceptance_form="range", gamma=0, c=0.3)
    speed = Speed(speedup, None, "observed")
    found = overhead_of(reading, endpoint_of(reading, costs), speed)
    assert found.implied == pytest.approx((1 + sum(survival)) / speedup)
    assert found.ceiling == pytest.approx(4 / found.implied)
    said = next(a for a in answer_all(reading, costs, speed) if a.question.startswith("Which"))
    assert said.state == state
    assert reach in said.headline


def test_hardware_names_what_it_should_cost() -> None:
    served = Scenario(
        acceptance_form="range", gamma=0, gpu="H100 SXM", model="Llama-3.1-8B",
        draft="Llama-3.2-1B",
    )  # fmt: skip
    reading = chain(0.7, 3)
    speed = speed_of(reading, plain_ms=8, ms=8)
    assert speed is not None
    endpoint = endpoint_of(reading, served)
    found = overhead_of(reading, endpoint, speed)
    total = float(endpoint.speculation.cost.total(3))
    assert found.verification + found.drafting == pytest.approx(total)
    assert found.rest == pytest.approx(found.tokens - total)
    assert found.rest_low < found.rest < found.rest_high
    assert any("expected on H100 SXM" in reason for a in answer_all(reading, served, speed)
               for reason in a.because)  # fmt: skip


def test_the_engine_s_own_drafting_time_is_set_beside_the_plain_step() -> None:
    """3 ms of drafting in half of the passes, a plain step of 20 ms: 0.075 plain steps a pass."""
    reading = make_reading(
        "vllm", "made", steps=100, drafted=200, accepted=150, survival=(0.8, 0.7), passes=200,
        draft_seconds=0.003,
    )  # fmt: skip
    found = overhead_of(reading, endpoint_of(reading, COSTS), Speed(1.2, 0.02, "observed"))
    assert found.drafting_measured == pytest.approx(0.075)
    unknown = replace(reading, tokens_per_step=None, tokens_per_pass=None)
    with pytest.raises(InputError, match="must tell tokens per step and γ"):
        overhead_of(unknown, endpoint_of(reading, COSTS), Speed(1.2, None, "observed"))


def test_a_pair_of_unlike_numbers_is_no_speed() -> None:
    assert speed_of(chain(), plain_ms=25) is None
    assert speed_of(chain(), plain_tokens_per_second=25, ms=20) is None
    with pytest.raises(InputError, match="plain_ms"):
        speed_of(chain(), plain_ms=0, ms=20)
    assert tokens_per_pass(replace(chain(0.5, 1), coverage=0.5)) == 1.25


# ── the drafter ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("survival", "finding", "position"),
    [
        ((0.01, 0.001), "broken", None),
        ((0.25, 0.06), "weak", None),
        ((0.8, 0.6), "sound", None),
        ((0.8, 0.2), "later positions", 2),
    ],
)
def test_diagnosis(survival: tuple[float, float], finding: str, position: int | None) -> None:
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=2000, accepted=round(1000 * sum(survival)),
        survival=survival,
    )  # fmt: skip
    found = diagnose(reading)
    assert found is not None
    assert (found.finding, found.level, found.value) == (finding, "first position", survival[0])
    assert found.position == position
    if position:
        assert found.rate == pytest.approx(survival[1] / survival[0])


def test_few_drafts_near_a_bound_say_what_cannot_be_told() -> None:
    """20 of 50 first tokens: Wilson's 95% is .276 to .538, on both sides of 0.4."""
    reading = make_reading(
        "vllm", "made", steps=50, drafted=100, accepted=28, survival=(0.4, 0.16)
    )  # fmt: skip
    found = diagnose(reading)
    assert found is not None
    assert (found.finding, found.drafted) == ("too little", 100)
    assert found.interval == pytest.approx((0.276, 0.538), abs=5e-4)
    assert "95% from 0.276 to 0.538" in answer(reading, "Is the drafter").headline


@pytest.mark.parametrize(
    ("survival", "finding"),
    # 58 steps, .897: Wilson's 95% is .79 to .95; none of 200 first tokens: 0 to .019.
    [((0.897, 0.8), "sound"), ((0.0, 0.0), "broken")],
)
def test_few_drafts_far_from_every_bound_tell_enough(survival, finding: str) -> None:
    steps = 58 if survival[0] else 99
    reading = make_reading(
        "vllm", "made", steps=steps, drafted=2 * steps, accepted=round(steps * sum(survival)),
        survival=survival,
    )  # fmt: skip
    found = diagnose(reading)
    assert found is not None
    assert found.finding == finding


@pytest.mark.parametrize(
    ("steps", "lookup", "finding"),
    # A drafter that is not weak has nothing accepted in 10 drafts with .6¹⁰ = .006; a lookup, of
    # which .15 is not weak, in 29 with .85²⁹ = .009.
    [(10, False, "broken"), (9, False, "too little"), (29, True, "broken"),
     (28, True, "too little")],
)  # fmt: skip
def test_nothing_accepted_is_not_too_few_to_tell(steps: int, lookup: bool, finding: str) -> None:
    reading = make_reading(
        "vllm", "made", steps=steps, drafted=3 * steps, accepted=0, gamma=3, survival=(0.0,) * 3
    )  # fmt: skip
    found = diagnose(replace(reading, lookup=lookup))
    assert found is not None
    assert (found.finding, found.drafted) == (finding, 3 * steps)


@pytest.mark.parametrize(
    ("bounds", "finding"),
    [
        ((0.34, 0.76), "weak"),
        ((0.62, 0.9), "sound"),
        ((0.02, 0.5), "weak"),
        ((0.01, 0.04), "broken"),
    ],
)
def test_drafts_that_stop_early_are_judged_by_what_the_counts_allow(bounds, finding: str) -> None:
    """Weak where the least α is weak; broken only where even the most is."""
    reading = Reading(
        "llama.cpp", "made", shape="stops", steps=900, drafted=2000, accepted=700,
        alpha_interval=bounds,
    )  # fmt: skip
    found = diagnose(reading)
    assert found is not None
    assert (found.finding, found.level, found.value) == (finding, "at least", bounds[0])


def test_good_requests_say_that_the_text_is_hard() -> None:
    spread = Spread("tokens_per_step")
    for value in [1.1] * 80 + [2.4] * 20:
        spread.add(value)
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=2000, accepted=400, survival=(0.3, 0.1),
        requests=spread.requests(),
    )  # fmt: skip
    found = diagnose(reading)
    assert found is not None
    assert (found.finding, found.best) == ("hard text", Best(2.4, "tokens_per_step"))


# ── taken into the calculator ────────────────────────────────────────────────────────────────


def test_taken_into_the_example_keeps_its_times() -> None:
    reading = chain(0.8, 3)
    taken = scenario_from(reading, EXAMPLE)
    assert taken.rates == pytest.approx(reading.survival, abs=1e-6)
    assert (taken.gamma, taken.target_ms, taken.draft_ms) == (3, 40, 8)
    assert taken.acceptance_source == "my_traffic"
    assert predict(taken).tokens_per_step == pytest.approx(reading.tokens_per_step, rel=1e-4)


def test_taken_without_positions_is_the_estimate_not_the_middle_of_its_interval() -> None:
    reading = make_reading("vllm", "made", steps=20, drafted=60, accepted=54, gamma=3)
    low, high = independent_interval(reading.alpha, 3, 20)
    assert abs((low + high) / 2 - reading.alpha) > 0.005
    taken = scenario_from(reading, EXAMPLE)
    assert (taken.tokens_per_step, taken.measured_gamma) == (3.7, 3)
    assert predict(taken).alpha == pytest.approx(reading.alpha, abs=1e-5)
    length = make_reading("sglang", "made", tokens_per_step=2.5, gamma=3)
    assert predict(scenario_from(length, EXAMPLE)).tokens_per_step == pytest.approx(2.5)


def test_every_sample_is_answered(sample) -> None:
    """No sample or capture raises, and every answer has words."""
    count = 0
    folder = sample("vllm_v1_log_current.txt").parent
    for path in sorted(folder.rglob("*.*")):
        try:
            readings = read(path)
        except LogError:
            continue
        for reading in readings:
            for each in answer_all(reading, COSTS, speed_of(reading, plain_ms=10)):
                assert each.headline.endswith(".")
                count += 1
    assert count > 60
