"""The report in a browser that has no network: it opens, draws, prints, and gives its charts."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from driver import ROOT, WIDE, until
from playwright.sync_api import Browser, Page

from specmath.plan.decided import PlanAnswer, decided
from specmath.plan.files import from_toml
from specmath.plan.record import plan_of
from specmath.report.document import PRINTED
from specmath.report.plan import report_bytes

pytestmark = pytest.mark.browser

INCH = 25.4
ACROSS, DOWN = (int(mm * 96 / INCH) for mm in PRINTED)
"""Of a sheet within its margins, in the points of a browser."""


@pytest.fixture
def opened(browser: Browser) -> Iterator[Page]:
    """A tab without network, in which nothing goes wrong and from which nothing is asked."""
    context = browser.new_context(viewport=WIDE, offline=True, accept_downloads=True)
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("console", lambda message: troubles.append(message.text))
    page.on("request", lambda request: troubles.append(request.url)
            if not request.url.startswith(("file:", "data:", "blob:")) else None)  # fmt: skip
    yield page
    context.close()
    assert troubles == []


def example() -> PlanAnswer:
    return decided(from_toml((ROOT / "specmath/data/plan_example.toml").read_text("utf-8")))


def show(page: Page, found: PlanAnswer, folder: Path) -> None:
    path = folder / "report.html"
    path.write_bytes(report_bytes(found))
    page.goto(path.as_uri())
    charts = page.locator("figure.chart")

    def drawn() -> None:
        assert charts.count() > 0
        assert page.locator("figure.chart .plot .main-svg .xtick").count() > 0
        assert charts.filter(has=page.locator(".main-svg")).count() == charts.count()

    until(drawn)


def page_one(page: Page) -> float:
    """How high page one is on a sheet; nothing on any sheet is cut at its side."""
    page.emulate_media(media="print")
    page.set_viewport_size({"width": ACROSS, "height": DOWN})
    assert page.evaluate("document.documentElement.scrollWidth") <= ACROSS
    return page.evaluate("document.querySelector('section.first').getBoundingClientRect().height")


def test_a_plan_of_three_endpoints_opens_offline_and_prints(opened: Page, tmp_path: Path) -> None:
    found = example()
    show(opened, found, tmp_path)
    assert opened.locator("figure.chart").count() == 5
    names = [answer.endpoint.name for answer in found.endpoints]
    labels = opened.locator("figure.chart").first.locator(".xtick").all_text_contents()
    assert labels == names
    # The light theme, whatever the reader's is.
    opened.emulate_media(color_scheme="dark")
    white = "getComputedStyle(document.body).backgroundColor"
    assert opened.evaluate(white) == "rgb(255, 255, 255)"
    opened.emulate_media(color_scheme="light")
    assert page_one(opened) <= DOWN
    first = opened.locator("section.first table.plan").first.inner_text()
    for name in (*names, "All endpoints"):
        assert name in first
    assert opened.get_by_role("button").count() == 0
    tallest = opened.locator("figure.chart").evaluate_all(
        "all => Math.max(...all.map(one => one.getBoundingClientRect().height))"
    )
    assert tallest <= DOWN
    sheets = opened.pdf(prefer_css_page_size=True)
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)", sheets)
    assert {(round(float(w) / 72 * INCH), round(float(h) / 72 * INCH)) for w, h in boxes} == {
        (210, 297)
    }
    assert len(boxes) >= 2 + len(names)


def test_eight_endpoints_with_long_names_stand_on_page_one(opened: Page, tmp_path: Path) -> None:
    served = {"gpu": "h100", "model": "Llama-3.1-8B", "draft": "eagle3", "prompt_tokens": 1024,
              "work": "chat", "usd_per_hour": 3.0}  # fmt: skip
    endpoints = [
        served | {"name": f"Assistants of department {i}", "demand_requests_per_second": 3e3 * i}
        for i in range(1, 9)
    ]
    show(opened, decided(plan_of(endpoints, "Eight endpoints")), tmp_path)
    labels = opened.locator("figure.chart").first.locator(".xtick text")
    sides = sorted(labels.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"
    ))  # fmt: skip
    assert len(sides) == 8
    for (_, right), (left, _) in pairwise(sides):
        assert right <= left, "names collide"
    assert page_one(opened) <= DOWN


def test_a_chart_is_saved_as_a_slide(opened: Page, tmp_path: Path) -> None:
    show(opened, example(), tmp_path)
    with opened.expect_download() as coming:
        opened.get_by_role("button", name="PNG").nth(1).click()
    data = Path(coming.value.path()).read_bytes()
    assert coming.value.suggested_filename == "chat-over-rate.png"
    assert data.startswith(b"\x89PNG")
    assert struct.unpack(">II", data[16:24]) == (1600, 900)


def test_the_file_in_the_page_is_saved(opened: Page, tmp_path: Path) -> None:
    found = example()
    show(opened, found, tmp_path)
    opened.get_by_text("The plan (TOML)").click()
    with opened.expect_download() as coming:
        opened.get_by_role("link", name="plan.toml").click()
    assert coming.value.suggested_filename == "plan.toml"
    assert from_toml(Path(coming.value.path()).read_text("utf-8")) == found.plan
