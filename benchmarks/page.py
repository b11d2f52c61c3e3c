"""How quick a page is: script time against an empty page's, and slider to chart in Chromium.

`python benchmarks/page.py`. The ratios are taken in one run: medians of many script runs in one
process, in Streamlit's own test runner without a browser. The time from a key on the slider to
the redrawn chart is measured in Chromium where it is installed; it depends on the machine, which
is printed with it.
"""

from __future__ import annotations

import os
import platform
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.scriptrunner import script_runner
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[1]
CHROMIUM = Path("/usr/bin/chromium")
RUNS = 30
EMPTY = "import streamlit as st\nst.set_page_config(layout='wide')\nst.header('Empty')\n"
SLIDER = "input[type=range][aria-label='Drafted γ']"


def median_ms(run: Callable[[], object]) -> tuple[float, float]:
    """Median milliseconds of the script alone and of the whole run, after three to warm up.

    The whole run also hands every element to the test runner, which reads each back.
    """
    execute, script, whole = script_runner.exec_func_with_error_handling, [], []

    def timed(*given: Any) -> Any:
        start = time.perf_counter()
        try:
            return execute(*given)
        finally:
            script.append(1e3 * (time.perf_counter() - start))

    script_runner.exec_func_with_error_handling = timed
    try:
        for _ in range(RUNS + 3):
            start = time.perf_counter()
            run()
            whole.append(1e3 * (time.perf_counter() - start))
    finally:
        script_runner.exec_func_with_error_handling = execute
    return statistics.median(script[3:]), statistics.median(whole[3:])


def app_at(stem: str) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    app.run()
    if stem != "what_if":
        app.switch_page(f"pages/{stem}.py")
        app.run()
    return app


def script_times() -> None:
    """Script and whole run of each page, and the ratios to an empty page.

    "Empty" is two things: a bare script of one heading, and the app's own frame (scenario bar,
    sidebar, navigation) around a page of nothing.
    """
    sys.path.insert(0, str(ROOT))
    from pages.ui.navigation import PAGES

    bare = median_ms(AppTest.from_string(EMPTY, default_timeout=60).run)
    app, run_page = app_at("what_if"), StreamlitPage.run
    questions = {page.question for page in PAGES}
    # Streamlit runs app.py itself in this way too: only the page within it is left out.
    StreamlitPage.run = lambda self: None if self.title in questions else run_page(self)
    try:
        frame = median_ms(app.run)
    finally:
        StreamlitPage.run = run_page
    print(f"{'':12} {'script':>8} {'run':>9}   run/bare  run/frame  script/frame")
    rows = {"bare": bare, "frame": frame}
    rows |= {page.stem: median_ms(app_at(page.stem).run) for page in PAGES}
    for name, (script, whole) in rows.items():
        print(
            f"{name:12} {script:5.1f} ms {whole:6.1f} ms   {whole / bare[1]:7.1f}x "
            f"{whole / frame[1]:8.1f}x {script / frame[0]:12.1f}x"
        )


def slider_to_chart() -> None:
    """Milliseconds from a key on the slider until the chart holds the new γ, in Chromium."""
    from playwright.sync_api import sync_playwright

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    server = subprocess.Popen(
        [*command, "--server.headless=true", "--server.fileWatcherType=none"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            while not _answers(f"http://127.0.0.1:{port}/_stcore/health"):
                time.sleep(0.1)
            page.goto(f"http://127.0.0.1:{port}")
            page.locator(".js-plotly-plot .main-svg").first.wait_for()
            page.wait_for_timeout(2000)
            times = []
            for step in range(12):
                gamma = 5 if step % 2 == 0 else 4
                page.locator(SLIDER).focus()
                start = time.perf_counter()
                page.keyboard.press("ArrowRight" if gamma == 5 else "ArrowLeft")
                page.wait_for_function(
                    "name => document.querySelector('.js-plotly-plot')._fullData"
                    ".some(trace => trace.name === name)",
                    arg=f"yours γ={gamma}",
                    polling=5,
                )
                times.append(1e3 * (time.perf_counter() - start))
                page.wait_for_timeout(300)
    finally:
        server.terminate()
        server.wait()
    rest = sorted(times[1:])
    print(
        f"slider to chart: median {statistics.median(rest):.0f} ms, "
        f"{rest[0]:.0f} to {rest[-1]:.0f} ms in {len(rest)} moves"
    )


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}"
    )
    script_times()
    if CHROMIUM.exists():
        slider_to_chart()
    else:
        print(f"slider to chart: not measured, {CHROMIUM} is not installed")
