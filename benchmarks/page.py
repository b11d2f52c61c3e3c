"""How quick a page's script is, against an empty page's: `python benchmarks/page.py`.

The ratios are taken in one run: medians of many script runs in one process, in Streamlit's own test
runner without a browser. `benchmarks/redraw.py` measures a move of the slider in Chromium.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.scriptrunner import script_runner
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[1]
RUNS = 30
EMPTY = "import streamlit as st\nst.set_page_config(layout='wide')\nst.header('Empty')\n"


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


if __name__ == "__main__":
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}"
    )
    script_times()
