"""Drift: since when and how, totals, what cannot be told, the cost by hand, the rule."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from specmath.checks import InputError
from specmath.logs import Reading, Window
from specmath.logs.blocks import comparable
from specmath.logs.drift import _abrupt, drift
from specmath.logs.drift_answer import drift_answer
from specmath.logs.drift_report import RULES, alarm_sentence, alert_rule, causes, cost_of, sentence
from specmath.logs.drift_totals import totals
from specmath.logs.tally import make_reading
from specmath.predict import predict
from specmath.scenario import Scenario

GAMMA = 3


def log(
    random: np.random.Generator, windows: int, phi: float, *, alpha: float = 0.75,
    drop: float = 0.0, at: int = 0, until: int | None = None, gamma: int = GAMMA,
    moves: float = 0.03, steps: int | None = None,
) -> Reading:  # fmt: skip
    """A server whose traffic wanders: α of a window is AR(1) around `alpha`; lines are windows.

    It falls by `drop` in windows at … until−1. `steps` a window; None: 300 to 900, uneven.
    """
    wander, state = np.empty(windows), random.standard_normal()
    for t in range(windows):
        wander[t] = state
        state = phi * state + np.sqrt(1 - phi**2) * random.standard_normal()
    rates = alpha + moves * wander
    rates[at:until] -= drop
    counts = [random.integers(300, 900, windows) if steps is None else np.full(windows, steps)]
    for _ in range(gamma):
        counts.append(random.binomial(counts[-1], np.clip(rates, 0, 1)))
    rows = [
        Window(
            t + 1, f"10:{t:04}", int(n), gamma * int(n), int(sum(c)), 1 + float(sum(c) / n),
            tuple(float(i / n) for i in c), float(n),
        )
        for t, (n, *c) in enumerate(zip(*counts, strict=True))
    ]  # fmt: skip
    totals_ = [int(c.sum()) for c in counts]
    return make_reading(
        "vllm", "made", steps=totals_[0], drafted=gamma * totals_[0], accepted=sum(totals_[1:]),
        survival=[c / totals_[0] for c in totals_[1:]], windows=rows,
    )  # fmt: skip


# ── where and how ────────────────────────────────────────────────────────────────────────────


def test_since_when() -> None:
    random = np.random.default_rng(11)
    lines = []
    for _ in range(15):
        found = drift(
            log(random, 200, 0.3, steps=600), log(random, 100, 0.3, drop=0.1, at=50, steps=600)
        )
        assert found.fallen
        assert found.detected_line is not None
        assert found.since_line is not None
        lines.append(found.since_line)
        assert found.after < found.before
    assert abs(float(np.median(lines)) - 51) <= 8


def joined(random: np.random.Generator, *parts: tuple[int, float]) -> Reading:
    """(windows, α) one after the other, hardly any wander, 600 steps a window."""
    made = [log(random, n, 0.0, alpha=alpha, moves=0.01, steps=600) for n, alpha in parts]
    rows = [w for part in made for w in part.windows]
    rows = [replace(w, line=i + 1, when=None) for i, w in enumerate(rows)]
    steps, accepted = (sum(getattr(w, name) for w in rows) for name in ("steps", "accepted"))
    return make_reading(
        "vllm", "made", steps=steps, drafted=GAMMA * steps, accepted=accepted, gamma=GAMMA,
        windows=rows,
    )  # fmt: skip


def tokens(alpha: float, gamma: int = GAMMA) -> float:
    return sum(alpha**i for i in range(gamma + 1))


def test_a_fall_that_has_ended_is_told_by_its_own_mean() -> None:
    """6 windows at 0.6 among 50 at 0.75 and above: their mean, not that of all windows since."""
    random = np.random.default_rng(3)
    found = drift(log(random, 60, 0.0, steps=600), joined(random, (10, 0.75), (6, 0.6), (40, 0.85)))
    assert (found.since_line, found.until_line) == (11, 16)
    assert found.after == pytest.approx(tokens(0.6), rel=0.03)
    assert found.later == pytest.approx(tokens(0.85), rel=0.02)
    said = sentence(found, None)
    assert said.startswith("Acceptance fell for a while: 2.7")
    assert "from line 11 to line 16" in said
    assert said.endswith("It has ended: 3.19 since.")


def test_a_fall_that_lasts_runs_to_the_end() -> None:
    """Half recovered is not recovered: nearer to the low than to the baseline."""
    random = np.random.default_rng(3)
    found = drift(log(random, 60, 0.0, steps=600), joined(random, (20, 0.75), (10, 0.5), (10, 0.6)))
    assert found.until_line is None
    assert found.later is None
    assert found.after == pytest.approx((tokens(0.5) + tokens(0.6)) / 2, rel=0.03)


def test_the_first_alarm_is_the_first() -> None:
    """An early dip that recovers, then a deeper fall: told from there, first raised before.

    The log up to the dip alarms by itself, so the alarm of the whole cannot be later than that.
    """
    random = np.random.default_rng(5)
    before = log(random, 60, 0.0, moves=0.02, steps=600)
    after = joined(random, (10, 0.75), (6, 0.65), (20, 0.75), (10, 0.55))
    found = drift(before, after)
    assert 36 <= (found.since_line or 0) <= 37
    assert found.detected_line is not None
    assert 11 <= found.detected_line <= 16
    cut = drift(before, replace(after, windows=after.windows[: found.detected_line]))
    assert (cut.fallen, cut.detected_line) == (True, found.detected_line)
    assert alarm_sentence(found).endswith(": acceptance had fallen before that, too.")


def test_a_step_before_the_log_is_abrupt_and_a_slope_is_not() -> None:
    """A deployment between the two logs: a constant, which a line always fits a little better."""
    random = np.random.default_rng(0)
    for size in (6, 20, 60):
        noise = 0.02 * random.standard_normal((400, size))
        step = [_abrupt(2.3 + row, 0, 2.7) for row in noise]
        late = [_abrupt(np.r_[2.7, np.full(size - 1, 2.3)] + row, 1, 2.7) for row in noise]
        slope = [_abrupt(np.linspace(2.6, 2.2, size) + row, 0, 2.7) for row in noise]
        assert np.mean(step) > 0.9
        assert np.mean(late) > 0.9
        assert np.mean(slope) < 0.02
    assert _abrupt(np.full(20, 2.3), 0, 2.7) is True
    assert _abrupt(np.full(3, 2.3), 0, 2.7) is None


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


def test_a_quiet_log_is_told_that_steps_are_missing() -> None:
    random = np.random.default_rng(1)
    found = drift(log(random, 60, 0.0, steps=6000), log(random, 20, 0.0, steps=60, drop=0.1))
    assert found.fallen is None
    assert "quieter than the baseline (60.0 against 6,000 steps a window)" in found.why
    assert "about 100 windows are needed, it has 20" in found.why


def test_rare_rejections_are_said() -> None:
    """600 steps × 3·10⁻⁴ rejections a window: 10 of them take some 50 windows."""
    random = np.random.default_rng(1)
    pair = (log(random, 100, 0.0, alpha=0.9999, moves=0.0, steps=600) for _ in range(2))
    found = drift(*pair)
    assert found.fallen is None
    assert "rejected drafts are rare in it" in found.why
    steady = log(random, 20, 0.0, alpha=1.0, moves=0.0)
    assert "does not vary at all" in drift(steady, steady).why


def test_logs_that_could_not_show_any_fall_cannot_tell() -> None:
    """12 windows wandering by ±0.2: even no acceptance at all would be within their chance."""
    random = np.random.default_rng(2)
    pairs = [[log(random, 12, 0.0, alpha=0.5, moves=0.2) for _ in range(2)] for _ in range(20)]
    found = [drift(*pair) for pair in pairs]
    assert any("even if no draft were accepted" in one.why for one in found)
    assert not any(one.fallen for one in found)


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
    found = replace(found, before=3.0, after=2.4, tokens_before=3.0, tokens_after=2.4)
    scenario = Scenario(
        rates=(0.9, 0.6, 0.5), gamma=3, c=0.5 / 3, target_ms=40, usd_per_hour=3.6
    )  # fmt: skip
    cost = cost_of(found, predict(scenario), predict(scenario))
    assert cost is not None
    assert cost.time_change == pytest.approx(0.25)
    assert (cost.seconds_before, cost.seconds_after) == pytest.approx((0.020, 0.025))
    assert (cost.usd_before, cost.usd_after) == pytest.approx((20.0, 25.0))
    said = sentence(found, cost)
    assert "3.00 → 2.40 tokens per step (−20%)" in said
    assert "20.0 ms → 25.0 ms, $20.0 → $25.0 per million tokens" in said


@pytest.mark.parametrize(("gammas", "alphas"), [((5, 3), (0.75, 0.65)), ((3, 5), (0.75, 0.65))])
def test_another_gamma_is_priced_at_its_own(
    gammas: tuple[int, int], alphas: tuple[float, float]
) -> None:
    """γ 5 → 3, c=0.1, 40 ms: 60/3.288 = 18.2 ms, then 52/2.347 = 22.2 ms, in closed form."""
    random = np.random.default_rng(6)
    pair = [
        log(random, 80, 0.0, gamma=g, alpha=a, moves=0.01)
        for g, a in zip(gammas, alphas, strict=True)
    ]
    answer = drift_answer(pair[:1], pair[1:], Scenario(alpha=0.8, gamma=4, c=0.1, target_ms=40))
    assert answer.found.measure == "tokens per step up to γ=3"
    assert answer.cost is not None
    closed = [
        0.040 * (1 + 0.1 * g) / tokens(a, g) for g, a in zip(gammas, alphas, strict=True)
    ]  # fmt: skip
    # 80 windows of 600 steps: the mean of τ is known to about 0.5%.
    assert (answer.cost.seconds_before, answer.cost.seconds_after) == pytest.approx(
        closed, rel=0.02
    )
    assert f"each at its own draft length (γ={gammas[0]}, then {gammas[1]})" in answer.sentence


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
