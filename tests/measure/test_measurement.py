"""A whole measurement on a tiny pair: report, partial results, checks, conversion, bad input."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, pair

from specmath.checks import InputError
from specmath.cli.measure import measure_command
from specmath.measure import compare
from specmath.measure.drafts import ModelDraft, NgramDraft, layer_skip
from specmath.measure.into_scenario import step_cost, to_scenario
from specmath.measure.language_model import Sampling
from specmath.measure.machine import THREAD, WALL, steady
from specmath.measure.numpy_model import NumpyLlama, read_safetensors
from specmath.measure.pairs import Pair, builtin_folder, builtin_pair, builtin_prompts, load_pair
from specmath.measure.plan import Plan, Prompt, read_prompts, spread
from specmath.measure.report import CHECKS, Interval, SelfCheck, read_report, write_report
from specmath.measure.run import measure
from specmath.measure.score import replay_of
from specmath.measure.speculate import generate
from specmath.measure.timing import (
    LoopTimes,
    StepTimes,
    Stretch,
    Walk,
    draft_cost,
    median_interval,
    time_loop,
    time_steps,
    verify_cost,
)
from specmath.measure.tokenizer import ByteBpe, tokenizer_difference
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.files import from_toml, to_toml
from specmath.tables.measured import cost_tables, report_csv
from specmath.words import measured
from specmath.words.measured import check_said


class Letters:
    """'acab' ↔ [0, 2, 0, 1]."""

    stop_ids: tuple[int, ...] = ()
    vocabulary = {"a": 0, "b": 1, "c": 2, "d": 3}  # noqa: RUF012

    def encode(self, text: str) -> list[int]:
        return [self.vocabulary[char] for char in text]

    def decode(self, ids: list[int]) -> str:
        return "".join("abcd"[i] for i in ids)


PROMPTS = tuple(Prompt("abcd"[n % 4] * (1 + n % 3), ("x", "y")[n % 2]) for n in range(8))
PLAN = Plan(
    prompts=PROMPTS, temperatures=(0.0, 1.0), gammas=(0, 1, 2, 4), run_gammas=(1, 4),
    output_tokens=12, timing_rounds=4,
)  # fmt: skip


def tiny(draft: TableModel | None = None) -> Pair:
    target, own = pair(2)
    return Pair(target, ModelDraft(draft or own), Letters())


@pytest.fixture(scope="module")
def report():  # type: ignore[no-untyped-def]
    return measure(tiny(), PLAN)


def test_report_has_every_segment_temperature_and_gamma(report) -> None:  # type: ignore[no-untyped-def]
    assert report.status == "complete"
    assert {(r.segment, r.temperature) for r in report.acceptance} == {
        (segment, t) for segment in ("all", "x", "y") for t in (0.0, 1.0)
    }
    assert {(r.segment, r.temperature, r.gamma) for r in report.comparison} == {
        (segment, t, g) for segment in ("all", "x", "y") for t in (0.0, 1.0) for g in (1, 4)
    }
    whole = report.acceptance[0]
    assert whole.tokens == 8 * 12
    assert len(whole.requests) == 8
    for row in report.acceptance:
        assert row.tokens_per_step[0] == pytest.approx(1)  # γ=0 is plain decoding
        for survival, tokens in zip(row.survival, row.tokens_per_step, strict=True):
            assert sum(survival) == pytest.approx(tokens)
    greedy = [r for r in report.comparison if r.temperature == 0]
    assert all(r.identical and r.z == 0 for r in greedy)
    assert all(r.tokens_per_step == pytest.approx(r.replay_tokens_per_step) for r in greedy)


def test_report_round_trip_and_csv(report) -> None:  # type: ignore[no-untyped-def]
    assert read_report(write_report(report)) == report
    assert "replay_v_error" in report_csv(report).splitlines()[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema_version="99"), r"schema_version must be '1', got '99'"),
        (lambda d: d.pop("schema_version"), "no schema_version"),
        (lambda d: d.pop("machine"), "machine must be given"),
        (
            lambda d: d["acceptance"][0]["alpha"].update(value=2.0),
            "acceptance.0.alpha: low <= value",
        ),
        (lambda d: d["comparison"][0].update(speedup="fast"), "speedup.*got 'fast'"),
        (lambda d: d["comparison"][0].update(speedup=-1), "comparison.0.speedup"),
        (lambda d: d["acceptance"][0]["tokens_per_step"].pop(), "one entry a gamma"),
        (lambda d: d.update(surprise=1), "surprise is not known, got 1"),
        (lambda d: d["pair"].update(vocabulary=10**30), "pair.vocabulary.*got 1000"),
        (lambda d: d["settings"].update(gammas=[0, "1"]), "settings.gammas.1.*got '1'"),
        (lambda d: d["acceptance"][0].update(segment=["x"]), "acceptance.0.segment must be text"),
        (lambda d: d["costs"].update(c_hat=1e300), "costs.c_hat"),
    ],
)
def test_damaged_reports_are_refused(report, change, message: str) -> None:  # type: ignore[no-untyped-def]
    data = json.loads(write_report(report))
    change(data)
    with pytest.raises(InputError, match=message):
        read_report(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
def test_what_is_no_report(text: str) -> None:
    with pytest.raises(InputError, match="report"):
        read_report(text)


@pytest.mark.parametrize("after", [1, 9, 20])
def test_stopping_keeps_what_is_done_and_marks_it(after: int) -> None:
    calls = []

    def cancelled() -> bool:
        return len(calls) > after

    found = measure(
        tiny(), PLAN, progress=lambda share, what: calls.append(share), cancelled=cancelled
    )
    assert found.status == "partial"
    assert "stopped" in found.reason
    assert calls == sorted(calls)
    assert calls[-1] <= 1
    assert found.costs is not None
    done = sum(r.texts for r in found.acceptance if r.segment == "all")
    assert 0 <= done < 16
    assert (done > 0) == (after > 5)
    assert read_report(write_report(found)) == found


def test_a_keyboard_interrupt_keeps_what_is_done() -> None:
    def interrupt(share: float, what: str) -> None:
        if share > 0.75:
            raise KeyboardInterrupt

    found = measure(tiny(), PLAN, progress=interrupt)
    assert (found.status, bool(found.acceptance)) == ("partial", True)
    assert "interrupted" in found.reason


def test_out_of_memory_ends_as_partial() -> None:
    class Greedy(TableModel):
        def forward(self, tokens, cache):  # type: ignore[no-untyped-def]
            if self.forwards > 300:
                raise MemoryError
            return super().forward(tokens, cache)

    broken = replace(tiny(), target=Greedy(pair(2)[0].table))
    found = measure(broken, replace(PLAN, timing_rounds=1))
    assert "out of memory" in found.reason


def test_every_check_has_its_words() -> None:
    """And their words hold each of its numbers: those of 1234 are found again."""
    assert measured.CHECKS.keys() == CHECKS.keys()
    for code, names in CHECKS.items():
        values = dict.fromkeys(names, 1234.0)
        check = SelfCheck(level="note", code=code, values=values, gammas=(2, 7))
        said = check_said(check)
        assert said.replace(",", "").count("1234") == len(names), said
        assert ("2, 7" in said) == (code == "greedy differs")
    for unknown in ({"code": "fine"}, {"code": "steps agree"}, {}):
        with pytest.raises(ValueError, match="must be known"):
            SelfCheck(level="note", **unknown)


def test_a_report_of_before_is_said_as_it_stands() -> None:
    """Its checks and bases are sentences; a measurement of now writes the same fields."""
    text = (Path(__file__).parents[1] / "data" / "measurement_report.json").read_text("utf-8")
    old = read_report(text)
    assert [check_said(check) for check in old.checks] == [c.message for c in old.checks]
    assert old.checks[0].message == "Greedy speculative output is identical to plain."
    assert json.loads(text).keys() <= json.loads(write_report(old)).keys()


def test_self_check_names_a_broken_draft() -> None:
    target, _ = pair(2)
    broken = TableModel(-8 * target.table)
    found = measure(tiny(broken), replace(PLAN, temperatures=(0.3,)))
    assert any(
        c.level == "bad" and c.code == "broken draft" and c.values["alpha"] < 0.05
        for c in found.checks
    )


def test_self_check_names_a_tempered_mismatch() -> None:
    """A draft session that samples at another temperature than it claims its q's at: z near 9."""

    class Hot(ModelDraft):
        def session(self, prompt=()):  # type: ignore[no-untyped-def]
            inner = super().session(prompt)
            propose = inner.propose

            def hot(tokens, gamma, sampling, rng, forward):  # type: ignore[no-untyped-def]
                made = propose(tokens, gamma, sampling, rng, forward)
                return replace(
                    made, distributions=[q**3 / sum(q**3) for q in made.distributions or []]
                )

            inner.propose = hot
            return inner

    target, draft = pair(2)
    plan = replace(PLAN, temperatures=(1.0,), output_tokens=200, run_gammas=(4,))
    found = measure(Pair(target, Hot(draft), Letters()), plan)
    (check,) = (c for c in found.checks if c.code == "steps differ")
    assert (check.level, check.values["gamma"]) == ("bad", 4)
    assert abs(check.values["z"]) > 4.5
    assert "different temperatures" in check_said(check)


def test_scenario_of_a_report_opens_in_the_calculator(report) -> None:  # type: ignore[no-untyped-def]
    for form in ("survival", "range"):
        scenario = to_scenario(report, temperature=1.0, acceptance=form)
        assert from_toml(to_toml(scenario)) == scenario
        predicted = predict(scenario)
        assert predicted.walltime_improvement > 0
    table = step_cost(report, temperature=1.0)
    assert table.reach == 2  # γ = 0, 1, 2 and a gap
    scenario = to_scenario(report, temperature=1.0, gamma=2)
    assert predict(scenario).walltime_improvement == pytest.approx(
        next(
            r.tokens_per_step[2] for r in report.acceptance
            if (r.segment, r.temperature) == ("all", 1.0)
        ) / float(table.total(2)),
        rel=1e-6,
    )  # fmt: skip
    scenario = to_scenario(report, segment="x", temperature=1.0, gamma=4)
    row = next(r for r in report.acceptance if (r.segment, r.temperature) == ("x", 1.0))
    assert predict(scenario).scenario.gamma == 4
    assert scenario.rates == pytest.approx(row.survival[3][1:])
    with pytest.raises(InputError, match="no segment 'z'"):
        to_scenario(report, segment="z")
    with pytest.raises(InputError, match="gamma must be one of"):
        to_scenario(report, gamma=3)


def with_loop(report, drafting):  # type: ignore[no-untyped-def]
    """The report with c = 0.1, forwards of v = 1.0 + 0.1γ, and a loop that drafts at `drafting`."""
    exact = {"low": None, "high": None}
    costs = report.costs.model_copy(
        update={
            "c": report.costs.c.model_copy(update={"value": 0.1} | exact),
            "verify": {
                gamma: each.model_copy(update={"value": 1.0 + 0.1 * gamma} | exact)
                for gamma, each in report.costs.verify.items()
            },
        }
    )
    ran = tuple(
        each.model_copy(
            update={
                "verify_cost": 1.0 + 0.1 * each.gamma,
                "overhead": 0.05,
                "draft_cost": drafting(each.gamma) - 0.05,
            }
        )
        for each in report.comparison
    )
    return report.model_copy(update={"costs": costs, "comparison": ran})


@pytest.mark.parametrize("each", [0.06, 0.1, 0.15])
def test_a_report_opens_with_the_speedup_it_replays(report, each: float) -> None:  # type: ignore[no-untyped-def]
    """s(4) = 1.4 + 4d where the loop was run, whether it drafts cheaper or dearer than c, what a
    step spends besides counted in d; γ=3 lies between the measured 2 and 4: v = 1.3; beyond 4
    nothing is predicted."""
    measured = with_loop(report, lambda gamma: each * gamma)
    row = next(r for r in report.acceptance if (r.segment, r.temperature) == ("all", 1.0))
    scenario = to_scenario(measured, temperature=1.0, gamma=4)
    found = predict(scenario)
    assert found.walltime_improvement == pytest.approx(row.tokens_per_step[3] / (1.4 + 4 * each))
    np.testing.assert_allclose(found.curve.verify_cost, [1.0, 1.1, 1.2, 1.3, 1.4])
    assert found.speculation.cost.reach == 4


def test_a_gamma_that_was_not_run_is_charged_what_the_loop_spends_besides(report) -> None:  # type: ignore[no-untyped-def]
    """γ = 1 and 4 were run and spend 0.5 besides: so does γ=2 in the table, 1.2 + 0.2 + 0.5."""
    measured = with_loop(report, lambda gamma: 0.1 * gamma + 0.5)
    assert float(step_cost(measured, temperature=1.0).total(2)) == pytest.approx(1.9)


def test_a_measurement_on_a_gpu_opens_with_its_acceptance_alone(report) -> None:  # type: ignore[no-untyped-def]
    """c and v of an eager run are not a server's: the cited range stands in their place, and no γ
    is chosen from them. A scenario of hardware keeps it, wherever the pair was measured."""
    machine = report.machine.model_copy(update={"accelerator": "Some GPU"})
    row = next(r for r in report.acceptance if (r.segment, r.temperature) == ("all", 1.0))
    scenario = to_scenario(report.model_copy(update={"machine": machine}), temperature=1.0)
    assert scenario.rates == pytest.approx(row.survival[3][1:])  # of γ = 4, the largest
    assert (scenario.draft_form, scenario.gamma, scenario.verify_costs) == ("range", None, ())
    assert scenario.target_ms is None
    assert from_toml(to_toml(scenario)) == scenario
    served = Scenario(
        alpha=0.5, gpu="h100", model="Llama-3.1-8B", draft="Llama-3.2-1B", concurrency=16, gamma=3
    )
    taken = to_scenario(report, temperature=1.0, into=served)
    assert taken.rates == scenario.rates
    for name in ("gpu", "model", "draft", "concurrency", "gamma", "draft_form"):
        assert getattr(taken, name) == getattr(served, name)
    assert predict(taken).walltime_improvement > 0


def test_measured_and_replayed_speed_that_differ_are_said(report) -> None:  # type: ignore[no-untyped-def]
    """Intervals that meet agree; the row whose ends lie furthest apart is named."""
    rows = [row for row in report.comparison if row.overall and row.temperature == 1]
    assert [row.gamma for row in rows] == [1, 4]

    def checked(*between: tuple[float, float]) -> list[SelfCheck]:
        ran, told = [], []
        for row, (low, high) in zip(rows, between, strict=True):
            run = report.run_of(row.part, row.gamma)
            speed = Interval(value=1.0, low=0.9, high=1.1)
            ran.append(run.model_copy(update={"speedup": speed}))
            told.append(row.model_copy(update={
                "speedup": 1.0, "replay_v_low": low, "replay_v_speedup": (low + high) / 2,
                "replay_v_high": high,
            }))  # fmt: skip
        return compare._as_fast(told, ran)

    assert [c.code for c in checked((1.05, 1.4), (0.5, 0.92))] == ["speed agrees"]
    (check,) = checked((1.2, 1.4), (0.3, 0.4))
    assert (check.code, check.level) == ("speed differs", "note")
    assert check.values == pytest.approx(
        {"speedup": 1.0, "predicted": 0.35, "temperature": 1.0, "gamma": 4}
    )
    assert compare._as_fast(rows, []) == []


@pytest.mark.parametrize(
    ("low", "high", "code"),
    [
        # About 0.66: 0.61 to each side are ±92%, 0.36 are ±55%, 0.32 are ±48%; 1.0 ± 0.1 was seen.
        (0.05, 1.27, "speed untold"),
        (0.30, 1.02, "speed untold"),
        (0.34, 0.98, "speed agrees"),
        (0.01, 0.89, "speed differs"),  # ±67%, and yet apart from it
    ],
)
def test_an_interval_that_anything_agrees_with_tells_nothing(report, low, high, code) -> None:  # type: ignore[no-untyped-def]
    row = next(row for row in report.comparison if row.overall and row.temperature == 1)
    run = report.run_of(row.part, row.gamma)
    seen = run.model_copy(update={"speedup": Interval(value=1.0, low=0.9, high=1.1)})
    told = row.model_copy(update={
        "speedup": 1.0, "replay_v_low": low, "replay_v_speedup": 0.66, "replay_v_high": high,
    })  # fmt: skip
    (check,) = compare._as_fast([told], [seen])
    assert check.code == code
    if code == "speed untold":
        assert check.level == "note"
        assert check.values["width"] == pytest.approx((high - low) / 2 / 0.66)
        assert f"is ±{check.values['width']:.0%}" in check_said(check)


def test_several_batches_and_contexts_of_a_pair(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from click.testing import CliRunner

    out = tmp_path / "r.json"
    done = CliRunner().invoke(
        measure_command,
        ["--count", "3", "--tokens", "8", "--gammas", "2", "--temperature", "0", "--rounds", "6",
         "--batch", "1,2", "--context", "16,32", "--out", str(out)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = read_report(out.read_text())
    shapes = [(c.batch, c.context) for c in (found.costs, *found.more_costs)]
    assert shapes == [(1, 16), (1, 32), (2, 16), (2, 32)]
    assert (found.settings.batches, found.settings.contexts) == ((1, 2), (16, 32))
    assert {(t.batch, t.context) for t in found.timings} == set(shapes)
    assert "Batch 2, context 32:" in done.stdout
    assert len(cost_tables(found)) == 4


def test_a_tokenizer_of_other_models_is_one_sentence() -> None:
    class More(Letters):
        def encode(self, text: str) -> list[int]:
            return [*super().encode(text), 4]

    with pytest.raises(InputError, match=r"prompt 1: the tokenizer gives id 4, .* have 4 rows"):
        measure(replace(tiny(), tokenizer=More()), PLAN)


def test_responses_of_the_user_are_replayed_or_refused() -> None:
    rng = np.random.default_rng(0)
    target, _ = pair(2)
    cumulative = np.cumsum(np.exp(target.table) / np.exp(target.table).sum(1, keepdims=True), 1)

    def text(start: int, count: int) -> str:
        out = [start]
        for _ in range(count):
            out.append(int(np.searchsorted(cumulative[out[-1]], rng.random())))
        return "".join("abcd"[i] for i in out[1:])

    plan = replace(PLAN, temperatures=(1.0,), run_gammas=())
    own = tuple(Prompt("a", "x", text(0, 60)) for _ in range(6))
    found = measure(tiny(), replace(plan, prompts=own))
    assert found.acceptance[0].tokens == 360
    foreign = tuple(Prompt("a", "x", "dcba" * 15) for _ in range(6))
    with pytest.raises(InputError, match="not produced by this target"):
        measure(tiny(), replace(plan, prompts=foreign))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": ()}, "at least one prompt, got none"),
        ({"temperatures": ()}, "at least one value"),
        ({"temperatures": (-1.0,)}, "temperature must be .* got -1.0"),
        ({"gammas": (0, 1.5)}, "gamma must be a whole number"),
        ({"run_gammas": (3,)}, r"run_gammas must be among .* got \[3\]"),
        ({"output_tokens": 0}, "output_tokens"),
        ({"top_p": 0.0}, "top_p"),
        ({"batches": (0,)}, "batch must be"),
        ({"contexts": ()}, "batches and contexts"),
    ],
)
def test_bad_plans(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(PLAN, **change)


def test_a_prompt_too_long_is_named_before_anything_runs() -> None:
    long = (*PROMPTS[:2], Prompt("a" * 995))
    pair_ = tiny()
    with pytest.raises(InputError, match=r"prompt 3: .*context of 1000 tokens, got 995"):
        measure(pair_, replace(PLAN, prompts=long))
    assert pair_.target.forwards == 0  # type: ignore[attr-defined]


# ── timing ───────────────────────────────────────────────────────────────────────────────────


def test_costs_are_medians_of_ratios_within_rounds() -> None:
    """A machine that slows down tenfold half-way changes no ratio."""
    drift = np.repeat([1.0, 10.0], 10)
    times = StepTimes((Stretch(1, 64, 4, drift, 0.1 * drift, 1.5 * drift),))
    assert verify_cost(times, 4).value == pytest.approx(1.5)
    assert draft_cost(times).value == pytest.approx(0.1)
    assert draft_cost(times).low == pytest.approx(0.1)
    assert times.find("target", 5, 1, 64).seconds == tuple(1.5 * drift)
    with pytest.raises(InputError, match=r"of 3 tokens .* was not timed"):
        times.find("target", 3, 1, 64)
    with pytest.raises(InputError, match="gamma 2 was not timed"):
        verify_cost(times, 2)
    look_up = StepTimes((Stretch(1, 64, 4, drift, np.zeros(0), 1.5 * drift),))
    assert (draft_cost(look_up).value, draft_cost(look_up).high) == (0, 0)
    assert not [each for each in look_up.forwards if each.model == "draft"]


class Tape(TableModel):
    """Counts time by what was asked: a forward takes 1 s a token read and 10 s besides, a draw
    nothing; reads are free. Notes the widths of its forwards, and how many caches it filled."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__(table)
        self.clock, self.caches = 0.0, 0
        self.widths: list[int] = []

    def compute(self, tokens, cache, last=False):  # type: ignore[no-untyped-def]
        self.clock += 10.0 + tokens.shape[1]
        self.widths.append(tokens.shape[1])
        return super().compute(tokens, cache, last)

    def filled_cache(self, batch, context):  # type: ignore[no-untyped-def]
        self.caches += 1
        return super().filled_cache(batch, context)


def test_forwards_are_timed_in_the_loops_own_order_with_one_cache_a_model() -> None:
    """Plain steps among their like, γ drafts before each verification; v(3) = 14/11, c = 1."""
    target, draft = Tape(pair(2)[0].table), Tape(pair(2)[1].table)
    times = time_steps(
        target, draft, gammas=[1, 3], contexts=[50], rounds=5,
        now=lambda: target.clock + draft.clock,
    )  # fmt: skip
    assert (target.caches, draft.caches) == (1, 1)
    assert target.widths == [1] * 6 + [2] * 6 + [1] * 6 + [4] * 6
    assert draft.widths == [1] * (6 * 1 + 6 * 3)
    assert verify_cost(times, 3).value == pytest.approx(14 / 11)
    assert draft_cost(times).value == pytest.approx(1.0)
    assert [len(each.plain) for each in times.stretches] == [5, 5]


def test_the_clock_starts_after_both_have_read_the_prompt() -> None:
    """A prompt of any length costs the run nothing: its seconds are those of its forwards alone,
    and a draft asks for the logits of the last row only."""
    spans = []
    for length in (1, 900):
        target, draft = Tape(pair(2)[0].table), Tape(pair(2)[1].table)

        def now(target=target, draft=draft) -> float:  # type: ignore[no-untyped-def]
            return target.clock + draft.clock

        read = TableModel.read

        def slow(tokens, cache, model=draft, read=read):  # type: ignore[no-untyped-def]
            model.clock += 1000.0 * tokens.shape[1]
            return read(model, tokens, cache)

        draft.read = slow  # type: ignore[method-assign]
        made = generate(
            target, ModelDraft(draft), [1] * length, gamma=2, limit=12, sampling=Sampling(1),
            rng=np.random.default_rng(0), now=now, parted=True,
        )  # fmt: skip
        assert made.seconds == sum(10.0 + w for model in (target, draft) for w in model.widths)
        assert np.all(made.spans[:, 0] == made.spans[:, 1] + made.spans[:, 2])
        spans.append(made.seconds)
    assert spans[0] == spans[1]


def test_median_interval_covers() -> None:
    """Order statistics: at least 95% of 1,000 samples of 15 skewed values cover the median."""
    rng = np.random.default_rng(2)
    found = [median_interval(rng.exponential(size=15)) for _ in range(1000)]
    assert np.mean([f.low <= np.log(2) <= f.high for f in found]) > 0.94


def test_loop_times_walk_the_text_as_the_replay_does() -> None:
    """As many steps of each γ as the replay of the greedy text says, less the first of the walk."""
    pair_ = builtin_pair()
    tokens = pair_.tokenizer.encode(builtin_prompts()[0].text)
    made = generate(
        pair_.target, None, tokens, gamma=0, limit=30, sampling=Sampling(0),
        rng=np.random.default_rng(0),
    ).tokens  # fmt: skip
    texts, gammas = [(tokens, made)], [1, 4]
    found = time_loop(
        pair_.target, pair_.draft, texts, gammas=gammas, sampling=Sampling(0), places=100
    )
    assert found is not None
    steps = replay_of(pair_.target, pair_.draft, texts, Sampling(0), 4).steps(gammas).mean[0]
    assert [walk.gamma for walk in found.walks] == gammas
    for walk, expected in zip(found.walks, steps, strict=True):
        assert len(walk.plain) == 29  # once before each γ
        assert len(walk.speculative) == pytest.approx(expected - 1)
        assert found.draft_cost(walk.gamma) > 0
        # Draws lie between the forwards: a whole step takes longer than these.
        assert np.all(walk.speculative[:, 0] >= walk.speculative[:, 1:].sum(axis=1))
    short = [(tokens, made[:1])]
    assert (
        time_loop(pair_.target, pair_.draft, short, gammas=[1], sampling=Sampling(0), places=9)
        is None
    )


def test_costs_of_a_loop_by_hand() -> None:
    """Forwards 2 plain, 3 wide, 2 × 0.5 of the draft; draws 1 in a plain step, 2 in another:
    v = 1.5, d = 0.5, s = 6/3 = 2, so nothing besides."""
    plain, ours = np.tile([3.0, 0.0, 2.0], (9, 1)), np.tile([6.0, 1.0, 3.0], (9, 1))
    loop = LoopTimes((Walk(2, plain, ours), Walk(2, 10 * plain, 10 * ours)))
    assert (loop.verify_cost(2), loop.draft_cost(2), loop.step_cost(2)) == pytest.approx(
        (1.5, 0.5, 2)
    )
    assert loop.step_deviation(2) == (0.0, 6), "a machine that slows down slows both"
    assert LoopTimes((Walk(2, plain[:1], ours[:1]),)).step_deviation(2)[0] == np.inf


def test_processor_time_of_a_thread_leaves_waiting_out() -> None:
    """Work that is half sleep takes half as long by that clock; a table model keeps wall time."""
    if sys.platform != "linux":
        pytest.skip("the clock of a thread is used on Linux alone")
    with steady(pair(2)[0]) as clock:
        assert clock is WALL
    with steady(builtin_pair().target) as clock:
        assert clock is THREAD
        begun, wall = clock.now(), time.monotonic()
        time.sleep(0.2)
        assert clock.now() - begun < 0.1 < time.monotonic() - wall
    plan = replace(PLAN, prompts=tuple(builtin_prompts()[:1]), temperatures=(0.0,), timing_rounds=2)
    found = measure(builtin_pair(), plan)
    assert (found.settings.clock, found.machine.threads) == ("thread", 1)
    assert measure(tiny(), replace(PLAN, temperatures=(0.0,))).settings.clock == "wall"
    old = json.loads(write_report(found))
    del old["settings"]["clock"]  # a report of before there was a choice
    assert read_report(json.dumps(old)).settings.clock == "wall"


def test_timing_grid() -> None:
    pair_ = builtin_pair()
    times = time_steps(
        pair_.target, pair_.draft_model, gammas=[1, 3], batches=[1, 2], contexts=[16], rounds=3
    )
    assert not times.left_out
    shapes = {(t.model, t.batch, t.tokens, t.context) for t in times.forwards}
    assert shapes == {
        (m, b, n, 16)
        for b in (1, 2)
        for m, n in (("target", 1), ("target", 2), ("target", 4), ("draft", 1))
    }
    with pytest.raises(InputError, match="context must leave room"):
        time_steps(pair_.target, None, gammas=[1], contexts=[512])


# ── files, tokenizers, drafts ────────────────────────────────────────────────────────────────


@given(st.text(max_size=60))
@settings(max_examples=80)
def test_tokenizer_gives_every_text_back(text: str) -> None:
    tokenizer = ByteBpe.load(builtin_folder() / "target")
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 < i < 512 for i in ids)


def test_tokenizer_difference_names_the_reason() -> None:
    one = {"a": 0, "b": 1, "c": 2}
    assert tokenizer_difference(one, dict(one)) == ""
    assert "2 have another id, such as 'a': 0 against 1" in tokenizer_difference(
        one, {"a": 1, "b": 0, "c": 2}
    )
    assert "1 is in one only, such as 'c'" in tokenizer_difference(one, {"a": 0, "b": 1})


def test_builtin_pair_is_whole() -> None:
    pair_, prompts = builtin_pair(), builtin_prompts()
    assert {p.segment for p in prompts} == {"prose", "code", "json", "grounded"}
    draft = pair_.draft_model
    assert draft is not None
    assert pair_.target.vocabulary == draft.vocabulary == len(pair_.tokenizer.vocabulary)
    assert 1e6 < pair_.target.parameters < 2e6
    size = sum(f.stat().st_size for f in builtin_folder().rglob("*") if f.is_file())
    assert size < 4e6
    assert (builtin_folder() / "README.md").is_file()
    assert (builtin_folder() / "LICENSE-PSF.txt").is_file()


def test_cache_cut_back_gives_the_same_logits() -> None:
    model = NumpyLlama.load(builtin_folder() / "target")
    tokens = np.arange(1, 200)[None]
    whole = model.forward(tokens, model.new_cache())
    cache = model.new_cache()
    model.read(tokens[:, :90], cache)
    model.read(tokens[:, 5:80], cache)  # wrong tokens, forgotten again
    cache.truncate(90)
    parts = [model.forward(tokens[:, i:j], cache) for i, j in ((90, 91), (91, 150), (150, 199))]
    np.testing.assert_allclose(np.concatenate(parts, 1), whole[:, 90:], atol=2e-4)
    twice = model.forward(np.repeat(tokens, 2, 0), model.new_cache(2))
    np.testing.assert_allclose(twice[1], whole[0], atol=2e-4)


def test_damaged_weights_are_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    good = (builtin_folder() / "draft" / "model.safetensors").read_bytes()
    for name, data in {
        "short": good[:-100],
        "tiny": good[:5],
        "empty": b"",
        "header": b"\xff" * 8 + good[8:],
        "json": good[:9] + b"?" + good[10:],
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match="not a whole safetensors file"):
            read_safetensors(tmp_path / name)
    with pytest.raises(InputError, match=r"cannot read config\.json"):
        NumpyLlama.load(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model_type", "gpt2", "model_type llama, got 'gpt2'"),
        ("attention_bias", True, "attention_bias"),
        ("rope_scaling", {"rope_type": "yarn"}, "rope type 'yarn'"),
    ],
)
def test_numpy_engine_refuses_what_it_would_get_wrong(tmp_path, field, value, message) -> None:  # type: ignore[no-untyped-def]
    config = json.loads((builtin_folder() / "draft" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {field: value}))
    with pytest.raises(InputError, match=message):
        NumpyLlama.load(tmp_path)


@pytest.mark.parametrize("skipped", [[], [6], [0, 1, 2, 3, 4, 5], [-1]])
def test_bad_layers_to_skip(skipped: list[int]) -> None:
    with pytest.raises(InputError, match="skipped layer"):
        layer_skip(builtin_pair().target, skipped)


@pytest.mark.parametrize("draft", ["", "nothing", "ngram:x", "ngram:0", "skip:", "skip:a-b"])
def test_bad_draft_of_the_builtin_pair(draft: str) -> None:
    with pytest.raises(InputError):
        load_pair("builtin", draft)


def test_bad_ngram() -> None:
    with pytest.raises(InputError, match="shortest"):
        NgramDraft(longest=2, shortest=3)


def test_prompt_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    def read(name: str, text: str) -> list[Prompt]:
        (tmp_path / name).write_text(text)
        return read_prompts(tmp_path / name)

    assert read("a.txt", "one\ntwo\n\nthree") == [Prompt("one\ntwo"), Prompt("three")]
    assert read("a.jsonl", '"x"\n{"prompt": "y", "segment": "s", "response": "z"}\n') == [
        Prompt("x"),
        Prompt("y", "s", "z"),
    ]
    for text, message in {
        "[]": "at least one prompt, got none",
        "{}": "must be a JSON list",
        "[3]": "prompt 1 must be text or an object",
        '["x", {"text": ""}]': "prompt 2: text must be text",
        '[{"text": "x", "segment": 4}]': "prompt 1: segment",
        "[": "is not JSON",
    }.items():
        with pytest.raises(InputError, match=message):
            read("bad.json", text)
    with pytest.raises(InputError, match="cannot read"):
        read_prompts(tmp_path / "none.json")


def test_prompts_are_spread_over_segments() -> None:
    found = spread([Prompt(f"{s}{n}", s) for s in "ab" for n in range(5)], 4)
    assert [p.text for p in found] == ["a0", "a1", "b0", "b1"]


# ── command line ─────────────────────────────────────────────────────────────────────────────


def test_command_measures_the_builtin_pair(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from click.testing import CliRunner

    out, toml = tmp_path / "r.json", tmp_path / "s.toml"
    done = CliRunner().invoke(
        measure_command,
        ["--count", "4", "--tokens", "16", "--gammas", "1,3", "--temperature", "1", "--rounds", "3",
         "--format", "json", "--out", str(out), "--scenario-out", str(toml)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert {row["gamma"] for row in rows} == {1, 3}
    assert read_report(out.read_text()).settings.gammas == (1, 3)
    assert predict(from_toml(toml.read_text())).walltime_improvement > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gammas", "x"], "--gammas must be whole numbers"),
        (["--draft", "unknown"], "draft of the built-in pair"),
        (["--count", "0"], "count must be"),
        (["--target", "some/folder"], "--draft must name"),
        (["--target", "some/folder", "--draft", "ngram"], "--prompts must name"),
        (["--temperature", "-1"], "temperature must be"),
        (["--timing-only", "--chat"], "--chat has no meaning beside --timing-only"),
        (["--timing-only", "--top-p", "0.9"], "--top-p has no meaning beside --timing-only"),
    ],
)
def test_command_with_bad_input(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure_command.main(arguments, standalone_mode=False)
