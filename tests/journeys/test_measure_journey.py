"""Measure on the built-in pair, take it into the calculator, change γ; cancel; open a report."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from driver import ROOT, Visitor, app_server, arriving, is_said, until
from playwright.sync_api import BrowserContext, FilePayload, Locator, TimeoutError, expect

from specmath.measure.into_scenario import to_scenario
from specmath.measure.report import Report, ReportPart, read_report
from specmath.scenario.files import revised
from specmath.words.measured import headline

pytestmark = pytest.mark.browser

MEASURING = 300e3
"""Milliseconds before a measurement that still runs is given up: they wait for its end, or for
what it says, on however busy a machine."""
FEW = {"Temperatures": "1", "γ": "1,2", "Prompts used": "4", "Tokens a text": "8"}
"""What is measured in a moment."""
MANY = {"Prompts used": "48", "Temperatures": "0,0.2,0.4,0.6,0.8,1"}
"""What is never waited for: it is cancelled or left, however late the browser hears of it."""


def measure_button(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("button", name="Measure", exact=True)


def ask(visitor: Visitor, values: dict[str, str]) -> None:
    """Type the settings and press Measure, until the page has heard of it: whoever moves on before
    that has pressed nothing."""
    page = visitor.page
    for label, value in values.items():
        box = page.get_by_label(label, exact=True)
        box.fill(value)
        box.press("Enter")
        visitor.settle()
    refused = page.get_by_text("another measurement runs on this machine")
    done = page.get_by_role("button", name="JSON", exact=True)
    heard = page.get_by_test_id("stProgress").or_(refused).or_(done)

    def is_heard() -> None:
        assert heard.first.is_visible()

    # Pressed twice it would begin twice: a lost press is told from a slow one late.
    visitor.press(measure_button(visitor), is_heard, again=30.0)


def results(visitor: Visitor) -> Report:
    """Wait for the results; the report behind them, as its download gives it."""
    button = visitor.page.get_by_role("button", name="JSON", exact=True)
    failed = visitor.page.get_by_text(re.compile("the measurement (failed|was stopped)"))
    button.or_(failed).first.wait_for(timeout=MEASURING)
    expect(button).to_be_visible()
    visitor.arrived("measure")
    name, content = visitor.download(button)
    assert name.startswith("specmath-measured-")
    return read_report(content.decode("utf-8"))


def choose_file(visitor: Visitor, label: str, name: str, content: bytes) -> None:
    box = visitor.page.get_by_test_id("stFileUploader").filter(has_text=label)
    payload: FilePayload = {"name": name, "mimeType": "application/json", "buffer": content}
    box.locator("input[type=file]").set_input_files(payload)


def test_measure_then_calculator_then_gamma(first_visitor: Visitor) -> None:
    """On a fresh server, by a link to the page: the first thing that a newcomer may do."""
    visitor, page = first_visitor, first_visitor.page
    visitor.open("measure")
    visitor.says("Try the built-in pair first")
    ask(visitor, FEW)
    # It goes on while another page is read.
    visitor.go_to("cost")
    visitor.go_to("measure")
    report = results(visitor)
    assert report.status == "complete"

    place = ReportPart("all", 1.0)
    row, rows = report.acceptance_of(place), report.comparison_of(place)
    outcome, _ = headline(report, place)
    visitor.says(outcome)
    expect(page.get_by_text(report.machine.processor)).to_be_visible()
    speedup, alphas, survival, gaps = visitor.figures()
    assert speedup["Measured, 95%"] == {"x": [1, 2], "y": [each.speedup for each in rows]}
    assert row.alpha.value in alphas["T=1, 95%"]["x"]
    run = report.run_of(place, 2)
    assert run is not None
    assert survival["Measured, 95%"]["y"] == [each.value for each in run.survival]
    plain = report.run_of(place, 0)
    assert plain is not None
    total = sum(plain.gap_counts) + plain.gaps_beyond
    assert gaps["Plain decoding"]["y"] == pytest.approx([n / total for n in plain.gap_counts])
    assert f"{rows[0].speedup:.2f}×" in visitor.table("Run")["1"][0]

    use = page.get_by_role("button", name="Use in the calculator")
    visitor.press(use, lambda: visitor.is_at("what_if"))
    visitor.arrived("what_if")
    wanted = to_scenario(report, temperature=1.0)
    is_said(visitor, wanted)
    rates = page.get_by_role("textbox", name="Rates, first position first")
    assert [float(rate) for rate in rates.input_value().split(",")] == pytest.approx(wanted.rates)
    before = visitor.prediction()
    visitor.type_number("Drafted γ, typed", "1")
    is_said(visitor, revised(wanted, {"gamma": 1}))
    after = visitor.prediction()
    if wanted.gamma != 1:
        assert after.tokens_per_step < before.tokens_per_step
    assert after.tokens_per_step == pytest.approx(1 + wanted.rates[0])

    # The measurement is still there, and its own file opens again.
    visitor.go_to("measure")
    visitor.says(outcome)


def test_a_page_loaded_anew_loses_nothing(visitor: Visitor) -> None:
    """F5 while it measures, F5 at the report, then the address in a tab of its own: the settings,
    the measurement and its report stay."""
    page = visitor.page
    visitor.open("measure")
    asked = FEW | {"Temperatures": "0.5"}
    ask(visitor, asked)
    until(lambda: _has_key(visitor))
    address = page.url
    page.reload()
    report = results(visitor)
    assert report.status == "complete"
    assert {row.temperature for row in report.acceptance} == {0.5}
    page.reload()
    assert results(visitor) == report
    visitor.unfold("What to measure")
    expect(page.get_by_label("Temperatures", exact=True)).to_have_value("0.5")
    # A handed-on file shows the same.
    name, content = visitor.download(page.get_by_role("button", name="HTML", exact=True))
    assert name.endswith(".html")
    assert report.machine.processor.encode() in content
    page.goto(f"{address}x")
    visitor.says("is not kept by this server any more")


def _has_key(visitor: Visitor) -> None:
    assert "measurement=" in visitor.page.evaluate("location.search")


@pytest.mark.slow
def test_cancel_keeps_and_marks_what_is_done(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open("measure")
    ask(visitor, MANY | {"γ": "1,2"})
    progress = page.get_by_test_id("stProgress")
    expect(progress).to_contain_text(re.compile(r"prompt (?!1\b)\d"), timeout=MEASURING)
    page.get_by_role("button", name="Cancel").click()
    report = results(visitor)
    assert report.status == "partial"
    visitor.says("Partial: stopped half-way at the user's request")
    assert report.acceptance
    assert {row.temperature for row in report.acceptance} < {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}
    assert len(visitor.figures()) >= 2


@pytest.mark.slow
def test_a_closed_tab_stops_its_measurement(
    context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server that waits 2 s instead of 30 for a tab that is gone."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import pages.ui.measure_job as job; job.PATIENCE_SECONDS = 2.0\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with app_server(tmp_path / "log.txt") as address, arriving(context, address) as visitor:
        visitor.open("measure")
        with arriving(context, address) as gone:
            gone.open("measure")
            ask(gone, MANY)
            progress = gone.page.get_by_test_id("stProgress")
            expect(progress).to_contain_text("prompt", timeout=MEASURING)
            ask(visitor, MANY)
            visitor.says("another measurement runs on this machine")
        # The processor is free again once the first has ended, and then this one starts.
        begun = visitor.page.get_by_test_id("stProgress").filter(has_text="prompt")
        limit = time.monotonic() + MEASURING / 1e3
        while not begun.is_visible():
            assert time.monotonic() < limit, "the first measurement goes on"
            with suppress(TimeoutError):  # the button is folded away while a measurement runs
                measure_button(visitor).click(timeout=5e3)
            visitor.page.wait_for_timeout(300)


@pytest.mark.slow
def test_a_damaged_report_gives_one_message_and_changes_nothing(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open("measure")
    ask(visitor, FEW | {"Temperatures": "0"})
    report = results(visitor)
    outcome, _ = headline(report, ReportPart("all", 0.0))
    visitor.unfold("What to measure")
    data = report.model_dump(mode="json")
    data["acceptance"][0]["alpha"]["value"] = 7
    for name, content, said in (
        ("hurt.json", json.dumps(data).encode(), "damaged report"),
        ("old.json", b'{"schema_version": "0"}', "another version of specmath"),
        ("cut.json", json.dumps(data).encode()[:500], "report is not JSON"),
    ):
        choose_file(visitor, "Open an earlier report", name, content)
        until(lambda name=name, said=said: _is_said_of(visitor, name, said))
        visitor.says(outcome)
    choose_file(visitor, "Open an earlier report", "long.json", b" " * 5_300_000)
    expect(page.get_by_text("File must be 5.0MB or smaller.")).to_be_visible()
    visitor.says(outcome)
    later = report.model_copy(update={"created": "2031-05-06T07:08:09+00:00"})
    choose_file(visitor, "Open an earlier report", "own.json", later.model_dump_json().encode())
    expect(page.get_by_text("2031-05-06")).to_be_visible()
    visitor.settle()
    until(lambda: _says_nothing_of_files(visitor))


def _is_said_of(visitor: Visitor, name: str, said: str) -> None:
    assert [said in message for message in visitor.messages() if name in message] == [True]


def _says_nothing_of_files(visitor: Visitor) -> None:
    assert not any(".json" in message for message in visitor.messages())


@pytest.mark.slow
def test_a_first_measurement_shows_time_left_and_ends(visitor: Visitor) -> None:
    """With nothing set: what the page promises to take about a minute on a quiet machine."""
    visitor.open("measure")
    begun = time.monotonic()
    ask(visitor, {})
    expect(visitor.page.get_by_test_id("stProgress")).to_contain_text("left", timeout=MEASURING)
    report = results(visitor)
    print(f"first measurement: {report.seconds:.1f} s, {time.monotonic() - begun:.1f} s in all")
    segments = {row.segment for row in report.acceptance}
    assert segments == {"all", "prose", "code", "json", "grounded"}
    until(lambda: len(visitor.figures()) == 4)
