"""What a person does with the app in a browser: a server, a visitor, and how they read a page."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from playwright.sync_api import BrowserContext, Download, Locator, TimeoutError, expect

from pages.ui.navigation import PAGES
from specmath.predict import Prediction, predict
from specmath.scenario import EXAMPLE, Scenario
from specmath.scenario.files import from_link, to_link

ROOT = Path(__file__).parents[2]
EVIDENCE = {page.stem for page in PAGES if page.own_inputs}
"""Pages where the scenario bar is folded away."""
QUESTIONS = {page.stem: page.question for page in PAGES}
GAMMA = "Drafted γ, typed"
ANSWER = "[data-testid=stAlert]"
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
PATIENCE = float(os.environ.get("SPECMATH_PATIENCE", "60"))
"""Seconds before what a page should come to is called missing. Every wait is for a condition and
ends with it: this much passes only where something is wrong, however busy the machine."""
AGAIN = 6.0
"""Seconds before a lost press of a button is repeated."""
expect.set_options(timeout=PATIENCE * 1e3)

# A dialog that flashes and goes is noticed too.
WATCH_DIALOGS = """
window.dialogsSeen = [];
new MutationObserver(() => document.querySelectorAll('[role=dialog]').forEach(
    box => window.dialogsSeen.push(box.innerText)
)).observe(document, {childList: true, subtree: true});
"""
# Streamlit itself asks for these below a deep link first, gets 404 and then asks at the root.
OWN_PROBES = re.compile(r"/\w+/_stcore/(health|host-config)$")

FIGURES = """
[...document.querySelectorAll('.js-plotly-plot')].map(plot => plot._fullData.map(
    trace => [trace.name, {x: Array.from(trace.x || []), y: Array.from(trace.y || [])}]
))
"""


@contextmanager
def app_server(log: Path) -> Iterator[str]:
    """A real server of the app, which nobody has visited yet; its address. Ends without errors."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    command += ["--server.headless=true", "--server.fileWatcherType=none"]
    with (
        log.open("wb") as out,
        subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT) as server,
    ):
        try:
            _wait_for(server, f"http://127.0.0.1:{port}/_stcore/health", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
    assert "Traceback" not in log.read_text("utf-8"), log.read_text("utf-8")


def _wait_for(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    limit = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < limit:
        try:
            urllib.request.urlopen(address, timeout=PATIENCE).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text('utf-8')}")


def until(check: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Call `check` until it holds; its result. The page runs in its own time."""
    limit = time.monotonic() + patience
    while True:
        try:
            return check()
        except (AssertionError, LookupError):
            if time.monotonic() > limit:
                raise
            time.sleep(0.05)


def shows(text: str, value: float) -> bool:
    """Whether a printed number ("$12.5", "−55%", "18.0 ms") is `value` rounded to its digits."""
    found = re.search(r"([-−+]?)\$?(\d[\d,]*(?:\.(\d+))?)", text)
    assert found, text
    number = float(found[2].replace(",", "")) * (-1 if found[1] in ("-", "−") else 1)
    return abs(number - value) <= 0.5000001 * 10.0 ** -len(found[3] or "")


class Visitor:
    """One tab of the browser, and everything that went wrong in it."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE * 1e3)
        self.page.add_init_script(WATCH_DIALOGS)
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("console", self._hear)
        self.page.on("request", lambda request: self._check_address(request.url))
        self.page.on("websocket", lambda socket: self._check_address(socket.url))
        self.files: list[Download] = []
        self.page.on("download", lambda file: self.files.append(file))

    def _hear(self, message: Any) -> None:
        probe = OWN_PROBES.search(message.location.get("url", "")) and "404" in message.text
        if message.type == "error" and not probe:
            self.troubles.append(f"console: {message.text} ({message.location.get('url')})")

    def _check_address(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in (
            "127.0.0.1",
            "localhost",
        ):
            self.troubles.append(f"request left the machine: {url}")

    def leave(self) -> None:
        """Close the tab; AssertionError if an error or an exception box was seen."""
        boxes = self.page.locator("[data-testid=stException]").all_inner_texts()
        self.page.close()
        assert self.troubles == []
        assert boxes == []

    # ── moving about ─────────────────────────────────────────────────────────────────────────

    def open(self, stem: str = "", **link: str) -> None:
        """Type an address: a page's own, or the bare one, with the scenario of a link."""
        query = f"?{urlencode(link)}" if link else ""
        self.page.goto(f"{self.address}/{stem}{query}")
        self.arrived(stem or "what_if")

    def arrived(self, stem: str) -> None:
        """Wait for the page to stand: its charts drawn, its boxes filled."""
        until(lambda: self.is_at(stem))
        self.settle()
        until(self._is_drawn)

    def is_at(self, stem: str) -> None:
        title = self.page.get_by_role("heading", name=QUESTIONS[stem], level=2, exact=True)
        assert title.is_visible(), QUESTIONS[stem]

    def _is_drawn(self) -> None:
        assert self.page.get_by_test_id("stSkeleton").count() == 0
        charts = self.page.get_by_test_id("stPlotlyChart")
        drawn = charts.filter(has=self.page.locator(".js-plotly-plot .main-svg"))
        assert drawn.count() == charts.count()
        # For a moment after they appear, widgets show their lowest value instead of their own.
        gamma = self.scenario().gamma
        if self.box(GAMMA).count() == 0:  # evidence pages keep the scenario collapsed
            return
        assert self.box(GAMMA).input_value() == ("" if gamma is None else str(gamma))
        if gamma is not None:
            slider = self.page.get_by_role("slider", name="Drafted γ")
            assert slider.input_value() == str(gamma)

    def settle(self) -> None:
        """Wait for the script to be at rest."""
        self.page.locator("[data-test-script-state=notRunning]").wait_for()

    def open_example(self) -> None:
        """The first page at the example of two times."""
        self.open("what_if", **to_link(EXAMPLE))

    def start_from(self, door: str) -> None:
        """Press what the scenario is to start from."""
        self.page.get_by_role("radio", name=door, exact=True).click()

    def go_to(self, stem: str) -> None:
        """Click a page in the navigation."""
        link = self.page.get_by_test_id("stSidebarNavLink").filter(has_text=QUESTIONS[stem])
        self.press(link, lambda: self.is_at(stem))
        self.arrived(stem)

    def dialogs_seen(self) -> list[str]:
        return self.page.evaluate("window.dialogsSeen")

    # ── using widgets ────────────────────────────────────────────────────────────────────────

    def box(self, label: str) -> Locator:
        return self.page.get_by_role("spinbutton", name=label, exact=True)

    def type_number(self, label: str, value: str) -> None:
        self.box(label).fill(value)
        self.box(label).press("Enter")

    def choose(self, label: str, option: str) -> None:
        """Open a box until its options stand, and one is taken: what a page draws late closes it
        again, before it is looked at or before it is pressed."""
        found = self.page.get_by_role("option", name=option, exact=True)

        def stands() -> None:
            assert found.is_visible()

        limit = time.monotonic() + PATIENCE
        while True:
            self.press(self.page.get_by_role("combobox", name=label, exact=True), stands)
            try:
                found.click(timeout=3000)
                return
            except TimeoutError:
                if time.monotonic() > limit:
                    raise

    def type_choice(self, label: str, text: str) -> None:
        """Type into a select box that takes more than its options."""
        box = self.page.get_by_role("combobox", name=label, exact=True)
        box.click()
        box.fill(text)
        box.press("Enter")

    def paste(self, label: str, text: str) -> None:
        """Replace what a text box holds, as with the clipboard, and leave the box."""
        box = self.page.get_by_role("textbox", name=label)
        box.click()
        box.press("Control+A")
        self.page.keyboard.insert_text(text)
        box.blur()

    def unfold(self, title: str) -> Locator:
        """Open a closed expander; its box."""
        box = self.page.get_by_test_id("stExpander").filter(has_text=title)
        box.locator("summary").click()
        return box

    def press(self, button: Locator, done: Callable[[], Any], again: float = AGAIN) -> Any:
        """Press until `done` holds. Where it does not for `again` seconds, the press fell on a page
        that was just drawn anew, and was lost: a person presses again."""
        limit = time.monotonic() + PATIENCE
        while True:
            self.settle()
            try:
                button.click(timeout=again * 1e3)
                return until(done, again)
            except (AssertionError, LookupError, TimeoutError):
                if time.monotonic() > limit:
                    raise
                with suppress(AssertionError, LookupError):
                    return done()

    def download(self, button: Locator) -> tuple[str, bytes]:
        """The name and the bytes of the file behind a button, pressed again where nothing comes.

        Streamlit makes these files when asked, and drops what a button of an earlier run asks for:
        on a busy machine a press soon after a change is lost, and a person presses again.
        """
        before, presses = len(self.files), 0
        limit = time.monotonic() + PATIENCE
        while len(self.files) == before:
            assert time.monotonic() < limit, "no file came"
            self.settle()
            button.click()
            presses += 1
            self._files_come(before + 1)
        coming = self.files[before]
        # A press that was slow and not lost: its file is not the one that the next button makes.
        self._files_come(before + presses)
        return coming.suggested_filename, Path(coming.path()).read_bytes()

    def _files_come(self, count: int) -> None:
        """Wait for that many files in all, or until a press must have been lost."""
        limit = time.monotonic() + AGAIN
        while len(self.files) < count and time.monotonic() < limit:
            self.page.wait_for_timeout(50)

    # ── reading the page ─────────────────────────────────────────────────────────────────────

    def link(self) -> dict[str, str]:
        """The query of the address, asked of the browser: page.url waits for an event."""
        return dict(parse_qsl(self.page.evaluate("location.search").removeprefix("?")))

    def scenario(self) -> Scenario:
        """What the address says."""
        return from_link(self.link())[0]

    def prediction(self) -> Prediction:
        return predict(self.scenario())

    def table(self, head: str, *, heads: bool = False) -> dict[str, list[str]]:
        """The text table with that heading among its columns: first cell → the other cells, as
        they read: with plain blanks and hyphens."""
        cells = self.lines(head, heads=heads)
        return {first: rest for first, *rest in cells}

    def lines(self, head: str, *, heads: bool = False) -> list[list[str]]:
        """The same, every row with all its cells."""
        table = self.page.locator("table:visible").filter(
            has=self.page.get_by_role("columnheader", name=head, exact=True)
        )
        lines = table.first.locator("tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
        )
        plain = str.maketrans({"\u2011": "-", "\u00a0": " ", "\u2060": None})
        cells = [[cell.translate(plain) for cell in line] for line in lines]
        return cells if heads else cells[1:]

    def figures(self) -> list[dict[str, dict[str, list[float]]]]:
        """What each chart holds: trace name → its x and y, as plotly has them."""
        return [dict(figure) for figure in self.page.evaluate(FIGURES)]

    def page_says(self, text: str) -> None:
        """The page, wherever, holds this text, sooner or later."""
        expect(self.page.get_by_test_id("stMain")).to_contain_text(text)

    def has_no_answer(self) -> None:
        """Withdrawn: nothing stands below the inputs."""
        assert self.page.get_by_test_id("stPlotlyChart").count() == 0
        assert self.page.locator("[class*=st-key-answer] [data-testid=stAlert]").count() == 0

    def says(self, text: str) -> None:
        """Some message box holds this text, sooner or later."""

        def check() -> None:
            assert any(text in message for message in self.messages()), (text, self.messages())

        until(check)

    def messages(self) -> list[str]:
        """As they read: what keeps links apart has no width."""
        return [text.replace("\u2060", "") for text in self.page.locator(ANSWER).all_inner_texts()]


@contextmanager
def arriving(context: BrowserContext, address: str) -> Iterator[Visitor]:
    """A new tab, closed and checked at the end; closed only if the test itself has failed."""
    visitor = Visitor(context, address)
    try:
        yield visitor
    except BaseException:
        visitor.page.close()
        raise
    visitor.leave()


def is_said(visitor: Visitor, scenario: Scenario) -> None:
    """The address says this scenario, sooner or later, and the page has come to rest."""
    until(lambda: says_now(visitor, scenario))
    visitor.settle()


def says_now(visitor: Visitor, scenario: Scenario) -> None:
    assert visitor.link() == to_link(scenario)
