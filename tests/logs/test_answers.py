"""What a log answers, checked against constructions whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specmath.acceptance import IidAcceptance, MixtureAcceptance
from specmath.checks import InputError
from specmath.logs import Reading
from specmath.logs.answers import answer_all, printed_rate
from specmath.logs.diagnosis import diagnose
from specmath.logs.gamma_advice import gamma_rows, mixing
from specmath.logs.speed import overhead_of, speed_of, tokens_per_pass
from specmath.logs.taken import scenario_from, shape_of
from specmath.logs.tally import Spread, make_reading
from specmath.predict import predict
from specmath.scenario import EXAMPLE, Scenario

COSTS = Scenario(acceptance_form="range", gamma=0, c=0.1, sigma=0.0)


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


def test_gamma_advice_is_the_argmax_of_tau_over_s() -> None:
    """α=0.5, c=0.1, s = 1 + 0.1γ: 1.364, 1.458, 1.442 at γ = 1, 2, 3; 1.313 at γ=5."""
    said = answer(chain(0.5), "Raise")
    best = max(range(1, 8), key=lambda g: (2 - 0.5**g) / (1 + 0.1 * g))
    assert best == 2
    assert said.headline.startswith("Lower γ to 2: 1.46× faster instead of 1.31× faster at γ=5")
    assert any(reason.startswith("Read off the log") for reason in said.because)


def test_larger_gamma_is_marked_extrapolated() -> None:
    said = answer(chain(0.95, 2), "Raise")
    assert said.headline.startswith("Raise γ to")
    assert any(reason.startswith("Extrapolated") for reason in said.because)
    table = gamma_rows(chain(0.95, 2), predict(scenario_from(chain(0.95, 2), COSTS)))
    assert table.column("basis").values == (
        "plain decoding", "rates cut", "measured", *("extrapolated",) * 4
    )  # fmt: skip


@pytest.mark.parametrize("shape", ["tree", "parallel", "stops"])
def test_other_gammas_are_refused_for_other_drafts(shape: str) -> None:
    said = answer(chain(0.5), "Raise", shape=shape)
    assert said.state == "unknown"
    assert "Lower" not in said.headline
    if shape != "tree":
        assert said.because[0].startswith("Refused for")


def test_shapes_are_seen_in_the_log() -> None:
    assert shape_of(chain()) == "chain"
    assert shape_of(chain(tree=True)) == "tree"
    early = make_reading("llama.cpp", "made", steps=100, drafted=310, accepted=200, gamma=4)
    assert shape_of(early) == "stops"
    assert shape_of(replace(chain(), format="server log, statistics ngram-mod")) == "stops"
    with pytest.raises(InputError, match="token tree"):
        scenario_from(chain(tree=True), COSTS)


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
    assert f"up to {truth - 1:.0%} better" in (mixing(reading) or "")
    # The rates alone show it too: given the ones before, later tokens are accepted more often.
    assert "Later tokens" in (mixing(replace(reading, requests=None)) or "")
    assert mixing(chain(0.8)) is None


def test_coverage_counts_in_the_estimate() -> None:
    """κ=0.5, τ=2.5, s=1.2 a drafted step: (1.25+0.5)/(0.6+0.5) = 1.59 over all steps."""
    reading = make_reading(
        "llama.cpp", "made", steps=100, drafted=200, accepted=150, survival=(0.8, 0.7), passes=200
    )
    assert reading.coverage == 0.5
    said = answer(reading, "Raise")
    assert any("over all steps 1.59× faster" in reason for reason in said.because)


# ── overhead ─────────────────────────────────────────────────────────────────────────────────


def test_implied_step_cost_splits_exactly() -> None:
    """τ=3 at 25 → 20 ms: s = 3/1.25 = 2.4; v=1, d=3×0.1: 1.1 plain steps nobody explains."""
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=3000, accepted=2000, survival=(0.8, 0.7, 0.5)
    )
    speed = speed_of(reading, plain_ms=25, ms=20)
    assert speed is not None
    assert speed.speedup == 1.25
    found = overhead_of(reading, predict(scenario_from(reading, COSTS)), speed)
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


def test_out_of_reach_even_if_all_were_accepted() -> None:
    """vLLM 47277's question: τ=2 but 0.4× means a step of 5 plain steps: γ+1 = 4 is less."""
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=3000, accepted=1000, survival=(0.6, 0.3, 0.1)
    )
    speed = speed_of(reading, plain_tokens_per_second=100, tokens_per_second=40)
    said = answer(reading, "Which overhead", speed=speed)
    assert "A pass costs 5.00 plain steps. Break-even is out of reach at γ=3" in said.headline
    assert said.state == "bad"


def test_hardware_names_what_it_should_cost() -> None:
    served = Scenario(
        acceptance_form="range", gamma=0, gpu="H100 SXM", model="Llama-3.1-8B",
        draft="Llama-3.2-1B",
    )  # fmt: skip
    reading = chain(0.7, 3)
    speed = speed_of(reading, plain_ms=8, ms=8)
    prediction = predict(scenario_from(reading, served))
    assert speed is not None
    found = overhead_of(reading, prediction, speed)
    total = float(prediction.halves.cost.total(3))
    assert found.verification + found.drafting == pytest.approx(total)
    assert found.rest == pytest.approx(found.tokens - total)
    assert found.rest_low < found.rest < found.rest_high
    assert any("expected on H100 SXM" in reason for a in answer_all(reading, served, speed)
               for reason in a.because)  # fmt: skip


def test_a_pair_of_unlike_numbers_is_no_speed() -> None:
    assert speed_of(chain(), plain_ms=25) is None
    assert speed_of(chain(), plain_tokens_per_second=25, ms=20) is None
    with pytest.raises(InputError, match="plain_ms"):
        speed_of(chain(), plain_ms=0, ms=20)
    assert tokens_per_pass(replace(chain(0.5, 1), coverage=0.5)) == (1.25, 0.5)


# ── the drafter ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("survival", "finding"),
    [
        ((0.01, 0.001), "broken"),
        ((0.25, 0.06), "weak"),
        ((0.8, 0.6), "sound"),
        ((0.8, 0.2), "later positions"),
    ],
)
def test_diagnosis(survival: tuple[float, float], finding: str) -> None:
    reading = make_reading(
        "vllm", "made", steps=1000, drafted=2000, accepted=round(1000 * sum(survival)),
        survival=survival,
    )  # fmt: skip
    found = diagnose(reading)
    assert found is not None
    assert found.finding == finding


def test_few_tokens_are_no_verdict() -> None:
    found = diagnose(chain(0.01, 2, steps=50))
    assert found is not None
    assert found.finding == "too little"


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
    assert found.finding == "hard text"


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
    low, high = reading.alpha_interval
    assert abs((low + high) / 2 - reading.alpha) > 0.005
    taken = scenario_from(reading, EXAMPLE)
    assert (taken.tokens_per_step, taken.measured_gamma) == (3.7, 3)
    assert predict(taken).alpha == pytest.approx(reading.alpha, abs=1e-5)
    length = make_reading("sglang", "made", tokens_per_step=2.5, gamma=3)
    assert predict(scenario_from(length, EXAMPLE)).tokens_per_step == pytest.approx(2.5)
    with pytest.raises(InputError, match="γ must be given"):
        scenario_from(make_reading("sglang", "made", tokens_per_step=2.5), EXAMPLE)


def test_every_sample_is_answered(sample) -> None:
    """No sample or capture raises, and every answer has words."""
    from specmath.logs import LogError, read

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
