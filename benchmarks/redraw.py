"""Redraw after a move of γ, in Chromium, beside a plain page that draws the same figures.

`python benchmarks/redraw.py [PAGE …]`. Each page with an answer, in the hardware form: milliseconds
from a key on the slider until the last change of a chart and the script's rest, medians of a run.
The plain page is Streamlit's slider and the figures of that page as they were, read from a file.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pages.ui.navigation import PAGES  # noqa: E402
from pages.ui.state import start  # noqa: E402
from specmath.scenario.files import revised, to_link  # noqa: E402

CHROMIUM = Path("/usr/bin/chromium")
MOVES = 14
GAMMAS = (4, 5)
SLIDER = "input[type=range][aria-label='Drafted γ']"
PLAIN = """
import json
import plotly.io
import streamlit as st
st.set_page_config(layout="wide")
gamma = st.slider("Drafted γ", 0, 16, {first})
for text in json.loads(open({path!r}, encoding="utf-8").read())[str(gamma)]:
    st.plotly_chart(plotly.io.from_json(text, skip_invalid=True), width="stretch")
"""
WATCH = """
() => {
    const watched = window.redraw = {};
    document.addEventListener('keydown', () => {
        Object.assign(watched, {begin: performance.now(), drawn: null, rest: null});
    }, true);
    new MutationObserver(changes => {
        const now = performance.now();
        for (const {target, attributeName} of changes) {
            const at = target.nodeType === 1 ? target : target.parentElement;
            if (attributeName === 'data-test-script-state') {
                const rests = at.getAttribute(attributeName) === 'notRunning';
                watched.rest = rests ? now : null;
            } else if (at && at.closest('.js-plotly-plot')) watched.drawn = now;
        }
    }).observe(document.body, {subtree: true, childList: true, attributes: true});
}
"""
SETTLED = """
() => {
    const {begin, drawn, rest} = window.redraw, last = Math.max(drawn, rest);
    const runs = !document.querySelector('[data-test-script-state=notRunning]');
    return drawn && !runs && performance.now() - last > 400 && last - begin;
}
"""
AT_REST = "document.querySelector('[data-test-script-state=notRunning]') !== null"


@contextmanager
def served(script: Path, folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}"]
    server = subprocess.Popen(
        [*command, "--server.headless=true", "--server.fileWatcherType=none"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        while not _answers(f"{address}/_stcore/health"):
            time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=1).close()
    except OSError:
        return False
    return True


def figures_of(stem: str, gamma: int) -> list[str]:
    """The figures of a page at that γ, as JSON."""
    app = AppTest.from_file(ROOT / "app.py", default_timeout=120)
    for name, value in to_link(revised(start(), {"gamma": gamma})).items():
        app.query_params[name] = value
    app.run()
    if stem != "what_if":
        app.switch_page(f"pages/{stem}.py").run()
    return [chart.proto.spec for chart in app.get("plotly_chart")]


def redraw_ms(page: Page, address: str) -> float:
    """Median from a key until the last change in a chart, and the script rests."""
    page.goto(address)
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    page.wait_for_function(AT_REST)
    page.wait_for_timeout(3000)
    page.evaluate(WATCH)
    times = []
    for move in range(MOVES):
        page.locator(SLIDER).focus()
        page.keyboard.press("ArrowLeft" if move % 2 else "ArrowRight")
        times.append(float(page.wait_for_function(SETTLED, polling=100).json_value()))
    return statistics.median(times[2:])


def main() -> None:
    logging.disable(logging.WARNING)  # Streamlit's own about scripts outside a server
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}"
    )
    link = urlencode(to_link(revised(start(), {"gamma": GAMMAS[0]})))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as made:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        with served(ROOT / "app.py", ROOT) as app:
            for stem in sys.argv[1:] or [one.stem for one in PAGES if not one.own_inputs]:
                figures = {gamma: figures_of(stem, gamma) for gamma in GAMMAS}
                if not figures[GAMMAS[0]]:
                    print(f"{stem:8} no chart")
                    continue
                path, script = Path(made) / f"{stem}.json", Path(made) / f"{stem}.py"
                path.write_text(json.dumps(figures), "utf-8")
                script.write_text(PLAIN.format(first=GAMMAS[0], path=str(path)), "utf-8")
                with served(script, Path(made)) as plain:
                    theirs = redraw_ms(page, plain)
                ours = redraw_ms(page, f"{app}/{stem}?{link}")
                print(
                    f"{stem:8} {ours:6.0f} ms, plain page {theirs:6.0f} ms: {ours / theirs:.2f}x",
                    flush=True,
                )


if __name__ == "__main__":
    main()
