"""One number of the user's own: a plain time, and a run with speculation."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from specmath import Scenario, predict
from specmath.checks import InputError
from specmath.estimate import Estimate
from specmath.predict import Prediction
from specmath.scenario.endpoint import CONTRADICTION
from specmath.scenario.server import ANCHORS

PAIR: dict[str, Any] = {
    "gpu": "H100 SXM", "model": "Llama-3.1-8B", "draft": "eagle3", "alpha": 0.7, "gamma": 3,
}  # fmt: skip
LOADS: list[dict[str, Any]] = [
    {},
    {"batch": 16, "prompt_tokens": 1000},
    {"concurrency": 32, "prompt_tokens": 2000},
    {"concurrency": 32},
    {"concurrency": 64, "prompt_tokens": 2000, "arrivals": "one_wave"},
    {"request_rate": 2, "prompt_tokens": 2000},
    {"concurrency": 32, "prompt_tokens": 2000, "decode_only": "yes"},
]


def of(**changes: Any) -> Prediction:
    return predict(Scenario(**{**PAIR, **changes}))


def plain_ms(p: Prediction) -> float:
    assert p.tpot_plain is not None
    return p.tpot_plain.value * 1e3


def width(found: Estimate | None) -> float:
    """High over low end."""
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.high / found.low


def tpot_widths(p: Prediction) -> np.ndarray:
    """High end less low end of the speedup over γ."""
    assert p.curve.low is not None
    assert p.curve.high is not None
    return np.asarray(p.curve.high - p.curve.low)


# ── the plain time ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("times", [0.9, 1.0, 1.3, 3.0])
def test_the_plain_time_is_what_was_measured(load: dict[str, Any], times: float) -> None:
    ms = round(plain_ms(of(**load)) * times, 4)
    found = of(**load, target_ms=ms)
    assert found.tpot_plain is not None
    assert plain_ms(found) == pytest.approx(ms, rel=1e-12)
    assert found.tpot_plain.points is None
    assert found.tpot is not None
    assert found.tpot.value * 1e3 == pytest.approx(ms / found.speedup.value)
    none = of(**{**load, "gamma": 0}, target_ms=ms)
    assert none.speedup.value == none.speedup.low == none.speedup.high == 1
    # Where host time explains the rest, step and prompts add up to it.
    if times > 1:
        state, ours = found.endpoint.load, found.speculation
        assert state is not None
        waits = float(state.waiting[0])
        assert ours.plain_waiting * (ms / 1e3 - waits) == pytest.approx(waits)


@pytest.mark.parametrize("load", LOADS)
def test_the_three_readings_are_ends_of_the_interval(load: dict[str, Any]) -> None:
    """Time once a step is shared by more tokens: the best for speculation. Slower forwards are no
    news to a ratio: what was computed. Once a layer lies between, nearer to once a step."""
    computed = of(**load)
    found = of(**load, target_ms=round(plain_ms(computed) * 1.5, 4))
    assert len(found.endpoint.corners) == len(ANCHORS) * len(computed.endpoint.corners)
    for first in range(0, len(found.endpoint.corners), len(ANCHORS)):
        own = computed.endpoint.corners[first // len(ANCHORS)]
        step, layer, slower = (
            float(c.speedup(3)) for c in found.endpoint.corners[first : first + len(ANCHORS)]
        )
        assert slower == pytest.approx(float(own.speedup(3)))
        assert slower < layer < step
        assert step - layer < layer - slower
    assert found.speedup.low is not None
    assert found.speedup.high is not None
    centres = [float(c.speedup(3)) for c in found.endpoint.corners]
    assert found.speedup.low <= min(centres)
    assert max(centres) <= found.speedup.high


def test_time_once_a_step_by_hand() -> None:
    """A step of 1.5 times the computed one, the rest host: s = (s_computed + 0.5)/1.5."""
    computed = of()
    found = of(target_ms=plain_ms(computed) * 1.5)
    s = float(computed.speculation.cost.total(3))
    assert float(found.speculation.cost.total(3)) == pytest.approx((s + 0.5) / 1.5)
    # Once a layer: EAGLE-3's head has one layer of 32, and pays for it in each of three passes.
    layer = found.endpoint.corners[ANCHORS.index("once a layer")]
    assert float(layer.cost.total(3)) == pytest.approx((s + 0.5 + 3 * 0.5 / 32) / 1.5)


def test_what_prompts_take_comes_off_first() -> None:
    """Anchor t₀ = step + S: of host time only what is missing beyond both."""
    load = {"batch": 16, "prompt_tokens": 1000}
    computed = of(**load)
    found = of(**load, target_ms=plain_ms(computed) + 5.0)
    state = computed.endpoint.load
    assert state is not None
    step, waits = float(state.step[0]), float(state.waiting[0])
    by_hand = (float(state.step[3]) + 5e-3) / (step + 5e-3)
    assert float(found.speculation.cost.total(3)) == pytest.approx(by_hand)
    assert found.speculation.plain_waiting == pytest.approx(waits / (step + 5e-3))
    slower = found.endpoint.corners[ANCHORS.index("forward slower")]
    assert slower.plain_waiting == pytest.approx(waits / step)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("times", [0.9, 1.0, 1.3])
def test_an_anchor_narrows_the_time(load: dict[str, Any], times: float) -> None:
    """The time per token with speculation is never wider than without the anchor. Nor is the
    speedup where the anchor agrees with what was computed or is faster (3% where the prompts are
    open too); where slower, how the rest is spent opens the upper end. The lower one stays."""
    computed = of(**load)
    found = of(**load, target_ms=plain_ms(computed) * times)
    assert width(found.tpot) < width(computed.tpot)
    assert found.speedup.low == pytest.approx(computed.speedup.low, rel=1e-6)
    if times <= 1:
        assert width(found.speedup) <= width(computed.speedup) * 1.03


def test_faster_than_the_memory_is_an_error_in_the_number() -> None:
    """Weights in bf16 but for the input table, 15.0 GB over 3.35 TB/s: 4.48 ms."""
    roof = 2 * (8.03e9 - 128_256 * 4096) / 3.35e12 * 1e3
    with pytest.raises(
        InputError, match=r"target_ms must be >= 4\.\d+, what H100 SXM takes to read"
    ):
        of(target_ms=roof * 0.97)
    of(target_ms=roof * 1.05)
    # A cache that is known counts; one that was assumed does not, nor sequences that wait outside.
    with pytest.raises(InputError, match="target_ms must be >="):
        of(target_ms=roof * 1.05, batch=64, context_tokens=8000)
    of(target_ms=roof * 1.05, batch=64)
    of(target_ms=60, concurrency=1000, prompt_tokens=8000)


# ── a run with speculation ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("gain", [1.2, 1.6])
def test_a_run_fixes_its_own_step(load: dict[str, Any], gain: float) -> None:
    """With the plain time: the speedup at its γ is the quotient of the two, without an interval,
    the time that of the run; away from it the interval widens."""
    plain = round(plain_ms(of(**load)) * 1.1, 4)
    found = of(**load, target_ms=plain, run_gamma=3, run_ms=plain / gain)
    at_run = found.endpoint.speedup_at(3)
    assert at_run.value == pytest.approx(gain)
    assert at_run.low == pytest.approx(gain)
    assert at_run.high == pytest.approx(gain)
    assert found.tpot is not None
    assert found.tpot.value * 1e3 == pytest.approx(plain / gain)
    widths = tpot_widths(found)
    assert all(a < b + 1e-9 for a, b in pairwise(widths[3:]))
    assert all(a > b - 1e-9 for a, b in pairwise(widths[1:4]))
    # Narrower than without the run at every γ that is near.
    without = tpot_widths(of(**load, target_ms=plain))
    assert np.all(widths[2:6] < without[2:6])


def test_the_other_gammas_follow_the_computed_slope() -> None:
    """A run slower than computed: what it lacks comes with every draft."""
    computed, plain = of(), plain_ms(of())
    slower = plain / float(computed.speculation.speedup(3)) * 1.2
    found = of(target_ms=plain, run_gamma=3, run_ms=slower)
    before = computed.speculation.cost.total(np.arange(1, 9))
    after = found.speculation.cost.total(np.arange(1, 9))
    np.testing.assert_allclose(np.diff(after), np.diff(before))
    tau = 1 + 0.7 + 0.49 + 0.343
    assert after[2] == pytest.approx(tau * slower / plain)
    # A faster one: the excess of every step in proportion.
    quick = of(target_ms=plain, run_gamma=3, run_ms=slower / 1.4)
    excess = quick.speculation.cost.total(np.arange(1, 9)) - 1
    np.testing.assert_allclose(excess / (before - 1), excess[2] / (before[2] - 1))


def test_tokens_of_the_run_count_where_they_are_given() -> None:
    """s = τ t/t₀ with the τ of the run; the acceptance of this traffic is another."""
    found = of(target_ms=8, run_gamma=3, run_ms=5, run_tokens_per_step=2.1)
    assert float(found.speculation.cost.total(3)) == pytest.approx(2.1 * 5 / 8)
    tau = 1 + 0.7 + 0.49 + 0.343
    assert found.speedup.value == pytest.approx(tau / (2.1 * 5 / 8))


@pytest.mark.parametrize("load", LOADS)
def test_a_run_without_a_plain_time_leaves_the_plain_step_open(load: dict[str, Any]) -> None:
    """The time with speculation is then known, what it is compared with is not: the speedup is as
    wide as the plain time."""
    computed = of(**load)
    ms = plain_ms(computed) / 1.5
    found = of(**load, run_gamma=3, run_ms=ms)
    assert found.tpot is not None
    assert found.tpot.value * 1e3 == pytest.approx(ms)
    assert found.tpot.low is not None
    assert found.tpot.low * 1e3 == pytest.approx(ms)
    assert width(found.tpot) < 1.05
    assert width(found.speedup) == pytest.approx(width(computed.tpot_plain), rel=0.05)
    assert {u.field for u in found.speedup.basis.over} >= {"plain_step"}


def test_an_open_acceptance_leaves_the_run_what_it_is() -> None:
    """The run's speed is known whatever its α was; other γ depend on it."""
    open_alpha = {k: v for k, v in PAIR.items() if k != "alpha"} | {
        "alpha_low": 0.5, "alpha_high": 0.8, "target_ms": 8, "run_gamma": 3, "run_ms": 5,
    }  # fmt: skip
    found = predict(Scenario(**open_alpha))
    assert found.speedup.low == pytest.approx(1.6)
    assert found.speedup.high == pytest.approx(1.6)
    assert tpot_widths(found)[6] > 0.1


@pytest.mark.parametrize("off", [0.2, 0.5, 1.0, 2.0, 5.0])
def test_a_run_that_contradicts_is_refused(off: float) -> None:
    """Three times off, either way, what τ/s says."""
    plain = plain_ms(of())
    expected = plain / float(of().speculation.speedup(3))
    asked = {"target_ms": plain, "run_gamma": 3, "run_ms": expected * off}
    if 1 / CONTRADICTION < off < CONTRADICTION:
        assert of(**asked).speedup.value == pytest.approx(plain / expected / off)
        return
    with pytest.raises(InputError, match=r"run_ms = .* contradicts the rest") as said:
        of(**asked)
    assert str(said.value).count("?") == 1


def test_what_one_end_of_a_range_contradicts_is_no_slip() -> None:
    """Prompts of unknown length, 0 to 8,000: with the longest of them the run could not be; the
    others stand."""
    load = {"concurrency": 64, "context_tokens": 8000}
    plain = plain_ms(of(**load))
    found = of(**load, target_ms=plain, run_gamma=3, run_ms=plain / 2)
    assert found.endpoint.speedup_at(3).value == pytest.approx(2.0)


def test_a_run_beside_given_costs() -> None:
    """Without hardware: 40 ms plain, c = 0.1, γ = 4 ran at 20 ms: s = τ/2."""
    found = predict(Scenario(alpha=0.8, gamma=4, c=0.1, target_ms=40, run_gamma=4, run_ms=20))
    assert found.speedup.value == pytest.approx(2.0)
    tau = sum(0.8**i for i in range(5))
    assert found.step_cost == pytest.approx(tau / 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"run_gamma": 3}, "run_ms"),
        ({"run_ms": 5}, "run_gamma"),
        ({"run_gamma": 3, "run_ms": 0}, "run_ms"),
    ],
)
def test_half_a_run_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        of(**given)


def test_a_run_beyond_the_heads_is_refused() -> None:
    with pytest.raises(InputError, match="run_gamma must be <= 5"):
        of(draft="medusa", run_gamma=9, run_ms=5, target_ms=8)
