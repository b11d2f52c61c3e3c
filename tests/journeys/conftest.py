"""A browser for the session, a server for most tests, and fresh ones for those about links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

pytest.register_assert_rewrite("driver")

from driver import PATIENCE, WIDE, Visitor, app_server, arriving  # noqa: E402

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Processor time: tabs share what is compiled; a visit is too short for compiled code to be
    # optimized; nothing moves that a test does not move.
    "--process-per-site",
    "--js-flags=--no-opt --no-maglev --min-semi-space-size=64 --max-semi-space-size=64",
    "--force-prefers-reduced-motion",
    "--disable-smooth-scrolling",
    "--disable-threaded-animation",
    "--disable-threaded-scrolling",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        reason = f"{CHROMIUM} is not installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE * 1e3
        )


@pytest.fixture(scope="session")
def context(browser: Browser, address: str) -> BrowserContext:
    """One context, so that the program of the page is loaded once; each tab is a new session.

    Tabs of one site share a process (ARGUMENTS), and with it the compiled program: half the
    processor time of a visit. It lasts while a tab is open, so an empty one stays."""
    shared = browser.new_context(viewport=WIDE, color_scheme="light", accept_downloads=True)
    shared.new_page().goto(f"{address}/_stcore/health")
    return shared


@pytest.fixture(scope="session")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server that tests share where a fresh one is not the point."""
    with app_server(tmp_path_factory.mktemp("server") / "log.txt") as shared:
        yield shared


@pytest.fixture
def visitor(context: BrowserContext, address: str) -> Iterator[Visitor]:
    """A new tab at the shared server; at the end nothing may have gone wrong in it."""
    with arriving(context, address) as new:
        yield new


@pytest.fixture
def first_visitor(context: BrowserContext, tmp_path: Path) -> Iterator[Visitor]:
    """The first tab ever at a server that was just started."""
    with app_server(tmp_path / "log.txt") as address, arriving(context, address) as new:
        yield new


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Journeys go last: once started, playwright's event loop runs on in this thread, and a test
    that calls asyncio.run after it would fail; so pytest-xdist must not reorder files (addopts).
    The longest of them first, so that no process waits for it at the end.

    One that fails is made once more, and the summary names it ("RERUN"): on a busy machine a
    browser loses a press now and then. Two failures are a fault of ours."""
    here, longest = Path(__file__).parent, "test_measure_journey"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=int(os.environ.get("SPECMATH_AGAIN", "1"))))
    items.sort(key=lambda item: (here in item.path.parents, item.path.stem != longest))
