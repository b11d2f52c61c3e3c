"""Drift: since when and how, totals, what cannot be told, the cost by hand, the rule."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from helpers.drifting import GAMMA, log
from helpers.readings import make_reading
from scipy.stats import binom, norm

from specmath.checks import InputError
from specmath.logs import Reading
from specmath.predict import predict
from specmath.review.blocks import comparable
from specmath.review.drift import Drift, Why, _abrupt, drift
from specmath.review.drift_causes import (
    RULES,
    Cause,
    DriftCost,
    alert_rule,
    causes,
    compare,
    cost_of,
    others_of,
)
from specmath.scenario import Scenario
from specmath.tables.logs import drift_table
from specmath.words.drift import (
    alarm_sentence,
    cause_line,
    drift_said,
    drift_sentence,
    scrape_command,
    why_words,
)

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
        accepted=round(steps * sum(survival)), survival=survival, gamma=gamma, since_start=True,
    )  # fmt: skip


def test_z_of_two_totals_by_hand() -> None:
    """γ=1: L is Bernoulli, so Var = α(1−α) and z is the two-sample z of shares."""
    pair = total(0.7, 1000, 1), total(0.6, 400, 1)
    z = 0.1 / np.sqrt(0.7 * 0.3 / 1000 + 0.6 * 0.4 / 400)
    assumed = drift(*pair, design_effect=4.0)
    assert assumed.p_value == pytest.approx(norm.sf(z / 2))
    found = drift(*pair)
    assert (found.fallen, found.why) == (None, "fall without windows")
    assert found.tipping == pytest.approx((z / norm.isf(0.01)) ** 2)
    few = drift(total(0.7, 1000, 1), total(0.6, 50, 1))
    assert (few.fallen, few.why, few.tipping) == (None, "no windows", None)


def test_totals_alone_never_say_that_it_fell() -> None:
    """A fall beyond chance for independent steps: only up to which design effect it would be."""
    pair = total(0.75, 100_000), total(0.72, 100_000)
    found = drift(*pair)
    assert (found.fallen, found.p_value) == (None, None)
    assert found.tipping is not None
    for factor, fallen in ((0.99, True), (1.01, False)):
        assumed = drift(*pair, design_effect=factor * found.tipping)
        assert assumed.fallen is fallen
        assert assumed.design_effect == factor * found.tipping


def test_totals_may_say_that_it_did_not_fall() -> None:
    """Below the limit with independent steps is below it with any design effect of 1 or more."""
    for after in (0.749, 0.80):
        found = drift(total(0.75, 5000), total(after, 5000))
        assert (found.fallen, found.independent) == (False, True)
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
    assert (found.fallen, found.why, found.baseline_windows) == (None, "short baseline", 5)
    assert (found.needed_windows or 0) > 5
    long, short = log(random, 300, 0.8, steps=600), log(random, 1, 0.0, steps=600)
    found = drift(long, short)
    assert (found.fallen, found.why, found.current_windows) == (None, "short current", 1)
    one = make_reading("vllm", "made", steps=100, drafted=300, accepted=150)
    assert drift(one, one).fallen is None


def test_a_quiet_log_is_told_that_steps_are_missing() -> None:
    random = np.random.default_rng(1)
    found = drift(log(random, 60, 0.0, steps=600), log(random, 12, 0.0, steps=1))
    assert (found.fallen, found.why, found.quieter) == (None, "quiet current", 600)
    # Ten steps with a rejection: of 1 − .75³ = .58 of them, or of (4 − 2.73)/3 = .42 at the least.
    assert found.needed_windows == pytest.approx(10 / 0.42, abs=1)


def test_rare_rejections_are_said() -> None:
    """600 steps × 3·10⁻⁴ rejections a window: 10 of them take some 50 windows."""
    random = np.random.default_rng(1)
    pair = (log(random, 100, 0.0, alpha=0.9999, moves=0.0, steps=600) for _ in range(2))
    found = drift(*pair)
    assert (found.fallen, found.why, found.scarce) == (None, "scarce baseline", "rejected")
    assert found.block_windows == pytest.approx(50, rel=0.5)
    steady = log(random, 20, 0.0, alpha=1.0, moves=0.0)
    assert drift(steady, steady).why == "flat baseline"


def test_logs_that_could_not_show_any_fall_cannot_tell() -> None:
    """20 windows wandering by ±0.2: even no acceptance at all would be within their chance."""
    random = np.random.default_rng(2)
    pairs = [[log(random, 20, 0.0, alpha=0.5, moves=0.2) for _ in range(2)] for _ in range(20)]
    found = [drift(*pair) for pair in pairs]
    blind = [one for one in found if one.why == "blind"]
    assert blind
    assert all((one.smallest or 0.0) >= one.before - 1.0 for one in blind)
    assert not any(one.fallen for one in found)


def test_another_gamma_is_compared_at_the_shorter_one() -> None:
    random = np.random.default_rng(1)
    pair = comparable(log(random, 60, 0.0, gamma=5), log(random, 60, 0.0, gamma=3))
    assert pair is not None
    assert (pair[0].measure, pair[0].cut, pair[0].gamma) == ("tokens_per_step", True, 3)
    assert pair[0].mean() == pytest.approx(pair[1].mean(), rel=0.03)
    bare = make_reading("vllm", "made", steps=100, drafted=500, accepted=150, gamma=5)
    with pytest.raises(InputError, match="γ=5"):
        drift(bare, make_reading("vllm", "made", steps=100, drafted=300, accepted=150, gamma=3))


def test_a_rate_outside_its_bounds_is_refused() -> None:
    random = np.random.default_rng(1)
    with pytest.raises(InputError, match="rate"):
        drift(log(random, 20, 0.0), log(random, 20, 0.0), 0.0)


# ── cost and causes ──────────────────────────────────────────────────────────────────────────


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
    answer = compare(pair[:1], pair[1:], Scenario(alpha=0.8, gamma=4, c=0.1, target_ms=40))
    assert (answer.found.measure, answer.found.cut_gamma) == ("tokens_per_step", 3)
    assert answer.cost is not None
    closed = [
        0.040 * (1 + 0.1 * g) / tokens(a, g) for g, a in zip(gammas, alphas, strict=True)
    ]  # fmt: skip
    # 80 windows of 600 steps: the mean of τ is known to about 0.5%.
    assert (answer.cost.seconds_before, answer.cost.seconds_after) == pytest.approx(
        closed, rel=0.02
    )
    assert (answer.cost.gamma_before, answer.cost.gamma_after) == gammas
    assert answer.causes[0] == Cause("gamma", "changed", *gammas)


def test_causes_that_the_logs_speak_for_come_first() -> None:
    """From 0.75 to 0.3 at once and everywhere; every other suspect stays on the list."""
    random = np.random.default_rng(4)
    before, after = log(random, 60, 0.0), log(random, 60, 0.0, alpha=0.3)
    found = causes(drift(before, after), before, after)
    assert [(c.suspect, c.sign) for c in found] == [
        ("target", "every position"), ("draft", "every position"), ("template", "first position"),
        ("traffic", None), ("engine", None),
    ]  # fmt: skip
    assert (found[2].before, found[2].after) == pytest.approx((0.75, 0.3), rel=0.05)
    then = replace(before, coverage=0.9, facts=(("model", "a"),))
    now = replace(after, coverage=0.5, format="other", facts=(("model", "b"),))
    signs = {c.suspect: (c.sign, c.before, c.after) for c in causes(drift(then, now), then, now)}
    assert signs["model"] == ("changed", "a", "b")
    assert signs["traffic"] == ("fewer drafts", 0.9, 0.5)
    assert signs["engine"] == ("format", "made", "other")
    slow = replace(drift(before, after), abrupt=False)
    assert causes(slow, before, after)[0] == Cause("traffic", "gradual")


def test_another_model_version_or_start_is_told_whatever_was_found() -> None:
    base = Scenario(alpha=0.8, gamma=3, c=0.1)
    then, now = total(0.7, 4000), total(0.7, 9000)
    pair = (
        replace(then, facts=(("model", "a"), ("version", "0.11"))),
        replace(now, facts=(("model", "b"), ("version", "0.12"), ("restarts", 1.0))),
    )
    found = compare(pair[:1], pair[1:], base)
    assert found.found.fallen is False
    assert [(o.what, o.before, o.after) for o in found.others] == [
        ("model", "a", "b"), ("engine version", "0.11", "0.12"), ("restarts", 0.0, 1.0)
    ]  # fmt: skip
    assert not found.overlap  # a new start counts from zero
    notes = " ".join(drift_said(found).because)
    assert "Another model is served, a, then b" in notes
    assert "Another version of the engine, 0.11, then 0.12" in notes
    assert "The server was restarted:" in notes
    assert others_of(now, then)[0].what == "restarts"  # totals since start that fell
    assert others_of(then, now) == ()
    upgraded = causes(replace(FELL, abrupt=True), *pair)
    assert Cause("engine", "changed", "0.11", "0.12") in upgraded


def test_totals_of_one_start_overlap() -> None:
    base = Scenario(alpha=0.8, gamma=3, c=0.1)
    grown, less = total(0.7, 9000), total(0.7, 4000)
    assert compare([less], [grown], base).overlap
    assert not compare([grown], [less], base).overlap
    between = replace(grown, format="v1 Prometheus, change between scrapes", since_start=False)
    assert not compare([less], [between], base).overlap


# ── in words ─────────────────────────────────────────────────────────────────────────────────

FELL = Drift(
    True, "tokens_per_step", 3.0, 2.4, p_value=0.002, since_line=11, since="10:11",
    detected_line=9, detected=None, smallest=0.1, baseline_blocks=20, current_blocks=10,
    block_windows=3, baseline_windows=60,
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "cost", "says"),
    [
        (FELL, None, "Acceptance has fallen: 3.00 → 2.40 tokens per step (−20%) since 10:11, "
         "p = 0.002."),
        (FELL, DriftCost(0.25, 3, 3, 0.020, 0.025, 20.0, 25.0),
         "Acceptance has fallen: 3.00 → 2.40 tokens per step (−20%) since 10:11, p = 0.002. Each "
         "token takes +25% time, 20.0 ms → 25.0 ms, $20.0 → $25.0 per million tokens."),
        (replace(FELL, until_line=16, later=3.1, cut_gamma=3, p_value=1e-5),
         DriftCost(0.25, 5, 3),
         "Acceptance fell for a while: 3.00 → 2.40 tokens per step up to γ=3 (−20%) from 10:11 to "
         "line 16, p < 0.0001. It has ended: 3.10 since. Meanwhile each token took +25% time, each "
         "at its own draft length (γ=5, then 3)."),
        (replace(FELL, design_effect=2.0), None,
         "Acceptance has fallen: 3.00 → 2.40 tokens per step (−20%) from one total to the other, "
         "p = 0.002 with a design effect of 2.00, which is assumed."),
        (replace(FELL, fallen=False, measure="accepted_share", before=0.8, after=0.79), None,
         "No fall beyond chance: 0.800 → 0.790 accepted ÷ drafted, p = 0.002. A lasting fall of "
         "0.100 would have been seen about half the time."),
    ],
    ids=["fallen", "cost", "ended", "assumed", "steady"],
)  # fmt: skip
def test_sentences(found: Drift, cost: DriftCost | None, says: str) -> None:
    assert drift_sentence(found, cost) == says


@pytest.mark.parametrize(
    ("why", "more", "says"),
    [
        ("short baseline", {"correlation_windows": 4.2, "needed_windows": 78},
         "neighbours are alike over 4.2 windows); about 78 windows are needed"),
        ("quiet current", {"quieter": 100.0, "needed_windows": 80, "current_windows": 20},
         "100 times quieter than the baseline's, and rejections or acceptances are too rare in "
         "them; about 80 windows are needed, it has 20"),
        ("fall without windows", {"tipping": 3.0},
         "independent steps) is below 3.0, and totals do not show it"),
    ],
)  # fmt: skip
def test_why_it_cannot_be_told(why: Why, more: dict[str, Any], says: str) -> None:
    found = replace(FELL, fallen=None, why=why, **more)
    assert says in why_words(found)
    assert drift_sentence(found).startswith("Cannot tell whether acceptance has fallen (3.00 → 2.4")


@pytest.mark.parametrize("why", get_args(Why))
def test_every_reason_has_its_words(why: Why) -> None:
    found = replace(FELL, why=why, scarce="rejected", quieter=2.0, tipping=2.0, needed_windows=9)
    assert why_words(found)
    assert not set("{}%") & set(why_words(found))
    assert "None" not in why_words(found)


def test_what_is_said_of_two_logs() -> None:
    less, grown = total(0.7, 4000), replace(total(0.7, 9000), engine="sglang")
    pair = compare([less], [grown], Scenario(alpha=0.8, gamma=3, c=0.1, target_ms=40))
    notes = " ".join(drift_said(pair).because)
    assert "Another engine: vllm, then sglang." in notes
    assert "if the server was not restarted between them" in notes
    assert not scrape_command(pair)
    fallen = replace(pair, found=FELL, cost=DriftCost(0.25, 3, 3, 0.020, 0.025))
    said = drift_said(fallen)
    assert said.state == "bad"
    assert said.because[0] == alarm_sentence(FELL)
    assert alarm_sentence(FELL).endswith(
        "raised at line 9: acceptance had fallen before that, too."
    )
    assert said.because[1].startswith(
        "20 baseline blocks of 3 windows, 10 current ones; false alarms: at most 0.01 a call"
    )
    assert "curl" in scrape_command(replace(pair, found=replace(FELL, why="no windows")))
    assert cause_line(Cause("template", "first position", 0.75, 0.3)) == (
        "Tokenizer or chat template changed on one side (a collapse at the first position, "
        "75% → 30%): tokenise one prompt with both and compare the ids"
    )
    assert cause_line(Cause("gamma", "changed", 5, 3)).startswith(
        "The draft length was changed (γ 5 → 3):"
    )
    table = drift_table(fallen)
    assert table.column("what").values == ("Tokens per step", "Time per token, ms")
    assert table.column("after").label == "Since the fall"
    assert table.column("before").values == pytest.approx((3.0, 20.0))
    assert table.column("change_percent").values == pytest.approx((-20.0, 25.0))


# ── the rule ─────────────────────────────────────────────────────────────────────────────────


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
