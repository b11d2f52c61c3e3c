"""Drift: false alarms and power by simulation, the block length, the cost by hand, the rule."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from scipy.stats import binom

from specmath.checks import InputError
from specmath.logs import Reading, Window
from specmath.logs.blocks import autocorrelation_time, comparable
from specmath.logs.drift import alarm_limit, drift
from specmath.logs.drift_report import RULES, alert_rule, causes, cost_of, sentence
from specmath.logs.drift_totals import totals
from specmath.logs.tally import make_reading
from specmath.predict import predict
from specmath.scenario import Scenario

GAMMA = 3


def log(
    random: np.random.Generator, windows: int, phi: float, *, alpha: float = 0.75,
    drop: float = 0.0, at: int = 0, gamma: int = GAMMA, moves: float = 0.03,
) -> Reading:  # fmt: skip
    """A server whose traffic wanders: α of a window is AR(1) around `alpha`, ~600 steps each."""
    wander = np.empty(windows)
    state = random.standard_normal()
    rows = []
    for t in range(windows):
        wander[t] = state
        state = phi * state + np.sqrt(1 - phi**2) * random.standard_normal()
        rate = float(np.clip(alpha + moves * wander[t] - (drop if t >= at else 0), 0.01, 0.99))
        steps = int(random.integers(300, 900))
        survival = rate ** np.arange(gamma + 1)
        emitted = random.multinomial(steps, survival - np.append(survival[1:], 0.0))
        reached = np.cumsum(emitted[::-1])[::-1][1:] / steps
        accepted = int(emitted @ np.arange(gamma + 1))
        rows.append(
            Window(
                t + 1, f"10:{t:04}", steps, gamma * steps, accepted, 1 + accepted / steps,
                tuple(reached.tolist()), steps,
            )
        )  # fmt: skip
    steps = sum(w.steps or 0 for w in rows)
    accepted = sum(w.accepted or 0 for w in rows)
    return make_reading(
        "vllm", "made", steps=steps, drafted=gamma * steps, accepted=accepted,
        survival=[alpha**i for i in range(1, gamma + 1)], windows=rows,
    )  # fmt: skip


# ── the stated rate ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("phi", "windows"), [(0.0, 60), (0.5, 150), (0.8, 240), (0.9, 300)])
def test_false_alarms_keep_the_stated_rate(phi: float, windows: int) -> None:
    """At 5% stated, 100 pairs of logs in which nothing changed, refusals counted as no alarm."""
    random = np.random.default_rng(int(100 * phi) + 7)
    runs, rate = 100, 0.05
    alarms = sum(
        drift(log(random, windows, phi), log(random, windows // 2, phi), rate).fallen is True
        for _ in range(runs)
    )
    # Beyond this many by chance once in 1,000 test runs, were the rate exactly as stated.
    assert alarms <= binom.ppf(0.999, runs, rate)


@pytest.mark.parametrize(("phi", "power"), [(0.0, 0.99), (0.5, 0.95), (0.8, 0.7)])
def test_a_fall_of_005_is_seen(phi: float, power: float) -> None:
    random = np.random.default_rng(3)
    runs = 25
    seen = sum(
        drift(log(random, 300, phi), log(random, 150, phi, drop=0.05, at=50), 0.05).fallen is True
        for _ in range(runs)
    )
    assert seen / runs >= power


def test_steps_taken_as_independent_would_cry_wolf() -> None:
    """What the blocks are for: a z test on all steps alarms on most pairs of correlated logs."""
    random = np.random.default_rng(5)
    naive = 0
    for _ in range(60):
        before, after = (log(random, 240, 0.8) for _ in range(2))
        means = [r.tokens_per_step or 0.0 for r in (before, after)]
        variance = sum(1.2 / (r.steps or 1) for r in (before, after))  # Var(L) at α=0.75, γ=3
        naive += (means[0] - means[1]) / np.sqrt(variance) > 1.645
    assert naive / 60 > 0.15


def test_limit_of_one_block_is_student_t() -> None:
    """m baseline blocks and one current: (μ₀ − y)/(S √(1/m + 1)) is Student's t, m−1 degrees."""
    from scipy.stats import t

    assert alarm_limit(10, 1, 0.05) == pytest.approx(t.ppf(0.95, 9), rel=0.02)
    # More looks need a higher limit, never a lower one.
    limits = [alarm_limit(10, k, 0.05) for k in (1, 2, 5, 20)]
    assert limits == sorted(limits)


def test_since_when() -> None:
    random = np.random.default_rng(11)
    lines = []
    for _ in range(20):
        found = drift(log(random, 300, 0.3), log(random, 150, 0.3, drop=0.1, at=75))
        assert found.fallen
        assert found.detected_line is not None
        assert found.since_line is not None
        assert found.detected_line >= found.since_line
        lines.append(found.since_line)
        assert found.after < found.before
    assert abs(float(np.median(lines)) - 76) <= 10


def test_autocorrelation_time_of_an_ar1_series() -> None:
    """τ_int = (1+φ)/(1−φ) = 9 at φ=0.8; half a standard error is added on purpose."""
    random = np.random.default_rng(2)
    noise = random.standard_normal(20_000)
    series = np.empty_like(noise)
    series[0] = noise[0]
    for t in range(1, noise.size):
        series[t] = 0.8 * series[t - 1] + noise[t]
    assert autocorrelation_time(series) == pytest.approx(9, rel=0.15)
    assert autocorrelation_time(noise) == pytest.approx(1, abs=0.2)
    assert autocorrelation_time(np.ones(50)) == 1.0


# ── totals without windows ───────────────────────────────────────────────────────────────────


def total(alpha: float, steps: int, gamma: int = GAMMA) -> Reading:
    """A metrics page: counts and rates, no windows."""
    survival = [alpha**i for i in range(1, gamma + 1)]
    return make_reading(
        "vllm", "v1 Prometheus, since start", steps=steps, drafted=gamma * steps,
        accepted=round(steps * sum(survival)), survival=survival, gamma=gamma,
    )  # fmt: skip


def test_z_of_two_totals_by_hand() -> None:
    """γ=1: L is Bernoulli, so Var = α(1−α) and z is the two-sample z of shares."""
    pair = totals(total(0.7, 1000, 1), total(0.6, 400, 1))
    assert pair is not None
    assert pair.z == pytest.approx(0.1 / np.sqrt(0.7 * 0.3 / 1000 + 0.6 * 0.4 / 400))
    assert totals(total(0.7, 1000, 1), total(0.6, 50, 1)) is None


def test_totals_alone_never_say_that_it_fell() -> None:
    """A fall beyond chance for independent steps: only up to which design effect it would be."""
    found = drift(total(0.75, 100_000), total(0.72, 100_000))
    assert found.fallen is None
    assert found.tipping is not None
    assert "metrics scraped at least 7 times" in found.why
    for factor, fallen in ((0.99, True), (1.01, False)):
        assumed = drift(
            total(0.75, 100_000), total(0.72, 100_000), design_effect=factor * found.tipping
        )
        assert assumed.fallen is fallen
        assert "which is assumed" in sentence(assumed, None)
    assert "(p" not in sentence(found, None)


def test_totals_may_say_that_it_did_not_fall() -> None:
    """Below the limit with independent steps is below it with any design effect of 1 or more."""
    for after in (0.749, 0.80):
        found = drift(total(0.75, 5000), total(after, 5000))
        assert found.fallen is False
        assert "even if all steps were independent" in sentence(found, None)
    with pytest.raises(InputError, match="design_effect"):
        drift(total(0.75, 5000), total(0.7, 5000), design_effect=0.5)


def test_an_assumed_effect_that_is_right_keeps_the_rate() -> None:
    """Requests of 100 steps at γ=1, each with its own α: the design effect is 1 + 99ρ.

    α ~ Beta(7, 3): ρ = 1/(7+3+1), so steps vary 10 times as much as independent ones. With the
    effect stated the alarms keep to 5%; with 1 they do not.
    """
    random = np.random.default_rng(8)

    def counted() -> Reading:
        accepted = int(random.binomial(100, random.beta(7, 3, 200)).sum())
        return make_reading(
            "vllm", "made", steps=20_000, drafted=20_000, accepted=accepted,
            survival=[accepted / 20_000], gamma=1,
        )  # fmt: skip

    pairs = [(counted(), counted()) for _ in range(400)]
    alarms = {
        effect: sum(drift(*pair, 0.05, effect).fallen is True for pair in pairs)
        for effect in (1.0, 1 + 99 / 11)
    }
    assert binom.ppf(0.001, 400, 0.05) <= alarms[10.0] <= binom.ppf(0.999, 400, 0.05)
    assert alarms[1.0] > 80


# ── what cannot be compared ──────────────────────────────────────────────────────────────────


def test_too_short_is_said_not_guessed() -> None:
    random = np.random.default_rng(1)
    found = drift(log(random, 5, 0.0), log(random, 50, 0.0))
    assert found.fallen is None
    assert "baseline is too short" in found.why
    one = make_reading("vllm", "made", steps=100, drafted=300, accepted=150)
    assert drift(one, one).fallen is None


def test_another_gamma_is_compared_at_the_shorter_one() -> None:
    random = np.random.default_rng(1)
    pair = comparable(log(random, 60, 0.0, gamma=5), log(random, 60, 0.0, gamma=3))
    assert pair is not None
    assert pair[0].measure == "tokens per step up to γ=3"
    assert pair[0].mean == pytest.approx(pair[1].mean, rel=0.03)
    bare = make_reading("vllm", "made", steps=100, drafted=500, accepted=150, gamma=5)
    with pytest.raises(InputError, match="γ=5"):
        drift(bare, make_reading("vllm", "made", steps=100, drafted=300, accepted=150, gamma=3))


def test_a_rate_outside_its_bounds_is_refused() -> None:
    random = np.random.default_rng(1)
    with pytest.raises(InputError, match="rate"):
        drift(log(random, 20, 0.0), log(random, 20, 0.0), 0.0)


# ── cost, causes, rule ───────────────────────────────────────────────────────────────────────


def test_cost_by_hand() -> None:
    """3 → 2.4 tokens a step of 40 ms × 1.5: 20 → 25 ms a token; 3.6 USD/h: 20 → 25 USD."""
    random = np.random.default_rng(4)
    found = drift(log(random, 60, 0.0), log(random, 60, 0.0, drop=0.2))
    from dataclasses import replace

    found = replace(found, before=3.0, after=2.4)
    scenario = Scenario(
        rates=(0.9, 0.6, 0.5), gamma=3, c=0.5 / 3, target_ms=40, usd_per_hour=3.6
    )  # fmt: skip
    cost = cost_of(found, predict(scenario), 3)
    assert cost is not None
    assert cost.time_change == pytest.approx(0.25)
    assert (cost.seconds_before, cost.seconds_after) == pytest.approx((0.020, 0.025))
    assert (cost.usd_before, cost.usd_after) == pytest.approx((20.0, 25.0))
    said = sentence(found, cost)
    assert "3.00 → 2.40 tokens per step (−20%)" in said
    assert "20.0 ms → 25.0 ms, $20.0 → $25.0 per million tokens" in said


def test_causes_that_the_logs_speak_for_come_first() -> None:
    random = np.random.default_rng(4)
    before, after = log(random, 60, 0.0), log(random, 60, 0.0, alpha=0.3)
    found = drift(before, after)
    first = causes(found, before, after)[0]
    assert first.seen
    assert {c.what for c in causes(found, before, after)} >= {
        "The traffic moved", "Tokenizer or chat template changed on one side",
    }  # fmt: skip


@pytest.mark.parametrize("engine", list(RULES))
def test_rule_file_is_yaml_with_one_alert(engine: str) -> None:
    """Read by indentation alone: two rules of one group, the alert on the recorded name."""
    text = alert_rule(engine, below=2.3)
    assert text.count("- record:") == text.count("- alert:") == 1
    assert "expr: specmath:tokens_per_step < 2.3" in text
    assert "\t" not in text
    assert "avg_over_time(specmath:tokens_per_step[7d])" in alert_rule(engine)
    with pytest.raises(InputError, match="below"):
        alert_rule(engine, below=1.0)
    with pytest.raises(InputError, match="engine"):
        alert_rule("none")


ALERT_TEST = """\
rule_files: [rule.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'vllm:spec_decode_num_drafts_total{{model_name="m"}}'
        values: '0+100x240'
      - series: 'vllm:spec_decode_num_accepted_tokens_total{{model_name="m"}}'
        values: '0+180x120 21600+{after}x120'
    alert_rule_test:
      - eval_time: 110m
        alertname: SpeculativeAcceptanceFell
        exp_alerts: []
      - eval_time: 230m
        alertname: SpeculativeAcceptanceFell
        exp_alerts: [{alerts}]
"""


@pytest.mark.parametrize("after", [100, 180])
def test_prometheus_fires_it_when_acceptance_falls(tmp_path, after: int) -> None:
    """2.8 tokens a step for two hours, then 2.0 (or as before): below 2.3 for 30 minutes."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Debian's prometheus) is not installed")
    (tmp_path / "rule.yml").write_text(alert_rule("vllm", below=2.3))
    fired = (
        '{exp_labels: {severity: warning, model_name: m}, exp_annotations: {summary: "Tokens per '
        'speculative step are below 2.3", description: "Now 2.00 (bonus token included). Check: '
        "traffic moved, draft or target replaced, tokenizer or template changed, engine "
        'upgraded."}}'
    )
    test = ALERT_TEST.format(after=after, alerts=fired if after == 100 else "")
    (tmp_path / "test.yml").write_text(test)
    done = subprocess.run(
        [promtool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
