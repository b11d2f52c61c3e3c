"""What is done of a measurement outlives its end: checkpoints, signals, saved files read again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from test_measurement import PLAN, tiny

from specmath.charts.measured_page import measured_page
from specmath.checks import InputError
from specmath.cli import cli, terminal
from specmath.measure import run
from specmath.measure.checkpoint import Checkpoint
from specmath.measure.merge import merged
from specmath.measure.report import Interval, Report, read_report, write_report
from specmath.measure.run import Hurried, measure
from specmath.measure.score import replay_of
from specmath.measure.speculate import generate

ROOT = Path(__file__).parents[2]
GREEDY = replace(PLAN, temperatures=(0.0, 1.0))


def counted(found: Report) -> dict[Any, tuple[int, int, float]]:
    """What does not depend on the clock."""
    return {(r.part, r.gamma): (r.tokens, r.steps, r.z) for r in found.comparison}


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", [2, pytest.param(14, marks=pytest.mark.slow), 30])
def test_a_measurement_goes_on_from_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Stopped by an interrupt, then asked for again: what was run is not run again, and the whole
    is that of one that was never stopped."""
    path, calls = tmp_path / "c", [0]

    def interrupt(share: float, what: str) -> None:
        calls[0] += 1
        if calls[0] > after:
            raise KeyboardInterrupt

    pair = tiny()
    stopped = measure(pair, GREEDY, interrupt, checkpoint=Checkpoint(path, pair, GREEDY))
    assert stopped.status == "partial"
    kept = Checkpoint(path, pair, GREEDY)
    assert 0 < kept.resumed < GREEDY.units
    assert kept.times is not None
    generated: list[int] = []

    def counting(*given: Any, **named: Any) -> Any:
        generated.append(1)
        return generate(*given, **named)

    monkeypatch.setattr(run, "generate", counting)
    found = measure(tiny(), GREEDY, checkpoint=kept)
    assert len(generated) == GREEDY.units - kept.resumed
    whole = measure(tiny(), GREEDY)
    assert found.status == "complete"
    assert counted(found) == counted(whole)
    assert found.acceptance == whole.acceptance
    (check,) = (c for c in found.checks if c.code == "resumed")
    assert check.values == {"runs": kept.resumed}


def test_who_is_hurried_scores_nothing_more_than_the_acceptance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A supervisor kills ten seconds after it asked: one scoring pass a text, no timing."""
    scored: list[int] = []

    def counting(target: Any, draft: Any, texts: Any, *given: Any) -> Any:
        scored.append(len(texts))
        return replay_of(target, draft, texts, *given)

    def hurry(share: float, what: str) -> None:
        if "prompt 4" in what:
            raise Hurried

    monkeypatch.setattr(run, "replay_of", counting)
    monkeypatch.setattr(run, "time_loop", None)
    found = measure(tiny(), PLAN, hurry)
    assert (found.status, scored) == ("partial", [3])
    assert [row.texts for row in found.acceptance if row.overall] == [3]
    assert found.comparison == ()


def test_a_whole_checkpoint_generates_nothing(tmp_path: Path) -> None:
    path, pair = tmp_path / "c", tiny()
    first = measure(pair, GREEDY, checkpoint=Checkpoint(path, pair, GREEDY))
    kept = Checkpoint(path, pair, GREEDY)
    assert kept.resumed == GREEDY.units
    runs = {(r.part, r.gamma): r.speedup for r in first.runs}
    second = measure(pair, GREEDY, checkpoint=kept)
    assert {(r.part, r.gamma): r.speedup for r in second.runs} == runs


@pytest.mark.parametrize(
    ("change", "said"),
    [({"output_tokens": 13}, "output_tokens was 12, now 13"), ({"seed": 4}, "seed was 0, now 4"),
     ({"prompts": PLAN.prompts[:3]}, "prompts was")],
)  # fmt: skip
def test_a_checkpoint_of_another_measurement_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path, pair = tmp_path / "c", tiny()
    Checkpoint(path, pair, GREEDY).write()
    with pytest.raises(InputError, match=said):
        Checkpoint(path, pair, replace(GREEDY, **change))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"specmath_checkpoint": "2"}', "[" * 100_000, '{"runs": [1]}']
)
def test_what_is_no_checkpoint_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "c").write_text(content)
    with pytest.raises(InputError) as caught:
        Checkpoint(tmp_path / "c", tiny(), GREEDY)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    pair = tiny()
    kept = Checkpoint(tmp_path / "none" / "c", pair, GREEDY)
    assert measure(pair, GREEDY, checkpoint=kept).status == "complete"
    assert "cannot write" in kept.fault


# ── signals and progress, in processes of their own ──────────────────────────────────────────

LONG = ["--count", "4", "--tokens", "48", "--gammas", "1,2", "--temperature", "1", "--rounds", "3"]


def started(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[str]:
    def heeds_hangup() -> None:  # tests that nohup runs hand on that it is to be ignored
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-m", "specmath", "measure", "--out", "r.json", *arguments], cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True, preexec_fn=heeds_hangup,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.slow)])
def test_a_signal_keeps_what_is_done_and_the_command_goes_on(tmp_path: Path, name: str) -> None:
    checkpoint, number = tmp_path / "r.json.checkpoint", getattr(signal, name)
    process = started(tmp_path, LONG)
    limit = time.monotonic() + 120
    while not checkpoint.exists():  # the timed forwards are the first thing kept
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.02)
    process.send_signal(number)
    process.send_signal(number)  # a manager of services repeats it
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    assert "Partial: interrupted half-way" in out
    assert "the same command goes on" in err
    assert read_report((tmp_path / "r.json").read_text()).status == "partial"

    again = started(tmp_path, LONG)
    out, err = again.communicate(timeout=240)
    assert (again.returncode, "Going on from" in err) == (0, True), err
    assert read_report((tmp_path / "r.json").read_text()).status == "complete"
    assert not checkpoint.exists()


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    for second in range(31):
        clock[0] = float(second)
        terminal.progress(f" {second}% prompt")
    terminal.progress_ended()
    assert capsys.readouterr().err == "11% prompt\n22% prompt\n"

    class Gone:
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

        def flush(self) -> None: ...

    monkeypatch.setattr(sys, "stderr", Gone())
    terminal.progress("a terminal that was closed ends no work")


def test_output_paths_are_checked_before_the_work(tmp_path: Path) -> None:
    out = tmp_path / "none" / "r.json"
    begun = time.monotonic()
    found = CliRunner().invoke(cli, ["measure", "--tokens", "400", "--out", str(out)])
    assert isinstance(found.exception, InputError)
    assert "cannot write" in str(found.exception)
    assert time.monotonic() - begun < 5


# ── read again, merged ───────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def two() -> tuple[Report, Report]:
    """The same prompts with two seeds: the greedy texts are the same, the others are not."""
    return measure(tiny(), PLAN), measure(tiny(), replace(PLAN, seed=9))


def test_merging_one_report_changes_nothing(two: tuple[Report, Report]) -> None:
    assert merged([two[0]]) == two[0]
    assert merged([two[0], two[0]]) == two[0]


def test_merged_acceptance_is_that_of_all_texts(two: tuple[Report, Report]) -> None:
    found = merged(two)
    assert read_report(write_report(found)) == found
    for row in found.acceptance:
        own = [r.acceptance_of(row.part) for r in two]
        if row.temperature == 0:
            assert row == own[0], "the same texts twice tell nothing new"
            continue
        assert row.tokens == sum(r.tokens for r in own)
        alphas = np.repeat([r.alpha.value for r in own], [r.tokens for r in own])
        assert row.alpha.value == pytest.approx(alphas.mean())
        assert row.alpha.low < row.alpha.value < row.alpha.high
        for n, gamma in enumerate(found.settings.gammas):
            steps = sum(r.tokens / r.tokens_per_step[n] for r in own)
            assert row.tokens_per_step[n] == pytest.approx(row.tokens / steps)
            assert sum(row.survival[n]) == pytest.approx(row.tokens_per_step[n])
            assert len(row.survival[n]) == gamma + 1


def test_merged_interval_is_over_prompts_not_over_reports(two: tuple[Report, Report]) -> None:
    """Eight prompts, each asked twice: 7 degrees of freedom, and the ratio estimator by hand."""
    row = merged(two).acceptance_of(two[0].acceptance[-1].part._replace(segment="all"))
    sums, sizes = np.zeros(8), np.zeros(8)
    for text in row.requests:
        assert text.prompt is not None
        sums[text.prompt] += text.alpha * text.tokens
        sizes[text.prompt] += text.tokens
    away = sums - sums.sum() / sizes.sum() * sizes
    half = 2.364624 * np.sqrt(8 / 7 * (away**2).sum()) / sizes.sum()
    assert row.alpha.high - row.alpha.value == pytest.approx(half, rel=1e-5)


def test_merged_speed_lies_between_and_is_surer(two: tuple[Report, Report]) -> None:
    found = merged(two)
    assert found.comparison
    for row in found.comparison:
        own = [r for each in two for r in each.comparison_of(row.part) if r.gamma == row.gamma]
        ends = [r.speedup for r in own]
        assert min(ends) <= row.speedup <= max(ends)
        assert (row.tokens, row.steps) == (sum(r.tokens for r in own), sum(r.steps for r in own))
        run = found.run_of(row.part, row.gamma)
        assert run is not None
        assert run.speedup is not None
        widths = [
            np.log(r.speedup.high / r.speedup.low) for each in two
            if (r := each.run_of(row.part, row.gamma)) and r.speedup
        ]  # fmt: skip
        assert np.log(run.speedup.high / run.speedup.low) < max(widths)


def test_what_cannot_be_merged_is_named(two: tuple[Report, Report]) -> None:
    other = two[1].model_copy(update={"pair": two[1].pair.model_copy(update={"draft": "another"})})
    with pytest.raises(InputError, match="draft differs: table and another"):
        merged([two[0], other])


def test_show_reads_merges_and_writes(tmp_path: Path, two: tuple[Report, Report]) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, report in zip(paths, two, strict=True):
        path.write_text(write_report(report))
    out, page = tmp_path / "m.json", tmp_path / "m.html"
    done = CliRunner().invoke(
        cli, ["measure", "show", *map(str, paths), "--out", str(out), "--html", str(page),
              "--csv", str(tmp_path / "m.csv"), "--scenario-out", str(tmp_path / "m.toml")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "table with table" in done.stdout
    assert read_report(out.read_text()) == merged(two)
    assert json.loads(
        CliRunner().invoke(cli, ["measure", "show", str(out), "--format", "json"]).stdout
    )
    nothing = two[0].model_copy(
        update={"status": "partial", "acceptance": (), "comparison": (), "runs": (), "costs": None}
    )
    (tmp_path / "none.json").write_text(write_report(nothing))
    for style, printed in (("csv", ""), ("json", "[]\n")):
        given = ["measure", "show", str(tmp_path / "none.json"), "--format", style]
        assert CliRunner().invoke(cli, given).stdout == printed
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    found = CliRunner().invoke(cli, ["measure", "show", str(broken)])
    assert isinstance(found.exception, InputError)
    assert "broken.json: not a measurement report" in str(found.exception)
    # The page may be written again, another file may not be lost to it.
    again = CliRunner().invoke(cli, ["measure", "show", str(out), "--html", str(page)])
    assert again.exit_code == 0
    other = CliRunner().invoke(cli, ["measure", "show", str(out), "--html", str(paths[0])])
    assert "--force replaces it" in str(other.exception)


def test_the_page_needs_no_network_and_obeys_no_text(two: tuple[Report, Report]) -> None:
    rude = "<script>alert(1)</script>"
    pair = two[0].pair.model_copy(update={"target": rude, "draft": '"><img src=x>'})
    page = measured_page(two[0].model_copy(update={"pair": pair}))
    own = page.replace(page[page.index("/**\n* plotly.js") : page.index("</script>")], "", 1)
    assert rude not in page
    assert "<img" not in own
    assert not [tag for tag in ("<link", 'src="http', "@import", "url(http") if tag in own]
    for text in ("At T=1", "Costs of forwards at batch 1, context 128", "Acceptance by segment"):
        assert text in page


# ── predictions with their intervals ─────────────────────────────────────────────────────────


def test_predictions_by_replay_carry_intervals(two: tuple[Report, Report]) -> None:
    for row in two[0].comparison:
        assert row.replay_v_low is not None
        assert row.replay_v_high is not None
        assert row.replay_v_low <= row.replay_v_speedup <= row.replay_v_high
    for acceptance in two[0].acceptance:
        assert len(acceptance.tokens_per_step_between) == len(two[0].settings.gammas)
        for value, between in zip(
            acceptance.tokens_per_step, acceptance.tokens_per_step_between, strict=True
        ):
            assert between.value == pytest.approx(value)
    few = measure(tiny(), replace(PLAN, prompts=PLAN.prompts[:2], temperatures=(1.0,)))
    assert {row.replay_v_low for row in few.comparison} == {None}
    assert isinstance(few.acceptance[0].alpha, Interval)
