"""A whole measurement on a tiny pair: report, partial results, checks, conversion, bad input."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, pair

from specmath.checks import InputError
from specmath.cli.measure import measure_command
from specmath.measure.clock import THREAD, WALL, steady
from specmath.measure.drafts import ModelDraft, NgramDraft, layer_skip
from specmath.measure.files import read_report, report_csv, write_report
from specmath.measure.llama import NumpyLlama, read_safetensors
from specmath.measure.looptime import time_loop
from specmath.measure.pairs import Pair, builtin_folder, builtin_pair, builtin_prompts, load_pair
from specmath.measure.plan import Plan
from specmath.measure.prompts import Prompt, read_prompts, spread
from specmath.measure.run import measure
from specmath.measure.sampling import Sampling
from specmath.measure.score import replay_of
from specmath.measure.speculate import generate
from specmath.measure.timing import (
    StepTimes,
    TimedForward,
    calibration_rows,
    draft_cost,
    median_interval,
    time_steps,
    verify_cost,
)
from specmath.measure.to_scenario import step_cost, to_scenario
from specmath.measure.tokenizer import ByteBpe, tokenizer_difference
from specmath.predict import predict
from specmath.scenario.files import from_toml, to_toml
from specmath.steptime.calibration import calibrate


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
    lines = report_csv(report).splitlines()
    assert len(lines) == 1 + len(report.comparison)
    assert "replay_v_error" in lines[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema_version="99"), r"schema_version must be '1', got '99'"),
        (lambda d: d.pop("schema_version"), "no schema_version"),
        (lambda d: d.pop("machine"), "machine: Field required"),
        (
            lambda d: d["acceptance"][0]["alpha"].update(value=2.0),
            "acceptance.0.alpha: low <= value",
        ),
        (lambda d: d["comparison"][0].update(speedup="fast"), "speedup.*got 'fast'"),
        (lambda d: d["comparison"][0].update(speedup=-1), "comparison.0.speedup"),
        (lambda d: d["acceptance"][0]["tokens_per_step"].pop(), "one entry a gamma"),
        (lambda d: d.update(surprise=1), "surprise: Extra inputs"),
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


def test_self_check_names_a_broken_draft() -> None:
    target, _ = pair(2)
    broken = TableModel(-8 * target.table)
    found = measure(tiny(broken), replace(PLAN, temperatures=(0.3,)))
    assert any(c.level == "bad" and "looks broken" in c.message for c in found.checks)


def test_self_check_names_a_tempered_mismatch() -> None:
    """A draft session that samples at another temperature than it claims its q's at."""

    class Hot(ModelDraft):
        def session(self):  # type: ignore[no-untyped-def]
            inner = super().session()
            propose = inner.propose

            def hot(tokens, gamma, sampling, rng):  # type: ignore[no-untyped-def]
                made = propose(tokens, gamma, sampling, rng)
                return replace(
                    made, distributions=[q**3 / sum(q**3) for q in made.distributions or []]
                )

            inner.propose = hot
            return inner

    target, draft = pair(2)
    plan = replace(PLAN, temperatures=(1.0,), output_tokens=200, samples=4)
    found = measure(Pair(target, Hot(draft), Letters()), plan)
    assert any(c.level == "bad" and "different temperatures" in c.message for c in found.checks)


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
            update={"verify_cost": 1.0 + 0.1 * each.gamma, "draft_cost": drafting(each.gamma)}
        )
        for each in report.comparison
    )
    return report.model_copy(update={"costs": costs, "comparison": ran})


@pytest.mark.parametrize("each", [0.06, 0.1, 0.15])
def test_a_report_opens_with_the_speedup_it_replays(report, each: float) -> None:  # type: ignore[no-untyped-def]
    """s(4) = 1.4 + 4d where the loop was run, whether it drafts cheaper or dearer than c; γ=3 lies
    between the measured 2 and 4: v = 1.3; beyond 4 nothing is predicted."""
    measured = with_loop(report, lambda gamma: each * gamma)
    row = next(r for r in report.acceptance if (r.segment, r.temperature) == ("all", 1.0))
    scenario = to_scenario(measured, temperature=1.0, gamma=4)
    found = predict(scenario)
    assert found.walltime_improvement == pytest.approx(row.tokens_per_step[3] / (1.4 + 4 * each))
    np.testing.assert_allclose(found.curve.verify_cost, [1.0, 1.1, 1.2, 1.3, 1.4])
    assert found.halves.cost.reach == 4


def test_a_gamma_that_was_not_run_is_charged_what_the_loop_spends_besides(report) -> None:  # type: ignore[no-untyped-def]
    """γ = 1 and 4 were run and spend 0.5 besides: so does γ=2 in the table, 1.2 + 0.2 + 0.5."""
    measured = with_loop(report, lambda gamma: 0.1 * gamma + 0.5)
    assert float(step_cost(measured, temperature=1.0).total(2)) == pytest.approx(1.9)


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
    times = StepTimes(
        (
            TimedForward("target", 1, 1, 64, tuple(drift)),
            TimedForward("target", 1, 5, 64, tuple(1.5 * drift)),
            TimedForward("draft", 1, 1, 64, tuple(0.1 * drift)),
        )
    )
    assert verify_cost(times, 4).value == pytest.approx(1.5)
    assert draft_cost(times).value == pytest.approx(0.1)
    assert draft_cost(times).low == pytest.approx(0.1)
    with pytest.raises(InputError, match=r"of 3 tokens .* was not timed"):
        verify_cost(times, 2)


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
    assert found.plain.size == 2 * 29  # once before each γ
    for gamma, expected in zip(gammas, steps, strict=True):
        assert found.verifying[gamma].size == pytest.approx(expected - 1)
        assert found.draft_cost(gamma) > 0
    short = [(tokens, made[:1])]
    assert (
        time_loop(pair_.target, pair_.draft, short, gammas=[1], sampling=Sampling(0), places=9)
        is None
    )


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


def test_timing_grid_and_calibration_rows() -> None:
    pair_ = builtin_pair()
    times = time_steps(
        pair_.target, pair_.draft_model, gammas=[1, 3], batches=[1, 2], contexts=[16], rounds=3
    )
    assert times.complete
    shapes = {(t.model, t.batch, t.tokens, t.context) for t in times.forwards}
    assert shapes == {
        (m, b, n, 16)
        for b in (1, 2)
        for m, n in (("target", 1), ("target", 2), ("target", 4), ("draft", 1))
    }
    rows = calibration_rows(times, pair_.target, "H100 SXM")
    assert len(rows) == 6
    fit = calibrate(rows)["H100 SXM"]  # nonsense as a GPU, but rows as it wants them
    assert fit.rows == 6
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
    assert "1 are in one only, such as 'c'" in tokenizer_difference(one, {"a": 0, "b": 1})


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
    ],
)
def test_command_with_bad_input(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure_command.main(arguments, standalone_mode=False)
