"""The browser journeys come last: Playwright leaves an event loop running in its process, and
what calls `asyncio.run` afterwards would be refused."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "journeys" in item.path.parts)
